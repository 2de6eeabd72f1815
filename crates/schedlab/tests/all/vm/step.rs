//! What a step of a search does, on a real kernel: where `cargo xtask evidence bisect` left its history and objects.
//! Objects of a kernel are too large to be kept with the source, and making them takes 8 CPU minutes; so where they are
//! not, as in CI, only `vm_build.rs` does a step, with a kernel of a few lines.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const SUBJECT: &str = "sched/fair: a shorter slice preempts";

fn git(tree: &Path, words: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(tree).args(words).output().unwrap();
    assert!(output.status.success(), "git {words:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The history, and its objects in a folder of builds.
fn warm() -> Option<(PathBuf, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let history = fs::canonicalize(root.join("target/evidence/history")).ok()?;
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
    let builds = cache.join("schedlab/builds");
    let entries = fs::read_dir(&builds).ok()?.flatten();
    let folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    let is_checkout = |folder: &&PathBuf| {
        let shared = folder.join("checkout/.git/objects/info/alternates");
        fs::read_to_string(shared).is_ok_and(|text| Path::new(text.trim()).starts_with(&history))
    };
    let checkout = folders.iter().find(is_checkout)?.join("checkout");
    // make names the source beside the objects.
    let is_warm = |objects: &PathBuf| {
        fs::read_link(objects.join("source")).is_ok_and(|source| source == checkout)
            && objects.join("vmlinux").is_file()
    };
    let objects = folders.iter().map(|folder| folder.join("objects")).find(is_warm)?;
    Some((history, objects))
}

/// Objects below a folder, and how many of them were made since a time.
fn objects(folder: &Path, since: SystemTime) -> (usize, usize) {
    let mut counts = (0, 0);
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.metadata().unwrap());
        if kind.is_dir() {
            let (all, new) = objects(&path, since);
            counts = (counts.0 + all, counts.1 + new);
        } else if path.extension().is_some_and(|tail| tail == "o") {
            counts.0 += 1;
            counts.1 += usize::from(kind.modified().unwrap() >= since);
        }
    }
    counts
}

#[test]
fn a_commit_of_a_real_history_compiles_few_objects_and_boots() {
    let Some((history, folder)) = warm() else {
        missing!(
            "a history of Linux 6.12 with objects; not checked: a step of `vm bisect` on a real \
             kernel (`cargo xtask evidence bisect` leaves them)"
        );
        return;
    };
    // Kernels are built anew; source and objects are those that are there.
    let place = tempfile::tempdir().unwrap();
    let cache = place.path().join("cache");
    fs::create_dir_all(cache.join("schedlab")).unwrap();
    let builds = folder.parent().unwrap().parent().unwrap();
    symlink(builds, cache.join("schedlab/builds")).unwrap();
    let after = git(&history, &["log", "--format=%H", "--fixed-strings", "--grep", SUBJECT]);
    let before = format!("{after}^");
    let since = SystemTime::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(["vm", "compare", &before, &after, "--starts", "1", "--placebos", "0", "--json"]);
    command.arg("--tree").arg(&history).args(["--workload", "hackbench -g 1 -f 10 -l 60"]);
    let done = command.env("XDG_CACHE_HOME", &cache).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    // One line of the wakeup preemption: both boot, and do not take the same time.
    assert_ne!(told["values_before"], told["values_after"], "{told}");
    let (all, new) = objects(&folder, since);
    assert!(all > 500 && new > 0 && new < all / 10, "{new} of {all} objects were compiled");
}
