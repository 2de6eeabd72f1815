//! What operations cost: the work of a task before its operation takes effect.

use super::World;
use super::task::Act;
use crate::event_queue::NEVER;
use crate::policy_view::TaskId;
use schedlab_workload::plan::Block;
use schedlab_workload::{Op, Sweep};

impl World {
    /// What a recorded call takes.
    pub(super) fn call_work(&self, task: TaskId, act: Act) -> u64 {
        match act {
            Act::Op(Op::Send { .. } | Op::Receive { .. }) => self.bodies[task.index()].call_work,
            _ => 0,
        }
    }

    /// Work before an operation takes effect.
    pub(super) fn cost(&self, act: Act) -> u64 {
        let costs = &self.config.costs;
        let op = match act {
            Act::Op(op) => op,
            Act::Spawn(_) => return self.cost_of_fork(),
            Act::Prepare => return self.cost_of_preparing(),
            Act::Begin => return costs.begin,
            Act::EndGrace => return costs.rcu,
            Act::OpenGate => return costs.post,
            Act::AwaitReady | Act::AwaitEnd => return costs.wait,
        };
        match op {
            Op::Compute { iterations } => iterations.min(NEVER / 4),
            Op::Multiply { block, times } => match self.block(block.0) {
                Some(Block::Matrices { side, .. }) => {
                    let products = u64::from(side).pow(3).saturating_mul(u64::from(times));
                    products.saturating_mul(costs.multiply_1000) / 1_000
                }
                _ => 0,
            },
            Op::Fill { bytes, .. } | Op::Allocate { bytes } => {
                costs.memory_kib * u64::from(bytes) / 1_024
            }
            Op::Walk { bytes, .. } => bytes.saturating_mul(costs.memory_kib) / 1_024,
            Op::Chase { steps, .. } => steps.saturating_mul(costs.chase),
            Op::Stream { block, sweep } => match self.block(block.0) {
                Some(Block::Arrays { elements }) => {
                    let arrays = if matches!(sweep, Sweep::Add | Sweep::Triad) { 3 } else { 2 };
                    u64::from(elements) * costs.stream_1000 * arrays / 2_000
                }
                _ => 0,
            },
            Op::Sleep(_) | Op::SleepUntil(_) => costs.sleep,
            Op::Wait(word) | Op::WaitUntil { word, .. } => {
                match self.shared.words[word.0 as usize].pending {
                    Some(_) => costs.step,
                    None => costs.wait,
                }
            }
            Op::Wake { word, .. } => match self.shared.words[word.0 as usize].pending {
                Some(_) => costs.step,
                None => costs.post,
            },
            Op::Lock(lock) => match self.shared.locks[lock.0 as usize].owner {
                Some(_) => costs.wait,
                None => costs.step,
            },
            Op::Unlock(lock) => match self.shared.locks[lock.0 as usize].sleeping.is_empty() {
                true => costs.step,
                false => costs.post,
            },
            Op::Push { .. } | Op::Pop(_) | Op::Spin(_) | Op::LockCpu | Op::UnlockCpu => costs.step,
            Op::Send { channel, bytes } => self.message_cost(channel.0, bytes, true),
            Op::Receive { channel, bytes } => self.message_cost(channel.0, bytes, false),
            Op::Meet(_) | Op::AwaitPost(_) => costs.wait,
            Op::Post(_) => costs.post,
            Op::Fork(_) => self.cost_of_fork(),
            Op::Exit if self.processes => costs.exit,
            Op::Exit => costs.exit_thread,
            Op::Close(_) | Op::Place(_) | Op::Yield => costs.syscall,
        }
    }

    fn cost_of_fork(&self) -> u64 {
        let costs = &self.config.costs;
        if self.processes { costs.fork } else { costs.fork_thread }
    }

    pub(super) fn cost_of_preparing(&self) -> u64 {
        let costs = &self.config.costs;
        if self.processes { costs.prepare } else { costs.prepare_thread }
    }

    /// What a woken task does before it tries its operation again.
    pub(super) fn cost_of_retry(&self, task: TaskId) -> u64 {
        match self.bodies[task.index()].act {
            // A task computes at a wakeup only where its life begins in the middle.
            act @ Act::Op(Op::Send { .. } | Op::Receive { .. } | Op::Compute { .. }) => {
                self.cost(act) + self.call_work(task, act)
            }
            Act::Op(_) => self.config.costs.step,
            Act::AwaitReady | Act::AwaitEnd => self.config.costs.wait,
            Act::EndGrace => self.config.costs.rcu,
            _ => 0,
        }
    }

    fn block(&self, block: u32) -> Option<Block> {
        self.blocks.get(block as usize).copied()
    }
}
