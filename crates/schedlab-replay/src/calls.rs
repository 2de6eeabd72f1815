//! System calls that read, write, and use futexes, where they were recorded: `sys_enter_read`, `sys_exit_read` and their
//! like. What a call did is known once it ends; what tasks did within it is known before.

use schedlab_model::{OtherFormat, Pid};
use schedlab_timeline::{OtherEvent, TaskId};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallKind {
    Reads,
    Writes,
    /// It waits for files, of which it then reads one.
    Polls,
}

/// An end of an object as one task knows it: its number, and what the task does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct End {
    pub(crate) task: TaskId,
    pub(crate) number: u64,
    pub(crate) way: CallKind,
}

/// A call that read or wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) end: End,
    /// Bytes that were moved; 0: none, or the call did not end.
    pub(crate) bytes: u64,
    /// Whether it has not ended: other tasks may have moved its bytes already.
    pub(crate) is_open: bool,
    /// Whether it is a call of sockets alone.
    pub(crate) of_socket: bool,
}

/// What a tracepoint tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Enters { way: CallKind, of_socket: bool },
    Leaves,
    EntersPoll,
    LeavesPoll,
    EntersFutex,
    LeavesFutex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Futex {
    pub(crate) address: u64,
    pub(crate) wakes: bool,
    /// For threads of one process.
    pub(crate) is_private: bool,
}

/// What happens to a task by a tracepoint of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    Begins { way: CallKind, number: u64, of_socket: bool },
    Ends { result: i64 },
    Polls,
    PollEnds { ready: i64 },
    Futex(Futex),
    FutexEnds { result: i64 },
}

const READS: [&str; 2] = ["read", "readv"];
const WRITES: [&str; 2] = ["write", "writev"];
const RECEIVES: [&str; 2] = ["recvfrom", "recvmsg"];
const SENDS: [&str; 2] = ["sendto", "sendmsg"];
const POLLS: [&str; 7] =
    ["epoll_wait", "epoll_pwait", "epoll_pwait2", "poll", "ppoll", "select", "pselect6"];

/// Commands of the call (`FUTEX_WAIT` and so on), without their flags.
const WAIT: [u64; 2] = [0, 9];
const WAKE: [u64; 2] = [1, 10];
const COMMAND: u64 = 0x7f;
/// Set for threads of one process alone (`FUTEX_PRIVATE_FLAG`).
const PRIVATE: u64 = 128;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tracepoints {
    /// By the index of other tracepoints.
    kinds: Vec<Option<Kind>>,
    processes: Option<BTreeMap<Pid, Pid>>,
}

impl Tracepoints {
    pub(crate) fn of(others: &[OtherFormat], processes: Option<BTreeMap<Pid, Pid>>) -> Self {
        Self { kinds: others.iter().map(kind).collect(), processes }
    }

    pub(crate) fn kind(&self, format: u16) -> Option<Kind> {
        self.kinds.get(usize::from(format)).copied().flatten()
    }

    /// Whether the trace holds calls that move bytes.
    pub(crate) fn has_calls(&self) -> bool {
        self.kinds.iter().flatten().any(|kind| matches!(kind, Kind::Leaves))
    }

    pub(crate) fn has_any(&self) -> bool {
        self.kinds.iter().any(Option::is_some)
    }

    /// What the arguments of an event say; `None` if they lack what is needed, or it is another call.
    pub(crate) fn read(&self, event: &OtherEvent<'_>) -> Option<Edge> {
        let result = || event.number("ret").map(u64::cast_signed);
        match self.kind(event.format)? {
            Kind::Enters { way, of_socket } => {
                Some(Edge::Begins { way, number: event.number("fd")?, of_socket })
            }
            Kind::Leaves => Some(Edge::Ends { result: result()? }),
            Kind::EntersPoll => Some(Edge::Polls),
            Kind::LeavesPoll => Some(Edge::PollEnds { ready: result()? }),
            Kind::EntersFutex => {
                let op = event.number("op")?;
                let wakes = WAKE.contains(&(op & COMMAND));
                let is_private = op & PRIVATE != 0;
                let address = event.number("uaddr")?;
                let known = wakes || WAIT.contains(&(op & COMMAND));
                known.then_some(Edge::Futex(Futex { address, wakes, is_private }))
            }
            Kind::LeavesFutex => Some(Edge::FutexEnds { result: result()? }),
        }
    }

    /// The process in which an address means what it does; `None`: not known.
    pub(crate) fn process(&self, pid: Pid) -> Option<Pid> {
        self.processes.as_ref().map(|all| all.get(&pid).copied().unwrap_or(pid))
    }
}

fn kind(other: &OtherFormat) -> Option<Kind> {
    let (enters, call) = match other.name.strip_prefix("sys_enter_") {
        Some(call) => (true, call),
        None => (false, other.name.strip_prefix("sys_exit_")?),
    };
    if call == "futex" {
        return Some(if enters { Kind::EntersFutex } else { Kind::LeavesFutex });
    }
    if POLLS.contains(&call) {
        return Some(if enters { Kind::EntersPoll } else { Kind::LeavesPoll });
    }
    let of_socket = RECEIVES.contains(&call) || SENDS.contains(&call);
    let way = if READS.contains(&call) || RECEIVES.contains(&call) {
        CallKind::Reads
    } else if WRITES.contains(&call) || SENDS.contains(&call) {
        CallKind::Writes
    } else {
        return None;
    };
    Some(if enters { Kind::Enters { way, of_socket } } else { Kind::Leaves })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, Nanos};

    #[test]
    fn calls_are_known_by_their_tracepoints_and_arguments() {
        let names = ["sys_enter_read", "sys_exit_read", "sys_enter_sendto", "sys_enter_futex"];
        let more = ["sys_exit_futex", "sys_enter_openat", "sys_enter_epoll_wait", "sys_exit_poll"];
        let other = |name: &str| OtherFormat { system: "syscalls".into(), name: name.to_owned() };
        let others: Vec<OtherFormat> = names.into_iter().chain(more).map(other).collect();
        let points = Tracepoints::of(&others, None);
        let read = |format, arguments| {
            let at = Nanos(5);
            let cpu = Cpu(0);
            let by = Pid(7);
            points.read(&OtherEvent { at, cpu, by, format, arguments })
        };
        let begins = |way, number, of_socket| Some(Edge::Begins { way, number, of_socket });
        assert_eq!(read(0, "__syscall_nr=0 fd=0x4 count=9"), begins(CallKind::Reads, 4, false));
        assert_eq!(read(2, "fd=5"), begins(CallKind::Writes, 5, true));
        assert_eq!(read(1, "ret=-11"), Some(Edge::Ends { result: -11 }));
        assert_eq!(read(1, "ret=0xfffffffffffffff5"), Some(Edge::Ends { result: -11 }));
        let futex =
            |wakes, is_private| Some(Edge::Futex(Futex { address: 0x7f00, wakes, is_private }));
        assert_eq!(read(3, "uaddr=0x7f00 op=129 val=1"), futex(true, true));
        assert_eq!(read(3, "uaddr=0x7f00 op=0 val=1"), futex(false, false));
        assert_eq!(read(3, "uaddr=0x7f00 op=6 val=1"), None, "a lock with inheritance");
        assert_eq!(read(5, "dfd=3"), None);
        assert_eq!(read(6, "epfd=3 timeout=0"), Some(Edge::Polls));
        assert_eq!(read(7, "ret=2"), Some(Edge::PollEnds { ready: 2 }));
        assert!(points.has_calls() && points.has_any());
    }
}
