//! The board: memory that the world shares with the image of a kernel's scheduler, in words.
//!
//! The world writes a call and enters the image. The image runs one CPU until that gives back control: in user mode,
//! or when it idles. Records say what happened. `overlay/kernel/board.h` of `schedlab-kernel` has the same layout.

use crate::policy_view::{Class, Hardware, TaskView, id};
use schedlab_model::{Comm, Context, Pid, Place};

/// The image of a kernel's scheduler, mapped into this process, and the words that it shares.
pub trait Image {
    /// Where the memory begins that the image may use, and how many bytes it has.
    fn arena(&self) -> (u64, u64);
    fn word(&self, at: usize) -> u64;
    fn set_word(&mut self, at: usize, value: u64);
    /// Enters the image, and returns when it comes back.
    fn enter(&mut self);
    /// What lies at an address of the image's code: a function's name, if it is known.
    fn function(&self, address: u64) -> Option<String>;
}

const VERSION: u64 = 3;
const CPUS: usize = 8_192;
const DATA: usize = 131_072;
const RECORDS: usize = 32_768;
const RECORD_WORDS: usize = 10;
const TEXT: usize = 1 << 16;
const TRACE: usize = 32;

const NOW: usize = 1;
const CALL: usize = 2;
const CPU: usize = 3;
const ARGUMENTS: usize = 4;
const RESULT: usize = 12;
const PASSED: usize = 13;
const STOPPED: usize = 14;
/// The value of `STOPPED` if the linked scheduler ended.
const SCHEDULER_ENDED: u64 = 2;
const TRACED: usize = 15;
const TRACE_AT: usize = 16;
const ARENA: usize = TRACE_AT + TRACE;
const RECORDED: usize = ARENA + 3;
const TOUCHED: usize = ARENA + 4;
const TEXT_BYTES: usize = ARENA + 5;
const CODE_1000: usize = ARENA + 6;
const CPUS_AT: usize = ARENA + 7;
const CPU_WORDS: usize = 6;
const TOUCHED_AT: usize = CPUS_AT + CPU_WORDS * CPUS;
const DATA_AT: usize = TOUCHED_AT + CPUS;
const RECORDS_AT: usize = DATA_AT + DATA;
const TEXT_AT: usize = RECORDS_AT + RECORD_WORDS * RECORDS;

pub const BOARD_WORDS: usize = TEXT_AT + TEXT / 8;

/// Attributes of a task lie behind the mask of its CPUs.
const ATTRIBUTES: usize = CPUS / 64;
/// A value lies behind a name of at most this many bytes.
const NAME: usize = 256;
/// Threads of the kernel are named by their pids, beyond all tasks of a load.
const THREADS: u64 = 1 << 32;
/// The time that never comes (`KTIME_MAX`).
const NEVER: u64 = i64::MAX as u64;

/// When the machine boots, in nanoseconds on the world's clock: long before any load, at the beginning of a tick.
pub(crate) const BOOT: u64 = 500_000_000;
/// The distance of two nodes, and of a node to itself (ACPI's SLIT, as QEMU and most machines tell it).
const REMOTE: u64 = 20;
const LOCAL: u64 = 10;
/// A control group: its parent, and what is written to its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    /// Its index among the groups; `None`: the root.
    pub(crate) parent: Option<usize>,
    /// Names of files without `cpu.`, each with what is written to it.
    pub(crate) files: Vec<(String, String)>,
}

/// Between which limits the frequency of a CPU changes, in kHz. All CPUs of a policy (from 1 on) have the same frequency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frequency {
    pub(crate) policy: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
}

/// What a run sets before its load begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Preparation {
    /// Whether idle CPUs poll, so that a wakeup needs no interrupt; otherwise they halt.
    pub(crate) polls: bool,
    /// Whether the ticks of CPUs are spread over half a tick (`skew_tick=1`); otherwise all CPUs tick at once.
    pub(crate) skews: bool,
    /// Whether the load is a session, which has a group of its own.
    pub(crate) autogroup: bool,
    /// What the kernel's random numbers begin with.
    pub(crate) seed: u64,
    /// Whether the kernel charges nobody for time in interrupts, and for what the hypervisor takes
    /// (`CONFIG_IRQ_TIME_ACCOUNTING`, `CONFIG_PARAVIRT_TIME_ACCOUNTING`).
    pub(crate) accounts_irq: bool,
    pub(crate) accounts_steal: bool,
    /// How each CPU's frequency may change; nothing for CPUs beyond them.
    pub(crate) frequencies: Vec<Option<Frequency>>,
    /// Knobs with their values, by the kernel's names.
    pub(crate) knobs: Vec<(String, String)>,
    /// Control groups; parents come first.
    pub(crate) groups: Vec<ControlGroup>,
}

/// What the world asks of the image.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call<'c> {
    /// Interrupts reach a CPU: its clock's, those that CPUs sent it, and one that wakes tasks.
    /// A device's has begun before, by so many nanoseconds.
    Interrupt {
        clock: bool,
        user: bool,
        wakes: Option<Wakes>,
        device: u64,
    },
    /// The task on the CPU wakes another.
    Wake {
        wakes: Wakes,
        sync: bool,
    },
    /// The task on the CPU sleeps until it is woken.
    Sleep,
    /// It sleeps until it is woken, or until a time.
    SleepUntil(u64),
    Yield,
    Exit,
    /// The task on the CPU makes another.
    Fork {
        child: u64,
        group: u64,
        name: &'c str,
        of: &'c Attributes,
    },
    /// A task gets other attributes.
    Set {
        task: u64,
        of: &'c Attributes,
    },
    /// The task on the CPU returns to user space.
    Leave,
}

/// A task that is woken, and whether that cuts short a sleep that has an end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wakes {
    pub(crate) task: u64,
    pub(crate) cuts: bool,
}

/// What the kernel is told of a task (`sched_setattr`, `sched_setaffinity`, `PR_SET_TIMERSLACK`).
#[derive(Clone, Debug)]
pub(crate) struct Attributes {
    words: [u64; 7],
    /// The CPUs that it may use; `None`: all, or those that it had.
    cpus: Option<Vec<usize>>,
}

impl Attributes {
    pub(crate) fn of(view: &TaskView, slack: u64, cpus: usize) -> Self {
        let policy = match view.class {
            Class::Normal => 0,
            Class::Fifo(_) => 1,
            Class::RoundRobin(_) => 2,
            Class::Batch => 3,
            Class::Idle => 5,
            Class::Deadline(_) => 6,
        };
        let [runtime, deadline, period] = match view.class {
            Class::Deadline(of) => [of.runtime, of.deadline, of.period],
            _ => [view.slice_ns, 0, 0],
        };
        let nice = i64::from(view.nice).cast_unsigned();
        let words =
            [policy, nice, u64::from(view.class.priority()), runtime, deadline, period, slack];
        let own =
            |all: &schedlab_model::CpuSet| (0..cpus).filter(|&cpu| all.contains(id(cpu))).collect();
        Self { words, cpus: view.allowed.as_ref().map(own) }
    }

    /// The same for a fair task.
    pub(crate) fn of_fair(mut self) -> Self {
        const POLICY: usize = 0;
        // Priority, runtime, deadline, period.
        for word in [POLICY, 2, 3, 4, 5] {
            self.words[word] = 0;
        }
        self
    }

    /// The same for a task that may use one CPU alone.
    pub(crate) fn on(mut self, cpu: usize) -> Self {
        self.cpus = Some(vec![cpu]);
        self
    }

    /// The same for a task that may use all of these CPUs, if it does not name others.
    pub(crate) fn or_all(mut self, cpus: usize) -> Self {
        self.cpus.get_or_insert_with(|| (0..cpus).collect());
        self
    }
}

/// Who a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// A task of the load.
    Task(u32),
    /// A thread of the kernel.
    Thread(Pid),
    /// The idle task.
    Nobody,
}

impl Who {
    fn of(word: u64) -> Self {
        match u32::try_from(word) {
            Ok(task) => Self::Task(task),
            Err(_) if word == u64::MAX => Self::Nobody,
            Err(_) => Self::Thread(Pid((word & (THREADS - 1)) as i32)),
        }
    }
}

/// What happened in the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Waking {
        cpu: usize,
    },
    Wakeup {
        cpu: usize,
        new: bool,
    },
    Migrate {
        from: usize,
        to: usize,
    },
    Switch(Switched),
    /// The frequency of a CPU is so many kHz.
    Frequency {
        cpu: usize,
        khz: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Switched {
    pub(crate) next: Who,
    pub(crate) next_prio: i32,
    /// Bits of `TASK_*`.
    pub(crate) state: u32,
    pub(crate) preempted: bool,
    /// For how long the task has run, by the kernel's account, in nanoseconds.
    pub(crate) ran: u64,
    /// Up to when the kernel has charged it, and from when on it charges the next one. Both are a little behind where the
    /// kernel saves an update of the CPU's clock.
    pub(crate) until: u64,
    pub(crate) since: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// How long after the call began, in nanoseconds.
    pub(crate) at: u64,
    pub(crate) cpu: usize,
    pub(crate) context: Context,
    pub(crate) who: Who,
    pub(crate) prio: i32,
    pub(crate) what: Happened,
}

/// The board of an image.
pub struct Board {
    image: Box<dyn Image>,
}

impl Board {
    /// The board of an image that has not been entered.
    #[must_use]
    pub fn new(mut image: Box<dyn Image>) -> Self {
        let (arena, bytes) = image.arena();
        image.set_word(0, VERSION);
        image.set_word(ARENA, arena);
        image.set_word(ARENA + 1, bytes);
        Self { image }
    }

    /// Boots a machine of these CPUs, and sets what a run asks for.
    ///
    /// # Errors
    /// What the kernel said when it stopped, or what it refused.
    pub(crate) fn bring_up(
        &mut self,
        hardware: &Hardware,
        prepare: &Preparation,
    ) -> Result<(), String> {
        self.boot(hardware, prepare)?;
        for (name, value) in &prepare.knobs {
            self.set_text(DATA_AT, &name[..name.len().min(NAME - 1)]);
            self.set_text(DATA_AT + NAME / 8, value);
            let result = self.call(BOOT, 0, 12)?;
            if result < 0 {
                return Err(refused(
                    &format!("the kernel does not set {name} to '{value}'"),
                    result,
                ));
            }
        }
        for ControlGroup { parent, files } in &prepare.groups {
            self.set_arguments(&[parent.map_or(0, |parent| parent as u64 + 1)]);
            let group = self.call(BOOT, 0, 13)?;
            if group <= 0 {
                return Err(refused("the kernel does not make a control group", group));
            }
            for (name, value) in files {
                self.set_arguments(&[group.unsigned_abs()]);
                self.set_text(DATA_AT, name);
                self.set_text(DATA_AT + NAME / 8, value);
                let result = self.call(BOOT, 0, 14)?;
                if result < 0 {
                    let what = format!("the kernel does not set cpu.{name} to '{value}'");
                    return Err(refused(&what, result));
                }
            }
        }
        Ok(())
    }

    fn boot(&mut self, hardware: &Hardware, prepare: &Preparation) -> Result<(), String> {
        let places = hardware.topology().places();
        let mut nodes: Vec<u32> = places.iter().map(|place| place.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let of_cpu = |(cpu, place): (usize, &Place)| {
            let frequency = prepare.frequencies.get(cpu).copied().flatten();
            let Frequency { policy, least, most } = frequency.unwrap_or_default();
            let node = nodes.binary_search(&place.node).unwrap_or(0) as u64;
            let [core, llc, socket] = [place.core, place.llc, place.socket].map(u64::from);
            [core, llc, node, socket, hardware.capacity(cpu), policy, least, most]
        };
        let count = nodes.len();
        let distance = |at: usize| if at / count == at % count { LOCAL } else { REMOTE };
        let places = places.iter().enumerate().flat_map(of_cpu);
        let words: Vec<u64> = places.chain((0..count * count).map(distance)).collect();
        words.iter().enumerate().for_each(|(at, &word)| self.image.set_word(DATA_AT + at, word));
        let switches = [prepare.polls, prepare.skews, prepare.autogroup].map(u64::from);
        let cpus = hardware.cpus() as u64;
        self.set_arguments(&[cpus, switches[0], switches[1], switches[2], prepare.seed]);
        self.call(BOOT, 0, 0).map(|_| ())
    }

    /// Enters the image for a CPU. Returns what the call returns: 0 or less an error's number.
    pub(crate) fn enter(&mut self, now: u64, cpu: usize, call: &Call<'_>) -> Result<i64, String> {
        let number = match call {
            Call::Interrupt { clock, user, wakes, device } => {
                let count = u64::from(wakes.is_some());
                self.set_arguments(&[u64::from(*clock), count, u64::from(*user), *device]);
                if let Some(wakes) = wakes {
                    self.image.set_word(DATA_AT, wakes.task);
                    self.image.set_word(DATA_AT + 1, u64::from(wakes.cuts));
                }
                1
            }
            Call::Wake { wakes, sync } => {
                self.set_arguments(&[wakes.task, u64::from(*sync), u64::from(wakes.cuts)]);
                2
            }
            Call::Sleep => 3,
            Call::SleepUntil(time) => {
                self.set_arguments(&[(*time).min(NEVER)]);
                4
            }
            Call::Yield => 5,
            Call::Exit => 6,
            Call::Fork { child, group, name, of } => {
                let mut comm = [0_u8; 16];
                comm.iter_mut().zip(name.bytes().take(15)).for_each(|(to, from)| *to = from);
                let [low, high] = [0, 8]
                    .map(|at| u64::from_le_bytes(std::array::from_fn(|byte| comm[at + byte])));
                self.set_arguments(&[*child, *group, low, high]);
                self.set_attributes(of);
                7
            }
            Call::Set { task, of } => {
                self.set_arguments(&[*task]);
                self.set_attributes(of);
                8
            }
            Call::Leave => 9,
        };
        self.call(now, cpu, number)
    }

    fn set_arguments(&mut self, words: &[u64]) {
        words.iter().enumerate().for_each(|(at, &word)| self.image.set_word(ARGUMENTS + at, word));
    }

    fn set_attributes(&mut self, of: &Attributes) {
        let mut mask = vec![0_u64; ATTRIBUTES];
        for cpu in of.cpus.iter().flatten() {
            mask[cpu / 64] |= 1 << (cpu % 64);
        }
        let words = mask.into_iter().chain(of.words).chain([u64::from(of.cpus.is_some())]);
        words.enumerate().for_each(|(at, word)| self.image.set_word(DATA_AT + at, word));
    }

    fn call(&mut self, now: u64, cpu: usize, number: u64) -> Result<i64, String> {
        self.image.set_word(NOW, now);
        self.image.set_word(CPU, cpu as u64);
        self.image.set_word(CALL, number);
        self.image.enter();
        if self.image.word(STOPPED) != 0 {
            return Err(self.last_words(now, cpu));
        }
        Ok(self.image.word(RESULT).cast_signed())
    }

    /// What the kernel printed, and where it was.
    fn last_words(&self, now: u64, cpu: usize) -> String {
        let said = self.said();
        if self.image.word(STOPPED) == SCHEDULER_ENDED {
            let of_scheduler = said.lines().filter(|line| line.starts_with("sched_ext: "));
            let lines: Vec<&str> = of_scheduler.collect();
            let lines = lines.join("\n");
            return format!(
                "the sched_ext scheduler ended at {now} ns; the kernel's words:\n{lines}"
            );
        }
        let mut lines: Vec<String> = said.lines().rev().take(20).map(str::to_owned).collect();
        lines.reverse();
        let traced = self.image.word(TRACED).min(TRACE as u64) as usize;
        for at in 0..traced {
            let address = self.image.word(TRACE_AT + at);
            let function = self.image.function(address);
            lines.push(format!("  {address:#x} {}", function.unwrap_or_default()));
        }
        format!(
            "the kernel's code stopped on CPU {cpu} at {now} ns; its last words:\n{}",
            lines.join("\n")
        )
    }

    /// What the kernel has printed.
    fn said(&self) -> String {
        let bytes = (self.image.word(TEXT_BYTES) as usize).min(TEXT);
        self.text(TEXT_AT, bytes)
    }

    fn text(&self, at: usize, bytes: usize) -> String {
        let words =
            (0..bytes.div_ceil(8)).flat_map(|word| self.image.word(at + word).to_le_bytes());
        let bytes: Vec<u8> = words.take(bytes).take_while(|&byte| byte != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn set_text(&mut self, at: usize, text: &str) {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        for (word, part) in bytes.chunks(8).enumerate() {
            let mut all = [0; 8];
            all[..part.len()].copy_from_slice(part);
            self.image.set_word(at + word, u64::from_le_bytes(all));
        }
    }

    /// What the last call did, in order.
    pub(crate) fn records(&self) -> Vec<Record> {
        let count = (self.image.word(RECORDED) as usize).min(RECORDS);
        (0..count).filter_map(|at| self.record(RECORDS_AT + at * RECORD_WORDS)).collect()
    }

    fn record(&self, at: usize) -> Option<Record> {
        let word = |index: usize| self.image.word(at + index);
        let context = match word(0) >> 8 {
            0 => Context::Task,
            1 => Context::SoftIrq,
            _ => Context::HardIrq,
        };
        let other = word(3);
        let more = word(4);
        let prio = word(5);
        let what = match word(0) & 0xff {
            1 => Happened::Waking { cpu: more as usize },
            2 => Happened::Wakeup { cpu: more as usize, new: false },
            3 => Happened::Wakeup { cpu: more as usize, new: true },
            4 => Happened::Migrate { from: other as usize, to: more as usize },
            5 => Happened::Switch(Switched {
                next: Who::of(other),
                next_prio: (prio >> 32) as i32,
                state: more as u32,
                preempted: more >> 32 != 0,
                ran: word(6),
                until: word(7),
                since: word(8),
            }),
            6 => Happened::Frequency { cpu: other as usize, khz: more },
            _ => return None,
        };
        let who = Who::of(word(2));
        Some(Record { at: word(9), cpu: word(1) as usize, context, who, prio: prio as i32, what })
    }

    /// From now on 1,000 basic blocks of the kernel take so long, in nanoseconds.
    pub(crate) fn set_code_1000(&mut self, time: u64) {
        self.image.set_word(CODE_1000, time);
    }

    /// How long the last call took, in nanoseconds.
    pub(crate) fn passed(&self) -> u64 {
        self.image.word(PASSED)
    }

    /// When the first of the interrupts was sent that are on their way to a CPU.
    pub(crate) fn sent_at(&self, cpu: usize) -> u64 {
        self.of_cpu(cpu, 3)
    }

    /// The frequency of a CPU in kHz, if the kernel changes it.
    pub(crate) fn frequency(&self, cpu: usize) -> Option<u64> {
        Some(self.of_cpu(cpu, 5)).filter(|&khz| khz > 0)
    }

    fn of_cpu(&self, cpu: usize, word: usize) -> u64 {
        self.image.word(CPUS_AT + CPU_WORDS * cpu + word)
    }

    /// The hypervisor has taken a CPU for so many nanoseconds.
    pub(crate) fn add_stolen(&mut self, cpu: usize, time: u64) {
        let stolen = self.of_cpu(cpu, 4) + time;
        self.image.set_word(CPUS_AT + CPU_WORDS * cpu + 4, stolen);
    }

    /// The most that newidle balancing of a domain cost by the kernel's own account, in nanoseconds.
    pub(crate) fn newidle_cost(&mut self, now: u64) -> Result<i64, String> {
        self.call(now, 0, 64)
    }

    /// CPUs whose clock was set, or that were sent something, by the last call.
    pub(crate) fn touched(&self) -> Vec<usize> {
        let count = (self.image.word(TOUCHED) as usize).min(CPUS);
        (0..count).map(|at| self.image.word(TOUCHED_AT + at) as usize).collect()
    }

    /// When the clock of a CPU goes off; `None`: it is stopped.
    pub(crate) fn clock(&self, cpu: usize) -> Option<u64> {
        Some(self.of_cpu(cpu, 0)).filter(|&at| at < NEVER)
    }

    /// Whether interrupts are on their way to a CPU.
    pub(crate) fn is_sent(&self, cpu: usize) -> bool {
        self.of_cpu(cpu, 1) != 0
    }

    /// Whether the task on a CPU is to give way on its return to user space.
    pub(crate) fn resched(&self, cpu: usize) -> bool {
        self.of_cpu(cpu, 2) != 0
    }

    /// The threads of the kernel, with their names.
    pub(crate) fn threads(&mut self) -> Result<Vec<(Pid, Comm)>, String> {
        let count = self.call(BOOT, 0, 10)?;
        let thread = |at: usize| {
            let word = |index: usize| self.image.word(DATA_AT + 3 * at + index);
            let mut comm = [0; 16];
            comm[..8].copy_from_slice(&word(1).to_le_bytes());
            comm[8..].copy_from_slice(&word(2).to_le_bytes());
            (Pid(word(0) as i32), comm)
        };
        Ok((0..usize::try_from(count).unwrap_or(0)).map(thread).collect())
    }

    /// The kernel's knobs with their values, by the kernel's own names.
    pub(crate) fn knobs(&mut self) -> Result<Vec<(String, String)>, String> {
        let bytes = usize::try_from(self.call(BOOT, 0, 11)?).unwrap_or(0);
        let text = self.text(DATA_AT, bytes);
        let pair = |line: &str| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.trim().to_owned()))
        };
        Ok(text.lines().filter_map(pair).collect())
    }
}

pub(crate) fn refused(what: &str, result: i64) -> String {
    format!("{what}: error {}", -result)
}
