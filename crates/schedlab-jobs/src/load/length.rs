//! How long jobs are.

use super::Random;
use crate::graph::Node;
use std::str::FromStr;

/// A distribution of job lengths, as factors of the mean: every one has the mean 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Length {
    /// All jobs have the same length.
    #[default]
    Fixed,
    /// Lengths are distributed exponentially.
    Exponential,
    /// This fraction of the jobs is that many times as long as the others.
    Bimodal {
        /// Between 0 and 1.
        fraction: f64,
        /// How much longer long jobs are, at least 1.
        times: f64,
    },
    /// Pareto with this shape (above 1); the smaller, the heavier the tail. Cut off at 1,000 means.
    Pareto {
        /// The exponent of the distribution, above 1.
        shape: f64,
    },
}

impl Length {
    /// The factor of a node: a function of seed and node, so every executor gets the same jobs.
    pub(crate) fn factor(self, seed: u64, node: Node) -> f64 {
        let mut random = Random::new(seed ^ (u64::from(node) << 20));
        random.bits();
        match self {
            Self::Fixed => 1.0,
            Self::Exponential => random.exponential(),
            Self::Bimodal { fraction, times } => {
                let short = 1.0 / (1.0 - fraction + fraction * times);
                if random.unit() < fraction { short * times } else { short }
            }
            Self::Pareto { shape } => {
                let least = (shape - 1.0) / shape;
                (least * (1.0 - random.unit()).powf(-1.0 / shape)).min(1000.0)
            }
        }
    }
}

impl FromStr for Length {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or_default();
        let numbers: Vec<f64> = parts
            .map(|part| {
                part.parse().map_err(|_| format!("invalid number '{part}': use digits, as in 0.5"))
            })
            .collect::<Result<_, _>>()?;
        match (name, numbers.as_slice()) {
            ("fixed", []) => Ok(Self::Fixed),
            ("exponential", []) => Ok(Self::Exponential),
            ("bimodal", []) => Ok(Self::Bimodal { fraction: 0.1, times: 10.0 }),
            ("bimodal", &[fraction, times]) if (0.0..1.0).contains(&fraction) && times >= 1.0 => {
                Ok(Self::Bimodal { fraction, times })
            }
            ("pareto", []) => Ok(Self::Pareto { shape: 1.5 }),
            ("pareto", &[shape]) if shape > 1.0 => Ok(Self::Pareto { shape }),
            _ => Err(format!(
                "unknown length '{text}': use fixed, exponential, bimodal:FRACTION:TIMES (0 to \
                 1, 1 or more) or pareto:SHAPE (above 1)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_has_the_mean_one() {
        for (text, tolerance) in
            [("fixed", 0.0), ("exponential", 0.02), ("bimodal:0.1:10", 0.02), ("pareto:2.5", 0.03)]
        {
            let length: Length = text.parse().unwrap();
            let n = 40_000;
            let mean = (0..n).map(|node| length.factor(7, node)).sum::<f64>() / f64::from(n);
            assert!((mean - 1.0).abs() <= tolerance, "{text}: {mean}");
        }
    }

    #[test]
    fn what_is_no_length_is_refused() {
        for text in ["pareto:0.9", "bimodal:2:3", "fixed:1", "short"] {
            assert!(text.parse::<Length>().is_err(), "{text}");
        }
    }
}
