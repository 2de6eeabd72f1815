#![no_main]
//! Fuzz target `dat`: see `bodies.rs`.

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "each target uses one body")]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bodies::read_after(b"\x17\x08\x44tracing", bytes);
    bodies::read_together(&[b"\x17\x08\x44tracing", bytes].concat());
});
