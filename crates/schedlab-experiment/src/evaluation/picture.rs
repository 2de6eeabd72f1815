//! A curve for each method beside the ideal.

use super::Figures;
use schedlab_draw::Theme;
use schedlab_draw::chart::{Axis, Line, Sample, Series, Values};

/// Where bands are cut.
const TOP: f64 = 1.25;

/// A curve for each method, and the ideal, of one workload on one number of CPUs. A method has the colour of its place in
/// `names` in every picture.
#[must_use]
pub fn picture(figures: &[&Figures], names: &[&str], theme: &Theme) -> Line {
    let Some(first) = figures.first() else { return Line::default() };
    let mut methods: Vec<&str> = figures.iter().map(|f| f.method.as_str()).collect();
    methods.sort_unstable();
    methods.dedup();
    let mut series = Vec::new();
    let mut ideal: Vec<Sample> = figures.iter().map(|f| Sample::new(f.speed, f.ideal)).collect();
    ideal.sort_by(|a, b| a.x.total_cmp(&b.x));
    ideal.dedup_by(|a, b| a.x.total_cmp(&b.x).is_eq());
    series.push(Series::ideal("ideal", ideal));
    for method in methods.into_iter().filter(|method| *method != "none") {
        let mine = figures.iter().filter(|f| f.method == method);
        let samples = mine.map(|f| {
            let (y, interval) = f.reached();
            // Few repeats have intervals beyond all sense, which would press the curves together.
            let interval = interval.map(|(low, high)| (low.clamp(0.0, TOP), high.clamp(0.0, TOP)));
            Sample { x: f.speed, y, interval }
        });
        let place = names.iter().position(|name| *name == method).unwrap_or(0);
        let colour = Some(theme.series(place));
        series.push(Series { colour, ..Series::new(method, samples.collect()) });
    }
    let of = if first.cpus == 1 { "one CPU".to_owned() } else { format!("{} CPUs", first.cpus) };
    let axis = |label: &str| Axis { values: Values::Percent, ..Axis::new(label).over(0.0, 1.0) };
    Line {
        title: format!("{} on {of}", first.benchmark),
        notes: vec![format!(
            "rate as a part of the rate at full speed in the same round; bands are 95% intervals, cut at 0 and {:.0}%",
            TOP * 100.0
        )],
        x: axis("speed asked for"),
        y: axis("speed perceived"),
        series,
    }
}
