//! Mutants: small changes of the code that some test must notice, drawn at random from an area.
//!
//! A seed and an area give a list of mutants; cargo-mutants makes each in a clone of the last commit and runs the tests
//! of its package. What is missed is behaviour without a test, or a change that no caller can see: docs/mutants.md says
//! which.

use crate::steps;
use anyhow::{Context as _, Result, bail, ensure};
use schedlab_random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Mutants that are drawn of each area.
const COUNT: usize = 60;
/// The clone in which they are made, with a build folder of its own.
const TREE: &str = "target/mutants/tree";
/// Where cargo-mutants writes what came of them, a folder for each package.
const RESULTS: &str = "target/mutants";
/// Seconds after which a test that still runs counts as a failed one.
const TIMEOUT: &str = "60";
/// What cargo-mutants writes: the mutants by how they ended, a file for each end.
const ENDS: [&str; 4] = ["caught", "timeout", "missed", "unviable"];

/// A part of the code, and the files that belong to it.
struct Area {
    name: &'static str,
    files: &'static [&'static str],
}

const AREAS: [Area; 3] = [
    Area {
        name: "parsers",
        files: &[
            "crates/schedlab-trace/src/argument_text.rs",
            "crates/schedlab-trace/src/dat/{clock,lane,options,pages,private_option,read_head,reader,recover,walk}.rs",
            "crates/schedlab-trace/src/{decode,detect,fast_decode,fast_layout,format,names}.rs",
            "crates/schedlab-trace/src/perf/*.rs",
            "crates/schedlab-trace/src/perfetto/{reader,wire}.rs",
            "crates/schedlab-trace/src/text/*.rs",
            "crates/schedlab-experiment/src/file/*.rs",
            "crates/schedlab-timeline/src/notation.rs",
            "crates/schedlab-workload/src/machine_name.rs",
            "crates/schedlab-jobs/src/graph/{dot,stg}.rs",
        ],
    },
    Area {
        name: "report",
        files: &[
            "crates/schedlab-experiment/src/report.rs",
            "crates/schedlab-experiment/src/report/**/*.rs",
        ],
    },
    Area {
        name: "page",
        files: &["crates/schedlab-draw/src/page.rs", "crates/schedlab-draw/src/page/*.rs"],
    },
];

/// Draws the mutants of every area, or of the named one, and runs the tests on each. With `only_list`, prints them
/// and runs nothing.
pub(crate) fn run(seed: &str, area: Option<&str>, only_list: bool) -> Result<()> {
    let seed: u64 = seed.parse().context("the seed is not a number")?;
    let areas: Vec<&Area> =
        AREAS.iter().filter(|known| area.is_none_or(|name| known.name == name)).collect();
    let names: Vec<&str> = AREAS.iter().map(|known| known.name).collect();
    ensure!(
        !areas.is_empty(),
        "unknown area '{}': use {}",
        area.unwrap_or_default(),
        names.join(", ")
    );
    let installed = Command::new("cargo").args(["mutants", "--version"]).output();
    if !installed.is_ok_and(|out| out.status.success()) {
        bail!("missing cargo-mutants: `cargo install --locked cargo-mutants` installs it");
    }
    clone()?;
    for area in areas {
        let (all, drawn) = draw(area, seed)?;
        steps::say(&format!("# {}: {} of {all} mutants, seed {seed}", area.name, drawn.len()));
        if only_list {
            drawn.iter().for_each(|name| steps::say(name));
            continue;
        }
        let mut ends = Ends::default();
        for (package, mutants) in by_package(&drawn) {
            ends.add(&try_out(area, package, &mutants)?, &mutants)?;
        }
        steps::say(&ends.text(area.name));
    }
    Ok(())
}

/// Brings the clone to the last commit. What is not committed is not looked at.
fn clone() -> Result<()> {
    if !Path::new(TREE).join(".git").exists() {
        steps::run(Command::new("git").args(["clone", "--quiet", "--shared", ".", TREE]))?;
    }
    let head = Command::new("git").args(["rev-parse", "HEAD"]).output().context("git")?;
    let head = String::from_utf8(head.stdout).context("git rev-parse")?;
    // A run that was killed leaves its last mutant in the sources.
    steps::run(Command::new("git").args(["-C", TREE, "reset", "--quiet", "--hard", head.trim()]))
}

/// How many mutants an area has, and those that the seed draws, in the order of their files.
fn draw(area: &Area, seed: u64) -> Result<(usize, Vec<String>)> {
    let mut command = Command::new("cargo");
    command.current_dir(TREE).args(["mutants", "--workspace", "--list"]);
    command.args(area.files.iter().flat_map(|file| ["--file", file]));
    let out = command.output().context("cargo mutants --list")?;
    ensure!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let list = String::from_utf8(out.stdout).context("cargo mutants --list")?;
    let mut mutants: Vec<String> = list.lines().map(str::to_owned).collect();
    let all = mutants.len();
    Random::new(seed).shuffle(&mut mutants);
    mutants.truncate(COUNT);
    mutants.sort();
    Ok((all, mutants))
}

/// Mutants by the crate whose file they are in.
fn by_package(mutants: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut packages: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for mutant in mutants {
        let package = mutant.split('/').nth(1).unwrap_or_default();
        packages.entry(package).or_default().push(mutant);
    }
    packages
}

/// Runs a package's tests on each of its mutants; the folder with what came of them.
fn try_out(area: &Area, package: &str, mutants: &[&str]) -> Result<PathBuf> {
    let names: Vec<String> = mutants.iter().map(|name| literal(name)).collect();
    let out = steps::root().join(RESULTS).join(format!("{}-{package}", area.name));
    fs::create_dir_all(&out).context(out.display().to_string())?;
    // Without mutants: a test that fails by itself would catch all of them.
    let tests = ["test", "--quiet", "--package", package, "--tests"];
    steps::run(Command::new("cargo").current_dir(TREE).args(tests))?;
    let mut command = Command::new("cargo");
    command.current_dir(TREE).args(["mutants", "--in-place", "--baseline", "skip"]);
    command.args(["--no-shuffle", "--timeout", TIMEOUT, "--package", package, "--output"]);
    // cargo-mutants 27 applies the expression to some kinds of mutants only, so the files are named, too.
    let files: BTreeSet<&str> = mutants.iter().filter_map(|name| name.split(':').next()).collect();
    command.arg(&out).args(files.iter().flat_map(|file| ["--file", file]));
    command.args(["--re", &format!("^({})$", names.join("|"))]).args(["--", "--tests"]);
    let status = command.status().context("cargo mutants")?;
    // 2: some were missed; 3: some ran into the limit of time. Both are results.
    ensure!(matches!(status.code(), Some(0 | 2 | 3)), "cargo mutants failed: {status}");
    Ok(out.join("mutants.out"))
}

/// A regular expression that matches this text.
fn literal(text: &str) -> String {
    let mut escaped = String::new();
    for char in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}

/// How mutants ended.
#[derive(Default)]
struct Ends(BTreeMap<&'static str, Vec<String>>);

impl Ends {
    /// Adds what cargo-mutants left in a folder about these mutants.
    fn add(&mut self, folder: &Path, mutants: &[&str]) -> Result<()> {
        for end in ENDS {
            let file = folder.join(format!("{end}.txt"));
            let text = fs::read_to_string(&file).context(file.display().to_string())?;
            let drawn = text.lines().filter(|line| mutants.contains(line));
            self.0.entry(end).or_default().extend(drawn.map(str::to_owned));
        }
        Ok(())
    }

    /// How many were caught, with the interval, and those that were missed.
    fn text(&self, area: &str) -> String {
        let count = |end: &str| self.0.get(end).map_or(0, Vec::len);
        let (caught, missed) = (count("caught") + count("timeout"), count("missed"));
        let (low, high) = wilson(caught, caught + missed);
        let mut text = format!(
            "{area}: {caught} of {} caught, {:.0} to {:.0} % with 95 % confidence; {} do not compile",
            caught + missed,
            low * 100.0,
            high * 100.0,
            count("unviable")
        );
        for name in self.0.get("missed").into_iter().flatten() {
            let _ = write!(text, "\n  missed: {name}");
        }
        text
    }
}

/// The 95 % interval of a share, `some` of `all` (Wilson, "Probable inference, the law of succession, and statistical
/// inference", 1927). Both ends are parts of one.
fn wilson(some: usize, all: usize) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let all = all.max(1) as f64;
    let share = some as f64 / all;
    let centre = share + Z * Z / (2.0 * all);
    let half = Z * (share * (1.0 - share) / all + Z * Z / (4.0 * all * all)).sqrt();
    let scale = 1.0 + Z * Z / all;
    ((centre - half) / scale, (centre + half) / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_belongs_to_the_crate_of_its_file() {
        let mutants = ["crates/a/src/x.rs:1:2: replace f", "crates/b/src/y.rs:3:4: replace g"];
        let mutants = mutants.map(str::to_owned);
        let packages = by_package(&mutants);
        assert_eq!(packages.keys().copied().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_name_matches_only_itself() {
        assert_eq!(literal("a.rs:1: f -> (u8)"), r"a\.rs:1: f \-> \(u8\)");
    }

    #[test]
    fn the_interval_is_that_of_the_paper() {
        // 9 of 10: 0.596 to 0.982, by the formula with z = 1.96.
        let (low, high) = wilson(9, 10);
        assert!((low - 0.5958).abs() < 0.0005, "{low}");
        assert!((high - 0.9821).abs() < 0.0005, "{high}");
    }

    #[test]
    fn caught_are_those_whose_tests_failed_or_never_ended() {
        let mut ends = Ends::default();
        ends.0.insert("caught", vec!["a".to_owned()]);
        ends.0.insert("timeout", vec!["b".to_owned()]);
        ends.0.insert("missed", vec!["c".to_owned()]);
        let text = ends.text("page");
        assert!(text.starts_with("page: 2 of 3 caught, "), "{text}");
        assert!(text.ends_with("\n  missed: c"), "{text}");
    }
}
