//! Tables, durations and files, as all of the subcommands write them.

pub(super) use crate::commands::result_file::save;
use schedlab_model::table::TextTable;
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
    fitting(rows, &[], usize::MAX)
}

/// The same in lines of at most `room` characters: columns of a high rank are left out first, those of rank 0 never.
pub(super) fn fitting(rows: &[Vec<String>], ranks: &[u8], room: usize) -> String {
    let [heads, others @ ..] = rows else { return String::new() };
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let rank = |at: usize| ranks.get(at).copied().unwrap_or(0);
    let head = |at: usize| (heads.get(at).map_or("", String::as_str), at == 0, rank(at));
    let mut table = TextTable::plain((0..count).map(head));
    for row in others {
        let mut row = row.clone();
        row.resize(count, String::new());
        table.row(row);
    }
    table.text(0, room)
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
