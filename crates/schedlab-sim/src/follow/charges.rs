//! What the recorded kernel charged its tasks (`sched_stat_runtime`): its own times and virtual times.
//!
//! Linux 6.1 logs each charge with the virtual time after it. So a recording tells where a task stood in the queue
//! before its next run, and the follower takes over this place. Linux 6.12 logs the time only.

use super::decide::{Cause, Pending};
use super::{Follower, Kind, Stand};
use crate::policy::{Arrival, Charge};
use crate::policy_view::TaskId;
use schedlab_model::{Context, Event, Pid, Prio, What};
use std::collections::BTreeMap;

/// A charge in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    /// The event that tells it, by its number in the recording.
    pub event: usize,
    /// The task that ran.
    pub pid: Pid,
    /// What it was charged.
    pub charge: Charge,
}

impl Charged {
    /// Reads the arguments of the tracepoint; `None`: the task or the time is missing.
    #[must_use]
    pub fn read(event: usize, arguments: &str) -> Option<Self> {
        // The name of the task comes first and may hold anything.
        let of = |field: &str| {
            let word = arguments.rsplit(' ').find_map(|word| word.strip_prefix(field))?;
            word.strip_prefix('=')?.parse::<u64>().ok()
        };
        let pid = Pid(i32::try_from(of("pid")?).ok()?);
        let charge =
            Charge { time: of("runtime")?, vruntime: of("vruntime").map(u64::cast_signed) };
        Some(Self { event, pid, charge })
    }
}

/// A task that waits when the recording begins.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    pid: Pid,
    prio: Prio,
    cpu: usize,
    charge: Charge,
    /// The event at which it begins to run.
    event: usize,
}

/// The charges of a recording, and what they tell of the time before them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// The charges, by the number of their event.
    at: BTreeMap<usize, Charged>,
    /// The next charge of a task that wakes or begins to run, by that event.
    ahead: BTreeMap<usize, Charge>,
    from_the_start: Vec<Waiting>,
    /// The priority that the next event of a charged task tells, by the charge's event.
    prios: BTreeMap<usize, Prio>,
    /// The last charge of each task up to now.
    last: BTreeMap<Pid, Charge>,
}

impl Ledger {
    pub(super) fn of(events: &[Event], charges: &[Charged]) -> Self {
        let at: BTreeMap<usize, Charged> = charges.iter().map(|of| (of.event, *of)).collect();
        let (mut ahead, mut next) = (BTreeMap::new(), BTreeMap::new());
        let (mut prios, mut prio_of) = (BTreeMap::new(), BTreeMap::new());
        for (index, event) in events.iter().enumerate().rev() {
            match event.what {
                What::Other { .. } => {
                    if let Some(of) = at.get(&index) {
                        next.insert(of.pid, of.charge);
                        prio_of.get(&of.pid).map(|prio| prios.insert(index, *prio));
                    }
                }
                What::Wakeup { pid, .. } => {
                    next.get(&pid).map(|charge| ahead.insert(index, *charge));
                }
                What::Switch { prev, prev_prio, next: pid, .. } => {
                    prio_of.insert(prev, prev_prio);
                    next.get(&pid).map(|charge| ahead.insert(index, *charge));
                }
                // Each CPU has a virtual time of its own.
                What::Migrate { pid, .. } => drop(next.remove(&pid)),
                What::Fork { child } => drop(next.remove(&child)),
                _ => {}
            }
        }
        let from_the_start = waiting(events, &ahead);
        Self { at, ahead, from_the_start, prios, last: BTreeMap::new() }
    }
}

/// The tasks that run without having been seen before: they waited when the recording began.
fn waiting(events: &[Event], ahead: &BTreeMap<usize, Charge>) -> Vec<Waiting> {
    let (mut seen, mut found) = (std::collections::BTreeSet::new(), Vec::new());
    for (index, event) in events.iter().enumerate() {
        match event.what {
            What::Switch { prev, next, next_prio, .. } => {
                seen.insert(prev);
                let fresh = seen.insert(next) && !next.is_idle() && next_prio.0 >= 100;
                if let Some(&charge) = ahead.get(&index).filter(|_| fresh) {
                    let cpu = event.cpu.index();
                    found.push(Waiting { pid: next, prio: next_prio, cpu, charge, event: index });
                }
            }
            What::Waking { pid, .. } | What::Wakeup { pid, .. } => drop(seen.insert(pid)),
            What::Fork { child } => drop(seen.insert(child)),
            _ => drop(seen.insert(event.by)),
        }
    }
    found
}

impl Follower<'_> {
    /// Takes over what a recording tells of charges; without any, time is charged as it passes.
    pub(super) fn reads_ledger(&mut self, events: &[Event], charges: &[Charged]) {
        if charges.is_empty() || !self.policy.listens() {
            return;
        }
        let ledger = Ledger::of(events, charges);
        let waiting = ledger.from_the_start.clone();
        self.ledger = Some(ledger);
        let cpus = self.current.len();
        for of in waiting.into_iter().filter(|of| of.cpu < cpus) {
            let task = self.task(of.pid, of.prio, of.cpu);
            let held = self.held.get(&of.event).into_iter().flatten();
            if let Some(held) = held.copied().find(|held| held.pid == of.pid) {
                self.waited(of.cpu, task, &held);
                continue;
            }
            self.known[task.index()].stand = Stand::Queued;
            self.policy.enqueue(&self.scene, of.cpu, task, Arrival::Woken);
            self.stood(of.cpu, task, of.charge);
        }
    }

    /// Whether the recording tells charges.
    pub(super) const fn is_told(&self) -> bool {
        self.ledger.is_some()
    }

    fn stood(&mut self, cpu: usize, task: TaskId, charge: Charge) {
        if let Some(vruntime) = self.policy.before(task, charge) {
            self.policy.adopt(cpu, task, vruntime, false);
            self.known[task.index()].sure = true;
        }
    }

    /// The task ran when the recording began: its last charge says where it stands.
    pub(super) fn found_by_charge(&mut self, cpu: usize, task: TaskId) {
        let pid = self.known[task.index()].pid;
        let last = self.ledger.as_ref().and_then(|ledger| ledger.last.get(&pid));
        if let Some(vruntime) = last.and_then(|charge| charge.vruntime) {
            self.policy.adopt(cpu, task, vruntime, false);
            self.known[task.index()].sure = true;
        }
    }

    /// A task was put into a queue: its next charge says where. `before`: its virtual time in its sleep.
    pub(super) fn was_placed(
        &mut self,
        cpu: usize,
        task: TaskId,
        arrival: Arrival,
        before: Option<i64>,
    ) {
        let known = self.known[task.index()].sure;
        let ahead = self.ledger.as_ref().and_then(|ledger| ledger.ahead.get(&self.event)).copied();
        let recorded = ahead.and_then(|charge| self.policy.before(task, charge));
        let (Some(recorded), Some(model)) = (recorded, self.policy.vruntime(task)) else {
            // It never runs in the rest of the recording.
            self.known[task.index()].sure = known && self.least_known[cpu];
            return;
        };
        let sure = known && self.least_known[cpu];
        let credited = arrival == Arrival::Woken && known && before.is_some_and(|of| recorded > of);
        if !sure {
            self.skip(Kind::Place, "the queue's least vruntime or the task's own is not known");
        } else if model == recorded {
            self.count(Kind::Place).same += 1;
        } else {
            let words = |vruntime: i64| {
                format!("{} is placed at a vruntime of {vruntime} ns", self.name(task))
            };
            let (recorded, model) = (words(recorded), words(model));
            self.differs(cpu, Kind::Place, recorded, model);
        }
        self.policy.adopt(cpu, task, recorded, credited);
        self.least_known[cpu] |= credited;
        self.known[task.index()].sure = true;
    }

    /// The recorded kernel charged a task.
    pub(super) fn is_charged(&mut self, events: &[Event]) {
        let Some(ledger) = &mut self.ledger else { return };
        let Some(of) = ledger.at.get(&self.event).copied() else { return };
        ledger.last.insert(of.pid, of.charge);
        let Some(&task) = self.ids.get(&of.pid) else { return };
        let cpu = self.scene.tasks[task.index()].cpu;
        if self.scene.cpus[cpu].running != Some(task) {
            return;
        }
        let sure = self.known[task.index()].sure;
        let reniced = self.renices(cpu, task, of.charge);
        let shift = self.policy.requeue_shift(cpu);
        let beyond = self.policy.charge(&self.scene, cpu, of.charge);
        let moved = |beyond: i64| match self.is_held() {
            true => beyond == shift || reniced || self.has_another_slice(task, of.pid),
            false => beyond > 0 && (beyond == shift || !self.least_known[cpu]),
        };
        match beyond.filter(|_| sure) {
            Some(beyond) if beyond != 0 && moved(beyond) => {
                // A call took it out of the queue and put it back, and may have asked for a new choice.
                self.skip(Kind::Charge, "a call took the task out of its queue and put it back");
                self.pending[cpu].get_or_insert(Pending::of_a_call(self.scene.now));
            }
            Some(0) => self.count(Kind::Charge).same += 1,
            Some(beyond) => {
                let recorded = format!(
                    "{} is charged {} ns, and its vruntime is {beyond} ns beyond the model's",
                    self.name(task),
                    of.charge.time
                );
                self.differs(cpu, Kind::Charge, recorded, "the charge is all".to_owned());
            }
            None if beyond.is_some() => self.skip(Kind::Charge, "the task's past is not known"),
            None => {}
        }
        self.known[task.index()].sure |= beyond.is_some();
        self.holds_after_charge(cpu, task, of.pid, sure);
        self.acts_on_charge(events, cpu);
    }

    /// A task ends (`do_exit`): it leaves its session's group, which asks for a new choice (`sched_move_task`).
    pub(super) fn exits(&mut self, cpu: usize, pid: Pid) {
        let task = self.ids.get(&pid).copied();
        self.exiting[cpu] = task.filter(|task| self.scene.cpus[cpu].running == Some(*task));
    }

    /// A call changed the priority of the running task: its next event tells it, and this charge whether it was before.
    fn renices(&mut self, cpu: usize, task: TaskId, charge: Charge) -> bool {
        let Some(prio) = self.ledger.as_ref().and_then(|of| of.prios.get(&self.event)) else {
            return false;
        };
        let nice = i32::from(prio.0) - 120;
        let stands = self.policy.vruntime(task);
        let fits = stands.is_some() && self.policy.before(task, charge) == stands;
        let changes = nice != self.scene.task(task).nice && !fits;
        if changes {
            self.scene.tasks[task.index()].nice = nice;
            self.policy.renice(&self.scene, cpu, task);
        }
        changes
    }

    /// A charge shows the tick, or that the kernel looked for its next task and found the same.
    fn acts_on_charge(&mut self, events: &[Event], cpu: usize) {
        let event = &events[self.event];
        if event.cpu.index() != cpu {
            return;
        }
        let of_cpu =
            |index: &usize| events[*index].cpu == event.cpu && !self.is_note(events, *index);
        let next = (self.event + 1..events.len()).find(of_cpu);
        let then = next.map(|next| events[next].what);
        match (event.context, then) {
            (_, Some(What::Wakeup { .. })) => {}
            (Context::HardIrq, _) => {
                let displaces = self.policy.tick(&self.scene, cpu);
                if displaces {
                    self.expect(cpu, Cause::Tick);
                }
            }
            (Context::Task, Some(What::Switch { .. } | What::Fork { .. })) => {}
            (Context::Task, _) => self.was_called(cpu, event.time.0),
            _ => {}
        }
    }

    /// The running task was charged within a call that is neither a wakeup, nor a fork, nor a switch.
    fn was_called(&mut self, cpu: usize, at: u64) {
        if self.exiting[cpu].take().is_some() {
            // It leaves its session's group, whether that is one of the scheduler or not.
            self.policy.requeue(&self.scene, cpu);
            return self.expect(cpu, Cause::End);
        }
        let running = self.scene.cpus[cpu].running;
        let picked = self.policy.would_pick(cpu);
        // One that stayed in the queue in its sleep leaves it when it is picked, and another one is.
        let leaves = picked.is_some_and(|task| self.policy.is_delayed(task));
        if self.pending[cpu].is_none() {
            self.called[cpu] = Some(at);
        } else if leaves || picked == running {
            if self.policy.pick(&self.scene, cpu) == running {
                self.scene.cpus[cpu].resched = false;
                self.pending[cpu] = None;
            } else {
                self.policy.force(&self.scene, cpu, running);
            }
        }
    }

    /// Whether an event only tells what the kernel knew at the one before.
    fn is_note(&self, events: &[Event], index: usize) -> bool {
        let charges = self.ledger.as_ref().is_some_and(|ledger| ledger.at.contains_key(&index));
        self.is_held() && !charges && matches!(events[index].what, What::Other { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_both_kernels_are_read() {
        let of = Charged::read(3, "comm=a pid=7 b pid=12 runtime=2500 vruntime=99").unwrap();
        let charge = Charge { time: 2_500, vruntime: Some(99) };
        assert_eq!(of, Charged { event: 3, pid: Pid(12), charge });
        let of = Charged::read(0, "comm=load pid=12 runtime=2500").unwrap();
        assert_eq!(of.charge, Charge { time: 2_500, vruntime: None });
        assert_eq!(Charged::read(0, "comm=load pid=12"), None);
    }
}
