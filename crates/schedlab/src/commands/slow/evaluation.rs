//! `schedlab slow evaluate`: how true each method is on this machine.

mod figures;
mod points;
mod verdict;

use super::note;
use crate::commands::UsageError;
use crate::commands::result_file::{Ground, save};
use crate::commands::temporary_folder::Scratch;
use crate::json;
use crate::machines;
use anyhow::Context;
use figures::{Figures, Results};
use points::{BENCHMARKS, Evaluation, Point};
use schedlab_draw::chart::{Axis, Chart, Line, Sample, Series, Values};
use schedlab_draw::{Theme, svg};
use schedlab_experiment::{Machines, Plan, Planned, Progress, run_plan, runs_of};
use schedlab_host::slow::{METHODS, Method, Speed};
use schedlab_model::{Nanos, Warning};
use schedlab_sys::signal;
use schedlab_workload::{Machine, MachineName};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verdict::{Verdict, verdicts};

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
    ground: Ground,
    /// Slow the CPUs of this machine
    #[arg(long, value_name = "MACHINE", default_value_t)]
    on: MachineName,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let evaluation = chosen(args)?;
    let mut machine = machines::make(&args.on)?;
    let machine = machine.as_mut();
    let (points, left_out) = points::points(&evaluation, machine)?;
    let plan = points::plan(&points, &evaluation, &machine.offers().allowed, &args.on);
    let results = if let Some(dir) = &args.output {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let results = measure(&points, &plan, left_out, machine, dir)?;
        store(&results, dir, &args.ground.theme())?;
        results
    } else {
        measure(&points, &plan, left_out, machine, Scratch::new("evaluate")?.path())?
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
fn measure(
    points: &[Point],
    plan: &Plan,
    left_out: Vec<String>,
    machine: &mut dyn Machine,
    dir: &Path,
) -> anyhow::Result<Results> {
    let warnings = busy().into_iter().collect();
    note(&outlook(plan, dir));
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
    results.results = figures::figures(points, &runs_of(dir)?.runs);
    Ok(results)
}

/// What a run takes besides its time: groups, guard, load and results.
const AROUND: Nanos = Nanos::from_millis(70);

/// How long it will take, before it begins.
fn outlook(plan: &Plan, dir: &Path) -> String {
    // By the run's id: the folder's name goes on with the place.
    let stored = runs_of(dir).map(|found| found.runs).unwrap_or_default();
    let is_left = |run: &&Planned| stored.iter().all(|stored| stored.manifest.id != run.id);
    let left: Vec<Nanos> =
        plan.runs.iter().filter(is_left).map(|run| points::duration(run) + AROUND).collect();
    let there = plan.runs.len() - left.len();
    let left = Nanos(left.iter().map(|time| time.0).sum());
    let there = if there > 0 { format!(", {there} of which are there") } else { String::new() };
    format!(
        "{} runs{there}: about {}; Ctrl-C ends them and prints the metrics so far, and with -o \
         the same command continues",
        plan.runs.len(),
        long(left.as_duration())
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
    let mut evaluation = if args.short { Evaluation::short() } else { Evaluation::full() };
    if !args.methods.is_empty() {
        evaluation.methods.clone_from(&args.methods);
    }
    if !args.speeds.is_empty() {
        evaluation.speeds.clone_from(&args.speeds);
    }
    if !args.cpus.is_empty() {
        evaluation.cpus.clone_from(&args.cpus);
    }
    if !args.benchmarks.is_empty() {
        let find = |name: &String| {
            let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
            let wrong =
                || UsageError(format!("unknown microbenchmark '{name}': use {}", names.join(", ")));
            BENCHMARKS.iter().copied().find(|benchmark| benchmark.name == name).ok_or_else(wrong)
        };
        evaluation.benchmarks = args.benchmarks.iter().map(find).collect::<Result<_, _>>()?;
    }
    evaluation.repeats = args.repeats.unwrap_or(evaluation.repeats);
    evaluation.time = args.time.unwrap_or(evaluation.time);
    evaluation.settles = args.time.is_none();
    let bounds = Nanos::from_millis(20)..=Nanos::from_secs(600);
    anyhow::ensure!(evaluation.repeats > 0, UsageError("invalid --repeats: use at least 1".into()));
    anyhow::ensure!(
        bounds.contains(&evaluation.time),
        UsageError("invalid --time: use 20ms to 10m".into())
    );
    Ok(evaluation)
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
    writeln!(
        out,
        "{:<10} {:>4} {:<15} {:>6} {:>8} {:>17} {:>8} {:>8}",
        "benchmark", "cpus", "method", "speed", "reached", "95% interval", "ideal", "error"
    )?;
    let slowed = || results.results.iter().filter(|figures| figures.method != "none");
    for figures in slowed() {
        let (reached, interval) = figures.reached();
        let percent = |part: f64| format!("{:.1}%", part * 100.0);
        let interval = interval.map_or_else(
            || "-".to_owned(),
            |(low, high)| format!("{} .. {}", percent(low), percent(high)),
        );
        writeln!(
            out,
            "{:<10} {:>4} {:<15} {:>6} {:>8} {interval:>17} {:>8} {:>8}",
            figures.benchmark,
            figures.cpus,
            figures.method,
            percent(figures.speed),
            percent(reached),
            percent(figures.ideal),
            format!("{:+.1}%", (reached / figures.ideal - 1.0) * 100.0),
        )?;
    }
    let mut method = String::new();
    for verdict in verdicts(results) {
        if verdict.method != method {
            writeln!(out, "\n{}", verdict.method)?;
            method.clone_from(&verdict.method);
        }
        writeln!(out, "  {}: {}", verdict.question, verdict.answer)?;
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
        write(format!("{benchmark}-{cpus}.svg"), svg(&picture(&figures, theme).scene(720, theme)))?;
    }
    note(&format!("metrics and pictures are in {}", dir.display()));
    Ok(())
}

/// Where bands are cut.
const TOP: f64 = 1.25;

/// A curve for each method, and the ideal.
fn picture(figures: &[&Figures], theme: &Theme) -> Line {
    let Some(first) = figures.first() else { return Line::default() };
    let mut methods: Vec<&str> = figures.iter().map(|f| f.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    let mut series = Vec::new();
    let mut ideal: Vec<Sample> = figures.iter().map(|f| Sample::new(f.speed, f.ideal)).collect();
    ideal.sort_by(|a, b| a.x.total_cmp(&b.x));
    ideal.dedup_by(|a, b| a.x.total_cmp(&b.x).is_eq());
    series.push(Series::ideal("ideal", ideal));
    for method in methods.into_iter().filter(|method| *method != "none") {
        let mine = figures.iter().filter(|f| f.method == method);
        let samples = mine.map(|f| {
            let (y, interval) = f.reached();
            // Few repeats have intervals beyond all sense, which would press the curves together.
            let interval = interval.map(|(low, high)| (low.clamp(0.0, TOP), high.clamp(0.0, TOP)));
            Sample { x: f.speed, y, interval }
        });
        // A method has the same colour in every picture.
        let place = METHODS.iter().position(|(_, name, _)| *name == method).unwrap_or(0);
        let colour = Some(theme.series(place));
        series.push(Series { colour, ..Series::new(method, samples.collect()) });
    }
    let of = if first.cpus == 1 { "one CPU".to_owned() } else { format!("{} CPUs", first.cpus) };
    let axis = |label: &str| Axis { values: Values::Percent, ..Axis::new(label).over(0.0, 1.0) };
    Line {
        title: format!("{} on {of}", first.benchmark),
        notes: vec![format!(
            "rate as a part of the rate at full speed in the same round; bands are 95% intervals, cut at 0 and {:.0}%",
            TOP * 100.0
        )],
        x: axis("speed asked for"),
        y: axis("speed perceived"),
        series,
    }
}
