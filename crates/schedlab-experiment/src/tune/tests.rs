//! Tunings on a machine that is none: its time is a function of the settings.

use super::*;
use crate::fake::Fake;
use schedlab_workload::RunSpec;

const TEXT: &str = "seed = 3\n[workload]\nname = \"hackbench\"\n\
    [[axis]]\nknob = \"slice\"\nrange = { from = \"0.1ms\", to = \"100ms\", count = 16, log = true }\n\
    [[axis]]\noption = \"x\"\nrange = { from = 1, to = 16, step = 1 }\n\
    [tune]\nbudget = 30\ngoals = [\"time_s\"]\ndefault = { x = 1 }\n";

fn parsed(text: &str) -> Experiment {
    Experiment::parse(text, Path::new("x.toml")).unwrap()
}

fn tuned(text: &str, time: fn(&RunSpec, usize) -> f64, results: &Path) -> (Tuned, usize) {
    let experiment = parsed(text);
    let mut fake = Fake::new();
    fake.time = time;
    let tuning = experiment.tune.clone().unwrap();
    let mut machines = Machines::one(&mut fake);
    let found = tune(&mut machines, &experiment, &tuning, results, &|| false, &mut |_| ()).unwrap();
    (found, fake.ran.len())
}

fn slice_ms(spec: &RunSpec) -> f64 {
    let value = &spec.settings.iter().find(|s| s.knob == "slice").unwrap().value;
    value.parse::<schedlab_model::Nanos>().unwrap().0 as f64 / 1e6
}

/// Some percent, unlike from run to run.
fn noise(index: usize) -> f64 {
    1.0 + (index * 7_919 % 41) as f64 / 2_000.0
}

/// Best at 3 ms; 0.1 ms is twice as slow.
fn valley(spec: &RunSpec, index: usize) -> f64 {
    (1.0 + 0.3 * ((slice_ms(spec) / 3.0).log10()).powi(2)) * noise(index)
}

#[test]
fn a_valley_is_found_and_its_gain_is_confirmed_with_fresh_runs() {
    let results = tempfile::tempdir().unwrap();
    let (found, ran) = tuned(TEXT, valley, results.path());
    assert_eq!(found.verdict, Verdict::Gain, "{:#?}", found.sentences());
    let best = found.best.as_ref().unwrap();
    let slice: schedlab_model::Nanos = best.point["slice"].parse().unwrap();
    assert!((1_000_000..=10_000_000).contains(&slice.0), "{best:?}");
    assert_eq!(ran, 30 + 2 * found.pairs);
    let told = found.sentences();
    assert!(told[0].contains("beats the default (slice=100us x=1)"), "{told:#?}");
    assert!(told[1].contains("better in time_s"), "{told:#?}");
    // The slice matters, so settings far from the best are outside; x does nothing.
    let [slice, x] = &found.regions[..] else { panic!("{:?}", found.regions) };
    assert!(slice.values < slice.of, "{slice:?}");
    assert_eq!((x.axis.as_str(), x.values), ("x", x.of), "{x:?}");
    let sentence = told.iter().find(|sentence| sentence.starts_with("By the model")).unwrap();
    assert!(sentence.contains("x at any value"), "{sentence}");
    // The same again finds all runs stored.
    let (again, ran) = tuned(TEXT, valley, results.path());
    assert_eq!((again, ran), (found, 0));
}

#[test]
fn noise_alone_beats_nothing() {
    let results = tempfile::tempdir().unwrap();
    let (found, _) = tuned(TEXT, |_, index| noise(index), results.path());
    assert_eq!(found.verdict, Verdict::NoGain, "{:#?}", found.sentences());
    assert!(
        found.sentences()[0]
            .starts_with("No setting is shown to beat the default (slice=100us x=1)")
    );
    let shown = found.matters.iter().any(|m| m.p <= 0.05);
    assert!(
        shown || found.regions.is_empty(),
        "on a flat function no region is claimed: {found:#?}"
    );
}

#[test]
fn a_limit_keeps_the_search_within_its_bounds() {
    // More than 1 ms takes too long.
    let text = TEXT.replace(
        "[tune]",
        "[hooks]\nmetric = [\"true\"]\n[tune]\nlimits = [\"switches_involuntary < 1000\"]",
    );
    let results = tempfile::tempdir().unwrap();
    let (found, _) = tuned(&text, valley, results.path());
    assert_eq!(found.verdict, Verdict::Gain, "{:#?}", found.sentences());
    assert!(found.limits[0].holds);
    assert!(found.sentences().iter().any(|s| s.contains("switches_involuntary < 1000 holds")));
    let strict = text.replace("< 1000", "< 2");
    let results = tempfile::tempdir().unwrap();
    let (found, _) = tuned(&strict, valley, results.path());
    assert_eq!((found.verdict, found.keeps_limits), (Verdict::NoGain, false));
    let told = found.sentences();
    assert!(told[0].starts_with("No setting is expected to keep the limits; "), "{told:#?}");
}

#[test]
fn a_gain_below_the_margin_is_told_as_such() {
    let small = |spec: &RunSpec, index: usize| {
        (1.0 + (slice_ms(spec) / 3.0).log10().powi(2) / 100.0) * (1.0 + (noise(index) - 1.0) / 20.0)
    };
    let results = tempfile::tempdir().unwrap();
    let (found, _) = tuned(TEXT, small, results.path());
    assert_eq!(found.verdict, Verdict::Gain, "{:#?}", found.sentences());
    let told = found.sentences();
    assert!(told[0].ends_with(", but by less than your margin."), "{told:#?}");
}

#[test]
fn settings_that_are_refused_are_learnt_from() {
    let experiment = parsed(TEXT);
    let mut fake = Fake::new();
    fake.time = valley;
    fake.refuses = |spec| (slice_ms(spec) > 10.0).then(|| "too long".to_owned());
    let results = tempfile::tempdir().unwrap();
    let tuning = experiment.tune.clone().unwrap();
    let mut machines = Machines::one(&mut fake);
    let found =
        tune(&mut machines, &experiment, &tuning, results.path(), &|| false, &mut |_| ()).unwrap();
    assert!(found.failed > 0 && found.failed < 15, "{}", found.failed);
    assert_eq!(found.verdict, Verdict::Gain, "{:#?}", found.sentences());
}

#[test]
fn mistakes_in_the_table_are_told_at_their_places() {
    let wrong = "[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\"]\n\
        [[axis]]\noption = \"loops\"\nvalues = [1, 2]\n[tune]\n\
        budget = 2\nmethod = \"genetic\"\ngoals = [\"time_ss\"]\nlimits = [\"time_s = 3\"]\n\
        default = { slice = \"2ms\", x = 1 }\n";
    let error = Experiment::parse(wrong, Path::new("x.toml")).unwrap_err().to_string();
    for part in [
        "line 10, column 10: tune.budget: expected a whole number from 4",
        "expected one of model, grid, random",
        "unknown metric 'time_ss'",
        "invalid limit 'time_s = 3': use METRIC < VALUE",
        "unknown value '2ms' of the axis: use 1ms",
        "unknown axis 'x'",
        "'loops' sets how much work hackbench does",
    ] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
}

/// Whether a run is a short one.
fn is_short(spec: &RunSpec) -> bool {
    let schedlab_workload::WorkloadSpec::Builtin { options, .. } = &spec.workload else {
        return false;
    };
    options.get("loops").is_some_and(|loops| loops == "1")
}

const SCREENED: &str = "screen = { options = { loops = 1 }, budget = 24 }\n";

#[test]
fn short_runs_search_where_a_pilot_shows_that_they_rank_alike() {
    let results = tempfile::tempdir().unwrap();
    let text = format!("{TEXT}{SCREENED}");
    let time = |spec: &RunSpec, index: usize| match is_short(spec) {
        true => 0.1 * valley(spec, index),
        false => valley(spec, index),
    };
    let (found, _) = tuned(&text, time, results.path());
    let screening = found.screening.clone().unwrap();
    assert!(screening.is_used && screening.at_least.unwrap() > 0.5, "{screening:?}");
    assert!(!screening.handed_on.is_empty());
    assert_eq!(found.verdict, Verdict::Gain, "{:#?}", found.sentences());
    assert!(found.sentences().iter().any(|text| text.contains("The cheaper runs rank")));
    // Short runs are no measurements of the search, and none of the fresh runs is short.
    let runs = runs_of(results.path()).unwrap().runs;
    let dear = runs.iter().filter(|run| !is_short(&run.manifest.spec)).count();
    assert_eq!((found.trials, dear), (30, 30 + 2 * found.pairs));
    let (again, ran) = tuned(&text, |_, _| panic!("all is stored"), results.path());
    assert_eq!((again, ran), (found, 0));
}

#[test]
fn short_runs_that_rank_otherwise_are_not_used() {
    let results = tempfile::tempdir().unwrap();
    let text = format!("{TEXT}{SCREENED}");
    let time = |spec: &RunSpec, index: usize| match is_short(spec) {
        true => 1.0 / valley(spec, index),
        false => valley(spec, index),
    };
    let (found, _) = tuned(&text, time, results.path());
    let screening = found.screening.as_ref().unwrap();
    assert!(!screening.is_used && screening.handed_on.is_empty(), "{screening:?}");
    assert_eq!(found.verdict, Verdict::Gain, "{:#?}", found.sentences());
    assert!(found.sentences().iter().any(|text| text.ends_with("they were not used.")));
}

#[test]
fn a_screen_names_what_makes_it_cheaper() {
    let error =
        Experiment::parse(&format!("{TEXT}screen = {{ budget = 9 }}\n"), Path::new("x.toml"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("name what makes these runs cheaper"), "{error}");
}
