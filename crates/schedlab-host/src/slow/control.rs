//! Talking to a session that runs: a socket in the guard's directory. Each line of JSON is an order, and is answered by
//! a line. A client may stay connected and send any number of them.

use super::{Proof, SlowError, Speed};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid, Warning};
use schedlab_workload::Pair;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a session can be asked to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Say what is in force.
    Status,
    /// Give all CPUs of a node a speed.
    Set {
        /// The name of the node.
        node: String,
        /// The new speed, as a part of full speed.
        speed: Speed,
    },
    /// Stop all tasks of a node.
    Fail {
        /// The name of the node.
        node: String,
    },
    /// Let the tasks of a node that failed go on.
    Recover {
        /// The name of the node.
        node: String,
    },
    /// Drop all packets between two nodes.
    Cut {
        /// The names of both nodes.
        between: (String, String),
    },
    /// Undo the cut between two nodes.
    Heal {
        /// The names of both nodes.
        between: (String, String),
    },
    /// Give the link of two nodes these properties, both ways.
    Link {
        /// The names of both nodes.
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

/// What a session answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// The order is carried out.
    Done,
    /// The order makes no sense, and why.
    Error(String),
    /// The order could not be carried out, and why.
    Failed(String),
    /// What is in force.
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
    pub runs_ns: Nanos,
    /// CPU time of the process itself.
    pub controller_cpu_ns: Nanos,
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
    pub cpus: CpuSet,
    /// The speed of each CPU: `40%`.
    pub speeds: BTreeMap<Cpu, String>,
    /// The pids of the processes on the node.
    pub processes: Vec<Pid>,
    /// Whether its tasks stand still.
    pub failed: bool,
    /// The CPU time that the node was granted, and whether that is the speed asked for.
    pub held: Proof,
    /// Its address, if it has a network.
    pub address: Option<String>,
}

/// The socket on which a session takes orders.
#[derive(Debug)]
pub(super) struct Control {
    listener: UnixListener,
    /// The one that has connected and not said all: it may itself be slowed.
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
}

/// A client that does not read its answer is not waited for longer than this: the session has work to do.
const PATIENCE: Duration = Duration::from_millis(100);
/// No order is longer, in bytes.
const LONGEST: usize = 4096;
/// More than this have not said all: the first of them never will.
const CLIENTS: usize = 64;

impl Client {
    /// Reads what there is. Orders that were said to their end, or why one is none; and whether more may come. A
    /// client that has gone is answered without effect.
    fn orders(&mut self) -> (Vec<Result<Order, String>>, bool) {
        let mut some = [0; 512];
        let mut goes_on = loop {
            match self.stream.read(&mut some) {
                Ok(0) => break false,
                Ok(count) => self.said.extend(&some[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break false,
            }
            if self.said.len() > LONGEST {
                break true;
            }
        };
        let mut orders = Vec::new();
        let read = |line: &[u8]| serde_json::from_slice(line).map_err(|error| error.to_string());
        while let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.said.drain(..=end).collect();
            orders.push(read(&line));
        }
        if self.said.len() > LONGEST || !goes_on && !self.said.is_empty() {
            orders.push(read(&std::mem::take(&mut self.said)));
            goes_on = false;
        }
        (orders, goes_on)
    }
}

/// Who waits for an answer.
pub(super) struct Asker(UnixStream);

impl Asker {
    /// The one that does not listen to the answer gets none.
    pub(super) fn answer(&self, answer: &Answer) {
        let answer = serde_json::to_string(answer).expect("plain values");
        let _ = self.0.set_nonblocking(false);
        let _ = self.0.set_write_timeout(Some(PATIENCE));
        let _ = writeln!(&self.0, "{answer}");
        // It may ask again, and is not waited for then either.
        let _ = self.0.set_nonblocking(true);
    }
}

impl Control {
    pub(super) fn path(directory: &Path) -> PathBuf {
        directory.join(format!("slow-{}.sock", std::process::id()))
    }

    pub(super) fn open(path: &Path) -> Result<Self, SlowError> {
        let _ = std::fs::remove_file(path);
        let listener =
            UnixListener::bind(path).map_err(|e| SlowError::io("opening the control socket", e))?;
        listener
            .set_nonblocking(true)
            .map_err(|e| SlowError::io("opening the control socket", e))?;
        Ok(Self { listener, clients: Vec::new() })
    }

    /// Orders that have come in, and who waits for the answer to each; nobody is waited for. What cannot
    /// be read is why.
    pub(super) fn orders(&mut self) -> Vec<(Asker, Result<Order, String>)> {
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                self.clients.push(Client { stream, said: Vec::new() });
            }
        }
        let (mut orders, mut silent) = (Vec::new(), Vec::new());
        for mut client in std::mem::take(&mut self.clients) {
            let (said, goes_on) = client.orders();
            for order in said {
                if let Ok(stream) = client.stream.try_clone() {
                    orders.push((Asker(stream), order));
                }
            }
            if goes_on {
                silent.push(client);
            }
        }
        silent.drain(..silent.len().saturating_sub(CLIENTS));
        self.clients = silent;
        orders
    }

    /// Readable when there may be an order.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|client| client.stream.as_fd());
        clients.chain([self.listener.as_fd()])
    }
}

/// The sockets of sessions, living ones only: a socket that nobody answers is removed.
///
/// # Errors
/// When the directory cannot be read.
pub fn sessions() -> Result<Vec<PathBuf>, SlowError> {
    let directory = schedlab_sys::guard::directory()
        .map_err(|e| SlowError::io("finding running sessions", e))?;
    let entries =
        std::fs::read_dir(&directory).map_err(|e| SlowError::io("finding running sessions", e))?;
    let mut found = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with("slow-") && name.ends_with(".sock") {
            match UnixStream::connect(&path) {
                Ok(_) => found.push(path),
                // One that lives is about to listen.
                Err(_) if lives(&name) => {}
                Err(_) => drop(std::fs::remove_file(&path)),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether the session of a socket lives.
fn lives(socket: &str) -> bool {
    let pid = socket.trim_start_matches("slow-").trim_end_matches(".sock").parse().map(Pid);
    pid.is_ok_and(|pid| schedlab_sys::process::start_ticks(pid).is_some())
}

/// Sends an order to a session and waits for the answer: 5 s for [`Order::Status`], else 30 s, since a session
/// is slow on a machine that is slowed as a whole. Returns the status for [`Order::Status`], else `None`.
///
/// # Errors
/// When the session does not answer in time, or answers with an error.
pub fn ask(socket: &Path, order: &Order) -> Result<Option<Status>, SlowError> {
    let io = |e| SlowError::io("talking to the session", e);
    let stream = UnixStream::connect(socket).map_err(io)?;
    let patience = Duration::from_secs(if *order == Order::Status { 5 } else { 30 });
    stream.set_read_timeout(Some(patience)).map_err(io)?;
    writeln!(&stream, "{}", serde_json::to_string(order).expect("plain values")).map_err(io)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(io)?;
    let answer = serde_json::from_str(&line)
        .map_err(|_| SlowError::Failed("the session did not answer".into()))?;
    match answer {
        Answer::Done => Ok(None),
        Answer::Status(status) => Ok(Some(status)),
        Answer::Error(error) => Err(SlowError::Usage(error)),
        Answer::Failed(failed) => Err(SlowError::Failed(failed)),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    #[test]
    fn orders_are_answered_and_nonsense_is_answered_with_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let mut control = Control::open(&path).unwrap();
        let client = std::thread::spawn(move || {
            ask(&path, &Order::Set { node: "a".into(), speed: Speed::FULL }).unwrap();
            // One that says nothing keeps nobody waiting, nor does one that says it in two parts.
            let _silent = UnixStream::connect(&path).unwrap();
            let stream = UnixStream::connect(&path).unwrap();
            (&stream).write_all(b"what").unwrap();
            ask(&path, &Order::Fail { node: "b".into() }).unwrap();
            (&stream).write_all(b"?\n").unwrap();
            let mut reader = BufReader::new(&stream);
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            // The same client asks again, twice at once.
            (&stream).write_all(b"\"end\"\n{\"cut\":{\"between\":[\"a\",\"b\"]}}\n").unwrap();
            let mut answers = String::new();
            reader.read_line(&mut answers).unwrap();
            reader.read_line(&mut answers).unwrap();
            assert_eq!(answers, "\"done\"\n\"done\"\n");
            line
        });
        let mut heard = Vec::new();
        while !client.is_finished() {
            for (asker, order) in control.orders() {
                let done = order.map(|order| heard.push(order));
                asker.answer(&done.map_or_else(Answer::Error, |()| Answer::Done));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let line = client.join().unwrap();
        let set = Order::Set { node: "a".into(), speed: Speed::FULL };
        let cut = Order::Cut { between: ("a".into(), "b".into()) };
        assert_eq!(heard, [set, Order::Fail { node: "b".into() }, Order::End, cut]);
        assert!(line.contains("error"), "{line}");
    }
}
