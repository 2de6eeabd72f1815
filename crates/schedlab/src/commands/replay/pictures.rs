//! `schedlab replay --draw`: the same window of the runs in one picture, where they part first.

use super::document::WITHIN;
use super::runs::Runs;
use crate::commands::draw;
use crate::commands::observe::whole_trace;
use crate::commands::result_file::ThemeOption;
use anyhow::Context as _;
use schedlab_draw::duration;
use schedlab_model::{Event, EventSource as _, Nanos, Phase, Pid, TraceInfo, What};
use schedlab_replay::{Divergence, Side, parting};
use schedlab_trace::EventWriter;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// How much of the runs is drawn before and after they part.
const BEFORE: Nanos = Nanos::from_millis(10);
const AFTER: Nanos = Nanos::from_millis(40);
/// The mark of that moment.
const PARTS: &str = "the runs part";

/// Draws the recording, the replay and the changed run below each other. All begin at the same time since the recording
/// began, a task has one colour, and a mark shows where the last two part.
pub(super) fn draw(
    folder: &Path,
    ground: ThemeOption,
    file: &Path,
    runs: &Runs,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let is = &runs.replayed.side;
    let (first, second): (&Side, &Side) = match &runs.changed {
        Some(changed) => (is, &changed.side),
        None => (&runs.recorded, is),
    };
    let Some(at) = parting(first, second, WITHIN) else {
        writeln!(crate::output::stderr(), "schedlab: no picture: the runs do not part")?;
        return Ok(());
    };
    let from = Nanos(at.at.0.saturating_sub(BEFORE.0));
    let scratch = schedlab_sys::temporary::folder("schedlab-replay-")?;
    let (info, events, _) = whole_trace(file)?;
    let info = &info;
    let events = &events[..];
    let replayed = &runs.replayed.source;
    let mut all = vec![
        marked(&scratch.path().join("recorded"), info, events, &at)?,
        marked(&scratch.path().join("replayed"), replayed.info(), replayed.events(), &at)?,
    ];
    if let Some(changed) = &runs.changed {
        let path = scratch.path().join("changed");
        all.push(marked(&path, changed.source.info(), changed.source.events(), &at)?);
    }
    let two = if runs.changed.is_some() { "replayed and changed" } else { "recorded and replayed" };
    let [begin, parts] = [from, at.at].map(duration);
    let title = format!("from {begin} on; {two} part at {parts} on CPU {}", at.cpu);
    let mark = format!("mark/{PARTS}");
    let window = draw::CoresWindow { files: &all, from, to: at.at + AFTER, title, mark };
    draw::cores_of(window, &folder.join("runs.svg"), ground)
}

/// Writes a run with the mark.
fn marked(
    path: &Path,
    info: &TraceInfo,
    events: &[Event],
    at: &Divergence,
) -> anyhow::Result<PathBuf> {
    let name = || path.display().to_string();
    let first = events.first().map_or(Nanos::ZERO, |event| event.time);
    let time = info.span.map_or(first, |span| span.start) + at.at;
    let mut info = info.clone();
    let id = u32::try_from(info.marks.len()).unwrap_or(u32::MAX);
    info.marks.push(PARTS.to_owned());
    let what = What::Mark { pid: Pid::IDLE, id, phase: Phase::Point, request: 0 };
    let context = schedlab_model::Context::Task;
    let mark = Event { time, by: Pid::IDLE, cpu: at.cpu, context, what };
    let (before, after) = events.split_at(events.partition_point(|event| event.time <= time));
    let mut writer = EventWriter::create(path, &info).with_context(name)?;
    writer.events(before).with_context(name)?;
    writer.event(&mark).with_context(name)?;
    writer.events(after).with_context(name)?;
    writer.finish().with_context(name)?;
    Ok(path.to_owned())
}
