//! Fetching and unpacking on several threads: each has some of the lanes and keeps windows of each ready.
//!
//! Only what needs no order is spread: decoding follows in the order of time, so the events are the
//! same as with one thread. Memory: [`READY`] windows for each lane beside the one that is read.

use super::lane::Shared;
use super::pages::{Feed, Unpacker, Window};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Windows of a lane that are kept ready.
const READY: usize = 2;

/// The threads and what they have ready.
pub(super) struct Crew {
    desks: Vec<Arc<Desk>>,
    threads: Vec<JoinHandle<Vec<(usize, Feed)>>>,
    /// For each lane, its desk and its place there.
    places: Vec<(usize, usize)>,
}

/// Where one thread lays out its windows.
#[derive(Default)]
struct Desk {
    trays: Mutex<Trays>,
    /// A window was laid out, or a lane has ended.
    ready: Condvar,
    /// A window was taken.
    taken: Condvar,
}

#[derive(Default)]
struct Trays {
    lanes: Vec<Tray>,
    stop: bool,
}

#[derive(Default)]
struct Tray {
    windows: VecDeque<Window>,
    /// Windows that were read, to be filled again.
    spare: Vec<Window>,
    ended: bool,
    error: Option<io::Error>,
}

impl Desk {
    /// A thread that panicked left whole windows behind: the data is sound.
    fn lock(&self) -> MutexGuard<'_, Trays> {
        self.trays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    /// Deals the lanes' `feeds` out to `threads` threads and starts them.
    pub(super) fn new(shared: &Arc<Shared>, feeds: Vec<Feed>, threads: usize) -> Self {
        let threads = threads.min(feeds.len()).max(1);
        let mut hands: Vec<Vec<(usize, Feed)>> = (0..threads).map(|_| Vec::new()).collect();
        let mut places = Vec::new();
        for (index, feed) in feeds.into_iter().enumerate() {
            let desk = index % threads;
            places.push((desk, hands[desk].len()));
            hands[desk].push((index, feed));
        }
        let desk = |hand: &Vec<_>| {
            let lanes = hand.iter().map(|_| Tray::default()).collect();
            Arc::new(Desk { trays: Mutex::new(Trays { lanes, stop: false }), ..Desk::default() })
        };
        let desks: Vec<Arc<Desk>> = hands.iter().map(desk).collect();
        let start = |(hand, desk): (Vec<(usize, Feed)>, &Arc<Desk>)| {
            let (shared, desk) = (Arc::clone(shared), Arc::clone(desk));
            std::thread::spawn(move || work(&shared, &desk, hand))
        };
        let threads = hands.into_iter().zip(&desks).map(start).collect();
        Self { desks, threads, places }
    }

    /// Replaces a lane's window by its next one; empty at the end.
    pub(super) fn fill(&mut self, lane: usize, window: &mut Window) -> io::Result<()> {
        let (desk, place) = self.places[lane];
        let desk = &self.desks[desk];
        let mut trays = desk.lock();
        loop {
            let tray = &mut trays.lanes[place];
            if let Some(next) = tray.windows.pop_front() {
                let read = std::mem::replace(window, next);
                tray.spare.push(read);
                drop(trays);
                desk.taken.notify_one();
                return Ok(());
            }
            if let Some(error) = tray.error.take() {
                return Err(error);
            }
            if tray.ended {
                window.bytes.clear();
                return Ok(());
            }
            trays = desk.ready.wait(trays).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the threads; the feeds with what they found wrong, in their order.
    pub(super) fn finish(&mut self) -> Vec<Feed> {
        let mut feeds = self.stop();
        feeds.sort_by_key(|(index, _)| *index);
        feeds.into_iter().map(|(_, feed)| feed).collect()
    }

    fn stop(&mut self) -> Vec<(usize, Feed)> {
        for desk in &self.desks {
            desk.lock().stop = true;
            desk.taken.notify_all();
        }
        self.threads.drain(..).filter_map(|thread| thread.join().ok()).flatten().collect()
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Fills windows of whatever lane has the fewest ready, until all have ended.
fn work(shared: &Shared, desk: &Desk, mut feeds: Vec<(usize, Feed)>) -> Vec<(usize, Feed)> {
    let mut unpacker = Unpacker::default();
    loop {
        let mut trays = desk.lock();
        let (place, mut window) = loop {
            let open = trays.lanes.iter().enumerate().filter(|(_, tray)| !tray.ended);
            let Some((place, tray)) = open.min_by_key(|(_, tray)| tray.windows.len()) else {
                return feeds;
            };
            if trays.stop {
                return feeds;
            }
            if tray.windows.len() < READY {
                break (place, trays.lanes[place].spare.pop().unwrap_or_default());
            }
            trays = desk.taken.wait(trays).unwrap_or_else(PoisonError::into_inner);
        };
        drop(trays);
        let filled = feeds[place].1.fill(&shared.input, &mut unpacker, &mut window);
        let mut trays = desk.lock();
        let tray = &mut trays.lanes[place];
        tray.ended = filled.is_err() || window.bytes.is_empty();
        tray.error = filled.err();
        if !tray.ended {
            tray.windows.push_back(window);
        }
        drop(trays);
        desk.ready.notify_one();
    }
}
