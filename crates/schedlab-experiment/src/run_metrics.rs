//! The metrics that a run may store, by name: those of the load, and those of its trace.
//!
//! Each total of each question to a trace ([`schedlab_timeline::totals`]) is a metric, under its name with
//! `trace_` in front. So it can be compared, mapped and named in `measure`.

use schedlab_model::{Better, Metric};
use schedlab_timeline::{Total, totals};
use schedlab_workload::metrics;
use std::sync::LazyLock;

/// The totals under the names of metrics.
pub(crate) static TOTALS: LazyLock<Vec<Total>> = LazyLock::new(|| {
    let named = |total: Total| Total { name: format!("trace_{}", total.name), ..total };
    totals().into_iter().map(named).collect()
});

/// A metric by its stored name, of the load or of the trace. `None` for names from elsewhere.
pub(crate) fn find(name: &str) -> Option<Metric> {
    let of_trace = || TOTALS.iter().find(|total| total.name == name).map(metric);
    metrics::find(name).map(|found| found.metric).or_else(of_trace)
}

/// The relative change of a metric below which two values count as equivalent.
pub(crate) fn margin(name: &str) -> f64 {
    metrics::find(name).map_or_else(|| metrics::margin(name), |found| found.margin)
}

/// Names that `measure` may hold, for suggestions.
pub(crate) fn all() -> Vec<&'static str> {
    let of_load = metrics::ENTRIES.iter().map(|entry| entry.name);
    of_load.chain(TOTALS.iter().map(|total| total.name.as_str())).collect()
}

/// What has to be asked about a metric of a hook that nobody gave a direction; `None` for others.
pub(crate) fn question(metric: &Metric) -> Option<String> {
    let is_open = metric.better == Better::Neither && find(&metric.name).is_none();
    is_open.then(|| {
        let name = &metric.name;
        format!(
            "Is more or less {name} better? Nothing says so, so there is no advice: write metric = {{ command = \
             [...], name = \"{name}\", better = \"higher\" }} (or \"lower\") in [hooks], or let the hook print \
             '{name} VALUE higher'."
        )
    })
}

pub(crate) fn metric(total: &Total) -> Metric {
    Metric::new(&total.name, total.unit, total.better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_metric_of_a_load_has_the_name_of_a_total() {
        for total in TOTALS.iter() {
            assert_eq!(metrics::find(&total.name), None, "{}", total.name);
            assert_eq!(find(&total.name).map(|metric| metric.unit), Some(total.unit));
        }
        assert_eq!(margin("trace_run_delay_ns_p99"), metrics::MARGIN_TAIL);
        assert_eq!(margin("trace_lost_cpu_time_ns"), metrics::MARGIN);
    }
}
