//! Experiments whose right answer is known: whether a person may act on the first sentence of the answer.

mod ten;

use crate::fake::{Fake, has};
use crate::report::answer;
use crate::tune::{Tuned, Verdict, tune};
use crate::{Experiment, LoopError, Machines, StoredRun, run_experiment, runs_of};
use schedlab_stats::Random;
use schedlab_workload::{RunSpec, WorkloadSpec};
use std::path::Path;

/// An experiment on a fake machine, with its results.
struct Case<'f> {
    fake: Fake<'f>,
    folder: tempfile::TempDir,
}

impl Case<'_> {
    fn new() -> Self {
        Self { fake: Fake::new(), folder: tempfile::tempdir().unwrap() }
    }

    /// A machine whose runs take this time.
    fn taking(time: fn(&RunSpec, usize) -> f64) -> Self {
        let mut case = Self::new();
        case.fake.time = time;
        case
    }

    /// Does the runs that are left, and answers.
    fn answer(&mut self, text: &str) -> Vec<String> {
        let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
        let mut machines = Machines::one(&mut self.fake);
        let results = self.folder.path();
        run_experiment(&mut machines, &experiment, results, &|| false, &mut |_| ()).unwrap();
        let stored = runs_of(results).unwrap();
        answer::lines(&experiment, &stored.runs, &stored.looks)
    }

    fn runs(&self) -> Vec<StoredRun> {
        runs_of(self.folder.path()).unwrap().runs
    }

    fn tune(&mut self, text: &str) -> Result<Tuned, LoopError> {
        let experiment = Experiment::parse(text, Path::new("x.toml")).unwrap();
        let tuning = experiment.tune.clone().unwrap();
        let mut machines = Machines::one(&mut self.fake);
        tune(&mut machines, &experiment, &tuning, self.folder.path(), &|| false, &mut |_| ())
    }
}

/// 100, 150 (the default) and 200 operations per second, and a quarter of a percent of noise.
fn throughput(hook: &str) -> String {
    let script = "case {w} in 1) b=100000;; 2) b=150000;; 3) b=200000;; esac; \
        echo ops_per_s $((b + $(od -An -N1 -tu1 /dev/urandom)))";
    format!(
        "repeats = 3\nwarm_up = 0\nretries = 0\nmeasure = [\"ops_per_s\"]\n[[workload]]\nlabel = \"db\"\n\
         command = [\"true\"]\n[[axis]]\nhook = \"w\"\nvalues = [\"2\", \"1\", \"3\"]\n[hooks]\n{}\n\
         [tune]\nbudget = 12\nconfirm = 10\n",
        hook.replace("COMMAND", &format!("[\"sh\", \"-c\", \"{script}\"]"))
    )
}

#[test]
fn a_metric_without_a_direction_is_a_question_and_with_one_the_best_is_found() {
    let open = throughput("metric = COMMAND");
    let told = throughput(
        "metric = { command = COMMAND, name = \"ops_per_s\", unit = \"1/s\", better = \"higher\" }",
    );
    let mut case = Case::new();
    let first = case.answer(&open).swap_remove(0);
    assert!(first.starts_with("Is more or less ops_per_s better?"), "{first}");
    // The same runs, read with the direction.
    let runs = case.fake.ran.len();
    let first = case.answer(&told).swap_remove(0);
    assert_eq!(case.fake.ran.len(), runs);
    assert!(first.contains("3 is better (+33."), "{first}");
    assert!(first.contains("1 is worse (-33."), "{first}");

    let question = Case::new().tune(&open).unwrap_err();
    assert!(matches!(question, LoopError::Question(_)), "{question}");
    let tuned = Case::new().tune(&told).unwrap();
    assert!(tuned.sentences()[0].starts_with("w=3 beats the default (w=2)"), "{tuned:#?}");
}

#[test]
fn the_line_of_a_hook_may_tell_the_direction() {
    let text = throughput("metric = COMMAND").replace("urandom)))", "urandom))) 1/s higher");
    let first = Case::new().answer(&text).swap_remove(0);
    assert!(first.contains("3 is better (+33."), "{first}");
    assert_eq!(Case::new().tune(&text).unwrap().verdict, Verdict::Gain);
}

#[test]
fn the_optimum_of_a_bowl_whose_score_is_better_when_lower_is_the_headline() {
    let script = "a={a}; b={b}; n=$(od -An -N1 -tu1 /dev/urandom); \
        echo score $((10000 + 150 * (a - 7) * (a - 7) + 250 * (b - 3) * (b - 3) + n))";
    let text = format!(
        "warm_up = 0\nretries = 0\nmeasure = [\"score\"]\n[[workload]]\nlabel = \"w\"\ncommand = [\"true\"]\n\
         [[axis]]\nhook = \"a\"\nvalues = [\"1\", \"2\", \"4\", \"6\", \"7\", \"8\", \"10\", \"14\"]\n\
         [[axis]]\nhook = \"b\"\nvalues = [\"0\", \"1\", \"2\", \"3\", \"4\", \"5\", \"6\"]\n[hooks]\n\
         metric = {{ command = [\"sh\", \"-c\", \"{script}\"], name = \"score\", better = \"lower\" }}\n\
         [tune]\nbudget = 40\nconfirm = 10\n"
    );
    let tuned = Case::new().tune(&text).unwrap();
    let first = tuned.sentences().swap_remove(0);
    assert!(first.starts_with("a=7 b=3 beats the default (a=1 b=0)"), "{first}");
}

#[test]
fn values_that_are_no_numbers_are_errors_of_the_run() {
    for value in ["abc", "NaN", "1e400"] {
        let text = format!(
            "[[workload]]\ncommand = [\"true\"]\n[hooks]\nmetric = [\"echo\", \"score {value}\"]\n"
        );
        let experiment = Experiment::parse(&text, Path::new("x.toml")).unwrap();
        let mut case = Case::new();
        let mut machines = Machines::one(&mut case.fake);
        let error =
            run_experiment(&mut machines, &experiment, case.folder.path(), &|| false, &mut |_| ());
        let error = error.unwrap_err().to_string();
        assert!(error.contains("not a finite number"), "{value}: {error}");
        let failure = case.runs().swap_remove(0).failure().unwrap();
        assert!(failure.contains("not a finite number"), "the attempt is kept: {failure}");
    }
}

/// An experiment of a knob with two values, and what a test adds to it.
fn slices(more: &str) -> String {
    format!(
        "retries = 0\n{more}\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\n\
         values = [\"1ms\", \"2ms\"]\n"
    )
}

#[test]
fn runs_that_all_fail_are_no_answer_and_are_done_again() {
    let mut case = Case::new();
    case.fake.exit_code = |_, _| 3;
    let told = case.answer(&slices("repeats = 3"));
    assert_eq!(told.len(), 1, "nothing is claimed: {told:#?}");
    assert!(told[0].contains("no verdict. 3 of 3 attempts failed against 3 of 3"), "{told:#?}");
    assert!(told[0].contains("exit code 3"), "{told:#?}");
    assert_eq!(case.fake.ran.len(), 6);
    // The cause is gone: the same experiment does its runs again, and what failed stays counted.
    case.fake.exit_code = |_, _| 0;
    case.fake.time = |spec, n| crate::fake::jitter(n) * if has(spec, "2ms") { 2.0 } else { 1.0 };
    let told = case.answer(&slices("repeats = 3"));
    assert_eq!(case.fake.ran.len(), 12);
    assert!(told[0].contains("worse in time_s"), "{told:#?}");
    assert!(told[0].contains("3 of 6 attempts failed against 3 of 6"), "{told:#?}");
    assert!(case.runs().iter().all(|run| run.is_whole() && run.manifest.failed_before == 1));
    let kept = std::fs::read_dir(case.folder.path().join("runs")).unwrap();
    let is_kept = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(".failed-");
    assert_eq!(kept.filter(|entry| is_kept(&entry.as_ref().unwrap().file_name())).count(), 6);
    case.answer(&slices("repeats = 3"));
    assert_eq!(case.fake.ran.len(), 12, "nothing is left to do");
}

#[test]
fn a_setting_that_fails_more_often_has_no_verdict_until_failures_may_rank_last() {
    let mut case = Case::new();
    // Every second run under the second slice fails; the others are faster.
    case.fake.exit_code = |spec, n| i32::from(has(spec, "2ms") && n % 4 < 2);
    case.fake.time = |spec, n| crate::fake::jitter(n) * if has(spec, "2ms") { 0.9 } else { 1.0 };
    let told = case.answer(&slices("repeats = 12"));
    assert!(told[0].contains("no verdict. 0 of 12 attempts failed against "), "{told:#?}");
    assert!(told[0].contains("The second side fails more often"), "{told:#?}");
    case.fake.exit_code = |spec, _| i32::from(has(spec, "2ms"));
    let told = case.answer(&slices("repeats = 12\nallow_failures = true"));
    assert!(!told[0].contains("no verdict") && !told[0].contains("better in"), "{told:#?}");
    assert!(!told.iter().any(|text| text.contains("the best")), "{told:#?}");
}

#[test]
fn a_treatment_that_was_not_in_force_is_no_treatment() {
    // A program beside the runs that dies at once, and one that may end.
    let during = |program: &str, more: &str| {
        let hooks = format!("[hooks]\nduring = [\"sh\", \"-c\", \"{program}\"]\n{more}");
        slices("repeats = 2") + &hooks
    };
    for (program, more, says) in [
        ("scx_that_nobody_installed", "", Some("ended before the run did, with 127")),
        ("exit 0", "", Some("ended before the run did, with 0")),
        ("exit 0", "may_end = true", None),
        ("sleep 60", "", None),
    ] {
        let told = Case::new().answer(&during(program, more));
        match says {
            Some(says) => {
                assert!(told[0].contains("no verdict") && told[0].contains(says), "{told:#?}");
            }
            None => assert!(!told[0].contains("no verdict"), "{program}: {told:#?}"),
        }
    }
    for lost in ["sched-ext-changed", "knob-changed", "knob-adjusted", "speed-off"] {
        let mut case = Case::new();
        case.fake.warns = Some(lost);
        let told = case.answer(&slices("repeats = 2"));
        let says = format!("the test asks for {lost}");
        assert!(told[0].contains("no verdict") && told[0].contains(&says), "{told:#?}");
    }
}

#[test]
fn runs_that_were_cut_off_are_bounds_and_no_mean() {
    let mut case = Case::new();
    case.fake.censors = |spec| has(spec, "2ms");
    // The limit ends each run of the second slice after 0.3 s.
    case.fake.time = |spec, n| crate::fake::jitter(n) * if has(spec, "2ms") { 0.3 } else { 0.1 };
    let told = case.answer(&slices("repeats = 8\ntime_limit = \"300ms\""));
    assert!(told[0].contains("worse in time_s: at least "), "{told:#?}");
    assert!(!told[0].contains(".."), "a bound has one end: {told:#?}");
    // The slower side is the first one: the change is at most so much.
    let mut case = Case::new();
    case.fake.censors = |spec| has(spec, "1ms");
    case.fake.time = |spec, n| crate::fake::jitter(n) * if has(spec, "1ms") { 0.3 } else { 0.1 };
    let told = case.answer(&slices("repeats = 8\ntime_limit = \"300ms\""));
    assert!(told[0].contains("better in time_s: at most -"), "{told:#?}");
    // Runs of both sides: nothing is known of any size.
    let mut case = Case::new();
    case.fake.censors = |_| true;
    case.fake.time = |_, n| 0.3 * crate::fake::jitter(n);
    let told = case.answer(&slices("repeats = 8\ntime_limit = \"300ms\""));
    assert!(!told[0].contains('%') && !told[0].contains("times"), "{told:#?}");
}

#[test]
fn what_was_cut_off_is_named_where_nothing_is_compared() {
    let text =
        "repeats = 8\nretries = 0\ntime_limit = \"300ms\"\n[workload]\nname = \"hackbench\"\n";
    let mut case = Case::taking(|_, n| 0.3 * crate::fake::jitter(n));
    case.fake.censors = |_| true;
    let told = case.answer(text);
    assert_eq!(told, ["hackbench: time_s ≥ 300 ms: all 8 runs were cut off."]);
    case = Case::taking(|_, n| 0.1 * crate::fake::jitter(n));
    case.fake.censors = |spec| spec.repeat == 1;
    let told = case.answer(text);
    assert!(told[0].ends_with("of 7 runs. It leaves out 1 runs that were cut off."), "{told:#?}");
}

#[test]
fn a_load_that_some_runs_did_not_finish_is_no_point_of_a_curve() {
    fn groups(spec: &RunSpec) -> f64 {
        let WorkloadSpec::Builtin { options, .. } = &spec.workload else { panic!() };
        options["groups"].parse().unwrap()
    }
    let text = "repeats = 5\nretries = 0\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n\
        [[axis]]\noption = \"groups\"\nvalues = [1, 2, 8]\n";
    // What of eight groups finished would be the most in a second.
    let mut case = Case::taking(|_, n| crate::fake::jitter(n));
    case.fake.censors = |spec| groups(spec) > 2.0 && spec.repeat == 3;
    let told = case.answer(text);
    assert!(told[0].contains("the most 1/time_s are at 2"), "{told:#?}");
    assert!(told[0].contains("left out, since runs failed or were cut off: 8"), "{told:#?}");
    case.fake.censors = |_| true;
    case.folder = tempfile::tempdir().unwrap();
    let told = case.answer(text);
    assert!(told[0].contains("at no point all runs finished"), "{told:#?}");
}

#[test]
fn how_much_work_is_asked_for_is_no_contest_but_a_curve() {
    // More groups take longer, and do more in a second up to four of them.
    let mut case = Case::new();
    case.fake.time = |spec, n| {
        let WorkloadSpec::Builtin { options, .. } = &spec.workload else { panic!() };
        let groups: f64 = options["groups"].parse().unwrap();
        crate::fake::jitter(n) * (0.02 + 0.015 * groups + 0.02 * (groups - 4.0).max(0.0))
    };
    let text = "repeats = 5\nretries = 0\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n\
        [[axis]]\noption = \"groups\"\nvalues = [1, 2, 4, 8]\n";
    let told = case.answer(text);
    let first = &told[0];
    assert!(
        first.starts_with("hackbench, groups is how much is asked and no contest"),
        "{told:#?}"
    );
    assert!(first.contains("the most 1/time_s are at 4"), "{told:#?}");
    // Two groups do 1.4 times the work of one.
    assert!(first.contains("from 2 on the efficiency is below 80 %"), "{told:#?}");
    assert!(first.contains(": 71 % ["), "{told:#?}");
    for word in ["better", "worse", "settle", "winner", "best"] {
        assert!(!told.iter().any(|text| text.contains(word)), "{word}: {told:#?}");
    }
    // A command's parameter is a setting unless the file says otherwise.
    let jobs = "repeats = 5\nretries = 0\n[workload]\ncommand = [\"make\", \"-j{groups}\"]\n\
        [[axis]]\noption = \"groups\"\nKIND\nvalues = [1, 2]\n";
    case = Case::taking(|spec, n| {
        let WorkloadSpec::Command { argv } = &spec.workload else { panic!() };
        crate::fake::jitter(n) * if argv[1] == "-j2" { 0.6 } else { 1.0 }
    });
    let told = case.answer(&jobs.replace("KIND\n", ""));
    assert!(told[0].contains("better in time_s"), "{told:#?}");
    let told = case.answer(&jobs.replace("KIND", "kind = \"load\""));
    assert!(told[0].contains("no contest"), "{told:#?}");
}

#[test]
fn repeats_of_a_machine_that_repeats_itself_are_exact_for_their_seed() {
    let go = |time: fn(&RunSpec, usize) -> f64, repeatable: bool| {
        let mut case = Case::taking(time);
        case.fake.offers.repeatable = repeatable;
        case.answer(&slices("repeats = 4")).swap_remove(0)
    };
    let slower = |spec: &RunSpec, _: usize| if has(spec, "2ms") { 1.2 } else { 1.0 };
    let told = go(slower, true);
    assert!(told.contains("worse in time_s") && told.contains("exact for this seed"), "{told}");
    // On a host four equal values are ties, and too few.
    let told = go(slower, false);
    assert!(told.contains("undecided in time_s"), "{told}");
    let little = |spec: &RunSpec, _: usize| if has(spec, "2ms") { 1.02 } else { 1.0 };
    let told = go(little, true);
    assert!(told.contains("undecided") && told.contains("Vary the seed"), "{told}");
}

#[test]
fn sides_that_did_not_run_interleaved_are_lower_or_higher() {
    let time = |spec: &RunSpec, n: usize| {
        crate::fake::jitter(n) * if has(spec, "2ms") { 1.3 } else { 1.0 }
    };
    let told = Case::taking(time).answer(&slices("repeats = 8\norder = \"listed\""));
    assert!(told[0].contains("time_s is higher: +"), "{told:#?}");
    assert!(told[0].contains("drift is included"), "{told:#?}");
    assert!(!told.iter().any(|text| text.contains("at most 5 %")), "{told:#?}");
    for order in ["interleaved", "shuffled"] {
        let told = Case::taking(time).answer(&slices(&format!("repeats = 8\norder = \"{order}\"")));
        assert!(told[0].contains("worse in time_s"), "{order}: {told:#?}");
    }
}

#[test]
fn a_change_that_is_shown_and_small_is_below_the_margin() {
    let time = |spec: &RunSpec, n: usize| {
        (1.0 + (n * 7 % 11) as f64 / 10_000.0) * if has(spec, "2ms") { 0.98 } else { 1.0 }
    };
    let told = Case::taking(time).answer(&slices("repeats = 8"));
    assert!(told[0].contains("better, but below your margin of 5 %, in time_s"), "{told:#?}");
}

#[test]
fn a_regression_that_is_a_tail_is_mixed_and_the_slow_runs_are_counted() {
    // Every fifth run of the second slice takes twice as long; the others are 3 % faster.
    let time = |spec: &RunSpec, n: usize| {
        let spike = if spec.repeat.is_multiple_of(5) { 2.0 } else { 0.97 };
        (1.0 + (n * 7 % 11) as f64 / 1_000.0) * if has(spec, "2ms") { spike } else { 1.0 }
    };
    let told = Case::taking(time).answer(&slices("repeats = 40"));
    assert!(told[0].contains("mixed in time_s"), "{told:#?}");
    assert!(told[0].contains("slow runs 0 of 40 against 8 of 40"), "{told:#?}");
    assert!(told[0].contains("the mean by +"), "{told:#?}");
}

#[test]
fn two_metrics_that_contradict_each_other_are_mixed() {
    let script = "case {w} in 1) a=100000; b=100000;; 2) a=120000; b=130000;; esac; \
        n=$(od -An -N1 -tu1 /dev/urandom); \
        echo wakeup_latency_ns_p99 $((a + n)); echo requests_per_s $((b + n))";
    let text = format!(
        "repeats = 5\nretries = 0\n[workload]\nname = \"schbench\"\n[[axis]]\nhook = \"w\"\nvalues = [1, 2]\n\
         [hooks]\nmetric = [\"sh\", \"-c\", \"{script}\"]\n"
    );
    let told = Case::new().answer(&text);
    assert!(
        told[0].contains("mixed: worse in wakeup_latency_ns_p99, better in requests_per_s"),
        "{told:#?}"
    );
}

#[test]
fn more_cpu_time_is_a_cost_and_not_slower() {
    // On a busy machine the time varies by half of it; the CPU time that was stored does not.
    let script = "case {w} in 1) b=40000;; 2) b=50000;; esac; n=$(od -An -N1 -tu1 /dev/urandom); \
        echo cpu_s $((b + n))";
    let text = format!(
        "repeats = 8\nretries = 0\n[workload]\ncommand = [\"true\"]\n[[axis]]\nhook = \"w\"\nvalues = [1, 2]\n\
         [hooks]\nmetric = [\"sh\", \"-c\", \"{script}\"]\n"
    );
    // Also where the file names the time alone.
    for measure in ["", "measure = [\"time_s\"]\n"] {
        let mut case = Case::taking(|_, n| 0.06 + (n * 37 % 101) as f64 / 1_000.0);
        let told = case.answer(&format!("{measure}{text}"));
        assert!(told[0].contains("undecided in time_s"), "{told:#?}");
        assert!(told[0].contains("uses 25 % more CPU time"), "{told:#?}");
        assert!(!told[0].contains("slower") && !told[0].contains("worse"), "{told:#?}");
    }
}

#[test]
fn what_was_busy_before_the_runs_is_taken_out_where_the_file_names_it() {
    // Each CPU that is busy before a run makes it 20 % slower, and the second slice 8 %.
    let go = |more: &str| {
        let mut case = Case::new();
        case.fake.busy = |n| (n * 7 % 11) as f64 / 5.0;
        case.fake.time = |spec, n| {
            let busy = (n * 7 % 11) as f64 / 5.0;
            let own = 1.0 + (n * 13 % 17) as f64 / 1_000.0;
            own * (0.2 * busy).exp() * if has(spec, "2ms") { 1.08 } else { 1.0 }
        };
        case.answer(&slices(&format!("repeats = 20\n{more}"))).swap_remove(0)
    };
    let plain = go("");
    assert!(!plain.contains("worse in time_s"), "{plain}");
    let told = go("adjust = [\"load_before\"]");
    assert!(told.contains("worse in time_s: +") && told.contains("[+"), "{told}");
    assert!(told.contains(", adjusted for load_before"), "{told}");
    // Runs that are there already did not look before: nothing is adjusted.
    let mut case = Case::taking(|_, n| crate::fake::jitter(n));
    case.answer(&slices("repeats = 10"));
    let told = case.answer(&slices("repeats = 10\nadjust = [\"load_before\"]"));
    assert!(!told[0].contains("adjusted"), "{told:#?}");
}

/// How the run of number `n` varies, on a logarithmic scale, under a model of noise.
fn noise(model: &str, n: usize) -> f64 {
    let random = |n: usize| Random::new(n as u64 * 7919 + 1);
    let normal = random(n).normal();
    let unit = random(n + 100_000).unit();
    match model {
        "norm" => 0.03 * normal,
        "heavy" if unit < 0.1 => 0.01 * normal - 0.3 * (unit * 10.0).ln(),
        "heavy" => 0.01 * normal,
        "step" => 0.01 * normal + if n % 40 < 20 { 0.0 } else { 0.2 },
        "cauchy" => 0.01 * (std::f64::consts::PI * (unit - 0.5)).tan(),
        "bimodal" => 0.005 * normal + if unit < 0.5 { 0.0 } else { 0.15 },
        "ar" => (0..=n).fold(0.0, |last, at| 0.95 * last + 0.01 * random(at).normal()),
        "drift" => 0.005 * n as f64 + 0.01 * normal,
        "disc" => 0.1 * (unit * 1.3).floor(),
        "ident" => 0.0,
        "tiny" => 0.002 * normal,
        other => panic!("{other}"),
    }
}

#[test]
fn a_planted_change_is_found_under_each_model_of_noise_and_none_is_invented() {
    let models =
        ["norm", "heavy", "cauchy", "bimodal", "ar", "drift", "disc", "ident", "step", "tiny"];
    for (model, percent) in models.into_iter().flat_map(|model| [(model, 0), (model, 10)]) {
        let mut case = Case::taking(|spec, n| {
            let WorkloadSpec::Command { argv } = &spec.workload else { panic!() };
            let effect: f64 = argv[2].parse().unwrap();
            noise(&argv[1], n).exp() * (1.0 + effect / 100.0)
        });
        let told = case.answer(&format!(
            "repeats = 40\nretries = 0\nmeasure = [\"time_s\"]\n[workload]\n\
             command = [\"scores\", \"{model}\", \"{{effect}}\"]\n[[axis]]\noption = \"effect\"\n\
             values = [\"0\", \"{percent}.0\"]\n"
        ));
        let first = &told[0];
        assert!(!first.contains("better in"), "{model}, {percent} %: {first}");
        // Where a mean does not exist, it may contradict the typical run.
        let found = first.contains("worse in time_s: +") || model == "cauchy";
        assert!(found || percent == 0, "{model}, {percent} %: {first}");
        assert!(percent > 0 || !first.contains("worse in"), "{model}: {first}");
    }
}

#[test]
fn what_the_treatment_may_change_cannot_be_adjusted_for() {
    let text = slices("adjust = [\"run_delay_s\"]");
    let error = Experiment::parse(&text, Path::new("x.toml")).unwrap_err().to_string();
    assert!(error.contains("adjust: expected one of load_before, steal"), "{error}");
    assert!(error.contains("takes its effect away"), "{error}");
}
