//! Names of metrics in experiment files.

use super::decode::{Decoder, nearest};
use crate::run_metrics::{all, find};
use schedlab_model::{Better, Unit};
use std::ops::Range;

/// Names of metrics that no run stores.
pub(super) fn unmeasured(
    decoder: &mut Decoder<'_>,
    place: &Range<usize>,
    key: &str,
    metrics: &[String],
) {
    for what in metrics.iter().filter_map(|name| unknown_metric(name)) {
        decoder.mistake(place, key, what);
    }
}

/// Why no run measures a metric of this name, with one that is alike; `None` for those of the registry.
#[must_use]
pub fn unknown_metric(name: &str) -> Option<String> {
    let plain = name.rsplit('/').next().unwrap_or(name);
    if find(plain).is_some() {
        return None;
    }
    let near = nearest(plain, &all()).map_or(String::new(), |n| format!("; did you mean {n}?"));
    Some(format!("unknown metric '{name}'{near}: docs/metrics.md lists all metrics"))
}

/// Units as files and hooks write them.
pub(crate) const UNITS: [(&str, Unit); 7] = [
    ("", Unit::Count),
    ("s", Unit::Seconds),
    ("ns", Unit::Nanoseconds),
    ("1/s", Unit::PerSecond),
    ("B", Unit::Bytes),
    ("B/s", Unit::BytesPerSecond),
    ("fraction", Unit::Fraction),
];
/// Directions as files and hooks write them.
pub(crate) const DIRECTIONS: [(&str, Better); 2] =
    [("higher", Better::Higher), ("lower", Better::Lower)];
