//! One plan in several processes: what is killed is done by others, and the report is that of one call.

use super::{SIMULATED, figures, finished, must, report, run, schedlab, wait_for};
use std::process::Stdio;

#[test]
fn two_workers_of_which_one_is_killed_give_the_report_of_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("x.toml"), SIMULATED).unwrap();
    must(here, &["cluster", "plan", "x.toml", "--freeze", "frozen"]);
    let start = |shard: &str| {
        let mut command = schedlab(here, &["cluster", "work", "frozen", "--shard", shard]);
        command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    };
    let (mut first, mut second) = (start("1/2"), start("2/2"));
    let frozen = here.join("frozen");
    wait_for("a run", || (!finished(&frozen).is_empty()).then_some(()));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success());
    must(here, &["cluster", "work", "frozen", "--shard", "1/2"]);
    let told = must(here, &["cluster", "gather", "frozen", "--output", "gathered"]);
    assert!(told.contains("96 of 96 runs are done"), "{told}");
    must(here, &["run", "x.toml"]);
    let (gathered, plain) = (here.join("gathered/x"), here.join("results/x"));
    assert_eq!(figures(&gathered), figures(&plain));
    assert_eq!(report(&gathered), report(&plain));
    // All is there: a worker that comes late has nothing to do.
    let late = must(here, &["cluster", "work", "frozen"]);
    assert!(late.contains("0 runs done"), "{late}");
}

#[test]
fn shards_of_run_give_together_the_runs_of_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = SIMULATED.replace("repeats = 12", "repeats = 2").replace("\"4s\"", "\"100ms\"");
    std::fs::write(here.join("x.toml"), text).unwrap();
    for shard in ["1/2", "2/2"] {
        let told = must(here, &["run", "x.toml", "--shard", shard]);
        assert!(told.contains("No answer yet"), "{told}");
    }
    let whole = must(here, &["run", "x.toml"]);
    assert!(whole.contains("0 runs to do") && !whole.contains("No answer yet"), "{whole}");
    must(here, &["run", "x.toml", "--output", "plain"]);
    assert_eq!(figures(&here.join("results/x")), figures(&here.join("plain/x")));
    let listed = must(here, &["run", "x.toml", "--shard", "1/2", "--dry-run"]);
    assert!(listed.contains("8 runs on sim:"), "{listed}");
}

#[test]
fn shards_are_checked_and_what_is_missing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = "repeats = 4\nhosts = \"blocks\"\n[workload]\ncommand = [\"true\"]\n";
    std::fs::write(here.join("x.toml"), text).unwrap();
    must(here, &["cluster", "plan", "x.toml", "--freeze", "frozen"]);
    for wrong in ["0/2", "3/2", "1", "a/b"] {
        let refused = run(here, &["cluster", "work", "frozen", "--shard", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
    must(here, &["cluster", "work", "frozen", "--shard", "1/2"]);
    let gathered = run(here, &["cluster", "gather", "frozen"]);
    let said = String::from_utf8_lossy(&gathered.stderr).into_owned();
    assert_eq!(gathered.status.code(), Some(1), "{said}");
    assert!(said.contains("2 of 4 runs are done"), "{said}");
    assert_eq!(said.matches("  missing: ").count(), 2, "{said}");
    let answer = String::from_utf8_lossy(&gathered.stdout).into_owned();
    assert!(answer.contains("No answer yet"), "{answer}");
    must(here, &["cluster", "work", "frozen", "--shard", "2/2"]);
    must(here, &["cluster", "gather", "frozen"]);
}

#[test]
fn the_scripts_for_slurm_give_measurements_whole_nodes_and_pack_simulations() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = "repeats = 4\nhosts = \"blocks\"\n[workload]\ncommand = [\"true\"]\n";
    std::fs::write(here.join("x.toml"), text).unwrap();
    let shown = must(here, &["cluster", "slurm", "x.toml", "--dry-run"]);
    for line in ["#SBATCH --array=1-4", "#SBATCH --exclusive", "#SBATCH --requeue"] {
        assert!(shown.lines().any(|there| there == line), "{line}: {shown}");
    }
    assert!(shown.contains("/results/x.frozen --shard \"$SLURM_ARRAY_TASK_ID/4\""), "{shown}");
    assert!(!here.join("results").exists(), "nothing is written");
    std::fs::write(here.join("y.toml"), SIMULATED).unwrap();
    let shown = must(here, &["cluster", "slurm", "y.toml", "--dry-run"]);
    assert!(
        shown.contains("#SBATCH --cpus-per-task=1\n") && !shown.contains("--exclusive"),
        "{shown}"
    );
    assert!(shown.contains("#SBATCH --array=1-3\n"), "{shown}");
    std::fs::write(here.join("x.toml"), text.replace("hosts = \"blocks\"\n", "")).unwrap();
    let refused = run(here, &["cluster", "slurm", "x.toml", "--dry-run"]);
    assert_eq!(refused.status.code(), Some(2));
}
