//! How time off or on the CPU changed from one trace to another, by stack.
//!
//! Times are per second of their traces, so that traces of different length compare. Shares would not do: if one stack
//! grows, the shares of all others shrink.

use crate::off_cpu::{FoldedStack, innermost};
use crate::stacks::CALLER;
use schedlab_model::table::{Column, Row, column};
use schedlab_model::{Nanos, columns};
use std::collections::BTreeMap;

/// A path of frames with its time in two traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackChange {
    /// The task's name, then functions from the outermost to the innermost.
    pub frames: Vec<String>,
    /// How long in a second of the trace before.
    pub before: Nanos,
    /// How long in a second of the trace after.
    pub after: Nanos,
}

/// All stacks of two traces of these lengths, in order of frames.
#[must_use]
pub fn stack_changes(
    before: &[FoldedStack],
    before_length: Nanos,
    after: &[FoldedStack],
    after_length: Nanos,
) -> Vec<StackChange> {
    let mut all: BTreeMap<&[String], [Nanos; 2]> = BTreeMap::new();
    for (stacks, length, side) in [(before, before_length, 0), (after, after_length, 1)] {
        for stack in stacks {
            let times = all.entry(&stack.frames).or_default();
            times[side] += per_second(stack.time, length);
        }
    }
    let change = |(frames, [before, after]): (&[String], [Nanos; 2])| StackChange {
        frames: frames.to_vec(),
        before,
        after,
    };
    all.into_iter().map(change).collect()
}

fn per_second(time: Nanos, length: Nanos) -> Nanos {
    let second = u128::from(Nanos::from_secs(1).0);
    let length = u128::from(length.0.max(1));
    let rounded = (u128::from(time.0) * second + length / 2) / length;
    Nanos(u64::try_from(rounded).unwrap_or(u64::MAX))
}

impl StackChange {
    /// How much longer in a second after, in nanoseconds.
    #[must_use]
    pub fn change_ns(&self) -> i64 {
        let of = |time: Nanos| i64::try_from(time.0).unwrap_or(i64::MAX);
        of(self.after) - of(self.before)
    }

    /// After divided by before; `None` of a stack that was not there before.
    #[must_use]
    pub(crate) fn ratio(&self) -> Option<f64> {
        (self.before > Nanos::ZERO).then(|| self.after.0 as f64 / self.before.0 as f64)
    }

    /// The innermost frame and its callers.
    fn stack(&self) -> String {
        let innermost_first = self.frames.iter().skip(1).rev().map(String::as_str);
        innermost_first.collect::<Vec<_>>().join(CALLER)
    }
}

impl Row for StackChange {
    const ABOUT: &'static str = "The time of one stack in two traces, per second of each.";

    fn columns() -> Vec<Column<Self>> {
        let mut columns = columns! { row: Self;
            "comm" ["comm"] = row.frames.first().cloned().unwrap_or_default(), "The name of the tasks at the end.";
            "before_ns_per_s" ["before (in 1 s)"] = row.before, "How long the tasks were off their CPUs (with `--running`: on them) with this stack in a second of the trace of `--minus`.";
            "after_ns_per_s" ["after (in 1 s)"] = row.after, "How long in a second of the other trace.";
            "ratio" ["ratio"] = row.ratio(), "After divided by before; `null` of a stack that was not there before.";
        };
        let about = "The innermost frame and its callers up to the outermost, `<-` between them.";
        let stack = column("stack", about, |row: &Self| row.stack());
        columns.push(stack.title("in (called by)").spelled(|row| innermost(&row.stack())));
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_of_twice_the_length_does_not_look_twice_as_bad() {
        let stack = |frames: &[&str], time| FoldedStack {
            frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            time: Nanos(time),
        };
        let before = [stack(&["c", "main", "read"], 500), stack(&["c", "main", "gone"], 10)];
        let after = [stack(&["c", "main", "read"], 1_000), stack(&["c", "new"], 40)];
        let found = stack_changes(&before, Nanos(1_000), &after, Nanos(2_000));
        let told = found.iter().map(|of| (of.stack(), of.before.0, of.after.0, of.change_ns()));
        let expected = [
            ("gone<-main".to_owned(), 10_000_000, 0, -10_000_000),
            ("read<-main".to_owned(), 500_000_000, 500_000_000, 0),
            ("new".to_owned(), 0, 20_000_000, 20_000_000),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }
}
