//! Records that wait for their turn in time, by CPU.
//!
//! perf dumps each CPU's ring in turn and marks the end of a round; events of a round are never older
//! than the newest of the round before the last. So when a round ends, all up to the newest event of
//! the round before it is due. What one CPU logged in one round is handed out as one piece, and its memory
//! is used again.
//!
//! Memory: two rounds (what the rings hold, twice; 32 bytes a record), for any file's size; a file
//! without marks of rounds is cut into pieces (`round`).

use super::cpu_backlog::{Found, Held};
use super::round::Round;
use crate::merge::Out;
use crate::names::Names;
use crate::plan::Decoder;
use schedlab_model::Cpu;

/// Bytes of memory that hold nothing and are kept, to be filled again.
const SPARE_MAX: usize = 32 << 20;

/// All records that wait for their turn, by CPU.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) lanes: Vec<Lane>,
    /// The newest event so far.
    newest: u64,
    /// All up to here can be handed out now.
    pub(super) due: u64,
}

/// What waits of one CPU, in order of time; the second after the first.
#[derive(Default)]
pub(super) struct Lane {
    front: Held,
    back: Held,
}

impl Waiting {
    /// Takes over a round that is over: all up to the end of the one before is due; all there is when it was the
    /// last one. Leaves memory to be used again.
    pub(super) fn accept(&mut self, round: &mut Round, ended: bool) {
        self.due = if ended { u64::MAX } else { self.newest };
        self.newest = self.newest.max(round.newest());
        if self.lanes.len() < round.lanes.len() {
            self.lanes.resize_with(round.lanes.len(), Lane::default);
        }
        for (lane, fresh) in self.lanes.iter_mut().zip(&mut round.lanes) {
            lane.accept(fresh);
        }
        self.trim();
        round.clear();
    }

    /// Gives memory back that holds nothing, where it is much: CPUs that take turns in logging a lot would each keep
    /// what that took.
    fn trim(&mut self) {
        let parts = self.lanes.iter_mut().flat_map(|lane| [&mut lane.front, &mut lane.back]);
        let empty: Vec<&mut Held> = parts.filter(|part| part.time().is_none()).collect();
        if empty.iter().map(|part| part.room()).sum::<usize>() > SPARE_MAX {
            empty.into_iter().for_each(|part| *part = Held::default());
        }
    }

    /// Raises what is older than `time` to it: it came too late. How many there were.
    pub(super) fn raise(&mut self, time: u64) -> u64 {
        let parts = self.lanes.iter_mut().flat_map(|lane| [&mut lane.front, &mut lane.back]);
        parts.map(|part| part.raise(time)).sum()
    }
}

impl Lane {
    /// The time of what is next; `None` when nothing waits, or the second part's turn has come.
    #[inline]
    pub(super) fn time(&self) -> Option<u64> {
        self.front.time()
    }

    /// Goes on to the second part when the first one is through.
    pub(super) fn turn(&mut self) {
        if self.time().is_none() {
            std::mem::swap(&mut self.front, &mut self.back);
            self.back.clear();
        }
    }

    /// What is next, and its time, where all was held with its body.
    pub(super) fn get(&mut self) -> Option<(u64, Found<'_>)> {
        self.turn();
        self.front.get()
    }

    /// Passes over what is next.
    pub(super) fn pass(&mut self) {
        self.front.pass();
    }

    /// Puts the event of what is next; see [`Held::put`].
    #[inline(always)]
    pub(super) fn put(
        &mut self,
        cpu: Cpu,
        decoder: &Decoder,
        names: &mut Names,
        out: &mut impl Out,
    ) -> Option<u64> {
        self.front.put(cpu, decoder, names, out)
    }

    fn accept(&mut self, fresh: &mut Held) {
        fresh.sort();
        let Some(first) = fresh.time() else { return };
        self.turn();
        if self.time().is_none() {
            std::mem::swap(&mut self.front, fresh);
        } else if self.back.time().is_none() && self.front.last() <= first {
            std::mem::swap(&mut self.back, fresh);
        } else {
            self.join(fresh);
        }
        fresh.clear();
    }

    /// Something came that is older than what waits already: all of it is put in order again.
    #[cold]
    fn join(&mut self, fresh: &Held) {
        let mut all = Held::default();
        for part in [&self.front, &self.back, fresh] {
            all.append(part);
        }
        all.sort();
        self.front = all;
        self.back.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in the order in which they are handed out, by round.
    fn handed(rounds: &[&[u64]]) -> Vec<Vec<u64>> {
        let (mut all, mut next) = (Waiting::default(), Round::default());
        let mut out = Vec::new();
        for round in rounds.iter().copied().chain([&[][..]]) {
            for time in round {
                next.body(0, *time, &time.to_le_bytes());
            }
            all.accept(&mut next, out.len() == rounds.len());
            let mut now = Vec::new();
            let due = all.due;
            if let Some(lane) = all.lanes.first_mut() {
                while let Some((time, found)) = lane.get().filter(|(time, _)| *time <= due) {
                    let Found::Body(body) = found else { panic!("a sample") };
                    assert_eq!(body, time.to_le_bytes(), "each has its own body");
                    now.push(time);
                    lane.pass();
                }
            }
            out.push(now);
        }
        out
    }

    #[test]
    fn a_round_is_due_when_the_next_one_has_ended() {
        assert_eq!(
            handed(&[&[1, 2], &[3, 5], &[4, 6]]),
            [vec![], vec![1, 2], vec![3, 4, 5], vec![6]]
        );
    }

    #[test]
    fn what_comes_out_of_order_is_sorted_within_what_still_waits() {
        assert_eq!(handed(&[&[5, 3], &[4, 9, 8]]), [vec![], vec![3, 4, 5], vec![8, 9]]);
        // 1 is later than the end of its round allows: it comes at once, for the reader to raise.
        assert_eq!(handed(&[&[5], &[6], &[1, 7]])[2..], [vec![1, 6], vec![7]]);
    }
}
