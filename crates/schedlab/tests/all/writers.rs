//! Every command that writes a file the user names: on a full disk, in a folder that is read-only, killed in the midst
//! and through the links of others, there is the old file or the whole new one.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_schedlab");
const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus");
/// Nobody: a user without rights.
const NOBODY: u32 = 65_534;
/// What a file held before.
const OLD: &str = "old\n";

/// A command line, and the name of the file that it writes. `OUT` stands for the file, `DIR` for the folder that it is
/// in, which then holds the results of the same command; `IN` for a folder of results, `CORPUS` for traces.
type Case = (&'static str, &'static str);

/// Their files are the same each time.
const EXACT: &[Case] = &[
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
    ("run report IN/a/e -o OUT", "report.html"),
    ("compare IN/a/e IN/b/e --junit OUT", "j.xml"),
    ("sim calibrate --only post --against sim:cpus=1 --repeat 1 -o OUT", "costs.toml"),
    ("load hackbench --on sim:cpus=2 -g 1 -f 2 -l 10 --trace OUT", "load.dat"),
    (GALLERY, "jobs-burst-short/picture-1.png"),
    (TUNE, "t/profile.sh"),
];

/// Their files have times in them.
const TIMED: &[Case] = &[
    ("jobs run --nodes 8 --time 10us --workers 2 --trace OUT", "jobs.json"),
    ("jobs run --nodes 8 --time 10us --workers 2 -o OUT", "jobs.svg"),
    ("record -o OUT -- true", "record.dat"),
    ("schbench -t 1 -r 1 -n 0 -p 64 -j OUT", "schbench.json"),
    (EVALUATE, "evaluation.json"),
];

#[cfg(feature = "parquet")]
const PARQUET: &[Case] = &[("run report IN/a/e --parquet OUT", "runs.parquet")];
#[cfg(not(feature = "parquet"))]
const PARQUET: &[Case] = &[];

/// A log: others read it while it grows, so a kill leaves its lines so far.
const LOG: Case =
    ("slow --no-measure --method quota --cpu 0=50% --events OUT -- true", "events.jsonl");

const GALLERY: &str = "gallery run jobs-burst --short -o DIR";
const TUNE: &str = "tune IN/t.toml -o DIR";
const EVALUATE: &str = "slow evaluate --methods quota --benchmarks cpu --speeds 50% --cpus 1 --repeats 2 --time 20ms -o DIR";

/// Results of experiments, made once.
fn results() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("writers");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let text = "name = \"e\"\nmachine = \"sim:cpus=2\"\nrepeats = 2\n[[workload]]\nname = \"hackbench\"\n\
                    options = { groups = 1, fds = 2, loops = 10 }\n";
        fs::write(folder.join("e.toml"), text).unwrap();
        // One setting is better by far, so there is a best one, whose knobs are written.
        let search = "name = \"t\"\nmachine = \"sim:cpus=4,kernel=eevdf-6.12\"\n[workload]\nname = \"schbench\"\n\
                      options = { message-threads = 2, threads = 8, runtime = 1 }\n[[axis]]\n\
                      knob = \"base_slice\"\nvalues = [\"3ms\", \"24ms\"]\n[tune]\nbudget = 4\nstart = 2\n\
                      confirm = 6\ngoals = [\"requests_per_s\"]\ndefault = { base_slice = \"3ms\" }\n";
        fs::write(folder.join("t.toml"), search).unwrap();
        symlink(PROGRAM, folder.join("schbench")).unwrap();
        for name in ["a", "b"] {
            let mut command = Command::new(PROGRAM);
            let ran = command.args(["run", "e.toml", "-o", name]).current_dir(&folder).output();
            assert!(ran.unwrap().status.success());
        }
        folder
    })
}

/// The command line of a case whose file is in `folder`.
fn line((line, name): Case, folder: &Path) -> String {
    let of = |path: &Path| path.to_str().unwrap().to_owned();
    let line = line.replace("CORPUS", CORPUS).replace("IN/", &format!("{}/", of(results())));
    let line = line.replace("OUT", &of(&folder.join(name))).replace("DIR", &of(folder));
    match line.strip_prefix("schbench ") {
        Some(rest) => format!("{}/schbench {rest}", of(results())),
        None => format!("{PROGRAM} {line}"),
    }
}

/// Lays what the case finds into its folder: results, if it has done the same before.
fn prepare(case: Case, folder: &Path) {
    if !case.0.contains("DIR") {
        return;
    }
    static DONE: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut done = DONE.lock().unwrap();
    let before = done.entry(case.0).or_insert_with(|| {
        let kept = results().join(case.0.split(' ').next().unwrap());
        fs::create_dir(&kept).unwrap();
        shell(&line(case, &kept));
        kept
    });
    assert!(shell(&format!("cp -a {}/. {}", before.display(), folder.display())).status.success());
}

fn shell(script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdin(Stdio::null());
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn name_ends(path: &Path, end: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(end))
}

/// What the files of a folder hold. Those of runs and of a recording that can be salvaged are written under other rules.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut files, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap().flatten() {
            let path = entry.path();
            let is_log = path.ends_with("runs") || name_ends(&path, ".spool");
            if path.is_dir() && !is_log {
                folders.push(path);
            } else if path.is_file() && !path.ends_with(".lock") {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap_or_default());
            }
        }
    }
    files
}

/// What a case writes where nothing is in its way.
struct Whole {
    case: Case,
    files: BTreeMap<String, Vec<u8>>,
    took: Duration,
}

impl Whole {
    /// `None` where the machine lacks what the case needs.
    fn of(case: Case) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        prepare(case, folder.path());
        let begin = Instant::now();
        let output = shell(&line(case, folder.path()));
        let took = begin.elapsed();
        let files = contents(folder.path());
        if !output.status.success() || !files.contains_key(case.1) {
            missing!("`{}` on this machine: {}", case.0, said(&output));
            return None;
        }
        Some(Self { case, files, took })
    }

    /// Checks that each file is old or whole, and that nothing else is there but a whole one that a kill kept from
    /// replacing the old one.
    fn check(&self, found: &BTreeMap<String, Vec<u8>>) {
        let case = self.case;
        for (name, bytes) in found {
            let is_old = name == case.1 && bytes == OLD.as_bytes();
            let unfinished = name.strip_suffix(".part").and_then(|name| name.rsplit_once('.'));
            let last = unfinished.map_or(name.as_str(), |(target, _)| target);
            let is_whole = self.files.get(last).is_some_and(|whole| match TIMED.contains(&case) {
                true => bytes.len() > whole.len() / 2,
                false => bytes == whole,
            });
            let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
            assert!(is_old || is_whole, "{case:?}: {name} has {} bytes: {start}", bytes.len());
        }
        assert!(found.contains_key(case.1), "{case:?}: the old file is gone");
    }
}

/// All cases that this machine can do.
fn all() -> &'static [Whole] {
    static ALL: OnceLock<Vec<Whole>> = OnceLock::new();
    ALL.get_or_init(|| {
        let cases = EXACT.iter().chain(TIMED).chain(PARQUET);
        cases.filter_map(|case| Whole::of(*case)).collect()
    })
}

/// A folder in which a case finds an old file.
fn with_old(case: Case) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    prepare(case, folder.path());
    fs::write(folder.path().join(case.1), OLD).unwrap();
    folder
}

/// Runs a case in a small file system of its own, which `before` fills or closes; the files that it leaves there.
fn in_small_disk(case: Case, before: &str) -> (Output, BTreeMap<String, Vec<u8>>) {
    let folder = with_old(case);
    let given = tempfile::tempdir().unwrap();
    let (disk, left) = (given.path().join("disk"), given.path().join("left"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&left).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=4m tmpfs {0} || exit 99\n\
         cp -a {1}/. {0}\n\
         {2}\n\
         {3}\n\
         status=$?\n\
         rm -f {0}/fill\n\
         cp -a {0}/. {4}\n\
         exit $status\n",
        disk.display(),
        folder.path().display(),
        before.replace("DISK", disk.to_str().unwrap()),
        line(case, &disk),
        left.display(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output, contents(&left))
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
    for whole in all() {
        let case = whole.case;
        let (output, found) =
            in_small_disk(case, "head -c 8000000 /dev/zero > DISK/fill 2> /dev/null");
        assert!(!output.status.success(), "{case:?} ends well on a full disk");
        assert_ne!(output.status.code(), Some(99), "{}", said(&output));
        assert!(said(&output).contains("No space left"), "{case:?}: {}", said(&output));
        whole.check(&found);
        assert_eq!(found[case.1], OLD.as_bytes(), "{case:?}");
    }
}

#[test]
fn a_folder_that_is_read_only_keeps_the_old_file() {
    if !mounts() {
        missing!("the right to mount: no command was tried in a read-only folder");
        return;
    }
    for whole in all() {
        let case = whole.case;
        let (output, found) = in_small_disk(case, "mount -o remount,ro DISK");
        assert!(!output.status.success(), "{case:?} ends well in a read-only folder");
        assert!(said(&output).contains("ead-only"), "{case:?}: {}", said(&output));
        whole.check(&found);
        assert_eq!(found[case.1], OLD.as_bytes(), "{case:?}");
    }
}

#[test]
fn a_command_that_is_killed_while_it_writes_keeps_the_old_file() {
    let mut killed = 0;
    for whole in all() {
        let folder = with_old(whole.case);
        // The kernel ends it with the first byte beyond 512, and nothing in it can catch that.
        let limit = "ulimit -c 0; ulimit -f 1";
        let output = shell(&format!("{limit}; exec {}", line(whole.case, folder.path())));
        killed += usize::from(output.status.signal() == Some(25));
        whole.check(&contents(folder.path()));
    }
    assert!(killed > all().len() / 2, "only {killed} were killed");
}

#[test]
fn a_command_that_is_killed_at_any_time_leaves_the_old_file_or_the_whole_new_one() {
    let mut killed = 0;
    for whole in all() {
        // Side by side: the longest of them takes three quarters of what one takes alone.
        let folders: Vec<_> = (1..4).map(|_| with_old(whole.case)).collect();
        let begin = Instant::now();
        let begun = folders.iter().map(|folder| {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("exec {}", line(whole.case, folder.path())));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        });
        let begun: Vec<_> = begun.collect();
        for (quarter, (mut child, folder)) in (1..4).zip(begun.into_iter().zip(&folders)) {
            std::thread::sleep((whole.took * quarter / 4).saturating_sub(begin.elapsed()));
            child.kill().unwrap();
            killed += usize::from(child.wait().unwrap().signal() == Some(9));
            whole.check(&contents(folder.path()));
        }
    }
    assert!(killed > all().len(), "only {killed} were killed");
}

#[test]
fn a_conversion_that_is_killed_in_the_midst_leaves_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let target = folder.path().join("x.csv");
    fs::write(&target, OLD).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Command::new(PROGRAM);
    let mut child = command.args(["trace", "convert"]).args([&pipe, &target]).spawn().unwrap();
    // It has begun its file when its input opens, and waits for the rest of it.
    let mut feed = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    feed.write_all(&fs::read(format!("{CORPUS}/lost.dat")).unwrap()[..1000]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(contents(folder.path()), BTreeMap::from([("x.csv".into(), OLD.into())]));
}

#[test]
fn no_command_writes_through_the_link_of_another_user() {
    let cases = all().iter().map(|whole| whole.case).chain([LOG]);
    for case in cases {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        fs::create_dir(&own).unwrap();
        let victim = own.join("victim");
        fs::write(&victim, "mine").unwrap();
        fs::set_permissions(&victim, Permissions::from_mode(0o600)).unwrap();
        let top = folder.path().join("shared");
        fs::create_dir(&top).unwrap();
        prepare(case, &top);
        let link = top.join(case.1);
        let shared = link.parent().unwrap();
        fs::set_permissions(shared, Permissions::from_mode(0o1777)).unwrap();
        let _ = fs::remove_file(&link);
        symlink(&victim, &link).unwrap();
        if lchown(&link, Some(NOBODY), Some(NOBODY)).is_err() {
            missing!("root; no other user plants a link in this test");
            return;
        }
        let output = shell(&line(case, &top));
        assert!(!output.status.success(), "{case:?} follows the link");
        assert!(said(&output).contains("belongs to another user"), "{case:?}: {}", said(&output));
        assert!(link.is_symlink(), "{case:?}");
        let is_kept = || {
            assert_eq!(fs::read_to_string(&victim).unwrap(), "mine", "{case:?}");
            assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o777, 0o600, "{case:?}");
        };
        is_kept();
        fs::remove_file(&link).unwrap();
        // The names that were once those of unfinished files.
        for planted in [".partial", ".part"] {
            let name = top.join(format!("{}{planted}", case.1));
            symlink(&victim, &name).unwrap();
            lchown(&name, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let output = shell(&line(case, &top));
        assert!(output.status.success(), "{case:?}: {}", said(&output));
        is_kept();
        assert!(!link.is_symlink() && link.is_file(), "{case:?}");
    }
}

#[test]
fn a_link_in_ones_own_folder_is_followed_and_the_mode_stays() {
    for whole in all() {
        let case = whole.case;
        let folder = tempfile::tempdir().unwrap();
        prepare(case, folder.path());
        let link = folder.path().join(case.1);
        let file = link.with_file_name("file");
        let _ = fs::remove_file(&link);
        fs::write(&file, OLD).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        let output = shell(&line(case, folder.path()));
        assert!(output.status.success(), "{case:?}: {}", said(&output));
        assert!(link.is_symlink(), "{case:?}");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o640, "{case:?}");
        assert_ne!(fs::read(&file).unwrap(), OLD.as_bytes(), "{case:?}");
        let mut found = contents(folder.path());
        found.remove(file.strip_prefix(folder.path()).unwrap().to_str().unwrap());
        whole.check(&found);
    }
}

#[test]
fn an_output_that_is_no_file_is_written_to() {
    let csv = &Whole::of(EXACT[0]).unwrap().files["x.csv"];
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
