//! The first decision that two kernels do not share, from one start: as text and as numbers.

use schedlab_model::{Comm, Event, EventSource, Left, Pid, TraceInfo, What, visible};
use schedlab_timeline::{Decided, Decision, first_difference};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where two kernels part, from a start that both have.
#[derive(Serialize, JsonSchema)]
pub(super) struct Difference {
    /// The start that was recorded on both sides, from 1: the first one whose metrics differ.
    start: u32,
    /// Switches, wakeups and moves before the first that differs; all, if none differs.
    equal: usize,
    /// What the first side decided; none: no more in this place.
    before: Option<OfSide>,
    /// What the second side decided there.
    after: Option<OfSide>,
}

/// What one side decided.
#[derive(Serialize, JsonSchema)]
struct OfSide {
    /// When, in nanoseconds on the clock of its trace.
    at_ns: u64,
    /// The CPU that switches, or on which the task is put.
    cpu: u16,
    /// The decision in words.
    decision: String,
}

/// A recorded run.
pub(super) struct Recorded {
    pub(super) info: TraceInfo,
    pub(super) events: Vec<Event>,
}

impl Recorded {
    pub(super) fn read(source: &mut dyn EventSource) -> anyhow::Result<Self> {
        let mut events = Vec::new();
        let mut batch = Vec::new();
        while source.next(&mut batch)? {
            events.append(&mut batch);
        }
        Ok(Self { info: source.info().clone(), events })
    }

    fn names(&self) -> BTreeMap<Pid, Comm> {
        let mut names = self.info.comms.clone();
        for event in &self.events {
            if let What::Comm { pid, comm } = event.what {
                names.insert(pid, comm);
            }
        }
        names
    }
}

impl Difference {
    pub(super) fn of(start: u32, before: &Recorded, after: &Recorded) -> Self {
        let told = |decided: Decided, side: &Recorded| OfSide {
            at_ns: decided.at.0,
            cpu: decided.cpu.0,
            decision: in_words(&decided, &side.names()),
        };
        let found = first_difference(&before.events, &after.events);
        Self {
            start,
            equal: found.equal,
            before: found.before.map(|decided| told(decided, before)),
            after: found.after.map(|decided| told(decided, after)),
        }
    }

    /// In one line, for two sides by name.
    pub(super) fn text(&self, sides: [&str; 2]) -> String {
        let Self { start, equal, before, after } = self;
        if before.is_none() && after.is_none() {
            return format!("All {equal} switches, wakeups and moves in start {start} are equal.");
        }
        let told = |side: &Option<OfSide>| match side {
            Some(OfSide { at_ns, decision, .. }) => {
                format!("at {:.6} s {decision}", *at_ns as f64 / 1e9)
            }
            None => "nothing more".to_owned(),
        };
        format!(
            "First difference, in start {start} after {equal} equal switches, wakeups and moves: {}: {}; {}: {}.",
            sides[0],
            told(before),
            sides[1],
            told(after)
        )
    }
}

fn in_words(decided: &Decided, names: &BTreeMap<Pid, Comm>) -> String {
    let task = |pid: Pid| match names.get(&pid) {
        _ if pid.is_idle() => "idle".to_owned(),
        None => format!("task {pid}"),
        Some(comm) => {
            let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
            format!("{} ({pid})", visible(&String::from_utf8_lossy(&comm[..end])))
        }
    };
    let cpu = decided.cpu.0;
    let runs = match decided.current {
        None => String::new(),
        Some(pid) if pid.is_idle() => ", which is idle".to_owned(),
        Some(pid) => format!(", which runs {}", task(pid)),
    };
    match decided.decision {
        Decision::Switch { prev, left, next } => {
            let how = match left {
                _ if prev.is_idle() => "",
                Left::Dead => ", which ends,",
                _ if left.is_runnable() => ", which is preempted,",
                _ => ", which sleeps,",
            };
            format!("CPU {cpu} switches from {}{how} to {}", task(prev), task(next))
        }
        Decision::Wakeup { pid } => format!("{} is woken on CPU {cpu}{runs}", task(pid)),
        Decision::Move { pid, from } => {
            format!("{} is moved from CPU {} to CPU {cpu}{runs}", task(pid), from.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_timeline::notation;

    fn recorded(text: &str) -> Recorded {
        let trace = notation::parse(text).unwrap();
        Recorded { info: trace.info, events: trace.events }
    }

    #[test]
    fn a_difference_is_one_line_with_both_decisions() {
        let before = recorded("0 | .AAAABB..\n  |    bb");
        let after = recorded("0 | .AABBAA..\n  |    aa");
        let told = Difference::of(2, &before, &after).text(["a", "b"]);
        let both = "a: at 0.000005 s CPU 0 switches from A (1), which sleeps, to B (2); \
                    b: at 0.000003 s CPU 0 switches from A (1), which is preempted, to B (2).";
        let equal = "First difference, in start 2 after 2 equal switches, wakeups and moves";
        assert_eq!(told, format!("{equal}: {both}"));
        let told = Difference::of(1, &before, &before).text(["a", "b"]);
        assert_eq!(told, "All 5 switches, wakeups and moves in start 1 are equal.");
    }
}
