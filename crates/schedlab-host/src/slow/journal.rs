//! What changed in a session, and when: for the one that wants to see it beside the schedule. Times are of
//! `CLOCK_MONOTONIC`, which is also the clock of recordings.
//!
//! Under `schedlab record` each change is a mark of the recording. `--events FILE` writes a line of JSON for each.

use super::SlowError;
use crate::marks::{self, Marks};
use schedlab_model::{Nanos, Phase, Pid};
use schedlab_trace::NewFile;
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A line of `--events`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) struct Changed {
    /// When it was in force, on `CLOCK_MONOTONIC`.
    pub(crate) time_ns: Nanos,
    /// Since the session's start.
    pub(crate) since_ns: Nanos,
    /// What, as in `cut a b`, `heal a b`, `link a b 1 Mbit/s`, `speed a 40%`, `fail a`, `recover a`.
    pub(crate) what: String,
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    lines: Option<File>,
    marks: Option<(Marks, File)>,
    count: u32,
}

impl Journal {
    /// Opens what was asked for: a file of lines, and the marks of the recording that runs.
    pub(super) fn open(lines: Option<&Path>) -> Result<Self, SlowError> {
        let recording = std::env::var_os(marks::VARIABLE).map(PathBuf::from);
        Self::at(lines, recording.as_deref())
    }

    fn at(lines: Option<&Path>, recording: Option<&Path>) -> Result<Self, SlowError> {
        let failed = |path: &Path| {
            let doing = format!("creating {}", path.display());
            move |error| SlowError::io(doing, error)
        };
        let new = |path: &Path| NewFile::create(path).and_then(NewFile::grow);
        let lines = lines.map(|path| new(path).map_err(failed(path))).transpose()?;
        let marks = recording.map(|path| {
            let path = marks::of_process(path, std::process::id());
            let names = marks::names(&path);
            Ok((
                Marks::append(&path).map_err(failed(&path))?,
                // Plain: beside the marks, in the private folder of the recording.
                File::create(&names).map_err(failed(&names))?,
            ))
        });
        Ok(Self { lines, marks: marks.transpose()?, count: 0 })
    }

    /// Notes a change that is in force since `now`.
    pub(super) fn note(&mut self, now: Nanos, started: Nanos, what: &str) {
        if let Some(lines) = &mut self.lines {
            let changed = Changed {
                time_ns: now,
                since_ns: Nanos(now.0.saturating_sub(started.0)),
                what: what.to_owned(),
            };
            let text = serde_json::to_string(&changed).expect("plain values");
            // A full disk loses lines, not the session.
            let _ = writeln!(lines, "{text}");
        }
        if let Some((marks, names)) = &mut self.marks
            && writeln!(names, "{what}").is_ok()
        {
            let us = Pid(std::process::id().cast_signed());
            marks.put(now, us, self.count, Phase::Point, 0);
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_a_line_and_a_mark_with_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let lines = dir.path().join("events");
        let recording = dir.path().join("marks");
        let mut journal = Journal::at(Some(&lines), Some(&recording)).unwrap();
        let ms = Nanos::from_millis;
        journal.note(ms(12), ms(10), "cut a b");
        journal.note(ms(14), ms(10), "heal a b");
        let text = std::fs::read_to_string(&lines).unwrap();
        let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["what"], "cut a b");
        assert_eq!(
            (&first["time_ns"], &first["since_ns"]),
            (&12_000_000.into(), &2_000_000.into())
        );
        let files = marks::of_commands(&recording);
        let [(path, names)] = &files[..] else { panic!("{files:?}") };
        assert_eq!(names[..], ["cut a b", "heal a b"]);
        let seen: Vec<_> = marks::read(path).unwrap().iter().map(|m| (m.time, m.id)).collect();
        assert_eq!(seen, [(ms(12), 0), (ms(14), 1)]);
    }
}
