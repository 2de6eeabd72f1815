//! The numbers that an answer has for a whole trace, each with its description.

use crate::open_waits::Open;
use crate::question::Question;
use crate::task_filter::Chosen;
use schedlab_model::{Better, Nanos, Need, Topology, TraceInfo, Unit};
use schedlab_stats::Histogram;

/// The description of one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Total {
    /// The name, with the unit where it has one (`lost_cpu_time_ns`).
    pub name: String,
    /// The unit in which [`crate::total_values`] gives it.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// Whether it grows with the length of the trace, so that two traces compare by their rates.
    pub grows: bool,
    /// The definition, a sentence.
    pub about: String,
    /// What a trace must hold for it.
    pub need: Option<Need>,
}

/// The quantiles of a histogram that are totals, with the ends of their names.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];

impl Total {
    /// A total that does not grow with the length of the trace: a quantile, a mean, a share.
    #[must_use]
    pub(crate) fn level(name: &str, unit: Unit, better: Better, about: &str) -> Self {
        let name = name.to_owned();
        let about = about.to_owned();
        Self { name, unit, better, grows: false, about, need: None }
    }

    /// A number of events.
    #[must_use]
    pub(crate) fn count(name: &str, better: Better, about: &str) -> Self {
        Self { grows: true, ..Self::level(name, Unit::Count, better, about) }
    }

    /// A sum of times. `name` ends in `_ns`.
    #[must_use]
    pub(crate) fn sum(name: &str, better: Better, about: &str) -> Self {
        Self { grows: true, ..Self::level(name, Unit::Nanoseconds, better, about) }
    }

    /// It needs this of a trace.
    #[must_use]
    pub(crate) fn needs(self, need: Need) -> Self {
        Self { need: Some(need), ..self }
    }

    /// The quantiles and the sum of a histogram of times, for which less is better; what the sum and what the
    /// distribution needs.
    #[must_use]
    pub(crate) fn times(name: &str, about: &str, sum: Need, distribution: Need) -> Vec<Self> {
        let quantile = |(end, q): (&str, f64)| {
            let name = format!("{name}_ns_{end}");
            let need = if q < 1.0 { distribution } else { sum };
            Self::level(&name, Unit::Nanoseconds, Better::Lower, about).needs(need)
        };
        let all = Self::sum(&format!("{name}_sum_ns"), Better::Lower, about).needs(sum);
        QUANTILES.into_iter().map(quantile).chain([all]).collect()
    }
}

/// The values of [`Total::times`]: of what had not ended, maximum and sum have as much as was seen.
pub(crate) fn times(ended: &Histogram, open: Open) -> impl Iterator<Item = Option<f64>> {
    let quantile = |q| if q < 1.0 { ended.quantile(q) } else { open.longest_with(ended) };
    let quantiles = QUANTILES.map(|(_, q)| quantile(q).map(|ns| ns as f64));
    quantiles.into_iter().chain([Some(open.sum_with(ended) as f64)])
}

/// What a question is made from when its totals are asked for.
#[derive(Debug)]
pub struct About<'a> {
    /// What the trace says about itself.
    pub info: &'a TraceInfo,
    /// The topology, where it is known.
    pub topology: Option<Topology>,
    /// The tasks that the question is about.
    pub chosen: Chosen,
    /// Shorter episodes of lost CPU time are left out.
    pub min: Nanos,
}

/// A question whose answer has numbers for the whole trace.
pub(crate) trait Totals: Question + Sized {
    /// The descriptions of the values, in their order.
    fn totals() -> Vec<Total>;
    /// Makes the question that gives the values.
    fn question(about: &About<'_>) -> Self;
    /// The numbers, in the order of the descriptions; `None` where the trace does not tell one.
    fn values(answer: &Self::Answer, chosen: &Chosen) -> Vec<Option<f64>>;
}
