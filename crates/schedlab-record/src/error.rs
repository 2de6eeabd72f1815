//! Why a recording could not be made, and which right would help.

use schedlab_sys::capability::{self, Need};
use schedlab_sys::process;
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
            (Self::Right { missing: first, .. }, Self::Right { missing, remedy })
                if first != missing =>
            {
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
    let remedy = match error.raw_os_error() {
        Some(libc_errno::ENOSYS) => "boot one with CONFIG_PERF_EVENTS".to_owned(),
        // Root that is refused is root of a container.
        _ if process::is_root() => CONTAINER.to_owned(),
        _ => format!("{RIGHTS}; `sysctl kernel.perf_event_paranoid=-1` replaces CAP_PERFMON"),
    };
    RecordError::Right { missing, remedy }
}

/// What is known about the right to read tracefs.
pub(crate) fn tracefs_right(error: &io::Error) -> RecordError {
    RecordError::Right {
        missing: format!(
            "cannot read or mount tracefs, which holds numbers and formats of events: {error}"
        ),
        remedy: if in_container() && !is_mounted() { CONTAINER } else { RIGHTS }.into(),
    }
}

/// What a container needs to see the machine's events. An ftrace instance takes a writable tracefs; AppArmor's profile
/// of Docker denies writes below /sys.
const CONTAINER: &str = "a container needs the machine's tracefs, PIDs and control groups. Docker and Podman, as root: \
                         `--pid=host --cgroupns=host -v /sys/kernel/tracing:/sys/kernel/tracing \
                         -v /sys/fs/cgroup:/sys/fs/cgroup:ro --cap-add=PERFMON --cap-add=SYSLOG \
                         --cap-add=SYS_NICE --security-opt apparmor=unconfined \
                         --security-opt seccomp=unconfined`. Kubernetes: `hostPID: true`, hostPath volumes for these two \
                         folders, and the securityContext of examples/watch/daemonset.yaml";

/// Whether this process is in a container, as Docker, Podman and Kubernetes mark theirs.
fn in_container() -> bool {
    ["/.dockerenv", "/run/.containerenv"].iter().any(|mark| Path::new(mark).exists())
        || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// Whether a tracefs is mounted where we see it.
fn is_mounted() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("tracefs"))
}

/// What is known about the right to make an ftrace instance.
pub(crate) fn tracefs_write_right(error: &io::Error) -> RecordError {
    RecordError::Right {
        missing: format!("cannot write to tracefs: {error}"),
        remedy: match in_container() && process::is_root() {
            true => CONTAINER,
            false => {
                "run as root; if tracefs is read-only: `mount -o remount,rw /sys/kernel/tracing`"
            }
        }
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
