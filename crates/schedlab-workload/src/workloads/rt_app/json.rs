//! JSON whose objects keep the order of their keys: events are done in the order written.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A value.
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
    serde_json::from_str(text).map_err(|error| error.to_string())
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

    /// A whole number.
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
