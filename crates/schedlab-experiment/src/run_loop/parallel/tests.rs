//! Runs at the same time, over machines with scripted answers.

use super::*;
use crate::fake::Fake;
use crate::{Experiment, Plan, StoredRun, run_plan, runs_of};
use schedlab_model::MachineFacts;
use schedlab_workload::{Machine, MachineName, Offers, Outcome, Output, RunSpec};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const TWELVE: &str = "machine = [\"sim:cpus=1\", \"sim:cpus=2\"]\nrepeats = 3\nrecord = true\n\
    [workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n";

fn plan(text: &str) -> Plan {
    Plan::new(&Experiment::parse(text, Path::new("x.toml")).unwrap())
}

/// A machine whose figures depend on the spec alone.
fn fake() -> Fake<'static> {
    let mut fake = Fake::new();
    fake.time = |spec, _| spec.seed as f64 + spec.settings.len() as f64;
    fake.offers.parallel = true;
    fake
}

/// A machine that calls `begins` and `ends` around each run.
struct Watched<F> {
    inner: Fake<'static>,
    around: F,
}

impl<F: FnMut(bool)> Machine for Watched<F> {
    fn offers(&self) -> &Offers {
        self.inner.offers()
    }
    fn facts(&self) -> MachineFacts {
        self.inner.facts()
    }
    fn check(&self, spec: &RunSpec) -> Result<(), MachineError> {
        self.inner.check(spec)
    }
    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        (self.around)(true);
        let result = self.inner.run(spec, out);
        (self.around)(false);
        result
    }
}

/// The content of each file of each run, without how long it took.
fn content(results: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for run in runs_of(results).unwrap().runs {
        for entry in std::fs::read_dir(&run.folder).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            if path.ends_with("manifest.json") {
                let mut manifest: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                manifest["took_ns"] = 0.into();
                bytes = manifest.to_string().into_bytes();
            }
            let name = path.strip_prefix(results).unwrap().display().to_string();
            all.insert(name, bytes);
        }
    }
    all
}

#[test]
fn runs_at_the_same_time_store_what_runs_one_after_another_store() {
    let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plan = plan(TWELVE);
    let mut machine = fake();
    let mut machines = Machines::one(&mut machine);
    let serial = run_plan(&mut machines, &plan, one.path(), &|| false, &mut |_| ()).unwrap();
    let mut machines = Machines::made_by(&|_| Ok(Box::new(fake())));
    let mut told = Vec::new();
    let parallel = run_plan(&mut machines, &plan, many.path(), &|| false, &mut |p| {
        told.push(format!("{p:?}").split([' ', '{']).next().unwrap().to_owned());
    });
    assert_eq!(parallel.unwrap(), serial);
    assert_eq!((serial.done, serial.failed.len()), (12, 0));
    told.sort();
    assert_eq!(told, [vec!["Begins"; 12], vec!["Ended"; 12]].concat());
    let (one, many) = (content(one.path()), content(many.path()));
    assert!(one.keys().any(|name| name.ends_with("trace.dat")), "{:?}", one.keys());
    assert_eq!(one, many);
}

#[test]
fn a_stop_keeps_what_is_finished_and_the_rest_is_done_later() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(&TWELVE.replace("repeats = 3", "repeats = 40"));
    let stop: &'static AtomicBool = Box::leak(Box::default());
    let stopping = move |_: &MachineName| -> Result<Box<dyn Machine>, MachineError> {
        let mut fake = fake();
        fake.stops_at = Some((2, stop));
        Ok(Box::new(fake))
    };
    let mut machines = Machines::made_by(&stopping);
    let wanted = || stop.load(Ordering::Relaxed);
    let tally = run_plan(&mut machines, &plan, results.path(), &wanted, &mut |_| ()).unwrap();
    assert!(tally.stopped && tally.done >= 3 && tally.done < plan.runs.len(), "{tally:?}");
    let stored = runs_of(results.path()).unwrap().runs;
    assert_eq!(stored.len(), tally.done);
    let whole = stored.iter().filter(|run| run.is_whole()).count();
    let mut machines = Machines::made_by(&|_| Ok(Box::new(fake())));
    let rest = run_plan(&mut machines, &plan, results.path(), &|| false, &mut |_| ()).unwrap();
    assert_eq!((rest.skipped, rest.done), (whole, plan.runs.len() - whole));
    assert!(runs_of(results.path()).unwrap().runs.iter().all(StoredRun::is_whole));
}

#[test]
fn a_run_that_others_would_disturb_is_alone() {
    let results = tempfile::tempdir().unwrap();
    let text = TWELVE.replace("sim:cpus=2", "host").replace("repeats = 3", "repeats = 10");
    // How many runs are under way, and those of the host among them.
    let under_way: Arc<Mutex<(u32, u32)>> = Arc::default();
    let shared = Arc::clone(&under_way);
    let make = move |name: &MachineName| -> Result<Box<dyn Machine>, MachineError> {
        let (host, shared) = (u32::from(name.kind == "host"), Arc::clone(&shared));
        let around = move |begins: bool| {
            let mut now = shared.lock().unwrap();
            let (all, hosts) = *now;
            *now = if begins { (all + 1, hosts + host) } else { (all - 1, hosts - host) };
            assert!(now.1 == 0 || now.0 == 1, "{now:?}: a run of the host has company");
        };
        let mut inner = fake();
        inner.offers.parallel = host == 0;
        Ok(Box::new(Watched { inner, around }))
    };
    let mut machines = Machines::made_by(&make);
    let plan = plan(&text);
    let tally = run_plan(&mut machines, &plan, results.path(), &|| false, &mut |_| ()).unwrap();
    assert_eq!((tally.done, tally.failed.len()), (40, 0));
    assert_eq!(*under_way.lock().unwrap(), (0, 0));
}

#[test]
fn failures_are_told_in_the_order_of_the_plan_and_end_it_only_where_all_fail() {
    let plan = plan(TWELVE);
    let all = |name: &MachineName| -> Result<Box<dyn Machine>, MachineError> {
        let mut fake = fake();
        fake.refuses = |_| Some("it was told to".to_owned());
        fake.offers.machine = name.to_string();
        Ok(Box::new(fake))
    };
    let results = tempfile::tempdir().unwrap();
    let mut machines = Machines::made_by(&all);
    let error = run_plan(&mut machines, &plan, results.path(), &|| false, &mut |_| ()).unwrap_err();
    let first = format!("{} cannot run it: it was told to", plan.runs[0].machine);
    assert_eq!(error.to_string(), first);
    let some = |_: &MachineName| -> Result<Box<dyn Machine>, MachineError> {
        let mut fake = fake();
        fake.refuses = |spec| (spec.repeat == 1).then(|| "it was told to".to_owned());
        Ok(Box::new(fake))
    };
    let mut machines = Machines::made_by(&some);
    let tally = run_plan(&mut machines, &plan, results.path(), &|| false, &mut |_| ()).unwrap();
    let failed = plan.runs.iter().filter(|run| run.spec.repeat == 1);
    let ids: Vec<&str> = failed.map(|run| run.id.as_str()).collect();
    assert_eq!((tally.done, ids.len()), (8, 4));
    let told: Vec<&str> =
        tally.failed.iter().map(|text| &text["hackbench ".len()..][..16]).collect();
    assert_eq!(told, ids);
}

#[test]
fn a_second_loop_on_the_same_folder_is_refused() {
    let results = tempfile::tempdir().unwrap();
    let plan = plan(TWELVE);
    let mut refused = Vec::new();
    let mut machines = Machines::made_by(&|_| Ok(Box::new(fake())));
    run_plan(&mut machines, &plan, results.path(), &|| false, &mut |p| {
        if matches!(p, Progress::Begins { .. }) && refused.is_empty() {
            let mut machines = Machines::made_by(&|_| Ok(Box::new(fake())));
            let again = run_plan(&mut machines, &plan, results.path(), &|| false, &mut |_| ());
            refused.push(again.unwrap_err().to_string());
        }
    })
    .unwrap();
    assert!(refused[0].contains(&format!("process {} (", std::process::id())), "{refused:?}");
}
