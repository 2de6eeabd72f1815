//! Choices of one kernel beside those of another, and of placebos.

use super::difference::{Answers, Difference, Starts};
use super::{Choice, Kind, Situation, Slot};
use std::collections::BTreeMap;

/// The first index at which two sequences of choices differ; `None` if they are equal.
#[must_use]
pub fn first_difference(one: &[Choice], other: &[Choice]) -> Option<usize> {
    let same = |(a, b): (&Choice, &Choice)| a.situation == b.situation && a.next == b.next;
    let equal = one.iter().zip(other).take_while(|(a, b)| same((a, b))).count();
    (equal < one.len().max(other.len())).then_some(equal)
}

/// How often each task was chosen in one situation.
pub type Chosen = BTreeMap<Slot, usize>;

/// A choice that shows a difference: both kernels had the same situation, and chose differently.
#[derive(Clone, Debug, PartialEq)]
pub struct First<'c> {
    /// The choice with the answer yes, of the side that has this answer more often.
    pub choice: &'c Choice,
    /// Whether it is a choice of the second side.
    pub is_after: bool,
    /// The start of that side in which it is, from 0.
    pub start: usize,
    /// The class of choices that differs.
    pub difference: &'c Difference,
    /// What the first side chose in the same situation, in all its starts.
    pub before: Chosen,
    /// What the second side chose there.
    pub after: Chosen,
    /// What the placebos chose there.
    pub placebos: Chosen,
}

/// The first choice that one side made and the other never, though it had the same situation. It is of the kind that
/// differs most among those that differ by more than neutral code makes likely, and has the answer that this side
/// gives more often. Other kinds may differ as a consequence. Choices whose situation tells more go first.
/// `None`: no kind differs, or no such situation came up on both sides.
#[must_use]
pub fn first<'c>(
    before: &'c Starts,
    after: &'c Starts,
    placebos: &'c [Starts],
    differences: &'c [Difference],
) -> Option<First<'c>> {
    let mut shown: Vec<&Difference> = differences.iter().filter(|one| one.is_shown()).collect();
    shown.sort_by(|a, b| b.distance.abs().total_cmp(&a.distance.abs()));
    let kind = shown.first()?.class.kind;
    shown.retain(|one| one.class.kind == kind);
    let known = Known {
        before: chosen(before),
        after: chosen(after),
        placebos: placebos.iter().map(chosen).fold(BTreeMap::new(), merged),
    };
    let find = |difference: &'c Difference, least: Weight| {
        let starts = if difference.is_more() { after } else { before };
        let mut all =
            (0..).zip(starts).flat_map(|(start, list)| list.iter().map(move |c| (start, c)));
        let is_one = |choice: &Choice| known.weighs(difference, choice) >= Some(least);
        let (start, choice) = all.find(|(_, choice)| is_one(choice))?;
        Some(known.first(difference, start, choice))
    };
    let each = |least: Weight| shown.iter().find_map(|one| find(one, least));
    [Weight::Unlikely, Weight::Alone, Weight::Unlike].into_iter().find_map(each)
}

type InSituations<'c> = BTreeMap<&'c Situation, Chosen>;

/// How much a situation tells, in which one side gave an answer and the other side never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// A placebo gave this answer there too.
    Unlike,
    /// No placebo gave this answer there.
    Alone,
    /// Luck is unlikely too: by how often neutral kernels give this answer in the class, it would have come up there in 19
    /// of 20 cases.
    Unlikely,
}

/// What each side chose in each situation.
struct Known<'c> {
    before: InSituations<'c>,
    after: InSituations<'c>,
    placebos: InSituations<'c>,
}

impl<'c> Known<'c> {
    /// How much a choice of one side tells; `None`: nothing, since the other side chose so too or never had its
    /// situation.
    fn weighs(&self, difference: &Difference, choice: &Choice) -> Option<Weight> {
        if !choice.classes().contains(&difference.class) || choice.answer() != Some(true) {
            return None;
        }
        let neutral = difference.placebos.iter().fold(difference.before, |all, one| all.and(*one));
        let none = Answers::default();
        let (other, placebos) = match difference.is_more() {
            true => (there(&self.before, choice), there(&self.placebos, choice)),
            false => (there(&self.after, choice), none),
        };
        if other.all == 0 || other.yes > 0 {
            return None;
        }
        let times = i32::try_from(other.all + placebos.all).unwrap_or(i32::MAX);
        Some(match placebos.yes {
            0 if (1.0 - neutral.share()).powi(times) < 0.05 => Weight::Unlikely,
            0 => Weight::Alone,
            _ => Weight::Unlike,
        })
    }

    fn first(&self, difference: &'c Difference, start: usize, choice: &'c Choice) -> First<'c> {
        let get =
            |known: &InSituations<'_>| known.get(&choice.situation).cloned().unwrap_or_default();
        let [before, after, placebos] = [&self.before, &self.after, &self.placebos].map(get);
        First { choice, is_after: difference.is_more(), start, difference, before, after, placebos }
    }
}

/// How often a kernel gave the answer of a choice in the same situation.
fn there(known: &InSituations<'_>, choice: &Choice) -> Answers {
    let chosen = known.get(&choice.situation).into_iter().flatten();
    let is_same = |task: &Slot| match choice.kind() {
        Kind::Wakeup | Kind::Slice => *task != choice.situation.current,
        Kind::Next => *task == choice.next,
    };
    chosen.fold(Answers::default(), |all, (task, times)| {
        all.and(Answers { yes: if is_same(task) { *times } else { 0 }, all: *times })
    })
}

/// What a kernel chose in each situation.
fn chosen(starts: &Starts) -> InSituations<'_> {
    let mut known = InSituations::new();
    for choice in starts.iter().flatten() {
        *known.entry(&choice.situation).or_default().entry(choice.next.clone()).or_default() += 1;
    }
    known
}

fn merged<'s>(mut all: InSituations<'s>, one: InSituations<'s>) -> InSituations<'s> {
    for (situation, chosen) in one {
        let there = all.entry(situation).or_default();
        chosen.into_iter().for_each(|(task, count)| *there.entry(task).or_default() += count);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::{Case, Occasion, Ran, differences};
    use super::*;
    use schedlab_model::{Cpu, Nanos};

    /// A kernel that chooses so in the situation of task `current`: how often it preempts, and how often not.
    fn kernel(of: &[(&str, usize, usize)]) -> Starts {
        let mut all = Vec::new();
        for (current, preempts, stays) in of {
            for (next, count) in [("9", *preempts), (*current, *stays)] {
                let asked = Occasion::Woken { task: "9".into(), by: None };
                let current = (*current).to_owned();
                let waiting = ["9".to_owned()].into();
                let situation =
                    Situation { cpu: Cpu(0), current, ran: Ran::default(), waiting, asked };
                let at = Nanos(all.len() as u64);
                let choice = Choice { at, situation, next: next.into(), longest: true };
                all.extend(vec![choice; count]);
            }
        }
        vec![all]
    }

    /// Of a second side: where it is shown to differ from a first one with five placebos.
    fn found(before: &Starts, after: &Starts) -> Option<(String, bool, [usize; 3])> {
        let neutral = |yes| kernel(&[("0", yes, 50 - yes), ("1", 1, 49), ("2", 0, 5)]);
        let placebos: Vec<Starts> = [0, 1, 2, 1, 0].map(neutral).into();
        let differences = differences(before, after, &placebos);
        let first = first(before, after, &placebos, &differences)?;
        assert_eq!(first.difference.class.kind, Kind::Wakeup);
        assert!(matches!(first.difference.class.case, None | Some(Case::Ran(_))));
        let times = [&first.before, &first.after, &first.placebos].map(|chosen| chosen.get("9"));
        let times = times.map(|times| times.copied().unwrap_or_default());
        Some((first.choice.situation.current.clone(), first.is_after, times))
    }

    #[test]
    fn a_situation_that_tells_more_goes_first() {
        let before = kernel(&[("0", 1, 49), ("1", 0, 50), ("2", 0, 5)]);
        let after = kernel(&[("0", 20, 30), ("1", 20, 30), ("2", 4, 1)]);
        assert_eq!(found(&before, &after), Some(("2".into(), true, [0, 4, 0])));
        let after = kernel(&[("0", 20, 30), ("1", 20, 30), ("3", 4, 1)]);
        // The first side chose so for task 0, and never had a situation with task 3.
        assert_eq!(found(&before, &after), Some(("1".into(), true, [0, 20, 5])));
        let after = kernel(&[("0", 20, 30), ("3", 30, 30)]);
        assert_eq!(found(&before, &after), None);
        // Nobody chose so for task 2 nor for task 4, but only task 4 was there often enough to tell.
        let more = |preempts, stays| {
            [("0", 1, 49), ("1", 0, 50), ("2", preempts, 5), ("4", preempts, stays)]
        };
        let (before, after) =
            (kernel(&more(0, 300)), kernel(&[&more(4, 1)[2..], &[("0", 20, 30)]].concat()));
        assert_eq!(found(&before, &after), Some(("4".into(), true, [0, 4, 0])));
        assert_eq!(found(&before, &before), None);
    }

    #[test]
    fn what_only_the_first_side_chose_is_its_choice() {
        let neutral = |yes| kernel(&[("0", yes, 50 - yes), ("1", 20, 30)]);
        let placebos: Vec<Starts> = [20, 21, 22, 21, 20].map(neutral).into();
        let before = neutral(20);
        let after = kernel(&[("0", 1, 49), ("1", 0, 50)]);
        let differences = differences(&before, &after, &placebos);
        let first = first(&before, &after, &placebos, &differences).unwrap();
        assert_eq!((first.choice.situation.current.as_str(), first.is_after), ("1", false));
        let times = [&first.before, &first.after, &first.placebos].map(|one| one.get("9").copied());
        assert_eq!(times, [Some(20), None, Some(100)]);
    }
}
