//! A worker with the token asks for work: it gets jobs, or learns how to pass the time.

use super::agenda::Notice;
use super::load::{Capacity, LoadControl};
use super::record::{Criticality, Record, State};
use super::{Agenda, Emergency, JobId, NEVER, Nanos, Order};

/// A job that a worker may run now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled<J> {
    /// To be given back with its outcome.
    pub id: JobId,
    /// The job that was pulled.
    pub job: J,
    /// When it should have started.
    pub start: Nanos,
    /// How long it takes, as planned; 0: not known.
    pub expected_ns: Nanos,
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
    /// Run what was pulled.
    Run,
    /// A start is imminent: yield and ask again.
    Spin,
    /// Sleep until then, or until notified.
    Sleep {
        /// The time at which the worker wakes.
        until: Nanos,
    },
    /// End: the pool has become smaller by this worker.
    Retire,
}

/// The answer to a pull.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// What the worker does next.
    pub verdict: Verdict,
    /// Start of the earliest job that is left.
    pub head: Option<Nanos>,
    /// The number of a sleeping worker that must be woken; `None` if no other worker is needed.
    pub wake: Option<usize>,
    /// Whether the pull did the tick.
    pub ticked: bool,
    /// How many workers there are, where this pull changed that.
    pub size: Option<u32>,
}

impl<J> Agenda<J> {
    /// Takes due jobs for a worker into `into`, which must be empty. Workers to start are in [`Agenda::starts`].
    pub fn pull(&mut self, now: Nanos, asker: Asker, into: &mut Vec<Pulled<J>>) -> Pull {
        let arrived = self.arrive(asker.worker);
        if self.sleepers[asker.worker].take().is_some() {
            self.load.untend(asker.worker);
        }
        // A clock that was set back must not put off the tick for as long.
        self.tick = self.tick.min(now.saturating_add(self.policy.tick_ns));
        let ticked = now >= self.tick;
        if ticked {
            self.maintain(now);
        }
        if self.policy.order != Order::Start {
            self.lines.compulsory.ripen(&self.policy, &self.epochs, now);
            self.lines.others.ripen(&self.policy, &self.epochs, now);
        }
        let first = self.head(now);
        let room = self.share();
        let mut ahead_ns = 0;
        while into.len() < room {
            let Some(pulled) = self.take_due(now) else { break };
            ahead_ns += pulled.expected_ns;
            into.push(pulled);
        }
        // What is sorted by another rule than by start knows its start only when it is taken.
        if let Some(start) = into.first().map(|pulled| pulled.start).or(first) {
            self.load.sample(&self.policy, now as i64 - start as i64);
        }
        let head = self.head(now);
        let verdict = if into.is_empty() { self.rest(now, asker, head) } else { Verdict::Run };
        let wake = self.whom_to_wake(now, head, verdict);
        if wake.is_none() {
            self.grow(now, head, ahead_ns, ticked);
        }
        let left = (verdict == Verdict::Retire).then(|| self.staff.filled());
        Pull { verdict, head, wake, ticked, size: left.or(arrived) }
    }

    /// A sleeper to wake because of what was posted since, if one is needed.
    pub fn wake(&mut self, now: Nanos) -> Option<usize> {
        let head = self.head(now);
        let wake = self.whom_to_wake(now, head, Verdict::Run);
        if wake.is_none() {
            let late_ns = head.map_or(0, |head| now.saturating_sub(head));
            self.grow(now, head, late_ns, false);
        }
        wake
    }

    /// Start of the earliest job that may start then; `None` without jobs. A job that is due and
    /// sorted by another rule counts as due now.
    pub fn head(&mut self, now: Nanos) -> Option<Nanos> {
        let stale =
            self.lines.compulsory.discard(&self.epochs) + self.lines.others.discard(&self.epochs);
        self.stale = self.stale.saturating_sub(stale);
        let first = self.lines.compulsory.head(now);
        let others = self.lines.others.head(now);
        first.map_or(others, |first| Some(others.map_or(first, |others| first.min(others))))
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
            let Some(record) = self.epochs.get(id).filter(|r| r.state == State::Queued) else {
                self.stale = self.stale.saturating_sub(1);
                continue;
            };
            let (deadline, start) = (record.deadline, record.start);
            if (now > deadline || self.in_emergency) && !self.still_wanted(now, id) {
                continue;
            }
            let record = self.epochs.get_mut(id)?;
            record.state = State::Running;
            let (job, expected_ns) = (record.job.take()?, record.expected_ns);
            return Some(Pulled { id, job, start, expected_ns });
        }
    }

    /// Whether a job that is late, or any during an emergency, shall still run. If not, it is dealt with.
    fn still_wanted(&mut self, now: Nanos, id: JobId) -> bool {
        let Some(record) = self.epochs.get_mut(id) else { return false };
        let late_ns = now.saturating_sub(record.deadline);
        let (stream, criticality) = (record.stream, record.criticality);
        if late_ns == 0 {
            return self.wanted_in_emergency(id, criticality);
        }
        if criticality < Criticality::Compulsory {
            self.counts.missed += 1;
            // It has left the queue already, so nothing stale stays behind.
            record.state = State::Waiting;
            self.drop_job(id);
            return false;
        }
        if !std::mem::replace(&mut record.told, true) {
            self.counts.emergencies += 1;
            let id = self.names.name(id);
            self.notices.push(Notice::Emergency { id, stream, late_ns });
        }
        self.in_emergency = true;
        if self.policy.emergency == Emergency::Drop {
            self.counts.missed += 1;
            if let Some(record) = self.epochs.get_mut(id) {
                record.state = State::Waiting;
            }
            self.drop_job(id);
            return false;
        }
        true
    }

    fn wanted_in_emergency(&mut self, id: JobId, criticality: Criticality) -> bool {
        match self.policy.emergency {
            Emergency::Shed if criticality == Criticality::Optional => {
                self.counts.shed += 1;
                if let Some(record) = self.epochs.get_mut(id) {
                    record.state = State::Waiting;
                }
                self.drop_job(id);
                false
            }
            _ => true,
        }
    }

    /// The tick: ends what cannot start any more, recycles memory, ends an emergency.
    fn maintain(&mut self, now: Nanos) {
        self.tick = now + self.policy.tick_ns;
        // Gates that never opened would wait for ever.
        for id in self.epochs.ids(Some(now)) {
            let waits =
                |r: &Record<J>| r.state == State::Waiting && r.pending > 0 && r.deadline < now;
            if self.epochs.get(id).is_some_and(waits) {
                self.counts.missed += 1;
                self.drop_job(id);
            }
        }
        self.compact();
        self.epochs.close(now);
        if self.in_emergency && self.calm(now) {
            self.in_emergency = false;
            self.notices.push(Notice::Calm);
        }
    }

    /// Whether the earliest job is not late by more than a tick, so that the paused may join.
    fn calm(&mut self, now: Nanos) -> bool {
        let tick = self.policy.tick_ns;
        self.head(now).is_none_or(|head| head.saturating_add(tick) > now)
    }

    fn rest(&mut self, now: Nanos, asker: Asker, head: Option<Nanos>) -> Verdict {
        let worker = asker.worker;
        match self.load.classify(&self.policy, now, head, asker.from_work) {
            _ if asker.idle_ns < self.policy.linger_ns => Verdict::Spin,
            Capacity::Dispatch | Capacity::Spin => Verdict::Spin,
            Capacity::WorkTime | Capacity::Idle if self.retire(worker, asker.idle_ns) => {
                Verdict::Retire
            }
            capacity => {
                let delay = match head {
                    // Somebody will be called when there is something; the timer is for lost calls.
                    None if self.policy.notify => 10 * self.policy.sleep_horizon_ns,
                    _ => self.load.delay(&self.policy, now, head, capacity, worker),
                };
                // Nobody may sleep past the tick while there is something to maintain.
                let limit = if self.epochs.live() > 0 { self.tick.max(now + 1) } else { NEVER };
                let until = now.saturating_add(delay.max(1)).min(limit);
                self.sleepers[worker] = Some(until);
                Verdict::Sleep { until }
            }
        }
    }

    /// One sleeper, if the head is due, or will be before anyone wakes.
    fn whom_to_wake(&mut self, now: Nanos, head: Option<Nanos>, verdict: Verdict) -> Option<usize> {
        if !self.policy.notify || verdict != Verdict::Run {
            return None;
        }
        let head = head?;
        let distance = LoadControl::distance(&self.policy, now, Some(head));
        let due = distance == super::load::Distance::Due;
        if !due {
            let tended = self.sleepers.iter().flatten().any(|&until| until <= head);
            if tended {
                return None;
            }
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
