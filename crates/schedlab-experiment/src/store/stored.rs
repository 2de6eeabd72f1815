//! Reading run directories.

use super::manifest::SCHEMA_BEFORE;
use super::writing::{FIGURES, FigureLine, INTERVALS, IntervalLine, WARNINGS};
use super::{Manifest, Place, SCHEMA, SCHEMA_OLD, StoreError, looks_of, name_places, place_axes};
use crate::analysis::Looks;
use crate::{Experiment, Point};
use schedlab_model::Warning;
use schedlab_workload::{Figure, Interval, Stream};
use std::fs;
use std::path::{Path, PathBuf};

/// A finished run, read from its directory.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// The directory of the run.
    pub folder: PathBuf,
    /// What was run, and where.
    pub manifest: Manifest,
    /// What the run measured, in the order in which the workload reported it.
    pub figures: Vec<Figure>,
    /// The warnings about the run.
    pub warnings: Vec<Warning>,
}

/// The runs of one experiment's folder, or a single run.
#[derive(Debug)]
pub struct StoredRuns {
    /// The folder that was asked for.
    pub folder: PathBuf,
    /// Its runs, by block, then name.
    pub runs: Vec<StoredRun>,
    /// The experiment file, where the folder has one.
    pub experiment: Option<String>,
    /// Why runs are left out: a file of theirs is missing or damaged.
    pub damaged: Vec<StoreError>,
    /// The looks at them so far.
    pub looks: Looks,
}

impl StoredRuns {
    /// Adds what the places of the runs differ in to their points ([`name_places`]), as the experiment
    /// says what hosts are to each other.
    pub fn name_places(&mut self) {
        let text = self.experiment.as_deref().unwrap_or_default();
        // A file of another version may not be understood; hosts are then kept apart.
        let experiment = Experiment::parse(text, &self.folder.join("experiment.toml"));
        name_places(&mut self.runs, experiment.map(|e| e.hosts).unwrap_or_default());
    }
}

impl StoredRun {
    /// Reads a run directory.
    ///
    /// # Errors
    /// When a file is missing or not what we write.
    pub fn read(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("manifest.json");
        let text = read(&path)?;
        let manifest: Manifest = serde_json::from_str(&text).map_err(|e| {
            StoreError::Malformed { path: path.clone(), line: e.line(), why: e.to_string() }
        })?;
        if ![SCHEMA, SCHEMA_BEFORE, SCHEMA_OLD].contains(&manifest.schema.as_str()) {
            return Err(StoreError::Version { path, found: manifest.schema });
        }
        let figures: Vec<FigureLine> = lines(folder, FIGURES, &manifest)?;
        let figure = |line: FigureLine| Figure {
            metric: line.metric,
            of: line.of,
            value: line.value.unwrap_or(f64::NAN),
        };
        let warnings = lines(folder, WARNINGS, &manifest)?;
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
            figures: figures.into_iter().map(figure).collect(),
            warnings,
        })
    }

    /// A value of the whole run by its metric's name; `label/metric` for what ran beside. `None` if
    /// the run has no such metric.
    #[must_use]
    pub fn value(&self, metric: &str) -> Option<f64> {
        let (of, name) = metric.rsplit_once('/').unwrap_or(("", metric));
        let found = self.figures.iter().find(|f| f.of == of && f.metric.name == name)?;
        found.value.is_finite().then_some(found.value)
    }

    /// The file of a stream, where the machine wrote it.
    #[must_use]
    pub fn stream(&self, stream: Stream) -> Option<PathBuf> {
        let name = match stream {
            Stream::Trace => "trace.dat",
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        };
        Some(self.folder.join(name)).filter(|path| path.is_file())
    }

    /// What was measured in each interval, of the run's own workload (`""`) or of what ran beside it,
    /// by its label. The histograms `since` are disjoint and can be merged; the last interval also
    /// has those of all that is covered, in `total`. None where the load is a command.
    ///
    /// # Errors
    /// When the file is not what we write.
    pub fn intervals(&self, of: &str) -> Result<Vec<Interval>, StoreError> {
        let all: Vec<IntervalLine> = lines(&self.folder, INTERVALS, &self.manifest)?;
        Ok(all.into_iter().filter(|line| line.of == of).map(|line| line.interval).collect())
    }

    /// The part of the run's point that says where it was done ([`crate::name_places`]).
    #[must_use]
    pub fn place_axes(&self) -> Point {
        place_axes(&self.manifest.point)
    }

    /// Whether it was cut off at its time limit: it would have taken longer. Its figures are bounds.
    #[must_use]
    pub fn is_censored(&self) -> bool {
        let limit = self.manifest.spec.time_limit;
        self.manifest.interrupted && limit.is_some_and(|limit| self.manifest.took_ns >= limit.0)
    }

    /// Whether its figures may be compared with others: it ran to its end and its load was content.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.manifest.interrupted && self.manifest.exit_code == 0
    }
}

/// Reads the runs in an experiment's folder, or the one run whose directory is named. Of several runs the damaged
/// ones are left out and named.
///
/// # Errors
/// When there are no results, the one run is damaged, or the system refuses.
pub fn runs_of(folder: &Path) -> Result<StoredRuns, StoreError> {
    if folder.join("manifest.json").is_file() {
        let runs = vec![StoredRun::read(folder)?];
        return Ok(StoredRuns {
            folder: folder.to_owned(),
            runs,
            experiment: None,
            damaged: Vec::new(),
            looks: Looks::default(),
        });
    }
    let inside = folder.join("runs");
    if !inside.is_dir() {
        return Err(StoreError::Nothing(folder.to_owned()));
    }
    let mut runs = Vec::new();
    let mut damaged = Vec::new();
    for entry in fs::read_dir(&inside).map_err(|e| StoreError::io(&inside, e))? {
        let path = entry.map_err(|e| StoreError::io(&inside, e))?.path();
        let is_run = path.file_name().is_some_and(|n| !n.to_string_lossy().starts_with('.'));
        if is_run && path.is_dir() {
            match StoredRun::read(&path) {
                Ok(run) => runs.push(run),
                Err(error) if error.is_damage() => damaged.push(error),
                Err(error) => return Err(error),
            }
        }
    }
    runs.sort_by(|a, b| {
        (a.manifest.block, &a.manifest.id).cmp(&(b.manifest.block, &b.manifest.id))
    });
    let experiment = schedlab_sys::regular_file::text(&folder.join("experiment.toml")).ok();
    let looks = looks_of(folder)?;
    Ok(StoredRuns { folder: folder.to_owned(), runs, experiment, damaged, looks })
}

/// The boots at a place in which runs were done, in the order of their blocks.
pub(crate) fn boots(runs: &[StoredRun], place: &Place) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let here = |run: &&StoredRun| run.manifest.place().is_near(place);
    let mut sorted: Vec<&StoredRun> = runs.iter().filter(here).collect();
    sorted.sort_by_key(|run| run.manifest.block);
    for boot in sorted.iter().filter_map(|run| run.manifest.facts.boot.known()) {
        if !seen.contains(boot) {
            seen.push(boot.clone());
        }
    }
    seen
}

fn read(path: &Path) -> Result<String, StoreError> {
    schedlab_sys::regular_file::text(path).map_err(|e| StoreError::io(path, e))
}

/// The values of a file of lines, as many as the manifest says.
fn lines<T: serde::de::DeserializeOwned>(
    folder: &Path,
    file: &str,
    manifest: &Manifest,
) -> Result<Vec<T>, StoreError> {
    let path = folder.join(file);
    let expected = manifest.lines.get(file).copied();
    // Of nothing there is no file, but of figures.
    let may_be_absent = expected.unwrap_or(0) == 0 && file != FIGURES;
    let text = if may_be_absent && !path.exists() { String::new() } else { read(&path)? };
    let malformed = |line, why| StoreError::Malformed { path: path.clone(), line, why };
    let read: Vec<T> = text
        .lines()
        .enumerate()
        .map(|(i, line)| {
            serde_json::from_str(line).map_err(|error| malformed(i + 1, error.to_string()))
        })
        .collect::<Result<_, _>>()?;
    match expected.filter(|expected| *expected != read.len()) {
        None => Ok(read),
        Some(expected) => {
            Err(malformed(read.len() + 1, format!("it has {} of {expected} lines", read.len())))
        }
    }
}
