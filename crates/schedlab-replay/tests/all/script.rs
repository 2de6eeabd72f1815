//! Traces by hand for tests of calls, and what is inferred of them.

use schedlab_model::{
    Clock, Context, Cpu, Event, Left, Nanos, OtherFormat, Pid, Prio, TraceInfo, What,
};
use schedlab_replay::{Infer, Inferred, MemorySource, Options};
use schedlab_timeline::{WithArguments, ask};
use schedlab_workload::demand::Step;

/// Events of a trace by hand: who runs on CPU 0, and what it calls.
#[derive(Default)]
pub(crate) struct Script {
    events: Vec<Event>,
    arguments: Vec<String>,
    running: Pid,
    now: u64,
}

pub(crate) const READ: u16 = 0;
pub(crate) const WRITE: u16 = 2;
pub(crate) const FUTEX: u16 = 4;
pub(crate) const POLL: u16 = 6;

impl Script {
    fn event(&mut self, what: What) {
        self.now += 1_000;
        let (time, by) = (Nanos(self.now), self.running);
        self.events.push(Event { time, by, cpu: Cpu(0), context: Context::Task, what });
    }

    pub(crate) fn run(&mut self, next: i32) {
        let (prev, next) = (self.running, Pid(next));
        let prio = Prio::NORMAL;
        let left = if prev.is_idle() { Left::Displaced } else { Left::Slept };
        self.event(What::Switch { prev, prev_prio: prio, left, next, next_prio: prio });
        self.running = next;
    }

    /// The running task wakes another within its call.
    pub(crate) fn wake(&mut self, pid: i32) {
        self.wake_in(pid, Context::Task);
    }

    pub(crate) fn wake_in(&mut self, pid: i32, context: Context) {
        let from = self.events.len();
        let (pid, prio) = (Pid(pid), Prio::NORMAL);
        self.event(What::Waking { pid, prio, last_cpu: Cpu(0) });
        self.event(What::Wakeup { pid, prio, cpu: Cpu(0), new: false });
        self.events[from..].iter_mut().for_each(|event| event.context = context);
    }

    pub(crate) fn enter(&mut self, call: u16, arguments: &str) {
        self.arguments.push(arguments.to_owned());
        self.event(What::Other { format: call });
    }

    pub(crate) fn exit(&mut self, call: u16, result: i64) {
        self.arguments.push(format!("ret={result}"));
        self.event(What::Other { format: call + 1 });
    }

    pub(crate) fn call(&mut self, call: u16, arguments: &str, result: i64) {
        self.enter(call, arguments);
        self.exit(call, result);
    }

    /// 11 sleeps in a read, 12 writes 100 bytes, which wakes 11 in this context, and 11 reads them.
    pub(crate) fn hand_over(&mut self, context: Context) {
        self.run(11);
        self.enter(READ, "fd=3 count=500");
        self.run(12);
        self.enter(WRITE, "fd=4 count=100");
        self.wake_in(11, context);
        self.exit(WRITE, 100);
        self.run(11);
        self.exit(READ, 100);
    }

    /// What is inferred of it, and the steps of the tasks 11 and 12.
    pub(crate) fn inferred(self) -> (Inferred, Vec<Step>, Vec<Step>) {
        self.inferred_at(Options::default().call)
    }

    /// The same if it cost a time to record the begin or the end of a call.
    pub(crate) fn inferred_at(self, call: Nanos) -> (Inferred, Vec<Step>, Vec<Step>) {
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        let name = |name: &str| OtherFormat { system: "syscalls".into(), name: name.into() };
        let calls = ["read", "write", "futex", "epoll_wait"];
        let both = calls.iter().flat_map(|call| ["enter", "exit"].map(|edge| (edge, call)));
        info.others = both.map(|(edge, call)| name(&format!("sys_{edge}_{call}"))).collect();
        let mut kept = MemorySource::new(info, self.events).with_arguments(self.arguments);
        let question = Infer::new(
            schedlab_model::EventSource::info(&kept),
            Options { call, ..Options::default() },
        );
        let inferred = ask(&mut kept, WithArguments(question)).unwrap().answer;
        inferred.demand.check().unwrap();
        let steps = |pid| {
            let actor = inferred.demand.actors.iter().find(|actor| actor.pid == Pid(pid));
            let steps = actor.map(|actor| actor.steps.clone()).unwrap_or_default();
            let is_told = |step: &Step| !matches!(step, Step::Run(_) | Step::InCall(_));
            steps.into_iter().filter(is_told).collect::<Vec<_>>()
        };
        let (one, two) = (steps(11), steps(12));
        (inferred, one, two)
    }
}
