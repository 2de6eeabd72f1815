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
    /// Where process and thread lie; 0: nowhere.
    task: usize,
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
        let task = offset(TID);
        let time = offset(TIME);
        offset(ADDR);
        offset(ID);
        offset(STREAM_ID);
        let cpu = offset(CPU);
        offset(PERIOD);
        Self { sample_type, read_format, time, cpu, rest: at, task, trailer, tracepoint: true }
    }

    /// The same of an event that is not a tracepoint, for all samples.
    pub(crate) fn foreign(self) -> Self {
        Self { tracepoint: false, ..self }
    }

    /// Whether each sample says how many events it stands for.
    pub(crate) fn has_period(&self) -> bool {
        self.sample_type & PERIOD != 0
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
        let kind = head as u32;
        let size = (head >> 48) as usize;
        let body = self.rest + 4;
        let length = word(self.rest) as u32 as usize;
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

    /// The words of a sample's call chain; `None` when there is none, or its length makes no sense.
    pub(crate) fn chain<'a>(&self, record: &'a [u8], encoding: Encoding) -> Option<&'a [u8]> {
        if !self.has_chain() {
            return None;
        }
        let counters = Self { sample_type: self.sample_type & !CALLCHAIN, ..*self };
        let at = counters.variable(record, self.rest, encoding)?;
        let count = usize::try_from(encoding.u64(*record.get(at..)?.first_chunk()?)).ok()?;
        record.get(at.checked_add(8)?..)?.get(..count.checked_mul(8)?)
    }

    /// The process of a sample's task; `None` when it does not tell.
    pub(crate) fn process(&self, record: &[u8], encoding: Encoding) -> Option<u32> {
        let at = Some(self.task).filter(|at| *at > 0)?;
        Some(encoding.u32(*record.get(at..)?.first_chunk()?))
    }

    /// Time and CPU at the end of a record that is no sample; missing parts are 0 and `u32::MAX`.
    pub(crate) fn trailer(&self, record: &[u8], encoding: Encoding) -> When {
        self.trailer_with_task(record, encoding).0
    }

    /// The same, and the task that was current; -1 if the record does not tell.
    pub(crate) fn trailer_with_task(&self, record: &[u8], encoding: Encoding) -> (When, i32) {
        let mut when = When { time: 0, cpu: u32::MAX };
        let mut task = -1;
        if !self.trailer {
            return (when, task);
        }
        let mut end = record.len();
        for bit in [IDENTIFIER, CPU, STREAM_ID, ID, TIME, TID] {
            if self.sample_type & bit == 0 {
                continue;
            }
            let Some(at) = end.checked_sub(8).filter(|&at| at >= HEAD) else {
                return (when, task);
            };
            end = at;
            let Some(bytes) = record[at..].first_chunk::<8>() else { return (when, task) };
            match bit {
                CPU => when.cpu = encoding.u32([bytes[0], bytes[1], bytes[2], bytes[3]]),
                TIME => when.time = encoding.u64(*bytes),
                TID => {
                    let tid = encoding.u32([bytes[4], bytes[5], bytes[6], bytes[7]]);
                    task = tid.cast_signed();
                }
                _ => {}
            }
        }
        (when, task)
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

    /// The bits of the parts that are 8 bytes each, in the order of a sample.
    const ALL: u64 = IDENTIFIER
        | IP
        | TID
        | TIME
        | ADDR
        | ID
        | STREAM_ID
        | CPU
        | PERIOD
        | READ
        | CALLCHAIN
        | RAW;

    fn numbers(numbers: &[u64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn the_id_of_an_event_lies_first_or_behind_address_and_time() {
        let at = |sample_type| Layout::new(sample_type, 0, true).id_at();
        assert_eq!(at(ALL), Some(8));
        assert_eq!(at(IP | TID | TIME | ADDR | ID | CPU | RAW), Some(40));
        assert_eq!(at(TIME | ID | STREAM_ID), Some(16));
        assert_eq!(at(IP | TID | TIME | ADDR | CPU | RAW), None);
    }

    #[test]
    fn counters_before_the_raw_part_are_passed_over_alone_and_in_groups() {
        // Both times, and with each value its id and its losses.
        let read_format = 1 | 2 | 4 | 16;
        let raw = [2u32.to_le_bytes().to_vec(), vec![9, 8, 0, 0]].concat();
        let head = numbers(&[0, 7, 3]);
        let body = |read_format: u64, counters: usize| {
            let layout = Layout::new(TIME | CPU | READ | RAW, read_format, true);
            // In a group, the number of its values comes first.
            let mut counters = vec![0; counters];
            if let Some(count) = counters.first_mut().filter(|_| read_format & 8 != 0) {
                *count = 2;
            }
            let record = [head.clone(), numbers(&counters), raw.clone()].concat();
            let (when, body) = layout.sample(&record, Encoding::default())?;
            assert_eq!(when, When { time: 7, cpu: 3 });
            Some(body.to_vec())
        };
        let found = Some(vec![9, 8]);
        assert_eq!(body(0, 1), found);
        assert_eq!(body(1, 2), found);
        assert_eq!(body(4, 2), found);
        assert_eq!(body(16, 2), found);
        assert_eq!(body(read_format, 2 + 3), found);
        assert_eq!(body(read_format | 8, 1 + 2 + 2 * 3), found);
        assert_eq!(body(8, 1 + 2), found);
        assert_eq!(body(4 | 8, 1 + 2 * 2), found);
    }

    #[test]
    fn records_that_are_no_samples_end_with_time_and_cpu() {
        let layout = |sample_type| Layout::new(sample_type, 0, true);
        let encoding = Encoding::default();
        // Task, time, id, stream, CPU, identifier.
        let record = numbers(&[0, 99, 1, 22, 3, 4, 5, 6]);
        assert_eq!(layout(ALL).trailer(&record, encoding), When { time: 22, cpu: 5 });
        let short = numbers(&[0, 22, 5]);
        assert_eq!(layout(TIME | CPU).trailer(&short, encoding), When { time: 22, cpu: 5 });
        assert_eq!(layout(TIME).trailer(&short, encoding), When { time: 5, cpu: u32::MAX });
        let cut = layout(TIME | CPU).trailer(&short[..16], encoding);
        assert_eq!(cut, When { time: 0, cpu: 22 }, "the head of a record is no time");
        let none = Layout::new(TIME | CPU, 0, false).trailer(&short, encoding);
        assert_eq!(none, When { time: 0, cpu: u32::MAX });
    }

    #[test]
    fn a_sample_of_a_tracepoint_has_a_body_a_time_and_a_cpu() {
        let is_tracepoint = |sample_type| Layout::new(sample_type, 0, true).is_tracepoint();
        assert!(is_tracepoint(RAW | TIME | CPU));
        assert!(!is_tracepoint(TIME | CPU) && !is_tracepoint(RAW | CPU));
        assert!(!is_tracepoint(RAW | TIME));
        assert!(!Layout::new(RAW | TIME | CPU, 0, true).foreign().is_tracepoint());
        assert!(Layout::new(CALLCHAIN, 0, true).has_chain());
        assert!(!Layout::new(ALL & !CALLCHAIN, 0, true).has_chain());
    }

    #[test]
    fn an_ordinary_sample_is_read_at_one_go() {
        let (little, big) = (Encoding::default(), Encoding { big_endian: true, long: 8 });
        let ordinary =
            |sample_type, encoding| Layout::new(sample_type, 0, true).is_ordinary(encoding);
        assert!(ordinary(RAW | TIME | CPU, little));
        assert!(!ordinary(RAW | TIME | CPU, big) && !ordinary(RAW | TIME, little));
        assert!(!ordinary(RAW | TIME | CPU | READ, little));
        assert!(!ordinary(RAW | TIME | CPU | CALLCHAIN, little));

        let layout = Layout::new(TIME | CPU | RAW, 0, true);
        // Its head, time, CPU, the length of its body and the body: 40 bytes, and what lies behind them.
        let sample = |kind: u64, size: u64, length: u64| {
            let mut bytes = numbers(&[size << 48 | kind, 7, 3, length | 0xaabb_ccdd << 32, 0x11]);
            bytes.resize(NEAR, 0);
            bytes
        };
        let size = |bytes: &[u8]| {
            layout.ordinary_sample(bytes).map(|sample| (sample.size, sample.length, sample.when))
        };
        let when = When { time: 7, cpu: 3 };
        assert_eq!(size(&sample(9, 40, 12)), Some((40, 12, when)));
        assert_eq!(
            layout.ordinary_sample(&sample(9, 40, 12)).unwrap().rest[..5],
            [0xdd, 0xcc, 0xbb, 0xaa, 0x11]
        );
        assert_eq!(size(&sample(9, 40, 13)), None, "its body is longer than the sample");
        assert_eq!(size(&sample(10, 40, 12)), None, "another kind of record");
        assert_eq!(size(&sample(9, NEAR as u64, 12)), Some((NEAR, 12, when)));
        assert_eq!(size(&sample(9, NEAR as u64 + 8, 12)), None, "it does not lie there whole");
        assert_eq!(size(&sample(9, 40, 12)[..NEAR - 1]), None, "too near to the end");
    }
}
