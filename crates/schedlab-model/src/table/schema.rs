//! The JSON schema of rows, from their columns.

use super::json::{Field, fields, names};
use super::{Column, Head, Kind, One, Row, Rows};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

impl<R: Row> JsonSchema for Rows<'_, R> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Rows".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        made(json!({ "type": "array", "items": row::<R>() }))
    }
}

impl<R: Row> JsonSchema for One<'_, R> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Row".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        made(row::<R>())
    }
}

fn made(schema: Value) -> Schema {
    Schema::try_from(schema).expect("an object is a schema")
}

fn row<R: Row>() -> Value {
    let columns = R::columns();
    let mut schema = columns_schema(columns.iter().map(Column::head));
    schema.insert("description".into(), R::ABOUT.into());
    Value::Object(schema)
}

fn columns_schema<'h>(heads: impl Iterator<Item = &'h Head>) -> Map<String, Value> {
    let heads: Vec<&Head> = heads.collect();
    object(&fields(&names(heads.iter().copied())), &heads)
}

fn object(fields: &[Field<'_>], heads: &[&Head]) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        match field {
            Field::Cell(name, place) => {
                let head = heads[*place];
                let mut schema = kind(&head.kind, head.nullable);
                schema.insert("description".into(), head.about.as_ref().into());
                properties.insert((*name).to_owned(), Value::Object(schema));
                required.extend((!head.on_request).then_some(*name));
                if head.bounded || head.need.is_some() {
                    let about = "`at_least`, `at_most` or `within N`; `null` where it is exact.";
                    let bound = json!({ "type": ["string", "null"], "description": about });
                    properties.insert(format!("{name}_bound"), bound);
                }
            }
            Field::Object(name, fields) => {
                let mut schema = object(fields, heads);
                if all_nullable(fields, heads) {
                    schema.insert("type".into(), json!(["object", "null"]));
                }
                properties.insert((*name).to_owned(), Value::Object(schema));
                required.extend((!on_request(fields, heads)).then_some(*name));
            }
        }
    }
    let schema = json!({ "type": "object", "properties": properties, "required": required });
    schema.as_object().cloned().unwrap_or_default()
}

fn all_nullable(fields: &[Field<'_>], heads: &[&Head]) -> bool {
    fields.iter().all(|field| match field {
        Field::Cell(_, place) => heads[*place].nullable,
        Field::Object(_, fields) => all_nullable(fields, heads),
    })
}

fn on_request(fields: &[Field<'_>], heads: &[&Head]) -> bool {
    fields.iter().all(|field| match field {
        Field::Cell(_, place) => heads[*place].on_request,
        Field::Object(_, fields) => on_request(fields, heads),
    })
}

fn kind(kind: &Kind, nullable: bool) -> Map<String, Value> {
    let mut schema = match kind {
        Kind::Duration | Kind::Point | Kind::Count => json!({ "type": "integer", "minimum": 0 }),
        Kind::Cpu | Kind::Number => json!({ "type": "integer" }),
        // What is not finite is null.
        Kind::Share | Kind::Real | Kind::MeanTime => json!({ "type": "number" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Text => json!({ "type": "string" }),
        Kind::List(of, nullable) => {
            json!({ "type": "array", "items": self::kind(of, *nullable) })
        }
        Kind::Rows(heads) => {
            json!({ "type": "array", "items": columns_schema(heads.iter()) })
        }
    };
    if nullable && let Some(of) = schema["type"].as_str() {
        schema["type"] = json!([of, "null"]);
    }
    schema.as_object().cloned().unwrap_or_default()
}
