//! What `--json` prints: typed documents, each with the id of its schema in front.
//!
//! A document says what it is by its type and the columns of its rows. The schema that other programs read
//! (`schedlab schema`) is made from the same, so the two cannot differ. `docs/schemas.md` lists the schemas.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;
use std::io::{self, BufWriter, Write as _};

/// An object that a command prints for machines, or stores.
pub(crate) trait Document: Serialize + JsonSchema {
    /// `schedlab/COMMAND/VERSION`. The version rises when a field is removed or changes its meaning.
    const ID: &'static str;
}

#[derive(Serialize)]
struct Written<'d, D> {
    schema: &'static str,
    #[serde(flatten)]
    document: &'d D,
}

/// The document on one line, without the line's end.
pub(crate) fn line<D: Document>(document: &D) -> serde_json::Result<String> {
    serde_json::to_string(&Written { schema: D::ID, document })
}

/// Prints the document on one line.
pub(crate) fn print<D: Document>(document: &D) -> anyhow::Result<()> {
    let mut out = BufWriter::new(crate::output::stdout());
    serde_json::to_writer(&mut out, &Written { schema: D::ID, document })
        .map_err(io::Error::from)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

/// The id of a document and the schema of all documents with that id.
#[derive(Clone, Copy)]
pub(crate) struct Schema {
    pub(crate) id: &'static str,
    schema: fn() -> schemars::Schema,
    /// Whether a document begins with its id. Of lines of a file the file's place is the name.
    has_id: bool,
}

/// The schema of a kind of document.
pub(crate) const fn of<D: Document>() -> Schema {
    stored::<D>(D::ID)
}

/// The schema of a file that begins with its id by itself.
pub(crate) const fn stored<T: JsonSchema>(id: &'static str) -> Schema {
    Schema { id, schema: made::<T>, has_id: true }
}

/// The schema of lines that do not begin with their id.
pub(crate) const fn lines<T: JsonSchema>(id: &'static str) -> Schema {
    Schema { id, schema: made::<T>, has_id: false }
}

fn made<T: JsonSchema>() -> schemars::Schema {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.into_root_schema_for::<T>()
}

impl Schema {
    /// The command: `trace-latency`.
    pub(crate) fn name(&self) -> &'static str {
        self.id.split('/').nth(1).unwrap_or(self.id)
    }

    /// As JSON, with the field that [`line()`] puts in front.
    pub(crate) fn text(&self) -> String {
        let mut schema = (self.schema)();
        schema.insert("title".into(), self.id.into());
        if !self.has_id {
            return format!("{:#}\n", schema.to_value());
        }
        let id = [("const".to_owned(), Value::from(self.id))].into_iter().collect();
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("schema".into(), Value::Object(id));
        }
        match schema.get_mut("required").and_then(Value::as_array_mut) {
            Some(required) => {
                required.retain(|name| name != "schema");
                required.insert(0, "schema".into());
            }
            None => drop(schema.insert("required".into(), vec!["schema"].into())),
        }
        format!("{:#}\n", schema.to_value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::documents as all;
    use clap::CommandFactory as _;

    /// The commands below `command` that have `--json`: `trace-latency`.
    fn with_json(command: &clap::Command, path: &str, found: &mut Vec<String>) {
        if command.get_arguments().any(|argument| argument.get_long() == Some("json")) {
            found.push(path.to_owned());
        }
        for below in command.get_subcommands() {
            let name = below.get_name();
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}-{name}") };
            with_json(below, &path, found);
        }
    }

    #[test]
    fn each_command_with_json_has_a_schema_of_its_name() {
        let mut commands = Vec::new();
        with_json(&crate::cli::Cli::command(), "", &mut commands);
        assert!(commands.len() > 20, "{commands:?}");
        let names: Vec<&str> = all().iter().map(Schema::name).collect();
        for command in commands {
            let has = |name: &&str| command == **name || command.starts_with(&format!("{name}-"));
            assert!(names.iter().any(has), "schedlab/{command}/1 is missing");
        }
    }

    #[test]
    fn ids_have_one_form_and_are_there_once() {
        let mut seen = std::collections::BTreeSet::new();
        for schema in all() {
            let parts: Vec<&str> = schema.id.split('/').collect();
            let [first, name, version] = parts[..] else { panic!("{}", schema.id) };
            let fits = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(first == "schedlab" && name.chars().all(fits), "{}", schema.id);
            assert!(version.parse::<u32>().is_ok_and(|v| v > 0), "{}", schema.id);
            assert!(seen.insert(name), "{name} has two schemas");
        }
    }
}
