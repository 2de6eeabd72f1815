//! Work conservation against its own definition: after every change, all tasks and all CPUs are looked
//! at. That is too slow for a trace and too simple to be wrong.

#![expect(clippy::unwrap_used, reason = "a test that can't go on stops")]

use proptest::prelude::*;
use schedlab_model::{
    Affinity, Clock, Comm, Context, Cpu, CpuSet, Event, Left, Nanos, Pid, Prio, TraceInfo, What,
};
use schedlab_timeline::notation::Trace;
use schedlab_timeline::{
    Activity, Change, Conservation, ConservationOptions, Occupant, Question, State, TaskId, ask,
};
use std::collections::BTreeMap;

const CPUS: u16 = 5;
const TASKS: i32 = 9;

/// One violation: start, end, task, overloaded CPU, idle CPUs.
type Row = (Nanos, Nanos, TaskId, Cpu, CpuSet);

/// The definition, by looking at everything.
struct Scan {
    affinity: Option<Vec<Affinity>>,
    parents: BTreeMap<TaskId, TaskId>,
    open: BTreeMap<TaskId, (Nanos, Cpu, CpuSet)>,
    rows: Vec<Row>,
    bound: Nanos,
    /// CPU time that was lost until `since`, and how many CPUs lose theirs from then on.
    lost: u64,
    since: Nanos,
    losing: u64,
}

impl Scan {
    fn new(info: &TraceInfo) -> Self {
        let (parents, open) = (BTreeMap::new(), BTreeMap::new());
        Self {
            affinity: info.affinity.clone(),
            parents,
            open,
            rows: Vec::new(),
            bound: Nanos::ZERO,
            lost: 0,
            since: Nanos::ZERO,
            losing: 0,
        }
    }

    /// The most tasks that free CPUs could serve at once, by trying every assignment: a set of CPUs is taken by some of the
    /// tasks so far, or it is not.
    fn most(&self, state: &State) -> u64 {
        let mut taken = [false; 1 << CPUS];
        taken[0] = true;
        for (task, _) in state.tasks() {
            let bound =
                self.allowed(task, state).is_none() && state.name(task).starts_with("kworker/");
            let Some((_, free)) = self.violation(task, state).filter(|_| !bound) else { continue };
            for set in (0..taken.len()).rev().filter(|set| taken[*set]).collect::<Vec<_>>() {
                free.iter().for_each(|cpu| taken[set | 1 << cpu.0] = true);
            }
        }
        let sizes =
            (0..taken.len()).filter(|set| taken[*set]).map(|set| u64::from(set.count_ones()));
        sizes.max().unwrap_or(0)
    }

    fn advance(&mut self, at: Nanos) {
        self.lost += (at - self.since).0 * self.losing;
        self.since = self.since.max(at);
    }

    fn allowed(&self, task: TaskId, state: &State) -> Option<&CpuSet> {
        let mut masks = self.affinity.iter().flatten();
        let pid = state.task(task).pid;
        let mut last = self.affinity.iter().flatten().filter(|entry| entry.pid == pid);
        let last = last.rfind(|entry| entry.at <= state.now());
        match last.or_else(|| masks.find(|entry| entry.pid == pid)) {
            Some(entry) => Some(&entry.allowed),
            None => self.allowed(*self.parents.get(&task)?, state),
        }
    }

    /// Where a task is stuck, and the free CPUs that it may use.
    fn violation(&self, task: TaskId, state: &State) -> Option<(Cpu, CpuSet)> {
        let Activity::Waiting { cpu, placed: true, .. } = state.task(task).activity else {
            return None;
        };
        state.cpu(cpu)?.occupant.task()?;
        let all = state.observed_cpus();
        let free = all.filter(|(_, cpu)| cpu.occupant == Occupant::Idle && cpu.waiting == 0);
        let allowed = self.allowed(task, state);
        let free = free.filter(|(cpu, _)| allowed.is_none_or(|allowed| allowed.contains(*cpu)));
        let free: CpuSet = free.map(|(cpu, _)| cpu).collect();
        (!free.is_empty()).then_some((cpu, free))
    }

    fn close(&mut self, task: TaskId, at: Nanos, state: &State) {
        let Some((start, cpu, idle)) = self.open.remove(&task) else { return };
        let bound = self.allowed(task, state).is_none() && state.name(task).starts_with("kworker/");
        if bound {
            self.bound += at - start;
        } else if at > start {
            self.rows.push((start, at, task, cpu, idle));
        }
    }

    fn look(&mut self, at: Nanos, state: &State) {
        self.advance(at);
        self.losing = self.most(state);
        for (task, _) in state.tasks() {
            let is = self.violation(task, state);
            let was = self.open.get(&task).map(|(_, cpu, _)| *cpu);
            if was != is.as_ref().map(|(cpu, _)| *cpu) {
                self.close(task, at, state);
            }
            if let Some((cpu, free)) = is {
                let (_, _, idle) = self.open.entry(task).or_insert((at, cpu, CpuSet::new()));
                free.iter().for_each(|cpu| idle.insert(cpu));
            }
        }
    }
}

impl Question for Scan {
    type Answer = (Vec<Row>, Nanos, u64);

    fn begin(&mut self, state: &State) {
        self.since = state.window().start;
        self.look(state.window().start, state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Born { task, parent, .. } = change {
            self.parents.insert(*task, *parent);
        }
        self.look(change.at(), state);
    }

    fn answer(mut self, state: &State) -> Self::Answer {
        for task in self.open.keys().copied().collect::<Vec<_>>() {
            self.close(task, state.window().end, state);
        }
        let harm = |row: &Row| (std::cmp::Reverse(row.1 - row.0), row.0, row.2);
        self.rows.sort_by_key(harm);
        self.advance(state.window().end);
        (self.rows, self.bound, self.lost)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Now {
    Unborn,
    Sleeps,
    Waits(u16),
    Runs(u16),
}

/// A machine that does only what a kernel could, as the numbers that it is given say.
struct Machine {
    time: u64,
    tasks: Vec<(Now, u16)>,
    current: Vec<Pid>,
    events: Vec<Event>,
}

impl Machine {
    fn log(&mut self, cpu: u16, what: What) {
        let (by, time) = (self.current[usize::from(cpu)], Nanos(self.time));
        self.events.push(Event { time, by, cpu: Cpu(cpu), context: Context::Task, what });
    }

    fn wake(&mut self, by: u16, pid: Pid, to: u16) {
        let (prio, at) = (Prio::NORMAL, pid.0 as usize - 1);
        let (now, last) = self.tasks[at];
        match now {
            Now::Unborn if self.current[usize::from(by)].is_idle() => return,
            Now::Unborn => self.log(by, What::Fork { child: pid }),
            Now::Sleeps => {
                self.log(by, What::Waking { pid, prio, last_cpu: Cpu(last) });
                if to != last {
                    self.log(by, What::Migrate { pid, from: Cpu(last), to: Cpu(to) });
                }
            }
            Now::Waits(from) if from != to => {
                self.log(by, What::Migrate { pid, from: Cpu(from), to: Cpu(to) });
                self.tasks[at].0 = Now::Waits(to);
                return;
            }
            Now::Waits(_) | Now::Runs(_) => return,
        }
        self.log(by, What::Wakeup { pid, prio, cpu: Cpu(to), new: now == Now::Unborn });
        self.tasks[at] = (Now::Waits(to), to);
    }

    fn switch(&mut self, cpu: u16, pick: usize, left: Left) {
        let waits = |i: &usize| self.tasks[*i].0 == Now::Waits(cpu);
        let next = (0..self.tasks.len()).cycle().skip(pick).take(self.tasks.len()).find(waits);
        let prev = self.current[usize::from(cpu)];
        if next.is_none() && (prev.is_idle() || left == Left::Preempted) {
            return;
        }
        let pid = next.map_or(Pid::IDLE, |i| Pid(i as i32 + 1));
        let prio = Prio::NORMAL;
        self.log(cpu, What::Switch { prev, prev_prio: prio, left, next: pid, next_prio: prio });
        if !prev.is_idle() {
            let now = if left == Left::Preempted { Now::Waits(cpu) } else { Now::Sleeps };
            self.tasks[prev.0 as usize - 1] = (now, cpu);
        }
        if let Some(i) = next {
            self.tasks[i] = (Now::Runs(cpu), cpu);
        }
        self.current[usize::from(cpu)] = pid;
    }
}

type Deed = (u8, u16, i32, u16, u64);

/// The trace of a machine that is told what to do.
fn trace(deeds: &[Deed], masks: Option<&[(i32, u64, u64)]>) -> Trace {
    let mut info = TraceInfo::new("synthetic", Clock::Monotonic);
    info.cpus = CpuSet::first(CPUS.into());
    let mut comm: Comm = [0; 16];
    comm[..11].copy_from_slice(b"kworker/0:1");
    info.comms.insert(Pid(TASKS), comm);
    info.affinity = masks.map(|masks| {
        let mut entries: Vec<Affinity> = masks
            .iter()
            .map(|(pid, at, mask)| Affinity {
                pid: Pid(*pid),
                at: Nanos(*at),
                allowed: CpuSet::from_words(&[*mask]),
            })
            .collect();
        entries.sort_by_key(|entry| (entry.pid, entry.at));
        entries
    });
    let born = |task| if task % 3 == 1 { Now::Unborn } else { Now::Sleeps };
    let tasks = (0..TASKS as u16).map(|task| (born(task), task % CPUS)).collect();
    let current = vec![Pid::IDLE; CPUS.into()];
    let mut machine = Machine { time: 100, tasks, current, events: Vec::new() };
    for &(deed, cpu, pid, to, later) in deeds {
        machine.time += later;
        match deed {
            0..=3 => machine.wake(cpu, Pid(pid), to),
            4 | 5 => machine.switch(cpu, pid as usize, Left::Slept),
            _ => machine.switch(cpu, pid as usize, Left::Preempted),
        }
    }
    Trace { info, events: machine.events, tick: Nanos(1) }
}

fn compare(trace: &Trace) -> usize {
    let question = Conservation::new(ConservationOptions::default(), &trace.info);
    let reply = ask(&mut trace.source(), (question, Scan::new(&trace.info))).unwrap();
    let (answer, (rows, bound, lost)) = reply.answer;
    assert_eq!(answer.lost.cpus.0, lost, "a maximum matching at every instant");
    assert!(answer.lost.low <= answer.lost.cpus && answer.lost.cpus <= answer.lost.high);
    assert!(answer.lost.cpus <= answer.total, "no more than what tasks waited");
    let row =
        |v: &schedlab_timeline::Violation| (v.start, v.end, v.task, v.overloaded, v.idle.clone());
    let found: Vec<Row> = answer.violations.iter().map(row).collect();
    assert_eq!(found, rows);
    let few = ConservationOptions { limit: 3, ..Default::default() };
    let few = ask(&mut trace.source(), Conservation::new(few, &trace.info)).unwrap().answer;
    assert_eq!(few.violations, answer.violations[..rows.len().min(3)], "the worst are kept");
    assert_eq!((answer.count, answer.bound_threads), (rows.len() as u64, bound));
    assert_eq!(answer.total.0, rows.iter().map(|row| (row.1 - row.0).0).sum::<u64>());
    assert_eq!(answer.by_cause.iter().map(|of| of.1.0).sum::<u64>(), answer.total.0);
    rows.len()
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    prop::collection::vec((0..7_u8, 0..CPUS, 1..=TASKS, 0..CPUS, 0..4_u64), 1..150)
}

proptest! {
    #[test]
    fn without_affinity_it_is_what_a_look_at_everything_finds(deeds in deeds()) {
        compare(&trace(&deeds, None));
    }

    #[test]
    fn with_affinity_that_changes_it_is_what_a_look_at_everything_finds(
        deeds in deeds(),
        masks in prop::collection::vec((1..=TASKS, 0..400_u64, 0..1_u64 << CPUS), 0..12),
    ) {
        compare(&trace(&deeds, Some(&masks)));
    }
}

#[test]
fn the_random_machine_violates_work_conservation_often() {
    let mut seed = 1_u64;
    let mut roll = |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % sides
    };
    let mut deed = || {
        let (cpus, tasks) = (u64::from(CPUS), TASKS as u64);
        let (cpu, to) = (roll(cpus) as u16, roll(cpus) as u16);
        (roll(7) as u8, cpu, 1 + roll(tasks) as i32, to, roll(4))
    };
    let deeds: Vec<Deed> = (0..2000).map(|_| deed()).collect();
    let found = compare(&trace(&deeds, None));
    assert!(found > 200, "{found} violations are too few to judge by");
}
