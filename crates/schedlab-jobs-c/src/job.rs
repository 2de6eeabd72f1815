//! Jobs, their contexts and completions.

use crate::sized;
use schedlab_pool::{Completion, Criticality, Request, current_worker};
use std::cell::Cell;
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// A job to post: `schedlab_posting` in C.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Posting {
    pub(crate) size: usize,
    pub(crate) run: Option<extern "C" fn(*mut c_void, *mut ContextC) -> i32>,
    pub(crate) drop: Option<extern "C" fn(*mut c_void)>,
    pub(crate) data: *mut c_void,
    pub(crate) start_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) latest_start_ns: u64,
    pub(crate) expected_ns: u64,
    pub(crate) stream: u16,
    pub(crate) criticality: u16,
    pub(crate) deferred: u32,
}

// SAFETY: it begins with its size, a null function is `None`, and numbers and pointers may be anything.
unsafe impl sized::Sized for Posting {}

impl Posting {
    /// Whether the job asks for nothing.
    pub(crate) fn is_plain(&self) -> bool {
        let times = self.start_ns | self.deadline_ns | self.latest_start_ns;
        times == 0 && self.stream == 0 && self.criticality == 0 && self.deferred == 0
    }

    /// What to call, if that is said.
    pub(crate) fn job(&self) -> Option<Job> {
        Some(Job { run: self.run?, drop: self.drop, data: self.data })
    }

    /// The job and what it asks for, if the values mean something.
    pub(crate) fn split(self, origin: Instant) -> Option<(Job, Request<'static>)> {
        let criticality = match self.criticality {
            0 => Criticality::Normal,
            1 => Criticality::Optional,
            2 => Criticality::Compulsory,
            _ => return None,
        };
        let job = self.job()?;
        let at = |ns: u64| origin.checked_add(Duration::from_nanos(ns));
        let expected = Duration::from_nanos(self.expected_ns);
        let mut request =
            Request::new().criticality(criticality).stream(self.stream).expected(expected);
        // A time that the clock never shows is none.
        if let Some(start) = at(self.start_ns).filter(|_| self.start_ns > 0) {
            request = request.start(start);
        }
        if let Some(deadline) = at(self.deadline_ns).filter(|_| self.deadline_ns > 0) {
            request = request.deadline(deadline);
        }
        if let Some(latest) = at(self.latest_start_ns).filter(|_| self.latest_start_ns > 0) {
            request = request.latest_start(latest);
        }
        Some((job, request))
    }
}

/// A job of a C program: what to call, with what.
pub(crate) struct Job {
    run: extern "C" fn(*mut c_void, *mut ContextC) -> i32,
    drop: Option<extern "C" fn(*mut c_void)>,
    data: *mut c_void,
}

// SAFETY: the header says that jobs run on workers' threads, so data may go there.
unsafe impl Send for Job {}

thread_local! {
    /// Whether jobs that are dropped on this thread leave their data to the caller, since they were not taken.
    static GIVING_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Drops what holds jobs that were not taken: their data stays the caller's.
pub(crate) fn give_back<T>(refused: T) {
    GIVING_BACK.set(true);
    drop(refused);
    GIVING_BACK.set(false);
}

impl Job {
    /// Runs the job; `None` if it failed.
    pub(crate) fn call(self, completion: Option<Completion<'static, ()>>) -> Option<()> {
        let mut context = ContextC { completion };
        let returned = (self.run)(self.data, &raw mut context);
        (returned == 0).then_some(())
    }

    /// Runs a job that ends when its completion is called. If its function fails, the job ends at once, even if it gave
    /// the completion to somebody else.
    pub(crate) fn call_deferred(self, completion: Completion<'static, ()>) {
        let _ = self.call(Some(completion));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(drop) = self.drop.filter(|_| !GIVING_BACK.get()) {
            drop(self.data);
        }
    }
}

/// What a running job is given: `schedlab_context` in C.
pub struct ContextC {
    completion: Option<Completion<'static, ()>>,
}

/// The end of a job that goes on elsewhere: `schedlab_completion` in C.
pub struct CompletionC(Completion<'static, ()>);

/// The number of the worker that runs the job, from 0; the largest number for null.
///
/// # Safety
/// `context` is what a job that still runs was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_context_worker(context: *const ContextC) -> u32 {
    let worker = current_worker().filter(|_| !context.is_null());
    worker.map_or(u32::MAX, |worker| worker as u32)
}

/// Takes the completion by which a deferred job ends; null for other jobs and the second time.
///
/// # Safety
/// `context` is what a job that still runs was given, and nothing else uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_context_completion(context: *mut ContextC) -> *mut CompletionC {
    // SAFETY: by the contract of this function.
    let context = unsafe { context.as_mut() };
    let completion = context.and_then(|context| context.completion.take());
    completion.map_or(std::ptr::null_mut(), |own| Box::into_raw(Box::new(CompletionC(own))))
}

/// Ends a job as done and frees its completion; nothing for null.
///
/// # Safety
/// `completion` came from [`schedlab_context_completion`] and no other call ended it before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_complete(completion: *mut CompletionC) {
    if !completion.is_null() {
        // SAFETY: by the contract of this function.
        unsafe { Box::from_raw(completion) }.0.complete(());
    }
}

/// Ends a job as failed and frees its completion; nothing for null. Jobs that depend on the job are dropped.
///
/// # Safety
/// As [`schedlab_complete`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_fail(completion: *mut CompletionC) {
    if !completion.is_null() {
        // SAFETY: by the contract of this function.
        drop(unsafe { Box::from_raw(completion) });
    }
}
