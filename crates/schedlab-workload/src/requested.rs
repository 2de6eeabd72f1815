//! Requests of programs that write no marks: between which two places of a program, or calls, each is.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a request is, as a user asks for it: `[NAME=]PROGRAM:BEGIN[..END][?]`.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Requested {
    /// The name of its marks.
    pub name: String,
    /// The program or library: a path, or the name of a file; [`CALLS`] for system calls.
    pub program: String,
    pub begin: Edge,
    pub end: Edge,
    /// Whether the recording goes on without it.
    pub optional: bool,
    text: String,
}

/// In place of a program: the places are system calls.
pub const CALLS: &str = "syscall";

/// Where a request begins or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// A function, a static probe (USDT) or a system call.
    pub place: String,
    /// At the return of the function or call.
    pub at_return: bool,
    /// What begin and end have in common, in place of the thread: `$arg1`, `$retval`, or a register as `%di`.
    pub key: Option<String>,
}

impl Requested {
    /// Whether it is one call of a function, from its entry to its return.
    #[must_use]
    pub fn is_one_call(&self) -> bool {
        let begin = &self.begin;
        let end = &self.end;
        begin.place == end.place && !begin.at_return && end.at_return && begin.key.is_none()
    }
}

impl Edge {
    fn parse(text: &str) -> Result<Self, String> {
        let (text, key) = match text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
            // Parameters of a C++ function are part of its name.
            Some((place, key)) if key.starts_with(['$', '%']) => (place, Some(key.to_owned())),
            _ => (text, None),
        };
        let (place, at_return) = match text.strip_suffix("%return") {
            Some(place) => (place, true),
            None => (text, false),
        };
        if place.is_empty() || place.chars().any(char::is_control) {
            return Err("a function, a probe or a call is missing".into());
        }
        match key.as_deref() {
            Some("$retval") if !at_return => return Err("$retval is known at %return only".into()),
            Some(key) if at_return && key != "$retval" => {
                return Err(format!("{key} is gone at %return: use $retval"));
            }
            Some(key) if !is_key(key) => {
                return Err(format!("unknown '{key}': use $arg1 to $arg6, $retval or a register"));
            }
            _ => {}
        }
        Ok(Self { place: place.to_owned(), at_return, key })
    }
}

fn is_key(key: &str) -> bool {
    let register = key.strip_prefix('%');
    key == "$retval"
        || key.strip_prefix("$arg").is_some_and(|number| matches!(number.parse(), Ok(1..=6u8)))
        || register
            .is_some_and(|name| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()))
}

impl FromStr for Requested {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "invalid request '{text}': {why}; use PROGRAM:FUNCTION, PROGRAM:BEGIN..END, \
                 PROGRAM:BEGIN($arg1)..END($arg1) or {CALLS}:BEGIN..END"
            )
        };
        let (asked, optional) = text.strip_suffix('?').map_or((text, false), |asked| (asked, true));
        let (head, places) = asked.split_once(':').ok_or_else(|| wrong("no ':' in it"))?;
        let (name, program) =
            head.split_once('=').map_or((None, head), |(name, program)| (Some(name), program));
        if program.is_empty() || program.chars().any(|c| c.is_control() || c == ' ') {
            return Err(wrong("the program is missing, or its name has a space"));
        }
        let edge = |text: &str| Edge::parse(text).map_err(|why| wrong(&why));
        let (begin, end) = match places.split_once("..") {
            Some((begin, end)) => (edge(begin)?, edge(end)?),
            None => {
                let begin = edge(places)?;
                if begin.key.is_some() || begin.at_return {
                    return Err(wrong("one place has neither %return nor an argument"));
                }
                (begin.clone(), Edge { at_return: true, ..begin })
            }
        };
        if begin.key.is_some() != end.key.is_some() {
            return Err(wrong("an argument is needed at both ends or at none"));
        }
        if begin == end {
            return Err(wrong("it begins where it ends"));
        }
        let name = match name {
            Some("") => return Err(wrong("its name is empty")),
            Some(name) => name.to_owned(),
            None if places.contains("..") => format!("{}..{}", begin.place, end.place),
            None => begin.place.clone(),
        };
        let program = program.to_owned();
        let text = text.to_owned();
        Ok(Self { name, program, begin, end, optional, text })
    }
}

/// As it was asked for.
impl fmt::Display for Requested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Requested {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Requested> for String {
    fn from(requested: Requested) -> Self {
        requested.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Requested {
        text.parse().unwrap()
    }

    #[test]
    fn one_function_is_from_its_entry_to_its_return() {
        let one = of("./app:ns::work(int, char)");
        assert_eq!((one.program.as_str(), one.name.as_str()), ("./app", "ns::work(int, char)"));
        assert!(one.is_one_call() && one.end.at_return && !one.optional);
        assert_eq!(one.to_string(), "./app:ns::work(int, char)");
    }

    #[test]
    fn two_places_may_have_an_argument_in_common_a_name_and_a_question_mark() {
        let two = of("conn=libc.so.6:accept%return($retval)..close($arg1)?");
        assert_eq!((two.name.as_str(), two.program.as_str()), ("conn", "libc.so.6"));
        assert!(two.begin.at_return && !two.end.at_return && two.optional && !two.is_one_call());
        assert_eq!(two.begin.key.as_deref(), Some("$retval"));
        assert_eq!(two.end.key.as_deref(), Some("$arg1"));
        assert_eq!(of("postgres:query__start..query__done").name, "query__start..query__done");
        assert_eq!(of("go:a(%r14)..b(%r14)").end.key.as_deref(), Some("%r14"));
    }

    #[test]
    fn what_cannot_be_a_request_is_refused_with_its_reason() {
        for (text, why) in [
            ("postgres", "no ':'"),
            (":work", "the program is missing"),
            ("a b:work", "has a space"),
            ("app:", "is missing"),
            ("app:a..", "is missing"),
            ("app:a..a", "begins where it ends"),
            ("app:a($arg1)..b", "at both ends"),
            ("app:a($arg1)", "one place"),
            ("app:a($arg9)..b($arg1)", "unknown '$arg9'"),
            ("app:a($retval)..b($arg1)", "at %return only"),
            ("app:a%return($arg1)..b($arg1)", "is gone at %return"),
            ("=app:a", "its name is empty"),
            ("app:a..b(%di; x)", "unknown '%di; x'"),
        ] {
            let said = text.parse::<Requested>().unwrap_err();
            assert!(said.contains(why) && said.contains("PROGRAM:BEGIN..END"), "{text}: {said}");
        }
    }
}
