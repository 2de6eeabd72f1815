#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program, not a library")]
//! Counts the events of a trace: `cargo run -p schedlab-trace --example census FILE`.

use schedlab_trace::Census;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("a file, please")?;
    let mut source = schedlab_trace::open(path.as_ref())?;
    let census = Census::of(source.as_mut())?;
    for (name, count) in census.events() {
        println!("{count:>12} {name}");
    }
    for warning in source.warnings() {
        eprintln!("{warning}");
    }
    Ok(())
}
