//! Why tasks of one trace waited longer than those of the other: the difference by cause and by who ran instead.

use super::super::why::overview::Waited;
use schedlab_draw::page::Table;
use schedlab_model::Nanos;
use schedlab_timeline::WaitCause;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Differences below this share of the larger side are not told in the text.
const SHARE_MIN: f64 = 0.01;
/// Parts of the difference in the text.
const PARTS_MAX: usize = 5;

/// Rows of a table beside two pages.
const ROWS_MAX: usize = 12;

/// A part of the waiting in both traces.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Part {
    /// A cause as in `schedlab why`, or the name of the tasks that ran instead.
    name: String,
    /// How long tasks of the first trace waited so, in nanoseconds per second of trace.
    a_ns_per_s: f64,
    /// The same of the second trace.
    b_ns_per_s: f64,
}

impl Part {
    fn change(&self) -> f64 {
        self.b_ns_per_s - self.a_ns_per_s
    }
}

/// The difference in waiting of two traces.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Difference {
    /// By cause, the largest change first.
    by_cause: Vec<Part>,
    /// By the name of who ran instead, the largest change first. One that ran in both traces is one row.
    by_culprit: Vec<Part>,
    /// By who waited, the largest change first: tasks of one name that one task woke are one row.
    by_role: Vec<Part>,
    /// How far the kernel's counters are from these times, in the trace where that is more: some kernels leave out
    /// switches.
    off_ns_per_s: f64,
}

impl Difference {
    pub(crate) fn of(a: &Waited, b: &Waited) -> Self {
        let causes = |waited: &Waited| {
            let told = waited.parts.ranked().into_iter();
            told.map(|(cause, time)| (cause.title().to_owned(), time)).collect()
        };
        let off = |waited: &Waited| waited.off.0 as f64 / waited.seconds.max(f64::MIN_POSITIVE);
        Self {
            off_ns_per_s: off(a).max(off(b)),
            by_cause: parts(&causes(a), a.seconds, &causes(b), b.seconds),
            by_culprit: parts(&a.culprits, a.seconds, &b.culprits, b.seconds),
            by_role: parts(&a.roles, a.seconds, &b.roles, b.seconds),
        }
    }

    /// Both as tables: time per second of each trace, and the change.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let table = |head: &str, parts: &[Part]| {
            let per_second = |ns: f64| Nanos(ns as u64).readable();
            let row = |part: &Part| {
                let [a, b] = [part.a_ns_per_s, part.b_ns_per_s].map(per_second);
                [part.name.clone(), a, b, signed(part.change())]
            };
            let rows = parts.iter().take(ROWS_MAX).map(row).collect();
            Table { head: head.to_owned(), rows }
        };
        vec![
            table("waited per second, by cause", &self.by_cause),
            table("behind whom", &self.by_culprit),
            table("who waited", &self.by_role),
        ]
    }

    /// `Tasks waited 1.20 s more per second in B: throttled +1.00 s, competition +200 ms; behind hog +150 ms.`
    pub(crate) fn sentence(&self) -> String {
        let sum = |side: fn(&Part) -> f64| self.by_cause.iter().map(side).sum::<f64>();
        let a = sum(|part| part.a_ns_per_s);
        let b = sum(|part| part.b_ns_per_s);
        let most = a.max(b);
        if most == 0.0 {
            return "Nobody waited in either.".to_owned();
        }
        let told = |parts: &[Part]| {
            let some = parts.iter().filter(|part| part.change().abs() >= SHARE_MIN * most);
            let one = |part: &Part| format!("{} {}", part.name, signed(part.change()));
            some.take(PARTS_MAX).map(one).collect::<Vec<_>>().join(", ")
        };
        let change = b - a;
        let length = Nanos(change.abs() as u64).readable();
        let word = if change < 0.0 { "less" } else { "more" };
        let causes = told(&self.by_cause);
        if causes.is_empty() {
            return "Tasks waited as long in both, for the same causes.".to_owned();
        }
        let culprits = match told(&self.by_culprit) {
            none if none.is_empty() => String::new(),
            some => format!("; behind {some}"),
        };
        let roles = match told(&self.by_role) {
            none if none.is_empty() => String::new(),
            some => format!(" Who waited: {some}."),
        };
        // What is unknown may have any of the other causes.
        let unknown = |side: fn(&Part) -> f64| {
            let is_it = |part: &&Part| part.name == WaitCause::Unknown.title();
            self.by_cause.iter().find(is_it).map_or(0.0, side)
        };
        let unknown = unknown(|part| part.a_ns_per_s).max(unknown(|part| part.b_ns_per_s));
        let bound = unknown + self.off_ns_per_s;
        let bound = match bound > SHARE_MIN * most {
            true => format!(" Each cause may differ by {} more.", Nanos(bound as u64).readable()),
            false => String::new(),
        };
        format!("Tasks waited {length} {word} per second in B: {causes}{culprits}.{bound}{roles}")
    }
}

/// Both sides of each name, the largest change first.
fn parts(
    a: &BTreeMap<String, Nanos>,
    a_seconds: f64,
    b: &BTreeMap<String, Nanos>,
    b_seconds: f64,
) -> Vec<Part> {
    let rate = |all: &BTreeMap<String, Nanos>, name: &str, seconds: f64| {
        let time = all.get(name).copied().unwrap_or_default();
        if seconds > 0.0 { time.0 as f64 / seconds } else { 0.0 }
    };
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let part = |name: &String| Part {
        name: name.clone(),
        a_ns_per_s: rate(a, name, a_seconds),
        b_ns_per_s: rate(b, name, b_seconds),
    };
    let mut parts: Vec<Part> = names.into_iter().map(part).collect();
    parts.sort_by(|x, y| y.change().abs().total_cmp(&x.change().abs()));
    parts
}

fn signed(change: f64) -> String {
    let sign = if change < 0.0 { '-' } else { '+' };
    format!("{sign}{}", Nanos(change.abs() as u64).readable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_told_per_second_with_the_largest_part_first() {
        let map = |all: &[(&str, u64)]| {
            all.iter().map(|(name, ms)| ((*name).to_owned(), Nanos::from_millis(*ms))).collect()
        };
        let a = map(&[("throttled", 100), ("competition", 400)]);
        let b = map(&[("throttled", 1_500), ("competition", 600), ("pinned", 1)]);
        let by_cause = parts(&a, 1.0, &b, 2.0);
        let by_culprit = parts(&map(&[("hog", 400)]), 1.0, &map(&[("hog", 500)]), 2.0);
        let by_role = parts(&map(&[("w", 500)]), 1.0, &map(&[("w (woken by d)", 2_100)]), 2.0);
        let mut difference = Difference { by_cause, by_culprit, by_role, off_ns_per_s: 0.0 };
        let expected = "Tasks waited 550 ms more per second in B: throttled +650 ms, competition -100 ms; \
            behind hog -150 ms. Who waited: w (woken by d) +1.05 s, w -500 ms.";
        assert_eq!(difference.sentence(), expected);
        difference.off_ns_per_s = 1e8;
        let off = difference.sentence();
        assert!(off.contains(" Each cause may differ by 100 ms more. "), "{off}");
        let same = parts(&a, 1.0, &a, 1.0);
        let [by_culprit, by_role] = [(); 2].map(|()| same.clone());
        let same = Difference { by_cause: same, by_culprit, by_role, off_ns_per_s: 0.0 };
        assert_eq!(same.sentence(), "Tasks waited as long in both, for the same causes.");
    }
}
