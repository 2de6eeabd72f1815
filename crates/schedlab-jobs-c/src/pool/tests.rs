//! Who owns `data`: the pool from `SCHEDLAB_OK` on, the caller otherwise.

use super::*;
use crate::job::ContextC;
use std::ffi::c_void;
use std::ptr::{from_ref, null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const PATIENCE_NS: u64 = 60_000_000_000;

extern "C" fn done(_: *mut c_void, _: *mut ContextC<'_, '_>) -> i32 {
    0
}

extern "C" fn count(data: *mut c_void) {
    // SAFETY: each test posts the address of a counter that outlives its pool.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
}

/// A job that counts how often its data is dropped.
fn counted(drops: &AtomicU32) -> Posting {
    Posting {
        run: Some(done),
        drop: Some(count),
        data: from_ref(drops).cast_mut().cast(),
        start_ns: 0,
        deadline_ns: u64::MAX,
        expected_ns: 0,
        stream: 0,
        significance: 1,
    }
}

fn small(backlog_max: usize) -> Pool<Jobs> {
    let policy = Policy { backlog_max, ..Policy::new(1) };
    Pool::start(Jobs, Options { policy, ..Options::new(1) }, Clock::start()).expect("a thread")
}

#[test]
fn what_is_refused_stays_the_callers() {
    let drops = AtomicU32::new(0);
    let options = OptionsC { workers: 1, reserve: 0, order: 0, unbound: 1 };
    // SAFETY: the options are a local variable.
    let pool = unsafe { schedlab_pool_start(&raw const options) };
    let good = counted(&drops);
    let no_run = Posting { run: None, ..good };
    let no_significance = Posting { significance: 3, ..good };
    let some = [1u64];
    let none = [1u64, 0];
    let refused = [
        (null(), from_ref(&good), null(), 0),
        (pool.cast_const(), null(), null(), 0),
        (pool.cast_const(), from_ref(&no_run), null(), 0),
        (pool.cast_const(), from_ref(&no_significance), null(), 0),
        (pool.cast_const(), from_ref(&no_significance), some.as_ptr(), 1),
        (pool.cast_const(), from_ref(&good), null(), 1),
        // No job has the id 0.
        (pool.cast_const(), from_ref(&good), none.as_ptr(), 2),
    ];
    for (number, (to, posting, after, count)) in refused.into_iter().enumerate() {
        // SAFETY: each pointer is null, or points to what the function asks for.
        let code = unsafe { schedlab_post(to, posting, after, count, null_mut()) };
        assert_eq!((code, drops.load(SeqCst)), (Code::Invalid as i32, 0), "{number}");
    }
    // SAFETY: the pool came from `schedlab_pool_start`, and nothing uses it any more.
    assert_eq!(unsafe { schedlab_pool_stop(pool, PATIENCE_NS, null_mut()) }, Code::Ok as i32);
    assert_eq!(drops.load(SeqCst), 0);
}

#[test]
fn what_finds_no_room_or_a_closed_pool_stays_the_callers() {
    let far = AtomicU32::new(0);
    let drops = AtomicU32::new(0);
    let pool = small(1);
    let handle = pool.handle().clone();
    let in_an_hour = Posting { start_ns: handle.now() + 3_600_000_000_000, ..counted(&far) };
    let first = post(&handle, &in_an_hour, &[]).expect("the first has room").to_bits();
    let refused = || {
        let alone = post(&handle, &counted(&drops), &[]);
        (alone.err(), post(&handle, &counted(&drops), &[first]).err())
    };
    assert_eq!(refused(), (Some(Code::Full), Some(Code::Full)));
    pool.stop(Duration::from_nanos(PATIENCE_NS));
    assert_eq!(refused(), (Some(Code::Closed), Some(Code::Closed)));
    drop(handle);
    // The one that the pool took, it dropped; the others it never had.
    assert_eq!((far.load(SeqCst), drops.load(SeqCst)), (1, 0));
}

#[test]
fn what_is_taken_is_dropped_once_whatever_becomes_of_it() {
    let drops = AtomicU32::new(0);
    let pool = small(16);
    let handle = pool.handle().clone();
    let ran = post(&handle, &counted(&drops), &[]).expect("room");
    post(&handle, &counted(&drops), &[ran.to_bits()]).expect("room");
    let in_an_hour = handle.now() + 3_600_000_000_000;
    let later = Posting { start_ns: in_an_hour, ..counted(&drops) };
    let cancelled = post(&handle, &later, &[]).expect("room");
    // It goes with the one that it waits for.
    post(&handle, &counted(&drops), &[cancelled.to_bits()]).expect("room");
    assert!(handle.cancel(cancelled));
    assert!(handle.wait(Duration::from_nanos(PATIENCE_NS)));
    let never_ran = Posting { start_ns: in_an_hour, ..counted(&drops) };
    post(&handle, &never_ran, &[]).expect("room");
    let counts = pool.stop(Duration::from_nanos(PATIENCE_NS)).counts;
    assert_eq!((counts.done, counts.cancelled, counts.abandoned), (2, 1, 1));
    drop(handle);
    assert_eq!(drops.load(SeqCst), 5);
}
