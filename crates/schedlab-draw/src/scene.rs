//! The scene: everything that a picture shows, decided, in integer units.
//!
//! A builder turns data into a [`Scene`]; [`crate::svg`], [`crate::pdf`] and [`crate::png`] only
//! spell it. Nothing is left to a spelling: not where a glyph stands, not which tick is drawn. So the
//! same scene gives the same picture in every format, and the same bytes on every machine.
//!
//! Items are drawn in order, later ones on top. Boxes of one colour travel together in one item:
//! that is what keeps a picture of 100,000 boxes small (one path, not 100,000 elements).

use crate::colour::Colour;
use crate::font::{self, Glyph, Weight};

/// Units in a CSS pixel (1/96 inch). Coordinates grow to the right and down.
pub const PX: i32 = 100;

/// A point, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// The distance to the right, in units.
    pub x: i32,
    /// The distance downwards, in units.
    pub y: i32,
}

/// The point `(x, y)`, in units.
#[must_use]
pub const fn at(x: i32, y: i32) -> Point {
    Point { x, y }
}

/// A box, in units; negative sizes are not allowed, empty ones are not drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rect {
    /// The left edge, in units.
    pub x: i32,
    /// The upper edge, in units.
    pub y: i32,
    /// The width in units.
    pub w: i32,
    /// The height in units.
    pub h: i32,
}

impl Rect {
    /// A box by its left upper corner and its size.
    #[must_use]
    pub const fn new(x: i32, y: i32, w: i32, h: i32) -> Self {
        Self { x, y, w, h }
    }

    /// The first unit to the right of it.
    #[must_use]
    pub const fn right(&self) -> i32 {
        self.x + self.w
    }

    /// The first unit below it.
    #[must_use]
    pub const fn bottom(&self) -> i32 {
        self.y + self.h
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stroke {
    pub colour: Colour,
    /// Its width, in units.
    pub width: i32,
    /// Lengths of dash and gap, in units; `None` is a solid line.
    pub dash: Option<(i32, i32)>,
}

impl Stroke {
    /// A solid line of this width in units.
    #[must_use]
    pub const fn solid(colour: Colour, width: i32) -> Self {
        Self { colour, width, dash: None }
    }

    /// A dashed line; width, dashes and gaps are in units.
    #[must_use]
    pub const fn dashed(colour: Colour, width: i32, dash: i32, gap: i32) -> Self {
        Self { colour, width, dash: Some((dash, gap)) }
    }
}

/// A part of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new part of the path begins here.
    Move(Point),
    /// A straight line to here.
    Line(Point),
    /// A cubic curve with two control points, to the last point.
    Curve(Point, Point, Point),
    /// Back to where this part began.
    Close,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    #[default]
    Start,
    Middle,
    End,
}

/// A line of text on its baseline, with every glyph placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// Where its first glyph stands.
    pub origin: Point,
    /// Size of the em, in units.
    pub size: i32,
    /// The weight of the font: regular or bold.
    pub weight: Weight,
    pub colour: Colour,
    /// Whether it is turned to read upwards.
    pub upwards: bool,
    /// What it says; only characters that the bundled fonts have (others are spelled as `\u{..}`).
    pub content: String,
    /// Its glyphs, one for each character.
    pub glyphs: Vec<Glyph>,
    /// Its length, in units.
    pub width: i32,
}

/// How a text looks: size of the em in units, weight, colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Size of the em, in units.
    pub size: i32,
    /// The weight of the font: regular or bold.
    pub weight: Weight,
    pub colour: Colour,
}

impl Style {
    /// Regular text, `px` pixels high.
    #[must_use]
    pub const fn regular(px: i32, colour: Colour) -> Self {
        Self { size: px * PX, weight: Weight::Regular, colour }
    }

    /// Bold text, `px` pixels high.
    #[must_use]
    pub const fn bold(px: i32, colour: Colour) -> Self {
        Self { size: px * PX, weight: Weight::Bold, colour }
    }

    /// How long a text would be, in units.
    #[must_use]
    pub fn width(&self, content: &str) -> i32 {
        font::lay(&font::printable(content), self.size, self.weight).1
    }
}

impl Text {
    #[must_use]
    pub fn new(point: Point, anchor: Anchor, style: Style, content: &str) -> Self {
        Self::turned(point, anchor, style, content, false)
    }

    #[must_use]
    pub fn upwards(point: Point, anchor: Anchor, style: Style, content: &str) -> Self {
        Self::turned(point, anchor, style, content, true)
    }

    fn turned(point: Point, anchor: Anchor, style: Style, content: &str, upwards: bool) -> Self {
        let content = font::printable(content);
        let (glyphs, width) = font::lay(&content, style.size, style.weight);
        let back = match anchor {
            Anchor::Start => 0,
            Anchor::Middle => width / 2,
            Anchor::End => width,
        };
        let origin =
            if upwards { at(point.x, point.y + back) } else { at(point.x - back, point.y) };
        let Style { size, weight, colour } = style;
        Self { origin, size, weight, colour, upwards, content, glyphs, width }
    }
}

/// A thing in the picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Boxes of one colour.
    Rects {
        fill: Colour,
        /// The boxes, drawn in this order.
        rects: Vec<Rect>,
    },
    /// Separate straight lines of one look.
    Lines {
        /// The colour, width and dashes of all lines.
        stroke: Stroke,
        /// The two ends of each line.
        lines: Vec<(Point, Point)>,
    },
    /// A path, filled (even-odd) and stroked.
    Path {
        fill: Option<Colour>,
        stroke: Option<Stroke>,
        /// The steps along the outline.
        steps: Vec<Step>,
    },
    Text(Text),
    /// Things that belong together.
    Group {
        /// What they are, shown on hovering where a format can; empty for nothing.
        label: String,
        /// Nothing outside this box is drawn.
        clip: Option<Rect>,
        items: Vec<Item>,
    },
}

/// A picture in integer units, ready for a writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scene {
    /// The width in units.
    pub width: i32,
    /// The height in units.
    pub height: i32,
    /// What it shows, for readers of screens and metadata.
    pub title: String,
    /// The size at which it is shown, in thousandths of the natural one (a pixel is 1/96 of an inch).
    pub magnified: u32,
    /// The colour behind everything.
    pub ground: Colour,
    /// What is drawn, in order.
    pub items: Vec<Item>,
}

impl Scene {
    /// An empty picture, sizes in units.
    #[must_use]
    pub fn new(width: i32, height: i32, title: &str, ground: Colour) -> Self {
        let title = font::printable(title);
        Self { width, height, title, magnified: 1_000, ground, items: Vec::new() }
    }

    /// Adds one box of this colour.
    pub fn rect(&mut self, fill: Colour, rect: Rect) {
        self.items.push(Item::Rects { fill, rects: vec![rect] });
    }

    /// Adds boxes of one colour; none adds nothing.
    pub fn rects(&mut self, fill: Colour, rects: Vec<Rect>) {
        if !rects.is_empty() {
            self.items.push(Item::Rects { fill, rects });
        }
    }

    /// Adds straight lines of one look; none adds nothing.
    pub fn lines(&mut self, stroke: Stroke, lines: Vec<(Point, Point)>) {
        if !lines.is_empty() {
            self.items.push(Item::Lines { stroke, lines });
        }
    }

    /// Adds a line through points; fewer than two add nothing.
    pub fn polyline(&mut self, stroke: Stroke, points: &[Point]) {
        if points.len() > 1 {
            let steps = outline(points);
            self.items.push(Item::Path { fill: None, stroke: Some(stroke), steps });
        }
    }

    /// Adds a filled area with these corners; fewer than three add nothing.
    pub fn area(&mut self, fill: Colour, corners: &[Point]) {
        if corners.len() > 2 {
            let mut steps = outline(corners);
            steps.push(Step::Close);
            self.items.push(Item::Path { fill: Some(fill), stroke: None, steps });
        }
    }

    /// Adds one line of text at a point.
    pub fn text(&mut self, point: Point, anchor: Anchor, style: Style, content: &str) {
        if !content.is_empty() {
            self.items.push(Item::Text(Text::new(point, anchor, style, content)));
        }
    }

    /// Adds what `draw` draws as a group, cut off outside of `clip`.
    pub fn clipped(&mut self, clip: Rect, draw: impl FnOnce(&mut Self)) {
        let start = self.items.len();
        draw(self);
        let items = self.items.split_off(start);
        if !items.is_empty() {
            self.items.push(Item::Group { label: String::new(), clip: Some(clip), items });
        }
    }

    /// Adds what `draw` draws as a group that says what it is.
    pub fn labelled(&mut self, label: &str, draw: impl FnOnce(&mut Self)) {
        let start = self.items.len();
        draw(self);
        let items = self.items.split_off(start);
        if !items.is_empty() {
            self.items.push(Item::Group { label: font::printable(label), clip: None, items });
        }
    }

    /// Puts another picture below this one.
    pub fn below(&mut self, mut other: Self) {
        shift(&mut other.items, self.height);
        self.items.append(&mut other.items);
        self.height += other.height;
        self.width = self.width.max(other.width);
    }

    /// All texts, in drawing order.
    #[must_use]
    pub fn texts(&self) -> Vec<&Text> {
        let mut texts = Vec::new();
        collect(&self.items, &mut texts);
        texts
    }
}

fn collect<'a>(items: &'a [Item], texts: &mut Vec<&'a Text>) {
    for item in items {
        match item {
            Item::Text(text) => texts.push(text),
            Item::Group { items, .. } => collect(items, texts),
            _ => {}
        }
    }
}

fn outline(points: &[Point]) -> Vec<Step> {
    let mut steps: Vec<Step> = points.iter().map(|&point| Step::Line(point)).collect();
    if let Some(first) = steps.first_mut() {
        *first = Step::Move(points[0]);
    }
    steps
}

/// A circle as four curves (control points at 0.5523 of the radius, off by 0.02 % at most).
#[must_use]
pub fn circle(centre: Point, radius: i32) -> Vec<Step> {
    let Point { x, y } = centre;
    let r = radius;
    let k = radius * 5_523 / 10_000;
    vec![
        Step::Move(at(x + r, y)),
        Step::Curve(at(x + r, y + k), at(x + k, y + r), at(x, y + r)),
        Step::Curve(at(x - k, y + r), at(x - r, y + k), at(x - r, y)),
        Step::Curve(at(x - r, y - k), at(x - k, y - r), at(x, y - r)),
        Step::Curve(at(x + k, y - r), at(x + r, y - k), at(x + r, y)),
        Step::Close,
    ]
}

/// Moves things down by this many units.
fn shift(items: &mut [Item], down: i32) {
    let lower = |point: &mut Point| point.y += down;
    for item in items {
        match item {
            Item::Rects { rects, .. } => rects.iter_mut().for_each(|rect| rect.y += down),
            Item::Lines { lines, .. } => {
                for (from, to) in lines {
                    lower(from);
                    lower(to);
                }
            }
            Item::Path { steps, .. } => {
                for step in steps {
                    match step {
                        Step::Move(point) | Step::Line(point) => lower(point),
                        Step::Curve(a, b, c) => [a, b, c].into_iter().for_each(lower),
                        Step::Close => {}
                    }
                }
            }
            Item::Text(text) => lower(&mut text.origin),
            Item::Group { clip, items, .. } => {
                if let Some(clip) = clip {
                    clip.y += down;
                }
                shift(items, down);
            }
        }
    }
}
