//! The axes of an experiment as a space to search, and points in both spellings.

use crate::analysis::position;
use crate::{Axis, Experiment, Point, Tuning};
use schedlab_tune::{Options, Search, Space};

/// From this ratio of the largest to the smallest value on, an axis is laid out by logarithms.
const LOG_FROM: f64 = 8.0;

/// The axes of an experiment, with their space.
#[derive(Clone, Debug)]
pub struct Axes {
    axes: Vec<Axis>,
    space: Space,
}

impl Axes {
    /// The space of an experiment's axes: numbers and durations in their order, words without one.
    #[must_use]
    pub fn new(experiment: &Experiment) -> Self {
        let axes = experiment.axes.clone();
        let space = Space::new(axes.iter().map(|axis| searched(axis, &axes)).collect());
        Self { axes, space }
    }

    /// The search that a table `[tune]` asks for.
    #[must_use]
    pub fn search(&self, tuning: &Tuning, seed: u64) -> Search {
        let options = Options {
            method: tuning.method,
            budget: tuning.budget as usize,
            start: tuning.start.map(|start| start as usize),
            seed,
            default: Some(self.default(tuning)),
        };
        Search::new(self.space.clone(), options)
    }

    /// The levels of the default setting.
    #[must_use]
    pub(crate) fn default(&self, tuning: &Tuning) -> Vec<usize> {
        let level = |axis: &Axis| {
            let value = tuning.default.get(&axis.name());
            value.and_then(|value| axis.values.iter().position(|v| v == value)).unwrap_or(0)
        };
        self.space.canonical(self.axes.iter().map(level).collect())
    }

    /// The value on each axis by its index; none where the axis does not exist.
    #[must_use]
    pub(crate) fn values(&self, point: &[usize]) -> Vec<Option<usize>> {
        (0..self.axes.len())
            .map(|a| Some(point[a]).filter(|_| self.space.exists(a, point)))
            .collect()
    }

    /// The point by the names of axes and their values.
    #[must_use]
    pub fn named(&self, point: &[usize]) -> Point {
        let value = |(axis, level): (&Axis, Option<usize>)| {
            Some((axis.name(), axis.values[level?].clone()))
        };
        self.axes.iter().zip(self.values(point)).filter_map(value).collect()
    }

    /// The point of these names and values.
    ///
    /// # Errors
    /// When an axis has no value, or another one than those of the file.
    pub fn point(&self, named: &Point) -> Result<Vec<usize>, String> {
        let mut point = Vec::new();
        for axis in &self.axes {
            let name = axis.name();
            let level = match named.get(&name) {
                Some(value) => axis.values.iter().position(|v| v == value).ok_or_else(|| {
                    format!("unknown value '{value}' of {name}: use {}", axis.values.join(", "))
                })?,
                None if axis.when.is_some() => 0,
                None => return Err(format!("the point has no value of {name}")),
            };
            point.push(level);
        }
        match named.keys().find(|name| self.axes.iter().all(|axis| axis.name() != **name)) {
            Some(name) => Err(format!("unknown axis '{name}'")),
            None => Ok(self.space.canonical(point)),
        }
    }

    /// The default, and each value of each axis beside it: what a machine has to accept.
    #[must_use]
    pub fn beside_default(&self, tuning: &Tuning) -> Vec<Vec<Option<usize>>> {
        let default = self.default(tuning);
        let mut points = vec![default.clone()];
        for (index, axis) in self.axes.iter().enumerate() {
            for level in 0..axis.values.len() {
                let mut point = default.clone();
                point[index] = level;
                self.meet(index, &mut point);
                points.push(self.space.canonical(point));
            }
        }
        points.iter().map(|point| self.values(point)).collect()
    }

    /// Sets what an axis needs to exist.
    fn meet(&self, axis: usize, point: &mut [usize]) {
        if let Some(when) = &self.space.axes[axis].when {
            point[when.axis] = when.level;
            self.meet(when.axis, point);
        }
    }
}

fn searched(axis: &Axis, all: &[Axis]) -> schedlab_tune::Axis {
    let places: Vec<f64> = axis.values.iter().map(|value| position(value)).collect();
    let numbers = places.iter().all(|place| place.is_finite());
    let least = places.iter().copied().fold(f64::INFINITY, f64::min);
    let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let found = if numbers {
        schedlab_tune::Axis::ordered(&axis.name(), &places, least > 0.0 && most >= LOG_FROM * least)
    } else {
        schedlab_tune::Axis::words(&axis.name(), axis.values.len())
    };
    let when = axis.when.as_ref().and_then(|when| {
        let other = all.iter().position(|other| other.name() == when.axis)?;
        Some((other, all[other].values.iter().position(|value| *value == when.value)?))
    });
    match when {
        Some((other, level)) => found.when(other, level),
        None => found,
    }
}
