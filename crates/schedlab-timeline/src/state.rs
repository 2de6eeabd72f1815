//! What is true now: every CPU's occupant, every task's activity, every queue.

use crate::names::{CommId, Names};
use crate::pids::Pids;
#[cfg(test)]
use crate::task::Activity;
use crate::task::{Task, TaskId};
use schedlab_model::{
    Clock, Comm, Cover, Coverage, Cpu, CpuSet, Kind, KindSet, Nanos, OtherFormat, Pid, Span,
    TraceInfo,
};
use std::collections::{BTreeMap, BTreeSet};

/// Who is on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// Not known: before its first event, after a loss, or because the events contradict themselves.
    Unknown,
    /// The CPU's idle task runs.
    Idle,
    /// This task runs on the CPU.
    Task(TaskId),
}

impl Occupant {
    /// The task that runs; `None` for the idle task and where nothing is known.
    #[must_use]
    pub const fn task(self) -> Option<TaskId> {
        match self {
            Self::Task(task) => Some(task),
            Self::Unknown | Self::Idle => None,
        }
    }
}

/// What is known about one CPU.
// One line of the cache, as a task.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct CpuState {
    /// What the CPU does now.
    pub occupant: Occupant,
    /// The time since which the occupant is there.
    pub since: Nanos,
    /// The last event that it logged; zero when none.
    pub(crate) last_event: Nanos,
    /// The last one at an earlier time than that.
    pub(crate) event_before: Nanos,
    /// The last task that left it; [`TaskId::NONE`] when none was seen.
    pub(crate) last_task: TaskId,
    /// How many tasks wait on its queue.
    pub waiting: u32,
    /// Whether it belongs to the trace: an unobserved CPU stays unknown for ever.
    pub(crate) observed: bool,
    /// Whether an event says that a task was there.
    pub(crate) named: bool,
    /// When it woke a task last whose CPU no event tells; zero after its next event.
    pub(crate) waking: Nanos,
    /// Whether it is out of use: unplugged, or about to be.
    pub offline: bool,
    /// Whether only a switch can tell who is there: events were lost.
    pub(crate) blind: bool,
    /// Whether it was seen to leave idle without a switch that says so.
    pub(crate) mute_idle: bool,
    /// Whether its occupant is in `sched_yield`.
    pub(crate) yields: bool,
    /// The first of its waiters.
    pub(crate) head: TaskId,
}

impl CpuState {
    const fn new(observed: bool, now: Nanos) -> Self {
        Self {
            occupant: Occupant::Unknown,
            since: now,
            last_event: Nanos::ZERO,
            event_before: Nanos::ZERO,
            last_task: TaskId::NONE,
            waiting: 0,
            observed,
            named: false,
            waking: Nanos::ZERO,
            offline: false,
            blind: false,
            mute_idle: false,
            yields: false,
            head: TaskId::NONE,
        }
    }
}

/// Which of these is the event of the system call `sched_yield`.
fn yields_of(others: &[OtherFormat]) -> Option<u16> {
    others.iter().position(|other| other.name == "sys_enter_sched_yield").map(|at| at as u16)
}

/// What did not fit together so far. Counted, never fatal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Losses that the source reports, and the number of events in them where it is known.
    pub(crate) losses: u64,
    /// Events lost, as far as the source knows how many.
    pub(crate) lost_events: u64,
    /// Time between losses and their CPUs' next switches: who ran then is not known.
    pub(crate) unseen: Nanos,
    /// Switches, and those among them to a task.
    pub(crate) switches: u64,
    pub(crate) arrivals: u64,
    /// A task began to run while it still ran on another CPU: the clocks of CPUs disagree.
    pub(crate) overlaps: u64,
    /// A sleeping task ran without having been seen to be woken.
    pub(crate) unwoken: u64,
    /// An event named a task other than the one last seen on that CPU: a switch is missing.
    pub(crate) contradictions: u64,
    /// The sum of times between such an event and its CPU's event before: who ran then is not certain.
    pub(crate) contradicted: Nanos,
    /// Wakeups whose CPU was not the one that waking and migrations had led to.
    pub(crate) replaced: u64,
    /// Tasks that went to a CPU which the trace does not cover.
    pub(crate) out_of_sight: u64,
    /// Waits that ended on another CPU than the one whose queue they were on: a migration was not logged.
    pub(crate) unmoved: u64,
    /// Time between wakeups and the waker's next event, where no `sched_wakeup` tells the chosen CPU.
    pub(crate) misplaced: Nanos,
    /// Tasks that were created and then ran without their first wakeup.
    pub(crate) unborn: u64,
    /// How many wakeups may or may not come from an interrupt: the trace does not say.
    pub(crate) no_context: u64,
    /// Pids that were used by a second task.
    pub(crate) reused_pids: u64,
}

/// The timeline at one instant.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) now: Nanos,
    pub(crate) window: Span,
    pub(crate) origin: Nanos,
    pub(crate) cpus: Vec<CpuState>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) pids: Pids,
    pub(crate) names: Names,
    pub(crate) known_comms: BTreeMap<Pid, Comm>,
    pub(crate) observed: CpuSet,
    pub(crate) kinds: KindSet,
    pub(crate) coverage: Coverage,
    /// Whether only some switches are logged, so that who comes next to a CPU may leave it unseen.
    pub(crate) partial: bool,
    /// By task, where only some tasks log their switches: whether this one does.
    pub(crate) logs: Vec<bool>,
    /// When events of some CPU were missing last.
    pub(crate) gap: Nanos,
    /// Whether all CPUs have one clock.
    pub(crate) clock_is_global: bool,
    /// The clock, where it counts ticks.
    pub(crate) ticks: Option<String>,
    pub(crate) others: Vec<OtherFormat>,
    /// The event of the system call `sched_yield`, as an index into `others`; `None` where the trace does not tell yields.
    pub(crate) yields: Option<u16>,
    pub(crate) marks: Vec<String>,
    pub(crate) seen: KindSet,
    /// Whether a waking is taken to place its task, since no wakeup will: see `step`.
    pub(crate) wakes_are_placed: bool,
    /// Whether who logs an event is numbered otherwise than the tasks of switches.
    pub(crate) foreign_pids: bool,
    /// Whether queues are kept: see [`crate::Question::QUEUES`].
    pub(crate) queues: bool,
    pub(crate) running: u32,
    pub(crate) waiting: u32,
    pub(crate) tally: Tally,
    /// The latest change of a name: the task, the time and the old name.
    pub(crate) renamed: Option<(TaskId, Nanos, CommId)>,
    /// The tasks that the trace is about, where events of others were filtered away.
    pub(crate) only: Option<BTreeSet<Pid>>,
    /// Whether the trace is about all tasks, and each switch is logged: neither `only` nor `partial`.
    pub(crate) tells_all: bool,
}

impl State {
    /// The state before the first event: only what the source says beside its events is known.
    #[must_use]
    pub(crate) fn new(info: &TraceInfo) -> Self {
        let start = info.span.map_or(Nanos::ZERO, |span| span.start);
        let mut state = Self {
            now: start,
            window: Span::new(start, start),
            origin: start,
            cpus: Vec::new(),
            tasks: vec![Task::new(Pid::IDLE, CommId::UNKNOWN, start)],
            pids: Pids::default(),
            names: Names::default(),
            known_comms: info.comms.clone(),
            observed: info.cpus.clone(),
            kinds: info.kinds,
            coverage: info.coverage,
            partial: info.coverage.is_partial(Kind::Switch),
            logs: Vec::new(),
            gap: Nanos::ZERO,
            clock_is_global: info.clock == Clock::Monotonic,
            ticks: match &info.clock {
                Clock::Ticks(name) => Some(name.clone()),
                _ => None,
            },
            others: info.others.clone(),
            yields: yields_of(&info.others),
            marks: info.marks.clone(),
            seen: KindSet::EMPTY,
            wakes_are_placed: !info.kinds.contains(Kind::Wakeup),
            foreign_pids: false,
            queues: true,
            running: 0,
            waiting: 0,
            tally: Tally::default(),
            renamed: None,
            only: info.only.clone(),
            tells_all: info.only.is_none() && !info.coverage.is_partial(Kind::Switch),
        };
        if let Some(last) = info.cpus.iter().last() {
            state.grow(last);
        }
        state
    }

    /// The time of the last event.
    #[must_use]
    pub const fn now(&self) -> Nanos {
        self.now
    }

    /// What questions see: from the first instant of the window to now. An interval that began
    /// earlier is clipped to it by code that adds up times.
    #[must_use]
    pub const fn window(&self) -> Span {
        self.window
    }

    /// The zero point for people: the first instant of the trace.
    #[must_use]
    pub(crate) const fn origin(&self) -> Nanos {
        self.origin
    }

    /// All CPUs by number, holes and unobserved ones included.
    #[must_use]
    pub fn cpus(&self) -> &[CpuState] {
        &self.cpus
    }

    /// One CPU; `None` when nothing ever named it.
    #[must_use]
    pub fn cpu(&self, cpu: Cpu) -> Option<&CpuState> {
        self.cpus.get(cpu.index())
    }

    /// The CPUs that belong to the trace: those that it says it observed, or, where it does not say,
    /// those that logged an event.
    pub fn observed_cpus(&self) -> impl Iterator<Item = (Cpu, &CpuState)> {
        let numbered = (0..=u16::MAX).map(Cpu).zip(&self.cpus);
        numbered.filter(|(_, cpu)| cpu.observed)
    }

    /// A task.
    ///
    /// # Panics
    /// On an id of another state.
    #[must_use]
    #[inline]
    pub fn task(&self, id: TaskId) -> &Task {
        &self.tasks[id.index()]
    }

    /// All tasks seen so far, in order of appearance.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        (0..).map(TaskId).zip(&self.tasks).skip(1)
    }

    /// How many tasks have been seen; ids are 1 ..= this.
    #[must_use]
    pub fn task_count(&self) -> usize {
        self.tasks.len() - 1
    }

    /// The task that has `pid` now; `None` if none was seen with it.
    #[must_use]
    pub fn task_of(&self, pid: Pid) -> Option<TaskId> {
        Some(self.pids.get(pid)).filter(|id| id.is_some())
    }

    /// The names of all tasks seen.
    #[must_use]
    pub const fn names(&self) -> &Names {
        &self.names
    }

    /// The name of a task now, as text.
    #[must_use]
    pub fn name(&self, task: TaskId) -> String {
        self.names.text(self.task(task).comm)
    }

    /// Whether a task is a stopper, by its name: a thread `migration/N`, which runs above everything and moves tasks.
    #[must_use]
    pub(crate) fn is_stopper(&self, task: TaskId) -> bool {
        self.names.comm(self.task(task).comm).starts_with(b"migration/")
    }

    /// Whether a task is `ksoftirqd/N`, by its name: softirqs that it performs are its own work.
    #[must_use]
    pub(crate) fn is_ksoftirqd(&self, task: TaskId) -> bool {
        self.names.comm(self.task(task).comm).starts_with(b"ksoftirqd/")
    }

    /// The tasks that wait on a CPU's queue, in no particular order.
    pub(crate) fn waiters(&self, cpu: Cpu) -> impl Iterator<Item = TaskId> + '_ {
        let first = self.cpu(cpu).map_or(TaskId::NONE, |cpu| cpu.head);
        std::iter::successors(Some(first).filter(|id| id.is_some()), |id| {
            Some(self.task(*id).next).filter(|id| id.is_some())
        })
    }

    /// How many tasks run.
    #[must_use]
    pub const fn running(&self) -> u32 {
        self.running
    }

    /// How many tasks wait, those between waking and wakeup included.
    #[must_use]
    pub const fn waiting(&self) -> u32 {
        self.waiting
    }

    /// What did not fit together so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The kinds of scheduler events that were seen so far: a file can describe kinds that nobody
    /// recorded.
    #[must_use]
    pub const fn seen(&self) -> KindSet {
        self.seen
    }

    /// Whether the trace has shown any wakeup except first ones (of new tasks).
    #[must_use]
    pub const fn sees_wakes(&self) -> bool {
        self.seen.contains(Kind::Waking) || self.seen.contains(Kind::Wakeup)
    }

    /// Tracepoints beyond the scheduler's, by the index that [`crate::Change::Other`] carries. A stream learns
    /// them as they come: [`crate::ask_all`] has those that were known when it began.
    #[must_use]
    pub fn others(&self) -> &[OtherFormat] {
        &self.others
    }

    /// Names of user marks, by the id that [`crate::Change::Mark`] carries; learnt as [`Self::others`] are.
    #[must_use]
    pub fn marks(&self) -> &[String] {
        &self.marks
    }

    /// Takes over the tracepoints and marks that a source has learnt, and what it left out.
    pub(crate) fn learn(&mut self, info: &TraceInfo) {
        self.coverage = info.coverage;
        if self.others.len() < info.others.len() {
            self.others.extend_from_slice(&info.others[self.others.len()..]);
            self.yields = yields_of(&self.others);
        }
        if self.marks.len() < info.marks.len() {
            self.marks.extend_from_slice(&info.marks[self.marks.len()..]);
        }
    }

    /// Whether the trace tells what a task did: events of others may have been filtered away.
    #[inline]
    pub(crate) fn tells(&self, pid: Pid) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(&pid))
    }

    /// Whether the switches of this task are logged: all are, or those of some tasks.
    #[inline]
    pub(crate) fn logs(&self, id: TaskId) -> bool {
        !self.partial || self.logs.get(id.index()).copied().unwrap_or(false)
    }

    /// A task logged an event, where only some tasks do: its own switches away are all there.
    #[cold]
    pub(crate) fn logged_by(&mut self, by: Pid) {
        if by.0 > 0 && self.coverage.of(Kind::Switch) == Cover::ByTask {
            let id = self.living(by);
            if id.index() >= self.logs.len() {
                self.logs.resize(id.index() + 1, false);
            }
            self.logs[id.index()] = true;
        }
    }

    /// An event beyond the scheduler's, in a trace that tells of yields. Leaving the call ends it, where that is recorded.
    #[cold]
    pub(crate) fn calls(&mut self, cpu: Cpu, format: u16) {
        let enters = self.yields == Some(format);
        let name = self.others.get(usize::from(format)).map(|other| other.name.as_str());
        if enters || name == Some("sys_exit_sched_yield") {
            self.cpus[cpu.index()].yields = enters;
        }
    }

    /// Makes room for CPUs up to `cpu`.
    pub(crate) fn grow(&mut self, cpu: Cpu) {
        let known = !self.observed.is_empty();
        while self.cpus.len() <= cpu.index() {
            let number = Cpu(u16::try_from(self.cpus.len()).expect("a CPU's number has 16 bits"));
            let observed = known && self.observed.contains(number);
            self.cpus.push(CpuState::new(observed, self.origin));
        }
    }

    /// Checks what must hold after every event.
    #[cfg(test)]
    pub(crate) fn assert_consistent(&self) {
        let mut running = 0;
        for (number, cpu) in self.cpus.iter().enumerate() {
            let number = Cpu(u16::try_from(number).expect("a CPU's number has 16 bits"));
            if let Occupant::Task(task) = cpu.occupant {
                running += 1;
                assert_eq!(self.task(task).activity, Activity::Running { cpu: number });
            }
            let waiters: Vec<TaskId> = self.waiters(number).collect();
            assert_eq!(waiters.len(), cpu.waiting as usize, "waiters of CPU {number}");
            for task in waiters {
                assert!(
                    matches!(self.task(task).activity, Activity::Waiting { cpu, placed: true, .. } if cpu == number)
                );
            }
        }
        assert_eq!(running, self.running, "running");
        let mut waiting = 0;
        for (id, task) in self.tasks() {
            match task.activity {
                Activity::Running { cpu } => {
                    assert_eq!(self.cpus[cpu.index()].occupant, Occupant::Task(id));
                }
                Activity::Waiting { .. } => waiting += 1,
                _ => {}
            }
        }
        assert_eq!(waiting, self.waiting, "waiting");
    }
}
