//! `schedlab replay --draw`: the same window of two runs, where they part first.

use super::document::WITHIN;
use super::runs::Runs;
use crate::commands::draw;
use crate::commands::result_file::Ground;
use anyhow::Context as _;
use schedlab_model::{EventSource, Nanos};
use schedlab_replay::{Kept, Side, parting};
use schedlab_trace::EventWriter;
use std::io::Write as _;
use std::path::Path;

/// How much of the runs is drawn before and after they part.
const BEFORE: Nanos = Nanos::from_millis(10);
const AFTER: Nanos = Nanos::from_millis(40);

/// Draws the replay and the changed run, or without a change the recording and the replay. Both begin at the same
/// time since the recording began.
pub(super) fn draw(
    (folder, ground): (&Path, Ground),
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
    let window = (from, at.at + AFTER);
    let title = |what: &str| format!("{what}, from {from}; the runs part at {}", at.at);
    draw::cores_of(file, window, (&folder.join("recorded.svg"), ground), &title("Recorded"))?;
    let kept = |name: &str, run: &Kept, what: &str| -> anyhow::Result<()> {
        let scratch = schedlab_sys::temporary::folder("schedlab-replay-")?;
        let trace = scratch.path().join("run.dat");
        let told = || trace.display().to_string();
        let mut writer = EventWriter::create(&trace, run.info()).with_context(told)?;
        writer.events(run.events()).with_context(told)?;
        writer.finish().with_context(told)?;
        draw::cores_of(&trace, window, (&folder.join(name), ground), &title(what))
    };
    match &runs.changed {
        Some(changed) => {
            kept("replayed.svg", &runs.replayed.kept, "Replayed")?;
            kept("changed.svg", &changed.kept, "Changed")
        }
        None => kept("replayed.svg", &runs.replayed.kept, "Replayed"),
    }
}
