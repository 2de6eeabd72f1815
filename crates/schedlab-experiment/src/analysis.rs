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
pub(crate) use centre::Centre;
pub use claims::{Finding, Judged, judge};
pub(crate) use comparison::PRIORS;
pub use comparison::{
    Basis, Change, CompareOptions, Comparison, Detail, FailIf, FailIfError, Judgement, LEVEL,
    Looks, POWER_MIN, Row, Side, Verdict, centre_of, compare, compare_adjusted, compare_metrics,
    compare_pairs, look_level, percent,
};
pub(crate) use curve::curves;
pub use curve::{Curve, CurvePoint};
pub use map::{Choice, Edge, Map, MapError, Noise, ValueGrid};
pub(crate) use plane::planes;
pub(crate) use scale::{Efficiency, KNEE, ScalePoint};
pub use scale::{Scale, scales};
pub use winner::Winner;
pub(crate) use winner::winner;
