//! `schedlab jobs generate`.

use super::options::GraphArgs;
use super::{picture, table};
use crate::commands::UsageError;
use crate::json;
use schedlab_jobs::graph::{Graph, GraphStatistics, dot, stg};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab jobs generate`.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    graph: GraphArgs,
    /// Write the graph to FILE: .json, .dot, .stg, .svg, .pdf or .png (repeatable)
    #[arg(short, long, value_name = "FILE")]
    output: Vec<PathBuf>,
    #[command(flatten)]
    ground: picture::ThemeOption,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let graph = args.graph.graph()?;
    let statistics = GraphStatistics::of(&graph);
    for file in &args.output {
        let extension = file.extension().map(|end| end.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("json") => {
                table::save(file, (super::nodes::write(&graph)? + "\n").as_bytes())?;
            }
            Some("dot") => table::save(file, dot(&graph).as_bytes())?,
            Some("stg") => table::save(file, stg(&graph).as_bytes())?,
            Some("svg" | "pdf" | "png") => {
                let theme = args.ground.theme();
                picture::write(file, &picture::graph(&graph, &title(args), &theme), &theme)?;
            }
            _ => {
                let name = file.display();
                let ends = "invalid name: use the ending .json, .dot, .stg, .svg, .pdf or .png";
                return Err(UsageError(format!("{name}: {ends}")).into());
            }
        }
    }
    if args.json {
        json::print(&summary(&graph, &statistics))?;
    } else {
        table::say(&text(&graph, &statistics))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn title(args: &Args) -> String {
    match args.graph.file() {
        Some(file) => format!("Jobs of {}", file.display()),
        None => format!("Jobs: {}", args.graph.shape()),
    }
}

/// `schedlab jobs generate --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    nodes: u32,
    levels: u32,
    edges: usize,
    /// The hash of the graph, in hexadecimal digits.
    hash: String,
    seed: u64,
    weight_sum: u64,
    /// The weight of the heaviest path.
    critical_path: u64,
    /// Parts one after the other with no edge between them.
    segments: u32,
    width_max: u64,
    fan_in_max: usize,
    fan_out_max: usize,
    /// Statistics by kind of job.
    categories: BTreeMap<&'static str, Category>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-generate/1";
}

/// The jobs of a kind.
#[derive(Serialize, JsonSchema)]
struct Category {
    /// How many, or the sum of their weights.
    count: u64,
    /// As a part of all jobs.
    fraction: f64,
    /// Mean of a level.
    per_level: f64,
    /// Mean over the levels of the part of the level's jobs.
    per_width: f64,
    /// Where along the levels they lie: 0 at the first, 1 at the last.
    centre: Option<f64>,
}

fn summary(graph: &Graph, statistics: &GraphStatistics) -> Document {
    let categories = statistics.summary.iter().map(|s| {
        let category = Category {
            count: s.count,
            fraction: s.fraction,
            per_level: s.per_level,
            per_width: s.per_width,
            centre: s.centre,
        };
        (s.category.name(), category)
    });
    Document {
        nodes: graph.len(),
        levels: graph.levels(),
        edges: graph.edges(),
        hash: format!("{:016X}", graph.hash()),
        seed: graph.seed(),
        weight_sum: graph.weight_sum(),
        critical_path: graph.critical_path(),
        segments: statistics.segments,
        width_max: statistics.width_max(),
        fan_in_max: statistics.fan_in_max,
        fan_out_max: statistics.fan_out_max,
        categories: categories.collect(),
    }
}

fn text(graph: &Graph, statistics: &GraphStatistics) -> String {
    let mut text = format!(
        "{} jobs, {} levels, {} edges, {} segments, hash {:016X}\n\
         weight {} in all, {} on the critical path; at most {} wide, {} in, {} out\n\n",
        graph.len(),
        graph.levels(),
        graph.edges(),
        statistics.segments,
        graph.hash(),
        graph.weight_sum(),
        graph.critical_path(),
        statistics.width_max(),
        statistics.fan_in_max,
        statistics.fan_out_max,
    );
    let head = ["kind", "count", "of jobs", "per level", "of level", "centre"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for s in &statistics.summary {
        rows.push(vec![
            s.category.name().to_owned(),
            s.count.to_string(),
            format!("{:.1} %", 100.0 * s.fraction),
            format!("{:.2}", s.per_level),
            format!("{:.1} %", 100.0 * s.per_width),
            s.centre.map_or_else(|| "-".to_owned(), |centre| format!("{centre:.2}")),
        ]);
    }
    text.push_str(&table::columns(&rows));
    text
}
