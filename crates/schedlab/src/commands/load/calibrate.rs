//! `--calibrate-to`: how much work a request may be, so that it fits a slice.

use super::Wanted;
use super::once::{EXIT_INTERRUPTED, perform, run_error};
use super::show::{self, human};
use super::usage;
use crate::json;
use schedlab_model::{Bytes, Nanos, Unit, Warning};
use schedlab_workload::calibrate::{Calibrated, Ended, Measured, RequestWork, calibrate};
use schedlab_workload::options::Options;
use schedlab_workload::placement::COMMON;
use schedlab_workload::{Machine, RunSpec, WorkloadSpec};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write as _;
use std::process::ExitCode;

pub(super) fn run(wanted: &Wanted, machine: &mut dyn Machine) -> anyhow::Result<ExitCode> {
    if wanted.workload.name != "schbench" {
        return Err(usage("option calibrate-to: only schbench has requests of work"));
    }
    let goal: Nanos = wanted.own.duration("calibrate-to");
    if goal < Nanos::from_micros(10) {
        return Err(usage("invalid --calibrate-to: use at least 10us"));
    }
    let WorkloadSpec::Builtin { options: given, .. } = &wanted.spec.workload else {
        unreachable!("loads are workloads of ours");
    };
    let given = Options::new(&[wanted.workload.options, COMMON], given).map_err(usage)?;
    let measure = |spec: &RunSpec| {
        let (measured, outcome) = perform(machine, spec, None, &mut |_| ())?;
        let p99 = measured.value("request_latency_ns_p99");
        Ok((!outcome.interrupted).then_some(Measured { p99, warnings: measured.warnings }))
    };
    let tried = |work: RequestWork, p99: f64| {
        let p99 = human(p99, Unit::Nanoseconds);
        let count = work.operations;
        let bytes = Bytes(work.footprint);
        let _ = writeln!(crate::output::stderr(), "{count} operations on {bytes}: p99 {p99}");
    };
    let found = match calibrate(&wanted.spec, &given, goal, measure, tried).map_err(run_error)? {
        Ended::Found(found) => found,
        Ended::Interrupted => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
        Ended::Nothing => anyhow::bail!(
            "even little work took longer than {goal}: use a longer time, fewer --threads, or a \
             smaller --cache-footprint"
        ),
    };
    if wanted.own.flag("json") {
        json::print(&document(goal, found))?;
        return Ok(ExitCode::SUCCESS);
    }
    show::print(&text(goal, &found))
}

/// `schedlab load --calibrate-to --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// The time that a request may take.
    wanted_ns: Nanos,
    /// Multiplications of a request.
    operations: u64,
    /// Bytes of its matrices.
    cache_footprint_bytes: u64,
    request_latency_ns_p99: f64,
    under_load_ns_p99: f64,
    /// How much longer requests take under load, as a part of the time without load.
    drift: f64,
    warnings: Vec<During>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/load-calibration/1";
}

/// A warning, and what was measured meanwhile.
#[derive(Serialize, JsonSchema)]
struct During {
    #[serde(flatten)]
    warning: Warning,
    /// `calibrating` or `under load`.
    during: &'static str,
}

fn document(goal: Nanos, found: Calibrated) -> Document {
    Document {
        wanted_ns: goal,
        operations: found.work.operations,
        cache_footprint_bytes: found.work.footprint,
        request_latency_ns_p99: found.alone,
        under_load_ns_p99: found.loaded,
        drift: found.drift(),
        warnings: found
            .warnings
            .into_iter()
            .map(|(during, warning)| During { warning, during })
            .collect(),
    }
}

fn text(goal: Nanos, found: &Calibrated) -> String {
    let line = |(during, warning): &(&str, Warning)| {
        format!("    warning: {during}: {}; {}\n", warning.what, warning.remedy)
    };
    let warnings: String = found.warnings.iter().map(line).collect();
    format!(
        "--operations {} --cache-footprint {}: p99 of a request's work {} of {goal}\n\
         under load {} (sleep and locks included): drift {:+.0} %\n{warnings}",
        found.work.operations,
        found.work.footprint.div_ceil(1024),
        human(found.alone, Unit::Nanoseconds),
        human(found.loaded, Unit::Nanoseconds),
        found.drift() * 100.0
    )
}
