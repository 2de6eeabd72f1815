//! Debian's kernels, by the package manager: fetched and unpacked into the cache, never installed.
//!
//! The system's own package lists are asked first. A version that they don't have is looked for in the
//! suite that has it, by lists in a folder of our own: the system's configuration stays as it is.

use super::cache::{self, Making};
use crate::VmError;
use schedlab_model::Pid;
use schedlab_sys::{memory, process, signal};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Versions that are known to be in a suite of Debian, with the suite's name.
pub const NAMES: [(&str, &str); 3] =
    [("5.10", "bullseye"), ("6.1", "bookworm"), ("6.12", "trixie")];

/// The image of `debian-VERSION`, fetched if it is not in the cache.
///
/// # Errors
/// When no suite has it, or there is no package manager, no network or no space.
pub(crate) fn fetch(version: &str) -> Result<PathBuf, VmError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    if version.is_empty()
        || !version.starts_with(|c: char| c.is_ascii_digit())
        || !version.chars().all(fits)
    {
        return Err(missing(version, "that is no version: write debian-6.1"));
    }
    let name = format!("debian-{version}");
    if let Some(image) = image(&cache::folder().join(&name)) {
        return Ok(image);
    }
    let making = Making::begin(&name)?;
    let at = making.path();
    let (apt, package) = find(version, at)?;
    apt.download(&package, at)?;
    let Some(archive) = cache::files(at, |name| name.ends_with(".deb")).pop() else {
        return Err(missing(version, "apt-get fetched nothing"));
    };
    let unpacked = at.join("unpacked");
    run(Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked), "unpacking the kernel")?;
    let folder = making.finish(&unpacked.join("boot"))?;
    image(&folder).ok_or_else(|| missing(version, "its package holds no kernel"))
}

fn image(folder: &Path) -> Option<PathBuf> {
    cache::files(folder, |name| name.starts_with("vmlinuz")).pop()
}

fn missing(version: &str, remedy: &str) -> VmError {
    VmError::Missing { what: format!("kernel debian-{version}"), remedy: remedy.to_owned() }
}

/// A package manager with lists that hold the package, and the package.
fn find(version: &str, scratch: &Path) -> Result<(Apt, String), VmError> {
    let what = format!("kernel debian-{version}");
    search(&what, version, scratch, &|apt| apt.newest(version))
}

/// Fetches the package `linux-source-VERSION` into a folder.
///
/// # Errors
/// When no suite has it, or there is no package manager, no network or no space.
pub(crate) fn download_source(package: &str, into: &Path) -> Result<(), VmError> {
    let version = package.trim_start_matches("linux-source-");
    let (apt, package) = search(package, version, into, &|apt| apt.exact(package))?;
    apt.download(&package, into)
}

/// A package manager whose lists hold what `find` finds, and that package: the system's own, or one
/// with the lists of the suite that has this version.
fn search(
    what: &str,
    version: &str,
    scratch: &Path,
    find: &dyn Fn(&Apt) -> Result<Option<String>, VmError>,
) -> Result<(Apt, String), VmError> {
    let missing = |remedy: String| VmError::Missing { what: what.to_owned(), remedy };
    let system = Apt(Vec::new());
    if let Some(package) = find(&system)? {
        return Ok((system, package));
    }
    let known = NAMES
        .iter()
        .find(|(known, _)| version == *known || version.starts_with(&format!("{known}.")));
    let Some((_, suite)) = known else {
        let remedy = "no package list of this system has it; run apt-get update, or configure a \
                      suite that has it";
        return Err(missing(remedy.to_owned()));
    };
    let apt = Apt::of_suite(suite, scratch)?;
    match find(&apt)? {
        Some(package) => Ok((apt, package)),
        None => Err(missing(format!("the suite {suite} does not have it, or can't be reached"))),
    }
}

/// A package manager: with the system's configuration, or with options that put others in its place.
struct Apt(Vec<String>);

impl Apt {
    /// One with the lists of `suite`, from where the system has its own.
    fn of_suite(suite: &str, scratch: &Path) -> Result<Self, VmError> {
        let places = run(
            Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI) $(LABEL)"]),
            "asking apt-get for its sources",
        )?;
        let mut lines: Vec<String> = Vec::new();
        for place in places.lines() {
            let line = match place.split_once(' ') {
                Some((uri, "Debian")) => format!("deb {uri} {suite} main"),
                Some((uri, "Debian-Security")) => format!("deb {uri} {suite}-security main"),
                _ => continue,
            };
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        let doing = || format!("making package lists in {}", scratch.display());
        let list = scratch.join("sources.list");
        std::fs::write(&list, lines.join("\n") + "\n").map_err(VmError::io(doing()))?;
        for folder in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(scratch.join(folder)).map_err(VmError::io(doing()))?;
        }
        let option = |name: &str, value: String| format!("{name}={value}");
        let apt = Self(vec![
            option("Dir::Etc::sourcelist", list.display().to_string()),
            option("Dir::Etc::sourceparts", "-".to_owned()),
            option("Dir::State::lists", scratch.join("lists").display().to_string()),
            option("Dir::Cache", scratch.display().to_string()),
            // An old suite is no longer signed anew, which does not make it false.
            option("Acquire::Check-Valid-Until", "false".to_owned()),
            option("APT::Sandbox::User", "root".to_owned()),
        ]);
        run(apt.command("apt-get").args(["-q", "update"]), "fetching package lists")?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.0.iter().flat_map(|option| ["-o", option]));
        command
    }

    /// The newest package of a kernel for virtual machines of this version.
    fn newest(&self, version: &str) -> Result<Option<String>, VmError> {
        let pattern = format!("^linux-image-{}[.-].*cloud-amd64$", version.replace('.', "[.]"));
        let found = run(
            self.command("apt-cache").args(["search", "--names-only", &pattern]),
            "looking for a kernel's package",
        )?;
        let names = found.lines().filter_map(|line| line.split_whitespace().next());
        // The others are named after a version of the ABI; this one follows the newest.
        let is_kernel = |name: &&str| !name.starts_with(&format!("linux-image-{version}-cloud"));
        Ok(names.filter(is_kernel).max_by_key(|name| numbers(name)).map(str::to_owned))
    }

    /// The package of this name.
    fn exact(&self, package: &str) -> Result<Option<String>, VmError> {
        let pattern = format!("^{}$", package.replace('.', "[.]"));
        let found = run(
            self.command("apt-cache").args(["search", "--names-only", &pattern]),
            "looking for a kernel's source",
        )?;
        Ok(found.split_whitespace().next().map(str::to_owned))
    }

    fn download(&self, package: &str, into: &Path) -> Result<(), VmError> {
        let mut command = self.command("apt-get");
        command.args(["-q", "download", package]).current_dir(into);
        run(&mut command, &format!("fetching {package}")).map(|_| ())
    }
}

/// The numbers in a name, which order versions.
fn numbers(name: &str) -> Vec<u64> {
    let digits = name.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|number| number.parse().ok()).collect()
}

/// Runs a program that ends with us, and with what it started when a signal stops us; what it printed. An
/// error has the last that it said.
pub(crate) fn run(command: &mut Command, doing: &str) -> Result<String, VmError> {
    let io = || VmError::io(doing.to_owned());
    let signals = signal::catch().map_err(io())?;
    let (mut said, mut wrong) =
        (memory::file("stdout").map_err(io())?, memory::file("stderr").map_err(io())?);
    command.stdin(Stdio::null()).stdout(said.try_clone().map_err(io())?);
    command.stderr(wrong.try_clone().map_err(io())?);
    process::die_with_parent(command);
    process::own_session(command);
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => VmError::Missing {
            what: program.clone(),
            remedy: format!("{doing} needs it; or give a kernel by its path"),
        },
        _ => VmError::io(format!("starting {program}"))(error),
    })?;
    let ended = process::ended(&child).map_err(io())?;
    while !process::poll(&[ended.as_fd(), signals.fd()], None).map_err(io())?[0] {
        if signals.caught().is_some() {
            let _ = process::kill(Pid(-child.id().cast_signed()), 9);
            let _ = child.wait();
            return Err(VmError::Interrupted);
        }
    }
    if child.wait().map_err(io())?.success() {
        return whole(&mut said).map_err(io());
    }
    let said = whole(&mut wrong).map_err(io())?;
    let mut wrong = said.lines().filter(|line| line.starts_with("E:") || line.contains("rror"));
    let last = wrong.next_back().or_else(|| said.lines().last()).unwrap_or("it said nothing");
    Err(io()(io::Error::other(format!("{program}: {last}"))))
}

/// The text of a file, from its beginning.
fn whole(file: &mut File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let names = ["linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-10-cloud-amd64"];
        assert_eq!(names.into_iter().max_by_key(|name| numbers(name)), Some(names[1]));
    }

    #[test]
    fn a_name_that_is_no_version_is_refused_before_anything_is_fetched() {
        for name in ["", "../x", "six", "6.1;true"] {
            let error = fetch(name).unwrap_err().to_string();
            assert!(error.contains("no version"), "{error}");
        }
    }
}
