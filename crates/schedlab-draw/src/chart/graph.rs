//! Job graphs: nodes in columns by level, edges between them.
//!
//! Within a level nodes are put at the mean height of their predecessors, and once more at that of
//! their successors (the barycentre method of K. Sugiyama, S. Tagawa and M. Toda, 1981), which keeps
//! forks and joins readable in time linear in the edges.

mod columns;

use super::Chart;
use super::panel::{begin, say_empty};
use crate::axis::legend;
use crate::colour::{Colour, Theme};
use crate::font::shorten;
use crate::scene::{Anchor, Item, PX, Point, Rect, Scene, Step, Stroke, Style, at, circle};
use columns::{Columns, NODE};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its column, from 0.
    pub level: usize,
    /// What is written in it; may be empty.
    pub name: String,
    pub colour: Colour,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Index of the node that must be done first.
    pub from: usize,
    /// Index of the node that waits for it.
    pub to: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// The title above the chart.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    /// The nodes, by their index in edges.
    pub nodes: Vec<Node>,
    /// The edges; those that name no node are left out.
    pub edges: Vec<Edge>,
    pub legend: Vec<(Colour, String)>,
}

impl Chart for Graph {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let columns = Columns::of(&self.nodes, &self.edges);
        let rooms = columns.columns.iter().map(|column| columns.room(column));
        let widest = i32::try_from(rooms.max().unwrap_or(0).max(NODE)).unwrap_or(i32::MAX);
        let node = i32::try_from(NODE).unwrap_or(1);
        let pitch = (640 * node / widest).clamp(4, 44) * PX;
        let left = 24 * PX;
        let width = scene.width - 48 * PX;
        let plot = Rect::new(left, top + 6 * PX, width, pitch * widest / node);
        let places = place(&columns, plot, pitch);
        let count = i32::try_from(columns.columns.len().max(1)).unwrap_or(i32::MAX);
        let between = plot.w / count;
        let radius = (pitch * 2 / 5).min(between * 2 / 5).clamp(PX, 14 * PX);
        draw_edges(&mut scene, theme, &columns, &places, radius);
        let mut discs: BTreeMap<Colour, Vec<Step>> = BTreeMap::new();
        for (node, place) in self.nodes.iter().zip(&places) {
            discs.entry(node.colour).or_default().extend(circle(*place, radius));
        }
        for (colour, steps) in discs {
            scene.items.push(Item::Path { fill: Some(colour), stroke: None, steps });
        }
        if radius >= 8 * PX {
            for (node, place) in self.nodes.iter().zip(&places) {
                let style = Style::regular(9, node.colour.ink());
                let name = shorten(&node.name, style.size, style.weight, 2 * radius - 2 * PX);
                scene.text(at(place.x, place.y + 3 * PX), Anchor::Middle, style, &name);
            }
        }
        if self.nodes.is_empty() {
            say_empty(&mut scene, theme, plot);
        }
        let corner = at(plot.x, plot.bottom() + 12 * PX);
        scene.height = legend(&mut scene, theme, corner, plot.w, &self.legend) + 8 * PX;
        scene
    }
}

/// Draws what leads from slot to slot. A small head says which way an edge goes, where there is room for one.
fn draw_edges(scene: &mut Scene, theme: &Theme, columns: &Columns, places: &[Point], radius: i32) {
    let mut steps = Vec::new();
    let head = if radius >= 8 * PX { 4 * PX } else { 0 };
    for &(from, to) in &columns.edges {
        let ends = !columns.is_way(to);
        let from = places[from];
        let to = places[to];
        let a = at(from.x + radius, from.y);
        let b = at(to.x - radius, to.y);
        let bend = (b.x - a.x) / 2;
        steps.push(Step::Move(a));
        steps.push(Step::Curve(at(a.x + bend, a.y), at(b.x - bend, b.y), b));
        if head > 0 && ends {
            let corners = [b, at(b.x - head, b.y - head / 2), at(b.x - head, b.y + head / 2)];
            scene.area(theme.axis, &corners);
        }
    }
    // Through a column an edge goes straight, between the nodes.
    for way in &places[columns.nodes..] {
        steps.push(Step::Move(at(way.x - radius, way.y)));
        steps.push(Step::Line(at(way.x + radius, way.y)));
    }
    if !steps.is_empty() {
        let width = if columns.edges.len() > 400 { PX / 2 } else { PX };
        let stroke = Some(Stroke::solid(theme.axis, width));
        scene.items.push(Item::Path { fill: None, stroke, steps });
    }
}

/// The middle of each slot.
fn place(columns: &Columns, plot: Rect, pitch: i32) -> Vec<Point> {
    let mut places = vec![at(0, 0); columns.slots()];
    let count = i64::try_from(columns.columns.len().max(1)).unwrap_or(i64::MAX);
    let height = |room: usize| {
        let whole = i64::from(pitch) * i64::try_from(room).unwrap_or(1);
        i32::try_from(whole / i64::try_from(NODE).unwrap_or(1)).unwrap_or(i32::MAX)
    };
    for (index, column) in (0_i64..).zip(&columns.columns) {
        let x = i64::from(plot.w) * (2 * index + 1) / (2 * count);
        let x = plot.x + i32::try_from(x).unwrap_or(0);
        let top = plot.y + (plot.h - height(columns.room(column))) / 2;
        let mut before = 0;
        for &slot in column {
            let room = columns.room_of(slot);
            places[slot] = at(x, top + i32::midpoint(height(before), height(before + room)));
            before += room;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points along the edges of a picture.
    fn along(scene: &Scene) -> Vec<Point> {
        let mut points = Vec::new();
        let mut last = at(0, 0);
        let between = |parts: [f64; 4], on: [Point; 4]| {
            let sum = |of: fn(Point) -> i32| {
                parts.iter().zip(on).map(|(part, point)| part * f64::from(of(point))).sum::<f64>()
            };
            at(sum(|point| point.x) as i32, sum(|point| point.y) as i32)
        };
        for item in &scene.items {
            let Item::Path { fill: None, steps, .. } = item else { continue };
            for step in steps {
                let (b, c, end) = match *step {
                    Step::Move(point) | Step::Line(point) => (point, point, point),
                    Step::Curve(b, c, end) => (b, c, end),
                    Step::Close => continue,
                };
                let start = if matches!(step, Step::Move(_)) { end } else { last };
                for t in (0..=40).map(|t| f64::from(t) / 40.0) {
                    let u = 1.0 - t;
                    let parts = [u * u * u, 3.0 * u * u * t, 3.0 * u * t * t, t * t * t];
                    points.push(between(parts, [start, b, c, end]));
                }
                last = end;
            }
        }
        points
    }

    #[test]
    fn no_edge_runs_behind_a_node() {
        let levels = [0, 0, 1, 1, 2, 2, 3, 3, 4];
        let pairs = [(0, 2), (2, 4), (4, 6), (6, 8), (1, 3), (3, 5), (5, 7), (7, 8)];
        // These skip one column, or three.
        let skips = [(0, 4), (0, 8), (1, 8), (2, 7), (3, 8)];
        let node = |&level: &usize| Node { level, name: String::new(), colour: Colour::BLACK };
        let edges = pairs.iter().chain(&skips).map(|&(from, to)| Edge { from, to });
        let graph = Graph {
            nodes: levels.iter().map(node).collect(),
            edges: edges.collect(),
            ..Graph::default()
        };
        let scene = graph.scene(900, &Theme::light());
        let columns = Columns::of(&graph.nodes, &graph.edges);
        assert_eq!(columns.slots() - columns.nodes, 9, "each node has its ways once");
        let discs = scene.items.iter().filter_map(|item| match item {
            Item::Path { fill: Some(Colour::BLACK), steps, .. } => Some(steps),
            _ => None,
        });
        // The first point of each circle is its rightmost one.
        let rights: Vec<Point> = discs
            .flatten()
            .filter_map(|step| if let Step::Move(point) = step { Some(*point) } else { None })
            .collect();
        assert_eq!(rights.len(), levels.len());
        let radius = 14 * PX;
        for point in along(&scene) {
            for right in &rights {
                let x = f64::from(point.x - right.x + radius);
                let y = f64::from(point.y - right.y);
                let away = x.hypot(y);
                assert!(away > f64::from(radius - PX), "{point:?} is {away} from a node");
            }
        }
    }
}
