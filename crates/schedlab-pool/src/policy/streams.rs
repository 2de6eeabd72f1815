//! Streams of jobs that can be switched off. Jobs remember how often theirs was, so a job of before stays cancelled.

use crate::sync::{AtomicBool, Mutex, lock};
use std::sync::atomic::Ordering::SeqCst;

#[derive(Clone, Copy, Default)]
struct Stream {
    is_off: bool,
    generation: u32,
}

/// All streams; stream 0 is always on.
pub(crate) struct Streams {
    used: AtomicBool,
    all: Mutex<Vec<Stream>>,
}

impl Streams {
    pub(crate) fn new() -> Self {
        Self { used: AtomicBool::new(false), all: Mutex::new(Vec::new()) }
    }

    pub(crate) fn set(&self, stream: u16, is_off: bool) {
        if stream == 0 {
            return;
        }
        let mut all = lock(&self.all);
        self.used.store(true, SeqCst);
        if all.len() <= usize::from(stream) {
            all.resize_with(usize::from(stream) + 1, Stream::default);
        }
        let known = &mut all[usize::from(stream)];
        known.generation += u32::from(is_off && !known.is_off);
        known.is_off = is_off;
    }

    /// The generation of a stream, which a job that is posted now keeps.
    pub(crate) fn generation(&self, stream: u16) -> u32 {
        self.of(stream).generation
    }

    /// Whether a job of this generation may run.
    pub(crate) fn is_on(&self, stream: u16, generation: u32) -> bool {
        let known = self.of(stream);
        !known.is_off && known.generation == generation
    }

    fn of(&self, stream: u16) -> Stream {
        if stream == 0 || !self.used.load(SeqCst) {
            return Stream::default();
        }
        lock(&self.all).get(usize::from(stream)).copied().unwrap_or_default()
    }
}
