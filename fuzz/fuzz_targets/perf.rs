#![no_main]
//! Fuzz target `perf`: see `bodies.rs`.

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "each target uses one body")]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::read_perf(bytes));
