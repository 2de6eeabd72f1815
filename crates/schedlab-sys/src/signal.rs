//! Ctrl-C and `kill`: a flag that can be asked and a descriptor that can be polled.
//!
//! The handler only stores a number and writes to an eventfd; everything else happens where the
//! program looks. The first signal asks for a clean end; three of them end the process at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

static LAST: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
static WAKE_FD: AtomicI32 = AtomicI32::new(-1);
static CAUGHT: OnceLock<OwnedFd> = OnceLock::new();

/// After this many signals the process ends without cleaning up (the guard still does).
const PATIENCE: u32 = 3;

/// The caught signals: SIGINT, SIGTERM and SIGHUP.
#[derive(Clone, Copy, Debug)]
pub struct Signals(());

/// Catches SIGINT, SIGTERM and SIGHUP from now on. Calling it again changes nothing.
///
/// # Errors
/// When the kernel gives no eventfd.
pub fn catch() -> io::Result<Signals> {
    if CAUGHT.get().is_none() {
        use rustix::event::{EventfdFlags, eventfd};
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        if CAUGHT.set(fd).is_ok() {
            let fd = CAUGHT.get().expect("just set").as_raw_fd();
            WAKE_FD.store(fd, Ordering::Release);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                install(signal, handler as extern "C" fn(libc::c_int) as libc::sighandler_t)?;
            }
        }
    }
    Ok(Signals(()))
}

/// Ignores a signal; the disposition is inherited by what is executed.
///
/// # Errors
/// When the signal can't be ignored.
pub fn ignore(signal: i32) -> io::Result<()> {
    install(signal, libc::SIG_IGN)
}

fn install(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid value: no flags, empty mask.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    // System calls that were interrupted go on; who must wake polls the descriptor.
    new.sa_flags = libc::SA_RESTART;
    // SAFETY: `new` is a valid action, and our handler only does what a handler may: it stores to
    // atomics, writes to a descriptor, exits.
    let result = unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn handler(signal: libc::c_int) {
    LAST.store(signal, Ordering::Release);
    let count = COUNT.fetch_add(1, Ordering::AcqRel) + 1;
    if count >= PATIENCE {
        // SAFETY: _exit is allowed in a signal handler and does not return.
        unsafe { libc::_exit(128 + signal) };
    }
    let one = 1u64;
    let fd = WAKE_FD.load(Ordering::Acquire);
    // SAFETY: write is allowed in a signal handler; the buffer is eight bytes long. The descriptor
    // is never closed.
    let _ = unsafe { libc::write(fd, (&raw const one).cast(), 8) };
}

impl Signals {
    /// The last signal that came, if any.
    #[must_use]
    pub fn caught(self) -> Option<i32> {
        match LAST.load(Ordering::Acquire) {
            0 => None,
            signal => Some(signal),
        }
    }

    /// Readable once a signal came, and from then on.
    #[must_use]
    pub fn fd(self) -> BorrowedFd<'static> {
        CAUGHT.get().expect("a Signals exists only after catch").as_fd()
    }
}
