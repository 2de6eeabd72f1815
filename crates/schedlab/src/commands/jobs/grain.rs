//! `schedlab jobs grain`: METG, the smallest job at which an efficiency is reached, per executor.

use super::options::{ExecutorArgs, GraphArgs, data_fits};
use super::table;
use crate::commands::UsageError;
use crate::json;
use schedlab_jobs::executor::{Executor, ExecutorError};
use schedlab_jobs::graph::{Graph, Shape};
use schedlab_jobs::load::{Kind, Length};
use schedlab_jobs::rig::{Jobs, metg};
use schedlab_model::Bytes;
use schedlab_model::table::TextTable;
use schedlab_stats::{Sample, median_interval};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// Options of `schedlab jobs grain`.
#[derive(clap::Args)]
#[command(after_help = "\
METG(e) is the shortest job at which a fraction e of the workers' time is work (Slaughter et al.,
Task Bench, 2020). Without a shape or a rule the graph is a stencil. Planning counts for every
executor, and the workers of all are bound alike (--cpus). Executors take turns within each repeat,
and ratios are taken within a repeat. So a slow moment of the machine affects all executors alike.

Examples:
  schedlab jobs grain --shape fft --fan 8 --executor schedlab,rayon
  schedlab jobs grain --worker-counts 1,2,4 --data 4KiB --length exponential")]
pub(super) struct Args {
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    pub(super) executor: ExecutorArgs,
    /// Executors; each is compared with the first
    #[arg(
        long = "executor",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "schedlab,rayon,tokio,channel"
    )]
    executors: Vec<String>,
    /// Find the grain at these efficiencies, above 0 and at most 1
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.9")]
    efficiency: Vec<f64>,
    /// Search for each of these numbers of workers
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with = "workers")]
    worker_counts: Vec<usize>,
    /// Distribution of job lengths: fixed, exponential, bimodal:FRACTION:TIMES or pareto:SHAPE
    #[arg(long, default_value = "fixed")]
    length: Length,
    /// Each job writes this much, and each of its successors reads it
    #[arg(long, value_name = "SIZE", default_value = "0B")]
    data: Bytes,
    /// Search N times; each search is one sample. An interval needs 6
    #[arg(long, value_name = "N", default_value_t = 6)]
    repeat: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `schedlab jobs grain --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    interrupted: bool,
    /// The most workers.
    workers: usize,
    /// The CPUs of the workers: `own` (one each while there are enough), `any`, or a list.
    cpus: String,
    /// The graph's shape; `null`: it is from a file or by rules.
    shape: Option<&'static str>,
    /// Bytes that each job writes and each of its successors reads.
    data_bytes: u64,
    results: Vec<Grain>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-grain/1";
}

/// The smallest job of an executor at an efficiency.
#[derive(Serialize, JsonSchema)]
struct Grain {
    executor: String,
    workers: usize,
    efficiency: f64,
    /// A value for each repeat; `null`: the efficiency is not reached with jobs of 1 ms.
    metg_ns: Vec<Option<f64>>,
    /// Ratios to the first executor within a repeat.
    ratio_to_first: Vec<f64>,
    /// The interval of the median ratio.
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    ratio_ci95: Option<[f64; 2]>,
}

pub(super) fn run(args: &Args, room: usize) -> anyhow::Result<ExitCode> {
    if let Some(wrong) = args.efficiency.iter().find(|e| !(**e > 0.0 && **e <= 1.0)) {
        return Err(UsageError(format!("--efficiency {wrong}: above 0 and up to 1")).into());
    }
    let graph = args.graph.sized(args.graph.nodes, Shape::Stencil)?.with_weight(1);
    data_fits(args.data, &graph)?;
    args.executor.check_data(args.data)?;
    let counts = match args.worker_counts.as_slice() {
        [] => vec![args.executor.workers()?],
        counts => counts.to_vec(),
    };
    let mut results = Vec::new();
    for &workers in &counts {
        results.extend(with_workers(args, &graph, workers)?);
    }
    if args.json {
        json::print(&Document {
            interrupted: super::interrupted(),
            workers: counts.into_iter().max().unwrap_or(1),
            cpus: args.executor.cpus_asked(),
            shape: args.graph.shape_of(Shape::Stencil).map(Shape::name),
            data_bytes: args.data.0,
            results,
        })?;
    } else {
        table::say(&text(&results, room))?;
        if super::interrupted() {
            table::say("interrupted: from the repeats until then\n")?;
        }
    }
    Ok(super::code(ExitCode::SUCCESS))
}

/// Every executor at every efficiency, with this many workers.
fn with_workers(args: &Args, graph: &Graph, workers: usize) -> anyhow::Result<Vec<Grain>> {
    let options = args.executor.with_workers(workers);
    let named = |name: &String| options.named(name);
    let mut executors = args.executors.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?;
    let jobs = Jobs {
        graph,
        burner: options.burner(Kind::Cpu.into(), options.workers()?),
        length: args.length,
        data_bytes: usize::try_from(args.data.0)?,
        stop: super::interrupted,
    };
    let mut results = Vec::new();
    for &efficiency in &args.efficiency {
        let found = in_turns(&mut executors, &jobs, efficiency, args.repeat.max(1))?;
        for (executor, grains) in executors.iter().zip(&found) {
            let ratios: Vec<f64> =
                found[0].iter().zip(grains).filter_map(|(o, t)| Some((*t)? / (*o)?)).collect();
            let range =
                Sample::new(ratios.clone()).ok().and_then(|s| median_interval(&s, 0.95).ok());
            results.push(Grain {
                executor: executor.name(),
                workers,
                efficiency,
                metg_ns: grains.clone(),
                ratio_to_first: ratios,
                ratio_ci95: range.map(|i| [i.low, i.high]),
            });
        }
    }
    Ok(results)
}

/// The grains of each executor, the executors in turns within each repeat.
fn in_turns(
    executors: &mut [Box<dyn Executor>],
    jobs: &Jobs<'_>,
    efficiency: f64,
    repeats: usize,
) -> Result<Vec<Vec<Option<f64>>>, ExecutorError> {
    let mut found: Vec<Vec<Option<f64>>> = vec![Vec::new(); executors.len()];
    for _ in 0..repeats {
        for (executor, found) in executors.iter_mut().zip(&mut found) {
            match metg(executor.as_mut(), jobs, efficiency) {
                Err(ExecutorError::Interrupted) => break,
                grain => found.push(grain?),
            }
        }
    }
    Ok(found)
}

fn text(results: &[Grain], room: usize) -> String {
    let heads = ["<executor", "workers", "efficiency", "METG", "1?ratio to the first", "2?95 %"];
    let mut table = TextTable::new(&heads);
    for grain in results {
        let known: Vec<f64> = grain.metg_ns.iter().flatten().copied().collect();
        let ratio = median(&grain.ratio_to_first);
        let range = grain.ratio_ci95;
        table.row(vec![
            grain.executor.clone(),
            grain.workers.to_string(),
            format!("{:.0} %", 100.0 * grain.efficiency),
            median(&known).map_or_else(|| "above 1 ms".to_owned(), table::time),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}")),
            range.map_or_else(|| "-".to_owned(), |[low, high]| format!("{low:.2}..{high:.2}")),
        ]);
    }
    table.text(0, room)
}

fn median(values: &[f64]) -> Option<f64> {
    Some(Sample::new(values.iter().copied()).ok()?.median())
}
