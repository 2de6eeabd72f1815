//! What a recorded run tells: who waited how long, who was displaced, where CPUs idled.

use super::{Section, Table, ThemedScene, readable};
use crate::Drawing;
use schedlab_draw::cores::{Cores, Size, cores};
use schedlab_draw::levels::Levels;
use schedlab_draw::page::{Columns, Listening, notes, page};
use schedlab_draw::rows::{Colouring, Rows, RowsAnswer, RowsOptions, legend_of};
use schedlab_draw::waiting::{Curve, Running, Tints, columns, waiting};
use schedlab_draw::{Belongs, Scene, Theme, number_of};
use schedlab_model::table::{self, Row};
use schedlab_model::{Known, Nanos, Span, Topology, Unit, shell_word};
use schedlab_timeline::{
    Conservation, ConservationOptions, Cpus, CpusAnswer, Cut, Delays, Latency, LatencyAnswer,
    Power, Reply, TaskRow, Tasks, TasksAnswer, ask, ask_within, span_of,
};
use schedlab_trace::{Options, TraceError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Commands that are listed by name; the rest is in the total.
const COMMANDS_MAX: usize = 12;
const LEGEND_MAX: usize = 10;
/// Larger pages are left out of a report, which goes by mail.
const PAGE_MAX: usize = 3_000_000;
/// What a page's slices may take before compression.
const SLICES_MAX: usize = 8 << 20;
/// Changes of frequency that the page shows, and intervals of idle states, IPIs and timers.
const POWER_MAX: usize = 20_000;
/// Episodes that the page lists, costliest first.
const NOTES_MAX: usize = 300;
/// Width of pictures in a report, in pixels of their own.
pub(super) const WIDTH_PX: i32 = 1100;
/// Longer traces get a second picture that shows single slices: this much of their middle.
const CLOSE_UP: Nanos = Nanos::from_millis(20);

/// Why a trace could not be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] TraceError),
    /// It cannot be read on.
    #[error("{}: {error}", path.display())]
    Read {
        path: PathBuf,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
}

/// Which pictures of a trace are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracePictures {
    /// Each CPU's row over time.
    pub(crate) cores: bool,
    /// Tasks running and waiting over time.
    pub(crate) waiting: bool,
}

impl TracePictures {
    /// What an experiment wants drawn; both where it does not say.
    #[must_use]
    pub fn of(draw: &[Drawing]) -> Self {
        let wants = |picture| draw.is_empty() || draw.contains(&picture);
        Self { cores: wants(Drawing::Cores), waiting: wants(Drawing::Waiting) }
    }
}

/// The section of one trace: pictures of its CPUs and of running and waiting tasks, latencies,
/// switches, migrations, and their warnings. The page
/// to move in is in it while it is small. Memory is bounded by its tasks and pixels, and that limit.
///
/// # Errors
/// When the trace cannot be read.
pub fn trace_section(
    title: &str,
    path: &Path,
    wanted: TracePictures,
) -> Result<Section, ShowError> {
    let read = |error| ShowError::Read { path: path.to_owned(), error };
    let mut source = schedlab_trace::open(path)?;
    let span = span_of(source.as_mut()).map_err(read)?;
    let options = Options { arguments: true, ..Options::default() };
    let mut source = schedlab_trace::open_with(path, &options)?;
    let topology = source.info().topology.clone();
    let episodes = ConservationOptions { limit: NOTES_MAX, ..ConservationOptions::default() };
    let question = (
        (Latency::new(), Tasks::by_distance(topology.clone()), Cpus::new()),
        both_rows(span, topology.as_ref()),
        Levels::new(span, columns(WIDTH_PX), Vec::new()),
        (
            Columns::new(span).with_marks(source.info()).without_power().at_most(SLICES_MAX),
            Conservation::new(episodes, source.info()),
            Power::new(POWER_MAX).with_spans(POWER_MAX),
        ),
    );
    let mut listening = Listening::new(source.as_mut()).without_power();
    let reply = ask(&mut listening, question).map_err(read)?;
    let mut others = None;
    let reply = reply.map(|((latency, tasks, cpus), rows, curve, shown)| {
        others = Some((latency, cpus, rows, curve, shown));
        tasks
    });
    let (latency, cpus, rows, curve, shown) = others.expect("the reply has an answer");
    let (slices, found, power) = shown;
    let slices = slices.with_arguments(listening.said()).with_power(power);
    let slices = slices.with_owners(&Belongs::of(source.info()), &reply.state);
    let mut section = Section::new(title);
    section.paragraph(format!(
        "{} were observed. Wakeup latency is from the wakeup of a sleeping task to its running; run delay is \
         all time in which a task was runnable and did not run, after wakeups and after being displaced alike.",
        time(reply.observed.duration())
    ));
    if wanted.cores {
        let drawn = draw_both(rows, span, span.start, topology.as_ref());
        section.picture(drawn.svg(), CORES);
    }
    if wanted.waiting {
        let drawn = ThemedScene::of(|theme| draw_curve(curve.clone(), span, theme));
        section.picture(drawn.svg(), WAITING);
    }
    if let Some(window) = close_up(span).filter(|_| wanted.cores) {
        let drawn = close_up_of(path, span, window)?;
        let from = time(window.start - span.start);
        let caption = format!("The same, close up: {} from {from} on.", time(window.duration()));
        section.picture(drawn.svg(), caption);
    }
    let notes = notes(&found, &reply.state);
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let html = || page(&name, &slices, topology.as_ref(), &notes, found.count);
    match Some(()).filter(|()| slices.is_whole()).map(|()| html()) {
        Some(html) if html.len() <= PAGE_MAX => section.page(PAGE, html),
        _ => section.paragraph(format!(
            "The interactive page would make this report too large. This command writes it: \
             schedlab view {}",
            quoted(path)
        )),
    };
    section.table(latencies(&latency, &reply.known));
    section.table(switches(&reply)).table(cpu_table(&cpus, &reply.known));
    section.warnings(&reply.warnings);
    Ok(section)
}

const CORES: &str = "Each CPU's row over time: a colour for each task, white where the CPU idled. Where slices \
    are finer than a pixel, a column is the mean of what ran in it.";
const WAITING: &str = "Tasks that ran, and on top of them tasks that waited for a CPU. Above the \
    dotted line (the number of CPUs) tasks have to wait; tasks that wait below it could have run.";

const PAGE: &str = "Move in this trace: zoom, search, hover, follow a task, go to episodes";

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=,".contains(c);
    match text.chars().all(plain) {
        true => text.into_owned(),
        false => shell_word(&text),
    }
}

/// The rows on light and on dark ground, from one pass: their shades are means of colours.
type BothRows = (RowsAnswer, RowsAnswer);

fn both_rows(window: Span, topology: Option<&Topology>) -> (Rows, Rows) {
    (rows(window, topology, Theme::light()), rows(window, topology, Theme::dark()))
}

pub(super) fn rows(window: Span, topology: Option<&Topology>, theme: Theme) -> Rows {
    let size = Size { width_px: WIDTH_PX, row_px: None };
    Rows::new(RowsOptions {
        window,
        columns: size.columns(topology.is_some()),
        colouring: Colouring::Command,
        target: None,
        cpus: None,
        topology: topology.cloned(),
        theme,
    })
}

pub(super) fn draw_rows(
    answer: RowsAnswer,
    window: Span,
    origin: Nanos,
    topology: Option<&Topology>,
    theme: &Theme,
) -> Scene {
    let RowsAnswer { mut rows, names, legend, tasks } = answer;
    for row in &mut rows {
        row.place = topology.and_then(|t| t.place(row.cpu)).copied();
    }
    let cpus = number_of(rows.len(), "CPU");
    let tasks = number_of(tasks, "task");
    let notes = vec![format!("{cpus}, {tasks}, {}", time(window.duration()))];
    let legend = legend_of(&legend, LEGEND_MAX);
    let title = "CPUs over time".to_owned();
    let marks = Vec::new();
    let labels = Vec::new();
    let picture = Cores {
        title,
        notes,
        window,
        origin,
        rows,
        names,
        legend,
        marks,
        labels,
        lanes: Vec::new(),
    };
    cores(&picture, Size { width_px: WIDTH_PX, row_px: None }, theme)
}

fn draw_both(
    (light, dark): BothRows,
    window: Span,
    origin: Nanos,
    topology: Option<&Topology>,
) -> ThemedScene {
    ThemedScene {
        light: draw_rows(light, window, origin, topology, &Theme::light()),
        dark: draw_rows(dark, window, origin, topology, &Theme::dark()),
    }
}

pub(super) fn draw_curve(curves: Vec<Curve>, window: Span, theme: &Theme) -> Scene {
    let cpus = curves.first().map_or(0, |curve| curve.cpus);
    let running = Running {
        title: "Running and waiting tasks".into(),
        notes: vec![format!("{}, {}", number_of(cpus as usize, "CPU"), time(window.duration()))],
        window,
        origin: window.start,
        curves,
    };
    waiting(&running, WIDTH_PX, Tints::of(theme), theme)
}

/// The middle of a long trace.
pub(super) fn close_up(span: Span) -> Option<Span> {
    let length = span.duration();
    (length.0 > 4 * CLOSE_UP.0).then(|| {
        let start = Nanos(span.start.0 + length.0 / 2);
        Span::new(start, start + CLOSE_UP)
    })
}

pub(super) fn close_up_of(path: &Path, span: Span, window: Span) -> Result<ThemedScene, ShowError> {
    let options = Options { arguments: true, ..Options::default() };
    let mut source = schedlab_trace::open_with(path, &options)?;
    let topology = source.info().topology.clone();
    let cut = Cut { from: Some(window.start - span.start), to: Some(window.end - span.start) };
    let reply = ask_within(source.as_mut(), cut, both_rows(window, topology.as_ref()))
        .map_err(|error| ShowError::Read { path: path.to_owned(), error })?;
    Ok(draw_both(reply.answer, window, span.start, topology.as_ref()))
}

const DELAYS: [&str; 10] = [
    "wakeup.count",
    "wakeup.latency_ns_p50",
    "wakeup.latency_ns_p90",
    "wakeup.latency_ns_p99",
    "wakeup.latency_ns_p999",
    "run_delay.count",
    "run_delay.latency_ns_p50",
    "run_delay.latency_ns_p90",
    "run_delay.latency_ns_p99",
    "run_delay.latency_ns_p999",
];

/// A row for each command, those that waited most first, and one for all.
fn latencies(latency: &LatencyAnswer, known: &Known) -> Table {
    let mut commands: BTreeMap<&str, Delays> = BTreeMap::new();
    for row in &latency.tasks {
        commands.entry(&row.comm).or_default().merge(&row.delays);
    }
    let mut commands: Vec<_> =
        commands.into_iter().filter(|(_, delays)| !delays.run_delay.is_empty()).collect();
    commands.sort_by_key(|(_, delays)| std::cmp::Reverse(delays.run_delay.sum()));
    commands.truncate(COMMANDS_MAX);
    let (mut names, mut rows): (Vec<&str>, Vec<Delays>) = commands.into_iter().unzip();
    names.push(ALL_TASKS);
    rows.push(latency.total.clone());
    let heads = names.into_iter().map(|name| vec![name.to_owned()]);
    chosen(&["command"], heads, &table::Rows::new(&rows, Nanos::ZERO).known(known), &DELAYS)
}

/// The last row, which is of all commands.
const ALL_TASKS: &str = "all tasks";

/// The named columns of rows, behind columns of a head for each row.
fn chosen<R: Row>(
    titles: &[&str],
    heads: impl Iterator<Item = Vec<String>>,
    rows: &table::Rows<'_, R>,
    names: &[&str],
) -> Table {
    let (own, cells) = rows.cells(names);
    let mut table = Table::new(titles.iter().map(|&title| title.to_owned()).chain(own));
    for (head, cells) in heads.zip(cells) {
        table.row([head, cells].concat());
    }
    table
}

const SWITCHES: [&str; 4] = ["run_ns", "switches_voluntary", "switches_involuntary", "migrations"];

/// A row for each command, those that ran longest first, and one for all.
fn switches(reply: &Reply<TasksAnswer>) -> Table {
    let mut commands: BTreeMap<&str, (u64, TaskRow)> = BTreeMap::new();
    let mut all: Option<(u64, TaskRow)> = None;
    let add = |(tasks, sum): &mut (u64, TaskRow), row: &TaskRow| {
        *tasks += 1;
        sum.ran += row.ran;
        sum.voluntary += row.voluntary;
        sum.involuntary += row.involuntary;
        sum.migrations += row.migrations;
    };
    for row in &reply.answer.rows {
        let own = commands.get_mut(&*row.comm);
        match own {
            Some(own) => add(own, row),
            None => drop(commands.insert(&row.comm, (1, row.clone()))),
        }
        match &mut all {
            Some(all) => add(all, row),
            None => all = Some((1, row.clone())),
        }
    }
    let mut commands: Vec<_> = commands.into_iter().collect();
    commands.sort_by_key(|(_, (_, sum))| std::cmp::Reverse(sum.ran));
    commands.truncate(COMMANDS_MAX);
    commands.extend(all.map(|all| (ALL_TASKS, all)));
    let head =
        |(name, (tasks, _)): &(&str, (u64, TaskRow))| vec![(*name).to_owned(), tasks.to_string()];
    let heads: Vec<Vec<String>> = commands.iter().map(head).collect();
    let sums: Vec<TaskRow> = commands.into_iter().map(|(_, (_, sum))| sum).collect();
    let rows = reply.rows(&sums);
    let rows = table::Rows::new(&rows, Nanos::ZERO).known(&reply.known);
    chosen(&["command", "tasks"], heads.into_iter(), &rows, &SWITCHES)
}

const CPUS: [&str; 7] =
    ["cpu", "utilisation", "idle_ns", "unknown_ns", "switches", "overloaded_ns", "waiting_max"];

fn cpu_table(cpus: &CpusAnswer, known: &Known) -> Table {
    let rows = table::Rows::new(&cpus.rows, Nanos::ZERO).known(known);
    let heads = cpus.rows.iter().map(|_| Vec::new());
    chosen(&[], heads, &rows, &CPUS)
}

fn time(time: Nanos) -> String {
    readable(time.0 as f64, Unit::Nanoseconds)
}

#[cfg(test)]
mod tests;
