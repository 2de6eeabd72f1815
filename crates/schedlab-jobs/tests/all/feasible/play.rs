//! Sets of jobs that can end in time, played on the pool's threads, with the log of it.

use schedlab_jobs::adaptors::SleepLog;
use schedlab_jobs::graph::{Rules, Shape};
use schedlab_jobs::load::{Burner, Length, Load};
use schedlab_jobs::policy::{NEVER, Nanos};
use schedlab_jobs::rig::{Cause, Ran, Wait, waits};
use schedlab_jobs::run::{Stopped, Work};
use schedlab_pool::{Handle, Options, Pool, Request, current_worker};
use schedlab_random::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a job of a set asks for; times are relative to the begin of the set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    start: Nanos,
    deadline: Nanos,
    length: Nanos,
    after: Option<usize>,
}

/// Independent jobs that earliest deadline first, without preemption and cost, ends 2 ms before each deadline.
pub(crate) fn independent(workers: usize, load: f64, jobs: usize, seed: u64) -> Vec<Asked> {
    let mut numbers = Random::new(seed);
    let mut random = |below: usize| numbers.below(below) as Nanos;
    let mut start = 0;
    let mut set: Vec<Asked> = (0..jobs)
        .map(|_| {
            let length = 200_000 + random(2_000_000);
            start += (length as f64 / workers as f64 / load) as Nanos;
            let deadline = start + 1_000_000 + random(30_000_000);
            Asked { start, deadline, length, after: None }
        })
        .collect();
    let mut free = vec![0; workers];
    let mut open: Vec<usize> = (0..jobs).collect();
    while !open.is_empty() {
        let worker = (0..workers).min_by_key(|&worker| free[worker]).expect("one at least");
        let first = open.iter().map(|&job| set[job].start).min().expect("not empty");
        let now = first.max(free[worker]);
        let due = open.iter().enumerate().filter(|&(_, &job)| set[job].start <= now);
        let (at, &job) = due.min_by_key(|&(_, &job)| set[job].deadline).expect("one is due");
        open.swap_remove(at);
        free[worker] = now + set[job].length;
        set[job].deadline = set[job].deadline.max(free[worker] + 2_000_000);
    }
    set
}

/// 25 frames a second of decode, filter and encode with a deadline on encode alone, beside 12 jobs of 1 ms that have a
/// second.
pub(crate) fn frames(frames: u64) -> Vec<Asked> {
    let frame = |number: u64| {
        let start = number * 40_000_000;
        let first = number as usize * 15;
        let stage = |at: usize, length, deadline| {
            let after = at.checked_sub(1).map(|before| first + before);
            Asked { start, deadline, length, after }
        };
        let other = Asked { deadline: start + 1_000_000_000, ..stage(0, 1_000_000, NEVER) };
        let stages = [
            stage(0, 6_000_000, NEVER),
            stage(1, 9_000_000, NEVER),
            stage(2, 5_000_000, start + 36_000_000),
        ];
        stages.into_iter().chain([other; 12])
    };
    (0..frames).flat_map(frame).collect()
}

/// A set that was played.
pub(crate) struct Played {
    ran: Vec<Ran>,
    pub(crate) waits: Vec<Wait>,
    deadlines: Vec<Nanos>,
}

impl Played {
    /// Of each job that ended after its deadline, by how much, and why.
    pub(crate) fn late(&self) -> Vec<(Nanos, Cause)> {
        let all = self.ran.iter().zip(&self.waits).zip(&self.deadlines);
        all.filter(|((ran, _), deadline)| ran.end > **deadline)
            .map(|((ran, wait), deadline)| {
                let over = (ran.end - ran.begin).saturating_sub(ran.planned);
                let own =
                    over > Cause::ALL.map(|cause| wait.of(cause)).into_iter().max().unwrap_or(0);
                (ran.end - deadline, if own { Cause::Kernel } else { wait.cause() })
            })
            .collect()
    }

    /// How long the jobs took, over what was planned.
    pub(crate) fn inflation(&self) -> f64 {
        let sum = |of: fn(&Ran) -> Nanos| self.ran.iter().map(of).sum::<Nanos>() as f64;
        sum(|ran| ran.end - ran.begin) / sum(|ran| ran.planned)
    }

    /// For how long a due job waited for this cause at most.
    pub(crate) fn longest(&self, cause: Cause) -> Nanos {
        self.waits.iter().map(|wait| wait.of(cause)).max().unwrap_or(0)
    }
}

/// What a job writes when it ran.
#[derive(Default)]
struct Entry {
    begin: AtomicU64,
    end: AtomicU64,
    worker: AtomicUsize,
    /// When its worker had ended its job of before, and for how long the worker could not run since then.
    before: AtomicU64,
    stopped: AtomicU64,
}

/// Plays a set on a pool that has `past` tiny jobs before it. `run_delay` is that of the calling thread.
pub(crate) fn play(
    set: &[Asked],
    workers: usize,
    past: usize,
    burner: Burner,
    run_delay: fn() -> Option<Nanos>,
) -> Played {
    let base = Instant::now() + Duration::from_millis(20);
    // The log begins before the set does.
    let origin = base - Duration::from_secs(1);
    let since = move |at: Instant| at.saturating_duration_since(origin).as_nanos() as Nanos;
    let (options, log) = SleepLog::keep(Options::new(workers), workers, usize::MAX, (origin, 0));
    let pool = Pool::start(options).expect("threads");
    for _ in 0..past {
        pool.post(|| ()).expect("room");
    }
    let graph = Shape::Isolated.build(&Rules { nodes: set.len() as u32, ..Rules::default() });
    let lengths = set.iter().map(|job| job.length).collect();
    let load = Load::new(&graph, burner, 1, Length::Fixed, 1).with_lengths(lengths);
    let entries: Arc<Vec<Entry>> = Arc::new(set.iter().map(|_| Entry::default()).collect());
    let load = Arc::new(load);
    // When each worker ended its last job, and its run delay then.
    let delays: Arc<Vec<(AtomicU64, AtomicU64)>> =
        Arc::new((0..workers).map(|_| Default::default()).collect());
    let at = |time: Nanos| base + Duration::from_nanos(time);
    let mut handles: Vec<Handle<'static, ()>> = Vec::new();
    let mut posted = Vec::new();
    for (number, job) in set.iter().enumerate() {
        let mut request =
            Request::new().start(at(job.start)).expected(Duration::from_nanos(job.length));
        if job.deadline != NEVER {
            request = request.deadline(at(job.deadline));
        }
        if let Some(before) = job.after {
            request = request.after(&handles[before]);
        }
        let (entries, load, delays) =
            (Arc::clone(&entries), Arc::clone(&load), Arc::clone(&delays));
        let run = move || {
            let worker = current_worker().expect("a worker");
            let entry = &entries[number];
            let (ended, last) = (&delays[worker].0, &delays[worker].1);
            let delay = run_delay().unwrap_or(0);
            entry.before.store(ended.load(Relaxed), Relaxed);
            entry.stopped.store(delay.saturating_sub(last.load(Relaxed)), Relaxed);
            entry.worker.store(worker, Relaxed);
            entry.begin.store(since(Instant::now()), Relaxed);
            load.perform(number as u32);
            let end = since(Instant::now());
            entry.end.store(end, Relaxed);
            ended.store(end, Relaxed);
            last.store(run_delay().unwrap_or(0), Relaxed);
        };
        handles.push(pool.spawn_with(request, run).expect("room"));
        posted.push(since(Instant::now()));
    }
    handles.into_iter().for_each(|handle| handle.wait().expect("it ran"));
    pool.stop(Duration::MAX);
    let ended = |job: usize| entries[job].end.load(Relaxed);
    let ran: Vec<Ran> = set
        .iter()
        .zip(posted)
        .enumerate()
        .map(|(number, (job, posted))| Ran {
            worker: entries[number].worker.load(Relaxed),
            due: posted.max(since(at(job.start))).max(job.after.map_or(0, ended)),
            begin: entries[number].begin.load(Relaxed),
            end: ended(number),
            planned: load.expected_ns(number as u32),
        })
        .collect();
    let stopped: Vec<_> = ran
        .iter()
        .zip(entries.iter())
        .map(|(ran, entry)| Stopped {
            worker: ran.worker,
            from: entry.before.load(Relaxed),
            to: ran.begin,
            ns: entry.stopped.load(Relaxed),
        })
        .collect();
    let waits = waits(&ran, &log.take(), &stopped);
    let deadlines =
        set.iter().map(|job| job.deadline).map(|deadline| deadline.saturating_add(since(base)));
    Played { ran, waits, deadlines: deadlines.collect() }
}
