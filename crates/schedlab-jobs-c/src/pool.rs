//! Pools: start, post, cancel, wait, stop.

use crate::Code;
use crate::job::{Jobs, Posting};
use schedlab_jobs::policy::{Counts, Cpus, Fate, JobId, Order, Plan, Policy, StreamId};
use schedlab_jobs::pool::{Handle, Options, Pool, PostError, Report};
use schedlab_jobs::run::Clock;
use std::time::Duration;

/// The settings of a pool: `schedlab_pool_options` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OptionsC {
    workers: u32,
    reserve: u32,
    order: u32,
    unbound: u32,
}

/// The numbers of jobs in a pool: `schedlab_counts` in C.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CountsC {
    posted: u64,
    done: u64,
    missed: u64,
    shed: u64,
    cancelled: u64,
    abandoned: u64,
    panicked: u64,
    failed: u64,
    emergencies: u64,
    stuck: u64,
}

impl CountsC {
    fn of(report: &Report) -> Self {
        let Counts {
            posted,
            done,
            missed,
            shed,
            cancelled,
            abandoned,
            panicked,
            failed,
            emergencies,
        } = report.counts;
        let stuck = report.stuck.len() as u64;
        Self {
            posted,
            done,
            missed,
            shed,
            cancelled,
            abandoned,
            panicked,
            failed,
            emergencies,
            stuck,
        }
    }
}

/// A running pool: `schedlab_pool` in C.
pub struct PoolC {
    pool: Pool<Jobs>,
}

impl PoolC {
    fn handle(&self) -> &Handle<Jobs> {
        self.pool.handle()
    }
}

impl std::fmt::Debug for PoolC {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolC").finish_non_exhaustive()
    }
}

/// The pool behind a pointer.
///
/// # Safety
/// The pointer is null, or came from [`schedlab_pool_start`] and was not stopped.
unsafe fn pool<'a>(pool: *const PoolC) -> Option<&'a PoolC> {
    // SAFETY: by the contract of this function.
    unsafe { pool.as_ref() }
}

/// Starts a pool; null where the options are wrong or the system gives no threads.
///
/// # Safety
/// `options` is null or points to options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_start(options: *const OptionsC) -> *mut PoolC {
    // SAFETY: by the contract of this function.
    let options = unsafe { options.as_ref() };
    options.and_then(start).map_or(std::ptr::null_mut(), |pool| Box::into_raw(Box::new(pool)))
}

fn start(options: &OptionsC) -> Option<PoolC> {
    let workers = options.workers as usize;
    if !(1..=1024).contains(&workers) || options.reserve >= options.workers {
        return None;
    }
    let order = match options.order {
        0 => Order::Start,
        1 => Order::Deadline,
        2 => Order::Laxity,
        _ => return None,
    };
    let cpus = if options.unbound == 0 { Cpus::Own } else { Cpus::Any };
    let reserve = options.reserve as usize;
    let policy = Policy { order, cpus, reserve, ..Policy::new(workers) };
    let options = Options { policy, ..Options::new(workers) };
    Some(PoolC { pool: Pool::start(Jobs, options, Clock::start()).ok()? })
}

/// Ends the workers and frees the pool.
///
/// # Safety
/// `stopped` came from [`schedlab_pool_start`], is stopped once, and nothing uses it any more; `counts` is null or may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_stop(
    stopped: *mut PoolC,
    patience_ns: u64,
    counts: *mut CountsC,
) -> i32 {
    if stopped.is_null() {
        return Code::Invalid as i32;
    }
    // SAFETY: by the contract of this function.
    let pool = unsafe { Box::from_raw(stopped) };
    let report = pool.pool.stop(Duration::from_nanos(patience_ns));
    // SAFETY: by the contract of this function.
    if let Some(counts) = unsafe { counts.as_mut() } {
        *counts = CountsC::of(&report);
    }
    (if report.stuck.is_empty() { Code::Ok } else { Code::Timeout }) as i32
}

/// Time on the pool's clock; 0 for null.
///
/// # Safety
/// `of` is null or a pool that was not stopped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_now(of: *const PoolC) -> u64 {
    // SAFETY: by the contract of this function.
    unsafe { pool(of) }.map_or(0, |pool| pool.handle().now())
}

/// Waits until no job is left, for at most `patience_ns`: [`Code::Ok`], [`Code::Timeout`], or [`Code::Invalid`] for
/// null.
///
/// # Safety
/// As [`schedlab_pool_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_wait(of: *const PoolC, patience_ns: u64) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(of) }) else { return Code::Invalid as i32 };
    // More than a century is no time that ends.
    let patience = Duration::from_nanos(patience_ns.min(u64::MAX / 8));
    (if pool.handle().wait(patience) { Code::Ok } else { Code::Timeout }) as i32
}

/// Posts a job: a [`Code`]. With [`Code::Ok`], `id` has the id of the job.
///
/// # Safety
/// `to` is null or a pool that was not stopped; `posting` is null or points to a posting; `after` points to this many ids;
/// `id` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_post(
    to: *const PoolC,
    posting: *const Posting,
    after: *const u64,
    after_count: usize,
    id: *mut u64,
) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(to) }) else { return Code::Invalid as i32 };
    // SAFETY: by the contract of this function.
    let Some(posting) = (unsafe { posting.as_ref() }) else { return Code::Invalid as i32 };
    if after.is_null() && after_count > 0 {
        return Code::Invalid as i32;
    }
    let after: &[u64] = if after_count == 0 {
        &[]
    } else {
        // SAFETY: not null, and by the contract of this function this many ids lie there.
        unsafe { std::slice::from_raw_parts(after, after_count) }
    };
    match post(pool.handle(), posting, after) {
        Ok(posted) => {
            // SAFETY: by the contract of this function.
            if let Some(id) = unsafe { id.as_mut() } {
                *id = posted.to_bits();
            }
            Code::Ok as i32
        }
        Err(code) => code as i32,
    }
}

fn post(handle: &Handle<Jobs>, posting: &Posting, after: &[u64]) -> Result<JobId, Code> {
    let after: Option<Vec<JobId>> = after.iter().map(|&bits| JobId::from_bits(bits)).collect();
    let after = after.ok_or(Code::Invalid)?;
    // The last check: from here on the job drops its data, unless it is given back.
    let posting = posting.to_posting().ok_or(Code::Invalid)?;
    if after.is_empty() {
        return handle.post(posting).map_err(|error| match error {
            PostError::Full(back) => give_back(back.job, Code::Full),
            PostError::Closed(back) => give_back(back.job, Code::Closed),
        });
    }
    let mut plan = Plan::default();
    let job = plan.add(posting);
    after.into_iter().for_each(|from| plan.after(from, job));
    let refused = |plan: Plan<_>, code| {
        plan.into_jobs().for_each(|job| {
            give_back(job, code);
        });
        code
    };
    match handle.plan(plan) {
        Ok(ids) => ids.first().copied().ok_or(Code::Invalid),
        Err(PostError::Full(plan)) => Err(refused(plan, Code::Full)),
        Err(PostError::Closed(plan)) => Err(refused(plan, Code::Closed)),
    }
}

fn give_back(job: crate::job::Job, code: Code) -> Code {
    job.give_back();
    code
}

/// Drops a job that has not started: 1, else 0.
///
/// # Safety
/// As [`schedlab_pool_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_cancel(of: *const PoolC, id: u64) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(of) }) else { return 0 };
    i32::from(JobId::from_bits(id).is_some_and(|id| pool.handle().cancel(id)))
}

/// What became of a job: 0 not ended yet, 1 done, 2 failed, dropped or unknown.
///
/// # Safety
/// As [`schedlab_pool_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_fate(of: *const PoolC, id: u64) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(of) }) else { return 2 };
    match JobId::from_bits(id).map(|id| pool.handle().fate(id)) {
        Some(Fate::Live) => 0,
        Some(Fate::Done) => 1,
        Some(Fate::Failed) | None => 2,
    }
}

/// Drops the jobs of a stream; how many.
///
/// # Safety
/// As [`schedlab_pool_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_stream_off(of: *const PoolC, stream: u16) -> u64 {
    // SAFETY: by the contract of this function.
    unsafe { pool(of) }.map_or(0, |pool| pool.handle().switch_off(StreamId(stream)))
}

/// Takes jobs of a stream again.
///
/// # Safety
/// As [`schedlab_pool_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_stream_on(of: *const PoolC, stream: u16) {
    // SAFETY: by the contract of this function.
    if let Some(pool) = unsafe { pool(of) } {
        pool.handle().switch_on(StreamId(stream));
    }
}

#[cfg(test)]
mod tests;
