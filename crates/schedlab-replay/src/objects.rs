//! Objects that tasks share, from their calls: which writers fill what a reader empties, and how much there is room for.
//!
//! The number of a file says nothing about other processes, so wakeups do: where a task that writes wakes a task that
//! sleeps in a read, or the other way round, both ends belong to one object. An end without such a wakeup belongs to
//! the object of the ends of the same number in tasks that descend from the same task, if that is one object.

use crate::calls::{Call, CallKind, End};
use crate::object_events::{CallOutcome, ObjectEvent};
use crate::stream::Stream;
use schedlab_timeline::TaskId;
use schedlab_workload::demand::Object;
use std::collections::{BTreeMap, BTreeSet};

/// Of 100 wakeups of an end, this many name the same partner.
const AGREES: u64 = 90;
/// Calls in the order of their effects, and what ties their ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) all: Vec<Call>,
    /// Calls in the order in which bytes came or went.
    pub(crate) order: Vec<ObjectEvent>,
    /// Wakeups from a writing end to a reading one, or back.
    links: BTreeMap<(End, End), u64>,
    /// The task by which each task was forked.
    pub(crate) parents: BTreeMap<TaskId, TaskId>,
}

/// The objects of a trace, and what became of each call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) objects: Vec<Object>,
    /// The end at which each object is read.
    pub(crate) readers: Vec<End>,
    /// What became of each call, by its number.
    pub(crate) fates: Vec<CallOutcome>,
    /// Calls that moved bytes.
    pub(crate) calls: u64,
    /// Calls among them at ends that could not be tied to one object.
    pub(crate) unknown: u64,
    /// Waits for futexes that found what they waited for.
    pub(crate) futexes: u64,
    /// Polls for bytes of known objects.
    pub(crate) polls: u64,
    /// Objects with which tasks would wait for each other for ever.
    pub(crate) contradictory: u64,
}

impl Found {
    pub(crate) fn is_known(&self, call: u32) -> bool {
        matches!(
            self.fates.get(call as usize),
            Some(CallOutcome::Moves { .. } | CallOutcome::Moved)
        )
    }
}

impl Calls {
    /// A wakeup between two calls.
    pub(crate) fn link(&mut self, one: u32, other: u32) {
        let one = self.all[one as usize].end;
        let other = self.all[other as usize].end;
        let pair = match (one.way, other.way) {
            (CallKind::Writes, CallKind::Reads) => (one, other),
            (CallKind::Reads, CallKind::Writes) => (other, one),
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
        let writers: BTreeSet<End> = ends.filter(|end| end.way == CallKind::Writes).collect();
        let linked: BTreeSet<End> = self.links.keys().map(|(writer, _)| *writer).collect();
        for writer in writers.difference(&linked) {
            let readers = by_number.get(&(self.ancestor(writer.task), writer.number));
            if let Some(one) = readers.filter(|all| all.len() == 1).and_then(BTreeSet::first) {
                known.insert(*writer, *one);
            }
        }
    }

    /// Decides what each call is, without the objects that are read at some ends.
    pub(crate) fn decide(&self, without: &BTreeSet<End>) -> Found {
        let partners = self.partners();
        let mut streams: BTreeMap<End, Stream> = BTreeMap::new();
        for moment in &self.order {
            let (ObjectEvent::Begins(at) | ObjectEvent::Sleeps(at) | ObjectEvent::Moves(at)) =
                *moment;
            let call = &self.all[at as usize];
            let reader = match call.end.way {
                CallKind::Reads => Some(call.end),
                CallKind::Writes => partners.get(&call.end).copied(),
                CallKind::Polls => None,
            };
            if let Some(reader) = reader {
                streams.entry(reader).or_default().sees(*moment, call);
            }
        }
        let mut found = Found {
            fates: vec![CallOutcome::AsRecorded; self.all.len()],
            calls: self.order.iter().filter(|one| matches!(one, ObjectEvent::Moves(_))).count()
                as u64,
            ..Found::default()
        };
        found.unknown = found.calls;
        let known =
            |(reader, stream): &(&End, &Stream)| stream.is_known() && !without.contains(reader);
        for (reader, stream) in streams.iter().filter(known) {
            let number = found.objects.len() as u32;
            found.objects.push(stream.object());
            found.readers.push(*reader);
            found.unknown -= stream.calls.len() as u64;
            stream.decide(number, &self.all, &mut found.fates);
        }
        found
    }
}
