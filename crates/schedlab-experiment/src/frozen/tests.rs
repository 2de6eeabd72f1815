//! Frozen plans over machines with scripted answers: shards, and what is counted.

use super::*;
use crate::fake::Fake;
use crate::run_loop::{Tally, run_plan};
use crate::{Hosts, Machines, Shard, runs_of};
use std::sync::atomic::{AtomicBool, Ordering};

const NEVER: fn() -> bool = || false;
const TEN: &str = "repeats = 5\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\n\
    values = [\"1ms\", \"2ms\"]\n";

fn experiment(text: &str) -> Experiment {
    Experiment::parse(text, Path::new("x.toml")).unwrap()
}

fn freeze(text: &str, folder: &Path) -> Frozen {
    Frozen::freeze(&experiment(text), folder).unwrap()
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
    shard: Option<Shard>,
) -> Result<Tally, FrozenError> {
    let asked = Work { shard, name: Some(name.to_owned()) };
    work(&mut Machines::one(fake), frozen, &asked, &NEVER, &mut |_| ())
}

fn shard(index: usize, of: usize) -> Option<Shard> {
    Some(Shard { index, of })
}

#[test]
fn a_frozen_plan_is_read_as_it_was_and_a_changed_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(TEN, folder.path());
    assert_eq!(frozen.plan, Plan::new(&experiment(TEN)));
    assert_eq!((&*frozen.experiment.name, &*frozen.experiment.title), ("x", "x"));
    assert!(freeze(TEN, folder.path()).is_same(&frozen), "again is no harm");
    let other = TEN.replace("repeats = 5", "repeats = 6");
    let refused = Frozen::freeze(&experiment(&other), folder.path()).unwrap_err();
    assert!(refused.to_string().contains("the folder holds another plan"), "{refused}");
    let path = folder.path().join("runs.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"1ms\"", "\"3ms\"", 1)).unwrap();
    let refused = Frozen::read(folder.path()).unwrap_err().to_string();
    assert!(refused.contains("was changed"), "{refused}");
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
fn a_stopped_shard_goes_on_where_it_stopped_and_what_is_missing_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(TEN, folder.path());
    let stop = AtomicBool::new(false);
    let mut fake = on("6.1");
    fake.stops_at = Some((2, &stop));
    let asked = Work { shard: shard(0, 2), name: None };
    let wants = || stop.load(Ordering::Relaxed);
    let tally = work(&mut Machines::one(&mut fake), &frozen, &asked, &wants, &mut |_| ()).unwrap();
    assert!(tally.stopped);
    let results = folder.path().join("results");
    let told = gather(&[folder.path()], &results).unwrap();
    assert_eq!((told.done, told.missing.len()), (2, 8), "the interrupted run does not count");
    assert!(told.missing[0].contains(" hackbench slice="), "{:?}", told.missing);
    assert!(!told.is_whole());
    let again = work(&mut Machines::one(&mut on("6.1")), &frozen, &asked, &NEVER, &mut |_| ());
    let again = again.unwrap();
    assert_eq!((again.done, again.skipped), (4, 2));
    assert_eq!(works(&mut on("6.1"), &frozen, "other", shard(1, 2)).unwrap().done, 4);
    assert!(gather(&[folder.path()], &results).unwrap().is_whole());
}

#[test]
fn a_part_of_a_frozen_plan_is_a_plan_of_its_own() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let frozen = freeze(&format!("hosts = \"blocks\"\n{TEN}"), folder.path());
    works(&mut on("6.1"), &frozen, "a", shard(0, 2)).unwrap();
    let left = frozen.unfinished(frozen.plan.units(), &frozen.workers().unwrap()).unwrap();
    assert_eq!(left.len(), 2, "of five blocks");
    frozen.write_part(&left, other.path()).unwrap();
    let part = Frozen::read(other.path()).unwrap();
    assert!(!part.is_same(&frozen));
    assert_eq!(works(&mut on("6.1"), &part, "b", None).unwrap().done, 4);
    std::fs::rename(other.path().join("workers/b"), folder.path().join("workers/b")).unwrap();
    let told = gather(&[folder.path()], &folder.path().join("results")).unwrap();
    assert!(told.is_whole() && told.twice == 0, "{told:?}");
    // A worker that comes late has nothing to do.
    assert_eq!(works(&mut on("6.1"), &frozen, "late", None).unwrap().done, 0);
}

#[test]
fn a_run_that_two_workers_did_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let frozen = freeze(TEN, folder.path());
    works(&mut on("6.1"), &frozen, "a", None).unwrap();
    works(&mut on("6.1"), &frozen, "b", None).unwrap();
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
    works(&mut on("6.1"), &frozen, "a", None).unwrap();
    works(&mut on("6.2"), &frozen, "b", None).unwrap();
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
    // Another machine has begun a block that this one has done as a whole.
    let block = frozen.plan.part(&[frozen.plan.units()[1][..1].to_vec()]);
    let late = folder.path().join("workers/late");
    run_plan(&mut Machines::one(&mut on("6.1")), &block, &late, &NEVER, &mut |_| ()).unwrap();
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
    assert_eq!(crate::store::name_places(&mut all, Hosts::Blocks), ["kernel"]);
}
