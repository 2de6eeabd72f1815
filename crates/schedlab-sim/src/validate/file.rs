//! A file of cells as text: read before it is measured, and written with what a machine gave.

use super::{Cell, Truth};
use std::collections::BTreeMap;
use std::fmt::Write as _;

impl Truth {
    /// Reads a file of cells that may lack their runs.
    ///
    /// # Errors
    /// A sentence: text that is not such a file, with the line.
    pub fn read(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// The file as text, below the comment that it begins with.
    #[must_use]
    pub fn write(&self, comment: &str) -> String {
        let mut text = comment.to_owned();
        for (key, value) in [
            ("machine", &self.machine),
            ("measured_on", &self.measured_on),
            ("measured", &self.measured),
        ] {
            let _ = writeln!(text, "{key} = {}", quoted(value));
        }
        self.cell.iter().for_each(|cell| write_cell(cell, &mut text));
        text
    }
}

/// The lines of comment at the beginning of a file.
#[must_use]
pub fn comment(text: &str) -> String {
    let lines = text.lines().take_while(|line| line.starts_with('#'));
    lines.fold(String::new(), |all, line| all + line + "\n")
}

fn write_cell(cell: &Cell, text: &mut String) {
    let _ = writeln!(text, "\n[[cell]]\nlabel = {}", quoted(&cell.label));
    let _ = writeln!(text, "workload = {}", quoted(&cell.workload));
    let words = |of: &BTreeMap<String, String>| inline(of.iter().map(|(k, v)| (k, quoted(v))));
    let _ = writeln!(text, "options = {}\nknobs = {}", words(&cell.options), words(&cell.knobs));
    if cell.edge {
        text.push_str("edge = true\n");
    }
    if cell.is_of_metrics() {
        text.push_str("[cell.metrics]\n");
        for (metric, runs) in &cell.metrics {
            let _ = writeln!(text, "{} = {}", quoted(metric), numbers(runs));
        }
        return;
    }
    for (name, runs) in [
        ("time_s", &cell.time_s),
        ("voluntary", &cell.voluntary),
        ("involuntary", &cell.involuntary),
    ] {
        let _ = writeln!(text, "{name} = {}", numbers(runs));
    }
}

fn inline<'t>(pairs: impl Iterator<Item = (&'t String, String)>) -> String {
    let pairs: Vec<String> = pairs.map(|(key, value)| format!("{key} = {value}")).collect();
    if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Numbers with six digits: more than a run is worth.
fn numbers(runs: &[f64]) -> String {
    let one = |value: &f64| {
        let digits = match value.abs() {
            size if size >= 100_000.0 => 0,
            size if size >= 1.0 => 3,
            _ => 6,
        };
        let text = format!("{value:.digits$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    };
    let runs: Vec<String> = runs.iter().map(one).collect();
    format!("[{}]", runs.join(", "))
}
