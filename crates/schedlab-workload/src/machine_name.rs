//! The name by which a machine is asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A machine as a user asks for it: its kind and its settings, `host` or `sim:cpus=4,policy=fifo`.
///
/// The written form has its settings in alphabetical order, so that two spellings of one machine give
/// one run identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MachineName {
    /// What kind of machine: `host`, `sim`, `vm`.
    pub kind: String,
    pub settings: BTreeMap<String, String>,
}

/// The kind of the machine on which the program runs.
pub const HOST: &str = "host";

impl MachineName {
    /// A setting of this prefix holds the text of a file that a machine's name names. So a run is another one if the
    /// file says something else.
    pub const FILE: &str = "machine:";

    /// Settings of a simulated machine that may name a file.
    pub const FILES: [&str; 3] = ["costs", "machine", "scx"];

    /// A machine of this kind without settings.
    #[must_use]
    pub fn of(kind: &str) -> Self {
        Self { kind: kind.to_owned(), settings: BTreeMap::new() }
    }

    /// Takes a setting out and parses it; `None` where it is not given.
    ///
    /// # Errors
    /// A sentence that names the setting and the value.
    pub fn take<T: FromStr>(&mut self, key: &str) -> Result<Option<T>, String>
    where
        T::Err: fmt::Display,
    {
        let Some(value) = self.settings.remove(key) else { return Ok(None) };
        let wrong = |why| format!("machine '{}': invalid {key}={value}: {why}", self.kind);
        value.parse().map(Some).map_err(wrong)
    }

    /// Checks that no setting is left.
    ///
    /// # Errors
    /// A sentence that names the first setting that is left, and all that the machine knows.
    pub fn finish(&self, known: &[&str]) -> Result<(), String> {
        let Some(key) = self.settings.keys().next() else { return Ok(()) };
        Err(match known {
            [] => format!("machine '{}' takes no settings: remove '{key}'", self.kind),
            _ => {
                format!("machine '{}' has no setting '{key}': use {}", self.kind, known.join(", "))
            }
        })
    }
}

impl Default for MachineName {
    /// The machine on which the program runs.
    fn default() -> Self {
        Self::of(HOST)
    }
}

impl FromStr for MachineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let plain = |word: &str| {
            !word.is_empty()
                && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        let form = "write KIND or KIND:KEY=VALUE,KEY=VALUE, like host or sim:cpus=4";
        if !plain(kind) {
            return Err(format!("unknown machine '{}': {form}", text.escape_default()));
        }
        let mut name = Self::of(kind);
        for word in rest.split(',').filter(|_| text.contains(':')) {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            if !plain(key) || value.is_empty() {
                let word = word.escape_default();
                return Err(format!("invalid setting '{word}' of a machine: {form}"));
            }
            if name.settings.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(format!("machine '{kind}': '{key}' is set twice"));
            }
        }
        Ok(name)
    }
}

impl fmt::Display for MachineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        for (index, (key, value)) in self.settings.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_spellings_of_a_machine_are_written_alike() {
        let name: MachineName = "sim:policy=fifo,cpus=4".parse().unwrap();
        assert_eq!(name.to_string(), "sim:cpus=4,policy=fifo");
        assert_eq!(name, name.to_string().parse().unwrap());
        assert_eq!("host".parse(), Ok(MachineName::default()));
    }

    #[test]
    fn settings_are_taken_by_type_and_what_is_left_is_named() {
        let mut name: MachineName = "sim:cpus=4,slice=x".parse().unwrap();
        assert_eq!(name.take::<u16>("cpus"), Ok(Some(4)));
        assert_eq!(name.take::<u16>("nodes"), Ok(None));
        let left = name.finish(&["cpus", "policy"]).unwrap_err();
        assert_eq!(left, "machine 'sim' has no setting 'slice': use cpus, policy");
        let wrong = name.take::<u16>("slice").unwrap_err();
        assert!(wrong.starts_with("machine 'sim': invalid slice=x: "), "{wrong}");
        assert_eq!(name.finish(&[]), Ok(()));
    }

    #[test]
    fn what_names_no_machine_is_refused_with_the_form() {
        for text in ["", ":cpus=4", "sim:", "sim:cpus", "sim:cpus=", "sim:=4", "a b", "sim:cpus=4,"]
        {
            let why = text.parse::<MachineName>().unwrap_err();
            assert!(why.contains("sim:cpus=4"), "{text}: {why}");
        }
        let twice = "sim:cpus=4,cpus=5".parse::<MachineName>().unwrap_err();
        assert_eq!(twice, "machine 'sim': 'cpus' is set twice");
    }
}
