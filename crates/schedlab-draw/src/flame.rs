//! Flame graphs: time by call stack. A box is a function, as wide as its part of the time; what it called stands on it.
//! Of two traces, boxes are as wide as in the one after, and their colours tell how the time changed.

use crate::axis::{WORDS, heading, legend};
use crate::cause::look;
use crate::colour::{Colour, Theme, on_scale};
use crate::font::shorten;
use crate::scene::{Anchor, PX, Rect, Scene, Style, at};
use schedlab_model::{Nanos, Unit, readable};
use schedlab_timeline::{
    CUT, FoldedStack, NO_STACK, NO_TICK, RUN_DELAY, StackChange, Unslept, WOKEN_BY, WaitCause,
};
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
    /// What is drawn.
    pub stacks: FlameStacks,
}

/// What a flame graph shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlameStacks {
    /// Where tasks were off their CPUs, with the times.
    Times(Vec<FoldedStack>),
    /// Where tasks ran, with the times.
    Running(Vec<FoldedStack>),
    /// Those of two, with their times in a second of each.
    Changes(Vec<StackChange>),
}

/// A function with what it called.
#[derive(Debug, Default)]
struct Frame<'a> {
    time: u64,
    /// In the trace before, of two.
    before: u64,
    called: BTreeMap<&'a str, Frame<'a>>,
}

/// A box in the picture: its name, its level from the bottom, its place in the time, and its part of it.
#[derive(Debug)]
struct Placed<'a> {
    name: &'a str,
    level: usize,
    start: u64,
    time: u64,
    /// In the trace before, of two.
    before: u64,
    what: What,
}

/// What a box is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Command,
    /// A function of the task, or what stands for functions that are not known.
    Function,
    /// The task that woke it, or a function of that one.
    Waker,
    /// A wait for a CPU.
    Wait,
    /// Why it waited.
    Cause(WaitCause),
}

impl What {
    /// What stands on it under this name.
    fn on_top(self, name: &str) -> Self {
        let is_wait = || name == RUN_DELAY || Unslept::ALL.iter().any(|why| why.frame() == name);
        let cause = || WaitCause::ALL.into_iter().find(|cause| cause.title() == name);
        match self {
            Self::Wait => cause().map_or(Self::Function, Self::Cause),
            Self::Waker => self,
            _ if name.starts_with(WOKEN_BY) => Self::Waker,
            _ if is_wait() => Self::Wait,
            _ => Self::Function,
        }
    }
}

/// How the time of a box may have changed: up to this many hundredths of the time before, and the words for it.
const CHANGES: [(u64, &str); 5] = [
    (50, "at most half"),
    (80, "0.5 to 0.8 times"),
    (125, "0.8 to 1.25 times"),
    (200, "1.25 to 2 times"),
    (u64::MAX, "more than 2 times, or new"),
];

/// Which of [`CHANGES`] it is.
fn class(before: u64, after: u64) -> usize {
    let before = u128::from(before);
    let after = u128::from(after);
    let is_within = |bound: u64| after * 100 <= before * u128::from(bound);
    let all = &CHANGES[..CHANGES.len() - 1];
    all.iter().position(|(bound, _)| is_within(*bound)).unwrap_or(all.len())
}

/// The colour of one of [`CHANGES`]: blue and orange, which eyes of all kinds tell apart.
fn of_change(class: usize, theme: &Theme) -> Colour {
    if *theme == Theme::grey() {
        return on_scale(0.95 - 0.22 * class as f64);
    }
    match class {
        0 => theme.panel.mix(theme.running, 230),
        1 => theme.panel.mix(theme.running, 110),
        2 => theme.panel.mix(theme.muted, 60),
        3 => theme.panel.mix(theme.waiting, 120),
        _ => theme.panel.mix(theme.waiting, 240),
    }
}

impl<'a> Frame<'a> {
    fn of(stacks: &'a FlameStacks) -> Self {
        let mut root = Self::default();
        match stacks {
            FlameStacks::Times(stacks) | FlameStacks::Running(stacks) => {
                stacks.iter().for_each(|of| root.add(&of.frames, of.time.0, 0));
            }
            FlameStacks::Changes(stacks) => {
                stacks.iter().for_each(|of| root.add(&of.frames, of.after.0, of.before.0));
            }
        }
        root
    }

    fn add(&mut self, frames: &'a [String], time: u64, before: u64) {
        let mut frame = self;
        (frame.time, frame.before) = (frame.time + time, frame.before + before);
        for name in frames.iter().take(LEVELS_MAX) {
            frame = frame.called.entry(name).or_default();
            (frame.time, frame.before) = (frame.time + time, frame.before + before);
        }
    }

    /// Places what this function called, the longest first; gives how many boxes are too narrow.
    fn place(
        &self,
        below: Option<(usize, What)>,
        mut start: u64,
        least: u64,
        into: &mut Vec<Placed<'a>>,
    ) -> usize {
        let mut called: Vec<(&&str, &Frame<'a>)> = self.called.iter().collect();
        called.sort_by_key(|(name, frame)| (std::cmp::Reverse(frame.time), **name));
        let mut left_out = 0;
        let level = below.map_or(0, |(level, _)| level + 1);
        for (name, frame) in called {
            if frame.time < least {
                // What is gone is told in a sentence of its own.
                left_out += usize::from(frame.time > 0);
                continue;
            }
            let what = below.map_or(What::Command, |(_, what)| what.on_top(name));
            let Frame { time, before, .. } = *frame;
            into.push(Placed { name, level, start, time, before, what });
            left_out += frame.place(Some((level, what)), start, least, into);
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
        let x = 16 * PX;
        let width = (width_px - 32).max(1) * PX;
        let root = Frame::of(&self.stacks);
        let whole = root.time.max(1);
        // Times of nanoseconds in units of a picture: both fit in 128 bits.
        let wide = |time: u64| {
            i32::try_from(u128::from(time) * width as u128 / u128::from(whole)).unwrap_or(width)
        };
        let least = u64::try_from(u128::from(whole) * NARROWEST as u128 / width as u128);
        let mut placed = Vec::new();
        let left_out = root.place(None, 0, least.unwrap_or(u64::MAX).max(1), &mut placed);
        let levels = placed.iter().map(|frame| frame.level + 1).max().unwrap_or(1);
        let bottom = y + i32::try_from(levels).unwrap_or(i32::MAX).saturating_mul(ROW);
        for frame in &placed {
            let from = wide(frame.start);
            let to = wide(frame.start + frame.time);
            let top = bottom - i32::try_from(frame.level + 1).unwrap_or(0) * ROW;
            // A gap between neighbours, where there is room for one.
            let gap = if to - from > 2 * PX { PX / 2 } else { 0 };
            let of = Rect::new(x + from, top, to - from - gap, ROW - PX / 2);
            self.draw(&mut scene, theme, frame, of, whole);
        }
        if placed.is_empty() {
            let middle = at(x + width / 2, y + 12 * PX);
            let style = Style::regular(11, theme.muted);
            scene.text(middle, Anchor::Middle, style, "No task was off its CPU in this window");
        }
        let corner = at(x, bottom + 14 * PX);
        let entries = self.entries(theme, &placed, left_out);
        scene.height = legend(&mut scene, theme, corner, width, &entries) + 8 * PX;
        scene
    }

    fn draw(&self, scene: &mut Scene, theme: &Theme, frame: &Placed<'_>, of: Rect, whole: u64) {
        let share = readable(frame.time as f64 / whole as f64, Unit::Fraction);
        let name = frame.name;
        let time = Nanos(frame.time).readable();
        let (label, fill) = match self.stacks {
            FlameStacks::Times(_) | FlameStacks::Running(_) => {
                (format!("{name}: {time}, {share}"), colour(frame, theme))
            }
            FlameStacks::Changes(_) => {
                let before = Nanos(frame.before).readable();
                let label = format!("{name}: {time} in 1 s, before {before}; {share}");
                (label, of_change(class(frame.before, frame.time), theme))
            }
        };
        scene.labelled(&label, |scene| {
            scene.rect(fill, of);
            let style = Style::regular(11, fill.ink());
            let room = of.w - 6 * PX;
            // Less than a few letters tell nothing.
            if room > 18 * PX {
                let name = shorten(name, style.size, style.weight, room);
                scene.text(at(of.x + 3 * PX, of.y + 12 * PX), Anchor::Start, style, &name);
            }
        });
    }

    /// The legend.
    fn entries(
        &self,
        theme: &Theme,
        placed: &[Placed<'_>],
        left_out: usize,
    ) -> Vec<(Colour, String)> {
        let mut entries = match &self.stacks {
            FlameStacks::Times(_) => times(theme, placed),
            FlameStacks::Running(_) => running(theme, placed),
            FlameStacks::Changes(stacks) => changes(theme, stacks),
        };
        if left_out > 0 {
            let count = readable(left_out as f64, Unit::Count);
            entries.push((WORDS, format!("{count} boxes are too narrow to be drawn")));
        }
        entries
    }
}

fn colour(frame: &Placed<'_>, theme: &Theme) -> Colour {
    let of = match (frame.what, frame.name) {
        (What::Command, _) => return of_commands(theme),
        (What::Wait, _) => return theme.waiting,
        (What::Cause(cause), _) => return of_cause(cause, theme),
        (_, NO_STACK | NO_TICK | CUT) => return theme.unknown,
        (What::Waker, _) => theme.moved,
        (What::Function, _) => theme.running,
    };
    // FNV-1a: the same name has the same tint in every picture.
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    let tint = frame.name.bytes().fold(2_166_136_261, fold) >> 8 & (TINTS - 1);
    theme.panel.mix(of, 70 + 14 * tint as u8)
}

/// A cause has the colour that the page gives it.
fn of_cause(cause: WaitCause, theme: &Theme) -> Colour {
    let (light, dark, _) = look(cause);
    match theme.ground.luma() > 127 {
        _ if *theme == Theme::grey() => theme.panel.mix(theme.waiting, 140),
        true => light,
        false => dark,
    }
}

fn of_commands(theme: &Theme) -> Colour {
    theme.panel.mix(theme.muted, 130)
}

fn times(theme: &Theme, placed: &[Placed<'_>]) -> Vec<(Colour, String)> {
    let has = |name: &str| placed.iter().any(|frame| frame.name == name);
    let mut entries = vec![
        (of_commands(theme), "command".to_owned()),
        (theme.panel.mix(theme.running, 120), "function in which it was blocked".to_owned()),
    ];
    if placed.iter().any(|frame| frame.what == What::Waker) {
        let what = format!("{WOKEN_BY}...: who ended the sleep, and its functions");
        entries.push((theme.panel.mix(theme.moved, 120), what));
    }
    if has(RUN_DELAY) {
        let what = "woken, and waited for a CPU";
        entries.push((theme.waiting, format!("{RUN_DELAY}: {what}")));
    }
    for why in Unslept::ALL.into_iter().filter(|why| has(why.frame())) {
        entries.push((theme.waiting, format!("{}: {}", why.frame(), why.about())));
    }
    let is_drawn = |cause: &WaitCause| placed.iter().any(|of| of.what == What::Cause(*cause));
    let causes: Vec<WaitCause> = WaitCause::ALL.into_iter().filter(is_drawn).collect();
    // In grey they look alike: their boxes have their names.
    let told = if *theme == Theme::grey() { &[][..] } else { &causes };
    entries.extend(told.iter().map(|of| (of_cause(*of, theme), of.title().to_owned())));
    if !causes.is_empty() {
        entries.push((WORDS, "boxes on waits: their causes, as in schedlab why".to_owned()));
    }
    if has(NO_STACK) {
        entries.push((theme.unknown, format!("{NO_STACK}: the trace holds none of these sleeps")));
    }
    if has(CUT) {
        entries.push((theme.unknown, format!("{CUT}: the trace does not know these callers")));
    }
    entries.push((WORDS, "width: time off the CPU; functions stand on their callers".to_owned()));
    entries
}

fn running(theme: &Theme, placed: &[Placed<'_>]) -> Vec<(Colour, String)> {
    let has = |name: &str| placed.iter().any(|frame| frame.name == name);
    let mut entries = vec![
        (of_commands(theme), "command".to_owned()),
        (theme.panel.mix(theme.running, 120), "function that ran".to_owned()),
    ];
    if has(NO_TICK) {
        entries.push((theme.unknown, format!("{NO_TICK}: no tick met these tasks")));
    }
    if has(CUT) {
        entries.push((theme.unknown, format!("{CUT}: the trace does not know these callers")));
    }
    let width = "width: time on the CPU, divided as ticks are; functions stand on their callers";
    entries.push((WORDS, width.to_owned()));
    entries
}

fn changes(theme: &Theme, stacks: &[StackChange]) -> Vec<(Colour, String)> {
    let classes = CHANGES.iter().enumerate();
    let class =
        |(class, (_, words)): (usize, &(u64, &str))| (of_change(class, theme), (*words).to_owned());
    let mut entries: Vec<_> = classes.map(class).collect();
    let width =
        "colour: time off the CPU in 1 s, divided by that before (--minus); width: time after";
    entries.push((WORDS, width.to_owned()));
    let gone = stacks.iter().filter(|of| of.after == Nanos::ZERO).map(|of| of.before.0).sum();
    if gone > 0 {
        let gone = Nanos(gone).readable();
        let what = "before are in stacks that are gone after";
        entries.push((WORDS, format!("{gone} in 1 s {what}")));
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
        let stacks = FlameStacks::Times(stacks);
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
        let flame = flame(stacks);
        let root = Frame::of(&flame.stacks);
        let mut placed = Vec::new();
        assert_eq!(root.place(None, 0, 1, &mut placed), 0);
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
        let scene = flame.scene(900, &Theme::light());
        let texts: Vec<&str> = scene.texts().iter().map(|text| text.content.as_str()).collect();
        assert!(texts.contains(&"main") && texts.contains(&"[run delay]"), "{texts:?}");
    }

    #[test]
    fn a_cause_has_its_colour_and_a_function_of_that_name_has_not() {
        let stacks = vec![
            stack("a;pinned;read;[run delay];pinned", 400),
            stack("a;[displaced];misplaced", 300),
            stack("a;read;woken by b;pinned", 300),
        ];
        let flame = flame(stacks);
        let mut placed = Vec::new();
        assert_eq!(Frame::of(&flame.stacks).place(None, 0, 1, &mut placed), 0);
        let of = |name: &str| -> Vec<What> {
            placed.iter().filter(|of| of.name == name).map(|of| of.what).collect()
        };
        let pinned = [What::Function, What::Cause(WaitCause::Pinned), What::Waker];
        assert_eq!(of("pinned"), pinned);
        assert_eq!(of("misplaced"), [What::Cause(WaitCause::Misplaced)]);
        for (theme, which) in [(Theme::light(), 0), (Theme::dark(), 1)] {
            let of = |cause| [look(cause).0, look(cause).1][which];
            assert_eq!(of_cause(WaitCause::Pinned, &theme), of(WaitCause::Pinned));
        }
        let svg = crate::svg(&flame.scene(900, &Theme::light()));
        for told in [">misplaced<", "[displaced]: another", "boxes on waits: their causes"] {
            assert!(svg.contains(told), "{told} in {svg}");
        }
        assert!(!svg.contains("throttled"));
    }

    #[test]
    fn boxes_that_are_too_narrow_are_counted_and_nothing_at_all_is_said() {
        let stacks = vec![stack("a;main", 1_000_000), stack("b;main;read", 1)];
        let text = |flame: Flame| crate::svg(&flame.scene(400, &Theme::dark()));
        let svg = text(flame(stacks));
        assert!(svg.contains("1 boxes are too narrow"), "{svg}");
        assert!(text(flame(Vec::new())).contains("No task was off its CPU"));
    }

    #[test]
    fn a_change_has_the_colour_of_its_ratio_and_the_width_of_the_time_after() {
        let of = |before, after| class(before, after);
        assert_eq!([of(100, 50), of(100, 51), of(100, 80), of(100, 81)], [0, 1, 1, 2]);
        assert_eq!([of(100, 125), of(100, 126), of(100, 200), of(100, 201)], [2, 3, 3, 4]);
        assert_eq!([of(0, 1), of(1, 0), of(u64::MAX, u64::MAX)], [4, 0, 2]);
        let change = |frames: &str, before, after| StackChange {
            frames: frames.split(';').map(str::to_owned).collect(),
            before: Nanos(before),
            after: Nanos(after),
        };
        let stacks = vec![
            change("a;main;read", 100, 300),
            change("a;main;poll", 100, 100),
            change("a;gone", 70, 0),
        ];
        let stacks = FlameStacks::Changes(stacks);
        let flame = Flame { title: "Change".into(), notes: Vec::new(), stacks };
        let svg = crate::svg(&flame.scene(600, &Theme::light()));
        for told in ["read: 300 ns in 1 s, before 100 ns; 75.0 %", "70 ns in 1 s before are"] {
            assert!(svg.contains(told), "{told} in {svg}");
        }
        assert!(!svg.contains(">gone<") && !svg.contains("too narrow"), "{svg}");
    }
}
