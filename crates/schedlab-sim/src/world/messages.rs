//! Messages: what it takes to move one through a channel, and whom that wakes.

use super::perform::Effect;
use super::task::{Act, On, Phase, Resume};
use super::wake::Waker;
use super::{Start, World};
use crate::policy_view::TaskId;
use schedlab_model::{Context, Nanos};
use schedlab_workload::plan::Transport;
use schedlab_workload::{ChannelId, Done, Op};

const EPIPE: i32 = 32;

impl World {
    /// What moving a message takes, beside wakeups.
    #[inline]
    pub(super) fn message_cost(&self, channel: u32, bytes: u32, sends: bool) -> u64 {
        let base = self.channels[channel as usize].cost(sends);
        base + u64::from(bytes) * self.config.costs.copy_kib / 1_024
    }

    /// A task begins to write: it finds that it must sleep, or the write takes effect after a time.
    #[inline]
    pub(super) fn begin_send(&mut self, cpu: usize, task: TaskId, channel: ChannelId, bytes: u32) {
        self.bodies[task.index()].act = Act::Op(Op::Send { channel, bytes });
        let to = &self.channels[channel.0 as usize];
        let full = to.readers > 0 && !to.is_writable(bytes, false);
        let on = full.then_some(On::Writable(channel.0));
        let cost = self.message_cost(channel.0, bytes, true);
        self.begin_message(cpu, task, on, cost, 0);
    }

    /// A task begins to read: it finds that it must sleep, or the read takes effect after a time.
    #[inline]
    pub(super) fn begin_receive(
        &mut self,
        cpu: usize,
        task: TaskId,
        channel: ChannelId,
        bytes: u32,
    ) {
        self.bodies[task.index()].act = Act::Op(Op::Receive { channel, bytes });
        let readable = self.channels[channel.0 as usize].is_readable();
        let on = (!readable).then_some(On::Readable(channel.0));
        let costs = &self.config.costs;
        // `first` has passed already.
        let first = match self.bodies[task.index()].fresh {
            true => costs.first_read.saturating_sub(costs.first),
            false => 0,
        };
        let cost = self.message_cost(channel.0, bytes, false);
        self.begin_message(cpu, task, on, cost, first);
    }

    /// The same for both: what the message costs, and what the task does once beside it.
    #[inline]
    fn begin_message(&mut self, cpu: usize, task: TaskId, on: Option<On>, cost: u64, once: u64) {
        let body = &mut self.bodies[task.index()];
        body.moved = 0;
        body.waited = false;
        body.fresh = false;
        (body.phase, body.left) = match on {
            Some(_) => (Phase::Blocking, self.config.costs.block + once),
            None => (Phase::Enter, cost + body.call_work + once),
        };
        if self.config.start != Start::InPlace {
            body.left -= body.take_prepaid(body.left);
        }
        body.on = on;
        body.in_call = self.calls.is_told;
        if self.calls.is_told {
            self.tell_enter(cpu, task, self.bodies[task.index()].act);
        }
        self.go(cpu, task);
    }

    /// Writes a message, and wakes its readers.
    #[inline]
    pub(super) fn send(&mut self, cpu: usize, task: TaskId, channel: u32, bytes: u32) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: true };
        let to = &mut self.channels[channel as usize];
        if to.readers == 0 {
            return self.went(task, Done::Failed(EPIPE));
        }
        let body = &mut self.bodies[task.index()];
        let moved = to.write(bytes - body.moved, body.waited, &mut self.memory, cpu);
        body.moved += moved.bytes;
        let whole = body.moved == bytes;
        if whole {
            to.stamp(if bytes > 8 { body.asked_at } else { 0 });
        }
        // Readers of a pipe wait exclusively, those of a socket do not.
        let exclusive = to.transport == Transport::Pipe;
        let readers = match moved.wake_readers {
            true if exclusive => to.sleeping_readers.len().min(1),
            true => to.sleeping_readers.len(),
            false => 0,
        };
        // A writer that slept passes the wakeup on while there is room.
        let passes_on = whole && exclusive && body.waited && to.is_writable(4_096, true);
        let writer = to.sleeping_writers.pop_front_if(|_| passes_on);
        for _ in 0..readers {
            let reader = self.channels[channel as usize].sleeping_readers.pop_front();
            reader.into_iter().for_each(|reader| self.wake(reader, Resume::Retry, by));
        }
        writer.into_iter().for_each(|writer| self.wake(writer, Resume::Retry, by));
        self.pays_for_memory();
        if whole { self.went(task, Done::Ok) } else { Effect::Sleep(On::Writable(channel)) }
    }

    /// Reads a message, and wakes writers that have room now.
    #[inline]
    pub(super) fn receive(&mut self, cpu: usize, task: TaskId, channel: u32, bytes: u32) -> Effect {
        let by = Waker { cpu, context: Context::Task, sync: true };
        let from = &mut self.channels[channel as usize];
        let body = &mut self.bodies[task.index()];
        if from.is_ended() {
            let closed = if body.moved == 0 { Done::Closed } else { Done::Failed(EPIPE) };
            return self.went(task, closed);
        }
        let moved = from.read(bytes - body.moved, &mut self.memory, cpu);
        body.moved += moved.bytes;
        let whole = body.moved == bytes;
        let stamp = if whole { from.take_stamp() } else { 0 };
        let readable = from.is_readable();
        if moved.wake_one_writer {
            let first = from.sleeping_writers.pop_front();
            first.into_iter().for_each(|first| self.wake(first, Resume::Retry, by));
        } else if moved.wake_all_writers {
            // The last to sleep is the first in the queue of those that wait together.
            for other in std::mem::take(&mut from.sleeping_writers).into_iter().rev() {
                self.wake(other, Resume::Retry, by);
            }
        }
        self.pays_for_memory();
        match (whole, readable) {
            (true, _) => self.went(task, Done::Received { stamp: Nanos(stamp) }),
            (false, true) => Effect::Again(self.config.costs.syscall.max(1)),
            (false, false) => Effect::Sleep(On::Readable(channel)),
        }
    }

    /// The current call pays for what was slow about the memory of its messages.
    fn pays_for_memory(&mut self) {
        self.owed += self.owed_for_memory();
    }

    /// What was slow about the memory of messages since the last question, in nanoseconds.
    #[inline]
    pub(super) fn owed_for_memory(&mut self) -> u64 {
        let slow = self.memory.slow();
        let costs = &self.config.costs;
        slow.steps * costs.slab_step + slow.new * costs.slab_new
    }

    /// The task sends no more on a channel.
    pub(super) fn close(&mut self, task: TaskId, channel: u32, by: Waker) {
        let body = &mut self.bodies[task.index()];
        if body.closed.contains(&channel) {
            return;
        }
        body.closed.push(channel);
        let of = &mut self.channels[channel as usize];
        of.senders = of.senders.saturating_sub(1);
        if of.senders == 0 {
            for reader in std::mem::take(&mut of.sleeping_readers) {
                self.wake(reader, Resume::Retry, by);
            }
        }
    }
}
