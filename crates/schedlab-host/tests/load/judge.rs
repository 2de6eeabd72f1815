//! The tests, and the output that judges what a run told.

use schedlab_host::Host;
use schedlab_model::{Nanos, Warning};
use schedlab_workload::{
    Figure, Interval, Machine, MachineError, Outcome, Output, RunSpec, Stream, WorkloadSpec,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Keeps what a run tells.
pub(crate) struct Judge {
    folder: tempfile::TempDir,
    pub(crate) figures: Vec<Figure>,
    pub(crate) last: Option<Interval>,
}

impl Judge {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), figures: Vec::new(), last: None }
    }

    fn value(&self, name: &str) -> f64 {
        let found = self.figures.iter().find(|f| f.of.is_empty() && f.metric.name == name);
        found.unwrap_or_else(|| panic!("no figure {name} in {:#?}", self.figures)).value
    }

    fn samples(&self, metric: &str) -> u64 {
        let last = self.last.as_ref().expect("the last interval");
        last.total.iter().filter(|s| s.metric.name == metric).map(|s| s.histogram.count()).sum()
    }
}

impl Output for Judge {
    fn path(&mut self, stream: Stream) -> PathBuf {
        self.folder.path().join(format!("{stream:?}"))
    }

    fn figure(&mut self, figure: Figure) -> std::io::Result<()> {
        self.figures.push(figure);
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) {
        if interval.last {
            self.last = Some(interval.clone());
        }
    }

    fn warning(&mut self, _: Warning) {}

    fn stopped(&self) -> bool {
        false
    }
}

fn spec(name: &str, options: &str) -> RunSpec {
    let option = |word: &str| {
        let (key, value) = word.split_once('=').unwrap_or((word, "true"));
        (key.to_owned(), value.to_owned())
    };
    let options = options.split_whitespace().map(option).collect();
    RunSpec {
        workload: WorkloadSpec::Builtin { name: name.to_owned(), options },
        beside: Vec::new(),
        settings: Vec::new(),
        record: None,
        seed: 1,
        repeat: 0,
        time_limit: Some(Nanos::from_secs(600)),
    }
}

fn perform(spec: &RunSpec) -> (Judge, Result<Outcome, MachineError>) {
    let mut judge = Judge::new();
    let outcome = Host::here().unwrap().run(spec, &mut judge);
    (judge, outcome)
}

fn measured(name: &str, options: &str) -> Judge {
    let (judge, outcome) = perform(&spec(name, options));
    let outcome = outcome.unwrap_or_else(|error| panic!("{name} {options}: {error}"));
    assert_eq!(outcome, Outcome::default(), "{name} {options}");
    judge
}

/// Runs it until it has seen what it would not without the CPU, for two minutes and at least eight times.
fn until(name: &str, options: &str, seen: impl Fn(&Judge) -> bool) -> Judge {
    let end = Instant::now() + LIMIT;
    let mut runs = 0;
    loop {
        let judge = measured(name, options);
        runs += 1;
        if seen(&judge) {
            return judge;
        }
        let last = runs >= 8 && Instant::now() > end;
        assert!(!last, "{name} {options}: {runs} times in vain: {:#?}", judge.figures);
    }
}

/// What is waited for takes less on any machine that can be worked with.
const LIMIT: Duration = Duration::from_secs(120);

/// No more processes of ours than before, at once or soon.
pub(crate) fn nothing_left(before: usize, test: &str) {
    let end = Instant::now() + LIMIT;
    while tasks_of_ours() > before && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(tasks_of_ours(), before, "{test} left processes behind");
}

/// Processes whose program is this one, but for this one: load children and their tasks.
pub(crate) fn tasks_of_ours() -> usize {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == own))
        .count()
}

pub(crate) fn hackbench_passes_all_messages() {
    for form in ["", "pipe", "inet", "threads", "threads pipe", "threads inet", "datasize=5000"] {
        let judge = measured("hackbench", &format!("groups=2 fds=3 loops=20 {form}"));
        assert_eq!(judge.value("tasks"), 12.0, "{form}");
        // groups * fds^2 * loops
        assert_eq!(judge.value("messages"), 360.0, "{form}");
        assert_eq!(judge.samples("message_latency_ns"), 360, "{form}");
        assert!(judge.value("switches_voluntary") > 0.0, "{form}");
    }
    let tiny = measured("hackbench", "groups=1 fds=2 loops=5 datasize=1");
    assert_eq!((tiny.value("messages"), tiny.samples("message_latency_ns")), (20.0, 0));
}

pub(crate) fn schbench_answers_requests() {
    let quick = "runtime=1 threads=2 operations=1 cache_footprint=16";
    for mode in ["", "no-locking", "calibrate", "processes", "split=50", "message-threads=2"] {
        let judge =
            until("schbench", &format!("{quick} {mode}"), |judge| judge.value("requests") > 10.0);
        let requests = judge.value("requests") as u64;
        // Taken while the tasks go on: each may be between its sample and its count.
        assert!(judge.samples("request_latency_ns").abs_diff(requests) <= 8, "{mode}");
        assert!(judge.samples("wakeup_latency_ns") + 8 >= requests, "{mode}");
    }
    let pipe =
        until("schbench", "runtime=1 threads=2 pipe=4096", |pipe| pipe.value("requests") > 10.0);
    assert_eq!(pipe.samples("request_latency_ns"), 0);
}

pub(crate) fn open_loop_counts_drops() {
    for arrivals in ["burst", "paced", "poisson"] {
        let calm = format!("runtime=1 threads=2 operations=0 rps=50 arrivals={arrivals}");
        // Who offers them catches up with what a stall made late, unless that is at the end; and the queues hold
        // two seconds of them.
        until("schbench", &calm, |judge| {
            let offered = judge.value("requests_offered");
            (20.0..=160.0).contains(&offered) && judge.value("requests_dropped") == 0.0
        });
    }
    // Far more than can be done: what does not fit is counted, and the rest has waited.
    let judge = until("schbench", "runtime=1 threads=1 sleep_usec=1ms rps=100000", |judge| {
        judge.value("requests_dropped") > 1_000.0
    });
    let last = judge.last.as_ref().unwrap();
    let waited = last.total.iter().find(|s| s.metric.name == "request_latency_ns").unwrap();
    assert!(waited.histogram.quantile(0.9).unwrap() > 10_000_000, "latency leaves out the queue");
}

pub(crate) fn a_duration_ends_tasks() {
    for form in ["", "threads", "threads inet"] {
        let judge = until("hackbench", &format!("groups=1 fds=2 duration=300ms {form}"), |judge| {
            judge.value("messages") > 100.0
        });
        assert!(judge.value("unfairness_tasks") >= 0.0, "{form}");
    }
}

/// The numbers of tasks of a load under way, by their name.
fn tasks_named(name: &str) -> Vec<schedlab_model::Pid> {
    let named = |pid: &schedlab_model::Pid| {
        let comm = schedlab_sys::process::comm(*pid);
        comm == Some(schedlab_sys::process::comm_of(name.as_bytes()))
            && std::fs::read_link(format!("/proc/{pid}/exe")).ok()
                == std::fs::read_link("/proc/self/exe").ok()
    };
    schedlab_sys::process::tasks().into_iter().filter(named).collect()
}

/// Sends SIGKILL to the first task of that name once there are `count`.
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
fn kill_one(name: &'static str, count: usize) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        loop {
            let tasks = tasks_named(name);
            if tasks.len() >= count {
                schedlab_sys::process::kill(tasks[tasks.len() / 2], 9).unwrap();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    })
}

pub(crate) fn a_killed_task_is_told() {
    for form in ["", "pipe"] {
        let killer = kill_one("hackbench", 8);
        let (_, outcome) =
            perform(&spec("hackbench", &format!("groups=2 fds=2 duration=300s {form}")));
        killer.join().unwrap();
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("was killed by signal 9"), "{error}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
pub(crate) fn a_killed_child_leaves_nothing() {
    // The child itself has this program's name, or whatever the test harness made of it.
    let own = schedlab_sys::process::comm(schedlab_model::Pid(std::process::id().cast_signed()));
    let name =
        String::from_utf8(own.unwrap().iter().copied().filter(|&b| b > 0).collect()).unwrap();
    let killer = std::thread::spawn(move || {
        while tasks_named("hackbench").len() < 8 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let this = std::process::id().cast_signed();
        let ours = |pid: &schedlab_model::Pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| line.contains(schedlab_host::load::ARGUMENT))
                && pid.0 != this
        };
        let child = tasks_named(&name).into_iter().find(ours).expect("the load child");
        schedlab_sys::process::kill(child, 9).unwrap();
    });
    let (_, outcome) = perform(&spec("hackbench", "groups=2 fds=2 duration=300s"));
    killer.join().unwrap();
    assert!(outcome.unwrap_err().to_string().contains("too early"));
    let end = Instant::now() + LIMIT;
    while !tasks_named("hackbench").is_empty() {
        assert!(
            Instant::now() < end,
            "tasks outlive their load child: {:?}",
            tasks_named("hackbench")
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn wrong_options_are_told() {
    for (name, options, part) in [
        ("hackbench", "groups=0", "use 1 to"),
        ("hackbench", "groups=-5", "use a whole number"),
        ("hackbench", "groups=abc", "use a whole number"),
        ("hackbench", "pipe inet", "exclude each other"),
        ("hackbench", "groups=100000 fds=10000", "tasks"),
        ("hackbench", "groups=50000 fds=40 loops=1", "more"),
        ("schbench", "message-threads=0", "use 1 to"),
        ("schbench", "worker-cpus=,", "list of CPUs is empty"),
        ("schbench", "cpus=9999", "not available"),
        ("schbench", "rps=1 message-threads=2", "cannot divide"),
        ("schbench", "policy=fast", "unknown policy"),
        ("schbench", "split=101", "use 0 to 100"),
        ("schbench", "arrivals=paced", "needs a rate"),
        ("frobnicate", "", "unknown workload"),
    ] {
        let (_, outcome) = perform(&spec(name, options));
        let error = outcome.expect_err(options).to_string();
        assert!(error.contains(part), "{name} {options}: {error}");
    }
}

pub(crate) fn a_command_passes_its_code() {
    let mut wanted = spec("hackbench", "");
    let argv = ["sh", "-c", "echo out; echo err >&2; exit 7"].map(str::to_owned).to_vec();
    wanted.workload = WorkloadSpec::Command { argv };
    let (mut judge, outcome) = perform(&wanted);
    assert_eq!(outcome.unwrap().exit_code, 7);
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(judge.path(Stream::Stdout)), "out\n");
    assert_eq!(read(judge.path(Stream::Stderr)), "err\n");
}
