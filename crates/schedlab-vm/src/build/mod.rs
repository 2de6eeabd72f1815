//! Building a small kernel from Debian's `linux-source` or from a tree of the user's.
//!
//! It is made in a folder of the cache that is renamed when it is complete; only the image and its
//! configuration stay. The same source, configuration and compiler give the same image: time, user,
//! host and version string are fixed, and the source's path is taken out.

mod config;

pub use config::Choice;

use crate::VmError;
use crate::kernel::cache::{self, Making};
use crate::kernel::run;
use schedlab_model::{Nanos, Pid};
use schedlab_sys::{clock, process, signal};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A kernel to build.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// `linux-source-6.12`, or the path of a tree.
    pub source: String,
    /// Its configuration.
    pub choice: Choice,
    /// A patch to apply first.
    pub patch: Option<PathBuf>,
    /// Its name in the cache; by default made of source and configuration.
    pub name: Option<String>,
    /// When the build is given up.
    pub limit: Nanos,
}

/// Programs that a build runs, with their packages.
const TOOLS: [(&str, &str); 7] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
    ("patch", "patch"),
];

/// Builds it, unless it is in the cache. Returns the kernel's name and whether it was built now.
///
/// # Errors
/// When a tool, the source or space is missing, the configuration can't be had, or the compiler fails.
pub fn build(wanted: &Wanted) -> Result<(String, bool), VmError> {
    let setting = |(key, value, why): (&str, String, String)| VmError::Setting {
        key: key.to_owned(),
        value,
        why,
    };
    wanted.choice.check().map_err(setting)?;
    let tree = Path::new(&wanted.source);
    let is_tree = tree.join("Kconfig").is_file();
    let source = tree.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let default =
        || format!("{}-{}", source.trim_start_matches("linux-source-"), wanted.choice.word());
    let name = wanted.name.clone().unwrap_or_else(default);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(fits) {
        return Err(setting(("name", name, "use letters, digits, -, _ and .".to_owned())));
    }
    // A tree of the user's may have changed, and so may a patch.
    if !is_tree && wanted.patch.is_none() && cache::built(&name).is_file() {
        return Ok((name, false));
    }
    check_tools()?;
    let making = Making::begin(&name)?;
    let (made, objects) = (making.path().join("made"), making.path().join("objects"));
    for folder in [&made, &objects] {
        std::fs::create_dir(folder).map_err(VmError::io(format!("making {}", folder.display())))?;
    }
    let tree = if is_tree { tree.to_owned() } else { fetch(&wanted.source, making.path())? };
    let tree = std::fs::canonicalize(&tree).map_err(VmError::io(wanted.source.clone()))?;
    if let Some(patch) = &wanted.patch {
        if is_tree {
            let why = "apply it to your tree yourself".to_owned();
            return Err(setting(("patch", patch.display().to_string(), why)));
        }
        let mut command = Command::new("patch");
        let input = format!("--input={}", absolute(patch)?.display());
        run(command.args(["-p1", "--batch", &input]).current_dir(&tree), "applying the patch")?;
    }
    let until = clock::monotonic() + wanted.limit;
    configure(&tree, &objects, &wanted.choice, until)?;
    make(&tree, &objects, &["vmlinux"], until)?;
    for (from, to) in [("vmlinux", "vmlinux"), (".config", "config")] {
        std::fs::rename(objects.join(from), made.join(to))
            .map_err(VmError::io(format!("keeping the kernel's {to}")))?;
    }
    making.finish_anew(&made)?;
    Ok((name, true))
}

fn absolute(path: &Path) -> Result<PathBuf, VmError> {
    std::fs::canonicalize(path).map_err(VmError::io(format!("finding {}", path.display())))
}

fn check_tools() -> Result<(), VmError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let missing: Vec<&(&str, &str)> = TOOLS.iter().filter(|(name, _)| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err(VmError::Missing {
        what: names.join(", "),
        remedy: format!("a kernel is built with it; apt-get install {}", packages.join(" ")),
    })
}

/// Debian's source, unpacked in `at`.
fn fetch(package: &str, at: &Path) -> Result<PathBuf, VmError> {
    if !package.starts_with("linux-source-") {
        return Err(VmError::Missing {
            what: format!("the source {package}"),
            remedy: "name a tree with a Kconfig, or a package such as linux-source-6.12".to_owned(),
        });
    }
    let doing = format!("fetching {package}");
    run(Command::new("apt-get").args(["-q", "download", package]).current_dir(at), &doing)?;
    let Some(archive) = cache::files(at, |name| name.ends_with(".deb")).pop() else {
        let remedy = "apt-get fetched nothing; run apt-get update".to_owned();
        return Err(VmError::Missing { what: package.to_owned(), remedy });
    };
    let unpacked = at.join("package");
    run(Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked), "unpacking the source")?;
    let sources = cache::files(&unpacked.join("usr/src"), |name| name.contains(".tar."));
    let Some(tar) = sources.first() else {
        let remedy = "the package holds no source".to_owned();
        return Err(VmError::Missing { what: package.to_owned(), remedy });
    };
    run(Command::new("tar").arg("-xf").arg(tar).current_dir(at), "unpacking the source")?;
    Ok(at.join(package))
}

/// Makes the configuration, and checks that the kernel took it.
fn configure(tree: &Path, objects: &Path, choice: &Choice, until: Nanos) -> Result<(), VmError> {
    let wanted = choice.lines();
    let all = objects.join("wanted.config");
    std::fs::write(&all, wanted.join("\n") + "\n")
        .map_err(VmError::io(format!("writing {}", all.display())))?;
    let all = format!("KCONFIG_ALLCONFIG={}", all.display());
    make(tree, objects, &[&all, "allnoconfig"], until)?;
    let taken = std::fs::read_to_string(objects.join(".config"))
        .map_err(VmError::io("reading the configuration"))?;
    let is_taken = |line: &&String| match line.strip_suffix("=n") {
        Some(name) => !taken.lines().any(|l| l.starts_with(&format!("{name}="))),
        None => taken.lines().any(|l| l == line.as_str()),
    };
    // What this version does not know matters only where it was asked for.
    let hz = format!("CONFIG_HZ={}", choice.hz);
    let mut asked = choice.set.iter().chain([&hz]);
    match asked.find(|line| !is_taken(line)) {
        None => Ok(()),
        Some(line) => Err(VmError::Setting {
            key: "set".to_owned(),
            value: line.clone(),
            why: "this kernel does not take it: it has no such symbol, or needs another one"
                .to_owned(),
        }),
    }
}

/// How much of what a build says is kept.
const KEPT: usize = 1 << 16;

/// Runs make until it ends; Ctrl-C and the limit end it with all that it started.
fn make(tree: &Path, objects: &Path, what: &[&str], until: Nanos) -> Result<(), VmError> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let signals = signal::catch().map_err(VmError::io("catching signals"))?;
    let mut command = Command::new("nice");
    command.args(["make", &format!("-j{cpus}"), "-C"]).arg(tree);
    command.arg(format!("O={}", objects.display())).args(what);
    for fixed in [
        "KBUILD_BUILD_TIMESTAMP=2024-01-01",
        "KBUILD_BUILD_USER=schedlab",
        "KBUILD_BUILD_HOST=vm",
        "KBUILD_BUILD_VERSION=1",
        "LOCALVERSION=",
    ] {
        command.arg(fixed);
    }
    // Both go into one pipe of ours: if we die, whatever make started ends at its next line.
    let (mut said, pipe) = std::io::pipe().map_err(VmError::io("making a pipe"))?;
    let other = pipe.try_clone().map_err(VmError::io("making a pipe"))?;
    command.stdin(Stdio::null()).stdout(pipe).stderr(other);
    process::die_with_parent(&mut command);
    process::own_session(&mut command);
    let child = command.spawn().map_err(VmError::io("starting make"))?;
    let mut child = Group(child);
    drop(command);
    let mut text: Vec<u8> = Vec::new();
    loop {
        if signals.caught().is_some() {
            return Err(VmError::Interrupted);
        }
        if clock::monotonic() > until {
            let what = "the build did not end in time: raise --time-limit".to_owned();
            return Err(VmError::Guest { what, console: Vec::new() });
        }
        let ready = process::poll(&[said.as_fd(), signals.fd()], Some(Nanos::from_millis(500)))
            .map_err(VmError::io("waiting for make"))?;
        if ready[0] {
            let mut buffer = [0; 4096];
            match said.read(&mut buffer).map_err(VmError::io("reading from make"))? {
                0 => break,
                read => text.extend_from_slice(&buffer[..read]),
            }
            if text.len() > 2 * KEPT {
                text.drain(..KEPT);
            }
        }
    }
    let status = child.0.wait().map_err(VmError::io("awaiting make"))?;
    if status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&text);
    let wrong = text.lines().find(|line| line.contains("error") || line.contains("No space left"));
    let wrong = wrong.or_else(|| text.lines().last()).unwrap_or("it said nothing");
    Err(VmError::io("building the kernel")(std::io::Error::other(wrong.trim().to_owned())))
}

/// A process with all that it started. Dropping it kills them.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(Some(_))) {
            let _ = process::kill(Pid(-self.0.id().cast_signed()), 9);
            let _ = self.0.wait();
        }
    }
}
