//! Each command that starts programs, killed and stopped by Ctrl-C while they run: nothing runs on, nothing is left, and
//! the same call begins again. Which commands there are comes from the command line itself.

use crate::patience::eventually;
use crate::slow::marked;
use schedlab_model::Pid;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Commands whose kills are tests of their own, since they need a trace, a kernel, a compiler or rights.
const ELSEWHERE: [(&str, &str); 8] = [
    ("replay", "the_load_child_or_the_program_may_be_killed_and_no_task_stays"),
    ("sim-build", "a_build_that_is_stopped_or_killed_leaves_no_process_and_no_half_kernel"),
    ("sim-calibrate", "who_is_killed_leaves_no_virtual_machine"),
    ("slow", "whoever_is_killed_at_any_moment_nothing_is_left"),
    ("slow-attach", "whoever_is_killed_at_any_moment_nothing_is_left"),
    ("slow-evaluate", "whoever_is_killed_at_any_moment_nothing_is_left"),
    ("vm-bisect", "a_build_that_is_stopped_or_killed_leaves_no_process_and_no_half_kernel"),
    ("vm-build", "a_build_that_is_stopped_or_killed_leaves_no_process_and_no_half_kernel"),
];

/// Commands, or families of them, that start no program which could outlive them.
const START_NONE: [&str; 34] = [
    "cluster-gather",
    "cluster-plan",
    "doctor",
    "draw",
    "gallery-list",
    "gallery-show",
    "jobs-break",
    "jobs-fit",
    "jobs-generate",
    "jobs-posts",
    "jobs-storm",
    "knobs-apply",
    "knobs-get",
    "knobs-list",
    "knobs-restore",
    "knobs-set",
    "knobs-write",
    "run-report",
    "schema",
    "shell",
    "sim-costs",
    "sim-machines",
    "slow-cut",
    "slow-end",
    "slow-fail",
    "slow-heal",
    "slow-link",
    "slow-recover",
    "slow-set",
    "slow-status",
    "trace",
    "view",
    "vm-kernels",
    "why",
];

/// A call, and how the program that it starts begins on the list of processes.
struct Starter {
    words: Vec<String>,
    begins: &'static str,
}

/// What waits for ever, as a child of its own.
const WAITS: &str = "sleep 100000; true";

fn file(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.join(name), mode).unwrap();
}

/// All calls. `knob` is a setting of this machine.
fn starters(folder: &Path, knob: &str) -> Vec<Starter> {
    let (name, value) = knob.split_once('=').unwrap();
    let waiting = format!("command = [\"sh\", \"-c\", \"{WAITS}\"]\n");
    let sleep = "[workload]\nname = \"cpu\"\noptions = { duration = \"100s\" }\n";
    file(folder, "waits.sh", &format!("#!/bin/sh\n{WAITS}\n"));
    // As ssh is that does not get through, and others that have no answer.
    for name in ["hangs", "sbatch", "apt-get"] {
        file(folder, name, "#!/bin/sh\nexec sleep 100000\n");
    }
    file(folder, "none.toml", sleep);
    file(folder, "blocks.toml", &format!("hosts = \"blocks\"\n{sleep}"));
    file(folder, "knobs.toml", &format!("[workload]\n{waiting}[knobs]\n{name} = {value}\n"));
    for hook in ["before", "during", "metric", "after"] {
        let load = if hook == "during" { sleep } else { "[workload]\ncommand = [\"true\"]\n" };
        let text = format!("{load}[hooks]\n{hook} = [\"sh\", \"-c\", \"{WAITS}\"]\n");
        file(folder, &format!("{hook}.toml"), &text);
    }
    let tune = "[[axis]]\noption = \"a\"\nvalues = [1, 2]\n[tune]\nbudget = 4\nconfirm = 6\n";
    let waiting = waiting.replace("100000", "{a}00000");
    file(folder, "tune.toml", &format!("[workload]\n{waiting}{tune}"));
    let jobs = ["run", "compare", "peak", "grain"];
    let of_jobs = jobs.map(|what| format!("jobs {what} --executor cmd:./waits.sh"));
    let lines = [
        "load command --line WAITS",
        "load cpu --duration 100s --beside command%--%sh%waits.sh",
        "load command --line WAITS --repeat 3 --against nice=5",
        "run knobs.toml",
        "run before.toml",
        "run during.toml",
        "run metric.toml",
        "run after.toml",
        "tune tune.toml",
        &format!("knobs run {knob} -- sh -c WAITS"),
        "compare -n 3 -w 0 -- WAITS true",
        "compare --setup WAITS -- true",
        "compare --prepare WAITS -- true",
        "compare -n 3 --cleanup WAITS -- true",
        "record -o x.dat -- sh -c WAITS",
        "record --ssh host --ssh-command ./hangs -o x.dat",
        "watch --ssh host --ssh-command ./hangs",
        "cluster ssh --hosts host --ssh-command ./hangs none.toml",
        "cluster slurm blocks.toml",
        "cluster work plan",
        "vm fetch debian-6.1",
    ];
    let starter = |line: &str, begins| {
        let words = line.split(' ').map(|word| word.replace("WAITS", WAITS).replace('%', " "));
        Starter { words: words.collect(), begins }
    };
    let mut all: Vec<_> = lines.map(|line| starter(line, "sleep\0")).into();
    all.extend(of_jobs.map(|line| starter(&line, "sleep\0")));
    // The load of a run is the program itself.
    all.extend(["gallery run schbench-pipe", "tour -o tour"].map(|line| starter(line, "schedlab")));
    let plan = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["cluster", "plan", "during.toml", "--freeze", "plan"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(plan.status.success(), "{}", String::from_utf8_lossy(&plan.stderr));
    all
}

/// The name of a command's page in the manual: its first words.
fn page(words: &[String], pages: &BTreeSet<String>) -> String {
    let two = words[..2].join("-");
    if pages.contains(&two) { two } else { words[0].clone() }
}

/// All commands of the command line, without those that only have others below them.
fn pages() -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut manual = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let done = manual.args(["shell", "man", "-o"]).arg(folder.path()).status().unwrap();
    assert!(done.success());
    let files = std::fs::read_dir(folder.path()).unwrap().flatten();
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names = names
        .filter_map(|name| Some(name.strip_prefix("schedlab-")?.strip_suffix(".1")?.to_owned()));
    let names: BTreeSet<String> = names.collect();
    let below = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name}-")));
    let families = ["run", "slow"];
    names.iter().filter(|name| families.contains(&name.as_str()) || !below(name)).cloned().collect()
}

/// How a command is struck.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Strike {
    Kill,
    /// As the terminal does it: all of the group get the signal.
    CtrlC,
}

/// What a call and its surroundings leave.
struct Scene<'s> {
    folder: &'s Path,
    knob: &'s str,
}

impl Scene<'_> {
    /// Starts a call, and waits until its program runs.
    fn begin(&self, starter: &Starter, mark: &str) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        command.args(&starter.words).current_dir(self.folder).process_group(0);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.folder.display()));
        let (name, value) = mark.split_once('=').unwrap();
        command
            .env("TMPDIR", self.folder.join("tmp"))
            .env("XDG_CACHE_HOME", self.folder.join("cache"));
        command.env(name, value).stdin(Stdio::null()).stdout(Stdio::null());
        let said = std::fs::File::create(self.folder.join("said")).unwrap();
        let mut child = command.stderr(said).spawn().unwrap();
        eventually(|| {
            let mut all =
                marked(mark).into_iter().filter(|(pid, _)| *pid != child.id().cast_signed());
            if all.any(|(_, line)| line.starts_with(starter.begins) || line.contains("__load")) {
                return Ok(());
            }
            let said = std::fs::read_to_string(self.folder.join("said")).unwrap_or_default();
            assert!(child.try_wait().unwrap().is_none(), "{:?} ended: {said}", starter.words);
            Err(format!("{:?}: its program does not begin: {said}", starter.words))
        });
        child
    }

    /// Strikes it, and waits until nothing of it is left.
    fn strike(&self, strike: Strike, child: &mut Child, what: &str, mark: &str, before: &str) {
        let pid = Pid(child.id().cast_signed());
        match strike {
            Strike::Kill => child.kill().unwrap(),
            Strike::CtrlC => schedlab_sys::process::kill(Pid(-pid.0), 2).unwrap(),
        }
        eventually(|| {
            let mut left = crate::slow::left(child.id());
            let temporary = std::fs::read_dir(self.folder.join("tmp")).unwrap().flatten();
            left.extend(temporary.map(|entry| entry.path()));
            let (ended, runs) = (child.try_wait().unwrap(), marked(mark));
            let is_back = now(self.knob) == before;
            match ended.is_some() && left.is_empty() && runs.is_empty() && is_back {
                true => Ok(()),
                false => Err(format!(
                    "{what}, {strike:?}: ended: {ended:?}; runs: {runs:?}; left: {left:?}; \
                     {} is back: {is_back}",
                    self.knob
                )),
            }
        });
    }
}

/// `SCHEDLAB_KILLS` says how many there are at least, for the evidence; in a test one of each kind.
#[test]
fn a_kill_leaves_nothing_running_and_nothing_behind() {
    const KNOB: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    crate::machine_lock::take();
    let before = now(KNOB);
    let is_writable = std::fs::OpenOptions::new().write(true).open(KNOB).is_ok();
    let knob = match (is_writable, before.as_str()) {
        (true, "0") => "autogroup=1",
        (true, _) => "autogroup=0",
        (false, _) => "nice=5",
    };
    if !is_writable {
        missing!("the right to set {KNOB}; that knobs of the machine are put back was not tested");
    }
    let wanted = std::env::var("SCHEDLAB_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let may_record = crate::watch::may_watch();
    let (mut kills, mut kinds) = (0_usize, 0);
    while kills < wanted {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let scene = Scene { folder: folder.path(), knob: KNOB };
        let starters = starters(folder.path(), knob);
        kinds = starters.len();
        for starter in &starters {
            if ["record", "watch"].contains(&&*starter.words[0]) && !may_record {
                continue;
            }
            // Each but the first is the same call anew.
            for strike in [Strike::Kill, Strike::CtrlC] {
                let mark = format!("SCHEDLAB_KILL_TEST={}-{kills}", std::process::id());
                let mut child = scene.begin(starter, &mark);
                std::thread::sleep(Duration::from_millis(10 * (kills as u64 % 11)));
                let what = starter.words.join(" ");
                scene.strike(strike, &mut child, &what, &mark, &before);
                // A recording that was killed is kept, for --salvage.
                let _ = std::fs::remove_dir_all(folder.path().join("x.dat.spool"));
                kills += 1;
            }
        }
    }
    eprintln!("{kills} kills of {kinds} calls: nothing ran on, and nothing was left");
}

fn now(knob: &str) -> String {
    std::fs::read_to_string(knob).unwrap_or_default().trim().to_owned()
}

#[test]
fn each_command_is_killed_or_starts_no_program() {
    let folder = tempfile::tempdir().unwrap();
    let pages = pages();
    let starters = starters(folder.path(), "nice=5");
    let mut tested: BTreeSet<String> =
        starters.iter().map(|one| page(&one.words, &pages)).collect();
    tested.extend(ELSEWHERE.map(|(name, _)| name.to_owned()));
    let of_family = |name: &str| {
        START_NONE.iter().any(|family| name == *family || name.starts_with(&format!("{family}-")))
    };
    let unknown: Vec<_> =
        pages.iter().filter(|name| !tested.contains(*name) && !of_family(name)).collect();
    assert!(unknown.is_empty(), "no test kills these, or they start none: {unknown:?}");
    assert!(tested.iter().all(|name| pages.contains(name) && !of_family(name)), "{tested:?}");
    let tests = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all")).unwrap();
    let texts = tests.flatten().flat_map(|entry| match entry.path().is_dir() {
        true => {
            std::fs::read_dir(entry.path()).unwrap().flatten().map(|file| file.path()).collect()
        }
        false => vec![entry.path()],
    });
    let texts: String = texts.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    for (command, test) in ELSEWHERE {
        assert!(texts.contains(&format!("fn {test}(")), "{command}: there is no test {test}");
    }
}
