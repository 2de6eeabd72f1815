//! What a run told, in memory.

use crate::metrics::QUANTILES;
use crate::{Figure, Interval, Output, Stream};
use schedlab_model::{Event, TraceInfo, Warning};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Figures of the whole run, and its events if it was recorded. As an [`Output`] it has no folder: it is for machines
/// that write no files.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Figures of the whole run, by name; without those of workloads beside it.
    pub figures: BTreeMap<String, f64>,
    /// Figures of one role of the tasks, by name and role, with the quantiles of its series; without those of workloads
    /// beside it.
    pub of_roles: BTreeMap<(String, String), f64>,
    /// What is known of the trace; `None`: nothing was recorded.
    pub info: Option<TraceInfo>,
    /// Scheduler events, in order of time.
    pub events: Vec<Event>,
    /// The arguments of the tracepoints beyond the scheduler's among them, in their order, where the machine tells them.
    pub arguments: Vec<String>,
}

impl Output for Observed {
    fn path(&mut self, _: Stream) -> PathBuf {
        PathBuf::new()
    }

    fn figure(&mut self, figure: Figure) -> io::Result<()> {
        match figure.of.is_empty() {
            true => self.figures.insert(figure.metric.name, figure.value),
            false => self.of_roles.insert((figure.metric.name, figure.of), figure.value),
        };
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) {
        for series in interval.total.iter().filter(|_| interval.last) {
            for (name, q) in QUANTILES {
                if let Some(value) = series.histogram.quantile(q) {
                    let name = format!("{}_{name}", series.metric.name);
                    self.of_roles.insert((name, series.of.clone()), value as f64);
                }
            }
        }
    }

    fn trace(&mut self, info: &TraceInfo) -> io::Result<()> {
        self.info = Some(info.clone());
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> io::Result<()> {
        self.events.extend_from_slice(events);
        Ok(())
    }

    fn events_with(&mut self, events: &[Event], arguments: &[String]) -> io::Result<()> {
        self.arguments.extend_from_slice(arguments);
        self.events(events)
    }

    fn warning(&mut self, _: Warning) {}

    fn stopped(&self) -> bool {
        false
    }
}
