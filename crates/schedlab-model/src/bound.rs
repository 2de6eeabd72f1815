//! How exact a figure is.

/// How exact a figure is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The true value, without error.
    Exact,
    /// The value is not less.
    AtLeast,
    /// The value is not more.
    AtMost,
    /// The value is at most this far away, in the unit of the column.
    Within(f64),
}

impl Bound {
    /// What `NAME_bound` says in tables; `None` where the value is exact.
    #[must_use]
    pub fn word(self) -> Option<String> {
        match self {
            Self::Exact => None,
            Self::AtLeast => Some("at_least".to_owned()),
            Self::AtMost => Some("at_most".to_owned()),
            Self::Within(apart) => Some(format!("within {apart}")),
        }
    }
}
