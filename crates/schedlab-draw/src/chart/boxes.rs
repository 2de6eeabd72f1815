//! Boxes and violins: distributions of a few groups beside each other, for A/B comparisons.
//!
//! A box goes from the first to the third quartile with a line at the median; whiskers reach to the
//! last value within 1.5 box heights, and what lies beyond is drawn as points (J. W. Tukey,
//! "Exploratory Data Analysis", 1977). Behind it stands the density of the values (a Gaussian kernel
//! of B. W. Silverman's width, "Density Estimation", 1986, eq. 3.31), where there are enough.

use super::Chart;
use super::line::dots;
use super::panel::{Panel, begin, name_y, place, say_empty};
use super::scale::Axis;
use crate::axis::{WORDS, legend};
use crate::colour::{Colour, Theme};
use crate::font::shorten;
use crate::scene::{Anchor, PX, Point, Rect, Scene, Stroke, Style, at};
use schedlab_stats::Sample;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The name of the group, written below its box.
    pub name: String,
    /// The values, in any order.
    pub values: Vec<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Boxes {
    /// The title above the chart.
    pub title: String,
    /// Lines under the title, such as the trace, the window and the number of events.
    pub notes: Vec<String>,
    pub y: Axis,
    /// The groups, from left to right.
    pub groups: Vec<Group>,
    /// Whether densities are drawn behind the boxes.
    pub violins: bool,
}

/// With fewer values a density is imagination.
const VIOLIN_LEAST: usize = 8;

impl Chart for Boxes {
    fn scene(&self, width_px: i32, theme: &Theme) -> Scene {
        let (mut scene, top) = begin(width_px, theme, &self.title, &self.notes);
        let plot = place(&scene, top, (width_px * 2 / 5).clamp(140, 340));
        let values = || self.groups.iter().flat_map(|group| group.values.iter().copied());
        let x = Axis::new("").over(0.0, 1.0).scale(std::iter::empty());
        let panel = Panel { plot, x, y: self.y.scale(values()) };
        scene.rect(theme.panel, plot);
        panel.draw_y(&mut scene, theme, &Axis { label: String::new(), ..self.y.clone() });
        name_y(&mut scene, theme, plot, &self.y.label);
        crate::axis::frame(&mut scene, theme, plot);
        let room = plot.w / i32::try_from(self.groups.len().max(1)).unwrap_or(i32::MAX);
        let style = Style::regular(11, theme.text);
        for (index, group) in self.groups.iter().enumerate() {
            let middle = plot.x + room * i32::try_from(index).unwrap_or(0) + room / 2;
            let mut values: Vec<f64> =
                group.values.iter().copied().filter(|&value| self.y.shows(value)).collect();
            values.sort_by(f64::total_cmp);
            let label = format!("{} (n={})", group.name, values.len());
            let label = shorten(&label, style.size, style.weight, room - 6 * PX);
            scene.text(at(middle, plot.bottom() + 16 * PX), Anchor::Middle, style, &label);
            let colour = theme.series(index);
            self.group(&mut scene, &panel, theme, &values, middle, room, colour);
        }
        if values().next().is_none() {
            say_empty(&mut scene, theme, plot);
        }
        let corner = at(plot.x, plot.bottom() + 26 * PX);
        scene.height = legend(&mut scene, theme, corner, plot.w, &self.meanings()) + 2 * PX;
        scene
    }
}

impl Boxes {
    /// What the parts of a box are, in words.
    fn meanings(&self) -> Vec<(Colour, String)> {
        let density = self.groups.iter().any(|group| group.values.len() >= VIOLIN_LEAST);
        let said = [
            Some("box: quartiles and median"),
            Some("whiskers: values within 1.5 box heights"),
            (self.violins && density).then_some("area: density"),
        ];
        said.into_iter().flatten().map(|words| (WORDS, words.to_owned())).collect()
    }

    fn group(
        &self,
        scene: &mut Scene,
        panel: &Panel,
        theme: &Theme,
        values: &[f64],
        middle: i32,
        room: i32,
        colour: Colour,
    ) {
        if values.is_empty() {
            return;
        }
        if self.violins && values.len() >= VIOLIN_LEAST {
            let mut outline = violin(panel, values, middle, room * 2 / 5);
            scene.area(colour.fade(50), &outline);
            outline.extend(outline.first().copied());
            scene.polyline(Stroke::solid(colour, PX / 2), &outline);
        }
        let half = (room / 6).min(22 * PX);
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|part| quantile(values, part));
        let reach = 1.5 * (q3 - q1);
        let inside = |value: &&f64| **value >= q1 - reach && **value <= q3 + reach;
        let low = values.iter().find(inside).copied().unwrap_or(q1).min(q1);
        let high = values.iter().rev().find(inside).copied().unwrap_or(q3).max(q3);
        let y = |value: f64| panel.y_at(value);
        let cap = |value: f64| (at(middle - half / 2, y(value)), at(middle + half / 2, y(value)));
        let whiskers = vec![
            (at(middle, y(q3)), at(middle, y(high))),
            (at(middle, y(q1)), at(middle, y(low))),
            cap(low),
            cap(high),
        ];
        scene.lines(Stroke::solid(colour, PX), whiskers);
        let body = Rect::new(middle - half, y(q3), 2 * half, (y(q1) - y(q3)).max(PX));
        scene.rect(theme.panel, body);
        scene.rect(colour.fade(110), body);
        let left = middle - half;
        let right = middle + half;
        let top = y(q3);
        let bottom = y(q3) + body.h;
        let corners = [at(left, top), at(right, top), at(right, bottom), at(left, bottom)];
        let outline = [corners.as_slice(), &corners[..2]].concat();
        scene.polyline(Stroke::solid(colour, PX), &outline);
        let line = (at(middle - half, y(median)), at(middle + half, y(median)));
        scene.lines(Stroke::solid(theme.text, PX * 2), vec![line]);
        // A few values are shown as they are; of many only those that the whiskers leave out.
        let few = values.len() <= 40;
        let shown = values.iter().filter(|value| few || !inside(value));
        let points: Vec<Point> = shown
            .enumerate()
            .map(|(index, &value)| {
                // Side by side, in a fixed pattern, so that equal values do not hide each other.
                let shift = [0, 2, -2, 1, -1][index % 5] * half / 5;
                at(middle + if few { shift } else { 0 }, y(value))
            })
            .collect();
        dots(scene, colour.mix(theme.text, 60).fade(170), &points);
    }
}

fn quantile(values: &[f64], part: f64) -> f64 {
    Sample::new(values.iter().copied()).map_or(f64::NAN, |sample| sample.quantile(part))
}

/// The outline of the density of ascending values, `half` units to either side at its widest.
fn violin(panel: &Panel, values: &[f64], middle: i32, half: i32) -> Vec<Point> {
    const STEPS: i32 = 60;
    // Where the axis is logarithmic, so is the density.
    let places: Vec<f64> = values.iter().map(|&value| panel.y.fraction(value)).collect();
    let n = places.len() as f64;
    let mean = places.iter().sum::<f64>() / n;
    let sd = (places.iter().map(|place| (place - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let spread = sd.min((quantile(&places, 0.75) - quantile(&places, 0.25)) / 1.34);
    let spread = if spread > 0.0 { spread } else { sd.max(0.005) };
    let width = 0.9 * spread * n.powf(-0.2);
    // Not beyond the values: nobody measured what would be drawn there.
    let low = places[0];
    let high = places[places.len() - 1];
    let density = |at: f64| -> f64 {
        places.iter().map(|place| (-0.5 * ((at - place) / width).powi(2)).exp()).sum()
    };
    let curve: Vec<(f64, f64)> = (0..=STEPS)
        .map(|step| low + (high - low) * f64::from(step) / f64::from(STEPS))
        .map(|place| (place, density(place)))
        .collect();
    let most = curve.iter().map(|point| point.1).fold(f64::MIN_POSITIVE, f64::max);
    let point = |side: f64| {
        move |&(place, density): &(f64, f64)| {
            let x = middle + (side * f64::from(half) * density / most) as i32;
            let y = panel.plot.bottom() - (place.clamp(0.0, 1.0) * f64::from(panel.plot.h)) as i32;
            at(x, y)
        }
    };
    curve.iter().map(point(1.0)).chain(curve.iter().rev().map(point(-1.0))).collect()
}
