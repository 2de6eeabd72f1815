//! `schedlab jobs fit`: the linear model of run time, a robust one, and whether one line is enough.

use super::{picture, table};
use anyhow::{Context, bail};
use schedlab_stats::{
    Fit, Level, Line, Sample, TwoLines, change_points, huber, least_squares, theil_sen, two_lines,
};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab jobs fit`.
#[derive(clap::Args)]
#[command(after_help = "\
The first line of the file names its columns. Without --x and --y the first column is the number of
jobs and the second the run time in ms, as `schedlab jobs peak --csv` writes them.")]
pub(super) struct Args {
    /// Measured data: comma or semicolon, names in the first line
    file: PathBuf,
    /// Column of the number of jobs (or their length), by name
    #[arg(long, value_name = "COLUMN")]
    x: Option<String>,
    /// Column of the run time in ms, by name
    #[arg(long, value_name = "COLUMN")]
    y: Option<String>,
    /// Draws the regression with its residuals: .svg, .pdf or .png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Prints JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (points, others) = read(&args.file, args.x.as_deref(), args.y.as_deref())?;
    let models = Models::of(&points).with_context(|| format!("{}", args.file.display()))?;
    if let Some(file) = &args.output {
        let title = format!("Run time, {}", args.file.display());
        let chart = picture::fit(&title, "jobs", &points, &models.line, vec![models.sentence()]);
        picture::write(file, &chart)?;
    }
    if args.json {
        let mut value = models.json();
        value["schema"] = "schedlab/jobs-fit/1".into();
        let told = |c: &Column| {
            (c.name.clone(), json!({"mean": c.mean, "median": c.median, "max": c.max}))
        };
        value["columns"] = others.iter().map(told).collect::<serde_json::Map<_, _>>().into();
        table::json(&value)?;
    } else {
        let mut text = models.text();
        for Column { name, mean, median, max } in &others {
            let _ = writeln!(text, "{name}: mean {mean:.3}, median {median:.3}, largest {max:.3}");
        }
        table::say(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every model of a sweep: x against run time in ms.
pub(super) struct Models {
    pub(super) line: Fit,
    robust: Line,
    huber: Line,
    two: Option<TwoLines>,
    /// Where the residuals, in order of x, change their level: x of the first point after it.
    changes: Vec<f64>,
}

impl Models {
    /// Fits them.
    pub(super) fn of(points: &[(f64, f64)]) -> anyhow::Result<Self> {
        let line = least_squares(points).context("no line can be fitted")?;
        let mut sorted = points.to_vec();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let robust = theil_sen(points).context("no robust line can be fitted")?;
        let changes = changes(&sorted, robust.slope);
        let two = two_lines(points).ok();
        Ok(Self { line, robust, huber: huber(points).unwrap_or(robust), two, changes })
    }

    /// The contract keys, and the others beside them.
    pub(super) fn json(&self) -> Value {
        let Fit { line, r, sigma, residual_max, count, .. } = self.line;
        let (gradient, socket) = (self.line.slope(0.95), self.line.intercept(0.95));
        json!({
            "gradient_ms_per_job": line.slope,
            "gradient_ci95": [gradient.low, gradient.high],
            "socket_ms": line.intercept,
            "socket_ci95": [socket.low, socket.high],
            "r": r,
            "sigma_ms": sigma,
            "residual_ms_max": residual_max,
            "points": count,
            "theil_sen": {"gradient_ms_per_job": self.robust.slope, "socket_ms": self.robust.intercept},
            "huber": {"gradient_ms_per_job": self.huber.slope, "socket_ms": self.huber.intercept},
            "two_lines": self.two.as_ref().map(|two| json!({
                "evidence": two.evidence,
                "sigma_ms": two.sigma,
                "shares": two.shares,
                "gradient_ms_per_job": two.lines.map(|line| line.slope),
                "socket_ms": two.lines.map(|line| line.intercept),
            })),
            "changes_at": self.changes,
        })
    }

    /// One line, for notes.
    pub(super) fn sentence(&self) -> String {
        let Fit { line, r, sigma, .. } = self.line;
        let sign = if line.intercept < 0.0 { '-' } else { '+' };
        format!(
            "{:.3} ms per job {sign} {:.2} ms, r {r:.3}, sigma {sigma:.2} ms",
            line.slope,
            line.intercept.abs()
        )
    }

    /// The table.
    pub(super) fn text(&self) -> String {
        let Fit { r, sigma, residual_max, count, .. } = self.line;
        let (gradient, socket) = (self.line.slope(0.95), self.line.intercept(0.95));
        let row = |name: &str, line: Line| {
            vec![name.to_owned(), format!("{:.4}", line.slope), format!("{:.3}", line.intercept)]
        };
        let mut rows = vec![["model", "ms per job", "socket ms"].map(str::to_owned).to_vec()];
        rows.push(row("least squares", self.line.line));
        rows.push(vec![
            "  95 % interval".to_owned(),
            format!("{:.4}..{:.4}", gradient.low, gradient.high),
            format!("{:.3}..{:.3}", socket.low, socket.high),
        ]);
        rows.push(row("Theil-Sen", self.robust));
        rows.push(row("Huber", self.huber));
        let mut text = table::columns(&rows);
        let _ = writeln!(
            text,
            "\n{count} points, r {r:.4}, sigma {sigma:.3} ms, largest residual {residual_max:.2} ms"
        );
        if let Some(two) = self.two.as_ref().filter(|two| two.evidence > 0.0) {
            text.push_str("two populations lie side by side:\n");
            for (line, share) in two.lines.iter().zip(two.shares) {
                let _ = writeln!(
                    text,
                    "  {:.0} %: {:.4} ms per job + {:.3} ms",
                    100.0 * share,
                    line.slope,
                    line.intercept
                );
            }
        }
        if !self.changes.is_empty() {
            let at: Vec<String> = self.changes.iter().map(|x| format!("{x}")).collect();
            let _ = writeln!(text, "the residuals change their level at {}", at.join(", "));
        }
        text
    }
}

/// Fits of the gradient after the first, while the levels still move.
const REFITS: usize = 5;

/// Where points in order of x change their level, with one gradient throughout: x of the first point after each
/// change. A step tilts a line through all points, and hides behind that; so the gradient is fitted again within
/// the levels that were found, until those stay.
fn changes(sorted: &[(f64, f64)], mut gradient: f64) -> Vec<f64> {
    let mut found: Vec<Level> = Vec::new();
    for _ in 0..=REFITS {
        let residuals: Vec<f64> = sorted.iter().map(|(x, y)| y - gradient * x).collect();
        // The spread between neighbours is what is left when levels are taken away: the median of their distance
        // is 0.95 standard deviations of normal noise.
        let mut steps: Vec<f64> = residuals.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
        steps.sort_by(f64::total_cmp);
        let error = steps.get(steps.len() / 2).copied().unwrap_or(0.0).max(1e-9);
        let levels = change_points(&residuals, &vec![error; residuals.len()]);
        let same = levels.len() == found.len()
            && levels.iter().zip(&found).all(|(new, old)| new.start == old.start);
        found = levels;
        match within(sorted, &found).filter(|_| !same) {
            Some(refitted) => gradient = refitted,
            None => break,
        }
    }
    found.iter().skip(1).map(|level| sorted[level.start].0).collect()
}

/// The least squares gradient of points that lie on levels of their own; `None` where none has two places.
fn within(sorted: &[(f64, f64)], levels: &[Level]) -> Option<f64> {
    let (mut xy, mut xx) = (0.0, 0.0);
    for level in levels {
        let own = &sorted[level.start..level.end];
        let count = own.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| own.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        xy += own.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>();
        xx += own.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    }
    (xx > 0.0).then(|| xy / xx)
}

/// The two columns that are fitted.
type Points = Vec<(f64, f64)>;

/// A column beside the two that are fitted, where all its cells are numbers: mean concurrency, job times.
struct Column {
    name: String,
    mean: f64,
    median: f64,
    max: f64,
}

impl Column {
    fn of(name: &str, cells: &[Vec<String>], at: usize) -> Option<Self> {
        let number = |row: &Vec<String>| row.get(at)?.parse::<f64>().ok();
        let values = cells.iter().map(number).collect::<Option<Vec<f64>>>()?;
        let sample = Sample::new(values).ok()?;
        let (mean, median, max) = (sample.mean(), sample.median(), *sample.values().last()?);
        Some(Self { name: name.to_owned(), mean, median, max })
    }
}

/// Two columns of a CSV file, and what the others hold.
fn read(file: &Path, x: Option<&str>, y: Option<&str>) -> anyhow::Result<(Points, Vec<Column>)> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((_, head)) = lines.next() else { bail!("{}: is empty", file.display()) };
    let separator = if head.contains(';') { ';' } else { ',' };
    let cells = |line: &str| -> Vec<String> {
        line.split(separator).map(|cell| cell.trim().trim_matches('"').to_owned()).collect()
    };
    let names = cells(head);
    let column = |wanted: Option<&str>, usual: usize| match wanted {
        None if usual < names.len() => Ok(usual),
        None => bail!("{}: has no column {}", file.display(), usual + 1),
        Some(name) => names.iter().position(|n| n == name).with_context(|| {
            format!("{}: has no column `{name}`; there are: {}", file.display(), names.join(", "))
        }),
    };
    let (x, y) = (column(x, 0)?, column(y, 1)?);
    let (mut points, mut rows) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        let cells = cells(line);
        let value = |at: usize| {
            let cell = cells.get(at).map(String::as_str).unwrap_or_default();
            let value = cell.parse::<f64>().ok().filter(|value| value.is_finite());
            let name = &names[at];
            value.with_context(|| {
                format!("{}, line {}: {name} is `{cell}`, no number", file.display(), number + 1)
            })
        };
        points.push((value(x)?, value(y)?));
        rows.push(cells);
    }
    let beside = |(at, name): (usize, &String)| match at == x || at == y {
        true => None,
        false => Column::of(name, &rows, at),
    };
    Ok((points, names.iter().enumerate().filter_map(beside).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_stats::Random;

    /// How often of 200 sweeps of so many points with a change of level amid them it is found, to two points; and
    /// how many changes there were elsewhere. The height is in standard deviations of the noise.
    fn found(points: u32, height: f64) -> (usize, usize) {
        let mut random = Random::new(u64::from(points) * 1_000 + height.to_bits() % 997);
        let (mut hits, mut others) = (0, 0);
        for _ in 0..200 {
            let at = points / 2;
            let step = |x: u32| if x < at { 0.0 } else { height };
            let sweep: Vec<(f64, f64)> = (0..points)
                .map(|x| (f64::from(x), 3.0 + 0.5 * f64::from(x) + step(x) + random.normal()))
                .collect();
            let line = theil_sen(&sweep).expect("points enough");
            let seen = changes(&sweep, line.slope);
            let near = |change: &&f64| (**change - f64::from(at)).abs() <= 2.0;
            hits += usize::from(seen.iter().any(|change| near(&change)));
            others += seen.iter().filter(|change| !near(change)).count();
        }
        (hits, others)
    }

    #[test]
    fn a_change_of_level_is_found_from_so_many_standard_deviations_on() {
        // Of 200 each; what docs/jobs.md says of the finder.
        let power = [(40, 4.0, 145), (40, 6.0, 190), (80, 3.0, 160), (80, 4.0, 190)];
        for (points, height, least) in power {
            let (hits, others) = found(points, height);
            assert!(hits >= least, "{height} of {points} points: {hits} of 200");
            // Behind a line that the step has tilted, there were two in each sweep.
            assert!(others <= 100, "{height} of {points} points: {others} elsewhere");
        }
        // Noise alone: one place in twenty sweeps at most.
        for points in [40, 80] {
            let (hits, others) = found(points, 0.0);
            assert!(hits + others <= 10, "{points} points without a change: {hits}, {others}");
        }
    }
}
