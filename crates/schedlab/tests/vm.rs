//! Experiments on another kernel, in QEMU: a real Debian kernel, fetched by its package's name.
#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "tests; clippy sees the functions beside them as none"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A grid over both granularities of CFS on a machine.
fn grid(machine: &str, min: &str, wakeup: &str) -> String {
    format!(
        r#"
name = "grid"
title = "grid"
question = "Are cells identical?"
machine = "{machine}"
repeats = 1
order = "listed"

[[workload]]
label = "sockets"
name = "hackbench"
options = {{ groups = 1, fds = 4, loops = 40 }}

[[axis]]
knob = "min_granularity"
values = [{min}]

[[axis]]
knob = "wakeup_granularity"
values = [{wakeup}]
"#
    )
}

/// Runs an experiment: the figures of each run, or why it can't be done.
fn run(text: &str, folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let file = folder.join("grid.toml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .arg("run")
        .arg(&file)
        .arg("--output")
        .arg(folder)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let runs = std::fs::read_dir(folder.join("grid/runs")).unwrap();
    let figures = |folder: std::fs::DirEntry| {
        let text = std::fs::read_to_string(folder.path().join("figures.jsonl")).unwrap();
        (folder.file_name().into_string().unwrap(), text)
    };
    Ok(runs.map(|folder| figures(folder.unwrap())).collect())
}

/// Whether a test can't be done here for want of QEMU or a kernel; in CI that is a failure.
fn is_missing(error: &str, unchecked: &str) -> bool {
    let missing = error.contains(" is missing:") && std::env::var_os("CI").is_none();
    if missing {
        eprintln!("MISSING: {}; not checked: {unchecked}", error.trim());
    }
    missing
}

#[test]
fn a_cell_is_identical_alone_and_after_others_on_a_real_kernel() {
    const MACHINE: &str = "vm:kernel=debian-6.1,cpus=1,clock=instructions";
    let [one, two] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let all = match run(&grid(MACHINE, "'1ms', '4ms', '15ms'", "'0.5ms', '8ms'"), one.path()) {
        Err(error) if is_missing(&error, "that runs on another kernel are identical") => return,
        all => all.unwrap(),
    };
    assert_eq!(all.len(), 6);
    let different: std::collections::BTreeSet<&String> = all.values().collect();
    assert!(different.len() > 1, "the knobs change nothing: {all:?}");
    // The guest boots anew, and the last cell comes first.
    let some = run(&grid(MACHINE, "'15ms'", "'8ms', '0.5ms'"), two.path()).unwrap();
    assert_eq!(some.len(), 2);
    for (id, figures) in some {
        assert_eq!(Some(&figures), all.get(&id), "run {id}");
    }
}
