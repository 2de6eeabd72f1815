//! What became of the jobs of a run: its proof, its figures by kind of work, and what was dropped, by criticality.

use super::figures::Kind;
use super::table;
use schedlab_jobs::policy::Criticality;
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Flaw, Run};
use schedlab_model::Nanos;
use schedlab_model::table::Rows;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write;

const CRITICALITIES: [(Criticality, &str); 3] = [
    (Criticality::Optional, "optional"),
    (Criticality::Normal, "normal"),
    (Criticality::Compulsory, "compulsory"),
];

/// Jobs of one criticality: all, and those that ran.
fn by_criticality(run: &Run) -> Vec<(&'static str, u64, u64)> {
    let mut ran = vec![false; run.graph().len() as usize];
    run.spans().iter().for_each(|span| ran[span.node as usize] = true);
    let of = |(criticality, name): (Criticality, &'static str)| {
        let those = (0..run.graph().len()).filter(|&node| run.criticality(node) == criticality);
        let (all, done) =
            those.fold((0, 0), |(all, done), node| (all + 1, done + u64::from(ran[node as usize])));
        (name, all, done)
    };
    CRITICALITIES.into_iter().map(of).filter(|&(_, all, _)| all > 0).collect()
}

/// What was dropped, for `--json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Dropped {
    /// Their deadline passed.
    missed: u64,
    /// The emergency policy shed them.
    shed: u64,
    /// A predecessor was dropped, or failed.
    abandoned: u64,
    /// They ran, and their I/O failed.
    failed: u64,
    emergencies: u64,
    by_criticality: Vec<Critical>,
}

/// The jobs of one criticality.
#[derive(Serialize, JsonSchema)]
struct Critical {
    criticality: &'static str,
    jobs: u64,
    ran: u64,
}

/// What was dropped; none for a run without deadlines.
pub(super) fn dropped(run: &Run) -> Option<Dropped> {
    if !run.schedule().has_deadlines() && !run.has_failures() {
        return None;
    }
    let dropped = run.dropped();
    let of = |(criticality, jobs, ran)| Critical { criticality, jobs, ran };
    Some(Dropped {
        missed: dropped.missed,
        shed: dropped.shed,
        abandoned: dropped.abandoned,
        failed: dropped.failed,
        emergencies: dropped.emergencies,
        by_criticality: by_criticality(run).into_iter().map(of).collect(),
    })
}

/// The text of a run: its kinds of work if there are several, the dropped jobs, and the proof.
///
/// `believed`: the events are another program's own word.
pub(super) fn text(
    run: &Run,
    profile: &Profile,
    proof: Result<(), Flaw>,
    believed: bool,
) -> String {
    let mut text = String::new();
    if profile.kinds.len() > 1 {
        let kinds = Kind::all(profile);
        let kinds = Rows::new(&kinds, Nanos::ZERO);
        text.push_str(&table::rows(&kinds, usize::MAX, &[]));
    }
    if run.schedule().has_deadlines() || run.has_failures() {
        let dropped = run.dropped();
        text.push_str(&format_dropped(run, dropped.jobs()));
    }
    let proved = match proof {
        Err(_) => "not proved",
        Ok(()) if run.dropped().jobs() > 0 => {
            "every other job ran once, after its predecessors, and none that depends on a dropped one"
        }
        Ok(()) if believed => {
            "by these events every job ran once, after its predecessors; that its work was done is not proved"
        }
        Ok(()) => "every job ran once, after its predecessors",
    };
    let _ = writeln!(text, "hash {:016X}: {proved}", run.graph().hash());
    text
}

fn format_dropped(run: &Run, jobs: u64) -> String {
    let schedlab_jobs::run::Dropped { missed, shed, abandoned, failed, emergencies } =
        run.dropped();
    let all = run.graph().len();
    let of = |(name, all, ran): (&str, u64, u64)| format!("{name} {ran} of {all}");
    let ran: Vec<String> = by_criticality(run).into_iter().map(of).collect();
    format!(
        "dropped {jobs} of {all} jobs: {missed} missed their deadline, {shed} were shed, {abandoned} waited for a \
         dropped or failed one; failed: {failed}; emergencies: {emergencies}\nran: {}\n",
        ran.join(", ")
    )
}
