//! The worker: waits for a request, does it, measures both.

use super::Measured;
use crate::{Behaviour, BlockId, Done, Instruments, Op, QueueId, WordId};
use schedlab_model::{Nanos, Phase};

#[derive(Clone, Copy)]
pub(super) struct Orders {
    /// Matrices of its own, and how often they are multiplied.
    pub(super) private: (BlockId, u32),
    /// Matrices of all, and how often.
    pub(super) shared: Option<(BlockId, u32)>,
    pub(super) sleep: Nanos,
    /// Whether the lock of the CPU is held during the work.
    pub(super) locking: bool,
    /// Whether the sleep is part of the request's latency.
    pub(super) sleep_counts: bool,
}

/// How requests come to a worker.
#[derive(Clone, Copy)]
pub(super) enum Duty {
    /// The worker asks for each.
    Closed {
        /// The message thread's stack.
        queue: QueueId,
        /// The message thread's word.
        messenger: WordId,
        /// What stands for this worker on the stack.
        index: u64,
        /// In pipe mode: its page, and how many bytes of it are written.
        page: Option<(BlockId, u32)>,
    },
    /// They come by the clock.
    Rate {
        /// The queue that holds the requests.
        queue: QueueId,
        /// Whether latency leaves out the time since the request was to start, and a wakeup counts
        /// that found the worker at work.
        upstream: bool,
    },
}

#[derive(Clone, Copy)]
enum At {
    /// To begin: in pipe mode the page is written first.
    Ask,
    Queue,
    WakeMessenger,
    Wait,
    Woken,
    Sleep,
    Lock,
    Shared,
    Private,
    Unlock,
}

/// The mark from the begin of a request's work to its end.
const REQUEST: u32 = 0;

pub(super) struct Worker {
    word: WordId,
    duty: Duty,
    orders: Orders,
    measured: Measured,
    at: At,
    /// From when the request under way counts.
    began: Nanos,
}

impl Worker {
    pub(super) const fn new(word: WordId, duty: Duty, orders: Orders, measured: Measured) -> Self {
        Self { word, duty, orders, measured, at: At::Ask, began: Nanos::ZERO }
    }

    /// The first operation of the next request.
    fn ask(&mut self) -> Op {
        match self.duty {
            Duty::Closed { page: Some((block, bytes)), .. } if matches!(self.at, At::Ask) => {
                self.at = At::Queue;
                Op::Fill { block, bytes }
            }
            Duty::Closed { queue, index, .. } => {
                self.at = At::WakeMessenger;
                Op::Push { queue, value: index }
            }
            Duty::Rate { queue, .. } => {
                self.at = At::Wait;
                Op::Pop(queue)
            }
        }
    }

    /// The request's first operation; the closed loop counts from here.
    fn start(&mut self, now: Nanos, began: Nanos) -> Op {
        self.began = began;
        self.at = At::Sleep;
        if self.orders.sleep > Nanos::ZERO { Op::Sleep(self.orders.sleep) } else { self.work(now) }
    }

    /// What follows the sleep.
    fn work(&mut self, now: Nanos) -> Op {
        if !self.orders.sleep_counts {
            self.began = now;
        }
        self.at = At::Lock;
        if self.orders.locking { Op::LockCpu } else { self.multiply() }
    }

    fn multiply(&mut self) -> Op {
        let (block, times) = match (self.at, self.orders.shared) {
            (At::Lock, Some((block, times))) if times > 0 => {
                self.at = At::Shared;
                (block, times)
            }
            _ => {
                self.at = At::Private;
                self.orders.private
            }
        };
        Op::Multiply { block, times }
    }
}

impl Behaviour for Worker {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if matches!(last, Done::Stopped | Done::Failed(_)) {
            return Op::Exit;
        }
        match self.at {
            At::Ask | At::Queue => self.ask(),
            At::WakeMessenger => {
                let Duty::Closed { messenger, .. } = self.duty else { unreachable!("closed loop") };
                self.at = At::Wait;
                Op::Wake { word: messenger, stamp: now }
            }
            At::Wait => match last {
                Done::Popped { value, .. } => {
                    let intended = matches!(self.duty, Duty::Rate { upstream: false, .. });
                    let began = if intended { Nanos(value) } else { now };
                    instruments.mark(now, REQUEST, Phase::Begin);
                    self.start(now, began)
                }
                _ => {
                    self.began = now;
                    self.at = At::Woken;
                    Op::Wait(self.word)
                }
            },
            At::Woken => {
                // Who was woken while at work did not sleep: what it took to come here is no wakeup.
                let slept = |stamp| {
                    !matches!(self.duty, Duty::Rate { upstream: false, .. }) || stamp >= self.began
                };
                if let Done::Woken { stamp } = last
                    && slept(stamp)
                {
                    self.measured.wakeup(stamp, now, instruments);
                }
                match self.duty {
                    Duty::Rate { .. } => self.ask(),
                    Duty::Closed { page: Some(_), .. } => {
                        instruments.count(self.measured.requests, 1);
                        self.at = At::Ask;
                        self.ask()
                    }
                    Duty::Closed { .. } => {
                        instruments.mark(now, REQUEST, Phase::Begin);
                        self.start(now, now)
                    }
                }
            }
            At::Sleep => self.work(now),
            At::Lock | At::Shared => self.multiply(),
            At::Private if self.orders.locking => {
                self.at = At::Unlock;
                Op::UnlockCpu
            }
            At::Private | At::Unlock => {
                instruments.mark(now, REQUEST, Phase::End);
                self.measured.request(self.began, now, instruments);
                instruments.count(self.measured.requests, 1);
                self.at = At::Ask;
                self.ask()
            }
        }
    }
}
