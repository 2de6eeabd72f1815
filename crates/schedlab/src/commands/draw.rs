//! `schedlab draw`: pictures of a trace, and charts of a table.

mod charts;
mod cores;
mod csv;
mod flame;
mod latency;
mod names;
mod recipe;
mod tasks;
mod waiting;
mod wakeup;

use super::result_file::{ThemeOption, save};
use super::trace::form;
use super::trace::input::{Input, Selection};
use crate::json::{self, Schema};
use anyhow::{Context, bail};
use clap::Subcommand;
use schedlab_draw::{Scene, SvgOptions, Theme, number_of};
use schedlab_model::{EventSource, Nanos, Point, Span, Topology, TraceInfo, Trigger, Warning};
use schedlab_timeline::{Chosen, Cut};
use schedlab_trace::Options;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab draw`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    picture: Picture,
}

#[derive(Subcommand)]
enum Picture {
    /// Draw a row for each CPU, with a colour for each task
    Cores(cores::Args),
    /// Draw a row for each task: running, waiting, sleeping, and who woke it
    Tasks(tasks::Args),
    /// Draw how many tasks ran and waited over time
    Waiting(waiting::Args),
    /// Draw how long tasks waited for a CPU: a histogram or cumulative curves
    Latency(latency::Args),
    /// Draw where tasks were blocked: a flame graph of time off the CPU by call stack
    Flame(flame::Args),
    /// Draw one episode of lost CPU time: who woke the task, and which CPUs were idle
    Wakeup(wakeup::Args),
    /// Draw a map of values over two axes, from a CSV table
    Heatmap(charts::HeatmapArgs),
    /// Draw medians with intervals over an axis, from a CSV table
    Sweep(charts::SweepArgs),
    /// Draw a least-squares line with its residuals, from a CSV table
    Fit(charts::PairsArgs),
    /// Draw boxes and densities of groups, from a CSV table
    Boxes(charts::BoxesArgs),
    /// Draw a view that a TOML file describes: rows, colours, marks, curve
    #[command(long_flag = "recipe")]
    Recipe(recipe::Args),
}

pub(crate) use names::{dat2graph2, running_waiting};

/// A window of several traces, which are drawn below each other.
pub(crate) struct CoresWindow<'a> {
    pub(crate) files: &'a [PathBuf],
    /// Where it begins and ends, since each trace began.
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
    pub(crate) title: String,
    /// The event that is marked.
    pub(crate) mark: String,
}

/// Draws a row for each CPU of each trace.
pub(crate) fn cores_of(
    window: CoresWindow<'_>,
    output: &Path,
    ground: ThemeOption,
) -> anyhow::Result<()> {
    let CoresWindow { files, from, to, title, mark } = window;
    let common = Common {
        ground,
        min: Some(from.into()),
        max: Some(to.into()),
        title: Some(title),
        ..Common::for_file(output.to_owned())
    };
    let view = cores::View { mark: vec![mark], ..cores::View::default() };
    let (scene, _) = cores::draw(files, &common, &view, None)?;
    common.save(&scene).map(drop)
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.picture {
        Picture::Cores(args) => cores::run(&args),
        Picture::Tasks(args) => tasks::run(&args),
        Picture::Waiting(args) => waiting::run(&args),
        Picture::Latency(args) => latency::run(&args),
        Picture::Flame(args) => flame::run(&args),
        Picture::Wakeup(args) => wakeup::run(&args),
        Picture::Heatmap(args) => charts::heatmap(&args),
        Picture::Sweep(args) => charts::sweep(&args),
        Picture::Fit(args) => charts::fit(&args),
        Picture::Boxes(args) => charts::boxes(&args),
        Picture::Recipe(args) => recipe::run(args),
    }
}

/// The name of a file without its folder.
fn name_of(file: &Path) -> std::borrow::Cow<'_, str> {
    file.file_name().unwrap_or(file.as_os_str()).to_string_lossy()
}

/// What every picture of a trace takes.
#[derive(clap::Args)]
pub(crate) struct Common {
    /// Write the picture to FILE; its suffix chooses the format: .svg, .pdf or .png
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Start here: time since the start of the trace (1.5s, 20ms), or time of its clock (@12345.678)
    #[arg(long = "from", alias = "min", value_name = "TIME", value_parser = instant)]
    min: Option<Point>,
    /// End here, in the same form
    #[arg(long = "to", alias = "max", value_name = "TIME", value_parser = instant)]
    max: Option<Point>,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PX", default_value_t = 1200, value_parser = clap::value_parser!(i32).range(200..=20_000))]
    width: i32,
    /// Width of the figure on the page in millimetres, instead of pixels
    #[arg(long, value_name = "MM", conflicts_with = "width", value_parser = clap::value_parser!(u32).range(20..=2_000))]
    width_mm: Option<u32>,
    /// Size of its text in points
    #[arg(long, value_name = "PT", default_value_t = FONT_PT, value_parser = points)]
    font_pt: f64,
    /// Print a sentence for the caption, with its data
    #[arg(long)]
    caption: bool,
    /// Use colours that differ when they are printed in grey
    #[arg(long, conflicts_with = "dark")]
    grey: bool,
    /// How CPUs share caches and sockets, if the trace does not say: 'host', a copy of /sys, or a
    /// file made by 'lscpu -p'
    #[arg(long, value_name = "FILE|DIR|host")]
    topology: Option<String>,
    /// Title of the picture [default: the file's name]
    #[arg(long)]
    title: Option<String>,
    #[command(flatten)]
    ground: ThemeOption,
    /// Embed the fonts in the SVG (a PDF always has them)
    #[arg(long)]
    embed_fonts: bool,
    /// Draw N pixels of a PNG for each pixel of the picture
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    scale: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The size of most of the text at the natural size: 11 pixels.
const FONT_PT: f64 = 8.25;

/// A size of text.
fn points(text: &str) -> Result<f64, String> {
    let size: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if (3.0..=48.0).contains(&size) { Ok(size) } else { Err("use 3 to 48 points".to_owned()) }
}

/// The tasks that a picture of a trace is about.
fn chosen(selection: &Selection, common: &Common, file: &Path) -> anyhow::Result<Chosen> {
    let input = Input::part_of(file, common.min, common.max);
    input.chosen(selection)
}

/// A time with a unit, or a plain number of seconds as dat2graph2 takes it.
pub(crate) fn instant(text: &str) -> Result<Point, String> {
    let seconds = format!("{text}s");
    let plain = text.chars().all(|c| c.is_ascii_digit() || c == '.') && !text.is_empty();
    if plain { seconds.as_str() } else { text }.parse().map_err(|error| format!("{error}"))
}

/// A trace that is about to be drawn: its window is known.
pub(crate) struct Window {
    /// The events, from the first on.
    pub(crate) source: Box<dyn EventSource>,
    /// What is known besides, also of what a stream tells only on the way.
    pub(crate) info: TraceInfo,
    /// The window, on the trace's clock.
    pub(crate) span: Span,
    /// Where less is shown than was asked for.
    pub(crate) clipped: Option<Warning>,
    /// The first instant of the trace.
    pub(crate) origin: Nanos,
    /// The same window, relative to it.
    pub(crate) cut: Cut,
    /// Sockets, caches and cores, where the trace tells.
    pub(crate) topology: Option<Topology>,
}

impl Window {
    /// What was said about the trace, and about the window.
    fn doubts(&self, said: Vec<Warning>) -> Vec<Warning> {
        said.into_iter().chain(self.clipped.clone()).collect()
    }

    /// Whether rows of this trace have sockets or caches to mark.
    pub(crate) fn has_brackets(&self) -> bool {
        let topology = self.topology.as_ref();
        topology.is_some_and(|topology| schedlab_draw::cores::has_brackets(topology.places()))
    }
}

impl Common {
    /// The defaults, for a picture that goes to `output`.
    fn for_file(output: PathBuf) -> Self {
        Self {
            output,
            min: None,
            max: None,
            width: 1200,
            width_mm: None,
            font_pt: FONT_PT,
            caption: false,
            grey: false,
            topology: None,
            title: None,
            ground: ThemeOption::default(),
            embed_fonts: false,
            scale: 2,
            json: false,
        }
    }

    pub(crate) fn theme(&self) -> Theme {
        if self.grey { Theme::grey() } else { self.ground.theme() }
    }

    /// How much larger than natural the picture is shown.
    fn magnified(&self) -> f64 {
        self.font_pt / FONT_PT
    }

    /// The width in pixels of the natural size.
    fn width(&self) -> i32 {
        let px = self.width_mm.map_or(f64::from(self.width), |mm| f64::from(mm) / 25.4 * 96.0);
        (px / self.magnified()).round() as i32
    }

    /// The title asked for, or `what` of the file's name.
    pub(crate) fn title(&self, what: &str, file: &Path) -> String {
        self.title.clone().unwrap_or_else(|| format!("{what} of {}", name_of(file)))
    }

    /// Opens a trace; one that does not know its span is read once more.
    pub(crate) fn open(&self, file: &Path) -> anyhow::Result<Window> {
        self.open_with(file, &Options::all_cpus())
    }

    /// Opens a trace as [`Self::open`] does.
    pub(crate) fn open_with(&self, file: &Path, options: &Options) -> anyhow::Result<Window> {
        let source = schedlab_trace::open_with(file, options)?;
        let (source, info, whole) = match source.info().span {
            Some(span) => {
                let info = source.info().clone();
                (source, info, span)
            }
            None => {
                let mut first = source;
                let span = schedlab_timeline::span_of(first.as_mut())
                    .with_context(|| format!("{}", file.display()))?;
                // Streams learn tracepoints and marks on the way: now all are known.
                (schedlab_trace::open_with(file, options)?, first.info().clone(), span)
            }
        };
        let since = |point: Option<Point>| point.map(|point| point.since(whole.start));
        let cut = Cut { from: since(self.min), to: since(self.max) };
        let start = whole.start + cut.from.unwrap_or(Nanos::ZERO);
        let end = cut.to.map_or(whole.end, |to| (whole.start + to).min(whole.end));
        if cut.from.is_some() && start >= whole.end || cut.to.is_some() && start >= end {
            bail!(
                "{}: the trace holds nothing between --from {} and --to {}: it lasts {}",
                file.display(),
                self.min.unwrap_or(Nanos::ZERO.into()),
                self.max.unwrap_or(whole.duration().into()),
                whole.duration()
            );
        }
        let topology = match (&source.info().topology, &self.topology) {
            (_, Some(from)) => Some(super::topology::read(from)?),
            (own, None) => own.clone(),
        };
        let late = self.max.filter(|max| max.since(whole.start) > whole.duration());
        let clipped = late.map(|max| {
            let what =
                format!("--to {max} lies behind the end: the trace lasts {}", whole.duration());
            Warning::new("window-clipped", what, "")
        });
        Ok(Window {
            source,
            info,
            clipped,
            span: Span::new(start, end),
            origin: whole.start,
            cut,
            topology,
        })
    }

    /// Opens a trace at the wait that ended its recording, if there is one and no part was asked for.
    pub(crate) fn open_at_trigger(&self, file: &Path, options: &Options) -> anyhow::Result<Window> {
        let mut window = self.open_with(file, options)?;
        let trigger = window.info.trigger.filter(|_| self.min.is_none() && self.max.is_none());
        if let Some(Trigger { pid, since, until }) = trigger {
            let margin = until - since;
            let around = Span::new(since - margin, until + margin);
            let Span { start, end } = around.intersection(window.span);
            let origin = window.origin;
            window.cut = Cut { from: Some(start - origin), to: Some(end - origin) };
            window.span = Span::new(start, end);
            let what =
                format!("the picture shows the wait of task {pid}, which ended the recording");
            window.clipped =
                Some(Warning::new("window-trigger", what, "--from 0s shows the whole recording"));
        }
        Ok(window)
    }

    /// Writes the picture in the format that the name asks for; returns its bytes.
    fn save(&self, scene: &Scene) -> anyhow::Result<usize> {
        let mut scene = scene.clone();
        scene.magnified = (self.magnified() * 1_000.0).round() as u32;
        let scene = &scene;
        let extension = self.output.extension().map(|end| end.to_string_lossy().to_lowercase());
        let bytes = match extension.as_deref() {
            Some("svg") => {
                let options = SvgOptions { embed_fonts: self.embed_fonts, ..SvgOptions::default() };
                schedlab_draw::svg_with(scene, options).into_bytes()
            }
            Some("pdf") => schedlab_draw::pdf(scene),
            Some("png") => schedlab_draw::png(scene, self.scale)?,
            _ => {
                let name = self.output.display();
                return Err(usage(format!(
                    "invalid name {name}: use the ending .svg, .pdf or .png"
                )));
            }
        };
        save(&self.output, &bytes)?;
        Ok(bytes.len())
    }

    /// Writes the picture, and says what it is.
    pub(crate) fn write(&self, scene: &Scene, drawn: &Drawn) -> anyhow::Result<()> {
        let bytes = self.save(scene)?;
        let caption = drawn.caption(&scene.title);
        if self.json {
            json::print(&Document {
                file: PictureFile::of(&self.output, bytes, scene),
                origin_ns: drawn.origin.0.to_string(),
                start_ns: drawn.window.start - drawn.origin,
                end_ns: drawn.window.end - drawn.origin,
                cpus: drawn.cpus,
                tasks: drawn.tasks,
                caption: &caption,
                warnings: &drawn.warnings,
            })?;
        } else {
            writeln!(crate::output::stdout(), "{}", self.output.display())?;
            if self.caption {
                writeln!(crate::output::stdout(), "{caption}")?;
            }
            form::print_notes(&drawn.warnings);
        }
        Ok(())
    }
}

/// What a picture shows, for the summary.
pub(crate) struct Drawn {
    pub(crate) origin: Nanos,
    pub(crate) window: Span,
    pub(crate) cpus: usize,
    pub(crate) tasks: usize,
    /// How many tasks were chosen; `None` is all.
    pub(crate) chosen: Option<usize>,
    pub(crate) warnings: Vec<schedlab_model::Warning>,
}

impl Drawn {
    /// What the picture shows, in a sentence for its caption.
    fn caption(&self, title: &str) -> String {
        let Span { start, end } = self.window;
        let [from, to] = [start, end].map(|at| (at - self.origin).readable());
        let who = match self.chosen {
            Some(chosen) => number_of(chosen, "chosen task"),
            None => number_of(self.tasks, "task"),
        };
        let mut title = title.to_owned();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        format!(
            "{title}: {who} on {} from {from} to {to} of the trace ({}).",
            number_of(self.cpus, "CPU"),
            (end - start).readable()
        )
    }

    /// What a picture of a trace without switches must say itself: it is passed on without our notes.
    pub(crate) fn who_ran_is_not_known(&self) -> Option<String> {
        let doubt = self.warnings.iter().find(|warning| warning.code == "no-switches");
        doubt.map(|warning| warning.what.clone())
    }

    /// Adds what another trace of the same picture has.
    pub(crate) fn join(&mut self, other: Self) {
        self.cpus += other.cpus;
        self.tasks += other.tasks;
        self.warnings.extend(other.warnings);
    }
}

/// What was typed is wrong.
pub(crate) fn usage(what: String) -> anyhow::Error {
    super::UsageError(what).into()
}

/// `schedlab draw --json` of a trace.
#[derive(Serialize, JsonSchema)]
struct Document<'a> {
    #[serde(flatten)]
    file: PictureFile,
    /// Time zero of the other times, in nanoseconds of the trace's clock. A text, since JSON numbers are
    /// doubles to many readers and lose nanoseconds.
    origin_ns: String,
    start_ns: Nanos,
    end_ns: Nanos,
    cpus: usize,
    tasks: usize,
    /// A sentence for the caption.
    caption: &'a str,
    warnings: &'a [Warning],
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/draw/1";
}

/// `schedlab draw --json` of a table.
#[derive(Serialize, JsonSchema)]
struct Chart {
    #[serde(flatten)]
    file: PictureFile,
}

impl json::Document for Chart {
    const ID: &'static str = "schedlab/draw-chart/1";
}

/// A picture that was written.
#[derive(Serialize, JsonSchema)]
struct PictureFile {
    path: String,
    bytes: usize,
    width_px: i32,
    height_px: i32,
}

impl PictureFile {
    fn of(path: &Path, bytes: usize, scene: &Scene) -> Self {
        Self {
            path: path.display().to_string(),
            bytes,
            width_px: scene.width / schedlab_draw::PX,
            height_px: scene.height / schedlab_draw::PX,
        }
    }
}

/// What `draw` prints with `--json`.
pub(crate) fn documents() -> Vec<Schema> {
    vec![json::of::<Document<'_>>(), json::of::<Chart>()]
}
