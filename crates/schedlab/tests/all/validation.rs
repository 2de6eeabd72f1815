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
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_schemas(folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schemas/validate.py");
    let output = Command::new("python3").arg(script).arg(folder.path()).arg(file).output();
    let output = output.expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// Writes the schemas of this program, a file each.
fn write_schemas(folder: &Path) {
    let schema = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let output = command.arg("schema").args(words).output().expect("the built command starts");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for id in schema(&[]).lines() {
        let name = id.split('/').nth(1).expect("an id has three parts");
        std::fs::write(folder.join(format!("{name}.json")), schema(&[id])).expect("it is written");
    }
}
