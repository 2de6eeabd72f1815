//! Costs that a recording of a machine shows by itself: no run is repeated, and nothing is searched.

use super::load_phases::median;
use crate::Costs;
use schedlab_model::{Cpu, Event, EventSource, Nanos, Pid, What};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;

/// Fewer times do not decide a cost.
const LEAST: usize = 20;

/// What a recording shows of one cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    pub cost: &'static str,
    /// Of what this is the median, in words.
    pub what: &'static str,
    /// In nanoseconds; `None`: it happened too rarely.
    pub ns: Option<u64>,
    /// How often it happened.
    pub times: usize,
}

impl fmt::Display for Shown {
    /// Where the cost comes from, as in `idle_exit: the median of 77 wakeups`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cost, what, ns, times } = self;
        match ns {
            Some(_) => write!(f, "{cost}: the median of {times} {what}"),
            None => write!(f, "{cost}: not measured ({times} {what}; {LEAST} are needed)"),
        }
    }
}

/// Who runs on a CPU, and what began there.
#[derive(Default)]
struct OfCpu {
    running: Option<Pid>,
    /// Since when another CPU waits for this idle one to run a task.
    woken: Option<(Pid, Nanos)>,
    /// When the task that runs forked last.
    forked: Option<Nanos>,
}

#[derive(Default)]
struct Times {
    cpus: BTreeMap<Cpu, OfCpu>,
    idle_exit: Vec<u64>,
    fork: Vec<u64>,
}

impl Times {
    fn take(&mut self, event: &Event) {
        match event.what {
            What::Switch { prev, next, .. } => {
                let cpu = self.cpus.entry(event.cpu).or_default();
                if let Some((pid, at)) = cpu.woken.take()
                    && (prev, next) == (Pid::IDLE, pid)
                {
                    self.idle_exit.push(event.time.0 - at.0);
                }
                *cpu = OfCpu { running: Some(next), ..OfCpu::default() };
            }
            What::Wakeup { pid, cpu: target, new, .. } => {
                if new {
                    let forked = &mut self.cpus.entry(event.cpu).or_default().forked;
                    let before = forked.replace(event.time);
                    self.fork.extend(before.map(|at| event.time.0 - at.0));
                }
                let idle = self.cpus.entry(target).or_default();
                if target != event.cpu && idle.running == Some(Pid::IDLE) {
                    idle.woken.get_or_insert((pid, event.time));
                }
            }
            _ => {}
        }
    }
}

/// The costs that a recording shows. What it cannot tell apart from them is as in `base`.
///
/// # Errors
/// The recording cannot be read.
pub fn shown(source: &mut dyn EventSource, base: &Costs) -> io::Result<Vec<Shown>> {
    let mut times = Times::default();
    let mut batch = Vec::new();
    while source.next(&mut batch)? {
        batch.iter().for_each(|event| times.take(event));
    }
    // The interrupt that another CPU sends has its own way.
    times.idle_exit.iter_mut().for_each(|ns| *ns = ns.saturating_sub(base.ipi));
    let of = |cost, what, all: Vec<u64>| {
        let times = all.len();
        let ns = median(all).filter(|_| times >= LEAST).map(|ns| ns.round() as u64);
        Shown { cost, what, ns, times }
    };
    Ok(vec![
        of(
            "idle_exit",
            "wakeups of an idle CPU by another, until the task runs, less `ipi`",
            times.idle_exit,
        ),
        of("fork", "intervals between two forks of one task that ran without a break", times.fork),
    ])
}

/// A file of costs: what `shown` has, and the others as `base` has them. `of` is the recording.
#[must_use]
pub fn file(shown: &[Shown], base: Costs, of: &str, on: &str) -> String {
    let mut text = format!(
        "# Costs of the recording {of}, in nanoseconds, by `schedlab sim calibrate --from`.\n\
         # Others come from {on}.\n"
    );
    let mut costs = base;
    for one in shown {
        costs = one.ns.map_or(costs, |ns| costs.scaled(&[one.cost], ns));
        let _ = writeln!(text, "#   {one}.");
    }
    text += "base = \"none\"\n";
    for (name, ns) in costs.all() {
        let is_shown = shown.iter().any(|one| one.cost == name && one.ns.is_some());
        let _ = writeln!(text, "{name} = {ns}{}", if is_shown { "" } else { " # not measured" });
    }
    text
}
