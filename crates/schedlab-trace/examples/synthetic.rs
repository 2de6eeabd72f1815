#![expect(clippy::print_stderr, reason = "a program, not a library")]
//! Writes a synthetic trace of any size, the same for the same numbers; `zstd` packs it:
//! `cargo run --release -p schedlab-trace --example synthetic FILE EVENTS CPUS [zstd]`.

use schedlab_trace::dat::{Compression, Header, Version};
use schedlab_trace::synthetic::{Plan, Synthetic};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, events, cpus, rest @ ..] = words.as_slice() else {
        return Err("a file, a number of events and a number of CPUs, please".into());
    };
    let plan = Plan { events: events.parse()?, cpus: cpus.parse()?, ..Plan::default() };
    let mut header = Header::default();
    if rest.iter().any(|word| word == "zstd") {
        header = Header { version: Version::V7, compression: Compression::Zstd, ..header };
    }
    Synthetic::new(plan).write(file.as_ref(), header)?;
    let bytes = std::fs::metadata(file)?.len();
    eprintln!("{file}: {events} events of {cpus} CPUs, {bytes} bytes");
    Ok(())
}
