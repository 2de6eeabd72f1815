//! Records of mappings and processes: what lay where in the memory of a process.

use super::records;
use crate::address_spaces::SourceFile;
use crate::encoding::Encoding;
use schedlab_model::Pid;

/// Bits of a record's head: the task ran another program, a mapping tells a build id in place of an inode.
const COMM_EXEC: u16 = 1 << 13;
const MMAP_BUILD_ID: u16 = 1 << 14;

/// What a record of perf tells of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceChange {
    /// The process began with the memory of its parent, or, without one, ran another program.
    Began {
        /// The process.
        pid: Pid,
        /// When.
        at: u64,
        /// Whose memory it has.
        parent: Option<Pid>,
    },
    /// It mapped a part of a file.
    Mapped {
        /// The process.
        pid: Pid,
        /// The address, and how many bytes.
        range: (u64, u64),
        /// Where in the file the part begins.
        offset: u64,
        /// The mapped file, with what identifies its content.
        source: SourceFile,
    },
}

impl SpaceChange {
    /// Reads a record with its head; `time` is that of its trailer. `None` if it tells no such thing.
    #[must_use]
    pub fn of(kind: u32, record: &[u8], time: u64, encoding: Encoding) -> Option<Self> {
        let u32_at = |at: usize| Some(encoding.u32(*record.get(at..)?.first_chunk()?));
        let u64_at = |at: usize| Some(encoding.u64(*record.get(at..)?.first_chunk()?));
        let pid = |at: usize| Some(Pid(u32_at(at)?.cast_signed()));
        let misc = encoding.u16(*record.get(4..)?.first_chunk()?);
        match kind {
            records::COMM if misc & COMM_EXEC != 0 => {
                Some(Self::Began { pid: pid(8)?, at: time, parent: None })
            }
            // A thread has the mappings of its process.
            records::FORK if u32_at(8)? != u32_at(12)? => {
                Some(Self::Began { pid: pid(8)?, at: u64_at(24)?, parent: Some(pid(12)?) })
            }
            records::MMAP | records::MMAP2 => {
                let range = (u64_at(16)?, u64_at(24)?);
                let offset = u64_at(32)?;
                let mut build_id = None;
                let mut inode = None;
                if kind == records::MMAP2 {
                    let size = usize::from(*record.get(40)?).min(20);
                    match misc & MMAP_BUILD_ID != 0 {
                        true => build_id = Some(record.get(44..44 + size)?.to_vec()),
                        false => inode = Some((u32_at(40)?, u32_at(44)?, u64_at(48)?)),
                    }
                }
                let name = record.get(if kind == records::MMAP2 { 72 } else { 40 }..)?;
                let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
                let path = String::from_utf8_lossy(name).into_owned();
                let source = SourceFile { path, build_id, inode };
                Some(Self::Mapped { pid: pid(8)?, range, offset, source })
            }
            _ => None,
        }
    }
}
