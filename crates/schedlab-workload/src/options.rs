//! Options of workloads: their table, which help and checks are made from, and their values.

use schedlab_model::{Bytes, CpuSet, Nanos};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Flag,
    /// A whole number in a range.
    Number(u64, u64),
    /// A whole number that may be negative, in a range.
    Signed(i64, i64),
    /// A duration; a bare number counts in this unit of nanoseconds.
    Duration(u64),
    /// A size; a bare number counts in this unit of bytes.
    Size(u64),
    Cpus,
    Choice(&'static [&'static str]),
    Text,
}

#[derive(Clone, Copy, Debug)]
pub struct OptionDoc {
    /// Its long name, as typed after the dashes and as written in an experiment file.
    pub name: &'static str,
    pub short: Option<char>,
    pub kind: Kind,
    /// What holds without it, as text; empty for "not set".
    pub default: &'static str,
    pub help: &'static str,
}

/// An option without a short name.
#[must_use]
pub const fn option(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    help: &'static str,
) -> OptionDoc {
    OptionDoc { name, short: None, kind, default, help }
}

/// Why options are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("option {option}: {why}")]
pub struct OptionError {
    pub option: String,
    /// What is wrong, and what is right.
    pub why: String,
}

impl OptionError {
    pub(crate) fn new(option: impl Into<String>, why: impl Into<String>) -> Self {
        Self { option: option.into(), why: why.into() }
    }
}

/// Checked values of options: what a table knows, with its defaults.
#[derive(Clone, Debug)]
pub struct Options {
    values: BTreeMap<&'static str, (Kind, String)>,
    given: Vec<&'static str>,
}

impl Options {
    /// Checks `given` against the tables.
    ///
    /// # Errors
    /// The first option that no table knows, or whose value is none.
    pub fn new(
        tables: &[&'static [OptionDoc]],
        given: &BTreeMap<String, String>,
    ) -> Result<Self, OptionError> {
        let docs = || tables.iter().flat_map(|table| table.iter());
        let mut options = Self { values: BTreeMap::new(), given: Vec::new() };
        for doc in docs() {
            options.values.insert(doc.name, (doc.kind, doc.default.to_owned()));
        }
        for (name, value) in given {
            let Some(doc) = docs().find(|doc| same(doc.name, name)) else {
                return Err(OptionError::new(name, unknown(name, docs())));
            };
            check(doc.kind, value).map_err(|why| OptionError::new(doc.name, why))?;
            options.values.insert(doc.name, (doc.kind, value.clone()));
            options.given.push(doc.name);
        }
        Ok(options)
    }

    #[must_use]
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    fn raw(&self, name: &str) -> &(Kind, String) {
        self.values.get(name).expect("workloads ask for options of their own tables")
    }

    /// The text of an option; empty where it is not set.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        &self.raw(name).1
    }

    #[must_use]
    pub fn flag(&self, name: &str) -> bool {
        self.text(name) == "true"
    }

    /// A number; 0 where it is not set.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(0)
    }

    /// A number that fits 32 bits (its range says so).
    #[must_use]
    pub(crate) fn small(&self, name: &str) -> u32 {
        u32::try_from(self.number(name)).expect("the range of the option fits 32 bits")
    }

    /// A duration; zero where it is not set.
    #[must_use]
    pub fn duration(&self, name: &str) -> Nanos {
        let (kind, text) = self.raw(name);
        let Kind::Duration(unit) = kind else { unreachable!("{name} is not a duration") };
        duration(text, *unit).unwrap_or_default()
    }

    /// A size in bytes; zero where it is not set.
    #[must_use]
    pub fn size(&self, name: &str) -> u64 {
        let (kind, text) = self.raw(name);
        let Kind::Size(unit) = kind else { unreachable!("{name} is not a size") };
        size(text, *unit).unwrap_or(0)
    }
}

/// Option names are the same whether words are joined by `-` or `_`.
fn same(a: &str, b: &str) -> bool {
    a.len() == b.len()
        && a.bytes()
            .zip(b.bytes())
            .all(|(a, b)| a == b || matches!((a, b), (b'-', b'_') | (b'_', b'-')))
}

fn unknown<'d>(name: &str, docs: impl Iterator<Item = &'d OptionDoc>) -> String {
    let mut names: Vec<&str> = docs.map(|doc| doc.name).collect();
    names.sort_unstable();
    match nearest(name, names.iter().copied()) {
        Some(near) => format!("unknown option; did you mean {near}?"),
        None => format!("unknown option: use {}", names.join(", ")),
    }
}

/// The name that is the least slips of the pen away: at most two, and fewer than the name has letters.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = names
        .map(|known| (distance(known, name), known))
        .filter(|(slips, _)| *slips <= 2 && *slips < name.len());
    near.min().map(|(_, known)| known)
}

/// How many letters have to be changed, put in or taken out (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = (corner + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], cost);
        }
    }
    row[b.len()]
}

fn duration(text: &str, unit: u64) -> Result<Nanos, String> {
    if let Ok(bare) = text.parse::<u64>() {
        return bare.checked_mul(unit).map(Nanos).ok_or_else(|| format!("'{text}' is too long"));
    }
    text.parse().map_err(|error: schedlab_model::NanosError| error.to_string())
}

fn size(text: &str, unit: u64) -> Result<u64, String> {
    if let Ok(bare) = text.parse::<u64>() {
        return bare.checked_mul(unit).ok_or_else(|| format!("'{text}' is too large"));
    }
    text.parse().map(|b: Bytes| b.0).map_err(|error: schedlab_model::BytesError| error.to_string())
}

/// Whether `value` is one of its kind; the reason why not.
fn check(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Flag if matches!(value, "true" | "false") => Ok(()),
        Kind::Flag => Err(format!("invalid value '{value}': use true or false")),
        Kind::Number(min, max) => match value.parse::<u64>() {
            Ok(n) if (min..=max).contains(&n) => Ok(()),
            Ok(n) => Err(format!("invalid value {n}: use {min} to {max}")),
            Err(_) => {
                Err(format!("invalid value '{value}': use a whole number from {min} to {max}"))
            }
        },
        Kind::Signed(min, max) => match value.parse::<i64>() {
            Ok(n) if (min..=max).contains(&n) => Ok(()),
            _ => Err(format!("invalid value '{value}': use a whole number from {min} to {max}")),
        },
        Kind::Duration(unit) => duration(value, unit).map(|_| ()),
        Kind::Size(unit) => size(value, unit).map(|_| ()),
        Kind::Cpus => match value.parse::<CpuSet>() {
            Ok(set) if set.is_empty() => Err("the list of CPUs is empty".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        },
        Kind::Choice(words) if words.contains(&value) => Ok(()),
        Kind::Choice(words) => Err(format!("invalid value '{value}': use {}", words.join(", "))),
        Kind::Text => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[OptionDoc] = &[
        OptionDoc {
            name: "groups",
            short: Some('g'),
            kind: Kind::Number(1, 100),
            default: "10",
            help: "",
        },
        OptionDoc {
            name: "sleep_usec",
            short: None,
            kind: Kind::Duration(1_000),
            default: "100",
            help: "",
        },
        OptionDoc { name: "cpus", short: None, kind: Kind::Cpus, default: "", help: "" },
        OptionDoc { name: "size", short: None, kind: Kind::Size(1024), default: "4", help: "" },
    ];

    fn options(given: &[(&str, &str)]) -> Result<Options, OptionError> {
        let given = given.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        Options::new(&[TABLE], &given)
    }

    #[test]
    fn values_have_units_and_defaults() {
        let taken = options(&[("sleep-usec", "2ms"), ("size", "1MiB")]).unwrap();
        assert_eq!(taken.number("groups"), 10);
        assert_eq!(taken.duration("sleep_usec"), Nanos::from_millis(2));
        assert_eq!(taken.size("size"), 1 << 20);
        assert!(taken.is_given("size") && !taken.is_given("groups"));
        assert_eq!(options(&[]).unwrap().duration("sleep_usec"), Nanos::from_micros(100));
        assert_eq!(options(&[]).unwrap().size("size"), 4096);
    }

    #[test]
    fn what_is_no_value_is_refused_with_the_range() {
        for (name, value, part) in [
            ("groups", "0", "use 1 to 100"),
            ("groups", "-3", "from 1 to 100"),
            ("groups", "5x", "use a whole number"),
            ("groups", "99999999999999999999", "use a whole number"),
            ("cpus", "", "empty"),
            ("cpus", ",", "''"),
            ("sleep_usec", "-1", "duration"),
            ("group", "1", "did you mean groups"),
            ("xyz", "1", "use cpus, groups"),
        ] {
            let error = options(&[(name, value)]).unwrap_err();
            assert!(error.why.contains(part), "{name}={value}: {}", error.why);
        }
    }
}
