//! A straight line through points, and below it what it leaves unexplained.

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
    /// The line's value at x = 0.
    pub offset: f64,
    /// The line's rise per unit of x.
    pub gradient: f64,
    /// Distance from the line within which most points lie, drawn as a band; 0 for none.
    pub sigma: f64,
}

impl Chart for Fit {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let plot = place(&scene, top, (width_px * 2 / 5).clamp(140, 360));
        let below = Rect { y: plot.bottom() + 14 * PX, h: 90 * PX, ..plot };
        let line = |x: f64| self.offset + self.gradient * x;
        let finite = |p: &&(f64, f64)| p.0.is_finite() && p.1.is_finite();
        let points: Vec<(f64, f64)> = self.points.iter().filter(finite).copied().collect();
        let x = self.x.scale(points.iter().map(|p| p.0));
        let heights = points.iter().flat_map(|&(x, y)| [y, line(x)]);
        let panel = Panel { plot, x, y: self.y.scale(heights) };
        let colours = [theme.series(0), theme.series(1)];

        scene.rect(theme.panel, plot);
        panel.grid_x(&mut scene, theme);
        panel.draw_y(&mut scene, theme, &self.y);
        crate::axis::frame(&mut scene, theme, plot);
        scene.clipped(plot, |scene| {
            let at_end = |x: f64, shift: f64| panel.at(x, line(x) + shift);
            let low = x.low;
            let high = x.high;
            if self.sigma > 0.0 {
                let sigma = self.sigma;
                let corners = [
                    at_end(low, sigma),
                    at_end(high, sigma),
                    at_end(high, -sigma),
                    at_end(low, -sigma),
                ];
                scene.area(colours[1].fade(40), &corners);
                // A low band is the line itself; its edges would hide the dashes of a guess.
                if corners[3].y - corners[0].y > 8 * PX {
                    let edges = vec![(corners[0], corners[1]), (corners[3], corners[2])];
                    scene.lines(Stroke::solid(colours[1], PX / 2), edges);
                }
            }
            // Beyond the points the line is a guess.
            let first = points.iter().map(|point| point.0).fold(high, f64::min);
            let last = points.iter().map(|point| point.0).fold(low, f64::max);
            let part = |from: f64, to: f64| (at_end(from, 0.0), at_end(to, 0.0));
            let guess = Stroke::dashed(colours[1], PX, 4 * PX, 4 * PX);
            scene.lines(guess, vec![part(low, first), part(last, high)]);
            scene.lines(Stroke::solid(colours[1], PX * 18 / 10), vec![part(first, last)]);
        });
        // A dot that stands on the edge is whole.
        let places: Vec<_> = points.iter().map(|&(x, y)| panel.at(x, y)).collect();
        dots(&mut scene, colours[0].fade(200), &places);

        // In the unit of what was measured, with which its name ends: `run time, ms` or `run time [ms]`.
        let unit = self.y.label.rfind([',', '[']).map_or("", |at| &self.y.label[at..]);
        let label = format!("residual{}{unit}", if unit.starts_with('[') { " " } else { "" });
        let axis = Axis { label, range: Some((0.0, 0.0)), ..self.y.clone() };
        // Above and below the farthest there is room for its whole dot.
        let far = |&(x, y): &(f64, f64)| 1.15 * (y - line(x));
        let scale = axis.scale(points.iter().flat_map(|point| [far(point), -far(point)]));
        let rest = Panel { plot: below, x, y: scale };
        rest.draw(&mut scene, theme, &self.x, &axis);
        scene.clipped(below, |scene| {
            let zero = rest.y_at(0.0);
            let ground = (at(below.x, zero), at(below.right(), zero));
            scene.lines(Stroke::solid(theme.axis, PX), vec![ground]);
            let stems = points.iter().map(|&(x, y)| {
                let top = rest.at(x, y - line(x));
                (at(top.x, zero), top)
            });
            scene.lines(Stroke::solid(colours[0].fade(140), PX), stems.collect());
        });
        let places: Vec<_> = points.iter().map(|&(x, y)| rest.at(x, y - line(x))).collect();
        dots(&mut scene, colours[0].fade(200), &places);
        if points.is_empty() {
            say_empty(&mut scene, theme, plot);
        }
        let corner = at(plot.x, below.bottom() + BELOW_PX * PX);
        scene.height =
            keys(&mut scene, theme, corner, plot.w, &self.meanings(theme, colours)) + 6 * PX;
        scene
    }
}

impl Fit {
    /// What dots, line and band are.
    fn meanings(&self, theme: &Theme, [measured, fit]: [Colour; 2]) -> Vec<(Key, String)> {
        let line = Stroke::solid(fit, PX * 18 / 10);
        let mut entries =
            vec![(Key::Dot(measured), "measured".into()), (Key::Line(line), "fit".into())];
        if self.sigma > 0.0 {
            let band = Key::Box(theme.panel.mix(fit, 40));
            entries.push((band, "one standard deviation of the residuals".into()));
        }
        entries
    }
}
