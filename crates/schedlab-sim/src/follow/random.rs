//! Small random loads, for looking for decisions in which a model is wrong.

use crate::Kernel;
use schedlab_model::Setting;
use schedlab_stats::Random;
use schedlab_workload::{RecordSpec, RunSpec, WorkloadSpec};

/// A recorded run of a small load with random options and knobs. The same seed gives the same run.
///
/// Loads: hackbench over pipes and sockets, ping-pong, tasks that sleep and compute. Knobs lie within what the
/// kernel's administrators set.
#[must_use]
pub fn random_load(kernel: Kernel, seed: u64) -> RunSpec {
    let mut dice = Random::new(seed);
    let mut between = |least: usize, most: usize| least + dice.below(most - least + 1);
    let text = |name: &str, value: String| (name.to_owned(), value);
    let (name, options) = match between(0, 5) {
        0 => (
            "pingpong",
            vec![
                text("pairs", between(1, 4).to_string()),
                text("rounds", between(50, 500).to_string()),
            ],
        ),
        1 => {
            let tasks = text("tasks", between(1, 8).to_string());
            let (work, sleep) =
                (format!("{}us", between(50, 5_000)), format!("{}us", between(50, 5_000)));
            let duration = format!("{}ms", between(50, 300));
            (
                "mixed",
                vec![tasks, text("work", work), text("sleep", sleep), text("duration", duration)],
            )
        }
        kind => {
            let mut options = vec![
                text("groups", between(1, 3).to_string()),
                text("fds", between(1, 8).to_string()),
                text("loops", between(5, 60).to_string()),
            ];
            if kind % 2 == 0 {
                options.push(text("pipe", "true".to_owned()));
            }
            ("hackbench", options)
        }
    };
    let mut setting = |knob: &str, least: usize, most: usize| Setting {
        knob: knob.to_owned(),
        value: format!("{}us", between(least, most)),
    };
    let settings = match kernel {
        kernel if kernel.is_cfs() => vec![
            setting("latency", 6_000, 60_000),
            setting("min_granularity", 500, 20_000),
            setting("wakeup_granularity", 0, 20_000),
        ],
        Kernel::Eevdf612 => vec![setting("base_slice", 300, 30_000)],
        _ => Vec::new(),
    };
    let workload =
        WorkloadSpec::Builtin { name: name.to_owned(), options: options.into_iter().collect() };
    let record = Some(RecordSpec::default());
    RunSpec { settings, record, seed, ..RunSpec::of(workload) }
}
