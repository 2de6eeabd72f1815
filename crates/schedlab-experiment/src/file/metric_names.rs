//! Names of metrics in experiment files.

use super::decode::{Decoder, nearest};
use crate::run_metrics;
use std::ops::Range;

/// Names of metrics that no run stores.
pub(super) fn unmeasured(
    decoder: &mut Decoder<'_>,
    place: &Range<usize>,
    key: &str,
    metrics: &[String],
) {
    for name in metrics.iter().filter(|name| run_metrics::find(name).is_none()) {
        let near = nearest(name, &run_metrics::all())
            .map_or(String::new(), |n| format!("; did you mean {n}?"));
        let what = format!("unknown metric '{name}'{near}: docs/metrics.md lists all metrics");
        decoder.mistake(place, key, what);
    }
}
