//! What must be equal in runs whose clock counts instructions, before they may be compared.
//!
//! In such a guest every instruction takes time. A recorder costs instructions, and another program as
//! init executes others, so such runs are different cells under every scheduler.

use crate::StoredRun;
use schedlab_model::Fact;
use std::collections::BTreeSet;

/// Why these runs, of all sides of a comparison, must not be compared: a sentence with what to do.
/// `None` if they may be.
#[must_use]
pub fn incomparable<'r>(runs: impl IntoIterator<Item = &'r StoredRun>) -> Option<String> {
    let of = |run: &'r StoredRun| match &run.manifest.facts.hypervisor {
        Fact::Known(text) => Some((text.as_str(), run.manifest.spec.record.is_some())),
        Fact::Unknown(_) => None,
    };
    differing(runs.into_iter().filter_map(of))
}

/// The same of hypervisors, as facts tell them, and whether a run was recorded.
fn differing<'t>(runs: impl Iterator<Item = (&'t str, bool)>) -> Option<String> {
    let mut recorded = BTreeSet::new();
    let mut inits = BTreeSet::new();
    for (hypervisor, is_recorded) in runs.filter(|(text, _)| text.contains(" -icount ")) {
        recorded.insert(is_recorded);
        inits.extend(hypervisor.split("; ").find(|part| part.starts_with("init")));
    }
    if recorded.len() > 1 {
        return Some(
            "some runs were recorded and others were not, and recording takes time with \
             clock=instructions: record all of them or none"
                .to_owned(),
        );
    }
    (inits.len() > 1).then(|| {
        "the guests ran different builds of schedlab, whose instructions are time with \
         clock=instructions: use one build for all sides"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_and_other_runs_and_other_inits_are_kept_apart() {
        let guest = |config: &str, init: &str| {
            format!("QEMU 7.2; -icount shift=0; config sha256 {config}; init sha256 {init}; x")
        };
        let (one, two, other) = (guest("1", "1"), guest("1", "2"), guest("2", "1"));
        assert_eq!(differing([(&*one, true), (&*one, true)].into_iter()), None);
        // Kernels with other configurations are what is compared.
        assert_eq!(differing([(&*one, true), (&*other, true)].into_iter()), None);
        let why = differing([(&*one, true), (&*one, false)].into_iter()).unwrap();
        assert!(why.contains("recording takes time"), "{why}");
        let why = differing([(&*one, false), (&*two, false)].into_iter()).unwrap();
        assert!(why.contains("different builds of schedlab"), "{why}");
        // A version that hashed init with the configuration does not tell whether init is the same.
        let old = "QEMU 7.2; -icount shift=0; initramfs sha256 1";
        assert!(differing([(&*one, true), (old, true)].into_iter()).is_some());
        // Other machines have clocks that a recorder does not stop.
        assert_eq!(differing([("KVM", true), ("", false)].into_iter()), None);
    }
}
