//! The rows of a picture, and what is wrong with a text.

use schedlab_model::{Cpu, Pid};

/// What is wrong with a text, and in which line (from 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, or 0 when no single line is to blame.
    pub(crate) line: usize,
    /// What is wrong in the line.
    pub(crate) what: String,
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

/// What a task does in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Away,
    Runs(Cpu),
    Waits(Cpu),
}

/// Who a CPU's row shows in one column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Idle,
    Unknown,
    Uncovered,
    Task(usize),
}

/// The rows of a picture: `cpus[i]` is shown as `shown[i][column]`, and each of 26 tasks is
/// somewhere in each column.
#[derive(Debug, Default)]
pub(super) struct Grid {
    pub(super) cpus: Vec<Cpu>,
    pub(super) shown: Vec<Vec<Shown>>,
    pub(super) places: Vec<[Place; 26]>,
}

/// The pid of a letter.
pub(super) fn pid(task: usize) -> Pid {
    Pid(task as i32 + 1)
}
