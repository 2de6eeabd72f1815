//! The records of one CPU after the other, for a source that hands them out one by one.

use super::writer::{Aside, CpuWriter, Writer};
use schedlab_model::Cpu;
use std::io::{self, Seek, Write};

/// A writer and the CPU whose turn it is.
pub(crate) struct PageRun<W: Write + Seek> {
    writer: Writer<W>,
    turn: Option<Turn>,
    buffer: usize,
}

struct Turn {
    place: (usize, Cpu),
    aside: Aside,
}

impl<W: Write + Seek> PageRun<W> {
    pub(crate) fn new(writer: Writer<W>) -> Self {
        Self { writer, turn: None, buffer: 0 }
    }

    /// Hands `write` the records of `cpu` in `buffer`; each has one turn, buffers in order.
    pub(crate) fn with(
        &mut self,
        buffer: usize,
        cpu: Cpu,
        write: impl FnOnce(&mut CpuWriter<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut lane = match self.turn.take() {
            Some(turn) if turn.place == (buffer, cpu) => self.writer.resume(turn.aside),
            before => {
                if let Some(turn) = before {
                    self.writer.resume(turn.aside).finish()?;
                }
                for _ in self.buffer..buffer {
                    self.writer.instance()?;
                }
                self.buffer = buffer;
                self.writer.cpu(cpu)?
            }
        };
        write(&mut lane)?;
        self.turn = Some(Turn { place: (buffer, cpu), aside: lane.aside() });
        Ok(())
    }

    /// Writes the last page and ends the file.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if let Some(turn) = self.turn.take() {
            self.writer.resume(turn.aside).finish()?;
        }
        self.writer.finish()
    }
}
