#![no_main]
//! Fuzz target `structure`: see `structure.rs`.

#[path = "../structure.rs"]
mod structure;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let file = tempfile::NamedTempFile::new().expect("there is a temporary folder");
    structure::read(bytes, file.path());
});
