//! What the policy decides, in virtual time; and that both bodies of the queues decide alike.

use super::*;
use crate::job::Nanos;
use crate::queues::Deques;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a step costs beside its job, in nanoseconds: about what a small server takes.
const STEP_NS: Nanos = 100;
const WAKE_NS: Nanos = 8_000;
const TIMER_NS: Nanos = 60_000;

/// Workers as events in virtual time.
struct World {
    model: Model,
    now: Nanos,
    /// Time, order, worker, stamp.
    events: BinaryHeap<Reverse<(Nanos, u64, usize, u64)>>,
    stamps: Vec<u64>,
    order: u64,
    running: Vec<Option<ModelJob>>,
    steps: u64,
    sleeps: u64,
}

impl World {
    fn new(workers: usize, late: Late) -> Self {
        let mut world = Self {
            model: Model::new(workers, 1 << 24, late),
            now: 0,
            events: BinaryHeap::new(),
            stamps: vec![0; workers],
            order: 0,
            running: vec![None; workers],
            steps: 0,
            sleeps: 0,
        };
        (0..workers).for_each(|worker| world.at(0, worker));
        world
    }

    fn at(&mut self, time: Nanos, worker: usize) {
        self.stamps[worker] += 1;
        self.order += 1;
        self.events.push(Reverse((time, self.order, worker, self.stamps[worker])));
    }

    /// Does what happens next; the tag of the job that began, and the length that it is to have is asked for.
    fn advance(
        &mut self,
        length: impl Fn(u64) -> Nanos,
        ended: &mut dyn FnMut(u64, Nanos),
    ) -> bool {
        let woken = self.model.woken();
        for worker in woken {
            self.at(self.now + WAKE_NS, worker);
        }
        let Some(Reverse((time, _, worker, stamp))) = self.events.pop() else { return false };
        if stamp != self.stamps[worker] {
            return true;
        }
        self.now = time;
        self.model.set_now(time);
        self.steps += 1;
        if let Some(job) = self.running[worker].take() {
            self.model.end(worker, &job, End::Done);
            ended(job.tag, time);
        }
        match self.model.step(worker) {
            Step::Run(job) => {
                self.at(time + STEP_NS + length(job.tag), worker);
                self.running[worker] = Some(job);
            }
            Step::Again => self.at(time + STEP_NS, worker),
            Step::Sleep(NEVER) => self.sleeps += 1,
            Step::Sleep(until) => {
                self.sleeps += 1;
                self.at(until.max(time) + TIMER_NS, worker);
            }
        }
        true
    }

    fn run(&mut self, length: impl Fn(u64) -> Nanos) -> Vec<(u64, Nanos)> {
        let mut ended = Vec::new();
        while self.advance(&length, &mut |tag, time| ended.push((tag, time))) {}
        ended
    }
}

fn plain() -> ModelRequest {
    ModelRequest::default()
}

#[test]
fn a_job_beside_jobs_that_post_themselves_starts_within_200_jobs() {
    let mut model = Model::new(1, 1 << 20, Late::Run);
    let again = |model: &Model, inside| drop(model.spawn(0, &plain(), &[], inside));
    again(&model, None);
    again(&model, None);
    for round in 0..if cfg!(miri) { 2 } else { 20 } {
        model.spawn(1, &plain(), &[], None).expect("room");
        let mut jobs = 0;
        loop {
            let Step::Run(job) = model.step(0) else { panic!("there are jobs") };
            model.end(0, &job, End::Done);
            if job.tag() == 1 {
                break;
            }
            again(&model, Some(0));
            jobs += 1;
            assert!(jobs <= 200, "round {round}");
        }
    }
}

#[test]
fn due_timed_jobs_without_end_leave_plain_jobs_their_turn_and_compulsory_ones_do_not() {
    for (criticality, starts) in [(Criticality::Normal, true), (Criticality::Compulsory, false)] {
        let mut model = Model::new(1, 1 << 20, Late::Run);
        model.set_now(1000);
        let timed = ModelRequest { deadline: 500_000, criticality, ..plain() };
        model.spawn(1, &plain(), &[], None).expect("room");
        let mut started = false;
        for _ in 0..200 {
            model.spawn(0, &timed, &[], None).expect("room");
            let Step::Run(job) = model.step(0) else { panic!("there are jobs") };
            model.end(0, &job, End::Done);
            started |= job.tag() == 1;
        }
        assert_eq!(started, starts, "{criticality:?}");
    }
}

#[test]
fn jobs_done_grow_linearly_while_posters_post_twice_as_fast() {
    let mut model = Model::new(2, 1 << 24, Late::Run);
    let mut done = 0;
    for round in 1..=50_000 {
        model.spawn(0, &plain(), &[], None).expect("room");
        model.spawn(0, &plain(), &[], None).expect("room");
        if let Step::Run(job) = model.step(round % 2) {
            model.end(round % 2, &job, End::Done);
            done += 1;
        }
        assert!(done + 2 >= round, "{done} of {round}");
    }
}

#[test]
fn a_small_job_beside_a_large_plan_or_a_wide_end_starts_within_a_few_parts_of_it() {
    for wide in [false, true] {
        let mut model = Model::new(1, 1 << 24, Late::Run);
        let mut jobs = vec![(0, plain()); 100_001];
        jobs[0].1.start = u64::from(wide);
        let links: Vec<_> =
            if wide { (1..=100_000).map(|to| (0, to)).collect() } else { Vec::new() };
        model.plan(&jobs, &links).expect("room");
        model.set_now(1);
        for _ in 0..3 {
            let Step::Run(job) = model.step(0) else { panic!("there are jobs") };
            model.end(0, &job, End::Done);
        }
        model.spawn(1, &plain(), &[], None).expect("room");
        let mut before = 0;
        loop {
            let Step::Run(job) = model.step(0) else { panic!("there are jobs") };
            model.end(0, &job, End::Done);
            if job.tag() == 1 {
                break;
            }
            before += 1;
        }
        assert!(before <= 256 + 64 + 61, "{before} jobs ran before it, wide {wide}");
    }
}

/// A state whose clock moves on by one at each look.
fn core_with_a_clock() -> (Core<'static, Lists<Item<'static>>>, Vec<usize>, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(0));
    let clock = Arc::clone(&now);
    let hooks = Hooks {
        clock: Box::new(move || clock.fetch_add(1, SeqCst)),
        wake: Box::new(|_| {}),
        says_when: false,
        late: None,
    };
    let (core, locals) = Core::new(1, 1 << 24, Late::Run, hooks);
    (core, locals, now)
}

#[test]
fn a_start_that_comes_while_a_plan_is_worked_off_does_not_wait_for_the_plan() {
    let (core, locals, now) = core_with_a_clock();
    let job = |asks: JobRequests| -> TaskRef<'static> {
        Arc::new(Job::<_, _, Times>::new(&asks, || Some(())))
    };
    // Each job waits for one that does not come: edges without an end, and nothing to run meanwhile.
    let first = job(JobRequests::NONE);
    let jobs: Vec<_> = (0..100_000).map(|_| job(JobRequests::NONE)).collect();
    core.counters.reserve(jobs.len() as u64 + 2, None);
    core.prepare(&first);
    for waits in &jobs {
        core.prepare(waits);
        core.link(&first, waits);
    }
    core.post_plan(jobs);
    let timed = job(JobRequests { start: 20, timed: true, queued: true, ..JobRequests::NONE });
    core.post(Arc::clone(&timed), Vec::new(), None);
    let mut me = WorkerState::new(0);
    let Some(Work::Task(found)) = core.next(&mut me, Some(&locals[0])) else { panic!("it is due") };
    assert!(Arc::ptr_eq(&found, &timed));
    assert!(now.load(SeqCst) < 40, "it started at {now:?}, instead of 20");
}

#[test]
fn a_compulsory_job_goes_first_however_many_starts_have_passed() {
    let mut model = Model::new(1, 1 << 20, Late::Run);
    for start in 1..=5000 {
        model.spawn(0, &ModelRequest { start, ..plain() }, &[], None).expect("room");
    }
    let compulsory = ModelRequest { start: 5001, criticality: Criticality::Compulsory, ..plain() };
    model.spawn(1, &compulsory, &[], None).expect("room");
    while !matches!(model.step(0), Step::Sleep(_)) {}
    model.set_now(10_000);
    let Step::Run(job) = model.step(0) else { panic!("there are jobs") };
    assert_eq!(job.tag(), 1);
}

/// A set of jobs that earliest deadline first without preemption ends 2 ms before each deadline.
fn feasible(workers: usize, load: f64, jobs: usize, seed: u64) -> Vec<(ModelRequest, Nanos)> {
    let mut state = seed;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut start = 3_000_000;
    let mut set: Vec<(ModelRequest, Nanos)> = (0..jobs)
        .map(|_| {
            let length = 200_000 + random(2_000_000);
            start += (length as f64 / workers as f64 / load) as Nanos;
            let slack = 1_000_000 + random(30_000_000);
            let request =
                ModelRequest { start, deadline: start + slack, expected: length, ..plain() };
            (request, length)
        })
        .collect();
    // The schedule at zero cost, by which the deadlines are set so that it meets them.
    let mut free = vec![0; workers];
    let mut open: Vec<usize> = (0..jobs).collect();
    while !open.is_empty() {
        let worker = (0..workers).min_by_key(|&worker| free[worker]).expect("one at least");
        let first = open.iter().map(|&job| set[job].0.start).min().expect("not empty");
        let now: Nanos = first.max(free[worker]);
        let due = open.iter().enumerate().filter(|&(_, &job)| set[job].0.start <= now);
        let (at, &job) = due.min_by_key(|&(_, &job)| set[job].0.deadline).expect("one is due");
        open.swap_remove(at);
        let end = now + set[job].1;
        free[worker] = end;
        set[job].0.deadline = set[job].0.deadline.max(end + 2_000_000);
    }
    set
}

#[test]
fn feasible_sets_end_in_time_with_all_costs_with_and_without_a_past_of_tiny_jobs() {
    for (load, past) in [(0.4, 0), (0.4, 20_000), (0.9, 0), (0.9, 20_000)] {
        for seed in 0..10 {
            let set = feasible(2, load, 300, seed + 1);
            let mut world = World::new(2, Late::Run);
            for _ in 0..past {
                world.model.spawn(u64::MAX, &plain(), &[], None).expect("room");
            }
            for (tag, (request, _)) in set.iter().enumerate() {
                world.model.spawn(tag as u64, request, &[], None).expect("room");
            }
            let length = |tag: u64| set.get(tag as usize).map_or(50, |&(_, length)| length);
            let ended = world.run(length);
            assert_eq!(ended.len(), set.len() + past);
            let late = ended.iter().filter(|&&(tag, time)| {
                set.get(tag as usize).is_some_and(|(request, _)| time > request.deadline)
            });
            assert_eq!(late.count(), 0, "load {load}, past {past}, seed {seed}");
            let counts = world.model.counts();
            assert_eq!((counts.late_starts, counts.ended_late), (0, 0));
        }
    }
}

#[test]
fn a_deadline_on_the_last_job_of_a_chain_orders_all_of_it() {
    // 25 frames a second of decode, filter and encode, beside jobs that have time.
    let mut world = World::new(2, Late::Run);
    let mut lengths = vec![0; 3 * 50];
    for frame in 0..50u64 {
        let start = 1_000_000 + frame * 40_000_000;
        let stage = |expected| ModelRequest { start, expected, ..plain() };
        let ns = [6_000_000, 9_000_000, 5_000_000];
        let encode = ModelRequest { deadline: start + 36_000_000, ..stage(ns[2]) };
        let jobs =
            [(frame * 3, stage(ns[0])), (frame * 3 + 1, stage(ns[1])), (frame * 3 + 2, encode)];
        world.model.plan(&jobs, &[(0, 1), (1, 2)]).expect("room");
        (0..3).for_each(|at| lengths[(frame * 3) as usize + at] = ns[at]);
        for _ in 0..20 {
            // Each takes 1 ms and has a second.
            let other = ModelRequest { start, deadline: start + 1_000_000_000, ..plain() };
            world.model.spawn(1000, &other, &[], None).expect("room");
        }
    }
    world.run(|tag| lengths.get(tag as usize).copied().unwrap_or(1_000_000));
    let counts = world.model.counts();
    assert_eq!((counts.done, counts.late_starts, counts.ended_late), (50 * 23, 0, 0));
}

#[test]
fn starts_wake_workers_about_once_each_and_an_idle_pool_never() {
    for workers in [1, 2, 64] {
        let mut world = World::new(workers, Late::Run);
        world.run(|_| 0);
        assert_eq!(world.sleeps, workers as u64, "each goes to sleep once");
        for start in 1..=50u64 {
            let request = ModelRequest { start: start * 10_000_000, ..plain() };
            world.model.spawn(start, &request, &[], None).expect("room");
        }
        let ended = world.run(|_| 1_000_000);
        assert_eq!(ended.len(), 50);
        let wakeups = world.sleeps - workers as u64;
        assert!(wakeups <= 50 + workers as u64, "{wakeups} wakeups of {workers} workers");
    }
}

#[test]
fn a_day_of_starts_ends_each_job_at_its_time() {
    let mut world = World::new(2, Late::Run);
    let second = 1_000_000_000;
    for start in 1..=86_400u64 {
        let request = ModelRequest { start: start * second, ..plain() };
        world.model.spawn(start, &request, &[], None).expect("room");
    }
    let ended = world.run(|_| 1_000_000);
    assert_eq!(ended.len(), 86_400);
    let in_time = |&(tag, time): &(u64, Nanos)| time - tag * second < 2_000_000;
    assert!(ended.iter().all(in_time));
    assert!(world.steps < 6 * 86_400, "{} steps: none walks what waits", world.steps);
}

/// What one machine decides for a sequence of operations.
fn decisions<Q: Queues<Item<'static>>>(seed: u64) -> Vec<String> {
    let workers = 1 + (seed % 4) as usize;
    let late = [Late::Run, Late::Drop, Late::Shed][(seed % 3) as usize];
    let mut machine = Machine::<Q>::new(workers, 200, late);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut running: Vec<Option<ModelJob>> = vec![None; workers];
    let mut jobs: Vec<ModelJob> = Vec::new();
    let mut said = Vec::new();
    let mut now = 0;
    for tag in 0..120 {
        now += random(3) * 500;
        machine.now.store(now, SeqCst);
        let worker = random(workers as u64) as usize;
        match random(10) {
            0..=2 => {
                let is_timed = random(2) == 0;
                let mut request = plain();
                if is_timed {
                    request.start = now + random(4) * 700;
                    request.deadline = now + random(20) * 400;
                    request.criticality =
                        [Criticality::Normal, Criticality::Optional, Criticality::Compulsory]
                            [random(3) as usize];
                }
                let some = jobs.len() as u64;
                let after = if some > 0 && random(3) == 0 {
                    vec![jobs[random(some) as usize].clone()]
                } else {
                    Vec::new()
                };
                let inside = running[worker].as_ref().map(|_| worker);
                let posted = machine.spawn(tag, &request, &after, inside);
                said.push(format!("post {}", posted.is_some()));
                jobs.extend(posted);
            }
            3 => {
                let count = 1 + random(100) as usize;
                let wide: Vec<_> =
                    (0..count).map(|job| (1000 * tag + job as u64, plain())).collect();
                let links: Vec<_> =
                    (1..count).filter(|job| job % 3 == 0).map(|to| (0, to)).collect();
                let posted = machine.plan(&wide, &links);
                said.push(format!("plan {}", posted.is_some()));
                jobs.extend(posted.into_iter().flatten().take(3));
            }
            4 if !jobs.is_empty() => {
                let which = random(jobs.len() as u64) as usize;
                let cancelled = machine.core.cancel(&jobs[which].task, Some(0));
                said.push(format!("cancel {cancelled}"));
            }
            _ => {
                if let Some(job) = running[worker].take() {
                    let end = if random(20) == 0 { End::Panicked } else { End::Done };
                    machine.end(worker, &job, end);
                } else {
                    let step = machine.step(worker);
                    said.push(format!("{worker}: {step:?}"));
                    if let Step::Run(job) = step {
                        running[worker] = Some(job);
                    }
                }
            }
        }
        let mut woken = std::mem::take(&mut *lock(&machine.woken));
        said.extend(woken.drain(..).map(|worker| format!("wake {worker}")));
    }
    machine.core.close();
    said.push(format!("{:?}", machine.core.counters.counts()));
    said
}

#[test]
fn both_bodies_of_the_queues_decide_alike() {
    let mut ran = 0;
    // Under Miri the lists alone.
    let seeds = if cfg!(miri) { 3 } else { 10_000 };
    for seed in 1..=seeds {
        let lists = decisions::<Lists<Item<'static>>>(seed);
        ran += lists.iter().filter(|said| said.contains("Run(")).count();
        if !cfg!(miri) {
            assert_eq!(lists, decisions::<Deques<Item<'static>>>(seed), "seed {seed}");
        }
    }
    let least = if cfg!(miri) { 0 } else { 100_000 };
    assert!(ran > least, "{ran} jobs ran: the sequences test something");
}
