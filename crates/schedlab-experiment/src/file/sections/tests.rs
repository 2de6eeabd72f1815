//! The tables of a file, key by key: what they mean, their bounds, and what excludes what.

use super::super::FileError;
use super::*;

const LOAD: &str = "[workload]\nname = \"hackbench\"\n";
const SLICE: &str = "[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n";

fn parse(text: &str) -> Result<Experiment, Vec<String>> {
    match Experiment::parse(text, Path::new("x.toml")) {
        Ok(experiment) => Ok(experiment),
        Err(FileError::Wrong { mistakes, .. }) => {
            Err(mistakes.iter().map(ToString::to_string).collect())
        }
        Err(other) => panic!("{other}"),
    }
}

/// A file with these lines before its load.
fn with(head: &str) -> Result<Experiment, Vec<String>> {
    parse(&format!("{head}\n{LOAD}"))
}

/// The only mistake of such a file; none where it is right.
fn wrong(head: &str) -> Option<String> {
    let mistakes = with(head).err()?;
    assert_eq!(mistakes.len(), 1, "{mistakes:#?}");
    Some(mistakes[0].clone())
}

/// That the file has a mistake which says this.
#[track_caller]
fn refused(head: &str, what: &str) {
    let found = wrong(head).unwrap_or_else(|| panic!("{head} is no mistake"));
    assert!(found.contains(what), "{head}: {found}");
}

#[test]
fn what_a_file_leaves_out_has_its_usual_value() {
    let file = with("").unwrap();
    assert_eq!((file.title.as_str(), file.question.as_str()), ("x", ""));
    assert_eq!((file.boots, file.warm_up, file.retries, file.seed), (1, 0, 1, 1));
    assert_eq!((file.hosts, file.time_limit, file.noise), (Hosts::Apart, None, None));
    assert_eq!((file.stop, file.hooks, file.record), (StopRule::default(), Hooks::default(), None));
    assert!(file.draw.is_empty() && file.measure.is_empty() && file.settings.is_empty());
    assert!(file.tune.is_none() && file.short.is_none() && file.claims.is_empty());
}

#[test]
fn each_key_is_taken_over() {
    let file = with(
        "name = \"a-b_1.0\"\ntitle = \"A\"\nquestion = \"Why?\"\nrepeats = 7\nboots = 2\nwarm_up = 3\n\
         retries = 0\nseed = 9\norder = \"shuffled\"\nhosts = \"blocks\"\ntime_limit = \"3s\"\nnoise = 0.02\n\
         measure = [\"time_s\"]\ndraw = [\"map\", \"curves\", \"switches\", \"waiting\"]\nrecord = true\n\
         knobs = { slice = \"1ms\", autogroup = 0 }\n",
    )
    .unwrap();
    assert_eq!(
        (file.name.as_str(), file.title.as_str(), &*file.question),
        ("a-b_1.0", "A", "Why?")
    );
    assert_eq!((file.repeats, file.boots, file.warm_up, file.retries, file.seed), (7, 2, 3, 0, 9));
    assert_eq!((file.order, file.hosts), (Order::Shuffled, Hosts::Blocks));
    assert_eq!(
        (file.time_limit, file.noise),
        (Some(schedlab_model::Nanos::from_millis(3_000)), Some(0.02))
    );
    let draw = [Drawing::Map, Drawing::Curves, Drawing::Switches, Drawing::Waiting];
    assert_eq!((file.measure, file.draw), (vec!["time_s".to_owned()], draw.to_vec()));
    assert_eq!(file.record, Some(RecordSpec::default()));
    let settings: Vec<_> = file.settings.iter().map(|s| (&*s.knob, &*s.value)).collect();
    assert_eq!(settings, [("autogroup", "0"), ("slice", "1ms")]);
    assert_eq!(with("order = \"listed\"").unwrap().order, Order::Listed);
    let machine = with("machine = \"sim:cpus=2\"").unwrap().machine;
    assert_eq!(machine.to_string(), "sim:cpus=2");
    refused("machine = \"sim:\"", "invalid setting '' of a machine");
}

#[test]
fn numbers_have_bounds() {
    for (key, least, most) in [
        ("repeats", 1_u64, 100_000_u64),
        ("boots", 1, 1_000),
        ("warm_up", 0, 1_000),
        ("retries", 0, 100),
        ("seed", 0, (1 << 63) - 1),
    ] {
        for fine in [least, most] {
            assert_eq!(wrong(&format!("{key} = {fine}")), None, "{key} = {fine}");
        }
        refused(&format!("{key} = {}", most + 1), &format!("from {least} to {most}"));
    }
    refused("repeats = 0", "repeats: expected a whole number from 1");
    refused("boots = 0", "boots: expected a whole number from 1");
}

#[test]
fn fractions_lie_between_nothing_and_one() {
    for number in ["0", "1", "-0.1", "1.5"] {
        refused(&format!("noise = {number}"), "noise: expected a fraction above 0 and below 1");
        let stop = format!("stop = {{ width = {number} }}");
        refused(&stop, "stop.width: expected a fraction between 0 and 1");
    }
    assert_eq!(with("noise = 0.5").unwrap().noise, Some(0.5));
    assert_eq!(with("stop = { width = 0.5 }").unwrap().stop.width, Some(0.5));
    refused("noise = \"much\"", "found the text");
}

#[test]
fn a_name_is_that_of_a_folder() {
    for name in ["", ".hidden", "a b", "a/b", "ä"] {
        refused(&format!("name = \"{name}\""), "use letters, digits, '-' and '_'");
    }
}

#[test]
fn a_stop_rule_has_a_width_or_looks() {
    let stop = |text: &str| with(&format!("stop = {{ {text} }}")).unwrap();
    let rule = stop("width = 0.02, budget = \"1h\", repeats_max = 9").stop;
    assert_eq!((rule.width, rule.repeats_max), (Some(0.02), Some(9)));
    assert_eq!(rule.budget, Some("1h".parse().unwrap()));
    let file = stop("looks = [6, 10]");
    assert_eq!(
        (file.repeats, file.stop.looks),
        (6, vec![6, 10]),
        "the first look is what runs get"
    );
    assert_eq!(with("repeats = 6\nstop = { looks = [6, 10] }").unwrap().repeats, 6);
    refused("repeats = 5\nstop = { looks = [6, 10] }", "begins with 6, which repeats must be");
    refused("stop = { looks = [6, 10], width = 0.1 }", "stop.looks: excludes width");
    refused("boots = 2\nstop = { looks = [6, 10] }", "stop.looks: excludes boots");
    refused("stop = { repeats_max = 9 }", "stop.repeats_max: has no effect without a width");
    refused("repeats = 5\nstop = { width = 0.1, repeats_max = 4 }", "from 5 to 100000");
    for looks in ["[10, 6]", "[6, 6]"] {
        refused(&format!("stop = {{ looks = {looks} }}"), "expected ascending whole numbers");
    }
    refused("stop = { looks = [1, 6] }", "from 2 to 100000");
    assert_eq!(wrong("stop = { looks = [2, 100000] }"), None);
}

#[test]
fn a_recording_is_wanted_or_described() {
    assert_eq!(with("record = false").unwrap().record, None);
    let record =
        with("record = { events = [\"sched\"], ring = \"8MiB\" }").unwrap().record.unwrap();
    assert_eq!((record.events, record.ring_bytes), (vec!["sched".to_owned()], 8 << 20));
    let record = with("record = {}").unwrap().record.unwrap();
    assert_eq!((record.events.len(), record.ring_bytes), (0, 0));
    refused("record = { ring = \"much\" }", "record.ring: ");
    refused("record = { ringg = \"8MiB\" }", "did you mean 'ring'?");
}

#[test]
fn hooks_are_programs_with_arguments() {
    let names = ["before", "after", "during", "ready", "metric"];
    let all = names.map(|name| format!("{name} = [\"{name}\", \"x\"]"));
    let hooks = with(&format!("hooks = {{ {} }}", all.join(", "))).unwrap().hooks;
    let found = [hooks.before, hooks.after, hooks.during, hooks.ready, hooks.metric];
    assert_eq!(found, names.map(|name| vec![name.to_owned(), "x".to_owned()]));
    assert_eq!(wrong("hooks = { during = [\"a\"] }"), None, "it may be ready at once");
}

#[test]
fn a_workload_is_ours_or_a_command() {
    let labels = |text: &str| -> Vec<String> {
        parse(text).unwrap().workloads.into_iter().map(|workload| workload.label).collect()
    };
    let command = "[workload]\ncommand = [\"/usr/bin/make\", \"-j\"]\n";
    assert_eq!(labels(command), ["make"]);
    assert_eq!(labels(&format!("{command}label = \"build\"\n")), ["build"]);
    for (text, what) in [
        ("[workload]\ncommand = []\n", "workload: needs either a name or a command"),
        ("[workload]\nname = \"cpu\"\ncommand = [\"x\"]\n", "needs either a name or a command"),
        ("[workload]\ncommand = [\"x\"]\noptions = { a = 1 }\n", "options in the array itself"),
        ("repeats = 1\n", "an experiment needs a [workload]"),
    ] {
        let found = parse(text).unwrap_err();
        assert!(found.len() == 1 && found[0].contains(what), "{text}: {found:?}");
    }
    let options =
        parse("[workload]\nname = \"cpu\"\noptions = { tasks = 2, work = \"1ms\" }\n").unwrap();
    let WorkloadSpec::Builtin { name, options } = &options.workloads[0].spec else {
        panic!("ours")
    };
    assert_eq!((name.as_str(), &*options["tasks"], &*options["work"]), ("cpu", "2", "1ms"));
}

#[test]
fn what_runs_beside_a_workload_has_a_label_of_its_own() {
    let beside = |text: &str| parse(&format!("{LOAD}beside = {text}\n"));
    let one = beside("{ name = \"cpu\" }").unwrap();
    let two = beside("[{ name = \"cpu\" }, { name = \"cpu\", label = \"a-b_1\" }]").unwrap();
    let labels = |experiment: &Experiment| -> Vec<String> {
        experiment.workloads[0].beside.iter().map(|beside| beside.label.clone()).collect()
    };
    assert_eq!(
        (labels(&one), labels(&two)),
        (vec!["cpu".to_owned()], vec!["cpu".to_owned(), "a-b_1".to_owned()])
    );
    for (text, what) in [
        ("[{ name = \"cpu\" }, { name = \"cpu\" }]", "two workloads have the name 'cpu'"),
        ("{ name = \"cpu\", label = \"a b\" }", "invalid label 'a b': use letters"),
        ("{ name = \"cpu\", label = \"machine\" }", "invalid label 'machine': metrics"),
        ("{ label = \"x\" }", "workload.beside: needs either a name or a command"),
    ] {
        let found = beside(text).unwrap_err();
        assert!(found.iter().any(|mistake| mistake.contains(what)), "{text}: {found:?}");
    }
}

#[test]
fn an_axis_concerns_workloads_that_are_there() {
    let axis =
        |text: &str| parse(&format!("{LOAD}beside = {{ name = \"cpu\" }}\n[[axis]]\n{text}\n"));
    for label in ["hackbench", "cpu"] {
        assert!(axis(&format!("option = \"a\"\nvalues = [1]\nworkload = \"{label}\"")).is_ok());
    }
    let found = axis("option = \"a\"\nvalues = [1]\nworkload = \"x\"").unwrap_err();
    assert!(
        found[0].contains("axis.workload: unknown workload 'x': use hackbench, cpu"),
        "{found:?}"
    );
}

#[test]
fn nothing_is_varied_twice_but_for_different_workloads() {
    let two = format!("{LOAD}{SLICE}{SLICE}");
    assert!(parse(&two).unwrap_err()[0].contains("axis: 'slice' is varied twice"));
    let loads = "[[workload]]\nname = \"cpu\"\n[[workload]]\nname = \"mixed\"\n";
    let axis =
        |label| format!("[[axis]]\noption = \"tasks\"\nvalues = [1]\nworkload = \"{label}\"\n");
    assert!(parse(&[loads, &axis("cpu"), &axis("mixed")].concat()).is_ok());
    assert!(parse(&[loads, &axis("cpu"), &axis("cpu")].concat()).is_err());
}

#[test]
fn an_axis_exists_beside_a_value_of_an_earlier_one() {
    let when = |when: &str| {
        let later = format!("[[axis]]\nknob = \"k\"\nvalues = [1]\nwhen = {when}\n");
        parse(&[LOAD, SLICE, &later].concat())
    };
    let file = when("{ slice = \"2ms\" }").unwrap();
    let expected = super::super::When { axis: "slice".into(), value: "2ms".into() };
    assert_eq!(file.axes[1].when, Some(expected));
    for (text, what) in [
        ("{ slice = \"3ms\" }", "no earlier axis has '3ms' as a value of slice"),
        ("{ k = 1 }", "no earlier axis has '1' as a value of k"),
        ("{ slice = \"2ms\", k = 1 }", "name one axis and its value"),
        ("{}", "name one axis and its value"),
    ] {
        let found = when(text).unwrap_err();
        assert!(found.iter().any(|mistake| mistake.contains(what)), "{text}: {found:?}");
    }
}

#[test]
fn a_hook_or_a_command_has_the_place_for_the_value_of_its_axis() {
    let hook = |program: &str| {
        let axis = "[[axis]]\nhook = \"s\"\nvalues = [\"a\"]\n";
        parse(&format!("{LOAD}{axis}[hooks]\nduring = [\"run\", \"{program}\"]\n"))
    };
    assert!(hook("--with={s}").is_ok() && hook("s").is_err());
    // An option of one workload need not stand in the command of another.
    let loads = "[[workload]]\ncommand = [\"x\"]\n[[workload]]\nname = \"cpu\"\n";
    let axis = |label: &str| format!("[[axis]]\noption = \"tasks\"\nvalues = [1]\n{label}");
    assert!(parse(&[loads, &axis("workload = \"cpu\"\n")].concat()).is_ok());
    let found = parse(&[loads, &axis("")].concat()).unwrap_err();
    assert!(found[0].contains("the command 'x' has no {tasks}"), "{found:?}");
}

#[test]
fn one_boot_may_be_on_several_machines() {
    assert_eq!(wrong("boots = 1\nmachine = [\"host\", \"sim\"]"), None);
}
