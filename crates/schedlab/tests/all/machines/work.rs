//! One plan in several processes: what is killed is done by others, and the report is that of one call.

use super::{SIMULATED, figures, finished, must, report, run, schedlab, wait_for};
use std::process::Stdio;

#[test]
fn two_workers_of_which_one_is_killed_give_the_report_of_one_call() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("x.toml"), SIMULATED).unwrap();
    must(here, &["plan", "x.toml", "--freeze", "frozen"]);
    let start = || {
        let mut command = schedlab(here, &["work", "frozen", "--claim", "--lease", "2s"]);
        command.stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    };
    let (mut first, mut second) = (start(), start());
    let frozen = here.join("frozen");
    wait_for("a run", || (!finished(&frozen).is_empty()).then_some(()));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success(), "it does what the killed one left");
    let told = must(here, &["gather", "frozen", "--output", "gathered"]);
    assert!(told.contains("96 of 96 runs are done"), "{told}");
    must(here, &["run", "x.toml"]);
    let (gathered, plain) = (here.join("gathered/x"), here.join("results/x"));
    assert_eq!(figures(&gathered), figures(&plain));
    assert_eq!(report(&gathered), report(&plain));
    // All is there: a worker that comes late has nothing to do.
    let late = must(here, &["work", "frozen", "--claim"]);
    assert!(late.contains("0 runs done"), "{late}");
}

#[test]
fn shards_are_checked_and_what_is_missing_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = "repeats = 4\nhosts = \"blocks\"\n[workload]\ncommand = [\"true\"]\n";
    std::fs::write(here.join("x.toml"), text).unwrap();
    must(here, &["plan", "x.toml", "--freeze", "frozen"]);
    for wrong in ["0/2", "3/2", "1", "a/b"] {
        let refused = run(here, &["work", "frozen", "--shard", wrong]);
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
    }
    must(here, &["work", "frozen", "--shard", "1/2"]);
    let gathered = run(here, &["gather", "frozen"]);
    let said = String::from_utf8_lossy(&gathered.stderr).into_owned();
    assert_eq!(gathered.status.code(), Some(1), "{said}");
    assert!(said.contains("2 of 4 runs are done"), "{said}");
    assert!(said.contains("No answer yet"), "{said}");
    must(here, &["work", "frozen", "--shard", "2/2"]);
    must(here, &["gather", "frozen"]);
}

#[test]
fn the_scripts_for_slurm_give_measurements_whole_nodes_and_pack_simulations() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let text = "repeats = 4\nhosts = \"blocks\"\n[workload]\ncommand = [\"true\"]\n";
    std::fs::write(here.join("x.toml"), text).unwrap();
    let shown = must(here, &["submit", "--slurm", "x.toml", "--dry-run"]);
    for line in ["#SBATCH --array=1-4", "#SBATCH --exclusive", "#SBATCH --requeue"] {
        assert!(shown.lines().any(|there| there == line), "{line}: {shown}");
    }
    assert!(shown.contains("/results/x.frozen --shard \"$SLURM_ARRAY_TASK_ID/4\""), "{shown}");
    assert!(!here.join("results").exists(), "nothing is written");
    std::fs::write(here.join("y.toml"), SIMULATED).unwrap();
    let shown = must(here, &["submit", "--slurm", "y.toml", "--dry-run"]);
    assert!(
        shown.contains("#SBATCH --cpus-per-task=1\n") && !shown.contains("--exclusive"),
        "{shown}"
    );
    assert!(shown.contains("#SBATCH --array=1-3\n"), "{shown}");
    std::fs::write(here.join("x.toml"), text.replace("hosts = \"blocks\"\n", "")).unwrap();
    let refused = run(here, &["submit", "--slurm", "x.toml", "--dry-run"]);
    assert_eq!(refused.status.code(), Some(2));
}
