//! A portion of a trace, which any thread can decode independently of the others.

use super::divide::Portion;
use super::lane::{FileLanes, Place, Wrong};
use crate::decoded_segment::Stretch;
use crate::merge::{Merge, Out as _};
use schedlab_model::Event;
use std::io;

/// Most bytes of events that come of a byte of pages: the shortest record that says anything has 12.
const EVENTS_PER_PAGES: u64 = 4;

/// Who decodes portions: readers of all lanes, of its own.
pub(super) struct Hand {
    lanes: FileLanes,
    merge: Merge,
}

/// The decoded events of a portion.
#[derive(Default)]
pub(super) struct Decoded {
    /// Where it begins in each lane.
    pub(super) starts: Vec<Place>,
    /// Where the events lie that are next.
    pub(super) stops: Vec<Place>,
    pub(super) stretch: Stretch,
    /// What was found wrong in it, by lane.
    pub(super) wrongs: Vec<(usize, Wrong)>,
}

impl Hand {
    pub(super) fn new(lanes: FileLanes) -> Self {
        Self { lanes, merge: Merge::default() }
    }

    /// Decodes a portion. `None` when that takes more memory than it may, or the file cannot be read: code that
    /// wants its events finds that out as they come.
    pub(super) fn decode(&mut self, portion: &Portion, stretch: Stretch) -> Option<Decoded> {
        let mut decoded = Decoded { stretch, ..Decoded::default() };
        // What was found in a portion that was given up is of no interest.
        self.lanes.wrongs();
        let whole = self.put(portion, &mut decoded).ok()?;
        decoded.wrongs = self.lanes.wrongs();
        whole.then_some(decoded)
    }

    /// Whether it was put as a whole.
    fn put(&mut self, portion: &Portion, decoded: &mut Decoded) -> io::Result<bool> {
        let Self { lanes, merge } = self;
        let Decoded { starts, stops, stretch, .. } = decoded;
        let bytes: u64 =
            portion.ends.iter().zip(&*portion.pages).map(|(end, page)| end - page).sum();
        let most =
            usize::try_from(bytes * EVENTS_PER_PAGES).unwrap_or(usize::MAX) / size_of::<Event>();
        lanes.names.forget();
        lanes.pause_at(&portion.ends);
        lanes.seek(portion.from, portion.pages.iter().copied())?;
        *starts = lanes.places();
        merge.resume(lanes, portion.until);
        stretch.clear(most / EVENTS_PER_PAGES as usize);
        loop {
            merge.fill(lanes, stretch)?;
            if !stretch.is_full() {
                break;
            }
            if stretch.count() > most {
                return Ok(false);
            }
            stretch.grow();
        }
        *stops = lanes.places();
        Ok(true)
    }
}
