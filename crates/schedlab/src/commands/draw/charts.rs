//! `schedlab draw heatmap|sweep|fit|boxes`: charts of a CSV table.

use super::Common;
use super::csv::Table;
use crate::commands::result_file::ThemeOption;
use crate::json;
use anyhow::Context as _;
use schedlab_draw::Scene;
use schedlab_draw::chart::{
    Axis, Boxes, Chart, Fit, FitLine, Group, Heatmap, Line, Sample, Series,
};
use schedlab_experiment::report::{short_labels, significant};
use schedlab_stats::{interval, least_squares};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Confidence of the intervals of a sweep.
const LEVEL: f64 = 0.95;

/// What every chart takes.
#[derive(clap::Args)]
struct Sheet {
    /// A CSV file whose first line names the columns
    file: PathBuf,
    /// Write the picture to FILE; its suffix chooses the format: .svg, .pdf or .png
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Use only rows with this text in this column; several conditions must all hold
    #[arg(long = "where", value_name = "COLUMN=TEXT")]
    conditions: Vec<String>,
    /// Title of the picture [default: the file's name]
    #[arg(long)]
    title: Option<String>,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PX", default_value_t = 900, value_parser = clap::value_parser!(i32).range(200..=20_000))]
    width: i32,
    #[command(flatten)]
    ground: ThemeOption,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `schedlab draw heatmap`.
#[derive(clap::Args)]
pub(crate) struct HeatmapArgs {
    #[command(flatten)]
    sheet: Sheet,
    /// Column of the horizontal axis
    #[arg(long, value_name = "COLUMN")]
    x: String,
    /// Column of the vertical axis
    #[arg(long, value_name = "COLUMN")]
    y: String,
    /// Column of the values; several values in one cell are shown as their median
    #[arg(long, value_name = "COLUMN")]
    value: String,
    /// Draw a contour at this value
    #[arg(long, value_name = "VALUE")]
    contour: Vec<f64>,
    /// Draw a ring around the best cell
    #[arg(long, value_name = "WHICH")]
    best: Option<Best>,
}

/// Which value is best.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Best {
    Lowest,
    Highest,
}

/// Options of `schedlab draw fit`, and of `sweep`.
#[derive(clap::Args)]
pub(crate) struct PairsArgs {
    #[command(flatten)]
    sheet: Sheet,
    /// Column of the horizontal axis
    #[arg(long, value_name = "COLUMN")]
    x: String,
    /// Column of the vertical axis
    #[arg(long, value_name = "COLUMN")]
    y: String,
    /// Use a logarithmic horizontal axis
    #[arg(long)]
    log_x: bool,
    /// Use a logarithmic vertical axis
    #[arg(long)]
    log_y: bool,
}

/// Options of `schedlab draw sweep`.
#[derive(clap::Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pairs: PairsArgs,
    /// Draw a line for each text in this column
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
}

/// Options of `schedlab draw boxes`.
#[derive(clap::Args)]
pub(crate) struct BoxesArgs {
    #[command(flatten)]
    sheet: Sheet,
    /// Column of the values
    #[arg(long, value_name = "COLUMN")]
    value: String,
    /// Draw a box for each text in this column
    #[arg(long, value_name = "COLUMN")]
    by: String,
    /// Draw boxes without densities
    #[arg(long)]
    no_violins: bool,
}

impl Sheet {
    fn table(&self) -> anyhow::Result<Table> {
        let mut table = Table::read(&self.file)?;
        for condition in &self.conditions {
            table.keep(condition)?;
        }
        Ok(table)
    }

    fn title(&self) -> String {
        let name = self.file.file_name().unwrap_or(self.file.as_os_str()).to_string_lossy();
        self.title.clone().unwrap_or_else(|| name.into_owned())
    }

    fn write(
        &self,
        draw: impl Fn(i32, &schedlab_draw::Theme) -> Scene,
    ) -> anyhow::Result<ExitCode> {
        let common = Common { ground: self.ground, ..Common::for_file(self.output.clone()) };
        let scene = draw(self.width, &common.theme());
        let bytes = common.save(&scene)?;
        if self.json {
            let file = super::PictureFile::of(&self.output, bytes, &scene);
            json::print(&super::Chart { file })?;
        } else {
            writeln!(crate::output::stdout(), "{}", self.output.display())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn median(values: &[f64]) -> Option<f64> {
    Some(schedlab_stats::Sample::new(values.iter().copied()).ok()?.median())
}

/// Texts once each: by number where all are numbers, else in the order in which they come.
fn distinct<'a>(texts: &[&'a str]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for text in texts {
        if !found.contains(text) {
            found.push(text);
        }
    }
    let number = |text: &&str| text.trim().parse::<f64>();
    if found.iter().all(|text| number(text).is_ok()) {
        found.sort_by(|a, b| number(a).unwrap_or(0.0).total_cmp(&number(b).unwrap_or(0.0)));
    }
    found
}

/// Texts as labels: of machines only that in which they differ.
fn labels(texts: &[&str]) -> Vec<String> {
    short_labels(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
}

/// Draws a value for each choice on two axes.
pub(crate) fn heatmap(args: &HeatmapArgs) -> anyhow::Result<ExitCode> {
    let table = args.sheet.table()?;
    let xs = table.texts(&args.x)?;
    let ys = table.texts(&args.y)?;
    let values = table.numbers(&args.value)?;
    let columns = distinct(&xs);
    let rows = distinct(&ys);
    let cell = |row: &str, column: &str| {
        let here = (0..values.len()).filter(|&i| xs[i] == column && ys[i] == row);
        median(&here.map(|i| values[i]).collect::<Vec<f64>>())
    };
    let cells: Vec<Vec<Option<f64>>> =
        rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()).collect();
    let all = cells.iter().enumerate().flat_map(|(row, cells)| {
        let known = cells.iter().enumerate().filter_map(|(column, cell)| Some((column, (*cell)?)));
        known.map(move |(column, value)| ((row, column), value))
    });
    let best = args.best.and_then(|best| match best {
        Best::Lowest => all.min_by(|a, b| a.1.total_cmp(&b.1)),
        Best::Highest => all.max_by(|a, b| a.1.total_cmp(&b.1)),
    });
    let mut marks = Vec::new();
    if let Some(best) = args.best {
        let which = if matches!(best, Best::Lowest) { "lowest" } else { "highest" };
        marks.push(format!("ringed: {which}"));
    }
    if !args.contour.is_empty() {
        let levels: Vec<String> = args.contour.iter().map(|level| significant(*level)).collect();
        marks.push(format!("dashed: between below and above {}", levels.join(", ")));
    }
    let map = Heatmap {
        title: args.sheet.title(),
        notes: [format!("{} rows; medians", values.len())].into_iter().chain(marks).collect(),
        x_label: args.x.clone(),
        y_label: args.y.clone(),
        columns: labels(&columns),
        rows: labels(&rows),
        value_label: args.value.clone(),
        best: best.map(|(place, _)| place),
        contours: args.contour.clone(),
        cells,
        ..Heatmap::default()
    };
    args.sheet.write(|width, theme| map.scene(width, theme))
}

impl PairsArgs {
    fn axes(&self) -> (Axis, Axis) {
        let axis = |name: &str, log| Axis { log, ..Axis::new(name) };
        (axis(&self.x, self.log_x), axis(&self.y, self.log_y))
    }
}

/// Draws medians with their intervals over what was set.
pub(crate) fn sweep(args: &SweepArgs) -> anyhow::Result<ExitCode> {
    let pairs = &args.pairs;
    let table = pairs.sheet.table()?;
    let xs = table.numbers(&pairs.x)?;
    let ys = table.numbers(&pairs.y)?;
    let names = match &args.by {
        Some(by) => table.texts(by)?,
        None => vec![""; xs.len()],
    };
    let line = |(name, label): (&str, String)| {
        let own: Vec<usize> = (0..xs.len()).filter(|&i| names[i] == name).collect();
        let mut places: Vec<f64> = own.iter().map(|&i| xs[i]).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let sample = |x: f64| {
            let here: Vec<f64> = own.iter().filter(|&&i| xs[i] == x).map(|&i| ys[i]).collect();
            let y = median(&here)?;
            let sure = schedlab_stats::Sample::new(here).and_then(|all| interval(&all, LEVEL, 1));
            Some(Sample { x, y, interval: sure.ok().map(|sure| (sure.low, sure.high)) })
        };
        Series::new(&label, places.into_iter().filter_map(sample).collect())
    };
    let (x, y) = pairs.axes();
    let notes = vec![format!("{} rows; medians, intervals of 95 %", xs.len())];
    let names = distinct(&names);
    let series = names.iter().copied().zip(labels(&names)).map(line).collect();
    let chart = Line { title: pairs.sheet.title(), notes, x, y, series };
    pairs.sheet.write(|width, theme| chart.scene(width, theme))
}

/// Draws the line of least squares with its residuals.
pub(crate) fn fit(args: &PairsArgs) -> anyhow::Result<ExitCode> {
    let table = args.sheet.table()?;
    let xs = table.numbers(&args.x)?;
    let ys = table.numbers(&args.y)?;
    let points: Vec<(f64, f64)> = xs.into_iter().zip(ys).collect();
    let file = || format!("{}: no line fits", args.sheet.file.display());
    let found = least_squares(&points).with_context(file)?;
    let (x, y) = args.axes();
    let line = found.line;
    let chart = Fit {
        title: args.sheet.title(),
        notes: vec![format!(
            "{} points: {} + {} × {}; r = {:.4}, standard deviation of residuals {}",
            found.count,
            significant(line.intercept),
            significant(line.slope),
            args.x,
            found.r,
            significant(found.sigma)
        )],
        x,
        y,
        points,
        lines: vec![FitLine::all(line.intercept, line.slope, found.sigma)],
        changes: Vec::new(),
        columns: Vec::new(),
    };
    args.sheet.write(|width, theme| chart.scene(width, theme))
}

/// Draws boxes and densities beside each other.
pub(crate) fn boxes(args: &BoxesArgs) -> anyhow::Result<ExitCode> {
    let table = args.sheet.table()?;
    let names = table.texts(&args.by)?;
    let values = table.numbers(&args.value)?;
    let group = |(name, label): (&str, String)| Group {
        name: label,
        values: (0..values.len()).filter(|&i| names[i] == name).map(|i| values[i]).collect(),
    };
    let chart = Boxes {
        title: args.sheet.title(),
        notes: vec![format!("{} values", values.len())],
        y: Axis::new(&args.value),
        groups: {
            let names = distinct(&names);
            names.iter().copied().zip(labels(&names)).map(group).collect()
        },
        violins: !args.no_violins,
    };
    args.sheet.write(|width, theme| chart.scene(width, theme))
}
