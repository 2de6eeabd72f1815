//! The shared memory of a load: all that its tasks have in common, as words.
//!
//! Each thing that several tasks write has a cache line of its own. The arena is laid out once from
//! the plan; forked processes find it at the same addresses.

use super::live_counters::{self, Live};
use schedlab_model::{CpuSet, Nanos, Pid, Usage};
use schedlab_sys::futex::Scope;
use schedlab_sys::shared;
use schedlab_workload::measure::Moment;
use schedlab_workload::plan::{Block, Plan, Queue};
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};

/// Words of a cache line.
pub(super) const LINE: usize = 8;

/// Words of the control line: see the accessors.
const STOP: usize = 0;
const READY: usize = LINE;
const GO: usize = 2 * LINE;
const ENDED: usize = 3 * LINE;
const EXPECTED: usize = 4 * LINE;
const UNTIL: usize = 5 * LINE;
const CONTROL: usize = 6 * LINE;

/// Words that every task has for itself, before its counters and series.
const TASK: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskState {
    /// It was not started, or has not said that it is ready.
    Absent,
    /// It works or is about to.
    Ready,
    /// The task has ended for good.
    Ended,
}

pub(super) struct Arena {
    words: &'static [AtomicU64],
    dials: usize,
    word_lines: usize,
    locks: usize,
    cpu_locks: usize,
    barriers: usize,
    semaphores: usize,
    parties: Vec<u32>,
    queues: Vec<(usize, Queue)>,
    blocks: Vec<Option<(usize, usize)>>,
    pages: Vec<Option<&'static [AtomicU8]>>,
    tasks: usize,
    task_words: usize,
    counters: usize,
    series: usize,
    task_count: usize,
    word_count: usize,
    lock_count: usize,
    semaphore_count: usize,
    /// Who waits on words of the arena: other processes, or only threads of this one.
    pub(super) scope: Scope,
    /// Whether locks lend their holder the priority of the one that waits.
    pub(super) locks_inherit: bool,
}

fn line(words: usize) -> usize {
    words.next_multiple_of(LINE)
}

impl Arena {
    pub(super) fn new(plan: &Plan) -> io::Result<Self> {
        Self::for_cpus(plan, &schedlab_sys::topology::online(std::path::Path::new("/sys"))?)
    }

    /// With a lock for each of these CPUs by its number, however many numbers between them are nobody's.
    fn for_cpus(plan: &Plan, cpus: &CpuSet) -> io::Result<Self> {
        let mut end = CONTROL;
        let mut take = |words: usize| {
            let at = end;
            end += line(words);
            at
        };
        let dials = take(plan.dials.len().max(1));
        let word_lines = take(plan.words as usize * LINE);
        let locks = take(plan.locks as usize * LINE);
        let highest = cpus.iter().map(|cpu| cpu.index()).max().unwrap_or(0);
        // CPUs that come online later share the locks of others.
        let cpu_locks = take((highest + 1).next_power_of_two() * LINE);
        let barriers = take(plan.barriers.len() * 2 * LINE);
        let semaphores = take(plan.semaphores as usize * LINE);
        let queues = plan.queues.iter().map(|&queue| (take(queue_words(queue)), queue)).collect();
        let blocks = plan.blocks.iter().map(|block| shared_words(block).map(|n| (take(n), n)));
        let blocks = blocks.collect();
        let pages = plan.blocks.iter().map(page).collect::<io::Result<_>>()?;
        let task_words =
            line(TASK + plan.counters.len()) + plan.samples.len() * line(live_counters::words());
        let tasks = take(task_words * plan.tasks.len());
        let arena = Self {
            words: shared::words(end)?,
            dials,
            word_lines,
            locks,
            cpu_locks,
            barriers,
            semaphores,
            parties: plan.barriers.clone(),
            queues,
            blocks,
            pages,
            tasks,
            task_words,
            counters: plan.counters.len(),
            series: plan.samples.len(),
            task_count: plan.tasks.len(),
            word_count: plan.words as usize,
            lock_count: plan.locks as usize,
            semaphore_count: plan.semaphores as usize,
            scope: if plan.processes { Scope::Shared } else { Scope::Private },
            locks_inherit: plan.locks_inherit,
        };
        for (index, &dial) in plan.dials.iter().enumerate() {
            arena.dial(index).store(dial, Relaxed);
        }
        let forked: usize = plan.forks.iter().map(|fork| fork.tasks.len()).sum();
        arena.expected().store((plan.tasks.len() - forked) as u64, Relaxed);
        arena.number_fifos();
        Ok(arena)
    }

    /// Every slot of a bounded queue starts with its own number: see [`Fifo`].
    fn number_fifos(&self) {
        for (at, queue) in &self.queues {
            if let Queue::Fifo { capacity } = queue {
                for slot in 0..capacity.next_power_of_two() as usize {
                    self.words[at + 2 * LINE + slot * 2].store(slot as u64, Relaxed);
                }
            }
        }
    }

    pub(super) fn stop(&self) -> &AtomicU64 {
        &self.words[STOP]
    }

    #[inline]
    pub(super) fn stopping(&self) -> bool {
        self.words[STOP].load(Relaxed) != 0
    }

    pub(super) fn ready(&self) -> &AtomicU64 {
        &self.words[READY]
    }

    pub(super) fn go(&self) -> &AtomicU64 {
        &self.words[GO]
    }

    /// When tasks will be stopped, on the monotonic clock; 0 where that is open.
    pub(super) fn until(&self) -> &AtomicU64 {
        &self.words[UNTIL]
    }

    pub(super) fn ended(&self) -> &AtomicU64 {
        &self.words[ENDED]
    }

    /// How many tasks have been started in all, those included that were started again.
    pub(super) fn expected(&self) -> &AtomicU64 {
        &self.words[EXPECTED]
    }

    pub(super) fn dial(&self, index: usize) -> &AtomicU64 {
        &self.words[self.dials + index]
    }

    /// A word to wait on, and beside it the stamp of its last wake.
    pub(super) fn word(&self, index: u32) -> (&AtomicU64, &AtomicU64) {
        let at = self.word_lines + index as usize * LINE;
        (&self.words[at], &self.words[at + 1])
    }

    pub(super) fn lock(&self, index: u32) -> &AtomicU64 {
        &self.words[self.locks + index as usize * LINE]
    }

    pub(super) fn semaphore(&self, index: u32) -> &AtomicU64 {
        &self.words[self.semaphores + index as usize * LINE]
    }

    pub(super) fn cpu_lock(&self, cpu: usize) -> &AtomicU64 {
        let count = (self.barriers - self.cpu_locks) / LINE;
        &self.words[self.cpu_locks + cpu % count * LINE]
    }

    /// A barrier: who has come, which round it is, how many are to come.
    pub(super) fn barrier(&self, index: u32) -> (&AtomicU64, &AtomicU64, u32) {
        let at = self.barriers + index as usize * 2 * LINE;
        (&self.words[at], &self.words[at + LINE], self.parties[index as usize])
    }

    pub(super) fn queue(&self, index: u32) -> (&'static [AtomicU64], Queue) {
        let (at, queue) = self.queues[index as usize];
        (&self.words[at..at + queue_words(queue)], queue)
    }

    /// How many values the largest stack can hold.
    pub(super) fn stack_capacity(&self) -> usize {
        let capacity = |(_, queue): &(usize, Queue)| match queue {
            Queue::Stack { capacity } => *capacity as usize,
            Queue::Fifo { .. } => 0,
        };
        self.queues.iter().map(capacity).max().unwrap_or(0)
    }

    /// The bytes of a page that tasks share; `None` of another block.
    pub(super) fn page(&self, index: u32) -> Option<&'static [AtomicU8]> {
        self.pages[index as usize]
    }

    /// The words of a block that tasks share; `None` where each task has its own, and of a page.
    pub(super) fn block(&self, index: u32) -> Option<&'static [AtomicU64]> {
        self.blocks[index as usize].map(|(at, words)| &self.words[at..at + words])
    }

    /// How many tasks the plan has, alive or not.
    pub(super) fn task_slots(&self) -> usize {
        self.task_count
    }

    fn task(&self, task: usize) -> &'static [AtomicU64] {
        let at = self.tasks + task * self.task_words;
        &self.words[at..at + self.task_words]
    }

    pub(super) fn counter(&self, task: usize, counter: u32) -> &'static AtomicU64 {
        debug_assert!((counter as usize) < self.counters);
        &self.task(task)[TASK + counter as usize]
    }

    pub(super) fn series(&self, task: usize, series: u32) -> Live<'static> {
        let at = line(TASK + self.counters) + series as usize * line(live_counters::words());
        Live(&self.task(task)[at..at + live_counters::words()])
    }

    /// Counts a task that has ended. Whether its conductor has to hear of it now.
    pub(super) fn leave(&self) -> bool {
        let ended = self.ended().fetch_add(1, AcqRel) + 1;
        ended >= self.expected().load(Acquire) || self.stopping() || self.go().load(Acquire) == 0
    }

    /// Wakes all that wait on anything, so that they see that they shall stop. Words hold 2 from now
    /// on: the one that is about to wait does not.
    pub(super) fn wake_all(&self) {
        let wake = |word: &AtomicU64| {
            let _ = schedlab_sys::futex::wake(word, u32::MAX, self.scope);
        };
        for index in 0..self.word_count {
            let (word, _) = self.word(u32::try_from(index).expect("words are counted in 32 bits"));
            word.store(2, SeqCst);
            wake(word);
        }
        for index in 0..self.lock_count {
            wake(self.lock(u32::try_from(index).expect("locks are counted in 32 bits")));
        }
        for index in 0..self.semaphore_count {
            wake(self.semaphore(u32::try_from(index).expect("counted in 32 bits")));
        }
        for index in 0..self.parties.len() {
            let index = u32::try_from(index).expect("barriers are counted in 32 bits");
            let (_, round, _) = self.barrier(index);
            round.fetch_add(1 << 16, SeqCst);
            wake(round);
        }
    }

    pub(super) fn set_ready(&self, task: usize, thread: Pid) {
        let words = self.task(task);
        words[0].store(thread.0.cast_unsigned().into(), Relaxed);
        words[1].store(1, Release);
    }

    /// A task's end, with what the kernel counted for it and the error that ended it. A task that was
    /// started again adds to what it had.
    pub(super) fn set_ended(&self, task: usize, at: Nanos, usage: &Usage, error: Option<i32>) {
        let words = self.task(task);
        let before = |at: usize| words[2 + at].load(Relaxed);
        let migrations = usage.migrations.map_or(0, |n| n + u64::from(before(7) == 0));
        let error = error.map_or(before(8), |error| error.cast_unsigned().into());
        let added = [
            usage.user.0,
            usage.system.0,
            usage.voluntary,
            usage.involuntary,
            usage.run_delay.0,
            usage.timeslices,
            migrations,
        ];
        words[2].store(at.0, Relaxed);
        for (word, value) in words[3..].iter().zip(added) {
            word.fetch_add(value, Relaxed);
        }
        words[10].store(error, Relaxed);
        words[1].store(2, Release);
    }

    pub(super) fn stand(&self, task: usize) -> TaskState {
        match self.task(task)[1].load(Acquire) {
            0 => TaskState::Absent,
            1 => TaskState::Ready,
            _ => TaskState::Ended,
        }
    }

    pub(super) fn thread(&self, task: usize) -> Pid {
        Pid(self.task(task)[0].load(Relaxed) as i32)
    }

    /// When a task ended, what the kernel counted for it, and the error that ended it.
    pub(super) fn end(&self, task: usize) -> (Nanos, Usage, Option<i32>) {
        let words = self.task(task);
        let read = |at: usize| words[2 + at].load(Relaxed);
        let usage = Usage {
            user: Nanos(read(1)),
            system: Nanos(read(2)),
            voluntary: read(3),
            involuntary: read(4),
            run_delay: Nanos(read(5)),
            timeslices: read(6),
            migrations: read(7).checked_sub(1),
        };
        let error = read(8) as i32;
        (Nanos(read(0)), usage, (error != 0).then_some(error))
    }

    /// A copy of everything that is measured.
    pub(super) fn moment(&self, at: Nanos) -> Moment {
        let mut moment = Moment { at, ..Moment::default() };
        for task in 0..self.task_count {
            for series in 0..self.series {
                let series = u32::try_from(series).expect("a handful of series");
                moment.histograms.push(self.series(task, series).copy());
            }
            let counters = &self.task(task)[TASK..TASK + self.counters];
            moment.counters.extend(counters.iter().map(|word| word.load(Relaxed)));
        }
        moment
    }

    /// The sum of a counter over all tasks.
    pub(super) fn total(&self, counter: u32) -> u64 {
        (0..self.task_count).map(|task| self.counter(task, counter).load(Relaxed)).sum()
    }
}

fn queue_words(queue: Queue) -> usize {
    match queue {
        Queue::Stack { capacity } => LINE + capacity as usize,
        Queue::Fifo { capacity } => 2 * LINE + 2 * capacity.next_power_of_two() as usize,
    }
}

fn shared_words(block: &Block) -> Option<usize> {
    match block {
        Block::Matrices { side, shared: true, .. } => Some(3 * (*side as usize).pow(2)),
        Block::Chain { bytes, .. } => Some((*bytes as usize).div_ceil(8)),
        Block::Matrices { shared: false, .. } | Block::Arrays { .. } | Block::Page { .. } => None,
    }
}

fn page(block: &Block) -> io::Result<Option<&'static [AtomicU8]>> {
    match block {
        Block::Page { bytes } => shared::bytes((*bytes as usize).next_multiple_of(8)).map(Some),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Cpu;

    #[test]
    fn each_cpu_has_a_lock_of_its_own_where_numbers_between_them_are_nobody_s() {
        // CPUs 1 to 62 and 64 to 126 are offline: there are three, and the highest number is far beyond that.
        let holes: CpuSet = [0, 63, 127].map(Cpu).into_iter().collect();
        let arena = Arena::for_cpus(&Plan::new("schbench"), &holes).unwrap();
        let mut places: Vec<usize> = holes
            .iter()
            .map(|cpu| std::ptr::from_ref(arena.cpu_lock(cpu.index())).addr())
            .collect();
        places.sort_unstable();
        // Apart by a cache line at least.
        assert!(places.windows(2).all(|two| two[1] - two[0] >= LINE * 8), "{places:?}");
        // One that comes online later shares another's lock, and writes nowhere else.
        arena.cpu_lock(4_000).store(1, Relaxed);
        assert_eq!((0..128).filter(|&cpu| arena.cpu_lock(cpu).load(Relaxed) == 1).count(), 1);
    }
}
