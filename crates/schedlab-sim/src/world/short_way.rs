//! The short way of reads and writes that neither wait nor wake: by far the most that happens.
//!
//! It does what `perform` and `messages` do, in the same order, without what such a call never needs. That saves an
//! eighth of all instructions of hackbench over pipes (callgrind). A call that may wait or wake goes the long way, before
//! anything was changed.

use super::World;
use super::task::{Act, Phase};
use crate::policy_view::TaskId;
use schedlab_model::Nanos;
use schedlab_workload::{Done, Op};

impl World {
    /// From now on calls take the short way where they can: not while they are events, nor once tasks are to stop.
    pub(super) fn allow_short_way(&mut self) {
        let recorded = self.config.start == super::Start::InPlace;
        self.short = !self.stopping && !self.calls.is_told && !recorded;
    }

    /// The time of a call has passed: it takes effect, and the task goes on. `false`: nothing was done.
    #[inline]
    pub(super) fn goes_short_way(&mut self, cpu: usize, task: TaskId) -> bool {
        if !self.short {
            return false;
        }
        let Some(done) = self.moves_message(cpu, task) else { return false };
        let owed = self.owed_for_memory();
        let body = &mut self.bodies[task.index()];
        body.done = done;
        body.phase = Phase::Ask;
        if owed > 0 {
            body.left = owed;
            self.go(cpu, task);
        } else if self.scene.cpus[cpu].resched {
            self.next_act(cpu, task);
        } else {
            match self.ask(cpu, task) {
                Op::Send { channel, bytes } => self.begin_send(cpu, task, channel, bytes),
                Op::Receive { channel, bytes } => self.begin_receive(cpu, task, channel, bytes),
                op => self.begin_act(cpu, task, Act::Op(op)),
            }
        }
        true
    }

    /// A message is written or read whole, and nobody waits for that. `None`: nothing was done.
    #[inline]
    fn moves_message(&mut self, cpu: usize, task: TaskId) -> Option<Done> {
        let body = &self.bodies[task.index()];
        if body.phase != Phase::Enter || body.waited || body.moved > 0 {
            return None;
        }
        match body.act {
            Act::Op(Op::Send { channel, bytes }) => {
                let to = &mut self.channels[channel.0 as usize];
                if to.readers == 0 || !to.sleeping_readers.is_empty() || !to.takes_whole(bytes) {
                    return None;
                }
                to.write(bytes, false, &mut self.memory, cpu);
                to.stamp(if bytes > 8 { body.asked_at } else { 0 });
                Some(Done::Ok)
            }
            Act::Op(Op::Receive { channel, bytes }) => {
                let from = &mut self.channels[channel.0 as usize];
                if !from.sleeping_writers.is_empty() || !from.has_whole(bytes) {
                    return None;
                }
                from.read(bytes, &mut self.memory, cpu);
                Some(Done::Received { stamp: Nanos(from.take_stamp()) })
            }
            _ => None,
        }
    }
}
