//! `--calibrate-to`: how much work a request may be, so that it fits a slice.
//!
//! In calibration mode a request is its work alone, without locks and sleep. The number of
//! multiplications that brings its 99th percentile just under the wanted time is found by
//! proportion, which a few runs make exact; where whole ones are too coarse, so is the size of the
//! matrices. Then it is checked under load.

use super::Wanted;
use super::once::{EXIT_INTERRUPTED, perform, told};
use super::show::{self, human};
use super::usage;
use crate::json;
use schedlab_model::{Bytes, Nanos, Unit, Warning};
use schedlab_workload::options::Options;
use schedlab_workload::placement::COMMON;
use schedlab_workload::{Machine, MachineError, RunSpec, WorkloadSpec};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write as _;
use std::process::ExitCode;

/// Runs of the search: each brings the result closer by the ratio that was missed.
const TRIES: usize = 8;
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

/// Warnings that say nothing of the time that a request takes: runs of a search are short and few.
const NO_MATTER: [&str; 5] =
    ["run-too-short", "warm-up", "no-steady-state", "interval-outliers", "interrupted"];

/// The 99th percentile of request latency in nanoseconds, and what speaks against it; `None` when it was
/// interrupted.
fn p99(
    machine: &mut dyn Machine,
    spec: &RunSpec,
) -> Result<Option<(f64, Vec<Warning>)>, MachineError> {
    let (measured, outcome) = perform(machine, spec, None, &mut |_| ())?;
    if outcome.interrupted {
        return Ok(None);
    }
    let time = measured
        .value("request_latency_ns_p99")
        .ok_or_else(|| MachineError::Load("no request ended: use a longer --runtime".to_owned()))?;
    let mut doubts = measured.warnings;
    doubts.retain(|doubt| !NO_MATTER.contains(&doubt.code.as_str()));
    Ok(Some((time, doubts)))
}

/// How much work a request is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Work {
    operations: u64,
    /// Bytes of the matrices; the cost of an operation grows with their side's third power.
    footprint: u64,
}

/// The least matrices that are more than a few numbers.
const LEAST_FOOTPRINT: u64 = 4 << 10;

impl Work {
    /// The work that should take `ratio` of the time. What whole operations cannot meet, the
    /// footprint does, where it is `free`.
    fn scaled(self, ratio: f64, free: bool) -> Self {
        let ideal = self.operations as f64 * ratio;
        let operations = ideal.round().clamp(1.0, f64::from(1 << 30));
        let rest = ideal / operations;
        let footprint = if free && (rest - 1.0).abs() > 1.0 - AIM {
            let wanted = self.footprint as f64 * rest.powf(2.0 / 3.0);
            ((wanted / 1024.0).round() as u64 * 1024).max(LEAST_FOOTPRINT)
        } else {
            self.footprint
        };
        let mut next = Self { operations: operations as u64, footprint };
        // Rounding must not hold the search above the goal.
        if ratio < 1.0 && next == self {
            next.operations = (self.operations - 1).max(1);
        }
        next
    }
}

/// The work whose time lies nearest below `goal` nanoseconds, and that time; `None` where the measuring
/// was interrupted (`Ok(None)` of `time`), or nothing came below.
fn search<E>(
    goal: f64,
    mut work: Work,
    free: bool,
    mut time: impl FnMut(Work) -> Result<Option<f64>, E>,
) -> Result<Search, E> {
    let mut found: Option<(Work, f64)> = None;
    for _ in 0..TRIES {
        let Some(took) = time(work)? else { return Ok(Search::Interrupted) };
        if took <= goal && found.is_none_or(|(_, before)| took > before) {
            found = Some((work, took));
        }
        if (CLOSE * goal..=goal).contains(&took) {
            break;
        }
        let next = work.scaled(AIM * goal / took, free);
        if next == work {
            break;
        }
        work = next;
    }
    Ok(found.map_or(Search::Nothing, |(work, took)| Search::Found(work, took)))
}

/// How a search ended.
#[derive(Debug, PartialEq)]
enum Search {
    Found(Work, f64),
    Nothing,
    Interrupted,
}

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
    let options = Options::new(&[wanted.workload.options, COMMON], given).map_err(usage)?;
    let free = !options.is_given("cache_footprint");
    let runtime = given.get("runtime").cloned().unwrap_or_else(|| "3".to_owned());
    let first = Work {
        operations: options.number("operations").max(1),
        footprint: options.size("cache_footprint"),
    };
    let settings = |work: Work| {
        [
            ("runtime", runtime.clone()),
            ("operations", work.operations.to_string()),
            ("cache_footprint", format!("{}KiB", work.footprint.div_ceil(1024))),
        ]
    };
    // By the work that was tried.
    let mut doubts_of: Vec<(Work, Vec<Warning>)> = Vec::new();
    let calibrating = |work: Work| {
        let spec = with(&wanted.spec, &settings(work));
        let measured = p99(machine, &with(&spec, &[("calibrate", "true".to_owned())]))?;
        Ok(measured.map(|(time, doubts)| {
            let note = human(time, Unit::Nanoseconds);
            let count = work.operations;
            let bytes = Bytes(work.footprint);
            let _ = writeln!(crate::output::stderr(), "{count} operations on {bytes}: p99 {note}");
            doubts_of.push((work, doubts));
            time
        }))
    };
    let (work, alone) = match search(goal.0 as f64, first, free, calibrating).map_err(told)? {
        Search::Found(work, alone) => (work, alone),
        Search::Interrupted => return Ok(ExitCode::from(EXIT_INTERRUPTED)),
        Search::Nothing => anyhow::bail!(
            "even little work took longer than {goal}: use a longer time, fewer --threads, or a \
             smaller --cache-footprint"
        ),
    };
    let loaded = with(&wanted.spec, &settings(work));
    let Some((loaded, under_load)) =
        p99(machine, &with(&loaded, &[("calibrate", "false".to_owned())])).map_err(told)?
    else {
        return Ok(ExitCode::from(EXIT_INTERRUPTED));
    };
    // The work that was found may have been tried twice; the last time is what counts.
    let of_found = doubts_of.into_iter().rfind(|(tried, _)| *tried == work);
    let doubts =
        [("calibrating", of_found.map(|(_, doubts)| doubts)), ("under load", Some(under_load))]
            .into_iter()
            .flat_map(|(during, all)| all.unwrap_or_default().into_iter().map(move |w| (during, w)))
            .collect();
    let found = Found { goal, work, alone, loaded, doubts };
    if wanted.own.flag("json") {
        json::print(&found.document())?;
        return Ok(ExitCode::SUCCESS);
    }
    show::print(&found.text())
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

/// What the search found, and how it holds under load; times in nanoseconds.
struct Found {
    goal: Nanos,
    work: Work,
    alone: f64,
    loaded: f64,
    /// What speaks against the two times, each with what was measured meanwhile.
    doubts: Vec<(&'static str, Warning)>,
}

impl Found {
    fn drift(&self) -> f64 {
        self.loaded / self.alone - 1.0
    }

    fn document(&self) -> Document {
        let doubt = |(during, warning): &(&'static str, Warning)| During {
            warning: warning.clone(),
            during,
        };
        Document {
            wanted_ns: self.goal,
            operations: self.work.operations,
            cache_footprint_bytes: self.work.footprint,
            request_latency_ns_p99: self.alone,
            under_load_ns_p99: self.loaded,
            drift: self.drift(),
            warnings: self.doubts.iter().map(doubt).collect(),
        }
    }

    fn text(&self) -> String {
        let told = |(during, doubt): &(&str, Warning)| {
            format!("    warning: {during}: {}; {}\n", doubt.what, doubt.remedy)
        };
        let doubts: String = self.doubts.iter().map(told).collect();
        format!(
            "--operations {} --cache-footprint {}: p99 of a request's work {} of {}\n\
             under load {} (sleep and locks included): drift {:+.0} %\n{doubts}",
            self.work.operations,
            self.work.footprint.div_ceil(1024),
            human(self.alone, Unit::Nanoseconds),
            self.goal,
            human(self.loaded, Unit::Nanoseconds),
            self.drift() * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds on a machine that does a multiplication of the inner loop in `each`.
    fn cost(work: Work, each: f64) -> f64 {
        let side = (work.footprint as f64 / 24.0).sqrt().floor();
        1_000.0 + work.operations as f64 * side.powi(3) * each
    }

    fn searched(goal: f64, each: f64, free: bool) -> Search {
        let first = Work { operations: 5, footprint: 256 << 10 };
        search(goal, first, free, |work| Ok::<_, ()>(Some(cost(work, each)))).unwrap()
    }

    #[test]
    fn a_search_ends_just_under_the_goal_on_slow_machines_and_fast_ones() {
        for goal in [200e3, 2e6, 20e6, 500e6] {
            for each in [0.3, 1.0, 20.0] {
                let Search::Found(_, took) = searched(goal, each, true) else {
                    panic!("nothing for {goal} at {each}");
                };
                assert!((0.9 * goal..=goal).contains(&took), "{took} for {goal} at {each}");
            }
        }
    }

    #[test]
    fn a_given_footprint_stays_and_work_that_is_too_long_is_told() {
        let Search::Found(work, took) = searched(20e6, 1.0, false) else { panic!("nothing") };
        assert_eq!((work.footprint, work.operations), (256 << 10, 17));
        assert!(took <= 20e6);
        assert_eq!(searched(1e6, 1.0, false), Search::Nothing);
        let first = Work { operations: 5, footprint: 1 << 18 };
        assert_eq!(search(1e6, first, true, |_| Ok::<_, ()>(None)), Ok(Search::Interrupted));
    }
}
