//! Where tasks wake in a recording of several CPUs, and where the model would put them.

use schedlab_model::{
    Clock, Context, Cpu, Event, Left, Nanos, OtherFormat, Pid, Prio, TraceInfo, What,
};
use schedlab_sim::follow::{Comparison, Follower, Following, Kind, Notes};
use schedlab_sim::{Hardware, Model};

const WAKER: Pid = Pid(9);
const A: Pid = Pid(10);
const B: Pid = Pid(20);
const C: Pid = Pid(30);
const NAMES: [&str; 2] = ["knows_select", "knows_waking"];
/// The first second does not count.
const LATER: u64 = 1_500_000_000;

/// A recording as it grows.
#[derive(Default)]
struct Log {
    events: Vec<Event>,
    arguments: Vec<String>,
    now: u64,
}

impl Log {
    fn put(&mut self, cpu: u16, by: Pid, what: What) {
        self.now += 1_000;
        let (time, cpu) = (Nanos(self.now), Cpu(cpu));
        self.events.push(Event { time, by, cpu, context: Context::Task, what });
    }

    fn switch(&mut self, cpu: u16, prev: Pid, left: Left, next: Pid) {
        let (prev_prio, next_prio) = (Prio::NORMAL, Prio::NORMAL);
        self.put(cpu, prev, What::Switch { prev, prev_prio, left, next, next_prio });
    }

    fn waking(&mut self, cpu: u16, by: Pid, pid: Pid, last: u16) {
        self.put(cpu, by, What::Waking { pid, prio: Prio::NORMAL, last_cpu: Cpu(last) });
    }

    fn wakeup(&mut self, cpu: u16, by: Pid, pid: Pid, to: u16) {
        self.put(cpu, by, What::Wakeup { pid, prio: Prio::NORMAL, cpu: Cpu(to), new: false });
    }

    fn note(&mut self, cpu: u16, by: Pid, name: &str, text: &str) {
        let format = NAMES.iter().position(|of| *of == name).unwrap() as u16;
        self.put(cpu, by, What::Other { format });
        self.arguments.push(text.to_owned());
    }

    /// A and B ran on CPU 1 and sleep, C did on CPU 2; the waker runs on CPU 0. Then more than a second passes.
    fn begin() -> Self {
        let mut log = Self::default();
        log.switch(1, Pid::IDLE, Left::Yielded, A);
        log.switch(1, A, Left::Slept, B);
        log.switch(1, B, Left::Slept, Pid::IDLE);
        log.switch(2, Pid::IDLE, Left::Yielded, C);
        log.switch(2, C, Left::Slept, Pid::IDLE);
        log.now += LATER;
        log.switch(0, Pid::IDLE, Left::Yielded, WAKER);
        log
    }

    fn follow(&self, machine: &str) -> Comparison {
        let model = Model::of(&machine.parse().unwrap(), None).unwrap();
        let hardware = Hardware::new(model.topology.clone());
        let policy = model.policy(&hardware, 0);
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        info.cpus = (0..3).map(Cpu).collect();
        let format = |name: &str| OtherFormat { system: "schedlab_1".into(), name: name.into() };
        info.others = NAMES.iter().map(|name| format(name)).collect();
        let notes = Notes::read(&info, &self.events, &self.arguments);
        let following = Following { sync: false, ..Following::new(4_000_000, Some(0)) };
        let follower = Follower::new(following, hardware, policy, &info).unwrap();
        follower.follow(&self.events, &notes).unwrap()
    }
}

#[test]
fn a_cpu_to_which_a_wakeup_is_on_its_way_is_not_idle() {
    let mut log = Log::begin();
    log.waking(0, WAKER, A, 1);
    log.waking(0, WAKER, B, 1);
    log.put(0, WAKER, What::Migrate { pid: B, from: Cpu(1), to: Cpu(2) });
    log.wakeup(1, Pid::IDLE, A, 1);
    log.wakeup(2, Pid::IDLE, B, 2);
    let found = log.follow("sim:cpus=3,kernel=cfs-6.1");
    assert_eq!(found.differences, []);
    // The first idle CPU is that of both for rules that only look at who runs.
    let score = found.score;
    assert_eq!((score.counted, score.model, score.naive), (2, 2, [1, 0, 1]), "{score:?}");
    // When the wakeup has come and gone, its CPU is idle again.
    log.switch(1, Pid::IDLE, Left::Yielded, A);
    log.switch(1, A, Left::Slept, Pid::IDLE);
    log.waking(0, WAKER, A, 1);
    log.wakeup(1, Pid::IDLE, A, 1);
    let found = log.follow("sim:cpus=3,kernel=cfs-6.1");
    assert_eq!((found.score.counted, found.score.model), (3, 3), "{:?}", found.differences);
}

#[test]
fn on_several_cpus_of_linux_6_12_only_choices_of_a_cpu_are_compared() {
    let mut log = Log::begin();
    log.waking(0, WAKER, A, 1);
    log.note(0, WAKER, "knows_select", "prev=1 flags=8");
    log.wakeup(1, Pid::IDLE, A, 1);
    log.switch(1, Pid::IDLE, Left::Yielded, A);
    // B had not left its queue: the kernel asks for no CPU.
    log.waking(0, WAKER, B, 1);
    let held = "pid=20 vruntime=900 deadline=1600 vlag=0 slice=700 delayed=1 relative=0 queued=1 nr=2 sum=0 \
                load=1024 zero=0";
    log.note(0, WAKER, "knows_waking", held);
    log.wakeup(0, WAKER, B, 1);
    log.switch(1, A, Left::Yielded, B);
    log.switch(1, B, Left::Slept, A);
    let found = log.follow("sim:cpus=3,kernel=eevdf-6.12");
    assert_eq!(found.differences, []);
    let score = found.score;
    assert_eq!((score.counted, score.model, score.stayed), (1, 1, 1), "{score:?}");
    let others = found.counts.iter().filter(|(kind, _)| **kind != Kind::Placement);
    assert!(others.clone().all(|(_, count)| count.same + count.different == 0), "{found:?}");
    assert!(found.reasons.keys().any(|(_, why)| why.contains("queues of several CPUs")));
}
