//! Tables, durations and files, as all of the subcommands write them.

pub(super) use crate::commands::result_file::save;
use schedlab_model::{Nanos, Pid, Unit, readable};
use std::io::Write;

/// Writes results.
pub(super) fn say(text: &str) -> anyhow::Result<()> {
    crate::output::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Writes a note, which is no result.
pub(super) fn note(text: &str) {
    let _ = writeln!(crate::output::stderr(), "{text}");
}

/// Nanoseconds for people.
pub(super) fn time(ns: f64) -> String {
    readable(ns, Unit::Nanoseconds)
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
    fn columns_line_up() {
        let rows = [vec!["a".into(), "1".into()], vec!["bcd".into(), "234".into()]];
        assert_eq!(columns(&rows), "a      1\nbcd  234\n");
    }
}
