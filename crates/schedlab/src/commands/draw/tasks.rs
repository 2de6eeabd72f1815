//! `schedlab draw tasks`: what each task did over time.

use super::{Common, Drawn};
use crate::commands::trace::input::Selection;
use anyhow::bail;
use schedlab_draw::tasks::{By, Wanted, rows};
use schedlab_draw::{Belongs, duration};
use schedlab_model::TraceInfo;
use schedlab_timeline::{Slices, ask_within};
use schedlab_trace::Options;
use std::path::PathBuf;
use std::process::ExitCode;

/// More intervals of one kind than this do not fit into memory at one go.
const INTERVALS_MAX: usize = 4_000_000;

/// Options of `schedlab draw tasks`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    selection: Selection,
    /// Draw a row for each task, or for all tasks of a command, process or control group
    #[arg(long, value_enum, default_value_t = Rows::Task)]
    by: Rows,
    /// Draw only tasks whose name starts with NAME
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Draw at most N rows: the tasks that ran and waited longest
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    top: u32,
}

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Rows {
    #[default]
    Task,
    Command,
    Process,
    Cgroup,
}

/// Draws the tasks' rows.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let file = args.file.display();
    let chosen = super::chosen(&args.selection, common, &args.file)?;
    let mut window = common.open_at_trigger(&args.file, &Options::all_cpus())?;
    let question = Slices::new(INTERVALS_MAX).with_sleeps();
    let reply = ask_within(window.source.as_mut(), window.cut, question)?;
    let belongs = belongs(args, window.source.info())?;
    let mut seen = reply.answer;
    if seen.left_out > 0 {
        bail!(
            "{file}: over {INTERVALS_MAX} intervals in this window: use a shorter one with \
             --from and --to"
        );
    }
    seen.slices.retain(|slice| chosen.has(slice.task));
    seen.waits.retain(|wait| chosen.has(wait.task));
    seen.sleeps.retain(|sleep| chosen.has(sleep.task));
    let wanted = Wanted {
        by: match args.by {
            Rows::Task => By::Task,
            Rows::Command => By::Command,
            Rows::Process => By::Process,
            Rows::Cgroup => By::Group,
        },
        belongs,
        target: args.target.clone(),
        rows: usize::try_from(args.top)?,
    };
    let mut picture = rows(&seen, &wanted, &reply.state);
    if let Some(target) = args.target.as_ref().filter(|_| picture.rows.is_empty()) {
        bail!(
            "{file}: no task's name starts with --target {target}: `schedlab trace tasks --top 0 \
             {file}` lists the tasks"
        );
    }
    let drawn = Drawn {
        origin: window.origin,
        window: window.span,
        cpus: reply.state.observed_cpus().count(),
        tasks: reply.state.task_count(),
        chosen: chosen.count(),
        warnings: window.doubts(reply.warnings),
    };
    let shown = picture.rows.len();
    let rows = match shown + picture.more_rows {
        all if all == shown => format!("{shown} rows"),
        all => format!("{shown} of {all} rows, those that ran and waited longest"),
    };
    let note = format!("{rows}, {}", duration(window.span.duration()));
    picture.notes = [Some(note), drawn.who_ran_is_not_known()].into_iter().flatten().collect();
    picture.title = common.title("tasks", &args.file);
    (picture.window, picture.origin) = (window.span, window.origin);
    common.write(&picture.scene(common.width(), &common.theme()), &drawn)?;
    Ok(ExitCode::SUCCESS)
}

/// What tasks belong to; fails where rows need what the trace does not tell.
fn belongs(args: &Args, info: &TraceInfo) -> anyhow::Result<Belongs> {
    let belongs = Belongs::of(info);
    let (known, what, how) = match args.by {
        Rows::Process => {
            let how = "`schedlab record`";
            (belongs.knows_processes(), "which threads form a process", how)
        }
        Rows::Cgroup => {
            let how = "`schedlab record`";
            (belongs.knows_groups(), "the control groups of its tasks", how)
        }
        Rows::Task | Rows::Command => return Ok(belongs),
    };
    if !known {
        bail!("{}: the trace does not hold {what}: record it with {how}", args.file.display());
    }
    Ok(belongs)
}
