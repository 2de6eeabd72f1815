//! JSON as files of rt-app have it. Objects keep the order of their keys, and a key may come twice:
//! events are done in the order written. Comments, commas after the last value and keys without a
//! value are taken, since the tool's own files have them.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Nothing,
    Truth(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Reads a text; the reason, with line and column, why it is none.
pub(super) fn read(text: &str) -> Result<Node, String> {
    serde_json::from_str(&strict(text)?).map_err(|error| error.to_string())
}

/// What was last seen outside of comments and space.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    /// Where a key or value may begin in an object.
    KeyDue,
    Key,
    Other,
}

/// The text as strict JSON, each line where it was: comments become space, `null` follows a key that
/// has no value, and a comma before a closing bracket goes.
fn strict(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut nested = Vec::new();
    let mut seen = Seen::Other;
    let mut comma = None;
    while let Some(c) = chars.next() {
        match c {
            '/' if matches!(chars.peek(), Some('/' | '*')) => comment(&mut chars, &mut out)?,
            c if c.is_whitespace() => out.push(c),
            '"' => {
                string(&mut chars, &mut out);
                seen = if seen == Seen::KeyDue { Seen::Key } else { Seen::Other };
                comma = None;
            }
            ',' | '}' | ']' => {
                if seen == Seen::Key {
                    out.push_str(":null");
                }
                if c == ',' {
                    comma = (!out.trim_end().ends_with(['[', '{'])).then_some(out.len());
                } else {
                    nested.pop();
                    if let Some(at) = comma.take() {
                        out.replace_range(at..=at, " ");
                    }
                }
                out.push(c);
                let inside = nested.last() == Some(&'{');
                seen = if c == ',' && inside { Seen::KeyDue } else { Seen::Other };
            }
            c => {
                if matches!(c, '{' | '[') {
                    nested.push(c);
                }
                seen = if c == '{' { Seen::KeyDue } else { Seen::Other };
                comma = None;
                out.push(c);
            }
        }
    }
    Ok(out)
}

type Chars<'t> = std::iter::Peekable<std::str::Chars<'t>>;

/// A comment becomes one space, but keeps its lines.
fn comment(chars: &mut Chars<'_>, out: &mut String) -> Result<(), String> {
    out.push(' ');
    if chars.next() == Some('/') {
        while chars.next_if(|c| *c != '\n').is_some() {}
        return Ok(());
    }
    let mut star = false;
    for c in chars {
        match c {
            '/' if star => return Ok(()),
            '\n' => out.push('\n'),
            _ => {}
        }
        star = c == '*';
    }
    let line = out.lines().count();
    Err(format!("a comment has no end (it ends with */), line {line}"))
}

/// A string with what is escaped in it, as it stands.
fn string(chars: &mut Chars<'_>, out: &mut String) {
    out.push('"');
    let mut escaped = false;
    for c in chars {
        out.push(c);
        match c {
            '"' if !escaped => return,
            _ => escaped = c == '\\' && !escaped,
        }
    }
}

impl Node {
    pub(super) fn object(&self) -> Option<&[(String, Node)]> {
        if let Self::Object(keys) = self { Some(keys) } else { None }
    }

    pub(super) fn list(&self) -> Option<&[Node]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn truth(&self) -> Option<bool> {
        if let Self::Truth(truth) = self { Some(*truth) } else { None }
    }

    pub(super) fn number(&self) -> Option<i64> {
        match self {
            Self::Number(n) if n.fract() == 0.0 && n.abs() < 1e15 => Some(*n as i64),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::Truth(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Number(number as f64))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Node, E> {
        Ok(Node::Number(number as f64))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Node, E> {
        Ok(Node::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut keys: A) -> Result<Node, A::Error> {
        let mut object = Vec::new();
        while let Some(pair) = keys.next_entry()? {
            object.push(pair);
        }
        Ok(Node::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_commas_too_many_and_keys_alone_are_taken_and_lines_stay() {
        let text = "{ /* of\n two lines */ \"a\": [1, 2,], // so\n \"suspend\", \"b\" : \"x//y\\\"/*\",\n \"yield\" }";
        let Node::Object(keys) = read(text).unwrap() else { unreachable!() };
        let list = Node::List(vec![Node::Number(1.0), Node::Number(2.0)]);
        let own = |key: &str, node| (key.to_owned(), node);
        let expected = [
            own("a", list),
            own("suspend", Node::Nothing),
            own("b", Node::Text("x//y\"/*".to_owned())),
            own("yield", Node::Nothing),
        ];
        assert_eq!(keys, expected);
        let error = read("{\n/* a\n */ \"a\": [1,,2]}").unwrap_err();
        assert!(error.contains("line 3"), "{error}");
        assert!(read("{ /* no end").unwrap_err().contains("comment has no end"));
        assert!(read("[1,]").is_ok() && read("[,]").is_err() && read("{\"a\"}").is_ok());
    }
}
