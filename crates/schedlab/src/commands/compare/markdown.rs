//! A comparison as Markdown of at most ten lines, for a pull request or a mailing list.

use super::Pair;
use schedlab_experiment::analysis::{Row, percent};
use schedlab_experiment::report::readable;
use std::fmt::Write as _;

/// Lines that the text has at most.
const LINES_MAX: usize = 10;

/// The Markdown: the answers, then a table of the primary metrics as far as lines last.
pub(super) fn markdown(pairs: &[Pair]) -> String {
    let answers: Vec<String> =
        pairs.iter().map(|pair| super::answer(&pair.comparisons, &pair.after)).collect();
    let mut out = format!("**{}**\n", escaped(&answers.join(" ")));
    if pairs.iter().flat_map(|pair| &pair.comparisons).all(|found| found.primary.is_empty()) {
        return out;
    }
    out.push('\n');
    let after = if let [pair] = pairs { pair.after.as_str() } else { "against it" };
    let before = pairs.first().map(|pair| escaped(&pair.before)).unwrap_or_default();
    let _ =
        writeln!(out, "| metric | {before} | {} | change | interval | verdict |", escaped(after));
    out += "|---|---|---|---|---|---|\n";
    let rows: Vec<(&Row, String)> = pairs
        .iter()
        .flat_map(|pair| pair.comparisons.iter().flat_map(|c| &c.primary).map(move |j| (pair, j)))
        .map(|(pair, judgement)| {
            let row = &judgement.whole;
            let of = format!("{} ({})", row.metric.name, pair.after);
            (row, if pairs.len() > 1 { of } else { row.name() })
        })
        .collect();
    let room = LINES_MAX - 6;
    for (row, name) in rows.iter().take(room) {
        let centre =
            |centre: Option<f64>| centre.map_or("-".into(), |v| readable(v, row.metric.unit));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            escaped(name),
            centre(row.before.centre),
            centre(row.after.centre),
            percent(row.change.estimate),
            row.change.ends(),
            row.verdict
        );
    }
    if rows.len() > room {
        let _ = writeln!(out, "| and {} more | | | | | |", rows.len() - room);
    }
    let counted = rows.first().map(|(row, _)| {
        format!("{} and {} {}", row.before.values.len(), row.after.values.len(), row.basis)
    });
    let _ = writeln!(
        out,
        "\n{}; intervals are corrected for all that is tested (schedlab).",
        counted.unwrap_or_default()
    );
    out
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
