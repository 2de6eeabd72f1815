//! A trace that nobody recorded: plausible scheduling of any size, the same for the same seed.
//!
//! Benchmarks, pictures and tests need traces of 128 CPUs or ten million events that no machine at
//! hand gives. Tasks sleep, are woken by timers or by each other, wait in queues, are preempted and
//! moved to idle CPUs. It imitates the *shape* of a trace and is no model of a scheduler; for that
//! there is the simulator.

use crate::dat::{Header, Spool};
use crate::encode::Encoder;
use crate::names;
use schedlab_model::{
    Clock, Comm, Context, Cpu, CpuSet, Event, EventSource, Kind, Left, Nanos, Pid, Prio, Topology,
    TraceInfo, Warning, What,
};
use schedlab_random::XorShiftStar;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::path::Path;

/// The size and the properties of a synthetic trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of CPUs, at least one.
    pub cpus: u16,
    /// Tasks for each CPU; above two or three, queues form.
    pub tasks_per_cpu: u16,
    /// Events after which the trace ends, names of tasks not counted.
    pub events: u64,
    /// Seed of the random numbers: the same seed gives the same trace.
    pub seed: u64,
}

impl Default for Plan {
    /// 8 CPUs, 3 tasks each, 100,000 events.
    fn default() -> Self {
        Self { cpus: 8, tasks_per_cpu: 3, events: 100_000, seed: 1 }
    }
}

/// The longest a task runs while others wait.
const SLICE_NS: u64 = 3_000_000;
/// The pid of the first task.
const FIRST_PID: i32 = 1000;

/// A synthetic trace as a source of events.
pub struct Synthetic {
    plan: Plan,
    info: TraceInfo,
    random: XorShiftStar,
    left: u64,
    cpus: Vec<CpuState>,
    tasks: Vec<Task>,
    /// What happens next, by time: the end of a burst on a CPU, or a timer that wakes a task.
    next: BinaryHeap<Reverse<(u64, u32, Next)>>,
    sequence: u32,
    time: u64,
    pending: Vec<Event>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    /// The running task of a CPU pauses; the number tells old plans from current ones.
    Pause(u16, u32),
    Timer(u32),
}

#[derive(Default)]
struct CpuState {
    running: Option<u32>,
    /// Counts dispatches, so that a pause of an earlier one is known as old.
    dispatch: u32,
    queue: VecDeque<u32>,
    /// The task that runs here must give way even if it has more to do.
    expires: bool,
}

#[derive(Clone, Copy)]
struct Task {
    last_cpu: u16,
    /// What is left of its burst of work, in nanoseconds.
    work: u64,
    asleep: bool,
}

impl Synthetic {
    /// A trace by this plan.
    #[must_use]
    pub fn new(plan: Plan) -> Self {
        let cpus = plan.cpus.max(1);
        let count = u32::from(cpus) * u32::from(plan.tasks_per_cpu.max(1));
        let mut info = TraceInfo::new("synthetic", Clock::Monotonic);
        info.cpus = CpuSet::first(cpus.into());
        info.topology = Some(Topology::flat(cpus));
        info.kinds = [Kind::Switch, Kind::Waking, Kind::Wakeup, Kind::Migrate, Kind::Comm]
            .into_iter()
            .collect();
        info.comms = (0..count).map(|task| (pid(task), name(task))).collect();
        let mut synthetic = Self {
            info,
            random: XorShiftStar::new(plan.seed ^ 0x9e37_79b9_7f4a_7c15),
            left: plan.events,
            cpus: (0..cpus).map(|_| CpuState::default()).collect(),
            tasks: Vec::new(),
            next: BinaryHeap::new(),
            sequence: 0,
            time: 1_000_000_000,
            pending: Vec::new(),
            plan,
        };
        for task in 0..count {
            let last_cpu = u16::try_from(task % u32::from(cpus)).expect("below a u16");
            synthetic.tasks.push(Task { last_cpu, work: 0, asleep: true });
            let at = synthetic.time + synthetic.below(2_000_000);
            synthetic.plan_next(at, Next::Timer(task));
        }
        synthetic
    }

    /// Writes the trace as a trace.dat of this version and compression (`header` gives the rest).
    ///
    /// # Errors
    /// I/O.
    pub fn write(mut self, path: &Path, header: Header) -> io::Result<()> {
        let mut encoder = Encoder::new(&self.info);
        let mut spool = Spool::create(path, header)?;
        spool.header().cpus = self.plan.cpus.max(1).into();
        spool.header().formats = encoder.formats().to_vec();
        spool.header().cmdlines = self.info.comms.iter().map(|(pid, comm)| (*pid, *comm)).collect();
        let mut batch = Vec::new();
        while self.next(&mut batch)? {
            for event in &batch {
                if let Some(body) = encoder.body(event) {
                    spool.record(event.cpu, event.time, body)?;
                }
            }
        }
        spool.finish()
    }

    fn draw(&mut self) -> u64 {
        self.random.bits()
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.draw() >> 11) % limit.max(1)
    }

    /// A duration around `mean` with a long tail.
    fn spread(&mut self, mean: u64) -> u64 {
        let zeros = u64::from(self.draw().trailing_zeros().min(8));
        mean / 4 + self.below(mean) * (zeros + 1) / 2
    }

    fn plan_next(&mut self, at: u64, what: Next) {
        self.sequence = self.sequence.wrapping_add(1);
        self.next.push(Reverse((at, self.sequence, what)));
    }

    fn emit(&mut self, cpu: u16, by: Option<u32>, context: Context, what: What) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let by = by.map_or(Pid::IDLE, pid);
        self.pending.push(Event { time: Nanos(self.time), by, cpu: Cpu(cpu), context, what });
        // Two events of one trace are rarely closer.
        self.time += 150 + (self.random.state() & 255);
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((at, _, what))) = self.next.pop() else { return false };
        self.time = self.time.max(at);
        match what {
            Next::Timer(task) => {
                let cpu = self.tasks[task as usize].last_cpu;
                if self.tasks[task as usize].asleep {
                    self.wake(task, cpu, Context::HardIrq);
                }
            }
            Next::Pause(cpu, dispatch) => {
                if self.cpus[usize::from(cpu)].dispatch == dispatch {
                    self.pause(cpu);
                }
            }
        }
        true
    }

    /// `task` is woken by the task that runs on `waker`.
    fn wake(&mut self, task: u32, waker: u16, context: Context) {
        let by = self.cpus[usize::from(waker)].running;
        let last = self.tasks[task as usize].last_cpu;
        let prio = prio(task);
        self.emit(waker, by, context, What::Waking { pid: pid(task), prio, last_cpu: Cpu(last) });
        let place = self.place(last, waker);
        if place != last {
            let from = Cpu(last);
            let to = Cpu(place);
            self.emit(waker, by, context, What::Migrate { pid: pid(task), from, to });
        }
        self.tasks[task as usize].last_cpu = place;
        self.tasks[task as usize].asleep = false;
        self.tasks[task as usize].work = self.spread(400_000);
        let what = What::Wakeup { pid: pid(task), prio, cpu: Cpu(place), new: false };
        self.emit(waker, by, context, what);
        self.cpus[usize::from(place)].queue.push_back(task);
        if self.cpus[usize::from(place)].running.is_none() {
            self.dispatch(place, None, Left::Displaced);
        } else {
            self.limit(place);
        }
    }

    /// The previous CPU when idle, else the waker's, else an idle one of a few tried, else the previous.
    fn place(&mut self, last: u16, waker: u16) -> u16 {
        let mut candidates = [last, waker, 0, 0, 0];
        for candidate in &mut candidates[2..] {
            *candidate = u16::try_from(self.below(self.cpus.len() as u64)).expect("below a u16");
        }
        let idle = |cpu: &u16| {
            let state = &self.cpus[usize::from(*cpu)];
            state.running.is_none() && state.queue.is_empty()
        };
        candidates.into_iter().find(idle).unwrap_or(last)
    }

    /// Someone waits on `cpu`: its task runs for a slice at most.
    fn limit(&mut self, cpu: u16) {
        if !self.cpus[usize::from(cpu)].expires {
            self.cpus[usize::from(cpu)].expires = true;
            let at = self.time + SLICE_NS;
            let dispatch = self.cpus[usize::from(cpu)].dispatch;
            self.plan_next(at, Next::Pause(cpu, dispatch));
        }
    }

    /// The running task has done its work or its slice is over.
    fn pause(&mut self, cpu: u16) {
        let Some(task) = self.cpus[usize::from(cpu)].running else { return };
        let preempted = self.cpus[usize::from(cpu)].expires && self.draw().is_multiple_of(4);
        if preempted {
            self.cpus[usize::from(cpu)].queue.push_back(task);
            return self.dispatch(cpu, Some(task), Left::Preempted);
        }
        // Half of all pauses hand over to another task first, as over a pipe.
        if self.draw().is_multiple_of(2) {
            let other = u32::try_from(self.below(self.tasks.len() as u64)).expect("few tasks");
            if other != task && self.tasks[other as usize].asleep {
                self.wake(other, cpu, Context::Task);
            }
        }
        self.tasks[task as usize].asleep = true;
        let at = self.time + self.spread(1_000_000);
        self.plan_next(at, Next::Timer(task));
        let left = if self.draw().is_multiple_of(16) { Left::Blocked } else { Left::Slept };
        self.dispatch(cpu, Some(task), left);
    }

    /// `cpu` leaves `prev` and runs the next in its queue, or idles.
    fn dispatch(&mut self, cpu: u16, prev: Option<u32>, left: Left) {
        let state = &mut self.cpus[usize::from(cpu)];
        let next = state.queue.pop_front();
        state.dispatch = state.dispatch.wrapping_add(1);
        state.running = next;
        state.expires = false;
        let dispatch = state.dispatch;
        let waiting = !state.queue.is_empty();
        let what = What::Switch {
            prev: prev.map_or(Pid::IDLE, pid),
            prev_prio: prev.map_or(Prio::NORMAL, prio),
            left: if prev.is_some() { left } else { Left::Displaced },
            next: next.map_or(Pid::IDLE, pid),
            next_prio: next.map_or(Prio::NORMAL, prio),
        };
        self.emit(cpu, prev, Context::Task, what);
        if let Some(next) = next {
            let at = self.time + self.tasks[next as usize].work;
            self.plan_next(at, Next::Pause(cpu, dispatch));
            if waiting {
                self.limit(cpu);
            }
        }
    }
}

impl EventSource for Synthetic {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        while self.pending.len() < 1024 && self.left > 0 && self.step() {}
        std::mem::swap(batch, &mut self.pending);
        Ok(!batch.is_empty())
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}

fn pid(task: u32) -> Pid {
    Pid(FIRST_PID.saturating_add_unsigned(task))
}

/// One task in sixteen has a real-time priority.
fn prio(task: u32) -> Prio {
    if task % 16 == 15 { Prio(50) } else { Prio::NORMAL }
}

fn name(task: u32) -> Comm {
    let kind = ["worker", "server", "client", "kworker/u8"][(task % 4) as usize];
    names::comm(format!("{kind}:{}", task / 4).as_bytes())
}
