//! `schedlab slow evaluate`: how true each method is on this machine.

use super::note;
use crate::commands::UsageError;
use crate::commands::result_file::{ThemeOption, save};
use crate::commands::temporary_folder::Scratch;
use crate::json;
use crate::machines;
use crate::output::{Width, folded};
use anyhow::Context;
use schedlab_draw::chart::Chart;
use schedlab_draw::{Theme, svg};
use schedlab_experiment::evaluation::{
    Evaluation, Figures, Prepared, Results, Slowing, Verdict, benchmarks, picture, verdicts,
};
use schedlab_experiment::{Machines, Progress, run_plan, runs_of};
use schedlab_host::slow::{METHODS, Method, Speed};
use schedlab_model::table::TextTable;
use schedlab_model::{Nanos, Unit, Warning, readable};
use schedlab_sys::signal;
use schedlab_workload::{Machine, MachineName};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Options of `schedlab slow evaluate`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Measure three speeds, three times, on at most two CPUs: under two minutes
    #[arg(long)]
    short: bool,
    /// Methods, separated by commas [default: all that this machine allows]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Vec<Method>,
    /// Workloads, separated by commas: cpu, udp, stream, mixed, processes, threads, barrier
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    benchmarks: Vec<String>,
    /// Speeds, separated by commas [default: 10% to 100%]
    #[arg(long, value_name = "SPEEDS", value_delimiter = ',')]
    speeds: Vec<Speed>,
    /// Numbers of CPUs [default: 1, 2, 4 and 8, as far as the machine has them]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Run each point N times; each run is one sample [default: 40]
    #[arg(long, value_name = "N", visible_alias = "repeat")]
    repeats: Option<u32>,
    /// Length of a run [default: 1s; with --short 150ms, and 400ms for methods that average]
    #[arg(long, value_name = "TIME")]
    time: Option<Nanos>,
    /// Store runs, evaluation.json and a picture of each workload in DIR; the same call continues
    /// where it stopped
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    ground: ThemeOption,
    /// Slow the CPUs of this machine
    #[arg(long, value_name = "MACHINE", default_value_t)]
    on: MachineName,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let evaluation = chosen(args)?;
    let mut machine = machines::make(&args.on)?;
    let machine = machine.as_mut();
    let prepared = evaluation.prepare(machine, &args.on).map_err(anyhow::Error::msg)?;
    let results = if let Some(dir) = &args.output {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let results = measure(&prepared, machine, dir)?;
        store(&results, dir, &args.ground.theme())?;
        results
    } else {
        measure(&prepared, machine, Scratch::new("evaluate")?.path())?
    };
    tell(&results, args)?;
    if results.partial {
        note(
            "metrics are partial: the evaluation was interrupted; with -o the same command \
             continues it",
        );
        return Ok(ExitCode::from(130));
    }
    Ok(ExitCode::SUCCESS)
}

/// Does the runs that are not there yet, by the one run loop, and reads all of them.
fn measure(prepared: &Prepared, machine: &mut dyn Machine, dir: &Path) -> anyhow::Result<Results> {
    let plan = &prepared.plan;
    let left_out = prepared.left_out.clone();
    let warnings = busy().into_iter().collect();
    note(&outlook(prepared, dir));
    let signals = signal::catch().context("catching Ctrl-C")?;
    let stop = || signals.caught().is_some();
    let mut told: Option<Instant> = None;
    let mut progress = |progress: &Progress<'_>| match progress {
        Progress::Begins { index, total, left, .. }
            if told.is_none_or(|told| told.elapsed() > Duration::from_secs(10)) =>
        {
            told = Some(Instant::now());
            let left = left.map_or(String::new(), |left| format!("; {} left", long(left)));
            note(&format!("run {} of {total}{left}", index + 1));
        }
        Progress::Failed { error, .. } => note(&format!("failed: {error}")),
        _ => {}
    };
    let tally = run_plan(&mut Machines::one(machine), plan, dir, &stop, &mut progress)?;
    let mut results = Results { left_out, warnings, partial: tally.stopped, ..Results::default() };
    results.left_out.extend(tally.failed);
    results.results = prepared.figures(&runs_of(dir)?.runs);
    Ok(results)
}

/// How long it will take, before it begins.
fn outlook(prepared: &Prepared, dir: &Path) -> String {
    let stored = runs_of(dir).map(|found| found.runs).unwrap_or_default();
    let all = prepared.plan.runs.len();
    let (left, time) = prepared.left(&stored);
    let there = match all - left {
        0 => String::new(),
        there => format!(", {there} of which are there"),
    };
    format!(
        "{all} runs{there}: about {}; Ctrl-C ends them and prints the metrics so far, and with -o \
         the same command continues",
        long(time.as_duration())
    )
}

/// A duration for the one that waits.
fn long(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Whether other load runs on the machine: it cannot be told from a method's error.
fn busy() -> Option<Warning> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    (load > 0.5).then(|| {
        let what = format!("metrics are noisy: the machine is busy (load average {load})");
        Warning::new("machine-busy", what, "evaluate on a quiet machine")
    })
}

fn chosen(args: &Args) -> anyhow::Result<Evaluation> {
    // By default neither a variant nor the method that ends balancing on the whole machine meanwhile.
    let usual = |method: &Method| !matches!(method, Method::StopGroup | Method::Deadline);
    let all = METHODS.iter().map(|(method, ..)| *method).filter(usual);
    let methods = match &args.methods[..] {
        [] => all.map(slowing).collect(),
        named => named.iter().copied().map(slowing).collect(),
    };
    let mut evaluation = match args.short {
        true => Evaluation::short(methods),
        false => Evaluation::full(methods),
    };
    if !args.speeds.is_empty() {
        evaluation.speeds.clone_from(&args.speeds);
    }
    if !args.cpus.is_empty() {
        evaluation.cpus.clone_from(&args.cpus);
    }
    evaluation.benchmarks = benchmarks(&args.benchmarks).map_err(UsageError)?;
    evaluation.repeats = args.repeats.unwrap_or(evaluation.repeats);
    evaluation.time = args.time.unwrap_or(evaluation.time);
    evaluation.settles = args.time.is_none();
    evaluation.check().map_err(UsageError)?;
    Ok(evaluation)
}

fn slowing(method: Method) -> Slowing {
    Slowing {
        name: method.name().to_owned(),
        settles: method.settles(),
        // On one CPU these are `weight`.
        only_several_cpus: matches!(method, Method::WeightPerCpu | Method::WeightPinned),
    }
}

/// `schedlab slow evaluate --json`, and `evaluation.json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'r> {
    #[serde(flatten)]
    results: &'r Results,
    /// What the figures say about each method.
    verdicts: Vec<Verdict>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/slow-evaluate/1";
}

impl<'r> Document<'r> {
    fn of(results: &'r Results) -> Self {
        Self { results, verdicts: verdicts(results) }
    }
}

fn tell(results: &Results, args: &Args) -> anyhow::Result<()> {
    let mut out = crate::output::stdout();
    if args.json {
        return json::print(&Document::of(results));
    }
    let room = args.width.room();
    let mut table = TextTable::new(&[
        "<benchmark",
        "CPUs",
        "<method",
        "speed",
        "reached",
        "1?95 % interval",
        "2?ideal",
        "error",
    ]);
    let slowed = || results.results.iter().filter(|figures| figures.method != "none");
    for figures in slowed() {
        let (reached, interval) = figures.reached();
        let percent = |part: f64| readable(part, Unit::Fraction);
        let interval = interval.map_or_else(
            || "-".to_owned(),
            |(low, high)| format!("{} .. {}", percent(low), percent(high)),
        );
        table.row(vec![
            figures.benchmark.clone(),
            figures.cpus.to_string(),
            figures.method.clone(),
            percent(figures.speed),
            percent(reached),
            interval,
            percent(figures.ideal),
            format!("{:+.1} %", (reached / figures.ideal - 1.0) * 100.0),
        ]);
    }
    write!(out, "{}", table.text(0, room))?;
    let mut method = String::new();
    for verdict in verdicts(results) {
        if verdict.method != method {
            writeln!(out, "\n{}", verdict.method)?;
            method.clone_from(&verdict.method);
        }
        let answer = format!("  {}: {}", verdict.question, verdict.answer);
        write!(out, "{}", folded(&answer, 4, room))?;
    }
    for warning in &results.warnings {
        note(&warning.to_string());
    }
    for why in &results.left_out {
        note(&format!("left out: {why}"));
    }
    Ok(())
}

/// Writes the figures, and a picture for each microbenchmark and number of CPUs.
fn store(results: &Results, dir: &Path, theme: &Theme) -> anyhow::Result<()> {
    let write = |name: String, text: String| {
        let path = dir.join(name);
        save(&path, text)
    };
    write("evaluation.json".into(), json::line(&Document::of(results))?)?;
    let mut groups: Vec<(&str, usize)> =
        results.results.iter().map(|figures| (figures.benchmark.as_str(), figures.cpus)).collect();
    groups.sort_unstable();
    groups.dedup();
    for (benchmark, cpus) in groups {
        let here = |f: &&Figures| f.benchmark == benchmark && f.cpus == cpus;
        let figures: Vec<&Figures> = results.results.iter().filter(here).collect();
        let names: Vec<&str> = METHODS.iter().map(|(_, name, _)| *name).collect();
        let picture = picture(&figures, &names, theme);
        write(format!("{benchmark}-{cpus}.svg"), svg(&picture.scene(720, theme)))?;
    }
    note(&format!("metrics and pictures are in {}", dir.display()));
    Ok(())
}
