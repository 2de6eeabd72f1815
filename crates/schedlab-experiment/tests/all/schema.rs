//! The JSON schema that editors use knows the same keys as the reader of experiment files.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiment.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the schema is checked in"))
        .expect("the schema is JSON")
}

/// The object that describes a table, behind choices and arrays.
fn object(value: &Value) -> &Value {
    if value.get("properties").is_some() {
        return value;
    }
    if let Some(items) = value.get("items") {
        return object(items);
    }
    let choices = value["oneOf"].as_array().expect("a table, an array of them, or a choice");
    choices.iter().find(|choice| choice.get("properties").is_some()).expect("one choice is a table")
}

#[test]
fn the_schema_has_exactly_the_keys_that_are_read() {
    let schema = schema();
    for (table, keys) in schedlab_experiment::keys() {
        let inside = |described, key: &str| object(&object(described)["properties"][key]);
        let described = table.split('.').filter(|key| !key.is_empty()).fold(&schema, inside);
        let found: BTreeSet<&str> = described["properties"]
            .as_object()
            .expect("it has keys")
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(found, keys.iter().copied().collect(), "table '{table}'");
        assert_eq!(
            described["additionalProperties"], false,
            "table '{table}' refuses unknown keys"
        );
    }
}

#[test]
fn every_example_is_read_and_planned() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut count = 0;
    let listed = |folder: &Path| std::fs::read_dir(folder).expect("there are examples");
    for entry in listed(&folder).chain(listed(&folder.join("gallery"))) {
        let path = entry.expect("it can be listed").path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            let experiment =
                schedlab_experiment::Experiment::read(&path).expect("an example has no mistakes");
            assert!(!schedlab_experiment::Plan::new(&experiment).runs.is_empty());
            count += 1;
        }
    }
    assert!(count >= 2, "{count} examples");
}
