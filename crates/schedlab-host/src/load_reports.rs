//! What a load child reports, handed on to the output of its run.

use crate::load::LoadReport;
use schedlab_model::Warning;
use schedlab_workload::{Beside, Figure, MachineError, Output, measure};

/// The reports of one load child.
pub(crate) struct LoadReports {
    workload: String,
    /// The workload beside the run's own whose reports these are: they carry its label.
    beside: Option<Beside>,
    /// The names of its marks, by number; `None` until it reports them.
    pub(crate) mark_names: Option<Vec<String>>,
    pub(crate) is_ready: bool,
    failed: Option<MachineError>,
    ended: Option<Ended>,
}

/// The last report of a child.
pub(crate) struct Ended {
    pub(crate) interrupted: bool,
    pub(crate) censored: bool,
    /// What went wrong with tasks, in sentences.
    pub(crate) failures: Vec<String>,
}

/// Stores a metric of the run.
pub(crate) fn store(out: &mut dyn Output, figure: Figure) -> Result<(), MachineError> {
    out.figure(figure).map_err(|e| MachineError::io("storing a metric", e))
}

impl LoadReports {
    pub(crate) fn new(workload: &str, beside: Option<Beside>) -> Self {
        Self {
            workload: workload.to_owned(),
            beside,
            mark_names: None,
            is_ready: false,
            failed: None,
            ended: None,
        }
    }

    pub(crate) fn error(&self, why: &str) -> MachineError {
        MachineError::Load(match &self.beside {
            Some(beside) => format!("{}, beside it: {why}", beside.label),
            None => why.to_owned(),
        })
    }

    /// Reads a line of the child, and hands on what it says about the run.
    pub(crate) fn line(&mut self, line: &[u8], out: &mut dyn Output) -> Result<(), MachineError> {
        let report: LoadReport = serde_json::from_slice(line).map_err(|error| {
            let line = String::from_utf8_lossy(line);
            self.error(&format!("invalid line '{}': {error}", line.trim_end()))
        })?;
        match report {
            LoadReport::Note(sentence) => out.note(&self.labelled(sentence)),
            LoadReport::Marks(names) => self.mark_names = Some(names),
            LoadReport::Tasks(_) => self.is_ready = true,
            LoadReport::Interval(interval) => {
                match &self.beside {
                    Some(beside) => out.interval_beside(&beside.label, &interval),
                    None => out.interval(&interval),
                }
                if interval.last {
                    let mut figures = measure::figures(&interval).into_iter();
                    figures.try_for_each(|figure| self.store(figure, out))?;
                }
            }
            LoadReport::Figure(figure) => self.store(figure, out)?,
            LoadReport::Warning(Warning { code, what, remedy }) => {
                out.warning(Warning { code, what: self.labelled(what), remedy });
            }
            LoadReport::Failed { option: Some(option), why } if self.beside.is_none() => {
                let workload = self.workload.clone();
                self.failed = Some(MachineError::Option { workload, option, why });
            }
            LoadReport::Failed { why, .. } => self.failed = Some(self.error(&why)),
            LoadReport::Ended { interrupted, censored, failures } => {
                self.ended = Some(Ended { interrupted, censored, failures });
            }
        }
        Ok(())
    }

    /// The last report; `None` if the child ended without one.
    pub(crate) fn ended(&mut self) -> Result<Option<Ended>, MachineError> {
        self.failed.take().map_or_else(|| Ok(self.ended.take()), Err)
    }

    fn labelled(&self, sentence: String) -> String {
        match &self.beside {
            Some(beside) => format!("{}: {sentence}", beside.label),
            None => sentence,
        }
    }

    fn store(&self, figure: Figure, out: &mut dyn Output) -> Result<(), MachineError> {
        let of = self.beside.as_ref().map(|beside| beside.of(&figure.of));
        store(out, Figure { of: of.unwrap_or(figure.of), ..figure })
    }
}
