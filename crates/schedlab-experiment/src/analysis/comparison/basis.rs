//! What varies independently in a comparison.

use serde::Serialize;
use std::fmt;

/// What varies independently in a comparison, and so is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Pairs of runs that were done one after the other, in random order.
    Pairs,
    /// Single runs vary independently.
    Runs,
    /// Boots: the runs of one boot share its luck.
    Boots,
    /// Boots in which both sides ran.
    BootPairs,
    /// Pairs of folders vary independently.
    Folders,
}

impl Basis {
    pub(super) const fn is_paired(self) -> bool {
        matches!(self, Self::Pairs | Self::BootPairs | Self::Folders)
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pairs => "pairs",
            Self::Runs => "runs",
            Self::Boots => "boots",
            Self::BootPairs => "pairs of boots",
            Self::Folders => "pairs of folders",
        })
    }
}
