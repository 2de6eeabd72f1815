//! Job graphs: nodes in columns by level, edges between them.
//!
//! Within a level nodes are put at the mean height of their predecessors, and once more at that of
//! their successors (the barycentre method of K. Sugiyama, S. Tagawa and M. Toda, 1981), which keeps
//! forks and joins readable in time linear in the edges.

use super::Chart;
use super::panel::{begin, say_empty};
use crate::axis::legend;
use crate::colour::{Colour, Theme};
use crate::font::shorten;
use crate::scene::{Anchor, Item, PX, Point, Rect, Scene, Step, Stroke, Style, at, circle};
use std::collections::BTreeMap;

/// A node of the drawn graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its column, from 0.
    pub level: usize,
    /// What is written in it; may be empty.
    pub name: String,
    /// The colour of the node.
    pub colour: Colour,
}

/// An edge between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Index of the node that must be done first.
    pub from: usize,
    /// Index of the node that waits for it.
    pub to: usize,
}

/// A graph with levels.
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
    /// What the colours mean.
    pub legend: Vec<(Colour, String)>,
}

impl Chart for Graph {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let levels = self.levels();
        let widest = levels.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let pitch = (640 / i32::try_from(widest).unwrap_or(i32::MAX)).clamp(4, 44) * PX;
        let plot = Rect::new(
            24 * PX,
            top + 6 * PX,
            scene.width - 48 * PX,
            pitch * i32::try_from(widest).unwrap_or(1),
        );
        let places = place(&levels, self.nodes.len(), plot, pitch);
        let between = plot.w / i32::try_from(levels.len().max(1)).unwrap_or(i32::MAX);
        let radius = (pitch * 2 / 5).min(between * 2 / 5).clamp(PX, 14 * PX);
        self.draw_edges(&mut scene, theme, &places, radius);
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

impl Graph {
    /// The nodes of each level, ordered so that edges cross little.
    fn levels(&self) -> Vec<Vec<usize>> {
        // A level number can be anything; only levels that have nodes take room.
        let mut used: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            used.entry(node.level).or_default().push(index);
        }
        let mut levels: Vec<Vec<usize>> = used.into_values().collect();
        let mut order = vec![0.0; self.nodes.len()];
        let number = |levels: &[Vec<usize>], order: &mut Vec<f64>| {
            for level in levels {
                let middle = level.len() as f64 / 2.0;
                for (place, &node) in level.iter().enumerate() {
                    order[node] = place as f64 - middle;
                }
            }
        };
        number(&levels, &mut order);
        for forward in [true, false, true] {
            let means = self.means(&order, forward);
            let sweep: Vec<usize> = if forward {
                (0..levels.len()).collect()
            } else {
                (0..levels.len()).rev().collect()
            };
            for level in sweep {
                levels[level].sort_by(|&a, &b| means[a].total_cmp(&means[b]).then(a.cmp(&b)));
            }
            number(&levels, &mut order);
        }
        levels
    }

    /// For each node the mean order of its neighbours on one side; its own where it has none.
    fn means(&self, order: &[f64], forward: bool) -> Vec<f64> {
        let mut sums = vec![(0.0, 0_u32); order.len()];
        for Edge { from, to } in &self.edges {
            let (node, other) = if forward { (*to, *from) } else { (*from, *to) };
            if node < order.len() && other < order.len() {
                sums[node].0 += order[other];
                sums[node].1 += 1;
            }
        }
        let mean = |((sum, count), own): (&(f64, u32), &f64)| match count {
            0 => *own,
            count => sum / f64::from(*count),
        };
        sums.iter().zip(order).map(mean).collect()
    }

    fn draw_edges(&self, scene: &mut Scene, theme: &Theme, places: &[Point], radius: i32) {
        let mut steps = Vec::new();
        // A small head says which way an edge goes, where there is room for one.
        let head = if radius >= 8 * PX { 4 * PX } else { 0 };
        for Edge { from, to } in &self.edges {
            let (Some(from), Some(to)) = (places.get(*from), places.get(*to)) else { continue };
            let (a, b) = (at(from.x + radius, from.y), at(to.x - radius, to.y));
            let bend = (b.x - a.x) / 2;
            steps.push(Step::Move(a));
            steps.push(Step::Curve(at(a.x + bend, a.y), at(b.x - bend, b.y), b));
            if head > 0 {
                let corners = [b, at(b.x - head, b.y - head / 2), at(b.x - head, b.y + head / 2)];
                scene.area(theme.axis, &corners);
            }
        }
        if !steps.is_empty() {
            let width = if self.edges.len() > 400 { PX / 2 } else { PX };
            let stroke = Some(Stroke::solid(theme.axis, width));
            scene.items.push(Item::Path { fill: None, stroke, steps });
        }
    }
}

fn place(levels: &[Vec<usize>], nodes: usize, plot: Rect, pitch: i32) -> Vec<Point> {
    let mut places = vec![at(0, 0); nodes];
    let count = i32::try_from(levels.len().max(1)).unwrap_or(i32::MAX);
    for (column, level) in levels.iter().enumerate() {
        let column = i64::try_from(column).unwrap_or(0);
        let x = i64::from(plot.w) * (2 * column + 1) / i64::from(2 * count);
        let height = pitch * i32::try_from(level.len()).unwrap_or(1);
        for (row, &node) in level.iter().enumerate() {
            let row = i32::try_from(row).unwrap_or(0);
            let y = plot.y + (plot.h - height) / 2 + row * pitch + pitch / 2;
            places[node] = at(plot.x + i32::try_from(x).unwrap_or(0), y);
        }
    }
    places
}
