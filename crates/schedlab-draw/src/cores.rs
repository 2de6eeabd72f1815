//! The picture `cores`: a row for each CPU, time to the right, each task in its colour.
//!
//! White is idle, grey is unknown. A row holds either boxes, exact to a hundredth of a pixel, or,
//! where there are more slices than pixels, a shade for each column: the mean of the colours of
//! what ran there, as opaque as the column was busy. So the picture's size depends on its pixels.

mod silent_rows;

use crate::axis::{TimeAxis, frame, heading, legend};
use crate::colour::{Colour, MARK_CONTRAST, Theme};
use crate::font::{shorten, shorten_task};
use crate::scene::{Anchor, PX, Point, Rect, Scene, Stroke, Style, Text, at};
use schedlab_model::{Cpu, CpuSet, Nanos, Place, Span};
use silent_rows::{Tops, silent};
use std::collections::BTreeMap;

/// A stretch of a CPU's time in one colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The time that the piece covers.
    pub span: Span,
    pub colour: Colour,
    /// What it is called, as an index into [`Cores::names`]; written into the box where it fits.
    pub name: Option<u32>,
}

/// What fills a CPU's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Boxes that do not overlap, in ascending order.
    Pieces(Vec<Piece>),
    /// A colour (with opacity) for each of equally wide columns.
    Shades(Vec<Colour>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub cpu: Cpu,
    /// Where it sits, where known.
    pub place: Option<Place>,
    /// What ran on the CPU, as boxes or shades.
    pub fill: Fill,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Something happened on a CPU: a tick at the upper edge of the row.
    Tick { time: Nanos, cpu: Cpu },
    /// Something went from a CPU to another: a line from row to row.
    Link {
        time: Nanos,
        /// The CPU from which the arrow starts.
        from: Cpu,
        /// The CPU at which the arrow ends.
        to: Cpu,
    },
    /// Something lasted: a bar at the lower edge of the row.
    Bar {
        /// The time that the mark covers.
        span: Span,
        cpu: Cpu,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// What they are, for the legend.
    pub name: String,
    pub colour: Colour,
    /// The marks, in any order.
    pub marks: Vec<Mark>,
}

/// Rows of one trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores {
    /// What the picture is called.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    /// What is shown, on the trace's clock.
    pub window: Span,
    /// The instant that is called zero.
    pub origin: Nanos,
    /// The rows, from top to bottom.
    pub rows: Vec<Row>,
    /// The names that pieces refer to.
    pub names: Vec<String>,
    pub legend: Vec<(Colour, String)>,
    /// Marks, kind by kind.
    pub marks: Vec<Marks>,
    /// Words on the rows.
    pub labels: Vec<Label>,
    /// Lanes along the lower edge of each row, from top to bottom.
    pub lanes: Vec<Lane>,
}

/// A lane along each row: what its CPU was in, beside what ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    pub(crate) legend: Vec<(Colour, String)>,
    /// What each CPU was in, and when, in the order of their begins.
    pub pieces: Vec<(Cpu, Span, Colour)>,
}

/// A text on the row of a CPU, such as the name of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    pub time: Nanos,
    pub cpu: Cpu,
    pub text: String,
}

/// How large a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Width of the whole picture, in pixels.
    pub width_px: i32,
    /// Height of a row, in pixels; `None` chooses from the number of rows.
    pub row_px: Option<i32>,
}

impl Default for Size {
    fn default() -> Self {
        Self { width_px: 1200, row_px: None }
    }
}

/// Room left of the rows for the CPUs' numbers, in pixels; brackets of the topology stand left of it.
const LABELS_PX: i32 = 58;
/// Room for one level of brackets.
const BRACKET_PX: i32 = 22;
const RIGHT_PX: i32 = 18;
/// Height that a lane adds to a row whose height nobody chose.
const LANE_PX: i32 = 5;
/// Links up to this many have an edge.
const LINKS_EDGED_MAX: usize = 60;
/// Links have their full colour while their lengths add up to at most this many heights of the rows.
const LINKS_INK: i64 = 60;
/// The least opacity of a link, of 255.
const LINKS_PALEST: i64 = 100;
/// Rows at least so high have room for a line between a bar and what it lies on.
const EDGE_ROW_PX: i32 = 14;

impl Size {
    /// How many columns of one pixel the data has: shades are best computed for as many.
    #[must_use]
    pub fn columns(&self, with_topology: bool) -> u32 {
        let brackets = if with_topology { 2 * BRACKET_PX } else { 0 };
        u32::try_from(self.width_px - LABELS_PX - brackets - RIGHT_PX).unwrap_or(1).max(1)
    }

    /// Room left of the data, in pixels.
    #[must_use]
    pub fn left_px(&self, with_topology: bool) -> i32 {
        self.width_px - RIGHT_PX - i32::try_from(self.columns(with_topology)).unwrap_or(1)
    }

    /// Height of a row in units: rows of a small machine are high enough for names, 1,024 CPUs still
    /// fit on a page.
    fn row(&self, rows: usize, lanes: usize) -> i32 {
        let rows = i32::try_from(rows.max(1)).unwrap_or(i32::MAX);
        let lanes = i32::try_from(lanes).unwrap_or(0) * LANE_PX;
        self.row_px.unwrap_or_else(|| (720 / rows).clamp(2, 26) + lanes) * PX
    }
}

/// Draws the rows of one trace.
#[must_use]
pub fn cores(cores: &Cores, size: Size, theme: &Theme) -> Scene {
    stacked(std::slice::from_ref(cores), size, theme)
}

/// Draws several traces under each other on one time axis: each begins at the left edge, and the
/// longest window decides the scale.
#[must_use]
pub fn stacked(traces: &[Cores], size: Size, theme: &Theme) -> Scene {
    let title = traces.first().map_or("", |cores| &cores.title);
    let mut scene = Scene::new(size.width_px * PX, 0, title, theme.ground);
    let brackets = traces.iter().any(Cores::has_brackets);
    let columns = i32::try_from(size.columns(brackets)).unwrap_or(i32::MAX);
    let left = (size.width_px - RIGHT_PX - columns) * PX;
    let longest = traces.iter().map(|cores| cores.window.duration()).max().unwrap_or_default();
    let mut y = 0;
    for cores in traces {
        y = heading(&mut scene, theme, y, &cores.title, &cores.notes);
        let silent = silent(cores, theme);
        let loud = cores.rows.len() - silent.iter().map(|run| run.len()).sum::<usize>();
        let row = size.row(loud, cores.lanes.len());
        let tops = Tops::new(cores.rows.len(), row, silent);
        let plot = Rect::new(left, y, columns * PX, tops.height());
        let window = Span::new(cores.window.start, cores.window.start + longest);
        let axis = TimeAxis { window, origin: cores.origin, x: left, width: plot.w };
        Picture { cores, axis, plot, row, tops, theme }.draw(&mut scene);
        let mut entries = cores.legend.clone();
        entries.extend(cores.lanes.iter().flat_map(|lane| lane.legend.iter().cloned()));
        let marks = cores.marks.iter().filter(|marks| !marks.marks.is_empty());
        entries.extend(marks.map(|marks| (marks.colour, marks.name.clone())));
        let corner = at(left, plot.bottom() + 46 * PX);
        y = legend(&mut scene, theme, corner, plot.w, &entries) + 8 * PX;
    }
    scene.height = y.max(PX);
    scene
}

impl Cores {
    /// Whether sockets or caches are worth marking: more than one of them is known.
    #[must_use]
    pub(crate) fn has_brackets(&self) -> bool {
        has_brackets(self.rows.iter().filter_map(|row| row.place.as_ref()))
    }
}

/// Whether these CPUs have more than one socket or last-level cache.
pub fn has_brackets<'a>(places: impl IntoIterator<Item = &'a Place>) -> bool {
    let mut labels = places.into_iter().map(|place| (place.socket, place.llc));
    let first = labels.next();
    labels.any(|label| Some(label) != first)
}

struct Picture<'a> {
    cores: &'a Cores,
    axis: TimeAxis,
    plot: Rect,
    row: i32,
    tops: Tops,
    theme: &'a Theme,
}

impl Picture<'_> {
    fn draw(&self, scene: &mut Scene) {
        scene.rect(self.theme.panel, self.plot);
        self.fill(scene);
        self.silence(scene);
        self.lanes(scene);
        self.axis.draw(scene, self.plot, self.theme, "the trace began");
        self.separators(scene);
        self.behind(scene);
        self.names(scene);
        self.marks(scene);
        self.words(scene);
        frame(scene, self.theme, self.plot);
        self.labels(scene);
        self.brackets(scene);
    }

    fn top(&self, index: usize) -> i32 {
        self.plot.y + self.tops.top(index)
    }

    /// The rows that have the height of a row, with their indices.
    fn loud(&self) -> impl Iterator<Item = (usize, &Row)> {
        self.cores.rows.iter().enumerate().filter(|(index, _)| !self.tops.is_silent(*index))
    }

    /// CPUs without an event: one band for all that stand together, which names them.
    fn silence(&self, scene: &mut Scene) {
        let style = Style::regular(10, self.theme.text);
        for run in self.tops.silent() {
            let y = self.top(run.start);
            let end = self.top(run.end);
            let end_x = self.axis.place(self.cores.window.end);
            let band = Rect::new(self.plot.x, y, end_x - self.plot.x, end - y);
            scene.rect(self.theme.unknown, band);
            let cpus: CpuSet = self.cores.rows[run.clone()].iter().map(|row| row.cpu).collect();
            let words = format!("CPUs {cpus} logged no event");
            let words = shorten(&words, style.size, style.weight, band.w - 8 * PX);
            let middle = at(band.x + band.w / 2, i32::midpoint(y, end) + 4 * PX);
            scene.text(middle, Anchor::Middle, style, &words);
        }
    }

    /// Boxes leave a gap between rows where rows are high enough for one.
    fn gap(&self) -> i32 {
        match self.row / PX {
            12.. => 2 * PX,
            6.. => PX,
            _ => 0,
        }
    }

    /// Height of what ran: lanes share what they add to a row, or half of a lower one.
    fn boxes_height(&self) -> i32 {
        let lanes = i32::try_from(self.cores.lanes.len()).unwrap_or(0) * LANE_PX * PX;
        let height = self.row - self.gap();
        height - lanes.min(height / 2)
    }

    fn lanes(&self, scene: &mut Scene) {
        let count = i32::try_from(self.cores.lanes.len()).unwrap_or(0);
        let boxes = self.boxes_height();
        let whole = self.row - self.gap();
        let rows: BTreeMap<Cpu, usize> =
            (0..).zip(&self.cores.rows).map(|(at, row)| (row.cpu, at)).collect();
        for (nth, lane) in (0..).zip(&self.cores.lanes) {
            let mut rects: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
            let height = (whole - boxes) / count;
            // Where the last one of each row ends: what lies within half a pixel of it cannot be told apart.
            let mut free = vec![i32::MIN; self.cores.rows.len()];
            for (cpu, span, colour) in &lane.pieces {
                let Some(&row) = rows.get(cpu) else { continue };
                let x = self.axis.place(span.start);
                let end = self.axis.place(span.end).max(x + PX / 2);
                if end <= free[row] {
                    continue;
                }
                free[row] = end + PX / 2;
                let y = self.top(row) + self.gap() / 2 + boxes + nth * height;
                rects.entry(*colour).or_default().push(Rect::new(x, y, end - x, height));
            }
            for (colour, rects) in rects {
                scene.rects(colour, merged(rects));
            }
        }
    }

    fn fill(&self, scene: &mut Scene) {
        let mut boxes: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
        let mut shades: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
        let height = self.boxes_height();
        for (index, row) in self.loud() {
            let y = self.top(index) + self.gap() / 2;
            match &row.fill {
                Fill::Pieces(pieces) => {
                    let starts = pieces.iter().skip(1).map(|next| self.axis.place(next.span.start));
                    let starts = starts.chain([self.plot.right()]);
                    for (piece, next) in pieces.iter().zip(starts) {
                        let x = self.axis.place(piece.span.start);
                        // What ran is seen, however short: half a pixel where the CPU idles behind it,
                        // and a tenth in any case.
                        let least = (next - x).clamp(PX / 10, PX / 2);
                        let w = (self.axis.place(piece.span.end) - x).max(least);
                        boxes.entry(piece.colour).or_default().push(Rect::new(x, y, w, height));
                    }
                }
                Fill::Shades(row) => self.shades(row, y, height, &mut shades),
            }
        }
        let edges = self.edges(&boxes);
        for (colour, rects) in boxes.into_iter().chain(shades).chain(edges) {
            scene.rects(colour, rects);
        }
    }

    /// A line along the lower edge of each box whose colour is near that of the ground, so that its ends
    /// are seen: a darker one of its colour, or a lighter one on dark ground.
    fn edges(&self, boxes: &BTreeMap<Colour, Vec<Rect>>) -> BTreeMap<Colour, Vec<Rect>> {
        let mut edges: BTreeMap<Colour, Vec<Rect>> = BTreeMap::new();
        if self.row < EDGE_ROW_PX * PX {
            return edges;
        }
        for (colour, rects) in boxes {
            let edge = colour.apart_from(self.theme.panel, MARK_CONTRAST);
            if edge != *colour {
                let lines = rects.iter().map(|r| Rect { y: r.bottom() - PX, h: PX, ..*r });
                edges.entry(edge).or_default().extend(merged(lines.collect()));
            }
        }
        edges
    }

    /// Columns of the same shade become one box.
    fn shades(&self, shades: &[Colour], y: i32, h: i32, boxes: &mut BTreeMap<Colour, Vec<Rect>>) {
        let columns = i64::try_from(shades.len().max(1)).unwrap_or(i64::MAX);
        let end = self.axis.place(self.cores.window.end);
        let width = i64::from(end - self.plot.x);
        let edge = |column: usize| {
            let units = width * i64::try_from(column).unwrap_or(i64::MAX) / columns;
            self.plot.x + i32::try_from(units).expect("inside of the plot")
        };
        let mut column = 0;
        for run in shades.chunk_by(|a, b| a == b) {
            let x = edge(column);
            let right = edge(column + run.len());
            column += run.len();
            if run[0].a > 0 {
                boxes.entry(run[0]).or_default().push(Rect::new(x, y, right - x, h));
            }
        }
    }

    fn separators(&self, scene: &mut Scene) {
        if self.row < 4 * PX {
            return;
        }
        let line = |(index, _)| {
            let y = self.top(index);
            (at(self.plot.x, y), at(self.plot.right(), y))
        };
        let lines = self.loud().skip(1).map(line).collect();
        scene.lines(Stroke::solid(self.theme.axis.fade(60), PX / 2), lines);
    }

    /// Names in the boxes that have room for at least four characters of them.
    fn names(&self, scene: &mut Scene) {
        if self.row < 15 * PX {
            return;
        }
        let plates = self.plates();
        for (index, row) in self.loud() {
            let Fill::Pieces(pieces) = &row.fill else { continue };
            let baseline = self.top(index) + (self.boxes_height() + self.gap()) / 2 + 4 * PX;
            for piece in pieces {
                let mut x = self.axis.place(piece.span.start);
                let end = self.axis.place(piece.span.end);
                // Behind a plate, whose words would stand on the name.
                let over = |(row, plate, _): &&(usize, Rect, _)| {
                    *row == index && plate.x < end && plate.right() > x
                };
                x = plates.iter().filter(over).map(|(_, plate, _)| plate.right()).fold(x, i32::max);
                let room = end - x - 6 * PX;
                // Nothing stands behind the end of a trace.
                let is_shown = piece.span.start < self.cores.window.end;
                let name = piece.name.and_then(|name| self.cores.names.get(name as usize));
                let name = name.filter(|_| is_shown);
                let Some(name) = name.filter(|_| room > 26 * PX) else { continue };
                let style = Style::regular(11, piece.colour.ink());
                if let Some(name) = shorten_task(name, style.size, style.weight, room) {
                    scene.text(at(x + 3 * PX, baseline), Anchor::Start, style, &name);
                }
            }
        }
    }

    /// The plates of words on rows, so that these can be read on any colour: row, place, words.
    fn plates(&self) -> Vec<(usize, Rect, &str)> {
        let style = Style::regular(11, self.theme.text);
        let plate = |label: &'_ Label| {
            let row = self.cores.rows.iter().position(|row| row.cpu == label.cpu)?;
            // Words that would leave the picture at its right end before it.
            let width = style.width(&label.text);
            let x = (self.axis.place(label.time) + 4 * PX).min(self.plot.right() - width - 4 * PX);
            // High rows have their tasks' names in the middle, and bars at the lower edge.
            let down = if self.row >= 36 * PX { 13 * PX } else { self.row * 3 / 4 };
            let y = self.top(row) + down - 11 * PX;
            Some((row, Rect::new(x - 3 * PX, y, width + 6 * PX, 15 * PX)))
        };
        let made = |label| plate(label).map(|(row, rect)| (row, rect, label.text.as_str()));
        self.cores.labels.iter().filter_map(made).collect()
    }

    fn words(&self, scene: &mut Scene) {
        let style = Style::regular(11, self.theme.text);
        for (_, plate, words) in self.plates() {
            scene.rect(self.theme.panel.fade(225), plate);
            scene.text(at(plate.x + 3 * PX, plate.y + 11 * PX), Anchor::Start, style, words);
        }
    }

    /// Beside longer traces, what lies behind the end of this one: it would look like idle time.
    fn behind(&self, scene: &mut Scene) {
        let end = self.axis.place(self.cores.window.end);
        let rest = Rect { x: end, w: self.plot.right() - end, ..self.plot };
        if self.axis.window.end == self.cores.window.end || rest.w < PX {
            return;
        }
        scene.rect(self.theme.grid, rest);
        let style = Style::regular(11, self.theme.text);
        let words = "after the end of this trace";
        if style.width(words) + 8 * PX < rest.w {
            let middle = at(rest.x + rest.w / 2, rest.y + rest.h / 2 + 4 * PX);
            scene.text(middle, Anchor::Middle, style, words);
        }
    }

    /// CPU numbers: every row where there is room, else every 2nd, 4th, 8th, ...
    fn labels(&self, scene: &mut Scene) {
        let style = Style::regular(if self.row >= 14 * PX { 11 } else { 9 }, self.theme.muted);
        let mut every = 1;
        while self.row * every < 10 * PX {
            every *= 2;
        }
        let every = usize::try_from(every).expect("positive");
        for (index, row) in self.loud().step_by(every) {
            let middle = self.top(index) + self.row / 2;
            let point = at(self.plot.x - 6 * PX, middle + style.size * 36 / 100);
            let label =
                if self.row >= 14 * PX { format!("CPU {}", row.cpu) } else { row.cpu.to_string() };
            scene.text(point, Anchor::End, style, &label);
        }
        if self.cores.rows.is_empty() {
            let middle = at(self.plot.x + self.plot.w / 2, self.plot.y + self.plot.h / 2 + 4 * PX);
            let style = Style::regular(12, self.theme.muted);
            scene.text(middle, Anchor::Middle, style, "No CPU logged an event in this window");
        }
    }

    /// Brackets left of the numbers: sockets outside, last-level caches inside; SMT siblings are
    /// tied by a short line beside their numbers.
    fn brackets(&self, scene: &mut Scene) {
        if self.cores.has_brackets() {
            let socket = LABELS_PX + 2 * BRACKET_PX - 14;
            let llc = LABELS_PX + BRACKET_PX - 10;
            self.level(scene, socket, "socket", |place| place.socket);
            self.level(scene, llc, "LLC", |place| place.llc);
        }
        let x = self.plot.x - 3 * PX;
        let mut lines = Vec::new();
        for (first, count, _) in self.runs(|place| place.core) {
            if count > 1 && self.row >= 4 * PX && !self.tops.is_silent(first) {
                let y = self.top(first) + PX;
                let end = self.top(first + count) - PX;
                lines.push((at(x, y), at(x, end)));
            }
        }
        scene.lines(Stroke::solid(self.theme.muted, PX + PX / 2), lines);
    }

    /// Rows that stand together and share what `key` names: first row, number of rows, key.
    fn runs(&self, key: impl Fn(&Place) -> u32) -> Vec<(usize, usize, u32)> {
        let mut runs = Vec::new();
        let keys: Vec<Option<u32>> =
            self.cores.rows.iter().map(|row| row.place.as_ref().map(&key)).collect();
        let mut first = 0;
        for run in keys.chunk_by(|a, b| a == b) {
            if let Some(key) = run[0] {
                runs.push((first, run.len(), key));
            }
            first += run.len();
        }
        runs
    }

    fn level(&self, scene: &mut Scene, left: i32, name: &str, key: impl Fn(&Place) -> u32) {
        let style = Style::regular(9, self.theme.muted);
        let x = self.plot.x - left * PX;
        let mut lines = Vec::new();
        for (first, count, key) in self.runs(key) {
            let y = self.top(first) + PX;
            let end = self.top(first + count) - PX;
            lines.push((at(x, y), at(x, end)));
            lines.push((at(x, y), at(x + 3 * PX, y)));
            lines.push((at(x, end), at(x + 3 * PX, end)));
            let middle = at(x - 3 * PX, i32::midpoint(y, end));
            let long = format!("{name} {key}");
            let label = if style.width(&long) <= end - y { long } else { key.to_string() };
            if style.width(&label) <= end - y {
                let text = Text::upwards(middle, Anchor::Middle, style, &label);
                scene.items.push(crate::Item::Text(text));
            }
        }
        scene.lines(Stroke::solid(self.theme.muted, PX), lines);
    }

    fn marks(&self, scene: &mut Scene) {
        let rows: BTreeMap<Cpu, usize> =
            self.cores.rows.iter().enumerate().map(|(index, row)| (row.cpu, index)).collect();
        for marks in &self.cores.marks {
            let mut ticks = Vec::new();
            let mut bars = Vec::new();
            let mut links = Vec::new();
            for mark in &marks.marks {
                match mark {
                    Mark::Tick { time, cpu } => ticks.extend(rows.get(cpu).map(|&row| {
                        let x = self.axis.place(*time);
                        let y = self.top(row);
                        (at(x, y), at(x, y + self.row * 2 / 5))
                    })),
                    Mark::Bar { span, cpu } => bars.extend(rows.get(cpu).map(|&row| {
                        let x = self.axis.place(span.start);
                        let end = self.axis.place(span.end);
                        let height = (self.row / 5).max(PX);
                        let y = self.top(row) + self.row - height;
                        Rect::new(x, y, (end - x).max(PX / 2), height)
                    })),
                    Mark::Link { time, from, to } => {
                        if let (Some(&from), Some(&to)) = (rows.get(from), rows.get(to))
                            && from != to
                        {
                            links.push(self.link(*time, from, to));
                        }
                    }
                }
            }
            let bars = merged(bars);
            // Printed in grey, a bar can have the shade of what it lies on: a line parts them.
            if self.row >= EDGE_ROW_PX * PX {
                let edge = |bar: &Rect| Rect { y: bar.y - PX, h: PX, ..*bar };
                scene.rects(self.theme.panel, bars.iter().map(edge).collect());
            }
            scene.labelled(&marks.name, |scene| {
                scene.rects(marks.colour, bars);
                scene.lines(Stroke::solid(marks.colour, PX), ticks);
                self.links(scene, marks.colour, &links);
            });
        }
    }

    /// From the middle of a row to the middle of another.
    fn link(&self, time: Nanos, from: usize, to: usize) -> (Point, Point) {
        let x = self.axis.place(time);
        let middle = |row| self.top(row) + self.row / 2;
        (at(x, middle(from)), at(x, middle(to)))
    }

    fn links(&self, scene: &mut Scene, colour: Colour, links: &[(Point, Point)]) {
        // A few have an edge in the colour of the ground, so that they are seen on any task; many would hide
        // the rows behind it.
        let few = links.len() <= LINKS_EDGED_MAX;
        if few {
            scene.lines(Stroke::solid(self.theme.panel, PX * 36 / 10), links.to_vec());
        }
        let width = if few { PX * 16 / 10 } else { PX * 8 / 10 };
        // Where they would cover the rows they are paler: what ran stays what is seen.
        let ink: i64 = links.iter().map(|(a, b)| i64::from((a.y - b.y).abs())).sum();
        let most = i64::from(self.plot.h.max(1)) * LINKS_INK;
        let pale = (255 * most / ink.max(1)).clamp(LINKS_PALEST, 255);
        let colour = colour.fade(u8::try_from(pale).unwrap_or(u8::MAX));
        scene.lines(Stroke::solid(colour, width), links.to_vec());
        // A small head at the end, where rows are high enough to see one.
        if self.row >= 6 * PX {
            let half = if few { 3 * PX } else { 2 * PX };
            for (from, to) in links {
                let back = if to.y > from.y { -2 * half } else { 2 * half };
                let corners = [*to, at(to.x - half, to.y + back), at(to.x + half, to.y + back)];
                scene.area(colour, &corners);
            }
        }
    }
}

/// Bars that touch or overlap in one row become one, so that dense marks stay as small as a row.
fn merged(mut bars: Vec<Rect>) -> Vec<Rect> {
    bars.sort_by_key(|bar| (bar.y, bar.x));
    let mut merged: Vec<Rect> = Vec::new();
    for bar in bars {
        match merged.last_mut() {
            Some(last) if last.y == bar.y && bar.x <= last.right() => {
                last.w = last.w.max(bar.right() - last.x);
            }
            _ => merged.push(bar),
        }
    }
    merged
}
