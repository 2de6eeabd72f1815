//! What is known of a kernel's scheduler that was built as an image.

use serde::{Deserialize, Serialize};

/// A kernel's scheduler that was built as an image, and what it is like on a machine of certain CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfCode {
    /// The kernel's release.
    pub release: String,
    /// The most CPUs of the image; 0: those of the default configuration.
    #[serde(default)]
    pub cpus: u32,
    /// Ticks in a second.
    pub hz: u64,
    /// The preemption model: `none`, `voluntary`, `full`, `lazy`.
    pub preempt: String,
    /// What else of its configuration decides, in words.
    pub options: String,
    /// The sched_ext scheduler that is on; empty: none.
    #[serde(default)]
    pub scheduler: String,
    /// All knobs with their values, by the kernel's names.
    pub knobs: Vec<(String, String)>,
}

/// How the kernel may name a knob: in debugfs, or as a sysctl.
fn names(knob: &str) -> [String; 7] {
    [
        format!("{knob}_ns"),
        knob.to_owned(),
        format!("sched_{knob}_us"),
        format!("sched_{knob}_ns"),
        format!("sched_{knob}_ms"),
        format!("sched_cfs_{knob}_us"),
        format!("sched_{knob}"),
    ]
}

impl OfCode {
    /// Whether its configuration has an option, by the word in `options`.
    #[must_use]
    pub fn has(&self, option: &str) -> bool {
        self.options.contains(&format!("with {option}"))
    }

    /// The kernel's own name of a knob, with its value.
    pub(super) fn own_name(&self, knob: &str) -> Option<&(String, String)> {
        let names = names(knob);
        names.iter().find_map(|name| self.knobs.iter().find(|(own, _)| own == name))
    }
}
