//! Ten experiments as a performance engineer writes them, five of them about scale: from the question and the first
//! sentence of the answer alone the decision has to be right. Each file holds its truth, what the sentence has to say for
//! it (`decides`), and what would lead to a wrong decision (`misleads`).

use std::path::Path;
use std::process::{Command, Stdio};

/// The values of a key in the comments of a file.
fn told<'t>(text: &'t str, key: &str) -> Vec<&'t str> {
    let head = format!("# {key}: ");
    text.lines().filter_map(|line| line.strip_prefix(&head)).collect()
}

/// Runs the experiment in a folder of its own, and compares the line below the question with the truth.
fn decide(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), &text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["run", name]).current_dir(folder.path()).stdin(Stdio::null());
    let done = command.output().unwrap();
    let out = String::from_utf8_lossy(&done.stdout);
    let err = String::from_utf8_lossy(&done.stderr);
    let question = text.lines().find_map(|line| line.strip_prefix("question = ")).unwrap();
    let mut lines = out.lines().skip_while(|line| *line != question.trim_matches('"')).skip(1);
    let first = lines.next().unwrap_or_else(|| panic!("{name}: no answer\n{out}{err}"));
    for word in told(&text, "decides") {
        assert!(first.contains(word), "{name}: '{word}' is missing in: {first}");
    }
    for word in told(&text, "misleads") {
        assert!(!first.contains(word), "{name}: '{word}' misleads in: {first}");
    }
    let code = done.status.code().unwrap_or(-1).to_string();
    assert_eq!(told(&text, "exit"), [code.as_str()], "{name}: {out}{err}");
    assert_eq!(told(&text, "truth").len(), 1, "{name}");
}

/// A test for each file.
macro_rules! decisions {
    ($($test:ident: $file:literal;)*) => {
        $(#[test] fn $test() { decide($file); })*

        #[test]
        fn each_file_of_the_folder_is_decided() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/decisions");
            let files = std::fs::read_dir(folder).unwrap().flatten();
            let mut files: Vec<String> =
                files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
            files.sort();
            assert_eq!(files, [$($file),*]);
        }
    };
}

decisions! {
    workers_beyond_the_cpus_do_no_more: "01-capacity.toml";
    twice_the_cpus_do_twice_as_much: "02-more-cpus.toml";
    one_thread_needs_one_cpu: "03-one-thread.toml";
    clients_beyond_the_best_number_collapse: "04-clients.toml";
    the_fastest_build_is_named_first: "05-jobs.toml";
    a_slow_tail_is_no_gain: "06-tail.toml";
    a_regression_behind_noise_is_found: "07-regression.toml";
    a_scheduler_that_ended_is_not_judged: "08-scheduler-gone.toml";
    cpu_time_is_a_cost_where_the_time_is_the_same: "09-cpu-time.toml";
    a_version_that_crashes_is_not_the_faster_one: "10-crashes.toml";
}
