//! The comparison of displacements and of who runs next.

use super::{Count, Difference, Follower, Kind};
use crate::policy_view::TaskId;
use schedlab_model::{Left, Nanos};

/// The policy would displace a CPU's task, and the recording has not yet shown whether it was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    at: u64,
    /// Who woke; `None`: the tick came.
    by: Option<TaskId>,
    /// Whether the policy's state of all that decided it follows from the recording.
    sure: bool,
}

impl Follower<'_> {
    pub(super) fn count(&mut self, kind: Kind) -> &mut Count {
        self.comparison.counts.entry(kind).or_default()
    }

    /// The policy would displace the task of `cpu`, because `by` woke or the tick came.
    pub(super) fn expect(&mut self, cpu: usize, by: Option<TaskId>) {
        let running = self.scene.cpus[cpu].running;
        // A CPU that looks and finds its own task again shows nothing.
        if self.policy.would_pick(cpu) == running {
            self.policy.pick(&self.scene, cpu);
            return;
        }
        self.scene.cpus[cpu].resched = true;
        let (at, sure) = (self.scene.now, self.is_sure(cpu));
        self.pending[cpu].get_or_insert(Pending { at, by, sure });
    }

    /// Whether the policy's state of all tasks of a CPU follows from the recording.
    pub(super) fn is_sure(&self, cpu: usize) -> bool {
        let waiting = self.policy.waiting(cpu);
        let mut all = waiting.iter().chain(&self.scene.cpus[cpu].running);
        all.all(|task| self.known[task.index()].sure)
    }

    /// The ticks that come up to `until`.
    pub(super) fn ticks_until(&mut self, until: u64) {
        while let Some(at) = self.next_tick.filter(|&at| at <= until) {
            self.scene.now = at;
            for cpu in 0..self.scene.cpus.len() {
                if self.scene.cpus[cpu].running.is_some() && self.policy.tick(&self.scene, cpu) {
                    self.expect(cpu, None);
                }
            }
            self.policy.observe(&self.scene);
            self.next_tick = Some(at + self.following.tick_ns);
        }
    }

    /// The running task leaves its CPU: was it displaced, and would the policy have done so?
    pub(super) fn judge_displacement(
        &mut self,
        cpu: usize,
        task: TaskId,
        left: Left,
        next: Option<TaskId>,
        compared: bool,
    ) {
        let pending = self.pending[cpu].take();
        if !compared || !self.is_sure(cpu) || pending.is_some_and(|pending| !pending.sure) {
            self.count(Kind::Displacement).skipped += 1;
            return;
        }
        let now = self.scene.now;
        match (left.is_runnable(), pending) {
            (true, Some(_)) => self.count(Kind::Displacement).same += 1,
            (true, None) => {
                // Without a phase the tick may have come just now.
                if self.following.phase_ns.is_none() && self.policy.tick(&self.scene, cpu) {
                    return self.count(Kind::Displacement).same += 1;
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
            (false, Some(pending)) if left == Left::Dead => {
                // The way out of a process has few points at which it can be displaced.
                let _ = pending;
                self.count(Kind::Displacement).skipped += 1;
            }
            (false, Some(pending)) if now - pending.at > self.following.grace_ns => {
                let cause = match pending.by {
                    Some(by) => format!("when {} wakes", self.name(by)),
                    None => "at the tick".to_owned(),
                };
                let earlier = (now - pending.at) as f64 / 1e3;
                let recorded = format!("{} runs until it sleeps", self.name(task));
                let model =
                    format!("{} is displaced {earlier:.1} µs earlier, {cause}", self.name(task));
                self.differs(cpu, Kind::Displacement, recorded, model);
            }
            (false, Some(_)) => self.count(Kind::Displacement).skipped += 1,
            (false, None) => self.count(Kind::Displacement).same += 1,
        }
    }

    /// The recording says who runs next.
    pub(super) fn judge_next(
        &mut self,
        cpu: usize,
        prev: Option<TaskId>,
        left: Left,
        next: Option<TaskId>,
    ) {
        let sure = self.is_sure(cpu);
        let stays = prev.filter(|_| left.is_runnable());
        let model = self.policy.pick(&self.scene, cpu);
        // That it was displaced has been judged.
        if !sure || (stays.is_some() && model == stays) {
            self.count(Kind::Next).skipped += 1;
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
        if self.comparison.first.is_some() {
            return;
        }
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
        self.comparison.first = Some(Difference { at, cpu, kind, recorded, model, state, event });
    }
}
