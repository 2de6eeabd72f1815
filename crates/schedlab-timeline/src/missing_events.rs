//! What happened without being told: losses, events that contradict each other, CPUs before their
//! first event. Everything here ends in fewer claims, never in more.

use crate::change::{Change, Switch, Wait};
use crate::stacks::STACK;
use crate::state::{Occupant, State};
use crate::step::Logged;
use crate::task::{Activity, TaskId};
use schedlab_model::{Cpu, Kind, Nanos, Pid, What};

impl State {
    /// A switch says that `prev` ran on `cpu`, and the state says otherwise. Gives the task, as an
    /// error when its departure cannot be believed.
    #[cold]
    pub(crate) fn correct(
        &mut self,
        cpu: Cpu,
        prev: Pid,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) -> Result<TaskId, TaskId> {
        if self.cpus[cpu.index()].occupant != Occupant::Unknown {
            self.disproved(cpu, see);
        }
        if prev.is_idle() {
            return Err(TaskId::NONE);
        }
        let id = self.living(prev);
        match self.tasks[id.index()].activity {
            // It was seen to start elsewhere before it was seen to leave here: its clocks disagree,
            // and where it is now is known better.
            Activity::Running { .. } => Err(id),
            Activity::Waiting { cpu: queue, placed, .. } => {
                if placed {
                    self.unlink(id, queue);
                }
                self.waiting -= 1;
                self.forgotten(id, self.now, see);
                Ok(id)
            }
            _ => Ok(id),
        }
    }

    /// A task about to run here is still taken to run elsewhere: that one ended unseen.
    #[inline]
    pub(crate) fn running_elsewhere(
        &mut self,
        id: TaskId,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        if let Activity::Running { cpu } = self.tasks[id.index()].activity {
            self.overlap(cpu, see);
        }
    }

    #[cold]
    fn overlap(&mut self, cpu: Cpu, see: &mut (impl FnMut(&Change, &Self) + ?Sized)) {
        self.tally.overlaps += 1;
        self.vacate(cpu, self.now, see);
    }

    /// Whether an event moves a task that the trace is not about.
    #[cold]
    pub(crate) fn is_foreign(&self, what: &What) -> bool {
        match *what {
            What::Waking { pid, .. } | What::Wakeup { pid, .. } | What::Migrate { pid, .. } => {
                !self.tells(pid)
            }
            _ => false,
        }
    }

    /// Somebody logs an event whom the state does not have there, or in a trace that tells of some tasks only.
    #[cold]
    pub(crate) fn unexpected(
        &mut self,
        logged: Logged,
        what: &What,
        before: Nanos,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let Logged { cpu, by, .. } = logged;
        if !self.tells(by) {
            return;
        }
        let occupant = self.cpus[cpu.index()].occupant;
        if self.partial {
            // Where only some switches are logged, whoever logs an event runs, if its switches away are logged.
            self.logged_by(by);
            let id = self.pids.get(by);
            if id.is_some() && self.logs(id) && occupant != Occupant::Task(id) {
                self.current(logged, what, before, see);
            }
            return;
        }
        match occupant {
            Occupant::Task(id) if self.tasks[id.index()].pid == by => {}
            Occupant::Idle if by.is_idle() => {}
            Occupant::Unknown if self.cpus[cpu.index()].blind => {}
            _ => self.current(logged, what, before, see),
        }
    }

    /// Whether the trace tells what the task that comes to a CPU next does there.
    #[cold]
    pub(crate) fn is_told(
        &mut self,
        next: Pid,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) -> bool {
        self.tells(next) && (!self.partial || self.stays(next, see))
    }

    /// An event names a task other than the one that the state has on its CPU. The kernel takes that pid when it
    /// logs the event, so it is right, and a switch is missing since the CPU's event `before`.
    ///
    /// A switch is handled by itself ([`Self::correct`]). A reader adds names and marks, and an execution changes the pid.
    /// The idle task's number is also what some tools print for a task that they do not know, so it disproves nothing.
    fn current(
        &mut self,
        logged: Logged,
        what: &What,
        before: Nanos,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let Logged { cpu, by, .. } = logged;
        let occupant = self.cpus[cpu.index()].occupant;
        if let What::Switch { prev, .. } = *what {
            // A recorder in a namespace of its own numbers tasks otherwise than the kernel's switches do.
            self.foreign_pids |= by != prev && by.0 >= 0;
            if occupant != Occupant::Unknown && !self.is_on(prev, cpu) {
                self.doubt(before);
            }
            return;
        }
        if matches!(what.kind(), Kind::Comm | Kind::Mark | Kind::Lost | Kind::Online)
            || self.is_stack(what)
        {
            return;
        }
        if occupant != Occupant::Unknown {
            if by.0 <= 0 || self.foreign_pids || what.kind() == Kind::Exec {
                return;
            }
            self.doubt(before);
            self.disproved(cpu, see);
        }
        self.discover(cpu, by, see);
    }

    /// Whether the task that comes to a CPU next stays there until its own switch away is logged. Where only some are,
    /// nothing is known of the others after this instant.
    fn stays(&mut self, next: Pid, see: &mut (impl FnMut(&Change, &Self) + ?Sized)) -> bool {
        let id = if next.is_idle() { TaskId::NONE } else { self.living(next) };
        if id.is_some() && self.logs(id) {
            return true;
        }
        if let Activity::Waiting { cpu, placed, .. } = self.tasks[id.index()].activity {
            if placed {
                self.unlink(id, cpu);
            }
            self.waiting -= 1;
            self.forgotten(id, self.now, see);
        }
        false
    }

    /// A wait that ends, if nothing else can have happened meanwhile: events were missing since it began, or the task
    /// moved unseen. From a CPU that the trace does not cover it may have come and gone.
    #[cold]
    pub(crate) fn believed(
        &mut self,
        id: TaskId,
        wait: Option<Wait>,
        moved: bool,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) -> Option<Wait> {
        let Wait { since, why, cpu } = wait?;
        let unseen = moved && !self.cpus[cpu.index()].observed;
        self.tally.unmoved += u64::from(moved && !unseen);
        if since >= self.gap && !unseen {
            return wait;
        }
        self.tally.out_of_sight += u64::from(unseen);
        let was = Activity::Waiting { cpu, placed: true, why };
        see(&Change::Forgotten { at: since, task: id, was, since }, self);
        None
    }

    /// At the end: who waits on a CPU that logged nothing at all may have run there long ago.
    pub(crate) fn forget_unseen(&mut self, see: &mut (impl FnMut(&Change, &Self) + ?Sized)) {
        let unseen: Vec<(TaskId, Cpu, bool)> = (0..)
            .map(TaskId)
            .zip(&self.tasks)
            .filter_map(|(id, task)| match task.activity {
                Activity::Waiting { cpu, placed, .. } => Some((id, cpu, placed)),
                _ => None,
            })
            .filter(|(_, cpu, _)| !self.cpus.get(cpu.index()).is_some_and(|cpu| cpu.observed))
            .collect();
        for (id, cpu, placed) in unseen {
            if placed {
                self.unlink(id, cpu);
            }
            self.waiting -= 1;
            self.tally.out_of_sight += 1;
            self.forgotten(id, self.tasks[id.index()].since, see);
        }
    }

    /// Whether an event is a stack: the task that leaves logs it behind its switch.
    fn is_stack(&self, what: &What) -> bool {
        let What::Other { format } = *what else { return false };
        self.others.get(usize::from(format)).is_some_and(|format| format.name == STACK)
    }

    /// Whether the state has the task with `pid` on `cpu`.
    fn is_on(&self, pid: Pid, cpu: Cpu) -> bool {
        match self.cpus[cpu.index()].occupant {
            Occupant::Task(id) => self.tasks[id.index()].pid == pid,
            Occupant::Idle => pid.is_idle(),
            Occupant::Unknown => false,
        }
    }

    /// Who ran between a CPU's event `before` and now is not certain.
    fn doubt(&mut self, before: Nanos) {
        self.tally.contradicted += self.now - before.max(self.origin);
    }

    /// Whether a CPU went idle whose switches away from idle are not logged, so that it counts as unknown. Only in a
    /// switch's own instant: of what comes after nothing is known.
    pub(crate) fn idles_unseen(&self, cpu: Cpu) -> bool {
        let here = &self.cpus[cpu.index()];
        here.occupant == Occupant::Unknown && here.mute_idle && !here.offline && self.tells_all
    }

    /// The time of the CPU's last event. A change of its occupant that was not logged happened after it.
    pub(crate) fn silent_since(&self, cpu: Cpu) -> Nanos {
        let here = &self.cpus[cpu.index()];
        if here.last_event < self.now { here.last_event } else { here.event_before }
    }

    /// Another task than the occupant of `cpu` runs there now. The occupant counts until now.
    fn disproved(&mut self, cpu: Cpu, see: &mut (impl FnMut(&Change, &Self) + ?Sized)) {
        self.tally.contradictions += 1;
        let here = &mut self.cpus[cpu.index()];
        // Some kernels tell no switch away from idle on some CPUs. From now on this CPU counts as unknown, not idle,
        // when its last task has left, until a switch away from idle is seen there.
        here.mute_idle |= here.occupant == Occupant::Idle;
        self.vacate(cpu, self.now, see);
    }

    #[cold]
    pub(crate) fn discover(
        &mut self,
        cpu: Cpu,
        by: Pid,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        // A negative pid is a reader's "not known".
        if by.0 < 0 {
            return;
        }
        let mut is = Occupant::Idle;
        if !by.is_idle() {
            let id = self.living(by);
            match self.tasks[id.index()].activity {
                Activity::Running { .. } => return,
                Activity::Waiting { cpu: queue, placed, .. } => {
                    if placed {
                        self.unlink(id, queue);
                    }
                    self.waiting -= 1;
                    self.forgotten(id, self.now, see);
                }
                _ => {}
            }
            let task = &mut self.tasks[id.index()];
            task.activity = Activity::Running { cpu };
            task.since = self.now;
            task.last_cpu = Some(cpu);
            is = Occupant::Task(id);
        }
        let at = self.now;
        let here = &mut self.cpus[cpu.index()];
        let since = here.since;
        here.observed = true;
        here.since = at;
        self.occupy(cpu, is);
        let was = Occupant::Unknown;
        see(&Change::Switch(Switch::unlogged(at, cpu, was, since, is, Some(cpu))), self);
    }

    /// Events of `cpu` are missing: nothing about it is known until its next switch, and nothing
    /// about the tasks that were on it.
    #[cold]
    pub(crate) fn lost(
        &mut self,
        cpu: Cpu,
        count: Option<std::num::NonZeroU32>,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let at = self.now;
        self.tally.losses += 1;
        self.tally.lost_events += count.map_or(0, |count| u64::from(count.get()));
        let here = &mut self.cpus[cpu.index()];
        here.blind = true;
        here.observed = true;
        // The gap is somewhere between the CPU's last event and now.
        let since = here.last_event.max(here.since).min(at);
        let occupant = here.occupant;
        if occupant != Occupant::Unknown {
            self.vacate(cpu, since, see);
        }
        // A task that waits elsewhere may have been moved here meanwhile, run, and moved back.
        self.gap = at;
        for (task, queue) in self.all_on_queues() {
            self.unlink(task, queue);
            self.waiting -= 1;
            self.forgotten(task, since, see);
        }
        see(&Change::Lost { at, cpu, count }, self);
    }

    /// A CPU is taken out of use, or put into it. Out of use it is not idle: nobody could run there. Another CPU says so
    /// once no task runs there any longer; the last switches of a CPU are not logged.
    #[cold]
    pub(crate) fn online(
        &mut self,
        cpu: Cpu,
        online: bool,
        by_another: bool,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        if cpu.index() >= self.cpus.len() {
            self.grow(cpu);
        }
        self.cpus[cpu.index()].offline = !online;
        let ends = match self.cpus[cpu.index()].occupant {
            Occupant::Idle => true,
            Occupant::Task(_) => by_another,
            Occupant::Unknown => false,
        };
        if !online && ends {
            self.vacate(cpu, self.now, see);
        }
    }

    /// The occupant of `cpu` is not known any longer. The task that was there is left to the caller.
    pub(crate) fn vacate(
        &mut self,
        cpu: Cpu,
        at: Nanos,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let here = &mut self.cpus[cpu.index()];
        let was = here.occupant;
        let since = here.since;
        here.since = at;
        if let Occupant::Task(task) = was {
            here.last_task = task;
            let task = &mut self.tasks[task.index()];
            task.activity = Activity::Unknown;
            task.since = at;
            task.ran_until = at;
        }
        let is = Occupant::Unknown;
        self.occupy(cpu, is);
        see(&Change::Switch(Switch::unlogged(at, cpu, was, since, is, None)), self);
    }

    /// A task that waited, already off its queue, is not known any longer.
    pub(crate) fn forgotten(
        &mut self,
        id: TaskId,
        at: Nanos,
        see: &mut (impl FnMut(&Change, &Self) + ?Sized),
    ) {
        let task = &mut self.tasks[id.index()];
        let was = task.activity;
        let since = task.since;
        // It may have run long before it was found to run.
        let at = if self.partial { since } else { at };
        task.activity = Activity::Unknown;
        task.since = at.max(since);
        see(&Change::Forgotten { at: at.max(since), task: id, was, since }, self);
    }
}

impl Switch {
    /// The occupant changed, and no switch was logged.
    const fn unlogged(
        at: Nanos,
        cpu: Cpu,
        was: Occupant,
        since: Nanos,
        is: Occupant,
        last_cpu: Option<Cpu>,
    ) -> Self {
        let prev = TaskId::NONE;
        let left = None;
        let wait = None;
        Self { at, cpu, was, since, prev, left, is, wait, last_cpu }
    }
}
