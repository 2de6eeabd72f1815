//! The world: tasks, CPUs and what they share, moved from event to event.
//!
//! Each CPU works on one piece at a time: a phase of its task's operation, or the way out of a switch. When the piece
//! ends, the operation takes effect, which may wake others, put the task to sleep, or lead to its next operation.
//! Files: `perform` has a task's way through its operations, `work` what they cost, `effect` what they do, `messages`
//! both for channels, `short_way` both for most messages, `wake` the way from a wakeup to a CPU, `switch` who runs,
//! `kernel` both where a kernel's own code decides, `start` the beginning and the end of a load, `timers` which sleeps
//! end together, `speed` how fast CPUs work, `gaps` interrupts and the hypervisor, `turns` CPUs that take turns,
//! `bandwidth` shared memory, `noise` what varies by chance, `channel`, `pages`, `slub` and `shared_objects` what tasks
//! share, `calls` what a recording tells of reads and writes, `deadlock` who waits for whom.

mod bandwidth;
mod calls;
mod channel;
mod deadlock;
mod effect;
mod gaps;
mod kernel;
mod messages;
mod noise;
mod pages;
mod perform;
mod shared_objects;
mod short_way;
mod slub;
mod speed;
mod start;
mod switch;
mod task;
mod timers;
mod turns;
mod wake;
mod work;

pub use deadlock::Deadlock;
pub use gaps::Gap;
pub use task::TaskUsage;

use crate::event_queue::{Agenda, NEVER, Next};
use crate::policy::Policy;
use crate::policy_view::{Class, CpuView, FULL_SPEED, Hardware, Scene, TaskId, TaskView, id};
use crate::{Costs, policy};
use calls::Calls;
use channel::Channel;
use schedlab_model::{Comm, Context, Event, Nanos, Pid, Prio, What};
use schedlab_stats::Histogram;
use schedlab_workload::plan::{Block, Placement, Plan, Task};
use shared_objects::Shared;
use slub::Memory;
use std::collections::{BTreeMap, BTreeSet};
use task::{Act, Body, Phase, TaskState};
use timers::Timers;

/// How a load begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// A task forks all others, which prepare themselves and wait; then it lets them go, the last first. This is what
    /// a load on a real kernel does.
    #[default]
    Forked,
    /// All tasks wake at once, on CPUs in turn, without a task that starts them.
    AtOnce,
    /// Each task is where its plan's origin says. Those whose first operation waits are asleep. The time of a sleep's
    /// end is that of the interrupt, however deep its CPU idles.
    InPlace,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Orders what happens at equal times; 0: CPUs in order of their numbers.
    pub seed: u64,
    /// The time that each operation takes.
    pub costs: Costs,
    /// The distance between two ticks in nanoseconds (4,000,000 with HZ=250).
    pub tick_ns: u64,
    /// Whether a task can be displaced within a system call (`preempt=full`), or only on its way out of it.
    pub preempt_kernel: bool,
    /// How the load begins.
    pub start: Start,
    /// The pid of the first task; the task that starts the others has the one before it.
    pub first_pid: i32,
    /// Whether events are kept for the caller; they are counted in any case.
    pub record: bool,
    /// The time at which the simulation begins, in nanoseconds.
    pub begin_ns: u64,
    /// The speed of a thread while other threads of its core are busy, in millionths of what it has
    /// alone.
    pub smt_speed: u64,
    /// Whether the ticks of CPUs are spread over half a tick (`skew_tick=1`); otherwise all CPUs tick at once.
    pub skew_tick: bool,
    /// Whether CPUs take turns, as those of a guest in QEMU whose clock is its instructions.
    pub turns: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 0,
            costs: Costs::USUAL,
            tick_ns: 4_000_000,
            preempt_kernel: false,
            start: Start::Forked,
            first_pid: 1_001,
            record: true,
            // Not 0: a message whose stamp is 0 carries none.
            begin_ns: 1_000_000_000,
            smt_speed: FULL_SPEED,
            skew_tick: false,
            turns: false,
        }
    }
}

/// Why a simulation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// All tasks sleep, and nobody can wake them.
    #[error(transparent)]
    Deadlock(#[from] Deadlock),
    /// The kernel's own code aborted, with this message.
    #[error("{0}")]
    Kernel(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The time that was asked for has come.
    Paused,
    Ended,
}

/// What can happen, beside the end of a CPU's piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// The timer of a task's sleep, with the number of the sleep, and whether the CPU's way out of idle has passed.
    Timer(TaskId, u64, bool),
    /// A woken task reaches the CPU that was chosen for it.
    Arrive(usize, TaskId),
    /// A CPU is asked to look who should run.
    Resched(usize),
    /// A CPU is asked to give a task to another.
    Push(policy::Push),
    /// The policy acts by itself.
    Alarm(policy::Alarm),
    /// A CPU gets another speed: the change of this number.
    Speed(usize),
    /// Interrupts or the hypervisor take a CPU: the source of this number.
    Gap(usize),
    /// A CPU comes back from interrupts or the hypervisor.
    GapEnds(usize),
    /// One CPU ticks by itself.
    TickOf(usize),
    Tick,
    Stop,
    /// The clock of a CPU goes off that was set to this time, in a kernel's own code; whether the CPU's way out of idle has
    /// passed.
    Clock {
        cpu: usize,
        at: u64,
        awake: bool,
    },
    /// Interrupts that CPUs sent to another arrive there, in a kernel's own code.
    Interrupt(usize),
    /// The way out of an interrupt on a CPU, in a kernel's own code.
    WayOut(usize),
    /// The turn of a CPU ends, if its end is still planned for this time.
    TurnEnds(u64),
    /// The frequency of a CPU changes, by a kernel's own code.
    Frequency {
        cpu: usize,
        khz: u64,
    },
}

/// A CPU's piece of work. It began when the CPU's last path in a kernel's code ended.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    began: u64,
    ends: u64,
}

/// How far the end of a load is that has a duration.
#[derive(Clone, Copy, Debug, Default)]
struct Ending {
    /// Its time is over; the task that ends it has to get a CPU.
    time_is_up: bool,
    /// That task has run.
    is_asked_for: bool,
    /// When the tasks were asked to stop.
    stopped_at: Option<u64>,
}

/// Parts of the machine that are off by default.
#[derive(Default)]
struct Extras {
    /// CPUs whose own tick is planned, where ticks are skewed.
    ticks_armed: Vec<bool>,
    /// What takes CPUs from their tasks.
    gaps: Vec<gaps::Source>,
    /// The part of its highest frequency that each CPU has, in millionths; none where frequencies do not change.
    frequencies: Vec<u64>,
    /// What makes costs vary, if they do.
    noise: Option<noise::Noise>,
    /// Bandwidth of memory, if that has a limit.
    bandwidth: Option<bandwidth::Bandwidth>,
    /// Whose turn it is, where CPUs take turns.
    turns: Option<turns::Turns>,
}

/// Events that are kept before the caller gets them.
const FLUSH: usize = 4_096;

/// A simulation of tasks, CPUs and what they share.
pub struct World {
    config: Config,
    scene: Scene,
    policy: Box<dyn Policy>,
    /// A kernel's own scheduler, which decides instead of the policy.
    code: Option<Box<kernel::Code>>,
    /// Why the run cannot go on.
    broken: Option<String>,
    /// The thread of the kernel that runs on each CPU.
    on_thread: Vec<Option<Pid>>,
    /// Whether the policy acts by itself.
    timed: bool,
    bodies: Vec<Body>,
    comms: Vec<String>,
    pids: Vec<Pid>,
    starter: Option<TaskId>,
    /// The kernel's RCU thread, and whether it has something to do at the next tick.
    rcu: Option<TaskId>,
    stirred: bool,
    agenda: Agenda<Happening>,
    pieces: Vec<Piece>,
    /// How fast each CPU works now, in millionths of full speed.
    speeds: Vec<u64>,
    /// Changes of speeds, by the time since the load began.
    slowing: Vec<(u64, usize, u64)>,
    /// The mark of the first change, if changes are marked.
    speed_marks: Option<u32>,
    /// Timers of sleeps, by the CPU that fires them.
    timers: Timers,
    /// Alarms of the policy that have not gone off, by CPU.
    alarms: Vec<BTreeSet<policy::Alarm>>,
    /// CPUs in their order at equal times.
    order: Vec<usize>,
    /// When the next tick of all CPUs comes, if it is planned, and when a CPU last ticked in a timer's interrupt.
    tick_at: Option<u64>,
    ticked: Vec<Option<u64>>,
    extras: Extras,
    shared: Shared,
    cpu_locks: Vec<Option<TaskId>>,
    channels: Vec<Channel>,
    calls: Calls,
    /// Whether calls may take the short way.
    short: bool,
    /// Memory of the messages of sockets.
    memory: Memory,
    blocks: Vec<Block>,
    places: Vec<Placement>,
    /// Tasks of each fork that may be started.
    forks: Vec<Vec<TaskId>>,
    series: usize,
    counters_each: usize,
    /// By task, then series.
    histograms: Vec<Histogram>,
    /// By task, then counter.
    counters: Vec<u64>,
    dials: Vec<u64>,
    duration: Option<u64>,
    /// Tasks that are started at the beginning, in order.
    spawn: Vec<TaskId>,
    spawned: usize,
    ready: usize,
    told_ready: bool,
    gate: Vec<TaskId>,
    went_at: Option<u64>,
    /// When the tasks are to stop, if that is known and they were let go.
    until: Option<Nanos>,
    ended_at: Option<u64>,
    ending: Ending,
    stopping: bool,
    started: u64,
    alive: usize,
    /// Tasks that have ended, and how many of them the starter has seen.
    gone: u64,
    reaped: u64,
    /// Whether tasks are processes, whose end wakes the starter.
    processes: bool,
    /// The CPU whose task's operation takes effect right now.
    acting: Option<usize>,
    /// The CPU in an interrupt right now, and whether its way out has to look who should run.
    interrupted: Option<usize>,
    has_to_look: bool,
    /// What the current CPU's task has to pay for wakeups.
    owed: u64,
    moves: policy::Moves,
    /// Where the task of a CPU is to be pushed to.
    pushes: Vec<Option<usize>>,
    marks: Vec<(u32, schedlab_model::Phase, u32)>,
    events: Vec<Event>,
    emitted: u64,
}

impl World {
    /// A world in which the plan's tasks have not begun. Its behaviours are taken out of the plan.
    #[must_use]
    pub fn new(
        plan: &mut Plan,
        hardware: Hardware,
        policy: Box<dyn Policy>,
        config: Config,
    ) -> Self {
        let tasks = std::mem::take(&mut plan.tasks);
        let cpus = hardware.cpus();
        let speeds = (0..cpus).map(|cpu| hardware.speed(cpu)).collect();
        let agenda = Agenda::new(cpus, config.seed);
        let order = in_order(cpus, &agenda);
        let series = plan.samples.len();
        let counters_each = plan.counters.len();
        let channels = channels(plan, &tasks, &config.costs);
        let Cast { bodies, pids, views, comms, spawn, starter, rcu } = cast(plan, tasks, &config);
        let count = starter.map_or(bodies.len(), TaskId::index);
        let task_ids = |fork: &schedlab_workload::plan::Fork| {
            fork.tasks.iter().rev().map(|&task| TaskId(task as u32)).collect()
        };
        Self {
            scene: scene(views, hardware, config.begin_ns),
            timed: policy.is_timed(),
            policy,
            code: None,
            broken: None,
            on_thread: vec![None; cpus],
            bodies,
            comms,
            pids,
            starter,
            rcu,
            stirred: false,
            agenda,
            pieces: vec![Piece::default(); cpus],
            speeds,
            slowing: Vec::new(),
            speed_marks: None,
            timers: Timers::new(cpus),
            alarms: vec![BTreeSet::new(); cpus],
            order,
            tick_at: None,
            ticked: vec![None; cpus],
            extras: Extras { ticks_armed: vec![false; cpus], ..Extras::default() },
            shared: Shared::of(plan),
            cpu_locks: vec![None; cpus],
            channels,
            calls: Calls::default(),
            short: config.start != Start::InPlace,
            memory: Memory::new(cpus),
            blocks: plan.blocks.clone(),
            places: plan.places.clone(),
            forks: plan.forks.iter().map(task_ids).collect(),
            series,
            counters_each,
            histograms: vec![Histogram::new(); count * series],
            counters: vec![0; count * counters_each],
            dials: plan.dials.clone(),
            duration: plan.timing.duration.map(|duration| duration.0),
            spawn,
            spawned: 0,
            ready: 0,
            told_ready: false,
            gate: Vec::new(),
            went_at: None,
            until: None,
            ended_at: None,
            ending: Ending::default(),
            stopping: false,
            started: 0,
            alive: 0,
            gone: 0,
            reaped: 0,
            processes: plan.processes,
            acting: None,
            interrupted: None,
            has_to_look: false,
            owed: 0,
            moves: policy::Moves::default(),
            pushes: vec![None; cpus],
            marks: Vec::new(),
            events: Vec::new(),
            emitted: 0,
            config,
        }
    }

    /// Goes on until all tasks have ended, or until `limit` (nanoseconds on the world's clock). It also pauses before a
    /// load that has a duration is stopped, and stops it when it goes on. `sink` gets the events, in batches, in order of
    /// time.
    ///
    /// # Errors
    /// When tasks are alive and nothing can happen any more; or a kernel's own code stopped.
    pub fn run_until(&mut self, limit: u64, sink: &mut dyn FnMut(&[Event])) -> Result<Step, Halt> {
        self.boot();
        if self.spawned == 0 {
            self.begin_turns();
            self.begin();
        }
        if self.asks_to_stop() {
            self.stop();
        }
        let ended = loop {
            if let Some(why) = &self.broken {
                break Err(Halt::Kernel(why.clone()));
            }
            if self.ended_at.is_some() {
                break Ok(Step::Ended);
            }
            if self.asks_to_stop() {
                break Ok(Step::Paused);
            }
            let at = self.agenda.next_at();
            if at == NEVER {
                break Err(Halt::Deadlock(self.deadlock()));
            }
            if at > limit {
                self.scene.now = limit;
                break Ok(Step::Paused);
            }
            self.scene.now = at;
            match self.agenda.take_at(at) {
                Some(Next::Cpu(cpu)) => self.piece_ends(cpu),
                Some(Next::Other(happening)) => self.happens(happening),
                None => {}
            }
            // A CPU may have come further, by a path of a kernel's code.
            self.scene.now = at;
            if self.config.turns {
                self.mind_turn();
            }
            if self.events.len() >= FLUSH {
                self.flush(at, sink);
            }
        };
        let until = if matches!(ended, Ok(Step::Paused)) { self.scene.now } else { NEVER };
        self.flush(until, sink);
        ended
    }

    /// Hands out events in order of time, up to a time before which no other can come.
    fn flush(&mut self, until: u64, sink: &mut dyn FnMut(&[Event])) {
        if self.has_code() {
            self.events.sort_by_key(|event| event.time);
        }
        let whole = self.events.partition_point(|event| event.time.0 <= until);
        if whole > 0 {
            sink(&self.events[..whole]);
            self.events.drain(..whole);
        }
    }

    fn happens(&mut self, happening: Happening) {
        if !self.extras.gaps.is_empty() && self.is_put_off(happening) {
            return;
        }
        if self.config.turns && self.waits_for_turn(happening) {
            return;
        }
        if self.has_code() && self.comes_early(happening) {
            return;
        }
        match happening {
            Happening::Timer(task, sleep, late) => self.timer_fires(task, sleep, late),
            Happening::Arrive(cpu, task) => {
                self.scene.cpus[cpu].pending -= 1;
                self.arrive(cpu, task, cpu, Context::HardIrq);
            }
            Happening::Resched(cpu) => self.look(cpu),
            Happening::Push(push) => self.push(push),
            Happening::Alarm(alarm) => self.alarm(alarm),
            Happening::Speed(number) => self.change_speed(number),
            Happening::Gap(source) => self.gap(source),
            Happening::GapEnds(cpu) => self.gap_ends(cpu),
            Happening::TickOf(cpu) => self.tick_of(cpu),
            Happening::Tick => self.tick(),
            Happening::Stop => self.ends_its_time(),
            Happening::Clock { cpu, at, awake } => self.clock_goes_off(cpu, at, awake),
            Happening::Interrupt(cpu) => self.sent_arrives(cpu),
            Happening::WayOut(cpu) => self.way_out(cpu),
            Happening::TurnEnds(at) => self.turn_ends(at),
            Happening::Frequency { cpu, khz } => self.change_frequency(cpu, khz),
        }
    }

    /// Puts tasks into control groups, of which there are `count`: those of the plan by their index, and the task that
    /// starts them.
    pub fn set_groups(&mut self, count: usize, of: &[Option<usize>], starter: Option<usize>) {
        for (view, group) in self.scene.tasks.iter_mut().zip(of) {
            view.group = *group;
        }
        if let Some(at) = self.starter {
            self.scene.tasks[at.index()].group = starter;
        }
        let entities = count * self.scene.cpus.len();
        self.scene.tasks.resize(self.scene.first_group + entities, TaskView::default());
    }

    /// The time now, in nanoseconds on the world's clock.
    #[must_use]
    pub(crate) fn now(&self) -> u64 {
        self.scene.now
    }

    /// When the tasks were let go, in nanoseconds; `None` before that.
    #[must_use]
    pub fn went_at(&self) -> Option<u64> {
        self.went_at
    }

    /// When the last task ended, in nanoseconds; `None` before that.
    #[must_use]
    pub fn ended_at(&self) -> Option<u64> {
        self.ended_at
    }

    /// When the tasks were asked to stop, in nanoseconds; `None` if they were not.
    #[must_use]
    pub(crate) fn stopped_at(&self) -> Option<u64> {
        self.ending.stopped_at
    }

    /// Scheduler events so far, kept or not.
    #[must_use]
    pub fn emitted(&self) -> u64 {
        self.emitted
    }

    /// Tasks of the plan that were started so far, forks included.
    #[must_use]
    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// What a task has used so far; its current wait or run is not in it.
    #[must_use]
    pub fn usage(&self, task: TaskId) -> TaskUsage {
        self.bodies[task.index()].usage
    }

    /// When a task ended, if it did and was not started again.
    #[must_use]
    pub fn task_ended_at(&self, task: TaskId) -> Option<u64> {
        self.bodies[task.index()].ended_at
    }

    /// The error that ended a task's operations, if one did (errno).
    #[must_use]
    pub fn task_error(&self, task: TaskId) -> Option<i32> {
        self.bodies[task.index()].error
    }

    /// Samples, by task and then by series of the plan.
    #[must_use]
    pub(crate) fn histograms(&self) -> &[Histogram] {
        &self.histograms
    }

    /// Counters, by task and then by counter of the plan.
    #[must_use]
    pub fn counters(&self) -> &[u64] {
        &self.counters
    }

    /// When the simulation began, in nanoseconds on the world's clock.
    #[must_use]
    pub(crate) fn began_at(&self) -> u64 {
        self.config.begin_ns
    }

    /// Where a dial of the plan stands.
    #[must_use]
    pub(crate) fn dial(&self, dial: usize) -> u64 {
        self.dials[dial]
    }

    /// Turns a dial of the plan.
    pub(crate) fn set_dial(&mut self, dial: usize, value: u64) {
        self.dials[dial] = value;
    }

    /// Time that all CPUs together have spent at work, in nanoseconds, up to the current pieces.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        self.bodies.iter().map(|body| body.usage.user_ns + body.usage.system_ns).sum()
    }

    /// The CPUs and how they share hardware.
    #[must_use]
    pub fn hardware(&self) -> &Hardware {
        &self.scene.hardware
    }

    #[must_use]
    pub(crate) fn pid(&self, task: TaskId) -> Pid {
        let counted = Pid(self.config.first_pid + task.0.cast_signed());
        self.pids.get(task.index()).copied().unwrap_or(counted)
    }

    /// The name and the affinity of each task, the starter included.
    pub(crate) fn tasks(&self) -> impl Iterator<Item = (TaskId, &str, &TaskView)> {
        let ids = (0..).map(TaskId);
        ids.zip(&self.comms).zip(&self.scene.tasks).map(|((id, comm), view)| (id, &**comm, view))
    }

    /// The names of all tasks by pid, as a trace carries them (at most 15 bytes).
    #[must_use]
    pub fn comms(&self) -> BTreeMap<Pid, Comm> {
        let tasks = self.tasks().map(|(task, name, _)| (self.pid(task), comm(name)));
        self.threads().into_iter().chain(tasks).collect()
    }

    /// The priority of a task as the kernel's events tell it.
    fn prio(&self, task: TaskId) -> Prio {
        let view = &self.scene.tasks[task.index()];
        match view.class {
            Class::Fifo(priority) | Class::RoundRobin(priority) => Prio(99 - priority as i16),
            Class::Deadline(_) => Prio(-1),
            _ => Prio(120 + view.nice as i16),
        }
    }

    #[inline]
    fn emit(&mut self, cpu: usize, context: Context, what: What) {
        self.emitted += 1;
        if self.config.record {
            let by = self.scene.cpus[cpu].running.map(|task| self.pid(task));
            let by = by.or(self.on_thread[cpu]).unwrap_or(Pid::IDLE);
            let time = Nanos(self.scene.now);
            self.events.push(Event { time, by, cpu: id(cpu), context, what });
        }
    }

    /// How long work of a task takes on a CPU.
    #[inline]
    fn time_for(&mut self, cpu: usize, task: TaskId, work: u64) -> u64 {
        match self.speeds[cpu] {
            FULL_SPEED => work,
            speed => self.slowed(cpu, task, work, speed),
        }
    }

    /// The same where the CPU is slowed, in a gap, or costs vary. A function of its own keeps a division of 128 bits
    /// out of each operation.
    #[inline(never)]
    fn slowed(&mut self, cpu: usize, task: TaskId, work: u64, speed: u64) -> u64 {
        if speed == 0 {
            return NEVER;
        }
        let work = u128::from(self.with_noise(cpu, task, work)) * u128::from(FULL_SPEED);
        let time = work.div_ceil(u128::from(speed.min(FULL_SPEED)));
        u64::try_from(time).unwrap_or(u64::MAX)
    }

    fn work_in(&self, cpu: usize, time: u64) -> u64 {
        match self.speeds[cpu] {
            FULL_SPEED.. => time,
            speed => {
                let work = u128::from(time) * u128::from(speed) / u128::from(FULL_SPEED);
                u64::try_from(work).unwrap_or(u64::MAX)
            }
        }
    }

    /// Plans the end of the running task's phase.
    #[inline]
    fn go(&mut self, cpu: usize, task: TaskId) {
        let work = self.bodies[task.index()].left;
        let ends = match work {
            NEVER => NEVER,
            work => {
                let time = self.time_for(cpu, task, work);
                self.time_of(cpu).saturating_add(time).min(NEVER - 1)
            }
        };
        self.pieces[cpu] = Piece { began: self.time_of(cpu), ends };
        self.agenda.set(cpu, ends);
    }

    /// The time on a CPU: it may have come further than the world, by a path of a kernel's code.
    #[inline]
    fn time_of(&self, cpu: usize) -> u64 {
        self.scene.now.max(self.pieces[cpu].began)
    }

    /// Accounts what the running task did since its piece began, and takes the piece off the agenda.
    fn pause(&mut self, cpu: usize, task: TaskId) {
        if self.speeds[cpu] == 0 {
            // In a gap the task does nothing and is charged nothing. While others have their turn it is charged.
            let since = self.pieces[cpu].began;
            if self.extras.turns.is_some() {
                account(&mut self.bodies[task.index()], self.scene.now.saturating_sub(since));
            }
            self.pieces[cpu].began = self.scene.now;
            return self.agenda.set(cpu, NEVER);
        }
        let Piece { began, ends } = self.pieces[cpu];
        let now = self.time_of(cpu);
        let rest = self.work_in(cpu, ends.saturating_sub(now));
        let body = &mut self.bodies[task.index()];
        if body.left != NEVER {
            body.left = rest.min(body.left);
        }
        account(body, now - began);
        self.pieces[cpu].began = now;
        self.agenda.set(cpu, NEVER);
    }

    /// The running task has done all of its phase.
    fn piece_ends(&mut self, cpu: usize) {
        let Some(task) = self.scene.cpus[cpu].running else { return };
        let elapsed = self.scene.now - self.pieces[cpu].began;
        let body = &mut self.bodies[task.index()];
        body.left = 0;
        account(body, elapsed);
        self.pieces[cpu].began = self.scene.now;
        let phase = body.phase;
        match phase {
            Phase::Enter if self.goes_short_way(cpu, task) => {}
            Phase::Ask => self.next_act(cpu, task),
            Phase::Enter => self.takes_effect(cpu, task),
            Phase::Blocking => self.blocks_or_goes_on(cpu, task),
        }
    }
}

/// Adds time on a CPU to a task's usage.
fn account(body: &mut Body, elapsed: u64) {
    if body.phase == Phase::Enter && body.act.is_user() {
        body.usage.user_ns += elapsed;
    } else {
        body.usage.system_ns += elapsed;
    }
}

/// CPUs in their order at equal times.
fn in_order(cpus: usize, agenda: &Agenda<Happening>) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cpus).collect();
    order.sort_by_key(|&cpu| agenda.key(cpu));
    order
}

/// What policies see at the beginning.
fn scene(tasks: Vec<TaskView>, hardware: Hardware, now: u64) -> Scene {
    let cpus = vec![CpuView { idle_since: now, ..CpuView::default() }; hardware.cpus()];
    Scene { now, first_group: tasks.len(), tasks, cpus, hardware, tick_of: None }
}

struct Cast {
    bodies: Vec<Body>,
    pids: Vec<Pid>,
    views: Vec<TaskView>,
    comms: Vec<String>,
    /// Those that are started at the beginning.
    spawn: Vec<TaskId>,
    starter: Option<TaskId>,
    rcu: Option<TaskId>,
}

/// The tasks of a plan, then the task that starts them and the kernel's RCU thread.
fn cast(plan: &Plan, tasks: Vec<Task>, config: &Config) -> Cast {
    let cpu = |task: &Task| task.origin.map_or(0, |origin| origin.cpu.index());
    let view = |task: &Task| TaskView { cpu: cpu(task), ..TaskView::of(&task.placement) };
    let mut views: Vec<TaskView> = tasks.iter().map(view).collect();
    let mut comms: Vec<String> = tasks.iter().map(|task| task.comm.clone()).collect();
    let origins: Vec<_> = tasks.iter().map(|task| task.origin.map(|at| at.pid)).collect();
    let mut bodies = bodies(plan, tasks);
    let count = bodies.len();
    let spawn = (0..count).filter(|&at| bodies[at].fork.is_none());
    let spawn = spawn.map(|at| TaskId(at as u32)).collect();
    let starter = (config.start == Start::Forked).then_some(TaskId(count as u32));
    let rcu = (starter.is_some() && config.costs.rcu > 0).then_some(TaskId(count as u32 + 1));
    if starter.is_some() {
        bodies.push(Body::new(None));
        comms.push("schedlab".to_owned());
    }
    if rcu.is_some() {
        let act = Act::EndGrace;
        let phase = Phase::Enter;
        let stand = TaskState::Asleep;
        let left = config.costs.rcu;
        bodies.push(Body { act, phase, left, stand, newborn: false, ..Body::new(None) });
        comms.push("rcu_preempt".to_owned());
    }
    views.resize(bodies.len(), TaskView::default());
    let first = config.first_pid;
    let kernel = [(starter, first - 1), (rcu, first - 2)];
    let pids = pids(bodies.len(), &origins, &kernel, first);
    Cast { bodies, pids, views, comms, spawn, starter, rcu }
}

/// The plan's channels, each with the number of its readers.
fn channels(plan: &Plan, tasks: &[Task], costs: &Costs) -> Vec<Channel> {
    let mut readers = vec![0; plan.channels.len()];
    for channel in tasks.iter().flat_map(|task| &task.receives) {
        readers[*channel as usize] += 1;
    }
    plan.channels
        .iter()
        .zip(readers)
        .map(|(channel, readers)| Channel::new(channel, readers, costs))
        .collect()
}

/// The pids of all tasks: recorded ones keep theirs, `kernel` has those beside the plan's, all others count on.
fn pids(
    count: usize,
    origins: &[Option<Pid>],
    kernel: &[(Option<TaskId>, i32)],
    first: i32,
) -> Vec<Pid> {
    let mut pids: Vec<Pid> = (0..count).map(|at| Pid(first + at as i32)).collect();
    for &(task, pid) in kernel {
        task.into_iter().for_each(|task| pids[task.index()] = Pid(pid));
    }
    pids.iter_mut().zip(origins).for_each(|(pid, origin)| *pid = origin.unwrap_or(*pid));
    pids
}

fn bodies(plan: &Plan, tasks: Vec<Task>) -> Vec<Body> {
    let body = |(at, task): (usize, Task)| Body {
        sends: task.sends,
        receives: task.receives,
        fork: plan.forks.iter().position(|fork| fork.tasks.contains(&at)).map(|fork| fork as u32),
        ..Body::new(Some(task.behaviour))
    };
    tasks.into_iter().enumerate().map(body).collect()
}

/// A name as traces carry it.
fn comm(name: &str) -> Comm {
    let mut comm = [0; 16];
    for (to, from) in comm.iter_mut().zip(name.bytes().take(15)) {
        *to = from;
    }
    comm
}
