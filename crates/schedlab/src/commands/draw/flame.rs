//! `schedlab draw flame`: time off the CPU by call stack.

use super::{Common, Drawn};
use crate::commands::trace::input::{Input, Selection, Symbols};
use crate::commands::trace::stacks::{self, Which};
use schedlab_draw::flame::{Flame, FlameStacks};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab draw flame`.
#[derive(clap::Args)]
#[command(after_help = "\
A box is a function, as wide as the time for which tasks were off their CPUs in it. Boxes of
callers are below. `[run delay]` is the time from the wakeup until the task ran. In a browser, each
box of an SVG tells its name and its time. `schedlab trace stacks --folded` prints the same for
other tools.

With --causes, boxes on `[run delay]` show why the task waited, and `[displaced]` is a task that
lost its CPU. Then the whole width is all the time off the CPU. With --minus, widths are those of
the trace itself and colours show the change.

Examples:
  schedlab draw flame x.dat --causes -o waits.svg
  schedlab draw flame b.dat --minus a.dat -o change.svg
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
    which: Which,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let input = Input::part_of(&args.file, common.min, common.max).with_symbols(&args.symbols);
    let what = if args.which.running { "on-CPU time" } else { "off-CPU time" };
    let (picture, side) = match &args.which.minus {
        None => {
            let side = stacks::side(&input, &args.selection, &args.which)?;
            let stacks = match args.which.running {
                true => FlameStacks::Running(side.folded.clone()),
                false => FlameStacks::Times(side.folded.clone()),
            };
            let what = format!("{}{}", what[..1].to_uppercase(), &what[1..]);
            let title = common.title(&what, &args.file);
            (Flame { title, notes: vec![side.headline.clone()], stacks }, side)
        }
        Some(before) => {
            let changed = stacks::since(before, &input, &args.selection, &args.which)?;
            let notes = changed.headlines().to_vec();
            let what = format!("Change of {what} from {} to", super::name_of(before));
            let title = common.title.clone();
            let title = title.unwrap_or_else(|| format!("{what} {}", super::name_of(&args.file)));
            let stacks = FlameStacks::Changes(changed.stacks);
            let mut side = changed.after;
            for told in changed.before.warnings {
                if !side.warnings.contains(&told) {
                    side.warnings.push(told);
                }
            }
            (Flame { title, notes, stacks }, side)
        }
    };
    let scene = picture.scene(common.width(), &common.theme());
    let drawn = Drawn {
        origin: side.origin,
        window: side.observed,
        cpus: side.cpus,
        tasks: side.tasks,
        chosen: args.selection.is_any().then_some(side.tasks),
        warnings: side.warnings,
    };
    common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}
