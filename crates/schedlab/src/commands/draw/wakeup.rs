//! `schedlab draw wakeup`: one bad placement, explained.

use super::{Common, Drawn};
use crate::commands::trace::input::Selection;
use anyhow::{Context, bail};
use schedlab_draw::wakeup::Wakeup;
use schedlab_model::{Nanos, Span};
use schedlab_timeline::{
    Conservation, ConservationOptions, Cut, Episode, Slices, State, ask_within,
};
use std::path::PathBuf;
use std::process::ExitCode;

/// More intervals than this in one placement's window cannot be drawn.
const SLICES_MAX: usize = 100_000;

/// Options of `schedlab draw wakeup`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    #[command(flatten)]
    common: Common,
    /// Draw the Nth costliest episode of lost CPU time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rank: u32,
    #[command(flatten)]
    selection: Selection,
}

/// Draws the placement behind an episode of lost CPU time.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let chosen = super::chosen(&args.selection, common, &args.file)?;
    let mut window = common.open(&args.file)?;
    let question = Conservation::new(ConservationOptions::default(), &window.info);
    let reply = ask_within(window.source.as_mut(), window.cut, question)?;
    let of_task = |episode: &&Episode| chosen.has(episode.task);
    let rank = usize::try_from(args.rank - 1).unwrap_or(usize::MAX);
    let Some(episode) = reply.answer.episodes.iter().filter(of_task).nth(rank) else {
        bail!(
            "{}: unknown episode of lost CPU time {}: 'schedlab trace conservation' lists the \
             episodes",
            args.file.display(),
            args.rank
        );
    };
    let wakeup = placement(episode, &reply.state, window.origin, common, &args.file);
    let shown = wakeup.window();
    let shown = Span::new(shown.start, shown.end);
    let cut = Cut { from: Some(shown.start - window.origin), to: Some(shown.end - window.origin) };
    let mut source = schedlab_trace::open(&args.file)?;
    let ran = ask_within(source.as_mut(), cut, Slices::new(SLICES_MAX))
        .with_context(|| args.file.display().to_string())?;
    let theme = common.theme();
    let scene = wakeup.scene(&ran.answer, &ran.state, common.width(), &theme);
    let drawn = Drawn {
        origin: window.origin,
        window: shown,
        cpus: wakeup.cpus().len(),
        tasks: ran.state.task_count(),
        chosen: None,
        warnings: window.doubts(reply.warnings),
    };
    common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}

fn placement(
    episode: &Episode,
    state: &State,
    origin: Nanos,
    common: &Common,
    file: &std::path::Path,
) -> Wakeup {
    let because = &episode.because;
    let waker = because.waker().map(|task| (task, because.waker_cpu));
    Wakeup {
        title: common.title("a placement", file),
        sentence: schedlab_draw::page::episode_text(episode, state),
        origin,
        task: episode.task,
        others: episode.others(),
        wait: Span::new(because.waited_since, episode.end),
        needless: Span::new(episode.start, episode.end),
        cpu: episode.overloaded,
        waker,
        previous: because.previous,
        idle: episode.idle.clone(),
    }
}
