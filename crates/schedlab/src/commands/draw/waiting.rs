//! `schedlab draw waiting`.

use super::{Common, Drawn};
use crate::commands::trace::input::Selection;
use schedlab_draw::levels::Levels;
use schedlab_draw::waiting::{Curve, Level, Running, Tints, columns, waiting};
use schedlab_draw::{duration, number_of};
use schedlab_model::Nanos;
use schedlab_timeline::{Chosen, Waiting, WaitingAnswer, ask_within};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab draw waiting`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    selection: Selection,
    /// Draw a curve for each socket too
    #[arg(long)]
    sockets: bool,
}

/// Draws how many tasks ran and waited.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let theme = common.theme();
    let chosen = super::chosen(&args.selection, common, &args.file)?;
    let (running, drawn) = collect(&args.file, common, args.sockets, chosen)?;
    common.write(&waiting(&running, common.width(), Tints::of(&theme), &theme), &drawn)?;
    Ok(ExitCode::SUCCESS)
}

/// What the picture of one trace shows.
pub(super) fn collect(
    file: &Path,
    common: &Common,
    sockets: bool,
    chosen: Chosen,
) -> anyhow::Result<(Running, Drawn)> {
    let mut window = common.open(file)?;
    let parts = match (&window.topology, sockets) {
        (_, false) => Vec::new(),
        (Some(topology), true) => {
            let sockets = topology.groups(|place| place.socket).into_iter();
            sockets.map(|(label, cpus)| (format!("socket {label}"), cpus)).collect()
        }
        (None, true) => {
            return Err(super::usage(format!(
                "{}: the trace does not hold which CPUs share a socket: use --topology FILE or \
                 --topology host",
                file.display()
            )));
        }
    };
    if sockets && !chosen.is_all() {
        return Err(super::usage(
            "--sockets draws all tasks: leave out --pid, --comm, --regex and --cgroup".to_owned(),
        ));
    }
    let count = chosen.count();
    let columns = columns(common.width());
    let levels = chosen.is_all().then(|| Levels::new(window.span, columns, parts));
    let some = count.map(|_| Waiting::within(window.span, columns as usize).about(chosen));
    let reply = ask_within(window.source.as_mut(), window.cut, (levels, some))?;
    let observed = u32::try_from(reply.state.observed_cpus().count()).unwrap_or(u32::MAX);
    let (levels, some) = reply.answer;
    let curves =
        levels.unwrap_or_else(|| some.iter().map(|some| curve_of(some, observed)).collect());
    let cpus = curves.first().map_or(0, |curve| curve.cpus);
    let drawn = Drawn {
        origin: window.origin,
        window: window.span,
        cpus: cpus as usize,
        tasks: reply.state.task_count(),
        chosen: count,
        warnings: window.doubts(reply.warnings),
    };
    let note = format!("{}, {}", number_of(cpus as usize, "CPU"), duration(window.span.duration()));
    let notes = [Some(note), drawn.who_ran_is_not_known()].into_iter().flatten().collect();
    let picture = Running {
        title: common.title("running and waiting tasks", file),
        notes,
        window: window.span,
        origin: window.origin,
        curves,
    };
    Ok((picture, drawn))
}

/// The curve of the chosen tasks. How many were runnable at one instant of a column is told for all tasks only.
fn curve_of(some: &WaitingAnswer, cpus: u32) -> Curve {
    let level = |bin: &schedlab_timeline::Bin| Level {
        running: Nanos(u64::try_from(bin.running_ns).unwrap_or(u64::MAX)),
        waiting: Nanos(u64::try_from(bin.waiting_ns).unwrap_or(u64::MAX)),
        ..Level::default()
    };
    Curve { name: String::new(), cpus, levels: some.bins.iter().map(level).collect() }
}
