//! What the pool did, as events: kept per worker in memory that was reserved before, read when the run
//! is over, written as text or as JSON for Perfetto.

use crate::policy::Nanos;
use crate::run::Span;
use std::fmt::Write;

/// What happened in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// This many jobs were planned, which took this long.
    Plan {
        /// The number of planned jobs.
        jobs: u32,
        /// Time with the token.
        took_ns: Nanos,
    },
    /// The pull did the tick.
    Tick,
    /// A pull: this many jobs, and how far away the next start is (`None`: nothing is planned).
    Pull {
        /// How many it got.
        got: u32,
        /// The time to the next start; negative if it is due.
        head_in_ns: Option<i64>,
    },
    /// The token was taken; backing off ended.
    Contention {
        /// The ladder's level after that.
        level: u32,
        /// How long the worker backed off.
        took_ns: Nanos,
    },
    /// A sleep of the worker ended.
    Sleep {
        /// What was asked for.
        asked_ns: Nanos,
        /// How long the sleep was, in nanoseconds.
        got_ns: Nanos,
    },
    /// A sleeper was woken.
    Notify {
        /// The worker that was woken.
        worker: u32,
    },
    /// Jobs ran, one after the other.
    Jobs {
        /// The number of jobs that ran.
        count: u32,
        /// The time of all these jobs together, in nanoseconds.
        took_ns: Nanos,
    },
    /// The pool has another size now: a worker came, or ends.
    Size {
        /// How many there are.
        workers: u32,
    },
    /// A job of the worker panicked.
    Panic,
    /// The worker began its rounds.
    Begin,
    /// The worker ended its rounds.
    End,
}

/// An event: when it was over, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// On the pool's clock.
    pub time: Nanos,
    /// What happened at that time.
    pub what: What,
}

/// The events of a worker. When the memory is full, later events are counted, not kept.
#[derive(Clone, Debug, Default)]
pub struct Events {
    kept: Vec<Event>,
    lost: u64,
}

impl Events {
    /// A log with room for this many events; 0 switches the log off.
    pub fn with_capacity(events: usize) -> Self {
        Self { kept: Vec::with_capacity(events), lost: 0 }
    }

    /// Keeps an event if there is room for it.
    pub fn add(&mut self, time: Nanos, what: What) {
        if self.kept.len() < self.kept.capacity() {
            self.kept.push(Event { time, what });
        } else if self.kept.capacity() > 0 {
            self.lost += 1;
        }
    }

    /// Those of a thread that came later.
    pub(super) fn append(&mut self, later: Self) {
        self.kept.extend(later.kept);
        self.lost += later.lost;
    }

    /// In order of time.
    pub fn events(&self) -> &[Event] {
        &self.kept
    }

    /// How many did not fit.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// One line per event: time in microseconds, worker, what. Each job has a line of its own, when it ended.
pub fn text(workers: &[Events], jobs: &[Span]) -> String {
    let mut lines: Vec<(Nanos, usize, String)> = Vec::new();
    for (worker, events) in workers.iter().enumerate() {
        lines.extend(events.kept.iter().map(|event| (event.time, worker, say(event.what))));
    }
    lines.extend(jobs.iter().map(|job| {
        let said = format!("job {} took {} ns", job.node, job.end.saturating_sub(job.begin));
        (job.end, job.worker as usize, said)
    }));
    lines.sort();
    let mut text = String::new();
    for (time, worker, said) in lines {
        let _ = writeln!(text, "{:>12}.{:03} w{worker} {said}", time / 1000, time % 1000);
    }
    for (worker, events) in workers.iter().enumerate().filter(|(_, events)| events.lost > 0) {
        let _ = writeln!(text, "w{worker}: {} later events did not fit", events.lost);
    }
    text
}

fn say(what: What) -> String {
    match what {
        What::Plan { jobs, took_ns } => format!("plan {jobs} jobs in {took_ns} ns"),
        What::Tick => "tick".to_owned(),
        What::Pull { got, head_in_ns: None } => format!("pull {got}, nothing else planned"),
        What::Pull { got, head_in_ns: Some(ns) } => format!("pull {got}, head in {ns} ns"),
        What::Contention { level, took_ns } => {
            format!("contention level {level}, backed off {took_ns} ns")
        }
        What::Sleep { asked_ns, got_ns } => format!("slept {got_ns} ns, asked {asked_ns} ns"),
        What::Notify { worker } => format!("notify w{worker}"),
        What::Jobs { count, took_ns } => format!("ran {count} jobs in {took_ns} ns"),
        What::Size { workers } => format!("pool of {workers} workers"),
        What::Panic => "a job panicked".to_owned(),
        What::Begin => "begin".to_owned(),
        What::End => "end".to_owned(),
    }
}

/// The trace as Perfetto's (and Chrome's) JSON: a thread per worker, slices for what takes time, and in those of
/// the batches one for each job.
pub fn perfetto(workers: &[Events], jobs: &[Span]) -> String {
    let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for worker in 0..workers.len() {
        let _ = writeln!(
            text,
            "{{\"ph\":\"M\",\"pid\":1,\"tid\":{worker},\"name\":\"thread_name\",\"args\":{{\"name\":\"worker {worker}\"}}}},"
        );
    }
    for (worker, events) in workers.iter().enumerate() {
        for Event { time, what } in &events.kept {
            if let What::Size { workers } = what {
                let _ = writeln!(
                    text,
                    "{{\"ph\":\"C\",\"pid\":1,\"ts\":{},\"name\":\"pool size\",\"args\":{{\"workers\":{workers}}}}},",
                    us(*time)
                );
                continue;
            }
            let (name, took) = slice(*what);
            let (from, kind) = match took {
                Some(took) => (time.saturating_sub(took), format!("\"X\",\"dur\":{}", us(took))),
                None => (*time, "\"i\",\"s\":\"t\"".to_owned()),
            };
            let said = say(*what);
            let _ = writeln!(
                text,
                "{{\"ph\":{kind},\"pid\":1,\"tid\":{worker},\"ts\":{},\"name\":\"{name}\",\"args\":{{\"what\":\"{said}\"}}}},",
                us(from)
            );
        }
    }
    for job in jobs {
        let took = job.end.saturating_sub(job.begin);
        let _ = writeln!(
            text,
            "{{\"ph\":\"X\",\"dur\":{},\"pid\":1,\"tid\":{},\"ts\":{},\"name\":\"job {}\"}},",
            us(took),
            job.worker,
            us(job.begin),
            job.node
        );
    }
    text.push_str(
        "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"jobs\"}}\n]}\n",
    );
    text
}

fn slice(what: What) -> (&'static str, Option<Nanos>) {
    match what {
        What::Plan { took_ns, .. } => ("plan", Some(took_ns)),
        What::Sleep { got_ns, .. } => ("sleep", Some(got_ns)),
        What::Jobs { took_ns, .. } => ("jobs", Some(took_ns)),
        What::Tick => ("tick", None),
        What::Pull { .. } => ("pull", None),
        What::Contention { took_ns, .. } => ("contention", Some(took_ns)),
        What::Notify { .. } => ("notify", None),
        What::Size { .. } => ("size", None),
        What::Panic => ("panic", None),
        What::Begin => ("begin", None),
        What::End => ("end", None),
    }
}

/// Microseconds with three decimals, exactly.
fn us(ns: Nanos) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_counted() {
        let mut events = Events::with_capacity(2);
        (0..5).for_each(|time| events.add(time, What::Tick));
        assert_eq!((events.events().len() as u64, events.lost()), (2, 3));
        assert!(text(&[events], &[]).ends_with("w0: 3 later events did not fit\n"));
    }
}
