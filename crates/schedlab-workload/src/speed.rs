//! Speeds, and which CPU gets which.

use schedlab_model::{Cpu, CpuSet, percentage};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The fraction of full speed at which a CPU is made to work, in millionths: above 0, at most 1.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema, Serialize,
)]
#[serde(into = "String")]
pub struct Speed(u32);

const WHOLE: u32 = 1_000_000;
/// What stands in place of speeds by the profile of a machine.
pub const PROFILES_GONE: &str = "profiles of machines are no longer read: run a program on both \
                                 machines, and use the ratio, as in 40%";

impl Speed {
    pub const FULL: Self = Self(WHOLE);

    /// A speed by its millionths; `None` for zero and for more than full speed.
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Option<Self> {
        if millionths == 0 || millionths > WHOLE { None } else { Some(Self(millionths)) }
    }

    /// A speed in whole percent; `None` for zero and for more than a hundred.
    #[must_use]
    pub const fn percent(percent: u32) -> Option<Self> {
        if percent > 100 { None } else { Self::from_millionths(percent * (WHOLE / 100)) }
    }

    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }

    #[must_use]
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// `time` times what is missing to full speed.
    #[must_use]
    pub fn lost(self, time: u64) -> u64 {
        let lost = u128::from(time) * u128::from(WHOLE - self.0) / u128::from(WHOLE);
        u64::try_from(lost).expect("a part is smaller than the whole")
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = f64::from(self.0) / f64::from(WHOLE / 100);
        write!(f, "{percent}%")
    }
}

/// Reads `30%`, `12.5%` and `0.3`.
impl FromStr for Speed {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        if trimmed.starts_with("like:") {
            return Err(format!("invalid speed '{text}': {PROFILES_GONE}"));
        }
        let (value, scale) = match percentage(trimmed) {
            Some(percent) => (Some(percent), 10_000.0),
            None => (trimmed.parse().ok(), 1_000_000.0),
        };
        let value: f64 =
            value.ok_or_else(|| format!("invalid speed '{text}': use the form 30% or 0.3"))?;
        let millionths = (value * scale).round();
        if !(millionths.is_finite() && millionths >= 1.0) {
            return Err(format!("invalid speed {text}: use more than 0"));
        }
        if millionths > f64::from(WHOLE) {
            let hint = match scale > 10_000.0 && value <= 100.0 {
                true => format!("; did you mean {trimmed}%?"),
                false => String::new(),
            };
            return Err(format!(
                "invalid speed {text}: use at most 100%, which is full speed{hint}"
            ));
        }
        Ok(Self(millionths as u32))
    }
}

impl From<Speed> for String {
    fn from(speed: Speed) -> Self {
        speed.to_string()
    }
}

/// From its text, and from a number as people write it in files: `"30%"`, `0.3`.
impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A speed as it is written, before it is read.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct Read;
    impl Visitor<'_> for Read {
        type Value = String;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a speed as in \"30%\" or 0.3")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            Ok(text.to_owned())
        }
        fn visit_f64<E: Error>(self, number: f64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_i64<E: Error>(self, number: i64) -> Result<String, E> {
            Ok(number.to_string())
        }
        fn visit_u64<E: Error>(self, number: u64) -> Result<String, E> {
            Ok(number.to_string())
        }
    }
    deserializer.deserialize_any(Read)
}

/// What `--cpu` takes: a list of CPUs and their speed, `1-3=75%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub cpus: CpuSet,
    pub speed: Speed,
}

impl FromStr for Assignment {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (cpus, speed) = text
            .split_once('=')
            .ok_or_else(|| format!("invalid speed '{text}': use CPUS=SPEED, as in 1-3=75%"))?;
        let cpus: CpuSet = cpus.parse().map_err(|e: schedlab_model::CpuListError| e.to_string())?;
        if cpus.is_empty() {
            return Err(format!("'{text}' names no CPU: write it as in 1-3=75%"));
        }
        Ok(Self { cpus, speed: speed.parse()? })
    }
}

pub type Speeds = BTreeMap<Cpu, Speed>;

/// Puts assignments together.
///
/// # Errors
/// When a CPU is named twice.
pub fn speeds(assignments: &[Assignment]) -> Result<Speeds, String> {
    let mut speeds = Speeds::new();
    for assignment in assignments {
        for cpu in assignment.cpus.iter() {
            if speeds.insert(cpu, assignment.speed).is_some() {
                return Err(format!("CPU {cpu} is given two speeds"));
            }
        }
    }
    Ok(speeds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_read_as_percent_or_fraction() {
        for (text, millionths) in [
            ("30%", 300_000),
            ("0.3", 300_000),
            ("100%", 1_000_000),
            ("1", 1_000_000),
            ("12.5 %", 125_000),
            ("0.0001%", 1),
        ] {
            assert_eq!(text.parse::<Speed>().unwrap().millionths(), millionths, "{text}");
        }
        assert_eq!("12.5%".parse::<Speed>().unwrap().to_string(), "12.5%");
    }

    #[test]
    fn no_speed_and_more_than_full_speed_are_refused_with_the_reason() {
        for (text, why) in [
            ("0", "more than 0"),
            ("0%", "more than 0"),
            ("-5%", "more than 0"),
            ("101%", "full speed"),
            ("30", "did you mean 30%"),
            ("150", "invalid speed 150: use at most 100%, which is full speed"),
            ("nan", "more than 0"),
            ("inf", "more than 0"),
            ("", "invalid speed"),
            ("fast", "invalid speed"),
            ("like:pi4.toml", "use the ratio"),
        ] {
            let error = text.parse::<Speed>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            // What is suggested is available.
            let hint = error.split("did you mean ").nth(1).map(|hint| hint.trim_end_matches('?'));
            assert!(hint.is_none_or(|hint| hint.parse::<Speed>().is_ok()), "{error}");
        }
    }

    #[test]
    fn a_cpu_has_one_speed() {
        let read = |texts: &[&str]| {
            let all: Vec<Assignment> = texts.iter().map(|text| text.parse().unwrap()).collect();
            speeds(&all)
        };
        assert_eq!(read(&["0=30%", "1-3=75%"]).unwrap().len(), 4);
        assert!(read(&["0-2=30%", "2=75%"]).unwrap_err().contains("CPU 2"));
        assert!("0".parse::<Assignment>().is_err() && "=50%".parse::<Assignment>().is_err());
    }

    #[test]
    fn what_is_lost_and_the_speed_make_the_whole() {
        let speed: Speed = "25%".parse().unwrap();
        assert_eq!(speed.lost(2_000_000), 1_500_000);
        assert_eq!(Speed::FULL.lost(u64::MAX), 0);
    }
}
