//! The same claims about every executor: the pool's threads, the policy in virtual time, and others.

use schedlab_jobs::adaptors::{ChannelThreads, Ours, Serial};
use schedlab_jobs::executor::{Executor, ExecutorError};
use schedlab_jobs::graph::{Rules, Shape};
use schedlab_jobs::policy::{Nanos, Order, Policy, Queues, Step};
use schedlab_jobs::pool::Options;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Nothing, Run, Schedule, Work};
use schedlab_jobs::virtual_time::{Costs, VirtualTime};
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

fn executors(workers: usize) -> Vec<Box<dyn Executor>> {
    let mut all: Vec<Box<dyn Executor>> =
        vec![Box::new(Serial), Box::new(ChannelThreads::start(workers).expect("threads"))];
    for order in [Order::Start, Order::Deadline, Order::Laxity, Order::Path] {
        for queues in [Queues::OneToken, Queues::PerWorker] {
            for step in [Step::Halving, Step::Linear, Step::None] {
                let policy = Policy { order, queues, step, ..Policy::new(workers) };
                all.push(Box::new(VirtualTime::new(policy.clone(), Costs::USUAL)));
                all.push(Box::new(Ours::new(Options { policy, ..Options::new(workers) })));
            }
        }
    }
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
            let run = run(shape, 150, Schedule::default(), Nothing);
            let name = executor.name();
            executor.run(&run).unwrap_or_else(|error| panic!("{name}, {shape}: {error}"));
            assert_eq!(run.verify(), Ok(()), "{name}, {shape}");
        }
    }
}

#[test]
fn more_workers_than_cpus_prove_large_graphs() {
    for workers in [1, 3, 8] {
        let mut ours = Ours::new(Options::new(workers));
        let run = run(Shape::LoadBursts, 5_000, Schedule::default(), Nothing);
        ours.run(&run).unwrap();
        assert_eq!(run.verify(), Ok(()), "{workers} workers");
    }
}

#[test]
fn no_job_starts_before_its_time() {
    let starts: Vec<Nanos> = (0..60).map(|i| (i * 37 % 60) * 50_000).collect();
    let drivers: [Box<dyn Executor>; 2] = [
        Box::new(Ours::new(Options::new(2))),
        Box::new(VirtualTime::new(Policy::new(2), Costs::USUAL)),
    ];
    for mut driver in drivers {
        let schedule = Schedule { starts: starts.clone(), life_ns: None, ..Schedule::default() };
        let run = run(Shape::Isolated, 60, schedule, Nothing);
        driver.run(&run).unwrap();
        assert_eq!(run.verify(), Ok(()));
        for span in run.spans() {
            assert!(span.begin >= run.base() + starts[span.node as usize], "{span:?}");
        }
    }
}

#[test]
fn what_is_not_offered_is_refused() {
    let schedule = Schedule { starts: vec![0, 1_000], life_ns: None, ..Schedule::default() };
    let refused =
        ChannelThreads::start(1).expect("threads").run(&run(Shape::Isolated, 2, schedule, Nothing));
    assert!(matches!(refused, Err(ExecutorError::NotOffered { what: "start times", .. })));
}

#[test]
fn virtual_time_repeats_to_the_nanosecond() {
    let once = || {
        let run = run(Shape::LoadBursts, 400, Schedule::default(), Fixed(5_000));
        VirtualTime::new(Policy::new(8), Costs::USUAL).run(&run).unwrap();
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
    VirtualTime::new(Policy::new(64), Costs::USUAL).run(&run).unwrap();
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
        let mut pool = VirtualTime::new(Policy::new(workers), Costs::USUAL);
        pool.run(&run).expect("the run ends");
        run.verify().expect("every job ran once");
        let late = Profile::of(&run, workers).lateness(0.99).expect("jobs ran");
        assert!(late < 500_000, "{workers} workers: {late} ns");
    }
}
