//! Writing a run directory: the [`Output`] that a machine sees.

use super::{Manifest, StoreError};
use schedlab_model::{Event, Metric, TraceInfo, Warning};
use schedlab_trace::EventWriter;
use schedlab_trace::dat::{Compression, Version};
use schedlab_workload::{Figure, Interval, Output, Stream};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Files of a run that hold one value a line.
pub(super) const FIGURES: &str = "figures.jsonl";
pub(super) const INTERVALS: &str = "intervals.jsonl";
pub(super) const WARNINGS: &str = "warnings.jsonl";

/// A figure as it is stored, one a line.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct FigureLine {
    /// The label of what ran beside; absent for the run's own workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) of: String,
    /// The metric, with its unit.
    pub(crate) metric: Metric,
    /// `null` where the value is not finite: JSON has no word for it.
    pub(crate) value: Option<f64>,
}

/// An interval as it is stored, one a line.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct IntervalLine {
    /// The label of what ran beside; absent for the run's own workload.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) of: String,
    /// The interval that was measured.
    #[serde(flatten)]
    pub(crate) interval: Interval,
}

/// When a finished run is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durable {
    /// Before it has its name.
    Each,
    /// With others of its batch. What a power cut leaves of a run is found by the counts in its manifest,
    /// and the run is done again.
    Batch,
}

/// A run directory being written. Dropped without [`RunWriter::finish`] it is removed.
pub(crate) struct RunWriter<'s> {
    temporary: PathBuf,
    wanted: PathBuf,
    figures: io::BufWriter<File>,
    /// How many were stored.
    count: usize,
    /// Kept in memory until the run has ended: writing them meanwhile would be load.
    intervals: Vec<IntervalLine>,
    warnings: Vec<Warning>,
    /// The trace of a machine that gives events.
    trace: Option<EventWriter>,
    stop: &'s dyn Fn() -> bool,
    finished: bool,
}

impl<'s> RunWriter<'s> {
    /// Begins the run directory `name` under `results`; `stop` tells whether the user wants to stop.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(crate) fn create(
        results: &Path,
        name: &str,
        stop: &'s dyn Fn() -> bool,
    ) -> Result<Self, StoreError> {
        let runs = results.join("runs");
        let temporary = runs.join(format!(".tmp-{name}-{}", std::process::id()));
        fs::create_dir_all(&temporary).map_err(|e| StoreError::io(&temporary, e))?;
        let path = temporary.join(FIGURES);
        // Plain: the folder is hidden until the run is whole.
        let file = File::create(&path).map_err(|e| StoreError::io(&path, e))?;
        Ok(Self {
            wanted: runs.join(name),
            temporary,
            figures: io::BufWriter::new(file),
            count: 0,
            intervals: Vec::new(),
            warnings: Vec::new(),
            trace: None,
            stop,
            finished: false,
        })
    }

    /// The warnings so far.
    #[must_use]
    pub(crate) fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The folder while it is being written.
    #[must_use]
    pub(crate) fn folder(&self) -> &Path {
        &self.temporary
    }

    /// Completes the trace of a machine that gave events, so that it can be read.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn finish_trace(&mut self) -> io::Result<()> {
        self.trace.take().map_or(Ok(()), EventWriter::finish)
    }

    /// Completes the directory and gives it its name. With [`Durable::Each`] all is on disk before the name
    /// is, so that a directory with a proper name is complete even after a power cut.
    ///
    /// # Errors
    /// When something cannot be written; the run then counts as not done.
    pub(crate) fn finish(
        mut self,
        manifest: &Manifest,
        durable: Durable,
    ) -> Result<PathBuf, StoreError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| StoreError::Io { path, error }
        };
        let here = self.temporary.clone();
        self.finish_trace().map_err(failed(&here))?;
        self.figures.flush().map_err(failed(&here))?;
        if durable == Durable::Each {
            self.figures.get_ref().sync_all().map_err(failed(&here))?;
        }
        write_lines(&here.join(INTERVALS), &self.intervals, durable)?;
        write_lines(&here.join(WARNINGS), &self.warnings, durable)?;
        let counts = [
            (FIGURES, self.count),
            (INTERVALS, self.intervals.len()),
            (WARNINGS, self.warnings.len()),
        ];
        let lines = counts.map(|(file, count)| (file.to_owned(), count)).into();
        let manifest = Manifest { lines, ..manifest.clone() };
        let mut text = serde_json::to_string_pretty(&manifest).expect("manifests are plain values");
        text.push('\n');
        write(&here.join("manifest.json"), text.as_bytes(), durable)?;
        // The same run may be there from an earlier attempt: one that had a warning gives way, one that failed is
        // kept, since failures are counted.
        if self.wanted.exists() {
            match manifest.failed_before {
                0 => fs::remove_dir_all(&self.wanted).map_err(failed(&self.wanted))?,
                count => {
                    let name = self.wanted.file_name().unwrap_or_default().to_string_lossy();
                    let kept = self.wanted.with_file_name(format!(".failed-{name}-{count}"));
                    fs::rename(&self.wanted, &kept).map_err(failed(&kept))?;
                }
            }
        }
        fs::rename(&here, &self.wanted).map_err(failed(&self.wanted))?;
        if let Some(runs) = self.wanted.parent().filter(|_| durable == Durable::Each) {
            File::open(runs).and_then(|folder| folder.sync_all()).map_err(failed(runs))?;
        }
        self.finished = true;
        Ok(self.wanted.clone())
    }
}

/// Writes a file that others may read meanwhile: the old one or the whole new one is there.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    schedlab_trace::write_file(path, bytes).map_err(|e| StoreError::io(path, e))
}

fn write(path: &Path, bytes: &[u8], durable: Durable) -> Result<(), StoreError> {
    // Plain: the folder is hidden until the run is whole.
    let written = File::create(path).and_then(|mut file| {
        file.write_all(bytes)?;
        if durable == Durable::Each { file.sync_all() } else { Ok(()) }
    });
    written.map_err(|e| StoreError::io(path, e))
}

/// A value a line; no values, no file.
fn write_lines<T: Serialize>(
    path: &Path,
    values: &[T],
    durable: Durable,
) -> Result<(), StoreError> {
    let mut lines = String::new();
    for value in values {
        lines.push_str(&serde_json::to_string(value).expect("they are plain values"));
        lines.push('\n');
    }
    if lines.is_empty() { Ok(()) } else { write(path, lines.as_bytes(), durable) }
}

impl Drop for RunWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing can be done about a folder that will not go; nobody reads its name.
            let _ = fs::remove_dir_all(&self.temporary);
        }
    }
}

impl Output for RunWriter<'_> {
    fn path(&mut self, stream: Stream) -> PathBuf {
        self.temporary.join(match stream {
            Stream::Trace => "trace.dat",
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        })
    }

    fn trace(&mut self, info: &TraceInfo) -> io::Result<()> {
        let path = self.path(Stream::Trace);
        let writer = EventWriter::create_as(&path, info, Version::V6, Compression::None)?;
        self.trace = Some(writer);
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> io::Result<()> {
        self.trace.as_mut().map_or(Ok(()), |trace| trace.events(events))
    }

    fn events_with(&mut self, events: &[Event], arguments: &[String]) -> io::Result<()> {
        let trace = self.trace.as_mut();
        trace.map_or(Ok(()), |trace| trace.events_with(events, arguments))
    }

    fn figure(&mut self, figure: Figure) -> io::Result<()> {
        let value = figure.value.is_finite().then_some(figure.value);
        let line = FigureLine { of: figure.of, metric: figure.metric, value };
        serde_json::to_writer(&mut self.figures, &line)?;
        self.count += 1;
        self.figures.write_all(b"\n")
    }

    fn interval(&mut self, interval: &Interval) {
        self.interval_beside("", interval);
    }

    fn interval_beside(&mut self, label: &str, interval: &Interval) {
        // Intervals add up to what is covered; only the last need tell the whole.
        let mut interval = interval.clone();
        if !interval.last {
            interval.total.clear();
        }
        self.intervals.push(IntervalLine { of: label.to_owned(), interval });
    }

    fn warning(&mut self, warning: Warning) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn stopped(&self) -> bool {
        (self.stop)()
    }
}
