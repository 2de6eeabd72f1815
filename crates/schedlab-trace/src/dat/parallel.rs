//! Decoding on several threads: each has some of the lanes and keeps a few runs of each ready.
//!
//! Only decoding is spread; the merge takes runs from the threads in the order in which it needs them,
//! so the events are the same as with one thread. Memory: a few runs of a few thousand events for each
//! lane.

use super::pages::Unpacker;
use super::reader::{Lane, Shared};
use crate::merge::Refill;
use schedlab_model::Event;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Runs of a lane that are kept ready.
const READY: usize = 3;
/// Events of a run, about: handing over costs a lock.
const RUN: usize = 2048;

/// The threads and what they have ready.
pub(super) struct Crew {
    desks: Vec<Arc<Desk>>,
    threads: Vec<JoinHandle<Vec<(usize, Lane)>>>,
    /// For each lane, its desk and its place there.
    places: Vec<(usize, usize)>,
}

/// Where one thread lays out its runs.
#[derive(Default)]
struct Desk {
    trays: Mutex<Trays>,
    /// A run was laid out, or a lane has ended.
    ready: Condvar,
    /// A run was taken.
    taken: Condvar,
}

#[derive(Default)]
struct Trays {
    lanes: Vec<Tray>,
    stop: bool,
}

#[derive(Default)]
struct Tray {
    runs: VecDeque<Vec<Event>>,
    /// Emptied runs, to be filled again.
    spare: Vec<Vec<Event>>,
    ended: bool,
    error: Option<io::Error>,
}

impl Desk {
    /// A thread that panicked left whole runs behind: the data is sound.
    fn lock(&self) -> MutexGuard<'_, Trays> {
        self.trays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    /// Deals `lanes` out to `threads` threads and starts them.
    pub(super) fn new(shared: &Arc<Shared>, lanes: Vec<Lane>, threads: usize) -> Self {
        let threads = threads.min(lanes.len()).max(1);
        let mut hands: Vec<Vec<(usize, Lane)>> = (0..threads).map(|_| Vec::new()).collect();
        let mut places = Vec::new();
        for (index, lane) in lanes.into_iter().enumerate() {
            let desk = index % threads;
            places.push((desk, hands[desk].len()));
            hands[desk].push((index, lane));
        }
        let desks: Vec<Arc<Desk>> = hands
            .iter()
            .map(|hand| {
                let lanes = hand.iter().map(|_| Tray::default()).collect();
                Arc::new(Desk {
                    trays: Mutex::new(Trays { lanes, stop: false }),
                    ..Desk::default()
                })
            })
            .collect();
        let threads = hands
            .into_iter()
            .zip(&desks)
            .map(|(hand, desk)| {
                let (shared, desk) = (Arc::clone(shared), Arc::clone(desk));
                std::thread::spawn(move || work(&shared, &desk, hand))
            })
            .collect();
        Self { desks, threads, places }
    }

    /// Ends the threads; the lanes with what they found wrong, in their order.
    pub(super) fn finish(mut self) -> Vec<Lane> {
        let mut lanes = self.stop();
        lanes.sort_by_key(|(index, _)| *index);
        lanes.into_iter().map(|(_, lane)| lane).collect()
    }

    fn stop(&mut self) -> Vec<(usize, Lane)> {
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

impl Refill for Crew {
    fn refill(&mut self, lane: usize, out: &mut Vec<Event>) -> io::Result<bool> {
        let (desk, place) = self.places[lane];
        let desk = &self.desks[desk];
        let mut trays = desk.lock();
        loop {
            let tray = &mut trays.lanes[place];
            if let Some(run) = tray.runs.pop_front() {
                let emptied = std::mem::replace(out, run);
                tray.spare.push(emptied);
                drop(trays);
                desk.taken.notify_one();
                return Ok(true);
            }
            if let Some(error) = tray.error.take() {
                return Err(error);
            }
            if tray.ended {
                return Ok(false);
            }
            trays = desk.ready.wait(trays).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Decodes whatever lane has the fewest runs ready, until all have ended.
fn work(shared: &Shared, desk: &Desk, mut lanes: Vec<(usize, Lane)>) -> Vec<(usize, Lane)> {
    let mut unpacker = Unpacker::default();
    loop {
        let mut trays = desk.lock();
        let (place, mut run) = loop {
            let open = trays.lanes.iter().enumerate().filter(|(_, tray)| !tray.ended);
            let Some((place, tray)) = open.min_by_key(|(_, tray)| tray.runs.len()) else {
                return lanes;
            };
            if trays.stop {
                return lanes;
            }
            if tray.runs.len() < READY {
                break (place, trays.lanes[place].spare.pop().unwrap_or_default());
            }
            trays = desk.taken.wait(trays).unwrap_or_else(PoisonError::into_inner);
        };
        drop(trays);
        run.clear();
        let (ended, error) = fill(shared, &mut lanes[place].1, &mut unpacker, &mut run);
        let mut trays = desk.lock();
        let tray = &mut trays.lanes[place];
        if !run.is_empty() {
            tray.runs.push_back(run);
        }
        tray.ended = ended;
        tray.error = error;
        drop(trays);
        desk.ready.notify_one();
    }
}

/// Fills a run; whether the lane has ended, and why if by an error.
fn fill(
    shared: &Shared,
    lane: &mut Lane,
    unpacker: &mut Unpacker,
    run: &mut Vec<Event>,
) -> (bool, Option<io::Error>) {
    while run.len() < RUN {
        match lane.page(shared, unpacker, run) {
            Ok(true) => {}
            Ok(false) => return (true, None),
            Err(error) => return (true, Some(error)),
        }
    }
    (false, None)
}
