//! How wakeups and migrations alter the state: from sleeping to waiting, and from queue to queue.

use crate::change::{Change, Moved, Runnable, Waker, When};
use crate::state::{Occupant, State};
use crate::step::Logged;
use crate::task::{Activity, TaskId, Why};
use schedlab_model::{Context, Cpu, Kind, Left, Nanos, Pid, Prio};

impl State {
    #[inline]
    pub(crate) fn waking(
        &mut self,
        logged: Logged,
        pid: Pid,
        prio: Prio,
        last_cpu: Cpu,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        self.name_cpu(last_cpu);
        let id = self.living(pid);
        let task = &mut self.tasks[id.index()];
        task.prio = prio;
        // A task that is about to sleep can be woken before it has left: it never waits then.
        let activity = task.activity;
        match activity {
            Activity::Running { .. } => return,
            Activity::Waiting { cpu, placed: true, .. } if !self.sees(cpu) => {
                // It ran there unseen, else nobody would wake it again.
                let since = self.tasks[id.index()].since;
                self.out_of_sight(id, cpu, since, see);
            }
            Activity::Waiting { .. } => return,
            _ => {}
        }
        let placed = self.wakes_are_placed;
        self.begin_wait(logged, id, last_cpu, placed, Why::Woken, Some(last_cpu), see);
        if placed {
            self.sight(id, last_cpu, see);
        }
    }

    #[inline]
    pub(crate) fn wakeup(
        &mut self,
        logged: Logged,
        pid: Pid,
        prio: Prio,
        target: Cpu,
        new: bool,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        self.name_cpu(target);
        let mut id = self.living(pid);
        if new && matches!(self.tasks[id.index()].activity, Activity::Sleeping { .. }) {
            id = self.reuse(pid);
        }
        self.tasks[id.index()].prio = prio;
        let mut from = None;
        match self.tasks[id.index()].activity {
            Activity::Running { .. } => return,
            Activity::Waiting { cpu, placed: true, .. } if cpu == target => return,
            Activity::Waiting { cpu, placed, why } => {
                // The kernel logs a migration before it, where it logs any.
                self.tally.unmoved += u64::from(!placed && cpu != target);
                if placed {
                    self.tally.replaced += 1;
                    self.unlink(id, cpu);
                    from = Some(cpu);
                }
                let waiting = Activity::Waiting { cpu: target, placed: true, why };
                self.tasks[id.index()].activity = waiting;
                self.link(id, target);
            }
            _ => {
                let why = if new { Why::New } else { Why::Woken };
                let task = &self.tasks[id.index()];
                let elsewhere = task.last_cpu.is_some_and(|last| last != target);
                self.tally.unmoved += u64::from(elsewhere && !task.moved && !new);
                self.begin_wait(logged, id, target, true, why, None, see);
            }
        }
        see(&Change::Placed { at: self.now, task: id, cpu: target, from }, self);
        self.sight(id, target, see);
    }

    #[inline(always)]
    fn begin_wait(
        &mut self,
        logged: Logged,
        id: TaskId,
        cpu: Cpu,
        placed: bool,
        why: Why,
        last_cpu: Option<Cpu>,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let at = self.now;
        // The idle task wakes nobody by itself, so that is clear without a context.
        let unclear = logged.context == Context::Unknown && !logged.by.is_idle();
        self.tally.no_context += u64::from(unclear);
        let context = if unclear || logged.context != Context::Unknown {
            logged.context
        } else {
            Context::Task
        };
        // Who is current is known already, so no look-up by pid.
        let waker = match self.cpus[logged.cpu.index()].occupant {
            _ if unclear || logged.by.is_idle() => TaskId::NONE,
            Occupant::Task(waker) => waker,
            Occupant::Idle => TaskId::NONE,
            Occupant::Unknown => self.pids.get(logged.by),
        };
        let task = &mut self.tasks[id.index()];
        let slept = match task.activity {
            Activity::Sleeping { left } if task.since >= self.gap => Some((task.since, left)),
            _ => None,
        };
        task.activity = Activity::Waiting { cpu, placed, why };
        task.since = at;
        task.moved = false;
        task.waker = waker;
        task.waker_cpu = logged.cpu;
        task.waker_context = context;
        task.woken_from = last_cpu.or(task.last_cpu);
        let runnable = Runnable {
            at,
            task: id,
            why,
            waker: Waker { task: task.waker, cpu: logged.cpu, context },
            last_cpu: task.woken_from,
            slept,
        };
        self.waiting += 1;
        if placed {
            self.link(id, cpu);
        }
        if !self.seen.contains(Kind::Wakeup) && why == Why::Woken {
            self.cpus[logged.cpu.index()].waking = at;
        }
        see(&Change::Runnable(runnable), self);
    }

    pub(crate) fn migrate(
        &mut self,
        logged: Logged,
        pid: Pid,
        from: Cpu,
        to: Cpu,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        self.name_cpu(from);
        self.name_cpu(to);
        let id = self.living(pid);
        let mut queue = None;
        let when = match self.tasks[id.index()].activity {
            Activity::Running { .. } => When::Running,
            Activity::Waiting { cpu, placed: true, .. } if !self.sees(cpu) => {
                let since = self.tasks[id.index()].since;
                self.out_of_sight(id, cpu, since, see);
                When::Asleep
            }
            Activity::Waiting { cpu, placed, why } => {
                if placed {
                    self.unlink(id, cpu);
                    queue = Some(cpu);
                }
                let waiting = Activity::Waiting { cpu: to, placed: true, why };
                self.tasks[id.index()].activity = waiting;
                self.link(id, to);
                // Without `Wakeup` events the choice of a CPU and later balancing look the same but
                // for who acts: the waker itself, or the task that balances.
                let task = &self.tasks[id.index()];
                let waking = self.wakes_are_placed
                    && why.is_wakeup()
                    && !task.moved
                    && task.waker_cpu == logged.cpu;
                if !placed || waking { When::Waking } else { When::Waiting }
            }
            Activity::New => When::Fork,
            Activity::Unknown | Activity::Sleeping { .. } | Activity::Dead => When::Asleep,
        };
        let by = self.cpus[logged.cpu.index()].occupant.task().unwrap_or(TaskId::NONE);
        self.tasks[id.index()].moved = true;
        let at = self.now;
        let by_cpu = logged.cpu;
        let for_affinity = by.is_some() && self.is_stopper(by) && self.is_asked(by, to, when);
        let moved = Moved { at, task: id, from, queue, to, when, for_affinity, by_cpu, by };
        see(&Change::Moved(moved), self);
        if matches!(when, When::Waking | When::Waiting) {
            self.sight(id, to, see);
        }
    }

    /// Whether a task asked this stopper for the move, and no balancer. Whoever asks wakes the stopper and then waits for
    /// it; a task that it wakes is that task itself. A balancer is an interrupt, or a CPU that pulls since it goes idle.
    fn is_asked(&self, stopper: TaskId, to: Cpu, when: When) -> bool {
        let known = self.task(stopper);
        match when {
            When::Waking | When::Asleep => true,
            When::Waiting if known.waker.is_some() && known.waker_context == Context::Task => {
                let waits = Activity::Sleeping { left: Left::Blocked };
                known.waker_cpu != to || self.task(known.waker).activity == waits
            }
            _ => false,
        }
    }

    /// A task that waits on a CPU which the trace does not cover is out of sight.
    #[inline(always)]
    pub(crate) fn sight(
        &mut self,
        id: TaskId,
        cpu: Cpu,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        // Where the trace does not say which CPUs it covers, this one may still log something.
        if !self.observed.is_empty() && !self.sees(cpu) {
            self.out_of_sight(id, cpu, self.now, see);
        }
    }

    /// Whether a CPU belongs to the trace, as far as is known by now.
    #[inline(always)]
    fn sees(&self, cpu: Cpu) -> bool {
        self.cpus.get(cpu.index()).is_some_and(|cpu| cpu.observed)
    }

    /// An event says that a task was on this CPU.
    #[inline(always)]
    fn name_cpu(&mut self, cpu: Cpu) {
        if cpu.index() >= self.cpus.len() {
            self.grow(cpu);
        }
        self.cpus[cpu.index()].named = true;
    }

    #[cold]
    fn out_of_sight(
        &mut self,
        id: TaskId,
        cpu: Cpu,
        at: Nanos,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        self.tally.out_of_sight += 1;
        self.unlink(id, cpu);
        self.waiting -= 1;
        self.forgotten(id, at, see);
    }
}
