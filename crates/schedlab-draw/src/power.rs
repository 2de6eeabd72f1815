//! Lanes along the rows of `cores`: frequencies, idle states, IPIs and timers of CPUs.

use crate::colour::Theme;
use crate::cores::Lane;
use schedlab_model::{Cpu, Nanos, Span};
use schedlab_timeline::{PowerAnswer, Within};
use std::collections::BTreeMap;

/// Colours of frequencies in a lane.
const SPEEDS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneKind {
    /// The frequency, from its first event on.
    Frequency,
    /// Idle states: the deeper, the stronger.
    Idle,
    /// The lane of IPIs and timers.
    Interrupts,
}

/// A lane from what was found in a window; without pieces if the trace has no such events.
#[must_use]
pub fn lane(kind: LaneKind, found: &PowerAnswer, window: Span, theme: &Theme) -> Lane {
    match kind {
        LaneKind::Frequency => frequencies(found, window, theme),
        LaneKind::Idle => idle_states(found, theme),
        LaneKind::Interrupts => interrupts(found, theme),
    }
}

/// A frequency in words: `3.20 GHz`.
#[must_use]
pub(crate) fn frequency(hz: u64) -> String {
    format!("{:.2} GHz", hz as f64 / 1e9)
}

fn frequencies(found: &PowerAnswer, window: Span, theme: &Theme) -> Lane {
    let range = || found.steps.iter().map(|step| step.hz);
    let low = range().min().unwrap_or(0);
    let high = range().max().unwrap_or(0);
    let shade = |hz: u64| {
        let part = (hz - low) as f64 / (high - low).max(1) as f64;
        let top = if high > low { part } else { 1.0 };
        (top * (SPEEDS - 1) as f64).round() as usize
    };
    let colour = |hz: u64| theme.speed(shade(hz), SPEEDS);
    let mut open = BTreeMap::<Cpu, (Nanos, u64)>::new();
    let mut pieces = Vec::new();
    for step in &found.steps {
        if let Some((since, hz)) = open.insert(step.cpu, (step.at, step.hz)) {
            pieces.push((step.cpu, Span::new(since, step.at), colour(hz)));
        }
    }
    let last = |(cpu, (since, hz))| (cpu, Span::new(since, window.end.max(since)), colour(hz));
    pieces.extend(open.into_iter().map(last));
    pieces.sort_by_key(|(_, span, _)| span.start);
    let mut shades: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
    for hz in range() {
        let seen = shades.entry(shade(hz)).or_insert((hz, hz));
        *seen = (seen.0.min(hz), seen.1.max(hz));
    }
    let entry = |(shade, (from, to)): (&usize, &(u64, u64))| {
        let words = if from == to { frequency(*to) } else { frequencies_between(*from, *to) };
        (theme.speed(*shade, SPEEDS), words)
    };
    // From the highest down, as in the legend of colours by frequency.
    let mut legend: Vec<_> = shades.iter().rev().map(entry).collect();
    if let Some(first) = legend.first_mut() {
        first.1.insert_str(0, "frequency ");
    }
    Lane { legend, pieces }
}

/// Two frequencies in words: `2.40 to 2.60 GHz`.
fn frequencies_between(from: u64, to: u64) -> String {
    format!("{:.2} to {}", from as f64 / 1e9, frequency(to))
}

fn idle_states(found: &PowerAnswer, theme: &Theme) -> Lane {
    let state = |what: Within| match what {
        Within::Idle(state) => Some(state),
        Within::Ipi | Within::Timer => None,
    };
    let states: std::collections::BTreeSet<u64> =
        found.spans.iter().filter_map(|one| state(one.what)).collect();
    let deepest = states.last().copied().unwrap_or(0).max(1);
    // The shallowest is still seen on the ground: its contrast is above 3.
    let colour = |state: u64| {
        let parts = 172 + 83 * state.min(deepest) / deepest;
        theme.panel.mix(theme.muted, u8::try_from(parts).unwrap_or(u8::MAX))
    };
    let piece =
        |one: &schedlab_timeline::PowerSpan| Some((one.cpu, one.span, colour(state(one.what)?)));
    let mut pieces: Vec<_> = found.spans.iter().filter_map(piece).collect();
    pieces.sort_by_key(|(_, span, _)| span.start);
    let legend = states.iter().map(|state| (colour(*state), format!("idle state {state}")));
    Lane { legend: legend.collect(), pieces }
}

fn interrupts(found: &PowerAnswer, theme: &Theme) -> Lane {
    let kinds = [
        (Within::Ipi, theme.moved, "interrupt of another CPU (IPI)"),
        (Within::Timer, theme.events[3], "timer (hrtimer)"),
    ];
    let of = |what: Within| kinds.iter().find(|(kind, ..)| *kind == what);
    let piece = |one: &schedlab_timeline::PowerSpan| Some((one.cpu, one.span, of(one.what)?.1));
    let mut pieces: Vec<_> = found.spans.iter().filter_map(piece).collect();
    pieces.sort_by_key(|(_, span, _)| span.start);
    let met = |what: Within| found.spans.iter().any(|one| one.what == what);
    let legend = kinds.iter().filter(|(what, ..)| met(*what));
    Lane { legend: legend.map(|(_, colour, name)| (*colour, (*name).to_owned())).collect(), pieces }
}
