//! The same claims about every executor: the pool's threads, the policy in virtual time, and others.

use schedlab_jobs::adaptors::{ChannelThreads, Lumiera, PoolExecutor, Serial};
use schedlab_jobs::executor::{Executor, ExecutorError};
use schedlab_jobs::graph::{Graph, Hashing, Rules, Shape};
use schedlab_jobs::planning::Planning;
use schedlab_jobs::policy::{Criticality, Nanos, Order, Policy, Step};
use schedlab_jobs::pool::Options;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Dropped, Io, Machine, NoWork, Run, Schedule, Work};
use schedlab_jobs::stealing::Stealing;
use schedlab_jobs::virtual_time::{Costs, VirtualPool, VirtualTime};
use std::sync::Arc;

struct Fixed(Nanos);

impl Work for Fixed {
    fn perform(&self, _: u32) {
        let begin = std::time::Instant::now();
        while begin.elapsed().as_nanos() < u128::from(self.0) {}
    }

    fn expected_ns(&self, _: u32) -> Nanos {
        self.0
    }
}

fn run(shape: Shape, nodes: u32, schedule: Schedule, work: impl Work + 'static) -> Arc<Run> {
    let graph = shape.build(&Rules { nodes, fan: 8, ..Rules::default() });
    Arc::new(Run::new(graph, schedule, Box::new(work), Clock::start()))
}

fn ours(workers: usize) -> PoolExecutor {
    PoolExecutor::new(workers, |_| ())
}

fn virtual_pool(workers: usize, costs: Costs) -> VirtualPool {
    VirtualPool::new(workers, costs, Planning::default())
}

fn executors(workers: usize) -> Vec<Box<dyn Executor>> {
    let mut all: Vec<Box<dyn Executor>> =
        vec![Box::new(Serial), Box::new(ChannelThreads::start(workers).expect("threads"))];
    for order in [Order::Start, Order::Deadline, Order::Laxity, Order::Path] {
        for step in [Step::Halving, Step::Linear, Step::None] {
            let policy = Policy { order, step, ..Policy::new(workers) };
            all.push(Box::new(VirtualTime::new(policy.clone(), Costs::USUAL)));
            all.push(Box::new(Lumiera::new(Options { policy, ..Options::new(workers) })));
        }
    }
    all.push(Box::new(ours(workers)));
    all.push(Box::new(ours(workers).stealing(Stealing::Always)));
    all.push(Box::new(virtual_pool(workers, Costs::USUAL)));
    #[cfg(feature = "rayon")]
    all.push(Box::new(schedlab_jobs::adaptors::RayonScope::start(workers).expect("threads")));
    #[cfg(feature = "tokio")]
    all.push(Box::new(schedlab_jobs::adaptors::TokioTasks::start(workers).expect("threads")));
    all
}

#[test]
fn every_executor_proves_every_shape() {
    for shape in Shape::ALL {
        for mut executor in executors(2) {
            let run = run(shape, 150, Schedule::default(), NoWork);
            let name = executor.name();
            executor.run(&run).unwrap_or_else(|error| panic!("{name}, {shape}: {error}"));
            assert_eq!(run.verify(), Ok(()), "{name}, {shape}");
        }
    }
}

#[test]
fn more_workers_than_cpus_prove_large_graphs() {
    for workers in [1, 3, 8] {
        for stealing in [Stealing::Never, Stealing::Always] {
            for shape in [Shape::LoadBursts, Shape::Tree, Shape::Stencil] {
                let lumiera = Lumiera::new(Options::new(workers));
                let pools: [Box<dyn Executor>; 2] =
                    [Box::new(lumiera), Box::new(ours(workers).stealing(stealing))];
                for mut pool in pools {
                    let run = run(shape, 5_000, Schedule::default(), NoWork);
                    pool.run(&run).unwrap();
                    let name = pool.name();
                    let case = || format!("{name}, {workers} workers, {stealing:?}, {shape}");
                    assert_eq!(run.verify(), Ok(()), "{}", case());
                }
            }
        }
    }
}

#[test]
fn no_job_starts_before_its_time() {
    let starts: Vec<Nanos> = (0..60).map(|i| (i * 37 % 60) * 50_000).collect();
    let mut drivers: Vec<Box<dyn Executor>> = vec![
        Box::new(ours(2)),
        Box::new(Lumiera::new(Options::new(2))),
        Box::new(VirtualTime::new(Policy::new(2), Costs::USUAL)),
        Box::new(virtual_pool(2, Costs::USUAL)),
        Box::new(ChannelThreads::start(2).expect("threads")),
    ];
    #[cfg(feature = "rayon")]
    drivers.push(Box::new(schedlab_jobs::adaptors::RayonScope::start(2).expect("threads")));
    #[cfg(feature = "tokio")]
    drivers.push(Box::new(schedlab_jobs::adaptors::TokioTasks::start(2).expect("threads")));
    for driver in &mut drivers {
        let schedule = Schedule { starts: starts.clone(), life_ns: None, ..Schedule::default() };
        for shape in [Shape::Isolated, Shape::Stencil] {
            let run = run(shape, 60, schedule.clone(), NoWork);
            driver.run(&run).unwrap();
            assert_eq!(run.verify(), Ok(()), "{}", driver.name());
            for span in run.spans() {
                assert!(span.begin >= run.base() + starts[span.node as usize], "{span:?}");
            }
        }
    }
}

/// Each executor once, with what it offers: start times, deadlines, asynchronous I/O, jobs that fail, and criticality.
fn offering() -> Vec<(Box<dyn Executor>, [bool; 5])> {
    let virtual_time = VirtualTime::new(Policy::new(2), Costs::USUAL);
    let mut all: Vec<(Box<dyn Executor>, [bool; 5])> = vec![
        (Box::new(ours(2)), [true; 5]),
        (Box::new(Lumiera::new(Options::new(2))), [true; 5]),
        (Box::new(virtual_time), [true; 5]),
        (Box::new(VirtualTime::ideal(2)), [true; 5]),
        (Box::new(Serial), [false, true, false, false, false]),
        (Box::new(ChannelThreads::start(2).expect("threads")), [true, true, false, false, false]),
    ];
    #[cfg(feature = "rayon")]
    all.push((
        Box::new(schedlab_jobs::adaptors::RayonScope::start(2).expect("threads")),
        [true, true, false, false, false],
    ));
    #[cfg(feature = "tokio")]
    all.push((
        Box::new(schedlab_jobs::adaptors::TokioTasks::start(2).expect("threads")),
        [true, true, true, true, false],
    ));
    all
}

/// The runs that ask for one of these each, with the words of a refusal.
fn asking() -> [(Arc<Run>, &'static str); 5] {
    let plain = |schedule| {
        let graph = Shape::Chain.build(&Rules { nodes: 3, ..Rules::default() });
        Run::new(graph, schedule, Box::new(NoWork), Clock::start())
    };
    let chain = |schedule, io: Vec<Option<Io>>| Arc::new(plain(schedule).with_io(io));
    let starts = vec![0, 1_000, 2_000];
    let timed = Schedule { starts, ..Schedule::default() };
    let hour_ns = Some(3_600_000_000_000);
    let mortal = Schedule { life_ns: hour_ns, ..Schedule::default() };
    let io = |fails| vec![Some(Io { ns: 1_000, fails }), None, None];
    let optional = vec![Criticality::Optional; 3];
    [
        (chain(timed, Vec::new()), "start times"),
        (chain(mortal, Vec::new()), "deadlines"),
        (chain(Schedule::default(), io(false)), "asynchronous I/O"),
        (chain(Schedule::default(), io(true)), "jobs that fail"),
        (Arc::new(plain(Schedule::default()).with_criticality(optional)), "criticality"),
    ]
}

#[test]
fn an_executor_does_what_it_offers_and_refuses_the_rest() {
    for (mut executor, offered) in offering() {
        let offers = executor.offers();
        let io = [offers.asynchronous, offers.failures];
        let told = [offers.start_times, offers.deadlines, io[0], io[1], offers.criticality];
        let name = executor.name();
        assert_eq!(told, offered, "{name}");
        for ((run, asked), offered) in asking().into_iter().zip(offered) {
            match executor.run(&run) {
                Ok(_) => {
                    assert!(offered, "{name} did what it does not offer: {asked}");
                    assert_eq!(run.verify(), Ok(()), "{name}: {asked}");
                }
                Err(ExecutorError::NotOffered { what, .. }) => {
                    assert!(!offered, "{name} refused {what}");
                    // Whoever has no I/O at all is not asked whether that may fail.
                    assert!(what == asked || run.has_io() && what == "asynchronous I/O", "{name}");
                    assert!(run.spans().is_empty(), "{name} ran jobs of a run that it refused");
                }
                Err(error) => panic!("{name}, {asked}: {error}"),
            }
        }
    }
}

/// Every executor that may get deadlines, with two workers where it can have them.
fn with_deadlines() -> Vec<Box<dyn Executor>> {
    offering().into_iter().filter(|(_, offers)| offers[1]).map(|(executor, _)| executor).collect()
}

/// A chain of three jobs, 0, 2 and 3, beside job 1 by itself: jobs are numbered by level.
fn four(schedule: Schedule, work: impl Work + 'static) -> Arc<Run> {
    let graph =
        Graph::from_edges(&[1; 4], &[(0, 2), (2, 3)], 0, Hashing::Mixed).expect("no circle");
    Arc::new(Run::new(graph, schedule, Box::new(work), Clock::start()))
}

#[test]
fn what_is_too_late_is_dropped_with_all_that_waits_for_it_whichever_executor_has_it() {
    for mut executor in with_deadlines() {
        // The first of the chain takes 3 ms, and the second may wait for one.
        let mut lives = vec![3_600_000_000_000; 4];
        lives[2] = 1_000_000;
        let run = four(Schedule { lives, ..Schedule::default() }, Fixed(3_000_000));
        let name = executor.name();
        executor.run(&run).unwrap_or_else(|error| panic!("{name}: {error}"));
        let ran: Vec<u32> = run.spans().iter().map(|span| span.node).collect();
        assert_eq!(ran, [0, 1], "{name}");
        let expected = Dropped { missed: 1, abandoned: 1, ..Dropped::default() };
        assert_eq!((run.dropped(), run.verify()), (expected, Ok(())), "{name}");
        // What has time runs.
        let run =
            four(Schedule { life_ns: Some(3_600_000_000_000), ..Schedule::default() }, NoWork);
        executor.run(&run).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((run.dropped(), run.spans().len()), (Dropped::default(), 4), "{name}");
    }
}

#[test]
fn what_waits_for_io_that_failed_is_dropped_whichever_executor_has_it() {
    for (mut executor, offers) in offering() {
        if !offers[3] {
            continue;
        }
        let graph = Graph::from_edges(&[1; 4], &[(0, 1), (1, 2)], 0, Hashing::Mixed).unwrap();
        let run = Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::start());
        let run =
            Arc::new(run.with_io(vec![Some(Io { ns: 1_000, fails: true }), None, None, None]));
        let name = executor.name();
        executor.run(&run).unwrap_or_else(|error| panic!("{name}: {error}"));
        let expected = Dropped { abandoned: 2, failed: 1, ..Dropped::default() };
        assert_eq!((run.dropped(), run.verify()), (expected, Ok(())), "{name}");
    }
}

/// The eighth job takes 3 ms, the others what is planned or less.
struct OneLong;

impl Work for OneLong {
    fn perform(&self, node: u32) {
        Fixed(if node == 7 { 3_000_000 } else { 1_000 }).perform(node);
    }

    fn expected_ns(&self, _: u32) -> Nanos {
        20_000
    }
}

#[test]
fn a_job_that_was_held_up_is_found_whichever_executor_ran_it() {
    let mut all: Vec<Box<dyn Executor>> =
        vec![Box::new(Serial), Box::new(ChannelThreads::start(2).expect("threads"))];
    #[cfg(feature = "rayon")]
    all.push(Box::new(schedlab_jobs::adaptors::RayonScope::start(2).expect("threads")));
    #[cfg(feature = "tokio")]
    all.push(Box::new(schedlab_jobs::adaptors::TokioTasks::start(2).expect("threads")));
    for mut executor in all {
        for by_machine in [true, false] {
            let graph = Shape::Isolated.build(&Rules { nodes: 16, ..Rules::default() });
            let run = Run::new(graph, Schedule::default(), Box::new(OneLong), Clock::start());
            // Without the kernel's account, nobody is accused.
            let own_delay: fn() -> Option<Nanos> = if by_machine { || Some(0) } else { || None };
            let run = run.with_machine(Machine { own_delay, stolen: || None }, 100_000);
            let run = Arc::new(run);
            executor.run(&run).expect("the run ends");
            assert_eq!(run.verify(), Ok(()));
            let long = run.spans()[7];
            let held = run.held();
            let found = held.iter().find(|(_, held)| held.from == long.begin);
            let (worker, held) = found.unwrap_or_else(|| panic!("{}: {held:?}", executor.name()));
            assert_eq!((*worker as u32, held.by_machine()), (long.worker, by_machine));
            assert!(held.lost_ns >= 2_980_000, "{held:?}");
        }
    }
}

#[test]
fn workers_steal_only_where_a_run_asks_for_nothing_else() {
    let timed = || Schedule { starts: vec![0, 1_000], ..Schedule::default() };
    let mut always = ours(2).stealing(Stealing::Always);
    let refused = always.run(&run(Shape::Isolated, 2, timed(), NoWork));
    assert!(matches!(refused, Err(ExecutorError::NotOffered { .. })), "{refused:?}");
    let mut possible = ours(2).stealing(Stealing::WherePossible);
    let run = run(Shape::Isolated, 2, timed(), NoWork);
    possible.run(&run).expect("by the policy alone");
    assert_eq!(run.verify(), Ok(()));
}

#[test]
fn in_virtual_time_the_pool_keeps_sixty_four_workers_busy_with_jobs_of_two_microseconds() {
    for shape in [Shape::Isolated, Shape::Tree] {
        let covered = |mut executor: Box<dyn Executor>| {
            let run = run(shape, 64_000, Schedule::default(), Fixed(2_000));
            executor.run(&run).expect("the run ends");
            assert_eq!(run.verify(), Ok(()));
            Profile::of(&run, 64).covered_ns
        };
        let ideal = 64_000 * 2_000 / 64;
        let pool = covered(Box::new(virtual_pool(64, Costs::USUAL)));
        let token = covered(Box::new(VirtualTime::new(Policy::new(64), Costs::USUAL)));
        assert!(pool < ideal * 3 / 2 && pool < token / 2, "{shape}: {pool} {token}");
    }
}

#[test]
fn the_ideal_schedule_takes_the_order_that_it_is_given() {
    // Two jobs alone, and a chain behind the third: who begins with the chain ends sooner.
    let makespan = |order| {
        let edges = [(2, 3), (3, 4)];
        let graph = Graph::from_edges(&[1; 5], &edges, 0, Hashing::Mixed).expect("a graph");
        let work = Box::new(Fixed(1_000_000));
        let run = Arc::new(Run::new(graph, Schedule::default(), work, Clock::still()));
        VirtualTime::ideal(2).ordered(order).run(&run).expect("the ideal runs anything");
        assert_eq!(run.verify(), Ok(()));
        Profile::of(&run, 2).makespan_ns
    };
    assert!(makespan(Order::Start) >= 4_000_000);
    assert!(makespan(Order::Path) < 3_100_000);
}

#[test]
fn virtual_time_repeats_to_the_nanosecond() {
    let once = || {
        let run = run(Shape::LoadBursts, 400, Schedule::default(), Fixed(5_000));
        VirtualTime::new(Policy::new(8), Costs::USUAL).run(&run).unwrap();
        run.spans()
    };
    assert_eq!(once(), once());
    let once = || {
        let run = run(Shape::LoadBursts, 400, Schedule::default(), Fixed(5_000));
        virtual_pool(8, Costs::USUAL).run(&run).unwrap();
        run.spans()
    };
    assert_eq!(once(), once());
}

#[test]
fn the_ideal_schedule_meets_its_bounds() {
    for workers in [1, 2, 4, 64] {
        let run = run(Shape::LoadBursts, 300, Schedule::default(), Fixed(100_000));
        VirtualTime::ideal(workers).run(&run).unwrap();
        assert_eq!(run.verify(), Ok(()));
        let profile = Profile::of(&run, workers);
        let work = 300 * 100_000;
        let path = run.graph().critical_path_by(|_| 100_000);
        let lower = path.max(work / workers as u64);
        // Graham's bound for any list schedule.
        let upper = work / workers as u64 + path;
        let span = profile.makespan_ns;
        assert!((lower..=upper).contains(&span), "{workers}: {lower} <= {span} <= {upper}");
    }
}

#[test]
fn sixty_four_virtual_workers_fill_up_when_all_is_due() {
    let run = run(Shape::Isolated, 6_400, Schedule::default(), Fixed(2_000_000));
    virtual_pool(64, Costs::USUAL).run(&run).unwrap();
    let profile = Profile::of(&run, 64);
    assert!(profile.concurrency() > 0.95 * 64.0, "{}", profile.concurrency());
}

#[test]
fn in_virtual_time_the_99th_of_a_hundred_starts_is_less_than_half_a_millisecond_late() {
    // 70 % of the workers' time with a fixed gap, at what a small server costs, timers 60 us late included.
    for workers in [2, 4, 8, 64] {
        let gap = 200_000 * 10 / 7 / workers as Nanos;
        let starts = (0..2_000).map(|i| i * gap).collect();
        let schedule = Schedule { starts, life_ns: None, ..Schedule::default() };
        let run = run(Shape::Isolated, 2_000, schedule, Fixed(200_000));
        virtual_pool(workers, Costs::USUAL).run(&run).expect("the run ends");
        run.verify().expect("every job ran once");
        let late = Profile::of(&run, workers).lateness(0.99).expect("jobs ran");
        assert!(late < 500_000, "{workers} workers: {late} ns");
    }
}
