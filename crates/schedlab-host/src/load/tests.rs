//! The test that the measured path allocates nothing: each workload runs as it does in a load child,
//! under an allocator that counts, and every task looks at the count between two operations.

use super::arena::Arena;
use super::start_tasks::StartedTasks;
use schedlab_model::{Cpu, Nanos, Topology};
use schedlab_sys::allocation::{Counting, allocations};
use schedlab_workload::placement::MachineProperties;
use schedlab_workload::{Behaviour, Done, Instruments, Op, workloads};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Operations before the state is steady: buffers have their size by then.
const WARM: u64 = 20;

/// A behaviour that tells how often its task has allocated since it was warm.
struct Watched {
    inner: Box<dyn Behaviour>,
    steps: u64,
    at_warm: u64,
    /// Steps of all tasks after they were warm, and allocations in them.
    told: Arc<(AtomicU64, AtomicU64)>,
}

impl Behaviour for Watched {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        self.steps += 1;
        if self.steps == WARM {
            self.at_warm = allocations();
        } else if self.steps > WARM && last != Done::Stopped {
            self.told.0.fetch_add(1, Relaxed);
            self.told.1.fetch_add(allocations() - self.at_warm, Relaxed);
            self.at_warm = allocations();
        }
        self.inner.next(now, last, instruments)
    }
}

/// Steps of a steady state that say something of it.
const ENOUGH: u64 = 20;

/// Runs a workload for a moment, and for as long as the machine keeps it from being steady: steps in the steady
/// state, and allocations in them.
fn watch(line: &str) -> (u64, u64) {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap();
    let options = words.map(|word| {
        let (name, value) = word.split_once('=').unwrap_or((word, "true"));
        (name.to_owned(), value.to_owned())
    });
    let topology = Topology::flat(1);
    let allowed = [Cpu(0)].into_iter().collect();
    let around = MachineProperties { topology, allowed, speed: 1_000, seed: 1 };
    let mut plan = workloads::plan(name, &options.collect(), &around).unwrap();
    let arena = Arc::new(Arena::new(&plan).unwrap());
    let told = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let mut tasks = std::mem::take(&mut plan.tasks);
    for task in &mut tasks {
        let inner = std::mem::replace(&mut task.behaviour, Box::new(Taken));
        task.behaviour = Box::new(Watched { inner, steps: 0, at_warm: 0, told: told.clone() });
    }
    let mut started = StartedTasks::start(tasks, &plan, &arena, None, None).unwrap();
    started.let_go();
    let began = schedlab_sys::clock::monotonic();
    schedlab_sys::task::sleep(Nanos::from_millis(150));
    while told.0.load(Relaxed) <= ENOUGH
        && schedlab_sys::clock::monotonic() - began < Nanos::from_secs(60)
    {
        schedlab_sys::task::sleep(Nanos::from_millis(5));
    }
    arena.stop().store(1, SeqCst);
    arena.wake_all();
    while !started.is_gone() {
        started.nudge();
        schedlab_sys::task::sleep(Nanos::from_millis(1));
    }
    started.join();
    (told.0.load(Relaxed), told.1.load(Relaxed))
}

/// Stands where a behaviour was taken from.
struct Taken;

impl Behaviour for Taken {
    fn next(&mut self, _: Nanos, _: Done, _: &mut dyn Instruments) -> Op {
        Op::Exit
    }
}

#[test]
fn the_measured_path_allocates_nothing() {
    for line in [
        "schbench threads=2 operations=1 cache_footprint=16 sleep_usec=0",
        "schbench threads=2 operations=0 rps=5000",
        "schbench threads=2 pipe=64",
        "hackbench threads groups=1 fds=2 duration=100s",
        "pingpong via=futex",
        "pingpong via=pipe",
        "barrier tasks=2 work=10us",
        "mixed work=10us sleep=10us",
        "cpu work=10us",
    ] {
        let (steps, allocated) = watch(line);
        assert!(steps > ENOUGH, "{line}: only {steps} steps");
        assert_eq!(allocated, 0, "{line}: in {steps} steps");
    }
}

#[test]
fn an_allocation_would_be_seen() {
    // On a busy machine its first burst may come after the moment for which it is watched.
    let seen = (0..40).any(|_| watch("app").1 > 0);
    assert!(seen, "bursts of allocation are what app does");
}
