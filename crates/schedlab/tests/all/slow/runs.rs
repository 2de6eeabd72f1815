//! Speeds around runs: as an axis of experiments, with what is doubted of them, and the evaluation of methods.

use super::{PROGRAM, Path, Stdio, has_rights, last_cpu, signal, slow, stderr, until};
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

/// An experiment over these speeds of the last CPU and these methods. Each run waits until it was moved to its group,
/// and prints the budget that it has there.
fn write_experiment(dir: &Path, speeds: &str, methods: &str) {
    let cpu = last_cpu();
    let script = "until grep -q schedlab-$PPID- /proc/self/cgroup; do sleep 0.01; done; \
                  find /sys/fs/cgroup -path '*schedlab-'$PPID'-all/cpu.cfs_quota_us' -exec cat {} +";
    let text = format!(
        "repeats = 1\nretries = 0\ntime_limit = \"60s\"\n[workload]\ncommand = [\"sh\", \"-c\", \"\"\"{script}\"\"\"]\n\
         [[axis]]\nspeed = \"{cpu}\"\nvalues = [{speeds}]\n\
         [[axis]]\nknob = \"speed:method\"\nvalues = [{methods}]\n"
    );
    std::fs::write(dir.join("speeds.toml"), text).unwrap();
}

fn perform(dir: &Path) -> Output {
    Command::new(PROGRAM).args(["run", "speeds.toml"]).current_dir(dir).output().unwrap()
}

/// The runs below a folder: each one's manifest, and what it printed.
fn performed(dir: &Path) -> Vec<(serde_json::Value, String)> {
    let mut folders = vec![dir.join("results")];
    let mut runs = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()) {
            if path.join("manifest.json").is_file() {
                let manifest = std::fs::read_to_string(path.join("manifest.json")).unwrap();
                let printed = std::fs::read_to_string(path.join("stdout")).unwrap();
                let manifest = serde_json::from_str(&manifest).unwrap();
                runs.push((manifest, printed.trim().to_owned()));
            } else if path.is_dir() {
                folders.push(path);
            }
        }
    }
    runs
}

/// Whether budgets can be read as [`write_experiment`] does.
fn has_budgets() -> bool {
    let has = has_rights() && Path::new("/sys/fs/cgroup/cpu").exists();
    if !has {
        missing!("control groups of version 1; the speed axis is not tested");
    }
    has
}

#[test]
fn speeds_are_an_axis_of_experiments_under_any_method() {
    if !has_budgets() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    write_experiment(dir.path(), "\"20%\", \"100%\"", "\"hogs\", \"quota\"");
    let output = perform(dir.path());
    assert!(output.status.success(), "{}", stderr(&output));
    let point = |(manifest, printed): (serde_json::Value, String)| {
        let axis = |name: &str| manifest["point"][name].as_str().unwrap().to_owned();
        (format!("{} {}", axis("speed:method"), axis("speed")), printed)
    };
    let budgets: BTreeMap<String, String> = performed(dir.path()).into_iter().map(point).collect();
    let expected =
        [("hogs 100%", ""), ("hogs 20%", ""), ("quota 100%", "-1"), ("quota 20%", "2000")];
    let expected = expected.map(|(point, budget)| (point.to_owned(), budget.to_owned()));
    assert_eq!(budgets, BTreeMap::from(expected));
}

#[test]
fn a_wrong_speed_of_an_experiment_is_told_with_its_file_line_and_value() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (speed, why) in [
        ("130%", "invalid speed 130"),
        ("fast", "invalid speed 'fast'"),
        ("like:old.toml", "use the ratio"),
        ("99999999MHz", "of CPU"),
        ("5%", "5%"),
    ] {
        write_experiment(dir.path(), &format!("\"100%\", \"{speed}\""), "\"hogs\"");
        let output = perform(dir.path());
        assert!(!output.status.success(), "{speed}");
        let said = stderr(&output);
        assert!(said.contains("speeds.toml: line 8, column 19"), "{speed}: {said}");
        assert!(said.contains(why), "{speed}: {said}");
        assert!(!dir.path().join("results").exists(), "{speed}: nothing ran");
    }
}

#[test]
fn what_is_doubted_while_a_run_is_slowed_stands_in_its_warnings() {
    if !has_rights() || Command::new("chrt").arg("--version").output().is_err() {
        missing!("chrt of util-linux; the warnings of a slowed run are not tested");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // It makes itself real-time, and ends once the session that slows it has seen that.
    let seen = "sed -n \"/^session $PPID,/,/^session /p\" | grep -q mind:";
    let script =
        format!("chrt -f -p 10 $$; until {PROGRAM} slow status | {seen}; do sleep 0.05; done");
    let text = format!(
        "repeats = 1\nretries = 0\ntime_limit = \"5min\"\n[workload]\ncommand = [\"sh\", \"-c\", '''{script}''']\n\
         [[axis]]\nspeed = \"{}\"\nvalues = [\"90%\"]\n",
        last_cpu()
    );
    std::fs::write(dir.path().join("escapes.toml"), text).unwrap();
    let mut command = Command::new(PROGRAM);
    let output = command.args(["run", "escapes.toml"]).current_dir(dir.path()).output().unwrap();
    // Another test may slow the same CPU: then the speed was not as asked, and the run has failed.
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", stderr(&output));
    let runs = dir.path().join("results/escapes/runs");
    let run = std::fs::read_dir(&runs).unwrap().flatten().next().unwrap().path();
    let warnings = std::fs::read_to_string(run.join("warnings.jsonl")).unwrap();
    assert!(warnings.contains("realtime-task") && warnings.contains("full speed"), "{warnings}");
}

#[test]
fn an_evaluation_goes_on_where_it_stopped_and_draws_its_figures() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("evaluation");
    let evaluate = |repeats: &str| {
        let mut command =
            slow(&["evaluate", "--methods", "hogs", "--benchmarks", "cpu", "--speeds", "50%"]);
        command.args(["--cpus", "1", "--time", "30ms", "--json", "--repeats", repeats, "-o"]);
        let output = command.arg(&out).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let measured =
        |all: &serde_json::Value| all["results"][1]["measured"].as_array().unwrap().clone();
    let (first, second) = (measured(&evaluate("1")), evaluate("2"));
    assert_eq!(first.len(), 1);
    assert_eq!(measured(&second).len(), 2, "one run more");
    assert!(measured(&second).contains(&first[0]), "what was measured before stays");
    assert_eq!(second["results"][1]["method"], "hogs");
    assert_eq!(std::fs::read_dir(out.join("runs")).unwrap().count(), 4);
    assert!(std::fs::read_to_string(out.join("cpu-1.svg")).unwrap().contains("ideal"));
}

#[test]
fn an_evaluation_says_how_long_it_takes_and_ends_on_a_signal_with_what_it_has() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("evaluation");
    let mut command = slow(&["evaluate", "--methods", "hogs,stop", "--benchmarks", "cpu"]);
    command.args(["--speeds", "50%", "--cpus", "1", "--time", "30ms", "--repeat", "10000", "-o"]);
    command.arg(&out).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let runs = || std::fs::read_dir(out.join("runs")).map_or(0, Iterator::count);
    until(|| runs() > 4);
    signal(child.id(), "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let (text, notes) = (String::from_utf8(output.stdout.clone()).unwrap(), stderr(&output));
    assert!(notes.contains("30000 runs: about 50 min"), "{notes}");
    assert!(notes.contains("the evaluation was interrupted"), "{notes}");
    assert!(text.lines().any(|line| line.contains("hogs") && line.contains("50.0 %")), "{text}");
    assert!(out.join("evaluation.json").exists() && out.join("cpu-1.svg").exists());
}

/// The manifests of whole runs below a folder, by the run's name.
fn whole(runs: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(runs).into_iter().flatten().flatten();
    let read = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("manifest.json")).ok()?;
        let manifest: serde_json::Value = serde_json::from_str(&text).ok()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // An attempt that failed is done again, and then hidden.
        let failed = !manifest["failure"].is_null() || manifest["exit_code"] != 0;
        let whole = manifest["interrupted"] != true && !failed && !name.starts_with('.');
        whole.then_some((name, text))
    };
    entries.filter_map(read).collect()
}

#[test]
fn the_full_evaluation_goes_on_after_a_signal_until_its_plan_is_whole() {
    if !has_rights() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (out, runs) = (dir.path().join("evaluation"), dir.path().join("evaluation/runs"));
    // The full form with one speed, once, as short as a run may be: all methods, loads and numbers of CPUs.
    let evaluate = || {
        let mut command = slow(&["evaluate", "--speeds", "60%", "--repeats", "1", "--json"]);
        command.args(["--time", "20ms", "-o"]).arg(&out);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let first = evaluate();
    until(|| whole(&runs).len() > 10);
    signal(first.id(), "INT");
    assert_eq!(first.wait_with_output().unwrap().status.code(), Some(130));
    let before = whole(&runs);
    let whole_plan = evaluate().wait_with_output().unwrap();
    assert!(whole_plan.status.success(), "{}", stderr(&whole_plan));
    let notes = stderr(&whole_plan);
    let counted = notes.split(" runs, ").next().unwrap().rsplit(' ').next().unwrap();
    let planned: usize = counted.parse().unwrap();
    let after = whole(&runs);
    assert_eq!(after.len(), planned, "{notes}");
    assert!(before.iter().all(|(run, manifest)| after.get(run) == Some(manifest)));
    let all: serde_json::Value = serde_json::from_slice(&whole_plan.stdout).unwrap();
    let results = all["results"].as_array().unwrap();
    assert!(all["partial"] == false && results.len() == planned, "{notes}");
    let mut methods: BTreeMap<(String, u64), BTreeSet<String>> = BTreeMap::new();
    for one in results {
        let text = |key: &str| one[key].as_str().unwrap().to_owned();
        assert_eq!(one["measured"].as_array().unwrap().len(), 1, "{one}");
        let of = methods.entry((text("benchmark"), one["cpus"].as_u64().unwrap())).or_default();
        of.insert(text("method"));
    }
    let on_one: Vec<_> = methods.iter().filter(|((_, cpus), _)| *cpus == 1).collect();
    assert_eq!(on_one.len(), 6, "the study's six loads");
    for (load, of) in &on_one {
        let wanted = ["none", "hogs", "stop", "weight"];
        assert!(wanted.iter().all(|name| of.contains(*name)), "{load:?}: {of:?}");
        assert_eq!(*of, on_one[0].1, "{load:?} has the methods of the others");
    }
    for (load, cpus) in methods.keys() {
        assert!(out.join(format!("{load}-{cpus}.svg")).exists(), "{load} on {cpus}");
    }
    let judged =
        |name: &str| all["verdicts"].as_array().unwrap().iter().any(|v| v["method"] == name);
    assert!(on_one[0].1.iter().all(|name| name == "none" || judged(name)));
    // Once more it has nothing to do and says the same.
    let again = evaluate().wait_with_output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert!(
        stderr(&again)
            .contains(&format!("{planned} runs, {planned} of which are there: about 0 s"))
    );
    assert_eq!(said["results"], all["results"]);
}
