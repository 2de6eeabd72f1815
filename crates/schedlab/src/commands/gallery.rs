//! `schedlab gallery`: published results about schedulers, each as an experiment with claims.
//!
//! The experiment files of `examples/gallery` travel in the program. They go through the one run loop into
//! folders of results, as any experiment does.

mod examples;

use super::UsageError;
use super::run::{check, conclude, exit_code, perform};
use crate::machines;
use anyhow::Context as _;
use examples::{EXAMPLES, Example};
use schedlab_experiment::analysis::judge;
use schedlab_experiment::report::{Table, claims};
use schedlab_experiment::{Experiment, Machines, Plan};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab gallery`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab gallery list                      the examples, and what each is about
  schedlab gallery show two-knobs            its experiment file, with all claims
  schedlab gallery run two-knobs --short     a small version, with verdicts
  schedlab gallery run --short               all of them at small size")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// List the examples with their sources and machines
    List,
    /// Print the experiment file of an example
    Show {
        /// The example
        name: String,
    },
    /// Run an example, or all of them, and print a verdict on each claim
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// The example [default: all of them]
    name: Option<String>,
    /// Run it at the small size that its file gives (the table `short`)
    #[arg(long)]
    short: bool,
    /// Where results go; finished runs that are there already are not done again
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
}

/// Lists, shows or runs examples.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::List => list(),
        What::Show { name } => {
            crate::output::stdout().write_all(find(&name)?.text.as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
        What::Run(args) => run_some(&args),
    }
}

fn find(name: &str) -> anyhow::Result<&'static Example> {
    let names = || EXAMPLES.iter().map(|example| example.name).collect::<Vec<_>>().join(", ");
    EXAMPLES.iter().find(|example| example.name == name).ok_or_else(|| {
        UsageError(format!("unknown example '{}': use {}", name.escape_default(), names())).into()
    })
}

fn list() -> anyhow::Result<ExitCode> {
    let mut table = Table::new(["example", "machine", "claims", "about"]);
    for example in EXAMPLES {
        let experiment = example.experiment()?;
        let machines: Vec<String> =
            experiment.machines().iter().map(|machine| machine.kind.clone()).collect();
        let mut machines = machines;
        machines.dedup();
        table.row([
            example.name.to_owned(),
            machines.join(", "),
            experiment.claims.len().to_string(),
            experiment.title,
        ]);
    }
    crate::output::stdout().write_all(table.text().as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn run_some(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let chosen: Vec<&Example> = match &args.name {
        Some(name) => vec![find(name)?],
        None => EXAMPLES.iter().collect(),
    };
    let mut worst = ExitCode::SUCCESS;
    let mut left_out = Vec::new();
    for example in &chosen {
        match run_one(example, args) {
            Ok(Done::Ended) => {}
            Ok(Done::Otherwise(code)) => return Ok(code),
            // One that this machine cannot do does not stop the others.
            Err(error) if chosen.len() > 1 => {
                left_out.push(example.name);
                worst = ExitCode::FAILURE;
                writeln!(crate::output::stderr(), "schedlab: {}: {error:#}", example.name)?;
            }
            Err(error) => return Err(error),
        }
    }
    if !left_out.is_empty() {
        let names = left_out.join(", ");
        writeln!(crate::output::stderr(), "schedlab: these examples did not run: {names}")?;
    }
    Ok(worst)
}

/// How an example ended.
enum Done {
    /// All runs are done.
    Ended,
    /// The user stopped it, or runs failed.
    Otherwise(ExitCode),
}

fn run_one(example: &Example, args: &RunArgs) -> anyhow::Result<Done> {
    let mut experiment = example.experiment()?;
    if args.short {
        experiment = experiment.shortened();
    }
    let results = args.output.join(&experiment.name);
    let mut machines = Machines::made_by(&machines::make);
    let mut stderr = crate::output::stderr();
    writeln!(stderr, "{}: {}", example.name, experiment.title)?;
    check(&mut machines, &experiment, &Plan::new(&experiment))?;
    let tally = perform(&mut machines, &experiment, &results)?;
    let is_open = tally.stopped || tally.boots_left > 0;
    conclude(&experiment, &results, is_open)?;
    if is_open || !tally.failed.is_empty() {
        return Ok(Done::Otherwise(exit_code(&tally)));
    }
    let stored = super::report::stored(&results)?;
    let judged = judge(&experiment, &stored.runs);
    let mut out = crate::output::stdout();
    for line in claims::lines(&judged) {
        writeln!(out, "{line}")?;
    }
    pictures(&experiment, &stored.runs, &results)?;
    Ok(Done::Ended)
}

/// The pictures of the report's first screen as files of their own.
fn pictures(
    experiment: &Experiment,
    runs: &[schedlab_experiment::StoredRun],
    results: &Path,
) -> anyhow::Result<()> {
    let shown = schedlab_experiment::report::answers(Some(experiment), runs);
    for (index, picture) in shown.first.iter().enumerate() {
        let path = results.join(format!("picture-{}.png", index + 1));
        let png = schedlab_draw::png(&picture.scene, 2)?;
        std::fs::write(&path, png).with_context(|| path.display().to_string())?;
    }
    Ok(())
}
