//! The picture `waiting`: how many tasks ran and how many waited for a CPU, over time.
//!
//! Waiting is stacked on running, as in a pile: where the pile is higher than the dotted line at the
//! number of CPUs, somebody must wait; where something waits and running is below that line, work
//! conservation is violated. The shaded area is the time lost to waiting. A column is a mean; a pale
//! area above it reaches to the most tasks that were runnable at one instant of the column.

use crate::axis::{TimeAxis, counts, duration, frame, heading, legend};
use crate::colour::{Colour, Theme};
use crate::scene::{Anchor, PX, Point, Rect, Scene, Stroke, Style, Text, at};
use schedlab_model::{Nanos, Span};

/// A column of the picture: what happened in an equal part of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Time that tasks ran, summed over them.
    pub running: Nanos,
    /// Time that tasks waited for a CPU, summed over them.
    pub waiting: Nanos,
    /// The most tasks that ever waited at once in this part.
    pub waiting_max: u32,
    /// The most tasks that ever ran or waited at once in this part.
    pub most: u32,
}

/// A curve for a part of the machine, or for all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// What it is called: empty for the machine, `socket 1`.
    pub name: String,
    pub cpus: u32,
    /// Equal parts of the window, in order.
    pub levels: Vec<Level>,
}

/// What the picture shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// What the picture is called.
    pub title: String,
    /// Lines under the title: the trace, the window and the machine.
    pub notes: Vec<String>,
    /// What is shown, on the trace's clock.
    pub window: Span,
    /// The instant that is called zero.
    pub origin: Nanos,
    /// The machine, then (if wanted) its parts; drawn under each other.
    pub curves: Vec<Curve>,
}

/// The two colours, which the drop-in for another tool chooses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tints {
    pub(crate) running: Colour,
    pub(crate) waiting: Colour,
}

impl Tints {
    /// Colours that everybody can tell apart.
    #[must_use]
    pub const fn of(theme: &Theme) -> Self {
        Self { running: theme.running, waiting: theme.waiting }
    }

    /// Green runs, red waits: as people know it from `running_waiting`.
    #[must_use]
    pub const fn green_and_red() -> Self {
        Self { running: Colour::hex(0x00_a0_20), waiting: Colour::hex(0xe0_10_10) }
    }
}

const LEFT_PX: i32 = 58;
const RIGHT_PX: i32 = 18;

/// How many columns of a pixel the data has in a picture that is `width_px` pixels wide.
#[must_use]
pub fn columns(width_px: i32) -> u32 {
    u32::try_from(width_px - LEFT_PX - RIGHT_PX).unwrap_or(1).max(1)
}

/// Draws it as [`waiting`] does, with `left_px` pixels left of the data, so that it can stand below a
/// picture whose data begins there.
#[must_use]
pub fn aligned(
    running: &Running,
    width_px: i32,
    left_px: i32,
    tints: Tints,
    theme: &Theme,
) -> Scene {
    draw(running, width_px, left_px.max(LEFT_PX), tints, theme)
}

/// Draws the picture `waiting`, `width_px` pixels wide.
#[must_use]
pub fn waiting(running: &Running, width_px: i32, tints: Tints, theme: &Theme) -> Scene {
    draw(running, width_px, LEFT_PX, tints, theme)
}

fn draw(running: &Running, width_px: i32, left_px: i32, tints: Tints, theme: &Theme) -> Scene {
    let mut scene = Scene::new(width_px * PX, 0, &running.title, theme.ground);
    let mut y = heading(&mut scene, theme, 0, &running.title, &running.notes) + 6 * PX;
    let width = (width_px - left_px - RIGHT_PX).max(1) * PX;
    let axis = TimeAxis { window: running.window, origin: running.origin, x: left_px * PX, width };
    let parts = running.curves.len().saturating_sub(1);
    // Parts of the machine are compared: they have one scale.
    let common = Scale::of(running.curves.iter().skip(1), running.window);
    for (index, curve) in running.curves.iter().enumerate() {
        let height = if index == 0 { 260 } else { (520 / parts.max(1)).clamp(50, 130) };
        let plot = Rect::new(axis.x, y, width, i32::try_from(height).unwrap_or(50) * PX);
        let last = index + 1 == running.curves.len();
        let scale =
            if index == 0 { Scale::of(std::iter::once(curve), running.window) } else { common };
        Part { curve, axis, plot, tints, theme, scale }.draw(&mut scene, last);
        y = plot.bottom() + 14 * PX;
    }
    y += 32 * PX;
    let lost: u64 = running.curves.first().map_or(0, |curve| curve.lost().0);
    let mut entries = vec![
        (tints.running, "running".to_owned()),
        (tints.waiting, format!("waiting for a CPU ({} in all)", duration(Nanos(lost)))),
    ];
    let most = running.curves.first().and_then(Curve::most).filter(|most| *most > 0);
    entries.extend(most.map(|most| (peaks(theme), format!("most at one instant (up to {most})"))));
    y = legend(&mut scene, theme, at(axis.x, y), width, &entries);
    scene.height = y + 8 * PX;
    scene
}

impl Curve {
    /// The most tasks that ever ran or waited at once; `None` without columns.
    #[must_use]
    pub(crate) fn most(&self) -> Option<u32> {
        self.levels.iter().map(|level| level.most).max()
    }

    /// Length of a column, in nanoseconds.
    fn column(&self, window: Span) -> u64 {
        let count = u64::try_from(self.levels.len().max(1)).unwrap_or(1);
        (window.duration().0 / count).max(1)
    }

    /// Time that tasks lost to waiting, summed over them.
    #[must_use]
    pub(crate) fn lost(&self) -> Nanos {
        self.levels.iter().fold(Nanos::ZERO, |sum, level| sum + level.waiting)
    }
}

/// The colour of what lasted for an instant.
fn peaks(theme: &Theme) -> Colour {
    theme.panel.mix(theme.muted, 110)
}

/// From tasks to units of height.
#[derive(Clone, Copy)]
struct Scale {
    /// The number of tasks at the upper edge.
    top: u64,
}

impl Scale {
    fn of<'a>(curves: impl Iterator<Item = &'a Curve>, window: Span) -> Self {
        let highest = |curve: &Curve| {
            let column = curve.column(window);
            let mean = curve.levels.iter().map(|l| (l.running + l.waiting).0 / column + 1).max();
            let most = u64::from(curve.most().unwrap_or(0));
            mean.unwrap_or(1).max(most).max(curve.cpus.into())
        };
        let top = curves.map(highest).max().unwrap_or(1).max(1);
        // Room above, so that the line at the number of CPUs is not the frame.
        Self { top: top + top.div_ceil(12) }
    }
}

struct Part<'a> {
    curve: &'a Curve,
    axis: TimeAxis,
    plot: Rect,
    tints: Tints,
    theme: &'a Theme,
    scale: Scale,
}

impl Part<'_> {
    fn draw(self, scene: &mut Scene, last: bool) {
        let column = self.column();
        scene.rect(self.theme.panel, self.plot);
        self.grid(scene);
        let running = self.steps(|level| level.running);
        let both = self.steps(|level| level.running + level.waiting);
        self.peaks(scene, column);
        if running.len() > 1 {
            let base = self.plot.bottom();
            let mut area = running.clone();
            area.extend([at(self.right(), base), at(self.plot.x, base)]);
            scene.area(self.tints.running.fade(60), &area);
            let mut lost = both.clone();
            lost.extend(running.iter().rev());
            scene.area(self.tints.waiting.fade(90), &lost);
            // The line of waiting lies on top, and only where somebody waits.
            scene.polyline(Stroke::solid(self.tints.running, PX + PX / 2), &running);
            for part in self.apart(&running, &both) {
                scene.polyline(Stroke::solid(self.tints.waiting, PX + PX / 2), &part);
            }
        }
        self.cpus(scene);
        match last {
            true => self.axis.draw(scene, self.plot, self.theme, "the trace began"),
            false => {
                let lines = self.axis.ticks(80 * PX).into_iter();
                let lines = lines.map(|(x, _)| (at(x, self.plot.y), at(x, self.plot.bottom())));
                scene.lines(Stroke::solid(self.theme.axis.fade(70), PX / 2), lines.collect());
            }
        }
        frame(scene, self.theme, self.plot);
    }

    /// From the mean of each column to its most, behind the rest.
    fn peaks(&self, scene: &mut Scene, column: u64) {
        let both = self.steps(|level| level.running + level.waiting);
        let most = self.steps(|level| Nanos(column.saturating_mul(level.most.into())));
        let higher = |(low, high): (&[Point], &[Point])| {
            let h = low[0].y - high[0].y;
            (h > 0).then(|| Rect::new(high[0].x, high[0].y, (high[1].x - high[0].x).max(1), h))
        };
        // Columns of one height are one box: seams between them would look like hatching.
        let mut rects: Vec<Rect> = Vec::new();
        for rect in both.chunks(2).zip(most.chunks(2)).filter_map(higher) {
            match rects.last_mut() {
                Some(last) if (last.y, last.h, last.right()) == (rect.y, rect.h, rect.x) => {
                    last.w += rect.w;
                }
                _ => rects.push(rect),
            }
        }
        // Pale, so that the means stand out; a line on top says how high it goes.
        let lines = rects.iter().map(|rect| Rect { h: rect.h.min(PX), ..*rect }).collect();
        scene.rects(peaks(self.theme), rects);
        scene.rects(self.theme.muted, lines);
    }

    fn column(&self) -> u64 {
        self.curve.column(self.axis.window)
    }

    fn right(&self) -> i32 {
        self.axis.place(self.axis.window.end)
    }

    /// The height of this much task time in one column.
    fn height(&self, time: Nanos) -> i32 {
        let whole = u128::from(self.column()) * u128::from(self.scale.top);
        let units = u128::from(time.0) * u128::from(self.plot.h.unsigned_abs()) / whole;
        self.plot.bottom() - i32::try_from(units).unwrap_or(self.plot.h).min(self.plot.h)
    }

    /// A staircase through the columns; equal steps are joined.
    fn steps(&self, value: impl Fn(&Level) -> Nanos) -> Vec<Point> {
        let count = i64::try_from(self.curve.levels.len().max(1)).unwrap_or(i64::MAX);
        let width = i64::from(self.right() - self.plot.x);
        let mut points: Vec<Point> = Vec::with_capacity(self.curve.levels.len() * 2);
        for (index, level) in (0_i64..).zip(&self.curve.levels) {
            let edge = |index: i64| {
                self.plot.x + i32::try_from(width * index / count).expect("inside of the plot")
            };
            let y = self.height(value(level));
            points.extend([at(edge(index), y), at(edge(index + 1), y)]);
        }
        points
    }

    /// The stretches of `above` that are not on `below`, each with its feet on `below`.
    fn apart(&self, below: &[Point], above: &[Point]) -> Vec<Vec<Point>> {
        let mut parts: Vec<Vec<Point>> = Vec::new();
        let mut open = false;
        for (low, high) in below.chunks(2).zip(above.chunks(2)) {
            let differs = low[0].y != high[0].y;
            match (differs, open) {
                (true, true) => parts.last_mut().expect("one is open").extend(high),
                (true, false) => parts.push(vec![low[0], high[0], high[1]]),
                (false, true) => parts.last_mut().expect("one is open").push(low[0]),
                (false, false) => {}
            }
            open = differs;
        }
        parts
    }

    fn grid(&self, scene: &mut Scene) {
        let style = Style::regular(11, self.theme.muted);
        let ticks = u64::try_from(self.plot.h / (34 * PX)).unwrap_or(1).max(1);
        let mut lines = Vec::new();
        for tasks in counts(self.scale.top, ticks) {
            let units = u64::try_from(self.plot.h).unwrap_or(0) * tasks / self.scale.top;
            let y = self.plot.bottom() - i32::try_from(units).unwrap_or(0);
            lines.push((at(self.plot.x, y), at(self.plot.right(), y)));
            let point = at(self.plot.x - 6 * PX, y + 4 * PX);
            scene.text(point, Anchor::End, style, &tasks.to_string());
        }
        scene.lines(Stroke::solid(self.theme.grid, PX / 2), lines);
        let middle = at(18 * PX, self.plot.y + self.plot.h / 2);
        let name = if self.curve.name.is_empty() { "tasks" } else { self.curve.name.as_str() };
        let text = Text::upwards(middle, Anchor::Middle, style, name);
        scene.items.push(crate::Item::Text(text));
    }

    /// The dotted line at the number of CPUs.
    fn cpus(&self, scene: &mut Scene) {
        let units = u64::try_from(self.plot.h).unwrap_or(0) * u64::from(self.curve.cpus);
        let y = self.plot.bottom() - i32::try_from(units / self.scale.top).unwrap_or(0);
        let line = vec![(at(self.plot.x, y), at(self.plot.right(), y))];
        scene.lines(Stroke::dashed(self.theme.text, PX, 2 * PX, 3 * PX), line);
        let label = crate::number_of(self.curve.cpus as usize, "CPU");
        // Above the line, or below it where the frame would cut the label.
        let below = y - 15 * PX < self.plot.y;
        let point = at(self.plot.right() - 4 * PX, if below { y + 12 * PX } else { y - 4 * PX });
        let style = Style::regular(10, self.theme.text);
        // A plate, so that it can be read where many wait.
        let width = style.width(&label) + 6 * PX;
        let plate = Rect::new(point.x + 3 * PX - width, point.y - 10 * PX, width, 13 * PX);
        scene.rect(self.theme.panel.fade(215), plate);
        scene.text(point, Anchor::End, style, &label);
    }
}
