//! `schedlab gallery`: the examples are listed and shown, and one runs from its file to verdicts that are
//! backed by stored numbers.

use std::path::Path;
use std::process::{Command, Output};

fn schedlab(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(arguments).current_dir(folder).output().expect("the built command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The names in the first column of the list.
fn names(folder: &Path) -> Vec<String> {
    let listed = text(&schedlab(folder, &["gallery", "list", "--wide"]).stdout);
    let first = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    listed.lines().skip(1).map(first).collect()
}

#[test]
fn each_example_is_listed_shown_and_planned_where_its_machine_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let names = names(folder.path());
    assert!(names.len() >= 11, "{names:?}");
    for name in &names {
        let shown = schedlab(folder.path(), &["gallery", "show", name]);
        assert!(shown.status.success(), "{name}");
        let file = format!("{name}.toml");
        std::fs::write(folder.path().join(&file), &shown.stdout).expect("it is written");
        let shown = text(&shown.stdout);
        // What is simulated can be planned everywhere; a host may lack rights or CPUs.
        if shown.contains("machine = \"host\"") {
            continue;
        }
        let planned = schedlab(folder.path(), &["run", "--dry-run", &file]);
        assert!(planned.status.success(), "{name}: {}", text(&planned.stderr));
    }
    let unknown = schedlab(folder.path(), &["gallery", "show", "moon"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("unknown example 'moon': use jobs-peak"));
}

#[test]
fn an_example_that_cannot_run_does_not_stop_the_next_one_and_is_named_at_the_end() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("results")).expect("a folder");
    // A file stands where the first example wants its folder.
    std::fs::write(folder.path().join("results/jobs-break-short"), "").expect("a file");
    let run = schedlab(folder.path(), &["gallery", "run", "jobs-break", "jobs-burst", "--short"]);
    assert_eq!(run.status.code(), Some(1));
    let said = text(&run.stderr);
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last, "schedlab: these examples did not run: jobs-break", "{said}");
    assert!(text(&run.stdout).contains("reproduced in the model: "), "{said}");
    assert!(folder.path().join("results/jobs-burst-short/claims.json").is_file());
}

#[test]
fn an_example_runs_in_its_short_form_to_verdicts_backed_by_stored_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = schedlab(folder.path(), &["gallery", "run", "jobs-burst", "--short"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let said = text(&run.stdout);
    let kinds =
        ["reproduced in the model: ", "not reproduced in the model: ", "cannot be judged: "];
    let verdicts = said.lines().filter(|line| kinds.iter().any(|kind| line.starts_with(kind)));
    assert_eq!(verdicts.count(), 6, "{said}");
    let results = folder.path().join("results/jobs-burst-short");
    for file in ["report.html", "claims.json", "picture-1.png", "jobs-cores.png"] {
        assert!(results.join(file).is_file(), "{file}");
    }
    let report = std::fs::read_to_string(results.join("report.html")).expect("it is there");
    assert!(report.contains("<h2>Claims</h2>") && report.contains("Of 6 claims: "));
    // The same command does nothing again, and says the same.
    let again = schedlab(folder.path(), &["gallery", "run", "jobs-burst", "--short"]);
    assert_eq!(text(&again.stdout), said);
    assert!(!text(&again.stderr).contains("run 1 of"), "{}", text(&again.stderr));
}
