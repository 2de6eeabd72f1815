//! The test command, and what follows a failure of it.
//!
//! Many tests run real loads on the machine's own scheduler, beside everything else that it does. So a target
//! that fails is run once more, alone. A target that passes then is named as unstable, with the tests
//! that failed; one that fails again fails the suite.

use crate::steps;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

/// More failed targets than this are a broken commit, not chance: none of them is repeated.
const REPEATED: usize = 3;

/// Runs `cargo test` with these arguments; repeats the few targets that failed.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let first = once(&[&["test", "--no-fail-fast"], arguments].concat())?;
    if first.success {
        return Ok(());
    }
    if first.targets.is_empty() || first.targets.len() > REPEATED {
        bail!("tests failed: {}{}", first.tests.join(", "), first.targets.join("; "));
    }
    for target in &first.targets {
        let words: Vec<&str> = target.split_whitespace().collect();
        let again = once(&[&["test", "--locked"], words.as_slice()].concat())?;
        if !again.success {
            bail!("`cargo test {target}` failed twice: {}", again.tests.join(", "));
        }
    }
    steps::say(&format!(
        "UNSTABLE: failed once and passed when repeated alone: {} (in {})",
        first.tests.join(", "),
        first.targets.join("; ")
    ));
    Ok(())
}

/// What one run of `cargo test` said at its end.
struct Outcome {
    success: bool,
    /// The targets that failed, as cargo names them: `-p schedlab --test cli`.
    targets: Vec<String>,
    /// The tests that failed.
    tests: Vec<String>,
}

fn once(arguments: &[&str]) -> Result<Outcome> {
    let line = format!("cargo {}", arguments.join(" "));
    steps::say(&format!("== {line}"));
    let start = Instant::now();
    let mut command = Command::new("cargo");
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").args(arguments);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{line}` could not be started"))?;
    let errors = child.stderr.take().context("stderr is a pipe")?;
    let targets = std::thread::Builder::new()
        .spawn(move || copy(errors, std::io::stderr(), failed_target))
        .context("no thread could be started")?;
    let output = child.stdout.take().context("stdout is a pipe")?;
    let tests = copy(output, std::io::stdout(), failed_test)?;
    let targets = targets.join().expect("copying does not panic")?;
    let status = child.wait()?;
    steps::say(&format!("== {line}: {status} after {:.0} s", start.elapsed().as_secs_f64()));
    Ok(Outcome { success: status.success(), targets, tests })
}

/// Copies lines, and keeps what `find` finds in them, each once.
fn copy(
    from: impl Read,
    mut to: impl Write,
    find: fn(&str) -> Option<&str>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for line in BufReader::new(from).split(b'\n') {
        let line = line?;
        to.write_all(&line)?;
        to.write_all(b"\n")?;
        if let Some(name) = find(&String::from_utf8_lossy(&line))
            && !found.iter().any(|known| known == name)
        {
            found.push(name.to_owned());
        }
    }
    Ok(found)
}

/// A line of cargo's closing list of targets that failed, without its quotes.
fn failed_target(line: &str) -> Option<&str> {
    line.strip_prefix("    `")?.strip_suffix('`').filter(|target| target.starts_with("-p "))
}

/// The name in a result line of a failed test.
fn failed_test(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_read_from_the_lines_of_cargo() {
        let errors = "error: 2 targets failed:\n    `-p schedlab --test cli`\n    `-p schedlab-jobs --doc`\n";
        let mut copied = Vec::new();
        let targets = copy(errors.as_bytes(), &mut copied, failed_target).unwrap();
        assert_eq!(targets, ["-p schedlab --test cli", "-p schedlab-jobs --doc"]);
        assert_eq!(copied, errors.as_bytes());
        let output =
            "test a::b ... ok\ntest a::c ... FAILED\ntest d ... ignored\ntest a::c ... FAILED\n";
        let tests = copy(output.as_bytes(), std::io::sink(), failed_test).unwrap();
        assert_eq!(tests, ["a::c"]);
    }
}
