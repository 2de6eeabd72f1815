//! The largest matching between free CPUs and waiting tasks, kept up to date change by change.
//!
//! Tasks that may use the same CPUs are one class, so the graph has a node for each free CPU and for each class, and a class
//! takes as many CPUs as tasks of it wait. A change alters the size by one at most: one search for an augmenting path,
//! over classes, restores the maximum (C. Berge, "Two theorems in graph theory", PNAS 43, 1957). Where one class
//! waits, as without affinity, that is a look at the free CPUs.
//!
//! Which class gets a CPU that several could use: the one that was served first. A path never takes a CPU from a class without
//! giving it another. Within a class the CPUs count for its waiting tasks in equal parts: [`Matching::served`] grows
//! by what one waiting task gets, so a task's part is the difference between two readings.

use super::allowed::ClassId;
use schedlab_model::{Cpu, CpuSet, Nanos};

/// Parts of a nanosecond in which shares are added up.
pub(super) const PARTS: u128 = 1 << 64;

/// Free CPUs, waiting tasks, and who is matched with whom.
#[derive(Debug, Default)]
pub(super) struct Matching {
    classes: Vec<Class>,
    /// Classes of which tasks wait.
    demanding: Vec<ClassId>,
    /// Free CPUs that nobody needs.
    spare: CpuSet,
    /// By CPU: the class that it serves, plus one.
    owners: Vec<ClassId>,
    waiting: u64,
    matched: u64,
}

/// Tasks that may use the same CPUs.
#[derive(Debug)]
struct Class {
    /// `None` is every CPU.
    mask: Option<CpuSet>,
    waiting: u32,
    /// The free CPUs that serve it.
    cpus: CpuSet,
    matched: u32,
    /// What a task got that waited all the time, in parts of a nanosecond.
    served: u128,
    since: Nanos,
    /// Its place among those that demand.
    place: usize,
}

impl Matching {
    /// With the CPUs that each class may use.
    pub(super) fn new(masks: &[Option<CpuSet>]) -> Self {
        let class = |mask: &Option<CpuSet>| Class {
            mask: mask.clone(),
            waiting: 0,
            cpus: CpuSet::new(),
            matched: 0,
            served: 0,
            since: Nanos::ZERO,
            place: usize::MAX,
        };
        Self { classes: masks.iter().map(class).collect(), ..Self::default() }
    }

    /// Its size: CPUs whose time is lost now.
    pub(super) const fn size(&self) -> u64 {
        self.matched
    }

    /// Tasks that wait and for whom no CPU is free.
    pub(super) const fn unserved(&self) -> u64 {
        self.waiting - self.matched
    }

    /// How many CPUs serve a class now.
    pub(super) fn matched_with(&self, class: ClassId) -> u32 {
        self.classes[class as usize].matched
    }

    /// CPU time that one task of a class would have got so far, had it waited all the time; in [`PARTS`].
    pub(super) fn served(&mut self, class: ClassId, at: Nanos) -> u128 {
        self.touch(class, at);
        self.classes[class as usize].served
    }

    /// Adds up what was true of a class until now.
    fn touch(&mut self, class: ClassId, at: Nanos) {
        let class = &mut self.classes[class as usize];
        let time = at - class.since;
        class.since = class.since.max(at);
        if class.matched == 0 || time == Nanos::ZERO {
            return;
        }
        let parts = u128::from(time.0) * PARTS;
        // Mostly there are enough free CPUs, and a division takes longer than all the rest.
        class.served += if class.matched >= class.waiting {
            parts
        } else {
            parts * u128::from(class.matched) / u128::from(class.waiting)
        };
    }

    /// A CPU becomes free.
    pub(super) fn free(&mut self, cpu: Cpu, at: Nanos) {
        if cpu.index() >= self.owners.len() {
            self.owners.resize(cpu.index() + 1, 0);
        }
        if !self.serve(cpu, at) {
            self.spare.insert(cpu);
        }
    }

    /// A CPU is free no longer.
    pub(super) fn take(&mut self, cpu: Cpu, at: Nanos) {
        let owner = self.owners.get_mut(cpu.index()).map_or(0, std::mem::take);
        let Some(class) = owner.checked_sub(1) else {
            self.spare.remove(cpu);
            return;
        };
        self.touch(class, at);
        let short = &mut self.classes[class as usize];
        short.cpus.remove(cpu);
        short.matched -= 1;
        self.matched -= 1;
        self.supply(class, at);
    }

    /// A task of a class begins to wait.
    pub(super) fn wait(&mut self, class: ClassId, at: Nanos) {
        self.touch(class, at);
        self.waiting += 1;
        let is = &mut self.classes[class as usize];
        is.waiting += 1;
        if is.waiting == 1 {
            is.place = self.demanding.len();
            self.demanding.push(class);
        }
        self.supply(class, at);
    }

    /// A task of a class waits no longer.
    pub(super) fn leave(&mut self, class: ClassId, at: Nanos) {
        self.touch(class, at);
        self.waiting -= 1;
        let is = &mut self.classes[class as usize];
        is.waiting -= 1;
        let left = is.waiting;
        let place = is.place;
        let surplus = (is.matched > left).then(|| is.cpus.iter().last()).flatten();
        if left == 0 {
            self.demanding.swap_remove(place);
            if let Some(other) = self.demanding.get(place) {
                self.classes[*other as usize].place = place;
            }
        }
        if let Some(cpu) = surplus {
            let is = &mut self.classes[class as usize];
            is.cpus.remove(cpu);
            is.matched -= 1;
            self.matched -= 1;
            self.owners[cpu.index()] = 0;
            if !self.serve(cpu, at) {
                self.spare.insert(cpu);
            }
        }
    }

    fn admits(&self, class: ClassId, cpu: Cpu) -> bool {
        self.classes[class as usize].mask.as_ref().is_none_or(|mask| mask.contains(cpu))
    }

    /// A CPU of `cpus` that a class may use.
    fn common(&self, class: ClassId, cpus: &CpuSet) -> Option<Cpu> {
        match &self.classes[class as usize].mask {
            None => cpus.iter().next(),
            Some(mask) => first_of_both(mask, cpus),
        }
    }

    fn give(&mut self, cpu: Cpu, class: ClassId) {
        self.owners[cpu.index()] = class + 1;
        self.classes[class as usize].cpus.insert(cpu);
    }

    /// Finds work for a free CPU: for a class that lacks one, or for one that gives up another for it.
    fn serve(&mut self, cpu: Cpu, at: Nanos) -> bool {
        if self.unserved() == 0 {
            return false;
        }
        let lacks = |class: &Class| class.matched < class.waiting;
        // Classes that a path has reached, each with the CPU that it gets and the place of the class that gives it.
        let mut reached: Vec<(ClassId, Cpu, usize)> = Vec::new();
        for &class in &self.demanding {
            if self.admits(class, cpu) {
                reached.push((class, cpu, usize::MAX));
            }
        }
        let mut next = 0;
        while let Some(&(class, ..)) = reached.get(next) {
            if lacks(&self.classes[class as usize]) {
                self.gain(class, at);
                // Each class of the path gets its CPU from the one before, which gets one instead.
                let mut place = next;
                while let Some(&(class, cpu, giver)) = reached.get(place) {
                    if let Some((other, ..)) = reached.get(giver) {
                        self.classes[*other as usize].cpus.remove(cpu);
                    }
                    self.give(cpu, class);
                    place = giver;
                }
                return true;
            }
            for &other in &self.demanding {
                if !reached.iter().any(|(known, ..)| *known == other)
                    && let Some(passed) = self.common(other, &self.classes[class as usize].cpus)
                {
                    reached.push((other, passed, next));
                }
            }
            next += 1;
        }
        false
    }

    /// Finds a CPU for a class that lacks one: a spare one, or that of another class which takes a spare one instead.
    fn supply(&mut self, class: ClassId, at: Nanos) {
        let short = &self.classes[class as usize];
        if short.matched >= short.waiting || self.spare.is_empty() {
            return;
        }
        // Classes that a path has reached, each with the CPU that it would give up, and the place of the one that gets it.
        let mut reached = vec![(class, Cpu(0), usize::MAX)];
        let mut next = 0;
        while let Some(&(giving, ..)) = reached.get(next) {
            if let Some(cpu) = self.common(giving, &self.spare) {
                self.spare.remove(cpu);
                let mut got = cpu;
                let mut place = next;
                while let Some(&(class, gives, getter)) = reached.get(place) {
                    self.give(got, class);
                    if getter != usize::MAX {
                        self.classes[class as usize].cpus.remove(gives);
                    }
                    (got, place) = (gives, getter);
                }
                self.gain(class, at);
                return;
            }
            for &other in &self.demanding {
                if !reached.iter().any(|(known, ..)| *known == other)
                    && let Some(cpu) = self.common(giving, &self.classes[other as usize].cpus)
                {
                    reached.push((other, cpu, next));
                }
            }
            next += 1;
        }
    }

    fn gain(&mut self, class: ClassId, at: Nanos) {
        self.touch(class, at);
        self.classes[class as usize].matched += 1;
        self.matched += 1;
    }
}

fn first_of_both(a: &CpuSet, b: &CpuSet) -> Option<Cpu> {
    let words = a.words().iter().zip(b.words()).enumerate();
    let (word, both) = words.map(|(word, (a, b))| (word, a & b)).find(|(_, both)| *both != 0)?;
    Some(Cpu(u16::try_from(word * 64 + both.trailing_zeros() as usize).expect("a CPU has 16 bits")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most pairs, by trying everything.
    fn by_trying(free: &[u16], tasks: &[u64]) -> u64 {
        let Some((task, rest)) = tasks.split_first() else { return 0 };
        let without = by_trying(free, rest);
        let with =
            free.iter().enumerate().filter(|(_, cpu)| task >> **cpu & 1 == 1).map(|(at, _)| {
                let left: Vec<u16> = [&free[..at], &free[at + 1..]].concat();
                1 + by_trying(&left, rest)
            });
        with.max().unwrap_or(0).max(without)
    }

    #[test]
    fn the_lesser_count_is_only_an_upper_bound() {
        let masks =
            [Some(0b1110), Some(0b0010)].map(|mask| mask.map(|word| CpuSet::from_words(&[word])));
        let mut matching = Matching::new(&masks);
        (1..4).for_each(|cpu| matching.free(Cpu(cpu), Nanos::ZERO));
        [0, 1, 1].into_iter().for_each(|class| matching.wait(class, Nanos::ZERO));
        assert_eq!((matching.size(), matching.unserved()), (2, 1));
    }

    #[test]
    fn it_stays_as_large_as_trying_everything_finds() {
        let mut seed = 7_u64;
        let mut roll = |sides: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % sides
        };
        let mut largest = 0;
        for _ in 0..60 {
            let words: Vec<u64> = (0..4).map(|_| roll(32)).chain([31]).collect();
            let masks: Vec<_> =
                words.iter().map(|word| Some(CpuSet::from_words(&[*word]))).collect();
            let mut matching = Matching::new(&masks);
            let (mut free, mut waiting) = (Vec::<u16>::new(), Vec::<u32>::new());
            for at in (0..60).map(Nanos) {
                match roll(4) {
                    0 => {
                        let cpu = roll(5) as u16;
                        match free.iter().position(|other| *other == cpu) {
                            Some(place) => {
                                free.swap_remove(place);
                                matching.take(Cpu(cpu), at);
                            }
                            None => {
                                free.push(cpu);
                                matching.free(Cpu(cpu), at);
                            }
                        }
                    }
                    1 if !waiting.is_empty() => {
                        let place = roll(waiting.len() as u64) as usize;
                        matching.leave(waiting.swap_remove(place), at);
                    }
                    _ if waiting.len() < 5 => {
                        let class = roll(words.len() as u64) as u32;
                        waiting.push(class);
                        matching.wait(class, at);
                    }
                    _ => {}
                }
                let tasks: Vec<u64> = waiting.iter().map(|class| words[*class as usize]).collect();
                let size = by_trying(&free, &tasks);
                assert_eq!(matching.size(), size, "free {free:?}, may use {tasks:?}");
                largest = largest.max(size);
            }
        }
        assert!(largest >= 4, "the machines were too small to tell");
    }
}
