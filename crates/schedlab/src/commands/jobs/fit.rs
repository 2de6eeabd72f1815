//! `schedlab jobs fit`: the linear model of run time, a robust one, and whether one line is enough.

use super::{picture, table};
use crate::json;
use anyhow::{Context, bail};
use schedlab_stats::{
    Fit, Line, Sample, TwoLines, huber, least_squares, level_changes, theil_sen, two_lines,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab jobs fit`.
#[derive(clap::Args)]
#[command(after_help = "\
The first line of the file names its columns. Without --x and --y, the first column is the number
of jobs and the second the run time in ms, as `schedlab jobs peak --csv` writes them.")]
pub(super) struct Args {
    /// Measured data: CSV (comma or semicolon), or a gnuplot script with inline data
    file: PathBuf,
    /// Name of the column with the number of jobs, or their length
    #[arg(long, value_name = "COLUMN")]
    x: Option<String>,
    /// Name of the column with the run time in ms
    #[arg(long, value_name = "COLUMN")]
    y: Option<String>,
    /// Draw the regression with its residuals to FILE: .svg, .pdf or .png
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    ground: picture::ThemeOption,
    /// Print JSON
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
        picture::write(file, &chart, &args.ground.theme())?;
    }
    if args.json {
        let columns = others.iter().map(|c| {
            (c.name.clone(), ColumnFigures { mean: c.mean, median: c.median, max: c.max })
        });
        json::print(&Document { model: models.document(), columns: columns.collect() })?;
    } else {
        let mut text = models.text();
        for Column { name, mean, median, max } in &others {
            let _ = writeln!(text, "{name}: mean {mean:.3}, median {median:.3}, largest {max:.3}");
        }
        table::say(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Two populations are claimed from here on: "very strong" in Kass and Raftery, "Bayes factors", JASA 1995.
const EVIDENCE: f64 = 10.0;

/// `schedlab jobs fit --json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Document {
    #[serde(flatten)]
    model: ModelFigures,
    /// The other columns of numbers.
    columns: BTreeMap<String, ColumnFigures>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/jobs-fit/1";
}

#[derive(Serialize, JsonSchema)]
struct ColumnFigures {
    mean: f64,
    median: f64,
    max: f64,
}

/// Every model of a sweep: run time in ms over the number of jobs, or over their length.
#[derive(Serialize, JsonSchema)]
pub(super) struct ModelFigures {
    gradient_ms_per_job: f64,
    #[schemars(with = "[Option<f64>; 2]")]
    gradient_ci95: [f64; 2],
    /// Run time without jobs.
    socket_ms: f64,
    #[schemars(with = "[Option<f64>; 2]")]
    socket_ci95: [f64; 2],
    /// Pearson's correlation.
    r: f64,
    /// Standard deviation of the residuals.
    sigma_ms: f64,
    residual_ms_max: f64,
    points: usize,
    theil_sen: LineFigures,
    huber: LineFigures,
    two_lines: Option<TwoFigures>,
    /// Where the residuals change their level.
    changes_at: Vec<f64>,
}

#[derive(Serialize, JsonSchema)]
struct LineFigures {
    gradient_ms_per_job: f64,
    socket_ms: f64,
}

/// Two populations.
#[derive(Serialize, JsonSchema)]
struct TwoFigures {
    /// By how much the criterion of Schwarz prefers two lines.
    #[schemars(with = "Option<f64>")]
    evidence: f64,
    /// Whether that is enough.
    claimed: bool,
    sigma_ms: f64,
    /// The share of points of each line.
    shares: [f64; 2],
    gradient_ms_per_job: [f64; 2],
    socket_ms: [f64; 2],
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
        let changes = level_changes(&sorted).into_iter().map(|at| sorted[at].0).collect();
        let two = two_lines(points).ok();
        Ok(Self { line, robust, huber: huber(points).unwrap_or(robust), two, changes })
    }

    /// For `--json`.
    pub(super) fn document(&self) -> ModelFigures {
        let Fit { line, r, sigma, residual_max, count, .. } = self.line;
        let (gradient, socket) = (self.line.slope(0.95), self.line.intercept(0.95));
        let figures =
            |line: Line| LineFigures { gradient_ms_per_job: line.slope, socket_ms: line.intercept };
        ModelFigures {
            gradient_ms_per_job: line.slope,
            gradient_ci95: [gradient.low, gradient.high],
            socket_ms: line.intercept,
            socket_ci95: [socket.low, socket.high],
            r,
            sigma_ms: sigma,
            residual_ms_max: residual_max,
            points: count,
            theil_sen: figures(self.robust),
            huber: figures(self.huber),
            two_lines: self.two.as_ref().map(|two| TwoFigures {
                evidence: two.evidence,
                claimed: two.evidence > EVIDENCE,
                sigma_ms: two.sigma,
                shares: two.shares,
                gradient_ms_per_job: two.lines.map(|line| line.slope),
                socket_ms: two.lines.map(|line| line.intercept),
            }),
            changes_at: self.changes.clone(),
        }
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
        if let Some(two) = self.two.as_ref().filter(|two| two.evidence > EVIDENCE) {
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

/// The lines of a table, each with its number from 0: of a gnuplot script those of its first here-document
/// (`$data << EOD`), of any other file all. Without empty lines and comments.
fn table_lines(text: &str) -> anyhow::Result<Vec<(usize, &str)>> {
    let lines: Vec<(usize, &str)> = text.lines().enumerate().collect();
    let opens = |line: &str| {
        let (name, end) = line.trim().split_once("<<")?;
        let plain = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
        let name = name.trim().strip_prefix('$')?;
        (plain(name) && plain(end.trim()) && !end.trim().is_empty()).then(|| end.trim().to_owned())
    };
    let table = match lines.iter().find_map(|&(at, line)| Some((at, opens(line)?))) {
        None => &lines[..],
        Some((at, end)) => {
            let inside = &lines[at + 1..];
            let close = inside.iter().position(|(_, line)| line.trim() == end);
            let close = close.with_context(|| {
                format!("line {}: the here-document has no end `{end}`", at + 1)
            })?;
            &inside[..close]
        }
    };
    let said = |line: &str| !line.trim().is_empty() && !line.trim().starts_with('#');
    Ok(table.iter().copied().filter(|(_, line)| said(line)).collect())
}

/// The cells of a line, by semicolons, commas, or blanks where there is neither.
fn cells(line: &str, separator: Option<char>) -> Vec<String> {
    let cell = |cell: &str| cell.trim().trim_matches('"').to_owned();
    match separator {
        Some(separator) => line.split(separator).map(cell).collect(),
        None => line.split_whitespace().map(cell).collect(),
    }
}

/// Two columns of a CSV file or a gnuplot script, and what the others hold.
fn read(file: &Path, x: Option<&str>, y: Option<&str>) -> anyhow::Result<(Points, Vec<Column>)> {
    let text =
        schedlab_sys::regular_file::text(file).with_context(|| format!("{}", file.display()))?;
    let lines = table_lines(&text).with_context(|| format!("{}", file.display()))?;
    let mut lines = lines.into_iter();
    let Some((_, head)) = lines.next() else { bail!("{}: is empty", file.display()) };
    let separator = [';', ','].into_iter().find(|&sign| head.contains(sign));
    let cells = |line: &str| cells(line, separator);
    let names = cells(head);
    let column = |wanted: Option<&str>, usual: usize| match wanted {
        None if usual < names.len() => Ok(usual),
        None => bail!("{}: has no column {}", file.display(), usual + 1),
        Some(name) => names.iter().position(|n| n == name).with_context(|| {
            format!("{}: unknown column '{name}': use {}", file.display(), names.join(", "))
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

    fn lines(text: &str) -> Vec<&str> {
        table_lines(text).unwrap().into_iter().map(|(_, line)| line).collect()
    }

    #[test]
    fn the_data_of_a_gnuplot_script_are_its_first_here_document() {
        let script = "# a comment\n$RunData << _End_of_Data_\n\"load size\",\"result\"\n1,2\n\n3,4\n_End_of_Data_\nplot $RunData";
        assert_eq!(lines(script), ["\"load size\",\"result\"", "1,2", "3,4"]);
        assert_eq!(lines("a,b\n# not this\n1,2"), ["a,b", "1,2"]);
        let open = table_lines("x\n$data << EOD\n1,2").unwrap_err().to_string();
        assert_eq!(open, "line 2: the here-document has no end `EOD`");
    }

    #[test]
    fn cells_are_told_apart_by_signs_or_blanks() {
        assert_eq!(cells("\"a b\", 1", Some(',')), ["a b", "1"]);
        assert_eq!(cells("  1   2.5", None), ["1", "2.5"]);
    }
}
