//! Frozen plans over machines with scripted answers: shares, leases, and what is counted.

use super::leases::Claims;
use super::*;
use crate::fake::Fake;
use crate::run_loop::{Tally, run_plan};
use crate::{Machines, runs_of};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const NEVER: fn() -> bool = || false;
const HOUR: Duration = Duration::from_secs(3_600);
const TEN: &str = "repeats = 5\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\n\
    values = [\"1ms\", \"2ms\"]\n";

fn experiment(text: &str) -> Experiment {
    Experiment::parse(text, Path::new("x.toml")).unwrap()
}

fn freeze(text: &str, folder: &Path) -> Frozen {
    Frozen::freeze(&experiment(text), &|_| false, folder).unwrap()
}

/// A machine whose figures depend on the spec alone, with this release of a kernel.
fn on(kernel: &'static str) -> Fake<'static> {
    let mut fake = Fake::new();
    fake.time = |spec, _| spec.seed as f64 + spec.settings.len() as f64;
    fake.kernel = kernel;
    fake
}

fn works(
    fake: &mut Fake<'_>,
    frozen: &Frozen,
    name: &str,
    share: Share,
) -> Result<Tally, FrozenError> {
    let asked = Work { share, name: Some(name.to_owned()) };
    work(&mut Machines::one(fake), frozen, &asked, &NEVER, &mut |_| ())
}

fn shard(index: usize, of: usize) -> Share {
    Share::Shard { index, of }
}

#[test]
fn a_frozen_plan_is_read_as_it_was_and_a_changed_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(TEN, folder.path());
    assert_eq!(frozen.plan, Plan::new(&experiment(TEN)));
    assert_eq!((&*frozen.experiment.name, &*frozen.experiment.title), ("x", "x"));
    assert_eq!(frozen.portions.len(), 5, "a block each");
    for portion in &frozen.portions {
        let blocks: BTreeSet<u32> =
            portion.iter().map(|run| frozen.plan.runs[*run].block).collect();
        assert_eq!((portion.len(), blocks.len()), (2, 1));
    }
    assert!(freeze(TEN, folder.path()).is_same(&frozen), "again is no harm");
    let other = TEN.replace("repeats = 5", "repeats = 6");
    let refused = Frozen::freeze(&experiment(&other), &|_| false, folder.path()).unwrap_err();
    assert!(refused.to_string().contains("the folder holds another plan"), "{refused}");
    let path = folder.path().join("runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"1ms\"", "\"3ms\"", 1)).unwrap();
    let refused = Frozen::read(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("was changed"), "{refused}");
}

#[test]
fn what_decides_from_results_how_many_runs_there_are_is_refused() {
    for open in ["boots = 2\n", "[stop]\nwidth = 0.1\n", "[stop]\nlooks = [5, 6]\n"] {
        let folder = tempfile::tempdir().unwrap();
        let text = match open.starts_with('[') {
            true => format!("{TEN}{open}").replace("repeats = 5\n", ""),
            false => format!("{open}{TEN}"),
        };
        let refused = Frozen::freeze(&experiment(&text), &|_| false, folder.path()).unwrap_err();
        assert!(refused.to_string().contains("a frozen plan lists all its runs"), "{refused}");
    }
}

#[test]
fn runs_of_machines_that_do_not_disturb_each_other_are_taken_by_the_dozen() {
    let folder = tempfile::tempdir().unwrap();
    let text = TEN.replace("repeats = 5", "repeats = 50\nmachine = \"sim:cpus=1\"");
    let frozen = Frozen::freeze(&experiment(&text), &|_| true, folder.path()).unwrap();
    let sizes: Vec<usize> = frozen.portions.iter().map(Vec::len).collect();
    assert_eq!(sizes, [32, 32, 32, 4]);
}

#[test]
fn shards_do_each_run_once_and_together_give_what_one_call_gives() {
    let (folder, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let frozen = freeze(TEN, folder.path());
    let done: Vec<usize> = (0..3)
        .map(|index| {
            works(&mut on("6.1"), &frozen, &format!("w{index}"), shard(index, 3)).unwrap().done
        })
        .collect();
    assert_eq!(done, [4, 4, 2]);
    // Again, also by another name: nothing is left.
    assert_eq!(works(&mut on("6.1"), &frozen, "late", shard(0, 3)).unwrap().done, 0);
    let results = plain.path().join("gathered");
    let told = gather(&[folder.path()], &results).unwrap();
    assert!(told.is_whole() && told.twice == 0 && told.machines.len() == 1, "{told:?}");
    let mut machine = on("6.1");
    let one = plain.path().join("plain");
    run_plan(&mut Machines::one(&mut machine), &frozen.plan, &one, &NEVER, &mut |_| ()).unwrap();
    let (mut gathered, plain) = (runs_of(&results).unwrap(), runs_of(&one).unwrap());
    assert_eq!(crate::export::csv(&gathered.runs), crate::export::csv(&plain.runs));
    assert_eq!(gathered.looks.taken, [5]);
    gathered.name_places();
    assert_eq!(gathered.runs[0].manifest.point.len(), 1, "one machine is no axis");
}

#[test]
fn a_stopped_worker_leaves_its_portion_to_another_which_does_no_finished_portion_again() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(TEN, folder.path());
    let stop = AtomicBool::new(false);
    let mut fake = on("6.1");
    fake.stops_at = Some((4, &stop));
    let asked = Work { share: Share::Claim { lease: HOUR }, name: None };
    let wants = || stop.load(Ordering::Relaxed);
    let tally = work(&mut Machines::one(&mut fake), &frozen, &asked, &wants, &mut |_| ()).unwrap();
    assert!(tally.stopped);
    let told = gather(&[folder.path()], &folder.path().join("results")).unwrap();
    assert_eq!(told.done, 4, "the interrupted run does not count");
    assert!(!told.is_whole());
    assert_eq!(
        std::fs::read_dir(folder.path().join("claims")).unwrap().count(),
        0,
        "no claim is left"
    );
    let mut other = on("6.1");
    let tally = works(&mut other, &frozen, "other", Share::Claim { lease: HOUR }).unwrap();
    assert_eq!(tally.done, 6, "the portions that were not finished");
    assert!(gather(&[folder.path()], &folder.path().join("results")).unwrap().is_whole());
}

#[test]
fn a_claim_has_one_holder_until_its_lease_runs_out() {
    let folder = tempfile::tempdir().unwrap();
    let claims = |worker, lease| Claims::new(folder.path(), worker, lease).unwrap();
    let first = claims("first", HOUR).take(7).unwrap().unwrap();
    assert!(claims("second", HOUR).take(7).unwrap().is_none());
    assert!(claims("second", HOUR).take(8).unwrap().is_some());
    // A lease of no time has run out.
    let second = claims("second", Duration::ZERO).take(7).unwrap().unwrap();
    let path = folder.path().join("claims/7");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
    // The first one lives on: it takes nothing away from the second.
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
    assert!(claims("third", HOUR).take(7).unwrap().is_some());
}

#[test]
fn a_run_that_two_workers_did_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(TEN, folder.path());
    works(&mut on("6.1"), &frozen, "a", Share::All).unwrap();
    works(&mut on("6.1"), &frozen, "b", Share::All).unwrap();
    let results = folder.path().join("results");
    let told = gather(&[folder.path()], &results).unwrap();
    assert_eq!((told.done, told.twice), (10, 10));
    assert_eq!(runs_of(&results).unwrap().runs.len(), 10);
}

#[test]
fn copies_of_a_folder_are_gathered_together_and_other_plans_are_refused() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (freeze(TEN, one.path()), freeze(TEN, two.path()));
    works(&mut on("6.1"), &first, "a", shard(0, 2)).unwrap();
    works(&mut on("6.1"), &second, "b", shard(1, 2)).unwrap();
    let results = one.path().join("results");
    let told = gather(&[one.path(), two.path()], &results).unwrap();
    assert!(told.is_whole() && told.twice == 0, "{told:?}");
    let three = tempfile::tempdir().unwrap();
    freeze(&TEN.replace("2ms", "4ms"), three.path());
    let refused = gather(&[one.path(), three.path()], &results).unwrap_err();
    assert!(refused.to_string().contains("different plans"), "{refused}");
}

#[test]
fn machines_that_differ_are_not_mixed_but_may_be_an_axis() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(TEN, folder.path());
    works(&mut on("6.1"), &frozen, "a", shard(0, 2)).unwrap();
    let refused = works(&mut on("6.2"), &frozen, "b", shard(1, 2)).unwrap_err().to_string();
    assert!(
        refused.contains("would be mixed") && refused.contains("hosts = \"blocks\""),
        "{refused}"
    );
    // Each does all: then the machine is an axis of the report.
    works(&mut on("6.1"), &frozen, "a", Share::All).unwrap();
    works(&mut on("6.2"), &frozen, "b", Share::All).unwrap();
    let results = folder.path().join("results");
    let told = gather(&[folder.path()], &results).unwrap();
    assert_eq!(told.machines.values().copied().collect::<Vec<_>>(), [10, 10]);
    let mut stored = runs_of(&results).unwrap();
    stored.name_places();
    assert!(stored.runs.iter().all(|run| run.manifest.point.contains_key("kernel")));
}

#[test]
fn machines_as_blocks_share_the_blocks_and_each_block_counts_of_one_machine() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(&format!("hosts = \"blocks\"\n{TEN}"), folder.path());
    works(&mut on("6.1"), &frozen, "a", shard(0, 2)).unwrap();
    works(&mut on("6.2"), &frozen, "b", shard(1, 2)).unwrap();
    // A machine that everybody took for dead finishes a block that another has done meanwhile.
    let block = frozen.portion(1);
    let late = folder.path().join("workers/late");
    run_plan(
        &mut Machines::one(&mut on("6.1")),
        &Plan { runs: block.runs[..1].to_vec() },
        &late,
        &NEVER,
        &mut |_| (),
    )
    .unwrap();
    let results = folder.path().join("results");
    let told = gather(&[folder.path()], &results).unwrap();
    assert!(told.is_whole() && told.left_out == 1, "{told:?}");
    let mut stored = runs_of(&results).unwrap();
    assert_eq!(stored.runs.len(), 10);
    stored.name_places();
    assert!(stored.runs.iter().all(|run| run.manifest.point.len() == 1), "no axis of machines");
    // Where blocks are of several machines, the machines are distinguished all the same.
    let mut all = stored.runs.clone();
    all.extend(runs_of(&late).unwrap().runs);
    assert_eq!(crate::name_places(&mut all, Hosts::Blocks), ["kernel"]);
}
