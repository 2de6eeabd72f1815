//! `schedlab draw waiting`.

use super::{Common, Drawn};
use schedlab_draw::levels::Levels;
use schedlab_draw::waiting::{Curve, Running, Tints, columns, waiting};
use schedlab_draw::{duration, number_of};
use schedlab_timeline::ask_within;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab draw waiting`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    #[command(flatten)]
    common: Common,
    /// Draw a curve for each socket too
    #[arg(long)]
    sockets: bool,
}

/// Draws how many tasks ran and waited.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let theme = common.theme();
    let (running, drawn) = collect(&args.file, common, args.sockets)?;
    common.write(&waiting(&running, common.width, Tints::of(&theme), &theme), &drawn)?;
    Ok(ExitCode::SUCCESS)
}

/// What the picture of one trace shows.
pub(super) fn collect(
    file: &Path,
    common: &Common,
    sockets: bool,
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
    let question = Levels::new(window.span, columns(common.width), parts);
    let reply = ask_within(window.source.as_mut(), window.cut, question)?;
    let curves: Vec<Curve> = reply.answer;
    let cpus = curves.first().map_or(0, |curve| curve.cpus);
    let drawn = Drawn {
        origin: window.origin,
        window: window.span,
        cpus: cpus as usize,
        tasks: reply.state.task_count(),
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
