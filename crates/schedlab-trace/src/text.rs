//! Traces as text: what `trace-cmd report`, `perf script`, `/sys/kernel/tracing/trace` and Android's
//! systrace (also inside a web page) print.
//!
//! One line is one event. The spellings differ in the columns before the event and in how the
//! arguments of the scheduler's events are laid out, so each line is understood on its own, and lines
//! that are no events are passed over.

mod arguments;
mod line;
mod reader;

pub(crate) use reader::{TextReader, refusal};

/// Whether an event stands in this piece of a text.
pub(crate) fn has_event(text: &[u8]) -> bool {
    let event = |line: &[u8]| {
        matches!(line::parse(&String::from_utf8_lossy(line)), Some(line::Said::Event(_)))
    };
    text.split(|&byte| byte == b'\n').any(event)
}
