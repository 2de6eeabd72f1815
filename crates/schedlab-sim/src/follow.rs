//! A policy follows a recording: at each decision of the recorded scheduler it says what it would do in the same state.
//!
//! The recording's forks, wakeups, sleeps and ends are the policy's input. Where the recorded scheduler decides, the
//! policy is asked first. Then its state is made that of the recording, so a difference does not lead to others. Three
//! kinds of decisions are compared: the CPU of a waking task, whether a task is displaced, and who runs next.
//!
//! What recordings do not tell: the tick, whose phase is found from displacements that no wakeup explains
//! ([`phase`]); whether a waker says that it will sleep soon (`WF_SYNC`), which a switch sets; and vruntimes of tasks
//! that ran before the recording. Decisions about these are not compared until a wakeup has placed them without regard
//! to their past.

mod charges;
mod decide;
mod held;
mod notes;
mod phase;
mod random;
mod score;

pub use charges::Charged;
pub use notes::{ASKED, Notes};
pub use phase::phase;
pub use random::random_load;
pub use score::{HISTORY_NS, Score};

use crate::policy::{Arrival, Departure, Policy, Standing, Wake};
use crate::policy_view::{CpuView, Hardware, Scene, TaskId, TaskView};
use charges::Ledger;
use decide::{Cause, Pending};
use notes::Held;
use schedlab_model::{Affinity, Context, CpuSet, Event, Left, Nanos, Pid, Prio, TraceInfo, What};
use score::Asked;
use std::collections::BTreeMap;

/// A kind of decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The CPU of a waking task.
    Placement,
    /// Whether the running task is displaced.
    Displacement,
    /// The choice of the task that runs next.
    Next,
    /// Where a task that wakes or is new stands in the queue: its virtual time.
    Place,
    /// The virtual time of a task after a charge, and its deadline where the recording tells it.
    Charge,
    /// Whether a task that sleeps leaves its queue, and its lag then.
    Leave,
}

impl Kind {
    /// The name of the kind, as tables print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Placement => "placement",
            Self::Displacement => "displacement",
            Self::Next => "next task",
            Self::Place => "place in the queue",
            Self::Charge => "charge",
            Self::Leave => "leaving the queue",
        }
    }
}

/// A decision in which recording and policy differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The time of the decision.
    pub at: Nanos,
    /// The CPU that decided.
    pub cpu: usize,
    /// The kind of the decision.
    pub kind: Kind,
    /// What the recorded scheduler did.
    pub recorded: String,
    /// What the policy would have done.
    pub model: String,
    /// The tasks of the CPU as the policy sees them, the running one first.
    pub state: Vec<String>,
    /// The event that shows it, by its number in the recording.
    pub event: usize,
}

/// How decisions of a kind compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of compared decisions that are the same.
    pub same: u64,
    /// The number of decisions that differ.
    pub different: u64,
    /// Number of decisions that were not compared: the recording does not hold enough.
    pub skipped: u64,
}

/// What following a recording gave.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The decisions that differ, in their order.
    pub differences: Vec<Difference>,
    /// How many decisions were compared.
    pub counts: BTreeMap<Kind, Count>,
    /// Why decisions were not compared, and how many.
    pub reasons: BTreeMap<(Kind, &'static str), u64>,
    /// The wakeups on which placement is scored.
    pub score: Score,
}

/// How a recording is followed.
#[derive(Clone, Copy, Debug)]
pub struct Following {
    /// The distance between two ticks in nanoseconds.
    pub tick_ns: u64,
    /// When ticks come, as their remainder by `tick_ns`; `None`: not known, so only displacements that happened are
    /// compared.
    pub phase_ns: Option<u64>,
    /// Whether tasks that wake others are taken to sleep soon.
    pub sync: bool,
    /// How long a displaced task may go on to the end of a system call, in nanoseconds.
    pub grace_ns: u64,
    /// Whether the recording begins with its machine: tasks that are first seen when they wake have equal virtual
    /// times. Else their past is unknown.
    pub from_the_start: bool,
}

impl Following {
    /// For a recording of a kernel with ticks of this distance and phase: wakeups are sync, system calls end within
    /// 100 µs.
    #[must_use]
    pub fn new(tick_ns: u64, phase_ns: Option<u64>) -> Self {
        Self { tick_ns, phase_ns, sync: true, grace_ns: 100_000, from_the_start: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Asleep,
    /// It was woken, and has not reached a queue.
    Waking,
    Queued,
    Running,
    Gone,
}

#[derive(Clone, Debug)]
struct Known {
    pid: Pid,
    stand: Stand,
    /// Whether the policy's state of it follows from the recording.
    sure: bool,
    /// Whether it is a task of the fair scheduler.
    fair: bool,
    /// It woke before it had left its queue.
    requeued: bool,
    /// A wakeup in the recording placed it.
    placed: bool,
    /// What was asked when it was about to wake.
    asked: Option<Asked>,
    /// The CPU to which its wakeup is on its way.
    on_its_way: Option<usize>,
}

/// A policy that follows a recording.
pub struct Follower<'f> {
    following: Following,
    scene: Scene,
    policy: Box<dyn Policy>,
    info: &'f TraceInfo,
    ids: BTreeMap<Pid, TaskId>,
    known: Vec<Known>,
    /// The task of each CPU as the recording tells it, of any class; `None`: not known yet.
    current: Vec<Option<Pid>>,
    pending: Vec<Option<Pending>>,
    next_tick: Option<u64>,
    /// What the recording tells of charges; `None`: nothing, so time charges as it passes.
    ledger: Option<Ledger>,
    /// What the recorded kernel held of tasks, by the number of the event.
    held: BTreeMap<usize, Vec<Held>>,
    /// Whether wakeups are sync, by the number of their first event.
    sync: BTreeMap<usize, bool>,
    /// The policy cannot follow the queues of several CPUs: only placements are compared.
    queues_unknown: bool,
    /// By CPU: whether the policy's queue is what the kernel held when it last told.
    queue_known: Vec<bool>,
    /// By CPU: whether the least virtual time of the queue is known.
    least_known: Vec<bool>,
    /// By CPU: its task, which is about to leave its group since it ends.
    exiting: Vec<Option<TaskId>>,
    /// By CPU: when its task was charged by a call that the recording does not hold.
    called: Vec<Option<u64>>,
    began: Option<u64>,
    event: usize,
    comparison: Comparison,
}

/// Why the model cannot follow a recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FollowError(String);

impl<'f> Follower<'f> {
    /// A policy beside a recording of this kind.
    ///
    /// # Errors
    /// When the policy follows no recordings, or the recording has CPUs that the hardware has not.
    pub fn new(
        following: Following,
        hardware: Hardware,
        mut policy: Box<dyn Policy>,
        info: &'f TraceInfo,
    ) -> Result<Self, FollowError> {
        let cpus = hardware.cpus();
        if let Some(cpu) = info.cpus.iter().find(|cpu| cpu.index() >= cpus) {
            return Err(FollowError(format!(
                "the simulated machine has only {cpus} CPUs, but the recording has CPU {cpu}: \
                 set cpus=N"
            )));
        }
        let scene = Scene {
            tick_of: None,
            now: 0,
            tasks: Vec::new(),
            first_group: usize::MAX,
            cpus: vec![CpuView::default(); cpus],
            hardware,
        };
        if !policy.force(&scene, 0, None) {
            let why =
                "this scheduler cannot follow a recording: use kernel=cfs-6.1 or kernel=eevdf-6.12";
            return Err(FollowError(why.to_owned()));
        }
        Ok(Self {
            following,
            scene,
            policy,
            info,
            ids: BTreeMap::new(),
            known: Vec::new(),
            current: vec![None; cpus],
            pending: vec![None; cpus],
            next_tick: None,
            ledger: None,
            held: BTreeMap::new(),
            sync: BTreeMap::new(),
            queues_unknown: false,
            queue_known: vec![false; cpus],
            least_known: vec![false; cpus],
            exiting: vec![None; cpus],
            called: vec![None; cpus],
            began: None,
            event: 0,
            comparison: Comparison::default(),
        })
    }

    /// Follows all events, and what the recording tells beside them.
    ///
    /// # Errors
    /// When events were lost: the state after that is not known.
    pub fn follow(mut self, events: &[Event], notes: &Notes) -> Result<Comparison, FollowError> {
        let mut charges = notes.charges.clone();
        if self.policy.queue(0).is_some() {
            // Queues change together when a task moves, and the recording tells each at another time.
            self.queues_unknown = !notes.held.is_empty() && self.scene.cpus.len() > 1;
            if self.queues_unknown {
                charges.iter_mut().for_each(|of| of.charge.vruntime = None);
            } else {
                self.held = notes.held.clone();
            }
        }
        self.sync = notes.sync.clone();
        self.reads_ledger(events, &charges);
        for (at, event) in events.iter().enumerate() {
            self.event = at;
            self.step(event)?;
            if matches!(event.what, What::Other { .. }) {
                self.is_charged(events);
            }
        }
        Ok(self.comparison)
    }

    fn step(&mut self, event: &Event) -> Result<(), FollowError> {
        let (at, cpu) = (event.time.0, event.cpu.index());
        if cpu >= self.current.len() {
            return Err(FollowError(format!(
                "the recording holds an event of CPU {cpu}, but does not list that CPU"
            )));
        }
        if self.began.is_none() {
            self.began = Some(at);
            let tick = self.following.tick_ns;
            // Where charges show the tick of each CPU, only balancing needs to know when it comes, and roughly.
            let phase = self.following.phase_ns.or(self.is_told().then_some(0));
            self.next_tick = phase.map(|phase| at - at % tick + phase % tick);
        }
        self.ticks_until(at);
        self.scene.now = at;
        match event.what {
            What::Waking { pid, prio, .. } => self.about_to_wake(event, pid, prio),
            What::Wakeup { pid, prio, cpu: to, new } => {
                self.wakes(event, pid, prio, to.index(), new);
            }
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                self.switches(cpu, (prev, prev_prio), left, (next, next_prio));
            }
            What::Migrate { pid, to, .. } => self.moves(pid, to.index()),
            What::Fork { child } => self.forks(cpu, event.by, child),
            What::Exit { pid } => self.exits(cpu, pid),
            What::Lost { .. } => {
                let what = "the scheduler's state is unknown, since the recording lost events: \
                    record again with a larger buffer";
                return Err(FollowError(what.to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    /// The task of a pid; one that is new here is made known, asleep.
    fn task(&mut self, pid: Pid, prio: Prio, cpu: usize) -> TaskId {
        if let Some(&task) = self.ids.get(&pid) {
            return task;
        }
        let task = TaskId(self.known.len() as u32);
        let fair = (100..140).contains(&prio.0);
        let nice = if fair { i32::from(prio.0) - 120 } else { 0 };
        let allowed = self.affinity(pid);
        self.scene.tasks.push(TaskView { allowed, nice, cpu, ..TaskView::default() });
        self.known.push(Known {
            pid,
            stand: Stand::Asleep,
            sure: false,
            fair,
            requeued: false,
            placed: false,
            asked: None,
            on_its_way: None,
        });
        self.ids.insert(pid, task);
        self.policy.fork(&self.scene, cpu, None, task);
        task
    }

    fn affinity(&self, pid: Pid) -> Option<CpuSet> {
        let all = self.info.affinity.as_deref().unwrap_or(&[]);
        let of = |one: &&Affinity| one.pid == pid;
        all.iter().rfind(of).map(|one| one.allowed.clone())
    }

    fn forks(&mut self, cpu: usize, parent: Pid, child: Pid) {
        self.ids.remove(&child);
        let parent = self.ids.get(&parent).copied();
        let nice = parent.map_or(0, |parent| self.scene.task(parent).nice);
        let from_parent = parent.and_then(|parent| self.scene.task(parent).allowed.clone());
        let task = self.task(child, Prio(120 + nice as i16), cpu);
        let view = &mut self.scene.tasks[task.index()];
        view.allowed = view.allowed.take().or(from_parent);
        let runs = parent.filter(|&parent| self.scene.cpus[cpu].running == Some(parent));
        // Its place in the queue follows from its parent's.
        self.known[task.index()].sure = runs.is_some();
        self.policy.fork(&self.scene, cpu, runs, task);
    }

    fn about_to_wake(&mut self, event: &Event, pid: Pid, prio: Prio) {
        let cpu = event.cpu.index();
        let last = match event.what {
            What::Waking { last_cpu, .. } => last_cpu.index().min(self.current.len() - 1),
            _ => cpu,
        };
        let seen = self.ids.contains_key(&pid);
        let task = self.task(pid, prio, last);
        let known = &mut self.known[task.index()];
        if !known.fair || known.stand != Stand::Asleep {
            return;
        }
        known.stand = Stand::Waking;
        if !seen {
            known.sure = self.following.from_the_start;
            self.scene.tasks[task.index()].cpu = last;
        }
        if self.scene.task(task).cpu != last {
            self.goes_late(task, last);
        }
        let waker = self.scene.cpus[cpu].running.filter(|_| event.context == Context::Task);
        let told = self.sync.get(&self.event).copied();
        let exits = self.exiting[cpu].is_some();
        let sync = told.map_or(self.following.sync && waker.is_some(), |sync| sync && !exits);
        self.slept(task, pid);
        if self.stays_where_it_is(task, told.is_some()) {
            self.comparison.score.stayed += 1;
        } else {
            let wake = Wake { task, cpu, waker, new: false, sync };
            let asked = self.asks(&wake);
            self.known[task.index()].asked = Some(asked);
        }
        self.is_on_its_way(task, Some(self.scene.task(task).cpu));
        // It returns to its place before the running task is charged.
        if self.is_told() && self.policy.is_delayed(task) {
            self.known[task.index()].requeued = true;
            let of = self.scene.task(task).cpu;
            self.policy.enqueue(&self.scene, of, task, Arrival::Woken);
        }
    }

    fn wakes(&mut self, event: &Event, pid: Pid, prio: Prio, to: usize, new: bool) {
        let logger = event.cpu.index();
        let task = self.task(pid, prio, to);
        let at = task.index();
        if !self.known[at].fair || to >= self.current.len() {
            return;
        }
        if new {
            let waker = self.scene.cpus[logger].running;
            let wake = Wake { task, cpu: logger, waker, new: true, sync: false };
            self.known[at].asked = Some(self.asks(&wake));
        } else if self.known[at].stand == Stand::Asleep {
            self.known[at].stand = Stand::Waking;
        }
        self.is_on_its_way(task, None);
        if matches!(self.known[at].stand, Stand::Queued | Stand::Running) {
            return;
        }
        let before = self.scene.tasks[at].cpu;
        if let Some(asked) = self.known[at].asked.take() {
            self.judge_placement(logger, task, &asked, to);
        }
        self.scene.tasks[at].cpu = to;
        let arrival = match (new, before == to) {
            (true, _) => Arrival::New,
            (false, true) => Arrival::Woken,
            (false, false) => Arrival::WokenElsewhere,
        };
        self.known[at].stand = Stand::Queued;
        let stood = self.policy.vruntime(task);
        let all_sure = self.is_sure(to);
        let lag_known = self.known[at].sure;
        if before != to && std::mem::take(&mut self.known[at].requeued) {
            self.policy.dequeue(&self.scene, before, task, Departure::Moves);
        }
        if !std::mem::take(&mut self.known[at].requeued) {
            self.policy.enqueue(&self.scene, to, task, arrival);
        }
        self.known[at].placed = true;
        let anew = !new && self.policy.placed_anew(task);
        if let Some(held) = self.held(pid) {
            self.is_placed(to, task, &held, all_sure && lag_known);
        } else if self.is_told() && stood.is_some() && !self.policy.places_by_all() {
            self.was_placed(to, task, arrival, stood);
        } else if self.policy.places_by_all() {
            self.known[at].sure = anew || all_sure && (new || self.known[at].sure);
        } else {
            self.known[at].sure |= anew;
        }
        if self.scene.cpus[to].running.is_some()
            && self.policy.preempts(&self.scene, to, task, arrival)
        {
            self.expect(to, Cause::Wakeup(task));
        }
    }

    fn switches(&mut self, cpu: usize, prev: (Pid, Prio), left: Left, next: (Pid, Prio)) {
        let was_known = self.current[cpu].is_some_and(|pid| pid == prev.0);
        if !was_known {
            self.finds_running(cpu, prev);
        }
        let prev_fair = self.scene.cpus[cpu].running;
        let to = (!next.0.is_idle()).then(|| self.task(next.0, next.1, cpu));
        let to_fair = to.filter(|task| self.known[task.index()].fair);
        // The one that runs without having been seen to wake was woken before the recording.
        let seen = |task: TaskId| self.known[task.index()].stand == Stand::Queued;
        let compared = was_known && (next.0.is_idle() || to_fair.is_some_and(seen));
        let mut judged = true;
        if let Some(task) = prev_fair {
            judged = self.leaves(cpu, task, left, to_fair, compared);
        }
        if let Some(task) = to_fair {
            self.must_be_queued(cpu, task);
        }
        if compared && (prev_fair.is_some() || prev.0.is_idle()) {
            self.judge_next(cpu, prev_fair.filter(|_| left.is_runnable()), to_fair, judged);
        }
        if (next.0.is_idle() || self.is_held()) && !compared {
            // Tasks whose dequeue is delayed leave.
            self.policy.pick(&self.scene, cpu);
        }
        self.scene.cpus[cpu].resched = false;
        self.policy.force(&self.scene, cpu, to_fair);
        if let Some(task) =
            prev_fair.filter(|&task| self.known[task.index()].stand == Stand::Running)
        {
            self.known[task.index()].stand = Stand::Queued;
        }
        if let Some(task) = to_fair {
            self.known[task.index()].stand = Stand::Running;
            let view = &mut self.scene.tasks[task.index()];
            (view.ran_at, view.cpu) = (self.scene.now, cpu);
        }
        self.scene.cpus[cpu].running = to_fair;
        if next.0.is_idle() {
            self.scene.cpus[cpu].idle_since = self.scene.now;
        }
        self.knows_lone_task(cpu, was_known);
        self.holds_after_switch(cpu, prev.0, left, next.0);
        self.current[cpu] = Some(next.0);
        (self.pending[cpu], self.exiting[cpu], self.called[cpu]) = (None, None, None);
    }

    /// Where a place follows from all tasks of the queue, one that was placed and is alone there depends on no past.
    fn knows_lone_task(&mut self, cpu: usize, was_known: bool) {
        let Some(task) = self.scene.cpus[cpu].running else { return };
        if was_known && self.policy.places_by_all() && self.policy.queued(cpu).is_empty() {
            let placed = self.known[task.index()].placed;
            self.known[task.index()].sure |= placed;
        }
    }

    /// The first event of a CPU tells who ran there.
    fn finds_running(&mut self, cpu: usize, prev: (Pid, Prio)) {
        if let Some(lost) = self.scene.cpus[cpu].running.take() {
            (self.known[lost.index()].stand, self.known[lost.index()].sure) =
                (Stand::Queued, false);
        }
        if prev.0.is_idle() {
            return;
        }
        let task = self.task(prev.0, prev.1, cpu);
        if self.known[task.index()].fair {
            self.must_be_queued(cpu, task);
            self.policy.force(&self.scene, cpu, Some(task));
            (self.known[task.index()].stand, self.known[task.index()].sure) =
                (Stand::Running, false);
            self.queue_known[cpu] = false;
            self.found_by_charge(cpu, task);
            self.scene.cpus[cpu].running = Some(task);
        }
    }

    /// A task that runs must have been in the queue, whether its wakeup was seen or not.
    fn must_be_queued(&mut self, cpu: usize, task: TaskId) {
        let at = task.index();
        self.is_on_its_way(task, None);
        let before = self.scene.tasks[at].cpu;
        match self.known[at].stand {
            Stand::Queued if before == cpu => {}
            Stand::Queued => self.moves(self.known[at].pid, cpu),
            Stand::Running if before == cpu => {}
            // The recording does not tell how it left its CPU.
            Stand::Running => {
                (self.scene.cpus[before].running, self.current[before]) = (None, None);
                self.pending[before] = None;
                self.policy.force(&self.scene, before, None);
                (self.known[at].stand, self.known[at].sure) = (Stand::Queued, false);
                self.moves(self.known[at].pid, cpu);
            }
            Stand::Asleep | Stand::Waking | Stand::Gone => {
                self.known[at].sure = false;
                if before != cpu {
                    self.goes_late(task, cpu);
                }
                self.scene.tasks[at].cpu = cpu;
                self.known[at].stand = Stand::Queued;
                let arrival = if before == cpu { Arrival::Woken } else { Arrival::WokenElsewhere };
                self.policy.enqueue(&self.scene, cpu, task, arrival);
            }
        }
    }

    /// The running task leaves: it sleeps, ends, or stays in the queue. Returns whether the policy agrees.
    fn leaves(
        &mut self,
        cpu: usize,
        task: TaskId,
        left: Left,
        next: Option<TaskId>,
        compared: bool,
    ) -> bool {
        let agrees = self.judge_displacement(cpu, task, left, next, compared);
        self.scene.tasks[task.index()].ran_at = self.scene.now;
        if left.is_runnable() {
            return agrees;
        }
        let dead = left == Left::Dead;
        let departure = if dead { Departure::Ends } else { Departure::Sleeps };
        self.policy.dequeue(&self.scene, cpu, task, departure);
        let known = &mut self.known[task.index()];
        known.stand = if dead { Stand::Gone } else { Stand::Asleep };
        if dead {
            self.ids.remove(&known.pid);
        }
        agrees
    }

    fn moves(&mut self, pid: Pid, to: usize) {
        let Some(&task) = self.ids.get(&pid) else { return };
        let from = self.scene.tasks[task.index()].cpu;
        if to >= self.current.len() || from == to {
            return;
        }
        // A waking task's move is its placement, which its wakeup tells.
        if self.known[task.index()].on_its_way.is_some() {
            self.is_on_its_way(task, Some(to));
        }
        if self.known[task.index()].stand == Stand::Asleep && self.policy.is_delayed(task) {
            self.goes_late(task, to);
        }
        if self.known[task.index()].stand == Stand::Queued {
            self.policy.dequeue(&self.scene, from, task, Departure::Moves);
            self.scene.tasks[task.index()].cpu = to;
            self.policy.enqueue(&self.scene, to, task, Arrival::Moved);
            // Where it stands there follows from two queues at two times: its next charge tells.
            self.known[task.index()].sure &= !self.is_told();
            if self.scene.cpus[to].running.is_some()
                && self.policy.preempts(&self.scene, to, task, Arrival::Moved)
            {
                self.expect(to, Cause::Wakeup(task));
            }
        }
    }

    /// Whether a task wakes where it is, since it has not left its queue: then the kernel asks for no CPU, which the
    /// recording tells if it tells sync wakeups. The policy's state becomes the same.
    fn stays_where_it_is(&mut self, task: TaskId, kernel_asks: bool) -> bool {
        if self.sync.is_empty() || !self.policy.places_by_all() {
            return false;
        }
        if kernel_asks {
            self.goes_late(task, self.scene.task(task).cpu);
        }
        !kernel_asks
    }

    /// A wakeup is on its way to a CPU, which no other takes for idle until it has come (`ttwu_pending`).
    fn is_on_its_way(&mut self, task: TaskId, to: Option<usize>) {
        let before = std::mem::replace(&mut self.known[task.index()].on_its_way, to);
        for (cpu, comes) in [(before, false), (to, true)] {
            let Some(cpu) = cpu else { continue };
            let pending = &mut self.scene.cpus[cpu].pending;
            *pending = if comes { *pending + 1 } else { pending.saturating_sub(1) };
        }
    }

    /// A task that sleeps is on another CPU from now on: one that had not left its queue has done so.
    fn goes_late(&mut self, task: TaskId, to: usize) {
        let from = self.scene.task(task).cpu;
        if let Some(standing) = self.policy.held_of(task).filter(|of| of.delayed) {
            let out = Standing { queued: false, delayed: false, ..standing };
            self.policy.take_standing(from, task, &out);
        }
        self.scene.tasks[task.index()].cpu = to;
    }

    /// A task in words.
    fn name(&self, task: TaskId) -> String {
        let pid = self.known[task.index()].pid;
        let comm = self.info.comms.get(&pid);
        let end = |comm: &[u8; 16]| comm.iter().position(|byte| *byte == 0).unwrap_or(16);
        let name = comm.map(|comm| String::from_utf8_lossy(&comm[..end(comm)]).into_owned());
        format!("{} (pid {pid})", name.unwrap_or_else(|| "?".to_owned()))
    }
}
