//! Names of metrics in experiment files.

use super::decode::Decoder;
use crate::run_metrics::unknown_metric;
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
