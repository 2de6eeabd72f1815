//! What things cost, in nanoseconds of a CPU at full speed.
//!
//! One file of costs serves all loads and all knobs of a kernel. It is TOML, a line a cost:
//!
//! ```toml
//! base = "usual"        # or "none": where the costs that the file does not name come from
//! send_pipe = 1_200
//! switch = 1_500
//! ```

use serde::{Deserialize, Serialize};

macro_rules! costs {
    ($($(#[doc = $doc:literal])* $name:ident = $usual:literal,)*) => {
        /// What things cost, in nanoseconds unless a field says otherwise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Costs {
            $($(#[doc = $doc])* pub $name: u64,)*
        }

        impl Costs {
            /// Nothing costs anything: schedules can be computed by hand.
            pub const NONE: Self = Self { $($name: 0,)* };

            /// About what a server of these years costs. The numbers are guesses within published ranges.
            pub const USUAL: Self = Self { $($name: $usual,)* };

            /// The names of all costs, in the order of the file.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            fn field(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }

            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

costs! {
    /// A system call that no other field describes (yield, close).
    syscall = 200,
    /// Writing a short message to a pipe, without waking its reader.
    send_pipe = 1_200,
    /// Reading a short message from a pipe, without waking a writer.
    receive_pipe = 1_150,
    /// Writing a short message to a UNIX socket, without waking its reader.
    send_socket = 2_800,
    /// Reading a short message from a UNIX socket, without waking writers.
    receive_socket = 2_600,
    /// Each step off the allocator's fast path: a message of a socket that was taken from, or given back to, another
    /// slab than the CPU's, or a slab that changed lists (Linux 6.1, mm/slub.c).
    slab_step = 100,
    /// A slab of new pages for messages of a socket.
    slab_new = 1_500,
    /// Sending a datagram, or writing to a device.
    send_datagram = 2_500,
    /// Writing to an eventfd or reading from it.
    eventfd = 400,
    /// Copying 1,024 bytes of a message into the kernel or out of it.
    copy_kib = 60,
    /// From the beginning of a call that finds it must sleep to the switch away.
    block = 900,
    /// A call that waits for a futex, up to the switch away.
    wait = 800,
    /// A call that sleeps for a time, up to the switch away.
    sleep = 800,
    /// What the waker spends on each task that it wakes, beside its call.
    wake = 1_000,
    /// A futex call that wakes, beside what each woken task costs.
    post = 400,
    /// Taking or giving back a free lock, pushing or popping a value: no system call.
    step = 30,
    /// From the switch event to the next task's own work.
    switch = 1_500,
    /// What a switch takes longer where tasks are processes, not threads of one.
    switch_process = 0,
    /// The scheduler tick on a busy CPU.
    tick = 2_000,
    /// A timer interrupt that wakes a task, beside the wakeup.
    timer = 1_500,
    /// How much later than asked a sleep ends (`timer_slack_ns`).
    timer_slack = 50_000,
    /// From the send of an interprocessor interrupt to its handler.
    ipi = 1_000,
    /// From an interrupt on an idle CPU to its handler.
    idle_exit = 2_000,
    /// The time that forking a process takes.
    fork = 60_000,
    /// The time that starting a thread takes.
    fork_thread = 60_000,
    /// What a new process does before it waits for the start of the load.
    prepare = 30_000,
    /// What a new thread does before it waits for the start of the load.
    prepare_thread = 30_000,
    /// What a task does once when it is let go, before its first operation.
    first = 10_000,
    /// The same of a task that begins with a read: at least `first`.
    first_read = 20_000,
    /// The run of the kernel's RCU thread at the tick after tasks were forked or ended; 0: there is none.
    rcu = 4_000,
    /// From the moment at which all tasks are ready to the moment at which they are let go.
    begin = 200_000,
    /// The end of a process.
    exit = 40_000,
    /// The end of a thread.
    exit_thread = 40_000,
    /// What the task that started a process does when that process has ended.
    reap = 10_000,
    /// Warming a cold cache after a move to a sibling thread of the same core.
    migrate_smt = 0,
    /// The same after a move within the LLC.
    migrate_llc = 5_000,
    /// The same after a move to another LLC of the node.
    migrate_node = 15_000,
    /// The same after a move to another node or socket.
    migrate_machine = 30_000,
    /// Filling, walking or allocating 1,024 bytes of memory.
    memory_kib = 60,
    /// One step along a chain of pointers.
    chase = 80,
    /// 1,000 basic blocks of a kernel's own scheduler, with `sim:kernel=TREE`; 0: its code takes no time.
    code_1000 = 2_000,
    /// 1,000 multiplications of a matrix product.
    multiply_1000 = 1_000,
    /// 1,000 elements of one sweep over arrays.
    stream_1000 = 2_000,
}

/// Why a text is not a file of costs: what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CostError(pub String);

/// Files of costs that come with the program, by name.
const PRESETS: &[(&str, &str)] = &[
    ("icount-6.1", include_str!("../data/icount-6.1.costs.toml")),
    ("icount-6.12", include_str!("../data/icount-6.12.costs.toml")),
    ("none", "base = \"none\""),
];

impl Costs {
    /// A cost by name, in nanoseconds; `None` if there is no such cost.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.all().into_iter().find(|(one, _)| *one == name).map(|(_, ns)| ns)
    }

    /// The costs of these names changed so that their sum is `sum` ns. They keep their ratio; where all are 0, each
    /// gets the same. A name that is no cost changes nothing.
    #[must_use]
    pub(crate) fn scaled(mut self, names: &[&str], sum: u64) -> Self {
        let before: u64 = names.iter().filter_map(|name| self.get(name)).sum();
        let mut left = sum;
        for (at, name) in names.iter().enumerate() {
            let own = self.get(name).unwrap_or(0);
            let part = match before {
                _ if at + 1 == names.len() => left,
                0 => sum / names.len() as u64,
                _ => (u128::from(own) * u128::from(sum) / u128::from(before)) as u64,
            };
            if let Some(field) = self.field(name) {
                *field = part;
                left -= part;
            }
        }
        self
    }

    /// The text of a file of costs that comes with the program; `None` if there is no such file.
    #[must_use]
    pub fn preset(name: &str) -> Option<&'static str> {
        PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, text)| *text)
    }

    /// The costs of tasks whose recorded bursts already contain what their calls took: only switches, wakeups, moves, the
    /// ways between CPUs and calls that find they must sleep cost anything.
    #[must_use]
    pub(crate) const fn of_recorded(&self) -> Self {
        let Self { switch, switch_process, wake, ipi, idle_exit, block, code_1000, .. } = *self;
        let Self { migrate_smt, migrate_llc, migrate_node, migrate_machine, .. } = *self;
        Self {
            switch,
            switch_process,
            wake,
            ipi,
            idle_exit,
            block,
            code_1000,
            migrate_smt,
            migrate_llc,
            migrate_node,
            migrate_machine,
            ..Self::NONE
        }
    }

    /// The text of a file of these costs.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.all().into_iter().map(|(name, ns)| format!("{name} = {ns}\n"));
        std::iter::once("base = \"none\"\n".to_owned()).chain(lines).collect()
    }

    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// Reads a file of costs.
    ///
    /// # Errors
    /// Text that is not TOML (with the line), a cost that does not exist, a value that is not a whole number from 0
    /// to 1 s.
    pub fn parse(text: &str) -> Result<Self, CostError> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            CostError(format!("invalid TOML in the file of costs: {error}"))
        })?;
        let mut costs = match table.get("base").map(toml::Value::as_str) {
            None | Some(Some("usual")) => Self::USUAL,
            Some(Some("none")) => Self::NONE,
            Some(_) => return Err(CostError("invalid base: use \"usual\" or \"none\"".into())),
        };
        for (name, value) in table.iter().filter(|(name, _)| *name != "base") {
            let number = value.as_integer().and_then(|n| u64::try_from(n).ok());
            let Some(field) = costs.field(name) else {
                let names = Self::NAMES.join(", ");
                return Err(CostError(format!("unknown cost '{name}': use {names}")));
            };
            *field = number.filter(|&ns| ns <= 1_000_000_000).ok_or_else(|| {
                CostError(format!(
                    "cost {name}: invalid value '{value}': use a whole number of ns, at most 1 s"
                ))
            })?;
        }
        Ok(costs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_what_it_names() {
        let costs = Costs::parse("switch = 7\nsend_pipe = 1_000").unwrap();
        assert_eq!(costs, Costs { switch: 7, send_pipe: 1_000, ..Costs::USUAL });
        assert_eq!(Costs::parse("base = \"none\"").unwrap(), Costs::NONE);
        assert_eq!(Costs::USUAL.all().len(), Costs::NAMES.len());
        assert_eq!(Costs::parse(&costs.text()), Ok(costs));
    }

    #[test]
    fn what_comes_with_the_program_can_be_read() {
        for name in Costs::presets() {
            assert!(Costs::parse(Costs::preset(name).unwrap()).is_ok(), "{name}");
        }
        assert!(Costs::preset("nothing").is_none());
    }

    #[test]
    fn costs_that_are_scaled_together_keep_their_ratio() {
        let costs = Costs { block: 1_000, wake: 500, ..Costs::NONE };
        let scaled = costs.scaled(&["block", "wake"], 3_001);
        assert_eq!((scaled.block, scaled.wake), (2_000, 1_001));
        let new = Costs::NONE.scaled(&["block", "wake"], 10);
        assert_eq!((new.block, new.wake), (5, 5));
        assert_eq!((costs.get("block"), costs.get("blok")), (Some(1_000), None));
    }

    #[test]
    fn mistakes_are_named_with_what_is_right() {
        for (text, part) in [
            ("swich = 7", "unknown cost 'swich': use syscall, send_pipe"),
            ("switch = -1", "cost switch: invalid value '-1'"),
            ("switch = 1.5", "whole number"),
            ("switch = 2_000_000_000", "at most 1 s"),
            ("switch 7", "invalid TOML"),
            ("base = 3", "invalid base"),
        ] {
            let error = Costs::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
