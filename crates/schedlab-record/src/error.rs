//! Why a recording could not be made, and which right would help.

use schedlab_sys::capability::{self, Need};
use std::io;
use std::path::{Path, PathBuf};

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("cannot record scheduler events: {missing}; {remedy}")]
    Right {
        missing: String,
        /// How to get it.
        remedy: String,
    },
    /// An event was asked for that this kernel has not.
    #[error("unknown event '{name}' on this kernel: {why}")]
    NoEvent {
        /// As it was asked for.
        name: String,
        /// What is there instead.
        why: String,
    },
    /// A filter that the kernel does not take.
    #[error("invalid filter '{expression}' on {event}: {why}")]
    Filter {
        event: String,
        /// What it was to pass.
        expression: String,
        /// What the kernel says, and which fields there are.
        why: String,
    },
    /// An option that cannot be had in this way of recording.
    #[error("{what}: {why}")]
    Unsupported {
        /// The option that is refused.
        what: String,
        /// Why not, and what to do.
        why: String,
    },
    /// A request whose begin or end cannot be observed.
    #[error("cannot record requests of '{asked}': {why}")]
    Request {
        /// As it was asked for.
        asked: String,
        /// Why not, and what to do.
        why: String,
    },
    /// The spool directory is not what it should be.
    #[error("{}: {what}", path.display())]
    Spool {
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The trace cannot be written where it shall be.
    #[error(transparent)]
    Target(#[from] schedlab_trace::TraceError),
    /// A system call failed.
    #[error("{doing}: {error}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the system said.
        error: io::Error,
    },
}

impl RecordError {
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| Self::Io { doing, error }
    }

    /// Two ways were tried, and each lacks a right: one error, with the remedy of the second.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Right { missing: first, .. }, Self::Right { missing, remedy }) => {
                Self::Right { missing: format!("{first}, and {missing}"), remedy }
            }
            (_, other) => other,
        }
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io(path.display().to_string())
    }
}

/// The number of the capability `CAP_PERFMON`.
const CAP_PERFMON: u32 = 38;
/// The number of the capability `CAP_SYS_ADMIN`.
const CAP_SYS_ADMIN: u32 = 21;

/// How to get both rights that recording through perf events takes: to open the events, and to read their numbers and
/// formats in tracefs, whose files have mode 0440 (Linux 6.18; `mount -o remount,gid=` changes their group). The capability
/// is for a group alone: who may start the file may observe all tasks. SECURITY.md describes this.
pub(crate) const RIGHTS: &str = "run as root, or let a group record: `groupadd tracing; chgrp tracing FILE; \
                                 chmod 0750 FILE; setcap cap_perfmon+ep FILE; \
                                 mount -o remount,gid=tracing,mode=0750 /sys/kernel/tracing`, \
                                 where FILE is this program";

/// What is known about the right to observe all tasks of a CPU.
pub(crate) fn perf_right(error: &io::Error) -> RecordError {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.map_or_else(|_| "unknown".into(), |text| text.trim().to_owned());
    let capable = || [CAP_PERFMON, CAP_SYS_ADMIN].into_iter().any(capability::has);
    let capable = capability::with(Need::PerfEvents, capable);
    let missing = match error.raw_os_error() {
        Some(libc_errno::ENOSYS) => "this kernel has no perf events".to_owned(),
        _ if capable => format!("perf_event_open failed: {error} (perhaps a container's filter)"),
        _ => format!("kernel.perf_event_paranoid is {paranoid} and CAP_PERFMON is missing"),
    };
    RecordError::Right {
        missing,
        remedy: format!("{RIGHTS}; `sysctl kernel.perf_event_paranoid=-1` replaces CAP_PERFMON"),
    }
}

/// What is known about the right to read tracefs.
pub(crate) fn tracefs_right(error: &io::Error) -> RecordError {
    RecordError::Right {
        missing: format!(
            "cannot read or mount tracefs, which holds numbers and formats of events: {error}"
        ),
        remedy: RIGHTS.into(),
    }
}

/// What is known about the right to make an ftrace instance.
pub(crate) fn tracefs_write_right(error: &io::Error) -> RecordError {
    RecordError::Right {
        missing: format!("cannot write to tracefs: {error}"),
        remedy: "run as root; if tracefs is read-only: `mount -o remount,rw /sys/kernel/tracing`"
            .into(),
    }
}

/// Error numbers that matter here; the same on all architectures that Linux gives perf events.
pub(crate) mod libc_errno {
    pub(crate) const EPERM: i32 = 1;
    pub(crate) const EACCES: i32 = 13;
    pub(crate) const ENODEV: i32 = 19;
    pub(crate) const EMFILE: i32 = 24;
    pub(crate) const ENOSYS: i32 = 38;
}
