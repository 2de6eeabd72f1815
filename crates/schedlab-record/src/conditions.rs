//! How the machine and its tasks are scheduled: knobs, tick and preemption model at the start, and each task's policy,
//! nice value, slice, session and autogroup.
//!
//! A task's entry is read when the task is first looked at, and again at the end. The tick is counted between the start
//! and the end of the recording.

use super::spool::Seen;
use schedlab_model::{Conditions, Nanos, Pid, Scheduled};
use schedlab_sys::{clock, process, sched};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The kernel's files of each knob: below `/sys/kernel/debug`, and below `/proc/sys/kernel`.
const KNOBS: [(&str, &[&str], &[&str]); 11] = [
    ("latency", &["sched/latency_ns"], &["sched_latency_ns"]),
    ("min_granularity", &["sched/min_granularity_ns"], &["sched_min_granularity_ns"]),
    ("wakeup_granularity", &["sched/wakeup_granularity_ns"], &["sched_wakeup_granularity_ns"]),
    ("idle_min_granularity", &["sched/idle_min_granularity_ns"], &[]),
    ("base_slice", &["sched/base_slice_ns"], &[]),
    ("migration_cost", &["sched/migration_cost_ns"], &["sched_migration_cost_ns"]),
    ("nr_migrate", &["sched/nr_migrate"], &["sched_nr_migrate"]),
    ("tunable_scaling", &["sched/tunable_scaling"], &["sched_tunable_scaling"]),
    ("features", &["sched/features", "sched_features"], &[]),
    ("autogroup", &[], &["sched_autogroup_enabled"]),
    ("rt_runtime", &[], &["sched_rt_runtime_us"]),
];
/// Tick rates that kernels are built with.
const RATES: [u64; 5] = [100, 250, 300, 1_000, 1_024];

/// Looks at how tasks are scheduled.
#[derive(Debug, Default)]
pub(crate) struct ConditionsReader {
    known: BTreeMap<Pid, Scheduled>,
}

impl ConditionsReader {
    /// What holds for the machine now.
    pub(crate) fn machine() -> Vec<Seen> {
        let root = Path::new("/");
        let knobs = knobs(root);
        let preempt = preempt(root);
        let mut seen = vec![Seen::Machine { knobs, preempt }];
        seen.extend(tick(root));
        seen
    }

    /// The tick's count now; `None` where the kernel does not tell.
    pub(crate) fn tick() -> Option<Seen> {
        tick(Path::new("/"))
    }

    /// How a task is scheduled, when that is news. One that is gone had what its parent has.
    pub(crate) fn look(&mut self, pid: Pid, parent: Option<Pid>) -> Option<Seen> {
        let inherited = || self.known.get(&parent?).cloned();
        let now = of_task(Path::new("/"), pid).or_else(inherited)?;
        let before = self.known.get(&pid);
        // What is news at the first look held before it.
        let at = before.map_or(Nanos::ZERO, |_| clock::monotonic());
        if before.is_some_and(|before| Scheduled { at: before.at, pid, ..now.clone() } == *before) {
            return None;
        }
        let now = Scheduled { pid, at, ..now };
        self.known.insert(pid, now.clone());
        Some(Seen::Scheduled(now))
    }
}

fn read(path: PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn knobs(root: &Path) -> BTreeMap<String, String> {
    let value = |debugfs: &[&str], sysctl: &[&str]| {
        let debug = debugfs.iter().map(|file| root.join("sys/kernel/debug").join(file));
        let files = debug.chain(sysctl.iter().map(|file| root.join("proc/sys/kernel").join(file)));
        files.into_iter().find_map(read)
    };
    let one = |(name, debugfs, sysctl): &(&str, &[&str], &[&str])| {
        Some(((*name).to_owned(), value(debugfs, sysctl)?))
    };
    KNOBS.iter().filter_map(one).collect()
}

/// The model in force: the one in brackets where the kernel can change it, else the one that the kernel was built with.
fn preempt(root: &Path) -> Option<String> {
    let chosen = read(root.join("sys/kernel/debug/sched/preempt"));
    let chosen = chosen.and_then(|text| {
        let (_, rest) = text.split_once('(')?;
        Some(rest.split_once(')')?.0.to_owned())
    });
    if chosen.is_some() {
        return chosen;
    }
    let version = read(root.join("proc/sys/kernel/version"))?;
    let has = |word: &str| version.split_whitespace().any(|one| one == word);
    match () {
        // The command line decides, and debugfs tells; neither was read.
        () if has("PREEMPT_DYNAMIC") => None,
        () if has("PREEMPT_LAZY") => Some("lazy".to_owned()),
        () if has("PREEMPT") || has("PREEMPT_RT") => Some("full".to_owned()),
        // Servers without it are rare, and both are alike within system calls of the model.
        () => Some("voluntary".to_owned()),
    }
}

/// The count of ticks of the CPU that counted last, and the time of that count (`/proc/timer_list`).
fn tick(root: &Path) -> Option<Seen> {
    let text = read(root.join("proc/timer_list"))?;
    let now = text.lines().find_map(|line| line.strip_prefix("now at ")?.split(' ').next());
    let jiffies = text.lines().filter_map(|line| line.strip_prefix("jiffies: "));
    let jiffies = jiffies.filter_map(|number| number.trim().parse().ok()).max()?;
    Some(Seen::Tick { at: Nanos(now?.parse().ok()?), jiffies })
}

fn of_task(root: &Path, pid: Pid) -> Option<Scheduled> {
    let attributes = sched::get(pid).ok()?;
    let (policy, nice) = match attributes.policy {
        sched::Policy::Normal { nice } => ("normal".to_owned(), nice),
        sched::Policy::Batch { nice } => ("batch".to_owned(), nice),
        sched::Policy::Ext { nice } => ("ext".to_owned(), nice),
        sched::Policy::Idle => ("idle".to_owned(), 0),
        sched::Policy::Fifo { priority } => (format!("fifo:{priority}"), 0),
        sched::Policy::RoundRobin { priority } => (format!("rr:{priority}"), 0),
        sched::Policy::Deadline { .. } => ("deadline".to_owned(), 0),
    };
    let file = root.join(format!("proc/{pid}/autogroup"));
    let autogroup = read(file).and_then(|text| autogroup(&text));
    let session = process::session(pid);
    let slice = Some(attributes.slice).filter(|slice| *slice != Nanos::ZERO);
    Some(Scheduled { pid, at: Nanos::ZERO, policy, nice, slice, autogroup, session })
}

/// The number in `/autogroup-12 nice 0`.
fn autogroup(text: &str) -> Option<u64> {
    text.strip_prefix("/autogroup-")?.split(' ').next()?.parse().ok()
}

/// The conditions as the trace keeps them; `None` when nobody looked.
pub(crate) fn gather(seen: &[Seen]) -> Option<Conditions> {
    let mut conditions: Option<Conditions> = None;
    let mut first = None;
    let mut last = None;
    for one in seen {
        match one {
            Seen::Machine { knobs, preempt } => {
                let all = conditions.get_or_insert_default();
                all.knobs = knobs.clone();
                all.preempt = preempt.clone();
            }
            Seen::Tick { at, jiffies } => {
                let ticks = Ticks { at: *at, jiffies: *jiffies };
                first = first.or(Some(ticks));
                last = Some(ticks);
            }
            Seen::Scheduled(task) => {
                conditions.get_or_insert_default().tasks.push(task.clone());
            }
            _ => {}
        }
    }
    let mut conditions = conditions?;
    conditions.tasks.sort_unstable();
    conditions.hz = first.zip(last).and_then(|(first, last)| rate(first, last));
    Some(conditions)
}

/// The kernel's count of ticks at a moment.
#[derive(Clone, Copy)]
struct Ticks {
    at: Nanos,
    jiffies: u64,
}

/// The usual tick rate that is within 3 % of what was counted.
fn rate(from: Ticks, to: Ticks) -> Option<u64> {
    let time = to.at.0.checked_sub(from.at.0)?;
    let ticks = to.jiffies.checked_sub(from.jiffies)?;
    // Fewer do not tell the rates apart: each count may be off by one.
    if ticks < 70 {
        return None;
    }
    let counted = ticks as f64 * 1e9 / time.max(1) as f64;
    RATES.into_iter().find(|rate| (counted / *rate as f64 - 1.0).abs() < 0.03)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_and_the_preemption_model_come_from_the_kernels_files() {
        let folder = tempfile::tempdir().unwrap();
        let put = |file: &str, text: &str| {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("sys/kernel/debug/sched/base_slice_ns", "2800000\n");
        put("proc/sys/kernel/sched_autogroup_enabled", "1\n");
        put("sys/kernel/debug/sched/preempt", "none (voluntary) full lazy\n");
        let read = knobs(folder.path());
        assert_eq!(read.len(), 2, "{read:?}");
        assert_eq!((&*read["base_slice"], &*read["autogroup"]), ("2800000", "1"));
        assert_eq!(preempt(folder.path()).as_deref(), Some("voluntary"));
        std::fs::remove_file(folder.path().join("sys/kernel/debug/sched/preempt")).unwrap();
        assert_eq!(preempt(folder.path()), None);
        for (version, model) in [
            ("#1 SMP PREEMPT_DYNAMIC Debian 6.12", None),
            ("#1 SMP PREEMPT_LAZY x", Some("lazy")),
            ("#1 SMP PREEMPT_RT x", Some("full")),
            ("#1 SMP Debian 6.1", Some("voluntary")),
        ] {
            put("proc/sys/kernel/version", version);
            assert_eq!(preempt(folder.path()).as_deref(), model, "{version}");
        }
        put("proc/timer_list", "Timer List\nnow at 77000 nsecs\ncpu: 0\njiffies: 9\njiffies: 12\n");
        let Some(Seen::Tick { at, jiffies }) = tick(folder.path()) else { panic!("no tick") };
        assert_eq!((at, jiffies), (Nanos(77_000), 12));
    }

    #[test]
    fn the_tick_rate_takes_enough_ticks() {
        let at = |ms, jiffies| Ticks { at: Nanos::from_millis(ms), jiffies };
        assert_eq!(rate(at(0, 100), at(1_000, 350)), Some(250));
        assert_eq!(rate(at(0, 100), at(1_000, 1_101)), Some(1_000));
        assert_eq!(rate(at(0, 100), at(200, 150)), None, "50 ticks");
        assert_eq!(rate(at(0, 100), at(1_000, 260)), None, "160 Hz is no kernel's rate");
        assert_eq!(rate(at(9, 100), at(3, 350)), None);
    }

    #[test]
    fn this_task_is_looked_at_once() {
        let mut conditions_reader = ConditionsReader::default();
        let Some(Seen::Scheduled(me)) = conditions_reader.look(Pid(0), None) else {
            panic!("the calling task is there")
        };
        assert!(!me.policy.is_empty() && me.at == Nanos::ZERO);
        assert!(conditions_reader.look(Pid(0), None).is_none(), "nothing is news");
        let child = conditions_reader.look(Pid(i32::MAX), Some(Pid(0)));
        let Some(Seen::Scheduled(child)) = child else { panic!("a task that is gone inherits") };
        assert_eq!((child.pid, child.policy), (Pid(i32::MAX), me.policy));
        assert_eq!(autogroup("/autogroup-12 nice 0"), Some(12));
        assert!(me.session.is_some());
    }
}
