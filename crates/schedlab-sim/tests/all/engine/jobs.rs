//! The workers of pools as tasks: they decide as in the policies' own virtual time, under any scheduler.

use super::{POLICIES, bare, events, plan, policy, script, text, us, world};
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Rules, Shape};
use schedlab_jobs::load::{Arrivals, Burner, Kind, Length, Load};
use schedlab_jobs::planning::Planning;
use schedlab_jobs::policy::Policy;
use schedlab_jobs::run::{Clock, Run, Schedule, Span};
use schedlab_jobs::virtual_time::{Costs, VirtualPool, VirtualTime};
use schedlab_model::{Nanos, Topology};
use schedlab_sim::{Hardware, Model, SimulatedPool, World};
use schedlab_workload::jobs::{Rules as By, Workers, worker};
use schedlab_workload::plan::Plan;
use schedlab_workload::{Behaviour, Done, Instruments, Op, WordId};
use std::sync::{Arc, Mutex};

const SHAPES: [Shape; 4] = [Shape::Stencil, Shape::LoadBursts, Shape::ForkJoin, Shape::Isolated];

/// A run of 100 jobs of about 500 µs, no two of one length.
fn run(shape: Shape, kind: Kind, arrivals: &Arrivals) -> Arc<Run> {
    let graph = shape.build(&Rules { nodes: 100, fan: 8, ..Rules::default() });
    let graph = if graph.weight_sum() == 0 { graph.with_weight(1) } else { graph };
    let load = Load::new(&graph, Burner::planned(kind.into()), 500_000, Length::Exponential, 3);
    let schedule = Schedule { starts: arrivals.starts(&graph, 3), ..Schedule::default() };
    Arc::new(Run::new(graph, schedule, Box::new(load), Clock::still()))
}

/// Runs it on workers that each have a CPU, where nothing but the workers' own work takes time.
fn on_tasks(run: &Arc<Run>, by: By, workers: u16, costs: Costs, scheduler: &str) -> Vec<Span> {
    let mut plan = Plan::new("jobs");
    let role = plan.role("worker");
    plan.tasks = (0..workers).map(|_| worker(role)).collect();
    for (number, task) in (0_u16..).zip(&mut plan.tasks) {
        task.placement.cpus = Some(std::iter::once(schedlab_model::Cpu(number)).collect());
    }
    let crew = Workers::man(&mut plan, run.clone(), by, costs, 1_000, vec!["cpu"]);
    let hardware = Hardware::new(Topology::flat(workers));
    let mut world = World::new(&mut plan, hardware, policy(scheduler, workers), bare());
    events(&mut world);
    crew.outcome().expect("all jobs ended");
    run.verify().expect("the run is proved");
    run.spans()
}

fn in_virtual_time(run: &Arc<Run>, by: &By, workers: u16, costs: Costs) -> Vec<Span> {
    let workers = usize::from(workers);
    let mut executor: Box<dyn Executor> = match by {
        By::Pool => Box::new(VirtualPool::new(workers, costs, Planning::default())),
        By::Lumiera(policy) => Box::new(VirtualTime::new(Policy::clone(policy), costs)),
    };
    executor.run(run).expect("it ends");
    run.spans()
}

/// When each job ran, to the nanosecond, in order of time. Which of several idle workers ran it is left out.
fn when(spans: &[Span]) -> Vec<(u64, u64, u32)> {
    let mut when: Vec<_> = spans.iter().map(|span| (span.begin, span.end, span.node)).collect();
    when.sort_unstable();
    when
}

#[test]
fn a_graph_has_the_order_of_the_policys_own_virtual_time() {
    for (shape, arrivals) in SHAPES
        .into_iter()
        .flat_map(|shape| [(shape, Arrivals::AtOnce), (shape, Arrivals::Poisson(90_000))])
    {
        for scheduler in POLICIES {
            let make = || run(shape, Kind::Cpu, &arrivals);
            for by in [By::Pool, By::Lumiera(Box::new(Policy::new(4)))] {
                let expected = when(&in_virtual_time(&make(), &by, 4, Costs::NONE));
                assert_eq!(expected.len(), 100);
                let found = when(&on_tasks(&make(), by.clone(), 4, Costs::NONE, scheduler));
                // Jobs of no length end at one moment: which worker goes first then is the scheduler's.
                let case = format!("{shape:?} {arrivals:?} {scheduler} {by:?}");
                if by == By::Pool && shape != Shape::Stencil {
                    let again = when(&on_tasks(&make(), by.clone(), 4, Costs::NONE, scheduler));
                    assert_eq!(found, again, "{case}");
                } else {
                    assert_eq!(found, expected, "{case}");
                }
            }
        }
    }
}

/// The spans of a new pool on a machine.
fn on_machine(machine: &str, by: &By, workers: usize, run: &Arc<Run>) -> Vec<Span> {
    let model = Model::of(&machine.parse().unwrap(), None).unwrap();
    let mut pool = match by {
        By::Pool => SimulatedPool::new(model, Policy::new(workers), Nanos(1)),
        By::Lumiera(policy) => SimulatedPool::new(model, Policy::clone(policy), Nanos(1)).lumiera(),
    }
    .recording();
    let told = pool.run(run).unwrap();
    run.verify().unwrap();
    assert!(told.management_ns.unwrap() > 0);
    let (info, events) = pool.take_recorded().unwrap();
    let begun = |event: &&schedlab_model::Event| {
        matches!(event.what, schedlab_model::What::Mark { phase: schedlab_model::Phase::Begin, .. })
    };
    assert_eq!(events.iter().filter(begun).count(), 100, "a mark for each job");
    assert_eq!(info.marks, [format!("{} job", run.kind(0))]);
    run.spans()
}

#[test]
fn every_kind_of_work_is_proved_on_every_scheduler_and_the_same_each_time() {
    for kernel in ["cfs-6.1", "eevdf-6.12", "fifo", "global-fifo"] {
        let machine = format!("sim:cpus=4,kernel={kernel}");
        for kind in [Kind::Cpu, Kind::Memory, Kind::Lock, Kind::Sleep, Kind::Block] {
            for by in [By::Pool, By::Lumiera(Box::new(Policy::new(4)))] {
                let spans = || {
                    let run = run(Shape::Stencil, kind, &Arrivals::AtOnce);
                    on_machine(&machine, &by, 4, &run)
                };
                assert_eq!(spans(), spans(), "{kernel} {kind:?} {by:?}");
            }
        }
    }
}

#[test]
fn more_workers_than_cpus_come_to_their_end() {
    let policies = [Policy::new(9), Policy { notify: false, ..Policy::new(3) }];
    let lumiera = policies.map(|policy| By::Lumiera(Box::new(policy)));
    for by in lumiera.into_iter().chain([By::Pool]) {
        let run = run(Shape::ForkJoin, Kind::Cpu, &Arrivals::AtOnce);
        let spans = on_machine("sim:cpus=2,kernel=eevdf-6.12", &by, 9, &run);
        assert_eq!(spans.len(), 100, "{by:?}");
    }
}

/// Tells when its waits ended, and how.
struct Waiter {
    ops: Vec<Op>,
    told: Arc<Mutex<Vec<(u64, Done)>>>,
}

impl Behaviour for Waiter {
    fn next(&mut self, now: Nanos, last: Done, _: &mut dyn Instruments) -> Op {
        self.told.lock().unwrap().push((now.0, last));
        if self.ops.is_empty() { Op::Exit } else { self.ops.remove(0) }
    }
}

#[test]
fn a_wait_ends_by_a_wake_or_by_its_time_and_leaves_nobody_behind() {
    let until = |us: u64| Op::WaitUntil { word: WordId(0), until: Nanos(us * 1_000) };
    let wake = |stamp| Op::Wake { word: WordId(0), stamp: Nanos(stamp) };
    let told = Arc::new(Mutex::new(Vec::new()));
    // A wake that comes while it sleeps for a time must not end that sleep.
    let sleep = Op::Sleep(Nanos(20_000));
    let ops = vec![until(10), until(4), until(9), sleep, until(30), until(40)];
    let waiter = Waiter { ops, told: told.clone() };
    let mut tasks = vec![script("W", &[us(5), wake(1), us(15), wake(2), us(15), wake(3)])];
    tasks.push(schedlab_workload::plan::Task::new("S", 0, Box::new(waiter)));
    let mut plan = plan(tasks);
    plan.words = 1;
    text(&mut world(plan, 2, bare()));
    let woken = |us: u64, stamp| (us * 1_000, Done::Woken { stamp: Nanos(stamp) });
    let ok = |us: u64| (us * 1_000, Done::Ok);
    let expected =
        [(0, Done::Start), woken(5, 1), ok(5), ok(9), ok(29), woken(29, 2), woken(35, 3)];
    assert_eq!(*told.lock().unwrap(), expected);
}
