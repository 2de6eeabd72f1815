//! Metrics of a run from its trace: the totals of all questions.

use crate::run_metrics::{TOTALS, metric};
use crate::store::RunWriter;
use schedlab_model::{Nanos, Warning};
use schedlab_timeline::{About, Chosen, ask, everything, total_values};
use schedlab_workload::{Figure, Output as _};
use std::path::Path;

/// Stores the totals of a recorded run's trace, without those that `measures` refuses. A trace that cannot be
/// read is a warning.
///
/// # Errors
/// When a metric cannot be stored.
pub(crate) fn take_figures(
    trace: &Path,
    writer: &mut RunWriter<'_>,
    measures: &dyn Fn(&str) -> bool,
) -> std::io::Result<()> {
    if !trace.is_file() {
        return Ok(());
    }
    let reply =
        schedlab_trace::open(trace).map_err(std::io::Error::other).and_then(|mut source| {
            let info = source.info().clone();
            let topology = info.topology.clone();
            let about = About { info: &info, topology, chosen: Chosen::all(), min: Nanos::ZERO };
            ask(source.as_mut(), everything(&about))
        });
    let values = match reply {
        Ok(reply) => {
            reply.warnings.into_iter().for_each(|warning| writer.warning(warning));
            total_values(&reply.answer, &Chosen::all(), &reply.known)
        }
        Err(error) => {
            let what = format!("the trace cannot be read: {error}");
            writer.warning(Warning::new("trace-unread", what, "see `schedlab trace info`"));
            return Ok(());
        }
    };
    for (total, value) in TOTALS.iter().zip(values) {
        let Some(value) = value.filter(|_| measures(&total.name)) else { continue };
        writer.figure(Figure { metric: metric(total), of: String::new(), value })?;
    }
    Ok(())
}
