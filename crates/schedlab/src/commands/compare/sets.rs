//! From folders to sets of runs: whole folders, and the kernels or hosts within one.

use super::super::load::perform;
use super::super::temporary_folder::Folder;
use super::super::{UsageError, report};
use super::Set;
use crate::machines;
use schedlab_experiment::analysis::Looks;
use schedlab_experiment::{Experiment, Machines, Point, RepeatedPlan, StoredRun, StoredRuns};
use schedlab_workload::HOST;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The sets that folders hold: two of one folder with two places, else one of each folder.
pub(super) fn of_folders(folders: &[PathBuf]) -> anyhow::Result<Vec<Set>> {
    if let [folder] = folders {
        return of_places(folder);
    }
    let mut sets: Vec<Set> =
        folders.iter().map(|folder| of_folder(folder)).collect::<Result<_, _>>()?;
    for pair in sets.chunks_exact_mut(2) {
        if pair[0].name == pair[1].name {
            // Folders of the same name are distinguished by their paths.
            pair[0].name.clone_from(&pair[0].path);
            pair[1].name.clone_from(&pair[1].path);
        }
    }
    Ok(sets)
}

/// The runs of two folders, done again in pairs; and whether the user stopped it.
pub(super) fn anew(folders: &[PathBuf]) -> anyhow::Result<(Vec<Set>, bool)> {
    let stored: Vec<StoredRuns> =
        folders.iter().map(|folder| report::stored(folder)).collect::<Result<_, _>>()?;
    let mut machines = Machines::made_by(&machines::make);
    let anew = RepeatedPlan::of(&mut machines, [&stored[0], &stored[1]])
        .map_err(|why| anyhow::anyhow!("--interleave: {why}"))?;
    let folder = Folder::of(None, "compare")?;
    let (runs, tally) = perform(&mut machines, &anew.plan, folder.path())?;
    let sets = of_folders(folders)?.into_iter().zip(&anew.sides).map(|(set, side)| {
        let mine = |run: &&StoredRun| side.contains(&run.manifest.id);
        Set { runs: runs.iter().filter(mine).cloned().collect(), looks: Looks::default(), ..set }
    });
    Ok((sets.collect(), tally.stopped))
}

/// Why sets of folders cannot be compared: they were measured on different hosts, which nobody asked to
/// compare.
pub(super) fn of_different_hosts(folders: &[PathBuf], sets: &[Set]) -> Option<String> {
    // A place that was named by `DIR@TEXT` was meant.
    if folders.len() != sets.len() || !folders.iter().all(|folder| folder.exists()) {
        return None;
    }
    sets.chunks_exact(2).zip(folders.chunks_exact(2)).find_map(|(sets, folders)| {
        let before = hosts(&sets[0]);
        let after = hosts(&sets[1]);
        if before.is_empty() || after.is_empty() || !before.is_disjoint(&after) {
            return None;
        }
        let listed = |hosts: BTreeSet<String>| hosts.into_iter().collect::<Vec<_>>().join(", ");
        let before = listed(before);
        let after = listed(after);
        let a = folders[0].display();
        let b = folders[1].display();
        Some(format!(
            "'{}' was measured on {before} and '{}' on {after}: a change could be the machine's. Measure both on one \
             host, or compare the machines on purpose: {a}@{before} {b}@{after}",
            sets[0].name, sets[1].name
        ))
    })
}

/// The hosts on which a set was measured; none where it was simulated or done in virtual machines.
fn hosts(set: &Set) -> BTreeSet<String> {
    let measured = set.runs.iter().filter(|run| run.manifest.machine == HOST);
    measured.map(|run| run.manifest.place.host.clone()).collect()
}

/// One folder, or with `DIR@TEXT` its runs at the place whose host, kernel or program has the text in it.
fn of_folder(asked: &Path) -> anyhow::Result<Set> {
    let path = asked.display().to_string();
    let chosen = path.rsplit_once('@').filter(|_| !asked.exists());
    let Some((folder, text)) = chosen else {
        let found = report::stored(asked)?;
        return Ok(Set { path, ..set(&name(asked), found) });
    };
    let mut found = report::stored(Path::new(folder))?;
    let places: Vec<String> =
        by_place(&found.runs).iter().map(|(place, _)| name_of(place)).collect();
    found.runs.retain(|run| run.manifest.place.has(text));
    if found.runs.is_empty() {
        let what = format!("{folder} has no runs at '{text}'; it has {}", places.join("; "));
        return Err(UsageError(what).into());
    }
    // What is left differs in less.
    let axes = by_place(&found.runs).into_iter().next().map(|(place, _)| place).unwrap_or_default();
    for run in &mut found.runs {
        run.manifest.point.retain(|axis, _| !axes.contains_key(axis));
    }
    found.name_places();
    Ok(Set { path: path.clone(), ..set(text, found) })
}

/// The two places of one folder, the one that ran first before the other.
fn of_places(folder: &Path) -> anyhow::Result<Vec<Set>> {
    let found = report::stored(folder)?;
    let places = by_place(&found.runs);
    let shown = folder.display();
    if places.len() < 2 {
        let what =
            format!("{shown}: its runs are all of one kernel and host: give a second folder");
        return Err(UsageError(what).into());
    }
    if places.len() > 2 {
        let all: Vec<String> = places.iter().map(|(place, _)| name_of(place)).collect();
        let what = format!(
            "{shown} has runs at {} places ({}): name two, such as {shown}@6.11 {shown}@6.12",
            places.len(),
            all.join("; ")
        );
        return Err(UsageError(what).into());
    }
    let of = |(place, runs): (Point, Vec<StoredRun>)| {
        let mut set = Set { path: name_of(&place), ..Set::new(&name_of(&place)) };
        set.looks = found.looks.clone();
        set.measure = measured(&found);
        set.runs = runs;
        for run in &mut set.runs {
            run.manifest.point.retain(|axis, _| !place.contains_key(axis));
        }
        set
    };
    Ok(places.into_iter().map(of).collect())
}

/// Runs by what tells their places apart, in the order in which the places began.
fn by_place(runs: &[StoredRun]) -> Vec<(Point, Vec<StoredRun>)> {
    let mut places: BTreeMap<Point, Vec<StoredRun>> = BTreeMap::new();
    for run in runs {
        places.entry(run.place_axes()).or_default().push(run.clone());
    }
    let mut places: Vec<(Point, Vec<StoredRun>)> = places.into_iter().collect();
    let began = |runs: &[StoredRun]| runs.iter().map(|r| r.manifest.started_at.clone()).min();
    places.sort_by_key(|(_, runs)| began(runs));
    places
}

fn name_of(place: &Point) -> String {
    let parts: Vec<String> = place.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    parts.join(", ")
}

fn set(name: &str, found: StoredRuns) -> Set {
    Set { measure: measured(&found), looks: found.looks, runs: found.runs, ..Set::new(name) }
}

/// The metric that the experiment itself names first, if any.
fn measured(stored: &StoredRuns) -> Option<String> {
    let text = stored.experiment.as_deref().unwrap_or_default();
    let experiment = Experiment::parse(text, &stored.folder.join("experiment.toml")).ok()?;
    experiment.measure.into_iter().next()
}

fn name(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}
