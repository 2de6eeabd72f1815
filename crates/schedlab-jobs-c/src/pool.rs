//! Pools: start, post, wait, stop.

use crate::handle::{HandleC, JobC, handle, state};
use crate::job::{Posting, give_back};
use crate::{Code, patience, priority, sized};
use schedlab_pool::{Counts, Late, Options, Pool, Refusal, WaitError};
use std::ffi::{CStr, c_char};
use std::ops::Deref;
use std::sync::mpsc;
use std::time::Instant;

/// The settings of a pool: `schedlab_pool_options` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OptionsC {
    pub(crate) size: usize,
    pub(crate) workers: u32,
    pub(crate) late: u32,
    pub(crate) backlog_max: u64,
    pub(crate) name: *const c_char,
    pub(crate) cpus: *const u32,
    pub(crate) cpu_count: usize,
    pub(crate) set_nice: u32,
    pub(crate) nice: i32,
    pub(crate) fifo: u32,
    pub(crate) reserved: u32,
}

// SAFETY: it begins with its size, and numbers and pointers may be anything.
unsafe impl sized::Sized for OptionsC {}

/// A job of a batch starts after another: `schedlab_link` in C.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LinkC {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The numbers of jobs in a pool: `schedlab_counts` in C.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CountsC {
    pub(crate) size: usize,
    pub(crate) posted: u64,
    pub(crate) done: u64,
    pub(crate) failed: u64,
    pub(crate) cancelled: u64,
    pub(crate) dependency_failed: u64,
    pub(crate) too_late: u64,
    pub(crate) shed: u64,
    pub(crate) late_starts: u64,
    pub(crate) ended_late: u64,
    pub(crate) stuck: u64,
}

// SAFETY: it consists of numbers, and begins with its size.
unsafe impl sized::Sized for CountsC {}

impl CountsC {
    fn of(counts: Counts, stuck: usize) -> Self {
        Self {
            size: 0,
            posted: counts.posted,
            done: counts.done,
            // A job of C cannot panic; if one of a callback's Rust code does, it failed.
            failed: counts.failed + counts.panicked,
            cancelled: counts.cancelled,
            dependency_failed: counts.dependency_failed,
            too_late: counts.too_late,
            shed: counts.shed,
            late_starts: counts.late_starts,
            ended_late: counts.ended_late,
            stuck: stuck as u64,
        }
    }
}

/// A running pool: `schedlab_pool` in C.
#[derive(Debug)]
pub struct PoolC {
    pool: Pool,
    /// When the clock began that C sees.
    origin: Instant,
}

impl Deref for PoolC {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        &self.pool
    }
}

/// The pool behind a pointer.
///
/// # Safety
/// The pointer is null, or came from [`schedlab_pool_start`] and was not stopped.
pub(crate) unsafe fn pool<'a>(pool: *const PoolC) -> Option<&'a PoolC> {
    // SAFETY: by the contract of this function.
    unsafe { pool.as_ref() }
}

/// Starts a pool; null where the options are wrong, or the system gives no threads or refuses a CPU or a priority.
///
/// # Safety
/// `options` is null or points to options whose name is null or a string, and whose list has as many CPUs as they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_start(options: *const OptionsC) -> *mut PoolC {
    let origin = Instant::now();
    // SAFETY: by the contract of this function.
    let options = unsafe { sized::read(options) };
    // SAFETY: by the contract of this function.
    let pool = options.and_then(|options| unsafe { start(&options) });
    pool.map_or(std::ptr::null_mut(), |pool| Box::into_raw(Box::new(PoolC { pool, origin })))
}

/// # Safety
/// As [`schedlab_pool_start`].
unsafe fn start(asked: &OptionsC) -> Option<Pool> {
    let is_known = asked.workers <= 1024 && asked.fifo <= 99 && asked.reserved == 0;
    if !is_known || (asked.cpus.is_null() && asked.cpu_count > 0) {
        return None;
    }
    let mut options = Options::new(asked.workers as usize).late(match asked.late {
        0 => Late::Run,
        1 => Late::Drop,
        2 => Late::Shed,
        _ => return None,
    });
    if asked.backlog_max > 0 {
        options = options.backlog_max(usize::try_from(asked.backlog_max).ok()?);
    }
    if !asked.name.is_null() {
        // SAFETY: by the contract of this function.
        options = options.name(unsafe { CStr::from_ptr(asked.name) }.to_str().ok()?);
    }
    if asked.cpu_count > 0 {
        // SAFETY: by the contract of this function.
        let cpus = unsafe { std::slice::from_raw_parts(asked.cpus, asked.cpu_count) };
        options = options.cpus(cpus.iter().map(|&cpu| cpu as usize).collect());
    }
    if asked.set_nice != 0 {
        options = options.nice(asked.nice);
    }
    if asked.fifo == 0 {
        return Pool::start(options).ok();
    }
    // Each worker tells whether it has the priority.
    let (tell, told) = mpsc::channel();
    let fifo = asked.fifo;
    let pool = Pool::start(options.on_start(move |_| {
        let _ = tell.send(priority::set_fifo(fifo));
    }));
    let pool = pool.ok()?;
    let workers = pool.load().workers;
    told.into_iter().take(workers).all(|has| has).then_some(pool)
}

/// Stops taking jobs and cancels what has not started.
///
/// # Safety
/// `closed` is null, or came from [`schedlab_pool_start`] and was not stopped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_close(closed: *const PoolC) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(closed) }) else { return Code::Invalid as i32 };
    pool.close();
    Code::Ok as i32
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
    let report = pool.pool.stop(patience(patience_ns));
    if !counts.is_null() {
        // SAFETY: by the contract of this function.
        unsafe { sized::write(counts, CountsC::of(report.counts, report.stuck.len())) };
    }
    if report.stuck.is_empty() { Code::Ok as i32 } else { Code::Timeout as i32 }
}

/// Nanoseconds on the pool's clock; 0 for null.
///
/// # Safety
/// As [`schedlab_pool_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_now(asked: *const PoolC) -> u64 {
    // SAFETY: by the contract of this function.
    let elapsed = unsafe { pool(asked) }.map(|pool| pool.origin.elapsed().as_nanos());
    elapsed.map_or(0, |ns| u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Waits until no job is left.
///
/// # Safety
/// As [`schedlab_pool_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_wait(waited: *const PoolC, patience_ns: u64) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(waited) }) else { return Code::Invalid as i32 };
    match pool.wait(patience(patience_ns)) {
        Ok(()) => Code::Ok as i32,
        Err(WaitError::InsideJob) => Code::InsideJob as i32,
        Err(_) => Code::Timeout as i32,
    }
}

/// What became of the jobs so far.
///
/// # Safety
/// As [`schedlab_pool_close`]; `counts` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_pool_counts(asked: *const PoolC, counts: *mut CountsC) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(asked) }) else { return Code::Invalid as i32 };
    // SAFETY: by the contract of this function.
    let written = unsafe { sized::write(counts, CountsC::of(pool.counts(), 0)) };
    if written { Code::Ok as i32 } else { Code::Invalid as i32 }
}

/// Posts a job.
///
/// # Safety
/// Each pointer is null or points to what its name says; `after` to as many handles as its count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_post(
    to: *const PoolC,
    posting: *const Posting,
    after: *const *const HandleC,
    after_count: usize,
    posted: *mut *mut HandleC,
) -> i32 {
    // SAFETY: by the contract of this function.
    let pool = unsafe { pool(to) };
    // SAFETY: by the contract of this function.
    let posting = unsafe { sized::read(posting) };
    let (Some(pool), Some(posting)) = (pool, posting) else { return Code::Invalid as i32 };
    if after.is_null() && after_count > 0 {
        return Code::Invalid as i32;
    }
    if posted.is_null() && after_count == 0 && posting.is_plain() {
        return post_plain(pool, &posting) as i32;
    }
    let Some((job, mut request)) = posting.split(pool.origin) else {
        return Code::Invalid as i32;
    };
    for number in 0..after_count {
        // SAFETY: by the contract of this function, there are so many.
        let at = unsafe { after.add(number) };
        // SAFETY: by the contract of this function.
        let before = unsafe { at.read() };
        // SAFETY: by the contract of this function.
        let Some(before) = (unsafe { handle(before) }) else {
            give_back(job);
            return Code::Invalid as i32;
        };
        request = request.after(before);
    }
    let taken = if posting.deferred == 0 {
        let taken = pool.spawn_fallible(request, move || job.call(None));
        taken.map_err(|refused| {
            give_back(refused.what);
            refused.why
        })
    } else {
        let taken = pool.spawn_deferred(request, move |completion| job.call_deferred(completion));
        taken.map_err(|refused| {
            give_back(refused.what);
            refused.why
        })
    };
    match taken {
        Ok(handle) => {
            // SAFETY: by the contract of this function.
            if let Some(posted) = unsafe { posted.as_mut() } {
                *posted = Box::into_raw(Box::new(HandleC(handle)));
            }
            Code::Ok as i32
        }
        Err(why) => code(why) as i32,
    }
}

/// Posts a job that asks for nothing. Nobody can ask for it either, so the pool need not know it. One that fails counts
/// as failed all the same.
fn post_plain(pool: &Pool, posting: &Posting) -> Code {
    let Some(job) = posting.job() else { return Code::Invalid };
    let run = move || {
        if job.call(None).is_none() {
            std::panic::resume_unwind(Box::new(()));
        }
    };
    let Err(refused) = pool.post(run) else { return Code::Ok };
    give_back(refused.what);
    code(refused.why)
}

/// Why something was not taken, for C.
fn code(why: Refusal) -> Code {
    match why {
        Refusal::Full => Code::Full,
        Refusal::Closed => Code::Closed,
        Refusal::NoSuchJob(_) => Code::NoSuchJob,
        Refusal::Cycle(_) => Code::Cycle,
        _ => Code::Invalid,
    }
}

/// Posts jobs with links between them.
///
/// # Safety
/// Each pointer is null or points to as many of what its name says as its count; `postings` have the size that the
/// first one says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_post_batch(
    to: *const PoolC,
    postings: *const Posting,
    count: usize,
    links: *const LinkC,
    link_count: usize,
    posted: *mut *mut HandleC,
) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(pool) = (unsafe { pool(to) }) else { return Code::Invalid as i32 };
    if (postings.is_null() && count > 0) || (links.is_null() && link_count > 0) {
        return Code::Invalid as i32;
    }
    let mut plan = pool.plan();
    let mut handles = Vec::with_capacity(if posted.is_null() { 0 } else { count });
    // SAFETY: the first posting begins with its size, by the contract of this function.
    let size = if count == 0 { 0 } else { unsafe { postings.cast::<usize>().read_unaligned() } };
    for number in 0..count {
        // SAFETY: the postings lie one behind the other, each of this size.
        let at = unsafe { postings.byte_add(number * size) };
        // SAFETY: by the contract of this function.
        let posting = unsafe { sized::read(at) };
        let split = posting.filter(|posting| posting.size == size);
        let split = split.and_then(|posting| Some((posting, posting.split(pool.origin)?)));
        let Some((posting, (job, request))) = split else {
            give_back(plan);
            return Code::Invalid as i32;
        };
        let handle = if posting.deferred == 0 {
            plan.add_fallible(request, move || job.call(None))
        } else {
            plan.add_deferred(request, move |completion| job.call_deferred(completion))
        };
        if !posted.is_null() {
            handles.push(handle);
        }
    }
    for number in 0..link_count {
        // SAFETY: by the contract of this function, there are so many.
        let at = unsafe { links.add(number) };
        // SAFETY: by the contract of this function.
        let link = unsafe { at.read() };
        plan.link(link.from, link.to);
    }
    if let Err(refused) = plan.post() {
        give_back(refused.what);
        return code(refused.why) as i32;
    }
    for (number, handle) in handles.into_iter().enumerate() {
        // SAFETY: by the contract of this function, there is room for so many.
        let at = unsafe { posted.add(number) };
        // SAFETY: by the contract of this function.
        unsafe { at.write(Box::into_raw(Box::new(HandleC(handle)))) };
    }
    Code::Ok as i32
}

/// Drops the jobs of a stream when their turn comes.
///
/// # Safety
/// As [`schedlab_pool_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_stream_off(of: *const PoolC, stream: u16) {
    // SAFETY: by the contract of this function.
    if let Some(pool) = unsafe { pool(of) } {
        pool.switch_off(stream);
    }
}

/// Switches a stream on.
///
/// # Safety
/// As [`schedlab_pool_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_stream_on(of: *const PoolC, stream: u16) {
    // SAFETY: by the contract of this function.
    if let Some(pool) = unsafe { pool(of) } {
        pool.switch_on(stream);
    }
}

/// Drops a job that has not started: 1, or 0 if it has.
///
/// # Safety
/// `of` is null, or came from `schedlab_pool_start` and was not stopped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_cancel(of: *const PoolC, job: JobC) -> i32 {
    // SAFETY: by the contract of this function.
    i32::from(unsafe { pool(of) }.is_some_and(|pool| pool.cancel(job.id())))
}

/// Where a job is; -1 for a null pool.
///
/// # Safety
/// As [`schedlab_cancel`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_state(of: *const PoolC, job: JobC) -> i32 {
    // SAFETY: by the contract of this function.
    unsafe { pool(of) }.map_or(-1, |pool| state(pool.state(job.id())))
}
