//! The identity of a run: the hash of what it is.

use crate::Hooks;
use schedlab_workload::{MachineName, RunSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// The name of a run: the first 16 hex digits of the SHA-256 of its content (machine and spec) as
/// canonical JSON: keys sorted, no spaces. Two runs are the same if and only if they are named the same.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// The identity of `spec` on a machine.
    #[must_use]
    pub fn new(machine: &MachineName, spec: &RunSpec) -> Self {
        Self::with_hooks(machine, spec, &Hooks::default())
    }

    /// The identity of `spec` with commands around it.
    #[must_use]
    pub fn with_hooks(machine: &MachineName, spec: &RunSpec, hooks: &Hooks) -> Self {
        let spec = serde_json::to_value(spec).expect("specs are plain values");
        let mut content = serde_json::json!({ "machine": machine.to_string(), "spec": spec });
        if *hooks != Hooks::default() {
            content["hooks"] = serde_json::to_value(hooks).expect("hooks are plain values");
        }
        let mut text = String::new();
        canonical(&content, &mut text);
        let digest = Sha256::digest(text.as_bytes());
        let hex: Vec<String> = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self(hex.concat())
    }

    /// The id as 16 hexadecimal digits.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// JSON with sorted keys. `serde_json` sorts them too, unless some crate in the tree asks it to keep
/// their order: names of runs must not hang on that.
fn canonical(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value;
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                canonical(item, out);
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::WorkloadSpec;

    fn host() -> MachineName {
        MachineName::default()
    }

    fn spec(repeat: u32) -> RunSpec {
        let workload = WorkloadSpec::Command { argv: vec!["true".into()] };
        RunSpec { seed: 1, repeat, ..RunSpec::of(workload) }
    }

    #[test]
    fn a_name_is_16_hex_digits_and_depends_on_all_content() {
        let id = RunId::new(&host(), &spec(0));
        assert_eq!(id.as_str().len(), 16);
        assert!(id.as_str().bytes().all(|b| b.is_ascii_hexdigit()));
        assert_eq!(id, RunId::new(&host(), &spec(0)));
        assert_ne!(id, RunId::new(&host(), &spec(1)));
        assert_ne!(id, RunId::new(&MachineName::of("sim"), &spec(0)));
    }

    #[test]
    fn keys_are_sorted_however_they_came() {
        let value: serde_json::Value =
            serde_json::from_str(r#"{"b":[1,{"d":2,"c":"x\"y"}],"a":null}"#).unwrap();
        let mut text = String::new();
        canonical(&value, &mut text);
        assert_eq!(text, r#"{"a":null,"b":[1,{"c":"x\"y","d":2}]}"#);
    }
}
