//! Waits with known causes, made for the purpose: what schedlab says of them, beside the kernel's counters and beside the
//! same run without the culprit. On this machine, and in guests with both versions of control groups.

use crate::guest::{BEGIN, END, Guest, ONE, TWO};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const PRELUDE: &str = include_str!("../planted/prelude.sh");
const PLANTS: &str = include_str!("../planted/plants.sh");

/// What is known of a wait beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blame {
    /// Without the hog the victim gains what the hog is blamed for.
    Gain,
    /// Without the hog nothing changes.
    Nothing,
    /// The hog changes more than its own time, or there is none.
    Open,
}

/// A function of `plants.sh`, the cause of most of the wait, and what the hog is to be blamed for.
struct Plant(&'static str, &'static [&'static str], Blame);

/// Causes are as in `why`. A victim that may only use CPU 0 is pinned while CPU 1 is free.
const ALL: [Plant; 22] = [
    Plant("quota_alone", &["throttled"], Blame::Open),
    Plant("quota_beside", &["throttled"], Blame::Nothing),
    Plant("quota_above", &["throttled"], Blame::Open),
    Plant("quota_nested", &["throttled"], Blame::Open),
    Plant("quota_two_tasks", &["throttled", "own_group"], Blame::Open),
    Plant("quota_two_cpus", &["throttled"], Blame::Open),
    Plant("quota_short", &["throttled"], Blame::Open),
    Plant("quota_unused", &["other_group", "pinned"], Blame::Open),
    Plant("hog_own", &["own_group", "pinned"], Blame::Gain),
    Plant("hog_other", &["other_group", "pinned"], Blame::Gain),
    Plant("hog_heavy", &["other_group", "pinned"], Blame::Gain),
    Plant("hog_nested", &["other_group", "pinned"], Blame::Open),
    Plant("hogs_three", &["own_group", "pinned"], Blame::Gain),
    Plant("hog_elsewhere", &[], Blame::Nothing),
    Plant("nice_task", &["own_group", "pinned"], Blame::Gain),
    Plant("idle_class", &["own_group", "pinned"], Blame::Gain),
    Plant("real_time", &["real_time_task", "pinned"], Blame::Gain),
    Plant("real_time_quota", &["real_time_task", "throttled"], Blame::Open),
    Plant("real_time_limit", &["throttled"], Blame::Open),
    Plant("storm", &["own_group", "pinned"], Blame::Open),
    Plant("moved", &["other_group", "pinned"], Blame::Gain),
    Plant("offline", &["own_group", "pinned"], Blame::Open),
];

/// Those that take no long time, of each kind.
const FEW: [&str; 4] = ["quota_beside", "hog_own", "quota_above", "idle_class"];

/// A function `fault_*` of `plants.sh`, and what the first screen about all tasks must say.
const FAULTS: [(&str, &[&str]); 10] = [
    ("unit", &["gzip", "the CPU quota of backup.service ("]),
    ("container", &["the CPU quota of container 0123456789ab ("]),
    ("pinned", &["another CPU was free where it may not run"]),
    ("real_time", &["dd", "real-time"]),
    ("nice", &["sha1sum", "behind gzip"]),
    ("weight", &["/plants/low", "competition: other groups", "weight"]),
    ("storm", &["sha256sum", "competition: own group"]),
    ("offline", &["competition: own group"]),
    ("starved", &["gzip", "real-time"]),
    ("idle", &["wc", "behind"]),
];

/// Where plants run.
#[derive(Debug)]
struct Place {
    name: String,
    /// Whether the kernel logs all switches, so that times can be compared.
    is_complete: bool,
}

/// The shell's program for these plants.
fn script(plants: &[&Plant], faults: &[&str], seconds: u32) -> String {
    let mut text = format!("{PRELUDE}\n{PLANTS}\n");
    for fault in faults {
        let _ = writeln!(text, "fault {fault}");
    }
    for Plant(name, _, blame) in plants {
        let culprits = if *blame == Blame::Open { "''" } else { "yes" };
        let _ = writeln!(text, "plant {name} {seconds} {name} {culprits}");
    }
    text
}

/// What the program says of the recordings, by plant and part, in the order of its questions.
type Told = BTreeMap<(String, String), Vec<Value>>;

/// What is asked of each recording.
const QUESTIONS: [&[&str]; 4] = [
    &["why", "--comm", "victim", "--json"],
    &["why", "--comm", "victim", "--blame", "comm", "--json"],
    &["trace", "check", "--comm", "victim", "--json"],
    &["trace", "tasks", "--comm", "victim", "--json"],
];

/// Unpacks the recordings that a script printed, and asks about them. Of a fault only the first screen is asked for.
fn told(text: &str, dir: &Path) -> Told {
    let mut all = Told::new();
    for block in text.split("@@ ").skip(1) {
        let (head, rest) = block.split_once('\n').expect("a line");
        let (name, part) = head.trim().split_once(' ').expect("a plant and a part");
        let packed = rest.split_once("@end").expect("the end of a recording").0;
        fs::write(dir.join("packed"), packed).unwrap();
        let unpack = "base64 -d < packed | gunzip > told.dat";
        let done = Command::new("sh").args(["-c", unpack]).current_dir(dir).status();
        assert!(done.is_ok_and(|status| status.success()), "{name} {part}");
        if let Some(folder) = std::env::var_os("SCHEDLAB_PLANTS_KEEP") {
            let file = format!("{name}-{part}-{}.dat", std::process::id());
            fs::copy(dir.join("told.dat"), Path::new(&folder).join(file)).expect("it is kept");
        }
        let ask = |words: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_schedlab"));
            let output = command.args(words).arg("told.dat").current_dir(dir).output();
            String::from_utf8_lossy(&output.expect("the built command starts").stdout).into_owned()
        };
        let answers = match part {
            "fault" => vec![Value::String(ask(&["why"]))],
            _ => QUESTIONS.map(|one| serde_json::from_str(&ask(one)).unwrap_or_default()).into(),
        };
        all.insert((name.to_owned(), part.to_owned()), answers);
    }
    all
}

/// A line of the table of results.
#[derive(Default)]
struct Line {
    cells: Vec<(&'static str, String)>,
    wrong: Vec<String>,
}

impl Line {
    fn tell(&mut self, name: &'static str, value: &dyn std::fmt::Display) {
        self.cells.push((name, value.to_string()));
    }
}

fn ns(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

/// How far two times are apart, as a part of the larger.
fn apart(a: f64, b: f64) -> f64 {
    (a - b).abs() / a.max(b).max(1.0)
}

/// The longest period of the plants' quotas.
const PERIOD_NS: f64 = 1e8;
/// Differences below this are one reading, or one switch.
const SLACK_NS: f64 = 3e6;

fn judge(plant: &Plant, told: &Told, place: &Place) -> Line {
    let Plant(name, causes, blame) = plant;
    let mut line = Line::default();
    line.tell("plant", name);
    line.tell("place", &place.name);
    let part = |part: &str| told.get(&((*name).to_owned(), part.to_owned()));
    let Some([why, blamed, check, tasks]) = part("with").map(Vec::as_slice) else {
        line.wrong.push("not told".to_owned());
        return line;
    };
    let ms = |ns: f64| format!("{:.1}", ns / 1e6);
    // Where switches are left out, times carry ±.
    let (exact, about, nothing) =
        if place.is_complete { (0.02, 0.1, 20e6) } else { (0.1, 0.25, 100e6) };
    let by_cause = why["by_cause"].as_array().map_or(&[][..], Vec::as_slice);
    let unknown = by_cause.iter().filter(|one| one["cause"] == "unknown");
    let unknown: f64 = unknown.map(|one| ns(&one["time_ns"])).sum();
    line.tell("unknown_ms", &ms(unknown));
    // The model's sums beside those of the kernel.
    for group in why["groups"].as_array().into_iter().flatten() {
        let (model, kernel) = (ns(&group["counted_ns"]), ns(&group["kernel_throttled_ns"]));
        line.tell("model_ms", &ms(model));
        line.tell("cpu_stat_ms", &ms(kernel));
        // The kernel adds all of what ended: also what began before the first event, or before the first end of a
        // period, from which on the model knows the budget. On each CPU. What began in debt stays unknown until a refill
        // covers it.
        let cpus = if ON_TWO.contains(name) { 2.0 } else { 1.0 };
        let is_before = kernel > model && kernel - model < 2.0 * PERIOD_NS * cpus + unknown;
        if apart(model, kernel) > exact && (model - kernel).abs() > SLACK_NS && !is_before {
            line.wrong.push(format!("throttled {} ms, cpu.stat {}", ms(model), ms(kernel)));
        }
    }
    let waited = ns(&why["waited_ns"]);
    line.tell("waited_ms", &ms(waited));
    let sum: f64 = by_cause.iter().map(|one| ns(&one["time_ns"])).sum();
    let rows = tasks["tasks"].as_array().map_or(&[][..], Vec::as_slice);
    let delay: f64 = rows.iter().map(|row| ns(&row["wait_ns"])).sum();
    if (sum - waited).abs() > 1.0 || apart(delay, waited) > 0.001 {
        line.wrong.push(format!("causes {} ms, run delay {} ms", ms(sum), ms(delay)));
    }
    let most = by_cause.first().and_then(|one| one["cause"].as_str()).unwrap_or("none");
    line.tell("mostly", &most);
    if !causes.is_empty() && !causes.contains(&most) {
        line.wrong.push(format!("mostly {most}"));
    }
    for row in check["tasks"].as_array().into_iter().flatten() {
        line.tell("missing_switches", &row["missing_switches"]);
        if row["wait_ns"].is_u64() {
            let (ours, kernel) = (ns(&row["wait_ns"]), ns(&row["kernel_wait_ns"]));
            line.tell("schedstat_ms", &ms(kernel));
            let is_off = apart(ours, kernel) > exact && (ours - kernel).abs() > SLACK_NS;
            if is_off && (place.is_complete || row["is_off"] != true) {
                line.wrong.push(format!("waited {} ms, schedstat {}", ms(ours), ms(kernel)));
            }
        }
    }
    let seconds = (ns(&why["end_ns"]) - ns(&why["start_ns"])) / 1e9;
    let by_hog = blamed["blame"].as_array().into_iter().flatten();
    let by_hog: f64 = by_hog.filter(|row| row["by"] == "hog").map(|row| ns(&row["time_ns"])).sum();
    let by_hog = by_hog / seconds.max(1e-9);
    line.tell("blame_ms_per_s", &ms(by_hog));
    if let Some([bare, _, _, alone]) = part("without").map(Vec::as_slice) {
        let ran = |tasks: &Value, why: &Value| {
            let rows = tasks["tasks"].as_array().into_iter().flatten();
            let ran: f64 = rows.map(|row| ns(&row["run_ns"])).sum();
            ran / ((ns(&why["end_ns"]) - ns(&why["start_ns"])) / 1e9).max(1e-9)
        };
        let gain = ran(alone, bare) - ran(tasks, why);
        line.tell("gain_ms_per_s", &ms(gain));
        let is_wrong = match blame {
            Blame::Gain => apart(by_hog, gain) > about,
            Blame::Nothing => by_hog > nothing,
            Blame::Open => false,
        };
        if is_wrong {
            line.wrong.push(format!("blame {} ms/s, gain {} ms/s", ms(by_hog), ms(gain)));
        }
    }
    line
}

/// All lines as a table of CSV, and those that are wrong.
fn report(plants: &[&Plant], told: &Told, place: &Place) -> Vec<String> {
    let lines: Vec<Line> = plants.iter().map(|plant| judge(plant, told, place)).collect();
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<String> =
            line.cells.iter().map(|(name, it)| format!("{name}={it}")).collect();
        let verdict =
            if line.wrong.is_empty() { "right".to_owned() } else { line.wrong.join("; ") };
        let _ = writeln!(text, "{},{verdict}", cells.join(","));
    }
    if let Some(path) = std::env::var_os("SCHEDLAB_PLANTS_TABLE") {
        use std::io::Write as _;
        let file = fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("the table is written");
    }
    let wrong = lines.iter().zip(text.lines()).filter(|(line, _)| !line.wrong.is_empty());
    wrong.map(|(_, text)| text.to_owned()).collect()
}

/// The plants that were asked for (`SCHEDLAB_PLANTS`: `all`, or names), or a few.
fn asked(here: impl Fn(&str) -> bool) -> Vec<&'static Plant> {
    let names = std::env::var("SCHEDLAB_PLANTS").unwrap_or_else(|_| FEW.join(","));
    let is_asked = |name: &str| names == "all" || names.split(',').any(|one| one == name);
    ALL.iter().filter(|Plant(name, ..)| is_asked(name) && here(name)).collect()
}

/// How long a plant is recorded.
const SECONDS: u32 = 2;
/// The same for a few plants in guests. Their clock counts instructions, so one second says as much as two, and each
/// takes many of ours.
const SECONDS_OF_FEW: u32 = 1;

#[test]
fn blame_and_throttled_times_are_true_on_this_machine() {
    if !crate::why_live::is_root() {
        missing!("root; not checked: waits that are planted on this machine");
        return;
    }
    crate::machine_lock::take();
    let name = format!("schedlab-plants-{}", std::process::id());
    let roots = [("/sys/fs/cgroup/cpu", 1), ("/sys/fs/cgroup", 2)];
    let made = roots.into_iter().find_map(|(root, version)| {
        let top = Path::new(root).join(&name);
        let weight = ["cpu.shares", "cpu.weight"][version - 1];
        fs::create_dir(&top).ok()?;
        let most = ["262144", "10000"][version - 1];
        if version == 2 || fs::write(top.join(weight), most).is_ok() {
            return Some((top, version));
        }
        let _ = fs::remove_dir(&top);
        None
    });
    let Some((top, version)) = made else {
        missing!("control groups with the CPU controller; not checked: waits that are planted");
        return;
    };
    // A CPU of this machine stays in use.
    let mut plants = asked(|name| name != "offline");
    // Some kernels leave out switches: there rows carry ±, and nothing else is promised.
    let place = Place { name: format!("host v{version}"), is_complete: false };
    let mut wrong = Vec::new();
    // Beside another load a gain may be that load's: so a plant has three recordings.
    for _ in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("plants.sh");
        fs::write(&file, script(&plants, &[], SECONDS)).unwrap();
        let output = Command::new("sh")
            .arg(&file)
            .env("TOP", &top)
            .env("V", version.to_string())
            .env("DIR", dir.path())
            .env("SCHEDLAB", env!("CARGO_BIN_EXE_schedlab"))
            .stdin(Stdio::null())
            .output()
            .expect("sh starts");
        let text = String::from_utf8_lossy(&output.stdout);
        wrong = report(&plants, &told(&text, dir.path()), &place);
        plants.retain(|Plant(name, ..)| {
            wrong.iter().any(|line| line.starts_with(&format!("plant={name},")))
        });
        if wrong.is_empty() {
            break;
        }
    }
    let _ = fs::remove_dir(&top);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What a guest's init does before plants run, by the version of its control groups.
fn init(version: u32, plants: &[&Plant], faults: &[&str], seconds: u32) -> String {
    let groups = match version {
        1 => {
            "mount -t tmpfs none /sys/fs/cgroup; mkdir /sys/fs/cgroup/cpu; \
              mount -t cgroup -o cpu,cpuacct none /sys/fs/cgroup/cpu; TOP=/sys/fs/cgroup/cpu/plants"
        }
        _ => {
            "mount -t cgroup2 none /sys/fs/cgroup; TOP=/sys/fs/cgroup/plants; \
              echo +cpu > /sys/fs/cgroup/cgroup.subtree_control"
        }
    };
    let script = script(plants, faults, seconds);
    format!(
        "{BEGIN}{groups}\nmkdir $TOP; V={version} DIR=/tmp SCHEDLAB=/bin/schedlab\n{script}{END}"
    )
}

/// Plants and faults that need a second CPU.
const ON_TWO: [&str; 8] = [
    "quota_two_cpus",
    "hog_elsewhere",
    "moved",
    "offline",
    "pinned",
    "container",
    "weight",
    "starved",
];

#[test]
fn blame_and_throttled_times_are_true_in_guests_with_both_versions_of_control_groups() {
    let mut wrong = Vec::new();
    let guests = [("debian-6.1", 1), ("debian-6.1", 2), ("debian-6.12", 1), ("debian-6.12", 2)];
    let is_few = std::env::var_os("SCHEDLAB_PLANTS").is_none();
    let seconds = if is_few { SECONDS_OF_FEW } else { SECONDS };
    for (name, version) in guests.into_iter().take(if is_few { 2 } else { 4 }) {
        for (cpus, is_two) in [(&ONE[..], false), (&TWO[..], true)] {
            let fits = |name: &str| ON_TWO.contains(&name) == is_two;
            let plants = asked(fits);
            let is_all = std::env::var("SCHEDLAB_PLANTS").is_ok_and(|names| names == "all");
            let faults = FAULTS.iter().filter(|(name, _)| is_all && fits(name));
            let faults: Vec<&(&str, &[&str])> = faults.collect();
            if plants.is_empty() && faults.is_empty() {
                continue;
            }
            let names: Vec<&str> = faults.iter().map(|(name, _)| *name).collect();
            let Some(guest) = Guest::of(name, "waits that are planted there") else { continue };
            let script = init(version, &plants, &names, seconds);
            let Some(text) = guest.boot(&script, cpus) else { return };
            let place = Place { name: format!("{name} v{version}"), is_complete: true };
            let told = told(&text, guest.dir());
            wrong.extend(report(&plants, &told, &place));
            wrong.extend(faults.iter().filter_map(|fault| unnamed(fault, &told, &place)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the first screen of a fault lacks.
fn unnamed((name, says): &(&str, &[&str]), told: &Told, place: &Place) -> Option<String> {
    let first = told.get(&((*name).to_owned(), "fault".to_owned()));
    let first = first.and_then(|all| all[0].as_str()).unwrap_or_default();
    let first: Vec<&str> = first.lines().take(25).flat_map(str::split_whitespace).collect();
    let first = first.join(" ");
    let lacks = says.iter().find(|word| !first.contains(**word))?;
    Some(format!("{} fault {name}: no '{lacks}' in: {first}", place.name))
}
