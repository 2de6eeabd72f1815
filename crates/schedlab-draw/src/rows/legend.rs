//! What the legend below rows says, also of those for whom it has no room.

use super::Entry;
use crate::axis::{WORDS, duration};
use crate::colour::Colour;
use std::collections::BTreeMap;

/// The entries of a picture's legend: the first `most`, with their times, then in words how many more there
/// are and of which commands they are. Their colours are shared: the palette is not longer.
#[must_use]
pub fn legend_of(legend: &[Entry], most: usize) -> Vec<(Colour, String)> {
    /// Commands that the words name at most.
    const NAMED: usize = 3;
    let entry = |entry: &Entry| (entry.colour, format!("{}, {}", entry.name, duration(entry.time)));
    let mut shown: Vec<_> = legend.iter().take(most).map(entry).collect();
    let rest = legend.get(most..).unwrap_or_default();
    if rest.is_empty() {
        return shown;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in rest {
        *counts.entry(command_of(&entry.name)).or_default() += 1;
    }
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let named = counts.iter().take(NAMED).map(|(name, count)| match count {
        1 => (*name).to_owned(),
        _ => format!("{count} {name}"),
    });
    let others = counts.iter().skip(NAMED).map(|(_, count)| count).sum::<usize>();
    let others = if others > 0 { format!(", {others} others") } else { String::new() };
    let named = named.collect::<Vec<_>>().join(", ");
    let words = format!("and {} more: {named}{others} (some share a colour)", rest.len());
    shown.push((WORDS, words));
    shown
}

/// The command in the name of a task: `make` of `make:1234`.
fn command_of(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((command, pid)) if pid.bytes().all(|byte| byte.is_ascii_digit()) => command,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Nanos;

    #[test]
    fn a_legend_names_who_it_has_no_room_for() {
        let entry = |name: &str| Entry {
            colour: Colour::BLACK,
            name: name.to_owned(),
            time: Nanos(5_000_000),
        };
        let all: Vec<Entry> =
            ["ua:1", "ua:2", "sh:3", "kworker/1:2", "ua:4", "make:5"].map(entry).into();
        let words = |most: usize| -> Vec<String> {
            legend_of(&all, most).into_iter().map(|(_, words)| words).collect()
        };
        assert_eq!(words(6).len(), 6);
        assert_eq!(words(5)[5], "and 1 more: make (some share a colour)");
        assert_eq!(words(1)[0], "ua:1, 5.00 ms");
        assert_eq!(
            words(0)[0],
            "and 6 more: 3 ua, kworker/1, make, 1 others (some share a colour)"
        );
    }
}
