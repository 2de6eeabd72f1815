//! Traces of other kernels than Linux: a packet for each change of a task's state, instead of ftrace's events.
//!
//! A task that runs is told with its CPU. Who left the CPU for it, and why, is told by another packet of the same time, or
//! not at all: then the reason is [`Left::Other`]. Where a task leaves and nobody is told to come, the CPU is unknown from
//! there on.

use crate::names::{self, PIDS_MAX};
use crate::protobuf::{Fields, Value};
use schedlab_model::{Comm, Context, Cpu, Event, Left, Nanos, Pid, Prio, What};
use std::collections::{BTreeMap, BTreeSet};

/// What a packet says of a task or of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    State {
        pid: Pid,
        state: u64,
        prio: Prio,
    },
    Name,
    /// Kilohertz.
    Frequency(u64),
}

/// One packet's content.
#[derive(Clone, Copy, Debug)]
struct Step {
    time: u64,
    cpu: u16,
    content: Content,
    name: Option<(Pid, Comm)>,
}

/// Bytes that a packet takes until its lane is read: the step, and the events made of it.
pub(super) const OF_STEP: u64 = (size_of::<Step>() + 3 * size_of::<Event>()) as u64;

/// All that the packets of a file say.
#[derive(Debug, Default)]
pub(super) struct OtherKernel {
    steps: Vec<Step>,
    idle: BTreeSet<Pid>,
    /// Numbers of tasks that no Linux gives out, and the pids that stand for them.
    large: BTreeMap<u64, Pid>,
}

/// The events of a CPU in the order of time, and the arguments of those that are no scheduler events.
pub(super) type Ready = (Vec<Event>, Vec<String>);

mod state {
    pub(super) const RUNNABLE: u64 = 2;
    pub(super) const RUNNING: u64 = 3;
    pub(super) const DEAD: u64 = 7;
    pub(super) const DESTROYED: u64 = 8;
}

fn left(state: u64) -> Left {
    match state {
        state::RUNNABLE => Left::Displaced,
        4 => Left::Slept,
        5 => Left::Blocked,
        6 => Left::Stopped,
        state::DEAD | state::DESTROYED => Left::Dead,
        _ => Left::Other,
    }
}

/// The fields of a small message by their numbers; those that are missing are 0.
fn fields(content: &[u8]) -> [Value<'_>; 6] {
    let mut fields = [Value::Number(0); 6];
    for (field, value) in Fields(content) {
        if let Some(slot) = fields.get_mut(field as usize) {
            *slot = value;
        }
    }
    fields
}

impl OtherKernel {
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// How many tasks have numbers that no Linux gives out.
    pub(super) fn renumbered(&self) -> usize {
        self.large.len()
    }

    /// The pid for a task's number of 64 bits.
    pub(super) fn pid(&mut self, number: u64) -> Pid {
        let small = i32::try_from(number).ok().map(Pid).filter(|pid| names::may_be(*pid));
        small.unwrap_or_else(|| {
            let next = PIDS_MAX.saturating_sub(1 + self.large.len());
            *self.large.entry(number).or_insert(Pid(i32::try_from(next).unwrap_or(0)))
        })
    }

    pub(super) fn idles(&mut self, pid: Pid) {
        self.idle.insert(pid);
    }

    /// `GenericKernelTaskStateEvent`.
    pub(super) fn state(&mut self, time: u64, content: &[u8]) {
        let f = fields(content);
        let pid = self.pid(f[3].number());
        let cpu = u16::try_from(f[1].number()).unwrap_or(u16::MAX);
        let prio = Prio(i16::try_from(f[5].signed()).unwrap_or(i16::MAX));
        let name = Some(f[2].bytes()).filter(|name| !name.is_empty());
        let name = name.map(|name| (pid, names::comm(name)));
        let content = Content::State { pid, state: f[4].number(), prio };
        self.steps.push(Step { time, cpu, content, name });
    }

    /// `GenericKernelTaskRenameEvent`.
    pub(super) fn renamed(&mut self, time: u64, content: &[u8]) {
        let f = fields(content);
        let name = Some((self.pid(f[1].number()), names::comm(f[2].bytes())));
        self.steps.push(Step { time, cpu: 0, content: Content::Name, name });
    }

    /// `GenericKernelCpuFrequencyEvent`.
    pub(super) fn frequency(&mut self, time: u64, content: &[u8]) {
        let f = fields(content);
        let cpu = u16::try_from(f[1].number()).unwrap_or(u16::MAX);
        let content = Content::Frequency(f[2].number() / 1000);
        self.steps.push(Step { time, cpu, content, name: None });
    }

    /// The events by CPU; changes of frequency are of the tracepoint with the number `frequency`.
    pub(super) fn events(mut self, frequency: u16) -> BTreeMap<u16, Ready> {
        self.steps.sort_by_key(|step| step.time);
        let is_on_cpu = |step: &&Step| {
            matches!(
                step.content,
                Content::State { state: state::RUNNING, .. } | Content::Frequency(_)
            )
        };
        let home = self.steps.iter().filter(is_on_cpu).map(|step| step.cpu).min().unwrap_or(0);
        let mut made = Made { frequency, home, ..Made::default() };
        for group in self.steps.chunk_by(|a, b| a.time == b.time) {
            made.group(group, &self.idle);
        }
        made.lanes
    }
}

#[derive(Default)]
struct Made {
    lanes: BTreeMap<u16, Ready>,
    running: BTreeMap<u16, (Pid, Prio)>,
    last_cpu: BTreeMap<Pid, u16>,
    frequency: u16,
    /// The CPU to whose events that is added which concerns none.
    home: u16,
}

impl Made {
    fn put(&mut self, time: u64, cpu: u16, by: Option<Pid>, what: What) {
        let running = self.running.get(&cpu).map_or(Pid::IDLE, |(pid, _)| *pid);
        let context = if by.is_some() { Context::Task } else { Context::Unknown };
        let time = Nanos(time);
        let by = by.unwrap_or(running);
        let event = Event { time, by, cpu: Cpu(cpu), context, what };
        self.lanes.entry(cpu).or_default().0.push(event);
    }

    fn cpu_of(&self, pid: Pid) -> Option<u16> {
        self.running.iter().find(|(_, (running, _))| *running == pid).map(|(cpu, _)| *cpu)
    }

    /// What happened at one time.
    fn group(&mut self, group: &[Step], idle: &BTreeSet<Pid>) {
        let time = group[0].time;
        let who = |pid: Pid| if idle.contains(&pid) { Pid::IDLE } else { pid };
        let mut leaves = Vec::new();
        for step in group {
            if let Some((pid, comm)) = step.name.filter(|(pid, _)| !who(*pid).is_idle()) {
                self.put(time, self.home, None, What::Comm { pid, comm });
            }
            match step.content {
                Content::State { pid, state, prio } if state != state::RUNNING => {
                    leaves.push((who(pid), state, prio));
                }
                _ => {}
            }
        }
        for step in group {
            match step.content {
                Content::State { pid, state: state::RUNNING, prio } => {
                    self.comes(time, step.cpu, who(pid), prio, &mut leaves);
                }
                Content::Frequency(khz) => {
                    self.put(time, step.cpu, None, What::Other { format: self.frequency });
                    let text = format!("state={khz} cpu_id={}", step.cpu);
                    self.lanes.entry(step.cpu).or_default().1.push(text);
                }
                _ => {}
            }
        }
        for (pid, state, prio) in leaves {
            self.leaves(time, pid, state, prio);
        }
    }

    /// A task runs from now on.
    fn comes(
        &mut self,
        time: u64,
        cpu: u16,
        next: Pid,
        next_prio: Prio,
        leaves: &mut Vec<(Pid, u64, Prio)>,
    ) {
        let before = self.running.get(&cpu).copied();
        if before.is_some_and(|(running, _)| running == next) {
            return;
        }
        // It was made runnable at the same time.
        if let Some(at) =
            leaves.iter().position(|leave| leave.0 == next && leave.1 == state::RUNNABLE)
            && self.cpu_of(next).is_none()
        {
            let (pid, state, prio) = leaves.remove(at);
            self.leaves(time, pid, state, prio);
        }
        let (prev, prev_prio) = before.unwrap_or((Pid::IDLE, Prio::NORMAL));
        let told = leaves.iter().position(|leave| leave.0 == prev).map(|at| leaves.remove(at));
        let left = told.map_or(Left::Other, |(_, state, _)| left(state));
        let what = What::Switch { prev, prev_prio, left, next, next_prio };
        self.put(time, cpu, Some(prev), what);
        self.running.insert(cpu, (next, next_prio));
        self.last_cpu.insert(next, cpu);
    }

    /// A task is in a state in which it does not run.
    fn leaves(&mut self, time: u64, pid: Pid, state: u64, prio: Prio) {
        if let Some(cpu) = self.cpu_of(pid) {
            let next = Pid::IDLE;
            let next_prio = Prio::NORMAL;
            let left = left(state);
            let what = What::Switch { prev: pid, prev_prio: prio, left, next, next_prio };
            self.put(time, cpu, Some(pid), what);
            self.put(time, cpu, Some(Pid::IDLE), What::Lost { count: None });
            self.running.remove(&cpu);
            return;
        }
        let cpu = self.last_cpu.get(&pid).copied().unwrap_or(self.home);
        match state {
            state::RUNNABLE => {
                self.put(time, cpu, None, What::Waking { pid, prio, last_cpu: Cpu(cpu) });
            }
            state::DEAD | state::DESTROYED => self.put(time, cpu, None, What::Exit { pid }),
            _ => {}
        }
    }
}
