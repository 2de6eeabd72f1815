//! Talking to a session that runs: a socket in the guard's directory, one line of JSON each way.

use super::{SlowError, Speed};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a session can be told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Say what is in force.
    Status,
    /// Give all CPUs of a node a speed.
    Set {
        /// The node.
        node: String,
        /// The speed.
        speed: Speed,
    },
    /// The node's tasks stand still.
    Fail {
        /// The node.
        node: String,
    },
    /// They go on.
    Recover {
        /// The node.
        node: String,
    },
}

/// The listening end.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) listener: UnixListener,
}

/// A client that is slow to write is not waited for longer than this: the session has work to do.
const PATIENCE: Duration = Duration::from_millis(100);

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
        Ok(Self { listener })
    }

    /// Answers whoever has asked. What can't be read is answered with why.
    pub(super) fn serve(&self, mut perform: impl FnMut(Order) -> serde_json::Value) {
        while let Ok((stream, _)) = self.listener.accept() {
            let _ = stream.set_nonblocking(false);
            let _ = stream.set_read_timeout(Some(PATIENCE));
            let _ = stream.set_write_timeout(Some(PATIENCE));
            let mut line = String::new();
            let read = BufReader::new(std::io::Read::take(&stream, 4096)).read_line(&mut line);
            let answer = match (read, serde_json::from_str(&line)) {
                (Ok(_), Ok(order)) => perform(order),
                (_, Err(error)) => serde_json::json!({ "error": error.to_string() }),
                (Err(error), _) => serde_json::json!({ "error": error.to_string() }),
            };
            // Whoever does not listen to the answer gets none.
            let _ = writeln!(&stream, "{answer}");
        }
    }
}

/// The sockets of sessions, living ones only: a socket that nobody answers is removed.
///
/// # Errors
/// When the directory can't be read.
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
                Err(_) => drop(std::fs::remove_file(&path)),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Tells a session something and returns its answer.
///
/// # Errors
/// When it does not answer, or answers with an error.
pub fn ask(socket: &Path, order: &Order) -> Result<serde_json::Value, SlowError> {
    let io = |e| SlowError::io("talking to the session", e);
    let stream = UnixStream::connect(socket).map_err(io)?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(io)?;
    writeln!(&stream, "{}", serde_json::to_string(order).expect("plain values")).map_err(io)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(io)?;
    let answer: serde_json::Value = serde_json::from_str(&line)
        .map_err(|_| SlowError::Failed("the session gave no answer".into()))?;
    match answer.get("error").and_then(|error| error.as_str()) {
        Some(error) => Err(SlowError::Usage(error.to_owned())),
        None => match answer.get("failed").and_then(|failed| failed.as_str()) {
            Some(failed) => Err(SlowError::Failed(failed.to_owned())),
            None => Ok(answer),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_answered_and_nonsense_is_answered_with_why() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.sock");
        let control = Control::open(&path).unwrap();
        let client = std::thread::spawn(move || {
            let answer = ask(&path, &Order::Set { node: "a".into(), speed: Speed::FULL }).unwrap();
            let stream = UnixStream::connect(&path).unwrap();
            (&stream).write_all(b"what?\n").unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            (answer, line)
        });
        while !client.is_finished() {
            control.serve(|order| serde_json::json!({ "heard": order }));
            std::thread::sleep(Duration::from_millis(1));
        }
        let (answer, line) = client.join().unwrap();
        assert_eq!(answer["heard"]["set"]["node"], "a");
        assert!(line.contains("error"), "{line}");
    }
}
