//! The breaking point: the schedule of a graph is tightened until the executor does not keep up.
//!
//! At a stress, the level schedule is run several times; a run fails when it ends late. The schedule is
//! broken when nearly all runs fail, or when more than half fail and lateness is large and scattered.
//! The stress is found by bisection. It is reported *raw*, and *adjusted* by a form factor: what
//! concurrency and job lengths the executor really got, against what the schedule supposes. The adjusted
//! figure is close to 1 by construction; the raw one is what a user gets.

use crate::executor::{Executor, ExecutorError};
use crate::graph::Graph;
use crate::load::{Burner, Length, Load, critical_path_bound, level_schedule};
use crate::policy::Nanos;
use crate::profile::Profile;
use crate::run::{Clock, Run, Schedule};
use std::sync::Arc;

/// When a schedule counts as broken. The defaults are those of Lumiera's rig.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// The number of runs at each stress.
    pub runs: usize,
    /// A run fails if it ends later than this.
    pub fail_ns: Nanos,
    /// The fraction of failed runs above which a schedule is broken, if both limits below are exceeded too.
    pub failures: f64,
    /// The limit of the standard deviation of lateness.
    pub sigma_ns: f64,
    /// The limit of the mean lateness.
    pub mean_ns: f64,
    /// The width of the bracket, in stress, at which bisection ends.
    pub epsilon: f64,
    /// The search begins below this stress.
    pub stress_max: f64,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self {
            runs: 20,
            fail_ns: 2_000_000,
            failures: 0.55,
            sigma_ns: 2e6,
            mean_ns: 4e6,
            epsilon: 0.01,
            stress_max: 1.7,
        }
    }
}

/// What a stress did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// How tight the schedule was; 1 is the time of the work at full concurrency of each level.
    pub stress: f64,
    /// Mean lateness of the end.
    pub late_ns: f64,
    /// The population standard deviation of that lateness, in nanoseconds.
    pub sigma_ns: f64,
    /// Mean time of a run.
    pub run_ns: f64,
    /// When the schedule ends.
    pub expected_ns: Nanos,
    /// Fraction of runs that failed.
    pub failed: f64,
    /// Expected over achieved concurrency, times achieved over planned job time.
    pub(crate) form_factor: f64,
    /// Whether a threshold was exceeded.
    pub broken: bool,
}

/// The stress at which the executor broke.
#[derive(Clone, Debug, PartialEq)]
pub struct BreakingPoint {
    /// The stress as set: the middle of the last interval. `None` when no stress breaks it: with all jobs due at once, runs
    /// still end no later than the thresholds allow.
    pub raw: Option<f64>,
    /// The raw stress times the form factor of the last three probes.
    pub adjusted: Option<f64>,
    /// What no scheduler could exceed on this many workers without ending late.
    pub bound: f64,
    /// The same when a run may end as late as the thresholds allow: raw cannot exceed this one. `None` when no
    /// stress breaks it, since even the least time is within what is allowed.
    pub bound_late: Option<f64>,
    /// The probes in the order of the search.
    pub probes: Vec<Probe>,
}

/// So far beyond the bound all jobs are due at once: a tighter schedule is no other one.
const AT_ONCE: f64 = 100.0;

/// Searches the breaking point of an executor with a graph. `stop` ends runs that go on.
///
/// # Errors
/// The executor's; one without start times is refused.
pub fn breaking_point(
    executor: &mut dyn Executor,
    graph: &Graph,
    burner: Burner,
    base_ns: Nanos,
    thresholds: &Thresholds,
    stop: fn() -> bool,
    mut progress: impl FnMut(&Probe),
) -> Result<BreakingPoint, ExecutorError> {
    let mut probes = Vec::new();
    let executor_workers = executor.workers();
    let mut broken = |stress| -> Result<bool, ExecutorError> {
        let schedule = (base_ns, stress);
        let probe = probe(executor, graph, burner, schedule, thresholds, stop)?;
        progress(&probe);
        probes.push(probe);
        Ok(probe.broken)
    };
    let mut below = 0.0;
    let mut above = thresholds.stress_max;
    let bound = critical_path_bound(graph, executor_workers);
    let mut breaks = broken(above)?;
    while !breaks && above < AT_ONCE * bound.max(1.0) {
        (below, above) = (above * 0.9, above * 1.4);
        breaks = broken(above)?;
    }
    while breaks && above - below > thresholds.epsilon {
        let middle = f64::midpoint(below, above);
        if broken(middle)? {
            above = middle;
        } else {
            below = middle;
        }
    }
    let raw = breaks.then(|| f64::midpoint(below, above));
    let last: Vec<f64> = probes.iter().rev().take(3).map(|p| p.form_factor).collect();
    let form_factor = last.iter().sum::<f64>() / last.len() as f64;
    let (_, end) = level_schedule(graph, executor_workers, base_ns, 1.0);
    let least = end as f64 / bound - thresholds.fail_ns as f64;
    let bound_late = (least > 0.0).then_some(end as f64 / least);
    let adjusted = raw.map(|raw| raw * form_factor);
    Ok(BreakingPoint { raw, adjusted, bound, bound_late, probes })
}

fn probe(
    executor: &mut dyn Executor,
    graph: &Graph,
    burner: Burner,
    (base_ns, stress): (Nanos, f64),
    thresholds: &Thresholds,
    stop: fn() -> bool,
) -> Result<Probe, ExecutorError> {
    let workers = executor.workers();
    let (starts, expected_ns) = level_schedule(graph, workers, base_ns, stress);
    let (_, unstressed) = level_schedule(graph, workers, base_ns, 1.0);
    let planned_concurrency = graph.weight_sum() as f64 * base_ns as f64 / unstressed as f64;
    let mut late = Vec::new();
    let mut run_ns = 0.0;
    let mut form = 0.0;
    for _ in 0..thresholds.runs {
        let load = Load::new(graph, burner, base_ns, Length::Fixed, 0);
        let schedule = Schedule { starts: starts.clone(), life_ns: None, ..Schedule::default() };
        let run = Run::new(graph.clone(), schedule, Box::new(load), Clock::start());
        let run = Arc::new(run.with_stop(stop));
        executor.run(&run)?;
        if let Err(flaw) = run.verify() {
            let what = flaw.to_string();
            return Err(ExecutorError::Unfinished { executor: executor.name(), what });
        }
        let profile = Profile::of(&run, workers);
        late.push(profile.makespan_ns as f64 - expected_ns as f64);
        run_ns += profile.makespan_ns as f64 / thresholds.runs as f64;
        let active = profile.covered_ns - profile.at_concurrency_ns[0];
        let achieved = profile.wall_ns as f64 / active.max(1) as f64;
        form += planned_concurrency / achieved * profile.inflation().unwrap_or(1.0);
    }
    let n = thresholds.runs as f64;
    let late_ns = late.iter().sum::<f64>() / n;
    let sigma_ns = (late.iter().map(|l| (l - late_ns).powi(2)).sum::<f64>() / n).sqrt();
    let failed = late.iter().filter(|&&l| l > thresholds.fail_ns as f64).count() as f64 / n;
    let scattered = sigma_ns > thresholds.sigma_ns && late_ns > thresholds.mean_ns;
    let broken = failed > 0.99 || (failed > thresholds.failures && scattered);
    let form_factor = form / n;
    Ok(Probe { stress, late_ns, sigma_ns, run_ns, expected_ns, failed, form_factor, broken })
}

// Arithmetic without threads: Miri would take minutes over it and find nothing.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::graph::{Hashing, Rules, Shape};
    use crate::load::Kind;
    use crate::virtual_time::VirtualTime;

    fn ideal(workers: usize, fail_ns: Nanos) -> BreakingPoint {
        let rules = Rules { nodes: 64, hashing: Hashing::Compat, ..Rules::default() };
        let graph = Shape::LoadBursts.build(&rules);
        let thresholds = Thresholds { runs: 1, fail_ns, ..Thresholds::default() };
        let burner = Burner::calibrate(Kind::Cpu);
        let mut executor = VirtualTime::ideal(workers);
        breaking_point(&mut executor, &graph, burner, 500_000, &thresholds, || false, |_| {})
            .expect("the ideal runs any graph")
    }

    #[test]
    fn the_ideal_is_kept_exactly_while_its_end_is_late_by_no_more_than_allowed() {
        for workers in [2, 4, 8] {
            let found = ideal(workers, 2_000_000);
            assert!(found.probes.iter().all(|p| p.broken == (p.late_ns > 2e6)), "{found:?}");
            // 2 ms late on 15.5 ms of critical path allow more than the bound for being in time.
            assert!(found.raw.unwrap() <= found.bound_late.unwrap() + 0.01, "{found:?}");
        }
        // By hand, 2 workers: the schedule ends at 20.5 ms; 33 ms of work take 16.5 ms at least.
        let bounds = ideal(2, 2_000_000);
        assert!((bounds.bound - 20.5 / 16.5).abs() < 1e-6, "{}", bounds.bound);
        assert!((bounds.bound_late.unwrap() - 20.5 / 14.5).abs() < 1e-6, "{bounds:?}");
    }

    #[test]
    fn without_an_allowance_nothing_breaks_beyond_the_bound() {
        for workers in [2, 4, 8] {
            let found = ideal(workers, 0);
            assert!(found.raw.unwrap() <= found.bound + 0.005, "{found:?}");
            assert!((found.bound_late.unwrap() - found.bound).abs() < 1e-6);
        }
    }

    #[test]
    fn a_schedule_that_no_stress_breaks_ends_the_search_without_a_breaking_point() {
        // The work takes less than what a run may be late.
        for (nodes, base_ns) in [(64, 20_000), (4, 100_000)] {
            let rules = Rules { nodes, hashing: Hashing::Compat, ..Rules::default() };
            let graph = Shape::LoadBursts.build(&rules);
            let thresholds = Thresholds { runs: 1, ..Thresholds::default() };
            let burner = Burner::calibrate(Kind::Cpu);
            let mut executor = VirtualTime::ideal(4);
            let never = || false;
            let ideal = &mut executor;
            let found =
                breaking_point(ideal, &graph, burner, base_ns, &thresholds, never, |_| {}).unwrap();
            assert_eq!((found.raw, found.adjusted, found.bound_late), (None, None, None));
            assert!(found.probes.iter().all(|probe| !probe.broken));
        }
    }
}
