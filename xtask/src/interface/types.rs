//! Types, bounds and generics of rustdoc's JSON, as Rust writes them.

use serde_json::Value;

/// A type.
pub(super) fn ty(value: &Value) -> String {
    let Some((kind, inner)) = value.as_object().and_then(|object| object.iter().next()) else {
        // `infer` is a bare word.
        return "_".into();
    };
    match kind.as_str() {
        "primitive" if inner == "never" => "!".into(),
        "primitive" | "generic" => text(inner),
        "resolved_path" => path(inner),
        "tuple" => tuple(inner),
        "slice" => format!("[{}]", ty(inner)),
        "array" => format!("[{}; {}]", ty(&inner["type"]), text(&inner["len"])),
        "borrowed_ref" => {
            let lifetime = inner["lifetime"].as_str().map(|name| format!("{name} "));
            let mutable = if inner["is_mutable"] == true { "mut " } else { "" };
            format!("&{}{mutable}{}", lifetime.unwrap_or_default(), ty(&inner["type"]))
        }
        "raw_pointer" => {
            let kind = if inner["is_mutable"] == true { "mut" } else { "const" };
            format!("*{kind} {}", ty(&inner["type"]))
        }
        "impl_trait" => format!("impl {}", bounds(inner)),
        "dyn_trait" => {
            let mut traits: Vec<String> = list(&inner["traits"]).iter().map(poly_trait).collect();
            traits.extend(inner["lifetime"].as_str().map(str::to_owned));
            format!("dyn {}", traits.join(" + "))
        }
        "function_pointer" => {
            let inputs = list(&inner["sig"]["inputs"]).iter().map(|input| ty(&input[1]));
            let inputs: Vec<String> = inputs.collect();
            format!(
                "{}fn({}){}",
                header(&inner["header"]),
                inputs.join(", "),
                output(&inner["sig"])
            )
        }
        "qualified_path" => {
            let of = ty(&inner["self_type"]);
            let name = format!("{}{}", text(&inner["name"]), arguments(&inner["args"]));
            match inner["trait"]["path"].as_str() {
                Some("") | None => format!("{of}::{name}"),
                Some(_) => format!("<{of} as {}>::{name}", path(&inner["trait"])),
            }
        }
        other => format!("<{other}>"),
    }
}

fn tuple(value: &Value) -> String {
    let types: Vec<String> = list(value).iter().map(ty).collect();
    match &types[..] {
        [only] => format!("({only},)"),
        _ => format!("({})", types.join(", ")),
    }
}

/// A path with its arguments. Where a name comes from is left out, as in the source.
pub(super) fn path(value: &Value) -> String {
    let path = text(&value["path"]);
    let name = path.rsplit("::").next().unwrap_or_default();
    format!("{name}{}", arguments(&value["args"]))
}

fn arguments(value: &Value) -> String {
    if let Some(inner) = value.get("parenthesized") {
        let inputs: Vec<String> = list(&inner["inputs"]).iter().map(ty).collect();
        return format!("({}){}", inputs.join(", "), output(inner));
    }
    let Some(inner) = value.get("angle_bracketed") else { return String::new() };
    let mut all: Vec<String> = list(&inner["args"]).iter().map(argument).collect();
    all.extend(list(&inner["constraints"]).iter().map(constraint));
    if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
}

fn argument(value: &Value) -> String {
    if let Some(inner) = value.get("type") {
        return ty(inner);
    }
    if let Some(inner) = value.get("const") {
        return text(&inner["expr"]);
    }
    value.get("lifetime").map_or_else(|| "_".into(), text)
}

fn constraint(value: &Value) -> String {
    let name = format!("{}{}", text(&value["name"]), arguments(&value["args"]));
    let binding = &value["binding"];
    match binding.get("equality") {
        Some(term) => format!("{name} = {}", argument(term)),
        None => format!("{name}: {}", bounds(&binding["constraint"])),
    }
}

/// What a function returns, with its arrow.
pub(super) fn output(signature: &Value) -> String {
    if signature["output"].is_null() {
        String::new()
    } else {
        format!(" -> {}", ty(&signature["output"]))
    }
}

/// The words before `fn`.
pub(super) fn header(value: &Value) -> String {
    let mut words = String::new();
    for (key, word) in [("is_const", "const "), ("is_async", "async "), ("is_unsafe", "unsafe ")] {
        if value[key] == true {
            words += word;
        }
    }
    match &value["abi"] {
        Value::Object(abi) => {
            let name = abi.keys().next().cloned().unwrap_or_default();
            format!("{words}extern \"{name}\" ")
        }
        _ => words,
    }
}

fn poly_trait(value: &Value) -> String {
    let lifetimes: Vec<String> =
        list(&value["generic_params"]).iter().map(|of| text(&of["name"])).collect();
    let name = path(&value["trait"]);
    if lifetimes.is_empty() { name } else { format!("for<{}> {name}", lifetimes.join(", ")) }
}

/// Bounds, joined by plus.
pub(super) fn bounds(value: &Value) -> String {
    let bound = |bound: &Value| {
        if let Some(inner) = bound.get("trait_bound") {
            let maybe = if inner["modifier"] == "maybe" { "?" } else { "" };
            return Some(format!("{maybe}{}", poly_trait(inner)));
        }
        bound.get("outlives").map(text)
    };
    let all: Vec<String> = list(value).iter().filter_map(bound).collect();
    all.join(" + ")
}

/// The parameters in angle brackets, and the conditions after `where`.
pub(super) fn generics(value: &Value) -> (String, String) {
    let parameters: Vec<String> = list(&value["params"]).iter().filter_map(parameter).collect();
    let conditions: Vec<String> =
        list(&value["where_predicates"]).iter().filter_map(condition).collect();
    let parameters =
        if parameters.is_empty() { String::new() } else { format!("<{}>", parameters.join(", ")) };
    let conditions = if conditions.is_empty() {
        String::new()
    } else {
        format!(" where {}", conditions.join(", "))
    };
    (parameters, conditions)
}

fn parameter(value: &Value) -> Option<String> {
    let (name, kind) = (text(&value["name"]), &value["kind"]);
    if let Some(inner) = kind.get("const") {
        return Some(format!("const {name}: {}", ty(&inner["type"])));
    }
    if let Some(inner) = kind.get("type") {
        // `impl Trait` among the arguments is written there.
        let bounds = bounds(&inner["bounds"]);
        let bounds = if bounds.is_empty() { String::new() } else { format!(": {bounds}") };
        let default = &inner["default"];
        let default = if default.is_null() { String::new() } else { format!(" = {}", ty(default)) };
        return (inner["is_synthetic"] != true).then(|| format!("{name}{bounds}{default}"));
    }
    Some(name)
}

fn condition(value: &Value) -> Option<String> {
    if let Some(inner) = value.get("bound_predicate") {
        return Some(format!("{}: {}", ty(&inner["type"]), bounds(&inner["bounds"])));
    }
    let inner = value.get("lifetime_predicate")?;
    let longer: Vec<String> = list(&inner["outlives"]).iter().map(text).collect();
    Some(format!("{}: {}", text(&inner["lifetime"]), longer.join(" + ")))
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
