//! What a gap costs: a program does less work after it until its caches are warm again.
//!
//! One slowed run is cut into parts of 0.1 ms of work. A part in which the CPU was away is a gap. The parts after a gap
//! are compared with parts of the same run that come late after one, so a host whose speed drifts disturbs little, and
//! hundreds of gaps give a narrow interval where pairs of runs do not.
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
/// The work of a part at full speed, in seconds.
const PART_S: f64 = 1e-4;
/// What a part takes longer than usual if the CPU was away in it.
const AWAY_S: f64 = 7e-4;
/// Caches are taken to be warm so long after a gap.
const WARM_S: f64 = 8e-3;
/// Fewer warm parts tell nothing.
const WARM_PARTS: usize = 100;

/// The parts of a run between two gaps: for each the time since the gap, and how long it took, in seconds.
type Window = Vec<(f64, f64)>;

/// Cuts the times of parts at the gaps. The part in which a gap lies belongs to no window. Without what lies before the
/// first second, in which the period is found, and before the first gap.
fn windows(times: &[f64]) -> Vec<Window> {
    let took: Vec<(f64, f64)> = times.windows(2).map(|two| (two[1], two[1] - two[0])).collect();
    let mut all: Vec<f64> = took.iter().map(|(_, took)| *took).collect();
    let usual = median(&mut all);
    let (mut windows, mut open): (Vec<Window>, Option<(f64, Window)>) = (Vec::new(), None);
    for (end, took) in took.into_iter().filter(|(end, _)| *end > 1.0) {
        if took > usual + AWAY_S {
            windows.extend(open.replace((end, Window::new())).map(|(_, window)| window));
        } else if let Some((gap, window)) = &mut open {
            window.push((end - took - *gap, took));
        }
    }
    windows
}

/// What gaps cost in a run.
struct Cost {
    gaps_in_s: f64,
    /// A part right after a gap, beside one that is warm.
    first: f64,
    /// Work that a gap costs, in seconds, with the half of its 95 % interval.
    lost: (f64, f64),
}

impl Cost {
    /// `None`: no part is warm, since gaps follow each other too closely.
    fn of(times: &[f64]) -> Option<Self> {
        let windows: Vec<Window> = windows(times).into_iter().filter(|w| !w.is_empty()).collect();
        let parts = windows.iter().flatten();
        let mut warm: Vec<f64> =
            parts.filter(|(since, _)| *since > WARM_S).map(|(_, took)| *took).collect();
        if warm.len() < WARM_PARTS || windows.len() < 2 {
            return None;
        }
        let warm = median(&mut warm);
        let cold = |window: &Window| -> f64 {
            let cold = window.iter().take_while(|(since, _)| *since <= WARM_S);
            cold.map(|(_, took)| took - warm).sum()
        };
        let lost: Vec<f64> = windows.iter().map(cold).collect();
        let count = lost.len() as f64;
        let mean = lost.iter().sum::<f64>() / count;
        let variance = lost.iter().map(|lost| (lost - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let mut first: Vec<f64> = windows.iter().map(|window| window[0].1).collect();
        Some(Self {
            gaps_in_s: count / (times.last()? - 1.0),
            first: median(&mut first) / warm,
            lost: (mean, 1.96 * (variance / count).sqrt()),
        })
    }
}

/// Measures and prints a table.
pub(super) fn print(programs: &Programs, points: &[Point]) -> Result<(), Failure> {
    println!(
        "| program | method | speed | gaps a second | first 0.1 ms of work after a gap | work lost for each gap | \
         points lost | CPU time had | off | taken by a hypervisor |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for Point { program, method, speed } in points {
        let work_s = RUN_S * part(speed)?;
        let parts = (work_s / PART_S) as usize;
        let cpus = programs.cpus(program).parse()?;
        let (began, before) = (Instant::now(), stolen_s(&cpus));
        let (_, times, had) = programs.parts(program, speed, options(method), (work_s, parts))?;
        let stolen = (stolen_s(&cpus) - before) / began.elapsed().as_secs_f64();
        let there = if method.starts_with("quota") { 1.0 } else { 1.0 - stolen };
        let (granted, stolen) = (had / there * 100.0, stolen * 100.0);
        let row = format!("| {program} | {method} | {speed}");
        match Cost::of(&times) {
            Some(Cost { gaps_in_s, first, lost: (lost, half) }) => {
                let (lost_us, half_us) = (lost * 1e6, half * 1e6);
                let (lost, half) = (lost * gaps_in_s * 100.0, half * gaps_in_s * 100.0);
                println!(
                    "{row} | {gaps_in_s:.0} | {:+.0} % | {lost_us:.0} ± {half_us:.0} µs | {lost:.1} ± {half:.1} | \
                     {granted:.1} % | {:+.1} | {stolen:.1} % |",
                    (first - 1.0) * 100.0,
                    granted - lost - part(speed)? * 100.0
                );
            }
            None => println!(
                "{row} | its gaps leave no time in which caches are warm | - | - | - | {granted:.1} % | - | {stolen:.1} % |"
            ),
        }
    }
    Ok(())
}
