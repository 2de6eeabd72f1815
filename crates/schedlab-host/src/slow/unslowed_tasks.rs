//! Tasks that a method does not slow: of a class above that of its burners, or outside of its budget. A program
//! may make itself real-time at any moment (`chrt`, an audio server), so slowed tasks are looked at now and then.

use super::Method;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_sys::sched::{self, Policy};
use schedlab_sys::{clock, process};

/// The first look comes when a command has had the time to become what it will be.
const FIRST: Nanos = Nanos::from_millis(100);
/// Looks come at doubling distances up to this: each reads a file for every thread.
const LAST: Nanos = Nanos::from_secs(10);

/// Where this does not escape, nothing does.
const HIGHEST: Policy =
    Policy::Deadline { runtime: Nanos(1), deadline: Nanos(1), period: Nanos(1) };

/// Looks at the slowed tasks until it has found one that escapes, which it tells once.
#[derive(Debug)]
pub(super) struct Watch {
    method: Method,
    next: Nanos,
    pause: Nanos,
}

impl Watch {
    /// A watch that begins now, where there is anything to find.
    pub(super) fn new(method: Method) -> Self {
        let first = clock::monotonic() + FIRST;
        let next = if why(method, HIGHEST).is_some() { first } else { Nanos::MAX };
        Self { method, next, pause: FIRST }
    }

    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    pub(super) fn is_due(&self, now: Nanos) -> bool {
        now >= self.next
    }

    /// Looks for tasks that the method does not slow; a warning at the first find, then never again.
    pub(super) fn look(
        &mut self,
        now: Nanos,
        processes: &mut dyn Iterator<Item = Pid>,
    ) -> Option<Warning> {
        self.pause = Nanos(self.pause.0 * 2).min(LAST);
        self.next = now + self.pause;
        let found = warning(self.method, processes);
        if found.is_some() {
            self.next = Nanos::MAX;
        }
        found
    }
}

/// The warning for the first thread that a method does not slow.
pub(super) fn warning(method: Method, processes: &mut dyn Iterator<Item = Pid>) -> Option<Warning> {
    let escapes = |thread: &Pid| {
        let policy = sched::get(*thread).ok()?.policy;
        why(method, policy)
    };
    let (thread, why) = processes
        .flat_map(process::threads)
        .find_map(|thread| escapes(&thread).map(|why| (thread, why)))?;
    let name = name(thread).unwrap_or_default();
    Some(Warning::new(
        "realtime-task",
        format!("{name} (thread {thread}) is {why}, so it runs at full speed"),
        "run it without its real-time policy, or use --method freq (if there is a driver) or stop",
    ))
}

/// The name of a task; `None` if it has ended.
pub(super) fn name(task: Pid) -> Option<String> {
    let name = process::comm(task)?;
    Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
}

/// Why a policy escapes a method; `None` where it does not.
fn why(method: Method, policy: Policy) -> Option<&'static str> {
    let realtime = matches!(policy, Policy::Fifo { .. } | Policy::RoundRobin { .. });
    let deadline = matches!(policy, Policy::Deadline { .. });
    match method {
        // Of two of one priority the one that runs goes on.
        Method::Hogs => match policy {
            Policy::Fifo { priority } | Policy::RoundRobin { priority } if priority > 1 => {
                Some("real-time of a priority that hogs do not interrupt")
            }
            _ => deadline.then_some("a deadline task, above all hogs"),
        },
        Method::Deadline => deadline.then_some("a deadline task, as its burner is"),
        Method::Weight | Method::WeightPerCpu | Method::WeightPinned | Method::Quota => (realtime
            || deadline)
            .then_some("real-time, and weights and budgets are for fair tasks"),
        Method::Stop | Method::StopGroup | Method::Freq | Method::Gov => None,
        Method::Uclamp => deadline.then_some("a deadline task, whose clock is not clamped"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_the_burners_escapes() {
        let fifo = |priority| Policy::Fifo { priority };
        let ms = Nanos::from_millis;
        let deadline = Policy::Deadline { runtime: ms(1), deadline: ms(2), period: ms(2) };
        for (method, policy, escapes) in [
            (Method::Hogs, fifo(1), false),
            (Method::Hogs, fifo(2), true),
            (Method::Hogs, Policy::RoundRobin { priority: 9 }, true),
            (Method::Hogs, deadline, true),
            (Method::Hogs, Policy::Normal { nice: -20 }, false),
            (Method::Deadline, fifo(99), false),
            (Method::Deadline, deadline, true),
            (Method::Quota, fifo(1), true),
            (Method::Weight, Policy::Batch { nice: 0 }, false),
            (Method::Stop, fifo(99), false),
        ] {
            assert_eq!(why(method, policy).is_some(), escapes, "{method}, {policy:?}");
        }
    }

    #[test]
    fn looks_come_at_doubling_distances_until_one_is_found() {
        assert_eq!(Watch::new(Method::Stop).next(), Nanos::MAX, "nobody escapes a signal");
        let mut watch = Watch::new(Method::Hogs);
        let mut now = watch.next();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert!(watch.is_due(now));
            assert!(watch.look(now, &mut std::iter::empty()).is_none());
            pauses.push((watch.next() - now).0 / 1_000_000);
            now = watch.next();
        }
        assert_eq!(pauses, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    }
}
