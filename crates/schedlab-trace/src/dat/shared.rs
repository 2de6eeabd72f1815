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
    #[inline]
    pub(super) fn decoder_of(&self, passing: Option<usize>) -> &Decoder {
        passing.and_then(|index| self.passing.get(index)).unwrap_or(&self.decoder)
    }
}
