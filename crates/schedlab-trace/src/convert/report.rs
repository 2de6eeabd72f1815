//! The text of `trace-cmd report -t -N`: what scripts of others read.

use super::flush;
use crate::conversion_loss::{Unknown, arguments_left_out};
use crate::event_sink::EventSink;
use crate::task_names::TaskNames;
use schedlab_model::{Clock, Context, Event, Kind, Phase, TraceInfo, Warning, What, visible};
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// Stands before scheduler events of further buffers, where trace-cmd prints a buffer's name.
const OTHER_BUFFER: &str = "buffer:";

/// Writes events as `trace-cmd report` prints them.
pub(super) struct Report<W: Write> {
    out: W,
    others: u64,
    /// Of the next event.
    arguments: Option<String>,
    ticks: bool,
    unknown: Unknown,
    /// The line that is being put together.
    line: String,
}

impl<W: Write> Report<W> {
    pub(super) fn new(out: W) -> Self {
        Self {
            out,
            others: 0,
            arguments: None,
            ticks: false,
            unknown: Unknown::default(),
            line: String::new(),
        }
    }

    /// The columns before the arguments.
    fn columns(&mut self, event: &Event, name: &str, by: &str) -> fmt::Result {
        let secs = event.time.0 / 1_000_000_000;
        let nanos = event.time.0 % 1_000_000_000;
        write!(self.line, "{by:>16}-{:<5} [{:03}] ", event.by, event.cpu.0)?;
        self.line.push_str(flags(event.context));
        if self.ticks {
            // No point, so that nobody takes them for seconds.
            write!(self.line, "{}: ", event.time.0)?;
        } else {
            write!(self.line, "{secs:>5}.{nanos:09}: ")?;
        }
        write!(self.line, "{:<21} ", format!("{name}:"))
    }
}

impl<W: Write> EventSink for Report<W> {
    fn begin(&mut self, info: &TraceInfo) -> io::Result<()> {
        self.ticks = matches!(info.clock, Clock::Ticks(_));
        // The line says that all CPUs up to there were observed.
        let cpus = info.cpus.iter().count();
        match info.cpus.iter().last().filter(|last| last.index() + 1 == cpus) {
            Some(_) => writeln!(self.out, "cpus={cpus}"),
            None => Ok(()),
        }
    }

    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()> {
        match event.what {
            What::Comm { .. } => return Ok(()),
            What::Lost { count } => {
                return match count {
                    Some(count) => writeln!(self.out, "CPU:{} [{count} EVENTS DROPPED]", event.cpu),
                    None => writeln!(self.out, "CPU:{} [EVENTS DROPPED]", event.cpu),
                };
            }
            _ => {}
        }
        self.unknown.see(&event.what);
        self.line.clear();
        let other = match event.what {
            What::Other { format } => info.others.get(usize::from(format)),
            _ => None,
        };
        let kind = event.what.kind();
        let name = other.map_or(kind.name(), |other| other.name.as_str());
        self.others += u64::from(kind == Kind::Other && self.arguments.is_none());
        let by = names.get(event.by);
        let told =
            |kind: &Kind| !matches!(kind, Kind::Other | Kind::Lost | Kind::Comm | Kind::Online);
        if kind == Kind::Other && Kind::ALL.iter().filter(|k| told(k)).any(|k| k.name() == name) {
            // Of another buffer than the one that tells the story; trace-cmd puts the buffer's name there.
            self.line.push_str(OTHER_BUFFER);
            self.line.push(' ');
        }
        // A name with its pid unknown prints as trace-cmd prints it.
        let put_together = self
            .columns(event, name, by)
            .and_then(|()| arguments(&mut self.line, &event.what, event, names, info));
        put_together.expect("a String takes all that is written to it");
        self.line.push_str(&self.arguments.take().unwrap_or_default());
        // Names may hold anything, also the end of a line.
        writeln!(self.out, "{}", visible(&self.line))
    }

    fn arguments(&mut self, text: &str) {
        self.arguments = Some(text.to_owned());
    }

    fn end(&mut self, _names: &TaskNames, _info: &TraceInfo) -> io::Result<()> {
        flush(&mut self.out)
    }

    fn dropped(&self) -> Vec<Warning> {
        let mut dropped = arguments_left_out(self.others);
        dropped.extend(self.unknown.warnings());
        dropped
    }
}

/// The column of flags, of which only the context is known; none where not even that is.
const fn flags(context: Context) -> &'static str {
    match context {
        Context::Task => "..... ",
        Context::SoftIrq => "..s.. ",
        Context::HardIrq => "..h.. ",
        Context::Nmi => "..z.. ",
        Context::Unknown => "",
    }
}

/// What stands behind an event's name; empty for tracepoints beyond the scheduler's.
pub(super) fn arguments(
    out: &mut String,
    what: &What,
    event: &Event,
    names: &TaskNames,
    info: &TraceInfo,
) -> fmt::Result {
    let name = |pid| if schedlab_model::Pid::is_idle(pid) { "swapper" } else { names.get(pid) };
    match *what {
        What::Switch { prev, prev_prio, left, next, next_prio } => write!(
            out,
            "prev_comm={} prev_pid={prev} prev_prio={} prev_state={} ==> next_comm={} \
             next_pid={next} next_prio={}",
            name(prev),
            prev_prio.0,
            left.letters(),
            name(next),
            next_prio.0
        ),
        What::Waking { pid, prio, last_cpu: cpu } | What::Wakeup { pid, prio, cpu, .. } => {
            write!(out, "comm={} pid={pid} prio={} target_cpu={:03}", name(pid), prio.0, cpu.0)
        }
        What::Migrate { pid, from, to } => {
            write!(out, "comm={} pid={pid} prio=120 orig_cpu={from} dest_cpu={to}", name(pid))
        }
        What::Fork { child } => write!(
            out,
            "comm={} pid={} child_comm={} child_pid={child}",
            name(event.by),
            event.by,
            name(child)
        ),
        What::Exec { old } => {
            write!(out, "filename={} pid={} old_pid={old}", name(event.by), event.by)
        }
        What::Exit { pid } => write!(out, "comm={} pid={pid} prio=120", name(pid)),
        What::Mark { pid, id, phase, request } => {
            let phase = match phase {
                Phase::Begin => "begin",
                Phase::End => "end",
                Phase::Point => "point",
            };
            let mark = info.marks.get(id as usize).map_or("mark", String::as_str);
            write!(out, "{phase} {mark} pid={pid} request={request}")
        }
        What::Online { cpu, online } => write!(out, "cpu={cpu} online={online}"),
        What::Comm { .. } | What::Lost { .. } | What::Other { .. } => Ok(()),
    }
}
