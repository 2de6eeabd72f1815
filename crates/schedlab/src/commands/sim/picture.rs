//! The moment of a difference, drawn.

use super::follow::{Recording, Stream};
use crate::commands::result_file::save;
use schedlab_draw::cores::{Cores, Label, Mark, Marks, Size, cores};
use schedlab_draw::rows::{Colouring, Rows, RowsOptions, legend_of};
use schedlab_draw::{Theme, svg};
use schedlab_model::{Cpu, Nanos, Span};
use schedlab_sim::follow::Difference;
use schedlab_timeline::{Cut, ask_within};
use std::path::Path;

/// Tasks that the legend names.
const LEGEND_MAX: usize = 12;
/// Time that is drawn before a difference, and after it.
const AROUND: (Nanos, Nanos) = (Nanos::from_millis(6), Nanos::from_millis(2));

/// Draws the CPUs around a difference. A bar on the CPU's row ends where the decision fell.
pub(super) fn draw(
    first: &Difference,
    recording: &Recording,
    (path, theme): (&Path, Theme),
) -> anyhow::Result<()> {
    let size = Size::default();
    let begins = recording.begins();
    let from = Nanos(first.at.0.saturating_sub(AROUND.0.0)).max(begins);
    let window = Span::new(from, first.at + AROUND.1);
    let rows = Rows::new(RowsOptions {
        window,
        columns: size.columns(false),
        colouring: Colouring::Pid,
        target: None,
        cpus: None,
        topology: None,
        theme: theme.clone(),
    });
    // A cut counts from the first instant of its trace.
    let zero = recording.info.span.map_or(begins, |span| span.start);
    let cut = Cut { from: Some(window.start - zero), to: Some(window.end - zero) };
    let answer = ask_within(&mut Stream::of(recording), cut, rows)?.answer;
    let cpu = Cpu(u16::try_from(first.cpu).unwrap_or(u16::MAX));
    let bar =
        Mark::Bar { span: Span::new(first.at, first.at + Nanos(window.duration().0 / 100)), cpu };
    let picture = cores(
        &Cores {
            title: format!("First difference: {}", first.kind.name()),
            notes: vec![format!("recorded: {}", first.recorded), format!("model: {}", first.model)],
            window,
            origin: begins,
            rows: answer.rows,
            names: answer.names,
            legend: legend_of(&answer.legend, LEGEND_MAX),
            marks: vec![Marks {
                name: "the decision".to_owned(),
                colour: theme.alarm,
                marks: vec![bar],
            }],
            labels: vec![Label { time: first.at, cpu, text: first.kind.name().to_owned() }],
            lanes: Vec::new(),
        },
        size,
        &theme,
    );
    save(path, svg(&picture))
}
