//! Rows of CPUs that logged no event: several that stand together become one band, so that half of a
//! picture is not grey. The band names its CPUs.

use super::{Cores, Fill, Mark, Row};
use crate::colour::Theme;
use crate::scene::PX;
use schedlab_model::Cpu;
use std::collections::BTreeSet;
use std::ops::Range;

/// Fewer rows than this stay rows.
const LEAST: usize = 4;
/// The height of a band, which holds a line of words.
const BAND: i32 = 18 * PX;

/// The rows without an event that stand together, as ranges. None where no row has events: then all of
/// them are what there is to see.
pub(crate) fn silent(cores: &Cores, theme: &Theme) -> Vec<Range<usize>> {
    let marked: BTreeSet<Cpu> = cores
        .marks
        .iter()
        .flat_map(|marks| &marks.marks)
        .flat_map(|mark| match *mark {
            Mark::Tick { cpu, .. } | Mark::Bar { cpu, .. } => [cpu, cpu],
            Mark::Link { from, to, .. } => [from, to],
        })
        .chain(cores.labels.iter().map(|label| label.cpu))
        .chain(cores.lanes.iter().flat_map(|lane| lane.pieces.iter().map(|piece| piece.0)))
        .collect();
    let says_nothing = |row: &Row| !marked.contains(&row.cpu) && is_unknown(row, theme);
    let mut runs = Vec::new();
    let mut start = 0;
    for run in cores.rows.chunk_by(|a, b| says_nothing(a) == says_nothing(b)) {
        if run.len() >= LEAST && says_nothing(&run[0]) {
            runs.push(start..start + run.len());
        }
        start += run.len();
    }
    if runs.iter().map(ExactSizeIterator::len).sum::<usize>() == cores.rows.len() {
        runs.clear();
    }
    runs
}

/// Whether nothing is known of the CPU in the whole picture.
fn is_unknown(row: &Row, theme: &Theme) -> bool {
    match &row.fill {
        Fill::Pieces(pieces) => {
            !pieces.is_empty() && pieces.iter().all(|piece| piece.colour == theme.unknown)
        }
        Fill::Shades(shades) => {
            !shades.is_empty() && shades.iter().all(|shade| *shade == theme.unknown)
        }
    }
}

/// Where rows begin, in units below the first one.
pub(crate) struct Tops {
    tops: Vec<i32>,
    silent: Vec<Range<usize>>,
}

impl Tops {
    /// For `rows` rows of the height `row`, but for those in bands.
    pub(crate) fn new(rows: usize, row: i32, silent: Vec<Range<usize>>) -> Self {
        let mut tops = vec![0_i32];
        for index in 0..rows.max(1) {
            let run = silent.iter().find(|run| run.contains(&index));
            let height = run.map_or(row, |run| if run.start == index { BAND } else { 0 });
            tops.push(tops[index].saturating_add(height));
        }
        Self { tops, silent }
    }

    /// Where a row begins; behind the last one, where it ends.
    pub(crate) fn top(&self, index: usize) -> i32 {
        self.tops[index.min(self.tops.len() - 1)]
    }

    pub(crate) fn height(&self) -> i32 {
        self.top(usize::MAX)
    }

    pub(crate) fn silent(&self) -> &[Range<usize>] {
        &self.silent
    }

    pub(crate) fn is_silent(&self, index: usize) -> bool {
        self.silent.iter().any(|run| run.contains(&index))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Piece;
    use super::*;
    use schedlab_model::{Nanos, Span};

    fn picture(known: impl Fn(u16) -> bool) -> Cores {
        let theme = Theme::light();
        let row = |cpu: u16| Row {
            cpu: Cpu(cpu),
            place: None,
            fill: Fill::Pieces(vec![Piece {
                span: Span::new(Nanos(0), Nanos(9)),
                colour: if known(cpu) { theme.tasks[0] } else { theme.unknown },
                name: None,
            }]),
        };
        Cores {
            title: String::new(),
            notes: vec![],
            window: Span::new(Nanos(0), Nanos(9)),
            origin: Nanos(0),
            rows: (0..16).map(row).collect(),
            names: vec![],
            legend: vec![],
            marks: vec![],
            labels: vec![],
            lanes: vec![],
        }
    }

    #[test]
    fn cpus_without_events_become_a_band_that_names_them() {
        let silent_ones = picture(|cpu| cpu < 4 || cpu == 12);
        let theme = Theme::light();
        let bands = silent(&silent_ones, &theme);
        assert_eq!(bands[..], *std::slice::from_ref(&(4..12)), "three rows stay rows");
        let svg =
            crate::svg(&crate::cores::cores(&silent_ones, crate::cores::Size::default(), &theme));
        assert!(svg.contains(">CPUs 4-11 logged no event<"), "{svg}");
        assert!(svg.contains(">CPU 13<") && !svg.contains(">CPU 5<"), "{svg}");
    }

    #[test]
    fn rows_stay_where_nothing_is_known_or_a_mark_is_on_them() {
        assert!(silent(&picture(|_| false), &Theme::light()).is_empty());
        let mut marked = picture(|cpu| cpu == 0);
        let marks = vec![Mark::Tick { time: Nanos(3), cpu: Cpu(5) }];
        let colour = Theme::light().text;
        marked.marks = vec![crate::cores::Marks { name: "wakeups".into(), colour, marks }];
        assert_eq!(silent(&marked, &Theme::light()), [1..5, 6..16]);
    }
}
