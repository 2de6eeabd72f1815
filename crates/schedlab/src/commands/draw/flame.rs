//! `schedlab draw flame`: time off the CPU by call stack.

use super::{Common, Drawn};
use crate::commands::trace::input::{Input, Selection, Symbols};
use crate::commands::trace::stacks;
use schedlab_draw::flame::Flame;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab draw flame`.
#[derive(clap::Args)]
#[command(after_help = "\
A box is a function, as wide as the time for which tasks were off their CPUs in it. Boxes of
callers are below. `[run delay]` is the time from the wakeup until the task ran. In a browser, each
box of an SVG tells its name and its time. `schedlab trace stacks --folded` prints the same for
other tools.

Examples:
  perf sched record -g -- sleep 5 && schedlab draw flame perf.data -o off.svg
  schedlab record --stacks -o x.dat -- make && schedlab draw flame x.dat --comm make -o off.svg")]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    symbols: Symbols,
    #[command(flatten)]
    common: Common,
}

/// Draws it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let input = Input::part_of(&args.file, common.min, common.max).with_symbols(&args.symbols);
    let reply = stacks::ask(&input, &args.selection)?;
    let mut tasks: Vec<_> = reply.answer.rows.iter().map(|row| row.task).collect();
    tasks.dedup();
    let picture = Flame {
        title: common.title("Off-CPU time", &args.file),
        notes: vec![stacks::headline(&reply)],
        stacks: reply.answer.folded(&reply.state),
    };
    let scene = picture.scene(common.width(), &common.theme());
    let drawn = Drawn {
        origin: reply.origin,
        window: reply.observed,
        cpus: reply.state.observed_cpus().count(),
        tasks: tasks.len(),
        chosen: args.selection.is_any().then_some(tasks.len()),
        warnings: reply.warnings,
    };
    common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}
