//! The rows of an answer, from one description: the type of a row.
//!
//! Its fields are the keys of JSON and the columns of CSV; [`Shown`] chooses those of the text table; the comments of
//! its fields are the tables in `docs/answers.md`. Units are in the names, as everywhere, and decide how a
//! table writes a number.

use super::input::{self, Part};
use super::table::{Table, percent};
use crate::json::{self, Document};
use schedlab_model::{Nanos, Warning, as_text};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::Value;

/// An answer that has rows.
pub(super) trait Answer: Document {
    /// A row. Its comments are the docs of the columns.
    type Row: Serialize + JsonSchema;
    /// The rows, in their order.
    fn rows(&self) -> Vec<&Self::Row>;
}

/// Prints an answer in the form that was asked for; as text unless `part` says otherwise.
pub(super) fn print<A: Answer>(
    part: &Part,
    warnings: &[Warning],
    answer: &A,
    text: impl FnOnce(&A) -> String,
) -> anyhow::Result<()> {
    print_as((part.json, part.csv), warnings, answer, text)
}

/// The same, for who has no [`Part`]: whether as JSON, and whether as CSV.
pub(super) fn print_as<A: Answer>(
    (as_json, as_csv): (bool, bool),
    warnings: &[Warning],
    answer: &A,
    text: impl FnOnce(&A) -> String,
) -> anyhow::Result<()> {
    if as_json {
        return json::print(answer);
    }
    let text = if as_csv { csv::<A::Row>(&answer.rows())? } else { text(answer) };
    input::print_text(&text)?;
    input::print_notes(warnings);
    Ok(())
}

/// A column of CSV.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// The keys that lead to it, with dots between: `wakeup.latency_ns_p99`.
    name: String,
    /// What it is; empty where nobody described it.
    about: String,
}

/// The columns of a row, in the order of its fields.
fn columns<R: JsonSchema>() -> Vec<Column> {
    let mut columns = Vec::new();
    gather(&schema::<R>(), "", &mut columns);
    columns
}

fn schema<R: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_serialize();
    settings.inline_subschemas = true;
    settings.into_generator().into_root_schema_for::<R>().to_value()
}

/// The columns of an object, and of the objects in it.
fn gather(object: &Value, before: &str, columns: &mut Vec<Column>) {
    let names = |key: &str| object[key].as_array().into_iter().flatten();
    let required: Vec<&str> = names("required").filter_map(Value::as_str).collect();
    let properties = object["properties"].as_object();
    let all = properties.into_iter().flatten().map(|(name, _)| name.as_str());
    // What may be absent comes last, if it has a place in a table.
    let absent = all.filter(|name| !required.contains(name));
    let absent = absent.filter(|name| is_flat(inner(&object["properties"][*name])));
    let absent: Vec<&str> = absent.collect();
    for name in required.iter().chain(&absent) {
        let schema = &object["properties"][*name];
        let path = format!("{before}{name}");
        let within = inner(schema);
        if within.get("properties").is_some() {
            gather(within, &format!("{path}."), columns);
        } else {
            let about = schema["description"].as_str().unwrap_or_default();
            columns.push(Column { name: path, about: about.replace('\n', " ") });
        }
    }
}

/// The schema of a value that may be `null`.
fn inner(schema: &Value) -> &Value {
    let choices = schema["anyOf"].as_array();
    let one = choices.and_then(|all| all.iter().find(|one| one["type"] != "null"));
    one.unwrap_or(schema)
}

/// Whether a value is a number, a text, or an object of these.
fn is_flat(schema: &Value) -> bool {
    match schema["properties"].as_object() {
        Some(fields) => fields.values().all(|field| is_flat(inner(field))),
        None => {
            let is = |kind: &str| match &schema["type"] {
                Value::Array(kinds) => kinds.iter().any(|one| one == kind),
                one => one == kind,
            };
            !is("array") && !is("object")
        }
    }
}

fn value<'a>(row: &'a Value, name: &str) -> &'a Value {
    name.split('.').fold(row, |value, key| &value[key])
}

/// A head, and a line for each row. Several values in a cell have spaces between them; of objects the
/// numbers, with colons.
fn csv<R: Serialize + JsonSchema>(rows: &[&R]) -> anyhow::Result<String> {
    let columns = columns::<R>();
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut text = names.join(",") + "\n";
    for row in rows {
        let row = serde_json::to_value(row)?;
        let cells: Vec<String> = names.iter().map(|name| csv_cell(value(&row, name))).collect();
        text += &(cells.join(",") + "\n");
    }
    Ok(text)
}

fn csv_cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        Value::Array(values) => values.iter().map(csv_cell).collect::<Vec<_>>().join(" "),
        Value::Object(fields) => {
            let numbers = fields.values().filter(|value| !value.is_string());
            numbers.map(csv_cell).collect::<Vec<_>>().join(":")
        }
        other => other.to_string(),
    }
}

/// As RFC 4180 has it, and no formula to a spreadsheet.
fn quoted(text: &str) -> String {
    let text = as_text(text);
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into_owned()
    }
}

/// A column of a text table.
pub(super) struct Shown {
    /// As [`Table::new`] takes it.
    head: &'static str,
    /// The column, as CSV names it.
    name: &'static str,
}

impl Shown {
    /// Whether it is this column, as CSV names it.
    pub(super) fn is(&self, name: &str) -> bool {
        self.name == name
    }
}

/// A column of a text table.
pub(super) const fn shown(head: &'static str, name: &'static str) -> Shown {
    Shown { head, name }
}

fn text_cell(name: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_u64(), number.as_f64()) {
            (Some(ns), _) if name.contains("_ns") => Nanos(ns).to_string(),
            (None, Some(mean)) if name.contains("mean") => format!("{mean:.2}"),
            (None, part) => percent(part),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A table of columns, filled from rows.
pub(super) struct Rows<'s> {
    columns: Vec<&'s Shown>,
    table: Table,
}

impl<'s> Rows<'s> {
    pub(super) fn new(columns: impl IntoIterator<Item = &'s Shown>) -> Self {
        let columns: Vec<&Shown> = columns.into_iter().collect();
        let heads: Vec<&str> = columns.iter().map(|shown| shown.head).collect();
        Self { table: Table::new(&heads), columns }
    }

    /// A row; `named` are texts for columns that the row does not have, or has otherwise.
    pub(super) fn row<R: Serialize>(&mut self, row: &R, named: &[(&str, String)]) {
        let row = serde_json::to_value(row).expect("plain values");
        let cell = |shown: &&Shown| match named.iter().find(|(name, _)| *name == shown.name) {
            Some((_, text)) => text.clone(),
            None => text_cell(shown.name, value(&row, shown.name)),
        };
        self.table.row(self.columns.iter().map(cell).collect());
    }

    pub(super) fn text(&self, limit: usize) -> String {
        self.table.text(limit)
    }
}

/// The columns of an answer, for the docs.
#[cfg(test)]
pub(super) struct Described {
    /// The question.
    name: &'static str,
    /// What a row is.
    row: String,
    columns: Vec<Column>,
}

#[cfg(test)]
pub(super) fn described<A: Answer>() -> Described {
    let name = json::of::<A>().name();
    let row = schema::<A::Row>()["description"].as_str().unwrap_or_default().replace('\n', " ");
    Described { name, row, columns: columns::<A::Row>() }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test writes where nobody else does")]
mod tests {
    use super::*;
    use schedlab_model::{Better, Unit};
    use schedlab_timeline::{Total, totals};
    use serde_json::json;
    use std::fmt::Write as _;
    use std::path::Path;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(csv_cell(&json!("a, \"b\"")), "\"a, \"\"b\"\"\"");
        assert_eq!(csv_cell(&json!([1, 2])), "1 2");
        assert_eq!(csv_cell(&json!([{"pid": 7, "comm": "a", "waited_ns": 9}])), "7:9");
        assert_eq!(csv_cell(&Value::Null), "");
    }

    #[test]
    fn a_table_writes_numbers_by_the_units_in_their_names() {
        assert_eq!(text_cell("wait_ns", &json!(2_000)), "2us");
        assert_eq!(text_cell("slice_ns_p50", &Value::Null), "-");
        assert_eq!(text_cell("utilisation", &json!(0.25)), "25.0%");
        assert_eq!(text_cell("running_mean", &json!(0.25)), "0.25");
        assert_eq!(text_cell("slices", &json!(7)), "7");
    }

    #[derive(Serialize, JsonSchema)]
    struct Pair {
        /// Zeroth.
        zero: u64,
        #[serde(flatten)]
        named: Named,
        inner: Option<Inner>,
        #[serde(skip_serializing_if = "Option::is_none")]
        absent: Option<Vec<Inner>>,
    }

    #[derive(Serialize, JsonSchema)]
    struct Named {
        /// Its name.
        comm: String,
    }

    #[derive(Serialize, JsonSchema)]
    struct Inner {
        /// A time.
        at_ns: Nanos,
    }

    #[test]
    fn columns_are_the_fields_of_a_row_in_their_order() {
        let column = |name: &str, about: &str| Column { name: name.into(), about: about.into() };
        let wanted = [
            column("zero", "Zeroth."),
            column("comm", "Its name."),
            column("inner.at_ns", "A time."),
        ];
        assert_eq!(columns::<Pair>(), wanted);
        let named = Named { comm: "a,b".into() };
        let pair = Pair { zero: 1, named, inner: None, absent: None };
        assert_eq!(csv(&[&pair]).unwrap(), "zero,comm,inner.at_ns\n1,\"a,b\",\n");
    }

    /// The generated part of `docs/answers.md`.
    fn page() -> String {
        let mut page = String::new();
        for Described { name, row, columns } in super::super::described() {
            let name = name.trim_start_matches("trace-");
            let _ = write!(
                page,
                "### Columns of {name}\n\n{row}\n\n| column | what it tells |\n|---|---|\n"
            );
            assert!(row.ends_with('.'), "trace {name}: its rows have no description");
            for Column { name: column, about } in columns {
                assert!(about.ends_with('.'), "trace {name}: {column} has no description");
                let _ = writeln!(page, "| `{column}` | {about} |");
            }
            page.push('\n');
        }
        page + "### Totals\n\n\
                Numbers for the whole trace. `trace compare` prints them; a recorded run stores them with\n\
                `trace_` before the name. *Grows* marks those that `trace compare` divides by the time.\n\n\
                | total | better | grows | definition |\n|---|---|---|---|\n"
            + &total_lines()
    }

    /// A line for each total; the quantiles of a histogram share one.
    fn total_lines() -> String {
        let base = |total: &Total| total.name.split("_ns_").next().unwrap_or_default().to_owned();
        let mut text = String::new();
        for run in totals().chunk_by(|a, b| a.name.contains("_ns_") && base(a) == base(b)) {
            let [first, others @ ..] = run else { continue };
            let ends = others.iter().filter_map(|total| total.name.rsplit('_').next());
            let ends: String = ends.map(|end| format!(", `_{end}`")).collect();
            let better = match first.better {
                Better::Lower => "lower",
                Better::Higher => "higher",
                Better::Neither => "",
            };
            let grows = if first.grows { "yes" } else { "" };
            let unit = if first.unit == Unit::Fraction { " From 0 to 1." } else { "" };
            let (name, about) = (&first.name, &first.about);
            let _ = writeln!(text, "| `{name}`{ends} | {better} | {grows} | {about}{unit} |");
        }
        text
    }

    const BEGIN: &str = "<!-- generated: begin -->\n";
    const END: &str = "<!-- generated: end -->\n";

    #[test]
    fn the_page_of_answers_holds_their_columns_and_totals() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/answers.md");
        let kept = std::fs::read_to_string(&path).expect("docs/answers.md is checked in");
        let (before, rest) = kept.split_once(BEGIN).expect("the generated part begins");
        let (_, after) = rest.split_once(END).expect("the generated part ends");
        let made = format!("{before}{BEGIN}{}{END}{after}", page());
        if std::env::var_os("SCHEDLAB_DOCS").is_some_and(|word| word == "write") {
            std::fs::write(&path, &made).expect("docs/ can be written");
        }
        let kept = std::fs::read_to_string(&path).expect("docs/answers.md is checked in");
        assert!(
            kept == made,
            "docs/answers.md is out of date: SCHEDLAB_DOCS=write cargo test -p schedlab columns"
        );
    }
}
