//! A comparison as JUnit XML, so that CI shows each metric at each point as a test.

use schedlab_experiment::analysis::{Comparison, FailIf, Row, Verdict};
use std::fmt::Write as _;

/// The XML. A row fails where a condition on its metric holds, or, without conditions, where it is worse;
/// a row that does not tell is skipped, with the reason. A comparison without a verdict is an error.
pub(super) fn junit(comparisons: &[Comparison], conditions: &[FailIf]) -> String {
    let rows: Vec<&Row> = comparisons.iter().flat_map(Comparison::rows).collect();
    let outcome = |row: &Row| -> Option<bool> {
        let mine: Vec<&FailIf> =
            conditions.iter().filter(|c| c.metric == row.metric.name).collect();
        if mine.is_empty() {
            return match row.verdict {
                Verdict::Worse | Verdict::Mixed => Some(true),
                // A drift is no proof.
                Verdict::Undecided | Verdict::Lower | Verdict::Higher => None,
                _ => Some(false),
            };
        }
        let found: Vec<Option<bool>> = mine.iter().map(|c| c.check_rows(&[row])).collect();
        if found.contains(&Some(true)) {
            return Some(true);
        }
        found.iter().all(|f| *f == Some(false)).then_some(false)
    };
    let found: Vec<Option<bool>> = rows.iter().map(|row| outcome(row)).collect();
    let count = |what: Option<bool>| found.iter().filter(|f| **f == what).count();
    let barred: Vec<&Comparison> =
        comparisons.iter().filter(|found| !found.no_verdict.is_empty()).collect();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuite name=\"schedlab compare\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"{}\">",
        rows.len() + barred.len(),
        count(Some(true)),
        count(None),
        barred.len()
    );
    for found in barred {
        let class = xml(&found.workload);
        let why = xml(&found.no_verdict);
        let _ = writeln!(
            out,
            "  <testcase classname=\"{class}\" name=\"all runs\"><error message=\"no verdict: {why}\"/></testcase>"
        );
    }
    for (row, found) in rows.iter().zip(found) {
        let change = format!("{}, {}", row.change, row.verdict);
        let class = xml(&row.workload);
        let name = xml(&row.name());
        let _ = write!(out, "  <testcase classname=\"{class}\" name=\"{name}\">");
        match found {
            Some(true) => {
                let _ = write!(out, "<failure message=\"{}\"/>", xml(&change));
            }
            None => {
                let _ = write!(out, "<skipped message=\"{}\"/>", xml(&change));
            }
            Some(false) => {
                let _ = write!(out, "<system-out>{}</system-out>", xml(&change));
            }
        }
        out += "</testcase>\n";
    }
    out + "</testsuite>\n"
}

/// Text inside XML; control characters are none of it.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
