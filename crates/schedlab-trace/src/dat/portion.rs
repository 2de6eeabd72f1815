//! A portion of a trace, which any thread can decode independently of the others.

use super::by_lane::{ByLane, Met};
use super::divide::Portion;
use super::lane::{FileLanes, Place, Wrong};
use super::runs::Runs;
use crate::decoded_segment::Stretch;
use crate::merge::{Merge, Out as _};
use crate::names::News;
use schedlab_model::Event;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most bytes of events that come of a byte of pages: the shortest record that says anything has 12.
const EVENTS_PER_PAGES: u64 = 4;

/// With this many lanes they are decoded one after the other: with 1,024, that takes half of what the merge takes.
const LANES_MIN: usize = 64;
/// Most bytes of a lane that are then read at once.
const WINDOW: usize = 64 << 10;

/// Who decodes portions: readers of all lanes, of its own.
pub(super) struct Hand {
    lanes: FileLanes,
    merge: Merge,
    /// Where there are many lanes.
    runs: Option<Box<Runs>>,
    /// Names that its portions mentioned, for those that it puts in order itself.
    met: Met,
    /// The how manieth of a team it is.
    index: usize,
}

/// The events of a portion: in the order of time, or lane by lane with their order.
pub(super) enum Events {
    InOrder(Stretch),
    ByLane(ByLane),
}

/// Memory for events, to be used again.
#[derive(Default)]
pub(super) struct Spare {
    in_order: Mutex<Vec<Stretch>>,
    by_lane: Mutex<Vec<ByLane>>,
}

/// No thread panics while it holds such a list.
fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Spare {
    fn stretch(&self) -> Stretch {
        lock(&self.in_order).pop().unwrap_or_default()
    }

    fn by_lane(&self) -> ByLane {
        lock(&self.by_lane).pop().unwrap_or_default()
    }

    /// Takes back memory that held the events of a portion.
    pub(super) fn take(&self, events: Events) {
        match events {
            Events::InOrder(stretch) => lock(&self.in_order).push(stretch),
            Events::ByLane(by_lane) => lock(&self.by_lane).push(by_lane),
        }
    }
}

/// The decoded events of a portion.
pub(super) struct Decoded {
    /// Where it begins in each lane.
    pub(super) starts: Vec<Place>,
    /// Where the events lie that are next.
    pub(super) stops: Vec<Place>,
    pub(super) events: Events,
    /// Who decoded it, and the numbers that it gave out for names.
    pub(super) hand: usize,
    pub(super) news: Vec<News>,
    /// What was found wrong in it, by lane.
    pub(super) wrongs: Vec<(usize, Wrong)>,
}

impl Hand {
    pub(super) fn new(lanes: FileLanes, index: usize) -> Self {
        let many = lanes.lanes.len() >= LANES_MIN;
        let hand = if many { Self::by_lane(lanes) } else { Self::merging(lanes) };
        Self { index, ..hand }
    }

    fn merging(lanes: FileLanes) -> Self {
        Self { lanes, merge: Merge::default(), runs: None, met: Met::default(), index: 0 }
    }

    fn by_lane(mut lanes: FileLanes) -> Self {
        lanes.widen(WINDOW);
        Self { runs: Some(Box::default()), ..Self::merging(lanes) }
    }

    /// Whether it takes lanes one after the other, which is faster than what the caller does by itself.
    pub(super) fn is_fast(&self) -> bool {
        self.runs.is_some()
    }

    /// Decodes a portion. `None` when that takes more memory than it may, or the file cannot be read: code that
    /// wants its events finds that out as they come. With many lanes the events stay by lane, unless it `is_early` once
    /// they are decoded.
    pub(super) fn decode(
        &mut self,
        portion: &Portion,
        spare: &Spare,
        is_early: impl Fn() -> bool,
    ) -> Option<Decoded> {
        // What was found in a portion that was given up is of no interest.
        self.lanes.wrongs();
        self.lanes.names.forget();
        self.lanes.pause_at(&portion.ends);
        let mut decoded = match self.runs {
            Some(_) => self.by_lanes(portion, spare, is_early),
            None => self.merged(portion, spare),
        }
        .ok()??;
        decoded.wrongs = self.lanes.wrongs();
        Some(decoded)
    }

    fn by_lanes(
        &mut self,
        portion: &Portion,
        spare: &Spare,
        is_early: impl Fn() -> bool,
    ) -> io::Result<Option<Decoded>> {
        let Self { lanes, runs: Some(runs), met, index, .. } = self else { return Ok(None) };
        let (mut starts, mut stops) = (Vec::new(), Vec::new());
        runs.clear();
        for lane in 0..lanes.lanes.len() {
            let (start, stop) = lanes.run(lane, portion, runs)?;
            starts.push(start);
            stops.push(stop);
            if runs.count() > most_events(portion) {
                return Ok(None);
            }
        }
        let (mut by_lane, mut news) = (spare.by_lane(), Vec::new());
        if !runs.hand_over(&mut by_lane, &mut news) {
            return Ok(None);
        }
        met.begin(&news);
        let mut events = Events::ByLane(by_lane);
        if is_early()
            && let Events::ByLane(by_lane) = &events
        {
            let mut stretch = spare.stretch();
            by_lane.put_in_order(met, &mut stretch);
            spare.take(std::mem::replace(&mut events, Events::InOrder(stretch)));
        }
        Ok(Some(Decoded { starts, stops, events, hand: *index, news, wrongs: Vec::new() }))
    }

    fn merged(&mut self, portion: &Portion, spare: &Spare) -> io::Result<Option<Decoded>> {
        let Self { lanes, merge, .. } = self;
        let most = most_events(portion);
        lanes.seek(portion.from, portion.pages.iter().copied())?;
        let starts = lanes.places();
        merge.resume(lanes, portion.until);
        let mut stretch = spare.stretch();
        stretch.clear(most / EVENTS_PER_PAGES as usize);
        loop {
            merge.fill(lanes, &mut stretch)?;
            if !stretch.is_full() {
                break;
            }
            if stretch.count() > most {
                return Ok(None);
            }
            stretch.grow();
        }
        let (stops, events) = (lanes.places(), Events::InOrder(stretch));
        let (news, wrongs) = (Vec::new(), Vec::new());
        Ok(Some(Decoded { starts, stops, events, hand: self.index, news, wrongs }))
    }
}

/// More than this many do not belong into memory at once.
fn most_events(portion: &Portion) -> usize {
    let bytes: u64 = portion.ends.iter().zip(&*portion.pages).map(|(end, page)| end - page).sum();
    usize::try_from(bytes * EVENTS_PER_PAGES).unwrap_or(usize::MAX) / size_of::<Event>()
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

    fn told(mut decoded: Decoded, names: &mut Names, met: &mut Met) -> Told {
        let mut events = Vec::new();
        met.begin(&decoded.news);
        match &mut decoded.events {
            Events::InOrder(stretch) => stretch.exchange(names, &mut events),
            Events::ByLane(by_lane) => while by_lane.next(1000, (met, names), &mut events) {},
        }
        (decoded.starts, decoded.stops, events, format!("{:?}", decoded.wrongs))
    }

    /// What both ways tell of a file, portion after portion; how many events and how many changes of name.
    fn alike(bytes: Vec<u8>, size: u64, what: &str) -> (usize, usize) {
        let input = Input::memory(Path::new("x.dat"), bytes);
        let Ok((_, reader)) = DatReader::open(input, &Options::default()) else { return (0, 0) };
        let lanes = reader.lanes();
        let mut divider = Divider::new(Arc::clone(&lanes.shared), sections(lanes), size);
        let twins = || lanes.twins().expect("nothing is packed");
        let mut hands = [Hand::merging(twins()), Hand::by_lane(twins())];
        let mut names = [Names::default(), Names::default()];
        let (mut met, spare) = (Met::default(), Spare::default());
        let (mut events, mut renamed) = (0, 0);
        while let Some(portion) = divider.next() {
            let [merged, sorted] = [0, 1].map(|way| {
                let decoded = hands[way].decode(&portion, &spare, || portion.index % 3 == 0);
                decoded.map(|decoded| told(decoded, &mut names[way], &mut met))
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
