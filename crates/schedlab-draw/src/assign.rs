//! Which colour each task of a picture gets: one assignment for the whole picture.
//!
//! A colour that follows from a name or a pid alone meets its like by chance: two tasks that share a
//! CPU then look like one. So colours are given when all is seen. Those with the most time choose
//! first, and get colours that nobody else has while there are such. Later ones share a colour with
//! what they touch least.
//!
//! Resources: 12 bytes for each of 16,384 pairs of neighbours; one table entry a slice.

use schedlab_model::{Cpu, Span};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How often two of the numbered touch, the smaller number first.
pub(crate) type Touches = BTreeMap<(u32, u32), u64>;

/// Gives each of the numbered one of this many colours (at least one): `times` says how much time each
/// has, and `fixed` which have their colour already. What has no time gets a colour too.
pub(crate) fn assign(
    times: &[u64],
    touches: &Touches,
    fixed: &BTreeMap<usize, usize>,
    colours: usize,
) -> Vec<usize> {
    let mut near: Vec<Vec<(usize, u64)>> = vec![Vec::new(); times.len()];
    for (&(a, b), &count) in touches {
        let a = a as usize;
        let b = b as usize;
        if a != b && a.max(b) < times.len() {
            near[a].push((b, count));
            near[b].push((a, count));
        }
    }
    let mut given: Vec<Option<usize>> = vec![None; times.len()];
    // How much time has each colour.
    let mut taken = vec![0_u64; colours.max(1)];
    for (&one, &colour) in
        fixed.iter().filter(|(one, colour)| **one < times.len() && **colour < colours)
    {
        given[one] = Some(colour);
        taken[colour] += times[one].max(1);
    }
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|&one| (Reverse(times[one]), one));
    let mut clashes = vec![0_u64; taken.len()];
    for one in order {
        if given[one].is_some() {
            continue;
        }
        clashes.fill(0);
        for &(other, count) in &near[one] {
            if let Some(colour) = given[other] {
                clashes[colour] += count;
            }
        }
        let cost = |&colour: &usize| (taken[colour] > 0, clashes[colour], taken[colour], colour);
        let colour = (0..taken.len()).min_by_key(cost).unwrap_or(0);
        taken[colour] = taken[colour].saturating_add(times[one].max(1));
        given[one] = Some(colour);
    }
    given.into_iter().map(|colour| colour.unwrap_or(0)).collect()
}

/// Pairs that are kept; a rare pair gives way to a frequent one.
const SLOTS: usize = 1 << 14;

/// Who follows whom on a CPU without a pause.
#[derive(Clone, Debug)]
pub(crate) struct Touching {
    /// Who was last on each CPU, and until when.
    last: Vec<(u32, u64)>,
    slots: Vec<(u32, u32, u32)>,
}

impl Touching {
    pub(crate) fn new() -> Self {
        Self { last: Vec::new(), slots: vec![(0, 0, 0); SLOTS] }
    }

    /// The numbered `who` had a CPU for a while. Slices of a CPU come in order of time.
    pub(crate) fn see(&mut self, cpu: Cpu, span: Span, who: u32) {
        if self.last.len() <= cpu.index() {
            self.last.resize(cpu.index() + 1, (who, 0));
        }
        let (before, until) = std::mem::replace(&mut self.last[cpu.index()], (who, span.end.0));
        if until != span.start.0 || before == who {
            return;
        }
        let a = before.min(who);
        let b = before.max(who);
        let mixed = a.wrapping_mul(0x9e37_79b1) ^ b.wrapping_mul(0x85eb_ca6b).rotate_left(13);
        let slot = &mut self.slots[mixed as usize % SLOTS];
        match *slot {
            (x, y, count) if (x, y) == (a, b) => slot.2 = count.saturating_add(1),
            (.., 0 | 1) => *slot = (a, b, 1),
            (.., count) => slot.2 = count - 1,
        }
    }

    /// The pairs, each number spelled as `number` says.
    pub(crate) fn pairs(&self, number: impl Fn(u32) -> u32) -> Touches {
        let mut pairs = Touches::new();
        for &(a, b, count) in self.slots.iter().filter(|slot| slot.2 > 0) {
            let a = number(a);
            let b = number(b);
            if a != b {
                *pairs.entry((a.min(b), a.max(b))).or_default() += u64::from(count);
            }
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Nanos;

    /// Numbers that look random, the same in each run.
    fn random(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    #[test]
    fn the_largest_differ_and_what_touches_does_not_clash() {
        let mut seed = 7;
        for round in 0..200 {
            let count = 5 + round % 90;
            let colours = 16;
            let times: Vec<u64> = (0..count).map(|_| random(&mut seed) % 1_000).collect();
            let mut touches = Touches::new();
            let mut degree = vec![0; count];
            for _ in 0..count * 4 {
                let (a, b) =
                    (random(&mut seed) as usize % count, random(&mut seed) as usize % count);
                if a < b && degree[a].max(degree[b]) < colours - 1 {
                    degree[a] += 1;
                    degree[b] += 1;
                    touches.insert((a as u32, b as u32), 1 + random(&mut seed) % 9);
                }
            }
            let given = assign(&times, &touches, &BTreeMap::new(), colours);
            for &(a, b) in touches.keys() {
                assert_ne!(given[a as usize], given[b as usize], "{a} touches {b}");
            }
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_by_key(|&one| Reverse(times[one]));
            let mut largest: Vec<usize> =
                order.iter().take(colours).map(|&one| given[one]).collect();
            largest.sort_unstable();
            largest.dedup();
            assert_eq!(largest.len(), count.min(colours), "the largest differ");
        }
    }

    #[test]
    fn one_that_has_its_colour_keeps_it_and_no_other_takes_it() {
        let fixed = BTreeMap::from([(2, 0)]);
        let given = assign(&[50, 40, 1], &Touches::new(), &fixed, 3);
        assert_eq!(given, [1, 2, 0]);
        // With too few colours, one is shared with what it touches least.
        let touches = Touches::from([((0, 2), 9), ((1, 2), 1)]);
        assert_eq!(assign(&[3, 2, 1], &touches, &BTreeMap::new(), 2), [0, 1, 1]);
    }

    #[test]
    fn neighbours_are_those_that_follow_without_a_pause() {
        let mut touching = Touching::new();
        let mut see =
            |cpu, start, end, who| touching.see(Cpu(cpu), Span::new(Nanos(start), Nanos(end)), who);
        see(0, 5, 10, 1);
        see(1, 5, 10, 4);
        see(0, 10, 12, 2);
        see(1, 11, 12, 5);
        see(0, 12, 13, 1);
        see(0, 13, 14, 1);
        assert_eq!(touching.pairs(|who| who), Touches::from([((1, 2), 2)]));
        assert_eq!(touching.pairs(|_| 7), Touches::new(), "one is no neighbour of itself");
    }
}
