//! Flame graphs: time by call stack. A box is a function, as wide as its part of the time; what it called stands on it.

use crate::axis::{WORDS, heading, legend};
use crate::colour::{Colour, Theme};
use crate::font::shorten;
use crate::scene::{Anchor, PX, Rect, Scene, Style, at};
use schedlab_model::{Nanos, Unit, readable};
use schedlab_timeline::{CUT, FoldedStack, NO_STACK, RUN_DELAY};
use std::collections::BTreeMap;

/// The height of a box.
const ROW: i32 = 17 * PX;
/// Boxes that are narrower are left out.
const NARROWEST: i32 = PX * 3 / 10;
/// Tints of functions: neighbours mostly differ.
const TINTS: u32 = 8;
/// Boxes from the bottom up that are drawn.
const LEVELS_MAX: usize = 600;

/// The picture `flame`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flame {
    /// What the picture is called.
    pub title: String,
    /// Lines under the title.
    pub notes: Vec<String>,
    /// The stacks with their times.
    pub stacks: Vec<FoldedStack>,
}

/// A function with what it called.
#[derive(Debug, Default)]
struct Frame<'a> {
    time: u64,
    called: BTreeMap<&'a str, Frame<'a>>,
}

/// A box in the picture: its name, its level from the bottom, its place in the time, and its part of it.
#[derive(Debug)]
struct Placed<'a> {
    name: &'a str,
    level: usize,
    start: u64,
    time: u64,
}

impl<'a> Frame<'a> {
    fn of(stacks: &'a [FoldedStack]) -> Self {
        let mut root = Self::default();
        for stack in stacks {
            root.time += stack.time.0;
            let mut frame = &mut root;
            for name in stack.frames.iter().take(LEVELS_MAX) {
                frame = frame.called.entry(name).or_default();
                frame.time += stack.time.0;
            }
        }
        root
    }

    /// Places what this function called, the longest first.
    fn place(&self, level: usize, mut start: u64, least: u64, into: &mut Vec<Placed<'a>>) -> usize {
        let mut called: Vec<(&&str, &Frame<'a>)> = self.called.iter().collect();
        called.sort_by_key(|(name, frame)| (std::cmp::Reverse(frame.time), **name));
        let mut left_out = 0;
        for (name, frame) in called {
            if frame.time < least {
                left_out += 1;
                continue;
            }
            into.push(Placed { name, level, start, time: frame.time });
            left_out += frame.place(level + 1, start, least, into);
            start += frame.time;
        }
        left_out
    }
}

impl Flame {
    /// Draws it, `width_px` pixels wide.
    #[must_use]
    pub fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let mut scene = Scene::new(width_px * PX, 0, &self.title, theme.ground);
        let y = heading(&mut scene, theme, 0, &self.title, &self.notes);
        let (x, width) = (16 * PX, (width_px - 32).max(1) * PX);
        let root = Frame::of(&self.stacks);
        let whole = root.time.max(1);
        // Times of nanoseconds in units of a picture: both fit in 128 bits.
        let wide = |time: u64| {
            i32::try_from(u128::from(time) * width as u128 / u128::from(whole)).unwrap_or(width)
        };
        let least = u64::try_from(u128::from(whole) * NARROWEST as u128 / width as u128);
        let mut placed = Vec::new();
        let left_out = root.place(0, 0, least.unwrap_or(u64::MAX).max(1), &mut placed);
        let levels = placed.iter().map(|frame| frame.level + 1).max().unwrap_or(1);
        let bottom = y + i32::try_from(levels).unwrap_or(i32::MAX).saturating_mul(ROW);
        for frame in &placed {
            let (from, to) = (wide(frame.start), wide(frame.start + frame.time));
            let top = bottom - i32::try_from(frame.level + 1).unwrap_or(0) * ROW;
            // A gap between neighbours, where there is room for one.
            let gap = if to - from > 2 * PX { PX / 2 } else { 0 };
            let of = Rect::new(x + from, top, to - from - gap, ROW - PX / 2);
            draw(&mut scene, theme, frame, of, whole);
        }
        if placed.is_empty() {
            let middle = at(x + width / 2, y + 12 * PX);
            let style = Style::regular(11, theme.muted);
            scene.text(middle, Anchor::Middle, style, "No task was off its CPU in this window");
        }
        let corner = at(x, bottom + 14 * PX);
        let entries = entries(theme, &placed, left_out);
        scene.height = legend(&mut scene, theme, corner, width, &entries) + 8 * PX;
        scene
    }
}

fn draw(scene: &mut Scene, theme: &Theme, frame: &Placed<'_>, of: Rect, whole: u64) {
    let share = readable(frame.time as f64 / whole as f64, Unit::Fraction);
    let label = format!("{}: {}, {share}", frame.name, Nanos(frame.time).readable());
    let fill = colour(frame, theme);
    scene.labelled(&label, |scene| {
        scene.rect(fill, of);
        let style = Style::regular(11, fill.ink());
        let room = of.w - 6 * PX;
        // Less than a few letters tell nothing.
        if room > 18 * PX {
            let name = shorten(frame.name, style.size, style.weight, room);
            scene.text(at(of.x + 3 * PX, of.y + 12 * PX), Anchor::Start, style, &name);
        }
    });
}

fn colour(frame: &Placed<'_>, theme: &Theme) -> Colour {
    match frame.name {
        RUN_DELAY => theme.waiting,
        NO_STACK | CUT => theme.unknown,
        _ if frame.level == 0 => of_commands(theme),
        name => {
            // FNV-1a: the same name has the same tint in every picture.
            let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
            let tint = name.bytes().fold(2_166_136_261, fold) >> 8 & (TINTS - 1);
            theme.panel.mix(theme.running, 70 + 14 * tint as u8)
        }
    }
}

fn of_commands(theme: &Theme) -> Colour {
    theme.panel.mix(theme.muted, 130)
}

fn entries(theme: &Theme, placed: &[Placed<'_>], left_out: usize) -> Vec<(Colour, String)> {
    let has = |name: &str| placed.iter().any(|frame| frame.name == name);
    let mut entries = vec![
        (of_commands(theme), "command".to_owned()),
        (theme.panel.mix(theme.running, 120), "function in which it was blocked".to_owned()),
    ];
    if has(RUN_DELAY) {
        let what = "woken, and waited for a CPU";
        entries.push((theme.waiting, format!("{RUN_DELAY}: {what}")));
    }
    if has(NO_STACK) {
        entries.push((theme.unknown, format!("{NO_STACK}: the trace holds none of these sleeps")));
    }
    if has(CUT) {
        entries.push((theme.unknown, format!("{CUT}: the trace does not know these callers")));
    }
    entries.push((WORDS, "width: time off the CPU; functions stand on their callers".to_owned()));
    if left_out > 0 {
        let count = readable(left_out as f64, Unit::Count);
        entries.push((WORDS, format!("{count} boxes are too narrow to be drawn")));
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(frames: &str, time: u64) -> FoldedStack {
        FoldedStack { frames: frames.split(';').map(str::to_owned).collect(), time: Nanos(time) }
    }

    fn flame(stacks: Vec<FoldedStack>) -> Flame {
        Flame { title: "Off-CPU time".into(), notes: vec!["2 tasks".into()], stacks }
    }

    #[test]
    fn a_function_is_as_wide_as_its_time_and_stands_on_its_caller() {
        let stacks = vec![
            stack("a;main;read", 600),
            stack("a;main;read;[run delay]", 100),
            stack("a;main;poll", 100),
            stack("b;[no stack]", 200),
        ];
        let root = Frame::of(&stacks);
        let mut placed = Vec::new();
        assert_eq!(root.place(0, 0, 1, &mut placed), 0);
        let told = placed.iter().map(|of| (of.name, of.level, of.start, of.time));
        let expected = [
            ("a", 0, 0, 800),
            ("main", 1, 0, 800),
            ("read", 2, 0, 700),
            ("[run delay]", 3, 0, 100),
            ("poll", 2, 700, 100),
            ("b", 0, 800, 200),
            ("[no stack]", 1, 800, 200),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        let scene = flame(stacks).scene(900, &Theme::light());
        let texts: Vec<&str> = scene.texts().iter().map(|text| text.content.as_str()).collect();
        assert!(texts.contains(&"main") && texts.contains(&"[run delay]"), "{texts:?}");
    }

    #[test]
    fn boxes_that_are_too_narrow_are_counted_and_nothing_at_all_is_said() {
        let stacks = vec![stack("a;main", 1_000_000), stack("b;main;read", 1)];
        let text = |flame: Flame| crate::svg(&flame.scene(400, &Theme::dark()));
        let svg = text(flame(stacks));
        assert!(svg.contains("1 boxes are too narrow"), "{svg}");
        assert!(text(flame(Vec::new())).contains("No task was off its CPU"));
    }
}
