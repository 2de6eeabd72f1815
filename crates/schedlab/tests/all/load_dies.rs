//! Loads that are asked for what cannot be, or of which something dies: they end soon, say why, and leave
//! nothing behind.

use crate::links::Links;
use crate::patience::eventually;
use schedlab_model::Pid;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A hang is told as one instead of holding up all tests.
const PATIENCE: Duration = Duration::from_secs(100);

/// The program's processes: number and parent.
fn ours(links: &Links) -> Vec<(u32, u32)> {
    let parent = |stat: &str| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok();
    let all = links.processes().into_iter().filter_map(|at| {
        let stat = std::fs::read_to_string(at.join("stat")).ok()?;
        Some((at.file_name()?.to_str()?.parse().ok()?, parent(&stat)?))
    });
    all.collect()
}

/// Waits for it; kills what hangs, and says so.
fn ended(mut child: Child, what: &str) -> Output {
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("{what}: it hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs of the program under its names.
impl Links {
    /// The command of a line; `load ...` is the program under its own name.
    fn command(&self, line: &str) -> (PathBuf, Vec<String>) {
        let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match words[0].as_str() {
            "load" => (self.path("schedlab"), words),
            _ => (self.path(&words.remove(0)), words),
        }
    }

    fn spawn(&self, line: &str) -> Child {
        crate::machine_lock::share();
        let (program, words) = self.command(line);
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn run(&self, line: &str) -> Output {
        ended(self.spawn(line), line)
    }

    /// The line behind commands that take rights away; `None` where they are not there.
    fn run_behind(&self, before: &[&str], line: &str) -> Option<Output> {
        let (program, words) = self.command(line);
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(program).args(words).stdin(Stdio::null());
        match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(child) => Some(ended(child, line)),
            Err(_) => {
                missing!("{}; {line} was not tried", before[0]);
                None
            }
        }
    }
}

/// Nothing of it runs on, at once or soon.
fn nothing_left(links: &Links, what: &str) {
    eventually(|| match ours(links) {
        left if left.is_empty() => Ok(()),
        left => Err(format!("{what}: {left:?} run")),
    });
}

#[test]
fn what_is_no_value_is_told_and_nothing_is_started() {
    let links = Links::new();
    let huge = "99999999999999999999999";
    for (line, code) in [
        ("hackbench -g -1".to_owned(), 1),
        (format!("hackbench -g {huge}"), 1),
        ("hackbench -f 1e3".to_owned(), 1),
        ("hackbench -s -100".to_owned(), 1),
        (format!("hackbench -l {huge}"), 1),
        ("hackbench 0".to_owned(), 1),
        ("hackbench ten".to_owned(), 1),
        ("schbench -m -1".to_owned(), 1),
        (format!("schbench -m {huge}"), 1),
        ("schbench -t x".to_owned(), 1),
        ("schbench -r -5".to_owned(), 1),
        (format!("schbench -r {huge}"), 1),
        ("schbench -F -1".to_owned(), 1),
        (format!("schbench -F {huge}"), 1),
        ("schbench -n -1".to_owned(), 1),
        ("schbench -p -1".to_owned(), 1),
        ("schbench -A 101".to_owned(), 1),
        ("schbench -R abc".to_owned(), 1),
        ("schbench -M 4000".to_owned(), 1),
        ("schbench -W 0-".to_owned(), 1),
        ("schbench -m 100000 -t 100000".to_owned(), 1),
        ("load hackbench --groups -1".to_owned(), 2),
        (format!("load schbench --runtime {huge}"), 2),
        ("load cpu --tasks 0".to_owned(), 2),
        ("load cpu --cpus ,".to_owned(), 2),
        ("load cpu --cpus 3-1".to_owned(), 2),
        ("load mixed --sleep -1ms".to_owned(), 2),
        ("load pingpong --percentiles 101".to_owned(), 2),
        ("load pingpong --repeat 0".to_owned(), 2),
    ] {
        let output = links.run(&line);
        assert_eq!(output.status.code(), Some(code), "{line}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty(), "{line}");
        assert!(!text(&output.stdout).contains("Time:"), "{line}");
        nothing_left(&links, &line);
    }
}

#[test]
fn an_empty_list_of_cpus_is_told() {
    let links = Links::new();
    for (name, words, code) in
        [("schbench", ["-M", ""], 1), ("schbench", ["-W", ","], 1), ("schbench", ["-M", " "], 1)]
    {
        let output = Command::new(links.path(name)).args(words).args(["-r", "1"]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("failed to parse cpuset"), "{words:?}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
        .args(["load", "cpu", "--cpus", ""])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    nothing_left(&links, "empty lists");
}

#[test]
fn too_many_files_or_tasks_are_told_before_any_is_started() {
    let links = Links::new();
    let few = ["setpriv", "--bounding-set=-sys_resource", "prlimit", "--nofile=24:24"];
    for line in ["hackbench -g 1 -f 20", "hackbench -T -p -g 4 -f 20"] {
        let Some(output) = links.run_behind(&few, line) else { return };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("files, only 24"), "{line}: {said}");
        assert!(!text(&output.stdout).contains("Time:"), "{line}");
        nothing_left(&links, line);
    }
    // The soft limit alone is raised.
    let soft = ["prlimit", "--nofile=24:4096"];
    if let Some(output) = links.run_behind(&soft, "hackbench -T -p -g 1 -f 20 -l 2") {
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    for line in ["hackbench -g 100000 -f 100 -l 1", "hackbench -T -g 100000 -f 100 -l 1"] {
        let output = links.run(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", text(&output.stderr));
        nothing_left(&links, line);
    }
}

#[test]
fn without_the_right_for_fifo_nothing_is_started() {
    let links = Links::new();
    let bound = ["setpriv", "--bounding-set=-sys_nice", "prlimit", "--rtprio=0:0"];
    for line in ["hackbench -F -g 1 -l 5", "hackbench -F -T -g 1 -l 5"] {
        let Some(output) = links.run_behind(&bound, line) else { return };
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("CAP_SYS_NICE"), "{line}: {said}");
        assert!(!text(&output.stdout).contains("Time:"), "{line}");
        nothing_left(&links, line);
    }
}

/// The child of the program that performs the load: its other child is the guardian.
fn load_child(all: &[(u32, u32)], program: u32) -> Option<u32> {
    let is_guardian = |pid: u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == b"__guard")
    };
    all.iter().find(|(pid, parent)| *parent == program && !is_guardian(*pid)).map(|found| found.0)
}

/// The processes of tasks: children of the load child.
fn tasks_of(links: &Links, program: u32, wanted: usize) -> Vec<u32> {
    eventually(|| {
        let all = ours(links);
        let child = load_child(&all, program);
        let tasks: Vec<u32> = child
            .map(|child| all.iter().filter(|(_, p)| *p == child).map(|(pid, _)| *pid).collect())
            .unwrap_or_default();
        let count = tasks.len();
        if count == wanted { Ok(tasks) } else { Err(format!("{count} of {wanted} tasks came")) }
    })
}

/// Waits until a task is at work: it has left a CPU more often than on its way to the start.
fn at_work(task: u32) {
    eventually(|| {
        let status = std::fs::read_to_string(format!("/proc/{task}/status")).unwrap_or_default();
        let switches = status.lines().filter(|line| line.contains("ctxt_switches"));
        let count: u64 =
            switches.filter_map(|line| line.rsplit('\t').next()?.parse::<u64>().ok()).sum();
        if count > 30 { Ok(()) } else { Err(format!("task {task}: {count} switches")) }
    });
}

#[test]
fn a_task_that_is_killed_ends_the_run_which_says_so() {
    let links = Links::new();
    for (line, tasks, which) in [
        ("hackbench -g 2 -f 2 -l 100000000", 8, 0),
        ("hackbench -p -g 1 -f 3 -l 100000000 --compat upstream", 6, 5),
        ("load hackbench -g 1 -f 2 --duration 300s", 4, 1),
        ("load schbench -m 1 -t 2 -r 300 --processes", 3, 0),
        ("load schbench -m 1 -t 2 -r 300 --processes --rps 100", 3, 2),
        ("load pingpong --duration 300s --processes", 2, 1),
    ] {
        let child = links.spawn(line);
        let victims = tasks_of(&links, child.id(), tasks);
        at_work(victims[which]);
        schedlab_sys::process::kill(Pid(victims[which].cast_signed()), 9).unwrap();
        let output = ended(child, line);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("killed by signal 9"), "{line}: {said}");
        assert!(!text(&output.stdout).contains("Time:"), "{line}: {}", text(&output.stdout));
        nothing_left(&links, line);
    }
}

#[test]
fn the_load_child_or_the_program_may_be_killed_and_no_task_stays() {
    let links = Links::new();
    for (line, tasks) in
        [("hackbench -g 1 -f 2 -l 100000000", 4), ("load schbench -m 1 -t 2 -r 300 --processes", 3)]
    {
        let child = links.spawn(line);
        tasks_of(&links, child.id(), tasks);
        let between = load_child(&ours(&links), child.id()).unwrap();
        schedlab_sys::process::kill(Pid(between.cast_signed()), 9).unwrap();
        let output = ended(child, line);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", text(&output.stderr));
        nothing_left(&links, line);
        let mut child = links.spawn(line);
        tasks_of(&links, child.id(), tasks);
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_left(&links, line);
    }
}

/// Network namespaces of a process of ours: its number in hexadecimal is part of their names.
fn namespaces_of(process: u32) -> usize {
    let list = Command::new("ip").args(["netns", "list"]).output();
    let list = list.map(|output| text(&output.stdout)).unwrap_or_default();
    let start = format!("sl{process:x}-");
    list.lines().filter(|line| line.starts_with(&start)).count()
}

#[test]
fn a_run_that_is_killed_leaves_no_network_namespace() {
    let links = Links::new();
    let line = "load udp --rate 10Mbit --duration 300s";
    let mut child = links.spawn(line);
    let until = Instant::now() + PATIENCE;
    while namespaces_of(child.id()) == 0 && Instant::now() < until {
        if child.try_wait().unwrap().is_some() {
            let output = child.wait_with_output().unwrap();
            let said = text(&output.stderr);
            assert!(said.contains("cannot send over a link"), "{said}");
            missing!("a network namespace: {said}");
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(namespaces_of(child.id()), 1, "there was no namespace to leave behind");
    let process = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    nothing_left(&links, line);
    eventually(|| match namespaces_of(process) {
        0 => Ok(()),
        left => Err(format!("{left} namespaces were left behind")),
    });
}

#[test]
fn sizes_that_broke_the_original_are_passed() {
    let links = Links::new();
    // A message larger than any stack, and one larger than the smallest stack of a thread.
    for line in ["hackbench -g 1 -f 1 -l 1 -s 9000000", "hackbench -T -g 1 -f 1 -l 2 -s 20000"] {
        let output = links.run(line);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("\nTime: "), "{line}");
    }
    nothing_left(&links, "large messages");
}
