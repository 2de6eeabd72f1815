//! Reads a trace with several threads, portion after portion; the events are those of a reader with one thread.
//!
//! The heads of pages give an estimate of where each portion begins. A decoded portion states where it began
//! and stopped. If two portions do not join (times that go back, a file that shrinks), the caller decodes the
//! second again from the end of the first. A portion that no other thread decoded goes straight from the lanes
//! to the caller.

use super::decode_threads::{DecodeThreads, NextPortion};
use super::divide::{Divider, Portion, Section};
use super::lane::{FileLanes, Lane, Place};
use super::portion::{Decoded, PortionDecoder};
use crate::merge::{ENDED, Merge};
use schedlab_model::{Event, EventSink};
use std::io;
use std::sync::Arc;

/// Bytes of pages that a portion has: some twenty thousand events, which a second-level cache holds. Half of it
/// costs a tenth more, in looking for where portions begin and in pages that belong to two.
const PORTION: u64 = 1 << 20;
/// Pages of each lane at least, on the average: in each lane one is read that belongs to two portions. More pages cost
/// memory: 50 MB for eight more of 1,024 lanes, for each portion that waits.
const PAGES_MIN: u64 = 12;

/// Where reading by portions stands.
pub(super) struct ParallelReader {
    threads: DecodeThreads,
    /// The portion that the caller decodes.
    open: Option<u64>,
    /// Where the events lie that are next, and whether the caller's lanes stand there.
    places: Vec<Place>,
    standing: bool,
    ended: bool,
}

impl ParallelReader {
    /// `None` where `lanes` are too short to be divided. `portion`: bytes of pages, if it is chosen.
    pub(super) fn new(lanes: &FileLanes, threads: usize, portion: Option<usize>) -> Option<Self> {
        let bytes: u64 = lanes.lanes.iter().map(|lane| length(lane, lanes)).sum();
        let page_sizes = lanes.lanes.iter().map(|lane| lane.layout.page_size as u64);
        let least = page_sizes.sum::<u64>() * PAGES_MIN;
        let size = portion.map_or(PORTION.max(least), |portion| portion.max(1) as u64);
        if threads < 2 || bytes < 2 * size {
            return None;
        }
        let divider = Divider::new(Arc::clone(&lanes.shared), sections(lanes), size);
        let decoder = || Some(PortionDecoder::new(lanes.twins()?));
        let others: Option<Vec<PortionDecoder>> = (1..threads).map(|_| decoder()).collect();
        let threads = DecodeThreads::new(divider, decoder()?, others?);
        let place = |lane: &Lane| Place { page: lane.data.start, at: 0 };
        let places = lanes.lanes.iter().map(place).collect();
        Some(Self { threads, open: None, places, standing: false, ended: false })
    }

    /// Replaces `batch` by the next events, about `limit` where the caller decodes; `false` when none are left.
    pub(super) fn next(
        &mut self,
        merge: &mut Merge,
        lanes: &mut FileLanes,
        batch: &mut Vec<Event>,
        limit: usize,
    ) -> io::Result<bool> {
        loop {
            if self.open.is_some() {
                if merge.next(lanes, batch, limit)? {
                    return Ok(true);
                }
                self.close(lanes);
            }
            let Some(decoded) = self.turn(merge, lanes)? else {
                if self.open.is_some() {
                    continue;
                }
                batch.clear();
                return Ok(false);
            };
            let Decoded { mut segment, .. } = decoded;
            segment.exchange(&mut lanes.names, batch);
            self.threads.give_back(segment);
            if !batch.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Hands all events that are left to `sink`.
    pub(super) fn drain(
        &mut self,
        merge: &mut Merge,
        lanes: &mut FileLanes,
        sink: &mut impl EventSink,
    ) -> io::Result<()> {
        loop {
            if self.open.is_some() {
                merge.drain(lanes, sink)?;
                self.close(lanes);
            }
            match self.turn(merge, lanes)? {
                Some(decoded) => {
                    decoded.segment.hand_to(&mut lanes.names, sink);
                    self.threads.give_back(decoded.segment);
                }
                None if self.open.is_some() => {}
                None => return Ok(()),
            }
        }
    }

    /// The next portion's events; `None` when the caller's lanes stand ready to give them, or at the end.
    fn turn(&mut self, merge: &mut Merge, lanes: &mut FileLanes) -> io::Result<Option<Decoded>> {
        if self.ended {
            return Ok(None);
        }
        match self.threads.next() {
            None => self.ended = true,
            Some(NextPortion::Own(portion)) => self.open(&portion, merge, lanes)?,
            Some(NextPortion::Done(portion, mut decoded)) => {
                if ats(&decoded.starts).eq(ats(&self.places)) {
                    self.places = std::mem::take(&mut decoded.stops);
                    self.standing = false;
                    self.ended = portion.until == ENDED;
                    lanes.note(std::mem::take(&mut decoded.wrongs));
                    return Ok(Some(decoded));
                }
                self.threads.give_back(decoded.segment);
                self.open(&portion, merge, lanes)?;
            }
        }
        Ok(None)
    }

    /// Places the caller's lanes at the start of a portion.
    fn open(
        &mut self,
        portion: &Portion,
        merge: &mut Merge,
        lanes: &mut FileLanes,
    ) -> io::Result<()> {
        lanes.pause_at(&portion.ends);
        if !self.standing {
            lanes.seek(portion.from, self.places.iter().map(|place| place.page))?;
        }
        merge.resume(lanes, portion.until);
        self.open = Some(portion.until);
        Ok(())
    }

    /// The caller's lanes have given their portion.
    fn close(&mut self, lanes: &FileLanes) {
        self.places = lanes.places();
        self.standing = true;
        self.ended = self.open.take() == Some(ENDED);
    }
}

/// Bytes of a lane's pages that the file has.
fn length(lane: &Lane, lanes: &FileLanes) -> u64 {
    lane.data.end.min(lanes.shared.input.len()) - lane.data.start
}

pub(super) fn sections(lanes: &FileLanes) -> Vec<Section> {
    let section = |lane: &Lane| {
        let data = lane.data.start..lane.data.start + length(lane, lanes);
        Section::new(lane.layout, data, lane.correction.clone())
    };
    lanes.lanes.iter().map(section).collect()
}

/// Where events lie, whichever page was read to find them.
fn ats(places: &[Place]) -> impl Iterator<Item = u64> {
    places.iter().map(|place| place.at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::dat::{DatReader, Header};
    use crate::decoded_segment::DecodedSegment;
    use crate::synthetic::{Plan, Synthetic};
    use schedlab_model::EventSource as _;

    /// Times near the end of all that a number can hold are in damaged files only.
    #[test]
    fn a_last_page_that_lies_in_the_far_future_ends_the_portions_like_any_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        let plan = Plan { cpus: 5, events: 60_000, ..Plan::default() };
        Synthetic::new(plan).write(&path, Header::default()).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 4096;
        bytes[last..last + 8].copy_from_slice(&(u64::MAX - 2).to_le_bytes());
        let input = crate::input::Input::memory(&path, bytes);
        let (_, reader) = DatReader::open(input, &Options::default()).unwrap();
        let lanes = reader.lanes();
        let mut divider = Divider::new(Arc::clone(&lanes.shared), sections(lanes), 100_000);
        let mut untils = Vec::new();
        while let Some(portion) = divider.next() {
            assert!(portion.times.start <= portion.times.end);
            untils.push(portion.until);
        }
        assert!(untils.len() > 1 && untils.is_sorted() && untils.last() == Some(&ENDED));
    }

    /// What a thread takes for granted, so that it seldom decodes anything twice.
    #[test]
    fn portions_of_a_sound_file_join_and_are_about_as_large_as_they_shall_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        let plan = Plan { cpus: 5, events: 60_000, ..Plan::default() };
        Synthetic::new(plan).write(&path, Header::default()).unwrap();
        let (_, mut reader) =
            DatReader::open(crate::pipe_input::input(&path).unwrap(), &Options::default()).unwrap();
        let (mut batch, mut expected) = (Vec::new(), 0);
        while reader.next(&mut batch).unwrap() {
            expected += batch.len();
        }
        for size in [10_000, 100_000] {
            let lanes = reader.lanes();
            let mut divider = Divider::new(Arc::clone(&lanes.shared), sections(lanes), size);
            let mut decoder = PortionDecoder::new(lanes.twins().unwrap());
            let mut stops: Option<Vec<Place>> = None;
            let (mut count, mut events, mut names) = (0, 0, crate::names::Names::default());
            while let Some(portion) = divider.next() {
                let mut decoded = decoder.decode(&portion, DecodedSegment::default()).unwrap();
                if let Some(stops) = &stops {
                    assert!(ats(&decoded.starts).eq(ats(stops)), "portion {count}");
                }
                decoded.segment.exchange(&mut names, &mut batch);
                assert!(batch.len() as u64 * 40 < size * 4 + 5 * 4096, "{} events", batch.len());
                events += batch.len();
                count += 1;
                stops = Some(decoded.stops);
            }
            assert_eq!(events, expected);
            let whole: u64 = lanes.lanes.iter().map(|lane| lane.data.end - lane.data.start).sum();
            assert!((whole / size / 2..whole * 2 / size).contains(&count), "{count} portions");
        }
    }
}
