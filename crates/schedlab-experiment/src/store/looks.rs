//! The looks that were taken at the runs of a folder.

use super::{StoreError, write_synced};
use crate::analysis::Looks;
use std::io::ErrorKind;
use std::path::Path;

const FILE: &str = "looks.json";

/// The looks at a folder's runs; none where nobody looked.
pub(crate) fn looks_of(results: &Path) -> Result<Looks, StoreError> {
    let path = results.join(FILE);
    match schedlab_sys::regular_file::text(&path) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| StoreError::Malformed {
            path,
            line: error.line(),
            why: error.to_string(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Looks::default()),
        Err(error) => Err(StoreError::io(&path, error)),
    }
}

/// Keeps the looks beside the runs.
pub(crate) fn keep_looks(results: &Path, looks: &Looks) -> Result<(), StoreError> {
    let mut text = serde_json::to_string_pretty(looks).expect("looks are plain values");
    text.push('\n');
    write_synced(&results.join(FILE), text.as_bytes())
}
