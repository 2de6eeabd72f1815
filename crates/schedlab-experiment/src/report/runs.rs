//! The usual report, from stored runs.

use super::{Report, Section, Table, readable};
use crate::StoredRun;
use crate::analysis::metrics;
use schedlab_model::Metric;
use schedlab_stats::Sample;
use std::collections::BTreeMap;

/// A report of stored runs: for each workload its metrics with all repeats, warnings beside them,
/// the machine, and the raw numbers behind a click. What is known from traces is added by the
/// caller.
#[must_use]
pub fn of_runs(title: &str, runs: &[StoredRun]) -> Report {
    let mut report = Report::new(title);
    for (label, runs) in by_workload(runs) {
        report.add(figures(&label, &runs));
    }
    if let Some(run) = runs.last() {
        report.machine(&run.manifest.facts);
    }
    report.add(raw(runs));
    report
}

/// Runs by the label of their workload, in the order of the labels.
pub(crate) fn by_workload(runs: &[StoredRun]) -> BTreeMap<String, Vec<&StoredRun>> {
    let mut groups: BTreeMap<String, Vec<&StoredRun>> = BTreeMap::new();
    for run in runs {
        groups.entry(run.manifest.workload.clone()).or_default().push(run);
    }
    groups
}

/// The figures of one workload: the telling ones open, all of them behind a click.
fn figures(label: &str, runs: &[&StoredRun]) -> Section {
    const OPEN_MAX: usize = 14;
    let mut section = Section::new(label);
    let all = metrics(runs);
    if all.is_empty() {
        section.paragraph("The runs have no metrics.");
    } else if runs.iter().any(|run| run.manifest.point != runs[0].manifest.point) {
        // Least and most over unlike points: of use to find a slip, not to read.
        section
            .folded_table(format!("all {} metrics, over all points", all.len()), table(&all, runs));
    } else if all.len() <= OPEN_MAX {
        section.table(table(&all, runs));
    } else {
        let telling: Vec<Metric> = all.iter().filter(|m| is_telling(&m.name)).cloned().collect();
        section.table(table(&telling, runs));
        section.folded_table(format!("all {} metrics", all.len()), table(&all, runs));
    }
    section.folded_warnings(runs);
    section
}

/// Figures that most readers look for: time, rates, latencies at the usual quantiles, switches.
fn is_telling(name: &str) -> bool {
    let quantile = ["_p50", "_p90", "_p99", "_p999"].iter().any(|end| name.ends_with(end));
    let rate = name.ends_with("_per_s") && !name.contains("offered") && !name.contains("dropped");
    let own =
        ["time_s", "run_delay_s", "migrations"].contains(&name) || name.starts_with("switches_");
    // What the trace says has a section of its own, with tables.
    (quantile || rate || own) && !name.starts_with("trace_")
}

/// A row for each figure; a column for each run where they are few.
fn table(metrics: &[Metric], runs: &[&StoredRun]) -> Table {
    const COLUMNS_MAX: usize = 8;
    if runs.len() <= COLUMNS_MAX {
        let names = runs.iter().map(|run| run_name(run, runs.len()));
        let mut table = Table::new(std::iter::once("metric".to_owned()).chain(names));
        for metric in metrics {
            let cell = |run: &&StoredRun| {
                run.value(&metric.name).map_or_else(|| "-".into(), |v| readable(v, metric.unit))
            };
            table.row(std::iter::once(metric.name.clone()).chain(runs.iter().map(cell)));
        }
        return table;
    }
    let mut table = Table::new(["metric", "runs", "least", "median", "most"]);
    for metric in metrics {
        let values = runs.iter().filter_map(|run| run.value(&metric.name));
        let Ok(sample) = Sample::new(values) else { continue };
        let numbers = [sample.min(), sample.median(), sample.max()];
        let cells = numbers.map(|v| readable(v, metric.unit));
        table.row([metric.name.clone(), sample.len().to_string()].into_iter().chain(cells));
    }
    table
}

fn run_name(run: &StoredRun, of: usize) -> String {
    let point: Vec<String> =
        run.manifest.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    let partial = if run.manifest.interrupted { " (partial)" } else { "" };
    match (of, point.is_empty()) {
        (1, true) => format!("value{partial}"),
        (_, true) => format!("run {}{partial}", run.manifest.block + 1),
        _ => format!("{} #{}{partial}", point.join(" "), run.manifest.block + 1),
    }
}

/// The list of the runs behind a click. Every number of theirs lies beside the report; here they would make
/// it a hundred times as long.
fn raw(runs: &[StoredRun]) -> Section {
    let mut section = Section::new("Raw numbers");
    section.paragraph(format!(
        "{} runs. figures.csv and figures.json beside this report have all numbers. Each run \
         also has a folder, named by the hash of its spec and machine, with its manifest, \
         metrics and trace.",
        runs.len()
    ));
    let mut table = Table::new(["run", "began", "took", "exit code", "warnings", "folder"]);
    for run in runs {
        let manifest = &run.manifest;
        let codes: Vec<&str> = run.warnings.iter().map(|w| w.code.as_str()).collect();
        let folder = run.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        table.row([
            format!("{} {}", manifest.workload, run_name(run, 0)),
            manifest.started_at.clone(),
            readable(manifest.took_ns as f64, schedlab_model::Unit::Nanoseconds),
            manifest.exit_code.to_string(),
            codes.join(" "),
            folder,
        ]);
    }
    section.folded_table("the runs", table);
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{jitter, runs};
    use schedlab_model::{Better, Unit, Warning};
    use schedlab_workload::Figure;

    const REPEATS: &str = "repeats = 3\n[workload]\nname = \"hackbench\"\n";
    const SLICE: &str = "[[axis]]\nknob = \"slice\"\nvalues = [\"1ms\", \"2ms\"]\n";

    fn repeats(text: &str) -> Vec<StoredRun> {
        runs(text, |_, n| jitter(n)).1
    }

    fn add(runs: &mut [StoredRun], name: &str, values: &[f64]) {
        for (run, value) in runs.iter_mut().zip(values) {
            let metric = Metric::new(name, Unit::Count, Better::Neither);
            run.figures.push(Figure { metric, of: String::new(), value: *value });
        }
    }

    fn html(section: Section) -> String {
        let mut report = Report::new("t");
        report.add(section);
        report.html()
    }

    fn figures_of(runs: &[StoredRun]) -> String {
        html(figures("hackbench", &runs.iter().collect::<Vec<_>>()))
    }

    #[test]
    fn metrics_of_most_interest_are_those_of_time_rates_latencies_and_switches() {
        for name in [
            "latency_ns_p50",
            "latency_ns_p90",
            "run_delay_ns_p99",
            "latency_ns_p999",
            "requests_per_s",
            "time_s",
            "run_delay_s",
            "migrations",
            "switches_voluntary",
        ] {
            assert!(is_telling(name), "{name}");
        }
        for name in [
            "latency_ns_p75",
            "latency_ns_max",
            "offered_per_s",
            "dropped_per_s",
            "user_s",
            "trace_latency_ns_p99",
            "trace_migrations_per_s",
        ] {
            assert!(!is_telling(name), "{name}");
        }
    }

    #[test]
    fn few_metrics_stand_open_and_of_many_those_of_most_interest() {
        let mut all = repeats(REPEATS);
        for number in 3..14 {
            add(&mut all, &format!("plain_{number}"), &[1.0; 3]);
        }
        let text = figures_of(&all);
        assert!(text.contains("plain_13") && !text.contains("<details>"), "fourteen: {text}");
        add(&mut all, "plain_14", &[1.0; 3]);
        let text = figures_of(&all);
        let (open, folded) = text.split_once("<summary>all 15 metrics</summary>").unwrap();
        assert!(open.contains("time_s") && !open.contains("plain_3"), "{open}");
        assert!(folded.contains("time_s") && folded.contains("plain_3"), "{folded}");
    }

    #[test]
    fn metrics_over_unlike_points_are_behind_a_click() {
        let text = figures_of(&repeats(&[REPEATS, SLICE].concat()));
        assert!(text.contains("<summary>all 3 metrics, over all points</summary>"), "{text}");
        assert_eq!(text.matches("<table>").count(), 1);
    }

    #[test]
    fn runs_without_metrics_are_said_so_and_their_warnings_told_once() {
        let mut all = repeats(REPEATS);
        all.iter_mut().for_each(|run| run.figures.clear());
        assert!(figures_of(&all).contains("<p>The runs have no metrics.</p>"));
        for (run, what) in all.iter_mut().zip(["late", "busy", "late"]) {
            run.warnings = vec![Warning::new("w", what, "")];
        }
        let text = figures_of(&all);
        assert!(text.contains("<summary>2 warnings</summary>\n<pre>busy\nlate</pre>"), "{text}");
        let text = figures_of(&repeats(REPEATS));
        assert!(!text.contains("no metrics") && !text.contains("<details>"), "{text}");
    }

    #[test]
    fn few_runs_have_a_column_each_and_many_have_least_median_and_most() {
        let mut all = repeats(&REPEATS.replace('3', "8"));
        add(&mut all, "more", &[5.0, 1.0, 9.0]);
        let metric = |name: &str| Metric::new(name, Unit::Count, Better::Neither);
        let text = |runs: &[StoredRun], name| {
            table(&[metric(name)], &runs.iter().collect::<Vec<_>>()).text()
        };
        let lines = text(&all, "more");
        assert!(lines.starts_with("metric  run 1  run 2  run 3  run 4"), "{lines}");
        assert!(lines.contains("more        5      1      9      -      -"), "{lines}");
        let mut nine = repeats(&REPEATS.replace('3', "9"));
        add(&mut nine, "more", &[5.0, 1.0, 9.0]);
        let lines = text(&nine, "more");
        assert_eq!(lines, "metric  runs  least  median  most\nmore       3      1       5     9\n");
        assert_eq!(text(&nine, "none"), "metric  runs  least  median  most\n");
    }

    #[test]
    fn a_run_is_named_by_its_point_and_its_block() {
        let mut run = repeats(REPEATS).remove(1);
        assert_eq!([run_name(&run, 1), run_name(&run, 3)], ["value", "run 2"]);
        run.manifest.interrupted = true;
        assert_eq!([run_name(&run, 1), run_name(&run, 0)], ["value (partial)", "run 2 (partial)"]);
        run.manifest.point.insert("slice".into(), "1ms".into());
        run.manifest.point.insert("groups".into(), "8".into());
        assert_eq!(run_name(&run, 1), "groups=8 slice=1ms #2 (partial)");
    }

    #[test]
    fn a_report_has_a_section_for_each_workload_the_machine_and_the_list_of_runs() {
        let two = "repeats = 1\n[[workload]]\nname = \"hackbench\"\nlabel = \"b\"\noptions = { loops = 1 }\n\
            [[workload]]\nname = \"hackbench\"\nlabel = \"a\"\noptions = { loops = 2 }\n";
        let mut all = repeats(two);
        all[0].manifest.exit_code = 3;
        all[0].manifest.took_ns = 2_000_000_000;
        all[0].warnings = ["busy", "hot"].map(|code| Warning::new(code, "it is", "")).to_vec();
        let text = of_runs("two", &all).html();
        let heads = ["<h2>a</h2>", "<h2>b</h2>", "<h2>The machine</h2>", "<h2>Raw numbers</h2>"];
        let found: Vec<_> = heads.iter().map(|head| text.find(head)).collect();
        assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{found:?}");
        assert!(text.contains("<p>2 runs. figures.csv and"), "{text}");
        let label = &all[0].manifest.workload;
        let folder = all[0].folder.file_name().unwrap().to_str().unwrap();
        for cell in [&format!("{label} run 1"), "2.00 s", "3", "busy hot", folder] {
            assert!(text.contains(&format!(">{cell}</td>")), "{cell}: {text}");
        }
        let none = of_runs("none", &[]).html();
        assert!(!none.contains("The machine") && none.contains("<p>0 runs. "), "{none}");
    }
}
