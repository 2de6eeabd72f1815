//! Which metrics decide, for each workload in each of its modes.

use crate::WorkloadSpec;
use crate::workloads::CATALOGUE;
use std::collections::BTreeMap;

/// The primary metrics of a workload in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Primary {
    pub(crate) workload: &'static str,
    /// The mode in words; empty where the workload has one mode.
    pub(crate) mode: &'static str,
    /// The mode holds when one of these options is given, and not empty, `0` or `false`; empty for
    /// the mode that holds else.
    pub(crate) given: &'static [&'static str],
    /// One metric, or two, of which each is tested at a corrected level (Holm).
    pub(crate) metrics: &'static [&'static str],
}

const fn of(workload: &'static str, metrics: &'static [&'static str]) -> Primary {
    Primary { workload, mode: "", given: &[], metrics }
}

const fn mode(
    workload: &'static str,
    mode: &'static str,
    given: &'static [&'static str],
    metrics: &'static [&'static str],
) -> Primary {
    Primary { workload, mode, given, metrics }
}

/// All workloads with their modes; of the modes of a workload the first that holds counts.
pub(crate) const PRIMARY: &[Primary] = &[
    mode("schbench", "pipe", &["pipe"], &["requests_per_s"]),
    mode(
        "schbench",
        "a fixed rate",
        &["rps", "auto-rps"],
        &["wakeup_latency_ns_p99", "request_latency_ns_p99"],
    ),
    mode("schbench", "as fast as it goes", &[], &["wakeup_latency_ns_p99", "requests_per_s"]),
    mode("hackbench", "for a time", &["duration"], &["messages_per_s"]),
    mode("hackbench", "a number of loops", &[], &["time_s", "cpu_s"]),
    of("pingpong", &["round_trip_ns_p50"]),
    mode("barrier", "a number of rounds", &["rounds"], &["time_s"]),
    mode("barrier", "for a time", &[], &["rounds_per_s"]),
    of("cpu", &["loops_per_s"]),
    of("udp", &["datagrams_per_s"]),
    of("mixed", &["loops_per_s"]),
    of("processes", &["loops_per_s"]),
    of("threads", &["loops_per_s"]),
    of("stream", &["bytes_per_s"]),
    of("spinlock", &["sections_per_s", "lock_wait_ns_p99"]),
    of("rt-app", &["wakeup_latency_ns_p99"]),
    of("replay", &["wakeup_latency_ns_p99"]),
    of("app", &["items_per_s", "handover_latency_ns_p99"]),
    of("jobs", &["run_time_s"]),
    of("command", &["time_s", "cpu_s"]),
];

/// The primary metrics of a workload with its options. A command is judged by its time.
#[must_use]
pub fn primary(workload: &WorkloadSpec) -> &'static [&'static str] {
    let (name, options) = parts(workload);
    let holds = |primary: &&Primary| {
        primary.workload == name
            && (primary.given.is_empty() || primary.given.iter().any(|o| is_given(options, o)))
    };
    PRIMARY.iter().find(holds).map_or(&["time_s"], |primary| primary.metrics)
}

/// What an option that says how much work is done changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// How many tasks work at the same time.
    Tasks,
    /// How much each of them does, or what a piece of work is.
    Amount,
    /// How much is asked for in a second.
    Rate,
}

use Work::{Amount, Rate, Tasks};

/// The options of each workload that say how much work a run does; all others are settings.
const WORK: [(&str, &[(&str, Work)]); 15] = [
    (
        "schbench",
        &[
            ("message-threads", Tasks),
            ("threads", Tasks),
            ("operations", Amount),
            ("cache_footprint", Amount),
            ("rps", Rate),
            ("pipe", Amount),
            ("sleep_usec", Amount),
        ],
    ),
    ("hackbench", &[("loops", Amount), ("groups", Tasks), ("fds", Tasks), ("datasize", Amount)]),
    ("pingpong", &[("rounds", Amount), ("pairs", Tasks)]),
    ("barrier", &[("rounds", Amount), ("work", Amount), ("imbalance", Amount), ("tasks", Tasks)]),
    ("cpu", &[("work", Amount), ("tasks", Tasks)]),
    ("threads", &[("work", Amount), ("tasks", Tasks)]),
    ("processes", &[("work", Amount), ("tasks", Tasks)]),
    ("mixed", &[("work", Amount), ("sleep", Amount), ("tasks", Tasks)]),
    ("udp", &[("datasize", Amount), ("rate", Rate), ("tasks", Tasks)]),
    ("stream", &[("array", Amount), ("tasks", Tasks)]),
    ("spinlock", &[("hold", Amount), ("work", Amount), ("tasks", Tasks)]),
    ("app", &[("work", Amount), ("allocate", Amount), ("pause", Amount), ("collect", Amount)]),
    (
        "jobs",
        &[
            ("nodes", Amount),
            ("fan", Amount),
            ("shape", Amount),
            ("time", Amount),
            ("load", Rate),
            ("length", Amount),
            ("arrivals", Amount),
        ],
    ),
    ("rt-app", &[("program", Amount)]),
    ("replay", &[("program", Amount)]),
];

/// The options that say how much work a run does, with their values: two runs that differ in one of them cannot be
/// compared by their time. Empty for a command.
#[must_use]
pub fn asked_work(workload: &WorkloadSpec) -> BTreeMap<&'static str, String> {
    let (name, options) = parts(workload);
    let docs = CATALOGUE.iter().find(|workload| workload.name == name);
    let value = |option: &'static str| {
        let usual = || {
            let doc = docs.and_then(|w| w.options.iter().find(|doc| doc.name == option));
            doc.map(|doc| doc.default.to_owned()).unwrap_or_default()
        };
        (option, options.and_then(|all| all.get(option).cloned()).unwrap_or_else(usual))
    };
    work_of(name).iter().map(|(option, _)| value(option)).collect()
}

/// What an option changes of the work; `None` for a setting, and for what a command calls its own.
#[must_use]
pub fn work(workload: &WorkloadSpec, option: &str) -> Option<Work> {
    let alike = |other: &str| other.replace('-', "_") == option.replace('-', "_");
    work_of(parts(workload).0).iter().find(|(name, _)| alike(name)).map(|(_, work)| *work)
}

fn work_of(workload: &str) -> &'static [(&'static str, Work)] {
    WORK.iter().find(|(name, _)| *name == workload).map_or(&[], |(_, options)| options)
}

fn parts(workload: &WorkloadSpec) -> (&str, Option<&BTreeMap<String, String>>) {
    match workload {
        WorkloadSpec::Builtin { name, options } => (name, Some(options)),
        WorkloadSpec::Command { .. } => ("command", None),
    }
}

fn is_given(options: Option<&BTreeMap<String, String>>, name: &str) -> bool {
    let value = options.and_then(|options| options.get(name));
    value.is_some_and(|value| !matches!(value.as_str(), "" | "0" | "0s" | "false"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::find;
    use schedlab_model::Better;

    fn spec(name: &str, options: &[(&str, &str)]) -> WorkloadSpec {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        WorkloadSpec::Builtin { name: name.to_owned(), options }
    }

    #[test]
    fn every_workload_has_one_or_two_primary_metrics_that_judge() {
        for workload in CATALOGUE {
            let modes: Vec<&Primary> =
                PRIMARY.iter().filter(|p| p.workload == workload.name).collect();
            assert!(modes.last().is_some_and(|p| p.given.is_empty()), "{}", workload.name);
            for primary in modes {
                assert!((1..=2).contains(&primary.metrics.len()));
                for option in primary.given {
                    assert!(workload.options.iter().any(|doc| doc.name == *option), "{option}");
                }
                for name in primary.metrics {
                    let found = find(name).unwrap_or_else(|| panic!("{name}"));
                    assert_ne!(found.metric.better, Better::Neither, "{name}");
                }
            }
            for option in asked_work(&spec(workload.name, &[])).keys() {
                assert!(workload.options.iter().any(|doc| doc.name == *option), "{option}");
            }
        }
    }

    #[test]
    fn the_mode_decides() {
        assert_eq!(primary(&spec("hackbench", &[("loops", "10")])), ["time_s", "cpu_s"]);
        assert_eq!(primary(&spec("hackbench", &[("duration", "5s")])), ["messages_per_s"]);
        assert_eq!(primary(&spec("hackbench", &[("duration", "0")])), ["time_s", "cpu_s"]);
        assert_eq!(primary(&spec("schbench", &[("pipe", "64")])), ["requests_per_s"]);
        assert_eq!(primary(&spec("schbench", &[("rps", "9")])).len(), 2);
        let command = WorkloadSpec::Command { argv: vec!["true".into()] };
        assert_eq!(primary(&command), ["time_s", "cpu_s"]);
    }

    #[test]
    fn the_work_that_is_asked_for_includes_defaults() {
        let few = spec("hackbench", &[("loops", "1000")]);
        let many = spec("hackbench", &[]);
        assert_eq!(asked_work(&few)["loops"], "1000");
        assert_ne!(asked_work(&few), asked_work(&many));
        let piped = spec("hackbench", &[("loops", "1000"), ("pipe", "true")]);
        assert_eq!(asked_work(&few), asked_work(&piped));
    }
}
