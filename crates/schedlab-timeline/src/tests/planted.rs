//! Bad placements that a generator plants in a trace, and what looks like one and is none. The generator writes its
//! ledger from what it does and knows nothing of the analysis.

use crate::notation::Trace;
use crate::{Cause, Conservation, ConservationOptions, Episode, ask};
use schedlab_model::{
    Affinity, Clock, Comm, Context, Cpu, CpuSet, Event, Left, Nanos, Pid, Prio, TraceInfo, What,
};
use schedlab_random::SplitMix64;

const GROUPS: u16 = 6;
/// CPUs of a group; tasks stay in theirs.
const CPUS: u16 = 4;
/// Its home tasks, one for each CPU, and two that come and go.
const X: i32 = 4;
const Y: i32 = 5;
/// Further numbers: the kernel threads of the group's first CPU.
const WORKER: i32 = 6;
const STOPPER: i32 = 7;
/// Numbers for each group; those of new tasks are far above.
const TASKS: i32 = 8;

/// A planted episode.
struct Entry {
    cpu: Cpu,
    start: u64,
    end: u64,
    cost: f64,
    cause: Cause,
}

struct Dice(SplitMix64);

impl Dice {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.bits() % (high - low)
    }
}

/// Four CPUs and their tasks. Between scenes each home task runs on its CPU, and the others sleep.
struct Group {
    first: u16,
    now: u64,
    current: [i32; CPUS as usize],
    dice: Dice,
    events: Vec<Event>,
    ledger: Vec<Entry>,
    newborn: i32,
}

impl Group {
    fn cpu(&self, cpu: u16) -> Cpu {
        Cpu(self.first * CPUS + cpu)
    }

    fn pid(&self, task: i32) -> Pid {
        Pid(if task < 0 { 0 } else { 1 + i32::from(self.first) * 10_000 + task })
    }

    fn log(&mut self, cpu: u16, what: What) {
        let by = self.pid(self.current[usize::from(cpu)]);
        let (time, cpu) = (Nanos(self.now), self.cpu(cpu));
        self.events.push(Event { time, by, cpu, context: Context::Task, what });
    }

    /// Some time passes; gives how much.
    fn pass(&mut self, low_us: u64, high_us: u64) -> u64 {
        let time = self.dice.between(low_us * 1000, high_us * 1000);
        self.now += time;
        time
    }

    /// `task` or, for -1, the idle task comes to run.
    fn switch(&mut self, cpu: u16, left: Left, task: i32) {
        let (prev, next) = (self.pid(self.current[usize::from(cpu)]), self.pid(task));
        let prio = Prio::NORMAL;
        self.log(cpu, What::Switch { prev, prev_prio: prio, left, next, next_prio: prio });
        self.current[usize::from(cpu)] = task;
    }

    fn waking(&mut self, by: u16, task: i32, last: u16) {
        let (pid, last_cpu) = (self.pid(task), self.cpu(last));
        self.log(by, What::Waking { pid, prio: Prio::NORMAL, last_cpu });
        self.now += 400;
    }

    fn wakeup(&mut self, by: u16, task: i32, to: u16) {
        let (pid, cpu) = (self.pid(task), self.cpu(to));
        self.log(by, What::Wakeup { pid, prio: Prio::NORMAL, cpu, new: false });
    }

    fn migrate(&mut self, by: u16, task: i32, from: u16, to: u16) {
        let (pid, from, to) = (self.pid(task), self.cpu(from), self.cpu(to));
        self.log(by, What::Migrate { pid, from, to });
    }

    /// A whole wakeup; gives when the task stood on its queue.
    fn wake(&mut self, by: u16, task: i32, last: u16, to: u16) -> u64 {
        self.waking(by, task, last);
        let placed = self.now;
        if last != to {
            self.migrate(by, task, last, to);
            self.now += 300;
        }
        self.wakeup(by, task, to);
        placed
    }

    /// What ran on a CPU sleeps.
    fn sleep(&mut self, cpu: u16, next: i32) {
        self.switch(cpu, Left::Slept, next);
    }

    /// A home task is woken on its idle CPU.
    fn come_home(&mut self, cpu: u16) {
        self.wake(cpu, i32::from(cpu), cpu, cpu);
        self.now += 1_500;
        self.switch(cpu, Left::Displaced, i32::from(cpu));
    }

    fn plant(&mut self, cpu: u16, start: u64, cost: f64, cause: Cause) {
        let (cpu, end) = (self.cpu(cpu), self.now);
        self.ledger.push(Entry { cpu, start, end, cost, cause });
    }

    /// `task` waits on `cpu` from `placed` on until what runs there sleeps; then all are at home again.
    fn waits(&mut self, task: i32, cpu: u16, placed: u64, cause: Cause) {
        self.pass(50, 4000);
        self.sleep(cpu, task);
        self.plant(cpu, placed, (self.now - placed) as f64, cause);
        self.pass(10, 100);
        self.sleep(cpu, -1);
        self.come_home(cpu);
    }

    /// CPU 3 has nothing to do for a while.
    fn idle_last(&mut self) {
        self.sleep(3, -1);
        self.pass(10, 500);
    }
}

/// Scenes that lose CPU time.
impl Group {
    fn woken_on_its_wakers_cpu(&mut self) {
        self.idle_last();
        let placed = self.wake(0, X, 3, 0);
        self.waits(X, 0, placed, Cause::OnWakersCpu);
        self.come_home(3);
    }

    fn woken_where_it_ran_last(&mut self) {
        self.idle_last();
        let placed = self.wake(1, X, 0, 0);
        self.waits(X, 0, placed, Cause::OnPreviousCpu);
        self.come_home(3);
    }

    fn woken_elsewhere(&mut self) {
        self.idle_last();
        let placed = self.wake(1, X, 3, 2);
        self.waits(X, 2, placed, Cause::WokenElsewhere);
        self.come_home(3);
    }

    fn forked(&mut self) {
        self.idle_last();
        self.newborn += 1;
        let (child, pid) = (self.newborn, self.pid(self.newborn));
        self.log(0, What::Fork { child: pid });
        self.now += 900;
        let (placed, cpu) = (self.now, self.cpu(0));
        self.log(0, What::Wakeup { pid, prio: Prio::NORMAL, cpu, new: true });
        self.waits(child, 0, placed, Cause::Forked);
        self.come_home(3);
    }

    /// It waits for a good reason, then a CPU becomes free; then it is pushed to another busy CPU.
    fn not_pulled_and_then_pushed(&mut self) {
        self.wake(1, X, 0, 0);
        self.pass(50, 2000);
        self.sleep(3, -1);
        let freed = self.now;
        self.pass(50, 2000);
        self.plant(0, freed, (self.now - freed) as f64, Cause::NotPulled);
        let pushed = self.now;
        self.migrate(0, X, 0, 1);
        self.waits(X, 1, pushed, Cause::Balanced);
        self.come_home(3);
    }

    /// One interrupt wakes two tasks on an idle CPU.
    fn burst(&mut self) {
        self.idle_last();
        self.sleep(0, -1);
        self.pass(10, 100);
        self.wake(0, X, 0, 0);
        self.now += 600;
        self.wake(0, Y, 0, 0);
        self.now += 2_000;
        self.switch(0, Left::Displaced, X);
        let began = self.now;
        self.waits(Y, 0, began, Cause::BehindAnother);
        self.come_home(3);
    }

    fn overtaken(&mut self) {
        self.idle_last();
        self.sleep(0, -1);
        self.pass(10, 100);
        self.wake(1, X, 0, 0);
        self.now += 600;
        self.wake(1, Y, 0, 0);
        self.now += 2_000;
        self.switch(0, Left::Displaced, Y);
        let began = self.now;
        self.waits(X, 0, began, Cause::Overtaken);
        self.come_home(3);
    }

    fn displaced_by_a_kernel_thread(&mut self) {
        self.idle_last();
        self.wake(0, WORKER, 0, 0);
        self.now += 1_000;
        self.switch(0, Left::Preempted, WORKER);
        let began = self.now;
        self.pass(20, 3000);
        self.sleep(0, 0);
        self.plant(0, began, (self.now - began) as f64, Cause::DisplacedByKernel);
        self.come_home(3);
    }

    /// Two queues want one free CPU: while both do, each loses half of it.
    fn overlap(&mut self) {
        self.idle_last();
        let x = self.wake(1, X, 0, 0);
        self.pass(50, 1000);
        let y = self.wake(0, Y, 1, 1);
        self.pass(50, 1000);
        self.sleep(1, Y);
        let both = (self.now - y) as f64;
        self.plant(1, y, both / 2.0, Cause::OnPreviousCpu);
        self.pass(50, 1000);
        self.sleep(0, X);
        self.plant(0, x, (self.now - x) as f64 - both / 2.0, Cause::OnPreviousCpu);
        for cpu in [0, 1] {
            self.pass(10, 50);
            self.sleep(cpu, -1);
            self.come_home(cpu);
        }
        self.come_home(3);
    }

    /// The free CPU is busy for a moment: one episode. For a long while: two.
    fn a_gap(&mut self, low_us: u64, high_us: u64) {
        self.idle_last();
        let placed = self.wake(1, X, 0, 0);
        self.pass(100, 2000);
        let taken = self.now;
        self.waking(3, 3, 3);
        self.wakeup(3, 3, 3);
        self.now += 1_000;
        self.switch(3, Left::Displaced, 3);
        self.pass(low_us, high_us);
        self.sleep(3, -1);
        let freed = self.now;
        self.pass(100, 2000);
        self.sleep(0, X);
        let (before, after) = ((taken - placed) as f64, (self.now - freed) as f64);
        if freed - taken <= 100_000 {
            self.plant(0, placed, before + after, Cause::OnPreviousCpu);
        } else {
            self.plant(0, freed, after, Cause::NotPulled);
            self.plant(0, placed, before, Cause::OnPreviousCpu);
            self.ledger.last_mut().unwrap().end = taken;
        }
        self.pass(10, 50);
        self.sleep(0, -1);
        self.come_home(0);
        self.come_home(3);
    }
}

/// Scenes that lose nothing.
impl Group {
    /// The only idle CPU is on its way to the task that was woken there, while another waits elsewhere.
    fn idle_exit(&mut self) {
        self.wake(1, X, 1, 1);
        self.pass(10, 100);
        self.waking(2, Y, 0);
        self.sleep(0, -1);
        self.pass(10, 200);
        self.wakeup(0, Y, 0);
        self.pass(10, 200);
        self.switch(0, Left::Displaced, Y);
        self.pass(100, 1000);
        self.sleep(1, X);
        self.pass(10, 50);
        self.sleep(1, -1);
        self.come_home(1);
        self.sleep(0, -1);
        self.come_home(0);
    }

    fn throttled(&mut self) {
        self.idle_last();
        self.switch(0, Left::Preempted, -1);
        self.pass(100, 3000);
        // A task of another group runs beside it.
        self.wake(1, X, 0, 0);
        self.now += 1_000;
        self.switch(0, Left::Displaced, X);
        self.pass(100, 3000);
        self.sleep(0, -1);
        self.pass(100, 3000);
        self.switch(0, Left::Displaced, 0);
        self.come_home(3);
    }

    fn stopper(&mut self) {
        self.idle_last();
        self.wake(0, STOPPER, 0, 0);
        self.now += 1_000;
        self.switch(0, Left::Preempted, STOPPER);
        self.pass(5, 300);
        self.sleep(0, 0);
        self.come_home(3);
    }

    /// A task that may run nowhere else waits beside a free CPU.
    fn pinned(&mut self) {
        self.idle_last();
        self.wake(0, Y, 0, 0);
        self.pass(100, 2000);
        self.sleep(0, Y);
        self.pass(10, 50);
        self.sleep(0, -1);
        self.come_home(0);
        self.come_home(3);
    }

    fn scene(&mut self, number: u64, pins: bool) {
        match number {
            0 => self.woken_on_its_wakers_cpu(),
            1 => self.woken_where_it_ran_last(),
            2 => self.woken_elsewhere(),
            3 => self.forked(),
            4 => self.not_pulled_and_then_pushed(),
            5 if !pins => self.burst(),
            6 if !pins => self.overtaken(),
            7 => self.displaced_by_a_kernel_thread(),
            8 if !pins => self.overlap(),
            9 => self.a_gap(5, 90),
            10 => self.a_gap(150, 900),
            11 if !pins => self.idle_exit(),
            12 => self.throttled(),
            13 => self.stopper(),
            _ if pins => self.pinned(),
            _ => {}
        }
    }
}

/// A trace of all groups, and what was planted in it.
fn planted(seed: u64) -> (Trace, Vec<Entry>) {
    let mut info = TraceInfo::new("planted", Clock::Monotonic);
    info.cpus = CpuSet::first((GROUPS * CPUS).into());
    let (mut events, mut ledger, mut masks) = (Vec::new(), Vec::new(), Vec::new());
    for first in 0..GROUPS {
        let (newborn, pins) = (1000, first % 2 == 1);
        let mut group = Group {
            first,
            now: 1_000_000,
            current: [-1; CPUS as usize],
            dice: Dice(SplitMix64::new(seed * 100 + u64::from(first))),
            events: Vec::new(),
            ledger: Vec::new(),
            newborn,
        };
        let all: CpuSet = (0..CPUS).map(|cpu| group.cpu(cpu)).collect();
        let alone: CpuSet = [group.cpu(0)].into_iter().collect();
        for task in 0..TASKS {
            let bound = task >= WORKER || (pins && task == Y);
            let allowed = if bound { alone.clone() } else { all.clone() };
            masks.push(Affinity { pid: group.pid(task), at: Nanos::ZERO, allowed });
        }
        for (task, name) in [(WORKER, "kworker"), (STOPPER, "migration")] {
            let mut comm: Comm = [0; 16];
            let text = format!("{name}/{}", group.cpu(0));
            comm[..text.len()].copy_from_slice(text.as_bytes());
            info.comms.insert(group.pid(task), comm);
        }
        (0..CPUS).for_each(|cpu| group.switch(cpu, Left::Displaced, i32::from(cpu)));
        for _ in 0..60 {
            group.pass(200, 3000);
            let scene = group.dice.between(0, 15);
            group.scene(scene, pins);
        }
        events.append(&mut group.events);
        ledger.append(&mut group.ledger);
    }
    masks.sort_by_key(|entry| (entry.pid, entry.at));
    info.affinity = Some(masks);
    events.sort_by_key(|event: &Event| event.time);
    (Trace { info, events, tick: Nanos(1) }, ledger)
}

#[test]
fn every_planted_episode_is_found_once_with_its_cost_and_its_cause_and_none_is_invented() {
    let (mut explained, mut unexplained, mut causes) = (0.0, 0.0, [0; Cause::ALL.len()]);
    for seed in 0..5 {
        let (trace, ledger) = planted(seed);
        let question = Conservation::new(ConservationOptions::default(), &trace.info);
        let reply = ask(&mut trace.source(), question).unwrap();
        assert_eq!(reply.warnings, [], "the generator makes no mistakes");
        let mut left = reply.answer.episodes;
        for entry in &ledger {
            let Entry { cpu, start, end, cost, cause } = *entry;
            let same = |episode: &Episode| {
                let Episode { overloaded, .. } = episode;
                (*overloaded, episode.start.0, episode.end.0) == (cpu, start, end)
            };
            let place = left.iter().position(same);
            let found = place.map(|place| left.swap_remove(place));
            let found = found.unwrap_or_else(|| panic!("{} is missing", cause.name()));
            let off = (found.cost.0 as f64 - cost).abs();
            assert!(off <= 0.01 * cost, "{}: {cost}, found {found:?}", cause.name());
            causes[cause as usize] += 1;
            if found.because.cause == Cause::Unexplained {
                unexplained += cost;
            } else {
                assert_eq!(found.because.cause, cause, "{found:?}");
                explained += cost;
            }
        }
        assert!(left.is_empty(), "none is invented: {left:?}");
        let all: f64 = ledger.iter().map(|entry| entry.cost).sum();
        assert!((reply.answer.total.0 as f64 - all).abs() < 1.0 + ledger.len() as f64);
    }
    let planted = Cause::ALL.iter().zip(causes).filter(|(_, count)| *count == 0);
    let never: Vec<_> = planted.map(|(cause, _)| cause.name()).collect();
    assert_eq!(never, ["displaced", "unexplained"], "causes that were not planted");
    assert!(unexplained < 0.05 * explained, "{unexplained} of {explained} ns are unexplained");
}
