//! `schedlab why` on recordings that are made here, each with one known fault: the first screen names it.
//!
//! The victim and its fault share CPU 0: some kernels log nothing of another CPU that idles. Other programs may load the machine:
//! so the groups of the test have the largest weight, and each question is about the victim.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn missing(what: &str) {
    missing!("{what}");
}

/// A recording with a fault.
struct Fault {
    name: &'static str,
    /// Groups that are made, each with files that are written.
    groups: &'static [(&'static str, &'static [(&'static str, &'static str)])],
    /// Commands that run while it records, each in a group.
    loads: &'static [(&'static str, &'static str)],
    /// Who waits.
    victim: &'static str,
    /// What the first screen must hold.
    says: &'static [&'static str],
}

/// A task of this name that computes, as `perl` does it.
const FAULTS: [Fault; 10] = [
    Fault {
        name: "a quota, and the task alone",
        groups: &[("quota", &[("quota", "15000")])],
        loads: &[("quota", "taskset -c 0 perl -e '$0=\"primes\"; $n++ while 1'")],
        victim: "primes",
        says: &["because the CPU quota of", "Raise the quota"],
    },
    Fault {
        name: "a quota of the group above",
        groups: &[("above", &[("quota", "20000")]), ("above/inner", &[])],
        loads: &[("above/inner", "taskset -c 0 sh -c 'exec gzip < /dev/zero > /dev/null'")],
        victim: "gzip",
        says: &["because the CPU quota of", "Raise the quota"],
    },
    Fault {
        name: "a real-time task above fair ones",
        groups: &[("solo", &[])],
        loads: &[
            (
                "",
                "taskset -c 0 chrt -f 20 perl -e '$0=\"control\"; while (1) { $n++ for 1..100000; select undef, undef, undef, 0.001 }'",
            ),
            ("solo", "taskset -c 0 perl -e '$0=\"report\"; $n++ while 1'"),
        ],
        victim: "report",
        says: &["real-time", "control"],
    },
    Fault {
        name: "a deadline task above fair ones",
        groups: &[("solo", &[])],
        loads: &[
            (
                "",
                "chrt -d --sched-runtime 60000000 --sched-deadline 100000000 --sched-period 100000000 0 perl -e '$0=\"sampler\"; $n++ while 1'",
            ),
            ("solo", "taskset -c 0 perl -e '$0=\"encoder\"; $n++ while 1'"),
            ("solo", "taskset -c 1 perl -e '$0=\"encoder\"; $n++ while 1'"),
        ],
        victim: "encoder",
        says: &["deadline tasks"],
    },
    Fault {
        name: "another group of the same weight",
        groups: &[("mine", &[]), ("other", &[])],
        loads: &[
            ("mine", "taskset -c 0 awk 'BEGIN { while (1) n++ }'"),
            ("other", "taskset -c 0 perl -e '$0=\"backup\"; $n++ while 1'"),
        ],
        victim: "awk",
        says: &["competition: other groups", "weight"],
    },
    Fault {
        name: "threads of one group on one CPU",
        groups: &[("pool", &[])],
        loads: &[("pool", "taskset -c 0 perl -e '$0=\"worker\"; fork; fork; $n++ while 1'")],
        victim: "worker",
        says: &["competition: own group"],
    },
    Fault {
        name: "a nice task beside one that is not",
        groups: &[("nices", &[])],
        loads: &[
            ("nices", "taskset -c 0 nice -n 15 perl -e '$0=\"index\"; $n++ while 1'"),
            ("nices", "taskset -c 0 perl -e '$0=\"query\"; $n++ while 1'"),
        ],
        victim: "index",
        says: &["behind query", "competition: own group"],
    },
    Fault {
        name: "a task of SCHED_IDLE that starves",
        groups: &[("idles", &[])],
        loads: &[
            ("idles", "taskset -c 0 chrt -i 0 perl -e '$0=\"scrub\"; $n++ while 1'"),
            ("idles", "taskset -c 0 perl -e '$0=\"serve\"; $n++ while 1'"),
        ],
        victim: "scrub",
        says: &["behind serve"],
    },
    Fault {
        name: "a storm of processes",
        groups: &[("storm", &[])],
        loads: &[
            ("storm", "taskset -c 0 perl -e '$0=\"reader\"; $n++ while 1'"),
            ("storm", "taskset -c 0 sh -c 'while :; do /bin/true; /bin/true; done'"),
        ],
        victim: "reader",
        says: &["competition: own group", "On its CPU meanwhile"],
    },
    Fault {
        name: "a quota that is used up beside a hog",
        groups: &[("small", &[("quota", "10000")]), ("hog", &[])],
        loads: &[
            ("small", "taskset -c 0 perl -e '$0=\"tenant\"; $n++ while 1'"),
            ("hog", "taskset -c 0 perl -e '$0=\"neighbour\"; $n++ while 1'"),
        ],
        victim: "tenant",
        says: &["because the CPU quota of", "Raise the quota"],
    },
];

/// Groups of the test, in the hierarchy that divides CPU time; they are removed with it.
struct Groups {
    root: PathBuf,
    made: Vec<PathBuf>,
    is_v1: bool,
}

impl Groups {
    fn new() -> Option<Self> {
        let name = format!("schedlab-why-{}", std::process::id());
        let roots = [("/sys/fs/cgroup/cpu", true), ("/sys/fs/cgroup", false)];
        roots.into_iter().find_map(|(top, is_v1)| {
            let root = Path::new(top).join(&name);
            std::fs::create_dir(&root).ok()?;
            let groups = Self { made: vec![root.clone()], root, is_v1 };
            let (file, most) =
                if is_v1 { ("cpu.shares", "262144") } else { ("cpu.weight", "10000") };
            let file = groups.root.join(file);
            (file.exists() && std::fs::write(file, most).is_ok()).then_some(groups)
        })
    }

    fn make(&mut self, name: &str, files: &[(&str, &str)]) {
        let dir = self.root.join(name);
        if !self.is_v1 {
            for above in [self.root.clone(), dir.parent().unwrap().to_owned()] {
                std::fs::write(above.join("cgroup.subtree_control"), "+cpu").unwrap();
            }
        }
        std::fs::create_dir(&dir).unwrap();
        self.made.push(dir.clone());
        for (key, value) in files {
            assert_eq!(*key, "quota");
            let (file, text) = match self.is_v1 {
                true => ("cpu.cfs_quota_us", (*value).to_owned()),
                false => ("cpu.max", format!("{value} 100000")),
            };
            std::fs::write(dir.join(file), text).unwrap();
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for dir in self.made.iter().rev() {
            for _ in 0..200 {
                if std::fs::remove_dir(dir).is_ok() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// A load with all its processes, which end with it.
struct Load(Child);

impl Load {
    fn start(command: &str, group: Option<&Path>) -> Self {
        let join = group.map_or_else(String::new, |dir| {
            format!("echo $$ > {}/cgroup.procs && ", dir.display())
        });
        let mut shell = Command::new("setsid");
        shell.args(["sh", "-c", &format!("{join}exec {command}")]);
        let child = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self(child.expect("a shell starts"))
    }

    fn kill(&self) {
        // Its session is its own.
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).output();
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.kill();
        let _ = self.0.wait();
    }
}

/// Kills all before it waits for any: a killed task must run once more to end, and one that starves cannot until the others
/// are gone.
fn end(loads: Vec<Load>) {
    loads.iter().for_each(Load::kill);
    drop(loads);
}

/// The first screen about the victim, in one line.
fn screen(fault: &Fault, groups: &mut Groups) -> String {
    for (name, files) in fault.groups {
        groups.make(name, files);
    }
    let dir = tempfile::tempdir().unwrap();
    let start = |(group, command): &(&str, &str)| {
        let group = (!group.is_empty()).then(|| groups.root.join(group));
        Load::start(command, group.as_deref())
    };
    let loads: Vec<Load> = fault.loads.iter().map(start).collect();
    std::thread::sleep(Duration::from_millis(300));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
        let output = command.args(arguments).current_dir(dir.path()).output();
        let output = output.expect("the built command starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{}: {told}", fault.name);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The groups have the largest weight: in front of them, since beside them it would have no CPU for minutes.
    let mut record = Command::new("chrt");
    record.args(["-f", "50", env!("CARGO_BIN_EXE_schedlab")]);
    record.args(["record", "--time", "2s", "-o", "x.dat"]).current_dir(dir.path());
    let output = record.output().expect("chrt starts");
    assert!(output.status.success(), "{}: {output:?}", fault.name);
    end(loads);
    let text = run(&["why", "x.dat", "--comm", fault.victim]);
    let lines: Vec<&str> = text.lines().take(25).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ten_faults_are_named_in_the_first_screen() {
    if !is_root() {
        return missing("root: ten live faults were not recorded");
    }
    let tools = ["chrt", "taskset", "perl", "awk", "gzip", "setsid"];
    let has = |tool: &&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
        found.is_ok_and(|output| output.status.success())
    };
    if let Some(tool) = tools.iter().find(|tool| !has(tool)) {
        return missing(&format!("{tool}: ten live faults were not recorded"));
    }
    crate::machine_lock::take();
    let mut wrong = Vec::new();
    for fault in &FAULTS {
        // Beside another load the largest cause may truly be that load, so a fault has three recordings.
        let mut told = String::new();
        for _ in 0..3 {
            let Some(mut groups) = Groups::new() else {
                return missing("control groups with the CPU controller: ten live faults");
            };
            let text = screen(fault, &mut groups);
            let lacks: Vec<_> = fault.says.iter().filter(|word| !text.contains(**word)).collect();
            if lacks.is_empty() {
                told.clear();
                break;
            }
            told = format!("{}: {lacks:?} not in: {text}", fault.name);
        }
        wrong.extend(Some(told).filter(|told| !told.is_empty()));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// No event tells of it: it waits when the recording begins, and does not run while it goes on.
#[test]
fn a_task_that_never_runs_in_a_recording_is_told() {
    if !is_root() {
        return missing("root: a task that starves was not recorded");
    }
    crate::machine_lock::take();
    let Some(mut groups) = Groups::new() else {
        return missing("control groups with the CPU controller: a task that starves");
    };
    groups.make("all", &[]);
    let group = groups.root.join("all");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("x.dat");
    let hog = "nice -n -20 taskset -c 0 perl -e '$0=\"compactor\"; $n++ while 1'";
    let victim = "perl -e '$0=\"janitor\"; `taskset -cp 0 $$; chrt -ip 0 $$`; $n++ while 1'";
    let mut loads = vec![Load::start(victim, Some(&group))];
    std::thread::sleep(Duration::from_millis(500));
    loads.extend([Load::start(hog, Some(&group)), Load::start(hog, Some(&group))]);
    std::thread::sleep(Duration::from_millis(300));
    let mut record = Command::new("chrt");
    record.args(["-f", "50", env!("CARGO_BIN_EXE_schedlab")]);
    let output = record.args(["record", "--time", "500ms", "-o"]).arg(&file).output();
    let output = output.expect("chrt starts");
    assert!(output.status.success(), "{output:?}");
    end(loads);
    let mut ask = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    let output = ask.args(["why", "--json", "--comm", "janitor"]).arg(&file).output();
    let told = output.expect("the built command starts").stdout;
    let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
    let waited = told["waited_ns"].as_u64().unwrap_or(0);
    assert!(waited > 450_000_000, "of at least 500 ms: {told}");
}

pub(crate) fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output().expect("id starts");
    output.stdout.trim_ascii() == b"0"
}
