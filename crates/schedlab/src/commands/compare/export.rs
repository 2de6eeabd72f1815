//! What was measured of commands, for other programs: JSON, CSV and Markdown as hyperfine writes them.

use super::super::result_file::{check_place, save};
use super::Set;
use schedlab_experiment::StoredRun;
use schedlab_model::columns;
use schedlab_model::table::{Csv, column};
use schedlab_stats::Sample;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Where to write it.
#[derive(clap::Args)]
pub(crate) struct Export {
    /// Write all times of all commands to FILE as JSON
    #[arg(long, value_name = "FILE", requires = "commands")]
    export_json: Option<PathBuf>,
    /// Write a line for each command to FILE as CSV
    #[arg(long, value_name = "FILE", requires = "commands")]
    export_csv: Option<PathBuf>,
    /// Write a table of the commands to FILE as Markdown
    #[arg(long, value_name = "FILE", requires = "commands")]
    export_markdown: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document<'s> {
    results: Vec<Measured<'s>>,
}

/// A command and its finished runs; times in seconds.
#[derive(Serialize)]
struct Measured<'s> {
    command: &'s str,
    mean: f64,
    stddev: Option<f64>,
    median: f64,
    user: f64,
    system: f64,
    min: f64,
    max: f64,
    times: Vec<f64>,
    /// Of all runs, also of those that failed.
    exit_codes: Vec<i32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: &'s BTreeMap<String, String>,
}

impl<'s> Measured<'s> {
    /// `None` where no run was finished.
    fn of(set: &'s Set) -> Option<Self> {
        let whole = || set.runs.iter().filter(|run| run.is_whole());
        let sample = |name: &str| Sample::new(whole().filter_map(|run| run.value(name)));
        let times = sample("time_s").ok()?;
        let mean = |name: &str| sample(name).map_or(0.0, |sample| sample.mean());
        Some(Self {
            command: &set.name,
            mean: times.mean(),
            stddev: times.deviation(),
            median: times.median(),
            user: mean("cpu_user_s"),
            system: mean("cpu_system_s"),
            min: times.min(),
            max: times.max(),
            times: whole().filter_map(|run: &StoredRun| run.value("time_s")).collect(),
            exit_codes: set.runs.iter().map(|run| run.manifest.exit_code).collect(),
            parameters: &set.parameters,
        })
    }
}

impl Export {
    /// Finds a place that cannot be written before the first run.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let all = [&self.export_json, &self.export_csv, &self.export_markdown];
        all.into_iter().flatten().try_for_each(|path| check_place(path))
    }

    pub(super) fn write(&self, sets: &[Set]) -> anyhow::Result<()> {
        let results: Vec<Measured<'_>> = sets.iter().filter_map(Measured::of).collect();
        if let Some(path) = &self.export_csv {
            save(path, csv(&results))?;
        }
        if let Some(path) = &self.export_markdown {
            save(path, markdown(&results))?;
        }
        if let Some(path) = &self.export_json {
            let mut text = serde_json::to_string_pretty(&Document { results })?;
            text.push('\n');
            save(path, text)?;
        }
        Ok(())
    }
}

/// The table as Markdown.
pub(super) fn markdown_of(sets: &[Set]) -> String {
    markdown(&sets.iter().filter_map(Measured::of).collect::<Vec<_>>())
}

/// The names of all parameters.
fn parameters(results: &[Measured<'_>]) -> Vec<String> {
    let mut names: Vec<String> =
        results.iter().flat_map(|one| one.parameters.keys().cloned()).collect();
    names.sort();
    names.dedup();
    names
}

fn csv(results: &[Measured<'_>]) -> String {
    let mut columns = columns! { row: Measured<'_>;
        "command" = row.command.to_owned(), "The command as it was typed.";
        "mean" = row.mean, "Mean time of its finished runs, in seconds.";
        "stddev" = row.stddev, "Standard deviation of these times; empty of one run.";
        "median" = row.median, "Their median.";
        "user" = row.user, "Mean CPU time in user mode, in seconds.";
        "system" = row.system, "Mean CPU time in the kernel, in seconds.";
        "min" = row.min, "The shortest time.";
        "max" = row.max, "The longest time.";
    };
    columns.extend(parameters(results).into_iter().map(|name| {
        let title = format!("parameter_{name}");
        column(title, "The value of this parameter.", move |row: &Measured<'_>| {
            row.parameters.get(&name).cloned()
        })
    }));
    let csv = Csv::new(&columns, false);
    let mut text = csv.head();
    for one in results {
        csv.line(one, &mut text);
    }
    text
}

/// A table: times in the unit that fits the fastest, and how many times as long as the fastest each takes.
fn markdown(results: &[Measured<'_>]) -> String {
    let fastest = results.iter().min_by(|a, b| a.mean.total_cmp(&b.mean));
    let (unit, factor) = match fastest.map_or(0.0, |one| one.mean) {
        mean if mean < 1.0 => ("ms", 1e3),
        _ => ("s", 1.0),
    };
    let mut out = format!(
        "| Command | Mean [{unit}] | Min [{unit}] | Max [{unit}] | Relative |\n|:---|---:|---:|---:|---:|\n"
    );
    for one in results {
        let name = one.command.replace('|', "\\|").replace('\n', " ");
        let time = |seconds: f64| format!("{:.1}", seconds * factor);
        let spread = |part: f64, text: String| {
            if part > 0.0 { format!(" ± {text}") } else { String::new() }
        };
        let deviation = one.stddev.unwrap_or(0.0);
        let relative = fastest.map_or(String::new(), |first| {
            let ratio = one.mean / first.mean;
            let part = |one: &Measured<'_>| (one.stddev.unwrap_or(0.0) / one.mean).powi(2);
            // The error of a ratio of two means that are independent.
            let error = if std::ptr::eq(one, first) {
                0.0
            } else {
                ratio * (part(one) + part(first)).sqrt()
            };
            format!("{ratio:.2}{}", spread(error, format!("{error:.2}")))
        });
        let _ = writeln!(
            out,
            "| `{name}` | {}{} | {} | {} | {relative} |",
            time(one.mean),
            spread(deviation, time(deviation)),
            time(one.min),
            time(one.max)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured<'s>(
        command: &'s str,
        times: &[f64],
        parameters: &'s BTreeMap<String, String>,
    ) -> Measured<'s> {
        let sample = Sample::new(times.iter().copied()).unwrap();
        Measured {
            command,
            mean: sample.mean(),
            stddev: sample.deviation(),
            median: sample.median(),
            user: 0.25,
            system: 0.125,
            min: sample.min(),
            max: sample.max(),
            times: times.to_vec(),
            exit_codes: vec![0; times.len()],
            parameters,
        }
    }

    #[test]
    fn a_line_for_each_command_with_its_parameters() {
        let (none, four) = (BTreeMap::new(), BTreeMap::from([("j".to_owned(), "4".to_owned())]));
        let all = [measured("=cmd, x", &[2.0, 4.0], &none), measured("make -j4", &[0.5], &four)];
        let text = csv(&all);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command,mean,stddev,median,user,system,min,max,parameter_j");
        assert!(lines[1].ends_with(",3.0,1.4142135623730951,3.0,0.25,0.125,2.0,4.0,"), "{text}");
        assert!(!lines[1].starts_with('='), "no formula: {text}");
        assert_eq!(lines[2], "make -j4,0.5,,0.5,0.25,0.125,0.5,0.5,4");
    }

    #[test]
    fn the_table_is_relative_to_the_fastest() {
        let none = BTreeMap::new();
        let all = [measured("a | b", &[0.2, 0.2], &none), measured("c", &[0.1, 0.1], &none)];
        let text = markdown(&all);
        assert!(text.starts_with("| Command | Mean [ms] |"), "{text}");
        assert!(text.contains("| `a \\| b` | 200.0 | 200.0 | 200.0 | 2.00 |\n"), "{text}");
        assert!(text.contains("| `c` | 100.0 | 100.0 | 100.0 | 1.00 |\n"), "{text}");
    }
}
