//! `schedlab jobs fit`: the linear model of run time, a robust one, and whether one line is enough.

use super::{picture, table};
use anyhow::{Context, bail};
use schedlab_stats::{
    Fit, Line, TwoLines, change_points, huber, least_squares, theil_sen, two_lines,
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
    let points = read(&args.file, args.x.as_deref(), args.y.as_deref())?;
    let models = Models::of(&points).with_context(|| format!("{}", args.file.display()))?;
    if let Some(file) = &args.output {
        let title = format!("Run time, {}", args.file.display());
        let chart = picture::fit(&title, "jobs", &points, &models.line, vec![models.sentence()]);
        picture::write(file, &chart)?;
    }
    if args.json {
        let mut value = models.json();
        value["schema"] = "schedlab/jobs-fit/1".into();
        table::json(&value)?;
    } else {
        table::say(&models.text())?;
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
        let residuals: Vec<f64> = sorted.iter().map(|p| robust.residual(*p)).collect();
        // The spread between neighbours is what is left when levels are taken away.
        let mut steps: Vec<f64> = residuals.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
        steps.sort_by(f64::total_cmp);
        let error = steps.get(steps.len() / 2).copied().unwrap_or(0.0).max(1e-9);
        let levels = change_points(&residuals, &vec![error; residuals.len()]);
        let changes = levels.iter().skip(1).map(|level| sorted[level.start].0).collect();
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

/// Two columns of a CSV file.
fn read(file: &Path, x: Option<&str>, y: Option<&str>) -> anyhow::Result<Vec<(f64, f64)>> {
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
    let mut points = Vec::new();
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
    }
    Ok(points)
}
