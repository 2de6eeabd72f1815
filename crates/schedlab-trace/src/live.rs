//! Records as the running kernel hands them over, for recorders: the same decoding and the same
//! walk through pages as for files, on bytes that have not become a file yet.

use crate::Encoding;
use crate::argument_text::Spelling;
pub use crate::dat::Piece;
use crate::dat::{Layout, Visit, walk};
use crate::decode::Stamp;
use crate::names::Names;
use crate::plan::Decoder;
use schedlab_model::{Clock, Context, Cpu, Event, Nanos, Pid, TraceInfo, What};
use std::num::NonZeroU32;

/// Decodes records of the kernel that runs here.
pub struct LiveDecoder {
    decoder: Decoder,
    names: Names,
}

impl std::fmt::Debug for LiveDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveDecoder").field("kinds", &self.decoder.kinds()).finish()
    }
}

/// Byte order and word size of this machine.
fn native() -> Encoding {
    let long = u8::try_from(size_of::<usize>()).expect("a word has few bytes");
    Encoding { big_endian: cfg!(target_endian = "big"), long }
}

impl LiveDecoder {
    /// From the system and the format text of each tracepoint.
    pub fn new<'a>(formats: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self { decoder: Decoder::new(native(), formats), names: Names::default() }
    }

    /// Appends the events of one record to `out`.
    pub fn decode(&mut self, time: Nanos, cpu: Cpu, body: &[u8], out: &mut Vec<Event>) {
        self.decoder.decode_to(Stamp { time: time.0, cpu }, body, &mut self.names, out);
    }

    /// Appends the events of one page (as `trace_pipe_raw` gives it) to `out`, losses included, as a reader of a file
    /// finds them. `other` gets the body of each record beyond the scheduler's, in order.
    ///
    /// # Errors
    /// The offset at which the page makes no sense; all before was decoded.
    pub fn page(
        &mut self,
        page: &[u8],
        cpu: Cpu,
        out: &mut Vec<Event>,
        other: &mut dyn FnMut(u16, &[u8]),
    ) -> Result<(), usize> {
        let layout = Layout { encoding: native(), page_size: page.len() };
        walk(page, layout, &mut Page { decoder: self, cpu, out, other })
    }

    /// What the formats alone say of the stream: clock, kinds of events and the names of the others.
    #[must_use]
    pub fn info(&self) -> TraceInfo {
        let mut info = TraceInfo::new("live", Clock::Monotonic);
        info.kinds = self.decoder.kinds();
        info.others = self.decoder.others().to_vec();
        info
    }
}

/// How arguments of events beyond the scheduler's are spelled, as of files.
#[derive(Debug)]
pub struct LiveArguments(Spelling);

impl LiveArguments {
    /// From the system and the format text of each tracepoint, and text of `/proc/kallsyms` for the names of functions.
    pub fn new<'a>(formats: impl Iterator<Item = (&'a str, &'a str)>, kallsyms: &[u8]) -> Self {
        Self(Spelling::new(native(), formats).with_symbols(kallsyms))
    }

    /// The arguments of a record.
    #[must_use]
    pub fn text(&self, body: &[u8]) -> String {
        self.0.text(body)
    }
}

/// Decodes what a walk through a page meets.
struct Page<'a> {
    decoder: &'a mut LiveDecoder,
    cpu: Cpu,
    out: &'a mut Vec<Event>,
    other: &'a mut dyn FnMut(u16, &[u8]),
}

impl Visit for Page<'_> {
    fn record(&mut self, time: u64, body: &[u8]) {
        let before = self.out.len();
        self.decoder.decode(Nanos(time), self.cpu, body, self.out);
        for event in &self.out[before..] {
            if let What::Other { format } = event.what {
                (self.other)(format, body);
            }
        }
    }

    fn lost(&mut self, time: u64, count: u32) {
        let what = What::Lost { count: NonZeroU32::new(count) };
        let by = Pid::IDLE;
        let context = Context::Task;
        self.out.push(Event { time: Nanos(time), by, cpu: self.cpu, context, what });
    }
}

/// Hands each piece of a page (as `trace_pipe_raw` gives it) to `sink`, in order.
///
/// # Errors
/// The offset at which the page makes no sense; all before was handed over.
pub fn walk_page(page: &[u8], sink: &mut dyn FnMut(Piece<'_>)) -> Result<(), usize> {
    struct Sink<'a>(&'a mut dyn FnMut(Piece<'_>));
    impl Visit for Sink<'_> {
        fn record(&mut self, time: u64, body: &[u8]) {
            (self.0)(Piece::Record(Nanos(time), body));
        }
        fn lost(&mut self, _time: u64, count: u32) {
            (self.0)(Piece::Lost(NonZeroU32::new(count)));
        }
    }
    let layout = Layout { encoding: native(), page_size: page.len() };
    walk(page, layout, &mut Sink(sink))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_walked_with_its_losses_and_a_cut_one_as_far_as_it_goes() {
        let mut page = 1_000u64.to_ne_bytes().to_vec();
        let used = 8 + 12u64;
        page.extend((used | 1 << 31 | 1 << 30).to_ne_bytes());
        // Two records of one word and of two, 5 and 7 ns later (little-endian heads).
        page.extend((1u32 | 5 << 5).to_le_bytes());
        page.extend([1; 4]);
        page.extend((2u32 | 7 << 5).to_le_bytes());
        page.extend([2; 8]);
        page.extend(3u64.to_ne_bytes());
        let mut seen = Vec::new();
        let mut sink = |piece: Piece<'_>| {
            seen.push(match piece {
                Piece::Record(time, body) => (time.0, body.len()),
                Piece::Lost(count) => (0, count.map_or(0, |count| count.get() as usize)),
            });
        };
        if cfg!(target_endian = "little") {
            walk_page(&page, &mut sink).unwrap();
            assert!(walk_page(&page[..30], &mut sink).is_err());
            assert_eq!(seen[..3], [(0, 3), (1_005, 4), (1_012, 8)]);
        }
    }
}
