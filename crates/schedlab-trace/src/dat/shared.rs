//! What is the same for all lanes of a file.

use crate::input::Input;
use crate::plan::Decoder;

/// What all lanes need, also in several threads.
pub(super) struct Shared {
    pub(super) input: Input,
    pub(super) decoder: Decoder,
    /// Those that pass on as others which of the scheduler's events earlier buffers tell.
    pub(super) passing: Vec<Decoder>,
}

impl Shared {
    /// The decoder of a lane: one of those that pass events on, if it has such.
    #[inline(always)]
    pub(super) fn decoder_of(&self, passing: Option<usize>) -> &Decoder {
        match passing {
            None => &self.decoder,
            Some(index) => self.passing_on(index),
        }
    }

    #[cold]
    fn passing_on(&self, index: usize) -> &Decoder {
        self.passing.get(index).unwrap_or(&self.decoder)
    }
}
