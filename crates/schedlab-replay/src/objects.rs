//! Objects that tasks share, from their calls: which writers fill what a reader empties, and how much there is room for.
//!
//! The number of a file says nothing about other processes, so wakeups do: where a task that writes wakes a task that
//! sleeps in a read, or the other way round, both ends belong to one object. An end without such a wakeup belongs to
//! the object of the ends of the same number in tasks that descend from the same task, if that is one object.

use crate::calls::{Call, End, Way};
use schedlab_timeline::TaskId;
use schedlab_workload::demand::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Of 100 wakeups of an end, this many name the same partner.
const AGREES: u64 = 90;
/// What an object may have held before the trace began: the room of a pipe.
const BEFORE: i64 = 65_536;

/// What happens to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The task of a call goes to sleep in it.
    Sleeps(u32),
    /// A call that moved bytes ends.
    Moves(u32),
}

/// Calls in the order of their effects, and what ties their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) all: Vec<Call>,
    /// Calls in the order in which bytes came or went.
    pub(crate) order: Vec<Moment>,
    /// Wakeups from a writing end to a reading one, or back.
    links: BTreeMap<(End, End), u64>,
    /// The task by which each task was forked.
    pub(crate) parents: BTreeMap<TaskId, TaskId>,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is replayed as it was: its wait, if it had one, ended as recorded.
    #[default]
    AsRecorded,
    /// It moves these bytes of an object.
    Moves { object: u32, bytes: u32 },
}

/// The objects of a trace, and what became of each call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) objects: Vec<Object>,
    /// What became of each call, by its number.
    pub(crate) fates: Vec<Fate>,
    /// Calls that moved bytes.
    pub(crate) calls: u64,
    /// Calls among them at ends that could not be tied to one object.
    pub(crate) unknown: u64,
    /// Waits for futexes that found what they waited for.
    pub(crate) futexes: u64,
}

impl Found {
    pub(crate) fn is_known(&self, call: u32) -> bool {
        matches!(self.fates.get(call as usize), Some(Fate::Moves { .. }))
    }
}

impl Calls {
    /// A wakeup between two calls.
    pub(crate) fn link(&mut self, one: u32, other: u32) {
        let (one, other) = (self.all[one as usize].end, self.all[other as usize].end);
        let pair = match (one.way, other.way) {
            (Way::Writes, Way::Reads) => (one, other),
            (Way::Reads, Way::Writes) => (other, one),
            _ => return,
        };
        *self.links.entry(pair).or_default() += 1;
    }

    /// The task from which a task and its relatives descend.
    fn ancestor(&self, task: TaskId) -> TaskId {
        let mut at = task;
        // A pid that is used again cannot lead in a circle: numbers of tasks are given once.
        while let Some(parent) = self.parents.get(&at) {
            at = *parent;
        }
        at
    }

    /// The reading end to which each end belongs.
    fn partners(&self) -> BTreeMap<End, End> {
        let mut of: BTreeMap<End, BTreeMap<End, u64>> = BTreeMap::new();
        for ((writer, reader), times) in &self.links {
            *of.entry(*writer).or_default().entry(*reader).or_default() += times;
        }
        let mut known = BTreeMap::new();
        for (writer, readers) in &of {
            let all: u64 = readers.values().sum();
            let most = readers.iter().max_by_key(|(_, times)| **times);
            if let Some((reader, _)) = most.filter(|(_, times)| **times * 100 >= all * AGREES) {
                known.insert(*writer, *reader);
            }
        }
        self.add_relatives(&mut known);
        known
    }

    /// Ends without a wakeup belong where those of the same number in relatives do.
    fn add_relatives(&self, known: &mut BTreeMap<End, End>) {
        let mut by_number: BTreeMap<(TaskId, u64), BTreeSet<End>> = BTreeMap::new();
        for (writer, reader) in &*known {
            let key = (self.ancestor(writer.task), writer.number);
            by_number.entry(key).or_default().insert(*reader);
        }
        let ends = self.all.iter().map(|call| call.end);
        let writers: BTreeSet<End> = ends.filter(|end| end.way == Way::Writes).collect();
        let linked: BTreeSet<End> = self.links.keys().map(|(writer, _)| *writer).collect();
        for writer in writers.difference(&linked) {
            let readers = by_number.get(&(self.ancestor(writer.task), writer.number));
            if let Some(one) = readers.filter(|all| all.len() == 1).and_then(BTreeSet::first) {
                known.insert(*writer, *one);
            }
        }
    }

    /// Decides what each call is.
    pub(crate) fn decide(&self) -> Found {
        let partners = self.partners();
        let mut streams: BTreeMap<End, Stream> = BTreeMap::new();
        for moment in &self.order {
            let (Moment::Sleeps(at) | Moment::Moves(at)) = *moment;
            let call = &self.all[at as usize];
            let reader = match call.end.way {
                Way::Reads => Some(call.end),
                Way::Writes => partners.get(&call.end).copied(),
            };
            if let Some(reader) = reader {
                streams.entry(reader).or_default().sees(*moment, call);
            }
        }
        let mut found = Found {
            fates: vec![Fate::AsRecorded; self.all.len()],
            calls: self.order.iter().filter(|one| matches!(one, Moment::Moves(_))).count() as u64,
            ..Found::default()
        };
        found.unknown = found.calls;
        for stream in streams.values().filter(|stream| stream.is_known()) {
            let number = found.objects.len() as u32;
            found.objects.push(stream.object());
            found.unknown -= stream.calls.len() as u64;
            stream.decide(number, &self.all, &mut found.fates);
        }
        found
    }
}

/// What one reading end and its writers moved.
#[derive(Clone, Debug, Default)]
struct Stream {
    calls: Vec<u32>,
    written: i64,
    read: i64,
    /// How far reads were ahead of the writes that were seen.
    lack: i64,
    /// The most that it held.
    most: i64,
    /// Bytes that it held when writers began to wait for room.
    full: Vec<i64>,
    writes: i64,
    of_socket: bool,
}

impl Stream {
    fn sees(&mut self, moment: Moment, call: &Call) {
        let Moment::Moves(at) = moment else {
            if call.end.way == Way::Writes {
                self.full.push(self.written - self.read + self.lack);
            }
            return;
        };
        self.calls.push(at);
        self.of_socket |= call.of_socket;
        let bytes = i64::try_from(call.bytes).unwrap_or(i64::MAX / 4);
        match call.end.way {
            Way::Reads => self.read += bytes,
            Way::Writes => {
                self.written += bytes;
                self.writes += 1;
            }
        }
        self.lack = self.lack.max(self.read - self.written);
        self.most = self.most.max(self.written - self.read);
    }

    /// Whether all of its writers are known: what was read was written before, but for what lay there at the start.
    fn is_known(&self) -> bool {
        self.writes > 0
            && self.read > 0
            && self.lack <= BEFORE.min(self.read / 10)
            && self.calls.len() < u32::MAX as usize
    }

    /// The room that is nearest to what it held when writers waited, or the least that holds what it held.
    fn object(&self) -> Object {
        let mean = (self.written / self.writes.max(1)).max(1);
        // What a UNIX socket charges for a message, and a pipe's pages.
        let charged = (mean + 832).max(768);
        let socket = 212_992 / charged * mean;
        let pipe = match mean {
            ..=2_048 => 16 * (4_096 / mean) * mean,
            _ => 65_536,
        };
        let mut full = self.full.clone();
        full.sort_unstable();
        match full.get(full.len() / 2) {
            Some(level) if level.abs_diff(pipe) <= level.abs_diff(socket) => Object::Pipe,
            Some(level) if *level <= 4 * socket => Object::Socket,
            Some(_) => Object::Large,
            None if self.of_socket && self.most <= socket => Object::Socket,
            None if self.most <= pipe && !self.of_socket => Object::Pipe,
            None if self.most <= socket => Object::Socket,
            None => Object::Large,
        }
    }

    /// Reads of what lay there at the start, and writes of what nobody reads any more, stay as recorded.
    fn decide(&self, object: u32, all: &[Call], fates: &mut [Fate]) {
        let (mut before, mut left) = (self.lack, self.read - self.lack.min(self.read));
        let mut taken = 0;
        for &at in &self.calls {
            let call = &all[at as usize];
            let bytes = i64::try_from(call.bytes).unwrap_or(i64::MAX / 4);
            let moves = match call.end.way {
                Way::Reads => {
                    let old = before.min(bytes);
                    before -= old;
                    bytes - old
                }
                Way::Writes => {
                    let new = left.min(bytes);
                    left -= new;
                    taken += new;
                    new
                }
            };
            if let Some(bytes) = u32::try_from(moves).ok().filter(|bytes| *bytes > 0) {
                fates[at as usize] = Fate::Moves { object, bytes };
            }
        }
        debug_assert_eq!(taken + self.lack, self.read, "what is put is taken");
    }
}
