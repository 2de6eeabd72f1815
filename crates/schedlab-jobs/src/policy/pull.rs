//! A worker with the token asks for work: it gets jobs, or learns how to pass the time.

use super::load::{Capacity, Distance, LoadControl};
use super::record::{Criticality, JobId, State};
use super::{Agenda, Emergency, NEVER, Nanos, Order};

/// A job that a worker may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled<J> {
    /// To be given back with its outcome.
    pub id: JobId,
    pub job: J,
}

/// The worker that asks for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asker {
    /// The worker, from 0.
    pub worker: usize,
    /// How long ago its last job ended.
    pub idle_ns: Nanos,
    /// Whether it has not slept since.
    pub from_work: bool,
}

/// What a worker is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Run,
    /// A start is imminent: yield and ask again.
    Spin,
    /// Sleep until then, or until notified.
    Sleep {
        /// The time at which the worker wakes.
        until: Nanos,
    },
}

/// The answer to a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// What the worker does next.
    pub verdict: Verdict,
    /// The number of a sleeping worker that must be woken; `None` if no other worker is needed.
    pub wake: Option<usize>,
}

impl<J> Agenda<J> {
    /// Takes due jobs for a worker into `into`, which must be empty.
    pub fn pull(&mut self, now: Nanos, asker: Asker, into: &mut Vec<Pulled<J>>) -> Pull {
        if self.sleepers[asker.worker].take().is_some() {
            self.load.untend(asker.worker);
        }
        // A clock that was set back must not put off the tick for as long.
        self.tick = self.tick.min(now.saturating_add(self.policy.tick_ns));
        if now >= self.tick {
            self.tick = now + self.policy.tick_ns;
            self.in_emergency &= !self.is_calm(now);
        }
        if self.policy.order != Order::Start {
            self.lines.compulsory.ripen(&self.policy, &self.records, now);
            self.lines.others.ripen(&self.policy, &self.records, now);
        }
        let room = self.share();
        while into.len() < room {
            let Some(pulled) = self.take_due(now) else { break };
            into.push(pulled);
        }
        let head = self.head(now);
        let verdict = if into.is_empty() { self.rest(now, asker, head) } else { Verdict::Run };
        let wake = if verdict == Verdict::Run { self.wake(now) } else { None };
        Pull { verdict, wake }
    }

    /// Start of the earliest job that may start then; `None` without jobs. A job that is due and
    /// sorted by another rule counts as due now.
    pub(crate) fn head(&self, now: Nanos) -> Option<Nanos> {
        let first = self.lines.compulsory.head(now);
        let others = self.lines.others.head(now);
        first.into_iter().chain(others).min()
    }

    /// How many jobs one pull may take: while compulsory ones are planned, one. Several would
    /// keep a worker from the next compulsory job for longer than one of them.
    fn share(&self) -> usize {
        if self.lines.compulsory.len() > 0 {
            return 1;
        }
        let fair = self.lines.others.due(self.policy.order) / (2 * self.policy.workers);
        let batch = self.policy.batch_ns / self.job_ns.max(1);
        fair.min(batch as usize).min(self.policy.batch_max).max(1)
    }

    fn take_due(&mut self, now: Nanos) -> Option<Pulled<J>> {
        loop {
            let order = self.policy.order;
            let compulsory = self.lines.compulsory.pop(order, now);
            let id = compulsory.or_else(|| self.lines.others.pop(order, now))?;
            let record = self.records.get(id)?;
            if (now > record.deadline || self.in_emergency) && !self.is_still_wanted(now, id) {
                self.drop_job(id);
                continue;
            }
            let record = self.records.get_mut(id)?;
            record.state = State::Running;
            return Some(Pulled { id, job: record.job.take()? });
        }
    }

    /// Whether a job that is late, or any during an emergency, shall still run.
    fn is_still_wanted(&mut self, now: Nanos, id: JobId) -> bool {
        let Some(record) = self.records.get(id) else { return false };
        let (is_late, criticality) = (now > record.deadline, record.criticality);
        if !is_late {
            let shed =
                self.policy.emergency == Emergency::Shed && criticality == Criticality::Optional;
            self.counts.shed += u64::from(shed);
            return !shed;
        }
        let is_emergency = criticality == Criticality::Compulsory;
        self.counts.emergencies += u64::from(is_emergency);
        self.in_emergency |= is_emergency;
        let runs = is_emergency && self.policy.emergency != Emergency::Drop;
        self.counts.missed += u64::from(!runs);
        runs
    }

    /// Whether the earliest job is not late by more than a tick, so that what was shed may join again.
    fn is_calm(&self, now: Nanos) -> bool {
        let tick = self.policy.tick_ns;
        self.head(now).is_none_or(|head| head.saturating_add(tick) > now)
    }

    fn rest(&mut self, now: Nanos, asker: Asker, head: Option<Nanos>) -> Verdict {
        let worker = asker.worker;
        match self.load.classify(&self.policy, now, head, asker.from_work) {
            _ if asker.idle_ns < self.policy.linger_ns => Verdict::Spin,
            Capacity::Dispatch | Capacity::Spin => Verdict::Spin,
            capacity => {
                let delay = match head {
                    // Somebody will be called when there is something; the timer is for lost calls.
                    None if self.policy.notify => 10 * self.policy.sleep_horizon_ns,
                    _ => self.load.delay(&self.policy, now, head, capacity, worker),
                };
                // Nobody may sleep past the tick while there is something to maintain.
                let limit = if self.records.live() > 0 { self.tick.max(now + 1) } else { NEVER };
                let until = now.saturating_add(delay.max(1)).min(limit);
                self.sleepers[worker] = Some(until);
                Verdict::Sleep { until }
            }
        }
    }

    /// A sleeper to wake, if the earliest job is due, or will be before anyone wakes.
    pub(crate) fn wake(&mut self, now: Nanos) -> Option<usize> {
        if !self.policy.notify {
            return None;
        }
        let head = self.head(now)?;
        if LoadControl::distance(&self.policy, now, Some(head)) != Distance::Due
            && self.sleepers.iter().flatten().any(|&until| until <= head)
        {
            return None;
        }
        // The one that would sleep longest is the one that is needed least where it is.
        let (worker, _) = self
            .sleepers
            .iter()
            .enumerate()
            .filter_map(|(worker, until)| until.map(|until| (worker, until)))
            .max_by_key(|&(_, until)| until)?;
        self.sleepers[worker] = None;
        // It may get other work, or find nothing due, and so must not count as waiting for a start.
        self.load.untend(worker);
        Some(worker)
    }
}
