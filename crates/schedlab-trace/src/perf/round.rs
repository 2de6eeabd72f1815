//! A round as it was read: the records of each CPU, reduced (`reduced_record`) where that is possible, and what
//! else was learned.
//!
//! A round goes from `round_reader` to `pending`, perhaps on another thread, and comes back empty so that its
//! memory is used again.

use super::cpu_backlog::{Held, sane};
use super::layout::{Ordinary, When};
use crate::argument_text::Spelling;
use crate::fast_decode::REACH;
use crate::name_numbers::Numbers;
use crate::names::News;
use crate::plan::Decoder;
use schedlab_model::{Comm, Pid, TraceInfo, Warning, What};
use std::sync::Arc;

/// Bytes that each of these takes: a reduced record, what is no record beside it, a name or a thread.
const GIST: usize = 32;
/// Bytes of memory that a round keeps when it is handed back, to be filled again, above twice what rounds hold.
const SPARE_MAX: usize = 2 << 20;

/// The records of one round, by CPU.
#[derive(Default)]
pub(super) struct Round {
    /// What each CPU logged.
    pub(super) lanes: Vec<Held>,
    pub(super) count: usize,
    /// The number of bytes of all bodies, and of what is no record.
    bytes: usize,
    /// The weight of the largest round of late.
    usual: usize,
    /// Numbers of names that were given out in it.
    pub(super) news: Vec<News>,
    /// Names of tasks that were there before.
    pub(super) named: Vec<(Pid, Comm)>,
    /// Threads and their processes.
    pub(super) threads: Vec<(Pid, Pid)>,
    /// Where the head went on.
    pub(super) head: Option<Box<HeadUpdate>>,
    /// In the last one.
    pub(super) ended: Option<Box<Ended>>,
}

/// What the head says when a round is over. In a pipe it comes in parts, between the samples.
pub(super) struct HeadUpdate {
    /// But for names of tasks.
    pub(super) info: TraceInfo,
    pub(super) decoder: Arc<Decoder>,
    /// How other tracepoints' arguments are spelt, if anybody asks.
    pub(super) spelling: Option<Spelling>,
    pub(super) warnings: Vec<Warning>,
}

/// What was found at the end.
pub(super) struct Ended {
    /// Where reading stopped before it, and why.
    pub(super) trouble: Option<(u64, String)>,
    /// Samples that make no sense, and such as carry no tracepoint.
    pub(super) broken: u64,
    pub(super) foreign: u64,
    pub(super) warnings: Vec<Warning>,
}

impl Round {
    /// Takes in a sample as it is.
    #[inline(never)]
    pub(super) fn body(&mut self, cpu: u16, time: u64, body: &[u8]) {
        self.count += 1;
        self.bytes += body.len();
        self.lane(cpu).hold_body(time, body);
    }

    /// Takes in a sample, of which nothing is known but its body.
    pub(super) fn sample(
        &mut self,
        When { time, cpu }: When,
        body: &[u8],
        decoder: &Decoder,
        numbers: &mut Numbers,
    ) -> bool {
        let Ok(cpu) = u16::try_from(cpu) else { return false };
        self.lane(cpu);
        let mut bytes = [0; REACH];
        let length = body.len();
        if let Some(start) = bytes.get_mut(..length) {
            start.copy_from_slice(body);
            let when = When { time, cpu: cpu.into() };
            let sample = Ordinary { size: 0, when, rest: &bytes, length };
            return self.ordinary(sample, decoder, numbers);
        }
        self.body(cpu, time, body);
        true
    }

    /// Takes in a sample, unless its CPU is none or new: whether it did.
    #[inline(always)]
    pub(super) fn ordinary(
        &mut self,
        sample: Ordinary<'_>,
        decoder: &Decoder,
        numbers: &mut Numbers,
    ) -> bool {
        let Ordinary { when: When { time, cpu }, rest, length, .. } = sample;
        let Some(lane) = self.lanes.get_mut(cpu as usize) else { return false };
        let held = match rest.first_chunk::<REACH>() {
            Some(bytes) => {
                let known = decoder.known(u16::from_le_bytes([bytes[0], bytes[1]]), length);
                decoder.reduced(known, sane(time), bytes, numbers, |record| lane.hold(record))
            }
            None => false,
        };
        if held {
            self.count += 1;
        } else {
            // Its CPU was looked up: it has 16 bits.
            self.body(cpu as u16, time, &rest[..length]);
        }
        true
    }

    /// Takes in what is no sample.
    pub(super) fn aside(&mut self, cpu: u16, time: u64, what: What) {
        self.count += 1;
        self.bytes += GIST;
        self.lane(cpu).hold_aside(time, what);
    }

    #[inline]
    fn lane(&mut self, cpu: u16) -> &mut Held {
        if usize::from(cpu) >= self.lanes.len() {
            self.lanes.resize_with(usize::from(cpu) + 1, Held::default);
        }
        &mut self.lanes[usize::from(cpu)]
    }

    /// Bytes of memory that it takes, about.
    pub(super) fn weight(&self) -> usize {
        (self.count + self.named.len() + self.threads.len()) * GIST + self.bytes
    }

    /// The time of its newest record.
    pub(super) fn newest(&self) -> u64 {
        self.lanes.iter().map(Held::last).max().unwrap_or(0)
    }

    /// Makes it empty, but for what its lanes hold. One that has much more memory than rounds need gives it back: else
    /// each lane would keep what its largest round took.
    pub(super) fn clear(&mut self) {
        let room: usize = self.lanes.iter().map(Held::room).sum();
        // Large rounds and nearly empty ones take turns.
        self.usual = self.weight().max(self.usual - self.usual / 8);
        if room > 2 * self.usual + SPARE_MAX {
            self.lanes.iter_mut().for_each(|lane| *lane = Held::default());
        }
        (self.count, self.bytes) = (0, 0);
        self.news.clear();
        self.named.clear();
        self.threads.clear();
        (self.head, self.ended) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_weighs_what_its_records_names_and_threads_take() {
        let mut round = Round { count: 3, bytes: 100, ..Round::default() };
        assert_eq!(round.weight(), 3 * GIST + 100);
        round.named.push((Pid(8), [0; 16]));
        round.threads.push((Pid(8), Pid(7)));
        assert_eq!(round.weight(), 5 * GIST + 100);
    }

    #[test]
    fn a_round_gives_memory_back_that_it_no_longer_needs() {
        let mut round = Round::default();
        let mut filled = |cpu, bytes: usize| {
            round.body(cpu, 20, &vec![0; bytes]);
            round.lanes.iter_mut().for_each(Held::clear);
            round.clear();
            round.lanes.iter().map(Held::room).sum::<usize>()
        };
        assert!(filled(1, 100) > 0);
        for cpu in [0, 0, 1] {
            assert!(
                filled(cpu, 2 * SPARE_MAX) >= 2 * SPARE_MAX,
                "perhaps one of the same size follows"
            );
        }
        let rooms: Vec<usize> = (0..8).map(|_| filled(2, 100)).collect();
        assert!(rooms[0] > SPARE_MAX && rooms[7] < SPARE_MAX, "{rooms:?}");
    }

    #[test]
    fn a_round_counts_what_it_takes_in_and_begins_anew() {
        let mut round = Round::default();
        round.body(3, 20, &[0; 10]);
        round.body(1, 30, &[0; 6]);
        round.aside(0, 25, What::Lost { count: None });
        assert_eq!((round.lanes.len(), round.count, round.bytes), (4, 3, 16 + GIST));
        assert_eq!(round.newest(), 30);
        round.threads.push((Pid(8), Pid(7)));
        round.named.push((Pid(8), [0; 16]));
        round.clear();
        assert_eq!((round.count, round.bytes), (0, 0));
        assert!(round.threads.is_empty() && round.named.is_empty());
    }

    #[test]
    fn each_sample_counts_by_its_cpu_and_one_of_no_cpu_is_refused() {
        let decoder = Decoder::new(crate::Encoding::default(), std::iter::empty());
        let (mut round, mut numbers) = (Round::default(), Numbers::default());
        let mut sample =
            |cpu, body: &[u8]| round.sample(When { time: 5, cpu }, body, &decoder, &mut numbers);
        assert!(sample(1, &[0; 16]) && sample(1, &[0; 16]) && sample(0, &[0; REACH + 8]));
        assert!(!sample(u32::MAX, &[0; 16]));
        assert_eq!((round.count, round.lanes.len()), (3, 2));
    }
}
