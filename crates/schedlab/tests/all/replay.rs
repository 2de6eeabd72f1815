//! `schedlab replay`: recorded on a simulated machine, replayed there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn schedlab(line: &str, folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(line.split_whitespace()).current_dir(folder).output().unwrap()
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn succeeds(line: &str, folder: &Path) -> String {
    let output = schedlab(line, folder);
    assert!(output.status.success(), "{line}: {}", text(&output));
    text(&output)
}

const RECORD: &str = "load mixed --tasks 4 --work 3ms --sleep 4ms --duration 1s \
                      --on sim:cpus=2,kernel=cfs-6.1 --trace x.dat";

#[test]
fn a_recording_is_replayed_and_changed_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeeds(RECORD, folder);
    let alone = succeeds("replay x.dat", folder);
    assert!(alone.contains("fidelity of sim:like=x.dat") && !alone.contains("changed"), "{alone}");
    let line = "replay x.dat --on sim:like=x.dat,kernel=eevdf-6.12 --set base_slice=12ms -o y.dat";
    let changed = succeeds(line, folder);
    for part in ["changed: sim:kernel=eevdf-6.12,like=x.dat base_slice=12ms", "run delay p99"] {
        assert!(changed.contains(part), "{part}: {changed}");
    }
    // The pids of the recording are those of the replay.
    let tasks = |file: &str| {
        let json = succeeds(&format!("trace tasks {file} --json --top 0"), folder);
        json.matches("\"pid\":100").count()
    };
    assert!(tasks("y.dat") >= 4 && tasks("x.dat") >= 4);
    let slow = succeeds("replay x.dat --set speed:0-1=50%", folder);
    assert!(slow.contains("waits more"), "{slow}");
}

#[test]
fn single_tasks_are_changed_and_the_runs_are_drawn_where_they_part() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeeds(RECORD, folder);
    let nice =
        succeeds("replay x.dat --set nice:mixed=10 --set cpus:mixed=0 --draw parting", folder);
    assert!(nice.contains("waits more") && nice.contains("90 % band"), "{nice}");
    let picture = std::fs::read_to_string(folder.join("parting/runs.svg")).unwrap();
    for name in ["recorded: from", "replayed: from", "changed: from", "the runs part"] {
        assert!(picture.contains(name), "{name}");
    }
    assert!(picture.contains("replayed and changed part at"), "{picture}");
    let short = succeeds("replay x.dat --until 700ms --json", folder);
    assert!(short.contains("\"duration_ns\":700000000"), "{short}");
    for (line, part) in [
        ("replay x.dat --set nice:nobody=5", "'nobody': the trace has no task of this name or pid"),
        ("replay x.dat --set nice:mixed=50", "use -20 to 19"),
        ("replay x.dat --recorded base_slice=1ms", "unknown knob 'base_slice' of this model"),
    ] {
        let output = schedlab(line, folder);
        assert!(!output.status.success() && text(&output).contains(part), "{}", text(&output));
    }
}

#[test]
fn calls_on_a_simulated_machine_become_objects() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let experiment = "name = \"calls\"\nmachine = \"sim:cpus=1,kernel=cfs-6.1\"\n\
        [[workload]]\nname = \"hackbench\"\n\
        options = { groups = 1, fds = 2, loops = 1000, pipe = true }\n\
        [record]\nevents = [\"syscalls:sys_enter_read\"]\n";
    std::fs::write(folder.join("calls.toml"), experiment).unwrap();
    succeeds("run calls.toml --output results", folder);
    let runs = std::fs::read_dir(folder.join("results/calls/runs")).unwrap();
    let run = runs.map(|run| run.unwrap().path()).find(|run| run.join("trace.dat").exists());
    std::fs::copy(run.unwrap().join("trace.dat"), folder.join("x.dat")).unwrap();
    let with = succeeds("replay x.dat --warm-up 0", folder);
    assert!(
        with.contains("calls: 8000 moved data; 8000 of them (100 %) through 2 objects"),
        "{with}"
    );
    let without = succeeds("replay x.dat --warm-up 0 --no-objects", folder);
    assert!(!without.contains("objects"), "{without}");
}

#[test]
fn what_was_recorded_is_no_assumption() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeeds(&RECORD.replace("kernel=cfs-6.1", "kernel=eevdf-6.12,hz=1000,preempt=full"), folder);
    let told = succeeds("replay x.dat", folder);
    for part in ["ticks a second", "voluntary preemption", "base_slice"] {
        assert!(!told.contains(part), "{part} is assumed: {told}");
    }
    // Another kernel has knobs that the trace does not hold.
    let other = succeeds(
        "replay x.dat --on sim:like=x.dat,kernel=cfs-6.1 --recorded base_slice=2ms",
        folder,
    );
    assert!(other.contains("changed: "), "{other}");
    // Without its section of conditions a trace leaves all to the model.
    succeeds("trace convert x.dat x.txt", folder);
    let assumed = succeeds("replay x.txt", folder);
    assert!(assumed.contains("250 ticks a second: the trace does not hold it"), "{assumed}");
}

#[test]
fn a_replay_is_a_workload_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeeds(RECORD, folder);
    let load = succeeds("load replay x.dat --on sim:like=x.dat --trace z.dat", folder);
    assert!(load.contains("wakeup latency") || load.contains("activations"), "{load}");
    succeeds("trace latency z.dat", folder);
    succeeds("replay x.dat --export x.json", folder);
    succeeds("load rt-app x.json --on sim:cpus=2", folder);
    let searched = succeeds("replay x.dat --search min_granularity=1ms,12ms", folder);
    let verdicts = ["The winner is", "No value wins"];
    assert!(verdicts.iter().any(|verdict| searched.contains(verdict)), "{searched}");
}

#[test]
fn the_same_demand_runs_on_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let short =
        "load mixed --tasks 2 --work 300us --sleep 2ms --duration 200ms --on sim --trace h.dat";
    succeeds(short, folder);
    let load = succeeds("load replay h.dat", folder);
    assert!(load.contains("replay"), "{load}");
}

#[test]
fn what_cannot_be_replayed_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    succeeds(RECORD, folder);
    std::fs::write(folder.join("bad.txt"), "schedlab-demand 1\nnonsense\n").unwrap();
    for (line, part) in [
        ("replay missing.dat", "missing.dat"),
        ("replay bad.txt", "bad.txt"),
        ("replay x.dat --set base_slice", "use NAME=VALUE"),
        ("replay x.dat --set base_slice=1ms", "unknown knob 'base_slice' of this model"),
        ("replay x.dat --warm-up 5s", "use a shorter --warm-up"),
        ("replay x.dat --on moon", "moon"),
        ("load replay", "missing trace"),
        ("load cpu --on sim:like=missing.dat", "missing.dat"),
    ] {
        let output = schedlab(line, folder);
        assert!(!output.status.success(), "{line}");
        assert!(text(&output).contains(part), "{line}: {}", text(&output));
    }
    let open = succeeds("replay x.dat --open nobody", folder);
    assert!(open.contains("the trace has no task named 'nobody'"), "{open}");
}

/// Traces of others: whatever they lack, a replay says so and does not panic.
#[test]
fn traces_of_others_are_replayed_or_refused_with_a_reason() {
    let Some(data) = std::env::var_os("SCHEDLAB_DATA") else {
        missing!("SCHEDLAB_DATA; replays of real traces were not tried");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut files: Vec<PathBuf> = std::fs::read_dir(Path::new(&data).join("traces"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut replayed = 0;
    for file in files {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.arg("replay").arg(&file).args(["--warm-up", "10ms"]).current_dir(folder.path());
        let output = command.output().unwrap();
        let said = text(&output);
        assert!(!said.contains("panicked"), "{}: {said}", file.display());
        let code = output.status.code();
        assert!(matches!(code, Some(0..=2)), "{}: {code:?} {said}", file.display());
        replayed += u32::from(code == Some(0));
    }
    assert!(replayed >= 4, "{replayed} were replayed");
}
