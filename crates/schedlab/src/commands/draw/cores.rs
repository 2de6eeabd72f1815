//! `schedlab draw cores`.

use super::{Common, Drawn};
use schedlab_draw::cores::{Cores, Size, cores};
use schedlab_draw::duration;
use schedlab_draw::rows::{Colouring, Entry, Rows, RowsAnswer, RowsOptions};
use schedlab_timeline::ask_within;
use std::path::PathBuf;
use std::process::ExitCode;

/// How many meanings of colours the legend lists.
const LEGEND_MAX: usize = 14;

/// Options of `schedlab draw cores`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    #[command(flatten)]
    common: Common,
    /// What decides a task's colour
    #[arg(long, value_enum, default_value_t = ColourBy::Pid)]
    colour_by: ColourBy,
    /// Only tasks whose name begins so have colours; the rest is black
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ColourBy {
    Pid,
    Command,
    Parent,
    Priority,
    Node,
}

impl From<ColourBy> for Colouring {
    fn from(by: ColourBy) -> Self {
        match by {
            ColourBy::Pid => Self::Pid,
            ColourBy::Command => Self::Command,
            ColourBy::Parent => Self::Parent,
            ColourBy::Priority => Self::Priority,
            ColourBy::Node => Self::Node,
        }
    }
}

/// Draws each CPU's row.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let theme = common.theme();
    let mut window = common.open(&args.file)?;
    let size = Size { width_px: common.width, row_px: None };
    let question = Rows::new(RowsOptions {
        window: window.span,
        columns: size.columns(window.topology.is_some()),
        colouring: args.colour_by.into(),
        target: args.target.clone(),
        topology: window.topology.clone(),
        theme: theme.clone(),
    });
    let reply = ask_within(window.source.as_mut(), window.cut, question)?;
    let RowsAnswer { mut rows, names, legend, tasks } = reply.answer;
    for row in &mut rows {
        let topology = window.topology.as_ref();
        row.place = topology.and_then(|topology| topology.place(row.cpu)).copied();
    }
    let drawn = Drawn {
        origin: window.origin,
        window: window.span,
        cpus: rows.len(),
        tasks,
        warnings: reply.warnings,
    };
    let note = format!("{} CPUs, {tasks} tasks, {}", rows.len(), duration(window.span.duration()));
    let picture = Cores {
        title: common.title("cores", &args.file),
        notes: vec![note],
        window: window.span,
        origin: window.origin,
        rows,
        names,
        legend: shown(&legend, &theme),
        marks: Vec::new(),
    };
    common.write(&cores(&picture, size, &theme), &drawn)?;
    Ok(ExitCode::SUCCESS)
}

/// The entries with the most time, and how many more there are.
fn shown(legend: &[Entry], theme: &schedlab_draw::Theme) -> Vec<(schedlab_draw::Colour, String)> {
    let entry = |entry: &Entry| (entry.colour, format!("{} {}", entry.name, duration(entry.time)));
    let mut shown: Vec<_> = legend.iter().take(LEGEND_MAX).map(entry).collect();
    if legend.len() > LEGEND_MAX {
        shown.push((theme.ground, format!("and {} more", legend.len() - LEGEND_MAX)));
    }
    shown
}
