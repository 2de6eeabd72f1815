//! How fast the state machine and the questions are, apart from reading: events a second on one
//! core, best of several passes over a synthetic trace in memory.
//!
//! `cargo bench -p schedlab-timeline`. With a number as argument, that many million events a pass.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use schedlab_model::{
    Clock, Context, Cpu, CpuSet, Event, EventSource, Left, Nanos, Pid, Prio, TraceInfo, Warning,
    What,
};
use schedlab_random::SplitMix64;
use schedlab_timeline::{
    Chosen, Conservation, ConservationOptions, Cpus, EveryTask, Latency, LatencyByCpu, Locality,
    Migrations, Question, Tasks, Waiting, Worst, ask,
};
use std::hint::black_box;
use std::io;
use std::time::{Duration, Instant};

/// CPUs and tasks of the synthetic machine: as hackbench with five groups on a small server.
const SMALL: Size = Size { cpus: 16, tasks: 200 };
/// As a large server under the same load per CPU; what a question costs should hardly depend on it.
const LARGE: Size = Size { cpus: 1024, tasks: 12_800 };
/// Passes, of which the best counts: others may use the machine.
const PASSES: usize = 5;

/// How large a synthetic machine is.
#[derive(Clone, Copy)]
struct Size {
    cpus: u16,
    tasks: usize,
}

/// What a task of the synthetic machine does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    Sleeps,
    Waits,
    Runs,
}

/// A machine that schedules at random but legally, so that the state machine takes its usual paths.
struct Machine {
    size: Size,
    dice: SplitMix64,
    time: u64,
    tasks: Vec<(Now, u16)>,
    current: Vec<Pid>,
    events: Vec<Event>,
}

impl Machine {
    fn new(size: Size) -> Self {
        let tasks =
            (0..size.tasks).map(|task| (Now::Sleeps, (task % usize::from(size.cpus)) as u16));
        let (tasks, current) = (tasks.collect(), vec![Pid::IDLE; size.cpus.into()]);
        Self { size, dice: SplitMix64::new(1), time: 0, tasks, current, events: Vec::new() }
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.dice.bits() % sides
    }

    fn log(&mut self, cpu: u16, what: What) {
        let by = self.current[usize::from(cpu)];
        let (cpu, time, context) = (Cpu(cpu), Nanos(self.time), Context::Task);
        self.events.push(Event { time, by, cpu, context, what });
    }

    fn step(&mut self) {
        self.time += 50 + self.roll(500);
        let cpu = self.roll(self.size.cpus.into()) as u16;
        let prio = Prio::NORMAL;
        if self.roll(2) == 0 {
            let task = self.roll(self.size.tasks as u64) as usize;
            if self.tasks[task].0 != Now::Sleeps {
                return;
            }
            let (pid, last) = (Pid(task as i32 + 1), self.tasks[task].1);
            self.log(cpu, What::Waking { pid, prio, last_cpu: Cpu(last) });
            let to = if self.roll(4) == 0 { cpu } else { last };
            if to != last {
                self.log(cpu, What::Migrate { pid, from: Cpu(last), to: Cpu(to) });
            }
            self.log(cpu, What::Wakeup { pid, prio, cpu: Cpu(to), new: false });
            self.tasks[task] = (Now::Waits, to);
            return;
        }
        let prev = self.current[usize::from(cpu)];
        let first = self.roll(self.size.tasks as u64) as usize;
        let order = (first..self.size.tasks).chain(0..first);
        let next = order.into_iter().find(|task| self.tasks[*task] == (Now::Waits, cpu));
        let stays = !prev.is_idle() && next.is_some() && self.roll(4) == 0;
        if next.is_none() && prev.is_idle() {
            return;
        }
        let left = if stays { Left::Preempted } else { Left::Slept };
        if !prev.is_idle() {
            let now = if stays { Now::Waits } else { Now::Sleeps };
            self.tasks[prev.0 as usize - 1] = (now, cpu);
        }
        let pid = next.map_or(Pid::IDLE, |task| Pid(task as i32 + 1));
        self.log(cpu, What::Switch { prev, prev_prio: prio, left, next: pid, next_prio: prio });
        if let Some(task) = next {
            self.tasks[task] = (Now::Runs, cpu);
        }
        self.current[usize::from(cpu)] = pid;
    }
}

/// The same events again and again, later each time.
struct Repeated<'a> {
    info: TraceInfo,
    events: &'a [Event],
    at: usize,
    offset: Nanos,
    left: usize,
}

impl EventSource for Repeated<'_> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        batch.clear();
        if self.at == self.events.len() {
            self.at = 0;
            self.offset += self.events.last().map_or(Nanos::ZERO, |event| event.time);
        }
        let count = (self.events.len() - self.at).min(2048).min(self.left);
        let events = &self.events[self.at..][..count];
        batch.extend(events.iter().map(|event| Event { time: event.time + self.offset, ..*event }));
        self.at += count;
        self.left -= count;
        Ok(count > 0)
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}

/// Asks nothing: what remains is the state machine.
struct Nothing;

impl Question for Nothing {
    type Answer = ();
    fn see(&mut self, change: &schedlab_timeline::Change, _: &schedlab_timeline::State) {
        black_box(change);
    }
    fn answer(self, _: &schedlab_timeline::State) {}
}

/// Time on a CPU where Linux tells it, since others may use the machine; else the wall's.
struct Clocks {
    wall: Instant,
    on_cpu: Option<u64>,
}

impl Clocks {
    fn now() -> Self {
        Self { wall: Instant::now(), on_cpu: on_cpu_ns() }
    }

    fn elapsed(&self) -> Duration {
        match (self.on_cpu, on_cpu_ns()) {
            (Some(before), Some(now)) => Duration::from_nanos(now - before),
            _ => self.wall.elapsed(),
        }
    }
}

/// The first number of `schedstat` (Documentation/scheduler/sched-stats.rst).
fn on_cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn measure<Q: Question>(
    name: &str,
    size: Size,
    events: &[Event],
    count: usize,
    question: impl Fn(&TraceInfo) -> Q,
) {
    let mut info = TraceInfo::new("synthetic", Clock::Monotonic);
    info.cpus = CpuSet::first(size.cpus.into());
    let pass = || {
        let mut source =
            Repeated { info: info.clone(), events, at: 0, offset: Nanos::ZERO, left: count };
        let question = question(&info);
        let start = Clocks::now();
        let reply = ask(&mut source, question);
        let took = start.elapsed();
        drop(black_box(reply));
        took
    };
    let best = (0..PASSES).map(|_| pass()).min().unwrap_or_default();
    let ns = best.as_nanos() as f64 / count as f64;
    println!("{name:<36} {ns:>6.1} ns an event   {:>6.1} million events/s", 1e3 / ns);
}

fn main() {
    let asked = std::env::args().filter_map(|argument| argument.parse::<usize>().ok()).next();
    let count = asked.unwrap_or(5) * 1_000_000;
    for (name, size) in [("a small machine", SMALL), ("a large one", LARGE)] {
        println!("{name}: {} CPUs, {} tasks", size.cpus, size.tasks);
        measure_all(size, count);
    }
}

fn measure_all(size: Size, count: usize) {
    let events = events(size);
    measure("state machine alone", size, &events, count, |_| Nothing);
    measure("latency", size, &events, count, |_| Latency::new());
    measure("tasks", size, &events, count, |_| Tasks::new());
    measure("cpus", size, &events, count, |_| Cpus::new());
    measure("waiting", size, &events, count, |_| Waiting::new(1000));
    measure("conservation", size, &events, count, conservation);
    measure("locality", size, &events, count, |_| Locality::new(None));
    measure("migrations", size, &events, count, |_| Migrations::new(None, 10));
    measure("waits by CPU, and the ten worst", size, &events, count, |_| {
        (LatencyByCpu::new(), Worst::new(10))
    });
    measure("waiting, half of the tasks", size, &events, count, |_| {
        Waiting::new(1000).about(half(size, &events))
    });
    measure("latency, tasks, cpus and waiting", size, &events, count, |_| {
        (Latency::new(), Tasks::new(), Cpus::new(), Waiting::new(1000))
    });
}

/// Every second task of the synthetic machine.
fn half(size: Size, events: &[Event]) -> Chosen {
    let mut info = TraceInfo::new("synthetic", Clock::Monotonic);
    info.cpus = CpuSet::first(size.cpus.into());
    let mut source = Repeated { info, events, at: 0, offset: Nanos::ZERO, left: events.len() };
    let who = ask(&mut source, EveryTask).map(|reply| reply.state);
    who.map_or_else(|_| Chosen::all(), |who| Chosen::of(&who, |_, pid, _| pid.0 % 2 == 0))
}

fn conservation(info: &TraceInfo) -> Conservation {
    Conservation::new(ConservationOptions::default(), info)
}

fn events(size: Size) -> Vec<Event> {
    let mut machine = Machine::new(size);
    while machine.events.len() < 500_000 {
        machine.step();
    }
    machine.events
}
