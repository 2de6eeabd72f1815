//! Where the time from a post to its job's start went, by the kernel's events of the two threads.
//!
//! At each instant between post and start exactly one cause holds:
//!
//! - the worker is runnable and does not run, or waits for the kernel (a page): the kernel's delay;
//! - the worker sleeps and the poster is runnable and does not run: the kernel's run delay too, since
//!   the poster has yet to wake the worker;
//! - one of them runs without coming forward for [`STANDS_NS`]: the machine (interrupts, hypervisor);
//! - everything else: the pool. It has not woken the worker yet, or the worker is on its way to the job.

use schedlab_model::{Event, Left, Pid, What};

/// No code of the pool between a post and its job runs longer than this without an event. A longer
/// stretch on a CPU means that the CPU itself stood still.
pub(super) const STANDS_NS: u64 = 500_000;

/// One post and the start of its job; times in nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Post {
    /// Just before the call.
    pub(super) posted: u64,
    /// When the call had returned: from here on every worker can see the job.
    pub(super) visible: u64,
    /// First statement of the job.
    pub(super) started: u64,
    /// Which worker ran it.
    pub(super) worker: usize,
}

/// Parts of one post's time, in nanoseconds; their sum is `started - posted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// The pool's own part.
    pub(super) pool: u64,
    /// Run delay of the worker or the poster.
    pub(super) kernel: u64,
    /// The CPU itself stood still.
    pub(super) machine: u64,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Runs,
    Waits,
    Sleeps,
}

/// A thread's states over time: each holds from its time on.
#[derive(Debug, Default)]
struct History(Vec<(u64, State)>);

impl History {
    fn at(&self, time: u64) -> State {
        let next = self.0.partition_point(|&(from, _)| from <= time);
        // Before its first event a thread runs: it has told us its number.
        next.checked_sub(1).map_or(State::Runs, |last| self.0[last].1)
    }

    fn changes(&self, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let begin = self.0.partition_point(|&(time, _)| time <= from);
        self.0[begin..].iter().map(|&(time, _)| time).take_while(move |&time| time < to)
    }
}

/// From when to when a worker says that it was parked: begin and end, in order of time.
pub(super) type Parks = Vec<(u64, u64)>;

/// A thread, and what the events say of it.
struct Thread {
    pid: Pid,
    history: History,
    /// It was woken before it had left its CPU. The waker goes on without waiting for that CPU
    /// (`ttwu_queue_wakelist`), so the switch may still follow; then the thread does not sleep.
    woken: bool,
}

impl Thread {
    fn new(pid: Pid) -> Self {
        Self { pid, history: History::default(), woken: false }
    }

    fn last(&self) -> State {
        self.history.0.last().map_or(State::Runs, |&(_, state)| state)
    }

    fn note(&mut self, time: u64, state: State) {
        let woken = std::mem::take(&mut self.woken);
        let state = if state == State::Sleeps && woken { State::Waits } else { state };
        self.history.0.push((time, state));
    }

    fn is_woken(&mut self, time: u64, is_placed: bool) {
        match self.last() {
            State::Sleeps => self.note(time, State::Waits),
            // Placed while it runs: it never left, and a later switch is a sleep of its own.
            _ => self.woken = !is_placed,
        }
    }
}

/// The histories of all workers and of the poster.
pub(super) struct Threads {
    workers: Vec<Thread>,
    poster: Thread,
    parks: Vec<Parks>,
}

impl Threads {
    /// Without events yet; with the parks of each worker.
    pub(super) fn new(workers: &[Pid], poster: Pid, parks: Vec<Parks>) -> Self {
        let workers = workers.iter().map(|&pid| Thread::new(pid)).collect();
        Self { workers, poster: Thread::new(poster), parks }
    }

    /// Takes in the next event, in ascending order of time.
    pub(super) fn see(&mut self, event: &Event) {
        let time = event.time.0;
        match event.what {
            What::Switch { prev, left, next, .. } => {
                // A task in uninterruptible sleep waits for the kernel, as for a page: it did not park.
                let waits = left.is_runnable() || left == Left::Blocked;
                let state = if waits { State::Waits } else { State::Sleeps };
                self.of(prev).for_each(|thread| thread.note(time, state));
                self.of(next).for_each(|thread| thread.note(time, State::Runs));
            }
            What::Waking { pid, .. } => {
                self.of(pid).for_each(|thread| thread.is_woken(time, false));
            }
            What::Wakeup { pid, .. } => {
                self.of(pid).for_each(|thread| thread.is_woken(time, true));
            }
            _ => {}
        }
    }

    fn of(&mut self, pid: Pid) -> impl Iterator<Item = &mut Thread> {
        let all = self.workers.iter_mut().chain([&mut self.poster]);
        all.filter(move |thread| thread.pid == pid)
    }

    /// Splits the time of one post.
    pub(super) fn split(&self, post: &Post) -> Parts {
        let worker = &self.workers[post.worker].history;
        let poster = &self.poster.history;
        let from = post.posted;
        let to = post.started;
        let mut times: Vec<u64> =
            worker.changes(from, to).chain(poster.changes(from, to)).collect();
        times.extend([from, post.visible.min(to), to]);
        times.sort_unstable();
        let mut parts = Parts::default();
        for pair in times.windows(2) {
            let begin = pair[0];
            let length = pair[1] - pair[0];
            let posting = begin < post.visible;
            let part = match (worker.at(begin), poster.at(begin)) {
                (State::Waits, _) => &mut parts.kernel,
                (State::Sleeps, State::Waits) if posting => &mut parts.kernel,
                (State::Runs, _) if length > STANDS_NS => &mut parts.machine,
                (State::Sleeps, State::Runs) if posting && length > STANDS_NS => &mut parts.machine,
                _ => &mut parts.pool,
            };
            *part += length;
        }
        parts
    }

    /// How often the last worker that was awake parked while the job was visible and not started.
    /// The pool must never do this: nobody would run the job. A worker that backs off from contention
    /// sleeps for a bounded time, which is not a park.
    pub(super) fn parked(&self, post: &Post) -> usize {
        let asleep =
            |time: u64| self.workers.iter().all(|one| one.history.at(time) == State::Sleeps);
        let parked = |parks: &Parks, time: u64| {
            let next = parks.partition_point(|&(begin, _)| begin <= time);
            next.checked_sub(1).is_some_and(|last| time <= parks[last].1)
        };
        let workers = self.workers.iter().zip(&self.parks);
        let times = workers.flat_map(|(one, parks)| {
            let changes = one.history.changes(post.visible, post.started);
            changes.filter(move |&time| parked(parks, time))
        });
        times.filter(|&time| asleep(time)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Context, Cpu, Nanos, Prio};

    const WORKER: Pid = Pid(7);
    const POSTER: Pid = Pid(8);

    fn event(time: u64, what: What) -> Event {
        Event { time: Nanos(time), cpu: Cpu(0), by: Pid(1), context: Context::Task, what }
    }

    fn switch(time: u64, prev: Pid, left: Left, next: Pid) -> Event {
        let (prev_prio, next_prio) = (Prio::NORMAL, Prio::NORMAL);
        event(time, What::Switch { prev, prev_prio, left, next, next_prio })
    }

    fn waking(time: u64, pid: Pid) -> Event {
        event(time, What::Waking { pid, prio: Prio::NORMAL, last_cpu: Cpu(0) })
    }

    fn threads(events: &[Event]) -> Threads {
        let mut threads = Threads::new(&[WORKER], POSTER, vec![vec![(1_150, 199_500_000)]]);
        events.iter().for_each(|event| threads.see(event));
        threads
    }

    #[test]
    fn a_wakeup_divides_the_time_between_the_pool_and_the_kernel() {
        let post = Post { posted: 1_000, visible: 1_400, started: 2_000, worker: 0 };
        let threads = threads(&[
            switch(500, WORKER, Left::Slept, Pid::IDLE),
            waking(1_300, WORKER),
            switch(1_900, Pid::IDLE, Left::Displaced, WORKER),
        ]);
        assert_eq!(threads.split(&post), Parts { pool: 400, kernel: 600, machine: 0 });
        assert_eq!(threads.parked(&post), 0);
    }

    /// As recorded: the waker's CPU goes on before the worker's CPU has switched.
    #[test]
    fn a_worker_that_is_woken_while_it_leaves_its_cpu_did_not_park_beside_the_job() {
        let post = Post { posted: 1_000, visible: 1_400, started: 3_009_000, worker: 0 };
        let placed = What::Wakeup { pid: WORKER, prio: Prio::NORMAL, cpu: Cpu(0), new: false };
        let leaves = switch(1_500, WORKER, Left::Slept, Pid(99));
        let runs = switch(3_008_500, Pid(99), Left::Preempted, WORKER);
        let woken = [waking(1_300, WORKER), leaves, event(1_600, placed), runs];
        let seen = threads(&woken);
        assert_eq!(seen.parked(&post), 0);
        assert_eq!(seen.split(&post), Parts { pool: 1_000, kernel: 3_007_000, machine: 0 });
        // Placed before it left: the worker was awake again, and this sleep is another.
        let slept = [waking(1_300, WORKER), event(1_350, placed), leaves, runs];
        assert_eq!(threads(&slept).parked(&post), 1);
    }

    #[test]
    fn a_worker_that_goes_to_sleep_beside_a_visible_job_is_counted_and_is_the_pools_time() {
        let post = Post { posted: 1_000, visible: 1_100, started: 200_000_000, worker: 0 };
        let slept = [
            switch(1_200, WORKER, Left::Slept, Pid::IDLE),
            waking(199_000_000, WORKER),
            switch(199_001_000, Pid::IDLE, Left::Displaced, WORKER),
        ];
        assert_eq!(threads(&slept).parked(&post), 1);
        let backs_off = Threads { parks: vec![Vec::new()], ..threads(&slept) };
        assert_eq!(backs_off.parked(&post), 0, "a bounded sleep is not a park");
        let parts = threads(&slept).split(&post);
        assert_eq!(parts.kernel, 1_000);
        assert!(parts.pool > 198_000_000 && parts.machine == 999_000, "{parts:?}");
    }

    #[test]
    fn a_displaced_poster_that_has_yet_to_wake_the_worker_is_run_delay() {
        let post = Post { posted: 1_000, visible: 9_000, started: 9_500, worker: 0 };
        let threads = threads(&[
            switch(500, WORKER, Left::Slept, Pid::IDLE),
            switch(2_000, POSTER, Left::Preempted, Pid(99)),
            switch(8_000, Pid(99), Left::Slept, POSTER),
            waking(8_500, WORKER),
            switch(8_700, Pid::IDLE, Left::Displaced, WORKER),
        ]);
        assert_eq!(threads.split(&post), Parts { pool: 2_300, kernel: 6_200, machine: 0 });
    }

    #[test]
    fn a_cpu_that_stands_still_is_the_machines_time() {
        let post = Post { posted: 0, visible: 100, started: 5_000_000, worker: 0 };
        let threads = threads(&[]);
        assert_eq!(threads.split(&post), Parts { pool: 100, kernel: 0, machine: 4_999_900 });
    }
}
