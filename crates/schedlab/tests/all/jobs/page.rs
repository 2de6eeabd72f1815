//! `docs/executors.md` as a stranger uses it: the executors on the page are taken from there, built and run, and its
//! table of offers is what the command does.

use super::{example, has, jobs, json, said};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn page() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/executors.md");
    std::fs::read_to_string(file).expect("the page")
}

/// The code of the page from this line on, without its indentation.
fn code(first: &str) -> String {
    let page = page();
    let from = page.find(&format!("    {first}\n")).unwrap_or_else(|| panic!("no `{first}`"));
    let lines = page[from..].lines();
    let block = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
    block.map(|line| line.get(4..).unwrap_or_default().to_owned() + "\n").collect()
}

#[test]
fn the_curve_to_64_workers_is_what_the_command_finds() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/jobs.md");
    let page = std::fs::read_to_string(file).unwrap();
    let rows = page.lines().skip_while(|line| !line.starts_with("| workers | stencil |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let curve: Vec<(u64, String)> = rows
        .map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>())
        .map(|cells| (cells[0].parse().unwrap(), cells[1].to_owned()))
        .collect();
    let graph = ["grain", "--json", "--executor", "virtual", "--shape", "stencil"];
    let size = ["--nodes", "12800", "--fan", "128", "--efficiency", "0.5", "--repeat", "1"];
    let counts = ["--worker-counts", "1,2,4,8,16,32,64"];
    let found = json(&[graph.as_slice(), &size, &counts].concat());
    let found: Vec<(u64, String)> = found["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["workers"].as_u64().unwrap(), format!("{} ns", one["metg_ns"][0])))
        .map(|(workers, metg)| (workers, metg.replace(".0 ", " ")))
        .collect();
    assert_eq!(curve, found);
}

/// Compiles into a library for `lib:`, with warnings as errors.
fn library(compiler: &str, arguments: &[&str], source: &Path, folder: &Path) -> String {
    let library = folder.join("libexecutor.so");
    let header = example("schedlab_executor.h");
    let built = Command::new(compiler)
        .args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(header.parent().expect("a folder"))
        .args(arguments)
        .arg("-o")
        .args([&library, source])
        .output()
        .expect("the compiler is there");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    format!("lib:{}", library.display())
}

fn prove(on: &str) {
    for shape in ["stencil", "fork-join", "isolated"] {
        let load = ["--shape", shape, "--nodes", "40", "--fan", "4", "--time", "2us"];
        let run = ["run", "--json", "--workers", "2", "--executor", on];
        let run = json(&[run.as_slice(), &load].concat());
        assert_eq!((&run["jobs"], &run["proved"]), (&40.into(), &true.into()), "{on}, {shape}");
    }
}

/// The words with which an executor refuses a run, or none.
fn refusal(on: &str, asked: &[&str]) -> Option<String> {
    let load = ["run", "--shape", "isolated", "--nodes", "8", "--time", "2us", "--jitter", "0ns"];
    let out = jobs(&[load.as_slice(), &["--workers", "2", "--executor", on], asked].concat());
    if out.status.success() {
        return None;
    }
    let said = said(&out);
    let (_, what) = said.split_once(" does not offer ").unwrap_or_else(|| panic!("{on}: {said}"));
    Some(what.trim_end().to_owned())
}

/// Where an executor lets the machine's stalls be seen, in the words of the page.
fn stalls(on: &str) -> &'static str {
    let load = ["run", "--shape", "isolated", "--nodes", "8", "--time", "2us", "--jitter", "0ns"];
    let timed = ["--json", "--arrivals", "gap:1ms", "--workers", "2", "--executor", on];
    let out = jobs(&[load.as_slice(), &timed].concat());
    let run: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    if run["machine"]["in_jobs_ns"].is_u64() { "in jobs" } else { "no" }
}

#[test]
fn the_python_program_of_the_page_is_an_executor() {
    if !has("python3") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("page.py");
    std::fs::write(&script, code("import json, queue, sys, threading, time")).unwrap();
    let on = format!("cmd:python3 {}", script.display());
    prove(&on);
    assert_eq!(refusal(&on, &["--arrivals", "gap:1ms"]).as_deref(), Some("start times"));
    assert_eq!(refusal(&on, &["--life", "1s"]).as_deref(), Some("deadlines"));
}

#[test]
fn an_executor_over_lines_refuses_what_its_lines_cannot_say() {
    let on = "cmd:true";
    assert_eq!(refusal(on, &["--load", "memory"]).as_deref(), Some("loads other than cpu"));
    assert_eq!(refusal(on, &["--data", "4KiB"]).as_deref(), Some("data along edges"));
    for (option, value) in [("--fifo", "5"), ("--slice", "3ms")] {
        for on in [on, "lib:none.so"] {
            let what = refusal(on, &[option, value]).unwrap_or_default();
            assert!(what.starts_with(&format!("{option}: it starts its own threads")), "{what}");
        }
    }
}

#[test]
fn the_c_library_of_the_page_is_an_executor() {
    if !has("gcc") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("serial.c");
    std::fs::write(&source, code("#include \"schedlab_executor.h\"")).unwrap();
    let on = library("gcc", &[], &source, folder.path());
    prove(&on);
    assert_eq!(refusal(&on, &["--arrivals", "gap:1ms"]).as_deref(), Some("start times"));
}

/// The library of OpenMP tasks, where the compiler has OpenMP.
pub(super) fn openmp(folder: &Path) -> Option<String> {
    let probe = folder.join("probe.cpp");
    let text = "#include <omp.h>\nint main() { return omp_get_max_threads() < 1; }\n";
    std::fs::write(&probe, text).expect("a file");
    let mut compiler = Command::new("g++");
    let built = compiler.arg("-fopenmp").arg(&probe).arg("-o").arg(folder.join("probe")).output();
    if built.is_ok_and(|built| built.status.success()) {
        let source = example("openmp.cpp");
        return Some(library("g++", &["-std=c++17", "-fopenmp"], &source, folder));
    }
    missing!("g++ with OpenMP: its example was not run");
    None
}

#[test]
fn openmp_tasks_are_an_executor_without_start_times() {
    let folder = tempfile::tempdir().unwrap();
    let Some(on) = openmp(folder.path()) else { return };
    prove(&on);
    assert_eq!(refusal(&on, &["--arrivals", "gap:1ms"]).as_deref(), Some("start times"));
}

#[test]
fn what_the_table_of_the_page_says_is_what_each_executor_does() {
    let page = page();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .skip_while(|line| !line.starts_with("| executor | start times |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let mut all: Vec<(&str, String)> = ["schedlab", "lumiera", "tokio", "rayon"]
        .into_iter()
        .chain(["channel", "serial"])
        .chain(["virtual", "ideal"])
        .map(|name| (name, name.to_owned()))
        .collect();
    if has("g++") {
        let options = ["-std=c++17", "-pthread"];
        let on = library("g++", &options, &example("async.cpp"), folder.path());
        all.push(("`lib:`", on));
    }
    if has("python3") {
        all.push(("`cmd:`", format!("cmd:python3 {}", example("futures.py").display())));
    }
    let asked: [(usize, &[&str], &str); 5] = [
        (1, &["--arrivals", "gap:1ms"], "start times"),
        (2, &["--io", "1ms"], "asynchronous I/O"),
        (3, &["--io", "1ms:50%"], "jobs that fail"),
        (4, &["--life", "60s"], "deadlines"),
        (5, &["--life", "60s", "--criticality", "compulsory=50%"], "criticality"),
    ];
    for (name, on) in &all {
        let named = |row: &&Vec<&str>| row[0].split(", ").any(|one| one == *name);
        let row = rows.iter().find(named).unwrap_or_else(|| panic!("{name}: {rows:?}"));
        for (column, options, what) in asked {
            let offered = row[column] != "no";
            let refused = refusal(on, options);
            // Whoever has no I/O that ends later refuses it before it could fail.
            let known = [what, "asynchronous I/O"].map(str::to_owned);
            let right = refused.as_ref().is_some_and(|refused| known.contains(refused));
            assert!(right != offered, "{name}, {what}: {:?}, {refused:?}", row[column]);
        }
        assert_eq!(stalls(on), row[6], "{name}");
    }
}
