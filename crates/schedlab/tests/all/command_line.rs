//! What the command says and how it ends when it is typed rightly, wrongly, or into a closed pipe.

use std::process::{Command, Output, Stdio};

fn schedlab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the built command starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_is_a_result_and_teaches() {
    for arguments in [["--help"].as_slice(), &["trace", "--help"], &["record", "--help"]] {
        let output = schedlab(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{}", stderr(&output));
    }
    let help = stdout(&schedlab(&["--help"]));
    for taught in ["schedlab tour", "schedlab doctor", "Exit codes", "0-3,8"] {
        assert!(help.contains(taught), "help does not mention {taught}:\n{help}");
    }
}

#[test]
fn wrong_usage_exits_2_and_names_what_was_typed() {
    for (arguments, named) in [
        (["recrod"].as_slice(), "recrod"),
        (&["trace", "latncy", "x.dat"], "latncy"),
        (&["record", "--no-such-option"], "--no-such-option"),
        (&["record", "sleep", "1"], "schedlab record [OPTIONS] -- CMD"),
        (&["knobs", "run", "nice=1", "make"], "schedlab knobs run [OPTIONS] -- CMD"),
        (&["draw", "cores"], "cores"),
        (&["slow", "30", "--", "true"], "30 is neither a speed nor a file"),
    ] {
        let output = schedlab(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(named), "{arguments:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    let output = schedlab(&["recrod"]);
    assert!(stderr(&output).contains("record"), "no suggestion: {}", stderr(&output));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    for question in ["info", "latency", "tasks", "cpus", "waiting"] {
        let output = schedlab(&["trace", question, "no/such/file.dat"]);
        assert_eq!(output.status.code(), Some(1), "{question}");
        let said = stderr(&output);
        assert!(said.starts_with("schedlab: ") && said.contains("no/such/file.dat"), "{said}");
    }
}

#[test]
fn what_is_no_trace_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, content) in [
        ("empty.dat", b"".as_slice()),
        ("text.dat", b"hello, this is no trace\n".as_slice()),
        ("zeros.dat", &[0; 4096]),
        ("elf.dat", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("it is written");
        let output = schedlab(&["trace", "info", &path.to_string_lossy()]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.contains(name) && !said.contains("panicked"), "{name}: {said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["shell", "man"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn tables_fit_the_100_columns_of_a_pipe_unless_all_columns_are_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let measured = folder.path().join("measured.csv");
    let rows: String = (1..40).map(|x| format!("{x},{}\n", x * x)).collect();
    std::fs::write(&measured, format!("jobs,ms\n{rows}")).expect("a file");
    let measured = measured.to_str().expect("UTF-8");
    let sim = "--on=sim:cpus=4,kernel=eevdf-6.12";
    let stream = "--stream=preview-of-what-is-edited:share=30%,life=2ms";
    let commands: &[&[&str]] = &[
        &["gallery", "list"],
        &["knobs", "list", "--long"],
        &["knobs", "list", "--on", "sim:cpus=4", "--long"],
        &["vm", "kernels"],
        &["jobs", "generate", "--shape", "load-bursts", "--nodes", "64"],
        &["jobs", "compare", "--repeat", "2", sim],
        &["jobs", "grain", "--nodes", "64", "--executor", "schedlab,virtual", "--repeat", "1", sim],
        &["jobs", "run", "--nodes", "60", "--arrivals", "gap:100us", stream, sim],
        &["jobs", "peak", "--jobs", "10..40", "--points", "4", "--time", "2ms", sim],
        &["jobs", "fit", measured],
        &["jobs", "storm", "--time", "10ms", "--executor", "schedlab"],
    ];
    // What has columns; a sentence is wrapped by the terminal.
    let longest = |text: &str| {
        let rows = text.lines().filter(|line| line.contains("  "));
        rows.map(|line| line.chars().count()).max().unwrap_or(0)
    };
    for words in commands {
        let text = stdout(&schedlab(words));
        assert!((1..=100).contains(&longest(&text)), "{words:?}:\n{text}");
    }
    let compare = ["jobs", "compare", "--repeat", "2", sim];
    let fits = stdout(&schedlab(&compare));
    assert!(fits.contains(" not fit (--wide shows all)\n") && !fits.contains("offers"), "{fits}");
    let all = stdout(&schedlab(&[&compare[..], &["--wide"]].concat()));
    assert!(all.contains("offers") && longest(&all) > 100, "{all}");
}

#[test]
fn completions_and_man_page_know_every_subcommand() {
    let help = stdout(&schedlab(&["--help"]));
    let listed = help.split("\nTraces:\n").nth(1).and_then(|rest| rest.split("\nOptions:").next());
    let names: Vec<&str> = listed
        .expect("help lists the commands in groups")
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    assert_eq!(names.len(), 20, "{names:?}");
    let man = stdout(&schedlab(&["shell", "man"]));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&schedlab(&["shell", shell]));
        for name in &names {
            assert!(script.contains(name), "{shell} does not complete {name}");
        }
    }
    for name in names {
        assert!(man.contains(&format!("SCHEDLAB {}", name.to_uppercase())), "man lacks {name}");
    }
}

#[test]
fn words_of_other_tools_lead_to_the_command_that_answers_them() {
    for (word, here) in [
        ("timehist", "schedlab trace events FILE"),
        ("runqlat", "schedlab watch`, or `schedlab trace latency FILE --histogram"),
        ("top", "schedlab watch`, or `schedlab trace tasks FILE"),
        ("latency", "schedlab trace latency FILE"),
        ("diff", "schedlab trace compare A B"),
    ] {
        let output = schedlab(&[word, "x.dat"]);
        assert_eq!(output.status.code(), Some(2), "{word}");
        let said = stderr(&output);
        assert!(said.contains(&format!("there is no `schedlab {word}`: use `{here}`")), "{said}");
    }
}

#[test]
fn each_command_has_a_man_page_of_its_own_with_its_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("man1");
    let wrong = schedlab(&["shell", "bash", "--output", &pages.to_string_lossy()]);
    assert_eq!(wrong.status.code(), Some(2), "{}", stderr(&wrong));
    let written = schedlab(&["shell", "man", "--output", &pages.to_string_lossy()]);
    assert!(written.status.success(), "{}", stderr(&written));
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).expect(name);
    assert!(page("schedlab.1").contains("SCHEDLAB TRACE"));
    assert!(page("schedlab-trace-latency.1").contains("histogram"));
    assert!(page("schedlab-jobs-peak.1").contains("arrivals"));
}
