//! Version 7 of trace-cmd, cut before its list of each CPU's pages: what can be told without the list.
//!
//! The sections lie one behind the other, so that of the records is found. Packed, each CPU's data begins at a
//! page's boundary and says how many chunks it has, so one CPU's end is known, and where the next
//! begins. Which CPU it is, its own switches say: each idle task is called `swapper/N`. Where none says
//! it, or they contradict each other, the data is left out rather than taken for another CPU's. Unpacked data
//! says neither.

use super::options as id;
use super::pages::{Packing, Unpacker, inflate};
use crate::encoding::Encoding;
use crate::input::{Cursor, Input, Stop};
use schedlab_model::Cpu;
use std::ops::Range;

/// Chunks of a CPU that are searched for the name of its idle task.
const SEARCHED: usize = 64;
/// No chunk is larger, packed or unpacked: trace-cmd's have ten pages.
const CHUNK_MAX: u32 = 1 << 26;
/// The name of an idle task starts with it.
const IDLE: &[u8] = b"swapper/";

/// Where a file's sections begin, and how they are packed.
pub(super) struct Place {
    pub(super) encoding: Encoding,
    pub(super) packing: Packing,
    /// The offset of the sections behind the head.
    pub(super) sections: u64,
    /// What each CPU's data is aligned to.
    pub(super) align: u64,
}

impl Place {
    /// Each CPU of the first buffer that holds data, as far as its name is known, and where its data lies, of which
    /// the last may be cut; `None` when there is none or it is not packed.
    pub(super) fn cpus(&self, input: &Input) -> Option<Vec<(Cpu, Range<u64>)>> {
        let data = self.buffer(input)?;
        let end = data.end.min(input.len());
        let (mut found, mut at) = (Vec::<(Cpu, Range<u64>)>::new(), data.start);
        loop {
            at = at.checked_next_multiple_of(self.align)?;
            if at >= end {
                break;
            }
            let part = self.part(input, at..end).ok()?;
            let after = found.last().map(|(cpu, _)| *cpu);
            let named = self.named(input, at).filter(|cpu| after.is_none_or(|after| after < *cpu));
            found.extend(named.map(|cpu| (cpu, part.clone())));
            at = part.end;
        }
        (!found.is_empty()).then_some(found)
    }

    /// Goes over the sections to that of a buffer's records.
    fn buffer(&self, input: &Input) -> Option<Range<u64>> {
        let mut at = self.sections;
        while at < input.len() {
            let mut cursor = Cursor::new(input, self.encoding, at);
            let (number, flags) = (cursor.u16().ok()?, cursor.u16().ok()?);
            let _description = cursor.u32().ok()?;
            let size = cursor.u64().ok()?;
            let start = cursor.offset();
            let end = start.checked_add(size)?;
            if number == id::BUFFER && size > 0 {
                return (flags & id::FLAG_COMPRESSED != 0).then_some(start..end);
            }
            at = end;
        }
        None
    }

    /// The data of one CPU that begins at `within.start`: to the end of its last chunk, or of what is there.
    fn part(&self, input: &Input, within: Range<u64>) -> Result<Range<u64>, Stop> {
        let mut cursor = Cursor::new(input, self.encoding, within.start);
        let count = cursor.u32()?;
        for _ in 0..count {
            let at = cursor.offset();
            if at.saturating_add(8) >= within.end {
                return Ok(within);
            }
            let (packed, size) = (cursor.u32()?, cursor.u32()?);
            if packed == 0 || packed > CHUNK_MAX || size > CHUNK_MAX {
                return Err(Stop { offset: at, what: format!("a chunk of {packed} bytes") });
            }
            cursor.seek(at + 8 + u64::from(packed));
        }
        Ok(within.start..cursor.offset().min(within.end))
    }

    /// The CPU that the idle task's name says; `None` where no name or several are found.
    fn named(&self, input: &Input, at: u64) -> Option<Cpu> {
        let mut cursor = Cursor::new(input, self.encoding, at);
        let (mut named, mut unpacked) = (None, Vec::new());
        let count = cursor.u32().ok()? as usize;
        for _ in 0..count.min(SEARCHED) {
            let (Ok(packed), Ok(size)) = (cursor.u32(), cursor.u32()) else { break };
            let Ok(bytes) = cursor.bytes(packed.into()) else { break };
            let unpacker = &mut Unpacker::default();
            if inflate(unpacker, self.packing, &bytes, size as usize, &mut unpacked).is_err() {
                break;
            }
            for cpu in idle_names(&unpacked) {
                if named.replace(cpu).is_some_and(|before| before != cpu) {
                    return None;
                }
            }
        }
        named
    }
}

/// The numbers of all `swapper/N` that end with a NUL.
fn idle_names(bytes: &[u8]) -> impl Iterator<Item = Cpu> {
    let starts = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(IDLE));
    starts.filter_map(|at| {
        let rest = &bytes[at + IDLE.len()..];
        let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
        let number = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        (rest[digits] == 0).then_some(Cpu(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_idle_tasks_are_numbers_of_cpus() {
        let bytes = b"..swapper/12\0\0swapper/\0swapper/3x\0swapper/7\0swapper/99999\0swapper/4";
        assert!(idle_names(bytes).eq([Cpu(12), Cpu(7)]));
    }
}
