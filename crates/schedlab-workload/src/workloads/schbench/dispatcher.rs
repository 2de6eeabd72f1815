//! The message thread of the open loop: hands out requests by the clock, whether or not workers are
//! free, and says when each was to start, so that no wait is left out of its latency.

use super::Measured;
use crate::{Behaviour, DialId, Done, Instruments, Op, QueueId, WordId};
use schedlab_model::Nanos;
use schedlab_stats::Random;

const SECOND: u64 = 1_000_000_000;

/// When requests come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrivals {
    /// All of a second at its start.
    Burst,
    /// Evenly.
    Paced,
    /// Independently of each other, with the rate as their mean.
    Poisson,
}

impl Arrivals {
    pub(super) fn named(name: &str) -> Self {
        match name {
            "paced" => Self::Paced,
            "poisson" => Self::Poisson,
            _ => Self::Burst,
        }
    }
}

pub(super) struct Dispatcher {
    arrivals: Arrivals,
    rate: DialId,
    /// The rate is shared by so many dispatchers.
    of: u64,
    workers: Vec<(QueueId, WordId)>,
    measured: Measured,
    random: Random,
    turn: usize,
    /// When the next request is to start.
    due: Nanos,
    /// Requests of this burst that are still to be handed out.
    left: u64,
    handed: bool,
}

impl Dispatcher {
    pub(super) fn new(
        arrivals: Arrivals,
        rate: DialId,
        of: u32,
        workers: Vec<(QueueId, WordId)>,
        measured: Measured,
        seed: u64,
    ) -> Self {
        let random = Random::new(seed);
        let of = u64::from(of);
        let (turn, left, handed, due) = (0, 0, false, Nanos::ZERO);
        Self { arrivals, rate, of, workers, measured, random, turn, due, left, handed }
    }

    /// Moves `due` on by one request; sets how many come then.
    fn plan_next(&mut self, rate: u64) {
        let rate = (rate / self.of).max(1);
        match self.arrivals {
            Arrivals::Burst => {
                self.due += Nanos(SECOND);
                self.left = rate;
            }
            Arrivals::Paced => {
                self.due += Nanos(SECOND / rate);
                self.left = 1;
            }
            Arrivals::Poisson => {
                // The distance between independent arrivals is exponential: -ln(u) / rate.
                let gap = -(1.0 - self.random.unit()).ln() * SECOND as f64 / rate as f64;
                self.due += Nanos(gap as u64);
                self.left = 1;
            }
        }
    }

    /// Hands the next request out, or sleeps until it is due.
    fn hand_out(&mut self, now: Nanos, instruments: &mut dyn Instruments) -> Op {
        if self.left == 0 {
            self.plan_next(instruments.dial(self.rate));
            if self.due > now {
                return Op::SleepUntil(self.due);
            }
        }
        self.left -= 1;
        instruments.count(self.measured.offered, 1);
        self.handed = true;
        let (queue, _) = self.workers[self.turn];
        Op::Push { queue, value: self.due.0 }
    }
}

impl Behaviour for Dispatcher {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        let handed = std::mem::take(&mut self.handed);
        let worker = self.turn;
        if handed {
            self.turn = (self.turn + 1) % self.workers.len();
        }
        match last {
            Done::Stopped | Done::Failed(_) => Op::Exit,
            Done::Start => {
                self.due = now;
                self.left = match self.arrivals {
                    Arrivals::Burst => (instruments.dial(self.rate) / self.of).max(1),
                    _ => 1,
                };
                self.hand_out(now, instruments)
            }
            Done::Pushed { depth } if handed => {
                instruments.sample(self.measured.depth, depth);
                Op::Wake { word: self.workers[worker].1, stamp: now }
            }
            Done::Full => {
                instruments.count(self.measured.dropped, 1);
                self.hand_out(now, instruments)
            }
            _ => self.hand_out(now, instruments),
        }
    }
}
