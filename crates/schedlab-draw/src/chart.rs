//! Charts: lines with intervals, histograms, cumulative curves, heat maps, boxes, fits, job graphs and
//! timelines. Each is a struct of plain numbers with public fields; [`Chart::scene`] draws it.
//!
//! All share one look: title, notes, a panel with two axes, a legend below. Values that are not
//! finite are left out, and an empty chart says so.

mod boxes;
mod distribution;
mod fit;
mod gantt;
mod graph;
mod heatmap;
mod line;
mod multiples;
mod panel;
mod scale;

pub use boxes::{Boxes, Group};
pub use distribution::{Cdf, Curve, Histogram, cdf_of, histogram_of};
pub use fit::{Fit, FitLine};
pub use gantt::{Gantt, Job};
pub use graph::{Edge, Graph, Node};
pub use heatmap::Heatmap;
pub use line::{Line, Sample, Series, Shape};
pub use multiples::{Column, Multiples, Published, Region};
pub use scale::{Axis, Values};

use crate::{Scene, Theme};

pub trait Chart {
    /// Draws it, `width_px` pixels wide; it decides its height.
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene;
}
