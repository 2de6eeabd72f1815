//! The shared temporary folder is hostile: another user plants files, folders and links by the names that schedlab
//! once used there, before it starts. None of them is read, written, followed or removed.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedlab");
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus");

/// Nobody: a user without rights.
const NOBODY: u32 = 65_534;

/// Runs a command line in a shared folder where another user has planted something by each of `names`, in which
/// `PID` is the number of the process to come.
fn run(shared: &Path, line: &str, names: &[&str]) -> Output {
    // The shell says its number, waits, and becomes the command: an attacker guesses, this test knows.
    let script = format!("echo $$; read -r go; exec {PROGRAM} {line}");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).env("TMPDIR", shared).current_dir(shared);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut pid = String::new();
    said.read_line(&mut pid).unwrap();
    for name in names {
        let path = shared.join(name.replace("PID", pid.trim()));
        match name.ends_with('/') {
            true => std::fs::create_dir(&path).unwrap(),
            false => symlink(shared.join("../treasure"), &path).unwrap(),
        }
        lchown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut said, &mut rest).unwrap();
    let output = child.wait_with_output().unwrap();
    for name in names {
        let path = shared.join(name.replace("PID", pid.trim()));
        let planted = std::fs::symlink_metadata(&path);
        assert!(planted.is_ok(), "{line}: what another user planted as {name} was removed");
        if name.ends_with('/') {
            assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0, "{line} used {name}");
            std::fs::remove_dir(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
    Output { stdout: rest, ..output }
}

#[test]
fn what_another_user_planted_in_the_temporary_folder_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (shared, treasure) = (dir.path().join("shared"), dir.path().join("treasure"));
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    std::fs::write(&treasure, "mine").unwrap();
    if lchown(&treasure, Some(NOBODY), None)
        .and_then(|()| lchown(&treasure, Some(0), None))
        .is_err()
    {
        missing!("root; no other user plants anything in this test");
        return;
    }
    let trace = format!("{CORPUS}/lost.dat");
    assert!(Command::new("mkfifo").arg(shared.join("pipe")).status().unwrap().success());
    let feed = format!("cat {trace} > pipe");
    let mut feeder = Command::new("sh");
    let mut feeder = feeder.args(["-c", &feed]).current_dir(&shared).spawn().unwrap();
    for (line, names) in [
        ("trace info pipe".to_owned(), &["schedlab-PID.piped"][..]),
        ("load cpu --duration 20ms".to_owned(), &["schedlab-load-PID/"][..]),
        ("load cpu --duration 20ms --repeat 2".to_owned(), &["schedlab-repeat-PID/"]),
        ("doctor --short".to_owned(), &["schedlab-doctor-PID/"]),
        (format!("trace convert --to dat-v6 {trace} -"), &["schedlab-PID.part"]),
        (format!("trace convert --to dat-v6 {trace} ./out.dat"), &[]),
    ] {
        let output = run(&shared, &line, names);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{line}: {said}");
        assert_eq!(std::fs::read_to_string(&treasure).unwrap(), "mine", "{line}");
    }
    feeder.wait().unwrap();
    // In a folder that is shared, a link can be planted beside the target too. It is not followed.
    let line = format!("trace convert --to dat-v6 {trace} new.dat");
    let output = run(&shared, &line, &["new.dat.PID.part"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(std::fs::read_to_string(&treasure).unwrap(), "mine", "{said}");
    assert!(!shared.join("new.dat").is_symlink());
}
