//! Straight lines through points, and below them what they leave unexplained, or what else was measured.

use super::Chart;
use super::line::dots;
use super::panel::{BELOW_PX, Panel, begin, place, say_empty};
use super::scale::Axis;
use crate::axis::{Key, keys};
use crate::colour::{Colour, Theme};
use crate::scene::{PX, Rect, Scene, Stroke, at};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fit {
    /// The title above the chart.
    pub title: String,
    /// What was looked at, and what came out, a line each.
    pub notes: Vec<String>,
    /// The axis of the value that was set.
    pub x: Axis,
    /// The axis of the measured values.
    pub y: Axis,
    /// The measured pairs of x and y.
    pub points: Vec<(f64, f64)>,
    /// The lines; where several lie over one x, each point belongs to the nearest.
    pub lines: Vec<FitLine>,
    /// Where the lines change, each a dashed upright.
    pub changes: Vec<f64>,
    /// What else was measured at each x, by name: a panel each, in place of the residuals.
    pub columns: Vec<(String, Vec<(f64, f64)>)>,
}

/// A line through some of the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitLine {
    /// From which x on it holds; minus infinity: as far as there are points.
    pub from: f64,
    /// Up to which x it holds.
    pub to: f64,
    /// The line's value at x = 0.
    pub offset: f64,
    /// The line's rise per unit of x.
    pub gradient: f64,
    /// Distance from the line within which most points lie, where it begins and where it ends, drawn as a band; 0 for
    /// none.
    pub spread: [f64; 2],
}

impl FitLine {
    /// A line through all points, with a band of one width.
    #[must_use]
    pub const fn all(offset: f64, gradient: f64, sigma: f64) -> Self {
        let from = f64::NEG_INFINITY;
        let to = f64::INFINITY;
        Self { from, to, offset, gradient, spread: [sigma; 2] }
    }

    fn at(&self, x: f64) -> f64 {
        self.offset + self.gradient * x
    }

    fn holds_at(&self, x: f64) -> bool {
        (self.from..=self.to).contains(&x)
    }
}

/// Pixels of a panel below the first.
const LOW_PX: i32 = 90;

impl Chart for Fit {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let plot = place(&scene, top, (width_px * 2 / 5).clamp(140, 360));
        let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
        let points: Vec<(f64, f64)> = self.points.iter().filter(finite).copied().collect();
        let x = self.x.scale(points.iter().map(|p| p.0));
        let fitted = points.iter().flat_map(|&(x, _)| {
            self.lines.iter().filter(move |line| line.holds_at(x)).map(move |line| line.at(x))
        });
        let panel = Panel { plot, x, y: self.y.scale(points.iter().map(|p| p.1).chain(fitted)) };
        let colours = [theme.series(0), theme.series(1)];

        scene.rect(theme.panel, plot);
        panel.grid_x(&mut scene, theme);
        panel.draw_y(&mut scene, theme, &self.y);
        crate::axis::frame(&mut scene, theme, plot);
        let first = points.iter().map(|point| point.0).fold(x.high, f64::min);
        let last = points.iter().map(|point| point.0).fold(x.low, f64::max);
        scene.clipped(plot, |scene| {
            for line in &self.lines {
                draw_line(scene, &panel, line, (first, last), colours[1]);
            }
            self.uprights(scene, &panel, theme);
        });
        // A dot that stands on the edge is whole.
        let places: Vec<_> = points.iter().map(|&(x, y)| panel.at(x, y)).collect();
        dots(&mut scene, colours[0].fade(200), &places);

        let bottom = match self.columns.is_empty() {
            true => self.residuals(&mut scene, &panel, &points, theme),
            false => self.others(&mut scene, &panel, theme),
        };
        if points.is_empty() {
            say_empty(&mut scene, theme, plot);
        }
        let corner = at(plot.x, bottom + BELOW_PX * PX);
        scene.height =
            keys(&mut scene, theme, corner, plot.w, &self.meanings(theme, colours)) + 6 * PX;
        scene
    }
}

/// A line with its band; beyond the points it is a guess.
fn draw_line(
    scene: &mut Scene,
    panel: &Panel,
    line: &FitLine,
    (first, last): (f64, f64),
    colour: Colour,
) {
    let low = line.from.max(panel.x.low);
    let high = line.to.min(panel.x.high);
    let at_end = |x: f64, shift: f64| panel.at(x, line.at(x) + shift);
    let [begin, end] = line.spread;
    if begin > 0.0 || end > 0.0 {
        let corners =
            [at_end(low, begin), at_end(high, end), at_end(high, -end), at_end(low, -begin)];
        scene.area(colour.fade(40), &corners);
        // A low band is the line itself; its edges would hide the dashes of a guess.
        if corners[3].y - corners[0].y > 8 * PX {
            let edges = vec![(corners[0], corners[1]), (corners[3], corners[2])];
            scene.lines(Stroke::solid(colour, PX / 2), edges);
        }
    }
    let first = first.max(low);
    let last = last.min(high);
    let part = |from: f64, to: f64| (at_end(from, 0.0), at_end(to, 0.0));
    let guess = Stroke::dashed(colour, PX, 4 * PX, 4 * PX);
    scene.lines(guess, vec![part(low, first), part(last, high)]);
    scene.lines(Stroke::solid(colour, PX * 18 / 10), vec![part(first, last)]);
}

impl Fit {
    /// Where the lines change.
    fn uprights(&self, scene: &mut Scene, panel: &Panel, theme: &Theme) {
        let top = panel.plot.y;
        let bottom = panel.plot.bottom();
        let upright = |&x: &f64| (at(panel.x_at(x), top), at(panel.x_at(x), bottom));
        let stroke = Stroke::dashed(theme.axis, PX, 2 * PX, 3 * PX);
        scene.lines(stroke, self.changes.iter().map(upright).collect());
    }

    /// What the nearest line leaves of each point; the bottom of the panel.
    fn residuals(
        &self,
        scene: &mut Scene,
        above: &Panel,
        points: &[(f64, f64)],
        theme: &Theme,
    ) -> i32 {
        let rest = |&(x, y): &(f64, f64)| {
            let lines = self.lines.iter().filter(|line| line.holds_at(x));
            let rests = lines.map(|line| y - line.at(x));
            let nearest = rests.min_by(|a, b| a.abs().total_cmp(&b.abs())).unwrap_or(0.0);
            (x, nearest)
        };
        let points: Vec<(f64, f64)> = points.iter().map(rest).collect();
        // In the unit of what was measured, with which its name ends: `run time, ms` or `run time [ms]`.
        let unit = self.y.label.rfind([',', '[']).map_or("", |at| &self.y.label[at..]);
        let label = format!("residual{}{unit}", if unit.starts_with('[') { " " } else { "" });
        let axis = Axis { label, range: Some((0.0, 0.0)), ..self.y.clone() };
        // Above and below the farthest there is room for its whole dot.
        let far = |point: &(f64, f64)| 1.15 * point.1;
        let scale = axis.scale(points.iter().flat_map(|point| [far(point), -far(point)]));
        let panel = Panel { plot: low_panel(above.plot), x: above.x, y: scale };
        panel.draw(scene, theme, &self.x, &axis);
        stems(scene, &panel, &points, theme);
        panel.plot.bottom()
    }

    /// A panel for each of the other columns; the bottom of the last one.
    fn others(&self, scene: &mut Scene, above: &Panel, theme: &Theme) -> i32 {
        let mut plot = above.plot;
        for (number, (name, points)) in self.columns.iter().enumerate() {
            plot = low_panel(plot);
            let axis = Axis::new(name.as_str()).from_zero();
            let scale = axis.scale(points.iter().map(|point| 1.1 * point.1));
            let panel = Panel { plot, x: above.x, y: scale };
            if number + 1 == self.columns.len() {
                panel.draw(scene, theme, &self.x, &axis);
            } else {
                scene.rect(theme.panel, plot);
                panel.grid_x(scene, theme);
                panel.draw_y(scene, theme, &axis);
                crate::axis::frame(scene, theme, plot);
            }
            self.uprights(scene, &panel, theme);
            stems(scene, &panel, points, theme);
        }
        plot.bottom()
    }

    /// What dots, line and band are.
    fn meanings(&self, theme: &Theme, [measured, fit]: [Colour; 2]) -> Vec<(Key, String)> {
        let line = Stroke::solid(fit, PX * 18 / 10);
        let mut entries =
            vec![(Key::Dot(measured), "measured".into()), (Key::Line(line), "fit".into())];
        if self.lines.iter().any(|line| line.spread[0] > 0.0) {
            let band = Key::Box(theme.panel.mix(fit, 40));
            entries.push((band, "one standard deviation of the residuals".into()));
        }
        if !self.changes.is_empty() {
            let stroke = Stroke::dashed(theme.axis, PX, 2 * PX, 3 * PX);
            entries.push((Key::Line(stroke), "change".into()));
        }
        entries
    }
}

/// The place of the next panel below one.
fn low_panel(above: Rect) -> Rect {
    Rect { y: above.bottom() + 14 * PX, h: LOW_PX * PX, ..above }
}

/// Points with the line that leads to each from 0.
fn stems(scene: &mut Scene, panel: &Panel, points: &[(f64, f64)], theme: &Theme) {
    let colour = theme.series(0);
    let plot = panel.plot;
    scene.clipped(plot, |scene| {
        let zero = panel.y_at(0.0);
        let ground = (at(plot.x, zero), at(plot.right(), zero));
        scene.lines(Stroke::solid(theme.axis, PX), vec![ground]);
        let stem = |&(x, y): &(f64, f64)| (at(panel.x_at(x), zero), panel.at(x, y));
        scene.lines(Stroke::solid(colour.fade(140), PX), points.iter().map(stem).collect());
    });
    let places: Vec<_> = points.iter().map(|&(x, y)| panel.at(x, y)).collect();
    dots(scene, colour.fade(200), &places);
}
