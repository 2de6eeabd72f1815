//! A panel: the frame of a chart with its two axes.

use super::scale::{Axis, Scale};
use crate::axis::{frame, heading, tick_label};
use crate::colour::Theme;
use crate::scene::{Anchor, PX, Point, Rect, Scene, Stroke, Style, Text, at};

/// Room left of a panel for values and the axis's name, in pixels.
const LEFT_PX: i32 = 76;
const RIGHT_PX: i32 = 18;
/// Room below a panel for values and the axis's name, in pixels.
pub(super) const BELOW_PX: i32 = 44;

/// Steps between values on the vertical axis of a panel that is low, where they still fit.
const LOW_TICKS: usize = 4;

/// A panel with two scales.
pub(super) struct Panel {
    pub(super) plot: Rect,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

/// An empty picture with its title; and where a panel can begin.
pub(super) fn begin(width_px: i32, theme: &Theme, title: &str, notes: &[String]) -> (Scene, i32) {
    let mut scene = Scene::new(width_px.max(200) * PX, 0, title, theme.ground);
    let y = heading(&mut scene, theme, 0, title, notes) + 4 * PX;
    (scene, y)
}

/// The panel's place in a picture: full width, from `top` down.
pub(super) fn place(scene: &Scene, top: i32, height_px: i32) -> Rect {
    Rect::new(LEFT_PX * PX, top, scene.width - (LEFT_PX + RIGHT_PX) * PX, height_px * PX)
}

/// In the middle of a panel without data.
pub(super) fn say_empty(scene: &mut Scene, theme: &Theme, plot: Rect) {
    let middle = at(plot.x + plot.w / 2, plot.y + plot.h / 2);
    scene.text(middle, Anchor::Middle, Style::regular(12, theme.muted), "no values");
}

impl Panel {
    /// Where a value pair stands.
    pub(super) fn at(&self, x: f64, y: f64) -> Point {
        at(self.x_at(x), self.y_at(y))
    }

    pub(super) fn x_at(&self, x: f64) -> i32 {
        self.plot.x + part(self.x.fraction(x), self.plot.w)
    }

    pub(super) fn y_at(&self, y: f64) -> i32 {
        self.plot.bottom() - part(self.y.fraction(y), self.plot.h)
    }

    /// Ground, grid, values and names of the axes.
    pub(super) fn draw(&self, scene: &mut Scene, theme: &Theme, x: &Axis, y: &Axis) {
        scene.rect(theme.panel, self.plot);
        self.draw_x(scene, theme, x);
        self.draw_y(scene, theme, y);
        frame(scene, theme, self.plot);
    }

    pub(super) fn draw_x(&self, scene: &mut Scene, theme: &Theme, axis: &Axis) {
        let plot = self.plot;
        let style = Style::regular(11, theme.muted);
        for (value, label) in self.x_ticks() {
            tick_label(scene, at(self.x_at(value), plot.bottom() + 16 * PX), style, &label);
        }
        self.grid_x(scene, theme);
        let middle = at(plot.x + plot.w / 2, plot.bottom() + 33 * PX);
        scene.text(middle, Anchor::Middle, style, &axis.label);
    }

    fn x_ticks(&self) -> Vec<(f64, String)> {
        self.x.ticks(usize::try_from(self.plot.w / (80 * PX)).unwrap_or(1).max(1))
    }

    /// The upright lines of the grid alone, for a panel above another one with the same axis.
    pub(super) fn grid_x(&self, scene: &mut Scene, theme: &Theme) {
        let line = |(value, _): (f64, String)| {
            let x = self.x_at(value);
            (at(x, self.plot.y), at(x, self.plot.bottom()))
        };
        let lines = self.x_ticks().into_iter().map(line).collect();
        scene.lines(Stroke::solid(theme.grid, PX / 2), lines);
    }

    /// The level lines of the grid alone, for a panel beside another one with the same axis.
    pub(super) fn grid_y(&self, scene: &mut Scene, theme: &Theme) {
        let line = |(value, _): (f64, String)| {
            let y = self.y_at(value);
            (at(self.plot.x, y), at(self.plot.right(), y))
        };
        let lines = self.y_ticks().into_iter().map(line).collect();
        scene.lines(Stroke::solid(theme.grid, PX / 2), lines);
    }

    fn y_ticks(&self) -> Vec<(f64, String)> {
        // A low panel's few values stand closer: one alone would not tell its scale.
        let least = usize::try_from(self.plot.h / (16 * PX)).unwrap_or(1).min(LOW_TICKS);
        let most = usize::try_from(self.plot.h / (34 * PX)).unwrap_or(1).max(least).max(1);
        self.y.ticks(most)
    }

    pub(super) fn draw_y(&self, scene: &mut Scene, theme: &Theme, axis: &Axis) {
        let plot = self.plot;
        let style = Style::regular(11, theme.muted);
        self.grid_y(scene, theme);
        for (value, label) in self.y_ticks() {
            let y = self.y_at(value);
            scene.text(at(plot.x - 7 * PX, y + 4 * PX), Anchor::End, style, &label);
        }
        name_y(scene, theme, plot, &axis.label);
    }
}

/// The name of a vertical axis, left of its values.
pub(super) fn name_y(scene: &mut Scene, theme: &Theme, plot: Rect, name: &str) {
    if !name.is_empty() {
        let style = Style::regular(11, theme.muted);
        let point = at(18 * PX, plot.y + plot.h / 2);
        scene.items.push(crate::Item::Text(Text::upwards(point, Anchor::Middle, style, name)));
    }
}

/// A fraction of a length; what lies far outside is held near, so that it can still be clipped.
fn part(fraction: f64, length: i32) -> i32 {
    (fraction.clamp(-2.0, 3.0) * f64::from(length)).round() as i32
}
