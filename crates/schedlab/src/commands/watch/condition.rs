//! `KEY=VALUE and METRIC > VALUE`: what a row of a window must be for a condition to hold.

use super::window::{Entry, Window};
use schedlab_model::table::{Cell, Column, Row as _};
use schedlab_model::{Groups, Nanos};
use schedlab_record::Watched;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A condition on the whole machine, or on chosen tasks together.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    text: String,
    /// Whose figure it is about; all tasks if empty.
    chosen: Vec<Watched>,
    limits: Vec<Limit>,
}

/// `METRIC > VALUE` or `METRIC < VALUE`.
#[derive(Clone, Debug)]
struct Limit {
    /// The column's name.
    column: String,
    is_above: bool,
    value: f64,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.text)
    }
}

/// A column's name as people type it: `run_delay_p99` for `run_delay.latency_ns_p99`.
fn short(name: &str) -> String {
    name.replace("latency_ns_", "").replace('.', "_").trim_end_matches("_ns").to_owned()
}

/// The columns that hold a number.
fn numbers() -> Vec<Column<Entry>> {
    use schedlab_model::table::Kind;
    let is_number = |column: &Column<Entry>| {
        let head = column.head();
        !head.on_request && matches!(head.kind, Kind::Duration | Kind::Count)
    };
    Entry::columns().into_iter().filter(is_number).collect()
}

impl FromStr for Condition {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut condition =
            Self { text: text.trim().to_owned(), chosen: Vec::new(), limits: Vec::new() };
        for part in text.split(" and ").map(str::trim) {
            match part.find(['<', '>']) {
                Some(at) => condition.limits.push(limit(text, part, at)?),
                None => {
                    // As people call it; `cgroup` is what `record --watch` has.
                    let as_cgroup = |path| format!("cgroup={path}");
                    let part = part.strip_prefix("group=").map_or(part.to_owned(), as_cgroup);
                    condition.chosen.push(part.parse()?);
                }
            }
        }
        if condition.limits.is_empty() {
            return Err(format!(
                "invalid condition '{text}': use METRIC > VALUE, as in 'run_delay_p99 > 5ms'"
            ));
        }
        Ok(condition)
    }
}

fn limit(text: &str, part: &str, at: usize) -> Result<Limit, String> {
    let (name, rest) = part.split_at(at);
    let name = name.trim();
    let value = rest[1..].trim();
    let columns = numbers();
    let names = columns.iter().map(|column| column.head().name.as_ref());
    let column = names.clone().find(|column| *column == name || short(column) == name);
    let Some(column) = column else {
        let all: Vec<String> = names.map(short).collect();
        return Err(format!(
            "invalid condition '{text}': there is no metric '{name}'; there are {}",
            all.join(", ")
        ));
    };
    let wrong = || format!("invalid condition '{text}': '{value}' is not a number or a time");
    let value = match value.parse::<Nanos>() {
        Ok(time) => time.0 as f64,
        Err(_) => value.parse().map_err(|_| wrong())?,
    };
    Ok(Limit { column: column.to_owned(), is_above: rest.starts_with('>'), value })
}

impl Condition {
    /// The tasks of a window that it is about.
    pub(super) fn chosen<'a>(
        &self,
        window: &'a Window,
        groups: Option<&Groups>,
    ) -> impl Iterator<Item = &'a Entry> {
        let meant = self.chosen.iter().map(|one| (one, meant(one, window, groups)));
        let meant: Vec<_> = meant.collect();
        window.tasks.iter().filter(move |entry| meant.iter().all(|(one, at)| is_it(one, at, entry)))
    }

    /// Whether it holds for the chosen tasks together.
    pub(super) fn holds(&self, window: &Window, groups: Option<&Groups>) -> bool {
        let sum = Entry::sum(self.chosen(window, groups));
        let columns = numbers();
        self.limits.iter().all(|limit| {
            let column = columns.iter().find(|column| column.head().name == limit.column);
            let value = column.map(|column| column.value(&sum).cell);
            let value = match value {
                Some(Cell::Whole(number)) => number as f64,
                // Nobody waited: there is no such figure.
                _ => return false,
            };
            if limit.is_above { value > limit.value } else { value < limit.value }
        })
    }
}

/// The groups of a window's tasks that are meant by a path or a name.
fn meant(watched: &Watched, window: &Window, groups: Option<&Groups>) -> BTreeSet<u32> {
    let (Watched::Cgroup(wanted), Some(groups)) = (watched, groups) else { return BTreeSet::new() };
    // Each group once: to make its title takes longer than a look at a task.
    let places: BTreeSet<u32> = window.tasks.iter().filter_map(|entry| entry.place).collect();
    places.into_iter().filter(|group| groups.is_meant(*group, wanted)).collect()
}

fn is_it(watched: &Watched, meant: &BTreeSet<u32>, entry: &Entry) -> bool {
    match watched {
        Watched::Pid(pid) => entry.pid == Some(*pid),
        Watched::Comm(name) => entry.comm.as_deref() == Some(name),
        Watched::Cgroup(_) => entry.place.is_some_and(|group| meant.contains(&group)),
    }
}
