//! Who owns `data`: the pool from `SCHEDLAB_OK` on, the caller otherwise. Sizes of structures.

use crate::Code;
use crate::handle::*;
use crate::job::{ContextC, Posting, schedlab_complete, schedlab_context_completion};
use crate::pool::*;
use std::ffi::c_void;
use std::io::Write;
use std::mem::{offset_of, size_of};
use std::ptr::{from_ref, null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

extern "C" fn done(_: *mut c_void, _: *mut ContextC) -> i32 {
    0
}

extern "C" fn fails(_: *mut c_void, _: *mut ContextC) -> i32 {
    1
}

extern "C" fn completes(_: *mut c_void, context: *mut ContextC) -> i32 {
    // SAFETY: the context is that of this job.
    let completion = unsafe { schedlab_context_completion(context) };
    assert!(!completion.is_null());
    // SAFETY: it is told once.
    unsafe { schedlab_complete(completion) };
    0
}

extern "C" fn count(data: *mut c_void) {
    // SAFETY: each test posts the address of a counter that outlives its pool.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
}

/// A job that counts how often its data is dropped; all else is zero.
fn counted(drops: &AtomicU32) -> Posting {
    // SAFETY: zeros are a posting.
    let zero: Posting = unsafe { std::mem::zeroed() };
    let data = from_ref(drops).cast_mut().cast();
    Posting { size: size_of::<Posting>(), run: Some(done), drop: Some(count), data, ..zero }
}

fn options() -> OptionsC {
    // SAFETY: zeros are options.
    let zero: OptionsC = unsafe { std::mem::zeroed() };
    OptionsC { size: size_of::<OptionsC>(), workers: 1, ..zero }
}

fn pool(options: &OptionsC) -> *mut PoolC {
    // SAFETY: the options are a reference.
    let pool = unsafe { schedlab_pool_start(options) };
    assert!(!pool.is_null());
    pool
}

fn post(
    pool: *const PoolC,
    posting: &Posting,
    after: &[*const HandleC],
) -> Result<*mut HandleC, i32> {
    let mut handle = null_mut();
    // SAFETY: all are what they are called.
    let code =
        unsafe { schedlab_post(pool, posting, after.as_ptr(), after.len(), &raw mut handle) };
    if code == 0 { Ok(handle) } else { Err(code) }
}

/// Waits for a job and releases its handle: how it ended.
fn ended(handle: *mut HandleC) -> i32 {
    // SAFETY: the handle came from a post.
    assert_eq!(unsafe { schedlab_handle_wait(handle, u64::MAX) }, 0);
    // SAFETY: as above.
    let state = unsafe { schedlab_handle_state(handle) };
    // SAFETY: it is released once.
    unsafe { schedlab_handle_release(handle) };
    state
}

fn stop(pool: *mut PoolC) -> CountsC {
    let mut counts = CountsC { size: size_of::<CountsC>(), ..CountsC::default() };
    // SAFETY: the pool came from a start, and nothing uses it any more.
    assert_eq!(unsafe { schedlab_pool_stop(pool, u64::MAX, &raw mut counts) }, 0);
    counts
}

#[test]
fn what_is_refused_stays_the_callers() {
    let drops = AtomicU32::new(0);
    let pool = pool(&options());
    let good = counted(&drops);
    let no_run = Posting { run: None, ..good };
    let no_criticality = Posting { criticality: 3, ..good };
    let no_size = Posting { size: 0, ..good };
    let none = [null::<HandleC>()];
    let refused = [
        (null(), from_ref(&good), null(), 0),
        (pool.cast_const(), null(), null(), 0),
        (pool.cast_const(), from_ref(&no_run), null(), 0),
        (pool.cast_const(), from_ref(&no_criticality), null(), 0),
        (pool.cast_const(), from_ref(&no_size), null(), 0),
        (pool.cast_const(), from_ref(&good), null(), 1),
        (pool.cast_const(), from_ref(&good), none.as_ptr(), 1),
    ];
    for (number, (to, posting, after, length)) in refused.into_iter().enumerate() {
        // SAFETY: each pointer is null, or points to what the function asks for.
        let code = unsafe { schedlab_post(to, posting, after, length, null_mut()) };
        assert_eq!((code, drops.load(SeqCst)), (Code::Invalid as i32, 0), "{number}");
    }
    assert_eq!(stop(pool).posted, 0);
    assert_eq!(drops.load(SeqCst), 0);
}

#[test]
fn a_plain_job_without_a_handle_is_counted_and_its_data_dropped_like_any_other() {
    let drops = AtomicU32::new(0);
    let pool = pool(&OptionsC { backlog_max: 2, ..options() });
    let good = counted(&drops);
    let bad = Posting { run: Some(fails), ..good };
    // SAFETY: all are what they are called.
    let post = |posting: &Posting| unsafe { schedlab_post(pool, posting, null(), 0, null_mut()) };
    for posting in [&good, &bad] {
        assert_eq!(post(posting), 0);
        // SAFETY: the pool is there.
        assert_eq!(unsafe { schedlab_pool_wait(pool, u64::MAX) }, 0);
    }
    assert_eq!(drops.load(SeqCst), 2);
    let later = Posting { start_ns: u64::MAX / 2, ..good };
    assert_eq!((post(&later), post(&later)), (0, 0));
    assert_eq!((post(&good), drops.load(SeqCst)), (Code::Full as i32, 2));
    // SAFETY: the pool is there.
    unsafe { schedlab_pool_close(pool) };
    assert_eq!((post(&good), drops.load(SeqCst)), (Code::Closed as i32, 4));
    let counts = stop(pool);
    assert_eq!((counts.posted, counts.done, counts.failed, counts.cancelled), (4, 1, 1, 2));
    assert_eq!(drops.load(SeqCst), 4);
}

#[test]
fn what_finds_no_room_or_a_closed_pool_stays_the_callers_and_what_was_taken_is_dropped() {
    let (far, drops) = (AtomicU32::new(0), AtomicU32::new(0));
    let pool = pool(&OptionsC { backlog_max: 1, ..options() });
    let in_an_hour = 3_600_000_000_000;
    let first = post(pool, &Posting { start_ns: in_an_hour, ..counted(&far) }, &[]);
    let first = first.expect("the first has room");
    let alone = || post(pool, &counted(&drops), &[]).err();
    let deferred = Posting { deferred: 1, ..counted(&drops) };
    assert_eq!((alone(), post(pool, &deferred, &[first]).err()), (Some(1), Some(1)));
    let batch = [counted(&drops), deferred];
    let posts = || {
        // SAFETY: all are what they are called.
        unsafe { schedlab_post_batch(pool, batch.as_ptr(), 2, null(), 0, null_mut()) }
    };
    assert_eq!(posts(), Code::Full as i32);
    // SAFETY: the pool runs.
    unsafe { schedlab_pool_close(pool) };
    assert_eq!((alone(), posts()), (Some(2), Code::Closed as i32));
    assert_eq!(ended(first), 5, "cancelled by the close");
    stop(pool);
    assert_eq!((far.load(SeqCst), drops.load(SeqCst)), (1, 0));
}

#[test]
fn what_is_taken_is_dropped_once_whatever_becomes_of_it() {
    let drops = AtomicU32::new(0);
    let pool = pool(&options());
    let ran = post(pool, &counted(&drops), &[]).expect("room");
    let then = post(pool, &counted(&drops), &[ran]).expect("room");
    let failed = post(pool, &Posting { run: Some(fails), ..counted(&drops) }, &[]).expect("room");
    let lost = post(pool, &counted(&drops), &[failed]).expect("room");
    let deferred = Posting { run: Some(completes), deferred: 1, ..counted(&drops) };
    let told = post(pool, &deferred, &[]).expect("room");
    // Its completion is dropped without a word.
    let untold = post(pool, &Posting { run: Some(done), ..deferred }, &[]).expect("room");
    assert_eq!([ran, then, failed, lost, told, untold].map(ended), [3, 3, 4, 6, 3, 4]);
    let far = Posting { start_ns: u64::MAX / 2, ..counted(&drops) };
    let far = post(pool, &far, &[]).expect("room");
    // SAFETY: the handle is alive.
    let job = unsafe { schedlab_handle_job(far) };
    for answers in [(0, 1), (2, 0)] {
        // SAFETY: the pool runs.
        let state = unsafe { schedlab_state(pool, job) };
        // SAFETY: the pool runs.
        assert_eq!((state, unsafe { schedlab_cancel(pool, job) }), answers);
    }
    assert_eq!(ended(far), 5);
    let counts = stop(pool);
    assert_eq!((counts.posted, counts.done, counts.failed), (7, 3, 2));
    assert_eq!((counts.cancelled, counts.dependency_failed), (1, 1));
    assert_eq!(drops.load(SeqCst), 7);
}

#[test]
fn a_batch_is_taken_whole_or_not_at_all() {
    let drops = AtomicU32::new(0);
    let pool = pool(&options());
    let jobs = [counted(&drops), counted(&drops), counted(&drops)];
    let batch = |links: &[LinkC], handles: *mut *mut HandleC| {
        // SAFETY: all are what they are called.
        unsafe { schedlab_post_batch(pool, jobs.as_ptr(), 3, links.as_ptr(), links.len(), handles) }
    };
    let link = |from, to| LinkC { from, to };
    assert_eq!(batch(&[link(0, 3)], null_mut()), Code::NoSuchJob as i32);
    assert_eq!(batch(&[link(0, 1), link(1, 0)], null_mut()), Code::Cycle as i32);
    assert_eq!(drops.load(SeqCst), 0);
    let mut handles = [null_mut(); 3];
    assert_eq!(batch(&[link(2, 1), link(1, 0)], handles.as_mut_ptr()), 0);
    assert_eq!(handles.map(ended), [3; 3]);
    stop(pool);
    assert_eq!(drops.load(SeqCst), 3);
}

#[test]
fn a_smaller_structure_means_zeros_and_unknown_bytes_must_be_zero() {
    let drops = AtomicU32::new(0);
    let pool = pool(&options());
    // A program that was built when a posting ended behind its data; what lies behind is garbage.
    let older = Posting {
        size: offset_of!(Posting, start_ns),
        start_ns: u64::MAX,
        criticality: 77,
        ..counted(&drops)
    };
    assert_eq!(ended(post(pool, &older, &[]).expect("taken")), 3);
    #[repr(C)]
    struct Newer {
        known: Posting,
        more: u64,
    }
    for (more, taken) in [(0, Code::Ok), (1, Code::Invalid)] {
        let newer = Newer { known: Posting { size: size_of::<Newer>(), ..counted(&drops) }, more };
        // SAFETY: the pointer is that of the whole structure.
        let code = unsafe { schedlab_post(pool, (&raw const newer).cast(), null(), 0, null_mut()) };
        assert_eq!(code, taken as i32);
    }
    // SAFETY: the pool runs.
    assert_eq!(unsafe { schedlab_pool_wait(pool, u64::MAX) }, 0);
    // Of counts, as many are filled as the caller has room for.
    let mut few = CountsC { size: 16, done: 99, ..CountsC::default() };
    // SAFETY: the pool runs.
    assert_eq!(unsafe { schedlab_pool_counts(pool, &raw mut few) }, 0);
    assert_eq!((few.posted, few.done), (2, 99));
    stop(pool);
    assert_eq!(drops.load(SeqCst), 2);
}

extern "C" fn tells_its_policy(data: *mut c_void, _: *mut ContextC) -> i32 {
    // The fields of proc(5) from the end of the name on: the 40th is the priority, the 41st the policy.
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = |number: usize| fields.split_whitespace().nth(number - 3)?.parse::<u32>().ok();
    let told = field(40).zip(field(41)).map_or(0, |(priority, policy)| 100 * policy + priority);
    // SAFETY: the test posts the address of a counter that outlives its pool.
    unsafe { &*data.cast::<AtomicU32>() }.store(told, SeqCst);
    0
}

#[test]
fn workers_have_the_priority_that_was_asked_for_or_the_pool_does_not_start() {
    let mut asked = OptionsC { fifo: 100, ..options() };
    // SAFETY: the options are a reference.
    let none = unsafe { schedlab_pool_start(&raw const asked) };
    assert!(none.is_null(), "there is no such priority");
    asked = OptionsC { reserved: 1, ..options() };
    // SAFETY: as above.
    assert!(unsafe { schedlab_pool_start(&raw const asked) }.is_null(), "the member is not known");
    asked = OptionsC { fifo: 3, workers: 2, ..options() };
    // SAFETY: as above.
    let pool = unsafe { schedlab_pool_start(&raw const asked) };
    if pool.is_null() {
        let _ =
            writeln!(std::io::stderr(), "MISSING: the right to SCHED_FIFO: not seen in a worker");
        return;
    }
    let told = AtomicU32::new(0);
    let posting = Posting { run: Some(tells_its_policy), drop: None, ..counted(&told) };
    assert_eq!(ended(post(pool, &posting, &[]).expect("room")), 3);
    assert_eq!(told.load(SeqCst), 103, "SCHED_FIFO is policy 1");
    stop(pool);
}

#[test]
fn a_cpu_that_is_not_there_starts_no_pool() {
    let cpus = [1_000_000];
    let asked = OptionsC { cpus: cpus.as_ptr(), cpu_count: 1, ..options() };
    // SAFETY: the options are a reference, and the CPUs outlive the call.
    assert!(unsafe { schedlab_pool_start(&raw const asked) }.is_null());
}
