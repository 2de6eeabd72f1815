//! Tables, durations and files, as all of the subcommands write them.

use anyhow::Context;
use schedlab_model::{Nanos, Pid};
use std::io::Write;
use std::path::Path;

/// Writes results.
pub(super) fn say(text: &str) -> anyhow::Result<()> {
    crate::output::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Writes a note, which is no result.
pub(super) fn note(text: &str) {
    let _ = writeln!(crate::output::stderr(), "{text}");
}

/// A file of results, written beside and renamed, so that a half file is never seen.
pub(super) fn save(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    std::fs::write(partial, bytes)
        .and_then(|()| std::fs::rename(partial, file))
        .with_context(|| format!("{} can't be written", file.display()))
}

/// Nanoseconds for people: four digits and a unit.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        a if a < 1e3 => (ns, "ns"),
        a if a < 1e6 => (ns / 1e3, "us"),
        a if a < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = match value.abs() {
        a if a < 10.0 => 3,
        a if a < 100.0 => 2,
        a if a < 1000.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// Columns, each as wide as it must be; the first to the left, the others to the right.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |i: usize| {
        rows.iter().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate();
        let line: Vec<String> = cells
            .map(
                |(i, (cell, &w))| {
                    if i == 0 { format!("{cell:<w$}") } else { format!("{cell:>w$}") }
                },
            )
            .collect();
        text.push_str(line.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Sets policy and slice of the calling thread.
pub(super) fn attributes(fifo: Option<u32>, slice: Option<Nanos>) -> std::io::Result<()> {
    if fifo.is_none() && slice.is_none() {
        return Ok(());
    }
    let mut attributes = schedlab_sys::sched::get(Pid(0))?;
    if let Some(priority) = fifo {
        attributes.policy = schedlab_sys::sched::Policy::Fifo { priority };
    }
    if let Some(slice) = slice {
        attributes.slice = slice;
    }
    schedlab_sys::sched::set(Pid(0), &attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_four_digits_and_columns_line_up() {
        assert_eq!(
            [0.5, 1234.0, 56_780_000.0, 2e9].map(time),
            ["0.500 ns", "1.234 us", "56.78 ms", "2.000 s"]
        );
        let rows = [vec!["a".into(), "1".into()], vec!["bcd".into(), "234".into()]];
        assert_eq!(columns(&rows), "a      1\nbcd  234\n");
    }
}
