//! Which part of which file a process had at an address, as perf's records of mappings and processes tell it.

use schedlab_model::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Mappings that may cover an address: a later one may lie on a part of an older one.
const COVERING_MAX: usize = 16;
/// Forks from one process to the next that mappings are followed through.
const ANCESTORS_MAX: usize = 64;

/// A file that was mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SourceFile {
    /// Where the process saw it. Memory that is no file has a name such as `//anon` or `[vdso]`.
    pub path: String,
    /// What identifies the file's content: the linker's `NT_GNU_BUILD_ID` note, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<Vec<u8>>,
    /// Its device and number: major, minor, inode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inode: Option<(u32, u32, u64)>,
}

/// Where a part of a file was mapped.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    end: u64,
    offset: u64,
    since: u64,
    file: usize,
}

/// What is known of one process.
#[derive(Debug, Default)]
struct Process {
    /// By address, then by age.
    mappings: BTreeMap<u64, Vec<Mapping>>,
    /// When it began or ran another program, and whose mappings it had then.
    begun: Vec<(u64, Option<Pid>)>,
}

/// What all processes had mapped, and when. Files are numbers of who asks.
#[derive(Debug, Default)]
pub struct AddressSpaces {
    processes: BTreeMap<Pid, Process>,
}

impl AddressSpaces {
    /// A process had `length` bytes of a file from `offset` on at `start`, since a time. Mappings come in order of time.
    pub fn mapped(
        &mut self,
        pid: Pid,
        since: u64,
        start: u64,
        length: u64,
        offset: u64,
        file: usize,
    ) {
        let mapping = Mapping { end: start.saturating_add(length), offset, since, file };
        self.processes.entry(pid).or_default().mappings.entry(start).or_default().push(mapping);
    }

    /// A process began, with the mappings of its parent, or ran another program, without any.
    pub fn began(&mut self, pid: Pid, at: u64, parent: Option<Pid>) {
        self.processes.entry(pid).or_default().begun.push((at, parent));
    }

    /// The file at an address of a process at a time, and the place in it.
    #[must_use]
    pub fn find(&self, mut pid: Pid, address: u64, mut time: u64) -> Option<(usize, u64)> {
        for _ in 0..ANCESTORS_MAX {
            let process = self.processes.get(&pid)?;
            let begun = process.begun.iter().rev().find(|(at, _)| *at <= time);
            let since = begun.map_or(0, |(at, _)| *at);
            let at_hand = |of: &&Mapping| (since..=time).contains(&of.since) && address < of.end;
            let below = process.mappings.range(..=address).rev().take(COVERING_MAX);
            let newest = below
                .filter_map(|(start, all)| Some((*start, all.iter().rev().find(at_hand)?)))
                .max_by_key(|(start, of)| (of.since, *start));
            if let Some((start, of)) = newest {
                return Some((of.file, (address - start).wrapping_add(of.offset)));
            }
            (time, pid) = (since, begun?.1?);
        }
        None
    }
}
