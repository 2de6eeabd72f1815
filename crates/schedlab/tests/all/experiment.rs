//! Experiments end to end: mistakes, plans, `kill -9` and going on, knobs as before, verdicts.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn schedlab(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    schedlab(folder, arguments).output().expect("the built command starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the folder can be written");
}

fn run_folders(results: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(results.join("runs")).expect("there are runs");
    entries
        .map(|e| e.expect("it can be listed").file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn mistakes_are_all_named_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "x.toml",
        "repaets = 3\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = 5\nvalues = [1]\n",
    );
    let output = run(folder.path(), &["run", "x.toml"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("x.toml: line 1, column 1: repaets: unknown key; did you mean 'repeats'?"),
        "{said}"
    );
    assert!(
        said.contains("line 5, column 8: axis.knob: expected a name, found the number 5"),
        "{said}"
    );
    assert!(!folder.path().join("results").exists(), "nothing was begun");
}

#[test]
fn a_dry_run_prints_the_plan_and_runs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    write(
        folder.path(),
        "x.toml",
        "repeats = 3\ntime_limit = \"2s\"\n[workload]\ncommand = [\"true\"]\n",
    );
    let output = run(folder.path(), &["run", "--dry-run", "x.toml"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("3 runs on host:"), "{said}");
    assert!(said.contains("3 runs to do, at most 6.00 s by their limits"), "{said}");
    assert!(!folder.path().join("results").exists());
    assert!(said.contains("besides: up to 1 more attempts at each run with a warning"), "{said}");
    // What the machine cannot do is told by the same command, before anything runs.
    let text = "[workload]\ncommand = [\"true\"]\n[[axis]]\nknob = \"slize\"\nvalues = [1, 2]\n";
    write(folder.path(), "y.toml", text);
    let output = run(folder.path(), &["run", "--dry-run", "y.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(
            "y.toml: line 5, column 11: axis.values: unknown knob slize on host; did you mean slice?"
        ),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_command_gives_what_the_kernel_counted_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "for i in 1 2 3 4 5; do sleep 0.001; done; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    write(
        folder.path(),
        "x.toml",
        &format!("retries = 0\n[workload]\ncommand = [\"sh\", \"-c\", \"{script}\"]\n"),
    );
    let output = run(folder.path(), &["run", "x.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let csv =
        std::fs::read_to_string(folder.path().join("results/x/figures.csv")).expect("it is there");
    let value = |name: &str| -> f64 {
        let line = csv.lines().find(|l| l.split(',').nth(3) == Some(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {csv}"));
        line.split(',').nth(6).expect("a value").parse().expect("a number")
    };
    assert!(value("switches_voluntary") >= 5.0, "five children slept: {csv}");
    assert!(value("cpu_user_s") + value("cpu_system_s") > 0.0);
    assert!(value("faults_minor") > 0.0 && value("main_timeslices") > 0.0, "{csv}");
    assert!(csv.contains(",others_cpu_s,seconds,machine,"), "{csv}");
}

/// Numbers that differ from run to run; not random enough for anything but moments to kill at.
fn moments() -> impl Iterator<Item = Duration> {
    let mut state = 12_345_u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(5 + (state >> 33) % 120)
    })
}

#[test]
fn killed_at_fifty_moments_it_goes_on_completes_and_leaves_knobs_as_before() {
    const KNOB: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    crate::machine_lock::take();
    let folder = tempfile::tempdir().expect("a folder");
    let before = std::fs::read_to_string(KNOB).unwrap_or_default();
    let may = std::fs::OpenOptions::new().write(true).open(KNOB).is_ok();
    let other = if before.trim() == "1" { "0" } else { "1" };
    let knobs = match may {
        true => format!("[knobs]\nautogroup = {other}\n"),
        false => {
            missing!("the right to set {KNOB}; that knobs are put back was not tested");
            String::new()
        }
    };
    let text = format!(
        "name = \"killed\"\nrepeats = 15\nretries = 0\n{knobs}[workload]\ncommand = [\"sh\", \"-c\", \"sleep 0.01; : {{n}}\"]\n\
         [[axis]]\noption = \"n\"\nvalues = [1, 2, 3, 4]\n"
    );
    write(folder.path(), "x.toml", &text);
    for moment in moments().take(50) {
        let mut command = schedlab(folder.path(), &["run", "x.toml"]);
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        std::thread::sleep(moment);
        let _ = child.kill();
        child.wait().expect("it is gone");
    }
    let output = run(folder.path(), &["run", "x.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let results = folder.path().join("results/killed");
    let folders = run_folders(&results);
    let names: BTreeSet<&String> = folders.iter().collect();
    assert_eq!((folders.len(), names.len()), (60, 60), "every run once: {folders:?}");
    assert!(folders.iter().all(|name| !name.starts_with('.')), "nothing half done is left");
    for name in &folders {
        let manifest =
            std::fs::read_to_string(results.join("runs").join(name).join("manifest.json"))
                .expect("a run has a manifest");
        let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("it is JSON");
        assert_eq!(manifest["interrupted"], false);
        assert_eq!(manifest["exit_code"], 0);
    }
    if may {
        // Guardians of killed runs need a moment.
        for _ in 0..100 {
            if std::fs::read_to_string(KNOB).unwrap_or_default() == before {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{KNOB} was {before} and stays otherwise");
    }
}

fn results_of(folder: &Path, name: &str, score: u32, repeats: u32) {
    let text = format!(
        "name = \"{name}\"\nrepeats = {repeats}\nretries = 0\n[workload]\ncommand = [\"true\"]\n\
         [hooks]\nmetric = [\"echo\", \"score {score}\"]\n"
    );
    write(folder, "x.toml", &text);
    let output = run(folder, &["run", "x.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn compare_ends_with_the_codes_that_git_bisect_expects() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    results_of(folder, "base", 10, 6);
    results_of(folder, "same", 10, 6);
    results_of(folder, "worse", 20, 6);
    results_of(folder, "few", 20, 2);
    let code = |after: &str| {
        let after = format!("results/{after}");
        run(
            folder,
            &["compare", "results/base", &after, "--fail-if", "score > +3%", "--allow-drift"],
        )
        .status
        .code()
    };
    assert_eq!(code("same"), Some(0));
    assert_eq!(code("worse"), Some(1));
    assert_eq!(code("few"), Some(125));
    let output =
        run(folder, &["compare", "results/base", "results/same", "--fail-if", "scrod > +3%"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let output = run(folder, &["compare", "results/base", "results/none"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no results there"), "{}", stderr(&output));
}

/// Changes the boot that stored runs tell, as if the machine had been started anew.
fn rebooted(results: &Path, boot: &str) {
    for name in run_folders(results) {
        let path = results.join("runs").join(name).join("manifest.json");
        let text = std::fs::read_to_string(&path).expect("a run has a manifest");
        let mut manifest: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        let here =
            std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has it");
        if manifest["facts"]["boot"]["known"] == here.trim() {
            manifest["facts"]["boot"]["known"] = boot.into();
            std::fs::write(&path, manifest.to_string()).expect("it can be written");
        }
    }
}

#[test]
fn an_experiment_goes_on_after_a_reboot_and_boots_are_compared() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for (name, score) in [("before", 10), ("after", 13)] {
        for boot in ["a", "b", "c", "d", "e", "f"] {
            // Each boot has a level of its own.
            let level = boot.as_bytes()[0] - 96;
            let text = format!(
                "name = \"{name}\"\nrepeats = 2\nboots = 6\nretries = 0\n[workload]\ncommand = [\"true\"]\n\
                 [hooks]\nmetric = [\"sh\", \"-c\", \"echo score $(( {score} * $(cat level) ))\"]\n"
            );
            write(folder, "x.toml", &text);
            write(folder, "level", &level.to_string());
            let output = run(folder, &["run", "x.toml"]);
            assert!(output.status.success(), "{}", stderr(&output));
            let told = stderr(&output).contains("boot again and run the same command");
            assert_eq!(told, boot != "f", "{}", stderr(&output));
            rebooted(&folder.join("results").join(name), boot);
        }
        assert_eq!(run_folders(&folder.join("results").join(name)).len(), 12);
    }
    let compare = |more: &[&str]| {
        let arguments = ["compare", "results/before", "results/after", "--fail-if", "score > +20%"];
        run(folder, &[&arguments, more].concat()).status.code()
    };
    assert_eq!(compare(&[]), Some(1), "both ran in the same boots: in each it is 30 % more");
    let output = run(
        folder,
        &["compare", "--markdown", "results/before", "results/after", "--metric", "score"],
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.lines().count() <= 10 && text.contains("+30.0 %"), "{text}");
    let arguments = [
        "compare",
        "results/before",
        "results/after",
        "--metric",
        "score",
        "--junit",
        "x.xml",
        "--json",
    ];
    let output = run(folder, &arguments);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["schema"], "schedlab/compare/1");
    let whole = &json["comparisons"][0]["primary"][0]["whole"];
    assert_eq!(
        (whole["basis"].as_str(), whole["verdict"].as_str()),
        (Some("boot_pairs"), Some("different"))
    );
    assert!(whole["before"]["centre"].is_number() && whole["change"]["low"].is_number(), "{whole}");
    let xml = std::fs::read_to_string(folder.join("x.xml")).expect("it was written");
    assert!(xml.starts_with("<?xml") && xml.contains("tests=\"1\""), "{xml}");
}

#[test]
fn commands_are_compared_in_one_line_with_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let arguments = ["compare", "-n", "6", "--markdown", "--", "true", "sleep 0.2; true"];
    let output = run(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = text(&output);
    assert!(
        told.contains("worse in time_s") && told.contains("| true | sleep 0.2; true |"),
        "{told}"
    );
    assert!(told.lines().count() <= 10, "{told}");
    let arguments = ["compare", "-n", "3", "-L", "t", "0,0.1,0.2", "--", "sleep {t}"];
    let output = run(folder.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = text(&output);
    assert!(told.contains("sleep 0.1") && told.contains("sleep 0.2"), "{told}");
    let output = run(folder.path(), &["compare", "-n", "3", "--", "true", "false"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("'false' fails"), "{}", stderr(&output));
}

#[test]
fn one_load_is_compared_on_any_machines_and_with_other_knobs() {
    let folder = tempfile::tempdir().expect("a folder");
    let compare = |sides: &[&str], more: &[&str]| {
        let sides = sides.iter().flat_map(|side| ["--side", side]);
        let words: Vec<&str> = std::iter::once("compare").chain(sides).collect();
        run(folder.path(), &[&words[..], more].concat())
    };
    let load = ["--metric", "switches_involuntary", "--", "cpu", "--tasks", "3"];
    let load = [&load[..], &["--duration", "300ms"]].concat();
    let base = "sim:cpus=1,kernel=eevdf-6.12";
    let other = "sim:cpus=1,kernel=eevdf-6.12,knob:base_slice=20ms";
    let output = compare(&[base, other], &load);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains(&format!("{other}, cpu: different in switches_involuntary")), "{told}");
    assert!(!told.contains("neutral code"), "there is one code: {told}");
    let more = ["--json", "-n", "2", "--", "hackbench", "-g", "1", "-f", "2", "-l", "10"];
    let output = compare(&["host", "sim:cpus=2"], &more);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&document["before"], &document["after"]), (&"host".into(), &"sim:cpus=2".into()));
    for (sides, more, why) in [
        (&[base][..], &load[..], "give two machines or more"),
        (&[base, base], &load, "given before"),
        (&[base, "sim,knob:x"], &load, "write knob:NAME=VALUE"),
        (&[base, other], &["--choices", "--", "hackbench"], "compare kernels"),
        (&[base, "sim:cpus=2"], &["--metric", "nothing", "--", "cpu"], "nothing"),
        (&[base, "sim:cpus=2"], &["--", "true"], "cannot run a command"),
    ] {
        let refused = compare(sides, more);
        assert!(!refused.status.success(), "{sides:?}");
        assert!(stderr(&refused).contains(why), "{why}: {}", stderr(&refused));
    }
}

#[test]
fn a_rebuilt_program_is_a_column_of_its_own_that_compare_names() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let build = |text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(&program, text).expect("it can be written");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("it is ours");
    };
    // What is measured is the program's length, nearly: times would depend on what else the machine does.
    let text = format!(
        "repeats = 3\nretries = 0\nmeasure = [\"score\"]\n[workload]\ncommand = [\"{0}\"]\n[hooks]\n\
         metric = [\"sh\", \"-c\", \"echo score $(( $(stat -c %s '{0}') * 1000 + $$ % 7 ))\"]\n",
        program.display()
    );
    write(folder.path(), "x.toml", &text);
    for (text, more) in [("#!/bin/sh\nexit 0\n", 3), ("#!/bin/sh\nexit 0 # again\n", 6)] {
        build(text);
        for _ in 0..2 {
            let output = run(folder.path(), &["run", "x.toml"]);
            assert!(output.status.success(), "{}", stderr(&output));
            assert!(
                stderr(&output).contains("; load "),
                "the machine is told: {}",
                stderr(&output)
            );
            assert_eq!(run_folders(&folder.path().join("results/x")).len(), more);
        }
    }
    let output = run(folder.path(), &["compare", "results/x", "--markdown"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    // The hook gives no direction, and the programs did not run by turns.
    assert!(told.contains("Is more or less score better?"), "{told}");
    assert!(told.contains("score is higher") && told.contains("drift is included"), "{told}");
}

#[test]
fn gnuplot_draws_all_axes_with_their_labels_and_the_map() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "repeats = 3\nretries = 0\nmeasure = [\"score\"]\n[workload]\ncommand = [\"true\", \"{n}\", \"{word}\"]\n\
                [[axis]]\noption = \"n\"\nvalues = [1, 10, 100]\n\
                [[axis]]\noption = \"word\"\nvalues = [\"it's\", \"say \\\"x\\\"\"]\n\
                [hooks]\nmetric = [\"sh\", \"-c\", \"echo score $(( $$ % 97 + 1 ))\"]\n";
    write(folder.path(), "x.toml", text);
    let output = run(folder.path(), &["run", "x.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let results = folder.path().join("results/x");
    let drawn = Command::new("gnuplot").arg("figures.gp").current_dir(&results).output();
    let Ok(drawn) = drawn else {
        missing!("gnuplot; that figures.gp draws was not tested");
        return;
    };
    assert!(drawn.status.success() && drawn.stderr.is_empty(), "{}", stderr(&drawn));
    for (name, label) in
        [("true-score-n", ">n<"), ("true-score-word", ">word<"), ("true-score-map", ">score<")]
    {
        let path = results.join(format!("{name}.svg"));
        let svg =
            std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert!(svg.contains(label), "{name} has no label {label}");
    }
}

/// Values of a figure by point and repeat, from the table of all figures.
fn figures(results: &Path, name: &str) -> Vec<String> {
    let csv = std::fs::read_to_string(results.join("figures.csv")).expect("it is there");
    csv.lines().filter(|line| line.split(',').any(|cell| cell == name)).map(str::to_owned).collect()
}

#[test]
fn parameters_of_the_job_rig_are_axes() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "repeats = 2\nretries = 0\nmeasure = [\"run_time_s\", \"lateness_ns_p99\"]\n[workload]\nname = \"jobs\"\n\
                options = { executor = \"lumiera\", shape = \"fork-join\", nodes = 20, time = \"100us\" }\n\
                [[axis]]\noption = \"workers\"\nvalues = [1, 2]\n\
                [[axis]]\noption = \"order\"\nvalues = [\"start\", \"path\"]\n";
    write(folder.path(), "x.toml", text);
    let output = run(folder.path(), &["run", "x.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let results = folder.path().join("results/x");
    for name in [
        "run_time_s",
        "concurrency",
        "lateness_ns_p50",
        "lateness_ns_p99",
        "gap_ns_p50",
        "inflation",
    ] {
        assert_eq!(figures(&results, name).len(), 8, "{name}: four points, twice");
    }
    assert_eq!(figures(&results, "management_ns").len(), 8);
    let workers = figures(&results, "tasks");
    // run, workload, block, order, workers, figure, unit, of, value
    let reached = workers.iter().filter(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        cells[4] == cells[8]
    });
    assert_eq!(reached.count(), 8, "the axis reaches the executor: {workers:?}");
    // What the rig cannot do is named with its option, before anything runs or by the run.
    let wrong = text.replace("fork-join", "spork-join");
    write(folder.path(), "y.toml", &wrong);
    let output = run(folder.path(), &["run", "y.toml"]);
    assert!(
        !output.status.success() && stderr(&output).contains("spork-join"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_runs_beside_has_figures_of_its_own() {
    crate::machine_lock::share();
    let folder = tempfile::tempdir().expect("a folder");
    let text = "repeats = 1\nretries = 0\n[[workload]]\nname = \"cpu\"\noptions = { duration = \"300ms\" }\n\
                [[workload.beside]]\nlabel = \"other\"\nname = \"cpu\"\noptions = { work = \"100us\" }\n\
                [[axis]]\nworkload = \"other\"\noption = \"tasks\"\nvalues = [1, 3]\n";
    write(folder.path(), "x.toml", text);
    let output = run(folder.path(), &["run", "x.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let tasks = figures(&folder.path().join("results/x"), "tasks");
    let cells: Vec<Vec<&str>> = tasks.iter().map(|line| line.split(',').collect()).collect();
    // run, workload, block, tasks of other, figure, unit, of, value
    let of_other: Vec<&Vec<&str>> = cells.iter().filter(|cells| cells[6] == "other").collect();
    assert_eq!((cells.len(), of_other.len()), (4, 2), "{tasks:?}");
    assert!(of_other.iter().all(|cells| cells[3] == cells[7]), "the axis is its: {tasks:?}");
    // Figures of the machine have that name already.
    write(folder.path(), "y.toml", &text.replace("\"other\"", "\"machine\""));
    let output = run(folder.path(), &["run", "y.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("'machine'"), "{}", stderr(&output));
}

#[test]
fn the_program_may_be_replaced_during_an_experiment() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("schedlab");
    std::fs::copy(env!("CARGO_BIN_EXE_schedlab"), &program).expect("it can be copied");
    let text = "repeats = 2\nretries = 0\n[workload]\nname = \"cpu\"\noptions = { duration = \"50ms\" }\n[hooks]\n\
                before = [\"sh\", \"-c\", \"rm -f schedlab; echo exit 9 > schedlab; chmod +x schedlab\"]\n";
    write(folder.path(), "x.toml", text);
    let mut command = Command::new(&program);
    command.args(["run", "x.toml"]).current_dir(folder.path()).stdin(Stdio::null());
    // Another test that forks just now holds the copy open for writing until it executes its program.
    let output = loop {
        match command.output() {
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            other => break other.expect("the copy starts"),
        }
    };
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(run_folders(&folder.path().join("results/x")).len(), 2);
    let told = stderr(&output).matches("measured only").count();
    assert_eq!(told, 1, "a doubt of every short run is told once: {}", stderr(&output));
    assert!(std::fs::metadata(&program).expect("replaced").len() < 100);
}

/// Runs on two simulated machines, so many of each.
fn on_two_machines(folder: &Path, repeats: u32) {
    let text = format!(
        "machine = [\"sim:cpus=1,kernel=cfs-6.1\", \"sim:cpus=1,kernel=eevdf-6.12\"]\nrepeats = {repeats}\n\
         record = true\n[workload]\nname = \"hackbench\"\noptions = {{ groups = 1, fds = 4, loops = 40 }}\n"
    );
    write(folder, "x.toml", &text);
}

/// What each run stored, but how long it took.
fn stored(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for run in run_folders(&folder.join("results/x")) {
        let place = folder.join("results/x/runs").join(&run);
        for entry in std::fs::read_dir(place).expect("it is there") {
            let path = entry.expect("it can be listed").path();
            let mut bytes = std::fs::read(&path).expect("it can be read");
            if path.ends_with("manifest.json") {
                let mut manifest: serde_json::Value =
                    serde_json::from_slice(&bytes).expect("it is JSON");
                for key in ["took_ns", "started_at", "facts", "load_after"] {
                    manifest[key] = serde_json::Value::Null;
                }
                bytes = manifest.to_string().into_bytes();
            }
            let file = path.file_name().expect("it has one").to_string_lossy().into_owned();
            all.push((format!("{run}/{file}"), bytes));
        }
    }
    all.sort();
    all
}

#[test]
fn runs_in_virtual_time_on_all_cpus_are_those_of_one_cpu() {
    let (one, all) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    on_two_machines(one.path(), 3);
    on_two_machines(all.path(), 3);
    let mut bound = Command::new("taskset");
    bound.args(["-c", "0", env!("CARGO_BIN_EXE_schedlab"), "run", "x.toml"]);
    let output = bound.current_dir(one.path()).output().expect("taskset of util-linux is there");
    assert!(output.status.success(), "{}", stderr(&output));
    let output = run(all.path(), &["run", "x.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let (one, all) = (stored(one.path()), stored(all.path()));
    assert_eq!(one.iter().filter(|(name, _)| name.ends_with("trace.dat")).count(), 6);
    assert!(one == all, "a run depends on what else runs");
}

#[test]
fn ctrl_c_keeps_finished_runs_of_several_at_once_and_one_process_does_them() {
    let folder = tempfile::tempdir().expect("a folder");
    on_two_machines(folder.path(), 200);
    let runs = folder.path().join("results/x/runs");
    let mut first = schedlab(folder.path(), &["run", "x.toml"]);
    let mut first = first.stderr(Stdio::null()).spawn().expect("the built command starts");
    let whole = || {
        let entries = std::fs::read_dir(&runs).into_iter().flatten().flatten();
        entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count()
    };
    while whole() < 3 {
        assert!(first.try_wait().expect("it can be awaited").is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(2));
    }
    let second = run(folder.path(), &["run", "x.toml"]);
    assert_eq!(second.status.code(), Some(1));
    let by = format!("process {} (", first.id());
    assert!(stderr(&second).contains(&by), "{}", stderr(&second));
    let interrupt = Command::new("kill").args(["-INT", &first.id().to_string()]).status();
    assert!(interrupt.expect("kill is there").success());
    assert_eq!(first.wait().expect("it ends").code(), Some(130));
    let kept = whole();
    assert!((3..400).contains(&kept), "{kept} of 400 runs");
    assert!(
        run_folders(&folder.path().join("results/x")).iter().all(|name| !name.starts_with('.'))
    );
}
