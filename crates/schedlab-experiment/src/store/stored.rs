//! Reading run directories.

use super::writing::{FigureLine, IntervalLine};
use super::{Manifest, SCHEMA, StoreError};
use schedlab_model::Warning;
use schedlab_workload::{Figure, Interval, Stream};
use std::fs;
use std::path::{Path, PathBuf};

/// A finished run.
#[derive(Clone, Debug)]
pub struct StoredRun {
    /// Its directory.
    pub folder: PathBuf,
    /// What it was.
    pub manifest: Manifest,
    /// What it measured, in the order in which it was told.
    pub figures: Vec<Figure>,
    /// Doubts about it.
    pub warnings: Vec<Warning>,
}

/// The runs of one experiment's folder, or a single run.
#[derive(Clone, Debug)]
pub struct StoredRuns {
    /// The folder that was asked for.
    pub folder: PathBuf,
    /// Its runs, by block, then name.
    pub runs: Vec<StoredRun>,
    /// The experiment file, where the folder has one.
    pub experiment: Option<String>,
    /// Runs that were cut off: folders that are not read.
    pub cut_off: usize,
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
        if manifest.schema != SCHEMA {
            let why = format!("schema is '{}', this schedlab reads '{SCHEMA}'", manifest.schema);
            return Err(StoreError::Malformed { path, line: 1, why });
        }
        let lines: Vec<FigureLine> = lines(&folder.join("figures.jsonl"))?;
        let figure = |line: FigureLine| Figure {
            metric: line.metric,
            of: line.of,
            value: line.value.unwrap_or(f64::NAN),
        };
        let path = folder.join("warnings.jsonl");
        let warnings = if path.exists() { self::lines(&path)? } else { Vec::new() };
        Ok(Self {
            folder: folder.to_owned(),
            manifest,
            figures: lines.into_iter().map(figure).collect(),
            warnings,
        })
    }

    /// A figure of the whole run by its metric's name; `label/metric` for what ran beside.
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
        let path = self.folder.join("intervals.jsonl");
        let all: Vec<IntervalLine> = if path.exists() { lines(&path)? } else { Vec::new() };
        Ok(all.into_iter().filter(|line| line.of == of).map(|line| line.interval).collect())
    }

    /// Whether its figures may be compared with others: it ran to its end and its load was content.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.manifest.interrupted && self.manifest.exit_code == 0
    }
}

/// Reads the runs in an experiment's folder, or the one run whose directory is named.
///
/// # Errors
/// When there are no results, or something is not what we write.
pub fn runs_of(folder: &Path) -> Result<StoredRuns, StoreError> {
    if folder.join("manifest.json").is_file() {
        let runs = vec![StoredRun::read(folder)?];
        return Ok(StoredRuns { folder: folder.to_owned(), runs, experiment: None, cut_off: 0 });
    }
    let inside = folder.join("runs");
    if !inside.is_dir() {
        return Err(StoreError::Nothing(folder.to_owned()));
    }
    let mut runs = Vec::new();
    let mut cut_off = 0;
    for entry in fs::read_dir(&inside).map_err(|e| StoreError::io(&inside, e))? {
        let path = entry.map_err(|e| StoreError::io(&inside, e))?.path();
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.')) {
            cut_off += 1;
        } else if path.is_dir() {
            runs.push(StoredRun::read(&path)?);
        }
    }
    runs.sort_by(|a, b| {
        (a.manifest.block, &a.manifest.id).cmp(&(b.manifest.block, &b.manifest.id))
    });
    let experiment = fs::read_to_string(folder.join("experiment.toml")).ok();
    Ok(StoredRuns { folder: folder.to_owned(), runs, experiment, cut_off })
}

/// The boots in which runs were done, in the order of their blocks.
#[must_use]
pub fn boots(runs: &[StoredRun]) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    let mut sorted: Vec<&StoredRun> = runs.iter().collect();
    sorted.sort_by_key(|run| run.manifest.block);
    for boot in sorted.iter().filter_map(|run| run.manifest.facts.boot.known()) {
        if !seen.contains(boot) {
            seen.push(boot.clone());
        }
    }
    seen
}

fn read(path: &Path) -> Result<String, StoreError> {
    fs::read_to_string(path).map_err(|e| StoreError::io(path, e))
}

fn lines<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Vec<T>, StoreError> {
    let text = read(path)?;
    text.lines()
        .enumerate()
        .map(|(i, line)| {
            serde_json::from_str(line).map_err(|e| StoreError::Malformed {
                path: path.to_owned(),
                line: i + 1,
                why: e.to_string(),
            })
        })
        .collect()
}
