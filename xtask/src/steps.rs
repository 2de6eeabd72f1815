//! Running a step and saying so.

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

pub(crate) fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("xtask lies in the workspace").to_path_buf()
}

/// A line for the reader, on stderr so that it stands in order with cargo's own.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// `cargo` with these arguments; its failure is ours.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    cargo_with(arguments, &[])
}

pub(crate) fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new("cargo");
    // A toolchain asked for by name (`+nightly`) must not be overruled by the one that runs us.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    run(command.args(arguments).envs(variables.iter().copied()))
}

/// Runs a command to its end, says what it was and how long it took.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    say(&format!("== {line}"));
    let start = Instant::now();
    let status = command.status().with_context(|| format!("`{line}` could not be started"))?;
    say(&format!("== {line}: {status} after {:.0} s", start.elapsed().as_secs_f64()));
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}
