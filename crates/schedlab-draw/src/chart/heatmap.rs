//! Heat maps: a value for each choice on two axes, with contours, the best point and the stable region.

use super::Chart;
use super::panel::{begin, name_y};
use super::scale::{Values, plain};
use crate::axis::duration;
use crate::colour::{Colour, Theme, on_scale};
use crate::font::shorten;
use crate::scene::{Anchor, PX, Point, Rect, Scene, Stroke, Style, at};
use schedlab_model::Nanos;
use std::collections::BTreeMap;

/// A value for each choice on two axes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Heatmap {
    /// The title above the chart.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    /// Name of the axis to the right.
    pub x_label: String,
    /// Name of the axis upwards.
    pub y_label: String,
    /// The labels of the columns, from left to right.
    pub columns: Vec<String>,
    /// The choices upwards, the lowest row first.
    pub rows: Vec<String>,
    /// What the values are: name of the scale.
    pub value_label: String,
    pub values: Values,
    /// Row by row from the lowest, a value for each column; `None` where nothing was measured.
    pub cells: Vec<Vec<Option<f64>>>,
    /// The best cell (row, column), ringed.
    pub best: Option<(usize, usize)>,
    /// Cells of the stable region, outlined together.
    pub stable: Vec<(usize, usize)>,
    /// Values at which the map is cut into levels, each drawn as a contour between cells.
    pub contours: Vec<f64>,
}

impl Chart for Heatmap {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let rows = self.rows.len().max(1);
        let columns = self.columns.len().max(1);
        let style = Style::regular(11, theme.muted);
        let widest = self.rows.iter().map(|row| style.width(row)).max().unwrap_or(0).min(150 * PX);
        // Whole pixels: else the ground shows through between cells.
        let whole = |units: i32| (units / PX).max(1) * PX;
        let left = whole(34 * PX + widest);
        let top = whole(top);
        let room = scene.width - left - 110 * PX;
        let width = whole((room / i32::try_from(columns).unwrap_or(i32::MAX)).max(2 * PX));
        let height = 360 * PX / i32::try_from(rows).unwrap_or(i32::MAX);
        let height = whole(height.clamp(6 * PX, 40 * PX));
        let count = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let plot = Rect::new(left, top, width * count(columns), height * count(rows));
        let grid = Grid { plot, width, height };
        let (low, high) = self.range();
        self.cells(&mut scene, theme, &grid, low, high);
        self.labels(&mut scene, theme, &grid);
        self.edges(&mut scene, theme, &grid);
        self.scale(&mut scene, theme, plot, low, high);
        scene.height = plot.bottom() + 46 * PX;
        scene
    }
}

/// Whether a byte of a cell's text belongs to a plain number.
const fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'.'
}

/// Where the cells of the map are drawn.
struct Grid {
    plot: Rect,
    width: i32,
    height: i32,
}

impl Grid {
    fn cell(&self, row: usize, column: usize) -> Rect {
        let row = i32::try_from(row).unwrap_or(0);
        let column = i32::try_from(column).unwrap_or(0);
        let y = self.plot.bottom() - (row + 1) * self.height;
        Rect::new(self.plot.x + column * self.width, y, self.width, self.height)
    }
}

impl Heatmap {
    fn value(&self, row: usize, column: usize) -> Option<f64> {
        self.cells.get(row)?.get(column).copied().flatten().filter(|value| value.is_finite())
    }

    fn all(&self) -> impl Iterator<Item = (usize, usize)> {
        let columns = self.columns.len();
        (0..self.rows.len()).flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }

    fn range(&self) -> (f64, f64) {
        let values = self.all().filter_map(|(row, column)| self.value(row, column));
        let (low, high) =
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
        if low <= high { (low, high) } else { (0.0, 1.0) }
    }

    fn cells(&self, scene: &mut Scene, theme: &Theme, grid: &Grid, low: f64, high: f64) {
        scene.rect(theme.grid, grid.plot);
        let mut boxes: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
        let mut texts = Vec::new();
        let unit = self.unit(low, high);
        for (row, column) in self.all() {
            let Some(value) = self.value(row, column) else { continue };
            let colour = on_scale((value - low) / (high - low).max(f64::MIN_POSITIVE));
            let cell = grid.cell(row, column);
            boxes.entry(colour).or_default().push(cell);
            let style = Style::regular(10, colour.ink());
            let text = self.write(value, (high - low) / 100.0);
            // The scale names the unit that all have; a cell has room for the number.
            let text = match &unit {
                Some(unit) => {
                    text.strip_suffix(unit.as_str()).unwrap_or(&text).trim_end().to_owned()
                }
                None => text,
            };
            texts.push((cell, style, text));
        }
        // As many digits in each cell: 1.3 beside 1.42 is 1.30.
        let digits = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
        let numbers = texts.iter().all(|(.., text)| text.bytes().all(is_of_number));
        let most = texts.iter().map(|(.., text)| digits(text)).max().filter(|_| numbers);
        for (.., text) in &mut texts {
            if let Some(most) = most.filter(|most| *most > 0) {
                if !text.contains('.') {
                    text.push('.');
                }
                while digits(text) < most {
                    text.push('0');
                }
            }
        }
        for (colour, rects) in boxes {
            scene.rects(colour, rects);
        }
        for (cell, style, text) in texts {
            if style.width(&text) < cell.w - 10 * PX && cell.h >= 14 * PX {
                let middle = at(cell.x + cell.w / 2, cell.y + cell.h / 2 + 4 * PX);
                scene.text(middle, Anchor::Middle, style, &text);
            }
        }
    }

    /// The unit in which all durations are written, if it is one.
    fn unit(&self, low: f64, high: f64) -> Option<String> {
        if self.values != Values::Nanoseconds {
            return None;
        }
        let mut values = self.all().filter_map(|(row, column)| self.value(row, column));
        let of = |value: f64| {
            self.write(value, (high - low) / 100.0).split_once(' ').map(|(_, unit)| unit.to_owned())
        };
        let first = values.next().and_then(of)?;
        values.all(|value| of(value).as_deref() == Some(first.as_str())).then_some(first)
    }

    fn write(&self, value: f64, step: f64) -> String {
        match self.values {
            Values::Nanoseconds => duration(Nanos(value.max(0.0).round() as u64)),
            Values::Percent => format!("{} %", plain(value * 100.0, (step * 100.0).max(1e-9))),
            Values::Plain | Values::Counts => plain(value, step.max(1e-9)),
        }
    }

    fn labels(&self, scene: &mut Scene, theme: &Theme, grid: &Grid) {
        let style = Style::regular(11, theme.muted);
        let mut free = i32::MIN;
        for (index, column) in self.columns.iter().enumerate() {
            let cell = grid.cell(0, index);
            let middle = cell.x + cell.w / 2;
            let label = shorten(column, style.size, style.weight, 90 * PX);
            let width = style.width(&label);
            // Labels that would touch are left out.
            if middle - width / 2 > free {
                scene.text(at(middle, grid.plot.bottom() + 15 * PX), Anchor::Middle, style, &label);
                free = middle + width / 2 + 6 * PX;
            }
        }
        let mut free = i32::MAX;
        for (index, row) in self.rows.iter().enumerate() {
            let cell = grid.cell(index, 0);
            let y = cell.y + cell.h / 2 + 4 * PX;
            if y < free {
                let label = shorten(row, style.size, style.weight, 150 * PX);
                scene.text(at(grid.plot.x - 6 * PX, y), Anchor::End, style, &label);
                free = y - 12 * PX;
            }
        }
        let middle = at(grid.plot.x + grid.plot.w / 2, grid.plot.bottom() + 33 * PX);
        scene.text(middle, Anchor::Middle, style, &self.x_label);
        name_y(scene, theme, grid.plot, &self.y_label);
    }

    /// Lines between cells of which one is inside: around the stable region, and at contours.
    fn edges(&self, scene: &mut Scene, theme: &Theme, grid: &Grid) {
        for &level in &self.contours {
            let above = |row, column| self.value(row, column).is_some_and(|value| value >= level);
            let known = |row, column| self.value(row, column).is_some();
            let lines = self.border(grid, above, known, false);
            scene.lines(Stroke::solid(Colour::WHITE.fade(220), PX * 3 / 2), lines.clone());
            scene.lines(Stroke::dashed(Colour::BLACK.fade(180), PX, 3 * PX, 3 * PX), lines);
        }
        let inside = |row, column| self.stable.contains(&(row, column));
        let lines = self.border(grid, inside, |_, _| true, true);
        scene.lines(Stroke::solid(Colour::WHITE, PX * 4), lines.clone());
        scene.lines(Stroke::solid(theme.alarm, PX * 2), lines);
        if let Some((row, column)) = self.best {
            let Rect { x, y, w, h } = grid.cell(row, column);
            for (colour, inset, width) in
                [(Colour::WHITE, 2 * PX, 4 * PX), (Colour::BLACK, 2 * PX, 3 * PX / 2)]
            {
                let a = at(x + inset, y + inset);
                let b = at(x + w - inset, y + h - inset);
                // The first side once more, so that the last corner is joined as the others are.
                let ring = [a, at(b.x, a.y), b, at(a.x, b.y), a, at(b.x, a.y)];
                scene.polyline(Stroke::solid(colour, width), &ring);
            }
        }
    }

    /// `closed`: also along the edge of the map, behind which nothing is known.
    fn border(
        &self,
        grid: &Grid,
        inside: impl Fn(usize, usize) -> bool,
        counts: impl Fn(usize, usize) -> bool,
        closed: bool,
    ) -> Vec<(Point, Point)> {
        let rows = self.rows.len();
        let columns = self.columns.len();
        let mut lines = Vec::new();
        for (row, column) in self.all().filter(|&(row, column)| inside(row, column)) {
            let Rect { x, y, w, h } = grid.cell(row, column);
            // Between cells only known ones make an edge.
            let out = |r: usize, c: usize| !inside(r, c) && counts(r, c);
            let edge = |last: bool, out: &dyn Fn() -> bool| if last { closed } else { out() };
            let left = at(x, y);
            let right = at(x + w, y);
            let low = at(x, y + h);
            let low_right = at(x + w, y + h);
            if edge(column == 0, &|| out(row, column - 1)) {
                lines.push((left, low));
            }
            if edge(column + 1 >= columns, &|| out(row, column + 1)) {
                lines.push((right, low_right));
            }
            if edge(row == 0, &|| out(row - 1, column)) {
                lines.push((low, low_right));
            }
            if edge(row + 1 >= rows, &|| out(row + 1, column)) {
                lines.push((left, right));
            }
        }
        lines
    }

    fn scale(&self, scene: &mut Scene, theme: &Theme, plot: Rect, low: f64, high: f64) {
        const STEPS: i32 = 40;
        let x = plot.right() + 16 * PX;
        let height = plot.h.min(200 * PX);
        for step in 0..STEPS {
            let y = plot.y + height * (STEPS - 1 - step) / STEPS;
            let next = plot.y + height * (STEPS - step) / STEPS;
            let colour = on_scale(f64::from(step) / f64::from(STEPS - 1));
            scene.rect(colour, Rect::new(x, y, 12 * PX, next - y));
        }
        let style = Style::regular(10, theme.muted);
        for (part, value) in [(0, high), (1, f64::midpoint(low, high)), (2, low)] {
            let y = plot.y + height * part / 2 + 4 * PX;
            let text = self.write(value, (high - low) / 100.0);
            scene.text(at(x + 17 * PX, y), Anchor::Start, style, &text);
        }
        let label = shorten(&self.value_label, style.size, style.weight, 90 * PX);
        scene.text(at(x, plot.y + height + 20 * PX), Anchor::Start, style, &label);
        if self.all().any(|(row, column)| self.value(row, column).is_none()) {
            let y = plot.y + height + 26 * PX;
            let swatch = Rect::new(x, y, 11 * PX, 11 * PX);
            scene.rect(theme.grid, swatch);
            crate::axis::frame(scene, theme, swatch);
            scene.text(at(x + 16 * PX, y + 9 * PX), Anchor::Start, style, "no value");
        }
    }
}
