//! Properties of the policy, whatever is posted and pulled, and however time passes.

use proptest::prelude::*;
use schedlab_jobs::policy::{
    Agenda, Asker, Criticality, Emergency, Finished, JobId, Order, Outcome, Plan, Policy, Posting,
    Pulled,
};

#[derive(Clone, Debug)]
struct Job {
    start: u64,
    life: Option<u64>,
    criticality: u8,
    /// Depends on the job so many places before it.
    back: Vec<usize>,
}

#[derive(Clone, Debug)]
enum Step {
    Plan(Vec<Job>),
    /// A worker gives back what it has, with this outcome for the first, and pulls.
    Round {
        worker: usize,
        panics: bool,
    },
    Pass(u64),
}

fn job() -> impl Strategy<Value = Job> {
    let life = prop::option::of(0u64..2_000_000);
    let back = prop::collection::vec(1usize..6, 0..3);
    (0u64..3_000_000, life, 0u8..3, back).prop_map(|(start, life, criticality, back)| Job {
        start,
        life,
        criticality,
        back,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop::collection::vec(job(), 1..12).prop_map(Step::Plan),
        8 => (0usize..3, prop::bool::weighted(0.1))
            .prop_map(|(worker, panics)| Step::Round { worker, panics }),
        3 => (0u64..1_000_000).prop_map(Step::Pass),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let order = prop_oneof![
        Just(Order::Start),
        Just(Order::Deadline),
        Just(Order::Laxity),
        Just(Order::Path)
    ];
    let emergency =
        prop_oneof![Just(Emergency::Shed), Just(Emergency::RunLate), Just(Emergency::Drop)];
    (order, emergency, any::<bool>()).prop_map(|(order, emergency, notify)| Policy {
        order,
        emergency,
        notify,
        tick_ns: 500_000,
        ..Policy::new(3)
    })
}

/// Drives an agenda and keeps the books that it is checked against.
struct Books {
    agenda: Agenda<usize>,
    now: u64,
    ids: Vec<JobId>,
    start: Vec<u64>,
    before: Vec<Vec<usize>>,
    begun: Vec<bool>,
    done: Vec<bool>,
    held: Vec<Vec<Pulled<usize>>>,
}

impl Books {
    fn plan(&mut self, jobs: &[Job]) {
        let (mut plan, base) = (Plan::default(), self.start.len());
        for (i, job) in jobs.iter().enumerate() {
            let start = self.now + job.start;
            let mut posting = Posting::new(base + i, start);
            if let Some(life) = job.life {
                posting = posting.deadline(start + life);
            }
            posting.criticality =
                [Criticality::Optional, Criticality::Normal, Criticality::Compulsory]
                    [usize::from(job.criticality)];
            let to = plan.add(posting);
            let mut before: Vec<usize> =
                job.back.iter().filter_map(|back| (base + i).checked_sub(*back)).collect();
            before.sort_unstable();
            before.dedup();
            for &from in &before {
                match from.checked_sub(base) {
                    Some(within) => plan.link(within as u32, to),
                    None => plan.after(self.ids[from], to),
                }
            }
            self.start.push(start);
            self.before.push(before);
            self.begun.push(false);
            self.done.push(false);
        }
        self.ids.extend(self.agenda.plan(plan));
    }

    fn round(&mut self, worker: usize, panics: bool) -> usize {
        let mut finished = Vec::new();
        for (i, pulled) in std::mem::take(&mut self.held[worker]).into_iter().enumerate() {
            let outcome = if panics && i == 0 { Outcome::Panicked } else { Outcome::Done };
            self.done[pulled.job] = outcome == Outcome::Done;
            finished.push(Finished { id: pulled.id, outcome });
        }
        self.agenda.finish(&mut finished, 1_000);
        let asker = Asker { worker, idle_ns: 1_000_000, from_work: false };
        let mut batch = Vec::new();
        self.agenda.pull(self.now, asker, &mut batch);
        for pulled in &batch {
            let job = pulled.job;
            assert!(!self.begun[job], "job {job} was given out twice");
            assert!(self.start[job] <= self.now, "job {job} was given out before its start");
            let before = self.before[job].iter().all(|before| self.done[*before]);
            assert!(before, "job {job} was given out before its predecessors had ended well");
            self.begun[job] = true;
        }
        let got = batch.len();
        self.held[worker] = batch;
        got
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_job_ends_exactly_once_and_none_begins_early(
        policy in policy(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut books = Books {
            agenda: Agenda::new(policy),
            now: 0,
            ids: Vec::new(),
            start: Vec::new(),
            before: Vec::new(),
            begun: Vec::new(),
            done: Vec::new(),
            held: vec![Vec::new(); 3],
        };
        for step in steps {
            match step {
                Step::Plan(jobs) => books.plan(&jobs),
                Step::Round { worker, panics } => {
                    books.round(worker, panics);
                }
                Step::Pass(ns) => books.now += ns,
            }
            let counts = books.agenda.counts();
            prop_assert_eq!(counts.ended() + books.agenda.backlog() as u64, counts.posted);
        }
        // Time passes until nothing is left; whatever is left after that is lost.
        for _ in 0..2_000 {
            books.now += 500_000;
            for worker in 0..3 {
                books.round(worker, false);
            }
        }
        let counts = books.agenda.counts();
        prop_assert_eq!(books.agenda.backlog(), 0, "{:?}", counts);
        prop_assert_eq!(counts.ended(), counts.posted);
        prop_assert_eq!(counts.done, books.done.iter().filter(|done| **done).count() as u64);
    }
}
