//! `trace convert` as a user runs it: pipes, devices and links, and Ctrl-C in between.

use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn schedlab(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.current_dir(dir).env("TMPDIR", dir);
    command
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name)
}

fn done(output: Output) -> Vec<u8> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn left(dir: &Path) -> Vec<String> {
    let names = std::fs::read_dir(dir).expect("the folder is ours");
    let names = names.map(|entry| entry.expect("it can be read").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("plain names")).collect();
    names.sort();
    names
}

#[test]
fn a_pipe_is_a_source_and_a_target_as_a_file_is() {
    let dir = tempfile::tempdir().unwrap();
    let source = corpus("lost.dat");
    done(
        schedlab(dir.path())
            .args(["trace", "convert"])
            .args([&source, Path::new("x.txt")])
            .output()
            .unwrap(),
    );
    let expected = std::fs::read(dir.path().join("x.txt")).unwrap();
    // Through two pipes: the first command's output is the second's input.
    let mut first = schedlab(dir.path())
        .args(["trace", "convert", "--to", "dat-v7"])
        .args([&source, Path::new("-")])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let second = schedlab(dir.path())
        .args(["trace", "convert", "--to", "report", "-", "-"])
        .stdin(first.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(first.wait().unwrap().success());
    assert!(done(second) == expected);
    let answer = schedlab(dir.path())
        .args(["trace", "info", "--json", "-"])
        .stdin(File::open(&source).unwrap())
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&done(answer)).unwrap();
    assert_eq!(answer["events"]["sched_switch"], 102);
    assert_eq!(left(dir.path()), ["x.txt"], "what pipes were kept in is gone");
}

#[test]
fn devices_are_written_to_and_links_followed_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        schedlab(dir.path()).args(["trace", "convert"]).args(args).output().unwrap()
    };
    let source = corpus("lost.dat");
    let source = source.to_str().unwrap();
    done(run(&["--to", "csv", source, "/dev/null"]));
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let full = run(&["--to", "csv", source, "/dev/full"]);
    let said = String::from_utf8(full.stderr).unwrap();
    assert!(full.status.code() == Some(1) && said.contains("/dev/full: No space left"), "{said}");
    // A link to itself converted: the file behind it changes, the link stays.
    std::fs::copy(source, dir.path().join("real.dat")).unwrap();
    std::os::unix::fs::symlink("real.dat", dir.path().join("link.dat")).unwrap();
    done(run(&["--to", "dat-v7", "link.dat", "link.dat"]));
    assert!(std::fs::symlink_metadata(dir.path().join("link.dat")).unwrap().is_symlink());
    let bytes = std::fs::read(dir.path().join("real.dat")).unwrap();
    assert!(bytes[..32].windows(2).any(|two| two == b"7\0"), "version 7");
    for (target, part) in [("nowhere/x.csv", "nowhere/x.csv: No such"), (".", "to a directory")] {
        let refused = run(&["--to", "csv", source, target]);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(1) && said.contains(part), "{said}");
    }
    assert_eq!(left(dir.path()), ["link.dat", "real.dat"]);
}

#[test]
fn ctrl_c_in_a_conversion_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Nobody reads the pipe, so the conversion waits with its output done and not delivered.
    let child = schedlab(dir.path())
        .args(["trace", "convert", "--to", "csv"])
        .args([&corpus("lost.dat"), &fifo])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until then it is kept in a file without a name.
    let files = format!("/proc/{}/fd", child.id());
    let nameless = |entry: std::fs::DirEntry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|path| path.to_string_lossy().ends_with("(deleted)"))
    };
    while !std::fs::read_dir(&files).unwrap().flatten().any(nameless) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success()
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted: nothing was written"));
    assert_eq!(left(dir.path()), ["fifo"]);
}
