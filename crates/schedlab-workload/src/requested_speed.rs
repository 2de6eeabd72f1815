//! Speeds in files that only a machine can turn into a part of full speed: clocks, as in `1200MHz`.

use crate::speed::{Speed, text};
use schedlab_model::Cpu;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// Turns a clock into a part of the full speed of a CPU; the error is a sentence.
pub(crate) type OfClock<'m> = &'m dyn Fn(&str, Cpu) -> Result<Speed, String>;

/// A speed as a file asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestedSpeed {
    /// A part of full speed.
    Part(Speed),
    /// A clock, as it is written.
    Clock(String),
}

pub(crate) struct Settling<'f, 'm> {
    pub(crate) text: &'f str,
    pub(crate) of_clock: OfClock<'m>,
}

impl Settling<'_, '_> {
    /// The part of the full speed of a CPU that a wish is. An error names the line and what it says.
    pub(crate) fn settle(&self, wish: &Spanned<RequestedSpeed>, cpu: Cpu) -> Result<Speed, String> {
        match wish.get_ref() {
            RequestedSpeed::Part(speed) => Ok(*speed),
            RequestedSpeed::Clock(asked) => (self.of_clock)(asked, cpu).map_err(|why| {
                let before = self.text.get(..wish.span().start).unwrap_or_default();
                format!("line {}: speed '{asked}': {why}", before.matches('\n').count() + 1)
            }),
        }
    }
}

/// Whether a text is a clock.
#[must_use]
pub fn is_clock(text: &str) -> bool {
    text.contains("MHz") || text.contains("GHz")
}

impl<'de> Deserialize<'de> for RequestedSpeed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text(deserializer)?;
        match is_clock(&text) {
            true => Ok(Self::Clock(text)),
            false => text.parse().map(Self::Part).map_err(D::Error::custom),
        }
    }
}
