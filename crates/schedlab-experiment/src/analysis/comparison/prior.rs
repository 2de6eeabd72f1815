//! What a comparison may be adjusted by: what the treatment cannot change, named in the file before the first run.
//!
//! A regression on anything else takes the effect itself away. A scheduler that lets tasks wait longer would be excused
//! by the run delay that it made.

use super::effects::{Estimate, Raw, SHIFT_MIN};
use crate::StoredRun;
use schedlab_stats::adjusted;
use schedlab_workload::MACHINE;

/// The names with what they mean.
pub(crate) const PRIORS: [(&str, &str); 2] = [
    ("load_before", "CPUs that were busy in the second before the run"),
    ("steal", "the part of the CPU time that the hypervisor took during the run"),
];

/// What was known of a run, in the order of the names; not a number where the run did not store it.
pub(super) fn of(run: &StoredRun, names: &[String]) -> Vec<f64> {
    let value = |name: &str| run.value(&format!("{MACHINE}/{name}"));
    let one = |name: &String| match name.as_str() {
        "steal" => {
            let cpus = run.manifest.facts.online.len().max(1) as f64;
            value("steal_s").map(|steal| steal / cpus / (run.manifest.took_ns.max(1) as f64 / 1e9))
        }
        other => value(other),
    };
    names.iter().map(|name| one(name).unwrap_or(f64::NAN)).collect()
}

impl Raw {
    /// Adjusts differences within pairs by those of what was known before: at least as many pairs as ranks need, each
    /// with all of it. Else the change stays as it is.
    pub(super) fn adjust(&mut self, priors: &[Vec<f64>], names: &[String]) {
        let Some(differences) = self.differences() else { return };
        let is_known = priors.iter().flatten().all(|value| value.is_finite());
        if names.is_empty() || !is_known || priors.len() != differences.len() {
            return;
        }
        if differences.len() < SHIFT_MIN {
            return;
        }
        let Some(effect) = adjusted(&differences, priors) else { return };
        self.estimate = Estimate::Student(effect);
        self.p_ranks = None;
        self.adjusted = names.to_vec();
    }
}
