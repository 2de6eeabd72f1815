//! A workload made ready: its tasks with their behaviours, and what they share.

use crate::Behaviour;
use crate::job_graph::Jobs;
use schedlab_model::{Cpu, CpuSet, Metric, Nanos, Pid};

/// What carries a channel's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Pipe,
    /// A pair of UNIX stream sockets.
    SocketPair,
    /// TCP over the loopback.
    Inet,
    /// UDP over the loopback, or over the link of the plan.
    Udp,
    /// An eventfd; every message is 8 bytes.
    EventFd,
    /// The plan's device, which is only written to.
    Device,
}

/// A byte channel between tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    pub transport: Transport,
    /// How many tasks send on it (see [`crate::Op::Close`]).
    pub senders: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The newest value first, a batch at a time. Values are below `capacity`, and each lies there at
    /// most once.
    Stack {
        /// One more than the largest value.
        capacity: u32,
    },
    /// The oldest value first.
    Fifo {
        /// How many values fit.
        capacity: u32,
    },
}

/// Memory that tasks work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Three square matrices of 64-bit numbers, the third the product of the first two.
    Matrices {
        /// Rows and columns of each.
        side: u32,
        /// Whether all tasks work on the same (and write it without order) or each on its own.
        shared: bool,
        /// Whether they are left unwritten, so that the kernel maps all of the two factors to one page
        /// of zeroes: a third of the footprint.
        unwritten: bool,
    },
    /// Bytes that are shared between tasks.
    Page { bytes: u32 },
    /// Three arrays of 64-bit floats, each task its own.
    Arrays {
        /// The number of elements in each array.
        elements: u32,
    },
    /// Pointers in a circle, shared between tasks: one every `stride` bytes.
    Chain {
        /// The number of bytes of all chains.
        bytes: u32,
        /// Bytes from one to the next, a multiple of 8.
        stride: u32,
        /// Whether the circle goes through them in the order of their numbers with the bits reversed,
        /// which no prefetcher follows, or as they lie.
        scattered: bool,
    },
}

/// Where and how a task runs. Everything absent is as the load was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The CPUs that it may use.
    pub cpus: Option<CpuSet>,
    /// Policy and its number: `fifo:1`, `batch`, `normal`.
    pub policy: Option<Policy>,
    /// Nice value, -20 ..= 19.
    pub nice: Option<i32>,
    /// The slice of a fair task.
    pub slice: Option<Nanos>,
    /// Bounds of its utilisation, 0 ..= 1024, the lower one first (uclamp).
    pub clamp: Option<(u32, u32)>,
    /// NUMA nodes that its memory comes from.
    pub memory: Option<Vec<u32>>,
    /// A control group: a path below the mount point, or `@NAME` for one of the load's own, below the
    /// group that it was started in. One that is not there is made for the run.
    pub cgroup: Option<String>,
    /// The weight of that group: 100 is that of any other (`cpu.weight`).
    pub weight: Option<u32>,
}

/// A scheduling policy by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The policy `SCHED_OTHER` of fair tasks.
    Normal,
    /// The policy `SCHED_BATCH` of tasks that do not displace others.
    Batch,
    /// The policy `SCHED_IDLE` of tasks that run if no other wants to.
    Idle,
    /// `SCHED_FIFO` with its priority, 1 ..= 99.
    Fifo(u32),
    /// `SCHED_RR` with its priority, 1 ..= 99.
    RoundRobin(u32),
    /// `SCHED_DEADLINE`: this much time in each period, before the deadline in it.
    Deadline {
        /// Budget of each period.
        runtime: Nanos,
        /// From the beginning of a period.
        deadline: Nanos,
        /// The period of the deadline task.
        period: Nanos,
    },
    /// The policy `SCHED_EXT` of a BPF scheduler.
    Ext,
}

pub struct Task {
    /// Its name as the kernel shows it (15 bytes).
    pub comm: String,
    /// Index into the plan's roles: each role has metrics of its own.
    pub role: u16,
    /// The group it belongs to, for fairness between groups.
    pub group: u32,
    pub placement: Placement,
    /// Channels that it writes to: indices.
    pub sends: Vec<u32>,
    /// Channels that it reads from: indices.
    pub receives: Vec<u32>,
    /// Blocks of its own that it works on: indices.
    pub blocks: Vec<u32>,
    /// The recorded task that it stands for.
    pub origin: Option<Origin>,
    pub behaviour: Box<dyn Behaviour>,
}

/// The recorded task from which this one was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its pid. A simulator gives it to the task; no other task of the plan has it.
    pub pid: Pid,
    /// Where it was when the recording began.
    pub cpu: Cpu,
}

impl Task {
    /// A task of the first group, placed nowhere, without channels and blocks.
    #[must_use]
    pub fn new(comm: impl Into<String>, role: u16, behaviour: Box<dyn Behaviour>) -> Self {
        Self {
            comm: comm.into(),
            role,
            group: 0,
            placement: Placement::default(),
            sends: Vec::new(),
            receives: Vec::new(),
            blocks: Vec::new(),
            origin: None,
            behaviour,
        }
    }
}

/// Tasks that others start (see [`crate::Op::Fork`]): not there when the run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fork {
    /// Those that may be alive at a time: indices of tasks, each of which can begin anew.
    pub tasks: Vec<usize>,
}

/// A number that follows how busy the machine is, adjusted once a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regulation {
    pub(crate) dial: u32,
    /// Wanted busy share in percent, 1 ..= 100.
    pub(crate) busy: u32,
}

/// When the run ends and what is left out of its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// The tasks are stopped after this time; `None`: they end by themselves, or by the run's limit.
    pub duration: Option<Nanos>,
    /// Without a duration the tasks would go on for ever: a run's limit is then its end, not a cut.
    pub(crate) endless: bool,
    /// Samples before it are left out.
    pub(crate) warm_up: Nanos,
    /// The distance of intermediate reports; zero for none.
    pub(crate) interval: Nanos,
    /// Figures start anew at each multiple of it; zero for never.
    pub(crate) zero: Nanos,
}

/// A workload made ready.
pub struct Plan {
    pub workload: String,
    /// Whether each task is a process of its own or a thread.
    pub processes: bool,
    pub tasks: Vec<Task>,
    /// A graph of jobs. An executor runs it, on workers placed as the tasks are, or the tasks are its workers
    /// ([`crate::jobs::Workers`]).
    pub jobs: Option<Box<Jobs>>,
    /// A command that a shell runs, placed as the one task is.
    pub command: Option<String>,
    pub roles: Vec<String>,
    /// Channels; those of one group are used by no other.
    pub channels: Vec<Channel>,
    /// How many words to wait on.
    pub words: u32,
    /// The number of locks that tasks share.
    pub locks: u32,
    /// The number of semaphores that tasks share.
    pub semaphores: u32,
    /// Where and how tasks may move to run.
    pub places: Vec<Placement>,
    /// Tasks that others start. Each takes one of these slots, whose memory is laid out before the run; a slot
    /// that is used again adds to its metrics.
    pub forks: Vec<Fork>,
    /// The file that [`Transport::Device`] writes to.
    pub device: Option<std::path::PathBuf>,
    /// Whether all memory is locked, so that no task waits for a page.
    pub lock_pages: bool,
    /// Whether a lock lends its holder the priority of the one that waits for it.
    pub locks_inherit: bool,
    /// Parties of each barrier.
    pub barriers: Vec<u32>,
    /// The queues that tasks share.
    pub queues: Vec<Queue>,
    /// The blocks of memory that tasks work on.
    pub blocks: Vec<Block>,
    /// Dials with their first position.
    pub dials: Vec<u64>,
    /// The series of samples that tasks measure.
    pub samples: Vec<Metric>,
    /// Series whose samples are numbers of the original's buckets (see `upstream::plat`), with
    /// the series of which they are.
    pub in_buckets: Vec<(u32, u32)>,
    pub counters: Vec<Metric>,
    /// The counter that says how much was done; it is sampled once a second where there is one.
    pub progress: Option<u32>,
    /// The names of the marks that tasks put.
    pub marks: Vec<String>,
    /// When measuring begins and ends.
    pub timing: Timing,
    /// Tasks begin in the middle of their lives, at this time of a recording's clock: those whose first operation waits
    /// are asleep from the start. A simulator does so; on a real machine tasks begin as those of any load.
    pub in_place: Option<Nanos>,
    /// A dial that follows the machine.
    pub regulation: Option<Regulation>,
    /// Sentences about what was made of the options.
    pub notes: Vec<String>,
    /// Datagrams go over a link of this many bits a second to a network of its own; `None`: over
    /// the loopback.
    pub link_bit_s: Option<u64>,
    /// Keep to the upstream tool where a fix changes a number.
    pub upstream: bool,
    /// The run's time limit, where it comes before the end that the options ask for: a run that it ends is cut.
    pub cut_at: Option<Nanos>,
}

impl Plan {
    #[must_use]
    pub fn new(workload: &str) -> Self {
        Self {
            workload: workload.to_owned(),
            processes: false,
            tasks: Vec::new(),
            jobs: None,
            command: None,
            roles: Vec::new(),
            channels: Vec::new(),
            words: 0,
            locks: 0,
            semaphores: 0,
            places: Vec::new(),
            forks: Vec::new(),
            device: None,
            lock_pages: false,
            locks_inherit: false,
            barriers: Vec::new(),
            queues: Vec::new(),
            blocks: Vec::new(),
            dials: Vec::new(),
            samples: Vec::new(),
            in_buckets: Vec::new(),
            counters: Vec::new(),
            progress: None,
            marks: Vec::new(),
            timing: Timing::default(),
            in_place: None,
            regulation: None,
            notes: Vec::new(),
            link_bit_s: None,
            upstream: false,
            cut_at: None,
        }
    }

    /// Ends the run after `limit` at the latest.
    pub fn limit(&mut self, limit: Nanos) {
        let own = self.timing.duration;
        if own.is_none_or(|own| limit < own) {
            self.timing.duration = Some(limit);
            self.cut_at = (own.is_some() || !self.timing.endless).then_some(limit);
        }
    }

    /// Adds a word of memory that tasks share; returns its number.
    pub fn word(&mut self) -> crate::WordId {
        self.words += 1;
        crate::WordId(self.words - 1)
    }

    /// Adds a channel for `senders` tasks; its number.
    pub fn channel(&mut self, transport: Transport, senders: u32) -> crate::ChannelId {
        self.channels.push(Channel { transport, senders });
        crate::ChannelId(len(&self.channels) - 1)
    }

    /// Adds a queue; its number.
    pub(crate) fn queue(&mut self, queue: Queue) -> crate::QueueId {
        self.queues.push(queue);
        crate::QueueId(len(&self.queues) - 1)
    }

    /// Adds memory; its number.
    pub(crate) fn block(&mut self, block: Block) -> crate::BlockId {
        self.blocks.push(block);
        crate::BlockId(len(&self.blocks) - 1)
    }

    /// Adds a series of samples; its number.
    pub fn series(&mut self, metric: Metric) -> crate::SampleId {
        self.samples.push(metric);
        crate::SampleId(len(&self.samples) - 1)
    }

    /// Adds the twin of a series that keeps its samples in the original's buckets; its number.
    pub(crate) fn twin_in_buckets(&mut self, of: crate::SampleId) -> crate::SampleId {
        let metric = self.samples[of.0 as usize].clone();
        let twin = self.series(metric);
        self.in_buckets.push((twin.0, of.0));
        twin
    }

    /// Adds a counter; its number.
    pub(crate) fn counter(&mut self, metric: Metric) -> crate::CounterId {
        self.counters.push(metric);
        crate::CounterId(len(&self.counters) - 1)
    }

    /// Adds a role; its index.
    pub fn role(&mut self, name: &str) -> u16 {
        self.roles.push(name.to_owned());
        u16::try_from(self.roles.len() - 1).expect("a workload has a handful of roles")
    }
}

fn len<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("options limit tasks and what they share")
}
