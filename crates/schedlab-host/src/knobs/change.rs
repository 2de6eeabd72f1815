//! Making changes under the guard.

use super::{Entry, KnobError, TaskKnob};
use crate::load_environment::hand_on_cpu;
use crate::slow::CAP_SYS_NICE;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_sys::guard::{self, Guard, Undo};
use schedlab_sys::lock::{Lock, LockError};
use schedlab_sys::sched::{self, Attributes, Policy};
use schedlab_sys::{capability, kernel_file};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Checked settings, not made yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    files: Vec<FileChange>,
    /// What each file said after it was written.
    became: Vec<String>,
    group: Option<GroupChange>,
    /// The policy, nice value and slice that the thread that starts the load sets for itself; the load inherits them.
    pub task: TaskChanges,
}

#[derive(Clone, Debug, PartialEq)]
struct FileChange {
    knob: &'static str,
    path: PathBuf,
    value: String,
    /// Written again with its own value afterwards, so that the kernel recomputes what hangs on it.
    rescale: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq)]
struct GroupChange {
    parent: PathBuf,
    is_v2: bool,
    files: Vec<(String, String)>,
}

/// Attributes that a task takes on before it starts the load, whose tasks inherit them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskChanges {
    slice: Option<Nanos>,
    nice: Option<i32>,
    policy: Option<Policy>,
    clamp_min: Option<u32>,
    clamp_max: Option<u32>,
    /// The control group that the load moves into.
    group: Option<PathBuf>,
}

impl Changes {
    pub(super) fn in_file(
        &mut self,
        knob: &'static str,
        path: PathBuf,
        value: String,
        rescale: Option<PathBuf>,
    ) {
        self.files.push(FileChange { knob, path, value, rescale });
    }

    pub(super) fn in_group(&mut self, parent: PathBuf, is_v2: bool, file: &str, value: String) {
        let group = self.group.get_or_insert(GroupChange { parent, is_v2, files: Vec::new() });
        group.files.push((file.to_owned(), value));
    }

    /// Puts writes that refuse each other into an order in which both are taken, there and, in reverse, back:
    /// a runtime goes before its period where the present period has room for it, else after. In a control
    /// group the quota goes before the burst that it bounds, and the weight before `idle`, under which the kernel
    /// refuses one.
    pub(super) fn put_in_order(&mut self) {
        for (runtime, period) in
            [("rt_runtime", "rt_period"), ("fair_server_runtime", "fair_server_period")]
        {
            let number = |text: &str| text.trim().parse::<i64>().ok();
            let wanted = self.files.iter().find(|f| f.knob == runtime);
            let wanted = wanted.and_then(|f| number(&f.value));
            let periods = self.files.iter().filter(|f| f.knob == period);
            let least = periods.filter_map(|f| number(&fs::read_to_string(&f.path).ok()?)).min();
            let (Some(wanted), Some(least)) = (wanted, least) else { continue };
            let first = if wanted <= least { runtime } else { period };
            // A stable sort: all else stays where the user put it.
            self.files.sort_by_key(|f| (f.knob == runtime || f.knob == period) && f.knob != first);
        }
        const GROUP: [&str; 4] = ["cpu.max", "cpu.cfs_quota_us", "cpu.weight", "cpu.shares"];
        if let Some(group) = &mut self.group {
            group.files.sort_by_key(|(file, _)| match file.as_str() {
                "cpu.idle" => 2,
                file if GROUP.contains(&file) => 0,
                _ => 1,
            });
        }
    }

    /// Whether the load gets a control group of its own.
    #[must_use]
    pub fn has_group(&self) -> bool {
        self.group.is_some()
    }

    #[cfg(test)]
    pub(super) fn group_files(&self) -> &[(String, String)] {
        self.group.as_ref().map(|group| group.files.as_slice()).unwrap_or_default()
    }

    /// Whether something of the whole machine is to be changed, for which a guard is needed.
    #[must_use]
    pub(crate) fn needs_guard(&self) -> bool {
        !self.files.is_empty() || self.group.is_some()
    }

    /// Takes the lock of each knob of the machine that is to be changed. Two processes that changed one knob at the same
    /// time would measure and restore each other's value.
    ///
    /// # Errors
    /// When another process holds one, or a lock cannot be made.
    pub fn lock(&self) -> Result<Vec<Lock>, KnobError> {
        if self.files.is_empty() {
            return Ok(Vec::new());
        }
        let refused = |place: &Path, error: &io::Error| KnobError::Refused {
            name: self.files[0].knob.into(),
            place: place.display().to_string(),
            why: error.to_string(),
        };
        let folder = guard::directory().map_err(|e| refused(Path::new("its lock"), &e))?;
        self.lock_in(&folder).map_err(|(name, error)| match error {
            LockError::Held { by, .. } => KnobError::Held { name, by },
            LockError::Io { path, error } => refused(&path, &error),
        })
    }

    /// Takes the locks and arms a guard that holds them until everything is put back.
    ///
    /// # Errors
    /// When another process holds one of the knobs, or there can be no guard.
    pub fn arm(&self) -> Result<Guard, KnobError> {
        let locks = self.lock()?;
        let program = schedlab_sys::process::this_program();
        let guard = program.and_then(|p| Guard::arm_keeping(&guard::directory()?, &p, locks));
        guard.map_err(|e| KnobError::Refused {
            name: "journal".into(),
            place: "the guard".into(),
            why: e.to_string(),
        })
    }

    /// As [`Changes::lock`], with the locks in a folder; an error comes with the knob's name.
    pub(super) fn lock_in(&self, folder: &Path) -> Result<Vec<Lock>, (String, LockError)> {
        let names: BTreeSet<String> = self.files.iter().map(FileChange::name).collect();
        let take = |name: String| {
            let file = folder.join(format!("knob-{}.lock", name.replace(':', "-")));
            Lock::take(&file).map_err(|error| (name, error))
        };
        names.into_iter().map(take).collect()
    }

    /// Knobs that somebody else changed after [`Changes::make`], as warnings.
    #[must_use]
    pub fn changed(&self) -> Vec<Warning> {
        let now = |file: &FileChange| current_value(&file.path, &file.value).ok();
        let both = self.files.iter().zip(&self.became).map(|(file, was)| (file, was, now(file)));
        let apart =
            both.filter_map(|(file, was, now)| Some((file, was, now.filter(|n| n != was)?)));
        apart.map(|(file, was, now)| changed_meanwhile(&file.name(), was, &now)).collect()
    }

    /// How to undo the changes of the machine, in the order in which they are made; undo in reverse.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn undo(&self) -> Result<Vec<Undo>, KnobError> {
        let mut steps = Vec::new();
        for change in &self.files {
            if let Some(scaling) = &change.rescale {
                // First on the list, so last to be undone: after the value it follows from.
                let content = current_value(scaling, "").map_err(|e| change.refused(&e))?;
                steps.push(Undo::Write { path: scaling.clone(), content });
            }
            let content =
                current_value(&change.path, &change.value).map_err(|e| change.refused(&e))?;
            steps.push(Undo::Write { path: change.path.clone(), content });
        }
        Ok(steps)
    }

    /// Makes the changes of the machine, each noted in the guard before it is made, and read back.
    /// Returns what the kernel made of it otherwise than asked.
    ///
    /// # Errors
    /// When the kernel refuses one; the guard undoes those that were made.
    pub fn make(&mut self, guard: &mut Guard) -> Result<Vec<Warning>, KnobError> {
        for step in self.undo()? {
            guard.before(step).map_err(|e| KnobError::Refused {
                name: "journal".into(),
                place: "the guard".into(),
                why: e.to_string(),
            })?;
        }
        let warnings = self.write()?;
        let became = |file: &FileChange| {
            current_value(&file.path, &file.value).map_err(|error| file.refused(&error))
        };
        self.became = self.files.iter().map(became).collect::<Result<_, _>>()?;
        if let Some(group) = &self.group {
            self.task.group = Some(group.make(guard)?);
        }
        Ok(warnings)
    }

    /// Writes the files of the machine. Without a guard: the caller keeps [`Changes::undo`].
    ///
    /// # Errors
    /// When the kernel refuses one.
    pub fn write(&self) -> Result<Vec<Warning>, KnobError> {
        let mut warnings = Vec::new();
        for change in &self.files {
            kernel_file::write(&change.path, &change.value).map_err(|e| change.refused(&e))?;
            if let Some(scaling) = &change.rescale {
                let same = fs::read_to_string(scaling).map_err(|e| change.refused(&e))?;
                kernel_file::write(scaling, same.trim()).map_err(|e| change.refused(&e))?;
            }
            let now = current_value(&change.path, &change.value).map_err(|e| change.refused(&e))?;
            if now != change.value {
                let what =
                    format!("knob {} was set to {}, but is {now}", change.knob, change.value);
                warnings.push(Warning::new(
                    "knob-adjusted",
                    what,
                    "the kernel rounds or clamps; use its value",
                ));
            }
        }
        Ok(warnings)
    }
}

/// The warning about a knob that had one value when a run began and another when it ended.
pub(crate) fn changed_meanwhile(knob: &str, was: &str, now: &str) -> Warning {
    let what =
        format!("knob {knob} changed from {was} to {now} during the run: another program set it");
    Warning::new("knob-changed", what, "find out who sets it, and repeat the run")
}

impl FileChange {
    /// The knob's name; a feature is a knob of its own.
    fn name(&self) -> String {
        match self.knob {
            "features" => {
                let bare = self.value.strip_prefix("NO_").unwrap_or(&self.value);
                format!("feature:{bare}")
            }
            knob => knob.to_owned(),
        }
    }

    fn refused(&self, error: &io::Error) -> KnobError {
        let why = match error.kind() {
            io::ErrorKind::InvalidInput => format!("the kernel refuses {}", self.value),
            _ => error.to_string(),
        };
        KnobError::Refused { name: self.knob.into(), place: self.path.display().to_string(), why }
    }
}

impl GroupChange {
    /// A group of the load's own below ours; removed by the guard.
    fn make(&self, guard: &mut Guard) -> Result<PathBuf, KnobError> {
        let path = self.parent.join(format!("schedlab-{}", std::process::id()));
        let refused = |error: io::Error| KnobError::Refused {
            name: "cgroup".into(),
            place: path.display().to_string(),
            why: match self.is_v2 {
                true => {
                    format!("{error}; does {} hand the cpu controller on?", self.parent.display())
                }
                false => error.to_string(),
            },
        };
        guard.before(Undo::RemoveDir { path: path.clone() }).map_err(refused)?;
        fs::create_dir_all(&path).map_err(refused)?;
        if self.is_v2 {
            hand_on_cpu(&self.parent, guard).map_err(refused)?;
        }
        for (file, value) in &self.files {
            // Plain: a group that was just made, in which the kernel puts the files.
            fs::write(path.join(file), value).map_err(refused)?;
        }
        Ok(path)
    }
}

/// What a file says now, in the words in which it would be written: of a list of switches, the one
/// that `written` names; of a choice, the one in parentheses.
fn current_value(path: &Path, written: &str) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let text = text.trim();
    if path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("features")) {
        let bare = written.strip_prefix("NO_").unwrap_or(written);
        let is = |word: &&str| word.strip_prefix("NO_").unwrap_or(word) == bare;
        let found = text.split_whitespace().find(is);
        let none =
            || io::Error::new(io::ErrorKind::InvalidInput, format!("unknown feature {bare}"));
        return found.map(str::to_owned).ok_or_else(none);
    }
    let chosen = text.split_whitespace().find_map(|w| w.strip_prefix('(')?.strip_suffix(')'));
    Ok(chosen.unwrap_or(text).to_owned())
}

/// The value of a task's knob for the calling thread.
pub(super) fn current(knob: TaskKnob) -> Option<String> {
    let now = sched::get(Pid(0)).ok()?;
    match (knob, now.policy) {
        (TaskKnob::Slice, _) => Some(now.slice.0.to_string()),
        (
            TaskKnob::Nice,
            Policy::Normal { nice } | Policy::Batch { nice } | Policy::Ext { nice },
        ) => Some(nice.to_string()),
        (TaskKnob::Nice, _) => None,
        (TaskKnob::Policy, Policy::Normal { .. }) => Some("normal".into()),
        (TaskKnob::Policy, Policy::Batch { .. }) => Some("batch".into()),
        (TaskKnob::Policy, Policy::Idle) => Some("idle".into()),
        (TaskKnob::Policy, Policy::Fifo { priority }) => Some(format!("fifo:{priority}")),
        (TaskKnob::Policy, Policy::RoundRobin { priority }) => Some(format!("rr:{priority}")),
        (TaskKnob::Policy, Policy::Deadline { .. }) => Some("deadline".into()),
        (TaskKnob::Policy, Policy::Ext { .. }) => Some("ext".into()),
        (TaskKnob::UclampMin, _) => now.clamp.map(|(min, _)| min.to_string()),
        (TaskKnob::UclampMax, _) => now.clamp.map(|(_, max)| max.to_string()),
    }
}

impl TaskChanges {
    pub(super) fn take(
        &mut self,
        entry: &Entry,
        knob: TaskKnob,
        value: &str,
    ) -> Result<(), KnobError> {
        let wrong = || KnobError::Value {
            name: entry.name.into(),
            why: format!("invalid value '{value}': use {}", entry.tunable().meaning),
        };
        match knob {
            TaskKnob::Slice => self.slice = Some(Nanos(value.parse().map_err(|_| wrong())?)),
            TaskKnob::Nice => self.nice = Some(value.parse().map_err(|_| wrong())?),
            TaskKnob::UclampMin => self.clamp_min = Some(value.parse().map_err(|_| wrong())?),
            TaskKnob::UclampMax => self.clamp_max = Some(value.parse().map_err(|_| wrong())?),
            TaskKnob::Policy => self.policy = Some(policy(value).ok_or_else(wrong)?),
        }
        Ok(())
    }

    /// Whether there is nothing to take on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The control group that the load's process must be moved into (write its pid to
    /// `cgroup.procs`), after [`Changes::make`].
    #[must_use]
    pub fn group(&self) -> Option<&Path> {
        self.group.as_deref()
    }

    /// Takes the attributes on in the calling thread: what it starts from now on inherits them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take_on(&self) -> Result<(), KnobError> {
        let refused = |name: &str, error: &io::Error| KnobError::Refused {
            name: name.into(),
            place: "sched_setattr".into(),
            why: match error.raw_os_error() {
                Some(1 | 13) if capability::has(CAP_SYS_NICE) => {
                    "needs a control group with real-time runtime".into()
                }
                Some(1 | 13) => format!("needs CAP_SYS_NICE: {}", capability::remedy("SYS_NICE")),
                _ => error.to_string(),
            },
        };
        let mut wanted = sched::get(Pid(0)).map_err(|e| refused("policy", &e))?;
        if let Some(policy) = self.policy {
            wanted.policy = policy;
        }
        if let Some(new) = self.nice {
            match &mut wanted.policy {
                Policy::Normal { nice } | Policy::Batch { nice } | Policy::Ext { nice } => {
                    *nice = new;
                }
                _ => {}
            }
        }
        wanted.slice = self.slice.unwrap_or(wanted.slice);
        if self.clamp_min.is_some() || self.clamp_max.is_some() {
            let (min, max) = wanted.clamp.unwrap_or((0, 1024));
            wanted.clamp = Some((self.clamp_min.unwrap_or(min), self.clamp_max.unwrap_or(max)));
        }
        if self.task_attributes() {
            sched::set(Pid(0), &wanted).map_err(|e| refused("policy, nice or slice", &e))?;
            self.check(&wanted)?;
        }
        Ok(())
    }

    fn task_attributes(&self) -> bool {
        self.slice.is_some()
            || self.nice.is_some()
            || self.policy.is_some()
            || self.clamp_min.is_some()
            || self.clamp_max.is_some()
    }

    /// A kernel without per-task slices takes the call and forgets the number.
    fn check(&self, wanted: &Attributes) -> Result<(), KnobError> {
        let Some(slice) = self.slice.filter(|s| *s != Nanos::ZERO) else { return Ok(()) };
        let now = sched::get(Pid(0)).map(|now| now.slice).unwrap_or_default();
        if now == slice || !matches!(wanted.policy, Policy::Normal { .. } | Policy::Batch { .. }) {
            return Ok(());
        }
        let why = format!("asked for {slice}, the kernel keeps {now}");
        Err(KnobError::Refused { name: "slice".into(), place: "sched_setattr".into(), why })
    }
}

fn policy(text: &str) -> Option<Policy> {
    let priority = |text: &str| text.parse().ok().filter(|p| (1..=99).contains(p));
    match text.split_once(':') {
        None => match text {
            "normal" | "other" => Some(Policy::Normal { nice: 0 }),
            "batch" => Some(Policy::Batch { nice: 0 }),
            "idle" => Some(Policy::Idle),
            "ext" => Some(Policy::Ext { nice: 0 }),
            _ => None,
        },
        Some(("fifo", p)) => Some(Policy::Fifo { priority: priority(p)? }),
        Some(("rr", p)) => Some(Policy::RoundRobin { priority: priority(p)? }),
        Some(_) => None,
    }
}
