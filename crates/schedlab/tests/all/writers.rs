//! Every command that writes a file the user names: on a full disk, in a folder that is read-only, killed in the midst
//! and through the links of others, there is the old file or the whole new one.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedlab");
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus");
/// Nobody: a user without rights.
const NOBODY: u32 = 65_534;
/// What a file held before.
const OLD: &str = "old\n";

/// A command line, and the name of the file that it writes. `OUT` stands for the file, `IN` for a folder of results,
/// `CORPUS` for traces.
type Case = (&'static str, &'static str);

/// Their files are the same each time.
const EXACT: [Case; 18] = [
    ("trace convert CORPUS/lost.dat OUT", "x.csv"),
    ("trace convert CORPUS/lost.dat OUT", "x.dat"),
    ("trace convert CORPUS/lost.dat OUT", "x.txt"),
    ("trace convert CORPUS/lost.dat OUT", "x.pftrace"),
    ("trace convert CORPUS/contradictions.txt OUT", "y.dat"),
    ("trace cut CORPUS/lost.dat OUT --cpus 0", "cut.dat"),
    ("jobs generate --nodes 40 -o OUT", "g.json"),
    ("jobs generate --nodes 40 -o OUT", "g.dot"),
    ("jobs generate --nodes 40 -o OUT", "g.png"),
    ("view CORPUS/buffers.dat -o OUT", "v.html"),
    ("draw cores CORPUS/buffers.dat -o OUT", "c.svg"),
    ("draw cores CORPUS/buffers.dat -o OUT", "c.pdf"),
    ("replay CORPUS/buffers.dat --export OUT", "r.json"),
    ("replay CORPUS/buffers.dat -o OUT", "r.dat"),
    ("report IN/a/e -o OUT", "report.html"),
    ("compare IN/a/e IN/b/e --junit OUT", "j.xml"),
    ("sim calibrate --only post --against sim:cpus=1 --repeat 1 -o OUT", "costs.toml"),
    ("load hackbench --on sim:cpus=2 -g 1 -f 2 -l 10 --trace OUT", "load.dat"),
];

/// Their files have times in them.
const TIMED: [Case; 3] = [
    ("jobs run --nodes 8 --time 10us --workers 2 --trace OUT", "jobs.json"),
    ("jobs run --nodes 8 --time 10us --workers 2 -o OUT", "jobs.svg"),
    ("record -o OUT -- true", "record.dat"),
];

/// Results of an experiment, twice, made once.
fn results() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("writers");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let text = "name = \"e\"\nmachine = \"sim:cpus=2\"\nrepeats = 2\n[[workload]]\nname = \"hackbench\"\n\
                    options = { groups = 1, fds = 2, loops = 10 }\n";
        fs::write(folder.join("e.toml"), text).unwrap();
        for name in ["a", "b"] {
            let mut command = Command::new(PROGRAM);
            let ran = command.args(["run", "e.toml", "-o", name]).current_dir(&folder).output();
            assert!(ran.unwrap().status.success());
        }
        folder
    })
}

/// The words of a case.
fn line((line, _): Case, target: &Path) -> String {
    let line = line.replace("CORPUS", CORPUS).replace("IN/", &format!("{}/", results().display()));
    line.replace("OUT", target.to_str().unwrap())
}

/// Runs a shell script, of which `PROGRAM` is a part.
fn shell(script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the files of a folder hold.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let files = entries.filter(|entry| entry.path().is_file());
    files
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default())
        })
        .collect()
}

/// What a case writes where nothing is in its way; none where the machine lacks what it needs.
fn whole(case: Case) -> Option<BTreeMap<String, Vec<u8>>> {
    let folder = tempfile::tempdir().unwrap();
    let output = shell(&format!("{PROGRAM} {}", line(case, &folder.path().join(case.1))));
    if !output.status.success() {
        missing!("`{}` on this machine: {}", case.0, said(&output));
        return None;
    }
    Some(contents(folder.path()))
}

/// Checks that each file is old or whole, and that nothing else is there. `whole` is empty where files differ each time:
/// then they must be old.
fn check(case: Case, found: &BTreeMap<String, Vec<u8>>, whole: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in found {
        let is_old = name == case.1 && bytes == OLD.as_bytes();
        let is_whole = whole.get(name) == Some(bytes);
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
        assert!(is_old || is_whole, "{case:?}: {name} has {} bytes: {start}", bytes.len());
    }
    assert!(found.contains_key(case.1), "{case:?}: the old file is gone");
}

fn all() -> Vec<(Case, BTreeMap<String, Vec<u8>>)> {
    let exact = EXACT.iter().filter_map(|case| Some((*case, whole(*case)?)));
    let timed = TIMED.iter().filter_map(|case| whole(*case).map(|_| (*case, BTreeMap::new())));
    exact.chain(timed).collect()
}

/// Runs a case in a small file system of its own, which `before` fills or closes; the files that it leaves there.
fn in_small_disk(case: Case, before: &str) -> (Output, BTreeMap<String, Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let (disk, left) = (folder.path().join("disk"), folder.path().join("left"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&left).unwrap();
    let (disk, left, target) = (disk.display(), left.display(), disk.join(case.1));
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs {disk} || exit 99\n\
         printf '{OLD}' > {}\n\
         {}\n\
         {PROGRAM} {}\n\
         status=$?\n\
         rm -f {disk}/fill\n\
         cp -a {disk}/. {left}\n\
         exit $status\n",
        target.display(),
        before.replace("DISK", &disk.to_string()),
        line(case, &target)
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output, contents(&folder.path().join("left")))
}

/// Whether this process may mount a file system where nobody else sees it.
fn mounts() -> bool {
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs tmpfs /mnt";
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_full_disk_keeps_the_old_file() {
    if !mounts() {
        missing!("the right to mount: no command was tried on a full disk");
        return;
    }
    for (case, whole) in all() {
        let (output, found) =
            in_small_disk(case, "head -c 1000000 /dev/zero > DISK/fill 2> /dev/null");
        assert!(!output.status.success(), "{case:?} ends well on a full disk");
        assert_ne!(output.status.code(), Some(99), "{}", said(&output));
        assert!(said(&output).contains("No space left"), "{case:?}: {}", said(&output));
        check(case, &found, &whole);
        assert_eq!(found[case.1], OLD.as_bytes(), "{case:?}");
    }
}

#[test]
fn a_folder_that_is_read_only_keeps_the_old_file() {
    if !mounts() {
        missing!("the right to mount: no command was tried in a read-only folder");
        return;
    }
    for (case, whole) in all() {
        let (output, found) = in_small_disk(case, "mount -o remount,ro DISK");
        assert!(!output.status.success(), "{case:?} ends well in a read-only folder");
        assert!(said(&output).contains("ead-only"), "{case:?}: {}", said(&output));
        check(case, &found, &whole);
    }
}

#[test]
fn a_command_that_is_killed_while_it_writes_keeps_the_old_file() {
    let mut killed = 0;
    for (case, whole) in all() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join(case.1);
        fs::write(&target, OLD).unwrap();
        // The kernel ends it with the first byte beyond 512, and nothing in it can catch that.
        let limit = "ulimit -c 0; ulimit -f 1";
        let output = shell(&format!("{limit}; exec {PROGRAM} {}", line(case, &target)));
        let mut found = contents(folder.path());
        if output.status.signal() == Some(25) {
            killed += 1;
            found.retain(|name, _| !name.ends_with(".part"));
        } else if TIMED.contains(&case) {
            continue;
        }
        check(case, &found, &whole);
    }
    assert!(killed > EXACT.len() / 2, "only {killed} were killed");
}

#[test]
fn a_conversion_that_is_killed_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, target) = (folder.path().join("pipe"), folder.path().join("x.csv"));
    fs::write(&target, OLD).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Command::new(PROGRAM);
    let mut child = command.args(["trace", "convert"]).args([&pipe, &target]).spawn().unwrap();
    // It has begun its file when its input opens, and waits for the rest of it.
    let mut feed = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    feed.write_all(&fs::read(format!("{CORPUS}/lost.dat")).unwrap()[..1000]).unwrap();
    let parts = |found: &BTreeMap<String, Vec<u8>>| {
        found.keys().filter(|name| name.ends_with(".part")).count()
    };
    assert_eq!(parts(&contents(folder.path())), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(fs::read_to_string(&target).unwrap(), OLD);
}

#[test]
fn no_command_writes_through_the_link_of_another_user() {
    let folder = tempfile::tempdir().unwrap();
    let (shared, own) = (folder.path().join("shared"), folder.path().join("own"));
    for (path, mode) in [(&shared, 0o1777), (&own, 0o700)] {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    let victim = own.join("victim");
    for (case, _) in all() {
        fs::write(&victim, "mine").unwrap();
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        let link = shared.join(case.1);
        symlink("../own/victim", &link).unwrap();
        if lchown(&link, Some(NOBODY), Some(NOBODY)).is_err() {
            missing!("root; no other user plants a link in this test");
            return;
        }
        let output = shell(&format!("{PROGRAM} {}", line(case, &link)));
        assert!(!output.status.success(), "{case:?} follows the link");
        assert!(said(&output).contains("belongs to another user"), "{case:?}: {}", said(&output));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{case:?}");
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o777, 0o600, "{case:?}");
        assert!(link.is_symlink(), "{case:?}");
        // The names that were once those of unfinished files.
        for planted in [".partial", ".part"] {
            let name = shared.join(format!("new-{}{planted}", case.1));
            symlink("../own/victim", &name).unwrap();
            lchown(&name, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let new = shared.join(format!("new-{}", case.1));
        let output = shell(&format!("{PROGRAM} {}", line(case, &new)));
        assert!(output.status.success(), "{case:?}: {}", said(&output));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{case:?}");
        assert!(!new.is_symlink() && new.is_file(), "{case:?}");
    }
}

#[test]
fn a_link_in_ones_own_folder_is_followed_and_the_mode_stays() {
    for (case, whole) in all() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join(case.1));
        fs::write(&file, OLD).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let output = shell(&format!("{PROGRAM} {}", line(case, &link)));
        assert!(output.status.success(), "{case:?}: {}", said(&output));
        assert!(link.is_symlink(), "{case:?}");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640, "{case:?}");
        let bytes = fs::read(&file).unwrap();
        match whole.get(case.1) {
            Some(whole) => assert!(bytes == *whole, "{case:?}"),
            None => assert_ne!(bytes, OLD.as_bytes(), "{case:?}"),
        }
    }
}

#[test]
fn an_output_that_is_no_file_is_written_to() {
    let csv = &whole(EXACT[0]).unwrap()["x.csv"];
    let trace = format!("{CORPUS}/lost.dat");
    for (target, to) in [("/dev/stdout", "> OUT"), ("/dev/stdout", "| cat > OUT"), ("-", "> OUT")] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x");
        let to = to.replace("OUT", file.to_str().unwrap());
        let output = shell(&format!("{PROGRAM} trace convert --to csv {trace} {target} {to}"));
        assert!(output.status.success(), "{target} {to}: {}", said(&output));
        assert!(fs::read(&file).unwrap() == *csv, "{target} {to}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x");
    let script = format!(
        "echo first > {0}; {PROGRAM} trace convert --to csv {trace} - >> {0}; echo last >> {0}",
        file.display()
    );
    assert!(shell(&script).status.success());
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("first\n") && text.ends_with("last\n"), "{text}");
    let text = format!("{PROGRAM} trace convert --to dat-v6 {CORPUS}/contradictions.txt -");
    let output = shell(&text);
    assert!(output.status.success() && !output.stdout.is_empty(), "{}", said(&output));
    let output = shell(&format!("{PROGRAM} view {trace} -o /dev/full"));
    assert!(said(&output).contains("No space left"), "{}", said(&output));
}
