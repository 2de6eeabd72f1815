//! What programs and tracers write about themselves: slices and instants on tracks, which are marks here.
//!
//! A slice of a thread's track is that thread's. On other tracks (systing's and wprof's queues and requests) the track's
//! number is the request, so that a begin finds its end whoever ended it. Counters are passed over.

use super::{BUILTIN_BOOTTIME, packet};
use crate::protobuf::{Fields, Value};
use schedlab_model::{Phase, Pid};
use std::collections::BTreeMap;

/// Bytes that a slice's end or an instant takes, beside its name.
pub(super) const OF_MARK: u64 = 2 * size_of::<Mark>() as u64;

/// A mark on its way; its name is a number of [`Tracks::names`], or that of the slice which it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) time: u64,
    pub(super) pid: Pid,
    pub(super) phase: Phase,
    pub(super) name: u32,
    pub(super) request: u32,
}

/// A clock by the snapshot that tells how far it was.
#[derive(Clone, Copy, Debug)]
struct Clock {
    value: u64,
    /// The trace's own clock then.
    own: u64,
    unit: u64,
    /// Whether each time is told as the step from the one before, and the last.
    steps: Option<u64>,
}

/// What holds for the packets of one writer.
#[derive(Debug, Default)]
struct Sequence {
    names: BTreeMap<u64, u32>,
    clock: u64,
    track: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Track {
    parent: u64,
    task: Option<Pid>,
    is_thread: bool,
}

/// All tracks of a file.
#[derive(Debug, Default)]
pub(super) struct Tracks {
    sequences: BTreeMap<u64, Sequence>,
    clocks: BTreeMap<(u64, u64), Clock>,
    tracks: BTreeMap<u64, Track>,
    events: Vec<(u64, u64, Phase, Option<u32>)>,
    /// The names of slices.
    pub(super) names: Vec<String>,
    known: BTreeMap<String, u32>,
    /// The clock of the trace, where a snapshot names it; else it is the boot clock.
    own: Option<u64>,
    /// How many slices are on clocks that no snapshot tells.
    pub(super) unplaced: u64,
}

/// Numbers of fields of `TrackEvent`, `TrackDescriptor` and what lies in them.
mod field {
    pub(super) const TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK: u32 = 11;
    pub(super) const NAME: u32 = 23;
    pub(super) const UUID: u32 = 1;
    pub(super) const PROCESS: u32 = 3;
    pub(super) const THREAD: u32 = 4;
    pub(super) const PARENT: u32 = 5;
    pub(super) const EVENT_NAMES: u32 = 2;
}

fn get(content: &[u8], field: u32) -> Option<Value<'_>> {
    Fields(content).find(|(place, _)| *place == field).map(|(_, value)| value)
}

fn number(content: &[u8], field: u32) -> Option<u64> {
    get(content, field).map(Value::number)
}

impl Tracks {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// How far each clock was at one moment.
    pub(super) fn snapshot(&mut self, content: &[u8], sequence: u64) {
        let clocks = || Fields(content).filter(|(place, _)| *place == 1).map(|(_, of)| of.bytes());
        self.own = number(content, 2).or(self.own);
        let own = self.own.unwrap_or(BUILTIN_BOOTTIME);
        let is_own = |of: &&[u8]| number(of, 1) == Some(own);
        let Some(own) = clocks().find(is_own).and_then(|of| number(of, 2)) else { return };
        for of in clocks() {
            let (Some(id), Some(value)) = (number(of, 1), number(of, 2)) else { continue };
            let unit = number(of, 4).unwrap_or(1).max(1);
            let steps = number(of, 3).filter(|is| *is != 0).map(|_| value.saturating_mul(unit));
            let clock = Clock { value: value.saturating_mul(unit), own, unit, steps };
            if self.clocks.len() < CLOCKS_MAX || self.clocks.contains_key(&scope(sequence, id)) {
                self.clocks.insert(scope(sequence, id), clock);
            }
        }
    }

    /// What a packet says beside its event: names by number, and what holds where a packet says nothing.
    pub(super) fn beside(&mut self, content: &[u8], sequence: u64) {
        if let Some(of) = get(content, packet::INTERNED_DATA).map(Value::bytes) {
            for (_, entry) in Fields(of).filter(|(place, _)| *place == field::EVENT_NAMES) {
                let iid = number(entry.bytes(), 1);
                let name = get(entry.bytes(), 2);
                if let (Some(iid), Some(name)) = (iid, name) {
                    let name = self.name(name.bytes());
                    self.sequences.entry(sequence).or_default().names.insert(iid, name);
                }
            }
        }
        if let Some(of) = get(content, packet::DEFAULTS).map(Value::bytes) {
            let track =
                get(of, packet::TRACK_EVENT).and_then(|of| number(of.bytes(), field::TRACK));
            let known = self.sequences.entry(sequence).or_default();
            known.clock = number(of, packet::CLOCK_ID).unwrap_or(0);
            known.track = track.unwrap_or(0);
        }
    }

    pub(super) fn descriptor(&mut self, content: &[u8]) {
        let mut track = Track::default();
        let Some(uuid) = number(content, field::UUID) else { return };
        track.parent = number(content, field::PARENT).unwrap_or(0);
        if let Some(process) = get(content, field::PROCESS) {
            track.task = number(process.bytes(), 1).map(|pid| Pid(pid as i32));
        }
        if let Some(thread) = get(content, field::THREAD) {
            track.task = number(thread.bytes(), 2).map(|tid| Pid(tid as i32));
            track.is_thread = true;
        }
        self.tracks.insert(uuid, track);
    }

    /// A slice's begin or end, or an instant, of the packet `content`; what it takes of the budget, or `None` for others.
    pub(super) fn event(&mut self, event: &[u8], content: &[u8], sequence: u64) -> Option<()> {
        let phase = match number(event, field::TYPE)? {
            1 => Phase::Begin,
            2 => Phase::End,
            3 => Phase::Point,
            _ => return None,
        };
        let Some(time) = self.time(content, sequence) else {
            self.unplaced += 1;
            return None;
        };
        let of = self.sequences.get(&sequence);
        let numbered = number(event, field::NAME_IID);
        let numbered = numbered.and_then(|iid| of?.names.get(&iid).copied());
        let track = number(event, field::TRACK).or_else(|| Some(of?.track)).unwrap_or(0);
        let name = numbered.or_else(|| Some(self.name(get(event, field::NAME)?.bytes())));
        self.events.push((time, track, phase, name));
        Some(())
    }

    /// A packet's time on the trace's own clock.
    pub(super) fn time(&mut self, content: &[u8], sequence: u64) -> Option<u64> {
        let told = number(content, packet::TIMESTAMP)?;
        let default = self.sequences.get(&sequence).map_or(0, |of| of.clock);
        let id = number(content, packet::CLOCK_ID).unwrap_or(default);
        if id == 0 || id == self.own.unwrap_or(BUILTIN_BOOTTIME) {
            return Some(told);
        }
        let clock = self.clocks.get_mut(&scope(sequence, id))?;
        let told = told.saturating_mul(clock.unit);
        let now = match &mut clock.steps {
            Some(last) => {
                *last = last.saturating_add(told);
                *last
            }
            None => told,
        };
        Some(clock.own.saturating_add(now).saturating_sub(clock.value))
    }

    fn name(&mut self, bytes: &[u8]) -> u32 {
        let name = String::from_utf8_lossy(&bytes[..bytes.len().min(NAME_MAX)]).into_owned();
        if let Some(known) = self.known.get(&name) {
            return *known;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.clone());
        self.known.insert(name, number);
        number
    }

    /// The thread of a track and whether it is one: its own, or that of a track above it.
    fn task(&self, mut uuid: u64) -> (Pid, bool) {
        for _ in 0..PARENTS_MAX {
            let Some(track) = self.tracks.get(&uuid) else { break };
            if let Some(task) = track.task {
                return (task, track.is_thread);
            }
            uuid = track.parent;
        }
        (Pid::IDLE, false)
    }

    /// The marks in the order of time. An end without a begin is none.
    pub(super) fn marks(&mut self) -> Vec<Mark> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.0);
        let mut open = BTreeMap::<u64, Vec<u32>>::new();
        let mut requests = BTreeMap::<u64, u32>::new();
        let mut marks = Vec::with_capacity(events.len());
        for (time, track, phase, name) in events {
            let begun = open.entry(track).or_default();
            let name = match phase {
                Phase::End => begun.pop(),
                _ => Some(name.unwrap_or_else(|| self.name(b"slice"))),
            };
            let Some(name) = name else { continue };
            if phase == Phase::Begin {
                begun.push(name);
            }
            let (pid, is_thread) = self.task(track);
            let next = u32::try_from(requests.len() + 1).unwrap_or(u32::MAX);
            let request = if is_thread { 0 } else { *requests.entry(track).or_insert(next) };
            marks.push(Mark { time, pid, phase, name, request });
        }
        marks
    }
}

/// A name is cut off behind so many bytes.
const NAME_MAX: usize = 256;
const CLOCKS_MAX: usize = 4096;
/// Tracks lie in each other no deeper.
const PARENTS_MAX: usize = 16;

/// Clocks 64 to 127 belong to one writer.
fn scope(sequence: u64, id: u64) -> (u64, u64) {
    (if (64..128).contains(&id) { sequence } else { 0 }, id)
}
