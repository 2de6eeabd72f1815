//! Names and counters of tasks by taskstats: the kernel answers for many tasks at once, in half the time that files of
//! `/proc` take. It needs `CAP_NET_ADMIN` and the first network namespace.

use super::process::comm_of;
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use schedlab_model::{Comm, Nanos, Pid};
use std::io;
use std::os::fd::OwnedFd;

/// Requests in one message: their answers fit into the socket's buffer, whatever its size.
const AT_ONCE: usize = 32;
const HEADER: usize = 16;
const REQUEST: u16 = 1;
const ERROR: u16 = 2;
/// The family that tells the numbers of others (`GENL_ID_CTRL`), and how it is asked.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// What taskstats is asked, and the attributes of its answer.
const GET: u8 = 1;
const OF_TASK: u16 = 1;
const STATS: u16 = 3;
const ANSWER: u16 = 4;

/// A connection to the kernel.
#[derive(Debug)]
pub struct Taskstats {
    socket: OwnedFd,
    family: u16,
    answers: Vec<u8>,
}

/// What the kernel tells of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    pub comm: Comm,
    /// Whether its policy is `SCHED_IDLE`.
    pub is_idle: bool,
    /// Time on the CPU, time in which it waited for one, and how often it came to run: as in `schedstat`.
    pub ran: Nanos,
    pub waited: Nanos,
    pub arrivals: u64,
}

impl Taskstats {
    /// Connects, and asks about this process.
    ///
    /// # Errors
    /// When the kernel has no taskstats, or not for us.
    pub fn open() -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let kind = (AddressFamily::NETLINK, SocketType::RAW, Some(netlink::GENERIC));
        let socket = rustix::net::socket_with(kind.0, kind.1, flags, kind.2)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        let mut this = Self { socket, family: CONTROL, answers: vec![0; 1 << 16] };
        let mut family = None;
        let message = message(CONTROL, GET_FAMILY, FAMILY_NAME, b"TASKSTATS\0");
        this.ask(&message, 1, &mut |body| {
            let id = attribute(body, FAMILY_ID)?;
            family = Some(u16::from_ne_bytes(id.get(..2)?.try_into().ok()?));
            Some(())
        })?;
        this.family = family.ok_or(io::ErrorKind::Unsupported)?;
        // Some kernels have taskstats without these numbers.
        let mut counts = false;
        let own = Pid(std::process::id().cast_signed());
        this.of(&[own], &mut |_, stats| counts = stats.arrivals > 0)?;
        if counts { Ok(this) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    /// Tells `see` of each of these tasks that is still there.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn of(&mut self, tasks: &[Pid], see: &mut dyn FnMut(Pid, Stats)) -> io::Result<()> {
        for some in tasks.chunks(AT_ONCE) {
            let one = |task: &Pid| message(self.family, GET, OF_TASK, &task.0.to_ne_bytes());
            let requests: Vec<u8> = some.iter().flat_map(one).collect();
            self.ask(&requests, some.len(), &mut |body| {
                let answer = attribute(body, ANSWER)?;
                let pid = attribute(answer, OF_TASK)?.get(..4)?.try_into().ok()?;
                see(Pid(i32::from_ne_bytes(pid)), stats(attribute(answer, STATS)?)?);
                Some(())
            })?;
        }
        Ok(())
    }

    /// Sends requests, and tells `see` the attributes of each answer. A task that is gone has none.
    fn ask(
        &mut self,
        requests: &[u8],
        count: usize,
        see: &mut dyn FnMut(&[u8]) -> Option<()>,
    ) -> io::Result<()> {
        rustix::net::send(&self.socket, requests, SendFlags::empty())?;
        let mut answered = 0;
        while answered < count {
            // The kernel has answered before `send` returns.
            let answers = &mut self.answers[..];
            let (length, _) = rustix::net::recv(&self.socket, answers, RecvFlags::DONTWAIT)?;
            let mut rest = &self.answers[..length];
            while let Some((kind, body, after)) = first(rest) {
                rest = after;
                answered += 1;
                if kind == ERROR {
                    let code = body.get(..4).and_then(|code| code.try_into().ok());
                    let code = code.map_or(0, |code| -i32::from_ne_bytes(code));
                    if code != Errno::SRCH.raw_os_error() {
                        return Err(io::Error::from_raw_os_error(code));
                    }
                } else {
                    see(body.get(4..).unwrap_or_default());
                }
            }
        }
        Ok(())
    }
}

/// A request with one attribute.
fn message(family: u16, command: u8, attribute: u16, value: &[u8]) -> Vec<u8> {
    let inner = 4 + value.len();
    let length = HEADER + 4 + inner.next_multiple_of(4);
    let mut bytes = Vec::with_capacity(length);
    bytes.extend((length as u32).to_ne_bytes());
    bytes.extend(family.to_ne_bytes());
    bytes.extend(REQUEST.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend((inner as u16).to_ne_bytes());
    bytes.extend(attribute.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length, 0);
    bytes
}

/// Kind and body of the first message, and what follows it.
fn first(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let body = bytes.get(HEADER..length)?;
    Some((kind, body, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// The value of the first attribute of a kind.
fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let length = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..)?;
    }
}

/// The fields of `struct taskstats`, whose beginning has been the same since version 1.
fn stats(bytes: &[u8]) -> Option<Stats> {
    let number = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some(Stats {
        comm: comm_of(bytes.get(80..112)?),
        is_idle: i32::from(*bytes.get(112)?) == libc::SCHED_IDLE,
        ran: Nanos(number(72)?),
        waited: Nanos(number(24)?),
        arrivals: number(16)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_tells_what_proc_does() {
        let own = crate::process::thread_id();
        let mut found = Vec::new();
        let mut taskstats = match Taskstats::open() {
            Ok(taskstats) => taskstats,
            Err(error) => {
                use std::io::Write as _;
                let _ = writeln!(io::stderr(), "MISSING: {error}; not checked: taskstats");
                return;
            }
        };
        let before = crate::process::ran(own).unwrap();
        let all = vec![own; 2 * AT_ONCE + 1];
        taskstats.of(&all, &mut |pid, stats| found.push((pid, stats))).unwrap();
        let after = crate::process::ran(own).unwrap();
        assert_eq!(found.len(), all.len());
        for (pid, stats) in found {
            assert_eq!((pid, Some(stats.comm)), (own, crate::process::comm(own)));
            assert!(before <= stats.ran && stats.ran <= after, "{before:?} {stats:?} {after:?}");
            assert!(stats.arrivals > 0);
        }
        let gone = Pid(i32::MAX);
        taskstats.of(&[gone], &mut |pid, _| panic!("{pid} is there")).unwrap();
    }
}
