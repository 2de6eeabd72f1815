//! The chores of the workspace: what CI runs, and what people run by hand.

mod bench;
mod comments;
mod dependencies;
mod evidence;
mod floors;
mod fuzz;
mod gallery;
mod interface;
mod links;
mod messages;
mod model;
mod module_cycles;
mod mutants;
mod packages;
mod prose;
mod publish;
mod purity;
mod python;
mod read_docs;
mod release;
mod schemas;
mod short_docs;
mod steps;
mod suite;
mod tidy;
mod tokens;
mod types;
mod unit_tests;

use anyhow::{Result, bail};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask CHORE

  ci        what CI runs: format, lints, tidy, tests, the Debian package, the wheel for Python,
            documentation, the threads of the job executor under Miri, fuzzing for a minute or two
  test      the tests; installs the Debian packages that they need when it may, says what is
            missing when it may not
  tidy      floors, sizes, headers, forbidden words, ways out of pure crates: what no compiler
            checks
  gallery   every example of the gallery at small size, with the debug build
  types     the page's modules against their JSDoc types, by TypeScript; npm gets it by name
  fuzz [S]  every fuzz target for S seconds each (20 by default); needs the nightly toolchain
  mutants SEED [AREA]
            draws 60 mutants of each area (parsers, report, page), runs the tests on each, and
            lists those that no test noticed; needs cargo-mutants, and an hour for each area;
            `mutants list SEED AREA` prints those that would be drawn
  model     loom and miri on the parts of the job executor that threads share
  bench     the benchmarks: ratios against the peers, in one run; for a quiet machine
  schemas   writes docs/schemas anew, from the types of what --json prints
  corpus    writes the small traces of corpus/ anew
  evidence  experiments that repeat exactly: runs them and keeps their figures and hashes in
            examples/evidence; `evidence NAME` runs one, `evidence keep DIR` keeps results that are there;
            `evidence statistics` simulates how often verdicts are wrong, and writes the tables
            of docs/statistics.md (some minutes); `evidence tune` searches functions whose
            optimum is known, and writes the table of docs/tune.md; `evidence kills [N]` kills N
            sessions of `schedlab slow` (200 by default) and prints how soon all was undone;
            `evidence prediction` records a load on this machine and writes what a replay predicts of
            another slice and of one CPU less; once that is committed, `evidence prediction measure`
            measures both (each step some minutes, on a quiet machine);
            `evidence placement` records loads in guests with several CPUs and scores where the
            simulated machine puts their waking tasks (half an hour);
            `evidence two-loops` and `evidence static` run a test on a real guest, with a file of
            times and a static program
  publish   packages the libraries, and compiles a program outside the workspace against the packages
  read-docs SEED [LIBRARY]
            draws 30 public items of each library, with what their comments say: whether unit,
            range, errors and a reason to exist can be read there is for a person to judge
  interface writes what the libraries offer into docs/interface, one line for each item;
            `interface check` compares it with the code
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
        ["types"] => types::run(),
        ["fuzz"] => fuzz::run(20),
        ["fuzz", seconds] => fuzz::run(seconds.parse()?),
        ["model"] => model::run(),
        ["bench", names @ ..] => bench::run(names),
        ["schemas"] => schemas::run(),
        ["corpus"] => {
            let mut command = std::process::Command::new("cargo");
            command.args(["test", "-p", "schedlab-trace", "--test", "all", "corpus::the_kept"]);
            steps::run(command.env("SCHEDLAB_CORPUS", "write"))
        }
        ["evidence"] => evidence::run(None),
        ["evidence", "statistics"] => evidence::statistics(),
        ["evidence", "tune"] => evidence::tune(),
        ["evidence", "two-loops"] => evidence::two_loops(),
        ["evidence", "kills"] => evidence::kills("200"),
        ["evidence", "kills", count] => evidence::kills(count),
        ["evidence", "prediction"] => evidence::prediction("record"),
        ["evidence", "prediction", step] => evidence::prediction(step),
        ["evidence", "placement"] => evidence::placement(),
        ["evidence", "static"] => evidence::static_init(),
        ["evidence", name] => evidence::run(Some(name)),
        ["evidence", "keep", results] => evidence::keep(std::path::Path::new(results)),
        ["publish"] => publish::run(),
        ["interface"] => interface::write(),
        ["interface", "check"] => interface::check(),
        ["gallery"] => {
            steps::cargo(&["build", "--locked", "-p", "schedlab"])?;
            gallery::run_built()
        }
        ["mutants", "list", seed, area] => mutants::run(seed, Some(area), true),
        ["mutants", seed] => mutants::run(seed, None, false),
        ["mutants", seed, area] => mutants::run(seed, Some(area), false),
        ["python"] => python::run(),
        ["read-docs", seed] => read_docs::run(seed, None),
        ["read-docs", seed, library] => read_docs::run(seed, Some(library)),
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
    steps::cargo(&["fmt", "--all", "--check"])?;
    tidy::run()?;
    types::run()?;
    steps::cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    test()?;
    gallery::run_built()?;
    release::rehearse_built()?;
    python::run_built()?;
    steps::cargo_with(
        &["doc", "--workspace", "--no-deps", "--locked"],
        &[("RUSTDOCFLAGS", "-D warnings")],
    )?;
    release::check_static()?;
    interface::check()?;
    model::short()?;
    fuzz::run(30)
}

fn test() -> Result<()> {
    packages::ensure()?;
    // With Parquet, which is off by default: its tests need it, and one build serves all.
    suite::run(&["--workspace", "--locked", "--features", "schedlab/parquet"])
}
