//! What commands print, by an implementation of JSON Schema that is not ours.

use std::path::Path;
use std::process::Command;

/// Validates JSON objects, one per line of the file, by the schemas that they name.
pub(crate) fn validate(file: &Path) {
    let has = Command::new("python3").args(["-c", "import jsonschema"]).output();
    if !has.is_ok_and(|output| output.status.success()) {
        let what = "nothing is validated";
        missing!("python3-jsonschema: {what}");
        assert!(std::env::var_os("CI").is_none(), "CI must have python3-jsonschema");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas/validate.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas"))
        .arg(file)
        .output();
    let output = output.expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
