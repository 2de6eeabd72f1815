//! How wakeups and migrations alter the state: from sleeping to waiting, and from queue to queue.

use crate::change::{Change, Moved, Runnable, Waker, When};
use crate::state::{Occupant, State};
use crate::step::Logged;
use crate::task::{Activity, TaskId, Why};
use schedlab_model::{Cpu, Pid, Prio};

impl State {
    #[inline]
    pub(crate) fn waking(
        &mut self,
        logged: Logged,
        pid: Pid,
        prio: Prio,
        last_cpu: Cpu,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let id = self.living(pid);
        let task = &mut self.tasks[id.index()];
        task.prio = prio;
        // A task that is about to sleep can be woken before it has left: it never waits then.
        if matches!(task.activity, Activity::Running { .. } | Activity::Waiting { .. }) {
            return;
        }
        let placed = self.wakes_are_placed;
        self.begin_wait(logged, id, (last_cpu, placed, Why::Woken), Some(last_cpu), see);
        if placed {
            self.sight(id, last_cpu, see);
        }
    }

    #[inline]
    pub(crate) fn wakeup(
        &mut self,
        logged: Logged,
        (pid, prio): (Pid, Prio),
        target: Cpu,
        new: bool,
        see: &mut impl FnMut(&Change, &Self),
    ) {
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
                self.begin_wait(logged, id, (target, true, why), None, see);
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
        (cpu, placed, why): (Cpu, bool, Why),
        last_cpu: Option<Cpu>,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let at = self.now;
        // Who is current is known already, so no look-up by pid.
        let waker = match self.cpus[logged.cpu.index()].occupant {
            _ if logged.by.is_idle() => TaskId::NONE,
            Occupant::Task(waker) => waker,
            Occupant::Idle => TaskId::NONE,
            Occupant::Unknown => self.pids.get(logged.by),
        };
        let task = &mut self.tasks[id.index()];
        let slept = match task.activity {
            Activity::Sleeping { left } => Some((task.since, left)),
            _ => None,
        };
        task.activity = Activity::Waiting { cpu, placed, why };
        task.since = at;
        task.moved = false;
        task.waker = waker;
        task.waker_cpu = logged.cpu;
        task.waker_context = logged.context;
        task.woken_from = last_cpu.or(task.last_cpu);
        let runnable = Runnable {
            at,
            task: id,
            why,
            waker: Waker { task: task.waker, cpu: logged.cpu, context: logged.context },
            last_cpu: task.woken_from,
            slept,
        };
        self.waiting += 1;
        if placed {
            self.link(id, cpu);
        }
        see(&Change::Runnable(runnable), self);
    }

    pub(crate) fn migrate(
        &mut self,
        logged: Logged,
        pid: Pid,
        from: Cpu,
        to: Cpu,
        see: &mut impl FnMut(&Change, &Self),
    ) {
        let id = self.living(pid);
        let mut queue = None;
        let when = match self.tasks[id.index()].activity {
            Activity::Running { .. } => When::Running,
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
        let (at, by_cpu) = (self.now, logged.cpu);
        let moved = Moved { at, task: id, from, queue, to, when, by_cpu, by };
        see(&Change::Moved(moved), self);
        if matches!(when, When::Waking | When::Waiting) {
            self.sight(id, to, see);
        }
    }

    /// A task that waits on a CPU which the trace does not cover is out of sight.
    #[inline(always)]
    pub(crate) fn sight(&mut self, id: TaskId, cpu: Cpu, see: &mut impl FnMut(&Change, &Self)) {
        let observed = self.cpus.get(cpu.index()).is_some_and(|cpu| cpu.observed);
        if !observed && !self.observed.is_empty() {
            self.out_of_sight(id, cpu, see);
        }
    }

    #[cold]
    fn out_of_sight(&mut self, id: TaskId, cpu: Cpu, see: &mut impl FnMut(&Change, &Self)) {
        self.tally.out_of_sight += 1;
        self.unlink(id, cpu);
        self.waiting -= 1;
        self.forgotten(id, self.now, see);
    }
}
