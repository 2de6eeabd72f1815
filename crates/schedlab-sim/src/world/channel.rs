//! Byte channels: pipes by pages, UNIX stream sockets by what their buffers are charged.
//!
//! Pipe: 16 slots of a page; a write's odd bytes go into the last page where they fit whole; the reader wakes one
//! writer if the pipe was full when its read began, the writer wakes the reader if it was empty when its write began
//! (Linux 6.1, `pipe_write` and `pipe_read` in fs/pipe.c). Socket: a message is charged to the sender by its true
//! size, sending goes on while less than the limit is charged (`sock_alloc_send_pskb`), and all senders that sleep are
//! woken once at most a quarter is charged (`unix_writable` in net/unix/af_unix.c).

use super::pages::{PAGE, Pages};
use super::slub::{Memory, Objects};
use crate::Costs;
use crate::policy_view::TaskId;
use schedlab_workload::plan::{Channel as Planned, Transport};
use std::collections::VecDeque;

/// `net.core.wmem_default` on 64-bit machines.
const SOCKET_LIMIT: u32 = 212_992;
/// What a TCP connection over the loopback holds after it has grown: an approximation.
const INET_LIMIT: u32 = 2_626_560;
/// The largest part of a stream that is sent in one buffer.
const CHUNK: u32 = 32_768;

#[derive(Debug)]
enum Store {
    Pipe { pages: Pages },
    Socket { packets: VecDeque<Packet>, charged: u32, limit: u32 },
    Count(u64),
    Sink,
}

/// A buffer of a socket.
#[derive(Debug)]
struct Packet {
    unread: u32,
    /// What it is charged.
    size: u32,
    objects: Objects,
    /// When the message that ends with it was sent.
    stamp: u64,
}

#[derive(Debug)]
pub(super) struct Channel {
    pub(super) transport: Transport,
    pub(super) senders: u32,
    pub(super) readers: u32,
    /// What a short message costs to read, and to write, in nanoseconds.
    costs: [u64; 2],
    store: Store,
    written: u64,
    read: u64,
    /// Where messages end in the stream of a pipe, and when they were sent.
    stamps: VecDeque<(u64, u64)>,
    /// The stamp of the last message of a socket whose end was read.
    stamp: u64,
    pub(super) sleeping_readers: VecDeque<TaskId>,
    pub(super) sleeping_writers: VecDeque<TaskId>,
}

/// Who is to be woken after bytes were moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) bytes: u32,
    pub(super) wake_readers: bool,
    pub(super) wake_one_writer: bool,
    pub(super) wake_all_writers: bool,
}

impl Channel {
    pub(super) fn new(plan: &Planned, readers: u32, costs: &Costs) -> Self {
        let socket = |limit| Store::Socket { packets: VecDeque::new(), charged: 0, limit };
        let store = match plan.transport {
            Transport::Pipe => Store::Pipe { pages: Pages::default() },
            Transport::SocketPair => socket(SOCKET_LIMIT),
            Transport::Inet => socket(INET_LIMIT),
            Transport::EventFd => Store::Count(0),
            Transport::Udp | Transport::Device => Store::Sink,
        };
        let costs = match plan.transport {
            Transport::Pipe => [costs.receive_pipe, costs.send_pipe],
            Transport::SocketPair | Transport::Inet => [costs.receive_socket, costs.send_socket],
            Transport::EventFd => [costs.eventfd; 2],
            Transport::Udp | Transport::Device => [costs.send_datagram; 2],
        };
        Self {
            transport: plan.transport,
            senders: plan.senders,
            readers,
            costs,
            store,
            written: 0,
            read: 0,
            stamps: VecDeque::new(),
            stamp: 0,
            sleeping_readers: VecDeque::new(),
            sleeping_writers: VecDeque::new(),
        }
    }

    /// What reading or writing a short message costs, in nanoseconds.
    #[inline]
    pub(super) fn cost(&self, sends: bool) -> u64 {
        self.costs[usize::from(sends)]
    }

    /// Whether a write of `bytes` by a task that has not waited moves all of them: if it has a byte's room, a message
    /// of up to a page in a pipe and of up to a buffer in a socket has room.
    #[inline]
    pub(super) fn takes_whole(&self, bytes: u32) -> bool {
        let most = match self.store {
            Store::Pipe { .. } => PAGE,
            Store::Socket { .. } => CHUNK,
            Store::Count(_) | Store::Sink => return false,
        };
        (1..=most).contains(&bytes) && self.is_writable(bytes, false)
    }

    /// Whether a read finds all of `bytes`.
    #[inline]
    pub(super) fn has_whole(&self, bytes: u32) -> bool {
        matches!(self.store, Store::Pipe { .. } | Store::Socket { .. })
            && bytes > 0
            && self.written - self.read >= u64::from(bytes)
    }

    /// Whether a write of `bytes` can move at least one of them. One that has `waited` for a pipe needs a free slot.
    #[inline]
    pub(super) fn is_writable(&self, bytes: u32, waited: bool) -> bool {
        match &self.store {
            Store::Pipe { pages } => {
                !pages.is_full() || (!waited && pages.last_takes(bytes % PAGE))
            }
            Store::Socket { charged, limit, .. } => charged < limit,
            Store::Count(_) | Store::Sink => true,
        }
    }

    /// Whether a read finds a byte or the end of the stream.
    #[inline]
    pub(super) fn is_readable(&self) -> bool {
        let anything = match &self.store {
            Store::Count(count) => *count > 0,
            _ => self.written > self.read,
        };
        anything || self.senders == 0
    }

    /// Whether all has been read and nobody sends any more.
    pub(super) fn is_ended(&self) -> bool {
        self.senders == 0
            && match &self.store {
                Store::Count(count) => *count == 0,
                _ => self.written == self.read,
            }
    }

    /// Writes as many of `bytes` as there is room for, with `memory` of a CPU. A writer of a pipe that has `waited`
    /// begins a page.
    #[inline]
    pub(super) fn write(
        &mut self,
        bytes: u32,
        waited: bool,
        memory: &mut Memory,
        cpu: usize,
    ) -> Moved {
        let moved = match &mut self.store {
            Store::Pipe { pages } => {
                let was_empty = pages.is_empty();
                let moved = pages.write(bytes, waited);
                Moved { bytes: moved, wake_readers: was_empty && moved > 0, ..Moved::default() }
            }
            Store::Socket { packets, charged, limit } => {
                let mut left = bytes;
                while left > 0 && *charged < *limit {
                    let chunk = left.min(CHUNK);
                    let size = true_size(chunk);
                    let objects = memory.take(cpu, linear_size(chunk));
                    packets.push_back(Packet { unread: chunk, size, objects, stamp: 0 });
                    *charged += size;
                    left -= chunk;
                }
                let bytes = bytes - left;
                Moved { bytes, wake_readers: bytes > 0, ..Moved::default() }
            }
            Store::Count(count) => {
                *count += 1;
                Moved { bytes, wake_readers: true, ..Moved::default() }
            }
            Store::Sink => return Moved { bytes, ..Moved::default() },
        };
        self.written += u64::from(moved.bytes);
        moved
    }

    /// Reads up to `bytes`, and gives `memory` back on a CPU.
    #[inline]
    pub(super) fn read(&mut self, bytes: u32, memory: &mut Memory, cpu: usize) -> Moved {
        let moved = match &mut self.store {
            Store::Pipe { pages } => {
                let wake_one_writer = pages.is_full();
                Moved { bytes: pages.read(bytes), wake_one_writer, ..Moved::default() }
            }
            Store::Socket { packets, charged, limit } => {
                let mut left = bytes;
                let mut freed = false;
                while left > 0 {
                    let Some(first) = packets.front_mut() else { break };
                    let taken = left.min(first.unread);
                    first.unread -= taken;
                    left -= taken;
                    if first.unread == 0 {
                        *charged -= first.size;
                        memory.give(cpu, first.objects);
                        self.stamp = if first.stamp > 0 { first.stamp } else { self.stamp };
                        packets.pop_front();
                        freed = true;
                    }
                }
                let wake_all_writers = freed && u64::from(*charged) * 4 <= u64::from(*limit);
                Moved { bytes: bytes - left, wake_all_writers, ..Moved::default() }
            }
            Store::Count(count) => {
                self.read = self.written;
                *count = 0;
                return Moved { bytes, ..Moved::default() };
            }
            Store::Sink => Moved::default(),
        };
        self.read += u64::from(moved.bytes);
        moved
    }

    /// A message was written whole, and carries this time.
    #[inline]
    pub(super) fn stamp(&mut self, at: u64) {
        match &mut self.store {
            Store::Pipe { .. } => self.stamps.push_back((self.written, at)),
            Store::Socket { packets, .. } => {
                if let Some(last) = packets.back_mut() {
                    last.stamp = at;
                }
            }
            Store::Count(_) | Store::Sink => {}
        }
    }

    /// The time that the message which was just read carries.
    #[inline]
    pub(super) fn take_stamp(&mut self) -> u64 {
        let mut stamp = std::mem::take(&mut self.stamp);
        while let Some(&(end, at)) = self.stamps.front() {
            if end > self.read {
                break;
            }
            stamp = at;
            self.stamps.pop_front();
        }
        stamp
    }
}

/// What a buffer of `bytes` is charged: its memory, its head (256 bytes) and its shared part (320 bytes), each piece
/// in the allocator's next size (`SKB_TRUESIZE`, `sock_alloc_send_pskb`; measured: 768 bytes for 1 to 192).
fn true_size(bytes: u32) -> u32 {
    const HEAD: u32 = 256;
    linear_size(bytes) + HEAD + in_pages(bytes).next_multiple_of(PAGE)
}

/// The shared part of a buffer.
const SHARED: u32 = 320;

/// How many of its bytes lie in pages of their own.
fn in_pages(bytes: u32) -> u32 {
    /// What fits into a page beside the shared part (`SKB_MAX_HEAD(0)`).
    const LINEAR: u32 = PAGE - SHARED;
    match bytes.checked_sub(LINEAR) {
        None | Some(0) => 0,
        Some(over) => over.next_multiple_of(PAGE).min(bytes),
    }
}

/// The object that the rest and the shared part lie in.
fn linear_size(bytes: u32) -> u32 {
    let linear = (bytes - in_pages(bytes)).next_multiple_of(64) + SHARED;
    linear.next_power_of_two().max(512)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Own {
        channel: Channel,
        memory: Memory,
    }

    impl Own {
        fn write(&mut self, bytes: u32) -> Moved {
            self.channel.write(bytes, false, &mut self.memory, 0)
        }

        fn read(&mut self, bytes: u32) -> Moved {
            self.channel.read(bytes, &mut self.memory, 0)
        }
    }

    impl std::ops::Deref for Own {
        type Target = Channel;

        fn deref(&self) -> &Channel {
            &self.channel
        }
    }

    impl std::ops::DerefMut for Own {
        fn deref_mut(&mut self) -> &mut Channel {
            &mut self.channel
        }
    }

    fn channel(transport: Transport) -> Own {
        let channel = Channel::new(&Planned { transport, senders: 1 }, 1, &Costs::NONE);
        Own { channel, memory: Memory::new(1) }
    }

    /// Messages that fit into an empty channel.
    fn room(transport: Transport, bytes: u32) -> u32 {
        let mut channel = channel(transport);
        let mut count = 0;
        while channel.is_writable(bytes, false) {
            assert_eq!(channel.write(bytes).bytes, bytes);
            count += 1;
        }
        count
    }

    #[test]
    fn a_socket_holds_as_many_messages_as_linux_does() {
        // Measured on Linux 6.18 and 6.1.
        for (bytes, messages) in [(1, 278), (100, 278), (128, 278), (200, 167), (512, 167)] {
            assert_eq!(room(Transport::SocketPair, bytes), messages, "{bytes} bytes");
        }
        for (bytes, messages) in [(1_000, 93), (1_500, 93), (4_000, 44), (4_096, 44), (8_192, 24)] {
            assert_eq!(room(Transport::SocketPair, bytes), messages, "{bytes} bytes");
        }
    }

    #[test]
    fn a_full_socket_wakes_its_senders_once_a_quarter_is_left() {
        for (bytes, full, reads) in
            [(100, 278, 209), (300, 167, 126), (1_000, 93, 70), (4_096, 44, 34)]
        {
            let mut channel = channel(Transport::SocketPair);
            (0..full).for_each(|_| assert!(channel.write(bytes).wake_readers));
            let first = (1..).find(|_| channel.read(bytes).wake_all_writers);
            assert_eq!(first, Some(reads), "{bytes} bytes");
        }
    }

    #[test]
    fn a_pipe_holds_sixteen_pages_and_is_writable_after_one_is_free() {
        assert_eq!(room(Transport::Pipe, 100), 640);
        assert_eq!(room(Transport::Pipe, 4_096), 16);
        let mut channel = channel(Transport::Pipe);
        assert!(channel.write(100).wake_readers);
        (1..640).for_each(|_| assert!(!channel.write(100).wake_readers));
        let reads = (1..).find(|_| {
            // Linux wakes a writer at every read of a full pipe, also where no page became free.
            assert!(channel.read(100).wake_one_writer);
            channel.is_writable(100, false)
        });
        assert_eq!(reads, Some(40));
        assert!(!channel.read(100).wake_one_writer);
    }

    #[test]
    fn a_message_over_many_pages_is_written_in_parts_and_keeps_its_stamp() {
        let mut channel = channel(Transport::Pipe);
        assert_eq!(channel.write(100_000).bytes, 65_536);
        assert_eq!(channel.read(70_000).bytes, 65_536);
        assert_eq!(channel.write(100_000 - 65_536).bytes, 34_464);
        channel.stamp(7);
        assert_eq!(channel.read(34_464).bytes, 34_464);
        assert_eq!(channel.take_stamp(), 7);
        channel.senders = 0;
        assert!(channel.is_readable() && channel.is_ended());
    }

    #[test]
    fn an_eventfd_is_read_whole() {
        let mut channel = channel(Transport::EventFd);
        assert!(!channel.is_readable());
        channel.write(8);
        channel.write(8);
        channel.read(8);
        assert!(!channel.is_readable());
    }
}
