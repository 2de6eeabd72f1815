//! The knobs of each generation of kernels, on real ones: sysctls, debugfs, and EEVDF's slice.

use super::{grid, is_missing, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

/// Where the guests' kernel keeps a knob, by the runs in a folder.
fn place(folder: &Path, knob: &str) -> String {
    let runs = std::fs::read_dir(folder.join("grid/runs")).unwrap();
    let mut places: BTreeSet<String> = runs
        .map(|run| {
            let text = std::fs::read_to_string(run.unwrap().path().join("manifest.json")).unwrap();
            let manifest: Value = serde_json::from_str(&text).unwrap();
            let knobs = manifest["facts"]["knobs"].as_array().unwrap();
            let found = knobs.iter().find(|one| one["name"] == knob).unwrap();
            assert_eq!(found["writable"], true, "{found}");
            found["where"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(places.len(), 1, "{places:?}");
    places.pop_first().unwrap()
}

/// Whether the kernel cannot be had: Debian's oldest suite may leave its mirrors, so this is not a failure in CI
/// either.
fn is_gone(error: &str, unchecked: &str) -> bool {
    let gone = error.contains("kernel debian-5.10 is missing:");
    if gone {
        missing!("{}; not checked: {unchecked}", error.trim());
    }
    gone || is_missing(error, unchecked)
}

#[test]
fn knobs_of_linux_5_10_are_sysctls_that_change_what_a_load_does() {
    const MACHINE: &str = "vm:kernel=debian-5.10";
    let [one, two, three] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let all = match run(&grid(MACHINE, "'1ms', '15ms'", "'0.5ms', '8ms'"), one.path()) {
        Err(error) if is_gone(&error, "sysctl knobs on a booted Linux 5.10") => return,
        all => all.unwrap(),
    };
    let different: BTreeSet<&String> = all.values().collect();
    assert_eq!((all.len(), different.len() > 2), (4, true), "the knobs change little: {all:?}");
    for knob in ["min_granularity", "wakeup_granularity"] {
        let expected = format!("/proc/sys/kernel/sched_{knob}_ns");
        assert_eq!(place(one.path(), knob), expected);
    }
    // A guest that boots anew does the same.
    for (id, figures) in run(&grid(MACHINE, "'15ms'", "'8ms'"), two.path()).unwrap() {
        assert_eq!(Some(&figures), all.get(&id), "run {id}");
    }
    // This kernel checks the range, where later ones take anything.
    let refused = run(&grid(MACHINE, "'50us'", "'1ms'"), three.path()).unwrap_err();
    assert!(refused.contains("min_granularity"), "{refused}");
}

#[test]
fn a_kernel_with_eevdf_has_a_base_slice_and_slices_of_tasks() {
    let text = grid("vm:kernel=debian-6.12", "", "");
    let (head, _) = text.split_once("[[axis]]").unwrap();
    let axes = "[[axis]]\nknob = 'base_slice'\nvalues = ['0.5ms', '20ms']\n\
                [[axis]]\nknob = 'slice'\nvalues = ['0', '20ms']\n";
    let folder = tempfile::tempdir().unwrap();
    let all = match run(&format!("{head}{axes}"), folder.path()) {
        Err(error) if is_missing(&error, "slices of EEVDF") => return,
        all => all.unwrap(),
    };
    // A task's own slice hides the base slice, so two of the four may be equal.
    let different: BTreeSet<&String> = all.values().collect();
    assert_eq!((all.len(), different.len() > 2), (4, true), "slices change little: {all:?}");
    assert_eq!(place(folder.path(), "base_slice"), "/sys/kernel/debug/sched/base_slice_ns");
}
