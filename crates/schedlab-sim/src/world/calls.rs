//! Calls that read and write channels, as the kernel's tracepoints of system calls tell them: `sys_enter_read` and its
//! like. Both ends of a channel have numbers, which are the same in all tasks, as after a fork.

use super::World;
use super::task::Act;
use crate::policy_view::TaskId;
use schedlab_model::{Context, OtherFormat, What};
use schedlab_workload::{Done, Op};

/// The tracepoints, by the index that their events carry.
const FORMATS: [&str; 4] = ["sys_enter_read", "sys_exit_read", "sys_enter_write", "sys_exit_write"];
const READ: u16 = 0;
const WRITE: u16 = 2;
/// The first number of an end of a channel: the three before are a process's usual streams.
const FIRST_END: u32 = 3;

/// The calls whose events await their arguments.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) is_told: bool,
    /// The arguments of the events that were not handed out, in order.
    arguments: Vec<String>,
}

impl World {
    /// From now on calls that read and write are events too.
    pub fn tell_calls(&mut self) {
        self.calls.is_told = true;
    }

    /// Whether calls are events.
    #[must_use]
    pub fn tells_calls(&self) -> bool {
        self.calls.is_told
    }

    /// The tracepoints of such calls, in the order of their numbers.
    pub fn call_formats() -> impl Iterator<Item = OtherFormat> {
        let format = |name: &str| OtherFormat { system: "syscalls".into(), name: name.into() };
        FORMATS.into_iter().map(format)
    }

    /// The arguments of the events of calls that were handed out last, in order.
    pub fn take_arguments(&mut self) -> Vec<String> {
        std::mem::take(&mut self.calls.arguments)
    }

    /// A task begins a call.
    pub(super) fn tell_enter(&mut self, cpu: usize, act: Act) {
        if !self.calls.is_told || !self.config.record {
            return;
        }
        let Some((format, end, bytes)) = call(act) else { return };
        self.calls.arguments.push(format!("fd={end} buf=0x1000 count={bytes}"));
        self.emit(cpu, Context::Task, What::Other { format });
    }

    /// The call of a task is over, if it made one.
    pub(super) fn tell_exit(&mut self, cpu: usize, task: TaskId) {
        let body = &self.bodies[task.index()];
        if !self.calls.is_told || !self.config.record || !body.in_call {
            return;
        }
        let Some((format, _, bytes)) = call(body.act) else { return };
        let ret = match body.done {
            Done::Failed(errno) => -i64::from(errno),
            Done::Closed => 0,
            _ => i64::from(bytes),
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
