//! The record layer: bodies as the kernel wrote them, to be passed on undecoded.

use super::written_head::Header;
use schedlab_model::{Cpu, Nanos, Warning};
use std::io;
use std::num::NonZeroU32;

/// What a page of the kernel's ring buffer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A record's body, and when it was logged.
    Record(Nanos, &'a [u8]),
    /// Events are missing here; how many, where the kernel says.
    Lost(Option<NonZeroU32>),
}

/// Takes records one after the other: the buffer (0: the top one), the CPU, and the record or a
/// loss. An error of it ends the reading.
pub(crate) type Sink<'a> = dyn FnMut(usize, Cpu, Piece<'_>) -> io::Result<()> + 'a;

/// A trace as records. Each CPU's come in order of time; CPUs may take turns.
pub trait RecordSource {
    /// All but the records: formats, names, options, instances.
    fn header(&self) -> &Header;

    /// Hands every record to `sink`.
    ///
    /// # Errors
    /// I/O, or what the sink returns.
    fn each(&mut self, sink: &mut Sink<'_>) -> io::Result<()>;

    /// From the time of a record of this buffer and CPU to the time on the trace's clock: files keep corrections apart.
    fn clock(&self) -> Box<dyn Fn(usize, Cpu, Nanos) -> Nanos> {
        Box::new(|_, _, time| time)
    }

    /// Whether the records come buffer by buffer and CPU by CPU.
    fn by_cpu(&self) -> bool;

    /// What was found wrong; complete when [`Self::each`] has returned.
    fn warnings(&self) -> &[Warning];
}
