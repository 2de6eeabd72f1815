//! Bundles beside other jobs of a pool.

use schedlab_jobs::bundle::{Bundle, BundleStep, Share};
use schedlab_jobs::graph::{Rules, Shape};
use schedlab_jobs::policy::{Policy, Posting};
use schedlab_jobs::pool::{Context, Flow, Options, Pool, Runner};
use schedlab_jobs::run::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Share,
    /// Keeps how many jobs of the bundle had ended.
    Look,
}

struct State {
    bundle: Bundle,
    ran: AtomicU32,
    seen: AtomicU32,
    /// This job of the bundle panics.
    panics: Option<u32>,
}

struct Beside(Arc<State>);

impl Runner for Beside {
    type Job = Job;

    fn run(&self, job: Job, context: &mut Context<'_, Self>) -> Flow {
        let state = &self.0;
        if job == Job::Look {
            state.seen.store(state.ran.load(SeqCst), SeqCst);
            return Flow::Done;
        }
        let post = || {
            let share = Posting::new(Job::Share, context.pool().now());
            context.pool().post(share).expect("room");
        };
        let ask = |asked| match asked {
            BundleStep::Run(node) => {
                assert!(state.panics != Some(node), "on purpose");
                let begin = std::time::Instant::now();
                while begin.elapsed() < Duration::from_micros(20) {}
                if state.ran.fetch_add(1, SeqCst) == 10 {
                    context.pool().post(Posting::new(Job::Look, 0)).expect("room");
                }
            }
            BundleStep::Help => post(),
        };
        if state.bundle.work(context.worker(), || context.pool().now(), ask) == Share::Again {
            post();
        }
        Flow::Done
    }
}

fn start(workers: usize, jobs: u32, panics: Option<u32>) -> (Pool<Beside>, Arc<State>) {
    let graph = Arc::new(Shape::Isolated.build(&Rules { nodes: jobs, ..Rules::default() }));
    let bundle = Bundle::new(graph, workers);
    let (ran, seen) = (AtomicU32::new(0), AtomicU32::new(u32::MAX));
    let state = Arc::new(State { bundle, ran, seen, panics });
    let options = Options { policy: Policy::new(workers), ..Options::new(workers) };
    let pool = Pool::start(Beside(Arc::clone(&state)), options, Clock::start());
    (pool.expect("threads"), state)
}

#[test]
fn a_job_that_is_due_runs_before_the_rest_of_a_bundle() {
    let (pool, state) = start(1, 5_000, None);
    pool.handle().post(Posting::new(Job::Share, 0)).expect("room");
    assert!(pool.handle().wait(Duration::from_secs(60)));
    assert!(state.bundle.is_done());
    assert_eq!(state.ran.load(SeqCst), 5_000);
    // Posted by the eleventh job: a slice holds ten.
    let seen = state.seen.load(SeqCst);
    assert!((11..=25).contains(&seen), "{seen}");
    let counts = pool.stop(Duration::from_secs(10)).counts;
    // A share for each slice of ten, and the one that looks.
    assert!(counts.done > 450, "{counts:?}");
}

#[test]
fn a_panic_ends_a_bundle_and_no_worker() {
    for workers in [1, 2] {
        let (pool, state) = start(workers, 200, Some(20));
        for _ in 0..workers {
            pool.handle().post(Posting::new(Job::Share, 0)).expect("room");
        }
        assert!(pool.handle().wait(Duration::from_secs(60)));
        assert!(!state.bundle.is_done() && state.ran.load(SeqCst) < 200);
        pool.handle().post(Posting::new(Job::Look, 0)).expect("room");
        assert!(pool.handle().wait(Duration::from_secs(60)), "the workers go on");
        let report = pool.stop(Duration::from_secs(10));
        assert_eq!(report.counts.panicked, 1);
        assert_eq!(report.stuck, 0);
    }
}
