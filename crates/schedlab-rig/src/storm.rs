//! Storms: threads that post jobs without a pause, at a rate, or one after another, and what an executor does meanwhile.
//!
//! An executor whose workers take in what is posted before they run it can spend all of its time so. Whoever posts first
//! and measures afterwards never sees that. Here jobs are counted while posting goes on.

use schedlab_jobs::adaptors::{Function, Post};
use schedlab_jobs::profile::quantile;
use schedlab_model::Nanos;
use schedlab_sys::clock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

/// Without a pace, one post in so many is timed from its posting to its start.
const SAMPLE: u64 = 64;
/// How often it is looked whether jobs are done.
const LOOK: Duration = Duration::from_millis(1);

/// How long a job waits for a later one of its burst.
const PATIENCE: Duration = Duration::from_secs(2);

/// Posts a burst whose first job waits for the last one, and says how long the first one then took. `None`: it was not
/// served within two seconds. An executor with one worker cannot serve it; one with more can, unless a worker keeps jobs
/// that it has not begun.
pub fn waits_for_later(post: &Post) -> Option<Nanos> {
    let (send, receive) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let first = move || {
        let _ = tell.send(receive.recv_timeout(PATIENCE).is_ok());
    };
    let last = move || {
        let _ = send.send(());
    };
    let mut burst: Vec<Function> = vec![Box::new(first)];
    burst.extend((0..4).map(|_| Box::new(|| ()) as Function));
    burst.push(Box::new(last));
    let begun = clock::monotonic();
    if !burst.into_iter().all(post) {
        return None;
    }
    let served = told.recv_timeout(2 * PATIENCE).unwrap_or(false);
    served.then(|| clock::monotonic() - begun)
}

/// When a poster posts its next job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostTiming {
    /// As soon as the executor has taken the last one.
    Flood,
    /// An open loop: at fixed times so far apart, whether jobs of before have started or not. The wait of a job counts
    /// from its time, so a poster that was held up hides no wait.
    Open(Nanos),
    /// A closed loop: when the last one has ended.
    Closed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storm {
    /// Jobs that the executor took.
    pub posted: u64,
    /// How often the executor had no room.
    pub refused: u64,
    /// Jobs that were done while posters posted.
    pub done: u64,
    /// The longest time in which no job was done while posters posted.
    pub standstill: Nanos,
    /// From the post to the start of a job: the median, of one in 64 jobs in a flood, else of all.
    pub start_p50: Option<Nanos>,
    /// The 99th of a hundred.
    pub start_p99: Option<Nanos>,
    /// From the end of posting until all jobs were done; `None` if they were not within a minute.
    pub drained_after: Option<Nanos>,
}

struct Shared {
    done: AtomicU64,
    over: AtomicBool,
    waits: Mutex<Vec<u64>>,
}

/// Lets `posters` threads post for `time`, each at this pace. A refused poster yields and tries again. Ends early when
/// `stop` says so.
///
/// # Errors
/// When the system gives no more threads.
pub fn storm(
    post: &Post,
    posters: usize,
    time: Nanos,
    pace: PostTiming,
    stop: impl Fn() -> bool,
) -> std::io::Result<Storm> {
    let shared = Arc::new(Shared {
        done: AtomicU64::new(0),
        over: AtomicBool::new(false),
        waits: Mutex::default(),
    });
    let begun = clock::monotonic();
    let (posted, refused, done, standstill) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut failed = None;
        for number in 0..posters {
            let builder = std::thread::Builder::new().name(format!("poster {number}"));
            match builder.spawn_scoped(scope, || post_until_over(post, pace, &shared)) {
                Ok(thread) => threads.push(thread),
                Err(error) => failed = Some(error),
            }
        }
        let mut last = (0, clock::monotonic());
        let mut standstill = Nanos(0);
        while failed.is_none() && clock::monotonic() < begun + time && !stop() {
            std::thread::sleep(LOOK);
            let now = (shared.done.load(Relaxed), clock::monotonic());
            if now.0 > last.0 {
                last = now;
            }
            standstill = standstill.max(now.1 - last.1);
        }
        let done = shared.done.load(Relaxed);
        shared.over.store(true, Relaxed);
        let counts = threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        let (posted, refused) = counts.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        failed.map_or(Ok((posted, refused, done, standstill)), Err)
    })?;
    let ended = clock::monotonic();
    let mut drained_after = None;
    while drained_after.is_none() && clock::monotonic() < ended + Nanos::from_secs(60) && !stop() {
        if shared.done.load(Relaxed) == posted {
            drained_after = Some(clock::monotonic() - ended);
        } else {
            std::thread::sleep(LOOK);
        }
    }
    let mut waits = std::mem::take(&mut *lock(&shared.waits));
    waits.sort_unstable();
    let at = |q| quantile(&waits, q).map(Nanos);
    let start_p50 = at(0.5);
    let start_p99 = at(0.99);
    Ok(Storm { posted, refused, done, standstill, start_p50, start_p99, drained_after })
}

fn lock(waits: &Mutex<Vec<u64>>) -> std::sync::MutexGuard<'_, Vec<u64>> {
    waits.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many jobs were taken, and how often one was refused.
fn post_until_over(post: &Post, pace: PostTiming, shared: &Arc<Shared>) -> (u64, u64) {
    let mut posted = 0;
    let mut refused = 0;
    let mut next = clock::monotonic();
    let ended = Arc::new(AtomicBool::new(false));
    while !shared.over.load(Relaxed) {
        if let PostTiming::Open(_) = pace {
            let left = next.0.saturating_sub(clock::monotonic().0);
            std::thread::sleep(Duration::from_nanos(left));
        }
        if post(job(pace, next, posted, shared, &ended)) {
            posted += 1;
            if let PostTiming::Open(gap) = pace {
                next += gap;
            }
            while pace == PostTiming::Closed
                && !ended.swap(false, Acquire)
                && !shared.over.load(Relaxed)
            {
                std::thread::park_timeout(LOOK);
            }
        } else {
            refused += 1;
            std::thread::yield_now();
        }
    }
    (posted, refused)
}

/// A job that counts itself, and notes how long it waited if it is timed. `due`: when an open loop posts it.
fn job(
    pace: PostTiming,
    due: Nanos,
    number: u64,
    shared: &Arc<Shared>,
    ended: &Arc<AtomicBool>,
) -> Function {
    let own = Arc::clone(shared);
    if pace == PostTiming::Flood && !number.is_multiple_of(SAMPLE) {
        return Box::new(move || {
            own.done.fetch_add(1, Relaxed);
        });
    }
    let ended = Arc::clone(ended);
    let poster = std::thread::current();
    let since = if let PostTiming::Open(_) = pace { due } else { clock::monotonic() };
    Box::new(move || {
        lock(&own.waits).push(clock::monotonic().0.saturating_sub(since.0));
        own.done.fetch_add(1, Relaxed);
        if pace == PostTiming::Closed {
            ended.store(true, Release);
            poster.unpark();
        }
    })
}
