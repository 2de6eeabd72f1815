//! The comparison of displacements and of who runs next.

use super::{Count, Difference, Follower, Kind};
use crate::policy_view::TaskId;
use schedlab_model::{Left, Nanos};

/// The policy would displace a CPU's task, and the recording has not yet shown whether it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    at: u64,
    by: Cause,
    /// Whether the policy's state of all that decided it follows from the recording.
    sure: bool,
    /// Whether the policy would look and find its own task again.
    finds_itself: bool,
}

/// Why a kernel looks for another task than the one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    Wakeup(TaskId),
    Tick,
    /// The running task ends, and leaves its session's group.
    End,
    /// A call that the recording does not hold.
    Call,
}

const PAST: &str = "a task's past is not known";
const QUEUES: &str = "the model cannot follow the queues of several CPUs on this kernel";
const CALL: &str = "a call that the recording does not hold asked for a new choice";

impl Pending {
    /// A call that the recording does not hold may have asked for a new choice.
    pub(super) const fn of_a_call(at: u64) -> Self {
        Self { at, by: Cause::Call, sure: false, finds_itself: false }
    }
}

impl Follower<'_> {
    pub(super) fn count(&mut self, kind: Kind) -> &mut Count {
        self.comparison.counts.entry(kind).or_default()
    }

    /// A decision is not compared.
    pub(super) fn skip(&mut self, kind: Kind, why: &'static str) {
        self.count(kind).skipped += 1;
        *self.comparison.reasons.entry((kind, why)).or_default() += 1;
    }

    /// The policy would displace the task of `cpu`.
    pub(super) fn expect(&mut self, cpu: usize, by: Cause) {
        let finds_itself = self.policy.would_pick(cpu) == self.scene.cpus[cpu].running;
        // A CPU that looks and finds its own task again shows nothing. In a recording with charges it may show one.
        if !self.is_told() && finds_itself {
            self.policy.pick(&self.scene, cpu);
            return;
        }
        self.scene.cpus[cpu].resched = true;
        let (at, sure) = (self.scene.now, self.is_sure(cpu));
        self.pending[cpu].get_or_insert(Pending { at, by, sure, finds_itself });
    }

    /// Why the state of a CPU's tasks is not known.
    const fn why_unknown(&self) -> &'static str {
        if self.queues_unknown { QUEUES } else { PAST }
    }

    /// Whether the policy's state of all tasks of a CPU follows from the recording.
    pub(super) fn is_sure(&self, cpu: usize) -> bool {
        if self.queues_unknown {
            return false;
        }
        if self.is_held() {
            return self.queue_known[cpu];
        }
        let waiting = self.policy.queued(cpu);
        let mut all = waiting.iter().chain(&self.scene.cpus[cpu].running);
        all.all(|task| self.known[task.index()].sure)
    }

    /// The ticks that come up to `until`.
    pub(super) fn ticks_until(&mut self, until: u64) {
        while let Some(at) = self.next_tick.filter(|&at| at <= until) {
            self.scene.now = at;
            for cpu in 0..self.scene.cpus.len() {
                // Charges tell the ticks of busy CPUs.
                let ticks = !self.is_told() && self.scene.cpus[cpu].running.is_some();
                if ticks && self.policy.tick(&self.scene, cpu) {
                    self.expect(cpu, Cause::Tick);
                }
            }
            self.policy.observe(&self.scene);
            self.next_tick = Some(at + self.following.tick_ns);
        }
    }

    /// The running task leaves its CPU: was it displaced, and would the policy have done so? Returns whether they
    /// agree.
    pub(super) fn judge_displacement(
        &mut self,
        cpu: usize,
        task: TaskId,
        left: Left,
        next: Option<TaskId>,
        compared: bool,
    ) -> bool {
        let pending = self.pending[cpu].take();
        if !compared || !self.is_sure(cpu) || pending.is_some_and(|pending| !pending.sure) {
            let by_call = pending.is_some_and(|pending| pending.by == Cause::Call);
            let why = match (compared, by_call) {
                (false, _) => "another class runs next, or the next task was not seen before",
                (_, true) => CALL,
                _ => self.why_unknown(),
            };
            self.skip(Kind::Displacement, why);
            return true;
        }
        let now = self.scene.now;
        let different = self.count(Kind::Displacement).different;
        let called = self.called[cpu].is_some_and(|at| now - at <= self.following.grace_ns);
        match (left.is_runnable(), pending) {
            (true, None) if called => self.skip(Kind::Displacement, CALL),
            (true, Some(_)) => self.count(Kind::Displacement).same += 1,
            (true, None) => {
                // Without a phase the tick may have come just now.
                let unknown = !self.is_told() && self.following.phase_ns.is_none();
                if unknown && self.policy.tick(&self.scene, cpu) {
                    self.count(Kind::Displacement).same += 1;
                    return true;
                }
                let who = next.map_or("a task of another class".to_owned(), |next| self.name(next));
                let recorded = format!("{} is displaced by {who}", self.name(task));
                self.differs(
                    cpu,
                    Kind::Displacement,
                    recorded,
                    format!("{} goes on", self.name(task)),
                );
            }
            // The kernel looked at once, without another charge (`rq_clock_skip_update`), and found its own task again.
            (false, Some(Pending { by: Cause::Wakeup(_), finds_itself: true, .. })) => {
                self.count(Kind::Displacement).same += 1;
            }
            // The kernel looked, or would have, and found its own task again.
            (false, Some(_)) if self.is_told() && self.policy.would_pick(cpu) == Some(task) => {
                self.count(Kind::Displacement).same += 1;
            }
            // The way out of a process has few points at which it can be displaced.
            (false, Some(Pending { by: Cause::End, .. })) if left == Left::Dead => {}
            (false, Some(_)) if left == Left::Dead => {
                self.skip(Kind::Displacement, "the task ended first");
            }
            (false, Some(pending)) if now - pending.at > self.following.grace_ns => {
                let cause = match pending.by {
                    Cause::Wakeup(by) => format!("when {} wakes", self.name(by)),
                    Cause::Tick => "at the tick".to_owned(),
                    Cause::End => "when it ends".to_owned(),
                    Cause::Call => "at a call".to_owned(),
                };
                let earlier = (now - pending.at) as f64 / 1e3;
                let recorded = format!("{} runs until it sleeps", self.name(task));
                let model =
                    format!("{} is displaced {earlier:.1} µs earlier, {cause}", self.name(task));
                self.differs(cpu, Kind::Displacement, recorded, model);
            }
            (false, Some(_)) => self.skip(Kind::Displacement, "the task slept first"),
            (false, None) => self.count(Kind::Displacement).same += 1,
        }
        self.count(Kind::Displacement).different == different
    }

    /// The recording says who runs next. `stays`: the task that was displaced. `agrees`: so the policy would have.
    pub(super) fn judge_next(
        &mut self,
        cpu: usize,
        stays: Option<TaskId>,
        next: Option<TaskId>,
        agrees: bool,
    ) {
        let sure = self.is_sure(cpu);
        let choice = self.policy.waiting(cpu).len() + usize::from(stays.is_some());
        let model = self.policy.pick(&self.scene, cpu);
        if choice < 2 && model == next {
            return;
        }
        // That it was displaced has been judged.
        let judged = stays.is_some() && model == stays && !(self.is_told() && agrees);
        if !sure || judged {
            let why = if sure { "the displacement was judged" } else { self.why_unknown() };
            self.skip(Kind::Next, why);
        } else if model == next {
            self.count(Kind::Next).same += 1;
        } else {
            let words = |task: Option<TaskId>| {
                task.map_or("the CPU idles".to_owned(), |task| format!("{} runs", self.name(task)))
            };
            let (recorded, model) = (words(next), words(model));
            self.differs(cpu, Kind::Next, recorded, model);
        }
    }

    pub(super) fn differs(&mut self, cpu: usize, kind: Kind, recorded: String, model: String) {
        self.count(kind).different += 1;
        let running = self.scene.cpus[cpu].running;
        let mut queue = self.policy.waiting(cpu);
        queue.retain(|task| Some(*task) != running);
        let line = |task: TaskId| {
            let how = if Some(task) == running { "runs" } else { "waits" };
            let standing = self.policy.standing(cpu, task).unwrap_or_default();
            format!("{} {how}: {standing}", self.name(task))
        };
        let state = running.into_iter().chain(queue).map(line).collect();
        let at = Nanos(self.scene.now);
        let event = self.event;
        let found = Difference { at, cpu, kind, recorded, model, state, event };
        self.comparison.differences.push(found);
    }
}
