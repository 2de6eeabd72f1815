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
fn what_a_machine_cannot_be_is_told_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    for (machine, told) in [
        ("vm:qemu=no-such-qemu", "no-such-qemu is missing: install it"),
        ("vm:kernel=no-such-kernel", "vm:kernel=no-such-kernel: there is no such file"),
        ("vm:kernel=/etc/passwd", "neither a bzImage nor a vmlinux"),
        ("vm:cpus=3,sockets=2", "3 CPUs cannot be divided by 2"),
        ("vm:cores=2", "there is no such setting"),
    ] {
        let error = run(&grid(machine, "'1ms'", "'1ms'"), folder.path()).unwrap_err();
        assert!(error.contains(told), "{machine}: {error}");
        assert!(!folder.path().join("grid").exists());
    }
}

/// The QEMU that a process of this number started, if it runs.
fn qemu_of(parent: u32) -> Option<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut all = processes.filter_map(|p| p.file_name().into_string().ok());
    all.find(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(')') else { return false };
        let parent_of = tail.split_whitespace().nth(1).and_then(|text| text.parse().ok());
        head.contains("qemu") && parent_of == Some(parent)
    })
}

#[test]
fn who_is_killed_leaves_no_virtual_machine() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("grid.toml");
    std::fs::write(&file, grid("vm:kernel=debian-6.1", "'1ms'", "'1ms'")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.arg("run").arg(&file).arg("--output").arg(folder.path());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let qemu = loop {
        if let Some(pid) = qemu_of(child.id()) {
            break pid;
        }
        if child.try_wait().unwrap().is_some() {
            let error = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
            assert!(is_missing(&error, "that no QEMU is left behind"), "{error}");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel kills it; it is gone as soon as whoever inherited it has awaited it.
    while std::fs::read_to_string(format!("/proc/{qemu}/comm")).is_ok_and(|c| c.contains("qemu")) {
        let stat = std::fs::read_to_string(format!("/proc/{qemu}/stat")).unwrap_or_default();
        if stat.contains(") Z ") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn kernels_are_listed_by_name() {
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["vm", "kernels", "--json"])
        .output()
        .unwrap();
    let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let here = all["kernels"].as_array().unwrap().iter().map(|kernel| &kernel["name"]);
    let known = here.chain(all["can_be_fetched"].as_array().unwrap());
    assert!(known.into_iter().any(|name| name == "debian-6.1"), "{all}");
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
