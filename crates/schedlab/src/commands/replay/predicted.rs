//! What the changed machine will do, with the band that counterfactuals on a real kernel gave.

use super::runs::Runs;
use crate::machines;
use crate::output::folded;
use schedlab_model::Nanos;
use schedlab_model::table::TextTable;
use schedlab_replay::Side;
use schedlab_replay::calibration::{BANDS, Prediction};
use schemars::JsonSchema;
use serde::Serialize;

/// A figure of the changed machine: the recorded value, changed as the replay changes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Predicted {
    /// `run_delay_mean`, `run_delay_p50` and `run_delay_p99` are nanoseconds; `switches_per_s`.
    figure: &'static str,
    value: f64,
    /// The band that held 90 % of counterfactuals on a real kernel.
    low: f64,
    high: f64,
    /// The part of held-out counterfactuals that such a band held.
    coverage: f64,
}

/// The predictions; none without a change, or if another machine than a simulated one performed it.
pub(super) fn of(runs: &Runs) -> Vec<Predicted> {
    let Some(changed) = runs.changed.as_ref().filter(|run| run.machine.kind == machines::SIM)
    else {
        return Vec::new();
    };
    let [from, to] = [runs.cut.from, runs.cut.to].map(Option::unwrap_or_default);
    let seconds = to.0.saturating_sub(from.0) as f64 / 1e9;
    let of = |side: &Side, figure: &str| figure_of(side, figure, seconds);
    let predicted = |Prediction { band, value, low, high }| Predicted {
        figure: band.figure,
        value,
        low,
        high,
        coverage: band.coverage,
    };
    let predict = |band: schedlab_replay::calibration::Band| {
        let [recorded, replayed, changed] =
            [&runs.recorded, &runs.replayed.side, &changed.side].map(|side| of(side, band.figure));
        predicted(band.predict(recorded, replayed, changed))
    };
    BANDS.into_iter().map(predict).collect()
}

fn figure_of(side: &Side, figure: &str, seconds: f64) -> f64 {
    let delays = &side.total.run_delay;
    match figure {
        "run_delay_mean" => side.waited.0 as f64 / delays.count().max(1) as f64,
        "run_delay_p50" => delays.quantile(0.5).unwrap_or(0) as f64,
        "run_delay_p99" => delays.quantile(0.99).unwrap_or(0) as f64,
        _ => side.switches as f64 / seconds.max(1e-9),
    }
}

/// Predictions whose band is wider than this factor say nothing to people.
const WIDE: f64 = 100.0;

/// The same as text in lines of `room` characters.
pub(super) fn text(runs: &Runs, room: usize) -> String {
    let all = of(runs);
    if all.is_empty() {
        return String::new();
    }
    let (narrow, wide): (Vec<_>, Vec<_>) =
        all.iter().partition(|one| one.high <= one.low * WIDE && one.low > 0.0);
    let name = |one: &Predicted| one.figure.replace('_', " ").replace(" per s", " in a second");
    let mut text = String::new();
    if !narrow.is_empty() {
        let mut table =
            TextTable::new(&["<predicted", "value", "90 % band: from", "90 % band: to", "held"]);
        for one in narrow {
            let cell = |value: f64| match one.figure {
                "switches_per_s" => format!("{value:.0}"),
                _ => Nanos(value.round() as u64).readable(),
            };
            let held = format!("{:.0} %", 100.0 * one.coverage);
            table.row(vec![name(one), cell(one.value), cell(one.low), cell(one.high), held]);
        }
        let bands = "The bands come from counterfactuals on Linux 6.1 and 6.12 with one CPU; 'held' is the \
                     share of held-out ones within them.";
        text = table.text(0, room) + &folded(bands, 0, room);
    }
    if !wide.is_empty() {
        let names: Vec<String> = wide.into_iter().map(name).collect();
        let names = names.join(", ");
        let why = format!("the 90 % band is wider than a factor of {WIDE}");
        text += &folded(&format!("Not predicted, since {why}: {names}"), 2, room);
    }
    text + "\n"
}
