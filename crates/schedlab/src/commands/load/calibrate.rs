//! `--calibrate-to`: how much work a request may be, so that it fits a slice.
//!
//! In calibration mode a request is its work alone, without locks and sleep. The number of
//! multiplications that brings its 99th percentile just under the wanted time is found by
//! proportion, which a few runs make exact; then it is checked under load.

use super::Wanted;
use super::once::{EXIT_INTERRUPTED, perform, told};
use super::show::{self, human};
use super::usage;
use schedlab_model::{Nanos, Unit};
use schedlab_workload::{MachineError, RunSpec, WorkloadSpec};
use serde_json::json;
use std::io::Write as _;
use std::process::ExitCode;

/// Runs of the search: each brings the result closer by the ratio that was missed.
const TRIES: usize = 6;
/// A result counts when it lies between this fraction of the wanted time and the time itself.
const CLOSE: f64 = 0.9;
/// How far below the wanted time the search aims.
const AIM: f64 = 0.96;

/// The spec with other options of the workload.
fn with(spec: &RunSpec, changes: &[(&str, String)]) -> RunSpec {
    let mut spec = spec.clone();
    if let WorkloadSpec::Builtin { options, .. } = &mut spec.workload {
        for (name, value) in changes {
            options.insert((*name).to_owned(), value.clone());
        }
    }
    spec
}

/// The 99th percentile of request latency in nanoseconds; `None` when it was interrupted.
fn p99(spec: &RunSpec) -> Result<Option<f64>, MachineError> {
    let (measured, outcome) = perform(spec, None, &mut |_| ())?;
    if outcome.interrupted {
        return Ok(None);
    }
    measured.value("request_latency_ns_p99").map(Some).ok_or_else(|| {
        MachineError::Load("no request was done: give it more time (--runtime)".to_owned())
    })
}

pub(super) fn run(wanted: &Wanted) -> anyhow::Result<ExitCode> {
    if wanted.workload.name != "schbench" {
        return Err(usage("option calibrate-to: only schbench has requests of work"));
    }
    let goal: Nanos = wanted.own.duration("calibrate-to");
    if goal < Nanos::from_micros(10) {
        return Err(usage("option calibrate-to: less than 10us can't be met by whole operations"));
    }
    let given = |name: &str| match &wanted.spec.workload {
        WorkloadSpec::Builtin { options, .. } => options.get(name).cloned(),
        WorkloadSpec::Command { .. } => None,
    };
    let runtime = given("runtime").unwrap_or_else(|| "3".to_owned());
    let mut operations: u64 = given("operations").and_then(|n| n.parse().ok()).unwrap_or(5).max(1);
    let mut found: Option<(u64, f64)> = None;
    for _ in 0..TRIES {
        let calibrating = [
            ("calibrate", "true".to_owned()),
            ("runtime", runtime.clone()),
            ("operations", operations.to_string()),
        ];
        let Some(time) = p99(&with(&wanted.spec, &calibrating)).map_err(told)? else {
            return Ok(ExitCode::from(EXIT_INTERRUPTED));
        };
        let note = human(time, Unit::Nanoseconds);
        let _ = writeln!(std::io::stderr(), "{operations} operations: p99 {note}");
        let better = found.is_none_or(|(_, before)| time > before);
        if time <= goal.0 as f64 && better {
            found = Some((operations, time));
        }
        if time <= goal.0 as f64 && time >= CLOSE * goal.0 as f64 {
            break;
        }
        let next = (operations as f64 * AIM * goal.0 as f64 / time).round().max(1.0) as u64;
        // Rounding must not hold the search above the goal.
        let above = time > goal.0 as f64 && next >= operations;
        let next = if above { operations - 1 } else { next };
        if next == operations || next == 0 {
            break;
        }
        operations = next.min(1 << 30);
    }
    let Some((operations, alone)) = found else {
        anyhow::bail!(
            "even few operations take longer than {goal}: ask for more time, or for a smaller \
             --cache-footprint"
        );
    };
    let loaded = [("runtime", runtime), ("operations", operations.to_string())];
    let Some(loaded) = p99(&with(&wanted.spec, &loaded)).map_err(told)? else {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    let found = Found { goal, operations, alone, loaded };
    show::print(&if wanted.own.flag("json") { found.json() } else { found.text() })
}

/// What the search found, and how it holds under load; times in nanoseconds.
struct Found {
    goal: Nanos,
    operations: u64,
    alone: f64,
    loaded: f64,
}

impl Found {
    fn drift(&self) -> f64 {
        self.loaded / self.alone - 1.0
    }

    fn json(&self) -> String {
        let value = json!({
            "schema": "schedlab-calibration/1",
            "wanted_ns": self.goal,
            "operations": self.operations,
            "request_latency_ns_p99": self.alone,
            "under_load_ns_p99": self.loaded,
            "drift": self.drift(),
        });
        format!("{value:#}\n")
    }

    fn text(&self) -> String {
        format!(
            "--operations {}: p99 of a request's work {} of {}\nunder load {} (sleep and locks \
             included): {:+.0} %\n",
            self.operations,
            human(self.alone, Unit::Nanoseconds),
            self.goal,
            human(self.loaded, Unit::Nanoseconds),
            self.drift() * 100.0
        )
    }
}
