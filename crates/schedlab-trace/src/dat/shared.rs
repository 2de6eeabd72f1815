//! What is the same for all lanes of a file.

use crate::input::Input;
use crate::plan::Decoder;

/// What all lanes need, also in several threads.
pub(super) struct Shared {
    pub(super) input: Input,
    pub(super) decoder: Decoder,
    /// The one that passes the scheduler's events on as others.
    pub(super) passing: Decoder,
}
