//! A portion of a trace, which any thread can decode independently of the others.

use super::divide::Portion;
use super::lane::{FileLanes, Place, Wrong};
use super::runs::Runs;
use crate::decoded_segment::DecodedSegment;
use crate::merge::{Merge, Out as _};
use schedlab_model::Event;
use std::io;

/// Most bytes of events that come of a byte of pages: the shortest record that says anything has 12.
const EVENTS_PER_PAGES: u64 = 4;

/// With this many lanes they are decoded one after the other: with 1,024, that takes half of what the merge takes.
const LANES_MIN: usize = 64;
/// Most bytes of a lane that are then read at once.
const WINDOW: usize = 64 << 10;

/// Who decodes portions: readers of all lanes, of its own.
pub(super) struct PortionDecoder {
    lanes: FileLanes,
    merge: Merge,
    /// Where there are many lanes.
    runs: Option<Box<Runs>>,
}

/// The decoded events of a portion.
#[derive(Default)]
pub(super) struct Decoded {
    /// Where it begins in each lane.
    pub(super) starts: Vec<Place>,
    /// Where the events lie that are next.
    pub(super) stops: Vec<Place>,
    pub(super) segment: DecodedSegment,
    /// What was found wrong in it, by lane.
    pub(super) wrongs: Vec<(usize, Wrong)>,
}

impl PortionDecoder {
    pub(super) fn new(lanes: FileLanes) -> Self {
        let many = lanes.lanes.len() >= LANES_MIN;
        if many { Self::by_lane(lanes) } else { Self::merging(lanes) }
    }

    fn merging(lanes: FileLanes) -> Self {
        Self { lanes, merge: Merge::default(), runs: None }
    }

    fn by_lane(mut lanes: FileLanes) -> Self {
        lanes.widen(WINDOW);
        Self { lanes, merge: Merge::default(), runs: Some(Box::default()) }
    }

    /// Whether it takes lanes one after the other, which is faster than what the caller does by itself.
    pub(super) fn is_fast(&self) -> bool {
        self.runs.is_some()
    }

    /// Decodes a portion. `None` when that takes more memory than it may, or the file cannot be read: code that
    /// wants its events finds that out as they come.
    pub(super) fn decode(&mut self, portion: &Portion, segment: DecodedSegment) -> Option<Decoded> {
        let mut decoded = Decoded { segment, ..Decoded::default() };
        // What was found in a portion that was given up is of no interest.
        self.lanes.wrongs();
        let whole = self.put(portion, &mut decoded).ok()?;
        decoded.wrongs = self.lanes.wrongs();
        whole.then_some(decoded)
    }

    /// Whether it was put as a whole.
    fn put(&mut self, portion: &Portion, decoded: &mut Decoded) -> io::Result<bool> {
        let Self { lanes, merge, runs } = self;
        let Decoded { starts, stops, segment, .. } = decoded;
        let bytes: u64 =
            portion.ends.iter().zip(&*portion.pages).map(|(end, page)| end - page).sum();
        let most =
            usize::try_from(bytes * EVENTS_PER_PAGES).unwrap_or(usize::MAX) / size_of::<Event>();
        lanes.names.forget();
        lanes.pause_at(&portion.ends);
        if let Some(runs) = runs {
            runs.clear(&portion.times);
            for index in 0..lanes.lanes.len() {
                let (start, stop) = lanes.run(index, portion, runs)?;
                starts.push(start);
                stops.push(stop);
                if runs.count() > most {
                    return Ok(false);
                }
            }
            return Ok(runs.put_in_order(segment));
        }
        lanes.seek(portion.from, portion.pages.iter().copied())?;
        *starts = lanes.places();
        merge.resume(lanes, portion.until);
        segment.clear(most / EVENTS_PER_PAGES as usize);
        loop {
            merge.fill(lanes, segment)?;
            if !segment.is_full() {
                break;
            }
            if segment.count() > most {
                return Ok(false);
            }
            segment.grow();
        }
        *stops = lanes.places();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::parallel_reader::sections;
    use super::*;
    use crate::Options;
    use crate::dat::divide::Divider;
    use crate::dat::{DatReader, Header};
    use crate::input::Input;
    use crate::names::Names;
    use crate::synthetic::{Plan, Synthetic};
    use std::path::Path;
    use std::sync::Arc;

    type Told = (Vec<Place>, Vec<Place>, Vec<Event>, String);

    fn told(mut decoded: Decoded, names: &mut Names) -> Told {
        let mut events = Vec::new();
        decoded.segment.exchange(names, &mut events);
        (decoded.starts, decoded.stops, events, format!("{:?}", decoded.wrongs))
    }

    /// What both ways tell of a file, portion after portion; how many events and how many changes of name.
    fn alike(bytes: Vec<u8>, size: u64, what: &str) -> (usize, usize) {
        let input = Input::memory(Path::new("x.dat"), bytes);
        let Ok((_, reader)) = DatReader::open(input, &Options::default()) else { return (0, 0) };
        let lanes = reader.lanes();
        let mut divider = Divider::new(Arc::clone(&lanes.shared), sections(lanes), size);
        let twins = || lanes.twins().expect("nothing is packed");
        let mut decoders = [PortionDecoder::merging(twins()), PortionDecoder::by_lane(twins())];
        let mut names = [Names::default(), Names::default()];
        let (mut events, mut renamed) = (0, 0);
        while let Some(portion) = divider.next() {
            let [merged, sorted] = [0, 1].map(|way| {
                let decoded = decoders[way].decode(&portion, DecodedSegment::default());
                decoded.map(|decoded| told(decoded, &mut names[way]))
            });
            assert_eq!(merged.is_some(), sorted.is_some(), "{what}, portion {}", portion.index);
            let (Some(merged), Some(sorted)) = (merged, sorted) else { continue };
            assert!(merged == sorted, "{what}, portion {}", portion.index);
            events += merged.2.len();
            let is_name = |event: &&Event| event.what.kind() == schedlab_model::Kind::Comm;
            renamed += merged.2.iter().filter(is_name).count();
        }
        (events, renamed)
    }

    #[test]
    fn lanes_one_after_the_other_give_what_a_merge_gives() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.dat");
        let plan = Plan { cpus: 5, events: 20_000, ..Plan::default() };
        Synthetic::new(plan).write(&path, Header::default()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let mut state = 1u64;
        let mut draw = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            (state >> 33) as usize % below
        };
        let head = whole.len() - whole.len() / 4096 * 4096 + 40_000;
        let (mut events, mut renamed) = (0, 0);
        for round in 0..30 {
            let mut bytes = whole.clone();
            // Tasks have two names by turns.
            for at in head..bytes.len() - 8 {
                if &bytes[at..at + 6] == b"client" && draw(4) == 0 {
                    bytes[at] = b'C';
                }
            }
            for _ in 0..round {
                let at = head + draw(bytes.len() - head);
                bytes[at] = draw(256) as u8;
            }
            bytes.truncate(bytes.len() - round * 997);
            let size = [10_000, 40_000, 1 << 20][round % 3];
            let told = alike(bytes, size, &format!("round {round}"));
            (events, renamed) = (events + told.0, renamed + told.1);
        }
        assert!(events > 400_000 && renamed > 10_000, "{events} events, {renamed} names");
    }
}
