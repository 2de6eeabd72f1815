//! The chores of the workspace: what CI runs, and what people run by hand.

mod bench;
mod contents;
mod dependencies;
mod evidence;
mod floors;
mod fuzz;
mod gallery;
mod links;
mod model;
mod module_cycles;
mod packages;
mod plain_writes;
mod prose;
mod publish;
mod purity;
mod python;
mod release;
mod sizes;
mod steps;
mod suite;
mod tidy;
mod tokens;
mod types;

use anyhow::{Result, bail};
use std::process::ExitCode;
use std::time::Instant;

const HELP: &str = "\
cargo xtask CHORE

  ci        what CI runs: format, tidy, dependencies, lints, documentation, tests, the gallery, the Debian package,
            the wheel for Python, the threads of the job executor under Miri, fuzzing for a minute or two
  test      the tests; installs the Debian packages that they need when it may, says what is
            missing when it may not
  tidy      what no compiler checks: floors, circles of modules, ways out of pure crates, plain
            writes, documents, and that tests say what they lack
  sizes     counts lines of Rust and of code, public items, tests, words of documents, commands and
            options
  gallery   every example of the gallery at small size, with the debug build
  types     the page's modules against their JSDoc types, by TypeScript; npm gets it by name
  dependencies
            cargo-deny on advisories, licences, sources and duplicates (deny.toml); cargo gets it by
            name; `advisories CLONE` renews the snapshot of advisories from a clone of
            https://github.com/rustsec/advisory-db
  fuzz [S]  every fuzz target for S seconds each (20 by default); needs the nightly toolchain
  model     loom and miri on the parts of the job executor that threads share
  bench     the benchmarks: ratios against the peers, in one run; for a quiet machine
  corpus    writes the small traces of corpus/ anew
  evidence NAME
            runs examples/NAME.toml and keeps its metrics in examples/evidence/NAME; `evidence waits`
            plants waits with known causes here and in guests, and keeps what was right (an hour);
            `evidence statistics` simulates how often verdicts are wrong, and writes the tables
            of docs/statistics.md (some minutes); `evidence tune` searches functions whose
            optimum is known, and writes the table of docs/tune.md; `evidence kills [N]` kills N
            sessions of `schedlab slow` (200 by default) and prints how soon all was undone, and
            then as many of the other commands that start programs; `evidence perf` compares
            wakeup latencies with `perf sched` on a new recording, and keeps the counts that README.md
            states
  publish   packages the libraries, and compiles a program outside the workspace against the packages
  python    builds the wheel for Python and runs its tests; pip gets what they need by name
  release   the static binary, its man pages and completions, the Debian package, the container
            image and the wheel in dist/, and an installation by cargo from packages; all are
            tried; `release rehearse` makes and tries the package from the debug build
";

fn main() -> ExitCode {
    match chore() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            steps::say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn chore() -> Result<()> {
    std::env::set_current_dir(steps::root())?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["ci"] => ci(),
        ["test"] => test(),
        ["tidy"] => tidy::run(),
        ["sizes"] => sizes::run(&tidy::tracked()?),
        ["types"] => types::run(),
        ["fuzz"] => fuzz::run(20),
        ["fuzz", seconds] => fuzz::run(seconds.parse()?),
        ["dependencies"] => dependencies::check(),
        ["advisories", clone] => dependencies::renew(clone),
        ["model"] => model::run(),
        ["bench", names @ ..] => bench::run(names),
        ["corpus"] => {
            let mut command = std::process::Command::new("cargo");
            command.args(["test", "-p", "schedlab-trace", "--test", "all", "corpus::the_kept"]);
            steps::run(command.env("SCHEDLAB_CORPUS", "write"))
        }
        ["evidence", "statistics"] => evidence::statistics(),
        ["evidence", "tune"] => evidence::tune(),
        ["evidence", "perf"] => evidence::perf(),
        ["evidence", "waits"] => evidence::waits(),
        ["evidence", "kills"] => evidence::kills("200"),
        ["evidence", "kills", count] => evidence::kills(count),
        ["evidence", name] => evidence::run(name),
        ["publish"] => publish::run(),
        ["gallery"] => {
            steps::cargo(&["build", "--locked", "-p", "schedlab"])?;
            gallery::run_built()
        }
        ["python"] => python::run(),
        ["release"] => release::run(),
        ["release", "rehearse"] => release::rehearse(),
        [] | ["help" | "--help" | "-h"] => {
            steps::say(HELP);
            Ok(())
        }
        _ => bail!("no such chore: {}\n\n{HELP}", words.join(" ")),
    }
}

fn ci() -> Result<()> {
    let start = Instant::now();
    // Each is a workspace of its own.
    for manifest in ["Cargo.toml", "python/Cargo.toml", "fuzz/Cargo.toml"] {
        steps::cargo(&["fmt", "--all", "--check", "--manifest-path", manifest])?;
    }
    packages::ensure()?;
    tidy::run()?;
    types::run()?;
    dependencies::check()?;
    // Lints and documentation need no machine code: for the static binary's C library they check that it compiles, too.
    let target = release::static_target();
    let lint = ["clippy", "--workspace", "--all-targets", "--locked"];
    let features = ["--features", "schedlab/parquet"];
    steps::cargo(&[&lint[..], &features, target, &["--", "-D", "warnings"]].concat())?;
    // As a user builds it: with no more features of libraries than it asks for itself.
    steps::cargo(&[&["check", "--locked", "-p", "schedlab"], target].concat())?;
    let document = [&["doc", "--workspace", "--no-deps", "--locked"], target].concat();
    steps::cargo_with(&document, &[("RUSTDOCFLAGS", "-D warnings")])?;
    test()?;
    gallery::run_built()?;
    release::rehearse_built()?;
    python::run_built()?;
    model::short()?;
    fuzz::run(30)?;
    steps::say(&format!("ci: passed after {:.0} s", start.elapsed().as_secs_f64()));
    Ok(())
}

fn test() -> Result<()> {
    packages::ensure()?;
    // With Parquet, which is off by default: its tests need it, and one build serves all.
    suite::run(&["--workspace", "--locked", "--features", "schedlab/parquet"])
}
