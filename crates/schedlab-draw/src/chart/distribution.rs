//! Distributions: histograms, and cumulative curves with percentiles.

use super::Chart;
use super::line::staircase;
use super::panel::{BELOW_PX, Panel, begin, place, say_empty};
use super::scale::{Axis, Values};
use crate::axis::{Key, keys};
use crate::colour::Theme;
use crate::scene::{Anchor, PX, Rect, Scene, Stroke, Style, at};
use schedlab_model::{Unit, readable};

/// Steps in which curves become narrower, of 1.2 pixels each.
const WIDER_MAX: i32 = 3;
/// The least height of a bar that has values.
const BAR_LEAST: i32 = 2 * PX;

/// A histogram: how many values fell between two bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// The title above the chart.
    pub(crate) title: String,
    /// Lines below the title: which samples are drawn.
    pub(crate) notes: Vec<String>,
    pub(crate) x: Axis,
    /// Lower bound, upper bound, count; ascending.
    pub bars: Vec<(f64, f64, u64)>,
    /// Values to mark, with their names (`p99`).
    pub(crate) marks: Vec<(f64, String)>,
}

impl Chart for Histogram {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let plot = place(&scene, top, (width_px * 2 / 5).clamp(140, 340));
        let bounds = self.bars.iter().flat_map(|&(low, high, _)| [low, high]);
        let x = self.x.scale(bounds.chain(self.marks.iter().map(|(value, _)| *value)));
        let (name, height) = self.heights();
        let y = Axis::new(name).from_zero();
        let panel = Panel { plot, x, y: y.scale(self.bars.iter().map(&height)) };
        panel.draw(&mut scene, theme, &self.x, &y);
        let bar = |bar: &(f64, f64, u64)| {
            let low = if self.x.log { bar.0.max(panel.x.low) } else { bar.0 };
            let x = panel.x_at(low);
            let right = panel.x_at(bar.1);
            let y = panel.y_at(height(bar));
            // A few values are seen, also beside a bar of thousands.
            let y = y.min(plot.bottom() - BAR_LEAST);
            Rect::new(x, y, (right - x).max(PX / 2), plot.bottom() - y)
        };
        let bars = self.bars.iter().filter(|bar| bar.2 > 0).map(bar).collect();
        scene.clipped(plot, |scene| scene.rects(theme.running.fade(210), bars));
        percentiles(&mut scene, &panel, theme, &self.marks);
        if self.bars.is_empty() {
            say_empty(&mut scene, theme, plot);
        }
        scene.height = plot.bottom() + BELOW_PX * PX;
        scene
    }
}

impl Histogram {
    /// What a bar's height is, in words and as a function. A count where all bars are equally wide; else
    /// the count by width, so that an area is a count: a wide bar is not higher for being wide.
    fn heights(&self) -> (&'static str, impl Fn(&(f64, f64, u64)) -> f64) {
        let is_log = self.x.log;
        let width = move |bar: &(f64, f64, u64)| match is_log {
            true => (bar.1 / bar.0.max(f64::MIN_POSITIVE)).log2(),
            false => bar.1 - bar.0,
        };
        let widths = || self.bars.iter().map(width);
        let (least, most) =
            widths().fold((f64::INFINITY, 0.0_f64), |(a, b), w| (a.min(w), b.max(w)));
        let is_equal = self.bars.is_empty() || most <= least * 1.01 || least <= 0.0;
        let name = match (is_equal, is_log) {
            (true, _) => "count",
            (false, true) => "count per factor of 2",
            (false, false) => "count per unit of the axis",
        };
        let height = move |bar: &(f64, f64, u64)| match is_equal {
            true => bar.2 as f64,
            false => bar.2 as f64 / width(bar),
        };
        (name, height)
    }
}

/// Dashed lines at values, with their names; names that would overlap go a line lower.
fn percentiles(scene: &mut Scene, panel: &Panel, theme: &Theme, marks: &[(f64, String)]) {
    let style = Style::regular(10, theme.text);
    let mut free = [i32::MIN; 4];
    let places = marks.iter().filter(|(value, _)| value.is_finite());
    let line = |(value, _): &(f64, String)| {
        let x = panel.x_at(*value);
        (at(x, panel.plot.y), at(x, panel.plot.bottom()))
    };
    // All lines first: a plate keeps the next one from crossing a name.
    let lines = places.clone().map(line).collect();
    scene.lines(Stroke::dashed(theme.muted, PX, 3 * PX, 3 * PX), lines);
    for (value, name) in places {
        let x = panel.x_at(*value);
        let label = format!("{name} {}", panel.x.label(*value, value.abs() / 100.0));
        let row = free.iter().position(|&end| end < x).unwrap_or(0);
        let y = panel.plot.y + (12 + 12 * i32::try_from(row).unwrap_or(0)) * PX;
        let width = style.width(&label) + 6 * PX;
        let left = if x + width > panel.plot.right() { x - width } else { x };
        let plate = Rect::new(left + 2 * PX, y - 9 * PX, width - 4 * PX, 12 * PX);
        scene.rect(theme.panel, plate);
        scene.text(at(left + 3 * PX, y), Anchor::Start, style, &label);
        free[row] = x + width;
    }
}

/// The cumulative curve of one group of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    pub name: String,
    /// A value, and the fraction of all that are at most as large; ascending in both.
    pub points: Vec<(f64, f64)>,
}

/// Cumulative curves under each other's: who has the longer tail.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cdf {
    /// The title above the chart.
    pub title: String,
    /// Lines below the title: which samples are drawn.
    pub notes: Vec<String>,
    pub x: Axis,
    /// The curves, in the order of the legend.
    pub curves: Vec<Curve>,
    /// Whether the upward axis stretches the tail: 90 %, 99 %, 99.9 %, ... at equal distances.
    pub tail: bool,
}

impl Chart for Cdf {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let plot = place(&scene, top, (width_px * 2 / 5).clamp(140, 360));
        let values = self.curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.0));
        let label = "share of all that is at most as long".into();
        let y = Axis { label, values: Values::Percent, ..Axis::default() };
        let y = y.over(0.0, 1.0);
        let scale = y.scale(std::iter::empty());
        let panel = Panel { plot, x: self.x.scale(values), y: scale };
        if self.tail {
            scene.rect(theme.panel, plot);
            panel.draw_x(&mut scene, theme, &self.x);
            nines(&mut scene, theme, plot);
            crate::axis::frame(&mut scene, theme, plot);
        } else {
            panel.draw(&mut scene, theme, &self.x, &y);
        }
        let mut entries: Vec<(Key, String)> = Vec::new();
        // A curve that reaches all of its values is whole, beside the frame too.
        let around = Rect::new(plot.x - PX, plot.y - PX, plot.w + 2 * PX, plot.h + 2 * PX);
        scene.clipped(around, |scene| {
            for (index, curve) in self.curves.iter().enumerate() {
                let colour = theme.series(index);
                let height = |fraction| match self.tail {
                    true => plot.bottom() - (stretched(fraction) * f64::from(plot.h)) as i32,
                    false => panel.y_at(fraction),
                };
                let (shown, hidden): (Vec<&(f64, f64)>, Vec<_>) =
                    curve.points.iter().partition(|p| self.x.shows(p.0));
                // What the axis cannot show is less than what it shows: the curve begins with it.
                let start = height(hidden.last().map_or(0.0, |p| p.1));
                let points = std::iter::once(at(plot.x, start))
                    .chain(shown.iter().map(|p| at(panel.x_at(p.0), height(p.1))));
                if !shown.is_empty() {
                    let points: Vec<_> = points.collect();
                    // Earlier ones are wider: where curves are one, all of them are seen.
                    let later = self.curves.len() - 1 - index;
                    let width = 18 + 12 * i32::try_from(later).unwrap_or(WIDER_MAX).min(WIDER_MAX);
                    let stroke = Stroke::solid(colour, PX * width / 10);
                    scene.polyline(stroke.clone(), &staircase(&points));
                    entries.push((Key::Line(stroke), curve.name.clone()));
                }
            }
        });
        if self.curves.iter().all(|curve| curve.points.is_empty()) {
            say_empty(&mut scene, theme, plot);
        }
        let corner = at(plot.x, plot.bottom() + BELOW_PX * PX);
        scene.height = keys(&mut scene, theme, corner, plot.w, &entries) + 6 * PX;
        scene
    }
}

/// The tail's axis: four nines are its upper end.
const NINES: f64 = 4.0;

/// A fraction's height where each further nine takes as much room: 0, 90 %, 99 %, ...
fn stretched(fraction: f64) -> f64 {
    (-(1.0 - fraction).max(1e-9).log10() / NINES).clamp(0.0, 1.0)
}

fn nines(scene: &mut Scene, theme: &Theme, plot: Rect) {
    let style = Style::regular(11, theme.muted);
    let mut grid = Vec::new();
    for (fraction, label) in [
        (0.0, "0 %"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
    ] {
        let y = plot.bottom() - (stretched(fraction) * f64::from(plot.h)) as i32;
        grid.push((at(plot.x, y), at(plot.right(), y)));
        scene.text(at(plot.x - 7 * PX, y + 4 * PX), Anchor::End, style, label);
    }
    scene.lines(Stroke::solid(theme.grid, PX / 2), grid);
}

/// The bars of a histogram of durations, four to an octave and so equally wide on the axis, and marks at its percentiles.
#[must_use]
pub fn histogram_of(title: &str, label: &str, histogram: &schedlab_stats::Histogram) -> Histogram {
    const PER_OCTAVE: f64 = 4.0;
    let mut bars: Vec<(f64, f64, u64)> = Vec::new();
    for bucket in histogram.buckets() {
        // A little more than nothing: a power of two begins a bar.
        let place = ((bucket.low.max(1) as f64).log2() * PER_OCTAVE + 1e-9).floor();
        let edge = |place: f64| (place / PER_OCTAVE).exp2();
        let low = edge(place);
        match bars.last_mut() {
            Some(last) if last.0 == low => last.2 += bucket.count,
            _ => bars.push((low, edge(place + 1.0), bucket.count)),
        }
    }
    Histogram {
        title: title.to_owned(),
        notes: vec![format!("{} values", readable(histogram.count() as f64, Unit::Count))],
        x: Axis::nanoseconds(label).logarithmic(),
        bars,
        marks: [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")]
            .into_iter()
            .filter_map(|(q, name)| Some((histogram.quantile(q)? as f64, name.to_owned())))
            .collect(),
    }
}

/// The cumulative curve of a histogram; its name ends with how many values it has.
#[must_use]
pub fn cdf_of(name: &str, histogram: &schedlab_stats::Histogram) -> Curve {
    let whole = histogram.count().max(1) as f64;
    let mut below = 0;
    let mut point = |bucket: schedlab_stats::Bucket| {
        below += bucket.count;
        (bucket.middle() as f64, below as f64 / whole)
    };
    let count = readable(histogram.count() as f64, Unit::Count);
    let name = format!("{name} (n={count})");
    Curve { name, points: histogram.buckets().map(&mut point).collect() }
}
