//! A task's way through its operations: it asks for one, works, and the operation takes effect.

use super::task::{Act, On, Phase};
use super::{Start, World};
use crate::event_queue::NEVER;
use crate::policy_view::TaskId;
use schedlab_model::{Context, Left, Nanos, Phase as MarkPhase, What};
use schedlab_stats::Histogram;
use schedlab_workload::{CounterId, DialId, Done, Instruments, Op, SampleId};

/// Operations that a task may still ask for after it was asked to stop: enough to close its channels.
const AFTER_STOP: u32 = 100_000;

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
        if self.bodies[task.index()].is_plain && !self.asks_for_class(cpu, task) {
            return;
        }
        if self.scene.cpus[cpu].resched {
            self.bodies[task.index()].phase = Phase::Ask;
            return self.schedule(cpu, Some(Left::Displaced));
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
        self.begin_act(cpu, task, act);
    }

    pub(super) fn begin_act(&mut self, cpu: usize, task: TaskId, act: Act) {
        let body = &mut self.bodies[task.index()];
        body.act = act;
        body.moved = 0;
        body.waited = false;
        if let Act::Op(op) = act
            && self.stopping
            && !matches!(op, Op::Exit | Op::Close(_))
        {
            body.phase = Phase::Ask;
            body.left = self.config.costs.syscall.max(1);
            return self.go(cpu, task);
        }
        self.enter(cpu, task, act);
    }

    /// The next operation. Of a recorded task, what it computes right after it begins to read or write is what that call
    /// takes.
    #[inline]
    pub(super) fn ask_call(&mut self, cpu: usize, task: TaskId) -> Op {
        let op = self.ask(cpu, task);
        let recorded = self.config.start == Start::InPlace;
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
    pub(super) fn ask(&mut self, cpu: usize, task: TaskId) -> Op {
        let at = task.index();
        let series = self.series;
        let counters = self.counters_each;
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
        let mut own = Own {
            histograms: &mut self.histograms[at * series..(at + 1) * series],
            counters: &mut self.counters[at * counters..(at + 1) * counters],
            dials: &self.dials,
            until: self.until,
            marks: self.config.record.then_some(&mut self.marks),
        };
        let op = behaviour.next(Nanos(self.scene.now), done, &mut own);
        if !self.marks.is_empty() {
            self.emit_marks(cpu, task);
        }
        op
    }

    fn emit_marks(&mut self, cpu: usize, task: TaskId) {
        let pid = self.pid(task);
        let marks = std::mem::take(&mut self.marks);
        for &(id, phase, request) in &marks {
            self.emit(cpu, Context::Task, What::Mark { pid, id, phase, request });
        }
        self.marks = marks;
        self.marks.clear();
    }

    /// Begins the operation that the task yielded.
    fn enter(&mut self, cpu: usize, task: TaskId, act: Act) {
        self.bodies[task.index()].in_call = self.calls.is_told;
        self.tell_enter(cpu, task, act);
        let mut left = self.cost(act);
        let body = &mut self.bodies[task.index()];
        if self.config.start == Start::InPlace || !act.is_user() {
            left -= body.take_prepaid(left);
        }
        // `first` has passed already.
        body.fresh = false;
        body.phase = Phase::Enter;
        body.on = None;
        body.left = left;
        self.go(cpu, task);
        self.memory_changes(cpu, Some(task));
    }

    /// The operation's time has passed.
    pub(super) fn takes_effect(&mut self, cpu: usize, task: TaskId) {
        if self.bodies[task.index()].is_plain && !self.asks_for_class(cpu, task) {
            return;
        }
        self.acting = Some(cpu);
        self.owed = 0;
        let began = self.scene.now;
        let mut effect = match self.bodies[task.index()].act {
            Act::Op(Op::Send { channel, bytes }) => self.send(cpu, task, channel.0, bytes),
            Act::Op(Op::Receive { channel, bytes }) => self.receive(cpu, task, channel.0, bytes),
            Act::Op(op) => self.perform(cpu, task, op),
            act => self.stage(cpu, task, act),
        };
        if self.config.start == super::Start::InPlace {
            effect = self.same_call(cpu, task, effect);
        }
        if matches!(effect, Effect::Sleep(_) | Effect::Spin) && self.is_told_to_stop(task) {
            // Nobody would wake it any more.
            self.bodies[task.index()].done = Done::Stopped;
            effect = Effect::Done;
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
                if owed == 0 && self.scene.now == began {
                    return self.next_act(cpu, task);
                }
                body.left = owed;
                self.go(cpu, task);
            }
            Effect::Sleep(on) if owed > 0 || self.scene.now > began => {
                body.phase = Phase::Blocking;
                body.on = Some(on);
                body.left = owed;
                self.go(cpu, task);
            }
            Effect::Sleep(on) => self.sleep(cpu, task, on),
            Effect::Again(work) => {
                body.left = work;
                self.go(cpu, task);
                self.look(cpu);
            }
            Effect::Spin => {
                body.left = NEVER;
                body.spinning = true;
                self.go(cpu, task);
                self.look(cpu);
            }
            Effect::Relocate => {
                body.phase = Phase::Ask;
                body.done = Done::Ok;
                self.relocate(cpu, task, None);
            }
            Effect::Yield => {
                body.phase = Phase::Ask;
                body.done = Done::Ok;
                if self.has_code() {
                    return self.yield_by_code(cpu, task);
                }
                self.policy.yields(&self.scene, cpu);
                self.schedule(cpu, Some(Left::Displaced));
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
        if !came && !self.is_told_to_stop(task) {
            return self.sleep(cpu, task, on);
        }
        let cost = self.cost(act) + self.call_work(task, act);
        let body = &mut self.bodies[task.index()];
        body.on = None;
        match on {
            _ if !came => (body.phase, body.done, body.left) = (Phase::Ask, Done::Stopped, 0),
            On::Gate => (body.phase, body.done, body.left) = (Phase::Ask, Done::Start, 0),
            _ => (body.phase, body.left) = (Phase::Enter, cost),
        }
        self.go(cpu, task);
    }

    /// Whether a task of the load was asked to stop.
    fn is_told_to_stop(&self, task: TaskId) -> bool {
        self.stopping && Some(task) != self.starter && Some(task) != self.rcu
    }

    fn sleep(&mut self, cpu: usize, task: TaskId, on: On) {
        let body = &mut self.bodies[task.index()];
        body.on = Some(on);
        body.waited = true;
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
}
