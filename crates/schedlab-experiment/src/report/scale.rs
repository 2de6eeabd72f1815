//! What an axis of load shows, in sentences and as a table.

use super::{Table, readable};
use crate::analysis::{Centre, Efficiency, KNEE, Scale, ScalePoint};
use schedlab_model::Unit;
use std::fmt::Write as _;

/// The curve in two sentences: from where to where, the most work in a second, and the knee.
pub(super) fn sentence(scale: &Scale) -> String {
    let Scale { axis, metric, points, .. } = scale;
    let fixed: Vec<String> =
        scale.fixed.iter().map(|(axis, value)| format!(" {axis}={value}")).collect();
    let head =
        format!("{}{}, {axis} is how much is asked and no contest", scale.workload, fixed.concat());
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return format!("{head}: at no point all runs finished.");
    };
    let at =
        |point: &ScalePoint| format!("{} at {}", centre(&point.centre, metric.unit), point.value);
    let mut out = format!("{head}: {} goes from {} to {}", metric.name, at(first), at(last));
    if let Some(best) = scale.best {
        let rate = points[best]
            .rate
            .as_ref()
            .map_or(String::new(), |rate| format!(" ({})", centre(rate, Unit::PerSecond)));
        let others: Vec<&str> =
            scale.as_good.iter().filter(|at| **at != best).map(|at| &*points[*at].value).collect();
        let others = match others[..] {
            [] => "all others do less".to_owned(),
            _ => format!("not shown to do less: {}", others.join(", ")),
        };
        let _ =
            write!(out, "; the most {} are at {}{rate}, {others}", scale.rate, points[best].value);
    }
    let percent = KNEE * 100.0;
    let _ = match scale.knee.and_then(|at| Some((&points[at], points[at].efficiency?))) {
        Some((point, found)) => write!(
            out,
            "; from {} on the efficiency is below {percent:.0} % of the first point's: {}",
            point.value,
            efficiency(&found)
        ),
        None if scale.best.is_some() => {
            write!(out, "; the efficiency stays above {percent:.0} % of the first point's")
        }
        None => Ok(()),
    };
    if !scale.missing.is_empty() {
        let _ = write!(
            out,
            "; left out, since runs failed or were cut off: {}",
            scale.missing.join(", ")
        );
    }
    out + if scale.exact { "; exact for these seeds." } else { "." }
}

/// All points: the metric and work per second with their intervals, efficiency, and where the CPUs' time went.
#[must_use]
pub fn table(scale: &Scale) -> Table {
    let Scale { axis, metric, rate, .. } = scale;
    let heads = [axis, &metric.name, rate, "efficiency", "running", "waiting", "idle CPUs"];
    let mut table = Table::new(heads.map(str::to_owned)).ranked(&[0, 0, 1, 0, 4, 3, 2]);
    for point in &scale.points {
        let known = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
        let [running, waiting, idle] = point.time.map(known);
        table.row([
            point.value.clone(),
            centre(&point.centre, metric.unit),
            point.rate.as_ref().map_or("-".to_owned(), |rate| centre(rate, Unit::PerSecond)),
            point.efficiency.as_ref().map_or("-".to_owned(), efficiency),
            running,
            waiting,
            idle,
        ]);
    }
    table
}

fn centre(centre: &Centre, unit: Unit) -> String {
    let value = readable(centre.value, unit);
    match centre.interval {
        Some((low, high)) => {
            format!("{value} [{} .. {}]", readable(low, unit), readable(high, unit))
        }
        None => value,
    }
}

fn efficiency(found: &Efficiency) -> String {
    let Efficiency { value, low, high } = *found;
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    match low == high {
        true => percent(value),
        false => format!("{} [{} .. {}]", percent(value), percent(low), percent(high)),
    }
}
