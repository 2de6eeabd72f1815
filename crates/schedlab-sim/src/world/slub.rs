//! Memory of messages as the kernel's allocator hands it out (Linux 6.1, mm/slub.c: `___slab_alloc`, `__slab_free`,
//! `put_cpu_partial`, `__unfreeze_partials`, `get_partial_node`).
//!
//! Each cache has slabs of some objects. A CPU takes objects from its own slab, and an object that returns to that slab
//! costs nothing beside its call. All else is slower: an object that returns to another slab, a CPU that needs the next
//! slab, and most of all a slab of new pages. A queue of few messages stays within the CPU's slab; a long one does not.

use std::collections::VecDeque;

const PAGE: u32 = 4_096;
/// The fewest slabs that are kept for the node, also where they are empty (`MIN_PARTIAL`).
const KEPT: usize = 5;

/// Where a message's two objects lie: its head, and its bytes with the index of their cache in the upper bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Objects {
    head: u32,
    data: u32,
}

/// The bits of a slab's index beside that of its cache.
const SLAB_BITS: u32 = 30;

/// What was slow about messages that came or went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slow {
    /// Objects that were taken from or given to another slab than the CPU's, and slabs that changed lists.
    pub(super) steps: u64,
    /// Slabs of new pages.
    pub(super) new: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slab {
    /// Objects that are in use, or in a CPU's list (`inuse`).
    used: u32,
    /// It belongs to a CPU, or to a CPU's partial slabs.
    frozen: bool,
}

#[derive(Clone, Debug, Default)]
struct OfCpu {
    slab: Option<u32>,
    /// Free objects of its slab that only it takes.
    free: u32,
    partial: Vec<u32>,
}

/// Objects of one size.
#[derive(Debug)]
struct Cache {
    objects: u32,
    most_partial: usize,
    slabs: Vec<Slab>,
    unused: Vec<u32>,
    cpus: Vec<OfCpu>,
    /// Slabs with free objects that belong to no CPU.
    node: VecDeque<u32>,
}

impl Cache {
    /// Of objects of `size` bytes, 256 to 4,096, on a machine with this many CPUs (`calculate_order`, `set_cpu_partial`).
    fn new(size: u32, cpus: usize) -> Self {
        let bits = usize::BITS - cpus.leading_zeros();
        let wanted = (4 * (bits + 1)).min((PAGE << 3) / size);
        let objects = (0..=3).map(|order| (PAGE << order) / size).find(|&count| count >= wanted);
        let objects = objects.unwrap_or(1);
        let kept = if size >= 1_024 { 24 } else { 52 };
        let most_partial = (2_u32 * kept).div_ceil(objects) as usize;
        let cpus = vec![OfCpu::default(); cpus];
        Self {
            objects,
            most_partial,
            slabs: Vec::new(),
            unused: Vec::new(),
            cpus,
            node: VecDeque::new(),
        }
    }

    /// An object for `cpu`: the slab in which it lies.
    fn take(&mut self, cpu: usize, slow: &mut Slow) -> u32 {
        let own = &mut self.cpus[cpu];
        if let Some(slab) = own.slab {
            let back = self.objects - self.slabs[slab as usize].used;
            if own.free > 0 {
                own.free -= 1;
                return slab;
            }
            if back > 0 {
                // Other CPUs gave some back.
                slow.steps += 1;
                return self.begin(cpu, slab);
            }
            self.slabs[slab as usize].frozen = false;
        }
        slow.steps += 1;
        if let Some(slab) = self.cpus[cpu].partial.pop() {
            return self.begin(cpu, slab);
        }
        let Some(slab) = self.node.pop_front() else {
            slow.new += 1;
            let slab = self.unused.pop().unwrap_or_else(|| {
                self.slabs.push(Slab::default());
                self.slabs.len() as u32 - 1
            });
            self.slabs[slab as usize].used = 0;
            return self.begin(cpu, slab);
        };
        let more = self.node.len().min(self.most_partial / 2 + 1);
        for slab in self.node.drain(..more) {
            self.slabs[slab as usize].frozen = true;
            self.cpus[cpu].partial.push(slab);
            slow.steps += 1;
        }
        self.begin(cpu, slab)
    }

    /// A CPU makes a slab its own, and takes an object.
    fn begin(&mut self, cpu: usize, slab: u32) -> u32 {
        let of = &mut self.slabs[slab as usize];
        let free = self.objects - of.used;
        of.used = self.objects;
        of.frozen = true;
        let own = &mut self.cpus[cpu];
        own.slab = Some(slab);
        own.free = free.saturating_sub(1);
        slab
    }

    /// `cpu` gives an object of `slab` back.
    fn give(&mut self, cpu: usize, slab: u32, slow: &mut Slow) {
        if self.cpus[cpu].slab == Some(slab) {
            self.cpus[cpu].free += 1;
            return;
        }
        slow.steps += 1;
        let of = &mut self.slabs[slab as usize];
        let was_full = of.used == self.objects;
        of.used = of.used.saturating_sub(1);
        if of.frozen {
            return;
        }
        if was_full {
            of.frozen = true;
            if self.cpus[cpu].partial.len() >= self.most_partial {
                self.drain(cpu, slow);
            }
            self.cpus[cpu].partial.push(slab);
            slow.steps += 1;
        } else if of.used == 0 && self.node.len() >= KEPT {
            self.node.retain(|other| *other != slab);
            self.unused.push(slab);
        }
    }

    /// The partial slabs of a CPU go to the node; pages of those that are empty go back if the node has enough.
    fn drain(&mut self, cpu: usize, slow: &mut Slow) {
        for slab in std::mem::take(&mut self.cpus[cpu].partial).into_iter().rev() {
            slow.steps += 1;
            let of = &mut self.slabs[slab as usize];
            of.frozen = false;
            if of.used == 0 && self.node.len() >= KEPT {
                self.unused.push(slab);
            } else {
                self.node.push_back(slab);
            }
        }
    }
}

/// The caches that messages of sockets lie in.
#[derive(Debug)]
pub(super) struct Memory {
    heads: Cache,
    /// Of 512, 1,024, 2,048 and 4,096 bytes.
    data: [Cache; 4],
    slow: Slow,
}

impl Memory {
    pub(super) fn new(cpus: usize) -> Self {
        let data = [512, 1_024, 2_048, 4_096].map(|size| Cache::new(size, cpus));
        Self { heads: Cache::new(256, cpus), data, slow: Slow::default() }
    }

    /// A message of `bytes`, a power of two, is sent on `cpu`.
    pub(super) fn take(&mut self, cpu: usize, bytes: u32) -> Objects {
        let cache = (bytes.max(512).ilog2() - 9).min(3);
        let head = self.heads.take(cpu, &mut self.slow);
        let slab = self.data[cache as usize].take(cpu, &mut self.slow);
        Objects { head, data: cache << SLAB_BITS | slab }
    }

    /// A message was read on `cpu`.
    pub(super) fn give(&mut self, cpu: usize, objects: Objects) {
        self.heads.give(cpu, objects.head, &mut self.slow);
        let cache = objects.data >> SLAB_BITS;
        let slab = objects.data & !(3 << SLAB_BITS);
        self.data[cache as usize].give(cpu, slab, &mut self.slow);
    }

    /// What was slow since the last question.
    pub(super) fn slow(&mut self) -> Slow {
        std::mem::take(&mut self.slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes and reads `depth` messages `rounds` times on one CPU; what was slow in the last round.
    fn rounds(depth: usize, rounds: usize) -> Slow {
        let mut memory = Memory::new(1);
        for _ in 0..rounds {
            memory.slow();
            let held: Vec<Objects> = (0..depth).map(|_| memory.take(0, 512)).collect();
            held.into_iter().for_each(|objects| memory.give(0, objects));
        }
        memory.slow()
    }

    #[test]
    fn a_slab_has_as_many_objects_as_linux_gives_it() {
        // /sys/kernel/slab/kmalloc-512/objs_per_slab: 8 on one CPU, 32 on sixteen.
        let objects = |size, cpus| Cache::new(size, cpus).objects;
        assert_eq!((objects(512, 1), objects(256, 1), objects(4_096, 1)), (8, 16, 8));
        assert_eq!((objects(512, 16), objects(256, 16)), (32, 32));
        assert_eq!(Cache::new(512, 1).most_partial, 13);
    }

    #[test]
    fn a_short_queue_is_fast_and_a_long_one_takes_new_pages() {
        assert_eq!(rounds(1, 5), Slow::default());
        assert_eq!(rounds(4, 5), Slow::default());
        let middle = rounds(100, 5);
        assert!(middle.steps > 100 && middle.new == 0, "{middle:?}");
        let long = rounds(278, 5);
        assert!(long.steps > 2 * 278 && long.new > 0, "{long:?}");
    }

    #[test]
    fn objects_that_come_back_are_used_again() {
        let mut memory = Memory::new(2);
        for round in 0..1_000 {
            let held: Vec<Objects> = (0..50).map(|n| memory.take((n + round) % 2, 700)).collect();
            held.into_iter().enumerate().for_each(|(n, objects)| memory.give(n % 2, objects));
        }
        assert!(memory.heads.slabs.len() < 40, "{}", memory.heads.slabs.len());
        let used: u32 = memory.data[1].slabs.iter().map(|slab| slab.used).sum();
        let free: u32 = memory.data[1].cpus.iter().map(|cpu| cpu.free).sum();
        assert_eq!(used, free, "all are free or in a CPU's list");
    }
}
