//! Signs that something else used the machine, or that it became another one.
//!
//! These are from looks at the machine before a run and after it. What a machine watches by itself while it
//! runs a load comes as warnings of its own, which [`is_passing`] knows as well.

use schedlab_model::{Fact, MachineFacts, Warning};

/// Stolen time beyond this part of a run's CPU time makes it doubtful.
const STEAL_MAX: f64 = 0.01;
/// Load averages beyond this part of the CPUs before a run make it doubtful.
const LOAD_MAX: f64 = 0.5;

/// Doubts from the machine before a run and after it. Those that a further attempt may cure are
/// [`is_passing`].
pub(crate) fn doubts(before: &MachineFacts, after: &MachineFacts, took_ns: u64) -> Vec<Warning> {
    let mut out = Vec::new();
    let cpus = before.allowed.len().max(1) as f64;
    let stolen = after.load.steal_ns.saturating_sub(before.load.steal_ns) as f64;
    let part = stolen / (took_ns.max(1) as f64 * before.online.len().max(1) as f64);
    if part > STEAL_MAX {
        let what =
            format!("the hypervisor took {:.1} % of the CPU time during the run", part * 100.0);
        out.push(Warning::new("steal", what, "measure when its other guests are quiet"));
    }
    let [load, ..] = before.load.average;
    // Our own earlier runs stay in the average for minutes: running tasks are asked as well.
    let running = before.load.runnable.saturating_sub(1) as f64;
    if load > LOAD_MAX * cpus && running > LOAD_MAX * cpus {
        let what = format!("{running} other tasks were runnable before the run (load {load:.1})");
        out.push(Warning::new("machine-busy", what, "stop them, or wait"));
    }
    if let (Fact::Known(a), Fact::Known(b)) =
        (&before.frequency.governors, &after.frequency.governors)
        && a != b
    {
        let what = format!("the governor went from {} to {}", a.join(", "), b.join(", "));
        out.push(Warning::new("governor-changed", what, "fix it for the experiment"));
    }
    if let (Fact::Known(a), Fact::Known(b)) = (&before.kernel.sched_ext, &after.kernel.sched_ext)
        && a != b
    {
        let name = |ops: &str| if ops.is_empty() { "none".to_owned() } else { ops.to_owned() };
        let what = format!("the sched_ext scheduler went from {} to {}", name(a), name(b));
        let remedy = "`dmesg` says why the kernel removed it";
        out.push(Warning::new("sched-ext-changed", what, remedy));
    }
    if before.online != after.online {
        let what = format!("CPUs went from {} to {} during the run", before.online, after.online);
        out.push(Warning::new("cpus-changed", what, "keep CPUs on line during an experiment"));
    }
    let value = |name: &str| {
        let found = after.knobs.iter().find(|knob| knob.name == name);
        found.and_then(|knob| knob.value.as_deref())
    };
    for (knob, was) in before.knobs.iter().filter_map(|knob| Some((knob, knob.value.as_deref()?))) {
        if let Some(now) = value(&knob.name).filter(|now| *now != was) {
            let what = format!("knob {} went from {was} to {now} during the run", knob.name);
            let remedy = "find out who sets it, and repeat the run";
            out.push(Warning::new("knob-changed", what, remedy));
        }
    }
    out
}

/// Whether another attempt may be free of a doubt.
#[must_use]
pub fn is_passing(warning: &Warning) -> bool {
    const PASSING: [&str; 10] = [
        "steal",
        "steal-burst",
        "machine-busy",
        "others-ran",
        "throttled",
        "frequency-fell",
        "governor-changed",
        "sched-ext-changed",
        "cpus-changed",
        "knob-changed",
    ];
    PASSING.contains(&warning.code.as_str())
}
