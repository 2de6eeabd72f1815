//! Axes: where ticks stand, what they say, and the frame around the data.

use crate::colour::{MARK_CONTRAST, Theme};
use crate::scene::{Anchor, Item, PX, Point, Rect, Scene, Stroke, Style, at, circle};
use schedlab_model::{Nanos, Span, Unit, readable};

/// Distances between ticks, in nanoseconds, are 1, 2 or 5 times a power of ten.
fn step_of(span: u64, ticks_max: u64) -> u64 {
    let least = span.div_ceil(ticks_max.max(1)).max(1);
    let mut power = 1_u64;
    loop {
        for factor in [1, 2, 5] {
            let step = power.saturating_mul(factor);
            if step >= least {
                return step;
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Time to the right: a window of a trace on a stretch of the picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAxis {
    /// What is shown, on the trace's clock.
    pub(crate) window: Span,
    /// The instant that is called zero.
    pub(crate) origin: Nanos,
    /// Where the window begins, in units.
    pub(crate) x: i32,
    /// How wide it is, in units.
    pub(crate) width: i32,
}

impl TimeAxis {
    /// Where an instant stands; what lies outside of the window stands at its edge.
    #[must_use]
    pub(crate) fn place(&self, time: Nanos) -> i32 {
        let Span { start, end } = self.window;
        let inside = u128::from((time.min(end) - start).0);
        let whole = u128::from(self.window.duration().0.max(1));
        let units = inside * u128::from(self.width.unsigned_abs()) / whole;
        self.x + i32::try_from(units).expect("inside of the window is inside of the width")
    }

    /// The unit in which this axis counts: its length in nanoseconds and its name.
    #[must_use]
    pub(crate) fn unit(&self) -> (u64, &'static str) {
        match self.window.duration().0 {
            0..10_000 => (1, "ns"),
            10_000..10_000_000 => (1_000, "µs"),
            10_000_000..10_000_000_000 => (1_000_000, "ms"),
            _ => (1_000_000_000, "s"),
        }
    }

    /// What is taken off the labels of ticks, in nanoseconds since the origin: far from the origin their
    /// common digits would fill them. Zero where labels stay short without.
    #[must_use]
    pub(crate) fn offset(&self) -> u64 {
        let unit = self.unit().0;
        let from = self.window.start.0.saturating_sub(self.origin.0);
        if from / unit < 10_000 { 0 } else { from / (1_000 * unit) * 1_000 * unit }
    }

    /// In which unit it counts, and from where: `[ms]`, `3.075 s + [ns]`.
    #[must_use]
    pub(crate) fn counts_in(&self) -> String {
        let (unit, name) = self.unit();
        match self.offset() {
            0 => format!("[{name}]"),
            offset => {
                let decimals = if unit >= 1_000_000 {
                    0
                } else if unit >= 1_000 {
                    3
                } else {
                    6
                };
                format!("{} s + [{name}]", decimal(offset.into(), 1_000_000_000, decimals))
            }
        }
    }

    /// Ticks at round distances from the origin, each with its label, at least `apart` units apart.
    #[must_use]
    pub(crate) fn ticks(&self, apart: i32) -> Vec<(i32, String)> {
        let Span { start, end } = self.window;
        let count = u64::try_from(self.width / apart.max(1)).unwrap_or(1);
        let step = step_of(self.window.duration().0, count);
        let unit = self.unit().0;
        let decimals = (0..9)
            .find(|&digits| (u128::from(step) * 10_u128.pow(digits)).is_multiple_of(unit.into()))
            .unwrap_or(9);
        // The origin can lie after the start (a window before it): count from below.
        let before = self.origin.0.saturating_sub(start.0).div_ceil(step);
        let taken = i128::from(self.offset());
        let first = match start.0.checked_sub(self.origin.0) {
            Some(after) => i128::from(after.div_ceil(step)),
            None => -i128::from(before) + i128::from(before * step != self.origin.0 - start.0),
        };
        (first..)
            .map(|index| index * i128::from(step))
            .map(|offset| (i128::from(self.origin.0) + offset, offset))
            .take_while(|(time, _)| *time <= i128::from(end.0))
            .map(|(time, offset)| {
                let time = Nanos(u64::try_from(time).expect("not before the window"));
                (self.place(time), decimal(offset - taken, unit, decimals))
            })
            .collect()
    }

    /// Draws ticks, grid lines over `plot`, and below `plot` the text `since`: the moment at which the axis is 0.
    pub(crate) fn draw(&self, scene: &mut Scene, plot: Rect, theme: &Theme, since: &str) {
        let style = Style::regular(11, theme.muted);
        let mut grid = Vec::new();
        let mut marks = Vec::new();
        // As far apart as the longest label needs, and a little more.
        let widest = self.ticks(80 * PX).iter().map(|(_, label)| style.width(label)).max();
        let apart = (widest.unwrap_or(0) + 14 * PX).max(80 * PX);
        for (x, label) in self.ticks(apart) {
            grid.push((at(x, plot.y), at(x, plot.bottom())));
            marks.push((at(x, plot.bottom()), at(x, plot.bottom() + 4 * PX)));
            tick_label(scene, at(x, plot.bottom() + 16 * PX), style, &label);
        }
        scene.lines(Stroke::solid(theme.axis, PX), marks);
        scene.lines(Stroke::solid(theme.axis.fade(70), PX / 2), grid);
        let name = match self.offset() {
            0 => format!("time since {since} {}", self.counts_in()),
            _ => format!("time since {since}: {}", self.counts_in()),
        };
        tick_label(scene, at(self.x + self.width / 2, plot.bottom() + 32 * PX), style, &name);
    }
}

/// A tick's label: in the middle under its tick, but never beyond the edges of the picture.
pub(crate) fn tick_label(scene: &mut Scene, tick: Point, style: Style, label: &str) {
    let half = style.width(label) / 2;
    let left = EDGE + half;
    let right = scene.width - EDGE - half;
    let x = if left < right { tick.x.clamp(left, right) } else { tick.x };
    scene.text(at(x, tick.y), Anchor::Middle, style, label);
}

/// What stays free between a label and the edge of the picture.
const EDGE: i32 = 2 * PX;

/// `value / unit`, rounded to that many digits after the point.
fn decimal(value: i128, unit: u64, decimals: u32) -> String {
    let unit = u128::from(unit);
    let scaled = (value.unsigned_abs() * 10_u128.pow(decimals) + unit / 2) / unit;
    let sign = if value < 0 { "−" } else { "" };
    let whole = scaled / 10_u128.pow(decimals);
    let rest = scaled % 10_u128.pow(decimals);
    match decimals {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{rest:0width$}", width = decimals as usize),
    }
}

/// A duration as pictures write it: three significant digits, rounded, and a unit.
#[must_use]
pub fn duration(time: Nanos) -> String {
    match time {
        // A place on an axis, which has its unit too.
        Nanos::ZERO => "0 ns".into(),
        time => readable(time.0 as f64, Unit::Nanoseconds),
    }
}

/// A number of things as pictures write it: `1 CPU`, `8 CPUs`.
#[must_use]
pub fn number_of(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// Whole numbers for an axis from 0 to `max`: at most `ticks_max` steps.
#[must_use]
pub(crate) fn counts(max: u64, ticks_max: u64) -> Vec<u64> {
    let step = step_of(max, ticks_max);
    (0..=max / step).map(|index| index * step).collect()
}

/// What stands above the data, from `top` down: the title, and what was looked at.
/// Returns where the data can begin, in units.
pub(crate) fn heading(
    scene: &mut Scene,
    theme: &Theme,
    top: i32,
    title: &str,
    notes: &[String],
) -> i32 {
    let left = 16 * PX;
    let room = scene.width - 2 * left;
    let style = Style::bold(15, theme.text);
    let title = crate::font::shorten(title, style.size, style.weight, room);
    let mut y = top + 26 * PX;
    scene.text(at(left, y), Anchor::Start, style, &title);
    let style = Style::regular(12, theme.muted);
    for line in notes.iter().flat_map(|note| wrapped(note, room, style)) {
        y += 17 * PX;
        let line = crate::font::shorten(&line, style.size, style.weight, room);
        scene.text(at(left, y), Anchor::Start, style, &line);
    }
    y + 14 * PX
}

/// A sentence as lines that fit.
fn wrapped(sentence: &str, room: i32, style: Style) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in sentence.split_whitespace() {
        match lines.last_mut() {
            Some(line) if style.width(&format!("{line} {word}")) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The frame around data.
pub(crate) fn frame(scene: &mut Scene, theme: &Theme, plot: Rect) {
    let corners = [
        at(plot.x, plot.y),
        at(plot.right(), plot.y),
        at(plot.right(), plot.bottom()),
        at(plot.x, plot.bottom()),
        at(plot.x, plot.y),
    ];
    scene.polyline(Stroke::solid(theme.axis, PX), &corners);
}

/// The colour of an entry of a legend that is words alone: it has no swatch.
pub const WORDS: crate::Colour = crate::Colour::BLACK.fade(0);

/// What stands before an entry of a legend: a sample of what it explains.
#[derive(Clone, Debug)]
pub(crate) enum Key {
    /// A filled area: a square of its colour.
    Box(crate::Colour),
    Line(Stroke),
    Dot(crate::Colour),
    /// Nothing: the entry is words alone.
    Words,
}

/// How long the sample of a line is.
const KEY_LINE: i32 = 20 * PX;

impl Key {
    /// The room before the words.
    const fn room(&self) -> i32 {
        match self {
            Self::Words => 0,
            Self::Box(_) => 16 * PX,
            Self::Line(_) => KEY_LINE + 5 * PX,
            Self::Dot(_) => 11 * PX,
        }
    }

    fn draw(&self, scene: &mut Scene, theme: &Theme, Point { x, y }: Point) {
        let middle = y + 6 * PX;
        match self {
            Self::Words => {}
            Self::Box(colour) => {
                let swatch = Rect::new(x, y, 11 * PX, 11 * PX);
                scene.rect(*colour, swatch);
                // A pale one would be lost on the ground.
                if colour.contrast(theme.ground) < MARK_CONTRAST {
                    frame(scene, theme, swatch);
                }
            }
            Self::Line(stroke) => {
                scene.lines(stroke.clone(), vec![(at(x, middle), at(x + KEY_LINE, middle))]);
            }
            Self::Dot(colour) => scene.items.push(Item::Path {
                fill: Some(*colour),
                stroke: None,
                steps: circle(at(x + 3 * PX, middle), 3 * PX),
            }),
        }
    }
}

/// Swatches with labels, as many in a line as fit; [`WORDS`] have no swatch, and the whole width.
/// Returns the next free line below, in units.
pub(crate) fn legend(
    scene: &mut Scene,
    theme: &Theme,
    corner: Point,
    room: i32,
    entries: &[(crate::Colour, String)],
) -> i32 {
    let key = |(colour, label): &(crate::Colour, String)| match *colour {
        WORDS => (Key::Words, label.clone()),
        colour => (Key::Box(colour), label.clone()),
    };
    let entries: Vec<(Key, String)> = entries.iter().map(key).collect();
    keys(scene, theme, corner, room, &entries)
}

/// Samples with labels, as [`legend`] places them.
pub(crate) fn keys(
    scene: &mut Scene,
    theme: &Theme,
    corner: Point,
    room: i32,
    entries: &[(Key, String)],
) -> i32 {
    let style = Style::regular(11, theme.text);
    let mut x = corner.x;
    let mut y = corner.y;
    for (key, label) in entries {
        let before = key.room();
        let longest = if before == 0 { room } else { (300 * PX).min(room - before) };
        let label = crate::font::shorten(label, style.size, style.weight, longest);
        let width = style.width(&label) + before + 16 * PX;
        if x + width > corner.x + room && x > corner.x {
            x = corner.x;
            y += 18 * PX;
        }
        key.draw(scene, theme, at(x, y));
        scene.text(at(x + before, y + 9 * PX + PX / 2), Anchor::Start, style, &label);
        x += width;
    }
    if entries.is_empty() { y } else { y + 18 * PX }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(start: u64, end: u64, origin: u64) -> TimeAxis {
        let window = Span::new(Nanos(start), Nanos(end));
        TimeAxis { window, origin: Nanos(origin), x: 0, width: 1000 * PX }
    }

    fn labels(start: u64, end: u64, origin: u64) -> Vec<String> {
        axis(start, end, origin).ticks(200 * PX).into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn a_label_at_the_edge_stays_within_the_picture() {
        let mut scene = Scene::new(100 * PX, 50 * PX, "", Theme::light().ground);
        let style = Style::regular(11, Theme::light().muted);
        for x in [0, 50 * PX, 98 * PX] {
            tick_label(&mut scene, at(x, 20 * PX), style, "1,234,567");
        }
        let spans: Vec<(i32, i32)> = scene
            .items
            .iter()
            .filter_map(|item| match item {
                crate::Item::Text(text) => Some((text.origin.x, text.origin.x + text.width)),
                _ => None,
            })
            .collect();
        let inside = |&(from, to): &(i32, i32)| from >= PX && to <= 99 * PX;
        assert!(spans.len() == 3 && spans.iter().all(inside), "{spans:?}");
        assert_eq!((spans[1].0 + spans[1].1) / 2, 50 * PX, "one with room stays under its tick");
    }

    #[test]
    fn ticks_stand_at_round_times_in_the_unit_of_the_window() {
        assert_eq!(labels(1_000, 1_005, 1_000), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(labels(0, 2_500_000, 0), ["0", "500", "1000", "1500", "2000", "2500"]);
        let seconds = ["3.000", "3.050", "3.100", "3.150", "3.200"];
        assert_eq!(labels(3_000_000_000, 3_200_000_000, 0).len(), seconds.len());
        assert_eq!(labels(0, 7_200_000_000_000, 0), ["0", "2000", "4000", "6000"]);
        assert_eq!(labels(500, 2_500, 1_000), ["−500", "0", "500", "1000", "1500"]);
    }

    #[test]
    fn far_from_the_origin_labels_are_short_and_an_offset_says_the_rest() {
        let far = 3_075_123_456_000;
        let axis = axis(far, far + 5_000, 0);
        assert_eq!(axis.counts_in(), "3075.123456 s + [ns]");
        assert_eq!(labels(far, far + 5_000, 0), ["0", "1000", "2000", "3000", "4000", "5000"]);
        let inside = axis.ticks(200 * PX);
        assert_eq!((inside[0].0, inside[5].0), (0, 1000 * PX), "labels are off, places are not");
        // Near the origin nothing is taken off.
        assert_eq!(labels(500, 2_500, 0)[0], "500");
        // The offset is whole in the digits that it has, for each unit.
        for length in [900, 20_000, 30_000_000, 40_000_000_000] {
            for start in [0, 123_456_789_012_345, 86_399_999_999_999_u64] {
                let axis = super::tests::axis(start, start + length, 0);
                let said = axis.counts_in();
                let offset: f64 = said
                    .split(" s + ")
                    .next()
                    .filter(|_| said.contains('+'))
                    .map_or(0.0, |s| s.parse().unwrap());
                assert!((offset * 1e9 - axis.offset() as f64).abs() < 100.0, "{said}");
                for (_, label) in axis.ticks(80 * PX) {
                    assert!(label.trim_start_matches('−').len() <= 7, "{label} in {said}");
                }
            }
        }
    }

    #[test]
    fn a_window_without_length_or_at_the_end_of_time_has_an_axis() {
        assert_eq!(labels(7, 7, 7), ["0"]);
        assert!(!labels(0, u64::MAX, 0).is_empty());
        assert!(!labels(u64::MAX - 5, u64::MAX, 0).is_empty());
        assert_eq!(axis(10, 20, 0).place(Nanos(15)), 500 * PX);
        assert_eq!(axis(10, 20, 0).place(Nanos(5)), 0);
        assert_eq!(axis(10, 20, 0).place(Nanos::MAX), 1000 * PX);
    }

    #[test]
    fn durations_have_three_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_234, "1.23 µs"),
            (45_678_900, "45.7 ms"),
            (123_000_000_000, "123 s"),
        ] {
            assert_eq!(duration(Nanos(ns)), text);
        }
    }
}
