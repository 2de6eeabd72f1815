//! Searching a history of commits for the one that made a load slower. `vm.rs` does a step on a real kernel where
//! one was built.

use crate::vm_fake::{Place, stderr, stdout, wait_for};
use schedlab_sys::lock::Lock;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Makes the tree a repository with 8 commits: the third one does not build, the sixth one is 20 % slower, and
/// the others change nothing that is measured. The names of its commits, oldest first.
fn history(tree: &Path) -> Vec<String> {
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(tree).args(["-c", "user.name=x", "-c", "user.email=x@example.org"]);
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "git {words:?}: {}", stderr(&output));
        stdout(&output).trim().to_owned()
    };
    git(&["init", "--quiet"]);
    (1..=8)
        .map(|number| {
            fs::write(tree.join("number"), format!("{number}\n")).unwrap();
            match number {
                3 => fs::write(tree.join("broken"), "").unwrap(),
                4 => fs::remove_file(tree.join("broken")).unwrap(),
                6 => fs::write(tree.join("time"), "1.2\n").unwrap(),
                _ => {}
            }
            git(&["add", "--all"]);
            git(&["commit", "--quiet", "-m", &format!("sched: change {number}")]);
            git(&["rev-parse", "HEAD"])
        })
        .collect()
}

/// Whether the QEMU that is a script can run; in CI it must.
fn has_python() -> bool {
    let is_there = Command::new("python3").arg("--version").output().is_ok();
    if !is_there {
        assert!(std::env::var_os("CI").is_none(), "python3 is a package that tests need");
        missing!("python3; not checked: comparing and bisecting kernels");
    }
    is_there
}

#[test]
fn a_slower_commit_is_worse_than_neutral_code_and_bisect_finds_it() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let tree = place.tree("linux");
    let commits = history(&tree);
    let qemu = place.machine(1);
    let tree_text = tree.to_str().unwrap();
    let compare = |after: &str, more: &[&str]| {
        let side = |commit: &str| format!("vm:kernel={commit},{qemu}");
        let (before, after) = (side(&commits[0]), side(after));
        let words = ["compare", "--side", &before, "--side", &after, "--tree", tree_text];
        let how =
            ["--placebos", "3", "-n", "6", "--metric", "time_s", "--", "hackbench", "-g", "1"];
        place.run(&[&words[..], more, &how].concat())
    };
    let same = compare(&commits[4], &[]);
    assert!(same.status.success(), "{}", stderr(&same));
    let text = stdout(&same);
    assert!(
        text.contains("neutral code changes it by up to ") && !text.contains("worse"),
        "{text}"
    );
    let worse = compare(&commits[7], &["--json"]);
    let document: serde_json::Value = serde_json::from_slice(&worse.stdout).unwrap();
    let verdict = &document["comparisons"][0]["primary"][0]["verdict"];
    assert_eq!(verdict, "worse", "{}", stderr(&worse));
    let said = tempfile::NamedTempFile::new().unwrap();
    fs::write(said.path(), &worse.stdout).unwrap();
    crate::validation::validate(said.path());
    assert_eq!(document["placebos"].as_array().unwrap().len(), 3);
    // The traces are one file, so nothing may be called a cause.
    assert_eq!(document["choices"]["first"], serde_json::Value::Null);

    let how = ["--tree", tree_text, "--workload", "hackbench -g 1", "--vm", &qemu];
    let how = [&how[..], &["--starts", "2", "--placebos", "3"]].concat();
    let search = |worse: &str| {
        place.run(
            &[&["vm", "bisect", &commits[0], &commits[7], "--worse", worse], &how[..]].concat(),
        )
    };
    let within = search("0.1%");
    assert_eq!(within.status.code(), Some(2), "{}", stderr(&within));
    assert!(stderr(&within).contains("is within what neutral code does"), "{}", stderr(&within));
    let more = search("30%");
    assert!(stderr(&more).contains("is not worse than"), "{}", stderr(&more));
    let found = search("5%");
    assert!(found.status.success(), "{}", stderr(&found));
    let told = format!("{} is the first commit that is worse by more than 5 %:", commits[5]);
    assert!(stdout(&found).starts_with(&told), "{}", stdout(&found));
    assert!(stdout(&found).contains("sched: change 6"), "{}", stdout(&found));
    // The user's tree is as it was.
    assert_eq!(fs::read_to_string(tree.join("time")).unwrap(), "1.2\n");
    assert!(!tree.join(".git/BISECT_START").exists());
}

/// A kernel's makefile with two objects. It writes down which ones it compiles, and each image that it links.
const OBJECTS: &str = r#"
allnoconfig:
	@cp $(KCONFIG_ALLCONFIG) $(O)/.config
	@sed -n 's/^CONFIG_HZ_\([0-9]*\)=y/CONFIG_HZ=\1/p' $(KCONFIG_ALLCONFIG) >> $(O)/.config
vmlinux: $(O)/time.o $(O)/Kconfig.o
	@if test -e broken; then echo "sched.c:1: error: broken"; exit 1; fi
	@printf '\177ELF Linux version 6.1.0-fake (x) time=%s %s\n' "$$(cat $(O)/time.o)" \
		"$(CFLAGS_fair.o)" > $(O)/vmlinux
	@echo image >> $(O)/log
$(O)/%.o: %
	@cp $< $@
	@echo $< >> $(O)/log
"#;

#[test]
fn a_step_of_a_search_compiles_only_what_its_commit_changed() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let tree = place.tree("linux");
    fs::write(tree.join("Makefile"), OBJECTS).unwrap();
    let commits = history(&tree);
    let qemu = place.machine(1);
    let how = ["--tree", tree.to_str().unwrap(), "--workload", "hackbench", "--vm", &qemu];
    let how = [&how[..], &["--starts", "1", "--placebos", "1", "--worse", "5%"]].concat();
    let found = place.run(&[&["vm", "bisect", &commits[0], &commits[7]], &how[..]].concat());
    assert!(stdout(&found).starts_with(&commits[5]), "{}", stderr(&found));
    let builds = fs::read_dir(place.path("cache/schedlab/builds")).unwrap();
    let logs: Vec<String> = builds
        .flat_map(|folder| fs::read_to_string(folder.unwrap().path().join("objects/log")))
        .collect();
    let [log] = logs.as_slice() else { panic!("one folder of objects: {logs:?}") };
    let count = |what: &str| log.lines().filter(|line| *line == what).count();
    // The good commit, its placebo, the bad commit, and the steps.
    assert!(count("image") >= 5, "{log}");
    // No commit changes this file.
    assert_eq!(count("Kconfig"), 1, "{log}");
    assert!(count("time") < count("image"), "{log}");
}

/// A kernel's makefile that waits for a word where it builds a commit between the good and the bad one.
const WAITING: &str = r#"
allnoconfig:
	@cp $(KCONFIG_ALLCONFIG) $(O)/.config
	@sed -n 's/^CONFIG_HZ_\([0-9]*\)=y/CONFIG_HZ=\1/p' $(KCONFIG_ALLCONFIG) >> $(O)/.config
vmlinux:
	@case $$(cat number) in [2-5]) touch $(O)/waits; while ! test -e $(O)/go; do sleep 0.02; done;; esac
	@printf '\177ELF Linux version 6.1.0-fake (x) time=%s %s\n' "$$(cat time)" \
		"$(CFLAGS_fair.o)" > $(O)/vmlinux
"#;

#[test]
fn a_search_whose_results_another_process_holds_stops_and_goes_on_later() {
    if !has_python() {
        return;
    }
    let place = Place::new();
    let tree = place.tree("linux");
    fs::write(tree.join("Makefile"), WAITING).unwrap();
    let commits = history(&tree);
    let (qemu, results) = (place.machine(1), place.path("results"));
    let how = ["--tree", tree.to_str().unwrap(), "--workload", "hackbench", "--vm", &qemu];
    let how = [&["vm", "bisect", &commits[0], &commits[5], "--worse", "5%"], &how[..]].concat();
    let how = [&how[..], &["--starts", "1", "--placebos", "0", "--output"]].concat();
    let how = [&how[..], &[results.to_str().unwrap()]].concat();
    let objects = || -> Option<std::path::PathBuf> {
        let builds = fs::read_dir(place.path("cache/schedlab/builds")).ok()?;
        let mut folders = builds.map(|folder| folder.unwrap().path().join("objects"));
        folders.find(|folder| folder.join("waits").is_file())
    };
    let mut command = place.command(&how);
    let search = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let objects = wait_for(objects);
    let lock = Lock::take(&results.join(".lock")).unwrap();
    fs::write(objects.join("go"), "").unwrap();
    let stopped = search.wait_with_output().unwrap();
    let said = stderr(&stopped);
    assert_eq!(stopped.status.code(), Some(1), "{said}");
    assert!(said.contains("schedlab: the search stops: ") && !said.contains("skipped"), "{said}");
    assert!(said.contains("stores runs there: wait for its end"), "{said}");
    drop(lock);
    let found = place.run(&how);
    assert!(stdout(&found).starts_with(&commits[5]), "{}", stderr(&found));
    assert!(stderr(&found).contains("going on with the search"), "{}", stderr(&found));
}
