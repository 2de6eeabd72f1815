//! The recording of a run, from before its load to the trace with its marks.

use crate::load_reports::store;
use crate::marks;
use schedlab_model::{Better, Metric, Nanos, Unit, Warning};
use schedlab_record::{self as record, Recorder};
use schedlab_sys::clock;
use schedlab_workload::{Figure, HOST, MachineError, Output, RunSpec, Stream};
use std::path::PathBuf;

/// Files of marks, each with the names of its marks by number.
pub(super) type MarkFiles = Vec<(PathBuf, Vec<String>)>;

/// The recorder around a run, where one is wanted.
pub(super) struct RunRecording {
    pub(super) recorder: Option<Recorder>,
    spool: PathBuf,
    target: PathBuf,
    /// When the recording, but not the load, ends.
    until: Option<Nanos>,
}

impl RunRecording {
    pub(super) fn start(spec: &RunSpec, out: &mut dyn Output) -> Result<Self, MachineError> {
        let target = out.path(Stream::Trace);
        let spool = record::spool_of(&target);
        let mut trace = Self { recorder: None, spool, target, until: None };
        if let Some(record) = &spec.record {
            let marks = trace.target.with_extension("marks");
            match Recorder::start_with(record, &trace.spool, Some(&marks)) {
                Ok(recorder) => {
                    trace.recorder = Some(recorder);
                    trace.until = record.time.map(|time| clock::monotonic() + time);
                }
                Err(error) if record.required => {
                    let machine = HOST.to_owned();
                    let what = "record".to_owned();
                    return Err(MachineError::NotOffered { machine, what, why: error.to_string() });
                }
                // The rest of the run is worth having; what is missing is said.
                Err(error) => out.warning(Warning::new(
                    "not-recorded",
                    error.to_string(),
                    "`schedlab doctor` says how to get the right to record",
                )),
            }
        }
        Ok(trace)
    }

    /// Where tasks put marks; only a recording needs them.
    pub(super) fn marks_path(&self) -> Option<PathBuf> {
        self.recorder.as_ref().map(|_| self.target.with_extension("marks"))
    }

    /// How long a wait may be before the recording is looked at again.
    pub(super) fn patience(&self) -> Nanos {
        Nanos::from_millis(if self.until.is_some() { 50 } else { 200 })
    }

    /// Ends the events at the recording's own time limit.
    pub(super) fn look(&self) {
        if self.until.is_some_and(|until| clock::monotonic() >= until) {
            self.recorder.iter().for_each(Recorder::pause);
        }
    }

    pub(super) fn discard(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            let _ = recorder.stop();
            let _ = std::fs::remove_dir_all(&self.spool);
        }
    }

    pub(super) fn finish(
        mut self,
        files: &MarkFiles,
        out: &mut dyn Output,
    ) -> Result<(), MachineError> {
        let Some(recorder) = self.recorder.take() else { return Ok(()) };
        let failed = |doing: &str| {
            let doing = doing.to_owned();
            move |error: record::RecordError| {
                MachineError::io(doing, std::io::Error::other(error.to_string()))
            }
        };
        recorder.stop().map_err(failed("stopping the recorder"))?;
        let marks = marks::gather(files).map_err(|e| MachineError::io("reading marks", e))?;
        for (path, _) in files {
            let _ = std::fs::remove_file(path);
        }
        let summary = record::stitch(&self.spool, &self.target, &marks)
            .map_err(failed("writing the trace"))?;
        let _ = std::fs::remove_dir_all(&self.spool);
        out.recorded(&summary);
        summary.warnings.iter().cloned().for_each(|warning| out.warning(warning));
        let metric = Metric::new("trace_events_lost", Unit::Count, Better::Lower);
        let value = summary.lost.values().sum::<u64>() as f64;
        store(out, Figure { metric, of: String::new(), value })
    }
}
