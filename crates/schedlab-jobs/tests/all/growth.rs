//! A pool whose size follows the load: the policy in virtual time, and threads.

use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Node, Rules, Shape};
use schedlab_jobs::policy::{Order, Plan, Policy, Posting};
use schedlab_jobs::pool::{Closure, Closures, Flow, Options, Pool, What, perfetto, text};
use schedlab_jobs::run::{Clock, Run, Schedule, Work};
use schedlab_jobs::virtual_time::{Costs, VirtualTime};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(60);

const MS: u64 = 1_000_000;

/// Every job takes a millisecond.
struct Millisecond;

impl Work for Millisecond {
    fn perform(&self, _: Node) {}

    fn expected_ns(&self, _: Node) -> u64 {
        MS
    }
}

fn run(shape: Shape, starts: Vec<u64>) -> Arc<Run> {
    let graph = shape.build(&Rules { nodes: starts.len() as u32, ..Rules::default() });
    let schedule = Schedule { starts, life_ns: None, ..Schedule::default() };
    Arc::new(Run::new(graph, schedule, Box::new(Millisecond), Clock::start()))
}

fn growing(min: usize, max: usize) -> Policy {
    Policy { workers_min: min, retire_ns: 100 * MS, batch_ns: 0, ..Policy::new(max) }
}

/// Who ran something that began between these times.
fn workers_between(run: &Run, from: u64, to: u64) -> usize {
    let spans = run.spans().into_iter().filter(|span| (from..to).contains(&span.begin));
    spans.map(|span| span.worker).collect::<BTreeSet<_>>().len()
}

#[test]
#[cfg_attr(miri, ignore = "no threads: a machine of plain data, for minutes")]
fn a_pool_grows_under_load_shrinks_when_it_is_over_and_grows_again() {
    // 200 jobs at once, then one every 10 ms for two seconds, then 200 at once.
    let second = 2_500 * MS;
    let sparse = (0..200).map(|i| 500 * MS + i * 10 * MS);
    let starts = (0..200).map(|_| 0).chain(sparse).chain((0..200).map(|_| second)).collect();
    for order in [Order::Start, Order::Path] {
        let run = run(Shape::Isolated, Vec::clone(&starts));
        let policy = Policy { order, ..growing(1, 8) };
        VirtualTime::new(policy, Costs::USUAL).run(&run).unwrap();
        run.verify().unwrap();
        assert_eq!(workers_between(&run, 0, 500 * MS), 8, "{order:?}: the load asks for all");
        let few = workers_between(&run, 1_500 * MS, second);
        assert!(few <= 2, "{order:?}: {few} workers for a tenth of one");
        assert_eq!(workers_between(&run, second, u64::MAX), 8, "{order:?}: again all");
    }
}

#[test]
fn a_chain_that_is_late_does_not_start_workers() {
    let run = run(Shape::Chain, vec![0; 100]);
    VirtualTime::new(growing(1, 8), Costs::USUAL).run(&run).unwrap();
    assert_eq!(workers_between(&run, 0, u64::MAX), 1);
}

#[test]
fn threads_start_and_end_and_the_trace_says_the_size() {
    let policy = Policy { retire_ns: 5 * MS, ..growing(1, 4) };
    let options = Options { policy, events: 10_000, ..Options::new(4) };
    let pool = Pool::start(Closures, options, Clock::start()).unwrap();
    let job = || -> Closure {
        Box::new(|_| {
            std::thread::sleep(Duration::from_millis(2));
            Flow::Done
        })
    };
    let wave = |count| {
        let mut plan = Plan::default();
        for _ in 0..count {
            plan.add(Posting { expected_ns: 2 * MS, ..Posting::new(job(), 0) });
        }
        pool.handle().plan(plan).unwrap();
        assert!(pool.handle().wait(LONG));
    };
    wave(100);
    let grown = pool.handle().growth();
    assert_eq!((grown.most, grown.started >= 3), (4, true), "{grown:?}");
    // A sleeper looks up after 200 ms at the latest; a busy machine gets time.
    let end = Instant::now() + LONG;
    while pool.handle().growth().now > 1 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(pool.handle().growth().now, 1);
    wave(100);
    let report = pool.stop(LONG);
    assert_eq!((report.counts.done, report.growth.most), (200, 4));
    assert!(report.growth.retired >= 3 && report.growth.started >= 6, "{:?}", report.growth);
    let events: Vec<_> = report.workers.into_iter().map(|w| w.unwrap().events).collect();
    let mut sizes: Vec<(u64, u32)> = Vec::new();
    for event in events.iter().flat_map(|events| events.events()) {
        if let What::Size { workers } = event.what {
            sizes.push((event.time, workers));
        }
    }
    sizes.sort_unstable();
    let sizes: Vec<u32> = sizes.into_iter().map(|(_, size)| size).collect();
    assert!(sizes.windows(2).all(|two| two[0].abs_diff(two[1]) == 1), "{sizes:?}");
    assert_eq!((sizes[0], sizes.iter().max()), (1, Some(&4)), "{sizes:?}");
    assert!(text(&events, &[]).contains("pool of 4 workers"));
    assert_eq!(perfetto(&events, &[]).matches("\"ph\":\"C\"").count(), sizes.len());
}
