//! What this machine allows, what each missing right costs, and how to get it.
//!
//! Every check tries the thing itself, in a way that leaves nothing behind: what a file says about
//! rights is not what the kernel does.

use schedlab_model::{Pid, Warning};
use schedlab_record::{Options, RecordError, Recorder, Via};
use schedlab_sys::cgroup::{self, Version};
use schedlab_sys::{capability, guard, process, sched};
use serde::Serialize;
use std::path::Path;

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It works without a limitation.
    Yes,
    /// It works with a limitation.
    Partly,
    /// It does not work here.
    No,
}

/// One thing that schedlab would like to do.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
pub struct Check {
    /// A stable name for scripts: `record`, `realtime`.
    pub(crate) name: &'static str,
    /// What schedlab would do, in words for a person: `record scheduler events`.
    pub what: &'static str,
    /// Whether it can be done.
    pub verdict: Verdict,
    /// What schedlab saw on this machine, in a sentence.
    pub found: String,
    /// What is not possible without it; empty when it works.
    pub cost: String,
    /// How to get the permission; empty if it is there or cannot be got.
    pub remedy: String,
}

impl Check {
    fn yes(name: &'static str, what: &'static str, found: impl Into<String>) -> Self {
        let found = found.into();
        let cost = String::new();
        let remedy = String::new();
        Self { name, what, verdict: Verdict::Yes, found, cost, remedy }
    }

    fn short(
        name: &'static str,
        what: &'static str,
        verdict: Verdict,
        [found, cost, remedy]: [String; 3],
    ) -> Self {
        Self { name, what, verdict, found, cost, remedy }
    }
}

/// Tries everything. Takes a few milliseconds.
#[must_use]
pub fn doctor() -> Vec<Check> {
    vec![
        record(),
        ftrace(),
        realtime(),
        slice(),
        deadline(),
        clamps(),
        bandwidth(),
        frequency(),
        knobs(),
        guardian(),
        quiet(),
    ]
}

fn strings(parts: [&str; 3]) -> [String; 3] {
    parts.map(str::to_owned)
}

/// Whether the scheduler's events can be recorded, by recording some.
fn record() -> Check {
    let name = "record";
    let what = "record scheduler events of all CPUs";
    let cost = "no trace, no pictures of this machine; load, jobs and the reading of traces work";
    let folder = match schedlab_sys::temporary::folder("schedlab-doctor-") {
        Ok(folder) => folder,
        Err(error) => {
            let found = format!("no temporary folder: {error}");
            let remedy = "set TMPDIR to a folder that can be written";
            return Check::short(name, what, Verdict::No, [found, cost.into(), remedy.into()]);
        }
    };
    let options = Options { ring_bytes: 64 << 10, ..Options::default() };
    let result = Recorder::start(options, &folder.path().join("spool")).and_then(|recorder| {
        let via = recorder.via();
        recorder.stop().map(|_| via)
    });
    match result {
        Ok(Via::Ftrace) => Check::yes(name, what, "through ftrace"),
        Ok(_) => Check::yes(name, what, "through perf events (tracefs is not writable)"),
        Err(RecordError::Right { missing, remedy }) => {
            Check::short(name, what, Verdict::No, [missing, cost.into(), remedy])
        }
        Err(error) => {
            Check::short(name, what, Verdict::No, [error.to_string(), cost.into(), String::new()])
        }
    }
}

fn ftrace() -> Check {
    let name = "ftrace";
    let what = "record through ftrace's own buffers";
    let cost = "perf events record the same, and cost the recorded machine more";
    let tracefs = match schedlab_sys::tracefs::Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(error) => {
            // What root of a container needs stands at the check of recording.
            let remedy = if process::is_root() { "" } else { "run as root" };
            let parts = [format!("tracefs: {error}"), cost.into(), remedy.into()];
            return Check::short(name, what, Verdict::No, parts);
        }
    };
    match tracefs.writable() {
        Ok(()) => Check::yes(name, what, "tracefs can be written"),
        Err(error) => {
            let parts = [format!("cannot write to tracefs: {error}"), cost.into(), String::new()];
            Check::short(name, what, Verdict::No, parts)
        }
    }
}

fn realtime() -> Check {
    let name = "realtime";
    let what = "real-time threads (slow CPUs by hogs, undisturbed timing)";
    let policy = sched::Policy::Fifo { priority: 1 };
    let tried = process::on_a_thread(|| sched::set(Pid(0), &policy.into()));
    let cost = "`slow` loses hogs, its most accurate method, and falls back to weights and quotas";
    match tried {
        Ok(()) => {
            let root = Path::new("/proc/sys/kernel");
            let read = |file| std::fs::read_to_string(root.join(file)).unwrap_or_default();
            let runtime = read("sched_rt_runtime_us");
            let period = read("sched_rt_period_us");
            let guard = match runtime.trim() {
                "-1" => "no throttling".to_owned(),
                runtime => format!("throttled at {runtime} of {} µs", period.trim()),
            };
            Check::yes(name, what, format!("SCHED_FIFO works, {guard}"))
        }
        Err(error) => {
            // Where threads get it in the root group only, our own allows none.
            let grouped = cgroup::of_cpu().is_some_and(|cpu| !cpu.is_root());
            if grouped && crate::slow::takes_realtime() {
                let found = "SCHED_FIFO works in the root CPU group, where hogs and probes go";
                let cost = "your loads and commands cannot have real-time tasks in this group";
                let remedy = "this group has no real-time runtime (CONFIG_RT_GROUP_SCHED): start from the root group, \
                              or boot with rt_group_sched=0";
                return Check::short(name, what, Verdict::Partly, strings([found, cost, remedy]));
            }
            let remedy = match capability::has(crate::slow::CAP_SYS_NICE) {
                true => "start from the root control group: this one has no real-time runtime"
                    .to_owned(),
                false => capability::remedy("SYS_NICE") + ", or raise `ulimit -r`",
            };
            let parts = [format!("SCHED_FIFO: {error}"), cost.into(), remedy];
            Check::short(name, what, Verdict::No, parts)
        }
    }
}

/// Whether a thread may have a deadline; it has none any more when it was tried.
fn deadline() -> Check {
    let name = "deadline";
    let what = "tasks with deadlines (SCHED_DEADLINE, as of rt-app)";
    match sched::takes_deadlines() {
        Ok(()) => Check::yes(name, what, "SCHED_DEADLINE works"),
        Err(error) => {
            let cost = "loads with SCHED_DEADLINE tasks do not start";
            let remedy = match error.raw_os_error() {
                Some(1) if capability::has(crate::slow::CAP_SYS_NICE) => {
                    "start from a cpuset that spans the whole root domain".to_owned()
                }
                Some(1) => capability::remedy("SYS_NICE"),
                Some(16) => "other deadline tasks use the whole bandwidth: end them".to_owned(),
                _ => String::new(),
            };
            let parts = [format!("SCHED_DEADLINE: {error}"), cost.into(), remedy];
            Check::short(name, what, Verdict::No, parts)
        }
    }
}

/// Whether the kernel clamps the utilisation of tasks.
fn clamps() -> Check {
    let name = "uclamp";
    let what = "utilisation clamps of tasks (hints to the frequency governor)";
    match sched::takes_clamps() {
        Ok(()) => Check::yes(name, what, "sched_setattr takes them"),
        Err(error) => {
            let found = format!("sched_setattr: {error}");
            let cost = "tasks cannot ask for a frequency; no speed of `slow` depends on it";
            let remedy = "a kernel with CONFIG_UCLAMP_TASK";
            Check::short(name, what, Verdict::No, [found, cost.into(), remedy.into()])
        }
    }
}

fn slice() -> Check {
    let name = "slice";
    let what = "a slice for each task (sched_setattr, Linux 6.12)";
    let asked = schedlab_model::Nanos::from_millis(5);
    let attempt = process::on_a_thread(|| {
        let mut attributes = sched::get(Pid(0))?;
        attributes.slice = asked;
        sched::set(Pid(0), &attributes)?;
        Ok(sched::get(Pid(0))?.slice == asked)
    });
    match attempt {
        Ok(true) => Check::yes(name, what, "the kernel keeps it"),
        Ok(false) => {
            let cost = "only the slice of the whole machine can be tuned";
            let parts = strings([
                "the kernel accepts the slice and does not keep it",
                cost,
                "Linux 6.12 or later",
            ]);
            Check::short(name, what, Verdict::No, parts)
        }
        Err(error) => {
            let parts = [error.to_string(), "slices cannot be tuned".into(), String::new()];
            Check::short(name, what, Verdict::No, parts)
        }
    }
}

fn bandwidth() -> Check {
    let name = "cgroup";
    let what = "control groups of our own (weights, quotas, virtual nodes)";
    let cost = "`slow` loses quota and weight; only affinity binds virtual nodes";
    let support = crate::slow::Support::here();
    let Some(cpu) = &support.cpu_group else {
        let parts = strings([
            "the CPU controller is not available",
            cost,
            "mount one, or ask for delegation",
        ]);
        return Check::short(name, what, Verdict::No, parts);
    };
    let parent = support.parent(cpu);
    let probe = parent.join(format!("schedlab-doctor-{}", std::process::id()));
    let made = std::fs::create_dir(&probe);
    let _ = std::fs::remove_dir(&probe);
    let version = if cpu.version == Version::V1 { "1" } else { "2" };
    match made {
        Ok(()) => {
            let found = format!("version {version}, below {}", parent.display());
            Check::yes(name, what, found)
        }
        Err(error) => {
            let remedy = match process::is_root() {
                true => "start the container with `--privileged`: its control groups are read-only",
                false => {
                    "run as root, or `systemd-run --user --scope -p Delegate=yes schedlab ...`"
                }
            };
            let parts = [format!("{}: {error}", parent.display()), cost.into(), remedy.into()];
            Check::short(name, what, Verdict::No, parts)
        }
    }
}

fn frequency() -> Check {
    let name = "frequency";
    let what = "CPU frequencies of our choice";
    let policy = Path::new("/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq");
    let cost = "`slow` loses freq and gov";
    if !policy.exists() {
        let parts = strings(["missing cpufreq driver (usual in virtual machines)", cost, ""]);
        return Check::short(name, what, Verdict::No, parts);
    }
    match std::fs::OpenOptions::new().write(true).open(policy) {
        Ok(_) => Check::yes(name, what, "scaling_max_freq can be written"),
        Err(error) => {
            let remedy = match process::is_root() {
                true => "start the container with `--privileged`",
                false => "run as root",
            };
            Check::short(name, what, Verdict::No, [error.to_string(), cost.into(), remedy.into()])
        }
    }
}

fn knobs() -> Check {
    let name = "knobs";
    let what = "scheduler tunables of the whole machine (debugfs)";
    let cost = "slice and migration cost cannot be set for the whole machine; a slice per task \
        may be enough";
    // As `knobs list` tells it: one fact has one reason.
    let all = crate::knobs::Tree::here().map(|tree| tree.list()).unwrap_or_default();
    let found = all.iter().find(|knob| knob.r#where.starts_with("/sys/kernel/debug/"));
    let why = found.map_or("this kernel keeps none there", |knob| &knob.why_not);
    if why.is_empty() {
        return Check::yes(name, what, "debugfs can be written");
    }
    let (why, remedy) = why.split_once(": ").unwrap_or((why, ""));
    Check::short(name, what, Verdict::No, [why.into(), cost.into(), remedy.into()])
}

fn guardian() -> Check {
    let name = "guard";
    let what = "changes are undone, even if processes die";
    match guard::directory() {
        Ok(dir) => {
            let set = crate::knobs::outstanding();
            match guard::leftovers(&dir) {
                0 if !set.is_empty() => {
                    let cost = "each run measures the machine as `knobs set` left it";
                    let parts = [set.join("; "), cost.into(), "schedlab knobs restore".into()];
                    Check::short(name, what, Verdict::Partly, parts)
                }
                0 => Check::yes(name, what, format!("journals in {}", dir.display())),
                count => {
                    let found = format!("{count} journals of dead runs in {}", dir.display());
                    let cost = "a change of an earlier run may still be in force";
                    let parts = [found, cost.into(), "schedlab doctor --restore".into()];
                    Check::short(name, what, Verdict::Partly, parts)
                }
            }
        }
        Err(error) => {
            let parts = [error.to_string(), "nothing can be changed safely".into(), String::new()];
            Check::short(name, what, Verdict::No, parts)
        }
    }
}

fn quiet() -> Check {
    let name = "quiet";
    let what = "a machine that measures well";
    let warnings = crate::facts::facts().warnings;
    if warnings.is_empty() {
        return Check::yes(name, what, "no other load, no limits on us");
    }
    let join = |part: fn(&Warning) -> &str| {
        warnings.iter().map(part).filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
    };
    let cost = "metrics vary more than necessary".to_owned();
    Check::short(name, what, Verdict::Partly, [join(|w| &w.what), cost, join(|w| &w.remedy)])
}

/// Puts back what dead runs left changed; one line for each journal.
///
/// # Errors
/// When the journals cannot be listed.
pub fn restore() -> std::io::Result<Vec<guard::Restored>> {
    guard::restore(&guard::directory()?)
}
