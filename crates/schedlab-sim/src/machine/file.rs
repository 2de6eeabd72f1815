//! Files of machines: the settings of a machine's name, a line each, and the costs.
//!
//! ```toml
//! about = "2 sockets x 16 cores x 2 threads"
//! sockets = 2
//! cores = 16
//! smt = 2
//! smt-speed = "62%"
//! [costs]
//! switch = 4_000
//! ```

use super::name::{CPU_SETTINGS, CPUS_MAX, Model, SETTINGS};
use super::setting::Wrong;
use crate::Costs;
use schedlab_workload::MachineName;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Files of machines that come with the program, by name.
const PRESETS: &[(&str, &str)] = &[
    ("big-little-8", include_str!("../../data/machines/big-little-8.toml")),
    ("chiplets-32", include_str!("../../data/machines/chiplets-32.toml")),
    ("server-64", include_str!("../../data/machines/server-64.toml")),
    ("server-128", include_str!("../../data/machines/server-128.toml")),
];

/// A file that describes a simulated machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFile {
    /// What the machine is, in a line; empty if the file does not say.
    pub about: String,
    /// The costs as the text of a file of costs, if the file has a table of them.
    pub costs: Option<String>,
    settings: BTreeMap<String, String>,
}

impl MachineFile {
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|(name, _)| *name)
    }

    /// The text of a file that comes with the program; `None` if there is no such file.
    #[must_use]
    pub fn preset(name: &str) -> Option<&'static str> {
        PRESETS.iter().find(|(preset, _)| *preset == name).map(|(_, text)| *text)
    }

    /// Reads a file, and checks that there can be such a machine.
    ///
    /// # Errors
    /// A sentence with the line: text that is not TOML, a field that does not exist, a value that is wrong, a topology
    /// that is impossible.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = text[..start.min(text.len())].matches('\n').count() + 1;
            format!("line {line}: invalid TOML: {}", error.message())
        })?;
        let placed = |wrong: Wrong| match line_of(text, &wrong.field) {
            Some(line) => format!("line {line}, {}: {}", wrong.field, wrong.plain()),
            None => wrong.plain().to_owned(),
        };
        let mut file = Self::default();
        for (field, value) in &table {
            file.take(field, value).map_err(placed)?;
        }
        let mut name = MachineName::of("sim");
        file.settings.clone_into(&mut name.settings);
        Model::read(&name, file.costs.as_deref(), CPUS_MAX).map_err(placed)?;
        Ok(file)
    }

    fn take(&mut self, field: &str, value: &Value) -> Result<(), Wrong> {
        let text = match (field, value) {
            ("about", Value::String(about)) => {
                about.clone_into(&mut self.about);
                return Ok(());
            }
            ("costs", Value::Table(costs)) => return self.take_costs(costs),
            ("capacity" | "irq" | "steal" | "frequency", Value::Table(values)) => {
                of_cpus(field, values)?
            }
            (_, Value::String(text)) => text.clone(),
            (_, Value::Integer(number)) => number.to_string(),
            (_, Value::Boolean(yes)) => yes.to_string(),
            _ => {
                let why = format!("invalid value '{value}': use a string, a whole number or true");
                return Err(Wrong::new(field, why));
            }
        };
        let known = || SETTINGS.iter().copied().filter(|one| *one != "machine");
        if known().all(|one| one != field) {
            let fields = known().collect::<Vec<&str>>().join(", ");
            return Err(Wrong::new(field, format!("unknown field: use about, {fields}")));
        }
        self.settings.insert(field.to_owned(), text);
        Ok(())
    }

    fn take_costs(&mut self, costs: &Table) -> Result<(), Wrong> {
        for (cost, value) in costs {
            let one = Table::from_iter([(cost.clone(), value.clone())]);
            Costs::parse(&one.to_string()).map_err(|error| Wrong::new(cost, error.to_string()))?;
        }
        self.costs = Some(costs.to_string());
        Ok(())
    }

    /// Gives a machine's name the settings of the file that the name does not have. A name that says which CPUs there
    /// are with `cpus` gets none of the file's about that.
    pub fn complete(&self, name: &mut MachineName) {
        let given = |key: &&str| name.settings.contains_key(*key);
        let whole = given(&"cpus");
        let some = CPU_SETTINGS.iter().any(given);
        for (key, value) in &self.settings {
            let of_cpus = CPU_SETTINGS.contains(&key.as_str());
            if (of_cpus && whole) || (key == "cpus" && some) {
                continue;
            }
            name.settings.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// A table `{ "0-1" = "10us/1ms" }` as a name writes it.
fn of_cpus(field: &str, values: &Table) -> Result<String, Wrong> {
    let mut parts = Vec::new();
    for (cpus, value) in values {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => {
                let why = format!("invalid value '{other}' of CPUs {cpus}: use a string");
                return Err(Wrong::new(field, why));
            }
        };
        parts.extend(cpus.split(',').map(|cpus| format!("{}:{value}", cpus.trim())));
    }
    Ok(parts.join("+"))
}

/// The line, from 1, on which a field of a file is set.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let sets = |line: &str| {
        let line = line.trim_start().trim_start_matches(['[', '"']);
        let rest = line.strip_prefix(field).map(|rest| rest.trim_start_matches('"').trim_start());
        rest.is_some_and(|rest| rest.starts_with(['=', '.', ']']))
    };
    text.lines().position(sets).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_with_the_program_can_be_read() {
        for name in MachineFile::presets() {
            let file = MachineFile::parse(MachineFile::preset(name).unwrap());
            assert!(file.as_ref().is_ok_and(|file| !file.about.is_empty()), "{name}: {file:?}");
        }
        assert!(MachineFile::preset("nothing").is_none());
    }

    #[test]
    fn the_name_overrides_the_file() {
        let file = MachineFile::parse("sockets = 2\ncores = 4\nhz = 1000\nsmt-speed = \"60%\"");
        let file = file.unwrap();
        let complete = |text: &str| {
            let mut name: MachineName = text.parse().unwrap();
            file.complete(&mut name);
            name.to_string()
        };
        assert_eq!(complete("sim"), "sim:cores=4,hz=1000,smt-speed=60%,sockets=2");
        assert_eq!(complete("sim:cores=8,hz=100"), "sim:cores=8,hz=100,smt-speed=60%,sockets=2");
        assert_eq!(complete("sim:cpus=3"), "sim:cpus=3,hz=1000,smt-speed=60%");
        let flat = MachineFile::parse("cpus = 8").unwrap();
        let mut name: MachineName = "sim:cores=2".parse().unwrap();
        flat.complete(&mut name);
        assert_eq!(name.to_string(), "sim:cores=2");
    }

    #[test]
    fn a_table_of_costs_is_a_file_of_costs() {
        let file = MachineFile::parse("cpus = 2\n[costs]\nbase = \"none\"\nswitch = 7").unwrap();
        let costs = Costs::parse(&file.costs.unwrap()).unwrap();
        assert_eq!(costs, Costs { switch: 7, ..Costs::NONE });
    }

    #[test]
    fn mistakes_have_their_line_their_field_and_what_to_do() {
        for (text, part) in [
            ("cpus = 2\nhz = 0", "line 2, hz: invalid hz=0: use 10 to 10000"),
            ("cpus = 2\n\nhertz = 250", "line 3, hertz: unknown field: use about, cpus, sockets"),
            ("cpus = 2\ncpus = 3", "line 2: invalid TOML"),
            ("cpus 2", "line 1: invalid TOML"),
            ("cpus = 1.5", "line 1, cpus: invalid value '1.5': use a string"),
            ("hz = 100\ncpus = 7\nsockets = 2", "line 2, cpus: cpus=7 and sockets=2"),
            ("sockets = 64\ncores = 64", "invalid number of CPUs 4096: use 1 to 1024"),
            ("cpus = 2\n[costs]\nswich = 7", "line 3, swich: unknown cost 'swich': use syscall"),
            (
                "cpus = 2\nirq = { \"0,5\" = \"1us/1ms\" }",
                "line 2, irq: invalid irq=0:1us/1ms+5:1us/1ms",
            ),
            ("[costs]\nswitch = -7", "line 2, switch: cost switch: invalid value '-7'"),
        ] {
            let error = MachineFile::parse(text).unwrap_err();
            assert!(error.starts_with(part) || !part.starts_with("line"), "{text}: {error}");
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
