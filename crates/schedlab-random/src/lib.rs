//! Generators of random numbers whose sequences are part of results.
//!
//! The same seed gives the same numbers on every machine and in every version, independent of libraries of generators.
//! Each algorithm is here once, by its name:
//!
//! | generator | what depends on its sequence |
//! |---|---|
//! | [`Random`] (xoshiro256++) | orders of runs, bootstrap intervals, searches, simulated ties: what new code takes |
//! | [`SplitMix64`] | published sweeps of jobs (lengths, arrivals, kinds), phases of slowed CPUs and of limits of groups; seeds of [`Random`] |
//! | [`mix`] | hashes of the nodes of published graphs |
//! | [`XorShiftStar`] | synthetic traces, whose answers the corpus keeps |
#![warn(missing_docs)]

mod split_mix;
mod xor_shift;
mod xoshiro;

pub use split_mix::{SplitMix64, mix};
pub use xor_shift::XorShiftStar;
pub use xoshiro::Random;

/// The examples of README.md are tested with those of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
