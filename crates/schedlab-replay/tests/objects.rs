//! Objects with tokens: a reader that found data does not sleep in a replay either, unless the order changes.
#![expect(clippy::unwrap_used, reason = "tests; clippy sees the functions beside them as none")]

use schedlab_model::{
    Clock, Context, Cpu, Event, Left, Nanos, OtherFormat, Pid, Prio, Setting, TraceInfo, What,
};
use schedlab_replay::{Infer, Inferred, Kept, Options, Side};
use schedlab_sim::{Model, Simulated};
use schedlab_timeline::{Cut, WithArguments, ask};
use schedlab_workload::demand::{Object, Step};
use schedlab_workload::{Machine, Observed, RecordSpec, RunSpec, WorkloadSpec};

type Pairs<'p> = &'p [(&'p str, &'p str)];

const MACHINE: &str = "sim:cpus=1,kernel=cfs-6.1";
const CALLS: &str = "syscalls:sys_enter_read";

fn run(name: &str, options: Pairs<'_>, granularity: &str) -> Kept {
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
    let setting = Setting { knob: "wakeup_granularity".into(), value: granularity.into() };
    let record = RecordSpec { events: vec![CALLS.to_owned()], ..RecordSpec::default() };
    let settings = vec![setting];
    let spec = RunSpec { settings, record: Some(record), ..RunSpec::of(workload) };
    let model = Model::of(&MACHINE.parse().unwrap(), Some("rcu = 0")).unwrap();
    let mut told = Observed::default();
    Simulated::new(model).run(&spec, &mut told).unwrap();
    Kept::new(told.info.unwrap(), told.events).with_arguments(told.arguments)
}

fn infer(recorded: &mut Kept, objects: bool) -> Inferred {
    recorded.rewind();
    let options = Options { objects, ..Options::default() };
    let question = Infer::new(schedlab_model::EventSource::info(recorded), options);
    assert_eq!(question.wants_arguments(), objects);
    let inferred = ask(recorded, WithArguments(question)).unwrap().answer;
    inferred.demand.check().unwrap();
    inferred
}

fn replay(inferred: &Inferred, granularity: &str) -> Kept {
    let program = inferred.demand.to_string();
    run("replay", &[("program", &program), ("calls", "recorded")], granularity)
}

/// Mean run delay in nanoseconds, and switches.
fn figures(kept: &mut Kept) -> (f64, f64) {
    kept.rewind();
    let side = Side::of(kept, Cut::default(), true).unwrap();
    (side.waited.0 as f64 / side.total.run_delay.count() as f64, side.switches as f64)
}

const HACKBENCH: Pairs<'_> = &[("groups", "1"), ("fds", "4"), ("loops", "300"), ("pipe", "true")];

fn off(is: f64, truth: f64) -> f64 {
    (is / truth).ln().abs().exp()
}

#[test]
fn hackbench_under_another_granularity_is_predicted_better_with_its_calls() {
    let (mut with_calls, mut without_calls) = (0.0, 0.0);
    for (from, to) in [("0.5ms", "8ms"), ("8ms", "0.5ms"), ("1ms", "0.2ms")] {
        let mut recorded = run("hackbench", HACKBENCH, from);
        let mut truth = run("hackbench", HACKBENCH, to);
        let (with, without) = (infer(&mut recorded, true), infer(&mut recorded, false));
        assert_eq!(with.totals.calls, 9_600, "2 calls for each of 4 x 4 x 300 messages");
        assert_eq!(with.totals.calls_unknown, 0, "{:?}", with.totals);
        assert_eq!(with.demand.objects, [Object::Pipe; 4]);
        let truth = figures(&mut truth);
        let [new, old] = [&with, &without].map(|inferred| figures(&mut replay(inferred, to)));
        println!("{from} to {to}: {truth:?}, with calls {new:?}, without {old:?}");
        for (truth, new, old) in [(truth.0, new.0, old.0), (truth.1, new.1, old.1)] {
            assert!(off(new, truth) < 1.2, "{from} to {to}: {new} for {truth}");
            with_calls += off(new, truth).ln();
            without_calls += off(old, truth).ln();
        }
    }
    assert!(with_calls * 5.0 < without_calls, "{with_calls} {without_calls}");
}

#[test]
fn a_ping_pong_pair_with_its_calls_is_replayed_as_it_was() {
    let mut recorded = run("pingpong", &[("duration", "50ms"), ("via", "pipe")], "1ms");
    let inferred = infer(&mut recorded, true);
    assert_eq!(inferred.demand.objects.len(), 2, "a pipe each way");
    let mut replayed = replay(&inferred, "1ms");
    let (was, is) = (figures(&mut recorded), figures(&mut replayed));
    assert!(off(is.0, was.0) < 1.01 && off(is.1, was.1) < 1.01, "{was:?} {is:?}");
    let pair = inferred.accounts.iter().filter(|one| one.on_objects > 100);
    assert!(pair.clone().count() == 2 && pair.clone().all(|one| one.by_task < one.on_objects + 5));
}

/// Events of a trace by hand: who runs on CPU 0, and what it calls.
#[derive(Default)]
struct Script {
    events: Vec<Event>,
    arguments: Vec<String>,
    running: Pid,
    now: u64,
}

const READ: u16 = 0;
const WRITE: u16 = 2;
const FUTEX: u16 = 4;

impl Script {
    fn event(&mut self, what: What) {
        self.now += 1_000;
        let (time, by) = (Nanos(self.now), self.running);
        self.events.push(Event { time, by, cpu: Cpu(0), context: Context::Task, what });
    }

    fn run(&mut self, next: i32) {
        let (prev, next) = (self.running, Pid(next));
        let prio = Prio::NORMAL;
        let left = if prev.is_idle() { Left::Yielded } else { Left::Slept };
        self.event(What::Switch { prev, prev_prio: prio, left, next, next_prio: prio });
        self.running = next;
    }

    fn wake(&mut self, pid: i32) {
        let (pid, prio) = (Pid(pid), Prio::NORMAL);
        self.event(What::Waking { pid, prio, last_cpu: Cpu(0) });
        self.event(What::Wakeup { pid, prio, cpu: Cpu(0), new: false });
    }

    fn enter(&mut self, call: u16, arguments: &str) {
        self.arguments.push(arguments.to_owned());
        self.event(What::Other { format: call });
    }

    fn exit(&mut self, call: u16, result: i64) {
        self.arguments.push(format!("ret={result}"));
        self.event(What::Other { format: call + 1 });
    }

    fn call(&mut self, call: u16, arguments: &str, result: i64) {
        self.enter(call, arguments);
        self.exit(call, result);
    }

    /// What is inferred of it, and the steps of the tasks 11 and 12.
    fn inferred(self) -> (Inferred, Vec<Step>, Vec<Step>) {
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        let name = |name: &str| OtherFormat { system: "syscalls".into(), name: name.into() };
        let calls = ["read", "write", "futex"];
        let both = calls.iter().flat_map(|call| ["enter", "exit"].map(|edge| (edge, call)));
        info.others = both.map(|(edge, call)| name(&format!("sys_{edge}_{call}"))).collect();
        let mut kept = Kept::new(info, self.events).with_arguments(self.arguments);
        let inferred = infer(&mut kept, true);
        let steps = |pid| {
            let actor = inferred.demand.actors.iter().find(|actor| actor.pid == Pid(pid));
            let steps = actor.map(|actor| actor.steps.clone()).unwrap_or_default();
            let is_told = |step: &Step| !matches!(step, Step::Run(_) | Step::InCall(_));
            steps.into_iter().filter(is_told).collect::<Vec<_>>()
        };
        let (one, two) = (steps(11), steps(12));
        (inferred, one, two)
    }

    /// 11 reads and sleeps; 12 writes twice; 11 reads `second` bytes without a wait.
    fn reader_and_writer(second: i64) -> Self {
        let mut script = Self::default();
        script.run(11);
        script.enter(READ, "fd=3 count=500");
        script.run(12);
        script.enter(WRITE, "fd=4 count=100");
        script.wake(11);
        script.exit(WRITE, 100);
        script.call(WRITE, "fd=4 count=100", 100);
        script.run(11);
        script.exit(READ, 100);
        script.call(READ, "fd=3 count=500", second);
        script.run(0);
        script
    }
}

const fn take(object: u32, bytes: u32) -> Step {
    Step::Take { object, bytes }
}

const fn put(object: u32, bytes: u32) -> Step {
    Step::Put { object, bytes }
}

#[test]
fn a_read_that_found_data_takes_a_token_without_a_wait() {
    let (inferred, reader, writer) = Script::reader_and_writer(100).inferred();
    assert_eq!(inferred.demand.objects, [Object::Pipe]);
    assert_eq!((inferred.totals.calls, inferred.totals.calls_unknown), (4, 0));
    assert_eq!(reader[..2], [take(0, 100), take(0, 100)], "{reader:?}");
    // Before its first burst it may have slept.
    assert_eq!(writer[1..3], [put(0, 100), put(0, 100)], "no wakeup beside: {writer:?}");
    assert!(!inferred.warnings.iter().any(|one| one.code == "hidden-dependencies"));
}

#[test]
fn an_object_with_a_writer_that_was_not_seen_is_unknown() {
    let (inferred, reader, writer) = Script::reader_and_writer(400).inferred();
    assert!(inferred.demand.objects.is_empty());
    assert_eq!((inferred.totals.calls, inferred.totals.calls_unknown), (4, 4));
    assert_eq!(reader[0], Step::Wait, "{reader:?}");
    assert!(matches!(writer[1], Step::Post(_)), "{writer:?}");
    assert!(inferred.warnings.iter().any(|one| one.code == "hidden-dependencies"));
}

#[test]
fn what_nobody_reads_any_more_is_not_put() {
    let (inferred, reader, writer) = Script::reader_and_writer(50).inferred();
    inferred.demand.check().unwrap();
    assert_eq!(reader[..2], [take(0, 100), take(0, 50)]);
    assert_eq!(writer[1..3], [put(0, 100), put(0, 50)]);
}

#[test]
fn a_futex_whose_value_had_changed_takes_the_token_of_the_wakeup_that_found_nobody() {
    let mut script = Script::default();
    script.run(12);
    script.call(FUTEX, "uaddr=0x10 op=1 val=1", 0);
    script.run(11);
    script.call(FUTEX, "uaddr=0x10 op=0 val=7", -11);
    // Nobody woke this one: the value had changed by itself.
    script.call(FUTEX, "uaddr=0x20 op=0 val=7", -11);
    script.run(0);
    let (inferred, waiter, waker) = script.inferred();
    assert_eq!(inferred.totals.futex_tokens, 1);
    assert!(waiter.contains(&take(0, 1)) && waker.contains(&put(0, 1)), "{waiter:?} {waker:?}");
}
