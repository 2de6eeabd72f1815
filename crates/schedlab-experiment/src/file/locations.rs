//! The lines of an experiment file at which the parts of its runs are written.

use std::fmt;

/// One mistake in an experiment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line of the mistake, from 1.
    pub(crate) line: usize,
    /// Column in characters, from 1.
    pub(crate) column: usize,
    /// The key with its tables (`axis.values`), empty where the text is no TOML.
    pub(crate) key: String,
    /// What is wrong and what was expected.
    pub(crate) what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: ", self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

/// A part of a run that a machine may refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The machine of the run.
    Machine,
    /// A workload, or one that runs beside another, by its label.
    Workload(String),
    /// An option of the workload with this label; an axis over all workloads has an empty label.
    Option { label: String, name: String },
    /// A knob or a speed, by the name that a run's settings have.
    Setting(String),
    /// The metrics that matter.
    Measure,
    /// The table `[record]` of the file.
    Record,
    /// The time limit of the run.
    TimeLimit,
}

/// A part with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Written {
    part: Part,
    /// The value on an axis; empty where the file sets the part for all runs.
    value: String,
    line: usize,
    column: usize,
    key: String,
}

/// The places of all parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(Vec<Written>);

impl Places {
    pub(super) fn put(
        &mut self,
        part: Part,
        value: &str,
        (line, column): (usize, usize),
        key: &str,
    ) {
        let value = value.to_owned();
        let key = key.to_owned();
        self.0.push(Written { part, value, line, column, key });
    }

    /// A mistake at the place of a part with this value; at the beginning of the file where the part is
    /// not written in it.
    pub(crate) fn mistake(&self, part: &Part, value: &str, what: String) -> Mistake {
        let is = |written: &&Written| match (&written.part, part) {
            (Part::Option { label, name }, Part::Option { label: of, name: wanted }) => {
                name == wanted && (label == of || label.is_empty())
            }
            (here, wanted) => here == wanted,
        };
        let mut found = self.0.iter().filter(is);
        // An axis takes precedence over what the file sets for all runs.
        let on_axis =
            found.clone().find(|written| !written.value.is_empty() && written.value == value);
        match on_axis.or_else(|| found.next()) {
            Some(Written { line, column, key, .. }) => {
                Mistake { line: *line, column: *column, key: key.clone(), what }
            }
            None => Mistake { line: 1, column: 1, key: String::new(), what },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_found_on_its_axis_else_where_all_runs_have_it() {
        let mut places = Places::default();
        let slice = || Part::Setting("slice".into());
        places.put(slice(), "", (2, 1), "knobs.slice");
        places.put(slice(), "1ms", (7, 11), "axis.values");
        places.put(slice(), "2ms", (7, 18), "axis.values");
        let line = |part: &Part, value: &str| {
            let Mistake { line, column, key, .. } = places.mistake(part, value, String::new());
            (line, column, key)
        };
        assert_eq!(line(&slice(), "2ms"), (7, 18, "axis.values".to_owned()));
        assert_eq!(line(&slice(), "4ms"), (2, 1, "knobs.slice".to_owned()));
        assert_eq!(line(&slice(), ""), (2, 1, "knobs.slice".to_owned()));
        assert_eq!(line(&Part::Machine, ""), (1, 1, String::new()), "it is not written");
    }

    #[test]
    fn an_option_is_that_of_its_workload_or_of_all() {
        let mut places = Places::default();
        let option =
            |label: &str, name: &str| Part::Option { label: label.into(), name: name.into() };
        places.put(option("cpu", "tasks"), "", (3, 1), "a");
        places.put(option("", "work"), "", (4, 1), "b");
        let line = |part: &Part| places.mistake(part, "", String::new()).line;
        assert_eq!(line(&option("cpu", "tasks")), 3);
        assert_eq!([line(&option("mixed", "tasks")), line(&option("mixed", "work"))], [1, 4]);
        assert_eq!(line(&option("cpu", "other")), 1);
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_its_key() {
        let mistake =
            |key: &str| Mistake { line: 3, column: 7, key: key.into(), what: "is wrong".into() };
        assert_eq!(mistake("axis.values").to_string(), "line 3, column 7: axis.values: is wrong");
        assert_eq!(mistake("").to_string(), "line 3, column 7: is wrong");
    }
}
