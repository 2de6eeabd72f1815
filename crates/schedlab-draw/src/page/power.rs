//! Frequencies, idle states, IPIs and timers as the page holds them.

use super::columns::{PageData, Track, leb128};
use schedlab_timeline::{PowerSpan, Step, Within};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What one CPU has: steps in order of time, intervals by their begins.
#[derive(Default)]
struct Row<'a> {
    steps: Vec<&'a Step>,
    spans: Vec<&'a PowerSpan>,
}

/// In the order of the page's rows.
fn rows<'a>(data: &'a PageData, cpus: &[&(u16, Track)]) -> Vec<Row<'a>> {
    let mut found = BTreeMap::<u16, Row<'a>>::new();
    for step in &data.power.steps {
        found.entry(step.cpu.0).or_default().steps.push(step);
    }
    for span in &data.power.spans {
        found.entry(span.cpu.0).or_default().spans.push(span);
    }
    for row in found.values_mut() {
        row.spans.sort_by_key(|one| (one.span.start, one.what));
    }
    cpus.iter().map(|(cpu, _)| found.remove(cpu).unwrap_or_default()).collect()
}

/// How many steps of frequency and how many intervals each row has, and how many are left out.
pub(super) fn head(data: &PageData, cpus: &[&(u16, Track)]) -> String {
    let mut counts = String::new();
    for Row { steps, spans } in rows(data, cpus) {
        let comma = if counts.is_empty() { "" } else { "," };
        write!(counts, "{comma}[{},{}]", steps.len(), spans.len()).expect("a String takes all");
    }
    format!("{{\"counts\":[{counts}],\"leftOut\":{}}}", data.power.left_out)
}

/// For each row its steps: gaps and kilohertz; then its intervals: gaps between begins, lengths, and what they are.
pub(super) fn bytes(data: &PageData, cpus: &[&(u16, Track)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Row { steps, spans } in rows(data, cpus) {
        let mut before = data.window.start;
        for step in &steps {
            let at = step.at.max(before);
            leb128(&mut bytes, (at - std::mem::replace(&mut before, at)).0);
        }
        for step in &steps {
            leb128(&mut bytes, step.hz / 1000);
        }
        before = data.window.start;
        for PowerSpan { span, .. } in &spans {
            leb128(&mut bytes, (span.start - std::mem::replace(&mut before, span.start)).0);
        }
        for PowerSpan { span, .. } in &spans {
            leb128(&mut bytes, span.duration().0);
        }
        for PowerSpan { what, .. } in &spans {
            leb128(&mut bytes, code(*what));
        }
    }
    bytes
}

/// What an interval is, as the script numbers it.
const fn code(what: Within) -> u64 {
    match what {
        Within::Ipi => 0,
        Within::Timer => 1,
        Within::Idle(state) => state.saturating_add(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Cpu, Nanos, Span};

    #[test]
    fn steps_and_intervals_are_columns_of_their_row() {
        let mut data = PageData::named(Span::new(Nanos(100), Nanos(900)), "a");
        let step = |at, hz| Step { at: Nanos(at), cpu: Cpu(1), hz };
        let span = |start, end, what| PowerSpan {
            cpu: Cpu(1),
            span: Span::new(Nanos(start), Nanos(end)),
            what,
        };
        data.power.steps = vec![step(50, 2_000), step(150, 3_000)];
        data.power.spans = vec![span(300, 310, Within::Idle(3)), span(200, 201, Within::Timer)];
        data.power.left_out = 4;
        let all = [(0, Track::default()), (1, Track::default())];
        let cpus: Vec<_> = all.iter().collect();
        assert_eq!(head(&data, &cpus), "{\"counts\":[[0,0],[2,2]],\"leftOut\":4}");
        // Gaps and kilohertz of the steps; gaps, lengths and kinds of the intervals, by their begins.
        assert_eq!(bytes(&data, &cpus), [0, 50, 2, 3, 100, 100, 1, 10, 1, 5]);
        assert_eq!([code(Within::Ipi), code(Within::Timer), code(Within::Idle(0))], [0, 1, 2]);
    }
}
