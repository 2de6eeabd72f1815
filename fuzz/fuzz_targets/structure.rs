#![no_main]
//! Fuzz target `structure`: see `structure.rs`. `FORMAT=N` (0 to 5) makes files of one format only.

#[path = "../structure.rs"]
mod structure;

use std::sync::atomic::{AtomicU64, Ordering};

/// The most memory that a file has taken, in bytes.
static LARGEST: AtomicU64 = AtomicU64::new(0);

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut choices = bytes.to_vec();
    if let (Ok(format), Some(first)) = (std::env::var("FORMAT"), choices.first_mut()) {
        // Its other choices tell how the file is read.
        *first = (*first / 6 * 6).min(246) + format.parse::<u8>().expect("FORMAT is a number");
    }
    let file = tempfile::NamedTempFile::new().expect("there is a temporary folder");
    if let Some((size, took)) = structure::read(&choices, file.path())
        && LARGEST.fetch_max(took, Ordering::Relaxed) < took
    {
        eprintln!("the largest so far: {} KiB for a file of {size} bytes", took >> 10);
    }
});
