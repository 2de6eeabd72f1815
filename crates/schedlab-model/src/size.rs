//! Sizes in bytes, read and printed with their unit.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// An amount of memory or storage; text has binary units (`64 KiB`).
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid size '{0}': use a number and a unit, as in 64KiB (B, KiB, MiB, GiB, kB, MB, GB)")]
pub struct BytesError(pub String);

const UNITS: [(&str, u64); 10] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("B", 1),
];

/// Reads `64KiB`, `1.5MiB`, `10MB`, `512B`; `K`, `M`, `G` alone are binary; a bare number is bytes.
impl FromStr for Bytes {
    type Err = BytesError;
    fn from_str(text: &str) -> Result<Self, BytesError> {
        let text = text.trim();
        let (number, unit) = UNITS
            .iter()
            .find_map(|(name, unit)| Some((text.strip_suffix(name)?.trim_end(), *unit)))
            .unwrap_or((text, 1));
        if !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
            return Err(BytesError(text.to_owned()));
        }
        let size = crate::time::decimal(number, unit).flatten();
        size.map(Self).ok_or_else(|| BytesError(text.to_owned()))
    }
}

/// Printed in binary units with at most one digit after the point: `64KiB`, `1.5MiB`, `17B`.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) =
            UNITS[..3].iter().find(|(_, unit)| self.0 >= *unit).copied().unwrap_or(("B", 1));
        let tenths = self.0 % unit * 10 / unit;
        let text = match tenths {
            0 => format!("{}{name}", self.0 / unit),
            _ => format!("{}.{tenths}{name}", self.0 / unit),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_printed() {
        for (text, bytes) in [
            ("64KiB", 65_536),
            ("1.5MiB", 1_572_864),
            ("10MB", 10_000_000),
            ("7", 7),
            ("2G", 2 << 30),
        ] {
            assert_eq!(text.parse::<Bytes>(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "KiB", "-1", "1e3", "99999999999999999999"] {
            assert_eq!(text.parse::<Bytes>(), Err(BytesError(text.into())));
        }
        assert_eq!(Bytes(1_572_864).to_string(), "1.5MiB");
        assert_eq!(Bytes(17).to_string(), "17B");
    }
}
