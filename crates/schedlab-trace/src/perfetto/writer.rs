//! Writes Perfetto's protobuf: switches and wakings compactly, the rest as events (tracepoints beyond
//! the scheduler's as generic ones), bundle by bundle.
//!
//! Memory: one bundle of events for each CPU, and the names of tasks for the process tree at the end.

use super::wire::{bytes, number, signed, varint};
use super::{
    BUILTIN_BOOTTIME, BUILTIN_MONOTONIC, CLOCK_GLOBAL, bundle, compact, event, packet, trace,
};
use crate::convert::{EventSink, TaskNames, arguments_left_out, cannot_hold};
use crate::encode::state;
use schedlab_model::{Clock, Context, Event, Phase, Pid, TraceInfo, Warning, What};
use std::io::{self, Write};

/// Events of a CPU that make a bundle.
const BUNDLE: usize = 1024;

/// Writes a trace for Perfetto.
pub(crate) struct PerfettoWriter<W: Write> {
    out: W,
    clock: Clock,
    cpus: Vec<Bundle>,
    started: bool,
    others: u64,
    /// Of the next event.
    arguments: Option<String>,
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
        Self { out, clock, cpus: Vec::new(), started: false, others: 0, arguments: None }
    }

    fn is_boot(&self) -> bool {
        matches!(&self.clock, Clock::Nanoseconds(name) if name == "boot")
    }

    fn packet(&mut self, field: u32, content: &[u8]) -> io::Result<()> {
        let mut body = Vec::new();
        bytes(&mut body, field, content);
        number(&mut body, packet::TRUSTED_PACKET_SEQUENCE_ID, 1);
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

    fn flush_cpu(&mut self, cpu: usize) -> io::Result<()> {
        let done = std::mem::take(&mut self.cpus[cpu]);
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

    /// The number of a name in this bundle.
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

impl Bundle {
    fn fork(&mut self, event: &Event, child: Pid, parent: &str, name: &str) {
        let mut content = Vec::new();
        bytes(&mut content, 1, parent.as_bytes());
        signed(&mut content, 2, event.by.0);
        bytes(&mut content, 3, name.as_bytes());
        signed(&mut content, 4, child.0);
        self.event(event, event::FORK, &content);
    }

    /// As user space writes slices into `trace_marker`.
    fn mark(&mut self, event: &Event, pid: Pid, name: &str, phase: Phase) {
        let letter = match phase {
            Phase::Begin => "B",
            Phase::End => "E",
            Phase::Point => "I",
        };
        let mut content = Vec::new();
        bytes(&mut content, 2, format!("{letter}|{pid}|{name}\n").as_bytes());
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
        Context::Task => 0,
        Context::SoftIrq => 0x10,
        Context::HardIrq => 0x08,
        Context::Nmi => 0x40,
    }
}

/// The name as the kernel has it: the idle task's differs by CPU.
fn kernel_name(pid: Pid, cpu: schedlab_model::Cpu, names: &TaskNames) -> String {
    if pid.is_idle() { format!("swapper/{cpu}") } else { names.get(pid).to_owned() }
}

impl<W: Write> EventSink for PerfettoWriter<W> {
    fn begin(&mut self, _info: &TraceInfo) -> io::Result<()> {
        Ok(())
    }

    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        if !self.started {
            self.started = true;
            self.snapshot(event.time.0)?;
        }
        let index = event.cpu.index();
        if index >= self.cpus.len() {
            self.cpus.resize_with(index + 1, Bundle::default);
        }
        if matches!(event.what, What::Lost { .. }) && self.cpus[index].count > 0 {
            // A bundle says that events were lost before it.
            self.flush_cpu(index)?;
        }
        let cpu = &mut self.cpus[index];
        if cpu.count == 0 {
            cpu.first = event.time.0;
        }
        cpu.count += 1;
        let name = |pid| kernel_name(pid, event.cpu, names);
        match event.what {
            What::Switch { left, next, next_prio, .. } => {
                let comm = cpu.name(&name(next));
                let values = [state(left), small(next.0), small(next_prio.0.into()), comm];
                cpu.switches.push(event.time.0, values);
            }
            What::Waking { pid, prio, last_cpu } => {
                let comm = cpu.name(&name(pid));
                let (prio, flags) = (small(prio.0.into()), flags(event.context));
                let values = [small(pid.0), u64::from(last_cpu.0), prio, comm, flags];
                cpu.wakings.push(event.time.0, values);
            }
            What::Wakeup { pid, prio, cpu: at, new } => {
                let field = if new { event::WAKEUP_NEW } else { event::WAKEUP };
                let numbers = [(3, i32::from(prio.0)), (5, i32::from(at.0))];
                cpu.task(event, field, pid, &name(pid), &numbers);
            }
            What::Migrate { pid, from, to } => {
                let numbers = [(3, 120), (4, i32::from(from.0)), (5, i32::from(to.0))];
                cpu.task(event, event::MIGRATE, pid, &name(pid), &numbers);
            }
            What::Exit { pid } => cpu.task(event, event::EXIT, pid, &name(pid), &[(3, 120)]),
            What::Exec { old } => {
                let numbers = [(3, old.0)];
                cpu.task(event, event::EXEC, event.by, &name(event.by), &numbers);
            }
            What::Fork { child } => cpu.fork(event, child, &name(event.by), &name(child)),
            What::Mark { pid, id, phase } => {
                let mark = info.marks.get(id as usize).map_or("mark", String::as_str);
                cpu.mark(event, pid, mark, phase);
            }
            What::Lost { .. } => cpu.lost = true,
            What::Comm { .. } => cpu.count -= 1,
            What::Other { format } => {
                self.others += u64::from(self.arguments.is_none());
                let arguments = self.arguments.take().unwrap_or_default();
                let other = info.others.get(usize::from(format));
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
        if self.cpus[index].count >= BUNDLE {
            self.flush_cpu(index)?;
        }
        Ok(())
    }

    fn arguments(&mut self, text: &str) {
        self.arguments = Some(text.to_owned());
    }

    fn end(&mut self, names: &TaskNames, _info: &TraceInfo) -> io::Result<()> {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].count > 0 {
                self.flush_cpu(cpu)?;
            }
        }
        let mut tree = Vec::new();
        for (pid, name) in names.iter() {
            let mut thread = Vec::new();
            signed(&mut thread, 1, pid.0);
            bytes(&mut thread, 2, name.as_bytes());
            // The events don't say which threads form a process.
            signed(&mut thread, 3, pid.0);
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
            let what = "times are ticks of a counter and shown as nanoseconds";
            dropped.push(cannot_hold(what, "record with a clock that counts time"));
        }
        if !self.is_boot() {
            let what = "Perfetto's time is the boot clock: the trace's own numbers stand in for it";
            dropped.push(cannot_hold(what, ""));
        }
        let what = "which threads form a process is unknown: each stands alone";
        dropped.push(cannot_hold(what, ""));
        dropped
    }
}
