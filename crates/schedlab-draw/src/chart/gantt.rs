//! Job timelines: who worked on which job when, with deadlines.

use super::Chart;
use super::panel::{begin, place, say_empty};
use crate::axis::{TimeAxis, frame, legend};
use crate::colour::{Colour, Theme};
use crate::font::{shorten, shorten_task};
use crate::scene::{Anchor, PX, Point, Rect, Scene, Stroke, Style, at};
use schedlab_model::{Nanos, Span};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The row: index into [`Gantt::lanes`].
    pub lane: usize,
    /// From start to end.
    pub span: Span,
    /// What it is called; written where it fits.
    pub name: String,
    /// The colour of the job's box.
    pub colour: Colour,
    /// When it was to start, where that is known: drawn as a thin line to its start.
    pub due: Option<Nanos>,
}

/// Jobs on the rows of their workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gantt {
    /// The title above the chart.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    /// Names of the rows, from top to bottom.
    pub lanes: Vec<String>,
    /// The jobs, in any order.
    pub jobs: Vec<Job>,
    /// Painted over the jobs, without names: stretches of a lane, such as the causes of stalls.
    pub over: Vec<Job>,
    pub legend: Vec<(Colour, String)>,
}

/// How opaque the line from a due time to a start is.
const LATE: u8 = 190;

impl Chart for Gantt {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let lanes = i32::try_from(self.lanes.len().max(1)).unwrap_or(i32::MAX);
        // 64 lanes are high enough for their names.
        let row = (704 / lanes).clamp(4, 24) * PX;
        let plot = Rect { h: row * lanes, ..place(&scene, top, 0) };
        let starts = self.jobs.iter().map(|job| job.span.start.min(job.due.unwrap_or(Nanos::MAX)));
        let start = starts.min().unwrap_or_default();
        let end = self.jobs.iter().map(|job| job.span.end).max().unwrap_or(Nanos(1));
        let window = Span::new(start, end.max(start + Nanos(1)));
        let axis = TimeAxis { window, origin: start, x: plot.x, width: plot.w };
        scene.rect(theme.panel, plot);
        axis.draw(&mut scene, plot, theme, "the first job");
        let style = Style::regular(11, theme.muted);
        let y_of = |lane: usize| plot.y + row * i32::try_from(lane).unwrap_or(0);
        let named = usize::try_from((11 * PX + row - 1) / row).unwrap_or(1);
        for (lane, name) in self.lanes.iter().enumerate().step_by(named) {
            let name = shorten(name, style.size, style.weight, 62 * PX);
            let point = at(plot.x - 6 * PX, y_of(lane) + row / 2 + 4 * PX);
            scene.text(point, Anchor::End, style, &name);
        }
        let mut boxes: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
        let mut names = Vec::new();
        let mut late = Vec::new();
        for job in self.jobs.iter().filter(|job| job.lane < self.lanes.len()) {
            let x = axis.place(job.span.start);
            let right = axis.place(job.span.end);
            let y = y_of(job.lane);
            let rect = Rect::new(x, y + PX / 2, (right - x).max(PX / 5), row - PX);
            boxes.entry(job.colour).or_default().push(rect);
            if let Some(due) = job.due {
                late.push((at(axis.place(due), y + row / 2), at(x, y + row / 2)));
            }
            if row >= 14 * PX && rect.w > 24 * PX {
                let style = Style::regular(10, job.colour.ink());
                let name = shorten_task(&job.name, style.size, style.weight, rect.w - 5 * PX);
                let point = at(x + 3 * PX, y + row / 2 + 4 * PX);
                names.extend(name.map(|name| (point, style, name)));
            }
        }
        scene.lines(Stroke::solid(theme.alarm.fade(LATE), PX), late);
        for (colour, rects) in boxes {
            scene.rects(colour, rects);
        }
        let parts = self.over.iter().filter(|part| part.lane < self.lanes.len());
        let covers = parts.map(|part| {
            let x = axis.place(part.span.start);
            let right = axis.place(part.span.end);
            let y = y_of(part.lane) + PX / 2;
            (part.colour, Rect::new(x, y, (right - x).max(PX / 5), row - PX))
        });
        cover(&mut scene, covers.collect(), &mut names);
        for (point, style, name) in names {
            scene.text(point, Anchor::Start, style, &name);
        }
        if self.jobs.is_empty() {
            say_empty(&mut scene, theme, plot);
        }
        frame(&mut scene, theme, plot);
        let corner = at(plot.x, plot.bottom() + 46 * PX);
        let mut entries = self.legend.clone();
        if self.jobs.iter().any(|job| job.due.is_some_and(|due| due < job.span.start)) {
            entries.push((
                theme.panel.mix(theme.alarm, LATE),
                "from its due time to its start".into(),
            ));
        }
        scene.height = legend(&mut scene, theme, corner, plot.w, &entries) + 6 * PX;
        scene
    }
}

/// Paints parts over the jobs, and drops the names that they hide.
fn cover(scene: &mut Scene, parts: Vec<(Colour, Rect)>, names: &mut Vec<(Point, Style, String)>) {
    let hides = |part: &Rect, (point, style, name): &(Point, Style, String)| {
        let right = point.x + style.width(name);
        part.x < right && part.right() > point.x && (part.y..part.bottom()).contains(&point.y)
    };
    names.retain(|name| !parts.iter().any(|(_, part)| hides(part, name)));
    let mut boxes: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
    for (colour, rect) in parts {
        boxes.entry(colour).or_default().push(rect);
    }
    for (colour, rects) in boxes {
        scene.rects(colour, rects);
    }
}
