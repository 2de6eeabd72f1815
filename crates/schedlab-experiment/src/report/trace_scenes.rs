//! The pictures of a report's trace as scenes of their own, for those who put them into a page.

use super::trace::{WIDTH_PX, close_up, close_up_of, draw_curve, draw_rows, rows};
use super::{ShowError, TracePictures};
use schedlab_draw::levels::Levels;
use schedlab_draw::waiting::columns;
use schedlab_draw::{Scene, Theme};
use schedlab_timeline::{ask, span_of};
use std::path::Path;

/// The pictures of one trace on light ground, with their names: `cores` (each CPU's row over time), `waiting` (tasks that run and
/// wait), and for a longer trace `cores-close` (its middle, in which single slices can be seen).
///
/// # Errors
/// When the trace cannot be read.
pub fn trace_scenes(
    path: &Path,
    wanted: TracePictures,
) -> Result<Vec<(&'static str, Scene)>, ShowError> {
    let read = |error| ShowError::Read { path: path.to_owned(), error };
    let mut source = schedlab_trace::open(path)?;
    let span = span_of(source.as_mut()).map_err(read)?;
    let mut source = schedlab_trace::open(path)?;
    let theme = Theme::light();
    let topology = source.info().topology.clone();
    let question = (
        rows(span, topology.as_ref(), theme.clone()),
        Levels::new(span, columns(WIDTH_PX), Vec::new()),
    );
    let (rows, curve) = ask(source.as_mut(), question).map_err(read)?.answer;
    let mut scenes = Vec::new();
    if wanted.cores {
        scenes.push(("cores", draw_rows(rows, span, span.start, topology.as_ref(), &theme)));
    }
    if wanted.waiting {
        scenes.push(("waiting", draw_curve(curve, span, &theme)));
    }
    if let Some(window) = close_up(span).filter(|_| wanted.cores) {
        scenes.push(("cores-close", close_up_of(path, span, window)?.light));
    }
    Ok(scenes)
}
