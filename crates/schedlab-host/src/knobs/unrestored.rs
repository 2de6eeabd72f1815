//! What `schedlab knobs set` changed and nobody restored: it outlives the process by intention, and every later run
//! measures it.

use schedlab_model::Warning;
use schedlab_sys::guard::{self, Undo};
use schedlab_sys::process;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::PathBuf;

/// A setting that was made, with how to undo it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnrestoredSetting {
    /// Who made it; empty where an older version did.
    #[serde(default)]
    pub(crate) by: String,
    /// When, in UTC (RFC 3339).
    #[serde(default)]
    pub(crate) at: String,
    #[serde(flatten)]
    pub undo: Undo,
}

impl UnrestoredSetting {
    /// A setting that this process makes at this time.
    #[must_use]
    pub fn new(undo: Undo, at: String) -> Self {
        let user = process::user();
        let user = if user == 0 { "root".to_owned() } else { format!("user {user}") };
        let by = format!("{user}, process {}", std::process::id());
        Self { by, at, undo }
    }

    /// The setting in words while it differs from what was before: `/proc/sys/... was 1, set by root, process 7, at ...`.
    #[must_use]
    pub(crate) fn outstanding(&self) -> Option<String> {
        let Undo::Write { path, content } = &self.undo else { return None };
        let now = fs::read_to_string(path).ok()?;
        if now.trim() == content.trim() {
            return None;
        }
        let who = match (self.by.as_str(), self.at.as_str()) {
            ("", _) | (_, "") => String::new(),
            (by, at) => format!(", set by {by}, at {at}"),
        };
        Some(format!("{} was {}{who}", path.display(), content.trim()))
    }
}

/// The file that keeps them.
///
/// # Errors
/// When there is no folder for it.
pub fn unrestored_file() -> io::Result<PathBuf> {
    Ok(guard::directory()?.join("knobs.set"))
}

/// All of them, in the order in which they were made.
///
/// # Errors
/// When the file cannot be read or says something else.
pub fn read_unrestored() -> io::Result<Vec<UnrestoredSetting>> {
    match fs::read(unrestored_file()?) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The settings that are still in force, in words.
#[must_use]
pub fn outstanding() -> Vec<String> {
    read_unrestored()
        .unwrap_or_default()
        .iter()
        .filter_map(UnrestoredSetting::outstanding)
        .collect()
}

/// The warning of a run under them.
#[must_use]
pub(crate) fn left_set() -> Option<Warning> {
    let all = outstanding();
    let what = format!("knobs are not as the machine has them: {}", all.join("; "));
    (!all.is_empty())
        .then(|| Warning::new("knobs-set", what, "`schedlab knobs restore` puts them back"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_outstanding_until_the_value_is_as_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("knob");
        fs::write(&path, "0\n").unwrap();
        let kept = UnrestoredSetting::new(
            Undo::Write { path: path.clone(), content: "1".into() },
            "2026-01-01T00:00:00Z".into(),
        );
        let told = kept.outstanding().unwrap();
        assert!(told.contains("knob was 1, set by ") && told.contains(", at 20"), "{told}");
        fs::write(&path, "1\n").unwrap();
        assert_eq!(kept.outstanding(), None);
        // What older versions wrote is read.
        let text = serde_json::to_string(&kept.undo).unwrap();
        let old: UnrestoredSetting = serde_json::from_str(&text).unwrap();
        assert_eq!((old.undo, old.by.as_str()), (kept.undo, ""));
    }
}
