//! Time as schedlab counts it: whole nanoseconds, never floating point.

use crate::{Unit, readable};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

/// A point in time or a duration, in nanoseconds (0 ..= 2^64 - 1, 584 years).
///
/// The zero point of a point in time belongs to its clock (see [`crate::Clock`]). Subtraction
/// saturates at zero: clocks of different CPUs can disagree by a little, and a negative wait is
/// noise, not a number.
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
#[schemars(description = "Time in nanoseconds.")]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The zero point, or no time at all.
    pub const ZERO: Self = Self(0);
    /// The largest value; used as "never".
    pub const MAX: Self = Self(u64::MAX);

    /// A whole number of microseconds; saturates.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A whole number of milliseconds; saturates.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A whole number of seconds; saturates.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Seconds as a float, for statistics and axes only.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// This length of time as a [`std::time::Duration`].
    #[must_use]
    pub const fn as_duration(self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0)
    }

    /// For reading: three significant digits and the unit, `2.51 ms`.
    #[must_use]
    pub fn readable(self) -> String {
        readable(self.0 as f64, Unit::Nanoseconds)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(duration: std::time::Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Printed with the unit that leaves one to three digits before the point: `850ns`, `1.5ms`, `12s`.
///
/// At most three digits after the point, trailing zeros dropped; above 1,000 s still seconds.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What rounds up to a thousand has the next unit.
        let (unit, name) = match self.0 {
            0..1_000 => (1, "ns"),
            1_000..1_000_000 => (1_000, "us"),
            1_000_000..999_999_500 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        };
        let rounded = (u128::from(self.0) * 1_000 + unit / 2) / unit;
        let mut text = (rounded / 1_000).to_string();
        let thousandths = rounded % 1_000;
        if thousandths > 0 {
            let digits = format!("{thousandths:03}");
            text.push('.');
            text.push_str(digits.trim_end_matches('0'));
        }
        text.push_str(name);
        f.pad(&text)
    }
}

/// Why a text is not a duration, or not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct NanosError(#[from] pub(crate) NotNanos);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotNanos {
    /// No unit followed the number.
    #[error("invalid duration '{0}': add a unit (ns, us, ms, s, m or h), as in 1.5ms")]
    NoUnit(String),
    /// Not a number with a unit.
    #[error("invalid duration '{0}': use a number and a unit, as in 1.5ms")]
    Malformed(String),
    /// Not a time on a trace's clock.
    #[error("invalid time '{0}' on the trace's clock: use seconds, as in @12345.678901")]
    Clock(String),
    /// More than 2^64 ns.
    #[error("invalid duration '{0}': use less than 584 years")]
    TooLong(String),
}

/// Reads `1.5ms`, `20us`, `20µs`, `3s`, `2m`, `1h`, `850ns`; `0` alone needs no unit.
impl FromStr for Nanos {
    type Err = NanosError;
    fn from_str(text: &str) -> Result<Self, NanosError> {
        let text = text.trim();
        if text == "0" {
            return Ok(Self::ZERO);
        }
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit: u64 = match unit.trim() {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" | "min" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "" if number.contains(|c: char| c.is_ascii_digit()) => {
                return Err(NotNanos::NoUnit(text.to_owned()).into());
            }
            _ => return Err(NotNanos::Malformed(text.to_owned()).into()),
        };
        decimal(number, unit)
            .ok_or_else(|| NotNanos::Malformed(text.to_owned()))?
            .map(Self)
            .ok_or_else(|| NotNanos::TooLong(text.to_owned()).into())
    }
}

/// `number` (digits with at most one point) times `unit`, exactly, digits below one dropped.
/// Outer `None`: not a number. Inner `None`: too large.
pub(crate) fn decimal(number: &str, unit: u64) -> Option<Option<u64>> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let Ok(whole) = (if whole.is_empty() { Ok(0) } else { whole.parse::<u64>() }) else {
        return Some(None);
    };
    const SCALE: u128 = 1_000_000_000_000_000_000;
    let mut exact = 0u128;
    let mut place = u128::from(unit) * (SCALE / 10);
    for digit in fraction.bytes().take(18) {
        exact += place * u128::from(digit - b'0');
        place /= 10;
    }
    Some(whole.checked_mul(unit).and_then(|ns| ns.checked_add(u64::try_from(exact / SCALE).ok()?)))
}

/// A half-open interval of time, `start <= t < end`.
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
pub struct Span {
    /// The first instant inside the span.
    pub start: Nanos,
    /// First instant after it.
    pub end: Nanos,
}

impl Span {
    /// From `start` up to `end`; empty when `end` is not after `start`.
    #[must_use]
    pub const fn new(start: Nanos, end: Nanos) -> Self {
        Self { start, end }
    }

    /// The length of the span; zero if it is empty.
    #[must_use]
    pub fn duration(self) -> Nanos {
        self.end - self.start
    }

    /// Whether `time` lies inside.
    #[must_use]
    pub fn contains(self, time: Nanos) -> bool {
        self.start <= time && time < self.end
    }

    /// What both have in common; empty (zero length at the later start) when nothing.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self { start, end: self.end.min(other.end).max(start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_printed_in_their_units() {
        for (text, ns) in [
            ("0", 0),
            ("850ns", 850),
            ("1.5us", 1_500),
            ("20µs", 20_000),
            ("1.5ms", 1_500_000),
            (".5s", 500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("0.000000001s", 1),
            ("1.25h", 4_500_000_000_000),
        ] {
            assert_eq!(text.parse::<Nanos>(), Ok(Nanos(ns)), "{text}");
        }
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_500, "1.5us"),
            (1_000_001, "1ms"),
            (1_999_999, "2ms"),
            (999_999_499, "999.999ms"),
            (999_999_500, "1s"),
            (u64::MAX, "18446744073.71s"),
            (2_050_000_000, "2.05s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_duration_is_refused_with_the_reason() {
        assert_eq!("5".parse::<Nanos>(), Err(NotNanos::NoUnit("5".into()).into()));
        for text in ["", "ms", "1.2.3ms", "-1ms", "1 parsec", "."] {
            assert_eq!(
                text.parse::<Nanos>(),
                Err(NotNanos::Malformed(text.into()).into()),
                "{text}"
            );
        }
        assert_eq!(
            "99999999999999999999h".parse::<Nanos>(),
            Err(NotNanos::TooLong("99999999999999999999h".into()).into())
        );
    }

    #[test]
    fn spans_intersect() {
        let span = |a, b| Span::new(Nanos(a), Nanos(b));
        assert_eq!(span(1, 5).intersection(span(3, 9)), span(3, 5));
        assert_eq!(span(1, 2).intersection(span(3, 9)).duration(), Nanos::ZERO);
        assert!(span(1, 2).contains(Nanos(1)) && !span(1, 2).contains(Nanos(2)));
    }
}
