//! `schedlab jobs grain`: METG, the smallest job at which an efficiency is reached, per executor.

use super::options::{ExecutorArgs, GraphArgs};
use super::table;
use crate::json;
use schedlab_jobs::executor::ExecutorError;
use schedlab_jobs::load::{Burner, Kind};
use schedlab_jobs::rig::metg;
use schedlab_stats::{Sample, median_interval};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `schedlab jobs grain`.
#[derive(clap::Args)]
#[command(after_help = "\
METG(e) is the shortest job at which a fraction e of the workers' time is work (Slaughter et al.,
Task Bench, 2020). Executors take turns within each repeat, and ratios are taken within a repeat.
So a slow moment of the machine affects all executors alike.")]
pub(super) struct Args {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    executor: ExecutorArgs,
    /// Executors, the first is the one that the others are compared with
    #[arg(
        long = "executor",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "schedlab,rayon,tokio,channel"
    )]
    executors: Vec<String>,
    /// Efficiencies
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.9")]
    efficiency: Vec<f64>,
    /// How often
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// `schedlab jobs grain --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    interrupted: bool,
    workers: usize,
    /// The graph's shape.
    shape: &'static str,
    results: Vec<Grain>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-grain/1";
}

/// The smallest job of an executor at an efficiency.
#[derive(Serialize, JsonSchema)]
struct Grain {
    executor: String,
    efficiency: f64,
    /// A value for each repeat; `null`: the efficiency is not reached with jobs of 1 ms.
    metg_ns: Vec<Option<f64>>,
    /// Ratios to the first executor within a repeat.
    ratio_to_first: Vec<f64>,
    /// The interval of the median ratio.
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    ratio_ci95: Option<[f64; 2]>,
}

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let graph = args.graph.graph()?.with_weight(1);
    let mut executors = Vec::new();
    for name in &args.executors {
        executors.push(args.executor.named(name)?);
    }
    let workers = args.executor.workers()?;
    let burner = Burner::calibrate_at(Kind::Cpu, workers);
    let (mut results, mut rows) = (Vec::new(), Vec::new());
    rows.push(
        ["executor", "efficiency", "METG", "ratio to the first", "95 %"]
            .map(str::to_owned)
            .to_vec(),
    );
    for &efficiency in &args.efficiency {
        let mut found: Vec<Vec<Option<f64>>> = vec![Vec::new(); executors.len()];
        for _ in 0..args.repeat.max(1) {
            for (executor, found) in executors.iter_mut().zip(&mut found) {
                match metg(executor.as_mut(), &graph, burner, efficiency, super::interrupted) {
                    Err(ExecutorError::Interrupted) => break,
                    grain => found.push(grain?),
                }
            }
        }
        for (executor, grains) in executors.iter().zip(&found) {
            let ratios: Vec<f64> =
                found[0].iter().zip(grains).filter_map(|(o, t)| Some((*t)? / (*o)?)).collect();
            let known: Vec<f64> = grains.iter().flatten().copied().collect();
            let range =
                Sample::new(ratios.clone()).ok().and_then(|s| median_interval(&s, 0.95).ok());
            rows.push(vec![
                executor.name(),
                format!("{:.0} %", 100.0 * efficiency),
                median(&known).map_or_else(|| "above 1 ms".to_owned(), table::time),
                median(&ratios).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
                range.map_or_else(|| "-".to_owned(), |i| format!("{:.2}..{:.2}", i.low, i.high)),
            ]);
            results.push(Grain {
                executor: executor.name(),
                efficiency,
                metg_ns: grains.clone(),
                ratio_to_first: ratios,
                ratio_ci95: range.map(|i| [i.low, i.high]),
            });
        }
    }
    if args.json {
        let shape = args.graph.shape().name();
        json::print(&Document { interrupted: super::interrupted(), workers, shape, results })?;
    } else {
        table::say(&table::columns(&rows))?;
        if super::interrupted() {
            table::say("interrupted: from the repeats until then\n")?;
        }
    }
    Ok(super::code(ExitCode::SUCCESS))
}

fn median(values: &[f64]) -> Option<f64> {
    Some(Sample::new(values.iter().copied()).ok()?.median())
}
