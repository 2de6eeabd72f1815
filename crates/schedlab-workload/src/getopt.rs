//! Options as they are typed: short ones in clusters, long ones by any unambiguous beginning, values
//! in the same word or the next, operands in between. As getopt_long reads them, so that scripts
//! written for other tools mean the same here.

use crate::options::{Kind, OptionDoc};
use std::collections::BTreeMap;

/// Why words are not valid options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mistyped {
    #[error("unrecognized option '--{0}'")]
    NoLong(String),
    #[error("invalid option -- '{0}'")]
    NoShort(char),
    /// Several long options begin like this.
    #[error("option '--{0}' is ambiguous; possibilities: {1}")]
    Ambiguous(String, String),
    /// An option that takes a value stands last.
    #[error("option '--{0}' requires an argument")]
    NoValue(String),
    /// A short option that takes a value stands last.
    #[error("option requires an argument -- '{0}'")]
    NoShortValue(char),
    #[error("option '--{0}' doesn't allow an argument")]
    NoFlagValue(String),
}

impl Mistyped {
    /// The option that was probably meant, as a sentence; empty where none is near.
    #[must_use]
    pub fn hint(&self, docs: &[OptionDoc]) -> String {
        let Self::NoLong(name) = self else { return String::new() };
        let names = docs.iter().map(|doc| doc.name);
        let near = crate::options::nearest(name, names);
        near.map_or(String::new(), |near| format!("did you mean --{near}?"))
    }
}

/// The options and operands that were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// Values by the option's long name; the last one of each. A flag has `true`.
    pub options: BTreeMap<String, String>,
    /// Their names in the order in which they were typed.
    pub order: Vec<&'static str>,
    /// Words that are no options.
    pub operands: Vec<String>,
}

/// Reads words by a table of options.
///
/// # Errors
/// The first word that is none of the table's.
pub fn read(docs: &[OptionDoc], words: &[String]) -> Result<Typed, Mistyped> {
    read_as(&[], docs, words)
}

/// As [`read`], for a tool that another stands in for: what begins like one of the `original`'s long
/// options means what it means there, or is as ambiguous; only then like one of ours.
///
/// # Errors
/// The first word that is none of the table's.
pub fn read_as(original: &[&str], docs: &[OptionDoc], words: &[String]) -> Result<Typed, Mistyped> {
    let mut typed = Typed::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            typed.operands.extend(words.cloned());
            break;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let doc = long_option(original, docs, name)?;
            let value = match (doc.kind, value) {
                (Kind::Flag, None) => "true".to_owned(),
                (Kind::Flag, Some(_)) => return Err(Mistyped::NoFlagValue(doc.name.to_owned())),
                (_, Some(value)) => value,
                (_, None) => match words.next() {
                    Some(value) => value.clone(),
                    None => return Err(Mistyped::NoValue(doc.name.to_owned())),
                },
            };
            typed.order.push(doc.name);
            typed.options.insert(doc.name.to_owned(), value);
        } else if word.len() > 1 && word.starts_with('-') {
            cluster(docs, &word[1..], &mut words, &mut typed)?;
        } else {
            typed.operands.push(word.clone());
        }
    }
    Ok(typed)
}

/// `-abc`, `-g4`, `-g 4`.
fn cluster(
    docs: &[OptionDoc],
    letters: &str,
    words: &mut std::slice::Iter<'_, String>,
    typed: &mut Typed,
) -> Result<(), Mistyped> {
    let mut rest = letters.chars();
    while let Some(letter) = rest.next() {
        let doc =
            docs.iter().find(|doc| doc.short == Some(letter)).ok_or(Mistyped::NoShort(letter))?;
        typed.order.push(doc.name);
        if doc.kind == Kind::Flag {
            typed.options.insert(doc.name.to_owned(), "true".to_owned());
            continue;
        }
        let value = match rest.as_str() {
            "" => words.next().cloned().ok_or(Mistyped::NoShortValue(letter))?,
            value => value.to_owned(),
        };
        typed.options.insert(doc.name.to_owned(), value);
        return Ok(());
    }
    Ok(())
}

/// The option of this name, or the only one that starts with it; `-` and `_` are the same.
fn long_option<'d>(
    original: &[&str],
    docs: &'d [OptionDoc],
    name: &str,
) -> Result<&'d OptionDoc, Mistyped> {
    let plain = |text: &str| text.replace('_', "-");
    let wanted = plain(name);
    if let Some(exact) = docs.iter().find(|doc| plain(doc.name) == wanted) {
        return Ok(exact);
    }
    let near: Vec<&OptionDoc> =
        docs.iter().filter(|doc| plain(doc.name).starts_with(&wanted)).collect();
    let theirs: Vec<&OptionDoc> =
        near.iter().copied().filter(|doc| original.contains(&doc.name)).collect();
    let near = if theirs.is_empty() { near } else { theirs };
    match near[..] {
        [one] if !wanted.is_empty() => Ok(one),
        [_, _, ..] if !wanted.is_empty() => {
            let names: Vec<String> = near.iter().map(|doc| format!("'--{}'", doc.name)).collect();
            Err(Mistyped::Ambiguous(name.to_owned(), names.join(" ")))
        }
        _ => Err(Mistyped::NoLong(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(words: &str) -> Result<Typed, Mistyped> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        read(crate::workloads::find("schbench").unwrap().options, &words)
    }

    #[test]
    fn options_are_read_as_getopt_long_does() {
        for (words, expected) in [
            ("-m 4 -t16", "message-threads=4 threads=16"),
            ("-Lm2", "message-threads=2 no-locking=true"),
            ("--runtim=5 --cache-footprint 64", "cache_footprint=64 runtime=5"),
            ("--sleep-usec 1 --sleep_usec 2", "sleep_usec=2"),
            ("-r 1 -- -t 3", "runtime=1"),
        ] {
            let options = typed(words).unwrap().options;
            let shown: Vec<String> = options.iter().map(|(a, b)| format!("{a}={b}")).collect();
            assert_eq!(shown.join(" "), expected, "{words}");
        }
        assert_eq!(typed("-r 1 -- -t 3").unwrap().operands, ["-t", "3"]);
    }

    #[test]
    fn what_is_no_option_is_named() {
        assert!(matches!(typed("--r 1"), Err(Mistyped::Ambiguous(..))));
        assert_eq!(typed("--frob"), Err(Mistyped::NoLong("frob".into())));
        assert_eq!(typed("-x"), Err(Mistyped::NoShort('x')));
        assert_eq!(typed("-m"), Err(Mistyped::NoShortValue('m')));
        assert_eq!(typed("--message-threads"), Err(Mistyped::NoValue("message-threads".into())));
        assert_eq!(typed("--no-locking=1"), Err(Mistyped::NoFlagValue("no-locking".into())));
    }

    #[test]
    fn a_slip_of_a_letter_is_told_with_what_was_meant() {
        let docs = crate::workloads::find("hackbench").unwrap().options;
        let hint = |name: &str| Mistyped::NoLong(name.to_owned()).hint(docs);
        assert_eq!(hint("gruops"), "did you mean --groups?");
        assert_eq!(hint("datasise"), "did you mean --datasize?");
        assert_eq!(hint("frobnicate"), "");
        assert_eq!(Mistyped::NoShort('x').hint(docs), "");
    }

    #[test]
    fn the_order_of_options_is_kept() {
        let docs = crate::workloads::find("hackbench").unwrap().options;
        let words = ["-PT", "--groups=1", "-P"].map(str::to_owned);
        let order = read(docs, &words).unwrap().order;
        assert_eq!(order, ["processes", "threads", "groups", "processes"]);
    }

    #[test]
    fn what_begins_like_an_option_of_the_original_means_that() {
        let docs = crate::workloads::find("hackbench").unwrap().options;
        let read = |original: &[&str], word: &str| {
            let words = [word.to_owned(), "1".to_owned()];
            read_as(original, docs, &words).map(|typed| typed.options)
        };
        // Of ours both --duration and --datasize begin so; the original has the second alone.
        assert!(matches!(read(&[], "--d"), Err(Mistyped::Ambiguous(..))));
        assert!(read(&["datasize"], "--d").unwrap().contains_key("datasize"));
        assert!(read(&["datasize"], "--du").unwrap().contains_key("duration"));
        let pipes = read(&["pipe", "processes"], "--p").unwrap_err();
        assert!(pipes.to_string().ends_with("possibilities: '--pipe' '--processes'"), "{pipes}");
    }
}
