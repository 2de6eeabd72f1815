//! Curves of metrics along an axis as small multiples: a panel for each choice on the other axes, with the
//! regions of the first metric as shaded areas.

use super::{Picture, factor, values};
use crate::analysis::{Cells, Curve, CurvePoint, curves};
use crate::report::labels::{short as labels, short_of};
use crate::report::{ThemedScene, readable};
use crate::{Claim, Measure};
use schedlab_draw::chart::{Axis, Chart as _, Column, Multiples, Published, Region, Sample};
use schedlab_model::Metric;

/// Panels beside each other; of more choices, some from first to last.
const COLUMNS_MAX: usize = 6;
/// Free space at both ends of the axis, as a part of it.
const EDGE: f64 = 0.06;
/// Axes whose values spread further than this ratio are logarithmic.
const LOG_FROM: f64 = 10.0;

/// The picture; `None` without values.
pub(super) fn picture(
    cells: &Cells<'_>,
    claims: &[Claim],
    label: &str,
    metrics: &[Metric],
    axis: &str,
    is_load: bool,
    width_px: i32,
) -> Option<Picture> {
    let main = metrics.first()?;
    let mut all = curves(cells, label, &main.name, axis);
    if is_load {
        // More work takes longer: regions along a load tell nothing.
        all.iter_mut().for_each(|curve| curve.levels.clear());
    }
    let shown = chosen(&all);
    let others: Vec<Vec<Curve>> =
        metrics[1..].iter().map(|metric| curves(cells, label, &metric.name, axis)).collect();
    let place = Place::of(&all)?;
    let panels: Vec<String> =
        all.iter().filter_map(|one| one.fixed.values().next().cloned()).collect();
    let column = |curve: &&Curve| {
        let mut rows = vec![Some(*curve)];
        rows.extend(others.iter().map(|of| of.iter().find(|other| other.fixed == curve.fixed)));
        let rows = || rows.iter().zip(metrics);
        Column {
            name: match curve.fixed.len() {
                1 => curve.fixed.values().map(|value| short_of(value, &panels)).collect(),
                _ => name(curve),
            },
            regions: regions(curve, &place),
            rows: rows().map(|(curve, metric)| samples(*curve, metric, &place)).collect(),
            hints: rows().map(|(curve, metric)| hints(*curve, metric, axis)).collect(),
            published: published(claims, label, main, curve, &place),
        }
    };
    let shaded = match shown.iter().any(|curve| curve.levels.len() > 1) {
        true => format!("; shaded: regions of one level of {}", main.name),
        false => String::new(),
    };
    let centre = centre_name(&all);
    let mut notes = vec![format!("points: {centre} of the runs; whiskers: 95 % intervals{shaded}")];
    let columns: Vec<Column> = shown.iter().map(column).collect();
    if columns.iter().any(|column| !column.published.is_empty()) {
        notes.push("red: where the claims expect the value".to_owned());
    }
    if shown.len() < all.len() {
        notes.push(format!("{} of {} choices; the table has all", shown.len(), all.len()));
    }
    let row = |metric: &Metric| Axis { values: values(metric.unit), ..Axis::new(&short(metric)) };
    let chart = Multiples {
        title: match all[0].fixed.keys().collect::<Vec<_>>()[..] {
            [other] => {
                format!("{label} along {}; a panel for each value of {other}", option(axis))
            }
            _ => format!("{label} along {}", option(axis)),
        },
        notes,
        x_label: option(axis).to_owned(),
        ticks: place.ticks.clone(),
        words: !place.words.is_empty(),
        rows: metrics.iter().map(|metric| row(metric).from_zero()).collect(),
        row_px: if metrics.len() > 1 { 92 } else { 180 },
        columns,
    };
    let scenes = ThemedScene::of(|theme| chart.scene(width_px, theme));
    let caption = if is_load { String::new() } else { sentences(&all, main) };
    Some(Picture { scenes, caption })
}

/// Curves from the first to the last, evenly, as many as fit.
fn chosen(all: &[Curve]) -> Vec<&Curve> {
    if all.len() <= COLUMNS_MAX {
        return all.iter().collect();
    }
    let step = (all.len() - 1) as f64 / (COLUMNS_MAX - 1) as f64;
    (0..COLUMNS_MAX).map(|index| &all[(index as f64 * step).round() as usize]).collect()
}

/// `method` of the axis `speed:method`.
fn option(axis: &str) -> &str {
    axis.rsplit(':').next().unwrap_or(axis)
}

fn short(metric: &Metric) -> String {
    metric.name.replace("switches_", "").replace("_ns", "")
}

fn name(curve: &Curve) -> String {
    let parts: Vec<String> = curve.fixed.iter().map(|(a, v)| format!("{a}={v}")).collect();
    parts.join(" ")
}

fn centre_name(curves: &[Curve]) -> &'static str {
    let mut points = curves.iter().flat_map(|curve| &curve.points);
    if points.all(|point| point.centre.is_geometric) { "geometric mean" } else { "mean" }
}

/// Where the values of the axis lie, in 0 ..= 1.
struct Place {
    low: f64,
    high: f64,
    is_log: bool,
    /// All values where they are words: each has as much room as the others, for its label.
    words: Vec<String>,
    ticks: Vec<(f64, String)>,
}

impl Place {
    fn of(curves: &[Curve]) -> Option<Self> {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let mut values: Vec<(f64, String)> = points().map(|p| (p.x, p.value.clone())).collect();
        let words = curves.iter().any(|curve| curve.words);
        if words {
            // A curve without one of the values counts others from there on.
            values.iter_mut().for_each(|(x, _)| *x = 0.0);
        }
        values.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        values.dedup();
        let low = values.first()?.0;
        let high = values.last()?.0;
        let is_log = low > 0.0 && high / low > LOG_FROM;
        let all = || values.iter().map(|(_, value)| value.clone()).collect();
        let words: Vec<String> = if words { all() } else { Vec::new() };
        let mut place = Self { low, high, is_log, words, ticks: Vec::new() };
        let places: Vec<f64> = values.iter().map(|(x, value)| place.at(*x, value)).collect();
        place.ticks = places.into_iter().zip(labels(&all())).collect();
        Some(place)
    }

    fn of_point(&self, point: &CurvePoint) -> f64 {
        self.at(point.x, &point.value)
    }

    fn at(&self, x: f64, value: &str) -> f64 {
        if let Some(rank) = self.words.iter().position(|word| word == value) {
            return (rank as f64 + 0.5) / self.words.len() as f64;
        }
        let on = |v: f64| if self.is_log { v.ln() } else { v };
        let low = on(self.low);
        let high = on(self.high);
        let part = if high > low { (on(x) - low) / (high - low) } else { 0.5 };
        EDGE + part * (1.0 - 2.0 * EDGE)
    }
}

fn samples(curve: Option<&Curve>, metric: &Metric, place: &Place) -> Vec<Sample> {
    let scale = factor(metric.unit);
    let sample = |point: &CurvePoint| Sample {
        x: place.of_point(point),
        y: point.centre.value * scale,
        interval: point.centre.interval.map(|(low, high)| (low * scale, high * scale)),
    };
    curve.iter().flat_map(|curve| &curve.points).map(sample).collect()
}

fn hints(curve: Option<&Curve>, metric: &Metric, axis: &str) -> Vec<String> {
    let told = |value: f64| readable(value, metric.unit);
    let hint = |point: &CurvePoint| {
        let centre = &point.centre;
        let interval = centre
            .interval
            .map_or(String::new(), |(low, high)| format!(" [{} .. {}]", told(low), told(high)));
        let value = told(centre.value);
        let runs = centre.runs;
        format!("{axis}={}: {} {value}{interval}, {runs} runs", point.value, metric.name)
    };
    curve.iter().flat_map(|curve| &curve.points).map(hint).collect()
}

/// What the claims of an experiment expect at points of a curve.
fn published(
    claims: &[Claim],
    label: &str,
    metric: &Metric,
    curve: &Curve,
    place: &Place,
) -> Vec<Published> {
    let scale = factor(metric.unit);
    let expects = |claim: &&Claim| {
        let is_about = claim.workload == label && claim.metric == metric.name;
        // What it leaves free is averaged, so it is no point of a curve.
        let fixed = curve.fixed.iter().all(|(axis, value)| claim.at.get(axis) == Some(value));
        is_about && claim.measure == Measure::Value && fixed
    };
    let claims = claims.iter().filter(expects);
    let at = claims.filter_map(|claim| {
        let value = claim.at.get(&curve.axis)?;
        let point = curve.points.iter().find(|point| point.value == *value)?;
        let low = claim.at_least * scale;
        let high = claim.at_most * scale;
        Some(Published { x: place.of_point(point), low, high })
    });
    at.collect()
}

/// The name of a region: A, B, C; of more than there are letters, by number.
fn letter(index: usize) -> String {
    let letter = u8::try_from(index).ok().filter(|i| *i < 26).map(|i| char::from(b'A' + i));
    letter.map_or_else(|| (index + 1).to_string(), String::from)
}

/// The levels of a curve as areas, which meet in the middle between two points.
fn regions(curve: &Curve, place: &Place) -> Vec<Region> {
    let x = |index: usize| curve.points.get(index).map_or(1.0, |point| place.of_point(point));
    let border = |index: usize| match index {
        0 => 0.0,
        end if end >= curve.points.len() => 1.0,
        inner => f64::midpoint(x(inner - 1), x(inner)),
    };
    let region = |(index, level): (usize, &schedlab_stats::Level)| Region {
        from: border(level.start),
        to: border(level.end),
        name: letter(index),
    };
    curve.levels.iter().enumerate().map(region).collect()
}

/// The regions of all curves, in sentences; curves without any are reported together.
fn sentences(all: &[Curve], metric: &Metric) -> String {
    let (flat, told): (Vec<&Curve>, Vec<&Curve>) =
        all.iter().partition(|curve| curve.levels.len() < 2);
    let mut out: Vec<String> = told.iter().map(|curve| levels(curve, metric)).collect();
    if let (Some(first), true) = (flat.first(), told.is_empty()) {
        out.push(format!(
            "{} stays on one level along {}, within the noise.",
            metric.name, first.axis
        ));
    } else if !flat.is_empty() {
        let names: Vec<String> = flat.iter().map(|curve| name(curve)).collect();
        out.push(format!("One level, within the noise: {}.", names.join(", ")));
    }
    out.join(" ")
}

/// The regions of a curve, in a sentence.
fn levels(curve: &Curve, metric: &Metric) -> String {
    let name = name(curve);
    let head = if name.is_empty() { String::new() } else { format!("{name}: ") };
    let part = |(index, level): (usize, &schedlab_stats::Level)| {
        let first = &curve.points[level.start].value;
        let last = &curve.points[level.end - 1].value;
        let range = if first == last { first.clone() } else { format!("{first} to {last}") };
        format!("{} {} for {range}", letter(index), readable(level.mean.exp(), metric.unit))
    };
    let parts: Vec<String> = curve.levels.iter().enumerate().map(part).collect();
    format!("{head}{}.", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Point;
    use crate::analysis::Centre;
    use schedlab_model::{Better, Unit};
    use schedlab_stats::Level;

    /// A curve along the axis `slice`; each point is the text of its value, its place and a number.
    fn curve(
        fixed: &[(&str, &str)],
        points: &[(&str, f64, f64)],
        levels: &[(usize, usize)],
    ) -> Curve {
        let fixed = fixed.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        let level =
            |&(start, end): &(usize, usize)| Level { start, end, mean: (start as f64 + 1.0).ln() };
        Curve {
            axis: "slice".to_owned(),
            fixed: Point::from_iter(fixed),
            words: false,
            points: points
                .iter()
                .map(|(value, x, number)| CurvePoint {
                    value: (*value).to_owned(),
                    x: *x,
                    centre: Centre::of([*number]).unwrap(),
                })
                .collect(),
            levels: levels.iter().map(level).collect(),
        }
    }

    const THREE: [(&str, f64, f64); 3] = [("1", 1.0, 1.0), ("2", 2.0, 1.0), ("5", 5.0, 3.0)];

    fn metric() -> Metric {
        Metric::new("time_s", Unit::Seconds, Better::Lower)
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} instead of {expected}");
    }

    #[test]
    fn values_lie_between_both_edges_in_proportion() {
        let place = Place::of(&[curve(&[], &THREE, &[])]).unwrap();
        assert!(!place.is_log);
        near(place.at(1.0, "1"), 0.06);
        near(place.at(2.0, "2"), 0.06 + 0.25 * 0.88);
        near(place.at(5.0, "5"), 0.94);
        let ticks: Vec<&str> = place.ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(ticks, ["1", "2", "5"]);
        near(place.ticks[1].0, 0.06 + 0.25 * 0.88);
    }

    #[test]
    fn values_that_spread_further_than_a_ratio_of_ten_are_logarithmic() {
        let ten = [("1", 1.0, 1.0), ("10", 10.0, 1.0)];
        assert!(!Place::of(&[curve(&[], &ten, &[])]).unwrap().is_log);
        let hundred = [("1", 1.0, 1.0), ("10", 10.0, 1.0), ("100", 100.0, 1.0)];
        let place = Place::of(&[curve(&[], &hundred, &[])]).unwrap();
        assert!(place.is_log);
        near(place.at(10.0, "10"), 0.5);
        let zero = [("0", 0.0, 1.0), ("100", 100.0, 1.0)];
        assert!(!Place::of(&[curve(&[], &zero, &[])]).unwrap().is_log);
    }

    #[test]
    fn a_single_value_lies_in_the_middle_and_no_value_has_no_place() {
        let place = Place::of(&[curve(&[], &THREE[..1], &[])]).unwrap();
        near(place.at(1.0, "1"), 0.5);
        assert!(Place::of(&[curve(&[], &[], &[])]).is_none());
    }

    #[test]
    fn words_have_equal_room_whatever_their_rank_in_a_curve() {
        let words = [("fifo", 0.0, 1.0), ("rr", 1.0, 1.0)];
        let part = [("rr", 0.0, 1.0)];
        let curves = [words.as_slice(), part.as_slice()]
            .map(|points| Curve { words: true, ..curve(&[], points, &[]) });
        let place = Place::of(&curves).unwrap();
        assert_eq!(place.words, ["fifo", "rr"]);
        near(place.of_point(&curves[0].points[0]), 0.25);
        near(place.of_point(&curves[0].points[1]), 0.75);
        near(place.of_point(&curves[1].points[0]), 0.75);
    }

    #[test]
    fn regions_meet_in_the_middle_between_two_points_and_cover_the_axis() {
        let one = curve(&[], &THREE, &[(0, 2), (2, 3)]);
        let place = Place::of(std::slice::from_ref(&one)).unwrap();
        let found = regions(&one, &place);
        assert_eq!(found.iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["A", "B"]);
        near(found[0].from, 0.0);
        near(found[0].to, f64::midpoint(0.06 + 0.25 * 0.88, 0.94));
        near(found[1].from, found[0].to);
        near(found[1].to, 1.0);
    }

    #[test]
    fn regions_have_letters_and_beyond_them_numbers() {
        assert_eq!([letter(0), letter(25), letter(26)], ["A", "Z", "27"]);
    }

    #[test]
    fn of_many_curves_the_first_the_last_and_some_between_are_chosen() {
        let all: Vec<Curve> =
            (0..11).map(|n| curve(&[("n", &n.to_string())], &THREE, &[])).collect();
        let names = |curves: Vec<&Curve>| curves.into_iter().map(name).collect::<Vec<_>>();
        assert_eq!(names(chosen(&all)), ["n=0", "n=2", "n=4", "n=6", "n=8", "n=10"]);
        assert_eq!(chosen(&all[..6]).len(), 6);
    }

    #[test]
    fn the_sentences_name_each_level_and_join_the_flat_curves() {
        let changes = curve(&[("groups", "4")], &THREE, &[(0, 2), (2, 3)]);
        let flat = curve(&[("groups", "1")], &THREE, &[(0, 3)]);
        let text = sentences(&[flat.clone(), changes], &metric());
        assert_eq!(
            text,
            format!(
                "groups=4: A {} for 1 to 2, B {} for 5. One level, within the noise: groups=1.",
                readable(1.0, Unit::Seconds),
                readable(3.0, Unit::Seconds)
            )
        );
        let text = sentences(&[flat], &metric());
        assert_eq!(text, "time_s stays on one level along slice, within the noise.");
    }

    #[test]
    fn a_published_value_stands_at_its_point_in_the_unit_of_the_panel() {
        let one = curve(&[("groups", "4")], &THREE, &[]);
        let place = Place::of(std::slice::from_ref(&one)).unwrap();
        let of = |at: &[(&str, &str)]| {
            let claim = Claim {
                says: String::new(),
                workload: "hackbench".to_owned(),
                machine: None,
                metric: "time_s".to_owned(),
                at: at.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
                measure: Measure::Value,
                at_least: 2.0,
                at_most: 3.0,
                why: String::new(),
            };
            let of = |claim: Claim| published(&[claim], "hackbench", &metric(), &one, &place);
            // Only claims about a value of this workload and metric stand in the panel.
            assert_eq!(of(Claim { workload: "cpu".to_owned(), ..claim.clone() }), []);
            assert_eq!(of(Claim { metric: "migrations".to_owned(), ..claim.clone() }), []);
            assert_eq!(of(Claim { measure: Measure::Slope("slice".into()), ..claim.clone() }), []);
            of(claim)
        };
        let scale = factor(Unit::Seconds);
        let expected = Published { x: place.at(5.0, "5"), low: 2.0 * scale, high: 3.0 * scale };
        assert_eq!(of(&[("slice", "5"), ("groups", "4")]), [expected]);
        assert_eq!(of(&[("slice", "5"), ("groups", "1")]), []);
        assert_eq!(of(&[("slice", "5")]), []);
    }
}
