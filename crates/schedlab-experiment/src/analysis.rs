//! From stored runs to statements: cells of an experiment, comparisons, maps and curves.
//!
//! The run is the unit. Values are compared by their ratio (on a log scale), since noise of machines is
//! relative: a point that takes twice the time varies twice as much. What is drifting slowly falls on
//! all points of a block alike and is taken out where the blocks are complete.

mod cells;
mod centre;
mod claims;
mod comparison;
mod curve;
mod map;
mod noise;
mod plane;
mod scale;
mod winner;

pub use cells::{Cell, Cells};
pub(crate) use cells::{metrics, position};
pub use centre::Centre;
pub use claims::{Finding, Judged, judge};
pub use comparison::{
    Asked, BOOTS_MIN, Basis, Change, Comparison, Detail, FailIf, FailIfError, Failures, Judgement,
    LEVEL, LOOK_LEVEL, Looks, POWER_MIN, PRIORS, Row, Side, Verdict, compare, compare_adjusted,
    compare_metrics, compare_pairs, compare_values, look_level, percent,
};
pub use curve::{Curve, CurvePoint, curves};
pub use map::{Choice, Edge, Map, MapError, Noise, Plane};
pub use noise::REPEATS_MIN;
pub use plane::planes;
pub use scale::{Efficiency, KNEE, Scale, ScalePoint, scales};
pub use winner::{Winner, winner};
