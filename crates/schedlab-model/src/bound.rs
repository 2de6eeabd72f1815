//! How exact a figure is.

/// How exact a figure is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// It is the value.
    Exact,
    /// The value is not less.
    AtLeast,
    /// The value is not more.
    AtMost,
    /// The value is at most this far away, in the unit of the column.
    Within(f64),
}
