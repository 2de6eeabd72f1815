//! Talking to a session that runs, by two files in the guard's directory. `slow-PID.orders` is a pipe: each line of JSON
//! that is written to it is an order. `slow-PID.answers` holds the last answers, by the number that each order has.

use super::{Period, SlowError, Speed, cpu_claims};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid, Warning};
use schedlab_sys::guard::{self, Guard, Undo};
use schedlab_sys::{clock, process};
use schedlab_workload::Pair;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    Status,
    Set {
        node: String,
        /// The new speed, as a part of full speed.
        speed: Speed,
    },
    Fail {
        node: String,
    },
    /// Let the tasks of a node that failed go on.
    Recover {
        node: String,
    },
    /// Drop all packets between two nodes.
    Cut {
        between: (String, String),
    },
    /// Undo the cut between two nodes.
    Heal {
        between: (String, String),
    },
    /// Give the link of two nodes these properties, both ways.
    Link {
        between: (String, String),
        /// Bits per second, as in `1Mbit`; `None`: as fast as the machine copies.
        #[serde(default)]
        rate: Option<String>,
        /// The delay of each packet, as in `20ms`; `None`: no delay is added.
        #[serde(default)]
        delay: Option<String>,
        /// The share of packets that get lost, as in `1%`; `None`: no packet.
        #[serde(default)]
        loss: Option<String>,
    },
    /// The session ends, as by SIGTERM.
    End,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Done,
    /// The order makes no sense, and why.
    Error(String),
    /// The order could not be carried out, and why.
    Failed(String),
    Status(Status),
}

/// What a session has in force.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct Status {
    /// The pid of the session.
    pub pid: u32,
    /// The name of the method, as on the command line.
    pub method: String,
    /// How long it has been running.
    pub(crate) runs_ns: Nanos,
    /// CPU time of the process itself.
    pub(crate) controller_cpu_ns: Nanos,
    /// The nodes of the session, in the order in which the user named them.
    pub nodes: Vec<NodeStatus>,
    /// Pairs of nodes between which nothing passes.
    pub cut: Vec<Pair>,
    /// What makes the speeds less exact than asked.
    pub warnings: Vec<Warning>,
}

/// What a node has in force.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The name of the node.
    pub name: String,
    /// The CPUs of the node.
    pub(crate) cpus: CpuSet,
    /// The speed of each CPU: `40%`.
    pub speeds: BTreeMap<Cpu, String>,
    /// The pids of the processes on the node.
    pub processes: Vec<Pid>,
    /// Whether its tasks stand still.
    pub failed: bool,
    /// The period that was chosen last; `None` where it does not follow the work.
    pub period: Option<Period>,
    /// Its address, if it has a network.
    pub(crate) address: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    order: Order,
    /// By which the answer is found; without it nobody waits for one.
    id: Option<u64>,
}

/// The files by which a session takes orders and answers them. The guard removes them.
#[derive(Debug)]
pub(super) struct Control {
    orders: File,
    read: Vec<u8>,
    answers: PathBuf,
    last: VecDeque<(u64, Answer)>,
}

/// An order, or why a line is none, and the number by which its answer is found.
pub(super) type IncomingOrder = (Option<u64>, Result<Order, String>);

/// No line is longer: the kernel keeps shorter ones whole (`PIPE_BUF`).
const LONGEST: usize = 4096;
/// So many answers are kept for those who ask at the same time.
const KEPT: usize = 16;
/// How often is looked for an answer.
const LOOK: Duration = Duration::from_millis(5);

fn file(directory: &Path, session: Pid, what: &str) -> PathBuf {
    directory.join(format!("slow-{session}.{what}"))
}

impl Control {
    /// Makes the files of this process's session.
    pub(super) fn open(directory: &Path, guard: &mut Guard) -> Result<Self, SlowError> {
        let io = |e| SlowError::io("making the pipe for orders", e);
        let us = Pid(std::process::id().cast_signed());
        let path = file(directory, us, "orders");
        let answers = file(directory, us, "answers");
        for path in [&path, &answers, &answers.with_extension("new")] {
            guard.before(Undo::RemoveFile { path: path.clone() }).map_err(io)?;
        }
        let _ = std::fs::remove_file(&path);
        process::make_pipe(&path).map_err(io)?;
        // For writing as well, so that it does not end with the one that wrote last.
        let orders = options().read(true).open(&path).map_err(io)?;
        Ok(Self { orders, read: Vec::new(), answers, last: VecDeque::new() })
    }

    /// Orders that have come in; nobody is waited for.
    pub(super) fn orders(&mut self) -> Vec<IncomingOrder> {
        let mut some = [0; LONGEST];
        while let Ok(count @ 1..) = self.orders.read(&mut some) {
            self.read.extend(&some[..count]);
        }
        let mut orders = Vec::new();
        while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.read.drain(..=end).collect();
            orders.push(match serde_json::from_slice(&line) {
                Ok(Line { order, id }) => (id, Ok(order)),
                Err(error) => (None, Err(error.to_string())),
            });
        }
        if self.read.len() > LONGEST {
            self.read.clear();
        }
        orders
    }

    /// Answers an order. Who asks finds an answer whole or not at all.
    pub(super) fn answer(&mut self, id: u64, answer: Answer) {
        self.last.push_back((id, answer));
        self.last.drain(..self.last.len().saturating_sub(KEPT));
        let text = serde_json::to_string(&self.last).expect("plain values");
        let new = self.answers.with_extension("new");
        // Plain: the folder of journals is private. A full disk loses answers, not the session.
        let _ = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.answers));
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.orders.as_fd()
    }
}

/// How a pipe is opened without waiting for the other end.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(process::NONBLOCK);
    options
}

fn directory() -> Result<PathBuf, SlowError> {
    guard::directory().map_err(|e| SlowError::io("finding running sessions", e))
}

/// The sessions that run, by their pids.
///
/// # Errors
/// When the guard's directory cannot be used.
pub fn sessions() -> Result<Vec<Pid>, SlowError> {
    let directory = directory()?;
    let all = cpu_claims::sessions(&directory).into_keys();
    Ok(all.filter(|pid| file(&directory, *pid, "orders").exists()).collect())
}

/// Sends an order to a session and waits for the answer: 5 s for [`Order::Status`], else 30 s, since a session
/// is slow on a machine that is slowed as a whole. Returns the status for [`Order::Status`], else `None`.
///
/// # Errors
/// When the session does not answer in time, or answers with an error.
pub fn ask(session: Pid, order: &Order) -> Result<Option<Status>, SlowError> {
    ask_at(&directory()?, session, order)
}

fn ask_at(directory: &Path, session: Pid, order: &Order) -> Result<Option<Status>, SlowError> {
    let io = |e| SlowError::io(format!("writing an order to session {session}"), e);
    // No other process has this number now, and this one asks once in a nanosecond.
    let id = clock::monotonic().0.rotate_left(24) ^ u64::from(std::process::id());
    let line = serde_json::to_string(&Line { order: order.clone(), id: Some(id) });
    let line = line.expect("plain values") + "\n";
    let pipe = file(directory, session, "orders");
    let mut orders = options().open(&pipe).map_err(io)?;
    orders.write_all(line.as_bytes()).map_err(io)?;
    let patience = Nanos::from_secs(if *order == Order::Status { 5 } else { 30 });
    let until = clock::monotonic() + patience;
    let answers = file(directory, session, "answers");
    loop {
        let text = std::fs::read_to_string(&answers).unwrap_or_default();
        let all: Vec<(u64, Answer)> = serde_json::from_str(&text).unwrap_or_default();
        match all.into_iter().find(|(of, _)| *of == id).map(|(_, answer)| answer) {
            Some(Answer::Done) => return Ok(None),
            Some(Answer::Status(status)) => return Ok(Some(status)),
            Some(Answer::Error(error)) => return Err(SlowError::Usage(error)),
            Some(Answer::Failed(failed)) => return Err(SlowError::Failed(failed)),
            // It has ended: whether it answered before is not known.
            None if !pipe.exists() && *order == Order::End => return Ok(None),
            None if !pipe.exists() => {
                return Err(SlowError::Failed("the session ended before it answered".into()));
            }
            None if clock::monotonic() >= until => {
                return Err(SlowError::Failed("the session did not answer".into()));
            }
            None => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    #[test]
    fn orders_are_answered_and_nonsense_keeps_nobody_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(dir.path(), Path::new("/bin/true")).unwrap();
        let mut control = Control::open(dir.path(), &mut guard).unwrap();
        let path = dir.path().to_owned();
        let us = Pid(std::process::id().cast_signed());
        let client = std::thread::spawn(move || {
            let mut raw = options().open(file(&path, us, "orders")).unwrap();
            raw.write_all(b"what?\n{\"order\":\"end\"}\n").unwrap();
            let set = ask_at(&path, us, &Order::Set { node: "a".into(), speed: Speed::FULL });
            let fail = ask_at(&path, us, &Order::Fail { node: "b".into() });
            (set, fail)
        });
        let mut heard = Vec::new();
        while !client.is_finished() {
            for (id, order) in control.orders() {
                let (Ok(Order::Fail { .. }), Some(id)) = (&order, id) else {
                    id.into_iter().for_each(|id| control.answer(id, Answer::Done));
                    heard.push(order.ok());
                    continue;
                };
                control.answer(id, Answer::Error("no b".into()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (set, fail) = client.join().unwrap();
        assert_eq!((set.unwrap(), fail.unwrap_err().to_string()), (None, "no b".to_owned()));
        let first = Order::Set { node: "a".into(), speed: Speed::FULL };
        assert_eq!(heard, [None, Some(Order::End), Some(first)]);
        // Only the last answers are kept, and all files go.
        (0..40).for_each(|id| control.answer(id, Answer::Done));
        assert_eq!(control.last.len(), KEPT);
        assert!(guard.finish().is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let dead = ask_at(dir.path(), us, &Order::Status).unwrap_err().to_string();
        assert!(dead.contains("writing an order"), "{dead}");
    }
}
