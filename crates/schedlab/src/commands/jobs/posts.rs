//! `jobs posts`: one job at a time, posted at moments in which workers go to sleep, and where the time
//! from each post to its job's start went.
//!
//! A thread posts an empty job, spins until it ran, and posts the next one after a random pause. The
//! kernel's scheduler events are recorded meanwhile on the same clock, so each wait divides into the
//! pool's part and the kernel's (see `split`).

mod split;

use super::table;
use crate::commands::temporary_folder::Scratch;
use crate::json;
use anyhow::Context as _;
use schedlab_jobs::adaptors::SleepLog;
use schedlab_jobs::profile::quantile;
use schedlab_jobs::run::Slept;
use schedlab_model::{Nanos, Pid};
use schedlab_pool::{Options, Pool, current_worker};
use schedlab_record::{Marks, Options as RecordOptions, Recorder, spool_of, stitch};
use schedlab_sys::{clock, process};
use schemars::JsonSchema;
use serde::Serialize;
use split::{Parks, Parts, Post, Threads};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A wait beyond this must have a cause outside the pool.
const LONG_NS: u64 = 1_000_000;
/// Sleeps of each worker that are kept at most.
const SLEEPS_MAX: usize = 1 << 20;
/// Posts that are kept at most: 32 bytes each.
const POSTS_MAX: usize = 1 << 22;

/// Options of `jobs posts`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of workers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Post jobs for this time
    #[arg(long, default_value = "5s")]
    time: Nanos,
    /// Spin at most this long between a job and the next post
    #[arg(long, default_value = "60us")]
    pause: Nanos,
    /// Seed of the pauses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the recorded trace to FILE
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let scratch = Scratch::new("posts").context("making a temporary folder")?;
    let target = args.record.clone().unwrap_or_else(|| scratch.path().join("posts.dat"));
    let recorder = Recorder::start(RecordOptions::default(), &spool_of(&target))
        .context("the split needs scheduler events: `schedlab doctor` says how to record them")?;
    let posted = post_all(args);
    let spool = recorder.stop()?;
    let Posted { posts, pids, parks } = posted?;
    let summary = stitch(&spool, &target, &Marks::default())?;
    std::fs::remove_dir_all(&spool)?;
    let threads = threads(&target, &pids, parks)?;
    let report = Report::of(&posts, &threads, args.workers, summary.lost_total());
    if args.json {
        json::print(&report)?;
    } else {
        table::say(&report.text())?;
    }
    let clean = report.parked_beside_a_job == 0 && report.unattributed == 0;
    Ok(super::code(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }))
}

/// Notes its start and the worker that runs it.
struct Noted {
    ran: AtomicU64,
    started: AtomicU64,
    worker: AtomicI32,
}

impl Noted {
    fn run(&self, number: u64) {
        self.started.store(clock::monotonic().0, Ordering::Relaxed);
        let worker = current_worker().and_then(|worker| i32::try_from(worker).ok());
        self.worker.store(worker.unwrap_or(0), Ordering::Relaxed);
        self.ran.store(number, Ordering::Release);
    }
}

/// What the poster and the pool know.
struct Posted {
    posts: Vec<Post>,
    /// Of the workers by number; the poster's last.
    pids: Vec<Pid>,
    /// When each worker was parked.
    parks: Vec<Parks>,
}

fn post_all(args: &Args) -> anyhow::Result<Posted> {
    let workers = usize::from(args.workers);
    let noted = Arc::new(Noted {
        ran: AtomicU64::new(0),
        started: AtomicU64::new(0),
        worker: AtomicI32::new(0),
    });
    let pids = Arc::new(Mutex::new(vec![Pid::IDLE; workers]));
    let known = Arc::clone(&pids);
    let anchor = (Instant::now(), clock::monotonic().0);
    let (options, sleeps) = SleepLog::keep(Options::new(workers), workers, SLEEPS_MAX, anchor);
    let options = options.on_start(move |worker| {
        known.lock().unwrap_or_else(PoisonError::into_inner)[worker] = process::thread_id();
    });
    let pool = Pool::start(options)?;
    let mut random = schedlab_stats::Random::new(args.seed);
    let end = clock::monotonic() + args.time;
    let mut posts = Vec::new();
    while clock::monotonic() < end && posts.len() < POSTS_MAX && !super::interrupted() {
        let pause = clock::monotonic() + Nanos(random.below(args.pause.0.max(1) as usize) as u64);
        while clock::monotonic() < pause {
            std::hint::spin_loop();
        }
        let number = posts.len() as u64 + 1;
        let posted = clock::monotonic().0;
        let note = Arc::clone(&noted);
        pool.post(move || note.run(number)).map_err(|refused| refused.why)?;
        let visible = clock::monotonic().0;
        while noted.ran.load(Ordering::Acquire) != number {
            anyhow::ensure!(
                clock::monotonic().0 < visible + 10_000_000_000,
                "job {number} did not start within 10 s of its post"
            );
            std::hint::spin_loop();
        }
        let started = noted.started.load(Ordering::Relaxed);
        let worker = usize::try_from(noted.worker.load(Ordering::Relaxed)).unwrap_or(0);
        posts.push(Post { posted, visible, started, worker });
    }
    pool.stop(Duration::from_secs(1));
    let parked = |slept: Slept| (slept.from, slept.to);
    let parks = sleeps.take().into_iter().map(|own| own.into_iter().map(parked).collect());
    let mut pids = pids.lock().unwrap_or_else(PoisonError::into_inner).clone();
    pids.push(process::thread_id());
    Ok(Posted { posts, pids, parks: parks.collect() })
}

fn threads(trace: &Path, pids: &[Pid], parks: Vec<Parks>) -> anyhow::Result<Threads> {
    let (poster, workers) = pids.split_last().expect("the poster is one of them");
    let mut threads = Threads::new(workers, *poster, parks);
    let mut source = schedlab_trace::open(trace)?;
    let mut batch = Vec::new();
    while source.next(&mut batch)? {
        batch.iter().for_each(|event| threads.see(event));
    }
    Ok(threads)
}

/// Quantiles of one part over all posts, in nanoseconds.
#[derive(Serialize, JsonSchema)]
struct Quantiles {
    p50: Option<u64>,
    p99: Option<u64>,
    p9999: Option<u64>,
    max: Option<u64>,
}

impl Quantiles {
    fn of(mut values: Vec<u64>) -> Self {
        values.sort_unstable();
        let at = |q| quantile(&values, q);
        Self { p50: at(0.5), p99: at(0.99), p9999: at(0.9999), max: values.last().copied() }
    }
}

/// What `jobs posts` measured.
#[derive(Serialize, JsonSchema)]
pub(super) struct Report {
    workers: u16,
    posts: usize,
    interrupted: bool,
    events_lost: u64,
    /// From the post to the job's first statement.
    start_ns: Quantiles,
    /// The pool's part.
    pool_ns: Quantiles,
    /// Run delay of the worker or the poster.
    kernel_ns: Quantiles,
    /// The CPU stood still.
    machine_ns: Quantiles,
    /// Posts that took over a millisecond.
    long: usize,
    /// Of these, posts whose pool part alone is over a millisecond.
    unattributed: usize,
    /// How often the last awake worker parked beside a visible job.
    parked_beside_a_job: usize,
}

impl json::Document for Report {
    const ID: &'static str = "schedlab/jobs-posts/1";
}

impl Report {
    fn of(posts: &[Post], threads: &Threads, workers: u16, events_lost: u64) -> Self {
        let parts: Vec<Parts> = posts.iter().map(|post| threads.split(post)).collect();
        let whole: Vec<u64> =
            posts.iter().map(|post| post.started.saturating_sub(post.posted)).collect();
        let of = |part: fn(&Parts) -> u64| Quantiles::of(parts.iter().map(part).collect());
        Self {
            workers,
            posts: posts.len(),
            interrupted: super::interrupted(),
            events_lost,
            long: whole.iter().filter(|&&ns| ns > LONG_NS).count(),
            unattributed: parts.iter().filter(|parts| parts.pool > LONG_NS).count(),
            parked_beside_a_job: posts.iter().map(|post| threads.parked(post)).sum(),
            start_ns: Quantiles::of(whole),
            pool_ns: of(|parts| parts.pool),
            kernel_ns: of(|parts| parts.kernel),
            machine_ns: of(|parts| parts.machine),
        }
    }

    fn text(&self) -> String {
        let head = ["from post to start", "p50", "p99", "p99.99", "max"].map(str::to_owned);
        let row = |name: &str, quantiles: &Quantiles| {
            let time = |ns: Option<u64>| ns.map_or_else(|| "-".into(), |ns| table::time(ns as f64));
            let Quantiles { p50, p99, p9999, max } = *quantiles;
            vec![format!("  {name}"), time(p50), time(p99), time(p9999), time(max)]
        };
        let rows = [
            head.to_vec(),
            row("whole", &self.start_ns),
            row("pool", &self.pool_ns),
            row("kernel (run delay)", &self.kernel_ns),
            row("machine (CPU stood still)", &self.machine_ns),
        ];
        let partial = if self.interrupted { " (interrupted)" } else { "" };
        let Self { posts, workers, long, unattributed, parked_beside_a_job: parked, .. } = self;
        let mut text = format!("{posts} posts to {workers} workers{partial}\n");
        text += &table::columns(&rows);
        let _ = writeln!(
            text,
            "{long} posts took over 1 ms; {unattributed} of them by the pool alone\n\
             the last awake worker parked beside a visible job {parked} times"
        );
        if self.events_lost > 0 {
            let _ = writeln!(
                text,
                "{} scheduler events were lost: the split is incomplete",
                self.events_lost
            );
        }
        text
    }
}
