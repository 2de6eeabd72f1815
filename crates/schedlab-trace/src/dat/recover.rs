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

/// How many chunks of a CPU are searched for the name of its idle task, at most.
const SEARCHED: usize = 64;
/// No chunk is larger, packed or unpacked: trace-cmd's have ten pages.
const CHUNK_MAX: u32 = 1 << 24;
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
        let mut found = Vec::<(Cpu, Range<u64>)>::new();
        let mut at = data.start;
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
            let number = cursor.u16().ok()?;
            let flags = cursor.u16().ok()?;
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
            let packed = cursor.u32()?;
            let size = cursor.u32()?;
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
        let mut named = None;
        let mut bytes = Vec::new();
        let mut unpacked = Vec::new();
        let count = cursor.u32().ok()? as usize;
        for _ in 0..count.min(SEARCHED) {
            let (Ok(packed), Ok(size)) = (cursor.u32(), cursor.u32()) else { break };
            // Of what is searched and forgotten, one chunk at a time is in memory.
            let left = input.len().saturating_sub(cursor.offset());
            if u64::from(packed) > left || packed > CHUNK_MAX || size > CHUNK_MAX {
                break;
            }
            bytes.resize(packed as usize, 0);
            let Ok(read) = input.read_at(cursor.offset(), &mut bytes) else { break };
            bytes.truncate(read);
            cursor.seek(cursor.offset() + u64::from(packed));
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

    /// A section of version 7: its number, its flags and its content.
    fn section(number: u16, flags: u16, content: &[u8]) -> Vec<u8> {
        let head = [number.to_le_bytes(), flags.to_le_bytes(), [0; 2], [0; 2]].concat();
        let size = content.len() as u64;
        [&head[..], &size.to_le_bytes(), content].concat()
    }

    /// One CPU's data: how many chunks it has, and each of these packed, with both sizes.
    fn data(chunks: &[&[u8]]) -> Vec<u8> {
        let mut data = u32::try_from(chunks.len()).unwrap().to_le_bytes().to_vec();
        for chunk in chunks {
            let packed = zstd::bulk::compress(chunk, 1).unwrap();
            data.extend([packed.len(), chunk.len()].iter().flat_map(|n| (*n as u32).to_le_bytes()));
            data.extend(packed);
        }
        data
    }

    /// The CPUs of a file whose sections begin at 16, and whose data is aligned to 64 bytes.
    fn cpus(sections: &[Vec<u8>], parts: &[Vec<u8>]) -> Option<Vec<(u16, Range<u64>)>> {
        let mut file = [vec![0; 16], sections.concat()].concat();
        let head = file.len() + 16;
        let mut content = Vec::new();
        for part in parts {
            let at = head + content.len();
            content.resize(content.len() + at.next_multiple_of(64) - at, 0);
            content.extend(part);
        }
        file.extend(section(id::BUFFER, id::FLAG_COMPRESSED, &content));
        let input = Input::memory(std::path::Path::new("x"), file);
        let place = Place {
            encoding: Encoding::default(),
            packing: Packing::Zstd,
            sections: 16,
            align: 64,
        };
        let cpus = place.cpus(&input)?;
        Some(cpus.into_iter().map(|(cpu, range)| (cpu.0, range)).collect())
    }

    #[test]
    fn the_data_of_each_cpu_is_found_by_the_name_of_its_idle_task() {
        let [zero, two] = [data(&[b"..", b"swapper/0\0"]), data(&[b"swapper/2\0", b"swapper/2\0"])];
        let found = cpus(&[section(99, 0, &[0; 32])], &[zero.clone(), two.clone()]).unwrap();
        // Behind two sections of 16 + 32 and 16 bytes, each at a multiple of 64.
        let second = (128 + zero.len() as u64).next_multiple_of(64);
        let expected = [(0, 128..128 + zero.len() as u64), (2, second..second + two.len() as u64)];
        assert_eq!(found, expected);
    }

    #[test]
    fn data_whose_cpu_is_not_sure_is_left_out() {
        let of = |name: &[u8]| data(&[name]);
        let both = data(&[b"swapper/1\0", b"swapper/2\0"]);
        let parts = [of(b"swapper/1\0"), of(b"nothing"), both, of(b"swapper/3\0")];
        let found: Vec<u16> = cpus(&[], &parts).unwrap().into_iter().map(|(cpu, _)| cpu).collect();
        assert_eq!(found, [1, 3]);
        // CPUs stand in order: a second CPU 3, or an earlier one, is another's.
        let parts = [of(b"swapper/3\0"), of(b"swapper/3\0"), of(b"swapper/1\0")];
        assert_eq!(cpus(&[], &parts).unwrap().len(), 1);
        assert_eq!(cpus(&[], &[of(b"nothing")]), None);
    }

    #[test]
    fn data_that_is_cut_goes_to_the_end_and_nonsense_ends_the_search() {
        let whole = data(&[b"swapper/0\0", b"swapper/0\0"]);
        let cut = whole[..whole.len() - 5].to_vec();
        let expected = [(0, 64..64 + cut.len() as u64)];
        assert_eq!(cpus(&[], &[cut]).unwrap(), expected);
        let mut wrong = data(&[b"swapper/0\0"]);
        wrong[4..8].fill(0);
        assert_eq!(cpus(&[], &[wrong]), None, "a chunk of no bytes");
        let mut wrong = data(&[b"swapper/0\0"]);
        wrong[8..12].copy_from_slice(&(CHUNK_MAX + 1).to_le_bytes());
        assert_eq!(cpus(&[], &[wrong]), None, "a chunk larger than any");
    }

    #[test]
    fn a_buffer_that_is_not_packed_or_not_there_tells_nothing() {
        let plain = section(id::BUFFER, 0, &data(&[b"swapper/0\0"]));
        assert_eq!(cpus(&[plain], &[data(&[b"swapper/0\0"])]), None, "the first one counts");
        let empty = section(id::BUFFER, 0, &[]);
        let found = cpus(&[empty], &[data(&[b"swapper/0\0"])]).unwrap();
        assert_eq!(found[0].0, 0, "one without records is passed over");
    }
}
