//! `schedlab tour`: a guided first minute.
//!
//! The tour is an experiment like any other (`examples/tour.toml`, carried in the binary): it goes
//! through the one run loop into run directories, and its report is the usual report.

use super::result_file::save;
use super::run::{check, exit_code, perform};
use super::{doctor, report, trace};
use crate::machines;
use anyhow::Context as _;
use schedlab_experiment::{Experiment, Machines, Plan, StoredRun, runs_of};
use schedlab_timeline::Latency;
use schedlab_workload::{Figure, MachineName, Stream};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a first look needs; the report has every figure.
const HEADLINES: [&str; 9] = [
    "message_latency_ns_p50",
    "message_latency_ns_p99",
    "messages_per_s",
    "wakeup_latency_ns_p50",
    "wakeup_latency_ns_p99",
    "requests_per_s",
    "switches_voluntary",
    "switches_involuntary",
    "migrations",
];

const EXPERIMENT: &str = include_str!("../../files/tour.toml");

/// Options of `schedlab tour`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write results and report to DIR [default: schedlab-tour, or the next free schedlab-tour-N]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Do the runs on this machine
    #[arg(long, value_name = "MACHINE", default_value_t)]
    on: MachineName,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    writeln!(out, "1. What this machine allows (`schedlab doctor` says more)\n")?;
    write!(out, "{}", doctor::machine(&schedlab_host::facts::facts()))?;
    writeln!(out, "{}", doctor::text(&schedlab_host::doctor::doctor(), true))?;

    let mut experiment = Experiment::parse(EXPERIMENT, Path::new("examples/tour.toml"))
        .context("the tour's own experiment file")?;
    let results = args.output.unwrap_or_else(free_folder);
    writeln!(out, "2. Two loads, a few seconds each, recorded (examples/tour.toml)\n")?;
    let mut machines = Machines::made_by(&machines::make);
    machines.get(&args.on)?;
    experiment.put_on(args.on);
    let plan = Plan::new(&experiment);
    check(&mut machines, &experiment, &plan)?;
    let tally = perform(&mut machines, &experiment, None, &results)?;

    let mut runs = runs_of(&results)?.runs;
    let place =
        |run: &StoredRun| plan.runs.iter().position(|planned| planned.id == run.manifest.id);
    runs.sort_by_key(place);
    writeln!(out, "\n3. What was measured\n")?;
    for run in &runs {
        write!(out, "{}", measured(run)?)?;
    }
    let path = results.join("report.html");
    let report = report::full_report(&experiment.title, &runs, &experiment.draw)?;
    save(&path, report.html())?;
    writeln!(out, "\n4. The report, with pictures: {}\n", path.display())?;
    write!(out, "{}", next_steps(&runs))?;
    Ok(exit_code(&tally))
}

/// A folder of this tour's own: an earlier tour's runs would count as done.
fn free_folder() -> PathBuf {
    let names = std::iter::once("schedlab-tour".to_owned())
        .chain((2..).map(|n| format!("schedlab-tour-{n}")));
    names.map(PathBuf::from).find(|folder| !folder.exists()).expect("numbers do not run out")
}

/// The figures of one run, and who waited in its trace.
fn measured(run: &StoredRun) -> anyhow::Result<String> {
    let mut text = format!("{}:\n", run.manifest.workload);
    let wanted =
        |figure: &&Figure| figure.of.is_empty() && HEADLINES.contains(&&*figure.metric.name);
    for figure in run.figures.iter().filter(wanted) {
        let value = schedlab_experiment::report::readable(figure.value, figure.metric.unit);
        let _ = writeln!(text, "  {:<28} {value}", figure.metric.name);
    }
    let Some(trace) = run.stream(Stream::Trace) else {
        text += "  no trace: what is missing stands above, under recording\n";
        return Ok(text);
    };
    let mut source = schedlab_trace::open(&trace)?;
    let answer = schedlab_timeline::ask(source.as_mut(), Latency::new())?.answer;
    let waits = trace::latency::total(&answer, crate::output::room().saturating_sub(2));
    // What has no room here, the command shows that is named as the next step.
    for line in waits.lines().filter(|line| !line.contains("(--wide ")) {
        let _ = writeln!(text, "  {line}");
    }
    Ok(text)
}

/// What to try next, with the tour's own files.
fn next_steps(runs: &[StoredRun]) -> String {
    let traced = runs.iter().find_map(|run| run.stream(Stream::Trace));
    let trace = traced.map_or_else(|| "x.dat".to_owned(), |path| path.display().to_string());
    format!(
        "Next:\n  schedlab trace latency {trace}\n  schedlab draw cores {trace} -o cores.svg\n  \
         schedlab record -o mine.dat -- your-command\n"
    )
}
