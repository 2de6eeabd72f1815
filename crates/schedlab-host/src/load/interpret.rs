//! Drives one task: asks its behaviour for operations and performs them as system calls.
//!
//! The measured path is this loop: a clock reading, the behaviour's step, the system call. It takes
//! no lock of ours and allocates nothing. A task that shall stop learns so with every operation;
//! what blocks is interrupted by a signal that is sent until the task has ended.

use super::arena::{Arena, LINE};
use super::calibrate::compute;
use super::live_counters;
use super::memory::{Heap, Memory};
use schedlab_model::{Nanos, Phase};
use schedlab_sys::{clock, futex, sched, task};
use schedlab_workload::plan::Queue;
use schedlab_workload::{
    Behaviour, ChannelId, CounterId, DialId, Done, Instruments, Op, QueueId, SampleId, WordId,
};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Operations that a task may still ask for after it was asked to stop: enough to close its channels.
const AFTER_STOP: u32 = 100_000;

/// The end of a channel that a task holds.
#[derive(Clone)]
pub(super) enum End {
    Read(Arc<File>),
    /// The end to which the task writes. The last task of the process that drops this end closes it.
    Write(Arc<File>),
}

/// What a task asks of those who started it.
pub(super) trait Stage {
    /// Puts a mark on the timeline.
    fn mark(&self, _at: Nanos, _id: u32, _phase: Phase, _request: u32) {}

    /// Moves the calling task to a place of the plan; the step and errno that failed.
    fn place(&self, _place: u32) -> Result<(), i32> {
        Ok(())
    }

    /// Starts a task of one of the plan's forks; [`Done::Full`] if all of them are alive.
    fn fork(&self, _fork: u32) -> Done {
        Done::Full
    }
}

/// A stage for tasks that ask nothing of it.
pub(super) struct Bare;

impl Stage for Bare {}

/// One task at work.
pub(super) struct Interpreter<'a> {
    pub(super) arena: &'a Arena,
    pub(super) task: usize,
    /// By channel; those that the task has no part in are absent.
    pub(super) ends: Vec<(u32, Option<End>)>,
    pub(super) memory: Vec<Option<Memory>>,
    pub(super) stage: &'a dyn Stage,
    buffer: Vec<u8>,
    /// Values taken from a stack and not yet handed out, last first.
    batch: Vec<u64>,
    heap: Heap,
    cpu_lock: usize,
    /// The error that ended the task.
    error: Option<i32>,
}

/// The instruments of one task: words that it alone writes.
struct Own<'a> {
    arena: &'a Arena,
    task: usize,
    stage: &'a dyn Stage,
}

impl Instruments for Own<'_> {
    #[inline]
    fn sample(&mut self, series: SampleId, value: u64) {
        self.arena.series(self.task, series.0).record(value);
    }

    #[inline]
    fn count(&mut self, counter: CounterId, by: u64) {
        live_counters::count(self.arena.counter(self.task, counter.0), by);
    }

    #[inline]
    fn dial(&self, dial: DialId) -> u64 {
        self.arena.dial(dial.0 as usize).load(Relaxed)
    }

    #[inline]
    fn mark_request(&mut self, at: Nanos, id: u32, phase: Phase, request: u32) {
        self.stage.mark(at, id, phase, request);
    }

    #[inline]
    fn until(&self) -> Option<Nanos> {
        Some(Nanos(self.arena.until().load(Relaxed))).filter(|until| *until > Nanos::ZERO)
    }
}

pub(super) fn code(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(-1)
}

impl<'a> Interpreter<'a> {
    pub(super) fn new(
        arena: &'a Arena,
        task: usize,
        ends: Vec<(u32, Option<End>)>,
        memory: Vec<Option<Memory>>,
        stage: &'a dyn Stage,
    ) -> Self {
        let buffer = Vec::new();
        let batch = Vec::with_capacity(arena.stack_capacity());
        let heap = Heap::default();
        Self { arena, task, ends, memory, stage, buffer, batch, heap, cpu_lock: 0, error: None }
    }

    /// Runs the task to its end; the error that ended it, if one did.
    pub(super) fn run(&mut self, behaviour: &mut dyn Behaviour) -> Option<i32> {
        let mut own = Own { arena: self.arena, task: self.task, stage: self.stage };
        let mut done = Done::Start;
        let mut patience = AFTER_STOP;
        loop {
            if self.arena.stopping() {
                done = Done::Stopped;
                patience -= 1;
                if patience == 0 {
                    return self.error;
                }
            }
            let now = clock::monotonic();
            let op = behaviour.next(now, done, &mut own);
            if op == Op::Exit {
                return self.error;
            }
            done = self.perform(op, now);
            match done {
                // Others have closed what they held because all shall stop.
                Done::Failed(_) if self.arena.stopping() => done = Done::Stopped,
                Done::Failed(errno) => self.error = Some(errno),
                _ => {}
            }
        }
    }

    #[inline]
    fn perform(&mut self, op: Op, now: Nanos) -> Done {
        match op {
            Op::Wait(word) => self.wait(word),
            Op::Wake { word, stamp } => self.wake(word, stamp),
            Op::Send { channel, bytes } => self.send(channel, bytes as usize, now),
            Op::Receive { channel, bytes } => self.receive(channel, bytes as usize),
            Op::Push { queue, value } => self.push(queue, value),
            Op::Pop(queue) => self.pop(queue),
            Op::Multiply { block, times } => {
                self.with_memory(block.0, |memory| memory.multiply(times))
            }
            Op::LockCpu => self.lock_cpu(),
            Op::UnlockCpu => {
                self.arena.cpu_lock(self.cpu_lock).store(0, Release);
                Done::Ok
            }
            Op::Sleep(time) => self.sleep(time),
            Op::SleepUntil(until) => self.sleep_until(until),
            Op::Compute { iterations } => self.compute(iterations),
            _ => self.perform_rare(op, now),
        }
    }

    fn perform_rare(&mut self, op: Op, now: Nanos) -> Done {
        match op {
            Op::Fill { block, bytes } => {
                self.with_memory(block.0, |memory| memory.fill(bytes, now.0 as u8))
            }
            Op::Stream { block, sweep } => self.with_memory(block.0, |memory| memory.sweep(sweep)),
            Op::Allocate { bytes } => {
                self.heap.allocate(bytes);
                Done::Ok
            }
            Op::Close(channel) => {
                if let Some(end) = self.end(channel, true) {
                    *end = None;
                }
                Done::Ok
            }
            Op::Lock(lock) if self.arena.locks_inherit => {
                self.lock_inheriting(self.arena.lock(lock.0))
            }
            Op::Unlock(lock) if self.arena.locks_inherit => {
                let word = self.arena.lock(lock.0);
                match futex::unlock_inheriting(word, self.arena.scope) {
                    Err(error) if !self.arena.stopping() => Done::Failed(code(&error)),
                    _ => Done::Ok,
                }
            }
            Op::Lock(lock) => self.lock(self.arena.lock(lock.0)),
            Op::Spin(lock) => self.spin(self.arena.lock(lock.0)),
            Op::Unlock(lock) => {
                if self.arena.lock(lock.0).swap(0, Release) == 2 {
                    self.wake_futex(self.arena.lock(lock.0), 1);
                }
                Done::Ok
            }
            Op::Meet(barrier) => self.meet(barrier.0),
            Op::Yield => {
                std::thread::yield_now();
                Done::Ok
            }
            Op::Walk { block, bytes, writes } => self.in_pieces(bytes, 16 << 20, |by, from, n| {
                by.with_memory(block.0, |memory| memory.walk(from, n, writes))
            }),
            Op::Chase { block, steps } => self.in_pieces(steps, 1 << 20, |by, _, n| {
                by.with_memory(block.0, |memory| memory.chase(n))
            }),
            Op::Post(semaphore) => {
                let word = self.arena.semaphore(semaphore.0);
                word.fetch_add(1, Release);
                self.wake_futex(word, 1);
                Done::Ok
            }
            Op::WaitUntil { word, until } => self.wait_until(word, until),
            Op::AwaitPost(semaphore) => self.await_post(self.arena.semaphore(semaphore.0)),
            Op::Place(place) => match self.stage.place(place.0) {
                Ok(()) => Done::Ok,
                Err(error) => Done::Failed(error),
            },
            Op::Fork(fork) => self.stage.fork(fork.0),
            other => unreachable!("{other:?} is performed with those that are common"),
        }
    }

    /// Work that may take long, so that it can be stopped: `piece` of it at a time, told from where.
    fn in_pieces(
        &mut self,
        all: u64,
        piece: u64,
        mut work: impl FnMut(&mut Self, u64, u64) -> Done,
    ) -> Done {
        let mut from = 0;
        while from < all {
            if self.arena.stopping() {
                return Done::Stopped;
            }
            let now = piece.min(all - from);
            work(self, from, now);
            from += now;
        }
        Done::Ok
    }

    fn await_post(&self, word: &AtomicU64) -> Done {
        loop {
            let there = word.load(Relaxed);
            if there == 0 {
                if let Err(done) = self.sleep_on(word, 0) {
                    return done;
                }
            } else if word.compare_exchange(there, there - 1, Acquire, Relaxed).is_ok() {
                return Done::Ok;
            }
        }
    }

    fn with_memory(&mut self, block: u32, work: impl FnOnce(&mut Memory)) -> Done {
        if let Some(memory) = &mut self.memory[block as usize] {
            work(memory);
        }
        Done::Ok
    }

    /// In pieces, so that a long computation can be stopped.
    fn compute(&self, mut iterations: u64) -> Done {
        const PIECE: u64 = 10_000_000;
        while iterations > PIECE {
            compute(PIECE);
            iterations -= PIECE;
            if self.arena.stopping() {
                return Done::Stopped;
            }
        }
        compute(iterations);
        Done::Ok
    }

    fn wake_futex(&self, word: &AtomicU64, count: u32) {
        // Waking cannot fail but for a bad address.
        let _ = futex::wake(word, count, self.arena.scope);
    }

    /// Sleeps while the word's low half holds `value`. Whether the task shall go on.
    fn sleep_on(&self, word: &AtomicU64, value: u32) -> Result<(), Done> {
        self.sleep_on_for(word, value, None)
    }

    fn sleep_on_for(&self, word: &AtomicU64, value: u32, time: Option<Nanos>) -> Result<(), Done> {
        match futex::wait(word, value, self.arena.scope, time) {
            _ if self.arena.stopping() => Err(Done::Stopped),
            Ok(_) => Ok(()),
            Err(error) => Err(Done::Failed(code(&error))),
        }
    }

    fn wait(&self, word: WordId) -> Done {
        let (state, stamp) = self.arena.word(word.0);
        loop {
            match state.compare_exchange(1, 0, Acquire, Relaxed) {
                Ok(_) => return Done::Woken { stamp: Nanos(stamp.load(Relaxed)) },
                Err(0) => {}
                Err(_) => return Done::Stopped,
            }
            if let Err(done) = self.sleep_on(state, 0) {
                return done;
            }
        }
    }

    fn wait_until(&self, word: WordId, until: Nanos) -> Done {
        let (state, stamp) = self.arena.word(word.0);
        loop {
            match state.compare_exchange(1, 0, Acquire, Relaxed) {
                Ok(_) => return Done::Woken { stamp: Nanos(stamp.load(Relaxed)) },
                Err(0) => {}
                Err(_) => return Done::Stopped,
            }
            let now = clock::monotonic();
            if now >= until {
                return Done::Ok;
            }
            if let Err(done) = self.sleep_on_for(state, 0, Some(until - now)) {
                return done;
            }
        }
    }

    /// A word that is woken already keeps the stamp of its first wake: later ones are part of it.
    fn wake(&self, word: WordId, at: Nanos) -> Done {
        let (state, stamp) = self.arena.word(word.0);
        if state.load(Relaxed) == 0 {
            stamp.store(at.0, Relaxed);
            if state.compare_exchange(0, 1, Release, Relaxed).is_ok() {
                self.wake_futex(state, 1);
            }
        }
        Done::Ok
    }

    /// A lock of three states: 0 free, 1 taken, 2 taken and others may sleep.
    fn lock(&self, word: &AtomicU64) -> Done {
        if word.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return Done::Ok;
        }
        while word.swap(2, Acquire) != 0 {
            if let Err(done) = self.sleep_on(word, 2) {
                return done;
            }
        }
        Done::Ok
    }

    fn spin(&self, word: &AtomicU64) -> Done {
        while word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            // To look does not take the cache line from the holder.
            while word.load(Relaxed) != 0 {
                std::hint::spin_loop();
                if self.arena.stopping() {
                    return Done::Stopped;
                }
            }
        }
        Done::Ok
    }

    /// A lock by which the kernel lends the holder the priority of the one that waits. No signal ends such a wait, so it
    /// looks up from time to time whether all shall stop.
    fn lock_inheriting(&self, word: &AtomicU64) -> Done {
        loop {
            match futex::lock_inheriting(word, self.arena.scope, Nanos::from_secs(1)) {
                Ok(true) => return Done::Ok,
                _ if self.arena.stopping() => return Done::Stopped,
                Ok(false) => {}
                Err(error) => return Done::Failed(code(&error)),
            }
        }
    }

    fn lock_cpu(&mut self) -> Done {
        loop {
            let cpu = sched::current_cpu().index();
            let lock = self.arena.cpu_lock(cpu);
            while lock.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
                std::hint::spin_loop();
                if self.arena.stopping() {
                    return Done::Stopped;
                }
            }
            if sched::current_cpu().index() == cpu {
                self.cpu_lock = cpu;
                return Done::Ok;
            }
            lock.store(0, Release);
        }
    }

    fn meet(&self, barrier: u32) -> Done {
        let (come, round, parties) = self.arena.barrier(barrier);
        let now = round.load(Acquire);
        if come.fetch_add(1, AcqRel) + 1 == u64::from(parties) {
            come.store(0, Relaxed);
            round.store(now + 1, Release);
            self.wake_futex(round, u32::MAX);
            return Done::Ok;
        }
        while round.load(Acquire) == now {
            let expected = u32::try_from(now & u64::from(u32::MAX)).expect("masked");
            if let Err(done) = self.sleep_on(round, expected) {
                return done;
            }
        }
        Done::Ok
    }

    fn sleep(&self, time: Nanos) -> Done {
        task::sleep(time);
        if self.arena.stopping() { Done::Stopped } else { Done::Ok }
    }

    fn sleep_until(&self, until: Nanos) -> Done {
        loop {
            let now = clock::monotonic();
            if self.arena.stopping() {
                return Done::Stopped;
            }
            if now >= until {
                return Done::Ok;
            }
            task::sleep(until - now);
        }
    }

    /// The end of a channel; a task may hold both.
    fn end(&mut self, channel: ChannelId, writes: bool) -> Option<&mut Option<End>> {
        // Ascending, so that a sender to many finds each in a few steps.
        let first = self.ends.partition_point(|(id, _)| *id < channel.0);
        let own = self.ends[first..].iter_mut().take_while(|(id, _)| *id == channel.0);
        own.map(|(_, end)| end).find(|end| matches!(end, Some(End::Write(_))) == writes)
    }

    fn send(&mut self, channel: ChannelId, bytes: usize, now: Nanos) -> Done {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, b'-');
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        if bytes > 8 {
            buffer[..8].copy_from_slice(&now.0.to_ne_bytes());
        } else if bytes == 8 {
            // Eight bytes may be an eventfd, whose message is a number to add.
            buffer[..8].copy_from_slice(&1_u64.to_ne_bytes());
        }
        let done = self.write(channel, &buffer[..bytes]);
        self.buffer = buffer;
        done
    }

    fn write(&mut self, channel: ChannelId, mut bytes: &[u8]) -> Done {
        let arena = self.arena;
        let Some(Some(End::Write(file))) = self.end(channel, true) else { return Done::Failed(9) };
        let mut file: &File = file;
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if arena.stopping() {
                        return Done::Stopped;
                    }
                }
                Err(error) => return Done::Failed(code(&error)),
            }
        }
        Done::Ok
    }

    fn receive(&mut self, channel: ChannelId, bytes: usize) -> Done {
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, b'-');
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let done = self.read(channel, &mut buffer[..bytes]);
        self.buffer = buffer;
        done
    }

    fn read(&mut self, channel: ChannelId, bytes: &mut [u8]) -> Done {
        let arena = self.arena;
        let Some(Some(End::Read(file))) = self.end(channel, false) else { return Done::Failed(9) };
        let mut file: &File = file;
        let mut at = 0;
        while at < bytes.len() {
            match file.read(&mut bytes[at..]) {
                Ok(0) if at == 0 => return Done::Closed,
                // The sender died within a message.
                Ok(0) => return Done::Failed(32),
                Ok(read) => at += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    if arena.stopping() {
                        return Done::Stopped;
                    }
                }
                Err(error) => return Done::Failed(code(&error)),
            }
        }
        let stamp = bytes.first_chunk().filter(|_| bytes.len() > 8);
        Done::Received { stamp: Nanos(stamp.map_or(0, |b| u64::from_ne_bytes(*b))) }
    }

    fn push(&self, queue: QueueId, value: u64) -> Done {
        let (words, kind) = self.arena.queue(queue.0);
        match kind {
            Queue::Stack { .. } => {
                push_on_stack(words, value);
                Done::Pushed { depth: 0 }
            }
            Queue::Fifo { capacity } => match (Fifo { words, capacity }).push(value) {
                Some(depth) => Done::Pushed { depth },
                None => Done::Full,
            },
        }
    }

    fn pop(&mut self, queue: QueueId) -> Done {
        let (words, kind) = self.arena.queue(queue.0);
        match kind {
            Queue::Stack { .. } => {
                let first = self.batch.is_empty();
                if first {
                    take_stack(words, &mut self.batch);
                }
                self.batch.pop().map_or(Done::Empty, |value| Done::Popped { value, first })
            }
            Queue::Fifo { capacity } => (Fifo { words, capacity })
                .pop()
                .map_or(Done::Empty, |value| Done::Popped { value, first: true }),
        }
    }
}

/// A stack of distinct small numbers: the first word holds the top + 1, each number's own word what
/// lies below it. It is only ever taken whole, so a number that comes back finds no stale link.
fn push_on_stack(words: &[AtomicU64], value: u64) {
    let link = &words[LINE + value as usize];
    let mut top = words[0].load(Relaxed);
    loop {
        link.store(top, Relaxed);
        match words[0].compare_exchange_weak(top, value + 1, Release, Relaxed) {
            Ok(_) => return,
            Err(now) => top = now,
        }
    }
}

/// Takes all that lies there; the newest comes last, so that popping hands it out first.
fn take_stack(words: &[AtomicU64], batch: &mut Vec<u64>) {
    let mut top = words[0].swap(0, Acquire);
    while top != 0 {
        batch.push(top - 1);
        top = words[LINE + (top - 1) as usize].load(Relaxed);
    }
    batch.reverse();
}

/// A bounded queue that many push to and pop from (after D. Vyukov): each slot has a number that
/// says whose turn it is.
struct Fifo<'w> {
    words: &'w [AtomicU64],
    capacity: u32,
}

impl Fifo<'_> {
    fn slot(&self, turn: u64) -> (&AtomicU64, &AtomicU64) {
        let slots = u64::from(self.capacity.next_power_of_two());
        let at = 2 * LINE + (turn % slots) as usize * 2;
        (&self.words[at], &self.words[at + 1])
    }

    /// How many lie there now, or `None`: no room.
    fn push(&self, value: u64) -> Option<u64> {
        let tail = &self.words[0];
        let head = &self.words[LINE];
        loop {
            let turn = tail.load(Relaxed);
            let out = head.load(Acquire);
            if out > turn {
                // Others pushed and popped meanwhile.
                continue;
            }
            let depth = turn - out;
            let (number, content) = self.slot(turn);
            if depth >= u64::from(self.capacity) || number.load(Acquire) != turn {
                return None;
            }
            if tail.compare_exchange_weak(turn, turn + 1, Relaxed, Relaxed).is_ok() {
                content.store(value, Relaxed);
                number.store(turn + 1, Release);
                return Some(depth + 1);
            }
        }
    }

    fn pop(&self) -> Option<u64> {
        let head = &self.words[LINE];
        loop {
            let turn = head.load(Acquire);
            let (number, content) = self.slot(turn);
            if number.load(Acquire) != turn + 1 {
                if head.load(Acquire) == turn {
                    return None;
                }
            } else if head.compare_exchange(turn, turn + 1, AcqRel, Relaxed).is_ok() {
                let value = content.load(Relaxed);
                number.store(turn + u64::from(self.capacity.next_power_of_two()), Release);
                return Some(value);
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    #[test]
    fn a_stack_hands_out_the_newest_first_and_is_then_empty() {
        let words = schedlab_sys::shared::words(LINE + 4).unwrap();
        for value in [2, 0, 3] {
            push_on_stack(words, value);
        }
        let mut batch = Vec::new();
        take_stack(words, &mut batch);
        assert_eq!(std::iter::from_fn(|| batch.pop()).collect::<Vec<_>>(), [3, 0, 2]);
        take_stack(words, &mut batch);
        assert!(batch.is_empty());
    }

    #[test]
    fn many_pop_and_each_value_comes_out_once() {
        let words = schedlab_sys::shared::words(2 * LINE + 16).unwrap();
        (0..8).for_each(|slot| words[2 * LINE + slot * 2].store(slot as u64, Relaxed));
        let fifo = || Fifo { words, capacity: 8 };
        let threads = 3;
        let each = 5_000;
        let pops = || {
            let mut taken = Vec::new();
            while taken.len() < each {
                taken.extend(fifo().pop());
                std::thread::yield_now();
            }
            taken
        };
        let pushes = |first: usize| {
            for value in first * each..(first + 1) * each {
                while fifo().push(value as u64).is_none() {
                    std::thread::yield_now();
                }
            }
        };
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            (0..threads).for_each(|n| drop(scope.spawn(move || pushes(n))));
            let readers: Vec<_> = (0..threads).map(|_| scope.spawn(pops)).collect();
            readers.into_iter().flat_map(|reader| reader.join().unwrap()).collect()
        });
        all.sort_unstable();
        assert_eq!(all, (0..(threads * each) as u64).collect::<Vec<_>>());
    }

    #[test]
    fn a_bounded_queue_keeps_the_order_and_refuses_what_does_not_fit() {
        let words = schedlab_sys::shared::words(2 * LINE + 8).unwrap();
        (0..4).for_each(|slot| words[2 * LINE + slot * 2].store(slot as u64, Relaxed));
        let fifo = Fifo { words, capacity: 3 };
        for round in 0..5 {
            assert_eq!([1, 2, 3].map(|n| fifo.push(round * 10 + n)), [Some(1), Some(2), Some(3)]);
            assert_eq!(fifo.push(9), None);
            let out: Vec<u64> = std::iter::from_fn(|| fifo.pop()).collect();
            assert_eq!(out, [1, 2, 3].map(|n| round * 10 + n));
        }
    }

    #[test]
    fn a_wait_ends_by_a_wake_or_by_its_time() {
        let mut plan = schedlab_workload::plan::Plan::new("wait");
        let word = plan.word();
        let arena = Arena::new(&plan).unwrap();
        let mut task = Interpreter::new(&arena, 0, Vec::new(), Vec::new(), &Bare);
        let begin = clock::monotonic();
        let until = begin + Nanos::from_millis(2);
        let wait = |until| Op::WaitUntil { word, until };
        assert_eq!(task.perform(wait(until), begin), Done::Ok);
        assert!(clock::monotonic() >= until, "no earlier than asked");
        // A wake that came before the wait ends it at once.
        let stamp = Nanos(7);
        assert_eq!(task.perform(Op::Wake { word, stamp }, begin), Done::Ok);
        let far = begin + Nanos::from_secs(3_600);
        assert_eq!(task.perform(wait(far), begin), Done::Woken { stamp });
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut other = Interpreter::new(&arena, 0, Vec::new(), Vec::new(), &Bare);
                other.perform(Op::Sleep(Nanos::from_millis(2)), begin);
                other.perform(Op::Wake { word, stamp }, begin);
            });
            assert_eq!(task.perform(wait(far), begin), Done::Woken { stamp });
        });
    }

    /// The behaviours that a simulator schedules, on threads of this machine: the native pool is the same life without
    /// them.
    #[test]
    fn the_workers_of_a_pool_prove_a_graph_as_tasks_too() {
        use schedlab_jobs::graph::{Rules, Shape};
        use schedlab_jobs::load::{Burner, Kind, Length, Load};
        use schedlab_jobs::run::{Clock, Run, Schedule};
        use schedlab_jobs::virtual_time::Costs;
        use schedlab_workload::jobs::{self, Workers, worker};

        let mut plan = schedlab_workload::plan::Plan::new("jobs");
        plan.tasks = (0..3).map(|_| worker(0)).collect();
        let graph = Shape::Stencil.build(&Rules { nodes: 60, fan: 6, ..Rules::default() });
        let graph = graph.with_weight(1);
        let planned = Burner::planned(Kind::Cpu.into());
        let load = Load::new(&graph, planned, 20_000, Length::Fixed, 0);
        let run = Run::new(graph, Schedule::default(), Box::new(load), Clock::still());
        let run = Arc::new(run);
        let rules = jobs::Rules::Pool;
        let crew = Workers::man(&mut plan, run.clone(), rules, Costs::USUAL, 1_000, vec!["cpu"]);
        let arena = Arena::new(&plan).unwrap();
        std::thread::scope(|scope| {
            for (number, task) in plan.tasks.iter_mut().enumerate() {
                let arena = &arena;
                scope.spawn(move || {
                    let mut one = Interpreter::new(arena, number, Vec::new(), Vec::new(), &Bare);
                    assert_eq!(one.run(&mut *task.behaviour), None);
                });
            }
        });
        assert!(crew.outcome().is_ok() && run.verify().is_ok(), "{:?}", run.verify());
        assert_eq!(run.spans().len(), 60);
    }
}
