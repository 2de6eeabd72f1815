//! Plain numbers: histograms, samples, intervals, tests and fits.

mod histogram;
mod random;

pub use histogram::{Bucket, Histogram, HistogramError};
pub use random::Random;
