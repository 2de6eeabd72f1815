//! How near a search comes to optima that are known, beside random search and Optuna.
//!
//! CI runs a part. `cargo xtask evidence tune` runs all of it (`SCHEDLAB_EVIDENCE=write`) and writes the
//! section "Evidence" of `docs/tune.md`. Functions have noise of 2 % and axes that do nothing.

use schedlab_stats::{Random, paired};
use schedlab_tune::{Axis, Method, Options, Outcome, Point, Search, Space, influences};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Measurements of a search, repeats included.
const BUDGET: usize = 58;
const SEEDS: u64 = 20;
const NOISE: f64 = 0.02;

/// A function with its space; its values are above zero.
struct Case {
    name: &'static str,
    space: Space,
    value: fn(&[f64]) -> f64,
    /// Axes that do nothing.
    dead: &'static [usize],
}

fn numbers(count: usize) -> Vec<f64> {
    (0..count).map(|i| i as f64).collect()
}

fn axis(name: &str, count: usize) -> Axis {
    Axis::ordered(name, &numbers(count), false)
}

fn cases() -> Vec<Case> {
    let plane = |more: &[Axis]| Space::new([&[axis("a", 24), axis("b", 24)][..], more].concat());
    vec![
        Case { name: "two knobs, recorded plane", space: plane(&[]), value: recorded, dead: &[] },
        Case {
            name: "two knobs, valley and wall",
            space: plane(&[axis("dead", 8)]),
            value: valley_and_wall,
            dead: &[2],
        },
        Case { name: "bowl", space: plane(&[axis("dead", 8)]), value: bowl, dead: &[2] },
        Case {
            name: "Branin",
            space: plane(&[axis("dead", 6), Axis::words("dead word", 2)]),
            value: branin,
            dead: &[2, 3],
        },
        Case {
            name: "words and a condition",
            space: Space::new(vec![
                Axis::words("policy", 3),
                axis("slice", 24).when(0, 1),
                axis("other", 12),
                axis("dead", 8),
            ]),
            value: conditional,
            dead: &[3],
        },
    ]
}

/// Where each level lies, 0 to 1; the number of a word as it is.
fn places(space: &Space, point: &[usize]) -> Vec<f64> {
    let place = |(axis, level): (&Axis, &usize)| match axis.levels {
        schedlab_tune::Levels::Words(_) => *level as f64,
        schedlab_tune::Levels::Ordered(ref places) => places[*level],
    };
    space.axes.iter().zip(point).map(place).collect()
}

impl Case {
    fn at(&self, point: &[usize]) -> f64 {
        (self.value)(&places(&self.space, &self.space.canonical(point.to_vec())))
    }

    /// The least value, by looking at all points.
    fn optimum(&self) -> f64 {
        let mut least = f64::INFINITY;
        for mut number in 0..self.space.size() {
            let mut point = Point::new();
            for axis in &self.space.axes {
                point.push(number % axis.count());
                number /= axis.count();
            }
            least = least.min(self.at(&point));
        }
        least
    }
}

/// hackbench on a recorded plane (Linux 6.1, one CPU): wakeup granularity over minimal granularity,
/// logarithms interpolated between the measured cells. What cells differ by at random is part of it.
fn recorded(x: &[f64]) -> f64 {
    const WAKEUP: [f64; 9] = [0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 15.0, 30.0];
    const MINIMAL: [f64; 8] = [0.75, 1.0, 2.0, 4.0, 8.0, 15.0, 20.0, 30.0];
    const CELLS: [[f64; 9]; 8] = [
        [0.334, 0.301, 0.220, 0.220, 0.221, 0.217, 0.219, 0.223, 0.214],
        [0.293, 0.286, 0.227, 0.217, 0.223, 0.221, 0.225, 0.229, 0.220],
        [0.246, 0.221, 0.239, 0.221, 0.231, 0.218, 0.222, 0.224, 0.234],
        [0.257, 0.233, 0.227, 0.225, 0.227, 0.219, 0.248, 0.236, 0.228],
        [0.272, 0.219, 0.218, 0.216, 0.212, 0.215, 0.210, 0.249, 0.234],
        [0.299, 0.251, 0.228, 0.219, 0.217, 0.217, 0.224, 0.260, 0.243],
        [0.296, 0.255, 0.224, 0.218, 0.216, 0.215, 0.215, 0.255, 0.252],
        [0.299, 0.253, 0.229, 0.221, 0.220, 0.214, 0.219, 0.258, 0.237],
    ];
    let place = |axis: &[f64], part: f64| {
        let (low, high) = (axis[0].ln(), axis[axis.len() - 1].ln());
        let at = (low + part * (high - low)).exp();
        let cell = axis.windows(2).position(|pair| at <= pair[1] + 1e-9).unwrap_or(axis.len() - 2);
        (cell, ((at / axis[cell]).ln() / (axis[cell + 1] / axis[cell]).ln()).clamp(0.0, 1.0))
    };
    let ((column, right), (row, up)) = (place(&WAKEUP, x[0]), place(&MINIMAL, x[1]));
    let between =
        |row: usize| CELLS[row][column].ln() * (1.0 - right) + CELLS[row][column + 1].ln() * right;
    (between(row) * (1.0 - up) + between(row + 1) * up).exp()
}

/// The shape of that plane without its scatter: steep at small wakeup granularities, a wall at large ones
/// beside large minimal ones, a shallow valley between.
fn valley_and_wall(x: &[f64]) -> f64 {
    let step = |v: f64| 1.0 / (1.0 + (-v).exp());
    let left = 0.4 * (-8.0 * x[0]).exp();
    let wall = 0.15 * step((x[0] - 0.8) / 0.03) * step((x[1] - 0.5) / 0.05);
    1.0 + left + wall + 0.1 * (x[1] - 0.65).powi(2)
}

fn bowl(x: &[f64]) -> f64 {
    1.0 + 0.8 * (x[0] - 0.7).powi(2) + 0.4 * (x[1] - 0.25).powi(2)
}

/// Dixon and Szegö, "The global optimization problem", 1978; scaled, since noise is relative.
fn branin(x: &[f64]) -> f64 {
    use std::f64::consts::PI;
    let (a, b) = (15.0 * x[0] - 5.0, 15.0 * x[1]);
    let valley = b - 5.1 / (4.0 * PI * PI) * a * a + 5.0 / PI * a - 6.0;
    1.0 + (valley * valley + 10.0 * (1.0 - 1.0 / (8.0 * PI)) * a.cos() + 10.0) / 100.0
}

/// A slice that exists under one policy only, which is the best one with the right slice.
fn conditional(x: &[f64]) -> f64 {
    let policy = if x[0] == 1.0 { 1.0 + 0.6 * (x[1] - 0.6).powi(2) } else { 1.08 + 0.04 * x[0] };
    policy + 0.15 * (x[2] - 0.4).powi(2)
}

fn measured(case: &Case, point: &[usize], random: &mut Random) -> f64 {
    case.at(point).ln() + NOISE * random.normal()
}

/// The value without noise of the setting that a search advises.
fn advised(case: &Case, method: Method, seed: u64, budget: usize) -> (f64, Search) {
    let options = Options { method, budget, seed, ..Options::default() };
    let mut search = Search::new(case.space.clone(), options);
    let mut random = Random::new(seed ^ 0xfeed);
    while let Some(point) = search.ask() {
        let value = measured(case, &point, &mut random);
        search.tell(point, Outcome::of(value));
    }
    let advice = search.advice().expect("nothing fails");
    (case.at(&advice.point), search)
}

/// The same by Optuna in another process; none where it is not installed.
fn optuna(case: &Case, sampler: &str, seed: u64) -> Option<f64> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peer.py");
    let python = std::env::var("SCHEDLAB_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut command = Command::new(python);
    command.arg(script).arg(sampler).arg(seed.to_string()).arg(BUDGET.to_string());
    for axis in &case.space.axes {
        let kind = if matches!(axis.levels, schedlab_tune::Levels::Words(_)) { "w" } else { "n" };
        let when = axis.when.as_ref().map_or(String::new(), |w| format!(":{}:{}", w.axis, w.level));
        command.arg(format!("{kind}{}{when}", axis.count()));
    }
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut to = child.stdin.take()?;
    let mut random = Random::new(seed ^ 0xfeed);
    let mut best = None;
    for line in BufReader::new(child.stdout.take()?).lines() {
        let line = line.ok()?;
        let (word, rest) = line.split_once(' ')?;
        let point: Point = rest.split(' ').map(|level| level.parse().expect("a level")).collect();
        match word {
            "best" => best = Some(case.at(&point)),
            _ => writeln!(to, "{}", measured(case, &point, &mut random)).ok()?,
        }
    }
    child.wait().ok()?;
    best
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

/// Ours over theirs: the geometric mean with its 95 % interval.
fn ratio(ours: &[f64], theirs: &[f64]) -> String {
    let logs: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| (a / b).ln()).collect();
    match paired(&logs) {
        Some(effect) => {
            let (low, high) = effect.interval(0.95);
            let [mid, low, high] = [effect.estimate, low, high].map(f64::exp);
            format!("{mid:.3} [{low:.3} .. {high:.3}]")
        }
        None => "1.000".into(),
    }
}

fn table(seeds: u64, with_peers: bool) -> (String, Vec<f64>) {
    let mut out = String::from(
        "| function | axes that do nothing | within 1 % | median | 90th percentile | over random | over \
         Optuna TPE | over Optuna GP |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut medians = Vec::new();
    for case in cases() {
        let optimum = case.optimum();
        let ours: Vec<f64> =
            (0..seeds).map(|seed| advised(&case, Method::Model, seed, BUDGET).0).collect();
        let random: Vec<f64> =
            (0..seeds).map(|seed| advised(&case, Method::Random, seed, BUDGET).0).collect();
        let peer = |sampler: &str| -> String {
            let values: Option<Vec<f64>> = (0..seeds)
                .map(|seed| optuna(&case, sampler, seed).filter(|_| with_peers))
                .collect();
            values.filter(|_| with_peers).map_or("MISSING".into(), |theirs| ratio(&ours, &theirs))
        };
        let (tpe, gp) = if with_peers { (peer("tpe"), peer("gp")) } else { Default::default() };
        if with_peers && (tpe == "MISSING" || gp == "MISSING") {
            drop(writeln!(
                std::io::stderr(),
                "MISSING: Optuna: {} is not compared with all of its samplers",
                case.name
            ));
        }
        let off: Vec<f64> = ours.iter().map(|value| value / optimum - 1.0).collect();
        let near = off.iter().filter(|off| **off <= 0.01).count();
        let (median, most) = (quantile(&off, 0.5), quantile(&off, 0.9));
        let dead = case.dead.len();
        let _ = writeln!(
            out,
            "| {} | {dead} | {near} of {seeds} | {:.2} % | {:.2} % | {} | {tpe} | {gp} |",
            case.name,
            median * 100.0,
            most * 100.0,
            ratio(&ours, &random),
        );
        medians.push(median);
    }
    (out, medians)
}

/// Dead axes that are called alive, and how many there were.
fn alive(seeds: u64) -> (usize, usize) {
    let (mut called, mut all) = (0, 0);
    for case in cases() {
        for seed in 0..seeds {
            let (_, search) = advised(&case, Method::Model, seed, 16);
            for found in influences(&case.space, &search.opening(), seed) {
                if case.dead.contains(&found.axis) {
                    all += 1;
                    called += usize::from(found.p <= 0.05);
                }
            }
        }
    }
    (called, all)
}

/// Levels of regions beside the advised point: how many are within the tolerance, of how many.
fn in_regions(seeds: u64) -> (usize, usize) {
    const TOLERANCE: f64 = 0.01;
    let (mut good, mut all) = (0, 0);
    for case in cases() {
        for seed in 0..seeds {
            let (best, search) = advised(&case, Method::Model, seed, BUDGET);
            let point = search.advice().expect("nothing fails").point;
            for region in search.regions(&point, TOLERANCE, 0.95).expect("there is a model") {
                for level in (region.first..=region.last).filter(|l| *l != point[region.axis]) {
                    let mut other = point.clone();
                    other[region.axis] = level;
                    all += 1;
                    good += usize::from(case.at(&other) <= best * (1.0 + TOLERANCE));
                }
            }
        }
    }
    (good, all)
}

const SECTION: &str = "\n## Evidence\n";

#[test]
fn searches_come_near_to_optima_that_are_known() {
    if std::env::var_os("SCHEDLAB_EVIDENCE").is_none_or(|word| word != "write") {
        let (text, medians) = table(3, false);
        // The recorded plane is nearly flat and rough: see the page.
        assert!(medians[1..].iter().all(|median| *median < 0.02), "{text}");
        let (good, all) = in_regions(2);
        assert!(all > 0 && good * 10 >= all * 8, "{good} of {all} levels in regions are good");
        return;
    }
    let (text, _) = table(SEEDS, true);
    let (called, all) = alive(80);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tune.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, section) = page.split_once(SECTION).expect("it has the section");
    let (words, after) = section.split_once("\n| function").expect("it has the table");
    let after = after.split_once("\n\n").map_or("", |(_, after)| after);
    let after = after.split_once("\n\n").map_or("", |(_, after)| after);
    let after = after.split_once("\n\n").map_or("", |(_, after)| after);
    let dead = format!(
        "Of {all} axes that do nothing, the test at 5 % reported {called} as axes that matter."
    );
    let (good, all) = in_regions(SEEDS);
    let regions = format!(
        "In the regions of these searches, {good} of {all} levels are within 1 % of the advised setting."
    );
    let text = format!("{before}{SECTION}{words}\n{text}\n{dead}\n\n{regions}\n\n{after}");
    std::fs::write(&path, text).expect("it can be written");
}
