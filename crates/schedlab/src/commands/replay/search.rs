//! `schedlab replay --search`: a value is picked on the first half of the trace and judged on the second.

use super::runs::{ReplayPlan, perform};
use crate::commands::UsageError;
use schedlab_model::table::TextTable;
use schedlab_model::{Nanos, Setting};
use schedlab_replay::{Inferred, Side};
use schedlab_timeline::Cut;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Replays of each candidate, at other phases of the tick.
const REPEATS: u32 = 3;

/// A candidate: nothing changed, or a setting; with its run delay in each repeat of both halves.
struct Candidate {
    setting: Option<Setting>,
    picked_on: Vec<u64>,
    judged_on: Vec<u64>,
}

fn median(values: &[u64]) -> u64 {
    let values = values.iter().map(|&time| time as f64);
    schedlab_stats::median(values).unwrap_or(0.0).round() as u64
}

/// Prints the candidates in lines of `room` characters, and the winner.
pub(super) fn run(
    inferred: &Inferred,
    plan: &ReplayPlan,
    search: &str,
    room: usize,
) -> anyhow::Result<ExitCode> {
    let form = "--search takes NAME=VALUE,VALUE, as in base_slice=1ms,3ms";
    let (knob, values) = search.split_once('=').ok_or_else(|| UsageError(form.to_owned()))?;
    let setting = |value: &str| Setting { knob: knob.to_owned(), value: value.to_owned() };
    let settings = std::iter::once(None).chain(values.split(',').map(|value| Some(setting(value))));
    let machine = plan.change.as_ref().map_or(&plan.base, |(machine, _)| machine);
    let from = plan.warm_up;
    let to = inferred.demand.length;
    let half = Nanos(from.0.midpoint(to.0));
    let mut candidates = Vec::new();
    for setting in settings {
        let mut candidate = Candidate { setting, picked_on: Vec::new(), judged_on: Vec::new() };
        for repeat in 0..REPEATS {
            let changed: Vec<Setting> = candidate.setting.iter().cloned().collect();
            let changed = plan.with_recorded(machine, &changed)?;
            let mut source = perform(inferred, machine, &changed, repeat)?;
            let mut waited = |from, to| -> anyhow::Result<u64> {
                source.rewind();
                let cut = Cut { from: Some(from), to: Some(to) };
                Ok(Side::of(&mut source, cut, false)?.total.run_delay.quantile(0.99).unwrap_or(0))
            };
            candidate.picked_on.push(waited(from, half)?);
            candidate.judged_on.push(waited(half, to)?);
        }
        candidates.push(candidate);
    }
    let text = text(&candidates, &machine.to_string(), room);
    crate::commands::trace::form::print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The candidate with the least run delay on the first half. It must be better than each repeat without a change; else
/// the winner is the first candidate, which changes nothing.
fn winner(candidates: &[Candidate]) -> usize {
    let none = candidates[0].picked_on.iter().copied().min().unwrap_or(0);
    let best = (1..candidates.len()).min_by_key(|&at| median(&candidates[at].picked_on));
    best.filter(|&at| median(&candidates[at].picked_on) < none).unwrap_or(0)
}

fn name(candidate: &Candidate) -> String {
    candidate.setting.as_ref().map_or("none".to_owned(), Setting::to_string)
}

fn text(candidates: &[Candidate], machine: &str, room: usize) -> String {
    let mut table =
        TextTable::new(&["<change", "run delay p99: picked on", "run delay p99: judged on"]);
    for one in candidates {
        let cell = |values: &[u64]| Nanos(median(values)).readable();
        table.row(vec![name(one), cell(&one.picked_on), cell(&one.judged_on)]);
    }
    let best = winner(candidates);
    let mut text = format!("{machine}: the median of {REPEATS} replays\n") + &table.text(0, room);
    let judged = |at: usize| median(&candidates[at].judged_on) as f64;
    let gain = 100.0 * (1.0 - judged(best) / judged(0).max(1.0));
    let _ = match best {
        0 => {
            writeln!(text, "No value wins: no change is better than each replay without a change.")
        }
        best => writeln!(
            text,
            "The winner is {}: run delay p99 is {gain:.1} % less on the half that did not choose it.",
            name(&candidates[best])
        ),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(value: Option<&str>, picked_on: [u64; 3]) -> Candidate {
        let setting = |value: &str| Setting { knob: "k".into(), value: value.into() };
        let picked_on = picked_on.to_vec();
        Candidate { setting: value.map(setting), judged_on: picked_on.clone(), picked_on }
    }

    #[test]
    fn among_equal_candidates_the_winner_is_none() {
        let none = || candidate(None, [100, 90, 110]);
        assert_eq!(winner(&[none(), candidate(Some("1"), [95, 95, 95])]), 0);
        assert_eq!(winner(&[none(), candidate(Some("1"), [90, 90, 90])]), 0);
        assert_eq!(winner(&[none(), candidate(Some("1"), [89, 80, 99])]), 1);
        assert_eq!(winner(&[none()]), 0);
    }
}
