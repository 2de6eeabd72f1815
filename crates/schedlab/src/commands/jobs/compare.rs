//! `schedlab jobs compare`: executors beside each other under the same graph and load, in turns.

use super::figures::{self, Figures};
use super::options::Setup;
use super::table;
use crate::json;
use anyhow::Context;
use schedlab_jobs::executor::{Executor, ExecutorError, Offers};
use schedlab_jobs::graph::Shape;
use schedlab_jobs::profile::Profile;
use schedlab_model::Nanos;
use schedlab_model::table::{One, TextTable};
use schedlab_stats::{Sample, median_interval};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;

/// Options of `schedlab jobs compare`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab jobs compare --shape fork-join --time 20us
  schedlab jobs compare --executor schedlab,'cmd:python3 futures.py',lib:./libasync.so

Without a shape or a rule the graph is a stencil. Each column is the median of all runs. Where jobs
have no start times, the run time includes planning, as the spawns of others are part of theirs.
A feature that an executor lacks is shown as not offered. `ideal` is a list schedule without any
cost; `virtual` is the policy of `schedlab` in virtual time. Their times are computed.")]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) setup: Setup,
    /// Executors to compare [default: all built-in executors]
    #[arg(long = "executor", value_name = "NAMES", value_delimiter = ',')]
    executors: Vec<String>,
    /// Run each executor N times, in turns; each run is one sample. An interval needs 6
    #[arg(long, value_name = "N", default_value_t = 6)]
    repeat: usize,
}

struct ExecutorRuns {
    executor: Box<dyn Executor>,
    runs: Vec<Ran>,
    refused: Option<String>,
}

struct Ran {
    figures: Figures,
    /// Planning included where jobs have no start times.
    took_ns: u64,
    /// Jobs that were too late, and those that waited for them; `None` where none can be.
    dropped: Option<u64>,
    /// What the kernel does not tell of workers that could not run; `None`: the jobs did not run in this process.
    missing: Option<Vec<&'static str>>,
}

impl ExecutorRuns {
    /// The median of what all runs have; `None` where one has not.
    fn middle(&self, of: impl Fn(&Ran) -> Option<f64>) -> Option<f64> {
        median(self.runs.iter().map(of).collect::<Option<Vec<_>>>()?)
    }
}

fn median(values: Vec<f64>) -> Option<f64> {
    Some(Sample::new(values).ok()?.median())
}

pub(super) fn run(args: &Args, room: usize) -> anyhow::Result<ExitCode> {
    let executors = if args.executors.is_empty() {
        args.setup.executor.all()?
    } else {
        let named = |name: &String| args.setup.executor.named(name);
        args.executors.iter().map(named).collect::<anyhow::Result<_>>()?
    };
    let mut sides: Vec<ExecutorRuns> = executors
        .into_iter()
        .map(|executor| ExecutorRuns { executor, runs: Vec::new(), refused: None })
        .collect();
    let graph = args.setup.graph.sized(args.setup.graph.nodes, Shape::Stencil)?;
    let burner = args.setup.burner(args.setup.executor.workers()?)?;
    'turns: for turn in 0..args.repeat.max(1) {
        for side in sides.iter_mut().filter(|side| side.refused.is_none()) {
            let seed = args.setup.graph.seed.unwrap_or(0) + turn as u64;
            let one = args.setup.load.run(graph.clone(), burner, seed)?;
            let one = Arc::new(super::run::watched(one));
            match side.executor.run(&one) {
                Ok(told) => {
                    let name = side.executor.name();
                    one.verify().with_context(|| format!("{name}: the run failed its proof"))?;
                    let workers = side.executor.workers();
                    let profile = Profile::of(&one, workers);
                    let ahead = !one.schedule().is_timed();
                    let planning_ns = if ahead { told.planning_ns } else { 0 };
                    let took_ns = profile.covered_ns + planning_ns;
                    let dropped = one.schedule().has_deadlines().then(|| one.dropped().jobs());
                    let missing = one.missing().filter(|_| !name.starts_with("cmd:"));
                    let figures = Figures { profile, workers, told };
                    side.runs.push(Ran { figures, took_ns, dropped, missing });
                }
                Err(ExecutorError::NotOffered { what, .. }) => {
                    side.refused = Some(what.to_owned());
                }
                Err(ExecutorError::Interrupted) => break 'turns,
                Err(error) => return Err(error.into()),
            }
        }
    }
    if args.setup.json {
        let results = sides.iter().map(Entered::of).collect();
        json::print(&Document { interrupted: super::interrupted(), results })?;
    } else {
        table::say(&findings(&sides))?;
        table::say(&text(&sides, room))?;
        if super::interrupted() {
            table::say("interrupted: from the runs until then\n")?;
        }
    }
    Ok(super::code(ExitCode::SUCCESS))
}

/// `schedlab jobs compare --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'a> {
    interrupted: bool,
    results: Vec<Entered<'a>>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/jobs-compare/1";
}

/// The runs of one executor.
#[derive(Serialize, JsonSchema)]
struct Entered<'a> {
    executor: String,
    /// What it can do: `start times` (by itself, or paced by the rig), `deadlines` (by itself, or looked at by the rig as
    /// each job begins), `criticality`, `dependencies`, `cancellation`, `asynchronous I/O`, `jobs that fail`.
    offers: Vec<&'static str>,
    /// What it was asked and cannot do.
    not_offered: Option<String>,
    /// Whether its times are measured; else they are computed.
    real: bool,
    /// The run time of each run, without planning.
    run_ns: Vec<u64>,
    /// The same; planning is included where jobs have no start times.
    took_ns: Vec<u64>,
    /// Jobs of each run that were too late, and those that waited for them; `null` without deadlines.
    dropped: Vec<Option<u64>>,
    runs: Vec<One<'a, Figures>>,
}

impl<'a> Entered<'a> {
    fn of(side: &'a ExecutorRuns) -> Self {
        let one = |ran: &'a Ran| One::new(&ran.figures, Nanos::ZERO, false);
        let offers = side.executor.offers();
        Self {
            executor: side.executor.name(),
            offers: offered(offers),
            not_offered: side.refused.clone(),
            real: offers.real,
            run_ns: side.runs.iter().map(|ran| ran.figures.profile.covered_ns).collect(),
            took_ns: side.runs.iter().map(|ran| ran.took_ns).collect(),
            dropped: side.runs.iter().map(|ran| ran.dropped).collect(),
            runs: side.runs.iter().map(one).collect(),
        }
    }
}

fn offered(offers: Offers) -> Vec<&'static str> {
    [
        (offers.start_times && !offers.paced, "start times"),
        (offers.paced, "start times (paced by the rig)"),
        (offers.deadlines && !offers.looked_at, "deadlines"),
        (offers.looked_at, "deadlines (looked at by the rig)"),
        (offers.criticality, "criticality"),
        (offers.dependencies, "dependencies"),
        (offers.cancellation, "cancellation"),
        (offers.asynchronous, "asynchronous I/O"),
        (offers.failures, "jobs that fail"),
    ]
    .into_iter()
    .filter_map(|(offered, name)| offered.then_some(name))
    .collect()
}

/// Of each executor, the run in which a due job waited longest though a worker had none.
fn findings(sides: &[ExecutorRuns]) -> String {
    let worst = |side: &ExecutorRuns| {
        let ran = side.runs.iter().max_by_key(|ran| ran.figures.profile.starved.ns)?;
        figures::starved(&side.executor.name(), &ran.figures.profile, ran.missing.as_deref())
    };
    sides.iter().filter_map(worst).collect()
}

fn text(sides: &[ExecutorRuns], room: usize) -> String {
    let mortal = sides.iter().flat_map(|side| &side.runs).any(|ran| ran.dropped.is_some());
    let mut heads = vec!["<executor", "run time", "2?95 %", "1?to first", "4?concurrency"];
    heads.extend(["2?late p99", "5?gap p50", "3?starved"]);
    heads.extend(mortal.then_some("3?dropped"));
    heads.push("6?offers");
    let mut table = TextTable::new(&heads);
    let times = |side: &ExecutorRuns| -> Vec<f64> {
        side.runs.iter().map(|ran| ran.took_ns as f64).collect()
    };
    let first = sides.first().map(times).unwrap_or_default();
    for side in sides {
        let offers = side.executor.offers();
        let name = side.executor.name() + if offers.real { "" } else { " (computed)" };
        if let Some(what) = &side.refused {
            let mut cells = vec![name, format!("not offered: {what}")];
            cells.resize(heads.len(), String::new());
            table.row(cells);
            continue;
        }
        let own = times(side);
        let ratios: Vec<f64> = own.iter().zip(&first).map(|(own, first)| own / first).collect();
        let range = Sample::new(own.clone()).ok().and_then(|s| median_interval(&s, 0.95).ok());
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), table::time);
        let number =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |v| format!("{v:.2}"));
        let whole = |ns: Option<u64>| ns.map(|ns| ns as f64);
        let mut cells = vec![
            name,
            time(median(own)),
            range.map_or_else(
                || "-".to_owned(),
                |i| format!("{}..{}", table::time(i.low), table::time(i.high)),
            ),
            number(median(ratios)),
            number(side.middle(|ran| Some(ran.figures.profile.concurrency()))),
            time(side.middle(|ran| whole(ran.figures.profile.lateness(0.99)))),
            time(side.middle(|ran| whole(ran.figures.profile.gap(0.5)))),
            time(side.middle(|ran| Some(ran.figures.profile.starved.ns as f64))),
        ];
        cells.extend(mortal.then(|| number(side.middle(|ran| whole(ran.dropped)))));
        cells.push(offered(offers).join(", "));
        table.row(cells);
    }
    table.text(0, room)
}
