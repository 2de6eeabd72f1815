//! How much work a request of `schbench` may be, so that it fits a slice of time.
//!
//! In calibration mode a request is its work alone, without locks and sleep. The search finds the number of
//! multiplications whose 99th percentile is just under the wanted time. It goes by proportion, which a few runs make
//! exact. Where whole multiplications are too coarse, the size of the matrices changes too. A last run measures the
//! same work under load.

use crate::options::Options;
use crate::{MachineError, RunSpec, WorkloadSpec};
use schedlab_model::{Nanos, Warning};

/// Runs of the search: each brings the result closer by the ratio that was missed.
const TRIES: usize = 8;
/// A result counts when it lies between this fraction of the wanted time and the time itself.
const CLOSE: f64 = 0.9;
/// The fraction of the wanted time that the search aims at.
const AIM: f64 = 0.96;
/// Smaller matrices have only a few numbers.
const LEAST_FOOTPRINT: u64 = 4 << 10;

/// Warnings that do not concern the time of a request: runs of a search are short and few.
const UNRELATED: [&str; 5] =
    ["run-too-short", "warm-up", "no-steady-state", "interval-outliers", "interrupted"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestWork {
    /// Multiplications of matrices.
    pub operations: u64,
    /// Bytes of the matrices. The cost of an operation grows with the third power of their side.
    pub footprint: u64,
}

impl RequestWork {
    /// The work that should take `ratio` of the time. The footprint makes up for what whole operations cannot, where
    /// it is `free`.
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

/// A run of the search.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The 99th percentile of request latency in nanoseconds; `None` if no request ended.
    pub p99: Option<f64>,
    pub warnings: Vec<Warning>,
}

/// What the search found, and how it holds under load.
#[derive(Clone, Debug)]
pub struct Calibrated {
    pub work: RequestWork,
    /// The 99th percentile of the work alone, in nanoseconds.
    pub alone: f64,
    /// The same under load, with locks and sleep.
    pub loaded: f64,
    /// Warnings about the two times, each with what was measured: `calibrating` or `under load`.
    pub warnings: Vec<(&'static str, Warning)>,
}

impl Calibrated {
    /// How much longer requests take under load, as a part of the time without load.
    #[must_use]
    pub fn drift(&self) -> f64 {
        self.loaded / self.alone - 1.0
    }
}

/// How a calibration ended.
#[derive(Clone, Debug)]
pub enum Ended {
    Found(Calibrated),
    /// Even little work took longer.
    Nothing,
    Interrupted,
}

/// Finds the work of requests that takes `goal`. `given` are the options of `spec`. `measure` performs a run, and
/// returns `None` if it was interrupted. `tried` gets each work with its 99th percentile in nanoseconds.
///
/// # Errors
/// Those of `measure`; a run in which no request ended.
pub fn calibrate(
    spec: &RunSpec,
    given: &Options,
    goal: Nanos,
    mut measure: impl FnMut(&RunSpec) -> Result<Option<Measured>, MachineError>,
    mut tried: impl FnMut(RequestWork, f64),
) -> Result<Ended, MachineError> {
    let runtime = if given.is_given("runtime") { None } else { Some("3".to_owned()) };
    let with = |work: RequestWork, calibrates: bool| {
        let mut spec = spec.clone();
        if let WorkloadSpec::Builtin { options, .. } = &mut spec.workload {
            options.extend(runtime.clone().map(|runtime| ("runtime".to_owned(), runtime)));
            options.insert("operations".to_owned(), work.operations.to_string());
            let footprint = format!("{}KiB", work.footprint.div_ceil(1024));
            options.insert("cache_footprint".to_owned(), footprint);
            options.insert("calibrate".to_owned(), calibrates.to_string());
        }
        spec
    };
    let mut p99 = |spec: &RunSpec| -> Result<Option<(f64, Vec<Warning>)>, MachineError> {
        let Some(measured) = measure(spec)? else { return Ok(None) };
        let time = measured.p99.ok_or_else(|| {
            MachineError::Load("no request ended: use a longer --runtime".to_owned())
        })?;
        let mut warnings = measured.warnings;
        warnings.retain(|warning| !UNRELATED.contains(&warning.code.as_str()));
        Ok(Some((time, warnings)))
    };
    let first = RequestWork {
        operations: given.number("operations").max(1),
        footprint: given.size("cache_footprint"),
    };
    let free = !given.is_given("cache_footprint");
    let mut warnings_of: Vec<(RequestWork, Vec<Warning>)> = Vec::new();
    let alone = |work: RequestWork| {
        Ok(p99(&with(work, true))?.map(|(time, warnings)| {
            tried(work, time);
            warnings_of.push((work, warnings));
            time
        }))
    };
    let (work, alone) = match search(goal.0 as f64, first, free, alone)? {
        Search::Found(work, alone) => (work, alone),
        Search::Interrupted => return Ok(Ended::Interrupted),
        Search::Nothing => return Ok(Ended::Nothing),
    };
    let Some((loaded, under_load)) = p99(&with(work, false))? else {
        return Ok(Ended::Interrupted);
    };
    // The work that was found may have been tried twice; the last time is what counts.
    let calibrating = warnings_of.into_iter().rfind(|(tried, _)| *tried == work);
    let calibrating = calibrating.map(|(_, warnings)| warnings).unwrap_or_default();
    let mut warnings = Vec::new();
    warnings.extend(calibrating.into_iter().map(|warning| ("calibrating", warning)));
    warnings.extend(under_load.into_iter().map(|warning| ("under load", warning)));
    Ok(Ended::Found(Calibrated { work, alone, loaded, warnings }))
}

/// The work whose time lies nearest below `goal` nanoseconds, and that time. `time` returns `None` if it was
/// interrupted.
fn search<E>(
    goal: f64,
    mut work: RequestWork,
    free: bool,
    mut time: impl FnMut(RequestWork) -> Result<Option<f64>, E>,
) -> Result<Search, E> {
    let mut found: Option<(RequestWork, f64)> = None;
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

#[derive(Debug, PartialEq)]
enum Search {
    Found(RequestWork, f64),
    Nothing,
    Interrupted,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nanoseconds on a machine that does a multiplication of the inner loop in `each`.
    fn cost(work: RequestWork, each: f64) -> f64 {
        let side = (work.footprint as f64 / 24.0).sqrt().floor();
        1_000.0 + work.operations as f64 * side.powi(3) * each
    }

    fn searched(goal: f64, each: f64, free: bool) -> Search {
        let first = RequestWork { operations: 5, footprint: 256 << 10 };
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
        let first = RequestWork { operations: 5, footprint: 1 << 18 };
        assert_eq!(search(1e6, first, true, |_| Ok::<_, ()>(None)), Ok(Search::Interrupted));
    }

    #[test]
    fn a_calibration_measures_the_found_work_again_under_load() {
        let workload = crate::workloads::find("schbench").unwrap();
        let spec = RunSpec::of(WorkloadSpec::Builtin {
            name: "schbench".to_owned(),
            options: [("cache_footprint".to_owned(), "256KiB".to_owned())].into(),
        });
        let WorkloadSpec::Builtin { options, .. } = &spec.workload else { unreachable!() };
        let given = Options::new(&[workload.options, crate::placement::COMMON], options).unwrap();
        let warning = |code: &str| Warning::new(code, "what", "remedy");
        let mut tried = Vec::new();
        let measure = |spec: &RunSpec| {
            let WorkloadSpec::Builtin { options, .. } = &spec.workload else { unreachable!() };
            assert_eq!((&*options["runtime"], &*options["cache_footprint"]), ("3", "256KiB"));
            let work = RequestWork {
                operations: options["operations"].parse().unwrap(),
                footprint: 256 << 10,
            };
            let load = if options["calibrate"] == "true" { 1.0 } else { 1.5 };
            let warnings = vec![warning("warm-up"), warning("other-load")];
            Ok(Some(Measured { p99: Some(cost(work, 1.0) * load), warnings }))
        };
        let ended =
            calibrate(&spec, &given, Nanos(20_000_000), measure, |work, _| tried.push(work));
        let Ended::Found(found) = ended.unwrap() else { panic!("nothing") };
        assert_eq!(found.work.operations, 17);
        assert_eq!(tried.last(), Some(&found.work));
        assert!((found.drift() - 0.5).abs() < 1e-9, "{}", found.drift());
        let codes: Vec<_> =
            found.warnings.iter().map(|(during, w)| (*during, w.code.as_str())).collect();
        assert_eq!(codes, [("calibrating", "other-load"), ("under load", "other-load")]);
        let silent = |_: &RunSpec| Ok(Some(Measured { p99: None, warnings: Vec::new() }));
        let error = calibrate(&spec, &given, Nanos(20_000_000), silent, |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("no request ended"), "{error}");
    }
}
