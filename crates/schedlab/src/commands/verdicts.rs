//! A comparison as text: the table, and the answer last, where the eye is.

use super::UsageError;
use schedlab_experiment::analysis::{Comparison, Row, percent};
use schedlab_experiment::report::{Table, readable, significant};
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

/// Prints comparisons of two sets by their names.
pub(crate) fn print_text(
    comparisons: &[Comparison],
    before: &str,
    after: &str,
) -> anyhow::Result<()> {
    let mut out = crate::output::stdout();
    let mut table =
        Table::new(["metric", before, after, "runs", "change", "interval", "p", "verdict"]);
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
    out.write_all(table.text().as_bytes())?;
    if hidden > 0 {
        writeln!(out, "{hidden} points without a claim are not listed; --json has all.")?;
    }
    for comparison in comparisons {
        for row in comparison.rows().filter(|row| !row.note.is_empty()).take(POINTS_MAX) {
            writeln!(out, "{}: {}.", row.name(), row.note.trim_end_matches('.'))?;
        }
    }
    writeln!(out)?;
    for comparison in comparisons {
        writeln!(out, "{}", comparison.answer(after))?;
        let look = comparison.look_sentence();
        if !look.is_empty() {
            writeln!(out, "{look}")?;
        }
    }
    Ok(())
}

fn row(table: &mut Table, row: &Row) {
    let centre = |side: &schedlab_experiment::analysis::Side| {
        let centre = side.centre.map_or("-".into(), |v| readable(v, row.metric.unit));
        if side.censored > 0 { format!("{centre} ({} cut off)", side.censored) } else { centre }
    };
    let change = &row.change;
    table.row([
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
