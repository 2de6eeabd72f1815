//! What a library offers, one line for each item, from rustdoc's JSON.

use super::types::{bounds, generics, header, list, output, path, text, ty};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// All lines of a library, in the order of their paths.
pub(super) fn lines(document: &Value) -> Vec<String> {
    let mut walk =
        Walk { index: &document["index"], lines: BTreeSet::new(), seen: BTreeMap::new() };
    let root = walk.item(&document["root"]);
    let name = text(&root["name"]);
    walk.module(root, &name);
    walk.lines.into_iter().map(|(_, line)| line).collect()
}

struct Walk<'d> {
    index: &'d Value,
    /// The path of an item, and its line.
    lines: BTreeSet<(String, String)>,
    /// Where an item was first met.
    seen: BTreeMap<String, String>,
}

impl<'d> Walk<'d> {
    fn item(&self, id: &Value) -> &'d Value {
        &self.index[id.to_string()]
    }

    /// Adds a line: what is before the path, the path, and what is after it.
    fn add(&mut self, before: &str, path: &str, after: &str) {
        self.lines.insert((path.to_owned(), format!("{before}{path}{after}")));
    }

    fn module(&mut self, module: &Value, at: &str) {
        for id in list(&module["inner"]["module"]["items"]) {
            self.offered(id, at, None);
        }
    }

    /// An item that can be named below a path, perhaps under another name.
    fn offered(&mut self, id: &Value, at: &str, renamed: Option<&str>) {
        let item = self.item(id);
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next())
        else {
            return;
        };
        if kind == "use" {
            return self.reexported(inner, at);
        }
        let name = renamed.map_or_else(|| text(&item["name"]), str::to_owned);
        let path = format!("{at}::{name}");
        if let Some(first) = self.seen.get(&id.to_string()) {
            let also = format!(" = {first}");
            if *first != path {
                self.add("pub use ", &path, &also);
            }
            return;
        }
        self.seen.insert(id.to_string(), path.clone());
        match kind.as_str() {
            "module" => {
                self.add("pub mod ", &path, "");
                self.module(item, &path);
            }
            "struct" | "enum" | "union" | "trait" => self.data(kind, item, inner, &path),
            "macro" => self.add("macro_rules! ", &path, ""),
            _ => self.plain("pub ", item, &path),
        }
    }

    fn reexported(&mut self, inner: &Value, at: &str) {
        let target = self.item(&inner["id"]);
        let name = text(&inner["name"]);
        if target.is_null() {
            let glob = if inner["is_glob"] == true { "::*" } else { "" };
            let from = format!(" = {}{glob}", text(&inner["source"]));
            return self.add("pub use ", &format!("{at}::{name}"), &from);
        }
        if inner["is_glob"] != true {
            return self.offered(&inner["id"], at, Some(&name));
        }
        let enumeration = list(&target["inner"]["enum"]["variants"]);
        if !enumeration.is_empty() {
            let from = format!(" = {}::*", text(&inner["source"]));
            return self.add("pub use ", &format!("{at}::*"), &from);
        }
        self.module(target, at);
    }

    /// Types and traits, with what belongs to them.
    fn data(&mut self, kind: &str, item: &Value, inner: &Value, path: &str) {
        let (parameters, conditions) = generics(&inner["generics"]);
        let grows = list(&item["attrs"]).iter().any(|attribute| attribute == "non_exhaustive");
        let grows = if grows { "#[non_exhaustive] " } else { "" };
        let above = above(&inner["bounds"]);
        let parts = self.tuple_parts(&inner["kind"]["tuple"]);
        let word = if inner["is_unsafe"] == true { "unsafe " } else { "" };
        self.add(
            &format!("{grows}pub {word}{kind} "),
            path,
            &format!("{parameters}{parts}{above}{conditions}"),
        );
        for id in list(&inner["kind"]["plain"]["fields"]).iter().chain(list(&inner["fields"])) {
            self.field(id, path, "pub ");
        }
        for id in list(&inner["variants"]) {
            self.variant(id, path);
        }
        for id in list(&inner["items"]) {
            let item = self.item(id);
            self.plain("", item, &format!("{path}::{}", text(&item["name"])));
        }
        for id in list(&inner["impls"]) {
            self.implementation(id, path);
        }
    }

    /// The fields of a tuple in brackets; hidden ones are `_`.
    fn tuple_parts(&self, fields: &Value) -> String {
        let Some(fields) = fields.as_array() else { return String::new() };
        let part = |id: &Value| match id {
            Value::Null => "_".to_owned(),
            id => ty(&self.item(id)["inner"]["struct_field"]),
        };
        format!("({})", fields.iter().map(part).collect::<Vec<_>>().join(", "))
    }

    fn field(&mut self, id: &Value, path: &str, before: &str) {
        let item = self.item(id);
        let kind = format!(": {}", ty(&item["inner"]["struct_field"]));
        self.add(before, &format!("{path}::{}", text(&item["name"])), &kind);
    }

    fn variant(&mut self, id: &Value, path: &str) {
        let item = self.item(id);
        let inner = &item["inner"]["variant"];
        let path = format!("{path}::{}", text(&item["name"]));
        let parts = self.tuple_parts(&inner["kind"]["tuple"]);
        let value = inner["discriminant"]["value"].as_str().map(|value| format!(" = {value}"));
        self.add("", &path, &format!("{parts}{}", value.unwrap_or_default()));
        for id in list(&inner["kind"]["struct"]["fields"]) {
            self.field(id, &path, "");
        }
    }

    fn implementation(&mut self, id: &Value, at: &str) {
        let inner = &self.item(id)["inner"]["impl"];
        if inner["is_synthetic"] == true || !inner["blanket_impl"].is_null() {
            return;
        }
        let (parameters, conditions) = generics(&inner["generics"]);
        if inner["trait"].is_null() {
            for id in list(&inner["items"]) {
                let item = self.item(id);
                self.plain("pub ", item, &format!("{at}::{}", text(&item["name"])));
            }
            return;
        }
        let name = path(&inner["trait"]);
        // Derived helpers of comparisons say nothing more than the comparison.
        if name != "StructuralPartialEq" {
            let of = ty(&inner["for"]);
            let line = format!("impl{parameters} {name} for {of}{conditions}");
            // After all that has a name.
            self.lines.insert((format!("{at}::~{name}"), line));
        }
    }

    /// Functions, constants, statics, aliases and associated types.
    fn plain(&mut self, before: &str, item: &Value, path: &str) {
        let Some((kind, inner)) = item["inner"].as_object().and_then(|inner| inner.iter().next())
        else {
            return;
        };
        let (parameters, conditions) = generics(&inner["generics"]);
        match kind.as_str() {
            "function" => {
                let arguments = arguments(&inner["sig"]);
                let words = format!("{before}{}fn ", header(&inner["header"]));
                let end = format!("{parameters}({arguments}){}{conditions}", output(&inner["sig"]));
                self.add(&words, path, &end);
            }
            "constant" | "assoc_const" => {
                self.add(&format!("{before}const "), path, &format!(": {}", ty(&inner["type"])));
            }
            "static" => self.add("pub static ", path, &format!(": {}", ty(&inner["type"]))),
            "type_alias" => {
                let end = format!("{parameters} = {}{conditions}", ty(&inner["type"]));
                self.add(&format!("{before}type "), path, &end);
            }
            "assoc_type" => self.add("type ", path, &above(&inner["bounds"])),
            other => self.add(&format!("{before}{other} "), path, ""),
        }
    }
}

/// The traits that a trait or an associated type asks for, after a colon; nothing where there are none.
fn above(traits: &Value) -> String {
    let traits = bounds(traits);
    if traits.is_empty() { traits } else { format!(": {traits}") }
}

fn arguments(signature: &Value) -> String {
    let argument = |argument: &Value| {
        let (name, kind) = (text(&argument[0]), ty(&argument[1]));
        match (name.as_str(), kind.as_str()) {
            ("self", "Self") => name,
            ("self", "&Self") => "&self".into(),
            ("self", "&mut Self") => "&mut self".into(),
            _ => format!("{name}: {kind}"),
        }
    };
    list(&signature["inputs"]).iter().map(argument).collect::<Vec<_>>().join(", ")
}
