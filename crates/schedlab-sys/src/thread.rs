//! Threads as a C program starts them.
//!
//! Each thread of std maps a signal stack of its own and unmaps it as it ends. Ends of many threads
//! at once then queue for the lock of the address space. With threads of std, hackbench with 160
//! threads took 2 % longer than the original in runs of 0.2 s. The share of this queue in that was
//! not measured.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// A started thread. If it is dropped without [`join`](Self::join), the thread goes on.
#[derive(Debug)]
pub struct Thread {
    /// `None` once it is joined.
    native: Option<libc::pthread_t>,
    ended: Arc<AtomicBool>,
}

// SAFETY: `pthread_t` names a thread, and any thread may join or detach it. With musl it is a pointer, which Rust does
// not send by itself.
unsafe impl Send for Thread {}

type Life = Box<dyn FnOnce() + Send>;

impl Thread {
    /// Starts a thread with a stack of `stack_bytes` (at least what the C library needs) and a guard
    /// page. A panic ends the thread only. A stack that overflows ends the process by SIGSEGV.
    ///
    /// # Errors
    /// What `pthread_create` refuses: `EAGAIN` at a limit of tasks, `EINVAL` for too small a stack.
    pub fn spawn(stack_bytes: usize, life: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let tells = ended.clone();
        let life: Life = Box::new(move || {
            // The hook has printed the panic.
            let _ = std::panic::catch_unwind(AssertUnwindSafe(life));
            tells.store(true, Release);
        });
        let life = Box::into_raw(Box::new(life));
        let mut native = std::mem::MaybeUninit::uninit();
        // SAFETY: an all-zero value of this plain type is valid, and is initialised next.
        let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
        let attributes = &raw mut attributes;
        // SAFETY: the C library writes plain attributes there.
        unsafe { libc::pthread_attr_init(attributes) };
        // SAFETY: the attributes are initialised.
        let mut error = unsafe { libc::pthread_attr_setstacksize(attributes, stack_bytes) };
        if error == 0 {
            let native = native.as_mut_ptr();
            // SAFETY: the attributes are initialised. The new thread owns `life`, if there is one.
            error = unsafe { libc::pthread_create(native, attributes, begin, life.cast()) };
        }
        // SAFETY: the attributes are initialised, and not used after.
        unsafe { libc::pthread_attr_destroy(attributes) };
        if error != 0 {
            // SAFETY: there is no thread, so nobody else has it.
            drop(unsafe { Box::from_raw(life) });
            return Err(io::Error::from_raw_os_error(error));
        }
        // SAFETY: pthread_create wrote it.
        Ok(Self { native: Some(unsafe { native.assume_init() }), ended })
    }

    /// Whether the function of the thread has returned. The thread is gone soon after.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.load(Acquire)
    }

    /// Waits until the thread is gone.
    pub fn join(mut self) {
        if let Some(native) = self.native.take() {
            // SAFETY: the thread is neither joined nor detached, and `self` forgets it.
            unsafe { libc::pthread_join(native, std::ptr::null_mut()) };
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if let Some(native) = self.native.take() {
            // SAFETY: the thread is neither joined nor detached, and `self` forgets it.
            unsafe { libc::pthread_detach(native) };
        }
    }
}

extern "C" fn begin(life: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `spawn` gave away this box to this thread.
    let life = unsafe { Box::from_raw(life.cast::<Life>()) };
    life();
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn threads_run_and_are_gone_when_they_are_joined() {
        let sum = Arc::new(AtomicU64::new(0));
        let start = |n: u64| {
            let sum = sum.clone();
            Thread::spawn(256 << 10, move || {
                sum.fetch_add(n, Relaxed);
            })
            .unwrap()
        };
        (1..=20).map(start).collect::<Vec<_>>().into_iter().for_each(Thread::join);
        assert_eq!(sum.load(Relaxed), 210);
        assert_eq!(Arc::strong_count(&sum), 1, "what a thread holds is freed");
    }

    #[test]
    fn a_panic_ends_its_thread_only() {
        let thread = Thread::spawn(256 << 10, || panic!("of a test")).unwrap();
        while !thread.has_ended() {
            std::hint::spin_loop();
        }
        thread.join();
    }

    #[test]
    fn a_stack_that_is_too_small_is_refused() {
        let error = Thread::spawn(1, || {}).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }
}
