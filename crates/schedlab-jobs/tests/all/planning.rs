//! The rig in time: jobs that are planned while others run, I/O that ends later, and streams that differ.

use schedlab_jobs::adaptors::{Lumiera, PoolExecutor};
use schedlab_jobs::executor::{Executor, ExecutorError};
use schedlab_jobs::graph::{Graph, Rules, Shape};
use schedlab_jobs::load::{Arrivals, Burner, Kind, Length, Load, Streams, Usual};
use schedlab_jobs::planning::{Planner, Planning};
use schedlab_jobs::policy::{Nanos, Order, Policy};
use schedlab_jobs::pool::Options;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Dropped, Io, NoWork, Run, Schedule};
use schedlab_jobs::virtual_time::{Costs, VirtualPool, VirtualTime};
use std::sync::Arc;

fn graph(shape: Shape, nodes: u32) -> Graph {
    shape.build(&Rules { nodes, fan: 8, ..Rules::default() })
}

/// Independent jobs in three streams, at nine tenths of two workers.
fn mixed(seed: u64) -> Arc<Run> {
    let graph = graph(Shape::Isolated, 600);
    let streams = ["preview:share=40%,time=300us,life=1ms", "master:share=20%,time=1ms,life=20ms"];
    let all = streams.map(|text| text.parse().expect("a stream")).to_vec();
    let length = Length::Exponential;
    let life_ns = Some(4_000_000);
    let usual = Usual { time_ns: 500_000, length, life_ns, spread: length, io: None };
    let streams = Streams::new(usual, all, seed).expect("two streams");
    let arrivals: Arrivals = "poisson:290us".parse().expect("an arrival");
    let schedule = streams.schedule(&graph, arrivals.starts(&graph, seed));
    // Nothing is burned in virtual time.
    let load = Load::new(&graph, Burner::calibrate(Kind::Block), 1, Length::Fixed, seed);
    let load = load.with_lengths(streams.lengths(&graph));
    let run = Run::new(graph, schedule, Box::new(load), Clock::start());
    Arc::new(streams.apply(run))
}

#[test]
fn orders_differ_where_lives_and_lengths_do() {
    let mut all = Vec::new();
    for seed in 0..4 {
        let results: Vec<(Dropped, Vec<Nanos>)> = [Order::Start, Order::Deadline, Order::Laxity]
            .into_iter()
            .map(|order| {
                let run = mixed(seed);
                let policy = Policy { order, ..Policy::new(2) };
                VirtualTime::new(policy, Costs::USUAL).run(&run).expect("the run ends");
                assert_eq!(run.verify(), Ok(()));
                (run.dropped(), Profile::of(&run, 2).lateness_ns)
            })
            .collect();
        let [start, deadline, laxity] = &results[..] else { unreachable!("three orders") };
        assert!(start != deadline && start != laxity && deadline != laxity, "seed {seed}");
        // Whoever goes by deadlines loses fewer jobs than who goes by start times.
        assert!(deadline.0.missed < start.0.missed, "{start:?} {deadline:?}");
        all.extend(results);
    }
    assert_eq!(all.len(), 12);
}

fn planned(planner: Planner, job_ns: Nanos) -> Profile {
    let graph = graph(Shape::Isolated, 320);
    let starts = (0..320).map(|node| node * 100_000).collect();
    let schedule = Schedule { starts, ..Schedule::default() };
    let load = Load::new(&graph, Burner::calibrate(Kind::Block), 50_000, Length::Fixed, 0);
    let run = Arc::new(Run::new(graph, schedule, Box::new(load), Clock::start()));
    let planning = Planning { planner, chunk: 32, lead_ns: 2_000_000, job_ns };
    let mut executor = VirtualTime::new(Policy::new(2), Costs::USUAL).planning(planning);
    executor.run(&run).expect("the run ends");
    assert_eq!(run.verify(), Ok(()));
    Profile::of(&run, 2)
}

#[test]
fn planning_that_is_slower_than_its_lead_posts_jobs_late_and_the_executor_is_not_blamed() {
    for planner in [Planner::Jobs, Planner::Posters(1)] {
        let fast = planned(planner, 1_000);
        // The first chunk alone begins at the base, when its jobs are to start.
        assert!(fast.posted_late_ns.len() <= 2, "{planner:?} {:?}", fast.posted_late_ns);
        // 32 jobs take 6.4 ms, and have 2 + 3.2.
        let slow = planned(planner, 200_000);
        assert!(slow.posted_late_ns.len() > 100, "{planner:?}: {}", slow.posted_late_ns.len());
        let (late, post) = (slow.lateness(0.99), slow.post_to_start(0.99));
        assert!(late > Some(4_000_000) && post < Some(2_500_000), "{late:?} {post:?}");
    }
    let two = planned(Planner::Posters(2), 200_000);
    let one = planned(Planner::Posters(1), 200_000);
    assert!(two.lateness(0.99) < one.lateness(0.99), "two posters plan twice as fast");
}

fn executors(planning: Planning) -> [Box<dyn Executor>; 4] {
    [
        Box::new(VirtualTime::new(Policy::new(2), Costs::USUAL).planning(planning)),
        Box::new(Lumiera::new(Options::new(2)).planning(planning)),
        Box::new(PoolExecutor::new(2, |_| ()).planning(planning)),
        Box::new(VirtualPool::new(2, Costs::USUAL, planning)),
    ]
}

#[test]
fn jobs_that_are_planned_in_chunks_are_proved_for_every_shape() {
    for shape in [Shape::Isolated, Shape::Stencil, Shape::Tree, Shape::LoadBursts] {
        for planner in [Planner::Jobs, Planner::Posters(1), Planner::Posters(3)] {
            for chunk in [1, 7, 64] {
                let planning = Planning { planner, chunk, ..Planning::default() };
                for mut executor in executors(planning) {
                    let graph = graph(shape, 200);
                    let work = Box::new(NoWork);
                    let run = Run::new(graph, Schedule::default(), work, Clock::start());
                    let run = Arc::new(run);
                    let name = executor.name();
                    executor.run(&run).unwrap_or_else(|e| panic!("{name}, {planning:?}: {e}"));
                    assert_eq!(run.verify(), Ok(()), "{name}, {shape}, {planning:?}");
                    assert!((0..200).all(|node| run.posted(node).is_some()));
                }
            }
        }
    }
}

#[test]
fn successors_wait_for_io_and_workers_do_not() {
    for mut executor in executors(Planning::default()) {
        let graph = graph(Shape::Chain, 4);
        let io = Some(Io { ns: 2_000_000, fails: false });
        let run = Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::start());
        let run = Arc::new(run.with_io(vec![io, None, io, None]));
        executor.run(&run).expect("the run ends");
        assert_eq!(run.verify(), Ok(()), "{}", executor.name());
        let spans = run.spans();
        assert!(spans[0].done >= spans[0].end + 2_000_000 && spans[1].begin >= spans[0].done);
        assert_eq!(spans[1].done, spans[1].end);
        assert!(Profile::of(&run, 2).makespan_ns >= 4_000_000);
    }
}

#[test]
fn what_depends_on_io_that_fails_is_dropped_and_the_rest_is_proved() {
    for mut executor in executors(Planning::default()) {
        let graph = graph(Shape::ShortChains2, 40);
        let fails = |node: u32| Some(Io { ns: 300_000, fails: node.is_multiple_of(3) });
        let io: Vec<_> = (0..40).map(fails).collect();
        let failing = (0..40u32).filter(|node| node.is_multiple_of(3));
        // Those that wait for one that fails never run.
        let mut lost = [false; 40];
        for node in 0..40u32 {
            let before = graph.predecessors(node);
            lost[node as usize] = before.iter().any(|&p| lost[p as usize] || p.is_multiple_of(3));
        }
        let failed = failing.filter(|&node| !lost[node as usize]).count() as u64;
        let run = Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::start());
        let run = Arc::new(run.with_io(io));
        executor.run(&run).expect("the run ends");
        assert_eq!(run.verify(), Ok(()), "{}", executor.name());
        let abandoned = lost.iter().filter(|&&lost| lost).count() as u64;
        assert!(failed > 0 && abandoned > 0);
        assert_eq!(run.dropped(), Dropped { failed, abandoned, ..Dropped::default() });
    }
}

#[test]
fn who_offers_no_io_refuses_it() {
    let io = Some(Io { ns: 1, fails: false });
    let run =
        Run::new(graph(Shape::Chain, 2), Schedule::default(), Box::new(NoWork), Clock::start());
    let run = Arc::new(run.with_io(vec![io; 2]));
    let refused = schedlab_jobs::adaptors::Serial.run(&run);
    assert!(matches!(refused, Err(ExecutorError::NotOffered { what: "asynchronous I/O", .. })));
}
