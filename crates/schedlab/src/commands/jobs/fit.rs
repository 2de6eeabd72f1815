//! `schedlab jobs fit`: segments, populations and lines of the run time over the number of jobs.

use super::{picture, table};
use crate::json;
use anyhow::{Context, bail};
use schedlab_draw::chart;
use schedlab_model::table::TextTable;
use schedlab_stats::{
    Change, Fit, Interval, Kind, Line, Population, Sample, Segment, Segments, huber, least_squares,
    segments, theil_sen,
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

pub(super) fn run(args: &Args, room: usize) -> anyhow::Result<ExitCode> {
    let (points, others) = read(&args.file, args.x.as_deref(), args.y.as_deref())?;
    let models = Models::of(&points).with_context(|| format!("{}", args.file.display()))?;
    if let Some(file) = &args.output {
        let title = format!("Run time, {}", args.file.display());
        let chart =
            chart(&title, "jobs", &points, &models, others.iter().map(Column::curve).collect());
        picture::write(file, &chart, &args.ground.theme())?;
    }
    if args.json {
        let columns = others.iter().map(|column| (column.name.clone(), column.figures()));
        json::print(&Document { model: models.document(), columns: columns.collect() })?;
    } else {
        let mut text = models.text(room);
        others.iter().for_each(|column| text.push_str(&column.text()));
        table::say(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

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
    changes: Vec<ChangeFigures>,
}

/// A place at which a column changes.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct ChangeFigures {
    at: f64,
    #[schemars(with = "[Option<f64>; 2]")]
    at_ci95: [f64; 2],
    /// kink, step, line (both), spread or populations.
    kind: &'static str,
    /// By how much the column rises there.
    step: f64,
}

impl ChangeFigures {
    fn of(change: &Change) -> Self {
        let Change { x, kind, step } = *change;
        Self { at: x.estimate, at_ci95: [x.low, x.high], kind: name(kind), step }
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Kink => "kink",
        Kind::Step => "step",
        Kind::Line => "line",
        Kind::Spread => "spread",
        Kind::Populations => "populations",
    }
}

/// A part of the sweep with lines of its own.
#[derive(Serialize, JsonSchema)]
struct SegmentFigures {
    from: f64,
    to: f64,
    points: usize,
    /// The scale of the noise at the first point and at the last one.
    spread_ms: [f64; 2],
    /// One, or two that lie side by side; the larger one first.
    populations: Vec<PopulationFigures>,
}

#[derive(Serialize, JsonSchema)]
struct PopulationFigures {
    /// The part of the segment's points.
    share: f64,
    gradient_ms_per_job: f64,
    #[schemars(with = "[Option<f64>; 2]")]
    gradient_ci95: [f64; 2],
    /// Run time without jobs; `null`: the segment does not reach there.
    socket_ms: Option<f64>,
    #[schemars(with = "Option<[Option<f64>; 2]>")]
    socket_ci95: Option<[f64; 2]>,
}

impl SegmentFigures {
    fn of(segment: &Segment) -> Self {
        let population = |one: &Population| PopulationFigures {
            share: one.share,
            gradient_ms_per_job: one.slope.estimate,
            gradient_ci95: [one.slope.low, one.slope.high],
            socket_ms: one.at_zero.map(|zero| zero.estimate),
            socket_ci95: one.at_zero.map(|zero| [zero.low, zero.high]),
        };
        let Segment { from, to, points, spread, .. } = *segment;
        let populations = segment.populations.iter().map(population).collect();
        Self { from, to, points, spread_ms: spread, populations }
    }
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
    /// In order of x; empty below eight points.
    segments: Vec<SegmentFigures>,
    /// Between the segments.
    changes: Vec<ChangeFigures>,
}

#[derive(Serialize, JsonSchema)]
struct LineFigures {
    gradient_ms_per_job: f64,
    socket_ms: f64,
}

/// A sweep: points in (x, ms), the lines of its segments, and below them the other columns.
pub(super) fn chart(
    title: &str,
    x_label: &str,
    points: &[(f64, f64)],
    models: &Models,
    columns: Vec<(String, Vec<(f64, f64)>)>,
) -> chart::Fit {
    let parts = models.segments.iter().flat_map(|all| &all.segments);
    let of_part = |part: &Segment| {
        let Segment { from, to, spread, .. } = *part;
        let lines = part.populations.iter().map(move |one| chart::FitLine {
            from,
            to,
            offset: one.line.intercept,
            gradient: one.line.slope,
            spread,
        });
        lines.collect::<Vec<_>>()
    };
    let mut lines: Vec<chart::FitLine> = parts.flat_map(of_part).collect();
    if lines.is_empty() {
        let Fit { line, sigma, .. } = models.line;
        lines.push(chart::FitLine::all(line.intercept, line.slope, sigma));
    }
    let changes = models.segments.iter().flat_map(|all| &all.changes);
    chart::Fit {
        title: title.to_owned(),
        notes: vec![models.answer(), format!("one line: {}", models.sentence())],
        x: chart::Axis::new(x_label),
        y: chart::Axis::new("run time, ms"),
        points: points.to_vec(),
        lines,
        changes: changes.map(|change| change.x.estimate).collect(),
        columns,
    }
}

/// Every model of a sweep: x against run time in ms.
pub(super) struct Models {
    pub(super) line: Fit,
    robust: Line,
    huber: Line,
    /// `None` below eight points.
    pub(super) segments: Option<Segments>,
}

impl Models {
    /// Fits them.
    pub(super) fn of(points: &[(f64, f64)]) -> anyhow::Result<Self> {
        let line = least_squares(points).context("no line can be fitted")?;
        let robust = theil_sen(points).context("no robust line can be fitted")?;
        let huber = huber(points).unwrap_or(robust);
        Ok(Self { line, robust, huber, segments: segments(points).ok() })
    }

    /// For `--json`.
    pub(super) fn document(&self) -> ModelFigures {
        let Fit { line, r, sigma, residual_max, count, .. } = self.line;
        let gradient = self.line.slope(0.95);
        let socket = self.line.intercept(0.95);
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
            segments: self.parts().iter().map(SegmentFigures::of).collect(),
            changes: self.changes().iter().map(ChangeFigures::of).collect(),
        }
    }

    fn parts(&self) -> &[Segment] {
        self.segments.as_ref().map_or(&[], |all| &all.segments)
    }

    fn changes(&self) -> &[Change] {
        self.segments.as_ref().map_or(&[], |all| &all.changes)
    }

    /// What a person needs to know: what a job adds to the run time, and where that changes.
    pub(super) fn answer(&self) -> String {
        let parts = self.parts();
        let Some(last) = parts.len().checked_sub(1) else {
            let jobs = self.line.count;
            return format!("{jobs} points are too few to look for changes: use 8 or more");
        };
        let adds = |segment: &Segment| match &segment.populations[..] {
            [first, second] => {
                let share = 100.0 * first.share;
                let [first, second] = [first, second].map(|one| slope(&one.slope));
                format!(
                    "each job adds {first} in {share:.0} % of the runs and {second} in the others"
                )
            }
            all => format!(
                "each job adds {}",
                all.first().map_or_else(String::new, |one| slope(&one.slope))
            ),
        };
        let told = parts.iter().enumerate().map(|(at, segment)| {
            let range = match at {
                _ if last == 0 => format!("from {} to {} jobs", segment.from, segment.to),
                0 => format!("up to {} jobs", segment.to),
                _ if at == last => format!("from {} jobs on", segment.from),
                _ => format!("from {} to {} jobs", segment.from, segment.to),
            };
            format!("{range}, {}", adds(segment))
        });
        let text = told.collect::<Vec<_>>().join("; ");
        let mut letters = text.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }

    /// One line, for notes.
    pub(super) fn sentence(&self) -> String {
        let Fit { line, r, sigma, .. } = self.line;
        let sign = if line.intercept < 0.0 { '-' } else { '+' };
        let [slope, socket, sigma] = [line.slope, line.intercept.abs(), sigma].map(milliseconds);
        format!("{slope} per job {sign} {socket}, r {r:.3}, sigma {sigma}")
    }

    /// The table.
    pub(super) fn text(&self, room: usize) -> String {
        let Fit { r, sigma, residual_max, count, .. } = self.line;
        let gradient = self.line.slope(0.95);
        let socket = self.line.intercept(0.95);
        let row = |name: &str, line: Line| {
            let slope = format!("{:.4}", line.slope);
            let socket = format!("{:.3}", line.intercept);
            vec![name.to_owned(), slope, socket, String::new()]
        };
        let mut text = format!("{}.\n\n", self.answer());
        for change in self.changes() {
            let _ = writeln!(text, "at {}", changed(change, ColumnUnit::Milliseconds));
        }
        let heads = ["<model", "ms per job", "1?socket ms", "2?spread ms"];
        let mut table = TextTable::new(&heads);
        for segment in self.parts() {
            let Segment { from, to, points, spread, .. } = segment;
            let spread = match spread[0].total_cmp(&spread[1]).is_eq() {
                true => format!("{:.3}", spread[0]),
                false => format!("{:.3} to {:.3}", spread[0], spread[1]),
            };
            for one in &segment.populations {
                let range = |all: Interval| {
                    format!("{:.4} [{:.4}, {:.4}]", all.estimate, all.low, all.high)
                };
                let zero = one.at_zero.map_or_else(|| "-".to_owned(), range);
                let runs = format!("{from} to {to}: {:.0} % of {points} runs", 100.0 * one.share);
                table.row(vec![runs, range(one.slope), zero, spread.clone()]);
            }
        }
        table.row(row("one line through all", self.line.line));
        table.row(vec![
            "  95 % interval".to_owned(),
            format!("{:.4}..{:.4}", gradient.low, gradient.high),
            format!("{:.3}..{:.3}", socket.low, socket.high),
            String::new(),
        ]);
        table.row(row("  Theil-Sen", self.robust));
        table.row(row("  Huber", self.huber));
        text.push_str(&table.text(0, room));
        let _ = writeln!(
            text,
            "\n{count} points, r {r:.4}, sigma {}, largest residual {}",
            milliseconds(sigma),
            milliseconds(residual_max)
        );
        text
    }
}

/// Milliseconds for people.
pub(super) fn milliseconds(ms: f64) -> String {
    table::time(ms * 1e6)
}

/// A slope in words.
fn slope(slope: &Interval) -> String {
    let [estimate, low, high] = [slope.estimate, slope.low, slope.high].map(milliseconds);
    format!("{estimate} (95 %: {low} to {high})")
}

/// The unit of a column of measured data.
#[derive(Clone, Copy)]
enum ColumnUnit {
    Milliseconds,
    Microseconds,
    /// The column's name does not tell.
    Unknown,
}

impl ColumnUnit {
    /// The columns that Lumiera's rig writes have units that their names do not tell.
    fn of(name: &str) -> Self {
        match name {
            "avg jobtime" | "avg impeded" => Self::Microseconds,
            _ => Self::Unknown,
        }
    }

    fn text(self, value: f64) -> String {
        match self {
            Self::Milliseconds => milliseconds(value),
            Self::Microseconds => table::time(value * 1e3),
            Self::Unknown => format!("{value:.3}"),
        }
    }

    /// By how much something changed.
    fn step(self, value: f64) -> String {
        let sign = if value < 0.0 { '-' } else { '+' };
        format!("{sign}{}", self.text(value.abs()))
    }
}

/// A change in words, with the unit of what changes.
fn changed(change: &Change, unit: ColumnUnit) -> String {
    let Change { x, kind, step } = change;
    let what = match kind {
        Kind::Kink => "the slope changes".to_owned(),
        Kind::Step => format!("the level changes by {}", unit.step(*step)),
        Kind::Line => format!("slope and level change, the level by {}", unit.step(*step)),
        Kind::Spread => "the spread changes".to_owned(),
        Kind::Populations => "the number of populations changes".to_owned(),
    };
    format!("{:.0} jobs (95 %: {:.0} to {:.0}), {what}", x.estimate, x.low, x.high)
}

/// The two columns that are fitted.
type Points = Vec<(f64, f64)>;

/// A column beside the two that are fitted, where all its cells are numbers: mean concurrency, job times.
pub(super) struct Column {
    name: String,
    points: Points,
    sample: Sample,
    changes: Vec<Change>,
}

impl Column {
    pub(super) fn over(name: &str, points: Points) -> Option<Self> {
        let sample = Sample::new(points.iter().map(|point| point.1)).ok()?;
        let changes = segments(&points).map(|all| all.changes).unwrap_or_default();
        Some(Self { name: name.to_owned(), points, sample, changes })
    }

    fn figures(&self) -> ColumnFigures {
        let mean = self.sample.mean();
        let median = self.sample.median();
        let max = self.sample.values().last().copied().unwrap_or(f64::NAN);
        let changes = self.changes.iter().map(ChangeFigures::of).collect();
        ColumnFigures { mean, median, max, changes }
    }

    /// A line for the column, and one for each change.
    pub(super) fn text(&self) -> String {
        let ColumnFigures { mean, median, max, .. } = self.figures();
        let unit = ColumnUnit::of(&self.name);
        let name = &self.name;
        let [mean, median, max] = [mean, median, max].map(|value| unit.text(value));
        let mut text = format!("{name}: mean {mean}, median {median}, largest {max}\n");
        for change in &self.changes {
            let _ = writeln!(text, "  at {}", changed(change, unit));
        }
        text
    }

    /// The panel of the picture that shows it.
    pub(super) fn curve(&self) -> (String, Points) {
        (self.name.clone(), self.points.clone())
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
    let x = column(x, 0)?;
    let y = column(y, 1)?;
    let mut points = Vec::new();
    let mut rows = Vec::new();
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
    let beside = |(at, name): (usize, &String)| {
        let number = |row: &Vec<String>| row.get(at)?.parse::<f64>().ok();
        let values = rows.iter().map(number).collect::<Option<Vec<f64>>>()?;
        let over = points.iter().zip(values).map(|(point, value)| (point.0, value)).collect();
        if at == x || at == y { None } else { Column::over(name, over) }
    };
    let others = names.iter().enumerate().filter_map(beside).collect();
    Ok((points, others))
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
