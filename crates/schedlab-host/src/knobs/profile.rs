//! Settings that others keep: sysctl.d files and tuned profiles, read and written.
//!
//! What a format has no word for stands in it as a comment `# schedlab: NAME = VALUE (why)`, which we read
//! back and other tools skip.
//!
//! Formats: sysctl.d(5); the tuned project's profile manual (sections `[sysctl]` and `[scheduler]`); the profiles of
//! KeenTune, whose section `[sysctl]` writes `KEY: VALUE`.

use super::{Home, KNOBS, Tree, find};
use schedlab_model::{Setting, Warning};
use schedlab_workload::knobs;

/// What a file of another tool says about the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Settings for the running kernel, under schedlab's names.
    pub settings: Vec<Setting>,
    /// What was left out, and why.
    pub warnings: Vec<Warning>,
    /// Lines that are not about the scheduler, as `[SECTION] KEY`; of a sysctl the key alone.
    pub others: Vec<String>,
}

/// The code of the warning about a line that sets what this kernel has instead.
pub const RENAMED: &str = "profile-renamed";

/// Sections of a profile that set nothing.
const ABOUT: [&str; 2] = ["main", "variables"];

/// Reads a sysctl.d file, or a profile of tuned or KeenTune; its sections show which of them it is.
#[must_use]
pub fn read_profile(text: &str, tree: &Tree) -> Profile {
    let mut profile = Profile::default();
    let mut section = String::from("sysctl");
    for line in text.lines() {
        let line = line.trim();
        if let Some(ours) = line.strip_prefix(OURS) {
            profile.settings.extend(own_setting(ours));
            continue;
        }
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            name.trim().clone_into(&mut section);
            continue;
        }
        let parts = line.split_once('=').or_else(|| line.split_once(": "));
        let Some((key, value)) = parts else { continue };
        // sysctl.d: a leading dash ignores errors, slashes may stand for dots.
        let key = key.trim().trim_start_matches('-').replace('/', ".");
        let scheduler = match section.as_str() {
            "sysctl" => key.strip_prefix("kernel.").filter(|k| is_scheduler(k)),
            "scheduler" => Some(key.as_str()).filter(|k| is_scheduler(k)),
            _ => None,
        };
        match scheduler {
            Some(name) => profile.take(name, value.trim(), tree),
            None if section == "main" && key == "include" => profile.warn(format!(
                "the lines of the profile {} are not read: give that file, too",
                value.trim()
            )),
            None if ABOUT.contains(&&*section) => {}
            None if section == "sysctl" => profile.others.push(key),
            None => profile.others.push(format!("[{section}] {key}")),
        }
    }
    profile
}

/// A comment to other tools, a setting to us: what their formats have no word for.
const OURS: &str = "# schedlab:";

/// `NAME = VALUE (why it is a comment)`.
fn own_setting(text: &str) -> Option<Setting> {
    let (knob, rest) = text.split_once('=')?;
    let value = rest.rsplit_once(" (").map_or(rest, |(value, _)| value);
    Some(Setting { knob: knob.trim().into(), value: value.trim().into() })
}

fn is_scheduler(key: &str) -> bool {
    key.starts_with("sched_") || key.starts_with("numa_balancing")
}

impl Profile {
    fn take(&mut self, key: &str, value: &str, tree: &Tree) {
        let by_sysctl = |home: Home| matches!(home, Home::Sysctl(file) if file == key);
        let known = KNOBS.iter().find(|entry| entry.places.iter().any(|p| by_sysctl(p.home)));
        let Some(entry) = known else {
            self.warn(format!("unknown scheduler knob '{key}'"));
            return;
        };
        let is_here = |name: &str| find(name).is_some_and(|entry| tree.home(entry).is_some());
        let name = match entry.name {
            name if is_here(name) => name,
            // As tuned does itself.
            "min_granularity" if is_here("base_slice") => {
                let what = format!(
                    "{key} is set as base_slice: under EEVDF that is a request, not a minimum"
                );
                self.warnings.push(Warning::new(RENAMED, what, ""));
                "base_slice"
            }
            name => {
                let instead = match name {
                    "latency" | "wakeup_granularity" if is_here("base_slice") => {
                        "; under EEVDF base_slice decides instead"
                    }
                    _ => "",
                };
                self.warn(format!(
                    "{name} is left out: this kernel does not have the knob{instead}"
                ));
                return;
            }
        };
        self.settings.push(Setting { knob: name.into(), value: value.to_owned() });
    }

    fn warn(&mut self, what: String) {
        self.warnings.push(Warning::new("profile-key", what, ""));
    }
}

/// Settings as a sysctl.d file; what is no sysctl on this kernel is a comment that says so.
#[must_use]
pub fn write_sysctl(settings: &[Setting], tree: &Tree) -> String {
    let mut text =
        String::from("# Scheduler settings found with schedlab; put this into /etc/sysctl.d/.\n");
    for setting in settings {
        match find(&setting.knob).and_then(|entry| Some((entry, tree.home(entry)?))) {
            Some((entry, Home::Sysctl(file))) => {
                let value = knobs::read(entry.tunable(), &setting.value);
                let value = value.unwrap_or_else(|_| setting.value.clone());
                text.push_str(&format_line(&format!("kernel.{file}"), &value));
            }
            _ => {
                let Setting { knob, value } = setting;
                text.push_str(&comment(knob, value, "no sysctl on this kernel"));
            }
        }
    }
    text
}

/// Settings as a tuned profile (`tuned.conf`).
#[must_use]
pub fn write_tuned(settings: &[Setting], tree: &Tree) -> String {
    let mut text =
        String::from("[main]\nsummary=Scheduler settings found with schedlab\n\n[scheduler]\n");
    for setting in settings {
        let Some(entry) = find(&setting.knob) else {
            text.push_str(&comment(&setting.knob, &setting.value, "tuned cannot set it"));
            continue;
        };
        // tuned's scheduler plugin has the names of the old sysctls and finds their new homes itself.
        let old = match entry.name {
            "base_slice" => Some("sched_min_granularity_ns"),
            _ => entry.places.iter().find_map(|p| match p.home {
                Home::Sysctl(file) => Some(file),
                _ => None,
            }),
        };
        let value = knobs::read(entry.tunable(), &setting.value);
        let value = value.unwrap_or_else(|_| setting.value.clone());
        match (old, tree.home(entry)) {
            (Some(name), Some(Home::Sysctl(_) | Home::Debugfs(_))) => {
                text.push_str(&format_line(name, &value));
            }
            _ => {
                text.push_str(&comment(entry.name, &setting.value, "tuned cannot set it"));
            }
        }
    }
    text
}

fn format_line(name: &str, value: &str) -> String {
    format!("{name} = {value}\n")
}

fn comment(name: &str, value: &str, note: &str) -> String {
    format!("{OURS} {name} = {value} ({note})\n")
}
