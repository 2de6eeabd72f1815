//! Tables, durations and files, as all of the subcommands write them.

pub(super) use crate::commands::result_file::save;
use schedlab_model::table::{Rows, TextTable};
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

/// All rows in lines of at most `room` characters, without the columns whose names begin with one of `hidden`.
pub(super) fn rows<R>(rows: &Rows<'_, R>, room: usize, hidden: &[&str]) -> String {
    let mut text = rows.text(room, hidden);
    text.all();
    text.print(0)
}

/// A table whose first row is its head: the first column to the left, the others to the right.
pub(super) fn columns(rows: &[Vec<String>]) -> String {
    let [heads, others @ ..] = rows else { return String::new() };
    let heads = heads.iter().enumerate().map(|(at, name)| (name.as_str(), at == 0, 0));
    let mut table = TextTable::plain(heads);
    others.iter().for_each(|row| table.row(row.clone()));
    table.text(0, usize::MAX)
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
