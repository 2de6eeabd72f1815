//! Speeds in files that only a machine can turn into a part of full speed: `like:pi4.toml`, `800MHz@pi4.toml`, `1200MHz`.

use crate::speed::{Speed, text};
use schedlab_model::Cpu;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// Turns a speed that must be measured into a part of the full speed of a CPU; the error is a
/// sentence.
pub type Measure<'m> = &'m mut dyn FnMut(&str, Cpu) -> Result<Speed, String>;

/// A speed as a file asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// A part of full speed.
    Part(Speed),
    /// One that must be measured, as it is written.
    Measured(String),
}

pub(crate) struct Settling<'f, 'm> {
    pub(crate) text: &'f str,
    pub(crate) measure: Measure<'m>,
}

impl Settling<'_, '_> {
    /// The part of the full speed of a CPU that a wish is. An error names the line and what it says.
    pub(crate) fn settle(&mut self, wish: &Spanned<Wish>, cpu: Cpu) -> Result<Speed, String> {
        match wish.get_ref() {
            Wish::Part(speed) => Ok(*speed),
            Wish::Measured(asked) => (self.measure)(asked, cpu).map_err(|why| {
                let before = self.text.get(..wish.span().start).unwrap_or_default();
                format!("line {}: speed '{asked}': {why}", before.matches('\n').count() + 1)
            }),
        }
    }
}

/// Whether a text is a speed that must be measured.
#[must_use]
pub fn is_measured(text: &str) -> bool {
    text.starts_with("like:") || text.contains("MHz") || text.contains("GHz")
}

/// The file of the machine with which such a speed is compared; `None` for a plain speed.
#[must_use]
pub fn profile(text: &str) -> Option<&str> {
    let clock = || text.split_once('@').filter(|_| is_measured(text)).map(|(_, file)| file);
    text.strip_prefix("like:").or_else(clock)
}

impl<'de> Deserialize<'de> for Wish {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = text(deserializer)?;
        match is_measured(&text) {
            true => Ok(Self::Measured(text)),
            false => text.parse().map(Self::Part).map_err(D::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_a_machine_is_known_by_the_form() {
        for (text, measured, file) in [
            ("30%", false, None),
            ("0.3", false, None),
            ("like:pi 4.toml", true, Some("pi 4.toml")),
            ("1.2 GHz@pi.toml", true, Some("pi.toml")),
            ("1200MHz", true, None),
            ("30%@pi.toml", false, None),
        ] {
            assert_eq!((is_measured(text), profile(text)), (measured, file), "{text}");
        }
    }
}
