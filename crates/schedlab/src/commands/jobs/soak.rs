//! `schedlab jobs run --soak`: what a soak of the rig says.

use super::table;
use crate::json;
use schedlab_jobs::graph::Graph;
use schedlab_jobs::policy::Counts;
use schedlab_jobs::pool::Options;
use schedlab_model::Nanos;
use schedlab_rig::{Faulty, Soak};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;
use std::process::ExitCode;

/// `schedlab jobs run --soak --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    /// How often the graph was taken.
    rounds: u64,
    interrupted: bool,
    /// How often the pool did not take the graph.
    refused: u64,
    posted: u64,
    done: u64,
    panicked: u64,
    failed: u64,
    /// Jobs whose predecessor did not end well.
    abandoned: u64,
    /// Jobs that missed their deadline.
    missed: u64,
    /// Jobs that never ended.
    left: u64,
    /// Whether all jobs ended before the pool stopped.
    drained: bool,
    stuck_workers: Vec<usize>,
    /// The pool's blocks, ten times over the run.
    blocks: Vec<usize>,
    /// The pool's room for edges.
    edges: Vec<usize>,
    resident_kib: Vec<Option<u64>>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-soak/1";
}

/// Runs it.
pub(super) fn run(
    graph: &Graph,
    options: Options,
    time: Nanos,
    faulty: Faulty,
    json_wanted: bool,
) -> anyhow::Result<ExitCode> {
    let soak = schedlab_rig::soak(graph, options, time, faulty, &super::interrupted)?;
    if json_wanted {
        json::print(&document(&soak))?;
    } else {
        table::say(&text(&soak))?;
    }
    let code = if soak.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(super::code(code))
}

fn document(soak: &Soak) -> Document {
    let Counts { posted, done, panicked, failed, abandoned, missed, .. } = soak.counts;
    Document {
        rounds: soak.rounds,
        interrupted: super::interrupted(),
        refused: soak.refused,
        posted,
        done,
        panicked,
        failed,
        abandoned,
        missed,
        left: soak.left(),
        drained: soak.drained,
        stuck_workers: soak.stuck.clone(),
        blocks: soak.memory.iter().map(|memory| memory.blocks).collect(),
        edges: soak.memory.iter().map(|memory| memory.edges).collect(),
        resident_kib: soak.memory.iter().map(|memory| memory.resident_kib).collect(),
    }
}

fn text(soak: &Soak) -> String {
    let Counts { posted, done, panicked, abandoned, missed, .. } = soak.counts;
    let (rounds, refused, left) = (soak.rounds, soak.refused, soak.left());
    let mut text = format!(
        "{rounds} rounds, {refused} refused; {posted} jobs posted: {done} done, {panicked} panicked, {abandoned} \
         waited for one that did, {missed} missed their deadline, {left} left\n"
    );
    if !soak.stuck.is_empty() {
        let names: Vec<String> =
            soak.stuck.iter().map(|worker| format!("worker {worker}")).collect();
        let _ = writeln!(text, "stuck in a job: {}", names.join(", "));
    }
    text.push_str("the pool's memory, ten times over the run:\n");
    for memory in &soak.memory {
        let resident =
            memory.resident_kib.map_or_else(|| "-".to_owned(), |kib| format!("{kib} KiB"));
        let (blocks, edges) = (memory.blocks, memory.edges);
        let _ = writeln!(text, "  {blocks} blocks, {edges} edges, resident {resident}");
    }
    text
}
