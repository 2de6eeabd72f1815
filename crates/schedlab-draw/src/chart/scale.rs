//! From values to places: linear and logarithmic axes with round ticks.

use crate::axis::duration;
use schedlab_model::Nanos;

/// How the values of an axis are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Values {
    /// As numbers, with k, M, G where they are large.
    #[default]
    Plain,
    /// Nanoseconds, written with the unit that fits.
    Nanoseconds,
    /// Fractions of one, written as percentages.
    Percent,
    /// Numbers of things: as numbers, with no tick between two whole ones.
    Counts,
}

impl Values {
    /// The distance of ticks, of which at most about `most` fit between the ends.
    fn step(self, low: f64, high: f64, most: usize) -> f64 {
        let step = step(low, high, most);
        if self == Self::Counts { step.max(1.0) } else { step }
    }
}

/// An axis of a chart: its label, the spelling of its values, its scale and its least range.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What is measured, with its unit.
    pub label: String,
    pub values: Values,
    /// Whether equal distances are equal ratios; values of 0 and less are left out then.
    pub log: bool,
    /// The least range that is shown; data may widen it.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis of plain numbers.
    #[must_use]
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// A linear axis of durations in nanoseconds.
    #[must_use]
    pub fn nanoseconds(label: &str) -> Self {
        Self { label: label.to_owned(), values: Values::Nanoseconds, ..Self::default() }
    }

    /// A linear axis of numbers of things, from zero.
    #[must_use]
    pub fn counts(label: &str) -> Self {
        Self { label: label.to_owned(), values: Values::Counts, ..Self::default() }.from_zero()
    }

    /// The same axis with a logarithmic scale: each factor of ten takes the same length.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self { log: true, ..self }
    }

    /// This axis, beginning at zero.
    #[must_use]
    pub fn from_zero(self) -> Self {
        Self { range: Some((0.0, 0.0)), ..self }
    }

    /// This axis, showing at least this range.
    #[must_use]
    pub fn over(self, low: f64, high: f64) -> Self {
        Self { range: Some((low, high)), ..self }
    }

    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// The scale that shows all `values`, widened to round ends.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let range = self.range.into_iter().flat_map(|(low, high)| [low, high]);
        let shown = values.chain(range).filter(|&value| self.shows(value));
        let (low, high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), value| (a.min(value), b.max(value)));
        if low > high {
            let (low, high) = if self.log { (1.0, 10.0) } else { (0.0, 1.0) };
            return Scale { low, high, log: self.log, values: self.values };
        }
        let mut low = low;
        let mut high = high;
        if self.log {
            low = 10_f64.powf(low.log10().floor());
            high = 10_f64.powf(high.log10().ceil()).max(low * 10.0);
        } else {
            if low == high {
                let room = if low == 0.0 { 1.0 } else { low.abs() / 10.0 };
                // An axis that was asked to begin at zero still does.
                if low != 0.0 || self.range.is_none() {
                    low -= room;
                }
                high += room;
            }
            let step = self.values.step(low, high, 8);
            low = (low / step + 1e-9).floor() * step;
            high = (high / step - 1e-9).ceil() * step;
        }
        Scale { low, high, log: self.log, values: self.values }
    }
}

/// An axis with its ends decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) low: f64,
    pub(super) high: f64,
    log: bool,
    values: Values,
}

impl Scale {
    /// Where a value lies: 0 at the low end, 1 at the high end.
    pub(super) fn fraction(&self, value: f64) -> f64 {
        let place = |v: f64| if self.log { v.max(f64::MIN_POSITIVE).log10() } else { v };
        (place(value) - place(self.low)) / (place(self.high) - place(self.low))
    }

    /// Round values between the ends, each with its label.
    pub(super) fn ticks(&self, most: usize) -> Vec<(f64, String)> {
        if self.log {
            return self.decades(most);
        }
        let step = self.values.step(self.low, self.high, most);
        let first = (self.low / step - 1e-9).ceil();
        let count = ((self.high / step + 1e-9).floor() - first).max(0.0) as usize;
        (0..=count)
            .map(|index| {
                let value = (first + index as f64) * step;
                (value, self.label(value, step))
            })
            .collect()
    }

    fn decades(&self, most: usize) -> Vec<(f64, String)> {
        let low = self.low.log10().round() as i32;
        let high = self.high.log10().round() as i32;
        let every = usize::try_from(high - low).unwrap_or(1).div_ceil(most.max(1)).max(1);
        let factors: &[f64] = if high - low <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        (low..=high)
            .step_by(every)
            .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)))
            .filter(|&value| value <= self.high * 1.001)
            .map(|value| (value, self.label(value, value)))
            .collect()
    }

    pub(super) fn label(&self, value: f64, step: f64) -> String {
        match self.values {
            Values::Nanoseconds => nanoseconds(value),
            Values::Percent => format!("{} %", plain(value * 100.0, step * 100.0)),
            Values::Plain | Values::Counts => plain(value, step),
        }
    }
}

/// 1, 2 or 5 times a power of ten, so that at most about `most` fit between the ends.
fn step(low: f64, high: f64, most: usize) -> f64 {
    let least = ((high - low) / most.max(1) as f64).max(f64::MIN_POSITIVE);
    let power = 10_f64.powf(least.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

fn nanoseconds(value: f64) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    let text = duration(Nanos(value.abs().round() as u64));
    // Ticks are round: digits that say nothing go.
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{sign}{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => format!("{sign}{text}"),
    }
}

/// A number with as many digits as tell it from its neighbours at `step`.
pub(super) fn plain(value: f64, step: f64) -> String {
    let sign = if value < -step / 1e6 { "−" } else { "" };
    let value = value.abs();
    let (unit, letter) = match step.abs().max(value / 100.0) {
        _ if value == 0.0 => (1.0, ""),
        s if s >= 1e9 => (1e9, "G"),
        s if s >= 1e6 => (1e6, "M"),
        s if s >= 1e3 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let digits = (-(step.abs() / unit).log10()).ceil().clamp(0.0, 9.0) as usize;
    let text = format!("{:.digits$}", value / unit);
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{sign}{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.scale(values.iter().copied()).ticks(6).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_values() {
        assert_eq!(labels(&Axis::new(""), &[0.3, 9.7]), ["0", "2", "4", "6", "8", "10"]);
        assert_eq!(
            labels(&Axis::new(""), &[0.0, 0.05]),
            ["0", "0.01", "0.02", "0.03", "0.04", "0.05"]
        );
        assert_eq!(
            labels(&Axis::new("").from_zero(), &[5_000.0]),
            ["0", "1k", "2k", "3k", "4k", "5k"]
        );
        assert_eq!(labels(&Axis::new("").from_zero(), &[2.0]), ["0", "0.5", "1", "1.5", "2"]);
        assert_eq!(labels(&Axis::counts(""), &[2.0]), ["0", "1", "2"]);
        assert_eq!(
            labels(&Axis::counts(""), &[0.0, 30.0]),
            ["0", "5", "10", "15", "20", "25", "30"]
        );
        let axis = Axis::nanoseconds("").logarithmic();
        assert_eq!(
            labels(&axis, &[900.0, 2e6]),
            ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms"]
        );
    }

    #[test]
    fn nothing_one_value_and_wild_values_have_a_scale() {
        for values in [&[][..], &[7.0], &[0.0], &[f64::NAN, f64::INFINITY, -3.0], &[-1e300, 1e300]]
        {
            for axis in [Axis::new(""), Axis::new("").logarithmic(), Axis::new("").from_zero()] {
                let scale = axis.scale(values.iter().copied());
                assert!(scale.low < scale.high, "{values:?}");
                assert!(!scale.ticks(6).is_empty() && scale.ticks(6).len() < 50, "{values:?}");
            }
        }
    }
}
