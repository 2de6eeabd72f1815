//! Work conservation against its own definition: after every change, all tasks and all CPUs are looked
//! at. That is too slow for a trace and too simple to be wrong.

use crate::notation::Trace;
use crate::{
    Activity, Change, Conservation, ConservationOptions, Episode, Occupant, Question, State,
    Switch, TaskId, ask,
};
use proptest::prelude::*;
use schedlab_model::{
    Affinity, Clock, Comm, Context, Cpu, CpuSet, Event, Left, Nanos, Pid, Prio, TraceInfo, What,
};
use std::collections::{BTreeMap, BTreeSet};

const CPUS: u16 = 5;
const TASKS: i32 = 9;

/// Gaps up to this join episodes.
const GAP: Nanos = Nanos(2);

/// One episode, without its cost: start, end, overloaded CPU, time waited, idle CPUs.
type Row = (Nanos, Nanos, Cpu, u64, CpuSet);

/// An episode that may go on.
#[derive(Clone)]
struct Growing {
    start: Nanos,
    end: Nanos,
    active: bool,
    waited: u64,
    cost: f64,
    idle: CpuSet,
    /// Free since it was last active.
    idle_in_gap: CpuSet,
}

/// What was true since the last look.
#[derive(Default)]
struct Now {
    since: Nanos,
    free: CpuSet,
    /// Tasks that a free CPU could serve: where, and whether they are kernel threads that belong to their CPU.
    stuck: BTreeMap<TaskId, (Cpu, bool)>,
    /// How many CPUs lose their time.
    losing: u64,
    /// Kernel threads that belong to their CPU and wait behind another task.
    bound_waiters: u64,
}

/// The definition, by looking at everything.
struct Scan {
    affinity: Option<Vec<Affinity>>,
    parents: BTreeMap<TaskId, TaskId>,
    held: BTreeSet<TaskId>,
    now: Now,
    growing: BTreeMap<Cpu, Growing>,
    rows: Vec<(Row, f64)>,
    bound: u64,
    lost: u64,
}

impl Scan {
    fn new(info: &TraceInfo) -> Self {
        Self {
            affinity: info.affinity.clone(),
            parents: BTreeMap::new(),
            held: BTreeSet::new(),
            now: Now::default(),
            growing: BTreeMap::new(),
            rows: Vec::new(),
            bound: 0,
            lost: 0,
        }
    }

    /// The most tasks that free CPUs could serve at once, by trying every assignment: a set of CPUs is taken by some of the
    /// tasks so far, or it is not.
    fn most(&self, state: &State) -> u64 {
        let mut taken = [false; 1 << CPUS];
        taken[0] = true;
        for (task, _) in state.tasks() {
            let Some((_, free)) = self.stuck(task, state) else { continue };
            if self.is_bound(task, state) {
                continue;
            }
            for set in (0..taken.len()).rev().filter(|set| taken[*set]).collect::<Vec<_>>() {
                free.iter().for_each(|cpu| taken[set | 1 << cpu.0] = true);
            }
        }
        let sizes =
            (0..taken.len()).filter(|set| taken[*set]).map(|set| u64::from(set.count_ones()));
        sizes.max().unwrap_or(0)
    }

    fn is_bound(&self, task: TaskId, state: &State) -> bool {
        Self::is_bound_by_name(task, state) && self.allowed(task, state).is_none()
    }

    fn is_bound_by_name(task: TaskId, state: &State) -> bool {
        let name = state.name(task);
        name.starts_with("kworker/") || name.starts_with("migration/")
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

    /// CPUs that could run a task at once: nobody stands there who could run, and nobody was woken who ran there last.
    fn free(&self, state: &State) -> CpuSet {
        let waits_at = |cpu: Cpu| {
            state.tasks().any(|(id, task)| match task.activity {
                Activity::Waiting { cpu: queue, placed, .. } => {
                    queue == cpu && !(placed && self.held.contains(&id))
                }
                _ => false,
            })
        };
        let idle = state.observed_cpus().filter(|(_, here)| here.occupant == Occupant::Idle);
        idle.map(|(cpu, _)| cpu).filter(|cpu| !waits_at(*cpu)).collect()
    }

    /// Where a task waits behind another that runs there.
    fn waits_behind(&self, task: TaskId, state: &State) -> Option<Cpu> {
        let Activity::Waiting { cpu, placed: true, .. } = state.task(task).activity else {
            return None;
        };
        let runs = state.cpu(cpu)?.occupant.task()?;
        let is_stuck = !self.held.contains(&task) && !state.name(runs).starts_with("migration/");
        is_stuck.then_some(cpu)
    }

    /// Where a task is stuck, and the free CPUs that it may use.
    fn stuck(&self, task: TaskId, state: &State) -> Option<(Cpu, CpuSet)> {
        let cpu = self.waits_behind(task, state)?;
        let free = self.free(state);
        let free = match self.allowed(task, state) {
            Some(allowed) => free.intersection(allowed),
            None => free,
        };
        (!free.is_empty()).then_some((cpu, free))
    }

    /// Adds what held since the last look.
    fn advance(&mut self, at: Nanos) {
        let (now, time) = (&self.now, (at - self.now.since).0);
        self.lost += time * now.losing;
        self.bound += time * now.bound_waiters;
        let waiters = now.stuck.values().filter(|(_, bound)| !bound).count();
        for (cpu, bound) in now.stuck.values() {
            if !bound && let Some(growing) = self.growing.get_mut(cpu) {
                growing.waited += time;
                growing.cost += (time * now.losing) as f64 / waiters as f64;
            }
        }
        for growing in self.growing.values_mut() {
            let union = |a: &CpuSet, b: &CpuSet| a.iter().chain(b.iter()).collect::<CpuSet>();
            growing.idle_in_gap = union(&growing.idle_in_gap, &now.free);
            if growing.active && (time > 0 || growing.end == at) {
                growing.idle = union(&growing.idle, &growing.idle_in_gap);
                growing.end = at;
            }
        }
        self.now.since = at;
    }

    fn finish(&mut self, cpu: Cpu) {
        let Some(growing) = self.growing.remove(&cpu) else { return };
        let Growing { start, end, waited, cost, idle, .. } = growing;
        if end > start {
            self.rows.push(((start, end, cpu, waited, idle), cost));
        }
    }

    fn look(&mut self, at: Nanos, state: &State) {
        self.advance(at);
        self.now.losing = self.most(state);
        self.now.free = self.free(state);
        self.now.stuck.clear();
        let waits = |task| self.waits_behind(task, state).is_some();
        let bound = |task| Self::is_bound_by_name(task, state) && waits(task);
        self.now.bound_waiters = state.tasks().filter(|(task, _)| bound(*task)).count() as u64;
        for (task, _) in state.tasks() {
            if let Some((cpu, _)) = self.stuck(task, state) {
                self.now.stuck.insert(task, (cpu, self.is_bound(task, state)));
            }
        }
        self.growing.values_mut().for_each(|growing| growing.active = false);
        let stuck = self.now.stuck.values().filter(|(_, bound)| !bound).map(|(cpu, _)| *cpu);
        for cpu in stuck.collect::<BTreeSet<Cpu>>() {
            let over = |Growing { start, end, .. }: &Growing| {
                at - *end > GAP || *end == *start && at > *end
            };
            if self.growing.get(&cpu).is_some_and(over) {
                self.finish(cpu);
            }
            let new = || Growing {
                start: at,
                end: at,
                active: true,
                waited: 0,
                cost: 0.0,
                idle: CpuSet::new(),
                idle_in_gap: CpuSet::new(),
            };
            self.growing.entry(cpu).or_insert_with(new).active = true;
        }
    }

    /// A task that a CPU leaves on its queue when it goes idle is held back, unless it came while the last task ran.
    fn hold(&mut self, change: &Change, state: &State) {
        let named = match *change {
            Change::Runnable(ref woken) => Some(woken.task),
            Change::Placed { task, .. } | Change::Forgotten { task, .. } => Some(task),
            Change::Moved(moved) => Some(moved.task),
            Change::Switch(switch) => switch.is.task(),
            _ => None,
        };
        named.iter().for_each(|task| {
            self.held.remove(task);
        });
        let Change::Switch(Switch { cpu, since, is: Occupant::Idle, .. }) = *change else { return };
        for id in state.waiters(cpu) {
            let task = state.task(id);
            let Activity::Waiting { why, .. } = task.activity else { continue };
            if !why.is_wakeup() || task.since < since {
                self.held.insert(id);
            }
        }
    }
}

impl Question for Scan {
    type Answer = (Vec<(Row, f64)>, Nanos, u64);

    fn begin(&mut self, state: &State) {
        self.now.since = state.window().start;
        self.look(state.window().start, state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Born { task, parent, .. } = change {
            self.parents.insert(*task, *parent);
        }
        self.hold(change, state);
        self.look(change.at(), state);
    }

    fn answer(mut self, state: &State) -> Self::Answer {
        self.advance(state.window().end);
        for cpu in self.growing.keys().copied().collect::<Vec<_>>() {
            self.finish(cpu);
        }
        self.rows.sort_by_key(|(row, _)| (row.0, row.2));
        (self.rows, Nanos(self.bound), self.lost)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Unborn,
    Sleeps,
    Waits(u16),
    Runs(u16),
}

/// A machine that does only what a kernel could, as the numbers that it is given say.
struct Machine {
    time: u64,
    tasks: Vec<(Does, u16)>,
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
            Does::Unborn if self.current[usize::from(by)].is_idle() => return,
            Does::Unborn => self.log(by, What::Fork { child: pid }),
            Does::Sleeps => {
                self.log(by, What::Waking { pid, prio, last_cpu: Cpu(last) });
                // The choice of a CPU takes its time.
                self.time += u64::from(to % 2);
                if to != last {
                    self.log(by, What::Migrate { pid, from: Cpu(last), to: Cpu(to) });
                }
            }
            Does::Waits(from) if from != to => {
                self.log(by, What::Migrate { pid, from: Cpu(from), to: Cpu(to) });
                self.tasks[at].0 = Does::Waits(to);
                return;
            }
            Does::Waits(_) | Does::Runs(_) => return,
        }
        self.log(by, What::Wakeup { pid, prio, cpu: Cpu(to), new: now == Does::Unborn });
        self.tasks[at] = (Does::Waits(to), to);
    }

    fn switch(&mut self, cpu: u16, pick: usize, left: Left) {
        let waits = |i: &usize| self.tasks[*i].0 == Does::Waits(cpu);
        let next = (0..self.tasks.len()).cycle().skip(pick).take(self.tasks.len()).find(waits);
        let prev = self.current[usize::from(cpu)];
        if next.is_none() && (prev.is_idle() || left == Left::Preempted) {
            return;
        }
        let pid = next.map_or(Pid::IDLE, |i| Pid(i as i32 + 1));
        let prio = Prio::NORMAL;
        self.log(cpu, What::Switch { prev, prev_prio: prio, left, next: pid, next_prio: prio });
        if !prev.is_idle() {
            let now = if left == Left::Preempted { Does::Waits(cpu) } else { Does::Sleeps };
            self.tasks[prev.0 as usize - 1] = (now, cpu);
        }
        if let Some(i) = next {
            self.tasks[i] = (Does::Runs(cpu), cpu);
        }
        self.current[usize::from(cpu)] = pid;
    }
}

impl Machine {
    /// The group of the task that runs may not run any longer, and neither may those that wait there.
    fn throttle(&mut self, cpu: u16) {
        let prev = self.current[usize::from(cpu)];
        if prev.is_idle() {
            return;
        }
        let (prio, left) = (Prio::NORMAL, Left::Preempted);
        let next = Pid::IDLE;
        self.log(cpu, What::Switch { prev, prev_prio: prio, left, next, next_prio: prio });
        self.tasks[prev.0 as usize - 1] = (Does::Waits(cpu), cpu);
        self.current[usize::from(cpu)] = next;
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
    comm[..11].copy_from_slice(b"migration/0");
    info.comms.insert(Pid(TASKS - 1), comm);
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
    let born = |task| if task % 3 == 1 { Does::Unborn } else { Does::Sleeps };
    let tasks = (0..TASKS as u16).map(|task| (born(task), task % CPUS)).collect();
    let current = vec![Pid::IDLE; CPUS.into()];
    let mut machine = Machine { time: 100, tasks, current, events: Vec::new() };
    for &(deed, cpu, pid, to, later) in deeds {
        machine.time += later;
        match deed {
            0..=3 => machine.wake(cpu, Pid(pid), to),
            4 | 5 => machine.switch(cpu, pid as usize, Left::Slept),
            6 if later == 3 => machine.throttle(cpu),
            _ => machine.switch(cpu, pid as usize, Left::Preempted),
        }
    }
    Trace { info, events: machine.events, tick: Nanos(1) }
}

fn compare(trace: &Trace) -> usize {
    let options = ConservationOptions { gap: GAP, ..Default::default() };
    let question = Conservation::new(options, &trace.info);
    let reply = ask(&mut trace.source(), (question, Scan::new(&trace.info))).unwrap();
    let (answer, (rows, bound, lost)) = reply.answer;
    assert_eq!(answer.lost.cpus.0, lost, "a maximum matching at every instant");
    assert!(answer.lost.low <= answer.lost.cpus && answer.lost.cpus <= answer.lost.high);
    assert!(answer.total <= answer.waited, "no more than what tasks waited");
    let told = trace.info.affinity.is_some();
    let mut found: Vec<_> = answer.episodes.iter().collect();
    found.sort_by_key(|episode| (episode.start, episode.overloaded));
    assert_eq!(found.len(), rows.len());
    for (episode, (row, cost)) in found.iter().zip(&rows) {
        let Episode { start, end, overloaded, waited, ref idle, .. } = **episode;
        // Which of the tasks is the last decides what they all may use.
        let idle = if told { row.4.clone() } else { idle.clone() };
        assert_eq!((start, end, overloaded, waited.0, idle), *row);
        // With affinity, who gets a CPU is decided between classes.
        assert!(told || (episode.cost.0 as f64 - cost).abs() <= 1.001, "{cost}: {episode:?}");
        let shares: u64 = episode.tasks.iter().map(|share| share.waited.0).sum();
        assert_eq!(shares, waited.0, "so few tasks are all named");
    }
    let costs: u64 = answer.episodes.iter().map(|episode| episode.cost.0).sum();
    assert_eq!((costs, answer.total.0), (lost, lost), "costs add up exactly");
    let few = ConservationOptions { limit: 3, ..options };
    let few = ask(&mut trace.source(), Conservation::new(few, &trace.info)).unwrap().answer;
    assert_eq!(few.episodes, answer.episodes[..rows.len().min(3)], "the worst are kept");
    assert_eq!((answer.count, answer.bound_threads), (rows.len() as u64, bound));
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
fn the_random_machine_loses_cpu_time_often() {
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
    assert!(found > 100, "{found} episodes are too few to judge by");
}
