//! One plan in several processes and on several machines, through ssh and Slurm for real.

pub(crate) mod cluster;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// 96 simulated runs, none alike: three portions, each some seconds of a debug build.
pub(crate) const SIMULATED: &str = "repeats = 12\nmachine = \"sim:cpus=2,kernel=eevdf-6.12\"\nmeasure = [\"wakeup_latency_ns_p99\"]\n\
    [workload]\nname = \"schbench\"\noptions = { runtime = \"4s\", threads = 2 }\n\
    [[axis]]\nknob = \"base_slice\"\nvalues = [\"1ms\", \"2ms\", \"3ms\", \"4ms\", \"5ms\", \"6ms\", \"7ms\", \"8ms\"]\n";

pub(crate) fn schedlab(folder: &Path, arguments: &[&str]) -> Command {
    crate::machine_lock::share_for(arguments.iter().copied());
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Output {
    schedlab(folder, arguments).output().expect("the built command starts")
}

/// As [`run`], where failure is a failure of the test.
pub(crate) fn must(folder: &Path, arguments: &[&str]) -> String {
    let done = run(folder, arguments);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{arguments:?}: {said}");
    said + &String::from_utf8_lossy(&done.stdout)
}

/// Waits until something is there; the limit is for a machine that stands still.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(300), "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The folders of finished runs of all workers of a frozen plan.
pub(crate) fn finished(frozen: &Path) -> Vec<PathBuf> {
    let inside = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
    let workers = inside(frozen.join("workers")).map(|entry| entry.path().join("runs"));
    let runs = workers.flat_map(inside).map(|entry| entry.path());
    let is_run = |path: &PathBuf| {
        path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
    };
    runs.filter(is_run).collect()
}

/// What a report stands on: all figures of all runs.
pub(crate) fn figures(results: &Path) -> String {
    std::fs::read_to_string(results.join("figures.csv")).expect("there is a report")
}

/// A report without when and how long: that differs from call to call. Its figures are in the other file.
pub(crate) fn report(results: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(results.join("report.html")).expect("there is a report");
    let text = text.replace('>', ">\n");
    let is_time = |line: &&str| line.contains("20") || line.ends_with("s</td>");
    text.lines().filter(|line| !is_time(line)).map(str::to_owned).collect()
}

/// Processes that end with the test, whatever it finds.
#[derive(Default)]
pub(crate) struct Processes(pub(crate) BTreeMap<&'static str, Child>);

impl Processes {
    pub(crate) fn start(&mut self, name: &'static str, command: &mut Command) {
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.0.insert(name, child.unwrap_or_else(|error| panic!("{name}: {error}")));
    }

    pub(crate) fn end(&mut self, name: &str) {
        if let Some(mut child) = self.0.remove(name) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        let names: Vec<&str> = self.0.keys().copied().collect();
        names.into_iter().for_each(|name| self.end(name));
    }
}

/// Whether a program is on the path; what is not is named on stderr with what the test did not check.
pub(crate) fn has(program: &str, unchecked: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        missing!("{program}: {unchecked}");
    }
    found
}
