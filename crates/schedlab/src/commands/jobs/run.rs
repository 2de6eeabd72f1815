//! `schedlab jobs run`: one graph on one executor, proved, with every figure.

use super::figures::{Figures, mean};
use super::options::Setup;
use super::{events, figures, machine, outcome, picture, simulated, soak, streams, table};
use crate::commands::UsageError;
use crate::json;
use anyhow::Context;
use schedlab_jobs::executor::{ExecutorError, ExecutorFigures};
use schedlab_jobs::graph::Graph;
use schedlab_jobs::profile::{Profile, Starved, concurrency_steps};
use schedlab_jobs::rig::replay;
use schedlab_jobs::run::Run;
use schedlab_model::Nanos;
use schedlab_model::table::{MeanTime, One, Rows};
use schedlab_rig::{
    Account, Faulty, Jitter, MachineStalls, Recorded, Recording, Stalls, Threads, jitter,
    machine_stalls, read_events, steal,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// Options of `schedlab jobs run`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) setup: Setup,
    /// Executor: schedlab, lumiera, rayon, tokio, channel, serial, virtual, ideal, cmd:PROGRAM or lib:FILE.so
    #[arg(long, value_name = "NAME", default_value = "schedlab")]
    executor: String,
    /// Measure the machine's jitter for TIME before a run with start times; 0 skips it
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    jitter: Nanos,
    /// Draw the jobs by worker, and with --record the causes of stalls, to FILE: .svg, .pdf or .png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    ground: picture::ThemeOption,
    /// Draw the concurrency over time to FILE: .svg, .pdf or .png; .csv writes numbers
    #[arg(long, value_name = "FILE")]
    concurrency: Option<PathBuf>,
    /// Write the jobs by worker, and with lumiera the events of its pool, to FILE: text (.txt) or Perfetto (.json)
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Record scheduler events into this trace.dat, with a mark for each job; on the host, divide the time of all
    /// workers by cause
    #[arg(long, value_name = "FILE", conflicts_with_all = ["events", "soak"])]
    record: Option<PathBuf>,
    /// Run nothing; read the events of an executor from JSON lines {"job","worker","begin_ns","end_ns"}
    #[arg(long, value_name = "FILE", conflicts_with = "soak")]
    events: Option<PathBuf>,
    /// Run the graph repeatedly for TIME, and watch memory and counts
    #[arg(long, value_name = "TIME")]
    soak: Option<Nanos>,
    /// In a soak: let every Nth job panic
    #[arg(long, value_name = "N", requires = "soak")]
    panic_every: Option<u64>,
    /// In a soak: let one job never return
    #[arg(long, requires = "soak")]
    stuck: bool,
}

pub(super) fn run(args: &Args, room: usize) -> anyhow::Result<ExitCode> {
    check_names(args)?;
    let graph = args.setup.graph.graph()?;
    if let Some(time) = args.soak {
        return soaked(args, &graph, time);
    }
    let workers = args.setup.executor.workers()?;
    let burner = args.setup.burner(workers)?;
    let seed = args.setup.graph.seed.unwrap_or(0);
    let streams = args.setup.load.streams(args.setup.load.time, seed)?;
    let run = args.setup.load.run(graph, burner, seed)?;
    let run = Arc::new(if is_watched(args) { watched(run) } else { run });
    let jitter = own_jitter(args, &run, workers)?;
    let before = steal();
    let Ran { name, workers, told, stalls, interrupted } = execute(args, &run)?;
    let proof = run.verify();
    // What I/O fails, and what waits for it, a replay does not know.
    let complete = proof.is_ok() && run.dropped().jobs() == 0 && !run.has_io();
    // Events that another program wrote say when jobs ran, not that their work was done.
    let believed = args.events.is_some();
    let timed = run.schedule().is_timed() && complete && is_watched(args);
    let witness = timed.then(|| MachineStalls::of(&run, workers, before));
    if let Some(file) = &args.trace {
        save_trace(file, &run, workers)?;
    }
    let figures = Figures { profile: Profile::of(&run, workers), workers, told };
    let profile = &figures.profile;
    let streams = streams::Figures::of(&run, &streams);
    let streams = Rows::new(&streams, Nanos::ZERO);
    let late = machine::Late::of(&run);
    draw(args, &run, workers, &name, profile, stalls.as_ref())?;
    if args.setup.json {
        let replayed = if complete { replay(&run, workers)?.lateness(0.99) } else { None };
        json::print(&Document {
            figures: One::new(&figures, Nanos::ZERO, false),
            executor: name,
            jitter: jitter.as_ref().map(Jitter::figures),
            machine: witness.as_ref().map(MachineStalls::figures),
            stalls: stalls.as_ref().map(|s| Account::of(s, run.base())),
            late,
            interrupted,
            values_recomputed: told.recomputed,
            lateness_ns_p99_replayed: replayed,
            streams,
            dropped: outcome::dropped(&run),
            proved: proof.is_ok() && !believed,
            consistent: proof.is_ok(),
            hash: format!("{:016X}", run.graph().hash()),
        })?;
    } else {
        let missing = run.missing();
        table::say(&figures::starved(&name, profile, missing.as_deref()).unwrap_or_default())?;
        table::say(&machine::lost(&name, late.as_ref()))?;
        table::say(&show(&name, &figures))?;
        table::say(&outcome::text(&run, profile, proof, believed))?;
        table::say(&streams::text(&streams, room))?;
        table::say(&recomputed(&run, &told))?;
        table::say(&late.as_ref().map_or_else(String::new, machine::Late::text))?;
        // Without the jobs that were dropped, the others are no longer late for the same reasons.
        if complete {
            let replayed = replay(&run, workers)?;
            table::say(&lateness(&replayed, witness.as_ref(), jitter.as_ref()))?;
        }
        if let Some(stalls) = &stalls {
            table::say(&machine::stalls(stalls, run.base()))?;
        }
    }
    if interrupted {
        let ran = profile.jobs;
        let jobs = run.graph().len();
        table::note(&format!(
            "metrics are partial: the run was interrupted after {ran} of {jobs} jobs"
        ));
        return Ok(super::code(ExitCode::FAILURE));
    }
    proof.context("the run failed its proof")?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the run itself looks for jobs and workers that were held up: an executor performs them in this process.
fn is_watched(args: &Args) -> bool {
    let here = args.events.is_none() && args.setup.executor.on.is_none();
    let name = args.executor.as_str();
    here && !matches!(name, "virtual" | "ideal") && !name.starts_with("cmd:")
}

/// The run, looking for jobs and workers that were held up: closely if it has start times.
pub(super) fn watched(run: Run) -> Run {
    let look_ns = if run.schedule().is_timed() { 100_000 } else { 5_000_000 };
    run.with_machine(schedlab_rig::machine(), look_ns)
}

/// The jitter of this machine, where a run with start times is about to happen on it.
fn own_jitter(args: &Args, run: &Run, workers: usize) -> anyhow::Result<Option<Jitter>> {
    let here = args.events.is_none() && args.setup.executor.on.is_none();
    if !run.schedule().is_timed() || !here || args.jitter.0 == 0 {
        return Ok(None);
    }
    let place = args.setup.executor.on_start()?;
    let jitter = Jitter::probe(workers, args.jitter, &place);
    jitter.context("measuring the machine's own jitter").map(Some)
}

fn soaked(args: &Args, graph: &Graph, time: Nanos) -> anyhow::Result<ExitCode> {
    if let Some(model) = &args.setup.executor.on {
        return Err(simulated::refuse(model, "do a soak"));
    }
    args.setup.executor.planning.check("a soak")?;
    args.setup.load.streams.refuse("a soak")?;
    let workers = args.setup.executor.workers()?;
    let on_start = args.setup.executor.on_start()?;
    let faults = Faulty { panic_every: args.panic_every, stuck: args.stuck };
    soak::run(graph, workers, on_start, time, faults, args.setup.json)
}

fn recomputed(run: &Run, told: &ExecutorFigures) -> String {
    told.recomputed.map_or_else(String::new, |count| {
        let jobs = run.graph().len();
        format!("values of {count} of {jobs} jobs computed again: they agree\n")
    })
}

/// What an executor told, and whether the user ended the run.
fn unless_interrupted(
    told: Result<ExecutorFigures, ExecutorError>,
) -> Result<(ExecutorFigures, bool), ExecutorError> {
    match told {
        Err(ExecutorError::Interrupted) => Ok((ExecutorFigures::default(), true)),
        told => Ok((told?, false)),
    }
}

/// Names of files that ask for no known format, before anything runs.
fn check_names(args: &Args) -> anyhow::Result<()> {
    args.output.as_deref().map_or(Ok(()), picture::check)?;
    let ends = |file: &Path, known: &[&str]| {
        file.extension().is_some_and(|end| known.iter().any(|known| end == *known))
    };
    if let Some(file) = args.concurrency.as_deref().filter(|file| !ends(file, &["csv"])) {
        picture::check(file)?;
    }
    match args.trace.as_deref().filter(|file| !ends(file, &["txt", "json"])) {
        None => Ok(()),
        Some(file) => {
            let what = format!(
                "{}: invalid name: use the ending .txt, or .json for Perfetto",
                file.display()
            );
            Err(UsageError(what).into())
        }
    }
}

struct Ran {
    name: String,
    workers: usize,
    told: ExecutorFigures,
    /// Where it was recorded.
    stalls: Option<Stalls>,
    /// The user ended the run: what ran until then is measured.
    interrupted: bool,
}

fn execute(args: &Args, run: &Arc<Run>) -> anyhow::Result<Ran> {
    if let Some(file) = &args.events {
        let workers = read_events(file, run)?;
        let name = file.display().to_string();
        let told = ExecutorFigures::default();
        return Ok(Ran { name, workers, told, stalls: None, interrupted: false });
    }
    let name = args.executor.as_str();
    let is_pool = matches!(name, "schedlab" | "lumiera");
    if let Some(model) = args.setup.executor.on.as_ref().filter(|_| is_pool) {
        let pool = simulated::pool(model, name, args.setup.executor.simulated(name)?)?;
        let simulated::Ran { told, name, workers } =
            simulated::run(pool, run, args.record.as_deref())?;
        let (told, interrupted) = unless_interrupted(told)?;
        return Ok(Ran { name, workers, told, stalls: None, interrupted });
    }
    let threads = Threads::default();
    let mut executor = args.setup.executor.named_telling(&args.executor, &threads)?;
    let name = executor.name();
    let workers = executor.workers();
    if args.record.is_some() && !executor.offers().real {
        let what = format!("{name} does not offer --record: its times are computed");
        return Err(UsageError(what).into());
    }
    let recording = args.record.as_deref().map(Recording::start).transpose()?;
    let told = unless_interrupted(executor.run(run));
    let stalls = match recording {
        Some(recording) => recorded(recording, run, &name, &threads, workers, told.is_ok())?,
        None => None,
    };
    let (told, interrupted) = told?;
    Ok(Ran { name, workers, told, stalls, interrupted })
}

/// The account of a recorded run; what it lacks is noted.
fn stalls_of(recorded: Recorded) -> Stalls {
    recorded.warnings.iter().for_each(|warning| table::note(&warning.what));
    recorded.stalls
}

/// The account of an executor of others, if it came to its end and its workers tell their threads.
fn recorded(
    recording: Recording,
    run: &Run,
    name: &str,
    threads: &Threads,
    workers: usize,
    ended: bool,
) -> anyhow::Result<Option<Stalls>> {
    let mut ran = vec![false; workers];
    run.spans().iter().for_each(|span| ran[span.worker as usize] = true);
    match threads.of(&ran) {
        Ok(pids) if ended => Ok(Some(stalls_of(recording.finish(run, &pids)?))),
        Ok(_) => {
            recording.discard()?;
            Ok(None)
        }
        Err(why) => {
            recording.discard()?;
            let what = format!("{name} does not offer --record: {why}");
            if ended { Err(UsageError(what).into()) } else { Ok(None) }
        }
    }
}

fn draw(
    args: &Args,
    run: &Run,
    workers: usize,
    name: &str,
    profile: &Profile,
    stalls: Option<&Stalls>,
) -> anyhow::Result<()> {
    let mean = profile.concurrency();
    let theme = args.ground.theme();
    let notes = vec![format!("{name}, {} jobs, concurrency {mean:.2} of {workers}", profile.jobs)];
    if let Some(file) = &args.output {
        let title = "Jobs by worker";
        let chart = match stalls {
            Some(stalls) => picture::painted(run, workers, title, notes.clone(), stalls, &theme),
            None => picture::run(run, workers, title, notes.clone(), &theme),
        };
        picture::write(file, &chart, &theme)?;
    }
    match &args.concurrency {
        Some(file) if file.extension().is_some_and(|end| end == "csv") => {
            let mut rows = String::from("time_ns,jobs\n");
            for (time, level) in concurrency_steps(&run.spans()) {
                let _ = writeln!(rows, "{},{level}", time.saturating_sub(run.base()));
            }
            table::save(file, rows.as_bytes())
        }
        Some(file) => {
            let chart = picture::concurrency(run, workers, "Jobs at once", notes);
            picture::write(file, &chart, &theme)
        }
        None => Ok(()),
    }
}

fn save_trace(file: &Path, run: &Run, workers: usize) -> anyhow::Result<()> {
    let json = file.extension().is_some_and(|end| end == "json");
    let spans = run.spans();
    let text = if json { events::perfetto(workers, &spans) } else { events::text(&spans) };
    table::save(file, text.as_bytes())
}

fn show(name: &str, figures: &Figures) -> String {
    let Figures { profile, workers, told } = figures;
    let ns = |value: u64| table::time(value as f64);
    let maybe = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), ns);
    let jobs = profile.jobs.max(1) as u64;
    let Starved { ns: starved, whole_ns, .. } = profile.starved;
    let starved = match whole_ns > starved {
        true => format!("{} ({} with what the machine took)", ns(starved), ns(whole_ns)),
        false => ns(starved),
    };
    let mut rows = vec![
        vec!["executor".to_owned(), name.to_owned()],
        vec!["jobs".to_owned(), format!("{} on {workers} workers", profile.jobs)],
        vec!["run time".to_owned(), ns(profile.covered_ns)],
        vec!["concurrency".to_owned(), format!("{:.3} of {workers}", profile.concurrency())],
        vec!["job, wall".to_owned(), ns(profile.wall_ns / jobs)],
        vec![
            "job, CPU".to_owned(),
            mean(profile.cpu_ns, profile.cpu_jobs).map_or_else(|| "-".to_owned(), table::time),
        ],
        vec!["job, planned".to_owned(), ns(profile.planned_ns / jobs)],
        vec!["impeded".to_owned(), ns(profile.impeded_ns())],
        vec!["lateness p50".to_owned(), maybe(profile.lateness(0.5))],
        vec!["lateness p99".to_owned(), maybe(profile.lateness(0.99))],
        vec!["post to start p50".to_owned(), maybe(profile.post_to_start(0.5))],
        vec!["post to start p99".to_owned(), maybe(profile.post_to_start(0.99))],
        vec!["gap p50".to_owned(), maybe(profile.gap(0.5))],
        vec!["starved, longest".to_owned(), starved],
        vec!["ramp-up".to_owned(), maybe(profile.ramp_up_ns)],
        vec!["shutdown".to_owned(), maybe(profile.shutdown_ns)],
        vec!["planning a job".to_owned(), ns(told.planning_ns / jobs)],
        vec!["management".to_owned(), maybe(told.management_ns)],
        vec!["back-off".to_owned(), maybe(told.back_off_ns)],
    ];
    if let Some(&latest) = profile.posted_late_ns.last() {
        let count = profile.posted_late_ns.len();
        let at = rows.iter().position(|row| row[0] == "post to start p50").unwrap_or(rows.len());
        let what = format!("{count} jobs, by up to {}", ns(latest));
        rows.insert(at, vec!["posted after they were due".to_owned(), what]);
    }
    if let Some(offered) = profile.offered {
        let share = 100.0 * offered / *workers as f64;
        if let Some(MeanTime(wait)) = figures.poisson() {
            let at =
                rows.iter().position(|row| row[0] == "post to start p50").unwrap_or(rows.len());
            rows.insert(at, vec!["  if Poisson (M/M/c)".to_owned(), table::time(wait)]);
        }
        rows.insert(4, vec!["offered load".to_owned(), format!("{offered:.3} ({share:.0} %)")]);
    }
    for (level, &time) in profile.at_concurrency_ns.iter().enumerate() {
        rows.push(vec![format!("  {level} at once"), ns(time)]);
    }
    table::columns(&rows)
}

/// What of lateness is not the executor's: that of an ideal schedule of jobs as long as these were, and what the
/// machine does to threads without any scheduler of ours.
fn lateness(
    replayed: &Profile,
    witness: Option<&MachineStalls>,
    jitter: Option<&Jitter>,
) -> String {
    let ns = |q| replayed.lateness(q).map_or_else(|| "-".to_owned(), |ns| table::time(ns as f64));
    let mut rows = vec![
        vec!["had scheduling cost nothing".to_owned(), String::new()],
        vec!["  lateness p50".to_owned(), ns(0.5)],
        vec!["  lateness p99".to_owned(), ns(0.99)],
    ];
    rows.extend(witness.into_iter().flat_map(machine::witness));
    if let Some(jitter) = jitter {
        rows.push(vec!["this machine, before the run".to_owned(), String::new()]);
        rows.extend(
            machine::jitter(jitter)
                .into_iter()
                .map(|row| vec![format!("  {}", row[0]), row[1].clone()]),
        );
    }
    table::columns(&rows)
}

/// `schedlab jobs run --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    figures: One<'a, Figures>,
    executor: String,
    /// The machine's own jitter, measured before a run with start times.
    jitter: Option<jitter::Figures>,
    /// What the machine did to a run with start times.
    machine: Option<machine_stalls::Figures>,
    /// Where all time of all workers went, with `--record`.
    stalls: Option<Account>,
    /// Jobs that began over a millisecond after they were due, or were too late, by what they waited for; `null` if the
    /// executor does not tell when its workers slept.
    late: Option<machine::Late>,
    interrupted: bool,
    /// Of an executor outside, how many of its jobs' values were computed again.
    values_recomputed: Option<u32>,
    /// The lateness of an ideal schedule of jobs as long as these were; `null` if jobs were dropped.
    lateness_ns_p99_replayed: Option<u64>,
    /// By stream, with `--stream`.
    streams: Rows<'a, streams::Figures>,
    /// `null` without deadlines.
    dropped: Option<outcome::Dropped>,
    /// Whether every job's work is proved.
    proved: bool,
    /// Whether the events agree with the graph.
    consistent: bool,
    /// The hash of the graph, in hexadecimal digits.
    hash: String,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/jobs-run/1";
}
