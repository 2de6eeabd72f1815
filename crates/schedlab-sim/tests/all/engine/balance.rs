//! Load moves between CPUs: to one that idles, away from a core that is full, and not where affinity forbids it.

use super::{bare, events, plan, script, us};
use schedlab_model::{Cpu, CpuSet, Event, Place, Topology, What};
use schedlab_sim::policy::{
    Arrival, Cfs, CfsKnobs, Departure, Eevdf, EevdfKnobs, Fifo, Moves, Placer, PlacerKnobs, Policy,
    Push, Wake,
};
use schedlab_sim::{Config, Costs, Hardware, Scene, Start, TaskId, World};
use schedlab_workload::plan::{Placement, Plan, Task};
use schedlab_workload::{Op, PlaceId};

const TICK: u64 = 4_000_000;
const MS: u64 = 1_000_000;

/// Two cores of two threads each: CPUs 0 and 2, 1 and 3.
fn cores() -> Hardware {
    let place = |cpu: u16| {
        let core = u32::from(cpu % 2);
        Place { cpu: Cpu(cpu), core, llc: 0, node: 0, socket: 0 }
    };
    Hardware::new(Topology::new((0..4).map(place).collect()))
}

fn policies(hardware: &Hardware) -> [Box<dyn Policy>; 2] {
    let cpus = hardware.cpus();
    let placer = || Placer::new(cpus, PlacerKnobs::default());
    let cfs = Cfs::new(cpus, CfsKnobs::of(cpus), placer()).balanced(hardware, TICK, 1);
    let eevdf = Eevdf::new(cpus, EevdfKnobs::of(cpus, TICK), placer());
    [Box::new(cfs), Box::new(eevdf.balanced(hardware, TICK, 1))]
}

fn run(plan: Plan, hardware: Hardware, policy: Box<dyn Policy>) -> Vec<Event> {
    run_with(plan, hardware, policy, bare())
}

fn run_with(
    mut plan: Plan,
    hardware: Hardware,
    policy: Box<dyn Policy>,
    config: Config,
) -> Vec<Event> {
    events(&mut World::new(&mut plan, hardware, policy, config))
}

fn end(events: &[Event]) -> u64 {
    events.last().expect("tasks ran").time.0
}

/// Tasks wake on CPUs in turn: A and C on CPU 0, B and D on CPU 1, which soon idles.
#[test]
fn an_idle_cpu_takes_a_task_that_waits() {
    let tasks = || {
        let (long, short) = (us(50_000), us(1_000));
        vec![
            script("A", &[long]),
            script("B", &[short]),
            script("C", &[long]),
            script("D", &[short]),
        ]
    };
    let flat = || Hardware::new(Topology::flat(2));
    for policy in policies(&flat()) {
        let events = run(plan(tasks()), flat(), policy);
        assert!(end(&events) < 70 * MS, "{} ms instead of 51 or 101", end(&events) / MS);
    }
    // C may not leave CPU 0: nothing can be balanced.
    for policy in policies(&flat()) {
        let mut tasks = tasks();
        let only = CpuSet::from_iter([Cpu(0)]);
        for task in [0, 2] {
            tasks[task].placement = Placement { cpus: Some(only.clone()), ..Placement::default() };
        }
        let events = run(plan(tasks), flat(), policy);
        assert_eq!(end(&events), 100 * MS);
    }
}

/// A and C run on the two threads of a core. When B has ended on the other core, one of them is pushed there although
/// it runs.
#[test]
fn a_running_task_is_pushed_from_a_full_core_to_an_idle_one() {
    for policy in policies(&cores()) {
        let long = us(900_000);
        let tasks = vec![script("A", &[long]), script("B", &[us(20_000)]), script("C", &[long])];
        let events = run(plan(tasks), cores(), policy);
        let moves: Vec<(u16, u16)> = events
            .iter()
            .filter_map(|event| match event.what {
                What::Migrate { from, to, .. } => Some((from.0 % 2, to.0 % 2)),
                _ => None,
            })
            .collect();
        assert_eq!(moves, [(0, 1)], "from one core to the other, once");
    }
}

/// Sockets of 16 cores with two threads, each a node.
fn sockets(count: u32) -> Hardware {
    let cores = count * 16;
    let place = |cpu: u32| {
        let core = cpu % cores;
        let socket = core / 16;
        Place { cpu: Cpu(cpu as u16), core, llc: socket, node: socket, socket }
    };
    Hardware::new(Topology::new((0..cores * 2).map(place).collect()))
}

/// As many tasks as CPUs, which a task forks one after another: each computes for so many microseconds, and prepares
/// itself for `prepare` ns before that.
fn forked(tasks: u16, compute: u64, prepare: u64, policy: Box<dyn Policy>) -> Vec<Event> {
    let tasks = (0..tasks).map(|at| script(&format!("T{at}"), &[us(compute)])).collect();
    let costs = Costs { fork: 1_000, prepare, ..Costs::NONE };
    let config = Config { costs, start: Start::Forked, ..bare() };
    run_with(plan(tasks), sockets(4), policy, config)
}

/// Tasks that go on running after their fork: the node of the task that forks them keeps two, which may be its lead
/// over idler nodes; then every CPU gets one (`find_idlest_group`, `adjust_numa_imbalance`).
#[test]
fn new_tasks_that_run_get_a_cpu_each() {
    for policy in policies(&sockets(4)) {
        let events = forked(127, 100, 10 * MS, policy);
        let places: Vec<u16> = events
            .iter()
            .filter_map(|event| match event.what {
                What::Wakeup { cpu, new: true, .. } => Some(cpu.0),
                _ => None,
            })
            .collect();
        assert_eq!(places.len(), 127);
        let nodes: Vec<u16> = places.iter().map(|cpu| cpu % 64 / 16).collect();
        assert_eq!(nodes[..6], [0, 0, 1, 2, 3, 0], "{places:?}");
        let mut each = places.clone();
        each.sort_unstable();
        each.dedup();
        assert_eq!(each.len(), 127, "{places:?}");
    }
}

/// Tasks that sleep right after their fork stay on the node of the task that forks them. When all of them wake at
/// once, idle CPUs of all nodes take some within a few ticks: their domains are due, since the machine has idled.
#[test]
fn tasks_that_slept_on_one_node_soon_use_all_nodes() {
    for policy in policies(&sockets(4)) {
        let events = forked(128, 100_000, 100, policy);
        let mut ran = std::collections::BTreeMap::new();
        for event in &events {
            if let What::Switch { next, .. } = event.what
                && !next.is_idle()
            {
                ran.entry(event.cpu.0 % 64 / 16).or_insert(event.time.0 / TICK);
            }
        }
        assert!(ran.len() == 4 && ran.values().all(|tick| *tick <= 5), "node: tick {ran:?}");
        // On one node it takes 400 ms, shared evenly 100 ms. Nodes are balanced again after 128 ms only.
        assert!(end(&events) < 250 * MS, "{} ms", end(&events) / MS);
    }
}

/// Fair tasks in order of arrival, and one push of the task that runs on CPU 0 to CPU 2 at the first tick.
struct PushesOnce {
    fifo: Fifo,
    pushed: bool,
}

impl Policy for PushesOnce {
    fn select(&mut self, _: &Scene, wake: &Wake) -> usize {
        // The first CPU that it may use.
        usize::from(wake.task == TaskId(0) && self.pushed)
    }

    fn enqueue(&mut self, scene: &Scene, cpu: usize, task: TaskId, arrival: Arrival) {
        self.fifo.enqueue(scene, cpu, task, arrival);
    }

    fn preempts(&mut self, _: &Scene, _: usize, _: TaskId, _: Arrival) -> bool {
        false
    }

    fn dequeue(&mut self, scene: &Scene, cpu: usize, task: TaskId, departure: Departure) {
        self.fifo.dequeue(scene, cpu, task, departure);
    }

    fn pick(&mut self, scene: &Scene, cpu: usize) -> Option<TaskId> {
        self.fifo.pick(scene, cpu)
    }

    fn tick(&mut self, _: &Scene, _: usize) -> bool {
        false
    }

    fn yields(&mut self, _: &Scene, _: usize) {}

    fn balance(&mut self, _: &Scene, moves: &mut Moves) {
        if !std::mem::replace(&mut self.pushed, true) {
            moves.pushes.push(Push { from: 0, to: 2 });
        }
    }

    fn push(&mut self, scene: &Scene, push: Push) -> Option<TaskId> {
        scene.cpus[push.from].running
    }
}

/// A is within a call when it is to be pushed, and that call makes it leave for CPU 1. B, which runs next and may use
/// CPU 0 only, must not be pushed in its place.
#[test]
fn a_push_ends_with_the_task_that_it_concerned() {
    let to_1 = Placement { cpus: Some(CpuSet::from_iter([Cpu(1)])), ..Placement::default() };
    let pinned = Placement { cpus: Some(CpuSet::from_iter([Cpu(0)])), ..Placement::default() };
    let mut plan = plan(vec![
        script("A", &[us(3_995), Op::Place(PlaceId(0)), us(10)]),
        Task { placement: pinned, ..script("B", &[us(20), Op::Yield, us(20)]) },
    ]);
    plan.places = vec![to_1];
    // The call takes 10 µs: from 3,995 to 4,005 µs, over the tick at 4,000.
    let costs = Costs { syscall: 10_000, ..Costs::NONE };
    let config = Config { costs, ..bare() };
    let policy = PushesOnce { fifo: Fifo::new(3, None), pushed: false };
    let hardware = Hardware::new(Topology::flat(3));
    let mut world = World::new(&mut plan, hardware, Box::new(policy), config);
    for event in events(&mut world) {
        if let What::Switch { next, .. } = event.what
            && next.0 == 2
        {
            assert_eq!(event.cpu, Cpu(0), "{event:?}");
        }
    }
    assert_eq!(world.usage(TaskId(0)).migrations, 1);
    assert_eq!(world.usage(TaskId(1)).migrations, 0);
}
