//! High-resolution timers of tasks, where they were recorded: `hrtimer_start` tells whether a sleep was asked for until
//! an instant or for a length, and how much later the kernel may end it (the slack). `hrtimer_expire_entry` and
//! `hrtimer_expire_exit` tell which wakeups a timer made.

use schedlab_model::{Cpu, Nanos, OtherFormat, Pid};
use schedlab_timeline::OtherEvent;
use std::collections::BTreeMap;

/// What a task asked for before it slept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Started {
    /// For a length, not until an instant.
    pub(crate) is_relative: bool,
    /// How much later the kernel may end it.
    pub(crate) slack: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Start,
    Entry,
    Exit,
}

/// The bit of a relative timer in its mode (`HRTIMER_MODE_REL`).
const RELATIVE: u64 = 1;
/// The bit of a timer that stays on its CPU (`HRTIMER_MODE_PINNED`): those of the kernel's own, as the tick.
const PINNED: u64 = 2;

/// The timers of a trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hrtimers {
    /// By the index of other tracepoints.
    kinds: Vec<Option<Kind>>,
    /// CPUs within the handler of a timer.
    within: Vec<bool>,
    started: BTreeMap<Pid, Started>,
}

impl Hrtimers {
    pub(crate) fn of(others: &[OtherFormat]) -> Self {
        let kind = |name: &str| match name {
            "hrtimer_start" => Some(Kind::Start),
            "hrtimer_expire_entry" => Some(Kind::Entry),
            "hrtimer_expire_exit" => Some(Kind::Exit),
            _ => None,
        };
        let kinds = others.iter().map(|other| kind(&other.name)).collect();
        Self { kinds, ..Self::default() }
    }

    fn kind(&self, format: u16) -> Option<Kind> {
        self.kinds.get(usize::from(format)).copied().flatten()
    }

    /// Whether the trace holds starts of timers.
    pub(crate) fn has_starts(&self) -> bool {
        self.kinds.contains(&Some(Kind::Start))
    }

    /// Whether the arguments of a tracepoint say something about timers.
    pub(crate) fn wants(&self, format: u16) -> bool {
        self.kind(format) == Some(Kind::Start)
    }

    pub(crate) fn fires(&mut self, cpu: Cpu, format: u16) {
        let Some(kind) = self.kind(format).filter(|kind| *kind != Kind::Start) else { return };
        if cpu.index() >= self.within.len() {
            self.within.resize(cpu.index() + 1, false);
        }
        self.within[cpu.index()] = kind == Kind::Entry;
    }

    /// A task starts a timer. Within a handler the task that runs is a bystander.
    pub(crate) fn other_event(&mut self, event: &OtherEvent<'_>) {
        let number = |name| event.number(name);
        let (Some(expires), Some(soft)) = (number("expires"), number("softexpires")) else {
            return;
        };
        let mode = mode(event).unwrap_or(0);
        if !self.wants(event.format) || self.is_within(event.cpu) || mode & PINNED != 0 {
            return;
        }
        let slack = Nanos(expires.saturating_sub(soft));
        self.started.insert(event.by, Started { is_relative: mode & RELATIVE != 0, slack });
    }

    fn is_within(&self, cpu: Cpu) -> bool {
        self.within.get(cpu.index()).copied().unwrap_or(false)
    }

    /// The timer that wakes a task on this CPU now; `None` if no timer does, or it was not recorded.
    pub(crate) fn wakes(&self, task: Pid, cpu: Cpu) -> Option<Started> {
        self.started.get(&task).copied().filter(|_| self.is_within(cpu))
    }
}

/// The mode as a number, or by the names that the kernel prints (`mode=REL|SOFT`).
fn mode(event: &OtherEvent<'_>) -> Option<u64> {
    event.number("mode").or_else(|| {
        let word =
            event.arguments.split_whitespace().find_map(|word| word.strip_prefix("mode="))?;
        let bit = |name: &str| match name {
            "REL" => RELATIVE,
            "PINNED" => PINNED,
            _ => 0,
        };
        Some(word.split('|').map(bit).sum())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timers() -> Hrtimers {
        let other = |name: &str| OtherFormat { system: "timer".into(), name: name.into() };
        Hrtimers::of(
            &["irq", "hrtimer_start", "hrtimer_expire_entry", "hrtimer_expire_exit"].map(other),
        )
    }

    fn start(timers: &mut Hrtimers, pid: i32, mode: &str) {
        let arguments = format!("hrtimer=0x7 expires=1050000 softexpires=1000000 mode={mode}");
        let at = Nanos(5);
        let cpu = Cpu(1);
        let by = Pid(pid);
        let format = 1;
        timers.other_event(&OtherEvent { at, cpu, by, format, arguments: &arguments });
    }

    #[test]
    fn a_timer_wakes_who_started_it_within_its_handler_only() {
        let mut timers = timers();
        assert_eq!([0, 1, 2].map(|format| timers.wants(format)), [false, true, false]);
        start(&mut timers, 7, "1");
        assert_eq!(timers.wakes(Pid(7), Cpu(1)), None, "no handler runs");
        timers.fires(Cpu(1), 2);
        let slack = Nanos(50_000);
        assert_eq!(timers.wakes(Pid(7), Cpu(1)), Some(Started { is_relative: true, slack }));
        assert_eq!(timers.wakes(Pid(8), Cpu(1)), None, "it started none");
        start(&mut timers, 8, "0");
        assert_eq!(timers.wakes(Pid(8), Cpu(1)), None, "within a handler it is a bystander");
        timers.fires(Cpu(1), 3);
        assert_eq!(timers.wakes(Pid(7), Cpu(1)), None);
    }

    #[test]
    fn the_mode_is_a_number_or_a_list_of_names() {
        let mut timers = timers();
        timers.fires(Cpu(0), 2);
        for (mode, wakes) in [("0", Some(false)), ("REL|SOFT", Some(true)), ("ABS", Some(false))] {
            start(&mut timers, 9, mode);
            assert_eq!(timers.wakes(Pid(9), Cpu(0)).map(|one| one.is_relative), wakes, "{mode}");
        }
        start(&mut timers, 10, "ABS|PINNED");
        start(&mut timers, 11, "2");
        assert_eq!([10, 11].map(|pid| timers.wakes(Pid(pid), Cpu(0))), [None, None]);
    }
}
