//! Graphs as JSON: what `jobs generate -o FILE.json` writes and `--graph FILE.json` reads.

use crate::json;
use anyhow::{Context, bail, ensure};
use schedlab_jobs::graph::{Graph, Hashing, Place};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::path::Path;

/// A graph of jobs as a file.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document<'g> {
    /// The hash of the graph, in hexadecimal digits.
    hash: String,
    seed: u64,
    jobs: Vec<Job<'g>>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/jobs-nodes/1";
}

/// A job with its predecessors in the order in which they are hashed.
#[derive(Serialize, JsonSchema)]
struct Job<'g> {
    /// Its number: its place in the list, from 0.
    node: u32,
    level: u32,
    weight: u32,
    seeded: bool,
    /// The hash of the job, in hexadecimal digits.
    hash: String,
    /// The jobs that must end before.
    after: &'g [u32],
}

pub(super) fn write(graph: &Graph) -> serde_json::Result<String> {
    let job = |node| Job {
        node,
        level: graph.level(node),
        weight: graph.weight(node),
        seeded: graph.place(node).seeded,
        hash: format!("{:016X}", graph.expected(node)),
        after: graph.predecessors(node),
    };
    json::line(&Document {
        hash: format!("{:016X}", graph.hash()),
        seed: graph.seed(),
        jobs: (0..graph.len()).map(job).collect(),
    })
}

/// Reads a graph. Jobs need `after` alone; `weight` is 1 and `seed` 0 unless given, and a `hash` is checked.
pub(super) fn read(file: &Path, hashing: Hashing) -> anyhow::Result<Graph> {
    let text =
        schedlab_sys::regular_file::text(file).with_context(|| format!("{}", file.display()))?;
    parse(&text, hashing).with_context(|| format!("{}", file.display()))
}

/// The schema of a graph.
const ID: &str = <Document<'_> as json::Document>::ID;

fn parse(text: &str, hashing: Hashing) -> anyhow::Result<Graph> {
    let value: Value = serde_json::from_str(text).context("no JSON")?;
    if let Some(schema) = value.get("schema").and_then(Value::as_str) {
        ensure!(schema == ID, "unknown schema '{schema}': use '{ID}'");
    }
    let jobs = value.get("jobs").and_then(Value::as_array).context("it has no list `jobs`")?;
    ensure!(!jobs.is_empty(), "its list `jobs` is empty");
    let mut places = Vec::new();
    let mut edges = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let to = u32::try_from(number)?;
        let whole = |value: &Value| value.as_u64().and_then(|value| u32::try_from(value).ok());
        if let Some(node) = job.get("node") {
            ensure!(
                whole(node) == Some(to),
                "found job {node} instead of job {to}: jobs are in ascending order"
            );
        }
        let weight = job.get("weight").map_or(Some(1), whole);
        let weight =
            weight.with_context(|| format!("job {to}: invalid `weight`: use a whole number"))?;
        let level = job.get("level").and_then(whole).unwrap_or(u32::MAX);
        let seeded = job.get("seeded").and_then(Value::as_bool).unwrap_or(false);
        places.push(Place { level, weight, seeded });
        let after = job.get("after").and_then(Value::as_array);
        for from in
            after.with_context(|| format!("job {to}: invalid `after`: use a list of jobs"))?
        {
            let from = whole(from).with_context(|| format!("job {to}: `after` holds {from}"))?;
            edges.push((from, to));
        }
    }
    let seed = value.get("seed").and_then(Value::as_u64).unwrap_or(0);
    let graph = Graph::from_places(&places, &edges, seed, hashing)?;
    if let Some(hash) = value.get("hash").and_then(Value::as_str) {
        let found = format!("{:016X}", graph.hash());
        if hash != found {
            bail!(
                "its hash is {hash}, that of its jobs {found}: it was changed, or made with another --hash"
            );
        }
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_jobs::graph::{Rules, Shape};

    #[test]
    fn a_graph_reads_back_with_its_hash() {
        for hashing in [Hashing::Mixed, Hashing::Compat] {
            for shape in Shape::ALL {
                let graph = shape.build(&Rules { nodes: 90, fan: 8, hashing, ..Rules::default() });
                let back = parse(&write(&graph).unwrap(), hashing).unwrap();
                assert_eq!((back.hash(), back.edges()), (graph.hash(), graph.edges()), "{shape}");
                assert_eq!(back.critical_path(), graph.critical_path());
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let error = |text: &str| format!("{:#}", parse(text, Hashing::Mixed).unwrap_err());
        assert_eq!(error("{}"), "it has no list `jobs`");
        assert_eq!(error(r#"{"jobs": [{"after": [-1]}]}"#), "job 0: `after` holds -1");
        assert_eq!(
            error(r#"{"jobs": [{"after": []}, {"after": [7]}]}"#),
            "an edge leads from node 7 to node 1, but there are 2 nodes"
        );
        let changed = error(r#"{"hash": "0", "jobs": [{"after": []}]}"#);
        assert!(changed.starts_with("its hash is 0, that of its jobs "), "{changed}");
    }
}
