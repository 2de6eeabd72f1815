//! The test command, and what follows a failure of it.
//!
//! Many tests run real loads on the machine's own scheduler, beside everything else that it does. So the tests
//! that fail are run once more, by name. Those that pass then are named as unstable; one that fails again
//! fails the suite. A program that died without naming a test runs again as a whole.
//!
//! A test program that says nothing for long hangs: it is killed, with a list of what was running and who held locks, so
//! that the others have their turn.

use crate::steps;
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// More failed tests than this are a broken commit, not chance: none of them is repeated.
const REPEATED: usize = 6;

/// No test takes half as long on two slow cores, and no crate compiles for so long.
const SILENCE: Duration = Duration::from_secs(600);

/// Runs `cargo test` with these arguments; repeats the few tests that failed.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let first = once(&[&["test", "--no-fail-fast"], arguments].concat())?;
    if first.success {
        return Ok(());
    }
    let said = format!("{}; {}", first.failed.join(", "), first.targets.join("; "));
    if first.targets.is_empty() || first.failed.len().max(first.targets.len()) > REPEATED {
        bail!("tests failed: {said}");
    }
    // All packages' targets of that kind get all names, so that the features, and with them the build, stay the same.
    let mut kinds: Vec<Vec<&str>> =
        first.targets.iter().map(|target| target.split_whitespace().skip(2).collect()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let names: Vec<&str> = first.failed.iter().map(String::as_str).collect();
    let exact = if names.is_empty() { vec![] } else { [&["--", "--exact"], &*names].concat() };
    let mut passed = Vec::new();
    for kind in kinds {
        let again = once(&[&["test"], arguments, &kind, &exact].concat())?;
        if !again.success {
            bail!("tests failed twice: {}; {}", again.failed.join(", "), kind.join(" "));
        }
        passed.extend(again.passed);
    }
    if let Some(lost) = first.failed.iter().find(|&name| !passed.contains(name)) {
        bail!("the test {lost} failed, and could not be repeated by its name");
    }
    steps::say(&format!("UNSTABLE: failed once and passed when repeated: {said}"));
    Ok(())
}

/// What one run of `cargo test` said at its end.
struct Outcome {
    success: bool,
    /// The targets that failed, as cargo names them: `-p schedlab --test all`.
    targets: Vec<String>,
    /// The tests that failed.
    failed: Vec<String>,
    /// The tests that passed.
    passed: Vec<String>,
}

fn once(arguments: &[&str]) -> Result<Outcome> {
    let line = format!("cargo {}", arguments.join(" "));
    steps::say(&format!("== {line}"));
    let start = Instant::now();
    let mut command = Command::new("cargo");
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").args(arguments);
    // What a test says of its failure stands at the end, not its stack.
    command.env("RUST_BACKTRACE", "0");
    // Most tests of the command wait for loads, guests and browsers.
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cpus = std::thread::available_parallelism()?.get();
        command.env("RUST_TEST_THREADS", (cpus + 1).to_string());
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{line}` could not be started"))?;
    let errors = child.stderr.take().context("stderr is a pipe")?;
    let output = child.stdout.take().context("stdout is a pipe")?;
    let cargo = child.id();
    let (output, errors, status) = std::thread::scope(|scope| {
        let (heard, lines) = mpsc::channel();
        let thread = || std::thread::Builder::new();
        thread().spawn_scoped(scope, move || end_silence(cargo, &lines))?;
        let also = heard.clone();
        let errors =
            thread().spawn_scoped(scope, move || copy(errors, std::io::stderr(), &also))?;
        let output = copy(output, std::io::stdout(), &heard);
        let errors = errors.join().expect("copying does not panic");
        anyhow::Ok((output?, errors?, child.wait()?))
    })?;
    steps::say(&format!("== {line}: {status} after {:.0} s", start.elapsed().as_secs_f64()));
    Ok(Outcome {
        success: status.success(),
        targets: errors.lines().filter_map(failed_target).map(str::to_owned).collect(),
        failed: output.lines().filter_map(|line| test(line, "FAILED")).map(str::to_owned).collect(),
        passed: output.lines().filter_map(|line| test(line, "ok")).map(str::to_owned).collect(),
    })
}

/// Kills the test program under `cargo` whenever no line has come for [`SILENCE`], until no more can come.
fn end_silence(cargo: u32, lines: &Receiver<()>) {
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = SILENCE.as_secs();
                steps::say(&format!("HANGS: no line for {seconds} s\n{}", running()));
                for program in children(cargo) {
                    steps::say(&format!("HANGS: process {program} is killed"));
                    let _ = Command::new("kill").args(["-KILL", &program.to_string()]).status();
                }
            }
        }
    }
}

/// The processes that one has started and that are there.
fn children(parent: u32) -> Vec<u32> {
    let known = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    known.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Every process that is not the kernel's: its command line and what each of its threads waits in; then the locks.
fn running() -> String {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let folders = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut out = String::new();
    for process in folders(Path::new("/proc")) {
        let line = read(&process.path().join("cmdline")).replace('\0', " ");
        if line.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  {} {line:.160}", process.file_name().display());
        for thread in folders(&process.path().join("task")) {
            let [name, stat, inside] =
                ["comm", "stat", "wchan"].map(|file| read(&thread.path().join(file)));
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            let _ = writeln!(out, "    {} {} {inside}", name.trim_end(), state.unwrap_or('?'));
        }
    }
    out + &read(Path::new("/proc/locks"))
}

/// Copies lines as they come; all of them. Tells whoever listens of each.
fn copy(from: impl Read, mut to: impl Write, heard: &Sender<()>) -> Result<String> {
    let mut whole = String::new();
    for line in BufReader::new(from).split(b'\n') {
        let _ = heard.send(());
        let line = [line?.as_slice(), b"\n"].concat();
        to.write_all(&line)?;
        whole.push_str(&String::from_utf8_lossy(&line));
    }
    Ok(whole)
}

/// A line of cargo's closing list of targets that failed, without its quotes.
fn failed_target(line: &str) -> Option<&str> {
    line.strip_prefix("    `")?.strip_suffix('`').filter(|target| target.starts_with("-p "))
}

/// The name in a line of a test with this result.
fn test<'a>(line: &'a str, result: &str) -> Option<&'a str> {
    line.strip_prefix("test ")?.strip_suffix(result)?.strip_suffix(" ... ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_read_from_the_lines_of_cargo() {
        let errors = "error: 2 targets failed:\n    `-p schedlab --test all`\n    `-p schedlab-jobs --doc`\n";
        let mut copied = Vec::new();
        let (heard, lines) = mpsc::channel();
        let all = copy(errors.as_bytes(), &mut copied, &heard).unwrap();
        assert_eq!(lines.try_iter().count(), 3);
        let targets: Vec<_> = all.lines().filter_map(failed_target).collect();
        assert_eq!(targets, ["-p schedlab --test all", "-p schedlab-jobs --doc"]);
        assert_eq!(copied, errors.as_bytes());
        assert_eq!(test("test a::b ... ok", "FAILED"), None);
        assert_eq!(test("test a::b ... ok", "ok"), Some("a::b"));
        assert_eq!(test("test a::c ... FAILED", "FAILED"), Some("a::c"));
        assert_eq!(test("test result: FAILED. 1 passed", "FAILED"), None);
    }
}
