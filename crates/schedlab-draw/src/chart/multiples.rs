//! Small multiples: a panel for each choice and metric, all over one axis, with shaded regions.

use super::Chart;
use super::line::{Sample, dots};
use super::panel::{BELOW_PX, Panel, begin, name_y, say_empty};
use super::scale::{Axis, Scale};
use crate::axis::{frame, tick_label};
use crate::colour::Theme;
use crate::scene::{Anchor, PX, Point, Rect, Scene, Stroke, Style, at};

/// Room left of each panel for its values, in pixels.
const VALUES_PX: i32 = 58;
/// Between two panels of which the second tells no values, in pixels.
const BETWEEN_PX: i32 = 16;
/// Up to this number, all panels beside each other tell their values.
const TOLD_MAX: usize = 3;
/// Room left of the first panel for the names of the metrics, in pixels.
const NAMES_PX: i32 = 18;
const RIGHT_PX: i32 = 12;
/// Between two rows, in pixels.
const GAP_PX: i32 = 12;
/// Above the first row, for the names of the columns, in pixels; without names there is no room for them.
const HEAD_PX: i32 = 18;
/// Half of the width of what others found, in pixels.
const PUBLISHED_PX: i32 = 9;
/// Between two labels beside each other, in pixels.
const APART_PX: i32 = 6;
/// From a line of labels to the next, in pixels.
const LINE_PX: i32 = 12;
/// How far a point reaches from where it stands, in pixels.
const DOT_PX: i32 = 4;

/// A stretch of the axis on which the metric stays on one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// Where it begins and ends, in 0 ..= 1.
    pub from: f64,
    /// The value on the axis at which the region ends.
    pub to: f64,
    /// The title of the panel.
    pub name: String,
}

/// What somebody else found at a place of the axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The place along the x axis, from 0 (left edge) to 1 (right edge).
    pub x: f64,
    /// The least value; minus infinity: none was named.
    pub low: f64,
    /// The greatest value, in the unit of the panel; infinity: none was named.
    pub high: f64,
}

/// The panels of one choice, below each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    pub name: String,
    /// Shaded in all its panels; empty or one: none.
    pub regions: Vec<Region>,
    /// The points of each row, x in 0 ..= 1.
    pub rows: Vec<Vec<Sample>>,
    /// What each point of each row says to a pointer over it.
    pub hints: Vec<Vec<String>>,
    /// What others found, in the uppermost row.
    pub published: Vec<Published>,
}

/// A grid of small charts over one axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Multiples {
    /// The title above the chart.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    /// What lies to the right.
    pub x_label: String,
    /// The values that were measured, and where they lie, in 0 ..= 1.
    pub ticks: Vec<(f64, String)>,
    /// Whether the values are words: they have no order, so no line joins the points.
    pub words: bool,
    /// Upwards: a metric for each row.
    pub rows: Vec<Axis>,
    /// How high a row is, in pixels.
    pub row_px: i32,
    /// The choices, a column of panels each.
    pub columns: Vec<Column>,
}

impl Chart for Multiples {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let count = |n: usize| i32::try_from(n.max(1)).unwrap_or(i32::MAX);
        let room = scene.width - (NAMES_PX + RIGHT_PX) * PX;
        // Panels of a row have one scale. Of many, the first alone tells it: the others need the room.
        let between = if self.columns.len() > TOLD_MAX { BETWEEN_PX } else { VALUES_PX } * PX;
        let panels = count(self.columns.len());
        let width = (room - VALUES_PX * PX - (panels - 1) * between) / panels;
        let width = width.max(20 * PX);
        let height = self.row_px.max(40) * PX;
        let has_names = self.columns.iter().any(|column| !column.name.is_empty());
        let first = top + if has_names { HEAD_PX * PX } else { 2 * PX };
        let scales: Vec<Scale> = (0..self.rows.len()).map(|row| self.scale(row)).collect();
        for (index, column) in self.columns.iter().enumerate() {
            let index_i = i32::try_from(index).unwrap_or(i32::MAX);
            let left = (NAMES_PX + VALUES_PX) * PX + index_i * (width + between);
            let tells = index == 0 || between == VALUES_PX * PX;
            let middle = at(left + width / 2, first - 6 * PX);
            scene.text(middle, Anchor::Middle, Style::bold(11, theme.text), &column.name);
            for (row, axis) in self.rows.iter().enumerate() {
                let row_i = i32::try_from(row).unwrap_or(i32::MAX);
                let plot = Rect::new(left, first + row_i * (height + GAP_PX * PX), width, height);
                self.panel(&mut scene, theme, plot, scales[row], tells, row, column);
                if index == 0 {
                    name_y(&mut scene, theme, plot, &axis.label);
                }
                if row + 1 == self.rows.len() {
                    self.name_x(&mut scene, theme, plot);
                }
            }
        }
        self.name_all(
            &mut scene,
            theme,
            first + count(self.rows.len()) * (height + GAP_PX * PX),
            width,
        );
        let below = first + count(self.rows.len()) * (height + GAP_PX * PX) - GAP_PX * PX;
        if self.columns.is_empty() {
            let whole = Rect::new(0, first, scene.width, height);
            say_empty(&mut scene, theme, whole);
        }
        scene.height = below + BELOW_PX * PX + below_first(self.lines(width));
        scene
    }
}

impl Multiples {
    /// The vertical scale of a row: one for all its panels, so that they can be compared.
    fn scale(&self, row: usize) -> Scale {
        let samples = self.columns.iter().filter_map(|column| column.rows.get(row)).flatten();
        let heights = samples.flat_map(|sample| {
            let (low, high) = sample.interval.unwrap_or((sample.y, sample.y));
            [sample.y, low, high]
        });
        let published = self.columns.iter().flat_map(|column| &column.published);
        let published = published.filter(|_| row == 0).flat_map(|it| [it.low, it.high]);
        let most = heights.clone().fold(0.0, f64::max);
        // Names of regions stand above the data.
        let has_regions = self.columns.iter().any(|column| column.regions.len() > 1);
        let room = if row == 0 && has_regions { 1.2 * most } else { most };
        self.rows[row].scale(heights.chain(published).chain([room]))
    }

    /// `tells`: with the values of its vertical axis.
    fn panel(
        &self,
        scene: &mut Scene,
        theme: &Theme,
        plot: Rect,
        y: Scale,
        tells: bool,
        row: usize,
        column: &Column,
    ) {
        let none = Vec::new();
        let samples = column.rows.get(row).unwrap_or(&none);
        let x = Axis::new("").over(0.0, 1.0).scale(std::iter::empty());
        let panel = Panel { plot, x, y };
        scene.rect(theme.panel, plot);
        regions(scene, theme, &panel, column, row == 0);
        if row == 0 {
            published(scene, theme, &panel, &column.published);
        }
        match tells {
            true => {
                let axis = Axis { label: String::new(), ..self.rows[row].clone() };
                panel.draw_y(scene, theme, &axis);
            }
            false => panel.grid_y(scene, theme),
        }
        let marks = self.ticks.iter().map(|(x, _)| {
            let x = panel.x_at(*x);
            (at(x, plot.bottom()), at(x, plot.bottom() + 3 * PX))
        });
        scene.lines(Stroke::solid(theme.axis, PX / 2), marks.collect());
        frame(scene, theme, plot);
        let colour = theme.series(row);
        let points: Vec<Point> = samples.iter().map(|s| panel.at(s.x, s.y)).collect();
        scene.clipped(plot, |scene| {
            let whiskers = samples.iter().filter_map(|sample| {
                let (low, high) = sample.interval?;
                Some((panel.at(sample.x, low), panel.at(sample.x, high)))
            });
            scene.lines(Stroke::solid(colour, 2 * PX), whiskers.collect());
            if !self.words {
                scene.polyline(Stroke::solid(colour, PX * 14 / 10), &points);
            }
        });
        // A point at the end of a scale is whole.
        let room = DOT_PX * PX;
        let twice = 2 * DOT_PX * PX;
        let around = Rect::new(plot.x - room, plot.y - room, plot.w + twice, plot.h + twice);
        scene.clipped(around, |scene| {
            let hints = column.hints.get(row).unwrap_or(const { &Vec::new() });
            for (index, point) in points.iter().enumerate() {
                let hint = hints.get(index).map_or("", String::as_str);
                scene.labelled(hint, |scene| dots(scene, colour, &[*point]));
            }
        });
    }

    /// The measured values below a panel. Numbers that would touch others are
    /// left out; words, which nothing else tells, stand in several lines then.
    fn name_x(&self, scene: &mut Scene, theme: &Theme, plot: Rect) {
        let style = Style::regular(10, theme.muted);
        let lines = self.lines(plot.w);
        let place = |x: f64, label: &str| plot.x + tick_at(x, plot.w, style.width(label));
        // The last value always stands: the end of the axis must be told.
        let last = self.ticks.last().filter(|_| !self.words);
        let last = last.map_or(i32::MAX, |(x, label)| {
            place(*x, label) - style.width(label) / 2 - APART_PX * PX
        });
        let mut free = i32::MIN;
        for (index, (x, label)) in self.ticks.iter().enumerate() {
            let middle = place(*x, label);
            let half = style.width(label) / 2;
            let is_last = index + 1 == self.ticks.len();
            let touches = middle - half < free || (!is_last && middle + half > last);
            if !self.words && touches {
                continue;
            }
            free = middle + half + APART_PX * PX;
            let line = i32::try_from(index % lines).unwrap_or(0);
            let y = plot.bottom() + (15 + line * LINE_PX) * PX;
            tick_label(scene, at(middle, y), style, label);
        }
    }

    /// The name of the axis, once for all panels, whose rows end at `bottom`.
    fn name_all(&self, scene: &mut Scene, theme: &Theme, bottom: i32, width: i32) {
        let y = bottom - GAP_PX * PX + 31 * PX + below_first(self.lines(width));
        let left = (NAMES_PX + VALUES_PX) * PX;
        let middle = at(left + (scene.width - RIGHT_PX * PX - left) / 2, y);
        let style = Style::regular(11, theme.muted);
        let name = if self.columns.is_empty() { "" } else { &self.x_label };
        scene.text(middle, Anchor::Middle, style, name);
    }

    /// In how many lines the labels of a panel of this width stand: as few as keep words apart.
    fn lines(&self, width: i32) -> usize {
        let style = Style::regular(10, Theme::light().muted);
        let ends = |(x, label): &(f64, String)| {
            let wide = style.width(label);
            let middle = tick_at(*x, width, wide);
            let half = wide / 2;
            (middle - half, middle + half + APART_PX * PX)
        };
        let most = if self.words { self.ticks.len().max(1) } else { 1 };
        let fits = |lines: &usize| {
            let pairs = self.ticks.iter().zip(self.ticks.iter().skip(*lines));
            pairs
                .map(|(one, next)| (ends(one), ends(next)))
                .all(|((_, end), (start, _))| end <= start)
        };
        (1..most).find(fits).unwrap_or(most)
    }
}

/// Where the label of a part of the axis has its middle, on a panel of this width: below its place, but not
/// below the next panel.
fn tick_at(x: f64, width: i32, label: i32) -> i32 {
    let place = (x * f64::from(width)).round() as i32;
    let left = label / 2 - VALUES_PX * PX / 2;
    let right = width + DOT_PX * PX - label / 2;
    if left < right { place.clamp(left, right) } else { place }
}

/// The room that lines of labels below the first one take.
fn below_first(lines: usize) -> i32 {
    (i32::try_from(lines).unwrap_or(1) - 1) * LINE_PX * PX
}

/// What others found, as bars from the least to the greatest value; one without an end goes on to the frame.
fn published(scene: &mut Scene, theme: &Theme, panel: &Panel, all: &[Published]) {
    let ends = |it: &Published| {
        let low = if it.low.is_finite() { it.low } else { panel.y.low };
        let high = if it.high.is_finite() { it.high } else { panel.y.high };
        (panel.x_at(it.x), panel.y_at(low), panel.y_at(high))
    };
    scene.clipped(panel.plot, |scene| {
        for (x, low, high) in all.iter().map(ends) {
            let half = PUBLISHED_PX * PX;
            // A single value is a line that can be seen.
            let bar = Rect::new(x - half, high - PX, 2 * half, low - high + 2 * PX);
            scene.rect(theme.alarm.fade(90), bar);
            let end = |y: i32| (at(bar.x, y), at(bar.right(), y));
            scene.lines(Stroke::solid(theme.alarm, PX), vec![end(low), end(high)]);
        }
    });
}

/// Regions as shaded areas, every other one darker, with their names in the uppermost panel.
fn regions(scene: &mut Scene, theme: &Theme, panel: &Panel, column: &Column, named: bool) {
    if column.regions.len() < 2 {
        return;
    }
    let plot = panel.plot;
    // A line parts regions: two pale shades are hard to tell apart on a projector or on paper.
    let borders = column.regions.iter().skip(1).map(|region| panel.x_at(region.from));
    let borders = borders.map(|x| (at(x, plot.y), at(x, plot.bottom()))).collect();
    scene.lines(Stroke::solid(theme.axis, PX), borders);
    for (index, region) in column.regions.iter().enumerate() {
        let from = panel.x_at(region.from);
        let to = panel.x_at(region.to);
        let shade = if index % 2 == 0 { 18 } else { 52 };
        scene.rect(theme.series(0).fade(shade), Rect::new(from, plot.y, to - from, plot.h));
        if named {
            let style = Style::bold(10, theme.text);
            let middle = at(from + (to - from) / 2, plot.y + 12 * PX);
            scene.text(middle, Anchor::Middle, style, &region.name);
        }
    }
}
