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
use std::sync::atomic::{AtomicU64, Ordering};
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
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("`{line}` could not be started"))?;
    let errors = child.stderr.take().context("stderr is a pipe")?;
    let output = child.stdout.take().context("stdout is a pipe")?;
    // Seconds since `start` at which the last line came; `u64::MAX` once all is over.
    let said = AtomicU64::new(0);
    let (cargo, said) = (child.id(), &said);
    let (output, errors, status) = std::thread::scope(|scope| {
        let heard = || said.store(start.elapsed().as_secs(), Ordering::Relaxed);
        let thread = || std::thread::Builder::new();
        let errors =
            thread().spawn_scoped(scope, move || copy(errors, std::io::stderr(), heard))?;
        thread().spawn_scoped(scope, move || end_silence(cargo, start, said))?;
        let output = copy(output, std::io::stdout(), heard);
        let errors = errors.join().expect("copying does not panic");
        let status = child.wait();
        said.store(u64::MAX, Ordering::Relaxed);
        anyhow::Ok((output?, errors?, status?))
    })?;
    steps::say(&format!("== {line}: {status} after {:.0} s", start.elapsed().as_secs_f64()));
    Ok(Outcome {
        success: status.success(),
        targets: errors.lines().filter_map(failed_target).map(str::to_owned).collect(),
        failed: output.lines().filter_map(|line| test(line, "FAILED")).map(str::to_owned).collect(),
        passed: output.lines().filter_map(|line| test(line, "ok")).map(str::to_owned).collect(),
    })
}

/// Kills the test program under `cargo` whenever no line has come for [`SILENCE`], until `said` is `u64::MAX`.
fn end_silence(cargo: u32, start: Instant, said: &AtomicU64) {
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let last = said.load(Ordering::Relaxed);
        if last == u64::MAX {
            return;
        }
        if start.elapsed().as_secs().saturating_sub(last) < SILENCE.as_secs() {
            continue;
        }
        steps::say(&format!("HANGS: no line for {} s\n{}", SILENCE.as_secs(), running()));
        for program in children(cargo) {
            steps::say(&format!("HANGS: process {program} is killed"));
            let _ = Command::new("kill").args(["-KILL", &program.to_string()]).status();
        }
        said.store(start.elapsed().as_secs(), Ordering::Relaxed);
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
    let mut out = String::new();
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let line = read(&process.path().join("cmdline")).replace('\0', " ");
        if line.is_empty() {
            continue;
        }
        let _ = writeln!(out, "  {} {:.160}", process.file_name().display(), line);
        for thread in std::fs::read_dir(process.path().join("task")).into_iter().flatten().flatten()
        {
            let [name, stat, inside] =
                ["comm", "stat", "wchan"].map(|file| read(&thread.path().join(file)));
            let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
            let state = state.unwrap_or('?');
            let _ = writeln!(out, "    {} {state} {inside}", name.trim_end());
        }
    }
    out + &read(Path::new("/proc/locks"))
}

/// Copies lines as they come; all of them. Says so of each.
fn copy(from: impl Read, mut to: impl Write, heard: impl Fn()) -> Result<String> {
    let mut whole = String::new();
    for line in BufReader::new(from).split(b'\n') {
        heard();
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
        let lines = AtomicU64::new(0);
        let heard = || {
            lines.fetch_add(1, Ordering::Relaxed);
        };
        let all = copy(errors.as_bytes(), &mut copied, heard).unwrap();
        assert_eq!(lines.into_inner(), 3);
        let targets: Vec<_> = all.lines().filter_map(failed_target).collect();
        assert_eq!(targets, ["-p schedlab --test all", "-p schedlab-jobs --doc"]);
        assert_eq!(copied, errors.as_bytes());
        assert_eq!(test("test a::b ... ok", "FAILED"), None);
        assert_eq!(test("test a::b ... ok", "ok"), Some("a::b"));
        assert_eq!(test("test a::c ... FAILED", "FAILED"), Some("a::c"));
        assert_eq!(test("test result: FAILED. 1 passed", "FAILED"), None);
    }
}
