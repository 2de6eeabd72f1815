//! Figures of a run from its trace, so that they can be compared, mapped and named in `measure` like
//! those that the load itself tells.

use crate::store::RunWriter;
use schedlab_model::Warning;
use schedlab_timeline::{Latency, Tasks, ask};
use schedlab_workload::{Figure, Output as _, metrics};
use std::path::Path;

/// Stores what a recorded run's trace says about all tasks together: wakeup latency and run delay,
/// switches and migrations, under names that begin with `trace_`. A trace that can't be read is a doubt.
///
/// # Errors
/// When a figure can't be stored.
pub(crate) fn take_figures(trace: &Path, writer: &mut RunWriter<'_>) -> std::io::Result<()> {
    if !trace.is_file() {
        return Ok(());
    }
    let reply = schedlab_trace::open(trace)
        .map_err(std::io::Error::other)
        .and_then(|mut source| ask(source.as_mut(), (Latency::new(), Tasks::new())));
    let (latency, tasks) = match reply {
        Ok(reply) => {
            reply.warnings.into_iter().for_each(|warning| writer.warning(warning));
            reply.answer
        }
        Err(error) => {
            let what = format!("the trace can't be read: {error}");
            writer.warning(Warning::new("trace-unread", what, "see `schedlab trace info`"));
            return Ok(());
        }
    };
    let delays =
        [("wakeup_latency", &latency.total.wakeup), ("run_delay", &latency.total.run_delay)];
    for (name, histogram) in delays {
        for (quantile, q) in metrics::QUANTILES {
            let Some(value) = histogram.quantile(q) else { continue };
            tell(writer, &format!("trace_{name}_ns_{quantile}"), value)?;
        }
    }
    let sum = |of: fn(&schedlab_timeline::TaskRow) -> u64| tasks.rows.iter().map(of).sum::<u64>();
    let counts = [
        ("switches_voluntary", sum(|row| row.voluntary)),
        ("switches_involuntary", sum(|row| row.involuntary)),
        ("migrations", sum(|row| row.migrations)),
    ];
    for (name, value) in counts {
        tell(writer, &format!("trace_{name}"), value)?;
    }
    Ok(())
}

fn tell(writer: &mut RunWriter<'_>, name: &str, value: u64) -> std::io::Result<()> {
    let metric = metrics::metric(name);
    writer.figure(Figure { metric, of: String::new(), value: value as f64 })
}
