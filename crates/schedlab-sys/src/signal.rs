//! Ctrl-C and `kill`: a flag that can be asked and a descriptor that can be polled.
//!
//! The handler only stores a number and writes to an eventfd; everything else happens where the
//! program looks. The first signal asks for a clean end; three of them end the process at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

static LAST: AtomicI32 = AtomicI32::new(0);
static COUNT: AtomicU32 = AtomicU32::new(0);
static WAKE_FD: AtomicI32 = AtomicI32::new(-1);
static CAUGHT: OnceLock<OwnedFd> = OnceLock::new();
/// Signals that came and were not taken, a bit for each: from the terminal, and from a process.
static TYPED: AtomicU32 = AtomicU32::new(0);
static SENT: AtomicU32 = AtomicU32::new(0);
/// Whether SIGINT, SIGQUIT and SIGTSTP are a child's matter.
static RELAYS: AtomicBool = AtomicBool::new(false);

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
            [libc::SIGINT, libc::SIGTERM, libc::SIGHUP].into_iter().try_for_each(handle)?;
        }
    }
    Ok(Signals(()))
}

/// The last signal that was caught, if any.
#[must_use]
pub fn caught() -> Option<i32> {
    match LAST.load(Ordering::Acquire) {
        0 => None,
        signal => Some(signal),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSignal {
    pub signal: i32,
    /// Whether the terminal sent it, so that children in the foreground got it too; otherwise a
    /// process sent it.
    pub typed: bool,
}

/// Ignores a signal; the disposition is inherited by what is executed.
///
/// # Errors
/// When the signal cannot be ignored.
pub fn ignore(signal: i32) -> io::Result<()> {
    // SAFETY: it is an action.
    unsafe { install(signal, libc::SIG_IGN) }
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

fn handle(signal: i32) -> io::Result<()> {
    // SAFETY: the handler only does what one may do: it stores to atomics, writes to a descriptor, exits.
    unsafe { install(signal, handler as Handler as libc::sighandler_t) }
}

/// # Safety
/// `action` is `SIG_IGN`, `SIG_DFL` or a [`Handler`] that does only what a handler may do (signal-safety(7)).
unsafe fn install(signal: i32, action: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: an all-zero sigaction is a valid value: no flags, empty mask.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = action;
    // System calls that were interrupted go on; who must wake polls the descriptor.
    new.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
    // SAFETY: `new` is a valid action, as the caller promises.
    let result = unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn handler(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    _context: *mut libc::c_void,
) {
    LAST.store(signal, Ordering::Release);
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let typed = !info.is_null() && unsafe { (*info).si_code } > 0;
    let came = if typed { &TYPED } else { &SENT };
    came.fetch_or(1 << signal, Ordering::AcqRel);
    let ends = matches!(signal, libc::SIGTERM | libc::SIGHUP);
    let counts = ends || !RELAYS.load(Ordering::Acquire);
    if counts && COUNT.fetch_add(1, Ordering::AcqRel) + 1 >= PATIENCE {
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
        caught()
    }

    /// Readable once a signal came, and from then on.
    #[must_use]
    pub fn fd(self) -> BorrowedFd<'static> {
        CAUGHT.get().expect("a Signals exists only after catch").as_fd()
    }

    /// From now on SIGINT is a child's matter and never ends this process, however often it comes. SIGQUIT and
    /// SIGTSTP are caught too.
    ///
    /// # Errors
    /// When the kernel refuses to catch them.
    pub fn relay(self) -> io::Result<()> {
        RELAYS.store(true, Ordering::Release);
        [libc::SIGQUIT, libc::SIGTSTP].into_iter().try_for_each(handle)
    }

    /// Takes the signals that came since the last call, each once: afterwards the descriptor is readable only when
    /// another comes. What was typed stands first.
    #[must_use]
    pub fn take(self) -> Vec<ReceivedSignal> {
        // Before the bits: a signal in between is taken now, and wakes once more for nothing.
        let _ = rustix::io::read(self.fd(), &mut [0u8; 8]);
        let of = |came: &AtomicU32, typed| {
            let bits = came.swap(0, Ordering::AcqRel);
            (1..32)
                .filter(move |signal| bits >> signal & 1 == 1)
                .map(move |signal| ReceivedSignal { signal, typed })
        };
        of(&TYPED, true).chain(of(&SENT, false)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_taken_once_and_one_of_a_process_is_told_apart() {
        let signals = catch().unwrap();
        let readable = || crate::process::poll(&[signals.fd()], Some(schedlab_model::Nanos(0)));
        crate::process::kill(schedlab_model::Pid(std::process::id().cast_signed()), libc::SIGHUP)
            .unwrap();
        let began = std::time::Instant::now();
        while readable().unwrap() == [false] {
            assert!(began.elapsed().as_secs() < 60, "it never came");
        }
        assert_eq!(signals.take(), [ReceivedSignal { signal: libc::SIGHUP, typed: false }]);
        assert_eq!((readable().unwrap(), signals.take()), (vec![false], Vec::new()));
        assert_eq!(signals.caught(), Some(libc::SIGHUP));
    }
}
