//! Compulsory jobs on random loads in virtual time: one may miss its deadline only if it also misses where there is nothing
//! else but, on each worker that has nothing compulsory to do, one longest other job that was begun just before.

use proptest::prelude::*;
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Graph, Hashing, Node};
use schedlab_jobs::policy::{Criticality, Emergency, Policy};
use schedlab_jobs::run::{Clock, Run, Schedule, Span, Work};
use schedlab_jobs::virtual_time::{Costs, VirtualTime};
use std::sync::Arc;

const US: u64 = 1_000;
/// A virtual worker that spins looks every microsecond.
const LOOK: u64 = 2 * US;

#[derive(Clone, Debug)]
struct Job {
    start: u64,
    length: u64,
    life: u64,
    criticality: Criticality,
}

struct Lengths(Vec<u64>);

impl Work for Lengths {
    fn perform(&self, _: Node) {}

    fn expected_ns(&self, node: Node) -> u64 {
        self.0[node as usize]
    }
}

fn run(jobs: &[Job]) -> Arc<Run> {
    let weights = vec![1; jobs.len()];
    let graph = Graph::from_edges(&weights, &[], 0, Hashing::Mixed).expect("no edges, no circle");
    let schedule = Schedule {
        starts: jobs.iter().map(|job| job.start).collect(),
        lives: jobs.iter().map(|job| job.life).collect(),
        ..Schedule::default()
    };
    let lengths = Lengths(jobs.iter().map(|job| job.length).collect());
    let run = Run::new(graph, schedule, Box::new(lengths), Clock::start());
    Arc::new(run.with_criticality(jobs.iter().map(|job| job.criticality).collect()))
}

/// When a compulsory job starts at the latest, with all other jobs removed but one longest on each worker: that begins with the
/// last other job that really began before this one, on each worker that then ran nothing compulsory.
fn latest(jobs: &[Job], ran: &[Option<Span>], of: usize, workers: usize) -> u64 {
    let compulsory = |i: &usize| jobs[*i].criticality == Criticality::Compulsory;
    let begin = |i: usize| ran[i].map_or(u64::MAX, |span| span.begin);
    let others: Vec<usize> = (0..jobs.len()).filter(|i| !compulsory(i)).collect();
    let from = others.iter().map(|&i| begin(i)).filter(|&at| at < begin(of)).max();
    let longest = others.iter().map(|&i| jobs[i].length).max().unwrap_or(0);
    let mut free = vec![from.unwrap_or(0); workers];
    let running = (0..jobs.len()).filter(compulsory).filter_map(|i| ran[i]);
    for span in running.filter(|span| from.is_some_and(|at| span.begin < at && at < span.end)) {
        free[span.worker as usize] = span.end;
    }
    let blocked = free.iter_mut().filter(|free| from == Some(**free));
    blocked.for_each(|free| *free += longest);
    let mut order: Vec<usize> =
        (0..jobs.len()).filter(compulsory).filter(|&i| Some(begin(i)) >= from).collect();
    order.sort_by_key(|&i| (jobs[i].start, i));
    let mut latest = 0;
    for i in order {
        let first = free.iter_mut().min().expect("a worker");
        latest = (*first).max(jobs[i].start);
        *first = latest + jobs[i].length;
        if i == of {
            break;
        }
    }
    latest
}

fn job() -> impl Strategy<Value = Job> {
    let criticality = prop_oneof![
        1 => Just(Criticality::Compulsory),
        2 => Just(Criticality::Normal),
        2 => Just(Criticality::Optional)
    ];
    (0..4_000u64, 1..300u64, 0..400u64, criticality).prop_map(
        |(start, length, life, criticality)| {
            let (start, length, life) = (start * US, length * US, life * US);
            Job { start, length, life, criticality }
        },
    )
}

/// What ran, by job.
fn ran(jobs: &[Job], policy: Policy) -> Vec<Option<Span>> {
    let run = run(jobs);
    VirtualTime::new(policy, Costs::NONE).run(&run).expect("the run ends");
    run.verify().expect("it is proved");
    let mut ran = vec![None; jobs.len()];
    run.spans().into_iter().for_each(|span| ran[span.node as usize] = Some(span));
    ran
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_compulsory_job_misses_only_what_it_would_miss_alone(
        jobs in prop::collection::vec(job(), 10..120),
        workers in 1usize..5,
        emergency in prop_oneof![Just(Emergency::Shed), Just(Emergency::RunLate)],
    ) {
        let policy = Policy { emergency, ..Policy::new(workers) };
        let ran = ran(&jobs, policy);
        let look = LOOK * jobs.len() as u64;
        for (i, job) in jobs.iter().enumerate() {
            if job.criticality < Criticality::Compulsory {
                continue;
            }
            let start = ran[i].expect("a compulsory job is not dropped").begin;
            let latest = latest(&jobs, &ran, i, workers);
            prop_assert!(start <= latest + look, "job {i} started at {start}, alone at {latest}");
            // So one that misses its deadline misses it there, too.
            let deadline = job.start + job.life;
            prop_assert!(start <= deadline + look || latest > deadline, "job {i} missed {deadline}");
            // And no other job began while it waited.
            let passed = jobs.iter().zip(&ran).filter(|(other, _)| other.criticality < job.criticality);
            let mut began = passed.filter_map(|(_, span)| Some((*span)?.begin));
            let waits = (job.start + LOOK)..start;
            prop_assert!(!began.any(|at| waits.contains(&at)), "another job passed job {i}");
        }
    }
}
