//! Signs that something else used the machine, or that it became another one.
//!
//! These are from looks at the machine before a run and after it. What a machine watches by itself while it
//! runs a load comes as warnings of its own, which [`is_passing`] knows as well.

use schedlab_model::{Fact, MachineFacts, Warning};

/// Stolen time beyond this part of a run's CPU time gives the run a warning.
const STEAL_MAX: f64 = 0.01;
/// Load averages beyond this part of the CPUs before a run give the run a warning.
const LOAD_MAX: f64 = 0.5;

/// Whether few tasks besides ours are runnable.
pub(crate) fn is_quiet(facts: &MachineFacts) -> bool {
    let running = facts.load.runnable.saturating_sub(1) as f64;
    running <= LOAD_MAX * facts.allowed.len().max(1) as f64
}

/// Warnings from the machine before a run and after it. Those that a further attempt may cure are
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
        out.push(Warning::new("machine-busy", what, "stop other tasks, or wait"));
    }
    if let (Fact::Known(a), Fact::Known(b)) =
        (&before.frequency.governors, &after.frequency.governors)
        && a != b
    {
        let what = format!("the governor changed from {} to {}", a.join(", "), b.join(", "));
        out.push(Warning::new("governor-changed", what, "fix it for the experiment"));
    }
    if let (Fact::Known(a), Fact::Known(b)) = (&before.kernel.sched_ext, &after.kernel.sched_ext)
        && a != b
    {
        let name = |ops: &str| if ops.is_empty() { "none".to_owned() } else { ops.to_owned() };
        let what = format!("the sched_ext scheduler changed from {} to {}", name(a), name(b));
        let remedy = "`dmesg` says why the kernel removed it";
        out.push(Warning::new("sched-ext-changed", what, remedy));
    }
    if let (Fact::Known(a), Fact::Known(b)) =
        (&before.kernel.sched_ext_state, &after.kernel.sched_ext_state)
        && a != b
    {
        let what = format!("the state of sched_ext changed from '{a}' to '{b}'");
        let remedy = "let a hook `ready` succeed only when the scheduler is enabled";
        out.push(Warning::new("sched-ext-changed", what, remedy));
    }
    if before.online != after.online {
        let what = format!(
            "the online CPUs changed from {} to {} during the run",
            before.online, after.online
        );
        out.push(Warning::new("cpus-changed", what, "keep all CPUs online during an experiment"));
    }
    let value = |name: &str| {
        let found = after.knobs.iter().find(|knob| knob.name == name);
        found.and_then(|knob| knob.value.as_deref())
    };
    for (knob, was) in before.knobs.iter().filter_map(|knob| Some((knob, knob.value.as_deref()?))) {
        if let Some(now) = value(&knob.name).filter(|now| *now != was) {
            let what = format!("knob {} changed from {was} to {now} during the run", knob.name);
            let remedy = "find out who sets it, and repeat the run";
            // A knob that the run asked for is watched by its machine: that run fails.
            out.push(Warning::new("other-knob-changed", what, remedy));
        }
    }
    out
}

/// What of a machine's settings decides how fast it is, as far as it is known: name and value.
#[must_use]
pub(crate) fn conditions(facts: &MachineFacts) -> Vec<(&'static str, String)> {
    let on = |fact: &Fact<bool>| fact.known().map(|on| if *on { "on" } else { "off" }.to_owned());
    let governors = facts.frequency.governors.known().map(|all| all.join(", "));
    let all = [
        ("governor", governors.filter(|all| !all.is_empty())),
        ("turbo", on(&facts.frequency.turbo)),
        ("SMT", on(&facts.smt)),
        ("mitigations", facts.kernel.mitigations.known().cloned()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The machine in a line: what decides how fast it is, and what else uses it.
#[must_use]
pub fn machine_line(facts: &MachineFacts) -> String {
    let mut parts = vec![format!("{}, Linux {}", facts.host, facts.kernel.release)];
    parts.extend(conditions(facts).into_iter().map(|(name, value)| format!("{name} {value}")));
    let load = &facts.load;
    parts.push(format!("load {:.2} on {} CPUs", load.average[0], facts.online.len()));
    let used = load.busy_ns + load.steal_ns;
    if used > 0 {
        let part = load.steal_ns as f64 / used as f64 * 100.0;
        parts.push(format!("steal {part:.1} % since boot"));
    }
    parts.join("; ")
}

/// What differs between a stored run and the machine now, in a sentence; `None` where nothing that is known
/// on both sides does.
pub(crate) fn mismatch(stored: &MachineFacts, now: &MachineFacts) -> Option<String> {
    let now = conditions(now);
    let differs = |(name, was): (&'static str, String)| {
        let (_, is) = now.iter().find(|(other, _)| *other == name)?;
        (*is != was).then(|| format!("{name} was {was} and is {is}"))
    };
    let all: Vec<String> = conditions(stored).into_iter().filter_map(differs).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Why what was to be measured was not in force during a run, by its warnings: a knob, speed or scheduler was another
/// one than asked for. `None` where it was.
pub(crate) fn not_in_force(warnings: &[Warning]) -> Option<String> {
    const LOST: [&str; 5] =
        ["sched-ext-changed", "knob-changed", "knob-adjusted", "speed-off", "slow-failed"];
    let found = warnings.iter().find(|warning| LOST.contains(&warning.code.as_str()));
    found.map(|warning| warning.what.clone())
}

/// Whether another attempt may be free of a warning.
#[must_use]
pub fn is_passing(warning: &Warning) -> bool {
    const PASSING: [&str; 10] = [
        "speed-crowded",
        "steal",
        "steal-burst",
        "machine-busy",
        "others-ran",
        "throttled",
        "frequency-fell",
        "governor-changed",
        "cpus-changed",
        "other-knob-changed",
    ];
    PASSING.contains(&warning.code.as_str())
}
