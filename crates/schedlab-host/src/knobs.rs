//! Scheduler tunables of every kernel generation: what there is, what is locked and why, setting them,
//! and putting them back in any case.
//!
//! [`Tree`] is where the kernel's files are (a fake one in the tests). [`Tree::list`] tells what this
//! kernel has; [`Tree::resolve`] turns wanted [`Setting`]s into checked [`Changes`], which are made under
//! the guard: changes to the machine are undone by it, attributes of tasks are taken on by the thread
//! that starts the load and are inherited.

mod change;
mod files;
mod profile;
mod scoped;
mod table;
mod unrestored;

pub use change::{Changes, TaskChanges};
pub use files::{write_script, write_tmpfiles};
pub use profile::{Profile, RENAMED, read_profile, write_sysctl, write_tuned};
pub(crate) use scoped::{Held, check, take_on};
pub(crate) use table::{Entry, Home, KNOBS, TaskKnob, find};
pub use table::{Place, Version};
pub(crate) use unrestored::left_set;
pub use unrestored::{UnrestoredSetting, outstanding, read_unrestored, unrestored_file};

use schedlab_model::{Knob, Setting, kernel_version};
use schedlab_sys::process;
use schedlab_workload::knobs::{self, FEATURES, SettingKind};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What root needs to mount a file system.
const CAP_SYS_ADMIN: u32 = 21;

/// Why debugfs is not there, with the remedy that can work here: a container's root may not mount it.
const fn unmounted(has_none: bool, is_root: bool, mounts: bool) -> &'static str {
    match (has_none, is_root, mounts) {
        (true, ..) => "this kernel has no debugfs: set a slice per task",
        (_, true, false) => {
            "debugfs is not mounted, and this container may not mount it: start it with `--cap-add SYS_ADMIN \
             -v /sys/kernel/debug:/sys/kernel/debug`"
        }
        _ => {
            "debugfs is not mounted: as root, run `mount -t debugfs none /sys/kernel/debug` (a kernel that is locked \
             down refuses its files even then: set a slice per task)"
        }
    }
}

/// Why a setting cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum KnobError {
    /// No kernel has such a knob.
    #[error("unknown knob '{name}'{hint}: `schedlab knobs list` shows the knobs of this kernel")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The nearest right one, as a sentence's end.
        hint: String,
    },
    /// This kernel does not have it.
    #[error("Linux {kernel} does not have the knob {name}: {why}")]
    Absent {
        name: String,
        /// The version of the running kernel.
        kernel: String,
        /// What to use instead.
        why: String,
    },
    #[error("knob {name}: {why}")]
    Value {
        name: String,
        /// What is wrong, and what is right.
        why: String,
    },
    /// Another process has set it for as long as it runs.
    #[error("knob {name} is in use by {by}: wait until that ends, or stop it")]
    Held {
        name: String,
        /// The process that uses the knob, in words.
        by: String,
    },
    #[error("knob {name}, {place}: {why}")]
    Refused {
        name: String,
        /// The file or call that holds the knob.
        place: String,
        /// Why, and how to get the right.
        why: String,
    },
}

/// Where the kernel's files are.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
    kernel: String,
    version: Version,
    /// The control group whose child the load gets, and whether it is of version 2.
    group: Option<(PathBuf, bool)>,
}

impl Tree {
    /// This machine's.
    ///
    /// # Errors
    /// When the kernel's version cannot be read.
    pub fn here() -> io::Result<Self> {
        let mut tree = Self::at(Path::new("/"))?;
        tree.group = schedlab_sys::cgroup::here("cpu")
            .map(|h| (h.group(), matches!(h.version, schedlab_sys::cgroup::Version::V2)));
        Ok(tree)
    }

    /// A tree that looks like one, for tests: `proc/sys/kernel`, `sys/kernel/debug`.
    ///
    /// # Errors
    /// When there is no `proc/sys/kernel/osrelease`.
    pub(crate) fn at(root: &Path) -> io::Result<Self> {
        let kernel = fs::read_to_string(root.join("proc/sys/kernel/osrelease"))?.trim().to_owned();
        let version = kernel_version(&kernel).unwrap_or((0, 0));
        Ok(Self { root: root.to_owned(), kernel, version, group: None })
    }

    /// A kernel of a release that is not here: its knobs have places, and no values.
    #[must_use]
    pub fn of_kernel(release: &str) -> Self {
        let version = kernel_version(release).unwrap_or((0, 0));
        Self { root: PathBuf::from("/nowhere"), kernel: release.to_owned(), version, group: None }
    }

    fn path(&self, home: Home) -> Option<PathBuf> {
        match home {
            Home::Sysctl(file) => Some(self.root.join("proc/sys/kernel").join(file)),
            Home::Debugfs(file) => Some(self.root.join("sys/kernel/debug").join(file)),
            Home::Cgroup(..) | Home::Task(_) => None,
        }
    }

    /// The files of a knob: one, or one for each number that stands in place of a `*`.
    fn files(&self, home: Home) -> Vec<PathBuf> {
        let Some(pattern) = self.path(home) else { return Vec::new() };
        if !pattern.as_os_str().to_string_lossy().contains('*') {
            return vec![pattern];
        }
        let mut found = vec![PathBuf::new()];
        for part in pattern.components() {
            let part = part.as_os_str().to_string_lossy();
            let Some(prefix) = part.strip_suffix('*') else {
                found.iter_mut().for_each(|path| path.push(&*part));
                continue;
            };
            found = found.iter().flat_map(|path| numbered(path, prefix)).collect();
        }
        found.retain(|path| path.exists());
        found
    }

    /// Where a knob of this kernel lives: by its version, or where its file is found all the same
    /// (distributions carry features back).
    fn home(&self, entry: &Entry) -> Option<Home> {
        let is_there = |home: &Home| self.files(*home).iter().any(|path| path.exists());
        let found = entry.places.iter().map(|place| place.home).find(is_there);
        found.or_else(|| entry.home(self.version))
    }

    /// Every knob that this kernel has, with its value and, where it is locked, why.
    #[must_use]
    pub fn list(&self) -> Vec<Knob> {
        KNOBS.iter().filter_map(|entry| Some(self.knob(entry, self.home(entry)?))).collect()
    }

    fn knob(&self, entry: &Entry, home: Home) -> Knob {
        let (value, why_not) = match home {
            Home::Task(knob) => {
                let value = change::current(knob);
                let clamps = matches!(knob, TaskKnob::UclampMin | TaskKnob::UclampMax);
                let why = if clamps && value.is_none() { WITHOUT } else { "" };
                (value, why.to_owned())
            }
            Home::Cgroup(file, old) => self.group_value(file, old),
            Home::Sysctl(_) | Home::Debugfs(_) => {
                let pattern = self.path(home).expect("these two have files");
                let files = self.files(home);
                let first = files.first().unwrap_or(&pattern);
                let why = match fs::OpenOptions::new().write(true).open(first) {
                    Ok(_) => String::new(),
                    Err(_) if files.is_empty() && self.hides_domains(home) => HIDDEN.into(),
                    Err(error) => self.why(first, &error),
                };
                (values_of(&files), why)
            }
        };
        let tunable = entry.tunable();
        Knob {
            name: entry.name.into(),
            value,
            unit: tunable.unit.into(),
            min: tunable.range.map(|r| r.0),
            max: tunable.range.map(|r| r.1),
            meaning: tunable.meaning.into(),
            r#where: self.place(home),
            writable: why_not.is_empty(),
            why_not,
        }
    }

    fn group_value(&self, file: &str, old: Option<&str>) -> (Option<String>, String) {
        let Some((group, is_v2)) = &self.group else {
            return (None, schedlab_sys::cgroup::why_no_cpu());
        };
        if !is_v2 && old.is_none() {
            return (None, "only control groups of version 2 have it".into());
        }
        let file = if *is_v2 { file } else { old.unwrap_or(file) };
        let value = fs::read_to_string(group.join(file)).ok().map(|text| text.trim().to_owned());
        let writable = fs::OpenOptions::new().write(true).open(group.join("cgroup.procs"));
        (value, writable.err().map_or(String::new(), |e| self.why(group, &e)))
    }

    fn place(&self, home: Home) -> String {
        match home {
            Home::Task(TaskKnob::Nice) => "setpriority of the load".into(),
            Home::Task(_) => "sched_setattr of the load".into(),
            Home::Cgroup(file, old) => match &self.group {
                Some((_, false)) => format!("{} of the load's group", old.unwrap_or(file)),
                _ => format!("{file} of the load's group"),
            },
            Home::Sysctl(_) | Home::Debugfs(_) => {
                self.path(home).map(|p| p.display().to_string()).unwrap_or_default()
            }
        }
    }

    /// Whether the knob is one of the domains and their files are switched off.
    fn hides_domains(&self, home: Home) -> bool {
        let verbose = fs::read_to_string(self.root.join("sys/kernel/debug/sched/verbose"));
        matches!(home, Home::Debugfs(file) if file.starts_with("sched/domains"))
            && verbose.is_ok_and(|text| matches!(text.trim(), "N" | "0"))
    }

    /// Why a file cannot be written, for the person who must do something about it.
    fn why(&self, path: &Path, error: &io::Error) -> String {
        let debugfs = self.root.join("sys/kernel/debug");
        let lockdown = fs::read_to_string(self.root.join("sys/kernel/security/lockdown"));
        let locked = lockdown.is_ok_and(|text| !text.contains("[none]"));
        match (error.raw_os_error(), path.starts_with(&debugfs)) {
            (Some(libc_eperm), true) if libc_eperm == EPERM || locked => {
                "locked down: this kernel refuses debugfs even to root (Secure Boot or lockdown=); boot \
                 without it, or set a slice per task"
                    .into()
            }
            (Some(ENOENT), true) if !debugfs.join("sched").exists() => {
                let filesystems = fs::read_to_string(self.root.join("proc/filesystems"));
                let has_none = filesystems.is_ok_and(|text| !text.contains("debugfs"));
                let mounts = schedlab_sys::capability::has(CAP_SYS_ADMIN);
                unmounted(has_none, process::is_root(), mounts).to_owned()
            }
            (Some(EACCES | EPERM), _) if !process::is_root() => "needs root".into(),
            (Some(EACCES | EPERM | EROFS), _) => {
                format!("{error}: start the container with `--privileged`, or set it on the machine")
            }
            (Some(ENOENT), _) => WITHOUT.into(),
            _ => error.to_string(),
        }
    }

    /// Checks wanted settings against this kernel: names, values, ranges, rights.
    ///
    /// # Errors
    /// For the first setting that cannot be made.
    pub fn resolve(&self, settings: &[Setting]) -> Result<Changes, KnobError> {
        let mut changes = Changes::default();
        for setting in settings {
            let name = setting.knob.as_str();
            let wrong = |why| KnobError::Value { name: name.to_owned(), why };
            let unknown = |hint| KnobError::Unknown { name: name.to_owned(), hint };
            let asked = SettingKind::read(name).map_err(unknown)?;
            let place = match asked {
                SettingKind::Knob(tunable) => tunable.name,
                SettingKind::Feature(_) => FEATURES,
                SettingKind::Speed => return Err(unknown(String::new())),
            };
            let entry = find(place).expect("each tunable has places");
            let home = self.home(entry).ok_or_else(|| self.absent(entry))?;
            let text = match asked {
                SettingKind::Feature(feature) => knobs::feature(feature, &setting.value),
                _ => knobs::read(entry.tunable(), &setting.value),
            };
            let text = text.map_err(wrong)?;
            self.push(&mut changes, entry, home, text)?;
        }
        changes.put_in_order();
        Ok(changes)
    }

    fn push(
        &self,
        changes: &mut Changes,
        entry: &Entry,
        home: Home,
        value: String,
    ) -> Result<(), KnobError> {
        let knob = self.knob(entry, home);
        if !knob.writable {
            let name = knob.name;
            let place = knob.r#where;
            return Err(KnobError::Refused { name, place, why: knob.why_not });
        }
        match home {
            Home::Task(task) => changes.task.take(entry, task, &value)?,
            Home::Cgroup(file, old) => {
                let (parent, is_v2) = self.group.clone().expect("it is writable, so it is there");
                let file = if is_v2 { file } else { old.unwrap_or(file) };
                changes.in_group(parent, is_v2, file, value);
            }
            Home::Sysctl(_) | Home::Debugfs(_) => {
                // Debugfs of 5.13 to 6.5 does not recompute what hangs on the period; writing the
                // scaling, even to what it is, does.
                let rescale = matches!(home, Home::Debugfs(_))
                    && self.version < (6, 6)
                    && matches!(entry.name, "latency" | "min_granularity");
                let scaling = self.root.join("sys/kernel/debug/sched/tunable_scaling");
                for path in self.files(home) {
                    let scaling = rescale.then(|| scaling.clone());
                    changes.in_file(entry.name, path, value.clone(), scaling);
                }
            }
        }
        Ok(())
    }

    fn absent(&self, entry: &Entry) -> KnobError {
        let why = match entry.name {
            "latency" | "min_granularity" | "wakeup_granularity" | "idle_min_granularity" => {
                "EEVDF (since 6.6) replaced it; see base_slice and slice".into()
            }
            "base_slice" => "it came with EEVDF in 6.6; see min_granularity".into(),
            _ => entry
                .places
                .first()
                .map(|p| format!("it came with {}.{}", p.since.0, p.since.1))
                .unwrap_or_default(),
        };
        KnobError::Absent { name: entry.name.into(), kernel: self.kernel.clone(), why }
    }
}

/// Entries of a folder that are a prefix and a number, in the order of their numbers.
fn numbered(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        Some((name.to_str()?.strip_prefix(prefix)?.parse::<u32>().ok()?, entry.path()))
    };
    let mut found: Vec<(u32, PathBuf)> =
        fs::read_dir(folder).into_iter().flatten().flatten().filter_map(number).collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

/// What the files of a knob say: one value, or all that differ.
fn values_of(files: &[PathBuf]) -> Option<String> {
    let mut values: Vec<String> = Vec::new();
    for text in files.iter().filter_map(|path| fs::read_to_string(path).ok()) {
        let value = text.trim().to_owned();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    (!values.is_empty()).then(|| values.join(" "))
}

const HIDDEN: &str =
    "the files of the domains are switched off: run `schedlab knobs set verbose=1` first";
const WITHOUT: &str = "this kernel was built without this knob";
// From the kernel's uapi: the numbers are the same on every architecture that schedlab runs on.
const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EROFS: i32 = 30;

#[cfg(test)]
mod tests;
