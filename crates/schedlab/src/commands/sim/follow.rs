//! A model follows a recording: what the comparison gives, in words.

use crate::machines;
use anyhow::{anyhow, bail};
use schedlab_model::{Event, EventSource, Nanos, Setting, Span, TraceInfo, Warning, What};
use schedlab_sim::Hardware;
use schedlab_sim::follow::{
    Comparison, Difference, Follower, Following, HISTORY_NS, Kind, Notes, Score, phase,
};
use schedlab_timeline::notation::{self, Trace};
use schedlab_workload::{MachineName, Observed};
use std::fmt::Write as _;

/// A recording in memory.
pub(super) struct Recording {
    pub(super) info: TraceInfo,
    pub(super) events: Vec<Event>,
    /// What it tells beside the scheduler's events.
    pub(super) notes: Notes,
    /// Whether it was simulated: ticks come at multiples of their distance.
    simulated: bool,
}

impl Recording {
    /// The recording of a run.
    pub(super) fn of(seen: Observed, machine: &MachineName) -> anyhow::Result<Self> {
        let info = seen.info.ok_or_else(|| anyhow!("'{machine}' recorded no scheduler events"))?;
        let simulated = machine.kind == "sim";
        let mut notes = Notes::read(&info, &seen.events, &seen.arguments);
        let mut events = seen.events;
        events.truncate(until_undone(&info, &events));
        notes.truncate(events.len());
        Ok(Self { info, events, notes, simulated })
    }

    /// When it begins.
    pub(super) fn begins(&self) -> Nanos {
        self.events.first().map_or(Nanos::ZERO, |event| event.time)
    }

    /// A part of it as a trace of its own.
    fn part(&self, from: usize, to: usize) -> Trace {
        let events = self.events[from..to].to_vec();
        let span = events.first().zip(events.last());
        let span = span.map(|(first, last)| Span::new(first.time, last.time + Nanos(1)));
        let length = span.map_or(0, |span| span.duration().0);
        let tick = Nanos(length.div_ceil(COLUMNS).next_multiple_of(1_000).max(1_000));
        Trace { info: TraceInfo { span, ..self.info.clone() }, events, tick }
    }
}

/// How many events come before the knobs are set back: up to the last wakeup of the task that ends the guard.
fn until_undone(info: &TraceInfo, events: &[Event]) -> usize {
    let is_guard = |pid| info.comms.get(&pid).is_some_and(|comm| comm.starts_with(b"guard\0"));
    let ends = |event: &Event| matches!(event.what, What::Waking { pid, .. } if is_guard(pid));
    let Some(end) = events.iter().rposition(ends) else { return events.len() };
    let by = events[end].by;
    let wakes = |event: &Event| matches!(event.what, What::Wakeup { pid, .. } if pid == by);
    events[..end].iter().rposition(wakes).unwrap_or(end)
}

/// Columns of a timeline in text.
const COLUMNS: u64 = 60;
/// Events that are shown before a difference, and after it.
const AROUND: (usize, usize) = (8, 4);
/// Events of the timeline before a difference, and after it.
const TIMELINE: (usize, usize) = (24, 12);

/// A model that follows.
pub(super) struct Follow<'f> {
    pub(super) on: &'f MachineName,
    pub(super) settings: &'f [Setting],
}

impl Follow<'_> {
    pub(super) fn follow(&self, recording: &Recording) -> anyhow::Result<Comparison> {
        let mut model = machines::model(self.on)?;
        for Setting { knob, value } in self.settings {
            model.set(knob, value).map_err(|why| anyhow!("{}: {knob}={value}: {why}", self.on))?;
        }
        if recording.events.is_empty() {
            bail!("the recording has no scheduler events");
        }
        let tick = 1_000_000_000 / model.hz;
        let found = if recording.simulated { Some(0) } else { phase(&recording.events, tick) };
        let hardware = Hardware::new(model.topology.clone());
        let policy = model.policy(&hardware, 0);
        let from_the_start = recording.simulated;
        let following = Following { sync: true, from_the_start, ..Following::new(tick, found) };
        let follower = Follower::new(following, hardware, policy, &recording.info)?;
        Ok(follower.follow(&recording.events, &recording.notes)?)
    }
}

/// How many decisions were compared.
pub(super) fn table(comparison: &Comparison) -> String {
    let mut text =
        String::from("| decision | same | different | not compared |\n|---|---|---|---|\n");
    for (kind, count) in &comparison.counts {
        let name = Kind::name(*kind);
        let _ =
            writeln!(text, "| {name} | {} | {} | {} |", count.same, count.different, count.skipped);
    }
    for ((kind, why), count) in &comparison.reasons {
        let _ = writeln!(text, "Not compared, {}: {count}, since {why}.", kind.name());
    }
    text
}

/// How many wakeups counted, and why others did not.
pub(super) fn counted(all: &Score) -> String {
    format!(
        "Wakeups: {} counted. Not counted: {} in the first {} s, {} first wakeups, {} of tasks bound to a CPU, {} on \
         which the naive rules agree, {} for which the kernel chose no CPU.",
        all.counted,
        all.early,
        HISTORY_NS / 1_000_000_000,
        all.new,
        all.bound,
        all.agreed,
        all.stayed
    )
}

/// How often each naive rule and the model are right, and the score; `how` tells which wakeups count as sync.
pub(super) fn scores(how: &str, score: &Score) -> String {
    let mut text = String::from("| | right | share |\n|---|---|---|\n");
    let share = |right: u64| 100.0 * right as f64 / score.counted.max(1) as f64;
    let rules = ["previous CPU", "waker's CPU", "first idle CPU"];
    for (rule, right) in rules.iter().zip(score.naive) {
        let _ = writeln!(text, "| {rule} | {right} | {:.1} % |", share(right));
    }
    let _ = writeln!(text, "| model, {how} | {} | {:.1} % |", score.model, share(score.model));
    let none = || "none, since a naive rule is always right".to_owned();
    let value = score.value().map_or_else(none, |value| format!("{value:.2}"));
    let _ = writeln!(text, "Score with {how}: {value}");
    text
}

/// All differences, a line each.
pub(super) fn list(comparison: &Comparison, recording: &Recording) -> String {
    let mut text = String::new();
    for of in &comparison.differences {
        let at = (of.at - recording.begins()).0 as f64 / 1e3;
        let kind = of.kind.name();
        let _ = writeln!(text, "{at:12.1} µs  {kind}: {}; model: {}", of.recorded, of.model);
    }
    text
}

/// The first difference, with what led to it.
pub(super) fn explain(first: &Difference, recording: &Recording) -> String {
    let begins = recording.begins();
    let since = |at: Nanos| (at - begins).0 as f64 / 1e3;
    let mut text = format!(
        "First difference: {}, on CPU {}, {:.1} µs after the recording begins\n  recorded: {}\n  model:    {}\n",
        first.kind.name(),
        first.cpu,
        since(first.at),
        first.recorded,
        first.model
    );
    text.push_str("CPU ");
    let _ = writeln!(text, "{} as the model sees it:", first.cpu);
    for line in &first.state {
        let _ = writeln!(text, "  {line}");
    }
    text.push_str("Events:\n");
    let all = recording.events.len();
    let shown = first.event.saturating_sub(AROUND.0)..(first.event + AROUND.1).min(all);
    for (at, event) in recording.events.iter().enumerate().take(shown.end).skip(shown.start) {
        let here = if at == first.event { ">" } else { " " };
        let _ = writeln!(
            text,
            "{here} {:12.1} µs  CPU {}  by {}  {}",
            since(event.time),
            event.cpu,
            event.by,
            what(event)
        );
    }
    let part =
        recording.part(first.event.saturating_sub(TIMELINE.0), (first.event + TIMELINE.1).min(all));
    if let Ok(picture) = notation::print(&mut part.source(), part.tick) {
        let _ = writeln!(text, "Timeline, {} a column:\n{picture}", part.tick);
    }
    text
}

fn what(event: &Event) -> String {
    match event.what {
        What::Switch { prev, left, next, .. } => {
            let how = if left.is_runnable() { "stays runnable" } else { "sleeps or ends" };
            format!("switch from {prev}, which {how}, to {next}")
        }
        What::Waking { pid, last_cpu, .. } => {
            format!("{pid}, last on CPU {last_cpu}, is about to wake")
        }
        What::Wakeup { pid, cpu, new, .. } => {
            let new = if new { " for the first time" } else { "" };
            format!("{pid} wakes on CPU {cpu}{new}")
        }
        What::Migrate { pid, from, to } => format!("{pid} moves from CPU {from} to CPU {to}"),
        What::Fork { child } => format!("fork of {child}"),
        What::Exit { pid } => format!("{pid} ends"),
        _ => "another event".to_owned(),
    }
}

/// Events that pictures are drawn of.
pub(super) struct Stream<'r> {
    recording: &'r Recording,
    told: bool,
}

impl<'r> Stream<'r> {
    pub(super) fn of(recording: &'r Recording) -> Self {
        Self { recording, told: false }
    }
}

impl EventSource for Stream<'_> {
    fn info(&self) -> &TraceInfo {
        &self.recording.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> std::io::Result<bool> {
        batch.clear();
        if !std::mem::replace(&mut self.told, true) {
            batch.extend_from_slice(&self.recording.events);
        }
        Ok(!batch.is_empty())
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}
