//! Memory that a task works on, and the work.

use super::arena::Arena;
use schedlab_sys::shared;
use schedlab_workload::Sweep;
use schedlab_workload::plan::Block;
use std::borrow::Cow;
use std::hint::black_box;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// The scale factor of STREAM's sweeps.
const SCALAR: f64 = 3.0;

/// One block as a task sees it.
pub(super) enum Memory {
    /// Three matrices, one after another. Their words are atomic even if only one task writes them: so the compiler
    /// keeps every load and store of the naive loop.
    Matrices { words: Words, side: usize },
    /// Bytes that are shared.
    Page(&'static [AtomicU8]),
    /// Words that hold the number of the next, and the one that was come to.
    Chain { words: &'static [AtomicU64], at: usize },
    /// Arrays a, b, c.
    Arrays(Box<[Vec<f64>; 3]>),
}

pub(super) enum Words {
    Own(Box<[AtomicU64]>),
    Shared(&'static [AtomicU64]),
}

impl Words {
    fn get(&self) -> &[AtomicU64] {
        match self {
            Self::Own(words) => words,
            Self::Shared(words) => words,
        }
    }
}

/// The blocks of a plan for one task. Those of its own are made here, so that they lie where it runs.
pub(super) fn of_task(blocks: &[Block], own: &[u32], arena: &Arena) -> Vec<Option<Memory>> {
    let mine = |index: usize| own.iter().any(|&block| block as usize == index);
    let one = |(index, block): (usize, &Block)| {
        let number = u32::try_from(index).expect("blocks are counted in 32 bits");
        let shared = arena.block(number);
        match *block {
            Block::Matrices { side, shared: true, unwritten } => {
                let words = Words::Shared(shared.expect("it is shared"));
                Some(matrices(words, side, unwritten))
            }
            Block::Matrices { side, shared: false, unwritten } if mine(index) => {
                let count = 3 * (side as usize).pow(2);
                Some(matrices(Words::Own(shared::untouched(count)), side, unwritten))
            }
            Block::Page { .. } => arena.page(number).map(Memory::Page),
            Block::Chain { stride, scattered, .. } if mine(index) => {
                Some(chain(shared.expect("chains are shared"), stride as usize / 8, scattered))
            }
            Block::Arrays { elements } if mine(index) => {
                let array = |value| vec![value; elements as usize];
                Some(Memory::Arrays(Box::new([array(1.0), array(2.0), array(0.0)])))
            }
            _ => None,
        }
    };
    blocks.iter().enumerate().map(one).collect()
}

fn matrices(words: Words, side: u32, unwritten: bool) -> Memory {
    let side = side as usize;
    if !unwritten {
        // Any numbers but zeroes, so that each page of the factors is memory of its own.
        let factors = words.get().iter().take(2 * side * side).enumerate();
        factors.for_each(|(i, word)| word.store(i as u64 % 7 + 1, Relaxed));
    }
    Memory::Matrices { words, side }
}

/// A circle through every `stride`th word. The one that shares it writes the same.
fn chain(words: &'static [AtomicU64], stride: usize, scattered: bool) -> Memory {
    let count = (words.len() / stride).max(1);
    let bits = count.next_power_of_two().trailing_zeros();
    let reversed = |n: usize| if bits == 0 { 0 } else { n.reverse_bits() >> (usize::BITS - bits) };
    let place = |n: usize| if scattered { reversed(n) } else { n };
    let mut places = (0..count.next_power_of_two()).map(place).filter(|&place| place < count);
    let first = places.next().unwrap_or(0);
    let mut at = first;
    for next in places.chain([first]) {
        words[at * stride].store((next * stride) as u64, Relaxed);
        at = next;
    }
    Memory::Chain { words, at: first * stride }
}

impl Memory {
    /// Reads or writes `bytes` one after another, beginning at byte `from`, round and round.
    pub(super) fn walk(&self, from: u64, bytes: u64, writes: bool) {
        let Self::Page(all) = self else { return };
        let mut at = (from % all.len() as u64) as usize;
        let mut sum = 0_u8;
        for _ in 0..bytes {
            match writes {
                true => all[at].store(at as u8, Relaxed),
                false => sum = sum.wrapping_add(all[at].load(Relaxed)),
            }
            at = if at + 1 == all.len() { 0 } else { at + 1 };
        }
        black_box(sum);
    }

    /// Follows the chain by this number of steps.
    pub(super) fn chase(&mut self, steps: u64) {
        let Self::Chain { words, at } = self else { return };
        for _ in 0..steps {
            *at = words[*at].load(Relaxed) as usize;
        }
        black_box(*at);
    }

    /// Adds the product of the first two matrices to nothing and stores it in the third, `times` over.
    /// Every step stores the sum in memory: the naive loop is the work, not a way to it.
    pub(super) fn multiply(&self, times: u32) {
        let Self::Matrices { words, side } = self else { return };
        let n = *side;
        let words = words.get();
        let (first, rest) = words.split_at(n * n);
        let (second, product) = rest.split_at(n * n);
        for _ in 0..times {
            for i in 0..n {
                for j in 0..n {
                    let row = &first[i * n..][..n];
                    shared::multiply_into(&product[i * n + j], row, &second[j..], n);
                }
            }
        }
        if let Some(last) = product.last() {
            black_box(last.load(Relaxed));
        }
    }

    /// Writes over the first `bytes`.
    pub(super) fn fill(&self, bytes: u32, value: u8) {
        let Self::Page(page) = self else { return };
        shared::fill(page, bytes as usize, value);
    }

    /// One sweep over the arrays.
    pub(super) fn sweep(&mut self, sweep: Sweep) {
        let Self::Arrays(arrays) = self else { return };
        let [a, b, c] = &mut **arrays;
        match sweep {
            Sweep::Copy => c.copy_from_slice(a),
            Sweep::Scale => b.iter_mut().zip(&*c).for_each(|(b, c)| *b = SCALAR * c),
            Sweep::Add => {
                c.iter_mut().zip(a.iter().zip(&*b)).for_each(|(c, (a, b))| *c = a + b);
            }
            Sweep::Triad => {
                a.iter_mut().zip(b.iter().zip(&*c)).for_each(|(a, (b, c))| *a = b + SCALAR * c);
            }
        }
        black_box(&mut **arrays);
    }
}

/// Memory that was allocated last: see `Op::Allocate`.
#[derive(Default)]
pub(super) struct Heap(Cow<'static, [u8]>);

impl Heap {
    /// Allocates, writes to every page, frees what was there.
    pub(super) fn allocate(&mut self, bytes: u32) {
        self.0 = Cow::Owned(vec![1; bytes as usize]);
        black_box(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(side: u32, unwritten: bool) -> Memory {
        matrices(Words::Own(shared::untouched(3 * (side as usize).pow(2))), side, unwritten)
    }

    #[test]
    fn the_product_is_that_of_matrices() {
        let memory = own(2, false);
        memory.multiply(3);
        let Memory::Matrices { words, .. } = &memory else { unreachable!() };
        let all: Vec<u64> = words.get().iter().map(|word| word.load(Relaxed)).collect();
        assert_eq!(all, [1, 2, 3, 4, 5, 6, 7, 1, 19, 8, 43, 22]);
    }

    #[test]
    fn a_chain_comes_by_each_of_its_pointers_once_a_round() {
        for (count, scattered) in [(1, true), (5, true), (8, true), (13, true), (13, false)] {
            let stride = 8;
            let words = shared::words(count * stride + 3).unwrap();
            let mut memory = chain(words, stride, scattered);
            let mut seen = Vec::new();
            for _ in 0..count {
                memory.chase(1);
                let Memory::Chain { at, .. } = &memory else { unreachable!() };
                seen.push(*at / stride);
            }
            let in_order = seen.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
            assert!(!scattered || count < 5 || in_order < count / 2, "{seen:?}");
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>(), "{scattered}");
        }
    }

    #[test]
    fn a_walk_touches_every_byte_and_begins_again_at_the_end() {
        let bytes = shared::bytes(16).unwrap();
        let memory = Memory::Page(bytes);
        memory.walk(14, 5, true);
        let seen: Vec<u8> = bytes.iter().map(|byte| byte.load(Relaxed)).collect();
        assert_eq!(seen, [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 14, 15]);
        memory.walk(0, 40, false);
    }

    #[test]
    fn unwritten_matrices_have_products_of_zero_and_none_have_none() {
        own(3, true).multiply(1);
        own(0, false).multiply(1);
    }

    #[test]
    fn a_sweep_does_what_stream_says() {
        let mut memory = Memory::Arrays(Box::new([vec![1.0; 2], vec![2.0; 2], vec![0.0; 2]]));
        for sweep in [Sweep::Copy, Sweep::Scale, Sweep::Add, Sweep::Triad] {
            memory.sweep(sweep);
        }
        let Memory::Arrays(arrays) = memory else { unreachable!() };
        assert_eq!(*arrays, [vec![15.0; 2], vec![3.0; 2], vec![4.0; 2]]);
    }
}
