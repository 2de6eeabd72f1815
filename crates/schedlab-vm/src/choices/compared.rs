//! Choices of one kernel beside those of others.

use super::{Choice, Situation, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// The first index at which two sequences of choices differ; `None` if they are equal.
#[must_use]
pub fn first_difference(one: &[Choice], other: &[Choice]) -> Option<usize> {
    let same = |(a, b): (&Choice, &Choice)| a.situation == b.situation && a.next == b.next;
    let equal = one.iter().zip(other).take_while(|(a, b)| same((a, b))).count();
    (equal < one.len().max(other.len())).then_some(equal)
}

/// The choices of `kernel` that no reference made in the same situation, in the order of `kernel`, each once. Each
/// comes with what the references chose. Situations that no reference had are left out.
#[must_use]
pub fn unlike<'c>(
    kernel: &'c [Choice],
    references: &[&[Choice]],
) -> Vec<(&'c Choice, BTreeSet<Slot>)> {
    let mut known: BTreeMap<&Situation, BTreeSet<Slot>> = BTreeMap::new();
    for choice in references.iter().copied().flatten() {
        known.entry(&choice.situation).or_default().insert(choice.next.clone());
    }
    let mut told = BTreeSet::new();
    let mut all = Vec::new();
    for choice in kernel {
        let Some(chosen) = known.get(&choice.situation) else { continue };
        if !chosen.contains(&choice.next) && told.insert((&choice.situation, &choice.next)) {
            all.push((choice, chosen.clone()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::{Asked, Kind};
    use super::*;
    use schedlab_model::{Cpu, Nanos};

    fn choice(at: u64, asked: Asked, next: &str) -> Choice {
        let waiting = ["1".to_owned()].into();
        let situation = Situation { cpu: Cpu(0), current: "0".into(), waiting, asked };
        Choice { at: Nanos(at), situation, next: next.into() }
    }

    fn woken(at: u64, next: &str) -> Choice {
        choice(at, Asked::Woken { task: "1".into(), by: Some("0".into()) }, next)
    }

    #[test]
    fn only_what_no_reference_chose_is_unlike() {
        let (stays, preempts) = (vec![woken(1, "0")], vec![woken(3, "1"), woken(5, "1")]);
        let found = unlike(&preempts, &[&stays, &stays]);
        assert_eq!(found, [(&preempts[0], BTreeSet::from(["0".to_owned()]))]);
        // A placebo chose so too: then it is no cause.
        assert!(unlike(&preempts, &[&stays, &preempts]).is_empty());
        // Situations that references never met say nothing.
        assert!(unlike(&preempts, &[]).is_empty());
    }

    #[test]
    fn a_situation_holds_the_kind_of_the_choice() {
        let wakeup = vec![woken(1, "0")];
        let others = [Asked::Left, Asked::Preempted].map(|asked| choice(2, asked, "1"));
        let kinds: Vec<Kind> = wakeup.iter().chain(&others).map(Choice::kind).collect();
        assert_eq!(kinds, Kind::ALL);
        // The task that is next is another one, but it answers another question.
        assert!(unlike(&others, &[&wakeup]).is_empty());
    }
}
