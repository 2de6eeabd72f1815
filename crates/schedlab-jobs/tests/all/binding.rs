//! Where the workers may run, read back on their own threads.
#![cfg(target_os = "linux")]

use schedlab_jobs::adaptors::ChannelThreads;
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Rules, Shape};
use schedlab_jobs::policy::{Cpus, Plan, Policy, Posting};
use schedlab_jobs::pool::{
    Closure, Closures, Context, Flow, OnStart, Options, Pool, allowed, binding,
};
use schedlab_jobs::run::{Clock, NoWork, Run, Schedule};
use std::io::Write;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

type Seen = Arc<Mutex<Vec<(usize, Vec<usize>)>>>;

/// What each worker of a full pool may use, by number.
fn seen(policy: Policy) -> Vec<(usize, Vec<usize>)> {
    let workers = policy.workers;
    let options = Options { policy, ..Options::new(workers) };
    let pool = Pool::start(Closures, options, Clock::start()).expect("threads");
    let (seen, all) = (Seen::default(), Arc::new(Barrier::new(workers)));
    let mut plan = Plan::default();
    for _ in 0..workers {
        let (seen, all) = (Arc::clone(&seen), Arc::clone(&all));
        let job: Closure = Box::new(move |context: &mut Context<'_, Closures>| {
            let mine = (context.worker(), allowed().expect("an affinity"));
            seen.lock().expect("no panics").push(mine);
            // Nobody is done before all have come, so no worker runs two of them.
            all.wait();
            Flow::Done
        });
        // Long ones, one a pull.
        plan.add(Posting { expected_ns: 1_000_000_000, ..Posting::new(job, 0) });
    }
    pool.handle().plan(plan).expect("room");
    assert!(pool.handle().wait(Duration::from_secs(60)));
    let mut seen = std::mem::take(&mut *seen.lock().expect("no panics"));
    seen.sort();
    seen
}

/// The CPUs of this test, if there are enough to bind a pool.
fn several() -> Option<Vec<usize>> {
    let cpus = allowed().expect("an affinity");
    if cpus.len() < 2 {
        let _ = writeln!(std::io::stderr(), "MISSING: a second CPU: no pool can be bound");
        return None;
    }
    Some(cpus)
}

#[test]
fn each_worker_has_a_cpu_to_itself_unless_told_otherwise() {
    let Some(cpus) = several() else { return };
    let own: Vec<_> = (0..2).map(|worker| (worker, vec![cpus[worker]])).collect();
    assert_eq!(seen(Policy::new(2)), own);
    let free: Vec<_> = (0..2).map(|worker| (worker, cpus.clone())).collect();
    assert_eq!(seen(Policy { cpus: Cpus::Any, ..Policy::new(2) }), free);
    let last = *cpus.last().expect("two at least");
    let listed: Vec<_> = (0..2).map(|worker| (worker, vec![last])).collect();
    assert_eq!(seen(Policy { cpus: Cpus::List(vec![last]), ..Policy::new(2) }), listed);
}

#[test]
fn a_pool_beyond_the_cpus_and_a_lone_worker_are_free() {
    let Some(cpus) = several() else { return };
    let many = cpus.len() + 1;
    assert!(seen(Policy::new(many)).iter().all(|(_, mine)| *mine == cpus));
    assert_eq!(seen(Policy::new(1)), [(0, cpus)]);
}

/// Executors of others, each started by what its threads shall call first.
type Start = fn(&OnStart) -> Box<dyn Executor>;

#[test]
fn executors_of_others_are_bound_in_the_same_way() {
    let Some(cpus) = several() else { return };
    let all: &[Start] = &[
        |on_start| Box::new(ChannelThreads::start_with(2, on_start).expect("threads")),
        #[cfg(feature = "rayon")]
        |on_start| {
            use schedlab_jobs::adaptors::RayonScope;
            Box::new(RayonScope::start_with(2, on_start).expect("threads"))
        },
        #[cfg(feature = "tokio")]
        |on_start| {
            use schedlab_jobs::adaptors::TokioTasks;
            Box::new(TokioTasks::start_with(2, on_start).expect("threads"))
        },
    ];
    for start in all {
        let (told, heard) = std::sync::mpsc::channel();
        let bind = binding(&Cpus::Own, 2);
        let on_start: OnStart = Arc::new(move |worker| {
            bind(worker);
            told.send((worker, allowed().expect("an affinity"))).expect("somebody listens");
        });
        let mut executor = start(&on_start);
        let graph = Shape::Isolated.build(&Rules { nodes: 8, ..Rules::default() });
        let work = Box::new(NoWork);
        let run = Arc::new(Run::new(graph, Schedule::default(), work, Clock::start()));
        executor.run(&run).expect("the run ends");
        let mut seen: Vec<_> = heard.iter().take(2).collect();
        seen.sort();
        assert_eq!(seen, [(0, vec![cpus[0]]), (1, vec![cpus[1]])], "{}", executor.name());
    }
}
