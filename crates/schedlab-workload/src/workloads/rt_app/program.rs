//! A task under way: it goes through its phases and yields an operation for each event.

use crate::{
    BarrierId, Behaviour, BlockId, ChannelId, CounterId, Done, ForkId, Instruments, LockId,
};
use crate::{Op, PlaceId, QueueId, SampleId, SemaphoreId, WordId};
use schedlab_model::{Nanos, Phase as Side};

/// What a task does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Event {
    Run(u64),
    Runtime(Nanos),
    Sleep(Nanos),
    Timer {
        index: usize,
        period: Nanos,
        absolute: bool,
    },
    Lock(LockId),
    Unlock(LockId),
    Barrier(BarrierId),
    Post(SemaphoreId),
    AwaitPost(SemaphoreId),
    /// Stand in the row of those that wait for a condition.
    StandInRow(QueueId),
    /// Until the condition is signalled to this task.
    AwaitSignal,
    /// Wake this many of those that stand in the row, the first ones first.
    Signal {
        row: QueueId,
        most: u32,
    },
    /// Write this many bytes into the task's buffer, from its beginning again at its end.
    Fill(u64),
    /// Touch bytes of a buffer of the file's.
    Walk {
        buffer: Buffer,
        bytes: u64,
        writes: bool,
    },
    /// Follow the chain in a buffer of the file's.
    Chase {
        buffer: Buffer,
        steps: u64,
    },
    /// Write this many bytes to the device, at most this many at a time.
    Output(u64, u32),
    /// Run elsewhere or otherwise from now on.
    Place(PlaceId),
    Fork(ForkId),
    Yield,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// Tasks that name it share it.
    Shared(BlockId),
    /// Each task has its own, by its place among the task's.
    Own(usize),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Phase {
    /// How often; `None`: without end.
    pub(super) times: Option<u64>,
    pub(super) events: Vec<Event>,
    pub(super) mark: u32,
}

/// The metrics that tasks measure.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    /// How late it ran after a sleep or timer.
    pub(super) late: SampleId,
    /// How long a run took.
    pub(super) run: SampleId,
    /// From the end of the work to when the timer was due; zero where it was due before.
    pub(super) slack: SampleId,
    /// From one timer to the next.
    pub(super) period: SampleId,
    pub(super) activations: CounterId,
    /// Timers that were due before the task came to wait for them.
    pub(super) missed: CounterId,
    /// Counts forks that were refused since too many tasks were alive; `None` if the file has no forks.
    pub(super) refused: Option<CounterId>,
}

/// What is given to a task at its start.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) phases: Vec<Phase>,
    /// How often it goes through all of them.
    pub(super) times: Option<u64>,
    pub(super) delay: Nanos,
    pub(super) timers: usize,
    /// Iterations by which a `runtime` computes.
    pub(super) piece: u64,
    /// The word on which it waits for conditions.
    pub(super) own: WordId,
    /// The buffer of `mem`, and its bytes.
    pub(super) buffer: (BlockId, u32),
    /// Buffers of its own of `memrun`.
    pub(super) buffers: Vec<BlockId>,
    /// The device to which `iorun` writes.
    pub(super) device: ChannelId,
    pub(super) measured: Measured,
}

/// What is under way within an event.
#[derive(Clone, Copy)]
enum Under {
    Nothing,
    /// A `runtime` computes in small pieces until then.
    Busy(Nanos),
    /// A row is being woken, this many of it at most.
    Waking(QueueId, u32),
    /// Bytes are left to write into the task's buffer.
    Filling(u64),
    /// Bytes are left for the device, this many at a time.
    Writing(u64, u32),
    Forking,
}

/// A task with its phases.
pub(super) struct Program {
    given: Given,
    phase: usize,
    round: u64,
    event: usize,
    loops: u64,
    /// When each of its timers is due next.
    timers: Vec<Nanos>,
    /// When each was last waited for to its end.
    waited: Vec<Nanos>,
    phase_began: Nanos,
    /// When the sleep under way was to end, and the timer that it belongs to.
    due: Option<(Nanos, Option<usize>)>,
    ran: Option<Nanos>,
    under: Under,
    placed: Option<PlaceId>,
}

impl Program {
    pub(super) fn new(given: Given) -> Self {
        let timers = vec![Nanos::ZERO; given.timers];
        Self {
            given,
            phase: 0,
            round: 0,
            event: 0,
            loops: 0,
            waited: timers.clone(),
            timers,
            phase_began: Nanos::ZERO,
            due: None,
            ran: None,
            under: Under::Nothing,
            placed: None,
        }
    }

    /// The next event, or `None` at the end.
    fn step(&mut self, now: Nanos, instruments: &mut dyn Instruments) -> Option<Event> {
        loop {
            let phase = self.given.phases.get(self.phase)?;
            if self.event == 0 {
                instruments.mark(now, phase.mark, Side::Begin);
                if self.round == 0 {
                    self.phase_began = now;
                }
            }
            if let Some(event) = phase.events.get(self.event) {
                self.event += 1;
                match event {
                    // It is there already.
                    Event::Place(place) if self.placed == Some(*place) => continue,
                    Event::Place(place) => self.placed = Some(*place),
                    _ => {}
                }
                return Some(*event);
            }
            instruments.mark(now, phase.mark, Side::End);
            self.event = 0;
            self.round += 1;
            if phase.times.is_some_and(|times| self.round >= times) {
                self.round = 0;
                self.phase += 1;
                if self.phase == self.given.phases.len() {
                    self.loops += 1;
                    if self.given.times.is_none_or(|times| self.loops < times) {
                        self.phase = 0;
                    }
                }
            }
        }
    }

    fn op(&mut self, event: Event, now: Nanos, instruments: &mut dyn Instruments) -> Op {
        let block = |given: &Given, buffer: Buffer| match buffer {
            Buffer::Shared(block) => block,
            Buffer::Own(index) => given.buffers[index],
        };
        match event {
            Event::Run(iterations) => {
                self.ran = Some(now);
                Op::Compute { iterations }
            }
            Event::Runtime(time) => {
                self.ran = Some(now);
                self.under = Under::Busy(now + time);
                Op::Compute { iterations: self.given.piece }
            }
            Event::Sleep(time) => {
                self.due = Some((now + time, None));
                Op::Sleep(time)
            }
            Event::Timer { index, period, absolute } => {
                self.timer(index, period, absolute, now, instruments)
            }
            Event::Lock(lock) => Op::Lock(lock),
            Event::Unlock(lock) => Op::Unlock(lock),
            Event::Barrier(barrier) => Op::Meet(barrier),
            Event::Post(semaphore) => Op::Post(semaphore),
            Event::AwaitPost(semaphore) => Op::AwaitPost(semaphore),
            Event::StandInRow(row) => Op::Push { queue: row, value: self.given.own.0.into() },
            Event::AwaitSignal => Op::Wait(self.given.own),
            Event::Signal { row, most } => {
                self.under = Under::Waking(row, most);
                Op::Pop(row)
            }
            Event::Fill(bytes) => self.fill(bytes),
            Event::Walk { buffer, bytes, writes } => {
                Op::Walk { block: block(&self.given, buffer), bytes, writes }
            }
            Event::Chase { buffer, steps } => {
                Op::Chase { block: block(&self.given, buffer), steps }
            }
            Event::Output(bytes, most) => self.output(bytes, most),
            Event::Place(place) => Op::Place(place),
            Event::Fork(fork) => {
                self.under = Under::Forking;
                Op::Fork(fork)
            }
            Event::Yield => Op::Yield,
        }
    }

    /// A timer counts from the begin of the phase in which it is first used.
    fn timer(
        &mut self,
        index: usize,
        period: Nanos,
        absolute: bool,
        now: Nanos,
        instruments: &mut dyn Instruments,
    ) -> Op {
        let Measured { activations, missed, slack, .. } = self.given.measured;
        instruments.count(activations, 1);
        let timer = &mut self.timers[index];
        let from = if *timer == Nanos::ZERO { self.phase_began } else { *timer };
        *timer = from + period;
        instruments.sample(slack, timer.0.saturating_sub(now.0));
        let due = *timer;
        if due < now {
            instruments.count(missed, 1);
            if !absolute {
                // A relative timer that was missed starts anew; an absolute one catches up.
                *timer = now;
            }
        }
        self.due = Some((due.max(now), Some(index)));
        Op::SleepUntil(due)
    }

    fn fill(&mut self, bytes: u64) -> Op {
        let (block, size) = self.given.buffer;
        let now = bytes.min(size.into());
        self.under = if bytes > now { Under::Filling(bytes - now) } else { Under::Nothing };
        Op::Fill { block, bytes: u32::try_from(now).expect("no more than a buffer") }
    }

    fn output(&mut self, bytes: u64, most: u32) -> Op {
        let now = bytes.min(most.into());
        self.under = if bytes > now { Under::Writing(bytes - now, most) } else { Under::Nothing };
        let bytes = u32::try_from(now).expect("no more than a buffer");
        Op::Send { channel: self.given.device, bytes }
    }

    /// The next step of the event under way, while there is one.
    fn go_on(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Option<Op> {
        match std::mem::replace(&mut self.under, Under::Nothing) {
            Under::Nothing => None,
            Under::Busy(until) => (now < until).then(|| {
                self.under = Under::Busy(until);
                Op::Compute { iterations: self.given.piece }
            }),
            Under::Filling(bytes) => Some(self.fill(bytes)),
            Under::Writing(bytes, most) => Some(self.output(bytes, most)),
            Under::Forking => {
                if let (Done::Full, Some(refused)) = (last, self.given.measured.refused) {
                    instruments.count(refused, 1);
                }
                None
            }
            Under::Waking(row, most) => match last {
                Done::Popped { value, .. } => {
                    self.under = Under::Waking(row, most);
                    let word = u32::try_from(value).expect("only words are put in rows");
                    Some(Op::Wake { word: WordId(word), stamp: now })
                }
                Done::Ok if most > 1 => {
                    self.under = Under::Waking(row, most - 1);
                    Some(Op::Pop(row))
                }
                _ => None,
            },
        }
    }
}

impl Behaviour for Program {
    fn next(&mut self, now: Nanos, last: Done, instruments: &mut dyn Instruments) -> Op {
        if matches!(last, Done::Stopped | Done::Failed(_)) {
            return Op::Exit;
        }
        if last == Done::Start && self.given.delay > Nanos::ZERO {
            return Op::Sleep(self.given.delay);
        }
        if let Some(op) = self.go_on(now, last, instruments) {
            return op;
        }
        let measured = self.given.measured;
        if let Some((due, timer)) = self.due.take() {
            instruments.sample(measured.late, (now - due).0);
            if let Some(timer) = timer {
                let before = std::mem::replace(&mut self.waited[timer], now);
                if before > Nanos::ZERO {
                    instruments.sample(measured.period, (now - before).0);
                }
            }
        }
        if let Some(began) = self.ran.take() {
            instruments.sample(measured.run, (now - began).0);
        }
        match self.step(now, instruments) {
            Some(event) => self.op(event, now, instruments),
            None => Op::Exit,
        }
    }

    fn again(&self) -> Option<Box<dyn Behaviour>> {
        Some(Box::new(Self::new(self.given.clone())))
    }
}
