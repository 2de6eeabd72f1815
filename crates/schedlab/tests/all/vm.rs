//! Experiments on another kernel, in QEMU: a real Debian kernel, fetched by its package's name.

mod cpus;
mod ext;
mod knobs;
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;

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

/// Runs an experiment: the figures of each run, or why it cannot be done.
fn run(text: &str, folder: &Path) -> Result<BTreeMap<String, String>, String> {
    run_with(Path::new(env!("CARGO_BIN_EXE_schedlab")), text, folder)
}

/// The same with another schedlab.
fn run_with(program: &Path, text: &str, folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let file = folder.join("grid.toml");
    std::fs::write(&file, text).unwrap();
    let output =
        Command::new(program).arg("run").arg(&file).arg("--output").arg(folder).output().unwrap();
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

/// Whether a test cannot be done here for want of QEMU or a kernel; in CI that is a failure.
fn is_missing(error: &str, unchecked: &str) -> bool {
    let missing = error.contains(" is missing:") && std::env::var_os("CI").is_none();
    if missing {
        missing!("{}; not checked: {unchecked}", error.trim());
    }
    missing
}

#[test]
fn what_a_machine_cannot_be_is_told_before_it_starts() {
    let folder = tempfile::tempdir().unwrap();
    for (machine, told) in [
        ("vm:qemu=no-such-qemu", "no-such-qemu is missing: install it"),
        ("vm:kernel=no-such-kernel", "vm:kernel=no-such-kernel: the file does not exist"),
        ("vm:kernel=/etc/passwd", "use a bzImage or a vmlinux"),
        ("vm:cpus=3,sockets=2", "3 CPUs cannot be divided by 2"),
        ("vm:cores=2", "unknown setting"),
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

/// Keeps all CPUs busy until it is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn new() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().unwrap().get() {
            let stop = Arc::clone(&stop);
            let spin = move || while !stop.load(Ordering::Relaxed) {};
            Builder::new().spawn(spin).unwrap();
        }
        Self(stop)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_cell_is_identical_alone_after_others_and_beside_others_on_a_real_kernel() {
    const MACHINE: &str = "vm:kernel=debian-6.1,cpus=1,clock=instructions";
    let [one, two, three] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let all = match run(&grid(MACHINE, "'1ms', '4ms', '15ms'", "'0.5ms', '8ms'"), one.path()) {
        Err(error) if is_missing(&error, "that runs on another kernel are identical") => return,
        all => all.unwrap(),
    };
    assert_eq!(all.len(), 6);
    let different: BTreeSet<&String> = all.values().collect();
    assert!(different.len() > 1, "the knobs change nothing: {all:?}");
    // Two guests boot anew beside each other on a busy machine. One runs the last two cells in reversed order, the
    // other one of them alone.
    let busy = Busy::new();
    let cell = grid(MACHINE, "'15ms'", "'0.5ms'");
    let alone = Builder::new().spawn(move || run(&cell, three.path())).unwrap();
    let reversed = run(&grid(MACHINE, "'15ms'", "'8ms', '0.5ms'"), two.path()).unwrap();
    let alone = alone.join().unwrap().unwrap();
    drop(busy);
    assert_eq!((reversed.len(), alone.len()), (2, 1));
    for (id, figures) in reversed.iter().chain(&alone) {
        assert_eq!(Some(figures), all.get(id), "run {id}");
    }
}

#[test]
fn a_guest_with_the_clock_of_the_machine_runs_with_kvm_or_without() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let machine = "vm:kernel=debian-6.1,clock=wall";
    let output = command.args(["load", "cpu", "--duration", "50ms", "--on", machine, "--json"]);
    let output = output.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(is_missing(&told, "that a guest runs in the machine's time"), "{told}");
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let with_kvm = text.contains("-accel kvm");
    assert_ne!(with_kvm, text.contains("-accel tcg,thread=multi"), "{text}");
    // A device that opens need not work: a boot decides, and what it decided is said.
    let opens = std::fs::File::options().read(true).write(true).open("/dev/kvm").is_ok();
    assert!(opens || !with_kvm);
    assert_eq!(told.contains("the guest runs without KVM"), opens && !with_kvm, "{told}");
    let loops = serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert!(loops.to_string().contains("\"loops\""), "{text}");
}

#[test]
fn speeds_are_held_by_groups_of_version_2_on_a_real_kernel() {
    let text = r#"
name = "grid"
machine = "vm:kernel=debian-6.12"
repeats = 1
order = "listed"
measure = ["loops"]
[workload]
name = "cpu"
options = { duration = "400ms" }
[[axis]]
knob = "speed:method"
values = ["quota", "weight-pinned", "stop-group"]
[[axis]]
speed = "0"
values = ["100%", "50%"]
"#;
    let folder = tempfile::tempdir().unwrap();
    match run(text, folder.path()) {
        Err(error) if is_missing(&error, "speeds on cgroup version 2") => return,
        all => assert_eq!(all.unwrap().len(), 6),
    }
    let mut loops: BTreeMap<String, BTreeMap<String, f64>> = BTreeMap::new();
    for run in std::fs::read_dir(folder.path().join("grid/runs")).unwrap().flatten() {
        let read = |file: &str| std::fs::read_to_string(run.path().join(file)).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&read("manifest.json")).unwrap();
        let axis = |name: &str| manifest["point"][name].as_str().unwrap().to_owned();
        let figures = read("figures.jsonl");
        let figures = figures.lines().map(|line| serde_json::from_str(line).unwrap());
        let counted: Vec<serde_json::Value> = figures
            .filter(|figure: &serde_json::Value| figure["metric"]["name"] == "loops")
            .collect();
        let count = counted[0]["value"].as_f64().unwrap();
        loops.entry(axis("speed:method")).or_default().insert(axis("speed"), count);
    }
    // The guest's clock counts instructions, so these are the same each time. A run is 40 budgets long.
    let most = loops.values().map(|of| of["100%"]).fold(0.0, f64::max);
    for (method, of) in loops {
        // At full speed nothing may take time: no burner, and no filler of gaps.
        assert!(of["100%"] > 0.97 * most, "{method} takes time at full speed: {of:?}");
        let part = of["50%"] / of["100%"];
        assert!((part - 0.5).abs() < 0.1, "{method}: {part} of full speed");
    }
}
