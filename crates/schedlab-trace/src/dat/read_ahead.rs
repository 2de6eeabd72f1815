//! Unpacking on several threads: any of them, the caller's too, takes the next chunk of the lane that has the
//! fewest ready.
//!
//! Only what needs no order is spread: decoding follows in the order of time, so the events are the
//! same as with one thread. The caller unpacks what it needs and nobody has begun, and other chunks while the one that it
//! needs is on the way. Memory: at least [`READY`] windows for each lane beside the one that is read.

use super::pages::{Feed, Packed, Trouble, Unpacker, Window};
use super::shared::Shared;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Windows of a lane that are kept ready, or are on the way; more where lanes are fewer than threads.
pub(super) const READY: usize = 2;

/// The threads and what they have ready.
pub(super) struct ReadThreads {
    pool: Arc<ReadPool>,
    threads: Vec<JoinHandle<()>>,
    /// The unpacker of the caller's own thread.
    unpacker: Unpacker,
}

/// Where the threads lay out their windows.
struct ReadPool {
    shared: Arc<Shared>,
    queues: Mutex<LaneQueues>,
    /// A window was laid out.
    ready: Condvar,
    /// A window was taken, or all is over.
    taken: Condvar,
}

struct LaneQueues {
    lanes: Vec<LaneQueue>,
    /// Most windows of a lane.
    ready: usize,
    stop: bool,
}

struct LaneQueue {
    /// Which chunk is next.
    feed: Feed,
    /// Those that somebody has begun, in order; `None` while it is on the way.
    windows: VecDeque<Option<Laid>>,
    /// How many were taken.
    taken: usize,
    /// Windows that were read, to be filled again.
    spare: Vec<Window>,
    /// What was found wrong first.
    wrong: Option<Trouble>,
}

/// A chunk that was unpacked; without bytes if that was not possible.
#[derive(Default)]
struct Laid {
    window: Window,
    trouble: Option<Trouble>,
    error: Option<io::Error>,
}

/// A chunk that somebody has begun.
struct Task {
    lane: usize,
    /// Its place among all of the lane.
    number: usize,
    packed: Packed,
    window: Window,
}

impl LaneQueue {
    /// Whether there are chunks to unpack. One buffer may be packed and another not: what is not is for the caller.
    fn is_open(&self) -> bool {
        self.feed.is_packed() && !self.feed.is_at_end()
    }
}

impl LaneQueues {
    /// The next chunk of the lane with the fewest windows, if any has room.
    fn begin(&mut self, shared: &Shared) -> Option<Task> {
        loop {
            let open = self.lanes.iter().enumerate();
            let open =
                open.filter(|(_, queue)| queue.is_open() && queue.windows.len() < self.ready);
            let (lane, _) = open.min_by_key(|(_, queue)| queue.windows.len())?;
            if let Some(task) = self.begin_in(lane, shared) {
                return Some(task);
            }
        }
    }

    /// The next chunk of a lane. `None` where it has none, of which may have been left word.
    fn begin_in(&mut self, lane: usize, shared: &Shared) -> Option<Task> {
        let queue = &mut self.lanes[lane];
        let number = queue.taken + queue.windows.len();
        match queue.feed.next(&shared.input) {
            Ok(Some(packed)) => {
                queue.windows.push_back(None);
                let window = queue.spare.pop().unwrap_or_default();
                return Some(Task { lane, number, packed, window });
            }
            Ok(None) => {
                if let Some(trouble) = queue.feed.trouble.take() {
                    let laid = Laid { trouble: Some(trouble), ..Laid::default() };
                    queue.windows.push_back(Some(laid));
                }
            }
            Err(error) => {
                queue.feed.end();
                queue.windows.push_back(Some(Laid { error: Some(error), ..Laid::default() }));
            }
        }
        None
    }

    /// Whether no lane has chunks that nobody has begun.
    fn are_at_end(&self) -> bool {
        !self.lanes.iter().any(LaneQueue::is_open)
    }
}

impl ReadPool {
    /// A thread that panicked left nothing half done: the data is sound.
    fn lock(&self) -> MutexGuard<'_, LaneQueues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Unpacks a chunk and lays it out.
    fn unpack(&self, task: Task, unpacker: &mut Unpacker) {
        let Task { lane, number, packed, mut window } = task;
        let mut place = Place { pool: self, lane, number, laid: None };
        let (trouble, error) = match packed.unpack(&self.shared.input, unpacker, &mut window) {
            Ok(trouble) => (trouble, None),
            Err(error) => (None, Some(error)),
        };
        place.laid = Some(Laid { window, trouble, error });
    }

    /// What a thread does.
    fn work(&self) {
        let mut unpacker = Unpacker::default();
        let mut queues = self.lock();
        while !queues.stop && !queues.are_at_end() {
            match queues.begin(&self.shared) {
                Some(task) => {
                    drop(queues);
                    self.unpack(task, &mut unpacker);
                    queues = self.lock();
                }
                None if queues.are_at_end() => {}
                None => queues = self.taken.wait(queues).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// Where a chunk belongs that is on its way.
struct Place<'a> {
    pool: &'a ReadPool,
    lane: usize,
    number: usize,
    laid: Option<Laid>,
}

impl Drop for Place<'_> {
    /// Also when unpacking panics, so that nobody waits for ever.
    fn drop(&mut self) {
        let laid = self.laid.take().unwrap_or_else(|| Laid {
            error: Some(io::Error::other("a thread that unpacks has panicked")),
            ..Laid::default()
        });
        let mut queues = self.pool.lock();
        let queue = &mut queues.lanes[self.lane];
        let place = self.number - queue.taken;
        queue.windows[place] = Some(laid);
        drop(queues);
        self.pool.ready.notify_one();
    }
}

impl ReadThreads {
    /// Starts `threads` threads that unpack what `feeds` lead to.
    pub(super) fn new(shared: &Arc<Shared>, feeds: Vec<Feed>, threads: usize) -> Self {
        let ready = (2 * threads).div_ceil(feeds.len().max(1)).max(READY);
        let queue = |mut feed: Feed| {
            let wrong = feed.trouble.take();
            LaneQueue { feed, windows: VecDeque::new(), taken: 0, spare: Vec::new(), wrong }
        };
        let lanes = feeds.into_iter().map(queue).collect();
        let pool = Arc::new(ReadPool {
            shared: Arc::clone(shared),
            queues: Mutex::new(LaneQueues { lanes, ready, stop: false }),
            ready: Condvar::new(),
            taken: Condvar::new(),
        });
        let start = |_| {
            let pool = Arc::clone(&pool);
            let name = "schedlab-unpack".to_owned();
            // Where there can be no more threads, there are fewer.
            std::thread::Builder::new().name(name).spawn(move || pool.work()).ok()
        };
        let threads = (0..threads).filter_map(start).collect();
        Self { pool, threads, unpacker: Unpacker::default() }
    }

    /// Replaces a lane's window by its next one; empty at the end.
    pub(super) fn fill(&mut self, lane: usize, window: &mut Window) -> io::Result<()> {
        let pool = &*self.pool;
        let mut queues = pool.lock();
        loop {
            let queue = &mut queues.lanes[lane];
            if !queue.feed.is_packed() {
                return queue.feed.fill(&pool.shared.input, &mut self.unpacker, window);
            }
            let task = match queue.windows.front_mut() {
                Some(first) => match first.take() {
                    Some(laid) => {
                        queue.windows.pop_front();
                        queue.taken += 1;
                        if let Some(error) = laid.error {
                            return Err(error);
                        }
                        if let Some(trouble) = laid.trouble {
                            queue.wrong.get_or_insert(trouble);
                        }
                        let read = std::mem::replace(window, laid.window);
                        queue.spare.push(read);
                        // One that could not be unpacked is passed over.
                        if window.bytes.is_empty() {
                            continue;
                        }
                        drop(queues);
                        pool.taken.notify_one();
                        return Ok(());
                    }
                    // On the way: meanwhile another.
                    None => queues.begin(&pool.shared),
                },
                None if queue.feed.is_at_end() => {
                    window.bytes.clear();
                    return Ok(());
                }
                None => match queues.begin_in(lane, &pool.shared) {
                    Some(task) => Some(task),
                    None => continue,
                },
            };
            queues = match task {
                Some(task) => {
                    drop(queues);
                    pool.unpack(task, &mut self.unpacker);
                    pool.lock()
                }
                None => pool.ready.wait(queues).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Ends the threads; what was found wrong in each lane.
    pub(super) fn finish(&mut self) -> Vec<Option<Trouble>> {
        self.stop();
        let wrong =
            |queue: &mut LaneQueue| queue.wrong.take().or_else(|| queue.feed.trouble.take());
        self.pool.lock().lanes.iter_mut().map(wrong).collect()
    }

    fn stop(&mut self) {
        self.pool.lock().stop = true;
        self.pool.taken.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for ReadThreads {
    fn drop(&mut self) {
        self.stop();
    }
}
