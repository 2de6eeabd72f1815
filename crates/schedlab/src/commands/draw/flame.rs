//! `schedlab draw flame`: time off the CPU by call stack.

use super::{Common, Drawn};
use crate::commands::trace::input::{Input, Selection, Symbols};
use crate::commands::trace::running;
use crate::commands::trace::stacks::{self, Which};
use schedlab_draw::flame::{Flame, FlameStacks};
use schedlab_timeline::Reply;
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

/// Draws it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let input = Input::part_of(&args.file, common.min, common.max).with_symbols(&args.symbols);
    if args.which.running {
        return draw_running(args, &input);
    }
    let asked = stacks::ask(&input, &args.selection, &args.which)?;
    let mut tasks: Vec<_> = asked.reply.answer.rows.iter().map(|row| row.task).collect();
    tasks.dedup();
    let (picture, reply) = match &args.which.minus {
        None => {
            let (notes, stacks) = (vec![asked.headline()], FlameStacks::Times(asked.folded()));
            let title = common.title("Off-CPU time", &args.file);
            (Flame { title, notes, stacks }, asked.reply)
        }
        Some(before) => {
            let which = (&input, &args.selection, &args.which);
            let changed = stacks::since(before, asked, which)?;
            let notes = changed.headlines().to_vec();
            let what = format!("Change of off-CPU time from {} to", super::name_of(before));
            let title = common.title.clone();
            let title = title.unwrap_or_else(|| format!("{what} {}", super::name_of(&args.file)));
            let stacks = FlameStacks::Changes(changed.stacks);
            let mut reply = changed.after.reply;
            for told in changed.before.reply.warnings {
                if !reply.warnings.contains(&told) {
                    reply.warnings.push(told);
                }
            }
            (Flame { title, notes, stacks }, reply)
        }
    };
    write(args, &picture, reply, tasks.len())
}

/// Draws the time on the CPU.
fn draw_running(args: &Args, input: &Input) -> anyhow::Result<ExitCode> {
    let asked = running::ask(input, &args.selection)?;
    let mut tasks: Vec<_> = asked.reply.answer.rows.iter().map(|row| row.task).collect();
    tasks.dedup();
    let (notes, stacks) = (vec![asked.headline()], FlameStacks::Running(asked.folded()));
    let picture = Flame { title: args.common.title("On-CPU time", &args.file), notes, stacks };
    write(args, &picture, asked.reply, tasks.len())
}

/// Writes a picture of so many tasks.
fn write<T>(
    args: &Args,
    picture: &Flame,
    reply: Reply<T>,
    tasks: usize,
) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let scene = picture.scene(common.width(), &common.theme());
    let drawn = Drawn {
        origin: reply.origin,
        window: reply.observed,
        cpus: reply.state.observed_cpus().count(),
        tasks,
        chosen: args.selection.is_any().then_some(tasks),
        warnings: reply.warnings,
    };
    common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}
