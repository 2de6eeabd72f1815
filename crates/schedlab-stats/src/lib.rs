//! Plain numbers: histograms, samples, intervals, tests and fits.

mod histogram;

pub use histogram::{Bucket, Histogram, HistogramError};
