//! What things cost on a machine, from small runs on it.
//!
//! A probe is one or two small runs, a number that is read off them, and the cost that the number decides. The model
//! performs the same runs. The cost is the one with which the model gives the machine's number. No probe is a load
//! whose result anybody wants to predict, and no cost is chosen by such a load.

mod load_phases;
mod probes;
pub mod recorded;

pub use probes::{Probe, probes};

use crate::{Costs, Model, Simulated};
use schedlab_stats::Sample;
use schedlab_workload::{Machine, MachineError, Observed, RunSpec};
use std::fmt::Write as _;

/// What a probe gave.
#[derive(Clone, Debug)]
pub struct Found {
    pub probe: &'static str,
    pub costs: &'static [&'static str],
    /// The number that the probe takes from its runs, in words.
    pub(crate) what: &'static str,
    /// The machine's number, in nanoseconds; `None`: the runs do not show it.
    pub measured_ns: Option<f64>,
    /// The model's number with the costs found, in nanoseconds.
    pub model_ns: Option<f64>,
    /// The model gives the number with no cost: the costs stay what they were.
    pub is_beyond: bool,
}

impl Found {
    /// How far the model is off, as a fraction of the measured number; `None` if one of both is not
    /// known.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        let measured = self.measured_ns?;
        let model = self.model_ns?;
        (measured > 0.0).then(|| model / measured - 1.0)
    }

    /// Whether the number decided the costs.
    fn is_decisive(&self) -> bool {
        self.model_ns.is_some() && !self.is_beyond
    }
}

/// Costs with where they come from.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// The costs that explain the probes best.
    pub costs: Costs,
    /// Each probe with its number and the model's.
    pub found: Vec<Found>,
}

impl Calibration {
    /// Free parameters: numbers that the machine decided.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.found.iter().filter(|found| found.is_decisive()).count()
    }

    /// A file of costs that says how each was found. `of` is the machine.
    #[must_use]
    pub fn file(&self, of: &str, base: &str) -> String {
        let mut text = format!(
            "# Costs of {of}, in nanoseconds, by `schedlab sim calibrate`.\n# {} numbers were measured by small runs. \
             Costs that no line explains come from {base}.\n",
            self.parameters()
        );
        let mut explained = Vec::new();
        for found in &self.found {
            let names = found.costs.join(" and ");
            let line = match (found.measured_ns, found.error()) {
                (Some(ns), _) if found.is_beyond => {
                    format!(
                        "#   {names}: left alone. The model cannot give {ns:.0} ns for {}.\n",
                        found.what
                    )
                }
                (Some(ns), Some(error)) => format!(
                    "#   {names}: {} takes {ns:.0} ns; the model is off by {:+.1} %.\n",
                    found.what,
                    error * 100.0
                ),
                _ => format!("#   {names}: not measured ({} is not visible).\n", found.what),
            };
            text.push_str(&line);
            if found.is_decisive() {
                explained.extend_from_slice(found.costs);
            }
        }
        text += "base = \"none\"\n";
        for (name, ns) in self.costs.all() {
            let from = if explained.contains(&name) { "" } else { " # not measured" };
            let _ = writeln!(text, "{name} = {ns}{from}");
        }
        text
    }
}

/// Runs of the model for each number: as many starts as the machine has.
struct Solver<'m> {
    model: &'m Model,
    starts: u32,
}

/// Rounds over all probes. Block, wake and switch share two probes, which halves the error each round.
const ROUNDS: usize = 10;
/// Where the rounds end: no number is off by more than this fraction.
const NEAR: f64 = 0.002;
/// A number that is further off after all rounds is one that the model cannot give. Its cost would make up for what the
/// model lacks, and other costs for that.
const BEYOND: f64 = 0.05;

impl Solver<'_> {
    fn number(&self, probe: &Probe, costs: Costs) -> Result<Option<f64>, MachineError> {
        let model = self.model.clone().with_costs(costs);
        let mut machine = Simulated::new(model);
        number(probe, self.starts, &mut |spec| {
            let mut observed = Observed::default();
            machine.run(spec, &mut observed)?;
            Ok(observed)
        })
    }

    /// Rounds over the probes, from the costs of the model on; and how far each number is off.
    fn rounds(&self, known: &[(&Probe, f64)]) -> Result<(Costs, Vec<f64>), MachineError> {
        let mut costs = self.model.costs;
        let mut errors = Vec::new();
        for _ in 0..ROUNDS {
            let steps = known.iter().map(|(probe, wanted)| self.step(probe, *wanted, &mut costs));
            errors = steps.collect::<Result<_, MachineError>>()?;
            if errors.iter().all(|error| error.abs() < NEAR) {
                break;
            }
        }
        Ok((costs, errors))
    }

    /// The cost with which the model gives the measured number, from a step along a straight line.
    fn step(&self, probe: &Probe, wanted: f64, costs: &mut Costs) -> Result<f64, MachineError> {
        let Some(now) = self.number(probe, *costs)? else { return Ok(0.0) };
        let error = now / wanted - 1.0;
        if error.abs() < NEAR {
            return Ok(error);
        }
        let sum: u64 = probe.costs.iter().map(|name| costs.get(name).unwrap_or(0)).sum();
        let more = (sum / 4).max(400);
        let further = costs.scaled(probe.costs, sum + more);
        let Some(then) = self.number(probe, further)? else { return Ok(error) };
        let slope = (then - now) / more as f64;
        if slope > 0.01 {
            let next = sum as f64 + (wanted - now) / slope;
            *costs = costs.scaled(probe.costs, next.clamp(0.0, 1e9).round() as u64);
        }
        Ok(error)
    }
}

/// The number of a probe: the median over starts at shifted phases of the tick.
///
/// # Errors
/// The first error of `run`.
pub fn number<E>(
    probe: &Probe,
    starts: u32,
    run: &mut dyn FnMut(&RunSpec) -> Result<Observed, E>,
) -> Result<Option<f64>, E> {
    let mut numbers = Vec::new();
    for repeat in 0..starts {
        let specs = probe.runs.iter().map(|spec| RunSpec { repeat, ..spec.clone() });
        let observed = specs.map(|spec| run(&spec)).collect::<Result<Vec<Observed>, E>>()?;
        numbers.extend((probe.read)(&observed));
    }
    Ok(Sample::new(numbers).ok().map(|sample| sample.median()))
}

/// Finds the costs with which `model` gives the machine's numbers, one for each probe.
///
/// # Errors
/// When the model cannot perform a probe.
pub fn solve(
    model: &Model,
    probes: &[Probe],
    measured: &[Option<f64>],
    starts: u32,
) -> Result<Calibration, MachineError> {
    let solver = Solver { model, starts };
    let known: Vec<(&Probe, f64)> =
        probes.iter().zip(measured).filter_map(|(probe, ns)| Some((probe, (*ns)?))).collect();
    let (mut costs, errors) = solver.rounds(&known)?;
    let within = |error: &f64| error.abs() <= BEYOND;
    let kept: Vec<(&Probe, f64)> =
        known.iter().zip(&errors).filter(|(_, error)| within(error)).map(|(one, _)| *one).collect();
    if kept.len() < known.len() {
        (costs, _) = solver.rounds(&kept)?;
    }
    let is_kept = |name: &str| kept.iter().any(|(probe, _)| probe.name == name);
    let found = |(probe, measured_ns): (&Probe, &Option<f64>)| {
        let model_ns = match measured_ns {
            Some(_) => solver.number(probe, costs)?,
            None => None,
        };
        let Probe { name, costs, what, .. } = *probe;
        let is_beyond = measured_ns.is_some() && !is_kept(name);
        Ok(Found { probe: name, costs, what, measured_ns: *measured_ns, model_ns, is_beyond })
    };
    let found = probes.iter().zip(measured).map(found).collect::<Result<_, MachineError>>()?;
    Ok(Calibration { costs, found })
}
