//! Plain numbers: histograms, samples, intervals, tests and fits.
//!
//! A [`Sample`] holds one number for each run: runs are what is compared, never the many values inside
//! one run, which share its luck. Every method names its paper; reference values in the tests come from
//! other implementations (see `docs/statistics.md`).
#![warn(missing_docs)]

mod agreement;
mod change;
mod distribution;
mod effect;
mod fit;
mod histogram;
mod interval;
mod moderate;
mod multiple;
mod power;
mod rank;
mod sample;
mod segments;
mod steady;
mod two_groups;

pub use agreement::{Agreement, agreement};
pub use change::{Level, change_points, change_points_among};
pub use distribution::{binomial_cdf, normal_cdf, normal_quantile, t_cdf, t_quantile};
pub use effect::{Effect, adjusted, disagreement, paired, pooled, welch};
pub use fit::{Fit, Line, huber, least_squares, theil_sen};
pub use histogram::{Bucket, Histogram};
pub use interval::{Interval, interval, median_interval, t_interval};
pub use moderate::{Variance, moderated};
pub use multiple::{benjamini_hochberg, holm};
pub use power::{Aim, detectable, runs_needed};
pub use rank::{RankShift, Shift, brunner_munzel, fisher};
pub use sample::{Sample, SampleError, median};
pub use schedlab_random::Random;
pub use segments::{Change, Kind, Population, Segment, Segments, segments};
pub use steady::{Steady, warm_up};
pub use two_groups::{Group, two_groups};

/// The examples of README.md are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
