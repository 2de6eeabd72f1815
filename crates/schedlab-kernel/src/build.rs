//! From a source tree to an image: the kernel's own build compiles the scheduler against the overlay.
//!
//! The tree is never written to. A farm of links beside the objects stands for it, with the overlay as one more
//! architecture. Objects stay, so the next build compiles what changed.

use crate::linking::{self, link_image, stand_ins};
use crate::overlay;
use schedlab_model::Nanos;
use schedlab_sim::OfCode;
use schedlab_sys::clock;
use schedlab_vm::build::{SourceTree, find_tools, make_in};
use schedlab_vm::cache::{self, Making};
use schedlab_vm::program::run;
use schedlab_vm::{Checkout, VmError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs that a build runs, with their packages.
const TOOLS: [(&str, &str); 8] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("xz", "xz-utils"),
];

/// A file of each folder that a build needs.
const NEEDED: [&str; 12] = [
    "arch/Kconfig",
    "block/Kconfig",
    "crypto/Kconfig",
    "drivers/Kconfig",
    "fs/Kconfig",
    "include/linux/sched.h",
    "kernel/sched/core.c",
    "lib/Kconfig",
    "mm/Kconfig",
    "scripts/Makefile.build",
    "security/Kconfig",
    "sound/Kconfig",
];
/// Units of the kernel that the image has; those that a tree does not have are left out. A folder stands for what the
/// tree's own makefile makes of it.
const UNITS: [&str; 28] = [
    "init/init_task",
    "kernel/sched/",
    "kernel/time/hrtimer",
    "kernel/time/timer",
    "kernel/time/clockevents",
    "kernel/time/tick-common",
    "kernel/time/tick-oneshot",
    "kernel/time/tick-sched",
    "kernel/time/jiffies",
    "kernel/time/sleep_timeout",
    "kernel/time/time",
    "kernel/time/timeconv",
    "kernel/time/timer_migration",
    "kernel/softirq",
    "kernel/smp",
    "kernel/cpu",
    "kernel/stop_machine",
    "kernel/task_work",
    "kernel/irq_work",
    "kernel/tracepoint",
    "kernel/kthread",
    "kernel/smpboot",
    "kernel/locking/mutex",
    "kernel/locking/rwsem",
    "kernel/locking/spinlock",
    "kernel/locking/rtmutex_api",
    "kernel/locking/percpu-rwsem",
    "kernel/locking/semaphore",
];
/// Functions of the kernel that the overlay's `__wrap_` functions stand before.
const WRAPPED: [&str; 1] = ["dl_server_update_idle_time"];
/// Units that schedulers of one's own need besides.
const UNITS_OF_EXT: [&str; 1] = ["kernel/bpf/cpumask"];
/// Units that frequencies need.
const UNITS_OF_SCHEDUTIL: [&str; 1] = ["drivers/cpufreq/cpufreq_governor_attr_set"];
const GLUE: [&str; 6] = ["machine", "tasks", "knobs", "services", "scx", "frequency"];

/// The name of the architecture.
const ARCH: &str = "schedlab";
const IMAGE: &str = "image";
const ABOUT: &str = "about.json";

/// What is to be built.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// A tree, `TREE@REVISION`, or a package such as `linux-source-6.12`.
    pub source: String,
    /// A file of symbols of a configuration.
    pub config: Option<PathBuf>,
    /// Further symbols, as `CONFIG_X=y`; they win over the file.
    pub set: Vec<String>,
    /// The name of the image; by default made of source and configuration.
    pub name: Option<String>,
    /// When the build is given up.
    pub limit: Nanos,
}

/// An image in the cache, and what it was made of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Built {
    /// The image's name, for `sim:kernel=NAME`.
    pub name: String,
    /// The tree or package.
    pub source: String,
    /// The symbols that were asked for.
    pub(crate) asked: String,
    /// What the kernel is.
    pub code: OfCode,
    /// The overlay that it was built with, as a hash.
    #[serde(default)]
    overlay: String,
    /// Where the image is.
    #[serde(skip)]
    pub image: PathBuf,
    /// Whether it was built now.
    #[serde(skip)]
    pub new: bool,
}

impl Built {
    /// The image of a name, or of a tree that was built as it is by default.
    ///
    /// # Errors
    /// When nothing was built by this name, or the tree has changed since.
    pub fn find(name: &str) -> Result<Self, VmError> {
        let missing = |remedy: String| VmError::Missing {
            what: format!("an image of the scheduler of '{name}'"),
            remedy,
        };
        let tree = fs::canonicalize(name).ok().filter(|tree| tree.join("Kconfig").is_file());
        let source = tree.as_ref().map(|tree| tree.display().to_string());
        let all = Self::all();
        let fits = |one: &&Self| match &source {
            Some(source) => one.source == *source && one.asked.is_empty(),
            None => one.name == name,
        };
        let Some(found) = all.iter().find(fits).cloned() else {
            let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
            let known = if names.is_empty() {
                String::new()
            } else {
                format!("; built are {}", names.join(", "))
            };
            return Err(missing(format!("run `schedlab sim build {name}`{known}")));
        };
        if let Some(changed) = tree.and_then(|tree| changed_since(&tree, &found.image)) {
            let what = changed.display();
            return Err(missing(format!("{what} has changed: run `schedlab sim build {name}`")));
        }
        if found.overlay != overlay_hash() {
            let what = "it was built by another version of schedlab";
            return Err(missing(format!("{what}: run `schedlab sim build {}`", found.source)));
        }
        Ok(found)
    }

    /// All images in the cache.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let folders = cache::files(&cache::images_folder(), |name| !name.starts_with('.'));
        let read = |folder: PathBuf| {
            cache::check(&folder).ok()?;
            let text = fs::read_to_string(folder.join(ABOUT)).ok()?;
            let about: Self = serde_json::from_str(&text).ok()?;
            Some(Self { image: folder.join(IMAGE), ..about })
        };
        folders.into_iter().filter_map(read).collect()
    }
}

/// A file of the tree that is newer than the image and that the image is made of.
fn changed_since(tree: &Path, image: &Path) -> Option<PathBuf> {
    let time = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let built = time(image)?;
    let folders = [
        "kernel/sched",
        "kernel/time",
        "kernel/locking",
        "kernel",
        "include/linux/sched",
        "include/linux",
    ];
    let sources = folders.iter().flat_map(|folder| {
        cache::files(&tree.join(folder), |name| name.ends_with(".c") || name.ends_with(".h"))
    });
    let mut sources = sources.filter(|path| path.is_file());
    sources.find(|path| time(path).is_some_and(|time| time > built))
}

fn io_error(doing: &str) -> impl Fn(io::Error) -> VmError {
    let doing = doing.to_owned();
    move |error| VmError::Io { doing: doing.clone(), error }
}

fn wrong(key: &str, value: &str, why: &str) -> VmError {
    VmError::Setting { key: key.to_owned(), value: value.to_owned(), why: why.to_owned() }
}

/// Builds the image of a tree's scheduler, unless it is in the cache.
///
/// # Errors
/// When a tool, the source or space is missing, or the tree does not build.
pub fn build(wanted: &Wanted) -> Result<Built, VmError> {
    find_tools(TOOLS.iter(), "building a kernel's scheduler needs it")?;
    let until = clock::monotonic() + wanted.limit;
    let asked = requested_symbols(wanted)?;
    let (tree, revision) = match wanted.source.rsplit_once('@') {
        Some((tree, revision)) if !Path::new(&wanted.source).exists() => (tree, Some(revision)),
        _ => (wanted.source.as_str(), None),
    };
    let is_tree = Path::new(tree).join("Kconfig").is_file();
    let source = match (fs::canonicalize(tree), revision) {
        (Ok(path), None) if is_tree => path.display().to_string(),
        _ => wanted.source.clone(),
    };
    let name = match &wanted.name {
        Some(name) => name.clone(),
        None => default_name(tree, revision, &asked),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || !name.chars().all(fits) {
        return Err(wrong("name", &name, "use letters, digits, -, _ and ."));
    }
    let overlay = overlay_hash();
    // A package does not change; the overlay may.
    let is_kept = |one: &Built| {
        one.name == name && one.source == source && one.asked == asked && one.overlay == overlay
    };
    if !is_tree && let Some(kept) = Built::all().into_iter().find(|one| is_kept(one)) {
        return Ok(kept);
    }
    let checkout = match revision {
        Some(revision) => {
            let checkout = Checkout::of(Path::new(tree))?;
            checkout.check_out(&checkout.commit(Path::new(tree), revision)?)?;
            Some(checkout)
        }
        None => None,
    };
    let own = checkout.as_ref().map(Checkout::path);
    let own = own.or_else(|| is_tree.then(|| PathBuf::from(tree)));
    let workshop = SourceTree::enter(tree, own.as_deref(), until)?;
    let folder = workshop.folder().join(format!("sim-{}", hash(&asked)));
    let place = Place {
        tree: workshop.tree().to_owned(),
        farm: folder.join("farm"),
        objects: folder.join("objects"),
    };
    place.lay_out()?;
    place.configure(&asked, &wanted.set, until)?;
    place.compile(until)?;
    let making = Making::begin(&cache::images_folder(), &name)?;
    let made = making.path().join("made");
    fs::create_dir(&made).map_err(io_error("keeping the image"))?;
    place.link(&made)?;
    let code = place.about()?;
    let built = Built { name, source, asked, code, overlay, image: PathBuf::new(), new: true };
    let text = serde_json::to_vec_pretty(&built).expect("it is plain values");
    // Plain: in the private folder of what is being made.
    fs::write(made.join(ABOUT), text).map_err(io_error("keeping the image"))?;
    let kept = making.finish_anew(&made)?;
    Ok(Built { image: kept.join(IMAGE), ..built })
}

/// The symbols that the user asks for, one a line. Those of `--set` come last and win over those of the file.
fn requested_symbols(wanted: &Wanted) -> Result<String, VmError> {
    let mut text = String::new();
    if let Some(file) = &wanted.config {
        let doing = format!("reading {}", file.display());
        text = schedlab_sys::regular_file::text(file).map_err(io_error(&doing))?;
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    for one in &wanted.set {
        let form = one.strip_prefix("CONFIG_").and_then(|rest| rest.split_once('='));
        if form
            .is_none_or(|(name, value)| name.is_empty() || value.is_empty() || one.contains('\n'))
        {
            return Err(wrong("set", one, "use the form CONFIG_X=y"));
        }
        let _ = writeln!(text, "{one}");
    }
    Ok(text)
}

fn default_name(tree: &str, revision: Option<&str>, asked: &str) -> String {
    let path = fs::canonicalize(tree).unwrap_or_else(|_| PathBuf::from(tree));
    let tree = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut name = tree;
    for part in
        revision.map(str::to_owned).into_iter().chain((!asked.is_empty()).then(|| hash(asked)))
    {
        let _ = write!(name, "-{part}");
    }
    name.replace(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')), "-")
}

/// What this version of schedlab adds to a kernel.
fn overlay_hash() -> String {
    let texts = overlay::FILES.iter().map(|(_, text)| *text);
    hash(&texts.chain([overlay::LAYOUT, overlay::DATA, overlay::NOTHING]).collect::<String>())
}

fn hash(text: &str) -> String {
    let mut digest = Sha256::new();
    digest.update(text.as_bytes());
    digest.finalize().iter().take(4).fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    })
}

/// Where an image is made.
struct Place {
    tree: PathBuf,
    farm: PathBuf,
    objects: PathBuf,
}

impl Place {
    /// Lays out the farm: links to the tree, and the overlay.
    fn lay_out(&self) -> Result<(), VmError> {
        let lacks = NEEDED.iter().filter(|path| !self.tree.join(path).is_file());
        let lacks: Vec<&str> = lacks.copied().collect();
        if !lacks.is_empty() {
            return Err(VmError::Missing {
                what: format!("{} of {}", lacks.join(", "), self.tree.display()),
                remedy: "name a whole source tree".to_owned(),
            });
        }
        let doing = io_error("linking the source tree");
        let _ = fs::remove_dir_all(&self.farm);
        fs::create_dir_all(self.farm.join("arch")).map_err(&doing)?;
        fs::create_dir_all(&self.objects).map_err(&doing)?;
        // A tree that was built in itself: its objects would be taken for ours.
        let used = ["include/config", ".config", "kernel/sched/core.o"];
        let is_used = used.iter().any(|path| self.tree.join(path).exists());
        for path in cache::files(&self.tree, |_| true) {
            let name = path.file_name().unwrap_or_default().to_owned();
            let to = self.farm.join(&name);
            match name.to_str() {
                Some("arch" | ".git" | ".config" | ".config.old") => {}
                Some("kernel" | "lib" | "init" | "scripts" | "include") if is_used => {
                    mirror(&path, &to).map_err(&doing)?;
                }
                _ => symlink(&path, &to).map_err(&doing)?,
            }
        }
        for path in cache::files(&self.tree.join("arch"), |_| true) {
            let name = path.file_name().unwrap_or_default().to_owned();
            symlink(&path, self.farm.join("arch").join(name)).map_err(&doing)?;
        }
        // The overlay lies beside the farm, where it keeps its times while it does not change.
        let own = self.farm.with_file_name("overlay");
        for (path, text) in overlay::FILES {
            let path = own.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&own)).map_err(&doing)?;
            write_changed(&path, text).map_err(&doing)?;
        }
        symlink(&own, self.farm.join("arch").join(ARCH)).map_err(&doing)
    }

    fn make(&self, words: &[&str], until: Nanos) -> Result<(), VmError> {
        let objects = format!("O={}", self.objects.display());
        let arch = format!("ARCH={ARCH}");
        let all = [&[arch.as_str(), objects.as_str()], words].concat();
        make_in(&self.farm, &all, until)
    }

    /// Makes the configuration, if it is another one than that of the last build.
    fn configure(&self, asked: &str, set: &[String], until: Nanos) -> Result<(), VmError> {
        let base = overlay::FILES.iter().find(|(path, _)| *path == "configs/schedlab_defconfig");
        let text = format!("{}{asked}", base.map_or("", |(_, text)| text));
        let file = self.farm.with_file_name("overlay").join("configs/wanted_defconfig");
        let config = self.objects.join(".config");
        let same = fs::read_to_string(&file).is_ok_and(|before| before == text);
        if same && config.is_file() {
            return Ok(());
        }
        let _ = fs::remove_file(&file);
        // Plain: in the private folder of the build.
        fs::write(&file, &text).map_err(io_error("writing the configuration"))?;
        self.make(&["wanted_defconfig"], until)?;
        let taken = fs::read_to_string(&config).map_err(io_error("reading the configuration"))?;
        let is_taken = |line: &str| match line.strip_suffix("=n") {
            Some(name) => !taken.lines().any(|one| one.starts_with(&format!("{name}="))),
            None => taken.lines().any(|one| one == line),
        };
        // What a file asks for beyond this architecture is left out; what was asked for by name is not.
        match set.iter().find(|line| !is_taken(line)) {
            None => Ok(()),
            Some(line) => {
                let _ = fs::remove_file(&file);
                Err(wrong(
                    "set",
                    line,
                    "this kernel refuses it: the symbol does not exist, or needs another one",
                ))
            }
        }
    }

    fn units(&self) -> Vec<String> {
        let config = fs::read_to_string(self.objects.join(".config")).unwrap_or_default();
        let code = of_config(&config);
        let of_ext = UNITS_OF_EXT.iter().filter(|_| code.has("sched_ext"));
        let of_schedutil = UNITS_OF_SCHEDUTIL.iter().filter(|_| code.has("schedutil"));
        let has = |unit: &&&str| self.tree.join(format!("{unit}.c")).is_file();
        let units = UNITS
            .iter()
            .chain(of_ext)
            .chain(of_schedutil)
            .filter(|unit| unit.ends_with('/') || has(unit));
        let units = units.map(|unit| match unit.ends_with('/') {
            true => (*unit).to_owned(),
            false => format!("{unit}.o"),
        });
        let glue = GLUE.iter().map(|unit| format!("arch/{ARCH}/kernel/{unit}.o"));
        glue.chain(units).collect()
    }

    fn compile(&self, until: Nanos) -> Result<(), VmError> {
        self.make(&["prepare"], until)?;
        let units = self.units();
        let words: Vec<&str> = units.iter().map(String::as_str).chain(["lib/"]).collect();
        self.make(&words, until)
    }

    /// Links the image: what the units lack comes from the kernel's library, or is stood in for. What a scheduler
    /// needs to be linked to it stays beside it.
    fn link(&self, made: &Path) -> Result<(), VmError> {
        let folder = self.farm.with_file_name("link");
        fs::create_dir_all(&folder).map_err(io_error("linking the image"))?;
        let [library, stubs, layout] =
            ["library.a", "stubs.S", "image.lds"].map(|name| folder.join(name));
        let whole = made.join(linking::WHOLE);
        let _ = fs::remove_file(&library);
        let of =
            |folder: &str| cache::files(&self.objects.join(folder), |name| name.ends_with(".o"));
        let mut archive = Command::new("ar");
        archive.arg("rcs").arg(&library).args(of("lib")).args(of("lib/math"));
        run(&mut archive, "collecting the kernel's library")?;
        let mut link = Command::new("ld");
        let of_folder = |unit: &String| match unit.ends_with('/') {
            true => format!("{unit}built-in.a"),
            false => unit.clone(),
        };
        let units: Vec<String> = self.units().iter().map(of_folder).collect();
        link.current_dir(&self.objects).args(["-r", "--whole-archive"]);
        link.args(WRAPPED.map(|name| format!("--wrap={name}"))).arg("-o").arg(&whole).args(&units);
        link.arg("--no-whole-archive").arg(&library);
        run(&mut link, "linking the kernel's units")?;
        let mut ask = Command::new("nm");
        let missing = run(ask.arg("-u").arg(&whole), "looking for what the image lacks")?;
        let missing = missing.lines().filter_map(|line| line.split_whitespace().last());
        let missing: BTreeSet<&str> = missing.collect();
        let mut ask = Command::new("readelf");
        ask.current_dir(&self.objects).env("LC_ALL", "C").arg("-rW").args(&units);
        let uses = run(&mut ask, "looking for what the image lacks")?;
        if let Some(why) = linking::unknown_memory(&uses, &missing) {
            return Err(io_error("linking the image")(io::Error::other(why)));
        }
        let keep = |path: &Path, text: &str| {
            // Plain: in private folders of the build.
            fs::write(path, text).map_err(io_error("linking the image"))
        };
        keep(&stubs, &stand_ins(missing.iter().copied()))?;
        keep(&layout, &linking::layout(&missing))?;
        link_image(&[&whole], &stubs, &layout, &made.join(IMAGE))?;
        if let Ok(source) = fs::read_to_string(self.tree.join("kernel/sched/ext.c")) {
            keep(&made.join(linking::TYPES), &linking::types(&source))?;
            keep(&made.join(linking::WORDS), &self.words()?)?;
        }
        Ok(())
    }

    /// The compiler's folder, then its words for a unit of this kernel that is a sched_ext scheduler, one a line.
    fn words(&self) -> Result<String, VmError> {
        let doing = io_error("reading how a unit was compiled");
        let file = self.objects.join(format!("arch/{ARCH}/kernel/.scx.o.cmd"));
        let text = fs::read_to_string(file).map_err(doing)?;
        let line = text.lines().find_map(|line| line.split_once(":= gcc "));
        let line = line.map_or("", |(_, words)| words.split(" -c ").next().unwrap_or_default());
        let words =
            line.split_whitespace().filter(|word| !word.starts_with("-W") && !word.contains('\''));
        let own = [
            format!("{}/arch/{ARCH}/scx", self.farm.display()),
            format!("{}/tools/sched_ext/include", self.farm.display()),
        ];
        let own = own.iter().map(|folder| format!("-I{folder}"));
        // Glue takes no time; a scheduler is code of the kernel.
        let last = ["-DKBUILD_MODNAME=\"scx\"", "-fsanitize-coverage=trace-pc"];
        let words = words.map(str::to_owned).chain(own).chain(last.map(str::to_owned));
        Ok(words.fold(format!("{}\n", self.objects.display()), |all, word| all + &word + "\n"))
    }

    /// What the configuration and the tree say of the kernel.
    fn about(&self) -> Result<OfCode, VmError> {
        let doing = io_error("reading what was built");
        let release = self.objects.join("include/config/kernel.release");
        let release = fs::read_to_string(release).map_err(&doing)?.trim().to_owned();
        let config = fs::read_to_string(self.objects.join(".config")).map_err(&doing)?;
        Ok(OfCode { release, ..of_config(&config) })
    }
}

/// What of a configuration decides.
fn of_config(config: &str) -> OfCode {
    let has = |symbol: &str| config.lines().any(|line| line == format!("CONFIG_{symbol}=y"));
    let number = |key: &str| config.lines().find_map(|line| line.strip_prefix(key)?.parse().ok());
    let preempt =
        [("PREEMPT_LAZY", "lazy"), ("PREEMPT", "full"), ("PREEMPT_VOLUNTARY", "voluntary")];
    let preempt = preempt.iter().find(|(symbol, _)| has(symbol)).map_or("none", |(_, word)| word);
    let options = [
        ("NUMA", "NUMA"),
        ("FAIR_GROUP_SCHED", "groups"),
        ("CFS_BANDWIDTH", "quotas"),
        ("SCHED_CORE", "core scheduling"),
        ("UCLAMP_TASK", "utilisation clamps"),
        ("PSI", "PSI"),
        ("SCHED_AUTOGROUP", "autogroup"),
        ("SCHED_CLASS_EXT", "sched_ext"),
    ];
    // None of them by default.
    let asked = [
        ("IRQ_TIME_ACCOUNTING", "interrupt time accounting"),
        ("PARAVIRT_TIME_ACCOUNTING", "steal time accounting"),
        ("CPU_FREQ_GOV_SCHEDUTIL", "schedutil"),
    ];
    let options: Vec<String> = options
        .iter()
        .map(|(symbol, word)| format!("{} {word}", if has(symbol) { "with" } else { "without" }))
        .chain(
            asked.iter().filter(|(symbol, _)| has(symbol)).map(|(_, word)| format!("with {word}")),
        )
        .collect();
    OfCode {
        cpus: number("CONFIG_NR_CPUS=").and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(0),
        hz: number("CONFIG_HZ=").unwrap_or(250),
        preempt: preempt.to_owned(),
        options: format!(", {}", options.join(", ")),
        ..OfCode::default()
    }
}

/// Writes a file if it does not hold this text.
fn write_changed(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    // Plain: in the private folder of the build.
    fs::write(path, text)
}

/// A folder of links to the files of another one, without what builds leave there.
fn mirror(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for path in cache::files(from, |_| true) {
        let name = path.file_name().unwrap_or_default();
        let word = name.to_string_lossy();
        let built = [".o", ".a", ".cmd", ".mod", ".order"].iter().any(|end| word.ends_with(end));
        let generated = from.ends_with("include") && matches!(&*word, "config" | "generated");
        if built || generated {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            mirror(&path, &to.join(name))?;
        } else {
            symlink(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_say_tree_revision_and_configuration() {
        assert_eq!(default_name("/x/linux", None, ""), "linux");
        assert_eq!(default_name("/x/linux", Some("v6.12~3"), ""), "linux-v6.12-3");
        let other = default_name("linux-source-6.12", None, "CONFIG_HZ_1000=y\n");
        assert!(other.starts_with("linux-source-6.12-") && other.len() == 26, "{other}");
    }

    #[test]
    fn a_tree_that_lacks_folders_is_refused_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        for path in NEEDED.iter().filter(|path| !path.starts_with("drivers")) {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let [farm, objects] = ["farm", "objects"].map(|name| folder.path().join(name));
        let place = Place { tree, farm, objects };
        let why = place.lay_out().unwrap_err().to_string();
        assert!(why.starts_with("drivers/Kconfig of /"), "{why}");
        fs::create_dir(place.tree.join("drivers")).unwrap();
        fs::write(place.tree.join("drivers/Kconfig"), "").unwrap();
        place.lay_out().unwrap();
    }

    #[test]
    fn a_configuration_says_what_decides() {
        let code =
            of_config("CONFIG_HZ=1000\nCONFIG_NR_CPUS=64\nCONFIG_PREEMPT=y\nCONFIG_NUMA=y\n");
        assert_eq!((code.hz, code.cpus, code.preempt.as_str()), (1_000, 64, "full"));
        assert!(code.options.contains("with NUMA, without groups"), "{}", code.options);
    }
}
