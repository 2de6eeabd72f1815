//! `schedlab jobs run --soak`: what a soak of the rig says.

use super::table;
use crate::json;
use schedlab_jobs::graph::Graph;
use schedlab_jobs::pool::OnStart;
use schedlab_model::Nanos;
use schedlab_pool::{Counts, Options};
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
    /// Jobs that never ended.
    left: u64,
    /// Whether all jobs ended before the pool stopped.
    drained: bool,
    stuck_workers: Vec<usize>,
    /// Resident memory of the process, ten times over the run.
    resident_kib: Vec<Option<u64>>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-soak/1";
}

pub(super) fn run(
    graph: &Graph,
    workers: usize,
    on_start: OnStart,
    time: Nanos,
    faulty: Faulty,
    json_wanted: bool,
) -> anyhow::Result<ExitCode> {
    let options = Options::new(workers).on_start(move |worker| on_start(worker));
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
    let Counts { posted, done, panicked, failed, dependency_failed, .. } = soak.counts;
    Document {
        rounds: soak.rounds,
        interrupted: super::interrupted(),
        refused: soak.refused,
        posted,
        done,
        panicked,
        failed,
        abandoned: dependency_failed,
        left: soak.left(),
        drained: soak.drained,
        stuck_workers: soak.stuck.clone(),
        resident_kib: soak.resident_kib.clone(),
    }
}

fn text(soak: &Soak) -> String {
    let Counts { posted, done, panicked, dependency_failed: abandoned, .. } = soak.counts;
    let rounds = soak.rounds;
    let refused = soak.refused;
    let left = soak.left();
    let mut text = format!(
        "{rounds} rounds, {refused} refused; {posted} jobs posted: {done} done, {panicked} panicked, {abandoned} \
         waited for one that did, {left} left\n"
    );
    if !soak.stuck.is_empty() {
        let names: Vec<String> =
            soak.stuck.iter().map(|worker| format!("worker {worker}")).collect();
        let _ = writeln!(text, "stuck in a job: {}", names.join(", "));
    }
    let resident = soak.resident_kib.iter();
    let resident: Vec<String> =
        resident.map(|kib| kib.map_or_else(|| "-".to_owned(), |kib| kib.to_string())).collect();
    let _ = writeln!(text, "resident memory over the run, in KiB: {}", resident.join(" "));
    text
}
