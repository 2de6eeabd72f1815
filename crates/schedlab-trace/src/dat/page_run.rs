//! The records of one CPU after the other, for a source that hands them out one by one.

use super::writer::{CpuWriter, PausedCpu, Writer};
use schedlab_model::Cpu;
use std::io::{self, Seek, Write};

/// A writer and the CPU whose turn it is.
pub(crate) struct PageRun<W: Write + Seek> {
    writer: Writer<W>,
    current: Option<CurrentCpu>,
    buffer: usize,
}

struct CurrentCpu {
    place: (usize, Cpu),
    paused: PausedCpu,
}

impl<W: Write + Seek> PageRun<W> {
    pub(crate) fn new(writer: Writer<W>) -> Self {
        Self { writer, current: None, buffer: 0 }
    }

    /// Hands `write` the records of `cpu` in `buffer`; each has one turn, buffers in order.
    pub(crate) fn with(
        &mut self,
        buffer: usize,
        cpu: Cpu,
        write: impl FnOnce(&mut CpuWriter<'_, W>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut lane = match self.current.take() {
            Some(current) if current.place == (buffer, cpu) => self.writer.resume(current.paused),
            before => {
                if let Some(current) = before {
                    self.writer.resume(current.paused).finish()?;
                }
                for _ in self.buffer..buffer {
                    self.writer.instance()?;
                }
                self.buffer = buffer;
                self.writer.cpu(cpu)?
            }
        };
        write(&mut lane)?;
        self.current = Some(CurrentCpu { place: (buffer, cpu), paused: lane.pause() });
        Ok(())
    }

    /// Writes the last page and ends the file.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if let Some(current) = self.current.take() {
            self.writer.resume(current.paused).finish()?;
        }
        self.writer.finish()
    }
}
