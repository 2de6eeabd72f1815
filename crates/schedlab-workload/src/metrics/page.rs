//! The page `docs/metrics.md`, from the registry.

use super::{ENTRIES, Form, MARGIN, MARGIN_TAIL, PRIMARY, QUANTILES};
use schedlab_model::{Better, Unit};
use std::fmt::Write as _;

/// The registry as a page of Markdown: primary metrics by workload and mode, then all metrics.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::from(HEAD);
    let _ = writeln!(
        out,
        "Two sides count as equivalent when the 90 % interval of their ratio lies within ±{:.0} % (±{:.0} %\n\
         for `p99`, `p999` and `max`). `--margin` and the experiment's `margin` replace this.\n",
        MARGIN * 100.0,
        MARGIN_TAIL * 100.0
    );
    out += "## Primary metrics\n\n| workload | mode | options | metrics |\n|---|---|---|---|\n";
    for p in PRIMARY {
        let options: Vec<String> = p.given.iter().map(|name| format!("`{name}`")).collect();
        let metrics: Vec<String> = p.metrics.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} |",
            p.workload,
            p.mode,
            options.join(", "),
            metrics.join(", ")
        );
    }
    let ends: Vec<String> = QUANTILES.iter().map(|(end, _)| format!("`_{end}`")).collect();
    let _ = write!(
        out,
        "\n## All metrics\n\nA series is stored as quantiles, whose names end in {}.\n\
         A counter is stored as it is and, divided by the measured time, under a name that ends in `_per_s`.\n\n\
         | name | stored | unit | better | definition |\n|---|---|---|---|---|\n",
        ends.join(", ")
    );
    for entry in ENTRIES {
        let form = match entry.form {
            Form::Value => "value",
            Form::Counter => "counter",
            Form::Series => "series",
        };
        let unit = unit(entry.unit);
        let better = better(entry.better);
        let _ =
            writeln!(out, "| `{}` | {form} | {unit} | {better} | {} |", entry.name, entry.about);
    }
    out
}

const HEAD: &str = "\
# Metrics

Look up here what a stored name means, in which unit its values are, and which metric decides a
comparison. This page is generated from the registry in `crates/schedlab-workload/src/metrics`. A
test compares both. To change the page, change the registry and run this command:

    SCHEDLAB_DOCS=write cargo test -p schedlab-workload --test all metrics_page

Comparisons test the primary metrics first: one, or two with Holm's correction. All other metrics
are secondary. `compare` lists large changes of them and claims nothing about them.

A recorded run also stores the totals of each question to its trace, with `trace_` before the name.
[answers.md](answers.md#totals) lists them.

";

fn unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Seconds => "s",
        Unit::Count => "",
        Unit::PerSecond => "1/s",
        Unit::Bytes => "B",
        Unit::BytesPerSecond => "B/s",
        Unit::Fraction => "fraction",
    }
}

fn better(better: Better) -> &'static str {
    match better {
        Better::Lower => "lower",
        Better::Higher => "higher",
        Better::Neither => "",
    }
}
