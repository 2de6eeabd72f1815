//! Handles and ids of jobs.

use crate::{Code, patience};
use schedlab_pool::{Handle, JobId, JobState};

/// A reference to a job: `schedlab_handle` in C.
pub struct HandleC(pub(crate) Handle<'static, ()>);

/// The name of a job: `schedlab_job` in C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct JobC {
    pub(crate) place: u64,
    pub(crate) serial: u64,
}

impl JobC {
    pub(crate) fn id(self) -> JobId {
        JobId { place: self.place, serial: self.serial }
    }
}

/// The handle behind a pointer.
///
/// # Safety
/// The pointer is null, or came from a post and was not released.
pub(crate) unsafe fn handle<'a>(handle: *const HandleC) -> Option<&'a Handle<'static, ()>> {
    // SAFETY: by the contract of this function.
    unsafe { handle.as_ref() }.map(|handle| &handle.0)
}

/// Waits until the job has ended.
///
/// # Safety
/// `waited` is null, or came from a post and was not released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_handle_wait(waited: *const HandleC, patience_ns: u64) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(handle) = (unsafe { handle(waited) }) else { return Code::Invalid as i32 };
    let ended = handle.wait_ended(patience(patience_ns));
    if ended { Code::Ok as i32 } else { Code::Timeout as i32 }
}

/// Where the job is, and how it ended.
///
/// # Safety
/// As [`schedlab_handle_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_handle_state(asked: *const HandleC) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(handle) = (unsafe { handle(asked) }) else { return -1 };
    state(handle.state())
}

pub(crate) fn state(state: JobState) -> i32 {
    match state {
        JobState::Waiting => 0,
        JobState::Running => 1,
        JobState::Done => 3,
        // A job of C cannot panic; if one of a callback's Rust code does, it failed.
        JobState::Failed | JobState::Panicked => 4,
        JobState::Cancelled => 5,
        JobState::DependencyFailed => 6,
        JobState::TooLate => 7,
        JobState::Shed => 8,
        _ => 2,
    }
}

/// Drops a job that has not started: 1, or 0 if it has.
///
/// # Safety
/// As [`schedlab_handle_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_handle_cancel(cancelled: *const HandleC) -> i32 {
    // SAFETY: by the contract of this function.
    i32::from(unsafe { handle(cancelled) }.is_some_and(Handle::cancel))
}

/// The id of the job; zeros for null.
///
/// # Safety
/// As [`schedlab_handle_wait`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_handle_job(named: *const HandleC) -> JobC {
    // SAFETY: by the contract of this function.
    let id = unsafe { handle(named) }.map(Handle::id);
    id.map_or_else(JobC::default, |id| JobC { place: id.place, serial: id.serial })
}

/// Releases a handle; the job goes on. Nothing for null.
///
/// # Safety
/// As [`schedlab_handle_wait`], and nothing uses the handle any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_handle_release(released: *mut HandleC) {
    if !released.is_null() {
        // SAFETY: by the contract of this function.
        drop(unsafe { Box::from_raw(released) });
    }
}
