//! A bundle: a graph of many short jobs that is one job for the policy, and work for all workers.
//!
//! The policy hands out *shares*, which are jobs like any other: they have a place in the order, can be cancelled, and end.
//! A worker with a share takes jobs of the bundle from its own deque, then new ones of the graph, then those of other
//! workers. So a short job costs no token. After `SLICE_NS` a share lets go, so that everything else that is due gets its turn;
//! the pool posts it again.
//!
//! ```text
//!  policy ──share──> worker: own deque <─ successors of what it ran     (none left: next roots of the graph)
//!                       └──── steals from the deques of the others      (none left: the share ends)
//! ```
//!
//! ```
//! use schedlab_jobs::bundle::{BundleStep, Bundle, Share};
//! use schedlab_jobs::graph::{Rules, Shape};
//! use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
//! use std::sync::Arc;
//!
//! let graph = Arc::new(Shape::Tree.build(&Rules { nodes: 1000, ..Rules::default() }));
//! let (bundle, sum) = (Bundle::new(graph, 2), AtomicU32::new(0));
//! let share = |worker| bundle.work(worker, || 0, |asked| match asked {
//!     BundleStep::Run(node) => { sum.fetch_add(node, Relaxed); }
//!     BundleStep::Help => {}
//! });
//! // Two workers, each with a share of the bundle.
//! std::thread::scope(|scope| for worker in 0..2 {
//!     scope.spawn(move || while share(worker) == Share::Again {});
//! });
//! assert!(bundle.is_done());
//! assert_eq!(sum.into_inner(), 999 * 1000 / 2);
//! ```
//!
//! Each job of a deque belongs to a share that is running or posted again, so no job is left behind. A share that ends for
//! lack of work is wanted again when some worker has two jobs ([`BundleStep::Help`]).

use crate::deque::{Deque, Stealer};
use crate::graph::{Graph, Node};
use crate::policy::Nanos;
use crate::sync::{AtomicBool, AtomicU32, Mutex, MutexGuard};
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Arc, PoisonError};

/// A share ends after this many nanoseconds, and the job that it runs then, so that other jobs of
/// the pool get their turn.
pub(crate) const SLICE_NS: Nanos = 200_000;
/// Nanoseconds for which a share without work looks for some before it ends.
pub(crate) const LINGER_NS: Nanos = 20_000;
/// The clock is read after this many jobs at most.
const LOOK_MAX: u32 = 64;
/// Jobs that take this long together make the next look at the clock an earlier one.
const LOOK_NS: Nanos = 10_000;
/// Nodes of the graph that are looked at for roots at once, at most.
const ROOTS_MAX: u32 = 16;

/// How a share ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// There is nothing for it to do now.
    Idle,
    /// It lets others go first: post it again.
    Again,
}

/// What [`Bundle::work`] asks of its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BundleStep {
    /// Run this job of the bundle.
    Run(Node),
    /// Post one more share: there is work for another worker.
    Help,
}

/// In a cache line of its own: the one that takes roots would else take the line away that all read before each job.
#[repr(align(128))]
struct Apart(AtomicU32);

struct Place {
    deque: Mutex<Deque>,
    stealer: Stealer,
}

/// A bundle of short jobs; the module describes it.
pub struct Bundle {
    graph: Arc<Graph>,
    /// Predecessors that have not ended, by job; empty where none has any.
    waits: Vec<AtomicU32>,
    /// From here on nobody has looked for roots.
    next: Apart,
    /// Jobs that have not ended, or whose end was not told.
    left: AtomicU32,
    /// Shares that ended for lack of work.
    idle: AtomicU32,
    /// A job panicked: no other one begins.
    broken: AtomicBool,
    places: Vec<Place>,
}

impl Bundle {
    /// A bundle for `workers` workers.
    pub fn new(graph: Arc<Graph>, workers: usize) -> Self {
        let wait = |node| AtomicU32::new(graph.predecessors(node).len() as u32);
        let place = || {
            let deque = Deque::new();
            Place { stealer: deque.stealer(), deque: Mutex::new(deque) }
        };
        Self {
            waits: if graph.edges() == 0 {
                Vec::new()
            } else {
                (0..graph.len()).map(wait).collect()
            },
            next: Apart(AtomicU32::new(0)),
            left: AtomicU32::new(graph.len()),
            idle: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            places: std::iter::repeat_with(place).take(workers.max(1)).collect(),
            graph,
        }
    }

    /// Whether all jobs have ended.
    pub fn is_done(&self) -> bool {
        self.left.load(Acquire) == 0
    }

    /// Whether a share ended for lack of work, and none was asked for since. It is, from now on.
    fn is_wanted(&self) -> bool {
        let one_less = |idle: u32| idle.checked_sub(1);
        self.idle.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }

    /// A worker's share: asks for jobs to be run until there is nothing to do, or until others shall go first. `now` is
    /// the pool's clock. A panic of `ask` ends the bundle: no further job begins.
    pub fn work(
        &self,
        worker: usize,
        now: impl Fn() -> Nanos,
        mut ask: impl FnMut(BundleStep),
    ) -> Share {
        let place = &self.places[worker % self.places.len()];
        let deque = place.deque.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = now();
        let mut share = Working {
            bundle: self,
            worker,
            deque,
            roots: 0..0,
            hand: None,
            empty: false,
            ended: 0,
            idle_since: None,
            looks: Looks { begin, last: begin, every: 1, count: 0 },
        };
        loop {
            match share.take() {
                Some(job) => {
                    ask(BundleStep::Run(job));
                    share.end(job, &mut ask);
                    if share.looks.are_over(&now) {
                        share.lay_down();
                        share.hand_out(&mut ask);
                        return Share::Again;
                    }
                }
                None if share.waits_for_work(&now) => {}
                None => return Share::Idle,
            }
        }
    }
}

/// When the clock is read.
struct Looks {
    begin: Nanos,
    last: Nanos,
    every: u32,
    count: u32,
}

impl Looks {
    /// After each job: whether the share's time is over.
    fn are_over(&mut self, now: impl Fn() -> Nanos) -> bool {
        self.count += 1;
        if self.count < self.every {
            return false;
        }
        let time = now();
        let took = time.saturating_sub(self.last);
        self.every = if took < LOOK_NS { (2 * self.every).min(LOOK_MAX) } else { 1 };
        (self.last, self.count) = (time, 0);
        time.saturating_sub(self.begin) >= SLICE_NS
    }
}

struct Working<'b> {
    bundle: &'b Bundle,
    worker: usize,
    deque: MutexGuard<'b, Deque>,
    /// Nodes of the graph that it looks at for roots.
    roots: Range<Node>,
    /// The next job: most have one successor that is ready, and that one needs no deque.
    hand: Option<Node>,
    /// Nothing was put into its deque since that was found empty.
    empty: bool,
    /// Jobs whose end was not told.
    ended: u32,
    /// Since when it has found nothing.
    idle_since: Option<Nanos>,
    looks: Looks,
}

impl Working<'_> {
    fn take(&mut self) -> Option<Node> {
        if self.bundle.broken.load(Relaxed) {
            return None;
        }
        let own = self.hand.take().or_else(|| self.own());
        own.or_else(|| self.root()).or_else(|| self.steal())
    }

    /// The newest of its deque. Others take from it, but nobody else puts in.
    fn own(&mut self) -> Option<Node> {
        if self.empty {
            return None;
        }
        let job = self.deque.pop();
        self.empty = job.is_none();
        job
    }

    /// The next job of the graph that waits for nothing.
    fn root(&mut self) -> Option<Node> {
        let Bundle { graph, next, places, .. } = self.bundle;
        loop {
            if let Some(node) = self.roots.find(|&node| graph.predecessors(node).is_empty()) {
                return Some(node);
            }
            let from = next.0.load(Relaxed);
            let left = graph.len().saturating_sub(from);
            if left == 0 {
                return None;
            }
            // Fewer at the end: what one worker has taken, no other one can steal.
            let count = (left / (8 * places.len() as u32)).clamp(1, ROOTS_MAX);
            let from = next.0.fetch_add(count, Relaxed).min(graph.len());
            self.roots = from..(from + count).min(graph.len());
        }
    }

    fn steal(&mut self) -> Option<Node> {
        self.empty = false;
        let places = &self.bundle.places;
        (1..places.len()).find_map(|further| {
            places[(self.worker + further) % places.len()].stealer.steal_into(&self.deque)
        })
    }

    /// A job has ended: which of its successors may start?
    fn end(&mut self, job: Node, ask: &mut impl FnMut(BundleStep)) {
        self.ended += 1;
        self.idle_since = None;
        let Bundle { graph, waits, idle, .. } = self.bundle;
        for &next in graph.successors(job) {
            if waits[next as usize].fetch_sub(1, AcqRel) != 1 {
                continue;
            }
            if self.hand.is_none() {
                self.hand = Some(next);
                continue;
            }
            self.deque.push(next);
            self.empty = false;
            if idle.load(Relaxed) > 0 && self.bundle.is_wanted() {
                ask(BundleStep::Help);
            }
        }
    }

    /// What it holds is left where others find it.
    fn lay_down(&mut self) {
        if let Some(job) = self.hand.take() {
            self.deque.push(job);
        }
        let graph = &self.bundle.graph;
        let roots = std::mem::take(&mut self.roots);
        let roots = roots.filter(|&node| graph.predecessors(node).is_empty());
        roots.for_each(|node| self.deque.push(node));
    }

    /// Asks for the shares that ended for lack of work, if there is more than its own next job: nobody could take the
    /// roots that it held.
    fn hand_out(&self, ask: &mut impl FnMut(BundleStep)) {
        for _ in 1..self.deque.len() {
            if !self.bundle.is_wanted() {
                return;
            }
            ask(BundleStep::Help);
        }
    }

    fn tell(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        if ended > 0 {
            self.bundle.left.fetch_sub(ended, Release);
        }
    }

    /// Without work: tells what has ended, and waits a little; false when the share is to end.
    fn waits_for_work(&mut self, now: impl Fn() -> Nanos) -> bool {
        self.tell();
        if self.bundle.is_done() || self.bundle.broken.load(Relaxed) {
            return false;
        }
        let time = now();
        let since = *self.idle_since.get_or_insert(time);
        if time.saturating_sub(since) < LINGER_NS
            && time.saturating_sub(self.looks.begin) < SLICE_NS
        {
            crate::sync::yield_now();
            return true;
        }
        self.bundle.idle.fetch_add(1, Relaxed);
        false
    }
}

impl Drop for Working<'_> {
    /// What it holds is left where others find it.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.bundle.broken.store(true, Relaxed);
        }
        self.lay_down();
        self.tell();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};
    use std::cell::Cell;

    #[test]
    #[cfg_attr(miri, ignore = "the epochs of crossbeam, which Miri refuses")]
    fn a_share_that_lets_go_calls_back_whoever_found_nothing_while_it_held_all_roots() {
        let rules = Rules { nodes: 256, fan: 16, ..Rules::default() };
        let bundle = Bundle::new(Arc::new(Shape::AllToAll.build(&rules)), 2);
        let time = Cell::new(0);
        let now = || {
            time.set(time.get() + LINGER_NS);
            time.get()
        };
        let (mut helps, mut jobs) = (0, 0);
        let share = bundle.work(0, now, |asked| match asked {
            BundleStep::Help => helps += 1,
            BundleStep::Run(_) => {
                jobs += 1;
                if jobs == 1 {
                    let other = bundle.work(1, now, |_| panic!("all that is ready is held"));
                    assert_eq!(other, Share::Idle);
                }
            }
        });
        assert!(jobs < 16, "{jobs}");
        assert_eq!((share, helps), (Share::Again, 1));
        let took = |asked| assert!(matches!(asked, BundleStep::Run(_)));
        assert_ne!(bundle.work(1, now, took), Share::Idle);
    }
}
