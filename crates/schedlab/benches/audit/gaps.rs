//! What a gap costs: a program does less work after it until its caches are warm again.
//!
//! One slowed run is cut into parts of 0.1 ms of work. A part in which the CPU was away is a gap. The parts after a gap
//! are compared with parts that come later before the next one, so a host whose speed drifts disturbs little, and many gaps
//! give a narrow interval where pairs of runs do not.
//!
//! The CPU time that the program had, by its own clock, is exact on any host. What it did in that time is less by what
//! gaps cost. So both together tell the work of a second, also where the host's speed hides a point. What a hypervisor
//! took does not count: burns and slices lose their part of it as the program does, and a budget is not charged for it.

use super::programs::Programs;
use super::table::median;
use super::turns::stolen_s;
use super::{Failure, Point, options, part};
use std::time::Instant;

/// Programs whose rounds are short enough.
pub(super) const PROGRAMS: [&str; 3] = ["c", "python", "node"];
/// How long a slowed run is, in seconds.
const RUN_S: f64 = 10.0;
/// What does not count at its beginning, in seconds: the period is found there.
const START_S: f64 = 1.0;
/// The work of a part at full speed, in seconds.
const PART_S: f64 = 1e-4;
/// What a part takes longer than usual if the CPU was away in it.
const AWAY_S: f64 = 7e-4;
/// Caches are taken to be warm so long after a gap.
const WARM_S: f64 = 8e-3;
/// Fewer warm parts before the next gap tell nothing.
const WARM_PARTS: usize = 40;
/// Fewer gaps tell nothing.
const GAPS_MIN: usize = 10;

/// The parts of a run between two gaps: for each the time since the gap, and how long it took, in seconds.
type Window = Vec<(f64, f64)>;

/// Cuts the times of parts at the gaps. The part in which a gap lies belongs to no window. Without what lies before the
/// first gap.
fn windows(times: &[f64]) -> Vec<Window> {
    let took: Vec<(f64, f64)> = times.windows(2).map(|two| (two[1], two[1] - two[0])).collect();
    let mut all: Vec<f64> = took.iter().map(|(_, took)| *took).collect();
    let usual = median(&mut all);
    let (mut windows, mut open): (Vec<Window>, Option<(f64, Window)>) = (Vec::new(), None);
    for (end, took) in took.into_iter().filter(|(end, _)| *end > START_S) {
        if took > usual + AWAY_S {
            windows.extend(open.replace((end, Window::new())).map(|(_, window)| window));
        } else if let Some((gap, window)) = &mut open {
            window.push((end - took - *gap, took));
        }
    }
    windows
}

/// What gaps cost in all runs of a point, and the CPU time that it had.
#[derive(Default)]
struct Runs {
    seconds: f64,
    gaps: usize,
    losses: Vec<Loss>,
    /// CPU time as a part of the time that a hypervisor left, and the part that it took: of each run.
    had: Vec<f64>,
    stolen: Vec<f64>,
}

impl Runs {
    /// Adds a run with the ends of its parts.
    fn add(&mut self, times: &[f64], had: f64, stolen: f64) {
        let windows = windows(times);
        self.seconds += times.last().map_or(0.0, |end| end - START_S);
        self.gaps += windows.len();
        self.losses.extend(windows.iter().filter_map(Loss::of));
        self.had.push(had);
        self.stolen.push(stolen);
    }

    fn gaps_in_s(&self) -> f64 {
        self.gaps as f64 / self.seconds
    }

    /// Work that a gap costs, in seconds, with the half of its 95 % interval.
    fn lost(&self) -> (f64, f64) {
        let count = self.losses.len() as f64;
        let mean = self.losses.iter().map(|loss| loss.lost).sum::<f64>() / count;
        let off = self.losses.iter().map(|loss| (loss.lost - mean).powi(2));
        (mean, 1.96 * (off.sum::<f64>() / (count - 1.0) / count).sqrt())
    }

    /// The row of a point in the table.
    fn row(&self, Point { program, method, speed }: &Point) -> Result<String, Failure> {
        let (had, stolen) = (mean(&self.had) * 100.0, mean(&self.stolen) * 100.0);
        let row = format!("| {program} | {method} | {speed}");
        if self.losses.len() < GAPS_MIN {
            return Ok(format!(
                "{row} | its gaps leave no time in which caches are warm | - | - | - | {had:.1} % | - | {stolen:.1} % |"
            ));
        }
        let (gaps_in_s, (lost, half)) = (self.gaps_in_s(), self.lost());
        let first = median(&mut self.losses.iter().map(|loss| loss.first).collect::<Vec<_>>());
        let (lost_us, half_us) = (lost * 1e6, half * 1e6);
        let (lost, half) = (lost * gaps_in_s * 100.0, half * gaps_in_s * 100.0);
        Ok(format!(
            "{row} | {gaps_in_s:.0} | {:+.0} % | {lost_us:.0} ± {half_us:.0} µs | {lost:.1} ± {half:.1} | {had:.1} % | \
             {:+.1} | {stolen:.1} % |",
            (first - 1.0) * 100.0,
            had - lost - part(speed)? * 100.0
        ))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// What one gap cost.
struct Loss {
    /// The part right after it, beside one that is warm.
    first: f64,
    /// Work, in seconds.
    lost: f64,
}

impl Loss {
    /// Compares with the mean of the warm parts before the next gap, since noise makes a mean longer than a median, cold
    /// or warm. `None`: the next gap comes too soon.
    fn of(window: &Window) -> Option<Self> {
        let (cold, warm) = window.split_at(window.partition_point(|(since, _)| *since <= WARM_S));
        if warm.len() < WARM_PARTS {
            return None;
        }
        let warm = warm.iter().map(|(_, took)| took).sum::<f64>() / warm.len() as f64;
        let first = cold.first()?.1 / warm;
        Some(Self { first, lost: cold.iter().map(|(_, took)| took - warm).sum() })
    }
}

/// Measures some runs of each point, by turns, and prints a table.
pub(super) fn print(programs: &Programs, points: &[Point], rounds: usize) -> Result<(), Failure> {
    let mut runs: Vec<Runs> = points.iter().map(|_| Runs::default()).collect();
    for _ in 0..rounds {
        for (point, runs) in points.iter().zip(&mut runs) {
            measure(programs, point, runs)?;
        }
    }
    println!(
        "| program | method | speed | gaps a second | first 0.1 ms of work after a gap | work lost for each gap | \
         points lost | CPU time had | off | taken by a hypervisor |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for (point, runs) in points.iter().zip(&runs) {
        println!("{}", runs.row(point)?);
    }
    Ok(())
}

fn measure(
    programs: &Programs,
    Point { program, method, speed }: &Point,
    runs: &mut Runs,
) -> Result<(), Failure> {
    let work_s = RUN_S * part(speed)?;
    let parts = (work_s / PART_S) as usize;
    let cpus = programs.cpus(program).parse()?;
    let (began, before) = (Instant::now(), stolen_s(&cpus));
    let (_, times, had) = programs.parts(program, speed, options(method), (work_s, parts))?;
    let stolen = (stolen_s(&cpus) - before) / began.elapsed().as_secs_f64();
    let there = if method.starts_with("quota") { 1.0 } else { 1.0 - stolen };
    runs.add(&times, had / there, stolen);
    Ok(())
}
