//! Jobs, their contexts and completions.

use schedlab_jobs::policy::{self, Significance, StreamId};
use schedlab_jobs::pool::{Completion, Context, Flow, Runner};
use std::ffi::c_void;

/// A job to post: `schedlab_posting` in C.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Posting {
    pub(crate) run: Option<extern "C" fn(*mut c_void, *mut ContextC<'_, '_>) -> i32>,
    pub(crate) drop: Option<extern "C" fn(*mut c_void)>,
    pub(crate) data: *mut c_void,
    pub(crate) start_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) expected_ns: u64,
    pub(crate) stream: u16,
    pub(crate) significance: u16,
}

impl Posting {
    /// The job, if the values mean something.
    pub(crate) fn to_posting(self) -> Option<policy::Posting<Job>> {
        let significance = match self.significance {
            0 => Significance::Optional,
            1 => Significance::Normal,
            2 => Significance::Compulsory,
            _ => return None,
        };
        let job = Job { run: self.run?, drop: self.drop, data: self.data };
        Some(policy::Posting {
            expected_ns: self.expected_ns,
            stream: StreamId(self.stream),
            significance,
            ..policy::Posting::new(job, self.start_ns).deadline(self.deadline_ns)
        })
    }
}

/// A job of a C program: what to call, with what.
pub(crate) struct Job {
    run: extern "C" fn(*mut c_void, *mut ContextC<'_, '_>) -> i32,
    drop: Option<extern "C" fn(*mut c_void)>,
    data: *mut c_void,
}

// SAFETY: the header says that jobs run on workers' threads, so data may go there.
unsafe impl Send for Job {}

impl Job {
    /// Leaves the data to the caller: the job was not taken.
    pub(crate) fn give_back(mut self) {
        self.drop = None;
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(drop) = self.drop {
            drop(self.data);
        }
    }
}

/// Runs jobs of C programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jobs;

impl Runner for Jobs {
    type Job = Job;

    fn run(&self, job: Job, context: &mut Context<'_, Self>) -> Flow {
        let mut context = ContextC(context);
        match (job.run)(job.data, &raw mut context) {
            0 => Flow::Done,
            2 => Flow::Pending,
            _ => Flow::Failed,
        }
    }
}

/// What a running job is given: `schedlab_context` in C.
pub struct ContextC<'a, 'b>(&'a mut Context<'b, Jobs>);

/// The end of a job that goes on elsewhere: `schedlab_completion` in C.
pub struct CompletionC(Completion<Jobs>);

/// The number of the worker that runs the job, from 0; the largest number for null.
///
/// # Safety
/// `context` is what a job that still runs was given.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_context_worker(context: *const ContextC<'_, '_>) -> u32 {
    // SAFETY: by the contract of this function.
    let context = unsafe { context.as_ref() };
    context.map_or(u32::MAX, |context| context.0.worker() as u32)
}

/// Makes the completion by which the job ends after its function returned; null for null.
///
/// # Safety
/// `context` is what a job that still runs was given, and nothing else uses it meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_context_completion(
    context: *mut ContextC<'_, '_>,
) -> *mut CompletionC {
    // SAFETY: by the contract of this function.
    let Some(context) = (unsafe { context.as_mut() }) else { return std::ptr::null_mut() };
    Box::into_raw(Box::new(CompletionC(context.0.completion())))
}

/// Ends a job as done and frees its completion; nothing for null.
///
/// # Safety
/// `completion` came from [`schedlab_context_completion`] and no other call ended it before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedlab_complete(completion: *mut CompletionC) {
    if !completion.is_null() {
        // SAFETY: by the contract of this function.
        unsafe { Box::from_raw(completion) }.0.complete();
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
        unsafe { Box::from_raw(completion) }.0.fail();
    }
}
