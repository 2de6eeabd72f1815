//! `schedlab draw waiting`.

use super::{Common, Drawn};
use schedlab_draw::duration;
use schedlab_draw::levels::Levels;
use schedlab_draw::waiting::{Running, Tints, columns, waiting};
use schedlab_timeline::ask_within;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab draw waiting`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Draws how many tasks ran and waited.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let theme = common.theme();
    let mut window = common.open(&args.file)?;
    let question = Levels::new(window.span, columns(common.width));
    let reply = ask_within(window.source.as_mut(), window.cut, question)?;
    let curve = reply.answer;
    let drawn = Drawn {
        origin: window.origin,
        window: window.span,
        cpus: curve.cpus as usize,
        tasks: reply.state.task_count(),
        warnings: reply.warnings,
    };
    let note = format!("{} CPUs, {}", curve.cpus, duration(window.span.duration()));
    let picture = Running {
        title: common.title("running and waiting tasks", &args.file),
        notes: vec![note],
        window: window.span,
        origin: window.origin,
        curves: vec![curve],
    };
    let scene = waiting(&picture, common.width, Tints::of(&theme), &theme);
    common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}
