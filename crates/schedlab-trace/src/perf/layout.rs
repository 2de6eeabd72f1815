//! Where the parts of a sample lie: it depends on what its event was asked to record.

use crate::encoding::Encoding;

/// The type of a record that holds a sample.
pub(crate) const SAMPLE: u32 = 9;

/// Bits of `sample_type`, in the order in which their parts follow each other in a sample.
const IDENTIFIER: u64 = 1 << 16;
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const ID: u64 = 1 << 6;
const STREAM_ID: u64 = 1 << 9;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const RAW: u64 = 1 << 10;

/// Bytes of a record's head.
pub(crate) const HEAD: usize = 8;

/// The parts of one event's records that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    sample_type: u64,
    read_format: u64,
    /// Offsets in a sample; 0: it has none.
    time: usize,
    cpu: usize,
    /// Where the variable part (or the raw part) begins.
    rest: usize,
    /// Whether records that are no samples end with time and CPU too.
    trailer: bool,
    /// Whether its event is a tracepoint.
    tracepoint: bool,
}

/// Where a record happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct When {
    pub(crate) time: u64,
    pub(crate) cpu: u32,
}

/// A sample without anything of a variable length before its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordinary<'a> {
    pub(crate) size: usize,
    pub(crate) when: When,
    /// What lies in memory from its body on, and how long that is.
    pub(crate) rest: &'a [u8],
    pub(crate) length: usize,
}

/// Bytes of an ordinary sample in which all lies that is looked at: its parts are 8 bytes each, and there are nine
/// before its body.
const NEAR: usize = 128;

impl Layout {
    /// From `perf_event_attr`: `sample_type`, `read_format`, and whether `sample_id_all` is set.
    pub(crate) fn new(sample_type: u64, read_format: u64, trailer: bool) -> Self {
        let mut at = HEAD;
        let mut offset = |bit: u64| {
            let here = at;
            let present = sample_type & bit != 0;
            at += if present { 8 } else { 0 };
            if present { here } else { 0 }
        };
        offset(IDENTIFIER);
        offset(IP);
        offset(TID);
        let time = offset(TIME);
        offset(ADDR);
        offset(ID);
        offset(STREAM_ID);
        let cpu = offset(CPU);
        offset(PERIOD);
        Self { sample_type, read_format, time, cpu, rest: at, trailer, tracepoint: true }
    }

    /// The same of an event that is not a tracepoint, for all samples.
    pub(crate) fn foreign(self) -> Self {
        Self { tracepoint: false, ..self }
    }

    /// Whether samples hold a call chain.
    pub(crate) fn has_chain(&self) -> bool {
        self.sample_type & CALLCHAIN != 0
    }

    /// Whether samples carry a tracepoint's record, a time and a CPU.
    pub(crate) fn is_tracepoint(&self) -> bool {
        self.tracepoint && self.sample_type & RAW != 0 && self.time != 0 && self.cpu != 0
    }

    /// Whether the first number of a sample is its event's id.
    pub(crate) fn has_identifier(&self) -> bool {
        self.sample_type & IDENTIFIER != 0
    }

    /// Where the id of an event lies in its samples; `None` when it has none.
    pub(crate) fn id_at(&self) -> Option<usize> {
        if self.has_identifier() {
            return Some(HEAD);
        }
        let before = [IP, TID, TIME, ADDR];
        let before = before.iter().filter(|&&bit| self.sample_type & bit != 0).count();
        (self.sample_type & ID != 0).then_some(HEAD + before * 8)
    }

    /// Whether [`Self::ordinary_sample`] reads its samples.
    pub(crate) fn is_ordinary(&self, encoding: Encoding) -> bool {
        self.is_tracepoint() && self.sample_type & (READ | CALLCHAIN) == 0 && !encoding.big_endian
    }

    /// The sample that `bytes` begin with; `None` when they begin with something else, or its lengths make no
    /// sense, or nearly at their end.
    #[inline(always)]
    pub(crate) fn ordinary_sample<'a>(&self, bytes: &'a [u8]) -> Option<Ordinary<'a>> {
        let words = bytes.first_chunk::<NEAR>()?.as_chunks::<8>().0;
        // No check is left of it: a word's number is below sixteen.
        let word = |at: usize| u64::from_le_bytes(words[at / 8 % (NEAR / 8)]);
        let head = word(0);
        let (kind, size) = (head as u32, (head >> 48) as usize);
        let (body, length) = (self.rest + 4, word(self.rest) as u32 as usize);
        let rest = bytes.get(body..)?;
        let whole = kind == SAMPLE && size <= bytes.len() && body + length <= size;
        let when = When { time: word(self.time), cpu: word(self.cpu) as u32 };
        whole.then_some(Ordinary { size, when, rest, length })
    }

    /// Time, CPU and body of a sample; `None` when its lengths make no sense.
    #[inline]
    pub(crate) fn sample<'a>(
        &self,
        record: &'a [u8],
        encoding: Encoding,
    ) -> Option<(When, &'a [u8])> {
        let time = encoding.u64(*record.get(self.time..)?.first_chunk()?);
        let cpu = encoding.u32(*record.get(self.cpu..)?.first_chunk()?);
        let mut at = self.rest;
        if self.sample_type & (READ | CALLCHAIN) != 0 {
            at = self.variable(record, at, encoding)?;
        }
        let size = encoding.u32(*record.get(at..)?.first_chunk()?) as usize;
        let body = record.get(at + 4..)?.get(..size)?;
        Some((When { time, cpu }, body))
    }

    #[cold]
    fn variable(&self, record: &[u8], mut at: usize, encoding: Encoding) -> Option<usize> {
        let number = |at: usize| Some(encoding.u64(*record.get(at..)?.first_chunk()?));
        if self.sample_type & READ != 0 {
            let times = (self.read_format & 3).count_ones() as usize;
            let each =
                1 + (self.read_format >> 2 & 1) as usize + (self.read_format >> 4 & 1) as usize;
            let values = if self.read_format & 8 == 0 {
                times + each
            } else {
                let count = usize::try_from(number(at)?).ok()?;
                1 + times + each.checked_mul(count)?
            };
            at = at.checked_add(values.checked_mul(8)?)?;
        }
        if self.sample_type & CALLCHAIN != 0 {
            let count = usize::try_from(number(at)?).ok()?;
            at = at.checked_add(8)?.checked_add(count.checked_mul(8)?)?;
        }
        Some(at)
    }

    /// Time and CPU at the end of a record that is no sample; missing parts are 0 and `u32::MAX`.
    pub(crate) fn trailer(&self, record: &[u8], encoding: Encoding) -> When {
        let mut when = When { time: 0, cpu: u32::MAX };
        if !self.trailer {
            return when;
        }
        let mut end = record.len();
        for bit in [IDENTIFIER, CPU, STREAM_ID, ID, TIME, TID] {
            if self.sample_type & bit == 0 {
                continue;
            }
            let Some(at) = end.checked_sub(8).filter(|&at| at >= HEAD) else { return when };
            end = at;
            let Some(bytes) = record[at..].first_chunk::<8>() else { return when };
            match bit {
                CPU => when.cpu = encoding.u32([bytes[0], bytes[1], bytes[2], bytes[3]]),
                TIME => when.time = encoding.u64(*bytes),
                _ => {}
            }
        }
        when
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_in_the_kernels_order() {
        let layout = Layout::new(IDENTIFIER | IP | TID | TIME | CPU | PERIOD | RAW, 0, true);
        assert_eq!((layout.time, layout.cpu, layout.rest), (32, 40, 56));
        let mut record = vec![0; 56];
        record[32] = 7;
        record[40] = 3;
        record.extend([2, 0, 0, 0, 9, 8, 0, 0]);
        let (when, body) = layout.sample(&record, Encoding::default()).unwrap();
        assert_eq!((when, body), (When { time: 7, cpu: 3 }, &[9u8, 8][..]));
        record[56] = 200;
        assert_eq!(layout.sample(&record, Encoding::default()), None, "longer than the record");
    }

    #[test]
    fn a_call_chain_before_the_raw_part_is_passed_over() {
        let layout = Layout::new(TIME | CPU | CALLCHAIN | RAW, 0, true);
        let mut record = vec![0; 24];
        record.extend(2u64.to_le_bytes());
        record.extend([0; 16]);
        record.extend([1, 0, 0, 0, 42, 0, 0, 0]);
        assert_eq!(layout.sample(&record, Encoding::default()).unwrap().1, [42]);
        record[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(layout.sample(&record, Encoding::default()), None);
    }
}
