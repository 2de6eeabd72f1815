//! `schedlab slow evaluate`: how true each method is on this machine.

use super::{note, told};
use crate::commands::UsageError;
use anyhow::Context;
use schedlab_draw::chart::{Axis, Chart, Line, Sample, Series, Values};
use schedlab_draw::{PALETTE, Theme, svg};
use schedlab_host::slow::{
    BENCHMARKS, Evaluation, Figures, Ground, METHODS, Method, Results, Speed, evaluate, verdicts,
};
use schedlab_model::Nanos;
use schedlab_sys::signal;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab slow evaluate`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Three speeds, three times, at most two CPUs: under two minutes
    #[arg(long)]
    short: bool,
    /// Methods, separated by commas [default: all that can be had here]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    methods: Vec<Method>,
    /// Microbenchmarks, separated by commas: cpu, udp, memory, sleep, processes, threads, barrier
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    benchmarks: Vec<String>,
    /// Speeds, separated by commas [default: 10% to 100%]
    #[arg(long, value_name = "SPEEDS", value_delimiter = ',')]
    speeds: Vec<Speed>,
    /// Numbers of CPUs [default: 1, 2, 4 and 8, as far as there are so many]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// How often each point is measured [default: 40]
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// How long each time [default: 1s]
    #[arg(long, value_name = "TIME")]
    time: Option<Nanos>,
    /// Figures (evaluation.json) and a picture of each microbenchmark go here
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let evaluation = chosen(args)?;
    let signals = signal::catch()?;
    let work = std::env::temp_dir().join(format!("schedlab-evaluate-{}", std::process::id()));
    let dir = args.output.clone().unwrap_or_else(|| work.clone());
    std::fs::create_dir_all(&dir).with_context(|| format!("can't make {}", dir.display()))?;
    let repeats = evaluation.repeats;
    let mut told_left_out = false;
    let results =
        evaluate(&evaluation, &Ground::here(), &dir, signals, &mut |round, points, took| {
            let left = u64::from(repeats - round) * took.0 / 1_000_000_000;
            if !told_left_out {
                note(&format!("{points} points a round, {took} each round"));
                told_left_out = true;
            }
            note(&format!("round {round} of {repeats}; {left} s left"));
        })
        .map_err(told)?;
    if args.output.is_some() {
        store(&results, &dir)?;
    } else {
        let _ = std::fs::remove_dir_all(&work);
    }
    tell(&results, args)?;
    if results.partial {
        note("interrupted: the figures are of the rounds until then");
        return Ok(ExitCode::from(130));
    }
    Ok(ExitCode::SUCCESS)
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
            let names: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name()).collect();
            let wrong = || {
                UsageError(format!(
                    "there is no microbenchmark '{name}'; there are {}",
                    names.join(", ")
                ))
            };
            BENCHMARKS.iter().copied().find(|benchmark| benchmark.name() == name).ok_or_else(wrong)
        };
        evaluation.benchmarks = args.benchmarks.iter().map(find).collect::<Result<_, _>>()?;
    }
    evaluation.repeats = args.repeats.unwrap_or(evaluation.repeats);
    evaluation.time = args.time.unwrap_or(evaluation.time);
    let bounds = Nanos::from_millis(20)..=Nanos::from_secs(600);
    anyhow::ensure!(evaluation.repeats > 0, UsageError("--repeats must be 1 at least".into()));
    anyhow::ensure!(
        bounds.contains(&evaluation.time),
        UsageError("--time must be 20ms at least, and 10 minutes at most".into())
    );
    Ok(evaluation)
}

fn json(results: &Results) -> serde_json::Value {
    serde_json::json!({
        "schema": 1,
        "results": results.results,
        "verdicts": verdicts(results),
        "left_out": results.left_out,
        "warnings": results.warnings,
        "partial": results.partial,
    })
}

fn tell(results: &Results, args: &Args) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json(results))?;
        return Ok(());
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
fn store(results: &Results, dir: &Path) -> anyhow::Result<()> {
    let write = |name: String, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))
    };
    write("evaluation.json".into(), json(results).to_string())?;
    let mut groups: Vec<(&str, usize)> =
        results.results.iter().map(|figures| (figures.benchmark.as_str(), figures.cpus)).collect();
    groups.sort_unstable();
    groups.dedup();
    for (benchmark, cpus) in groups {
        let here = |f: &&Figures| f.benchmark == benchmark && f.cpus == cpus;
        let figures: Vec<&Figures> = results.results.iter().filter(here).collect();
        write(
            format!("{benchmark}-{cpus}.svg"),
            svg(&picture(&figures).scene(720, &Theme::light())),
        )?;
    }
    note(&format!("figures and pictures are in {}", dir.display()));
    Ok(())
}

/// A curve for each method, and the ideal.
fn picture(figures: &[&Figures]) -> Line {
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
            Sample { x: f.speed, y, interval }
        });
        // A method has the same colour in every picture.
        let place = METHODS.iter().position(|(_, name, _)| *name == method).unwrap_or(0);
        let colour = Some(PALETTE[place % PALETTE.len()]);
        series.push(Series { colour, ..Series::new(method, samples.collect()) });
    }
    let of = if first.cpus == 1 { "one CPU".to_owned() } else { format!("{} CPUs", first.cpus) };
    let axis = |label: &str| Axis { values: Values::Percent, ..Axis::new(label).over(0.0, 1.0) };
    Line {
        title: format!("{} on {of}", first.benchmark),
        notes: vec![
            "rate as a part of the rate at full speed in the same round; bands are 95% intervals"
                .into(),
        ],
        x: axis("speed asked for"),
        y: axis("speed perceived"),
        series,
    }
}
