//! `schedlab gallery`: published results about schedulers, each as an experiment with claims.
//!
//! The experiment files of `examples/gallery` travel in the program. They go through the one run loop into
//! folders of results, as any experiment does.

mod examples;

use super::UsageError;
use super::result_file::save;
use super::run::{check, conclude, exit_code, perform};
use crate::machines;
use crate::output::{Width, folded_table};
use examples::{EXAMPLES, Example};
use schedlab_experiment::analysis::judge;
use schedlab_experiment::report::{Table, TracePictures, answers, claims, trace_scenes};
use schedlab_experiment::{Experiment, Machines, Plan, StoredRun};
use schedlab_workload::Stream;
use std::collections::BTreeSet;
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
    List(Width),
    /// Print the experiment file of an example
    Show {
        /// The example
        name: String,
    },
    /// Run examples, or all of them, and print a verdict on each claim
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// The examples [default: all of them]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Run it at the small size that its file gives (the table `short`)
    #[arg(long)]
    short: bool,
    /// Where results go; finished runs that are there already are not done again
    #[arg(short, long, value_name = "DIR", default_value = "results")]
    output: PathBuf,
    #[command(flatten)]
    width: Width,
}

/// Lists, shows or runs examples.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.what {
        What::List(width) => list(width.room()),
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

fn list(room: usize) -> anyhow::Result<ExitCode> {
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
    let text = folded_table(&table.text(), "about", room);
    crate::output::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn run_some(args: &RunArgs) -> anyhow::Result<ExitCode> {
    let chosen: Vec<&Example> = match args.names.is_empty() {
        true => EXAMPLES.iter().collect(),
        false => args.names.iter().map(|name| find(name)).collect::<Result<_, _>>()?,
    };
    let mut left_out = Vec::new();
    let mut failed = Vec::new();
    for example in &chosen {
        match run_one(example, args) {
            Ok(Done::Ended) => {}
            Ok(Done::Stopped(code)) => return Ok(code),
            Ok(Done::Failed(runs)) => failed.push(format!("{} ({runs} runs)", example.name)),
            // One that this machine cannot do does not stop the others.
            Err(error) if chosen.len() > 1 => {
                left_out.push(example.name.to_owned());
                writeln!(crate::output::stderr(), "schedlab: {}: {error:#}", example.name)?;
            }
            Err(error) => return Err(error),
        }
    }
    let mut worst = ExitCode::SUCCESS;
    for (what, names) in
        [("these examples did not run", left_out), ("runs of these examples failed", failed)]
    {
        if !names.is_empty() {
            worst = ExitCode::FAILURE;
            writeln!(crate::output::stderr(), "schedlab: {what}: {}", names.join(", "))?;
        }
    }
    Ok(worst)
}

/// How an example ended.
enum Done {
    /// All runs are done.
    Ended,
    /// The number of runs that failed; the verdicts rest on the others.
    Failed(usize),
    /// The user stopped it.
    Stopped(ExitCode),
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
    let tally = perform(&mut machines, &experiment, None, &results)?;
    let is_open = tally.stopped || tally.boots_left > 0;
    conclude(&experiment, &results, is_open, args.width.room())?;
    if is_open {
        return Ok(Done::Stopped(exit_code(&tally)));
    }
    let stored = super::report::stored(&results)?;
    let judged = judge(&experiment, &stored.runs);
    let mut out = crate::output::stdout();
    for line in claims::lines(&judged) {
        writeln!(out, "{line}")?;
    }
    pictures(&experiment, &stored.runs, &results)?;
    Ok(match tally.failed.len() {
        0 => Done::Ended,
        runs => Done::Failed(runs),
    })
}

/// The pictures of the report as files of their own: those of its first screen, and those of the first trace of
/// each workload.
fn pictures(experiment: &Experiment, runs: &[StoredRun], results: &Path) -> anyhow::Result<()> {
    let put = |name: &str, scene: &schedlab_draw::Scene| {
        let path = results.join(format!("{name}.png"));
        save(&path, schedlab_draw::png(scene, 2)?)
    };
    let shown = answers(Some(experiment), runs);
    for (index, picture) in shown.first.iter().enumerate() {
        put(&format!("picture-{}", index + 1), &picture.scenes.light)?;
    }
    let mut seen = BTreeSet::new();
    for run in runs {
        let label = &run.manifest.workload;
        let Some(trace) = run.stream(Stream::Trace).filter(|_| seen.insert(label)) else {
            continue;
        };
        for (name, scene) in trace_scenes(&trace, TracePictures::of(&experiment.draw))? {
            put(&format!("{label}-{name}"), &scene)?;
        }
    }
    Ok(())
}
