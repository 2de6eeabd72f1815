//! The report of the shipped example on paper: headless Chromium prints it, and its pages are counted.

use crate::browser;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Pages of the report at most.
const PAGES_MAX: usize = 9;

fn schedlab(arguments: &[&str], folder: &Path) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let output = command.args(arguments).current_dir(folder).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The simulated machine repeats exactly. What it stored becomes a real machine's: each run varies by
/// some percent, and one slice is a third slower, so that the report has something to claim.
fn vary(results: &Path) {
    for (index, entry) in fs::read_dir(results.join("runs")).expect("it has runs").enumerate() {
        let folder = entry.expect("readable").path();
        let manifest = fs::read_to_string(folder.join("manifest.json")).expect("a run has one");
        let slow = if manifest.contains("\"100ms\"") { 1.3 } else { 1.0 };
        let factor = slow * (1.0 + (index * 7_919 % 41) as f64 / 1_000.0);
        let file = folder.join("figures.jsonl");
        let text = fs::read_to_string(&file).expect("a run has figures");
        let varied = text.lines().map(|line| {
            let mut figure: Value = serde_json::from_str(line).expect("a figure");
            if let Some(value) = figure["value"].as_f64() {
                figure["value"] = Value::from(value * factor);
            }
            figure.to_string() + "\n"
        });
        fs::write(&file, varied.collect::<String>()).expect("writable");
    }
}

#[test]
fn the_report_of_the_shipped_example_prints_on_fewer_than_10_pages() {
    let Some(name) = browser::find("print") else { return };
    let folder = tempfile::tempdir().expect("writable");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hackbench-slice.toml");
    let text = fs::read_to_string(example).expect("it is shipped");
    // The same points and repeats, with less work in each run.
    let shorter = |line: &str| match line.split_once("loops = ") {
        Some((before, after)) => {
            let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}loops = 20{rest}\n")
        }
        None => format!("{line}\n"),
    };
    let short: String = text.lines().map(shorter).collect();
    assert_eq!(short.matches("loops = 20").count(), 2, "both workloads are shortened");
    // The simulated machine has the slice of the machine, not of single tasks.
    let short = short.replace("knob = \"slice\"", "knob = \"base_slice\"");
    fs::write(folder.path().join("hackbench-slice.toml"), short).expect("writable");
    schedlab(
        &["run", "hackbench-slice.toml", "--on", "sim:cpus=2,kernel=eevdf-6.12"],
        folder.path(),
    );
    let results = folder.path().join("results/hackbench-slice");
    vary(&results);
    schedlab(&["run", "report", "results/hackbench-slice"], folder.path());
    let pdf = folder.path().join("report.pdf");
    let report = results.join("report.html");
    let profile = folder.path().join("profile");
    let printed = Command::new(name)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--print-to-pdf={}", pdf.display()))
        .arg(format!("file://{}", report.display()))
        .output()
        .expect("the browser starts");
    assert!(pdf.is_file(), "{}", String::from_utf8_lossy(&printed.stderr));
    let told = Command::new("pdftotext").arg(&pdf).arg("-").output();
    let Some(told) = told.ok().filter(|told| told.status.success()) else {
        missing!("pdftotext: the pages of the report are not counted");
        assert!(std::env::var_os("CI").is_none(), "CI must have poppler-utils");
        return;
    };
    // A form feed ends each page.
    let pages = told.stdout.iter().filter(|byte| **byte == b'\x0c').count();
    if let Some(kept) = std::env::var_os("SCHEDLAB_KEEP") {
        fs::copy(&pdf, Path::new(&kept).join("report.pdf")).expect("writable");
        fs::copy(&report, Path::new(&kept).join("report.html")).expect("writable");
    }
    assert!((2..=PAGES_MAX).contains(&pages), "{pages} pages");
}
