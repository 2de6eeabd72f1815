//! `docs/schemas.md` lists the schemas of this program, and what each command prints is valid by them.

use crate::validation;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn schedlab(dir: &Path, line: &str) -> Output {
    let words = line.split_whitespace();
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
    command.current_dir(dir).args(words).output().expect("the built command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// `schedlab/trace-latency/1` and so on.
fn ids() -> Vec<String> {
    let listed = text(&schedlab(Path::new("."), "schema").stdout);
    listed.lines().map(str::to_owned).collect()
}

fn name(id: &str) -> &str {
    id.split('/').nth(1).expect("an id has three parts")
}

#[test]
fn the_index_lists_the_schemas_of_this_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas.md");
    let page = std::fs::read_to_string(path).expect("docs/schemas.md is there");
    let listed: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("- `")).collect();
    let listed: Vec<&str> = listed.into_iter().filter_map(|line| line.split('`').next()).collect();
    assert_eq!(listed, ids(), "docs/schemas.md and `schedlab schema` differ");
}

/// Needs no rights. Each line is here for a schema, or for another form of its objects.
const EVERYWHERE: &[&str] = &[
    "trace info a.dat --json",
    "trace stacks a.dat --json",
    "trace stacks a.dat --minus b.dat --json",
    "trace stacks a.dat --running --json",
    "trace latency a.dat --by comm --histogram --worst 3 --json",
    "trace latency a.dat --by cpu --json",
    "trace tasks a.dat --json",
    "trace cpus a.dat --json",
    "trace waiting a.dat --json",
    "trace conservation a.dat --json",
    "why a.dat --json",
    "why a.dat --blame --json",
    "trace why a.dat --pid 1003 --json",
    "load app --on sim:cpus=2 --duration 50ms --trace marks.dat",
    "trace why marks.dat --mark request --json",
    "load mixed --tasks 2 --work 1ms --sleep 2ms --duration 700ms --on sim:cpus=2 --trace mixed.dat",
    "replay mixed.dat --json",
    "trace locality a.dat --json",
    "trace locality a.dat --topology host --json",
    "trace migrations a.dat --topology host --json",
    "trace compare a.dat b.dat --json",
    "trace events a.dat --limit 3 --json",
    "trace power a.dat --json",
    "load spinlock --on sim:cpus=2 --tasks 4 --duration 50ms --trace locks.dat",
    "trace locks locks.dat --json",
    "why locks.dat --json",
    "draw cores a.dat -o a.svg --json",
    "draw boxes table.csv --value y --by x -o boxes.svg --json",
    "view a.dat -o a.html --json",
    "view a.dat a.dat -o a.html --json",
    "load pingpong --duration 50ms --json",
    "load cpu --duration 50ms --beside cpu --interval 10ms --json",
    "load hackbench -g 1 -l 20 --repeat 3 --beside cpu --against groups=2 --json",
    "load schbench --on sim:cpus=2 -m 1 -t 1 -r 1 --calibrate-to 1ms --json",
    "load schbench --on sim:cpus=2 -m 1 -r 1 --causes threads=1 --json",
    "doctor --json",
    "knobs list --json",
    "vm kernels --json",
    "slow status --json",
    "jobs generate --nodes 20 -o graph.json --json",
    "jobs run --nodes 20 --time 20us --arrivals poisson:100us --workers 1 --jitter 1ms --json",
    "jobs run --nodes 20 --time 20us --workers 1 --soak 20ms --json",
    "jobs peak --executor virtual --points 4 --repeat 2 --jobs 10..40 --time 100us --workers 2 --json",
    "jobs break --executor virtual --nodes 20 --time 100us --runs 2 --repeat 2 --workers 2 --json",
    "jobs grain --executor serial --repeat 1 --efficiency 0.5 --workers 1 --json",
    "jobs compare --nodes 20 --time 20us --workers 1 --repeat 2 --json",
    "jobs storm --posters 1 --workers 1 --time 20ms --executor schedlab --json",
    "jobs fit table.csv --json",
    "run x.toml",
    "run overload.toml",
    "cluster plan x.toml --freeze frozen",
    "tune t.toml --json",
    "tune l.toml --profile p.conf --pairs 6 --json",
    "tune t.toml --ask 1",
    "tune t.toml --measure points.jsonl",
    "tune t.toml --tell points.jsonl",
    "compare results/x results/x --json",
];

/// Needs rights; says so where they are missing.
const WITH_RIGHTS: &[(&str, &[&str])] = &[
    ("record -o r.dat --json -- true", &["record"]),
    ("trace tasks r.dat --by cgroup --json", &["trace-groups"]),
    ("trace check r.dat --json", &["trace-check"]),
    ("watch --interval 300ms --time 900ms --json", &["watch"]),
    ("jobs posts --time 100ms --json", &["jobs-posts"]),
    ("slow --no-measure --method quota --cpu 0=50% --json -- true", &["slow", "slow-warning"]),
    (
        "slow evaluate --methods quota --benchmarks cpu --speeds 50% --cpus 1 --repeats 2 --time 20ms --json",
        &["slow-evaluate"],
    ),
];

fn make_inputs(dir: &Path) {
    use schedlab_trace::dat::Header;
    use schedlab_trace::synthetic::{Plan, Synthetic};
    for (name, seed) in [("a.dat", 1), ("b.dat", 2)] {
        let plan = Plan { cpus: 4, events: 5_000, seed, ..Plan::default() };
        let made = Synthetic::new(plan).write(&dir.join(name), Header::default());
        made.expect("a temporary file can be written");
    }
    let put = |name: &str, text: &str| std::fs::write(dir.join(name), text).expect("it is written");
    put("table.csv", "x,y,z\n1,2.1,5\n2,3.9,6\n3,6.2,7\n4,7.8,5\n");
    let experiment = "name = \"x\"\nrepeats = 2\nmachine = \"sim:cpus=2\"\n[workload]\nname = \"pingpong\"\n\
         options = { duration = \"50ms\" }\n[[claim]]\nsays = \"it is fast\"\nwhy = \"a pipe is\"\n\
         metric = \"round_trips_per_s\"\nat_least = 1\n";
    put("x.toml", experiment);
    // More requests than are done: a run with a warning.
    let overload = "name = \"overload\"\nrepeats = 1\nmachine = \"sim:cpus=2\"\n[workload]\nname = \"schbench\"\n\
         options = { message-threads = \"1\", threads = \"1\", runtime = \"1\", rps = \"100000\" }\n";
    put("overload.toml", overload);
    let search = "machine = \"sim:cpus=2,kernel=eevdf-6.12\"\n[workload]\nname = \"pingpong\"\n\
         options = { duration = \"50ms\" }\n[[axis]]\nknob = \"base_slice\"\n\
         values = [\"1ms\", \"3ms\"]\n[tune]\nbudget = 4\nstart = 2\nconfirm = 6\n";
    put("t.toml", search);
    put("l.toml", search.split("[[axis]]").next().expect("it has an axis"));
    put("p.conf", "# schedlab: base_slice = 1ms (a setting of ours)\n");
    put("points.jsonl", "{\"point\": {\"base_slice\": \"3ms\"}}\n");
}

/// The JSON objects among what a command said.
fn objects(bytes: &[u8]) -> Vec<String> {
    let text = text(bytes);
    text.lines().filter(|line| line.starts_with("{\"schema\":")).map(str::to_owned).collect()
}

/// Lines that do not name their schema, each with the name of it.
fn named(name: &str, text: &str) -> Vec<String> {
    let line = |line: &str| format!("{{\"of\":\"{name}\",\"line\":{line}}}");
    text.lines().filter(|line| !line.is_empty()).map(line).collect()
}

/// What `run` and `cluster plan` wrote.
fn stored(dir: &Path) -> Vec<String> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let compact = |text: String| {
        let value: serde_json::Value = serde_json::from_str(&text).expect("a file of JSON");
        value.to_string()
    };
    let runs = ["results/x/runs", "results/overload/runs"].map(|runs| dir.join(runs));
    let runs = runs.map(|runs| std::fs::read_dir(runs).expect("runs were written").flatten());
    let mut all = Vec::new();
    for run in runs.into_iter().flatten().map(|run| run.path()) {
        all.extend(named("run", &compact(read(run.join("manifest.json")))));
        for name in ["figures", "intervals", "warnings"] {
            all.extend(named(&format!("run-{name}"), &read(run.join(format!("{name}.jsonl")))));
        }
    }
    all.extend(named("frozen", &compact(read(dir.join("frozen/frozen.json")))));
    all.extend(named("frozen-runs", &read(dir.join("frozen/runs.jsonl"))));
    all
}

/// What the rig and an executor say to each other: without times, with start times, and where all is too late.
fn spoken(dir: &Path) -> Vec<String> {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/executors/futures.py");
    let script =
        format!("tee -a asked.jsonl | python3 {} | tee -a answered.jsonl\n", example.display());
    std::fs::write(dir.join("speaks.sh"), script).expect("it is written");
    let mut all = Vec::new();
    for times in ["", "--arrivals poisson:100us", "--life 1us"] {
        let output = Command::new(env!("CARGO_BIN_EXE_schedlab"))
            .current_dir(dir)
            .args("jobs run --nodes 9 --time 20us --workers 2 --jitter 0ms".split(' '))
            .args(times.split_whitespace())
            .args(["--executor", "cmd:sh speaks.sh"])
            .output()
            .expect("the built command starts");
        if !output.status.success() && Command::new("python3").arg("-V").output().is_err() {
            missing!("python3: no lines of executors are checked");
            return all;
        }
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    for file in ["asked.jsonl", "answered.jsonl"] {
        let lines = std::fs::read_to_string(dir.join(file)).expect("it was written");
        assert!(lines.lines().count() > 18, "{lines}");
        all.extend(named("jobs-lines", &lines));
    }
    all.extend(named("jobs-lines", "{\"not_offered\":\"start times\"}"));
    all
}

#[test]
fn what_commands_print_is_valid_by_its_schema() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let dir = dir.path();
    make_inputs(dir);
    let mut said = Vec::new();
    for line in EVERYWHERE {
        let output = schedlab(dir, line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let found = objects(&output.stdout);
        // The dialogue of a search is JSON always.
        let is_json = line.ends_with("--json") || line.starts_with("tune ");
        assert_eq!(found.len(), usize::from(is_json), "{line}: {}", text(&output.stdout));
        said.extend(found);
    }
    for file in ["graph.json", "results/x/figures.json", "results/x/claims.json"] {
        said.extend(objects(&std::fs::read(dir.join(file)).expect("it was written")));
    }
    said.extend(stored(dir));
    let lines = spoken(dir);
    // A comparison of kernels is checked where a made QEMU runs them: tests/vm_build.rs.
    let mut excused: BTreeSet<&str> = ["slow-warning"].into();
    if lines.is_empty() {
        excused.insert("jobs-lines");
    }
    said.extend(lines);
    for (line, names) in WITH_RIGHTS {
        let output = schedlab(dir, line);
        let found = [objects(&output.stdout), objects(&output.stderr)].concat();
        if found.is_empty() {
            let why = text(&output.stderr);
            missing!("rights: {line} is not checked: {why}");
            excused.extend(*names);
        }
        said.extend(found);
    }
    let all = said.join("\n");
    for id in ids() {
        let names = [format!("{{\"schema\":\"{id}\""), format!("{{\"of\":\"{}\"", name(&id))];
        let met = names.iter().any(|name| all.contains(name));
        assert!(met || excused.contains(name(&id)), "no output of {id} is checked");
    }
    let file = dir.join("said.jsonl");
    std::fs::write(&file, all).expect("it is written");
    validation::validate(&file);
}
