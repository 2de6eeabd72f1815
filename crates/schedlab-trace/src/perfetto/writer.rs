//! Writes Perfetto's protobuf: switches and wakings compactly, the rest as events (tracepoints beyond
//! the scheduler's as generic ones), bundle by bundle.
//!
//! A compact switch says only who runs next, and a compact waking not who woke: what would be read out of
//! them otherwise than it was is written as an event of its own, so nothing of the story changes.
//!
//! Memory: one bundle of events for each CPU, and the names of tasks: as told so far, and for the process
//! tree at the end.

use super::{
    BUILTIN_BOOTTIME, BUILTIN_MONOTONIC, CLOCK_GLOBAL, KERNEL_SYMBOLS, bundle, compact, event,
    native, packet, system, trace,
};
use crate::conversion_loss::{Unknown, arguments_left_out, cannot_hold};
use crate::encode::state;
use crate::event_sink::EventSink;
use crate::order::Order;
use crate::protobuf::{bytes, number, signed, varint};
use crate::task_names::TaskNames;
use schedlab_model::{
    Clock, Context, Cpu, Event, Left, OtherFormat, Phase, Pid, Prio, TraceInfo, Warning, What,
    kernel_version,
};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Events of a CPU that make a bundle.
const BUNDLE: usize = 1024;

/// Writes a trace for Perfetto.
pub(crate) struct PerfettoWriter<W: Write> {
    out: W,
    clock: Clock,
    cpus: Vec<Bundle>,
    reads: Vec<Reads>,
    told: BTreeMap<Pid, String>,
    started: bool,
    others: u64,
    /// Events that were lost and counted: a bundle says only that there was a loss.
    lost: u64,
    unknown: Unknown,
    order: Order,
    /// Of the next event.
    arguments: Option<String>,
    /// Names of places in the kernel with their numbers, and those that the next packet tells.
    symbols: BTreeMap<String, u64>,
    new_symbols: Vec<u8>,
    /// Whether a packet was written.
    begun: bool,
    /// Whether the source tells which threads form a process.
    knows_processes: bool,
    /// Whether it is not known of some events if an interrupt logged them.
    no_contexts: bool,
}

/// The events of one CPU on their way.
#[derive(Default)]
struct Bundle {
    count: usize,
    first: u64,
    lost: bool,
    switches: Columns<4>,
    wakings: Columns<5>,
    names: Vec<String>,
    events: Vec<u8>,
}

/// What a reader of a CPU's bundles knows by now.
#[derive(Clone, Copy, Default)]
struct Reads {
    /// Who runs, and at which priority.
    running: Option<(Pid, Prio)>,
    /// The time of the last event.
    last: Option<u64>,
    /// Whether the CPU has a bundle.
    named: bool,
}

/// Packed columns: times as differences, and numbers.
struct Columns<const N: usize> {
    last: u64,
    times: Vec<u8>,
    values: [Vec<u8>; N],
}

impl<const N: usize> Default for Columns<N> {
    fn default() -> Self {
        Self { last: 0, times: Vec::new(), values: [const { Vec::new() }; N] }
    }
}

impl<const N: usize> Columns<N> {
    fn push(&mut self, time: u64, values: [u64; N]) {
        // The first is absolute: its predecessor is zero.
        varint(&mut self.times, time.wrapping_sub(self.last));
        self.last = time;
        for (column, value) in self.values.iter_mut().zip(values) {
            varint(column, value);
        }
    }
}

impl<W: Write> PerfettoWriter<W> {
    pub(crate) fn new(out: W, clock: Clock) -> Self {
        Self {
            out,
            clock,
            cpus: Vec::new(),
            reads: Vec::new(),
            told: BTreeMap::new(),
            started: false,
            others: 0,
            lost: 0,
            unknown: Unknown::default(),
            order: Order::default(),
            arguments: None,
            symbols: BTreeMap::new(),
            new_symbols: Vec::new(),
            begun: false,
            knows_processes: false,
            no_contexts: false,
        }
    }

    /// Has a bundle for this CPU.
    fn room(&mut self, index: usize) {
        if index >= self.cpus.len() {
            self.cpus.resize_with(index + 1, Bundle::default);
            self.reads.resize(index + 1, Reads::default());
        }
    }

    fn is_boot(&self) -> bool {
        matches!(&self.clock, Clock::Nanoseconds(name) if name == "boot")
    }

    fn packet(&mut self, field: u32, content: &[u8]) -> io::Result<()> {
        let mut body = Vec::new();
        bytes(&mut body, field, content);
        number(&mut body, packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
        // Readers take no names by number from a sequence that does not say where its numbers begin.
        number(&mut body, packet::SEQUENCE_FLAGS, if self.begun { 2 } else { 1 });
        self.begun = true;
        if !self.new_symbols.is_empty() {
            bytes(&mut body, packet::INTERNED_DATA, &std::mem::take(&mut self.new_symbols));
        }
        let mut whole = Vec::new();
        bytes(&mut whole, trace::PACKET, &body);
        self.out.write_all(&whole)
    }

    /// Where the trace's clock stands when Perfetto's stands at the same number: nobody knows how far
    /// they are apart, so the numbers are kept.
    fn snapshot(&mut self, time: u64) -> io::Result<()> {
        let mut snapshot = Vec::new();
        let mut clocks = vec![BUILTIN_BOOTTIME];
        if self.clock == Clock::Monotonic {
            clocks.push(BUILTIN_MONOTONIC);
        }
        for id in clocks {
            let mut clock = Vec::new();
            number(&mut clock, 1, id);
            number(&mut clock, 2, time);
            bytes(&mut snapshot, 1, &clock);
        }
        number(&mut snapshot, 2, BUILTIN_BOOTTIME);
        self.packet(packet::CLOCK_SNAPSHOT, &snapshot)
    }

    /// The kernel's release decides what readers take states for; ours are those of Linux 4.14 and later.
    fn system_info(&mut self, kernel: Option<&str>) -> io::Result<()> {
        let mut words = kernel.into_iter().flat_map(str::split_whitespace);
        let known = words.find_map(|word| Some((word, kernel_version(word)?)));
        let release = match (known, kernel) {
            (Some((release, version)), _) if version >= (4, 14) => release.to_owned(),
            (_, Some(kernel)) => format!("4.14.0 (states as there; recorded on {kernel})"),
            (_, None) => "4.14.0 (states as there; the kernel is unknown)".to_owned(),
        };
        let mut names = Vec::new();
        let mut info = Vec::new();
        bytes(&mut names, system::SYSNAME, b"Linux");
        bytes(&mut names, system::VERSION, kernel.unwrap_or_default().as_bytes());
        bytes(&mut names, system::RELEASE, release.as_bytes());
        bytes(&mut info, system::UTSNAME, &names);
        self.packet(packet::SYSTEM_INFO, &info)
    }

    fn flush_cpu(&mut self, cpu: usize) -> io::Result<()> {
        let done = std::mem::take(&mut self.cpus[cpu]);
        self.reads[cpu].named = true;
        let mut out = Vec::new();
        number(&mut out, bundle::CPU, cpu as u64);
        out.extend_from_slice(&done.events);
        if done.lost {
            number(&mut out, bundle::LOST_EVENTS, 1);
        }
        let sched = done.compact();
        if !sched.is_empty() {
            bytes(&mut out, bundle::COMPACT_SCHED, &sched);
        }
        if !self.is_boot() {
            // Not the boot clock: the pair says how its numbers are to be read.
            number(&mut out, bundle::FTRACE_CLOCK, CLOCK_GLOBAL);
            number(&mut out, bundle::FTRACE_TIMESTAMP, done.first);
            number(&mut out, bundle::BOOT_TIMESTAMP, done.first);
        }
        self.packet(packet::FTRACE_EVENTS, &out)
    }
}

impl Bundle {
    fn compact(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for name in &self.names {
            bytes(&mut out, compact::INTERN_TABLE, name.as_bytes());
        }
        let switch = [
            compact::SWITCH_PREV_STATE,
            compact::SWITCH_NEXT_PID,
            compact::SWITCH_NEXT_PRIO,
            compact::SWITCH_NEXT_COMM,
        ];
        let waking = [
            compact::WAKING_PID,
            compact::WAKING_TARGET_CPU,
            compact::WAKING_PRIO,
            compact::WAKING_COMM,
            compact::WAKING_FLAGS,
        ];
        if !self.switches.times.is_empty() {
            bytes(&mut out, compact::SWITCH_TIMESTAMP, &self.switches.times);
            for (field, column) in switch.into_iter().zip(&self.switches.values) {
                bytes(&mut out, field, column);
            }
        }
        if !self.wakings.times.is_empty() {
            bytes(&mut out, compact::WAKING_TIMESTAMP, &self.wakings.times);
            for (field, column) in waking.into_iter().zip(&self.wakings.values) {
                bytes(&mut out, field, column);
            }
        }
        out
    }

    fn name(&mut self, name: &str) -> u64 {
        let index = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        index as u64
    }

    fn event(&mut self, event: &Event, field: u32, content: &[u8]) {
        let mut body = Vec::new();
        number(&mut body, event::TIMESTAMP, event.time.0);
        number(&mut body, event::PID, u64::from(event.by.0.cast_unsigned()));
        if event.context != Context::Task {
            number(&mut body, event::COMMON_FLAGS, flags(event.context));
        }
        bytes(&mut body, field, content);
        bytes(&mut self.events, bundle::EVENT, &body);
    }

    /// A name, a pid and further numbers, as most of the scheduler's events have them.
    fn task(&mut self, event: &Event, field: u32, pid: Pid, name: &str, numbers: &[(u32, i32)]) {
        let mut content = Vec::new();
        bytes(&mut content, 1, name.as_bytes());
        signed(&mut content, 2, pid.0);
        for (field, value) in numbers {
            signed(&mut content, *field, *value);
        }
        self.event(event, field, &content);
    }
}

/// A switch with all that it says.
struct Switch<'a> {
    prev: (Pid, Prio, &'a str),
    left: Left,
    next: (Pid, Prio, &'a str),
}

impl Bundle {
    fn switch(&mut self, event: &Event, switch: &Switch<'_>) {
        let mut content = Vec::new();
        for (first, (pid, prio, name)) in [(1, switch.prev), (5, switch.next)] {
            bytes(&mut content, first, name.as_bytes());
            signed(&mut content, first + 1, pid.0);
            signed(&mut content, first + 2, prio.0.into());
            if first == 1 {
                number(&mut content, 4, state(switch.left));
            }
        }
        self.event(event, event::SWITCH, &content);
    }

    fn compact_switch(&mut self, event: &Event, switch: &Switch<'_>) {
        let (next, prio, name) = switch.next;
        let comm = self.name(name);
        let values = [state(switch.left), small(next.0), small(prio.0.into()), comm];
        self.switches.push(event.time.0, values);
    }

    fn compact_waking(&mut self, event: &Event, pid: Pid, name: &str, prio: Prio, last: Cpu) {
        let comm = self.name(name);
        let prio = small(prio.0.into());
        let flags = flags(event.context);
        let values = [small(pid.0), u64::from(last.0), prio, comm, flags];
        self.wakings.push(event.time.0, values);
    }

    fn fork(&mut self, event: &Event, child: Pid, parent: &str, name: &str) {
        let mut content = Vec::new();
        bytes(&mut content, 1, parent.as_bytes());
        signed(&mut content, 2, event.by.0);
        bytes(&mut content, 3, name.as_bytes());
        signed(&mut content, 4, child.0);
        self.event(event, event::FORK, &content);
    }

    /// As user space writes slices into `trace_marker`.
    fn mark(&mut self, event: &Event, pid: Pid, name: &str, phase: Phase, request: u32) {
        let text = match (phase, request) {
            (Phase::Begin, 0) => format!("B|{pid}|{name}\n"),
            (Phase::End, 0) => format!("E|{pid}|{name}\n"),
            (Phase::Begin, request) => format!("S|{pid}|{name}|{request}\n"),
            (Phase::End, request) => format!("F|{pid}|{name}|{request}\n"),
            (Phase::Point, _) => format!("I|{pid}|{name}\n"),
        };
        let mut content = Vec::new();
        bytes(&mut content, 2, text.as_bytes());
        self.event(event, event::PRINT, &content);
    }
}

/// The value of a generic event's field: a number where the text is one.
fn generic_value(field: &mut Vec<u8>, value: &str) {
    let hex = value.strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match (value.parse::<i64>(), hex.or_else(|| value.parse().ok())) {
        (Ok(value), _) => number(field, 4, value.cast_unsigned()),
        (_, Some(value)) => number(field, 5, value),
        _ => bytes(field, 3, value.as_bytes()),
    }
}

fn small(value: i32) -> u64 {
    i64::from(value).cast_unsigned()
}

fn flags(context: Context) -> u64 {
    match context {
        // A record has no way to say that it is not known.
        Context::Task | Context::Unknown => 0,
        Context::SoftIrq => 0x10,
        Context::HardIrq => 0x08,
        Context::Nmi => 0x40,
    }
}

/// Notes the name that a task has for readers from here on.
fn tell(told: &mut BTreeMap<Pid, String>, pid: Pid, name: String) {
    if !pid.is_idle() && told.get(&pid) != Some(&name) {
        told.insert(pid, name);
    }
}

/// The name as the kernel has it: the idle task's differs by CPU.
fn kernel_name(pid: Pid, cpu: Cpu, names: &TaskNames) -> String {
    if pid.is_idle() { format!("swapper/{cpu}") } else { names.get(pid).to_owned() }
}

impl<W: Write> PerfettoWriter<W> {
    /// A switch, compactly where that says it all: `alone` at its time, from the task that was known to run,
    /// under a name that was written.
    fn switch(&mut self, event: &Event, alone: bool, names: &TaskNames) {
        let What::Switch { prev, prev_prio, left, next, next_prio } = event.what else { return };
        let index = event.cpu.index();
        let name = |pid| kernel_name(pid, event.cpu, names);
        let before = name(prev);
        let after = name(next);
        let known = prev.is_idle() || self.told.get(&prev) == Some(&before);
        let switch =
            Switch { prev: (prev, prev_prio, &before), left, next: (next, next_prio, &after) };
        let cpu = &mut self.cpus[index];
        let reads = &mut self.reads[index];
        if alone && known && reads.running == Some((prev, prev_prio)) {
            cpu.compact_switch(event, &switch);
        } else {
            cpu.switch(event, &switch);
            tell(&mut self.told, prev, before);
        }
        tell(&mut self.told, next, after);
        reads.running = Some((next, next_prio));
    }

    /// A waking, compactly where it is `alone` at its time and by the task that is known to run.
    fn waking(&mut self, event: &Event, alone: bool, names: &TaskNames) {
        let What::Waking { pid, prio, last_cpu } = event.what else { return };
        let index = event.cpu.index();
        let name = kernel_name(pid, event.cpu, names);
        let running = self.reads[index].running;
        let cpu = &mut self.cpus[index];
        if alone && running.is_some_and(|(running, _)| running == event.by) {
            cpu.compact_waking(event, pid, &name, prio, last_cpu);
        } else {
            let numbers = [(3, i32::from(prio.0)), (4, 1), (5, i32::from(last_cpu.0))];
            cpu.task(event, event::WAKING, pid, &name, &numbers);
        }
        tell(&mut self.told, pid, name);
    }

    /// A tracepoint beyond the scheduler's.
    fn other(&mut self, event: &Event, other: Option<&OtherFormat>) {
        self.others += u64::from(self.arguments.is_none());
        let arguments = self.arguments.take().unwrap_or_default();
        let native = other.and_then(|other| native::by_name(&other.name));
        let cpu = &mut self.cpus[event.cpu.index()];
        let symbols = &mut self.symbols;
        let new = &mut self.new_symbols;
        let symbol = |name: &str| {
            if let Some(iid) = symbols.get(name) {
                return *iid;
            }
            let iid = symbols.len() as u64 + 1;
            symbols.insert(name.to_owned(), iid);
            let mut entry = Vec::new();
            number(&mut entry, 1, iid);
            bytes(&mut entry, 2, name.as_bytes());
            bytes(new, KERNEL_SYMBOLS, &entry);
            iid
        };
        if let Some(native) = native
            && let Some(content) = native.message(&arguments, symbol)
        {
            return cpu.event(event, native.field, &content);
        }
        if other.is_some_and(|other| matches!(&*other.name, "print" | "tracing_mark_write")) {
            let mut content = Vec::new();
            bytes(&mut content, 2, format!("{arguments}\n").as_bytes());
            return cpu.event(event, event::PRINT, &content);
        }
        let mut content = Vec::new();
        bytes(&mut content, 1, other.map_or("other", |other| &other.name).as_bytes());
        for (name, value) in schedlab_model::fields(&arguments) {
            let mut field = Vec::new();
            bytes(&mut field, 1, name.as_bytes());
            generic_value(&mut field, &value);
            bytes(&mut content, 2, &field);
        }
        cpu.event(event, event::GENERIC, &content);
    }
}

impl<W: Write> EventSink for PerfettoWriter<W> {
    fn begin(&mut self, _info: &TraceInfo) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        if matches!(event.what, What::Comm { .. } | What::Online { .. }) {
            // The next event that concerns the task says its name.
            return Ok(());
        }
        if !self.started {
            self.started = true;
            self.snapshot(event.time.0)?;
            self.system_info(info.kernel.as_deref())?;
        }
        let index = event.cpu.index();
        self.room(index);
        self.unknown.see(&event.what);
        self.no_contexts |= event.context == Context::Unknown;
        let lost = matches!(event.what, What::Lost { .. });
        // A bundle stores no time for a loss, so the loss does not take part in the order of events.
        let time = if lost { event.time } else { self.order.time(event) };
        let event = &Event { time, ..*event };
        if lost && self.cpus[index].count > 0 {
            // A bundle says that events were lost before it.
            self.flush_cpu(index)?;
        }
        // Of events at the same time, the compact ones are read first.
        let alone = self.reads[index].last.replace(event.time.0) != Some(event.time.0);
        let cpu = &mut self.cpus[index];
        if cpu.count == 0 {
            cpu.first = event.time.0;
        }
        cpu.count += 1;
        let name = |pid| kernel_name(pid, event.cpu, names);
        match event.what {
            What::Switch { .. } => self.switch(event, alone, names),
            What::Waking { .. } => self.waking(event, alone, names),
            What::Wakeup { pid, prio, cpu: at, new } => {
                let field = if new { event::WAKEUP_NEW } else { event::WAKEUP };
                let numbers = [(3, i32::from(prio.0)), (5, i32::from(at.0))];
                cpu.task(event, field, pid, &name(pid), &numbers);
                tell(&mut self.told, pid, name(pid));
            }
            What::Migrate { pid, from, to } => {
                let numbers = [(3, 120), (4, i32::from(from.0)), (5, i32::from(to.0))];
                cpu.task(event, event::MIGRATE, pid, &name(pid), &numbers);
                tell(&mut self.told, pid, name(pid));
            }
            What::Exit { pid } => {
                cpu.task(event, event::EXIT, pid, &name(pid), &[(3, 120)]);
                tell(&mut self.told, pid, name(pid));
            }
            What::Exec { old } => {
                let numbers = [(3, old.0)];
                cpu.task(event, event::EXEC, event.by, &name(event.by), &numbers);
            }
            What::Fork { child } => {
                cpu.fork(event, child, &name(event.by), &name(child));
                tell(&mut self.told, child, name(child));
            }
            What::Mark { pid, id, phase, request } => {
                let mark = info.marks.get(id as usize).map_or("mark", String::as_str);
                cpu.mark(event, pid, mark, phase, request);
            }
            What::Lost { count } => {
                cpu.lost = true;
                self.lost += count.map_or(0, |count| count.get().into());
                self.reads[index].running = None;
            }
            What::Comm { .. } | What::Online { .. } => {}
            What::Other { format } => self.other(event, info.others.get(usize::from(format))),
        }
        if self.cpus[index].count >= BUNDLE {
            self.flush_cpu(index)?;
        }
        Ok(())
    }

    fn arguments(&mut self, text: &str) {
        self.arguments = Some(text.to_owned());
    }

    fn end(&mut self, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].count > 0 {
                self.flush_cpu(cpu)?;
            }
        }
        for cpu in info.cpus.iter() {
            // A bundle without events says that the CPU was looked at.
            if !self.reads.get(cpu.index()).is_some_and(|reads| reads.named) {
                let mut silent = Vec::new();
                number(&mut silent, bundle::CPU, u64::from(cpu.0));
                self.packet(packet::FTRACE_EVENTS, &silent)?;
            }
        }
        self.knows_processes = info.processes.is_some();
        let mut tree = Vec::new();
        for (pid, name) in names.iter() {
            let mut thread = Vec::new();
            signed(&mut thread, 1, pid.0);
            bytes(&mut thread, 2, name.as_bytes());
            // Where it is not told which threads form a process, each stands alone.
            let process = info.processes.as_ref().and_then(|all| all.get(&pid)).unwrap_or(&pid);
            signed(&mut thread, 3, process.0);
            bytes(&mut tree, 2, &thread);
        }
        if !tree.is_empty() {
            self.packet(packet::PROCESS_TREE, &tree)?;
        }
        self.out.flush()
    }

    fn dropped(&self) -> Vec<Warning> {
        let mut dropped = arguments_left_out(self.others);
        if matches!(self.clock, Clock::Ticks(_)) {
            let what = "times are ticks of a counter, written as nanoseconds";
            dropped.push(cannot_hold(what, "record with a clock that counts time"));
        }
        if !self.is_boot() {
            let what = "times are not on Perfetto's boot clock: they keep the trace's own numbers";
            dropped.push(cannot_hold(what, ""));
        }
        if !self.knows_processes {
            let what = "each thread is written as a process: the trace does not hold which \
                threads form a process";
            dropped.push(cannot_hold(what, ""));
        }
        if self.no_contexts {
            let what = "whether an event came from an interrupt is not known: each is written as \
                if none did";
            dropped.push(cannot_hold(what, ""));
        }
        if self.lost > 0 {
            let what = format!("that {} events were lost: only where some were is kept", self.lost);
            dropped.push(cannot_hold(what, "convert to trace.dat to keep how many"));
        }
        dropped.extend(self.unknown.warnings());
        dropped.extend(self.order.warning().map(|what| cannot_hold(what, "")));
        dropped
    }
}
