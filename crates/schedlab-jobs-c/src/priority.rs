//! Real-time priorities of workers, which the standard library cannot set.

/// Gives the calling thread the policy `SCHED_FIFO` with this priority; false if the system refuses that.
#[cfg(target_os = "linux")]
pub(crate) fn set_fifo(priority: u32) -> bool {
    const SCHED_FIFO: i32 = 1;
    unsafe extern "C" {
        fn pthread_self() -> usize;
        fn pthread_setschedparam(thread: usize, policy: i32, parameter: *const i32) -> i32;
    }
    // `struct sched_param` begins with the priority; musl's has more members, which are reserved.
    let mut parameter = [0; 16];
    parameter[0] = i32::try_from(priority).unwrap_or(i32::MAX);
    // SAFETY: it has no conditions; `pthread_t` is as large as a pointer on Linux.
    let thread = unsafe { pthread_self() };
    // SAFETY: the thread runs, and the parameter outlives the call.
    unsafe { pthread_setschedparam(thread, SCHED_FIFO, parameter.as_ptr()) == 0 }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_fifo(_: u32) -> bool {
    false
}
