//! How true speeds are for programs that nothing was tuned with: a loop in C, CPython, Node and gcc;
//! and, in C, threads that meet at a barrier and phases of computing and sleep. Run alone on a quiet
//! machine:
//!
//! ```text
//! cargo bench -p schedlab --bench audit                        # the table of docs/slow.md: 20 minutes
//! cargo bench -p schedlab --bench audit -- --minutes 10        # at most so long; the next call goes on
//! cargo bench -p schedlab --bench audit -- hogs-2ms node gcc 20%    # a piece: methods, programs, speeds
//! cargo bench -p schedlab --bench audit -- --table             # the table of what is stored, pieces included
//! cargo bench -p schedlab --bench audit -- --short             # two pairs of each point, for a look
//! cargo bench -p schedlab --bench audit -- --rounds 30         # thirty pairs of each; with --turns, 6 minutes each
//! cargo bench -p schedlab --bench audit -- --work 2            # runs of 2 s at full speed, where a start weighs less
//! cargo bench -p schedlab --bench audit -- --turns             # the same, where a host's speed drifts: an hour
//! cargo bench -p schedlab --bench audit -- --gaps              # what a gap costs until caches are warm: 8 minutes
//! ```
//!
//! Each program does as much work slowed as at full speed, where it takes 0.6 s, and prints how long it took. Runs
//! come in groups: two points with a run at full speed between them, with which each of them makes a pair. A round has
//! each point once; the order changes from round to round, so a point comes before the full run as often as after it.
//! Each group is stored as it ends (`--store FILE`); a run that was cut goes on with what is stored. Rounds come first,
//! so after a cut all points have the same number of pairs.
//!
//! Where the speed of the host drifts, `--turns` tells more: one run of a program is slowed and at full speed by turns of
//! one second or three, and each slowed turn is compared with the one before it and the one after it.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark speaks")]

#[path = "audit/gaps.rs"]
mod gaps;
#[path = "audit/programs.rs"]
mod programs;
#[path = "audit/table.rs"]
mod table;
#[path = "audit/turns.rs"]
mod turns;

use programs::Programs;
use schedlab_host::slow::{Support, last};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use table::Sample;

type Failure = Box<dyn std::error::Error>;

const ROUNDS: usize = 8;
/// Points that share a run at full speed.
const GROUP: usize = 2;
const SPEEDS: [&str; 3] = ["20%", "50%", "80%"];

/// What makes a method, and how far off it may be.
struct Method {
    name: &'static str,
    options: &'static [&'static str],
    /// In points of full speed; `None` where nothing is promised.
    promise: Option<f64>,
}

/// The options of `schedlab slow` that make a method.
fn options(name: &str) -> &'static [&'static str] {
    METHODS
        .iter()
        .find(|method| method.name == name)
        .map(|method| method.options)
        .unwrap_or_default()
}

const fn method(name: &'static str, options: &'static [&'static str], promise: f64) -> Method {
    Method { name, options, promise: Some(promise) }
}

/// Methods that end in a time have a period of that length, and others one that follows the work.
const METHODS: [Method; 11] = [
    method("hogs", &["--method", "hogs"], 1.0),
    method("hogs-2ms", &["--method", "hogs", "--period", "2ms"], 1.0),
    method("hogs-20ms", &["--method", "hogs", "--period", "20ms"], 1.0),
    method("hogs-60ms", &["--method", "hogs", "--period", "60ms"], 1.0),
    method("quota-filled", &["--method", "quota", "--filler", "on"], 1.0),
    method("quota-10ms", &["--method", "quota", "--filler", "on", "--quota-period", "10ms"], 1.0),
    method("quota-50ms", &["--method", "quota", "--filler", "on", "--quota-period", "50ms"], 1.0),
    method("weight", &["--method", "weight-pinned"], 1.0),
    method("stop", &["--method", "stop"], 3.0),
    method("stop-group", &["--method", "stop-group"], 3.0),
    Method { name: "quota", options: &["--method", "quota", "--filler", "off"], promise: None },
];

/// A program under a method at a speed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Point {
    program: &'static str,
    method: &'static str,
    speed: String,
}

/// The part of full speed that a speed such as `30%` is.
fn part(speed: &str) -> Result<f64, std::num::ParseFloatError> {
    Ok(speed.trim_end_matches('%').parse::<f64>()? / 100.0)
}

/// What was asked for on the command line.
struct Wanted {
    /// What is usual depends on the form.
    rounds: Option<usize>,
    limit: Duration,
    /// The work of a run, in seconds at full speed.
    work_s: f64,
    table: bool,
    gaps: bool,
    turns: bool,
    /// Where samples are kept.
    store: Option<PathBuf>,
    words: Vec<String>,
}

impl Wanted {
    fn read() -> Result<Self, Failure> {
        let mut wanted = Self {
            rounds: None,
            limit: Duration::from_secs(25 * 60),
            work_s: programs::WORK_S,
            table: false,
            gaps: false,
            turns: false,
            store: None,
            words: Vec::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(word) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                // It comes from cargo.
                "--bench" => {}
                "--short" => wanted.rounds = Some(2),
                "--rounds" => wanted.rounds = Some(value()?.parse()?),
                "--table" => wanted.table = true,
                "--gaps" => wanted.gaps = true,
                "--turns" => wanted.turns = true,
                "--work" => wanted.work_s = value()?.parse()?,
                "--store" => wanted.store = Some(value()?.into()),
                "--minutes" => {
                    wanted.limit = Duration::from_secs_f64(value()?.parse::<f64>()? * 60.0);
                }
                _ if word.ends_with('%') || METHODS.iter().any(|method| method.name == word) => {
                    wanted.words.push(word);
                }
                _ if programs::NAMES.contains(&word.as_str()) => wanted.words.push(word),
                _ => {
                    let methods = METHODS.map(|method| method.name);
                    let names = programs::NAMES;
                    return Err(format!(
                        "'{word}' is none of {methods:?} {names:?}, nor a speed, as in 30%, nor one of --short \
                         --rounds N --table --gaps --turns --store FILE --minutes N --work SECONDS"
                    )
                    .into());
                }
            }
        }
        Ok(wanted)
    }

    /// The programs that are wanted.
    fn programs(&self, usual: &[&str]) -> Vec<String> {
        self.named(|word| programs::NAMES.contains(&word), usual)
    }

    /// Those of them that run here.
    fn known(&self, programs: &Programs, usual: &[&str]) -> Vec<&'static str> {
        self.programs(usual).iter().filter_map(|name| programs.known(name)).collect()
    }

    fn store(&self) -> PathBuf {
        let there = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("audit-work.tsv");
        self.store.clone().unwrap_or_else(there)
    }

    /// The name of a group. Pieces have groups of their own, and so has another length of runs.
    fn group(&self, number: usize) -> String {
        format!("{} {} s#{number}", self.words.join(" "), self.work_s)
    }

    /// Those of the words that are of a kind; what is usual where there is none.
    fn named(&self, kind: impl Fn(&str) -> bool, usual: &[&str]) -> Vec<String> {
        let named: Vec<String> = self.words.iter().filter(|word| kind(word)).cloned().collect();
        match named.is_empty() {
            true => usual.iter().map(ToString::to_string).collect(),
            false => named,
        }
    }

    /// The points of a program. Threads that meet and phases are for methods that make a speed and
    /// not a budget. `stop` lets each process run freely at first, and a compiler starts many.
    fn points(&self, program: &'static str) -> Vec<Point> {
        let (methods, speeds): (&[&str], &[&str]) = match program {
            "barrier" | "phases" | "short" => (&["hogs"], &["25%", "50%"]),
            "c" => (&["hogs", "quota-filled", "weight", "stop", "stop-group"], &SPEEDS),
            "python" => {
                (&["hogs", "quota-filled", "weight", "stop", "stop-group", "quota"], &SPEEDS)
            }
            "gcc" => (&["hogs", "quota-filled", "weight", "stop-group"], &SPEEDS),
            _ => (&["hogs", "quota-filled", "weight"], &SPEEDS),
        };
        let mut methods =
            self.named(|word| METHODS.iter().any(|method| method.name == word), methods);
        if matches!(program, "barrier" | "phases" | "short") {
            methods.retain(|name| name.starts_with("hogs"));
        }
        let speeds = self.named(|word| word.ends_with('%'), speeds);
        let known = METHODS.iter().filter(|method| methods.iter().any(|name| name == method.name));
        known
            .flat_map(|method| speeds.iter().map(|speed| (method.name, speed.clone())))
            .map(|(method, speed)| Point { program, method, speed })
            .collect()
    }
}

/// The groups of a round: each has its run at full speed (`None`) in its middle.
fn groups(mut points: Vec<Point>, round: usize) -> Vec<Vec<Option<Point>>> {
    if points.is_empty() {
        return Vec::new();
    }
    // No usual number of points has the divisor 7, so a point takes another place in each round.
    let shift = round * 7 % points.len();
    points.rotate_left(shift);
    let size = points.len().div_ceil(points.len().div_ceil(GROUP));
    let with_full = |group: &[Point]| {
        let mut group: Vec<Option<Point>> = group.iter().cloned().map(Some).collect();
        group.insert(group.len() / 2, None);
        group
    };
    points.chunks(size).map(with_full).collect()
}

/// Runs a group and returns its samples.
fn measure(
    programs: &Programs,
    program: &'static str,
    points: &[Option<Point>],
    (round, group): (usize, &str),
) -> Result<Vec<Sample>, Failure> {
    points
        .iter()
        .map(|point| {
            let stolen = stolen_ns();
            let work = match point {
                None => programs.full(program)?,
                Some(point) => programs.slowed(program, &point.speed, options(point.method))?,
            };
            let (method, speed) = point.as_ref().map_or(("full", "100%"), |p| (p.method, &p.speed));
            Ok(Sample {
                program: program.to_owned(),
                method: method.to_owned(),
                speed: speed.to_owned(),
                round,
                group: group.to_owned(),
                work,
                stolen_ms: (stolen_ns() - stolen) as f64 / 1e6,
            })
        })
        .collect()
}

/// What a hypervisor took from all CPUs so far.
fn stolen_ns() -> u64 {
    schedlab_host::facts::facts().load.steal_ns
}

/// Adds samples to the file, all or none of a group.
fn store(path: &Path, samples: &[Sample]) -> Result<(), Failure> {
    let mut text = String::new();
    for sample in samples {
        writeln!(text, "{}", sample.line())?;
    }
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

fn stored(path: &Path) -> Result<Vec<Sample>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => text.lines().map(|line| Ok(line.parse()?)).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// Measures round after round until all is measured or the time is over.
fn rounds(wanted: &Wanted, programs: &Programs, samples: &mut Vec<Sample>) -> Result<(), Failure> {
    let count = wanted.rounds.unwrap_or(ROUNDS);
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    for round in 0..count {
        if began.elapsed() + longest > wanted.limit {
            println!("The time limit ended it after {round} of {count} rounds.\n");
            break;
        }
        let round_began = Instant::now();
        for program in wanted.known(programs, &programs::USUAL) {
            for (number, points) in groups(wanted.points(program), round).iter().enumerate() {
                let group = wanted.group(number);
                let has = |point: &Option<Point>| {
                    let (method, speed) =
                        point.as_ref().map_or(("full", "100%"), |p| (p.method, p.speed.as_str()));
                    samples.iter().any(|s| s.is(program, method, speed) && s.at(round, &group))
                };
                if points.iter().all(has) {
                    continue;
                }
                let new = measure(programs, program, points, (round, &group))?;
                store(&wanted.store(), &new)?;
                samples.extend(new);
            }
        }
        longest = longest.max(round_began.elapsed());
        eprintln!("round {} of {count}: {:.0} s so far", round + 1, began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let wanted = Wanted::read()?;
    let cpus = last(&Support::here().allowed, 2);
    if wanted.gaps || wanted.turns {
        let usual: &[&str] = if wanted.gaps { &gaps::PROGRAMS } else { &programs::USUAL };
        let programs = Programs::prepare(cpus, &wanted.programs(usual), wanted.work_s)?;
        let can = |program: &&'static str| wanted.turns || gaps::PROGRAMS.contains(program);
        let known = wanted.known(&programs, usual).into_iter().filter(can);
        let points: Vec<Point> = known.flat_map(|program| wanted.points(program)).collect();
        return match wanted.gaps {
            true => gaps::print(&programs, &points, wanted.rounds.unwrap_or(1)),
            false => turns::print(&programs, &points, wanted.rounds.unwrap_or(ROUNDS)),
        };
    }
    let mut samples = stored(&wanted.store())?;
    if !wanted.table {
        let load = std::fs::read_to_string("/proc/loadavg")?;
        println!(
            "CPUs {cpus}, load average {}, stored in {}",
            load.trim(),
            wanted.store().display()
        );
        println!("{} samples were there before\n", samples.len());
        let programs = Programs::prepare(cpus, &wanted.programs(&programs::USUAL), wanted.work_s)?;
        rounds(&wanted, &programs, &mut samples)?;
    }
    print!("{}", table::print(&samples));
    Ok(())
}
