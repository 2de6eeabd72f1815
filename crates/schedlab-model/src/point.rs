//! A point of a trace, as people name it.

use crate::Nanos;
use crate::time::{NanosError, NotNanos, decimal};
use std::fmt;
use std::str::FromStr;

/// A point of a trace: `1.5s` since the trace began, or `@12345.678901234`, seconds of the trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// This long after the trace began.
    Since(Nanos),
    /// On the trace's clock, as `trace-cmd report` and `perf script` print it.
    At(Nanos),
}

impl Point {
    /// The time since a trace began whose first instant is `origin`; zero for a point before it.
    #[must_use]
    pub fn since(self, origin: Nanos) -> Nanos {
        match self {
            Self::Since(time) => time,
            Self::At(time) => time - origin,
        }
    }
}

impl From<Nanos> for Point {
    fn from(since: Nanos) -> Self {
        Self::Since(since)
    }
}

/// As it is read. A point on the clock has nine digits, so that nothing is rounded.
impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Since(time) => time.fmt(f),
            Self::At(Nanos(ns)) => write!(f, "@{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000),
        }
    }
}

impl FromStr for Point {
    type Err = NanosError;
    fn from_str(text: &str) -> Result<Self, NanosError> {
        let Some(seconds) = text.trim().strip_prefix('@') else {
            return text.parse().map(Self::Since);
        };
        let seconds = seconds.strip_suffix('s').unwrap_or(seconds);
        let is_number = seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let time =
            Some(seconds).filter(|_| is_number).and_then(|text| decimal(text, 1_000_000_000));
        let time = time.ok_or_else(|| NotNanos::Clock(text.to_owned()))?;
        let time = time.ok_or_else(|| NotNanos::TooLong(text.to_owned()))?;
        Ok(Self::At(Nanos(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_is_printed_on_both_clocks() {
        let at: Point = "@12345.678901234".parse().unwrap();
        assert_eq!(at, Point::At(Nanos(12_345_678_901_234)));
        assert_eq!(at.to_string(), "@12345.678901234");
        assert_eq!("@7s".parse(), Ok(Point::At(Nanos(7_000_000_000))));
        assert_eq!("1.5ms".parse(), Ok(Point::Since(Nanos(1_500_000))));
        assert_eq!(at.since(Nanos(12_345_000_000_000)), Nanos(678_901_234));
        assert_eq!(at.since(Nanos(99_000_000_000_000)), Nanos::ZERO);
        for wrong in ["@", "@x", "@1ms", "@-1", "@1.2.3", "7"] {
            assert!(wrong.parse::<Point>().is_err(), "{wrong}");
        }
    }
}
