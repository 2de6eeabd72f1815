//! The operations: what each costs, and its effect when that time has passed.

use super::World;
use super::task::{Act, On, Phase, Resume, Stand};
use super::wake::Waker;
use crate::event_queue::NEVER;
use crate::policy_view::{Class, TaskId};
use schedlab_model::{Context, Left, Nanos, Phase as MarkPhase, What};
use schedlab_stats::Histogram;
use schedlab_workload::plan::Block;
use schedlab_workload::{CounterId, DialId, Done, Instruments, Op, SampleId, Sweep};

/// Operations that a task may still ask for after it was asked to stop: enough to close its channels.
const AFTER_STOP: u32 = 100_000;
const EBUSY: i32 = 16;

/// How an operation went.
pub(super) enum Effect {
    /// It is over; the task's body says how it went.
    Done,
    /// The task sleeps, and tries again or goes on when it is woken.
    Sleep(On),
    /// It is not over yet: it takes effect again after more work.
    Again(u64),
    /// The task turns round and round until another changes something.
    Spin,
    /// The task may not stay on its CPU.
    Relocate,
    Yield,
    /// The task has ended.
    Ended,
}

/// The instruments of one task.
struct Own<'w> {
    histograms: &'w mut [Histogram],
    counters: &'w mut [u64],
    dials: &'w [u64],
    until: Option<Nanos>,
    marks: Option<&'w mut Vec<(u32, MarkPhase, u32)>>,
}

impl Instruments for Own<'_> {
    fn sample(&mut self, series: SampleId, value: u64) {
        self.histograms[series.0 as usize].record(value);
    }

    fn count(&mut self, counter: CounterId, by: u64) {
        self.counters[counter.0 as usize] += by;
    }

    fn dial(&self, dial: DialId) -> u64 {
        self.dials[dial.0 as usize]
    }

    fn mark_request(&mut self, _: Nanos, id: u32, phase: MarkPhase, request: u32) {
        if let Some(marks) = &mut self.marks {
            marks.push((id, phase, request));
        }
    }

    fn until(&self) -> Option<Nanos> {
        self.until
    }
}

impl World {
    /// The task on `cpu` is on its way out of the kernel, or computes in user space: what is next.
    pub(super) fn next_act(&mut self, cpu: usize, task: TaskId) {
        self.tell_exit(cpu, task);
        if self.scene.cpus[cpu].resched {
            self.bodies[task.index()].phase = Phase::Ask;
            return self.schedule(cpu, Some(Left::Yielded));
        }
        let act = if Some(task) == self.starter {
            self.starters_next()
        } else if Some(task) == self.rcu {
            Act::EndGrace
        } else {
            match self.ask_call(cpu, task) {
                // These two are by far the most, and go a shorter way.
                Op::Send { channel, bytes } if !self.stopping => {
                    return self.begin_send(cpu, task, channel, bytes);
                }
                Op::Receive { channel, bytes } if !self.stopping => {
                    return self.begin_receive(cpu, task, channel, bytes);
                }
                op => Act::Op(op),
            }
        };
        let body = &mut self.bodies[task.index()];
        (body.act, body.moved, body.waited) = (act, 0, false);
        if let Act::Op(op) = act
            && self.stopping
            && !matches!(op, Op::Exit | Op::Close(_))
        {
            (body.phase, body.left) = (Phase::Ask, self.config.costs.syscall.max(1));
            return self.go(cpu, task);
        }
        self.enter(cpu, task, act);
    }

    /// The next operation. Of a recorded task, what it computes right after it begins to read or write is what that call
    /// takes.
    #[inline]
    pub(super) fn ask_call(&mut self, cpu: usize, task: TaskId) -> Op {
        let op = self.ask(cpu, task);
        let recorded = self.config.start == super::Start::InPlace;
        if recorded && !self.stopping && matches!(op, Op::Send { .. } | Op::Receive { .. }) {
            let next = self.ask(cpu, task);
            let body = &mut self.bodies[task.index()];
            body.call_work = 0;
            match next {
                Op::Compute { iterations } => body.call_work = iterations,
                next => body.kept = Some(next),
            }
        }
        op
    }

    #[inline]
    fn ask(&mut self, cpu: usize, task: TaskId) -> Op {
        let (at, series, counters) = (task.index(), self.series, self.counters_each);
        let body = &mut self.bodies[at];
        if self.stopping {
            body.done = Done::Stopped;
            body.after_stop += 1;
            if body.after_stop > AFTER_STOP {
                return Op::Exit;
            }
        }
        if let Some(op) = body.kept.take() {
            return op;
        }
        body.asked_at = self.scene.now;
        // Copied part by part: a value of several parts that was written just before keeps the CPU waiting if it is
        // read as a whole, for longer than all the rest of this function takes.
        let done = match body.done {
            Done::Received { stamp } => Done::Received { stamp },
            Done::Ok => Done::Ok,
            done => done,
        };
        let Some(behaviour) = &mut body.behaviour else { return Op::Exit };
        let until = self.went_at.zip(self.duration).map(|(went, duration)| Nanos(went + duration));
        let mut own = Own {
            histograms: &mut self.histograms[at * series..(at + 1) * series],
            counters: &mut self.counters[at * counters..(at + 1) * counters],
            dials: &self.dials,
            until,
            marks: self.config.record.then_some(&mut self.marks),
        };
        let op = behaviour.next(Nanos(self.scene.now), done, &mut own);
        if !self.marks.is_empty() {
            let pid = self.pid(task);
            let marks = std::mem::take(&mut self.marks);
            for &(id, phase, request) in &marks {
                self.emit(cpu, Context::Task, What::Mark { pid, id, phase, request });
            }
            self.marks = marks;
            self.marks.clear();
        }
        op
    }

    /// Begins the operation that the task yielded.
    fn enter(&mut self, cpu: usize, task: TaskId, act: Act) {
        self.bodies[task.index()].in_call = self.calls.is_told;
        self.tell_enter(cpu, act);
        let left = self.cost(act);
        let body = &mut self.bodies[task.index()];
        // `first` has passed already.
        body.fresh = false;
        (body.phase, body.on, body.left) = (Phase::Enter, None, left);
        self.go(cpu, task);
    }

    /// The operation's time has passed.
    pub(super) fn takes_effect(&mut self, cpu: usize, task: TaskId) {
        (self.acting, self.owed) = (Some(cpu), 0);
        let mut effect = match self.bodies[task.index()].act {
            Act::Op(Op::Send { channel, bytes }) => self.send(cpu, task, channel.0, bytes),
            Act::Op(Op::Receive { channel, bytes }) => self.receive(cpu, task, channel.0, bytes),
            Act::Op(op) => self.perform(cpu, task, op),
            act => self.stage(cpu, task, act),
        };
        if self.config.start == super::Start::InPlace {
            effect = self.same_call(cpu, task, effect);
        }
        self.acting = None;
        let owed = std::mem::take(&mut self.owed);
        let body = &mut self.bodies[task.index()];
        match effect {
            Effect::Done => {
                if let Done::Failed(errno) = body.done {
                    body.error.get_or_insert(errno);
                }
                body.phase = Phase::Ask;
                if owed == 0 {
                    return self.next_act(cpu, task);
                }
                body.left = owed;
                self.go(cpu, task);
            }
            Effect::Sleep(on) if owed > 0 => {
                (body.phase, body.on, body.left) = (Phase::Blocking, Some(on), owed);
                self.go(cpu, task);
            }
            Effect::Sleep(on) => self.sleep(cpu, task, on),
            Effect::Again(work) => {
                body.left = work;
                self.go(cpu, task);
                self.look(cpu);
            }
            Effect::Spin => {
                (body.left, body.spinning) = (NEVER, true);
                self.go(cpu, task);
                self.look(cpu);
            }
            Effect::Relocate => {
                (body.phase, body.done) = (Phase::Ask, Done::Ok);
                self.relocate(cpu, task, None);
            }
            Effect::Yield => {
                (body.phase, body.done) = (Phase::Ask, Done::Ok);
                self.policy.yields(&self.scene, cpu);
                self.schedule(cpu, Some(Left::Yielded));
            }
            Effect::Ended => self.schedule(cpu, Some(Left::Dead)),
        }
    }

    /// A recorded task that wakes others, or waits, right after it woke one does so in the same call: nothing displaces
    /// it in between. Its next operation is kept if it is another one.
    fn same_call(&mut self, cpu: usize, task: TaskId, mut effect: Effect) -> Effect {
        let posts = |act: Act| matches!(act, Act::Op(Op::Post(_)));
        while matches!(effect, Effect::Done)
            && posts(self.bodies[task.index()].act)
            && !self.stopping
        {
            let op = self.ask(cpu, task);
            if !matches!(op, Op::Post(_) | Op::AwaitPost(_)) {
                self.bodies[task.index()].kept = Some(op);
                break;
            }
            self.bodies[task.index()].act = Act::Op(op);
            effect = self.perform(cpu, task, op);
        }
        effect
    }

    /// A call that found it must sleep has come to the switch: it sleeps, unless what it waits for came meanwhile.
    pub(super) fn blocks_or_goes_on(&mut self, cpu: usize, task: TaskId) {
        let body = &self.bodies[task.index()];
        let (Some(on), act) = (body.on, body.act) else { return self.next_act(cpu, task) };
        let came = match on {
            On::Readable(channel) => self.channels[channel as usize].is_readable(),
            On::Writable(channel) => match act {
                Act::Op(Op::Send { bytes, .. }) => {
                    self.channels[channel as usize].is_writable(bytes - body.moved, true)
                }
                _ => true,
            },
            On::Gate => self.went_at.is_some(),
            On::Semaphore(semaphore) => self.shared.semaphores[semaphore as usize].count > 0,
            _ => false,
        };
        if !came {
            return self.sleep(cpu, task, on);
        }
        let cost = self.cost(act) + self.call_work(task, act);
        let body = &mut self.bodies[task.index()];
        body.on = None;
        match on {
            On::Gate => (body.phase, body.done, body.left) = (Phase::Ask, Done::Start, 0),
            _ => (body.phase, body.left) = (Phase::Enter, cost),
        }
        self.go(cpu, task);
    }

    fn sleep(&mut self, cpu: usize, task: TaskId, on: On) {
        let body = &mut self.bodies[task.index()];
        (body.on, body.waited) = (Some(on), true);
        match on {
            On::Word(word) => self.shared.words[word as usize].sleeping.push_back(task),
            On::Readable(channel) => {
                self.channels[channel as usize].sleeping_readers.push_back(task);
            }
            On::Writable(channel) => {
                self.channels[channel as usize].sleeping_writers.push_back(task);
            }
            On::Lock(lock) => self.shared.locks[lock as usize].sleeping.push_back(task),
            On::Barrier(barrier) => self.shared.barriers[barrier as usize].sleeping.push_back(task),
            On::Semaphore(one) => self.shared.semaphores[one as usize].sleeping.push_back(task),
            On::Gate => self.gate.push(task),
            On::AllReady | On::AllEnded | On::Time => {}
        }
        self.schedule(cpu, Some(Left::Slept));
    }

    /// What a recorded call takes.
    fn call_work(&self, task: TaskId, act: Act) -> u64 {
        match act {
            Act::Op(Op::Send { .. } | Op::Receive { .. }) => self.bodies[task.index()].call_work,
            _ => 0,
        }
    }

    /// Work before an operation takes effect.
    fn cost(&self, act: Act) -> u64 {
        let costs = &self.config.costs;
        let op = match act {
            Act::Op(op) => op,
            Act::Spawn(_) => return costs.fork,
            Act::Prepare => return costs.prepare,
            Act::Begin => return costs.begin,
            Act::EndGrace => return costs.rcu,
            Act::OpenGate => return costs.post,
            Act::AwaitReady | Act::AwaitEnd => return costs.wait,
        };
        match op {
            Op::Compute { iterations } => iterations.min(NEVER / 4),
            Op::Multiply { block, times } => match self.block(block.0) {
                Some(Block::Matrices { side, .. }) => {
                    let products = u64::from(side).pow(3).saturating_mul(u64::from(times));
                    products.saturating_mul(costs.multiply_1000) / 1_000
                }
                _ => 0,
            },
            Op::Fill { bytes, .. } | Op::Allocate { bytes } => {
                costs.memory_kib * u64::from(bytes) / 1_024
            }
            Op::Walk { bytes, .. } => bytes.saturating_mul(costs.memory_kib) / 1_024,
            Op::Chase { steps, .. } => steps.saturating_mul(costs.chase),
            Op::Stream { block, sweep } => match self.block(block.0) {
                Some(Block::Arrays { elements }) => {
                    let arrays = if matches!(sweep, Sweep::Add | Sweep::Triad) { 3 } else { 2 };
                    u64::from(elements) * costs.stream_1000 * arrays / 2_000
                }
                _ => 0,
            },
            Op::Sleep(_) | Op::SleepUntil(_) => costs.wait,
            Op::Wait(word) | Op::WaitUntil { word, .. } => {
                match self.shared.words[word.0 as usize].pending {
                    Some(_) => costs.step,
                    None => costs.wait,
                }
            }
            Op::Wake { word, .. } => match self.shared.words[word.0 as usize].pending {
                Some(_) => costs.step,
                None => costs.post,
            },
            Op::Lock(lock) => match self.shared.locks[lock.0 as usize].owner {
                Some(_) => costs.wait,
                None => costs.step,
            },
            Op::Unlock(lock) => match self.shared.locks[lock.0 as usize].sleeping.is_empty() {
                true => costs.step,
                false => costs.post,
            },
            Op::Push { .. } | Op::Pop(_) | Op::LockCpu | Op::UnlockCpu => costs.step,
            Op::Send { channel, bytes } => self.message_cost(channel.0, bytes, true),
            Op::Receive { channel, bytes } => self.message_cost(channel.0, bytes, false),
            Op::Meet(_) | Op::AwaitPost(_) => costs.wait,
            Op::Post(_) => costs.post,
            Op::Fork(_) => costs.fork,
            Op::Exit => costs.exit,
            Op::Close(_) | Op::Place(_) | Op::Yield => costs.syscall,
        }
    }

    /// What a woken task does before it tries its operation again.
    pub(super) fn cost_of_retry(&self, task: TaskId) -> u64 {
        match self.bodies[task.index()].act {
            // A task computes at a wakeup only where its life begins in the middle.
            act @ Act::Op(Op::Send { .. } | Op::Receive { .. } | Op::Compute { .. }) => {
                self.cost(act) + self.call_work(task, act)
            }
            Act::Op(_) => self.config.costs.step,
            Act::AwaitReady | Act::AwaitEnd => self.config.costs.wait,
            Act::EndGrace => self.config.costs.rcu,
            _ => 0,
        }
    }

    fn block(&self, block: u32) -> Option<Block> {
        self.blocks.get(block as usize).copied()
    }

    fn perform(&mut self, cpu: usize, task: TaskId, op: Op) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: false };
        match op {
            Op::Sleep(Nanos(0)) => self.went(task, Done::Ok),
            Op::Sleep(time) => self.sleeps_until(cpu, task, self.scene.now.saturating_add(time.0)),
            Op::SleepUntil(until) if until.0 <= self.scene.now => self.went(task, Done::Ok),
            Op::SleepUntil(until) => self.sleeps_until(cpu, task, until.0),
            Op::Wait(word) => match self.shared.words[word.0 as usize].pending.take() {
                Some(stamp) => self.went(task, Done::Woken { stamp: Nanos(stamp) }),
                None => Effect::Sleep(On::Word(word.0)),
            },
            Op::WaitUntil { word, until } => {
                match self.shared.words[word.0 as usize].pending.take() {
                    Some(stamp) => self.went(task, Done::Woken { stamp: Nanos(stamp) }),
                    None if until.0 <= self.scene.now => self.went(task, Done::Ok),
                    None => {
                        self.sleeps_until(cpu, task, until.0);
                        Effect::Sleep(On::Word(word.0))
                    }
                }
            }
            Op::Wake { word, stamp } => {
                let word = &mut self.shared.words[word.0 as usize];
                if word.pending.is_none() {
                    word.pending = Some(stamp.0);
                    let first = word.sleeping.pop_front();
                    first.into_iter().for_each(|first| self.wake(first, Resume::Retry, by));
                }
                self.went(task, Done::Ok)
            }
            Op::Push { queue, value } => {
                let done = self.shared.queues[queue.0 as usize].push(value);
                self.went(task, done)
            }
            Op::Pop(queue) => {
                let batch = &mut self.bodies[task.index()].batch;
                let done = self.shared.queues[queue.0 as usize].pop(batch);
                self.went(task, done)
            }
            Op::Close(channel) => {
                self.close(task, channel.0, by);
                self.went(task, Done::Ok)
            }
            Op::Fork(fork) => self.fork(cpu, task, fork.0),
            Op::Place(place) => self.place(cpu, task, place.0),
            Op::Yield => Effect::Yield,
            Op::Exit => self.ends(cpu, task),
            _ => self.synchronise(cpu, task, op),
        }
    }

    fn synchronise(&mut self, cpu: usize, task: TaskId, op: Op) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: false };
        match op {
            Op::Lock(lock) => {
                let owner = &mut self.shared.locks[lock.0 as usize].owner;
                if owner.is_some() {
                    return Effect::Sleep(On::Lock(lock.0));
                }
                *owner = Some(task);
            }
            // The one that comes first takes a free lock; a woken task tries again.
            Op::Unlock(lock) => {
                let lock = &mut self.shared.locks[lock.0 as usize];
                lock.owner = None;
                let first = lock.sleeping.pop_front();
                first.into_iter().for_each(|first| self.wake(first, Resume::Retry, by));
            }
            Op::LockCpu => {
                if self.cpu_locks[cpu].is_some() {
                    return Effect::Spin;
                }
                self.cpu_locks[cpu] = Some(task);
                self.bodies[task.index()].cpu_lock = Some(cpu);
            }
            Op::UnlockCpu => {
                if let Some(of) = self.bodies[task.index()].cpu_lock.take() {
                    self.cpu_locks[of] = None;
                    self.end_spin(of);
                }
            }
            Op::Meet(barrier) => {
                let barrier_ = &mut self.shared.barriers[barrier.0 as usize];
                if barrier_.sleeping.len() + 1 < barrier_.parties as usize {
                    return Effect::Sleep(On::Barrier(barrier.0));
                }
                for other in std::mem::take(&mut barrier_.sleeping) {
                    self.wake(other, Resume::With(Done::Ok), by);
                }
            }
            Op::Post(semaphore) => {
                let semaphore = &mut self.shared.semaphores[semaphore.0 as usize];
                semaphore.count += 1;
                let first = semaphore.sleeping.pop_front();
                first.into_iter().for_each(|first| self.wake(first, Resume::Retry, by));
            }
            Op::AwaitPost(semaphore) => {
                let count = &mut self.shared.semaphores[semaphore.0 as usize].count;
                if *count == 0 {
                    return Effect::Sleep(On::Semaphore(semaphore.0));
                }
                *count -= 1;
            }
            // Work on memory has no effect beside its time; messages have their own way.
            _ => {}
        }
        self.went(task, Done::Ok)
    }

    /// The operation is over, and went so.
    #[inline]
    pub(super) fn went(&mut self, task: TaskId, done: Done) -> Effect {
        self.bodies[task.index()].done = done;
        Effect::Done
    }

    fn sleeps_until(&mut self, cpu: usize, task: TaskId, until: u64) -> Effect {
        let at = until.saturating_add(self.config.costs.timer_slack);
        if at < NEVER / 2 {
            let sleep = self.bodies[task.index()].sleeps;
            let exact = self.config.start == super::Start::InPlace;
            self.agenda.post(at, cpu, super::Happening::Timer(task, sleep, exact));
        }
        Effect::Sleep(On::Time)
    }

    /// The lock of a CPU is free: the task that turns round there looks again.
    fn end_spin(&mut self, cpu: usize) {
        let Some(task) = self.scene.cpus[cpu].running else { return };
        if self.bodies[task.index()].spinning {
            self.pause(cpu, task);
            let body = &mut self.bodies[task.index()];
            (body.spinning, body.left) = (false, self.config.costs.step);
            self.go(cpu, task);
        }
    }

    fn place(&mut self, cpu: usize, task: TaskId, place: u32) -> Effect {
        let placement = &self.places[place as usize];
        let view = &mut self.scene.tasks[task.index()];
        if let Some(cpus) = &placement.cpus {
            view.allowed = Some(cpus.clone());
        }
        view.nice = placement.nice.unwrap_or(view.nice);
        view.slice_ns = placement.slice.map_or(view.slice_ns, |slice| slice.0);
        let before = view.class;
        let class = placement.policy.and_then(Class::of).unwrap_or(before);
        if class.is_above() || before.is_above() {
            if class != before {
                if !self.admits(task, class) {
                    return self.went(task, Done::Failed(EBUSY));
                }
                self.changes_class(cpu, task, class);
            }
        } else {
            view.class = class;
        }
        let stays = self.scene.task(task).may_use(cpu);
        if stays { self.went(task, Done::Ok) } else { Effect::Relocate }
    }

    /// Whether the CPUs have room for what a task reserves, beside what others reserved: 95 % of their time
    /// (`__dl_overflow`).
    fn admits(&self, task: TaskId, class: Class) -> bool {
        let share = |class: Class| match class {
            Class::Deadline(reserved) => reserved.bandwidth(),
            _ => 0,
        };
        let others = (0..self.bodies.len())
            .filter(|&at| at != task.index() && self.is_alive(TaskId(at as u32)));
        let taken: u64 = others.map(|at| share(self.scene.tasks[at].class)).sum();
        let room = (self.scene.cpus.len() as u64) * (95 << 20) / 100;
        share(class) == 0 || taken.saturating_add(share(class)) <= room
    }

    /// Whether a task has begun and not ended.
    pub(super) fn is_alive(&self, task: TaskId) -> bool {
        !matches!(self.bodies[task.index()].stand, Stand::Unborn | Stand::Gone)
    }
}
