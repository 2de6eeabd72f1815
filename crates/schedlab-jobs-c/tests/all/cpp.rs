//! Programs of C and C++ are compiled, linked with the library as it was built, and run.

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

/// Compiles a source with the headers of a folder, links it with the library, and runs it.
fn run(
    compiler: &[&str],
    include: &str,
    source: &str,
    library: &Path,
    more: &[&str],
) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let built = Command::new(compiler[0])
        .args(&compiler[1..])
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread", "-I"])
        .arg(root.join(include))
        .arg(root.join(source))
        .arg("-o")
        .arg(&program)
        .arg(library)
        .args(more)
        .output();
    let Ok(built) = built else {
        let _ = writeln!(std::io::stderr(), "MISSING: {}: {source} was not compiled", compiler[0]);
        return None;
    };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    crate::machine_lock::share();
    let path = library.parent().expect("a folder");
    let out = Command::new(&program).env("LD_LIBRARY_PATH", path).output().expect("it was built");
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}: {said}{}", out.status, String::from_utf8_lossy(&out.stderr));
    Some(said)
}

const LIBRARIES: [(&str, &[&str]); 2] =
    [("libschedlab_jobs_c.so", &[]), ("libschedlab_jobs_c.a", &["-ldl", "-lm"])];

#[test]
fn the_cpp_example_links_with_both_libraries_and_all_its_checks_hold() {
    for (library, more) in LIBRARIES {
        let source = "../../examples/pool/frames.cpp";
        let said = run(&["g++", "-std=c++17"], "include", source, &built(library), more);
        let Some(said) = said else { return };
        assert!(said.starts_with("24 frames shown, 1 lost"), "{library}: {said}");
    }
}

#[test]
fn futures_hold_values_exceptions_and_why_a_job_did_not_run() {
    for (library, more) in LIBRARIES {
        let source = "tests/cpp/futures.cpp";
        let said = run(&["g++", "-std=c++17"], "include", source, &built(library), more);
        let Some(said) = said else { return };
        assert_eq!(said, "0 checks failed\n", "{library}");
    }
}

#[test]
fn a_program_of_the_first_header_works_with_this_library_and_with_this_header() {
    for include in ["tests/first/include", "include"] {
        for (library, more) in LIBRARIES {
            let source = "tests/first/program.c";
            let said = run(&["gcc", "-std=c11"], include, source, &built(library), more);
            let Some(said) = said else { return };
            assert_eq!(said, "2 4 6; done 3, failed 1, dropped 1\n", "{include}, {library}");
        }
    }
}

/// The first header is a beginning of this one: the same values, and no function is missing.
#[test]
fn each_function_and_value_of_the_first_header_is_in_this_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| std::fs::read_to_string(root.join(name)).expect("a header");
    let (first, now) =
        (read("tests/first/include/schedlab_jobs.h"), read("include/schedlab_jobs.h"));
    let said = |line: &&str| line.contains("SCHEDLAB_") && line.contains('=') || line.contains('(');
    let is_code = |line: &&str| !line.trim_start().starts_with(['/', '*']) && said(line);
    for line in first.lines().filter(|line| !line.contains("/*")).filter(is_code) {
        let line = line.trim_end_matches(',');
        assert!(now.contains(line), "{line}");
    }
}
