//! Ten experiments as a performance engineer writes them, each with its truth: the first sentence of the answer alone
//! has to lead to the right decision. Five of them are questions of scale.

use super::Case;
use crate::fake::{has, jitter};
use schedlab_workload::{RunSpec, WorkloadSpec};

/// An experiment whose right answer is known.
struct Known {
    question: &'static str,
    text: &'static str,
    time: fn(&RunSpec, usize) -> f64,
    /// What the first sentence has to say for the right decision ...
    says: &'static [&'static str],
    /// ... and what would lead to a wrong one.
    never: &'static [&'static str],
}

fn option(spec: &RunSpec, name: &str) -> f64 {
    match &spec.workload {
        WorkloadSpec::Builtin { options, .. } => options[name].parse().unwrap(),
        WorkloadSpec::Command { argv } => argv[1].trim_start_matches("-j").parse().unwrap(),
    }
}

/// Noise of half a percent.
fn quiet(n: usize) -> f64 {
    1.0 + (n * 7 % 11) as f64 / 2_000.0
}

const TEN: [Known; 10] = [
    Known {
        question: "Shall we set the slice to 4 ms on the build machines? (It saves a tenth.)",
        text: "repeats = 12\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"4ms\"]\n",
        time: |spec, n| jitter(n) * if has(spec, "4ms") { 0.9 } else { 1.0 },
        says: &["better in time_s: -10."],
        never: &["worse", "undecided"],
    },
    Known {
        question: "Does the slice matter for the nightly job? (It does not.)",
        text: "repeats = 20\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"4ms\"]\n",
        time: |_, n| jitter(n),
        says: &["equivalent in time_s within ±5 %"],
        never: &["better in", "worse in"],
    },
    Known {
        question: "Is -j8 worth it on this machine? (Half the time of -j4, which has half that of -j2.)",
        text: "repeats = 10\n[workload]\ncommand = [\"make\", \"-j{jobs}\"]\n[[axis]]\noption = \"jobs\"\nvalues = [2, 4, 8]\n",
        time: |spec, n| jitter(n) * 8.0 / option(spec, "jobs"),
        says: &["8 is better (-7", "4 is better (-"],
        never: &["no contest", "undecided"],
    },
    Known {
        question: "Is the 2 % that the patch costs worth a talk? (It is below our margin.)",
        text: "repeats = 20\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"4ms\"]\n",
        time: |spec, n| quiet(n) * if has(spec, "4ms") { 1.02 } else { 1.0 },
        says: &["worse, but below your margin of 5 %"],
        never: &["equivalent"],
    },
    Known {
        question: "Which of three policies? (The third hangs: the limit ends it.)",
        text: "repeats = 8\ntime_limit = \"2s\"\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\", \"4ms\"]\n",
        time: |spec, n| jitter(n) * if has(spec, "4ms") { 2.0 } else { 0.2 },
        says: &["4ms is worse (at least"],
        never: &["4ms is better", ".. 1"],
    },
    Known {
        question: "How many groups does the machine carry? (Four: from there on no more is done in a second.)",
        text: "repeats = 6\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n[[axis]]\noption = \"groups\"\nvalues = [1, 2, 4, 8]\n",
        time: |spec, n| {
            quiet(n) * option(spec, "groups").max(4.0) / 4.0
                * if option(spec, "groups") > 4.0 { 1.1 } else { 1.0 }
        },
        says: &[
            "no contest",
            "the most 1/time_s are at 4",
            "from 8 on the efficiency is below 80 %",
        ],
        never: &["better", "worse", "more pairs"],
    },
    Known {
        question: "Does the time grow with the loops as it should? (In proportion: no knee.)",
        text: "repeats = 6\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n[[axis]]\noption = \"loops\"\nvalues = [100, 200, 400]\n",
        time: |spec, n| quiet(n) * option(spec, "loops") / 100.0,
        says: &["no contest", "the efficiency stays above 80 %"],
        never: &["better", "worse", "more pairs"],
    },
    Known {
        question: "Where does contention begin? (Each group more costs a fifth of one.)",
        text: "repeats = 6\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n[[axis]]\noption = \"groups\"\nvalues = [1, 2, 3, 4, 5, 6]\n",
        time: |spec, n| quiet(n) * (1.0 + 0.2 * (option(spec, "groups") - 1.0)),
        says: &["no contest", "from 3 on the efficiency is below 80 %", ": 71 %"],
        never: &["better", "worse"],
    },
    Known {
        question: "Does the slice help at every load? (A tenth at each.)",
        text: "repeats = 10\nmeasure = [\"time_s\"]\n[workload]\nname = \"hackbench\"\n[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"4ms\"]\n\
            [[axis]]\noption = \"groups\"\nvalues = [1, 2, 4]\n",
        time: |spec, n| {
            jitter(n) * option(spec, "groups") * if has(spec, "4ms") { 0.9 } else { 1.0 }
        },
        says: &["slice=4ms against 1ms", "better in time_s: -10."],
        never: &["mixed", "groups=4 against"],
    },
    Known {
        question: "How far does the service scale over requests? (To 2; the tool's own option is a load.)",
        text: "repeats = 6\nmeasure = [\"time_s\"]\n[workload]\ncommand = [\"serve\", \"-j{clients}\"]\n[[axis]]\noption = \"clients\"\nkind = \"load\"\n\
            values = [1, 2, 4]\n",
        time: |spec, n| quiet(n) * if option(spec, "clients") > 2.0 { 2.2 } else { 1.0 },
        says: &[
            "no contest",
            "the most 1/time_s are at 2",
            "from 4 on the efficiency is below 80 %",
        ],
        never: &["better", "worse"],
    },
];

#[test]
fn the_first_sentence_alone_leads_to_the_right_decision() {
    for Known { question, text, time, says, never } in TEN {
        let mut case = Case::taking(time);
        case.fake.censors = |spec| spec.time_limit.is_some() && has(spec, "4ms");
        let first = case.answer(&format!("retries = 0\n{text}")).swap_remove(0);
        for word in says {
            assert!(first.contains(word), "{question}\n'{word}' is missing in: {first}");
        }
        for word in never {
            assert!(!first.contains(word), "{question}\n'{word}' misleads in: {first}");
        }
    }
}
