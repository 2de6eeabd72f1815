//! The C++ example of the pool is compiled, linked with the library as it was built, and run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the library of this build lies, as a shared one and as a static one.
fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("it runs");
    let beside = test.parent().expect("it lies in a folder");
    [beside, beside.parent().unwrap_or(beside)]
        .iter()
        .map(|folder| folder.join(name))
        .find(|file| file.exists())
        .unwrap_or_else(|| panic!("{name} was not built beside {}", test.display()))
}

fn run(library: &Path, more: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("frames");
    let built = Command::new("g++")
        .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(root.join("include"))
        .arg(root.join("../../examples/pool/frames.cpp"))
        .arg("-o")
        .arg(&program)
        .arg(library)
        .args(more)
        .output();
    let Ok(built) = built else {
        let _ = writeln!(std::io::stderr(), "MISSING: g++: the C++ example was not compiled");
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let path = library.parent().expect("a folder");
    let out = Command::new(&program).env("LD_LIBRARY_PATH", path).output().expect("it was built");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    Some(said)
}

#[test]
fn the_cpp_example_links_with_both_libraries_and_all_its_checks_hold() {
    for (library, more) in [
        ("libschedlab_jobs_c.so", [].as_slice()),
        ("libschedlab_jobs_c.a", ["-ldl", "-lm"].as_slice()),
    ] {
        let Some(said) = run(&built(library), more) else { return };
        assert!(said.starts_with("24 frames shown, 1 lost"), "{library}: {said}");
    }
}
