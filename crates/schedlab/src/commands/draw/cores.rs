//! `schedlab draw cores`.

use super::{Common, Drawn};
use crate::commands::trace::input::Selection;
use anyhow::bail;
use schedlab_draw::cores::{Cores, Lane, Mark, Marks, Row, Size, stacked};
use schedlab_draw::marks::{EventMark, Marking, Wanted};
use schedlab_draw::power::{LaneKind, lane};
use schedlab_draw::rows::{Colouring, Entry, Rows, RowsAnswer, RowsOptions, legend_of};
use schedlab_draw::{Chosen, Scene, Theme, duration, number_of};
use schedlab_model::{Cpu, CpuSet, Nanos, Span, Topology, TraceInfo, Warning};
use schedlab_timeline::{
    Chosen as Tasks, Conservation, ConservationAnswer, ConservationOptions, Episode, Power,
    PowerAnswer, State, ask_within,
};
use schedlab_trace::Options;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Changes of frequency, and intervals of idle states and interrupts, that lanes show.
const LANES_MAX: usize = 4_000_000;

/// How many meanings of colours the legend lists.
const LEGEND_MAX: usize = 14;

/// Options of `schedlab draw cores`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Traces, in any format that schedlab reads; several are drawn below each other
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    view: View,
}

/// Which rows, what colours by what, which marks: also what a recipe describes.
#[derive(clap::Args, Clone, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct View {
    /// Choose colours by this
    #[arg(long, value_enum, default_value_t = ColourBy::Pid)]
    pub(crate) colour_by: ColourBy,
    /// Colour only tasks whose name starts with NAME; draw the rest black (dim on dark)
    #[arg(long, value_name = "NAME")]
    pub(crate) target: Option<String>,
    /// Order rows by CPU number, or group sockets, caches and SMT siblings
    #[arg(long, value_enum, default_value_t = Order::Cpu)]
    pub(crate) order: Order,
    /// Draw these marks on the rows
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,..")]
    pub(crate) marks: Vec<MarkKind>,
    /// Mark an event: NAME[:CONDITION,..] with conditions comm=, pid=, cpu= or a field of the
    /// tracepoint, as in irq_handler_entry:irq=42; mark/NAME is a user mark (repeatable)
    #[arg(long, value_name = "EVENT[:FILTER]")]
    pub(crate) mark: Vec<String>,
    /// Draw lanes along each row: what its CPU was in (`schedlab record` records it)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,..")]
    pub(crate) lanes: Vec<LaneOf>,
    /// Draw only these CPUs
    #[arg(long, value_name = "LIST")]
    pub(crate) cpus: Option<schedlab_model::CpuSet>,
    /// Height of a row in pixels [default: as it fits]
    #[arg(long, value_name = "PX", value_parser = clap::value_parser!(i32).range(1..=200))]
    pub(crate) row_height: Option<i32>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ColourBy {
    #[default]
    Pid,
    Command,
    Parent,
    Priority,
    Node,
    Frequency,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LaneOf {
    /// Frequencies
    Frequency,
    /// Idle states
    Idle,
    /// IPIs and hrtimers
    Interrupts,
}

impl LaneOf {
    const fn kind(self) -> LaneKind {
        match self {
            Self::Frequency => LaneKind::Frequency,
            Self::Idle => LaneKind::Idle,
            Self::Interrupts => LaneKind::Interrupts,
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Order {
    #[default]
    Cpu,
    Socket,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MarkKind {
    Wakeups,
    Migrations,
    Overload,
    #[value(alias = "violations")]
    #[serde(alias = "violations")]
    Episodes,
}

impl From<ColourBy> for Colouring {
    fn from(by: ColourBy) -> Self {
        match by {
            ColourBy::Pid => Self::Pid,
            ColourBy::Command => Self::Command,
            ColourBy::Parent => Self::Parent,
            ColourBy::Priority => Self::Priority,
            ColourBy::Node => Self::Node,
            ColourBy::Frequency => Self::Frequency,
        }
    }
}

impl View {
    /// The marks asked for.
    fn wanted(&self) -> anyhow::Result<Vec<Wanted>> {
        let mut wanted: Vec<Wanted> = self
            .marks
            .iter()
            .filter_map(|kind| match kind {
                MarkKind::Wakeups => Some(Wanted::Wakeups),
                MarkKind::Migrations => Some(Wanted::Migrations),
                MarkKind::Overload => Some(Wanted::Overload),
                MarkKind::Episodes => None, // another question's answer
            })
            .collect();
        for text in &self.mark {
            let mark: EventMark =
                text.parse().map_err(|error| super::usage(format!("--mark {text}: {error}")))?;
            wanted.push(Wanted::Events(mark));
        }
        Ok(wanted)
    }
}

impl View {
    /// Whether frequencies, idle states, IPIs or timers are asked for.
    fn wants_power(&self) -> bool {
        self.colour_by == ColourBy::Frequency || !self.lanes.is_empty()
    }

    /// The lanes; fails where the trace has nothing for one of them.
    fn lanes_of(
        &self,
        found: Option<&PowerAnswer>,
        window: Span,
        theme: &Theme,
        file: &Path,
    ) -> anyhow::Result<Vec<Lane>> {
        let made = |kind: &LaneOf| {
            let made = lane(kind.kind(), found?, window, theme);
            (!made.pieces.is_empty()).then_some(made)
        };
        let absent = |kind: &LaneOf| {
            let what = match kind {
                LaneOf::Frequency => "changes of frequency (cpu_frequency)",
                LaneOf::Idle => "idle states (cpu_idle)",
                LaneOf::Interrupts => "IPIs or hrtimers",
            };
            anyhow::anyhow!(
                "{}: no {what} in this part of the trace: record them with `schedlab record --for power`",
                file.display()
            )
        };
        self.lanes.iter().map(|kind| made(kind).ok_or_else(|| absent(kind))).collect()
    }

    /// Fails when the trace cannot tell what the picture needs.
    fn can_be_drawn(
        &self,
        topology: Option<&Topology>,
        info: &TraceInfo,
        file: &Path,
    ) -> anyhow::Result<()> {
        let file = file.display();
        if self.order == Order::Socket && topology.is_none() {
            return Err(super::usage(format!(
                "{file}: the trace does not hold which CPUs share a socket: use --topology FILE \
                 (output of 'lscpu -p', or a copy of /sys) or --topology host"
            )));
        }
        let has_frequencies = || info.others.iter().any(|other| other.name == "cpu_frequency");
        if self.colour_by == ColourBy::Frequency && !has_frequencies() {
            bail!(
                "{file}: --colour-by frequency: no cpu_frequency events in the trace: record them \
                 with `schedlab record --for power`"
            );
        }
        Ok(())
    }

    /// Fails when what was asked for is not in the trace: an empty picture would look like an answer.
    fn check(
        &self,
        rows: &[Row],
        names: &[String],
        state: &State,
        file: &Path,
    ) -> anyhow::Result<()> {
        let file = file.display();
        if let Some(cpus) = self.cpus.as_ref().filter(|_| rows.is_empty()) {
            let all: CpuSet = state.observed_cpus().map(|(cpu, _)| cpu).collect();
            bail!("{file}: no CPU of --cpus {cpus} is in the trace: it has {all}");
        }
        if let Some(target) = &self.target
            && !names.iter().any(|name| name.starts_with(target.as_str()))
        {
            bail!(
                "{file}: no task's name starts with --target {target}: `schedlab trace tasks \
                 --top 0 {file}` lists the tasks"
            );
        }
        Ok(())
    }
}

/// Draws each CPU's row.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let (scene, drawn) = draw(&args.files, &args.common, &args.view, Some(&args.selection))?;
    args.common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}

/// The picture of one or more traces.
pub(super) fn draw(
    files: &[PathBuf],
    common: &Common,
    view: &View,
    selection: Option<&Selection>,
) -> anyhow::Result<(Scene, Drawn)> {
    let theme = common.theme();
    let size = Size { width_px: common.width(), row_px: view.row_height };
    let mut traces = Vec::new();
    let mut all: Option<Drawn> = None;
    // One name has one colour in all rows of the picture.
    let mut given: Vec<Entry> = Vec::new();
    for file in files {
        let (mut cores, legend, drawn) = like(file, common, view, selection, size, &theme, &given)?;
        if let (Some(title), true) = (&common.title, files.len() > 1) {
            // One title for all would not say which trace is which.
            cores.title = format!("{}: {title}", super::name_of(file));
        }
        given.extend(legend);
        traces.push(cores);
        match &mut all {
            Some(all) => all.join(drawn),
            None => all = Some(drawn),
        }
    }
    let drawn = all.ok_or_else(|| super::usage("name a trace".to_owned()))?;
    Ok((stacked(&traces, size, &theme), drawn))
}

/// The rows of one trace.
pub(super) fn trace(
    file: &Path,
    common: &Common,
    view: &View,
    size: Size,
    theme: &Theme,
) -> anyhow::Result<(Cores, Drawn)> {
    let (cores, _, drawn) = like(file, common, view, None, size, theme, &[])?;
    Ok((cores, drawn))
}

/// The rows of one trace, and what its colours mean. A name that `given` has keeps its colour.
fn like(
    file: &Path,
    common: &Common,
    view: &View,
    selection: Option<&Selection>,
    size: Size,
    theme: &Theme,
    given: &[Entry],
) -> anyhow::Result<(Cores, Vec<Entry>, Drawn)> {
    let wanted = view.wanted()?;
    let events: Vec<EventMark> = wanted.iter().filter_map(Wanted::event).cloned().collect();
    let arguments = events.iter().any(EventMark::has_fields) || view.wants_power();
    let chosen = match selection {
        Some(selection) => super::chosen(selection, common, file)?,
        None => Tasks::all(),
    };
    let mut window = common.open_at_trigger(file, &Options { arguments, ..Options::all_cpus() })?;
    view.can_be_drawn(window.topology.as_ref(), &window.info, file)?;
    let columns = size.columns(window.has_brackets());
    let rows = Rows::new(RowsOptions {
        window: window.span,
        columns,
        colouring: view.colour_by.into(),
        target: view.target.clone(),
        cpus: view.cpus.clone(),
        topology: window.topology.clone(),
        theme: theme.clone(),
    })
    .like(given)
    .about(chosen.clone());
    let marking = (!wanted.is_empty())
        .then(|| Marking::new(window.span, columns, wanted, &window.info, theme.clone()));
    let conservation = view
        .marks
        .contains(&MarkKind::Episodes)
        .then(|| Conservation::new(ConservationOptions::default(), &window.info));
    let power = (!view.lanes.is_empty()).then(|| Power::new(LANES_MAX).with_spans(LANES_MAX));
    let question = (rows, marking, conservation, power);
    let mut source = Chosen::new(window.source.as_mut(), events.clone());
    let reply = ask_within(&mut source, window.cut, question)?;
    let (RowsAnswer { mut rows, names, legend, tasks }, marks, conservation, power) = reply.answer;
    let lanes = view.lanes_of(power.as_ref(), window.span, theme, file)?;
    view.check(&rows, &names, &reply.state, file)?;
    let mut marks = marks.unwrap_or_default();
    marks.extend(conservation.map(|found| episodes(&found, view.cpus.as_ref(), theme)));
    if let Some(topology) = &window.topology {
        arrange(&mut rows, topology, view.order);
    }
    let drawn = Drawn {
        origin: window.origin,
        window: window.span,
        cpus: rows.len(),
        tasks,
        chosen: chosen.count(),
        warnings: window
            .doubts(reply.warnings)
            .into_iter()
            .chain(unknown(&events, &window.info))
            .chain(power.and_then(|found| left_out(&found)))
            .collect(),
    };
    let cpus = number_of(rows.len(), "CPU");
    let tasks = number_of(tasks, "task");
    let note = format!("{cpus}, {tasks}, {}", duration(window.span.duration()));
    let notes = [Some(note), drawn.who_ran_is_not_known()].into_iter().flatten().collect();
    let cores = Cores {
        title: common.title("cores", file),
        notes,
        window: window.span,
        origin: window.origin,
        rows,
        names,
        legend: legend_of(&legend, LEGEND_MAX),
        marks,
        labels: Vec::new(),
        lanes,
    };
    Ok((cores, legend, drawn))
}

/// Gives each row its place, and with sockets together their order.
fn arrange(rows: &mut [Row], topology: &Topology, order: Order) {
    for row in rows.iter_mut() {
        row.place = topology.place(row.cpu).copied();
    }
    if order == Order::Socket {
        let rank = ranks(topology);
        rows.sort_by_key(|row| rank(row.cpu));
    }
}

/// Marks whose events the trace does not have.
fn unknown(marks: &[EventMark], info: &TraceInfo) -> impl Iterator<Item = Warning> {
    let absent = marks.iter().filter(|mark| !mark.is_known(info));
    absent.map(|mark| {
        let what = format!("--mark {}: the trace has no such event", mark.text);
        Warning::new("mark-unknown", what, "`schedlab trace info` lists those that it has")
    })
}

/// Lanes that end before the trace does.
fn left_out(found: &PowerAnswer) -> Option<Warning> {
    (found.left_out > 0).then(|| {
        let what = format!("{} changes and intervals of lanes are left out", found.left_out);
        Warning::new("lanes-cut", what, "name a shorter part with --from and --to")
    })
}

/// A bar where the queue of a CPU had a waiter that a free CPU could serve.
fn episodes(found: &ConservationAnswer, cpus: Option<&CpuSet>, theme: &Theme) -> Marks {
    let bar = |episode: &Episode| Mark::Bar {
        span: Span::new(episode.start, episode.end),
        cpu: episode.overloaded,
    };
    let here = |episode: &&Episode| cpus.is_none_or(|cpus| cpus.contains(episode.overloaded));
    let shown: Vec<&Episode> = found.episodes.iter().filter(here).collect();
    let lost = shown.iter().fold(Nanos::ZERO, |sum, found| sum + found.cost);
    Marks {
        name: format!("{} of CPU time lost in {} episodes", duration(lost), shown.len()),
        colour: theme.alarm,
        marks: shown.into_iter().map(bar).collect(),
    }
}

/// Where a CPU stands in socket order; CPUs that the topology does not know come last.
fn ranks(topology: &Topology) -> impl Fn(Cpu) -> (usize, Cpu) {
    let order = topology.socket_order();
    move |cpu| {
        let place = order.iter().position(|other| *other == cpu);
        (place.unwrap_or(usize::MAX), cpu)
    }
}
