//! Calls that read and write channels and that use futexes, as the kernel's tracepoints of system calls tell them:
//! `sys_enter_read` and its like. Both ends of a channel have numbers, which are the same in all tasks, as after a fork.
//! A word that was woken already is taken without a call, and is not woken again: so programs do it.

use super::World;
use super::task::Act;
use crate::policy_view::TaskId;
use schedlab_model::{Context, OtherFormat, What};
use schedlab_workload::{Done, Op};
use std::collections::BTreeMap;

/// The tracepoints, by the index that their events carry.
const FORMATS: [&str; 7] = [
    "sys_enter_read",
    "sys_exit_read",
    "sys_enter_write",
    "sys_exit_write",
    "sys_enter_futex",
    "sys_exit_futex",
    FREQUENCY,
];
/// The tracepoint of frequencies. Traces without it do not declare it.
const FREQUENCY: &str = "cpu_frequency";
const READ: u16 = 0;
const WRITE: u16 = 2;
const FUTEX: u16 = 4;
/// The address of the first word, and commands of the call (`FUTEX_WAIT`, `FUTEX_WAKE`).
const WORDS: u64 = 0x10_0000;
const WAIT: u32 = 0;
const WAKE: u32 = 1;
const EINTR: i64 = 4;
const EAGAIN: i64 = 11;
const ETIMEDOUT: i64 = 110;
/// The first number of an end of a channel: the three before are a process's usual streams.
const FIRST_END: u32 = 3;

/// The calls whose events await their arguments.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) is_told: bool,
    /// Whether changes of frequencies are events too.
    tells_frequencies: bool,
    /// The arguments of the events that were not handed out, in order.
    arguments: Vec<String>,
    /// How many tasks the wakeup that a task performs finds asleep.
    finds: BTreeMap<TaskId, i64>,
}

impl World {
    /// From now on calls that read and write are events too.
    pub(crate) fn tell_calls(&mut self) {
        self.calls.is_told = true;
        self.allow_short_way();
    }

    /// From now on changes of frequencies are events, if the kernel makes any.
    pub(crate) fn tell_frequencies(&mut self) {
        self.calls.tells_frequencies = self.has_frequencies();
    }

    #[must_use]
    pub(crate) fn tells_arguments(&self) -> bool {
        self.calls.is_told || self.calls.tells_frequencies
    }

    /// The tracepoints whose events may come, in the order of their numbers.
    pub(crate) fn other_formats(&self) -> impl Iterator<Item = OtherFormat> {
        let count = match (self.calls.tells_frequencies, self.calls.is_told) {
            (true, _) => FORMATS.len(),
            (_, true) => FORMATS.len() - 1,
            _ => 0,
        };
        FORMATS.into_iter().take(count).map(|name| {
            let system = if name == FREQUENCY { "power" } else { "syscalls" };
            OtherFormat { system: system.into(), name: name.into() }
        })
    }

    /// A CPU gets another frequency.
    pub(super) fn tell_frequency(&mut self, cpu: usize, khz: u64) {
        if self.calls.tells_frequencies {
            self.calls.arguments.push(format!("state={khz} cpu_id={cpu}"));
            let format = FORMATS.len() as u16 - 1;
            self.emit(cpu, Context::HardIrq, What::Other { format });
        }
    }

    /// The arguments of the events of calls that were handed out last, in order.
    pub(crate) fn take_arguments(&mut self) -> Vec<String> {
        std::mem::take(&mut self.calls.arguments)
    }

    /// A task begins what may be a call.
    pub(super) fn tell_enter(&mut self, cpu: usize, task: TaskId, act: Act) {
        if !self.calls.is_told || !self.config.record {
            return;
        }
        let (format, arguments) = match act {
            Act::Op(op @ (Op::Wait(word) | Op::WaitUntil { word, .. } | Op::Wake { word, .. })) => {
                let of = &self.shared.words[word.0 as usize];
                if of.pending.is_some() {
                    self.bodies[task.index()].in_call = false;
                    return;
                }
                let wakes = matches!(op, Op::Wake { .. });
                if wakes {
                    self.calls.finds.insert(task, i64::from(!of.sleeping.is_empty()));
                }
                let address = WORDS + 4 * u64::from(word.0);
                let op = if wakes { WAKE } else { WAIT };
                (FUTEX, format!("uaddr={address:#x} op={op} val=0"))
            }
            _ => match call(act) {
                Some((format, end, bytes)) => {
                    (format, format!("fd={end} buf=0x1000 count={bytes}"))
                }
                None => return,
            },
        };
        self.calls.arguments.push(arguments);
        self.emit(cpu, Context::Task, What::Other { format });
    }

    /// The call of a task is over, if it made one.
    pub(super) fn tell_exit(&mut self, cpu: usize, task: TaskId) {
        let body = &self.bodies[task.index()];
        if !self.calls.is_told || !self.config.record || !body.in_call {
            return;
        }
        let (format, ret) = match (body.act, body.done) {
            (Act::Op(Op::Wait(_) | Op::WaitUntil { .. }), done) => {
                let ret = match done {
                    Done::Woken { .. } if body.waited => 0,
                    Done::Woken { .. } => -EAGAIN,
                    _ => -ETIMEDOUT,
                };
                (FUTEX, ret)
            }
            (Act::Op(Op::Wake { .. }), _) => {
                (FUTEX, self.calls.finds.remove(&task).unwrap_or_default())
            }
            (act, done) => {
                let Some((format, _, bytes)) = call(act) else { return };
                let ret = match done {
                    Done::Failed(errno) => -i64::from(errno),
                    Done::Closed => 0,
                    Done::Stopped if body.moved > 0 => i64::from(body.moved),
                    Done::Stopped => -EINTR,
                    _ => i64::from(bytes),
                };
                (format, ret)
            }
        };
        self.calls.arguments.push(format!("ret={ret}"));
        self.bodies[task.index()].in_call = false;
        self.emit(cpu, Context::Task, What::Other { format: format + 1 });
    }
}

/// The tracepoint, the number of the channel's end, and the bytes of a call.
fn call(act: Act) -> Option<(u16, u32, u32)> {
    match act {
        Act::Op(Op::Receive { channel, bytes }) => Some((READ, FIRST_END + 2 * channel.0, bytes)),
        Act::Op(Op::Send { channel, bytes }) => Some((WRITE, FIRST_END + 1 + 2 * channel.0, bytes)),
        _ => None,
    }
}
