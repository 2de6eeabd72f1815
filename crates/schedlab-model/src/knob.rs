//! Scheduler tunables.

use serde::{Deserialize, Serialize};

/// A tunable of the scheduler, as it is on this machine now.
#[derive(Clone, Debug, PartialEq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Knob {
    /// schedlab's name for the knob, the same on every kernel that has it: `base_slice`.
    pub name: String,
    /// The value of the knob in the kernel's own spelling; `None` if it cannot be read.
    pub value: Option<String>,
    /// The unit of the value (`ns`, `us`, `%`, `` for a flag or a plain number).
    pub unit: String,
    /// Smallest value that the kernel takes, where there is one.
    pub min: Option<f64>,
    /// Largest value that the kernel takes, where there is one.
    pub max: Option<f64>,
    /// What the knob does, in a sentence.
    pub meaning: String,
    /// Where it lives: a path, or a system call.
    pub r#where: String,
    /// Whether we may change it.
    pub writable: bool,
    /// Why the knob is not writable, and how to get the permission; empty if it is writable.
    pub why_not: String,
}

/// A wanted value for a knob.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema, Serialize, Deserialize,
)]
pub struct Setting {
    /// The name of the knob.
    pub knob: String,
    /// The value, as the user wrote it (with a unit where it has one).
    pub value: String,
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.knob, self.value)
    }
}

impl std::str::FromStr for Setting {
    type Err = String;

    /// Reads `NAME=VALUE`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (knob, value) =
            text.split_once('=').filter(|(knob, _)| !knob.trim().is_empty()).ok_or_else(|| {
                format!("invalid setting '{}': use NAME=VALUE", text.escape_default())
            })?;
        Ok(Self { knob: knob.trim().to_owned(), value: value.trim().to_owned() })
    }
}
