//! A comparison as text: the table, and the answer last, where the eye is.

use super::UsageError;
use crate::output::folded;
use schedlab_experiment::analysis::{Comparison, Row, percent};
use schedlab_experiment::report::{readable, significant};
use schedlab_model::table::TextTable;
use std::io::Write as _;

/// Refuses to judge conditions where a drift between the sides is a part of a change.
pub(crate) fn refuse_drift<'c>(
    found: impl IntoIterator<Item = &'c Comparison>,
) -> Result<(), UsageError> {
    if found.into_iter().flat_map(Comparison::rows).all(|row| !row.drift) {
        return Ok(());
    }
    let what = "--fail-if: the sides did not run interleaved, so a drift between them would be judged, too: \
        measure them in one interleaved experiment or with `compare --`, do them again with `compare --interleave`, \
        or add --allow-drift";
    Err(UsageError(what.into()))
}

/// Points that are listed; of more, those with a claim and the others' count.
const POINTS_MAX: usize = 12;

/// Names of sides that are longer stand above the table.
const NAME_MAX: usize = 12;

/// What stands above the columns of two sides: their names, or which is which if a name is long.
pub(crate) fn side_heads(names: [&str; 2]) -> [&str; 2] {
    match names.iter().all(|name| name.chars().count() <= NAME_MAX) {
        true => names,
        false => ["before", "after"],
    }
}

/// Prints comparisons of two sets by their names, in lines of `room` characters.
pub(crate) fn print_text(
    comparisons: &[Comparison],
    before: &str,
    after: &str,
    room: usize,
) -> anyhow::Result<()> {
    let mut out = crate::output::stdout();
    let sides = [before, after];
    let [first, second] = side_heads(sides);
    if [first, second] != sides {
        for (side, name) in [first, second].into_iter().zip(sides) {
            out.write_all(folded(&format!("{side}: {name}"), 4, room).as_bytes())?;
        }
        writeln!(out)?;
    }
    let mut table = TextTable::plain([
        ("metric", true, 0),
        (first, false, 0),
        (second, false, 0),
        ("runs", false, 3),
        ("change", false, 0),
        ("interval", false, 1),
        ("p", false, 2),
        ("verdict", true, 0),
    ]);
    let mut hidden = 0;
    for judgement in comparisons.iter().flat_map(|c| &c.primary) {
        row(&mut table, &judgement.whole);
        let many = judgement.points.len() > POINTS_MAX;
        for point in &judgement.points {
            if many && !point.verdict.is_claim() {
                hidden += 1;
            } else {
                row(&mut table, point);
            }
        }
    }
    out.write_all(table.text(0, room).as_bytes())?;
    if hidden > 0 {
        writeln!(out, "{hidden} points without a claim are not listed; --json has all.")?;
    }
    for comparison in comparisons {
        for row in comparison.rows().filter(|row| !row.note.is_empty()).take(POINTS_MAX) {
            let note = format!("{}: {}.", row.name(), row.note.trim_end_matches('.'));
            out.write_all(folded(&note, 2, room).as_bytes())?;
        }
    }
    writeln!(out)?;
    for comparison in comparisons {
        out.write_all(folded(&comparison.answer(after), 2, room).as_bytes())?;
        let look = comparison.look_sentence();
        if !look.is_empty() {
            out.write_all(folded(&look, 2, room).as_bytes())?;
        }
    }
    Ok(())
}

fn row(table: &mut TextTable, row: &Row) {
    let centre = |side: &schedlab_experiment::analysis::Side| {
        let centre = side.centre.map_or("-".into(), |v| readable(v, row.metric.unit));
        if side.censored > 0 { format!("{centre} ({} cut off)", side.censored) } else { centre }
    };
    let change = &row.change;
    table.row(vec![
        row.name(),
        centre(&row.before),
        centre(&row.after),
        format!("{}+{}", row.before.values.len(), row.after.values.len()),
        percent(change.estimate),
        change.ends(),
        significant(row.p),
        row.verdict.to_string(),
    ]);
}
