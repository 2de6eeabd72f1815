//! A comparison as Markdown of at most ten lines, for a pull request or a mailing list.

use schedlab_experiment::analysis::{Comparison, Row, percent};
use schedlab_experiment::report::readable;
use std::fmt::Write as _;

/// Lines that the text has at most.
const LINES_MAX: usize = 10;

/// The Markdown: the answers, then a table of the primary metrics as far as lines last.
pub(super) fn markdown(comparisons: &[Comparison], before: &str, after: &str) -> String {
    let mut out = format!("**{}**\n\n", escaped(&super::answer(comparisons, after)));
    let _ = writeln!(
        out,
        "| metric | {} | {} | change | interval | verdict |",
        escaped(before),
        escaped(after)
    );
    out += "|---|---|---|---|---|---|\n";
    let rows: Vec<&Row> =
        comparisons.iter().flat_map(|c| &c.primary).map(|judgement| &judgement.whole).collect();
    let room = LINES_MAX - 6;
    for row in rows.iter().take(room) {
        let centre =
            |centre: Option<f64>| centre.map_or("-".into(), |v| readable(v, row.metric.unit));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} .. {} | {} |",
            escaped(&row.name()),
            centre(row.before.centre),
            centre(row.after.centre),
            percent(row.change.estimate),
            percent(row.change.low),
            percent(row.change.high),
            row.verdict
        );
    }
    if rows.len() > room {
        let _ = writeln!(out, "| and {} more | | | | | |", rows.len() - room);
    }
    let kinds: Vec<String> = rows
        .first()
        .map(|row| {
            format!("{} and {} {}", row.before.values.len(), row.after.values.len(), row.basis)
        })
        .into_iter()
        .collect();
    let _ = writeln!(
        out,
        "\n{}; intervals are corrected for all that is tested (schedlab).",
        kinds.join("")
    );
    out
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
