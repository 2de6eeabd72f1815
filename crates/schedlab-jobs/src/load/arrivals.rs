//! When jobs arrive: start times for every node.

use super::Random;
use crate::graph::Graph;
use crate::policy::Nanos;
use std::str::FromStr;

/// An arrival process. Start times follow the order of nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Arrivals {
    /// All jobs may start at once.
    #[default]
    AtOnce,
    /// One every this many nanoseconds.
    Gap(Nanos),
    /// Independent of each other, one every this many nanoseconds on average.
    Poisson(Nanos),
    /// This many at once, then a gap.
    Bursts {
        /// Jobs of a burst.
        jobs: u32,
        /// From burst to burst.
        gap_ns: Nanos,
    },
    /// Level by level, each this long after the one before.
    Levels(Nanos),
    /// Recorded start times; repeated, one period on, when there are more jobs.
    Trace(Vec<Nanos>),
}

impl Arrivals {
    /// The start of every node, from 0.
    pub fn starts(&self, graph: &Graph, seed: u64) -> Vec<Nanos> {
        let nodes = 0..graph.len();
        match self {
            Self::AtOnce => Vec::new(),
            Self::Gap(gap) => nodes.map(|node| Nanos::from(node) * gap).collect(),
            Self::Poisson(mean) => {
                let mut random = Random::new(seed);
                let mut now = 0.0;
                nodes
                    .map(|_| {
                        let start = now as Nanos;
                        now += random.exponential() * *mean as f64;
                        start
                    })
                    .collect()
            }
            Self::Bursts { jobs, gap_ns } => {
                nodes.map(|node| Nanos::from(node / (*jobs).max(1)) * gap_ns).collect()
            }
            Self::Levels(step) => nodes.map(|n| Nanos::from(graph.level(n)) * step).collect(),
            Self::Trace(times) => replay(times, graph.len()),
        }
    }
}

fn replay(times: &[Nanos], jobs: u32) -> Vec<Nanos> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let count = times.len() as Nanos;
    let period = (last - first) + (last - first) / (count - 1).max(1);
    (0..jobs as usize)
        .map(|i| times[i % times.len()] - first + (i / times.len()) as Nanos * period)
        .collect()
}

impl FromStr for Arrivals {
    type Err = String;

    /// `at-once`, `gap:200us`, `poisson:200us`, `bursts:16:5ms`, `levels:1ms`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.split(':').collect();
        match parts.as_slice() {
            ["at-once"] => Ok(Self::AtOnce),
            ["gap", gap] => duration(gap).map(Self::Gap),
            ["poisson", mean] => duration(mean).map(Self::Poisson),
            ["levels", step] => duration(step).map(Self::Levels),
            ["bursts", jobs, gap] => {
                let jobs = jobs
                    .parse()
                    .map_err(|_| format!("invalid number of jobs '{jobs}': use a whole number"))?;
                Ok(Self::Bursts { jobs, gap_ns: duration(gap)? })
            }
            _ => Err(format!(
                "unknown arrival '{text}': use at-once, gap:TIME, poisson:TIME, bursts:JOBS:TIME \
                 or levels:TIME"
            )),
        }
    }
}

/// A duration with its unit, in nanoseconds.
pub(super) fn duration(text: &str) -> Result<Nanos, String> {
    text.parse().map(|time: schedlab_model::Nanos| time.0).map_err(|why| why.to_string())
}

/// The schedule that Lumiera's rig tightens until it breaks: after each level a step of its weight over
/// the speed-up n / ceil(n / workers) of its n nodes, all divided by the stress. The starts of the nodes,
/// and the end.
pub(crate) fn level_schedule(
    graph: &Graph,
    workers: usize,
    base_ns: Nanos,
    stress: f64,
) -> (Vec<Nanos>, Nanos) {
    let mut widths = vec![(0u64, 0u64); graph.levels() as usize];
    for node in 0..graph.len() {
        let level = &mut widths[graph.level(node) as usize];
        *level = (level.0 + 1, level.1 + u64::from(graph.weight(node)));
    }
    let mut level_start = Vec::with_capacity(widths.len());
    let mut weight = 0.0;
    let at = |weight: f64| (weight * base_ns as f64 / stress) as Nanos;
    for (nodes, weights) in widths {
        level_start.push(at(weight));
        let speed_up = nodes as f64 / nodes.div_ceil(workers.max(1) as u64) as f64;
        weight += weights as f64 / speed_up;
    }
    let starts = (0..graph.len()).map(|node| level_start[graph.level(node) as usize]).collect();
    (starts, at(weight))
}

/// The largest stress that any scheduler could stand: the end of the level schedule at stress 1, over
/// what the critical path and the sum of the work need at least.
pub(crate) fn critical_path_bound(graph: &Graph, workers: usize) -> f64 {
    let (_, end) = level_schedule(graph, workers, 1_000_000, 1.0);
    let least = graph.critical_path().max(graph.weight_sum().div_ceil(workers.max(1) as u64));
    end as f64 / 1e6 / least as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Hashing, Rules, Shape};

    #[test]
    fn the_level_schedule_agrees_with_the_published_one() {
        let rules = Rules { nodes: 64, hashing: Hashing::Compat, ..Rules::default() };
        let graph = Shape::LoadBursts.build(&rules);
        let (starts, end) = level_schedule(&graph, 4, 500_000, 1.0);
        let mut levels: Vec<f64> = starts.iter().map(|&ns| (ns / 1000) as f64 / 1000.0).collect();
        levels.dedup();
        let published = [
            0.0, 1.0, 1.5, 2.5, 3.5, 4.0, 4.5, 5.0, 6.0, 6.5, 8.0, 10.0, 11.25, 12.083, 13.083,
            14.083, 15.433,
        ];
        assert_eq!(levels, published);
        assert_eq!(end / 1000, 16_100);
        assert_eq!(level_schedule(&graph, 6, 500_000, 0.3).1 / 1_000_000, 45);
        assert!((critical_path_bound(&graph, 4) - 1.0387).abs() < 0.001);
    }

    #[test]
    fn arrivals_are_read_and_spread() {
        let graph = Shape::Isolated.build(&Rules { nodes: 1000, ..Rules::default() });
        let starts = |text: &str| text.parse::<Arrivals>().unwrap().starts(&graph, 3);
        assert_eq!(starts("gap:200us")[..3], [0, 200_000, 400_000]);
        assert_eq!(starts("bursts:2:1ms")[..4], [0, 0, 1_000_000, 1_000_000]);
        let poisson = starts("poisson:1ms");
        let mean = poisson[999] as f64 / 999.0;
        assert!((mean / 1e6 - 1.0).abs() < 0.1, "{mean}");
        for wrong in ["200", "NaNs", "infs", "-1us", "1xs", ""] {
            let why = format!("gap:{wrong}").parse::<Arrivals>().unwrap_err();
            assert!(why.starts_with(&format!("invalid duration '{wrong}'")), "{why}");
        }
        assert_eq!(replay(&[5, 7, 9], 5), [0, 2, 4, 6, 8]);
    }
}
