//! Scheduler tunables as every machine names them: names, units, limits, and the grammar of values.
//!
//! A [`Tunable`] is what a knob is, on every kernel that has it. Where a kernel keeps it, and what it is
//! now, is a machine's business. [`read`] turns what a person writes (`3ms`) into what the kernel takes
//! (`3000000`). [`SettingKind`] is what the name of a setting asks for: a knob, a single switch of the
//! scheduler (`feature:NAME`), or the speed of CPUs (`speed:CPUS`, see [`crate::SpeedSettings`]).

mod table;
mod value;

pub use table::TUNABLES;
pub use value::{feature, read};

use crate::options::nearest;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tunable {
    /// Its name, the same on every kernel.
    pub name: &'static str,
    /// Unit of the kernel's number: `ns`, `us`, `ms`, or empty.
    pub unit: &'static str,
    /// Limits that the kernel, or sense, sets; in that unit.
    pub range: Option<(f64, f64)>,
    /// What it does, and what to know before turning it.
    pub meaning: &'static str,
}

#[must_use]
pub fn tunable(name: &str) -> Option<&'static Tunable> {
    TUNABLES.iter().find(|tunable| tunable.name == name)
}

/// All switches of the scheduler together.
pub const FEATURES: &str = "features";
/// What the name of a setting of one switch begins with.
pub const FEATURE: &str = "feature:";
/// What the name of a setting of speeds begins with.
pub const SPEED: &str = "speed:";

/// What the name of a setting asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SettingKind<'n> {
    Knob(&'static Tunable),
    /// A switch of the scheduler, so that two of them can be two axes.
    Feature(&'n str),
    /// A setting of the CPUs' speeds.
    Speed,
}

impl<'n> SettingKind<'n> {
    /// Reads the name of a setting.
    ///
    /// # Errors
    /// When there is no such knob: the end of a sentence with the nearest name, or nothing.
    pub fn read(name: &'n str) -> Result<Self, String> {
        if name.starts_with(SPEED) {
            return Ok(Self::Speed);
        }
        if let Some(feature) = name.strip_prefix(FEATURE) {
            return Ok(Self::Feature(feature));
        }
        tunable(name).map(Self::Knob).ok_or_else(|| hint(name))
    }
}

/// The nearest name of a knob, as a sentence's end.
fn hint(name: &str) -> String {
    let close = |tunable: &&Tunable| {
        let shared = tunable.name.chars().zip(name.chars()).take_while(|(a, b)| a == b).count();
        shared >= 4 || tunable.name.contains(name) || name.contains(tunable.name)
    };
    let slip = nearest(name, TUNABLES.iter().map(|tunable| tunable.name));
    let near = slip.or_else(|| TUNABLES.iter().find(close).map(|tunable| tunable.name));
    near.map_or(String::new(), |near| format!("; did you mean {near}?"))
}

#[cfg(test)]
mod tests;
