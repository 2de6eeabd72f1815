//! Lines: sweeps with intervals, speed against accuracy with its ideal, profiles over time.

use super::Chart;
use super::panel::{BELOW_PX, Panel, begin, place, say_empty};
use super::scale::Axis;
use crate::axis::{Key, keys};
use crate::colour::{Colour, Theme};
use crate::scene::{Item, PX, Point, Rect, Scene, Stroke, at, circle};

/// How far beyond the frame a dot or the cap of a whisker can reach.
const EDGE: i32 = 4 * PX;
/// From the whisker of a series to that of the next one at the same place.
const BESIDE: i32 = 5 * PX;
/// Bands of more series would mix into colours that nobody can name; their whiskers say the same.
const BANDS_MAX: usize = 2;
/// More whiskers and dots than this would hide their line.
const WHISKERS_MAX: usize = 60;

/// A measured point, perhaps with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// The value that was set, in the unit of the x axis.
    pub x: f64,
    /// The value that was measured, in the unit of the y axis.
    pub y: f64,
    /// The confidence interval of the measured value, low and high, at the level that the caller chose.
    pub interval: Option<(f64, f64)>,
}

impl Sample {
    /// A point without an interval.
    #[must_use]
    pub const fn new(x: f64, y: f64) -> Self {
        Self { x, y, interval: None }
    }
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// Points joined by lines, intervals as a band.
    #[default]
    Line,
    /// Points alone, intervals as whiskers.
    Points,
    /// A staircase: each value holds until the next.
    Steps,
    /// A dashed line without points: what it should be.
    Ideal,
}

impl Shape {
    const fn stroke(self, colour: Colour) -> Stroke {
        match self {
            Self::Line | Self::Points => Stroke::solid(colour, PX * 18 / 10),
            Self::Steps => Stroke::solid(colour, PX * 15 / 10),
            Self::Ideal => Stroke::dashed(colour, PX * 12 / 10, 5 * PX, 4 * PX),
        }
    }

    /// The sample in the legend.
    const fn key(self, colour: Colour) -> Key {
        match self {
            Self::Points => Key::Dot(colour),
            _ => Key::Line(self.stroke(colour)),
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its name in the legend; empty for none.
    pub name: String,
    /// How its points are joined.
    pub shape: Shape,
    /// Its colour; `None` takes the next of the palette.
    pub colour: Option<Colour>,
    /// The points, in drawing order.
    pub samples: Vec<Sample>,
}

impl Series {
    /// A line through points.
    #[must_use]
    pub fn new(name: &str, samples: Vec<Sample>) -> Self {
        Self { name: name.to_owned(), shape: Shape::Line, colour: None, samples }
    }

    fn has_whiskers(&self) -> bool {
        matches!(self.shape, Shape::Line | Shape::Points)
            && self.samples.iter().any(|sample| sample.interval.is_some())
    }

    /// A dashed line that shows the values that the other lines should have.
    #[must_use]
    pub fn ideal(name: &str, samples: Vec<Sample>) -> Self {
        Self { shape: Shape::Ideal, ..Self::new(name, samples) }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// The title above the chart.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    pub x: Axis,
    pub y: Axis,
    /// The lines; later ones on top.
    pub series: Vec<Series>,
}

impl Chart for Line {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let plot = place(&scene, top, (width_px * 9 / 20).clamp(160, 420));
        let samples = || self.series.iter().flat_map(|series| &series.samples);
        let heights = samples().flat_map(|sample| {
            let (low, high) = sample.interval.unwrap_or((sample.y, sample.y));
            [sample.y, low, high]
        });
        let x = self.x.scale(samples().map(|sample| sample.x));
        let panel = Panel { plot, x, y: self.y.scale(heights) };
        panel.draw(&mut scene, theme, &self.x, &self.y);
        let mut entries = Vec::new();
        // A dot and a whisker at the end of a scale are whole.
        let beside = self.beside(&panel);
        let side = EDGE + beside.last().copied().unwrap_or(0);
        let around = Rect::new(plot.x - side, plot.y - EDGE, plot.w + 2 * side, plot.h + 2 * EDGE);
        let mut beside = beside.into_iter();
        scene.clipped(around, |scene| {
            let mut measured = 0;
            for series in &self.series {
                let shift = if series.has_whiskers() { beside.next().unwrap_or(0) } else { 0 };
                let own = match series.shape {
                    Shape::Ideal => theme.muted,
                    _ => {
                        measured += 1;
                        theme.series(measured - 1)
                    }
                };
                let colour = series.colour.unwrap_or(own);
                self.series(scene, &panel, series, colour, shift);
                if !series.name.is_empty() {
                    entries.push((series.shape.key(colour), series.name.clone()));
                }
            }
        });
        if samples().next().is_none() {
            say_empty(&mut scene, theme, plot);
        }
        let corner = at(plot.x, plot.bottom() + BELOW_PX * PX);
        scene.height = keys(&mut scene, theme, corner, plot.w, &entries) + 6 * PX;
        scene
    }
}

impl Line {
    /// How far each series with whiskers is moved to the side, so that those of one place do not hide each
    /// other. Never so far that a place could be taken for the next one.
    fn beside(&self, panel: &Panel) -> Vec<i32> {
        let with: Vec<&Series> = self.series.iter().filter(|one| one.has_whiskers()).collect();
        let samples = with.iter().flat_map(|series| &series.samples);
        let shown = samples.filter(|s| self.x.shows(s.x));
        let mut places: Vec<i32> = shown.map(|s| panel.x_at(s.x)).collect();
        places.sort_unstable();
        places.dedup();
        let apart = places.windows(2).map(|two| two[1] - two[0]).min().unwrap_or(i32::MAX);
        let count = i32::try_from(with.len()).unwrap_or(i32::MAX).max(1);
        let step = (apart / (2 * count)).min(BESIDE);
        (0..count).map(|index| (2 * index - (count - 1)) * step / 2).collect()
    }

    fn series(
        &self,
        scene: &mut Scene,
        panel: &Panel,
        series: &Series,
        colour: Colour,
        shift: i32,
    ) {
        let with_whiskers = self.series.iter().filter(|one| one.has_whiskers()).count();
        let shown = |s: &&Sample| self.x.shows(s.x) && self.y.shows(s.y);
        let samples: Vec<&Sample> = series.samples.iter().filter(shown).collect();
        let place = |s: &&Sample| {
            let point = panel.at(s.x, s.y);
            at(point.x + shift, point.y)
        };
        let points: Vec<Point> = samples.iter().map(place).collect();
        let has_band = series.shape == Shape::Line
            && (with_whiskers <= BANDS_MAX || samples.len() > WHISKERS_MAX);
        self.intervals(scene, panel, has_band, &samples, colour, shift);
        match series.shape {
            Shape::Line => {
                scene.polyline(series.shape.stroke(colour), &points);
                // Markers tell measured points from the line between them, while they are few.
                if points.len() <= WHISKERS_MAX {
                    dots(scene, colour, &points);
                }
            }
            Shape::Points => dots(scene, colour, &points),
            Shape::Steps => scene.polyline(series.shape.stroke(colour), &staircase(&points)),
            Shape::Ideal => scene.polyline(series.shape.stroke(colour), &points),
        }
    }

    fn intervals(
        &self,
        scene: &mut Scene,
        panel: &Panel,
        has_band: bool,
        samples: &[&Sample],
        colour: Colour,
        shift: i32,
    ) {
        let ends = |sample: &&Sample| {
            let (low, high) =
                sample.interval.filter(|(low, high)| self.y.shows(*low) && self.y.shows(*high))?;
            let x = panel.x_at(sample.x) + shift;
            Some((at(x, panel.y_at(low)), at(x, panel.y_at(high))))
        };
        let ends: Vec<(Point, Point)> = samples.iter().filter_map(ends).collect();
        if has_band && ends.len() == samples.len() {
            let mut band: Vec<Point> = ends.iter().map(|(low, _)| *low).collect();
            band.extend(ends.iter().rev().map(|(_, high)| *high));
            scene.area(colour.fade(45), &band);
            if ends.len() > WHISKERS_MAX {
                let (low, high): (Vec<Point>, Vec<Point>) = ends.iter().copied().unzip();
                scene.polyline(Stroke::solid(colour, PX / 2), &low);
                scene.polyline(Stroke::solid(colour, PX / 2), &high);
            }
        }
        let whiskers = ends.iter().flat_map(|&(low, high)| {
            let cap = |p: Point| (at(p.x - 3 * PX, p.y), at(p.x + 3 * PX, p.y));
            [(low, high), cap(low), cap(high)]
        });
        if ends.len() <= WHISKERS_MAX {
            scene.lines(Stroke::solid(colour, PX), whiskers.collect());
        }
    }
}

/// Draws a round marker at each point.
pub(super) fn dots(scene: &mut Scene, colour: Colour, points: &[Point]) {
    // One path each: in one path, circles that overlap would cut holes into each other.
    scene.items.extend(points.iter().map(|&point| Item::Path {
        fill: Some(colour),
        stroke: None,
        steps: circle(point, 3 * PX),
    }));
}

/// Each height holds until the next point.
pub(super) fn staircase(points: &[Point]) -> Vec<Point> {
    let mut stairs: Vec<Point> = Vec::with_capacity(points.len() * 2);
    for point in points {
        if let Some(last) = stairs.last() {
            stairs.push(at(point.x, last.y));
        }
        stairs.push(*point);
    }
    stairs
}
