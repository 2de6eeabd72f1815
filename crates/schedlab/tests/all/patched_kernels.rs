//! Versions of one source tree compared by their own schedulers: a planted patch is called, and code that decides
//! nothing is not.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The file that is patched, and the line of a woken task that preempts.
const FILE: &str = "kernel/sched/fair.c";
const LINE: &str = "if (pick_eevdf(cfs_rq) == pse)";

/// The source of Linux 6.12, where the package was built before; in CI it is built here.
fn source() -> Option<PathBuf> {
    let package = "linux-source-6.12";
    if std::env::var_os("CI").is_some() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        drop(command.args(["sim", "build", package]).output());
    }
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
    let tree = cache.join("schedlab/builds").join(package).join(package);
    tree.join(FILE).is_file().then_some(tree)
}

/// A copy of a tree by links, with a folder of its own for each part of the path of `FILE`.
fn copy(tree: &Path, to: &Path) {
    let (mut from, mut to) = (tree.to_owned(), to.to_owned());
    for part in Path::new(FILE) {
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(&from).unwrap() {
            let name = entry.unwrap().file_name();
            if name != part {
                symlink(from.join(&name), to.join(&name)).unwrap();
            }
        }
        (from, to) = (from.join(part), to.join(part));
    }
}

struct Place {
    folder: tempfile::TempDir,
    text: String,
}

impl Place {
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(words).current_dir(self.folder.path());
        let output = command.env("XDG_CACHE_HOME", self.folder.path().join("cache")).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {told}");
        output
    }

    /// Builds the tree with other text in place of the line.
    fn build(&self, name: &str, line: &str) {
        let patched = self.text.replace(LINE, line);
        fs::write(self.folder.path().join("tree").join(FILE), patched).unwrap();
        self.run(&["sim", "build", "tree", "--name", name]);
    }

    fn compare(&self, name: &str) -> Value {
        let sides = ["base", name].map(|name| format!("sim:kernel={name},cpus=2"));
        let words = ["compare", "--json", "-n", "6", "--placebos", "3", "--side", &sides[0]];
        let more = ["--side", &sides[1], "--metric", "switches_involuntary", "--metric", "time_s"];
        let load = ["--", "hackbench", "-g", "1", "-l", "50"];
        let output = self.run(&[&words[..], &more, &load].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn verdicts(told: &Value) -> Vec<&str> {
    let primary = told["comparisons"][0]["primary"].as_array().unwrap();
    primary.iter().map(|one| one["verdict"].as_str().unwrap()).collect()
}

#[test]
fn a_planted_patch_is_called_with_its_first_difference_and_placebos_are_not() {
    let Some(tree) = source() else {
        missing!(
            "the source of Linux 6.12 (schedlab sim build linux-source-6.12); patches were not compared"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    copy(&tree, &folder.path().join("tree"));
    let text = fs::read_to_string(tree.join(FILE)).unwrap();
    assert!(text.contains(LINE));
    let place = Place { folder, text };
    place.build("base", LINE);
    place.build("planted", "if (false && pick_eevdf(cfs_rq) == pse)");
    place.build("comment", "/*\n * It is next.\n */\n\tif (pick_eevdf(cfs_rq) == pse)");
    let branch = "if (unlikely(cfs_rq->nr_running > 100000))\n\t\tpr_warn_once(\"many\\n\");\n\t";
    place.build("branch", &format!("{branch}{LINE}"));

    let planted = place.compare("planted");
    assert_eq!(verdicts(&planted)[0], "different", "{planted:#}");
    assert_eq!(planted["placebos"].as_array().unwrap().len(), 3);
    let difference = &planted["difference"];
    assert!(difference["equal"].as_u64() > Some(0), "{difference:#}");
    assert_ne!(difference["before"]["decision"], difference["after"]["decision"]);

    let comment = place.compare("comment");
    assert!(verdicts(&comment).iter().all(|one| *one == "equivalent"), "{comment:#}");
    assert!(comment["placebos"].is_null(), "equal sides need none: {comment:#}");
    let difference = &comment["difference"];
    assert!(difference["before"].is_null() && difference["after"].is_null(), "{difference:#}");

    let branch = place.compare("branch");
    let is_called = |one: &&str| !["equivalent", "undecided"].contains(one);
    assert!(!verdicts(&branch).iter().any(is_called), "{branch:#}");
}
