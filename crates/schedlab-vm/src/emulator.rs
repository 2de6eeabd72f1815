//! QEMU as Debian has it, for who has an older one: fetched and unpacked into the cache, never installed.

use crate::VmError;
use crate::apt::{self, Apt, BACKPORTS};
use crate::cache::{self, Making};
use crate::program::run;
use crate::qemu::{self, SEVERAL_CPUS};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The name of Debian's QEMU in `vm:qemu=debian`, and of its folder in the cache.
pub(crate) const NAME: &str = "debian";
/// The first of these packages holds the program, the others what it loads into a machine.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-data", "seabios"];
/// The program in its package.
const PROGRAM: &str = "usr/bin/qemu-system-x86_64";

/// A QEMU in the cache.
#[derive(Clone, Debug)]
pub struct Emulator {
    /// The first line of `qemu --version`.
    pub version: String,
    /// The path of the QEMU program.
    pub program: PathBuf,
}

/// Debian's QEMU that boots several CPUs with the clock of instructions, fetched if it is not in the cache.
///
/// # Errors
/// When no suite has it, there is no package manager, no network or no space, or it does not start here.
pub fn fetch() -> Result<Emulator, VmError> {
    let folder = cache::emulators_folder();
    let kept = folder.join(NAME).join(PROGRAM);
    if !kept.is_file() {
        let making = Making::begin(&folder, NAME)?;
        let unpacked = unpack(making.path())?;
        starts(&unpacked.join(PROGRAM))?;
        making.finish(&unpacked)?;
    }
    cache::check(&kept)?;
    let version = qemu::version(&kept.to_string_lossy())?;
    Ok(Emulator { version, program: kept })
}

/// The program that a setting names.
pub(crate) fn program(name: &str) -> Result<String, VmError> {
    if name == NAME { Ok(fetch()?.program.display().to_string()) } else { Ok(name.to_owned()) }
}

/// Fetches and unpacks its packages in a folder; where they are then.
fn unpack(scratch: &Path) -> Result<PathBuf, VmError> {
    let what = format!("QEMU {SEVERAL_CPUS} or later");
    let (apt, packages) = apt::search(&what, backports().as_deref(), scratch, &packages)?;
    apt.download(&packages, scratch)?;
    let archives = cache::files(scratch, |name| name.ends_with(".deb"));
    if archives.len() != PACKAGES.len() {
        let remedy = format!("apt-get fetched {} of {} packages", archives.len(), PACKAGES.len());
        return Err(VmError::Missing { what, remedy });
    }
    let unpacked = scratch.join("unpacked");
    for archive in archives {
        run(Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked), "unpacking QEMU")?;
    }
    Ok(unpacked)
}

/// The packages with their versions, if they are new enough.
fn packages(apt: &Apt) -> Result<Option<Vec<String>>, VmError> {
    let mut all = Vec::new();
    for package in PACKAGES {
        let Some(version) = apt.newest(package)? else { return Ok(None) };
        // An epoch comes first: 1:10.0.2+ds-2.
        let upstream = version.split_once(':').map_or(version.as_str(), |(_, rest)| rest);
        let is_old = qemu::major(upstream).is_none_or(|major| major < SEVERAL_CPUS);
        if package == PACKAGES[0] && is_old {
            return Ok(None);
        }
        all.push(format!("{package}={version}"));
    }
    Ok(Some(all))
}

/// The suite with newer packages for this release of Debian.
fn backports() -> Option<String> {
    let text = std::fs::read_to_string("/etc/os-release").ok()?;
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim_matches('"').to_owned())
    };
    let codename =
        value("VERSION_CODENAME").filter(|_| value("ID").as_deref() == Some("debian"))?;
    Some(format!("{codename}{BACKPORTS}"))
}

/// Its packages do not bring the libraries that it loads.
fn starts(program: &Path) -> Result<(), VmError> {
    let tried = run(Command::new(program).arg("--version"), "starting QEMU");
    tried.map(|_| ()).map_err(|error| VmError::Missing {
        what: "a library of QEMU".to_owned(),
        remedy: format!(
            "apt-get install qemu-system-x86 brings it, also in an older version: {error}"
        ),
    })
}
