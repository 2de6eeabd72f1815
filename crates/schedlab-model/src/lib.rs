//! The nouns of schedlab: what every other crate talks about and none of them owns.
//!
//! What a table of an answer has is declared once ([`table`]).
//!
//! Nothing here does I/O, reads a clock or knows a file format. Values are plain, small and cheap to
//! copy where events flow by the million ([`Event`] is 40 bytes), and serialisable where they end up
//! in a manifest or a report ([`MachineFacts`], [`Knob`], [`Metric`], [`Warning`]).
#![warn(missing_docs)]

mod at_start;
mod bound;
mod conditions;
mod counters;
mod coverage;
mod cpu;
mod event;
mod facts;
mod fields;
mod formula;
mod groups;
mod kernel_version;
mod knob;
mod metric;
mod point;
mod readable;
mod shell_word;
mod size;
mod source;
pub mod table;
mod time;
mod topology;
mod usage;
mod visible;
mod warning;

pub use at_start::{AtStart, Does, TaskAtStart, Why};
pub use conditions::{Conditions, Scheduled};
pub use counters::Counted;
pub use coverage::{Cover, Coverage, Known, Need};
pub use cpu::{Cpu, CpuListError, CpuSet};
pub use event::{Comm, Context, Event, Kind, KindSet, Left, Phase, Pid, Prio, What};
pub use facts::{CgroupFacts, Fact, Frequency, KernelFacts, LoadFacts, MachineFacts};
pub use fields::fields;
use formula::as_text;
pub use groups::{Count, Groups, Limit, Member, Throttling, container_id, is_within, lineage};
pub use kernel_version::kernel_version;
pub use knob::{Knob, Setting};
pub use metric::{Better, Metric, Unit};
pub use point::Point;
pub use readable::{percentage, readable, significant};
pub use shell_word::shell_word;
pub use size::{Bytes, BytesError};
pub use source::{Affinity, Clock, EventSink, EventSource, OtherFormat, TraceInfo, Trigger};
pub use time::{Nanos, NanosError, Span};
pub use topology::{Distance, Place, Topology};
pub use usage::Usage;
pub use visible::{visible, visible_but};
pub use warning::Warning;

/// The examples of README.md are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
