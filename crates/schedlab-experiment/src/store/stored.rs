//! Reading run directories.

use super::writing::{FIGURES, FigureLine, INTERVALS, IntervalLine, WARNINGS};
use super::{Manifest, Place, SCHEMA, StoreError, looks_of, name_places, place_axes};
use crate::analysis::Looks;
use crate::{Experiment, Point};
use schedlab_model::Warning;
use schedlab_workload::metrics::metric;
use schedlab_workload::{Figure, Interval, Stream};
use std::fs;
use std::path::{Path, PathBuf};

/// A finished run, read from its directory.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// The directory of the run.
    pub(crate) folder: PathBuf,
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

/// The version of a manifest, whatever else it holds.
#[derive(serde::Deserialize)]
struct Version {
    schema: String,
}

impl StoredRuns {
    /// Adds what the places of the runs differ in to their points (`name_places`), as the experiment
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
    pub(crate) fn read(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("manifest.json");
        let text = read(&path)?;
        let wrong = |e: serde_json::Error| StoreError::Malformed {
            path: path.clone(),
            line: e.line(),
            why: e.to_string(),
        };
        let manifest = serde_json::from_str::<Manifest>(&text);
        // Another version may have other fields.
        let schema = match &manifest {
            Ok(manifest) => manifest.schema.clone(),
            Err(_) => serde_json::from_str::<Version>(&text).map_err(wrong)?.schema,
        };
        if schema != SCHEMA {
            return Err(StoreError::Version { path, found: schema });
        }
        let manifest = manifest.map_err(wrong)?;
        let figures: Vec<FigureLine> = lines(folder, FIGURES, &manifest)?;
        let figure = |line: FigureLine| Figure {
            metric: line.metric,
            of: line.of,
            value: line.value.unwrap_or(f64::NAN),
        };
        let warnings = lines(folder, WARNINGS, &manifest)?;
        let mut figures: Vec<Figure> = figures.into_iter().map(figure).collect();
        figures.extend(cpu_time(&figures));
        Ok(Self { folder: folder.to_owned(), manifest, figures, warnings })
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

    /// The part of the run's point that says where it was done (`name_places`).
    #[must_use]
    pub fn place_axes(&self) -> Point {
        place_axes(&self.manifest.point)
    }

    /// Whether it was cut off at its time limit: it would have taken longer. Its figures are bounds.
    #[must_use]
    pub fn is_censored(&self) -> bool {
        self.manifest.censored && self.failure().is_none()
    }

    /// Why the run failed; `None` where it did not.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let Manifest { failure, exit_code, interrupted, .. } = &self.manifest;
        let by_code = || {
            let failed = *exit_code != 0 && !interrupted;
            failed.then(|| format!("the load ended with exit code {exit_code}"))
        };
        failure.clone().or_else(by_code)
    }

    /// Whether its figures may be compared with others: it ran to its end and did not fail.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.manifest.interrupted && !self.manifest.censored && self.failure().is_none()
    }

    /// Whether the machine gives the same result for the same run, so that repeats differ by what the run asks alone.
    #[must_use]
    pub(crate) fn is_repeatable(&self) -> bool {
        // Older versions did not store it.
        self.manifest.repeatable || self.manifest.machine.starts_with("sim")
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
    declare(&mut runs, experiment.as_deref().unwrap_or_default());
    let looks = looks_of(folder)?;
    Ok(StoredRuns { folder: folder.to_owned(), runs, experiment, damaged, looks })
}

/// The CPU time of the run and of each role and label that has both parts of it.
fn cpu_time(figures: &[Figure]) -> Vec<Figure> {
    let of = |name: &'static str| figures.iter().filter(move |figure| figure.metric.name == name);
    let is_told = |user: &&Figure| of("cpu_s").all(|told| told.of != user.of);
    let sum = |user: &Figure| {
        let system = of("cpu_system_s").find(|system| system.of == user.of)?;
        let value = user.value + system.value;
        Some(Figure { metric: metric("cpu_s"), of: user.of.clone(), value })
    };
    of("cpu_user_s").filter(is_told).filter_map(sum).collect()
}

/// Gives the metric of a hook the unit and direction that the experiment's file says now: runs keep their values
/// if only the reading of them changes.
fn declare(runs: &mut [StoredRun], text: &str) {
    if !text.contains("better") {
        return;
    }
    let experiment = Experiment::parse(text, Path::new("experiment.toml")).ok();
    let Some(declared) = experiment.and_then(|experiment| experiment.hooks.declared) else {
        return;
    };
    let figures = runs.iter_mut().flat_map(|run| &mut run.figures);
    for figure in figures.filter(|f| f.of.is_empty() && f.metric.name == declared.name) {
        figure.metric = declared.clone();
    }
}

/// The boots at a place in which runs were done, in the order of their blocks.
pub(crate) fn boots(runs: &[StoredRun], place: &Place) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let here = |run: &&StoredRun| run.manifest.place.is_near(place);
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
