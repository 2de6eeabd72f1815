//! The gate at which tasks wait until all tasks are ready.
//!
//! The gate is a byte in a channel that all tasks poll and none reads, as in hackbench. Two things decide where
//! the tasks of a short run find themselves: the order in which the kernel wakes them (the last to come first,
//! so that a group's senders run before its receivers), and its hint that the waker is about to sleep. A futex
//! wakes them in the opposite order, and made pipes between threads a fifth slower.

use super::arena::Arena;
use schedlab_sys::{channel, process};
use schedlab_workload::plan::{Plan, Transport};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::*;

/// The channel. Tasks die with their conductor, so that no poll needs an end of its own.
pub(super) struct Gate {
    read: File,
    write: File,
}

impl Gate {
    /// A gate over what carries the plan's messages, or a pipe.
    pub(super) fn new(plan: &Plan) -> io::Result<Self> {
        let transport = match plan.channels.first().map(|channel| channel.transport) {
            Some(Transport::SocketPair) => channel::Transport::SocketPair,
            Some(Transport::Inet) => channel::Transport::Inet,
            _ => channel::Transport::Pipe,
        };
        let (read, write) = channel::open(transport)?;
        Ok(Self { read: read.into(), write: write.into() })
    }

    /// Lets all through, now and later.
    pub(super) fn open(&self, arena: &Arena) {
        arena.go().store(1, SeqCst);
        // A second byte, when a gate that was opened is opened to stop, may be too much: nobody waits.
        let _ = (&self.write).write(&[0]);
    }

    /// Waits until it is open or all shall stop.
    pub(super) fn pass(&self, arena: &Arena) {
        while arena.go().load(Acquire) == 0 && !arena.stopping() {
            // The word decides, not what ended the poll.
            let _ = process::poll(&[self.read.as_fd()], None);
        }
    }
}
