//! The message thread of the open loop: hands out requests by the clock, whether or not workers are
//! free, and says when each was to start, so that no wait is left out of its latency.

use super::Offers;
use crate::{Behaviour, DialId, Done, Instruments, Op, QueueId, WordId};
use schedlab_model::Nanos;
use schedlab_stats::Random;

const SECOND: u64 = 1_000_000_000;

/// When the requests of a rate come.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrivals {
    /// All of a second at its start.
    Burst,
    /// The requests come at even distances.
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
    /// The rate is shared by this many dispatchers.
    of: u64,
    workers: Vec<(QueueId, WordId)>,
    offers: Offers,
    random: Random,
    turn: usize,
    /// The end of the run: what would be due then is none of its requests.
    end: Nanos,
    /// When the next request is to start, with the part of a nanosecond that is left over, times the rate.
    due: Nanos,
    part: u64,
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
        offers: Offers,
        seed: u64,
    ) -> Self {
        Self {
            arrivals,
            rate,
            of: u64::from(of),
            workers,
            offers,
            random: Random::new(seed),
            turn: 0,
            end: Nanos::MAX,
            due: Nanos::ZERO,
            part: 0,
            left: 0,
            handed: false,
        }
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
                self.part += SECOND % rate;
                self.due += Nanos(SECOND / rate + self.part / rate);
                self.part %= rate;
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
            if self.due >= self.end {
                self.left = 0;
                return Op::SleepUntil(Nanos::MAX);
            }
            if self.due > now {
                return Op::SleepUntil(self.due);
            }
        }
        self.left -= 1;
        instruments.count(self.offers.offered, 1);
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
                self.end = instruments.until().unwrap_or(Nanos::MAX);
                self.left = match self.arrivals {
                    Arrivals::Burst => (instruments.dial(self.rate) / self.of).max(1),
                    _ => 1,
                };
                self.hand_out(now, instruments)
            }
            Done::Pushed { depth } if handed => {
                instruments.sample(self.offers.depth, depth);
                Op::Wake { word: self.workers[worker].1, stamp: now }
            }
            Done::Full => {
                instruments.count(self.offers.dropped, 1);
                self.hand_out(now, instruments)
            }
            _ => self.hand_out(now, instruments),
        }
    }
}
