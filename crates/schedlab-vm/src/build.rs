//! Building a small kernel from Debian's `linux-source` or from a tree of the user's.
//!
//! The image and its configuration go into a folder of the cache that gets its name when it is
//! complete. Source and objects stay in a folder of their own, so the next build compiles only what changed.
//! The same source, configuration and compiler give the same image: time, user, host and version
//! string are fixed, and no debugging information holds a path.

mod config;
mod make;
mod schedulers;
mod source_tree;

pub use config::{Choice, PLACEBO_MAX};
pub use make::make_in;
pub use source_tree::SourceTree;

use crate::VmError;
use crate::cache::{self, Making};
use crate::program::run;
use crate::scheduler;
use make::make;
use schedlab_model::Nanos;
use schedlab_sys::clock;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel to build.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// `linux-source-6.12`, or the path of a tree.
    pub source: String,
    /// The configuration of the kernel.
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

/// What a build did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The kernel's name, for `vm:kernel=NAME`.
    pub name: String,
    /// Whether it was built now; else it was in the cache.
    pub new: bool,
}

/// Builds the wanted kernel, unless it is in the cache.
///
/// # Errors
/// When a tool, the source or space is missing, the configuration cannot be had, or the compiler fails.
pub fn build(wanted: &Wanted) -> Result<Built, VmError> {
    wanted.choice.check().map_err(|(key, value, why)| setting(key, value, why))?;
    let tree = Path::new(&wanted.source);
    let is_tree = tree.join("Kconfig").is_file();
    let name = name(wanted, tree)?;
    // A tree of the user's may have changed, and so may a patch.
    let is_kept = || !is_tree && wanted.patch.is_none() && cache::built(&name).is_file();
    if is_kept() {
        return Ok(Built { name, new: false });
    }
    if let Some(patch) = wanted.patch.as_ref().filter(|_| is_tree) {
        let why = "apply it to your tree yourself".to_owned();
        return Err(setting("patch", patch.display().to_string(), why));
    }
    check_tools(wanted.choice.ext)?;
    let until = clock::monotonic() + wanted.limit;
    let mut workshop = SourceTree::enter(&wanted.source, is_tree.then_some(tree), until)?;
    // Another build of the same kernel may have ended while we waited.
    if is_kept() {
        return Ok(Built { name, new: false });
    }
    let making = Making::begin(&cache::kernels_folder(), &name)?;
    let made = making.path().join("made");
    std::fs::create_dir(&made).map_err(VmError::io(format!("making {}", made.display())))?;
    if let Some(patch) = &wanted.patch {
        workshop.apply(patch)?;
    }
    configure(&workshop, &wanted.choice, until)?;
    make(&workshop, &["vmlinux"], &wanted.choice.flags(), until)?;
    if wanted.choice.ext {
        schedulers::build(&workshop, &made.join(scheduler::FOLDER), until)?;
    }
    keep(&workshop, &wanted.choice, &made)?;
    making.finish_anew(&made)?;
    Ok(Built { name, new: true })
}

/// Puts the image and its configuration into a folder.
fn keep(workshop: &SourceTree, choice: &Choice, made: &Path) -> Result<(), VmError> {
    let doing = |what: &str| format!("keeping the kernel's {what}");
    for (from, to) in [("vmlinux", "vmlinux"), (".config", "config")] {
        // Plain: a new folder, renamed when it is whole.
        std::fs::copy(workshop.objects().join(from), made.join(to))
            .map_err(VmError::io(doing(to)))?;
    }
    if choice.ext {
        // What the types were made of is most of the image, and no guest needs it.
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg(made.join("vmlinux"));
        run(&mut strip, &doing("image without debugging information"))?;
    }
    Ok(())
}

fn setting(key: &str, value: String, why: String) -> VmError {
    VmError::Setting { key: key.to_owned(), value, why }
}

/// The kernel's name in the cache.
fn name(wanted: &Wanted, tree: &Path) -> Result<String, VmError> {
    let source = tree.file_name().unwrap_or_default().to_string_lossy();
    let version = source.trim_start_matches("linux-source-");
    let default = || format!("{version}-{}", wanted.choice.word());
    let name = wanted.name.clone().unwrap_or_else(default);
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(fits) {
        return Err(setting("name", name, "use letters, digits, -, _ and .".to_owned()));
    }
    Ok(name)
}

fn check_tools(ext: bool) -> Result<(), VmError> {
    let needed = TOOLS.iter().chain(schedulers::NEEDED.iter().filter(|_| ext));
    find_tools(needed, "building a kernel needs it")
}

/// Looks for programs, each with the package that has it.
///
/// # Errors
/// Names those that are missing, with the packages.
pub fn find_tools<'t>(
    needed: impl Iterator<Item = &'t (&'t str, &'t str)>,
    why: &str,
) -> Result<(), VmError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there =
        |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let missing: Vec<&(&str, &str)> = needed.filter(|(name, _)| !is_there(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err(VmError::Missing {
        what: names.join(", "),
        remedy: format!("{why}: apt-get install {}", packages.join(" ")),
    })
}

/// Makes the configuration, and checks that the kernel took it.
fn configure(workshop: &SourceTree, choice: &Choice, until: Nanos) -> Result<(), VmError> {
    let wanted = choice.lines();
    let objects = workshop.objects();
    let all = objects.join("wanted.config");
    // Plain: the folder of the build, which only this user can write to.
    std::fs::write(&all, wanted.join("\n") + "\n")
        .map_err(VmError::io(format!("writing {}", all.display())))?;
    let all = format!("KCONFIG_ALLCONFIG={}", all.display());
    make(workshop, &[&all, "allnoconfig"], &[], until)?;
    let taken = std::fs::read_to_string(objects.join(".config"))
        .map_err(VmError::io("reading the configuration"))?;
    let is_taken = |line: &&String| match line.strip_suffix("=n") {
        Some(name) => !taken.lines().any(|l| l.starts_with(&format!("{name}="))),
        None => taken.lines().any(|l| l == line.as_str()),
    };
    // What this version does not know matters only where it was asked for.
    let hz = format!("CONFIG_HZ={}", choice.hz);
    let ext: Vec<String> = choice.ext().map(str::to_owned).collect();
    let mut asked = choice.set.iter().chain([&hz]).chain(&ext);
    match asked.find(|line| !is_taken(line)) {
        None => Ok(()),
        Some(line) => Err(VmError::Setting {
            key: "set".to_owned(),
            value: line.clone(),
            why: "this kernel refuses it: the symbol does not exist, or needs another one"
                .to_owned(),
        }),
    }
}
