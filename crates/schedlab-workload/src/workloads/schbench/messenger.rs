//! The message thread of the closed loop: wakes the worker that asked.

use crate::{Behaviour, BlockId, Done, Instruments, Op, QueueId, WordId};
use schedlab_model::Nanos;

pub(super) struct Messenger {
    word: WordId,
    queue: QueueId,
    workers: Vec<WordId>,
    /// In pipe mode: how many bytes of a worker's page are written before it is woken.
    page: Option<u32>,
    pages: Vec<BlockId>,
    /// When the batch under way was found.
    batch: Nanos,
    /// The worker to wake after its page was written.
    filled: Option<usize>,
    waiting: bool,
}

impl Messenger {
    pub(super) const fn new(
        word: WordId,
        queue: QueueId,
        workers: Vec<WordId>,
        page: Option<u32>,
        pages: Vec<BlockId>,
    ) -> Self {
        let batch = Nanos::ZERO;
        Self { word, queue, workers, page, pages, batch, filled: None, waiting: false }
    }
}

impl Behaviour for Messenger {
    fn next(&mut self, now: Nanos, last: Done, _: &mut dyn Instruments) -> Op {
        if let Some(worker) = self.filled.take() {
            return Op::Wake { word: self.workers[worker], stamp: now };
        }
        match last {
            Done::Stopped | Done::Failed(_) => Op::Exit,
            Done::Popped { value, first } => {
                if first {
                    self.batch = now;
                }
                let worker = value as usize;
                match self.page {
                    Some(bytes) => {
                        self.filled = Some(worker);
                        Op::Fill { block: self.pages[worker], bytes }
                    }
                    None => Op::Wake { word: self.workers[worker], stamp: self.batch },
                }
            }
            Done::Empty if !self.waiting => {
                self.waiting = true;
                Op::Wait(self.word)
            }
            _ => {
                self.waiting = false;
                Op::Pop(self.queue)
            }
        }
    }
}
