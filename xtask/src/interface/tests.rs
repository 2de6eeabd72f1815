//! Listings of made libraries.

use super::items::lines;
use serde_json::{Value, json};

/// A library with one function of a generic type, a growing enumeration, a private field and a renamed item.
fn library() -> Value {
    let none = json!({"params": [], "where_predicates": []});
    let function = json!({
        "sig": {
            "inputs": [
                ["self", {"borrowed_ref": {"lifetime": null, "is_mutable": true, "type": {"generic": "Self"}}}],
                ["values", {"slice": {"primitive": "u8"}}],
            ],
            "output": {"resolved_path": {"path": "std::option::Option", "args": {
                "angle_bracketed": {"args": [{"type": {"generic": "T"}}], "constraints": []}}}},
        },
        "generics": {
            "params": [{"name": "T", "kind": {"type": {
                "bounds": [{"trait_bound": {"trait": {"path": "Clone", "args": null},
                    "generic_params": [], "modifier": "none"}}],
                "default": null, "is_synthetic": false}}}],
            "where_predicates": [],
        },
        "header": {"is_const": true, "is_async": false, "is_unsafe": false, "abi": "Rust"},
    });
    json!({"root": 0, "index": {
        "0": {"name": "lib", "inner": {"module": {"items": [1, 2, 3]}}},
        "1": {"name": "S", "attrs": [], "inner": {"struct": {
            "kind": {"tuple": [null, 11]}, "generics": none, "impls": [12, 13]}}},
        "11": {"name": "1", "inner": {"struct_field": {"primitive": "u64"}}},
        "12": {"inner": {"impl": {"is_synthetic": false, "blanket_impl": null, "generics": none,
            "trait": null, "items": [14]}}},
        "13": {"inner": {"impl": {"is_synthetic": true, "blanket_impl": null, "generics": none,
            "trait": {"path": "Send", "args": null}, "items": []}}},
        "14": {"name": "first", "inner": {"function": function}},
        "2": {"name": "E", "attrs": ["non_exhaustive"], "inner": {"enum": {
            "generics": none, "variants": [21], "impls": []}}},
        "21": {"name": "A", "inner": {"variant": {"kind": "plain", "discriminant": null}}},
        "3": {"name": null, "inner": {"use": {
            "source": "hidden::S", "name": "Other", "id": 1, "is_glob": false}}},
    }})
}

#[test]
fn each_public_item_has_a_line_and_private_parts_have_none() {
    let expected = [
        "#[non_exhaustive] pub enum lib::E",
        "lib::E::A",
        "pub use lib::Other = lib::S",
        "pub struct lib::S(_, u64)",
        "pub const fn lib::S::first<T: Clone>(&mut self, values: [u8]) -> Option<T>",
    ];
    assert_eq!(lines(&library()), expected);
}
