//! What a guest tells: frames of JSON, each with raw bytes behind it where there are any.
//!
//! A frame is two lengths (little-endian, 4 bytes each), the JSON, the raw bytes. The last frame of a
//! run says how it ended; bytes that end before it mean that the guest died.

use schedlab_model::{CpuSet, LoadFacts, MachineFacts, Nanos, Warning};
use schedlab_workload::{
    Figure, Interval, MachineError, Offers, Outcome, Output, Recorded, RunSpec, Stream,
};
use serde::{Deserialize, Serialize};
use std::io;

/// One frame that the guest sends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Frame {
    /// The guest has booted and waits for a run.
    Ready {
        /// What the guest's machine offers.
        offers: Box<Offers>,
        /// What the guest's machine is.
        facts: Box<MachineFacts>,
        /// Its scheduler domains, outermost last, of each CPU: names and spans.
        domains: Vec<Vec<Domain>>,
    },
    /// A number for the whole run.
    Figure(Figure),
    /// What was measured so far.
    Interval(Box<Interval>),
    /// The same of a workload beside the run's own.
    Beside {
        /// The label of the workload.
        label: String,
        /// The interval that was measured.
        interval: Box<Interval>,
    },
    /// What the trace holds.
    Recorded(Recorded),
    /// A sentence about the options.
    Note(String),
    /// A warning about the run.
    Warning(Warning),
    /// A stream; its content lies behind the frame.
    Stream(Which),
    /// The machine's load after the run.
    After(LoadFacts),
    /// The run failed; the last frame.
    Failed(Fault),
    /// The run ended; the last frame.
    Ended {
        /// Exit code of the load.
        exit_code: i32,
        /// Whether it was stopped before its end.
        interrupted: bool,
        /// Whether the run's time limit ended it.
        censored: bool,
    },
}

/// A scheduler domain of a CPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// `SMT`, `MC`, `PKG`, `NUMA`, ...
    pub(crate) name: String,
    /// Its flags, as the kernel writes them.
    pub(crate) flags: String,
    /// The CPUs of the domain; empty if the kernel does not list them (`/proc/schedstat`).
    pub(crate) cpus: CpuSet,
}

/// A stream of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// The trace of the run.
    Trace,
    /// Standard output of the load.
    Stdout,
    /// The standard error of the load.
    Stderr,
}

impl Which {
    /// All outputs, in this order.
    pub(crate) const ALL: [Self; 3] = [Self::Trace, Self::Stdout, Self::Stderr];

    /// The stream of a run directory.
    #[must_use]
    pub(crate) const fn stream(self) -> Stream {
        match self {
            Self::Trace => Stream::Trace,
            Self::Stdout => Stream::Stdout,
            Self::Stderr => Stream::Stderr,
        }
    }
}

/// How a run in the guest failed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// It does not offer this.
    NotOffered {
        /// What the machine was asked to do.
        what: String,
        /// The reason of the refusal.
        why: String,
    },
    /// An option of the workload is wrong.
    Option {
        /// The name of the workload.
        workload: String,
        /// The name of the option.
        option: String,
        /// What is wrong with the value.
        why: String,
    },
    /// A failure of another kind.
    Other(String),
}

impl From<MachineError> for Fault {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::NotOffered { what, why, .. } => Self::NotOffered { what, why },
            MachineError::Option { workload, option, why } => {
                Self::Option { workload, option, why }
            }
            other => Self::Other(other.to_string()),
        }
    }
}

impl From<Fault> for MachineError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotOffered { what, why } => {
                Self::NotOffered { machine: "the guest".to_owned(), what, why }
            }
            Fault::Option { workload, option, why } => Self::Option { workload, option, why },
            Fault::Other(why) => Self::Load(format!("in the guest: {why}")),
        }
    }
}

/// What a guest is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GuestRequest {
    /// The run that the guest performs.
    pub(crate) spec: RunSpec,
    /// How long the guest waits before it begins, so that repeats begin at other phases of its ticks.
    pub(crate) wait: Nanos,
}

/// Bytes of a frame's JSON. The largest hold the histograms of an interval.
const JSON_MAX: usize = 16 << 20;

/// A frame, the raw bytes behind it, and the bytes behind both.
pub type Part<'b> = (Frame, &'b [u8], &'b [u8]);

impl Frame {
    /// Appends the frame and its raw bytes to `out`.
    pub fn write(&self, raw: &[u8], out: &mut Vec<u8>) {
        let json = serde_json::to_vec(self).expect("frames are plain values");
        for length in [json.len(), raw.len()] {
            let length = u32::try_from(length).expect("a frame is below 4 GiB");
            out.extend_from_slice(&length.to_le_bytes());
        }
        out.extend_from_slice(&json);
        out.extend_from_slice(raw);
    }

    /// Reads the first frame of `bytes` and its raw bytes, and what is left behind it; `None` if the
    /// bytes end before the frame does.
    ///
    /// # Errors
    /// When the bytes are no frame.
    pub(crate) fn read(bytes: &[u8]) -> io::Result<Option<Part<'_>>> {
        let Some((head, rest)) = bytes.split_first_chunk::<8>() else { return Ok(None) };
        let length = |at: usize| {
            u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]) as usize
        };
        if length(0) > JSON_MAX {
            let what = format!("a frame of {} bytes: the limit is {JSON_MAX}", length(0));
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let Some((json, rest)) = rest.split_at_checked(length(0)) else { return Ok(None) };
        let Some((raw, rest)) = rest.split_at_checked(length(4)) else { return Ok(None) };
        Ok(Some((serde_json::from_slice(json)?, raw, rest)))
    }
}

/// Hands what the frames of a run tell to `out`. Returns how the run ended.
///
/// # Errors
/// What the guest's machine failed with; or the frames are incomplete or cannot be stored.
pub fn replay(
    mut bytes: &[u8],
    out: &mut dyn Output,
) -> Result<(Outcome, Option<LoadFacts>), MachineError> {
    let wrong = |error: io::Error| MachineError::io("reading what the guest sent", error);
    let mut after = None;
    loop {
        let Some((frame, raw, rest)) = Frame::read(bytes).map_err(wrong)? else {
            return Err(MachineError::Load(
                "the guest did not report the end of its run".to_owned(),
            ));
        };
        bytes = rest;
        match frame {
            Frame::Ready { .. } => {}
            Frame::Figure(figure) => {
                out.figure(figure).map_err(|e| MachineError::io("storing a metric", e))?;
            }
            Frame::Interval(interval) => out.interval(&interval),
            Frame::Beside { label, interval } => out.interval_beside(&label, &interval),
            Frame::Recorded(what) => out.recorded(&what),
            Frame::Note(sentence) => out.note(&sentence),
            Frame::Warning(warning) => out.warning(warning),
            Frame::Stream(which) => {
                let path = out.path(which.stream());
                let doing = || format!("writing {}", path.display());
                schedlab_trace::write_file(&path, raw).map_err(|e| MachineError::io(doing(), e))?;
            }
            Frame::After(load) => after = Some(load),
            Frame::Failed(fault) => return Err(fault.into()),
            Frame::Ended { exit_code, interrupted, censored } => {
                return Ok((Outcome { exit_code, interrupted, censored }, after));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_claims_too_much_is_refused_before_it_has_come() {
        let mut bytes = Vec::new();
        Frame::Note("x".to_owned()).write(b"raw", &mut bytes);
        let (_, raw, rest) = Frame::read(&bytes).unwrap().unwrap();
        assert_eq!((raw, rest), (&b"raw"[..], &[][..]));
        let claimed = u32::try_from(JSON_MAX + 1).unwrap().to_le_bytes();
        bytes[..4].copy_from_slice(&claimed);
        assert_eq!(Frame::read(&bytes).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
