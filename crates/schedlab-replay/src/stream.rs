//! What went through one object: whether all its writers are known, how much room it has, and which call moved what.

use crate::calls::{Call, CallKind};
use crate::object_events::{CallOutcome, ObjectEvent};
use schedlab_workload::demand::Object;

/// The room of a pipe.
const PIPE: i64 = 65_536;
/// What an object may have held before the trace began.
const BEFORE: i64 = PIPE;

/// What one reading end and its writers moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    pub(crate) calls: Vec<u32>,
    /// Bytes of writes that began, and bytes of writes that returned.
    begun: i64,
    written: i64,
    read: i64,
    /// How far reads were ahead of the writes that were seen.
    lack: i64,
    /// The most that it held.
    most: i64,
    /// Bytes that it held when writers began to wait for room.
    full: Vec<i64>,
    writes: i64,
    reads: i64,
    /// The first write that did not end.
    open: Option<u32>,
    /// How often its reader went to sleep although it held bytes.
    contradictions: i64,
    of_socket: bool,
}

impl Stream {
    pub(crate) fn sees(&mut self, moment: ObjectEvent, call: &Call) {
        let bytes = i64::try_from(call.bytes).unwrap_or(i64::MAX / 4);
        match (moment, call.end.way) {
            (ObjectEvent::Begins(at), _) => {
                if call.is_open {
                    self.open.get_or_insert(at);
                }
                return self.begun += bytes;
            }
            (ObjectEvent::Sleeps(_), CallKind::Writes) => {
                return self.full.push(self.written - self.read + self.lack);
            }
            (ObjectEvent::Sleeps(_), _) => {
                return self.contradictions += i64::from(self.written + self.lack > self.read);
            }
            (ObjectEvent::Moves(at), _) => self.calls.push(at),
        }
        self.of_socket |= call.of_socket;
        if call.end.way == CallKind::Reads {
            self.read += bytes;
            self.reads += 1;
        } else {
            self.written += bytes;
            self.writes += 1;
        }
        // What was read after a write began that the trace does not end may be of that write.
        if self.open.is_none() {
            self.lack = self.lack.max(self.read - self.begun);
        }
        self.most = self.most.max(self.written - self.read);
    }

    /// Whether all of its writers are known: what was read was written before, but for what lay there at the start. And
    /// whether it is a stream of bytes: its reader does not sleep while bytes are there.
    pub(crate) fn is_known(&self) -> bool {
        self.writes > 0
            && self.read > 0
            && self.contradictions * 10 <= self.reads
            && self.lack <= BEFORE.min(self.read / 10)
            && self.of_open() <= BEFORE.max(self.read / 10)
            && self.calls.len() < u32::MAX as usize
    }

    /// Bytes that were read of the write that did not end.
    fn of_open(&self) -> i64 {
        (self.read - self.lack - self.written).max(0)
    }

    /// The room that is nearest to what it held when writers waited, or the least that holds what it held.
    pub(crate) fn object(&self) -> Object {
        let mean = (self.written / self.writes.max(1)).max(1);
        // What a UNIX socket charges for a message, and a pipe's pages.
        let charged = (mean + 832).max(768);
        let socket = 212_992 / charged * mean;
        let pipe = match mean {
            ..=2_048 => 16 * (4_096 / mean) * mean,
            _ => PIPE,
        };
        let mut full = self.full.clone();
        full.sort_unstable();
        // It must hold what it held, else its writers would wait where they did not.
        let most = self.most + self.lack;
        match full.get(full.len() / 2) {
            Some(_) if most > 4 * socket => Object::Large,
            Some(_) if most > PIPE && most > pipe => Object::Socket,
            Some(level) if level.abs_diff(pipe) <= level.abs_diff(socket) => Object::Pipe,
            Some(level) if *level <= 4 * socket => Object::Socket,
            Some(_) => Object::Large,
            None if self.of_socket && most <= socket => Object::Socket,
            None if most <= pipe && !self.of_socket => Object::Pipe,
            None if most <= socket => Object::Socket,
            None => Object::Large,
        }
    }

    /// Reads of what lay there at the start, and writes of what nobody reads any more, stay as recorded.
    pub(crate) fn decide(&self, object: u32, all: &[Call], fates: &mut [CallOutcome]) {
        let mut before = self.lack;
        let mut left = self.read - self.lack.min(self.read);
        let mut taken = 0;
        for &at in &self.calls {
            let call = &all[at as usize];
            let bytes = i64::try_from(call.bytes).unwrap_or(i64::MAX / 4);
            let moves = match call.end.way {
                CallKind::Reads => {
                    let old = before.min(bytes);
                    before -= old;
                    bytes - old
                }
                CallKind::Writes => {
                    let new = left.min(bytes);
                    left -= new;
                    taken += new;
                    new
                }
                CallKind::Polls => 0,
            };
            if let Some(bytes) = u32::try_from(moves).ok().filter(|bytes| *bytes > 0) {
                fates[at as usize] = CallOutcome::Moves { object, bytes };
            }
        }
        if let Some((at, bytes)) = self.open.zip(u32::try_from(left).ok().filter(|left| *left > 0))
        {
            fates[at as usize] = CallOutcome::Moves { object, bytes };
            taken += left;
        }
        debug_assert_eq!(taken + self.lack, self.read, "what is put is taken");
    }
}
