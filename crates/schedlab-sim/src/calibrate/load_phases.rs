//! What a recording says of the beginning and the end of a load.

use schedlab_model::{Left, Pid, What};
use schedlab_stats::Sample;
use schedlab_workload::Observed;
use std::collections::{BTreeMap, BTreeSet};

/// A time on a CPU.
#[derive(Clone, Copy, Debug)]
struct Slice {
    from: u64,
    to: u64,
    left: Left,
}

/// The events of a load by task.
#[derive(Debug, Default)]
pub(super) struct LoadEvents {
    /// The task that forked the others, and those in order.
    starter: Pid,
    children: Vec<Pid>,
    forks: Vec<u64>,
    slices: BTreeMap<Pid, Vec<Slice>>,
    marks: BTreeMap<Pid, Vec<u64>>,
    exits: BTreeMap<Pid, u64>,
    /// When the starter first woke a child: all were let go.
    go: u64,
    /// The kernel's RCU thread.
    rcu: Option<Pid>,
}

pub(super) fn median(values: impl IntoIterator<Item = u64>) -> Option<f64> {
    Sample::new(values.into_iter().map(|value| value as f64)).ok().map(|sample| sample.median())
}

impl LoadEvents {
    /// Finds the phases of a load in its recording.
    pub(super) fn of(seen: &Observed) -> Self {
        let mut forks: BTreeMap<Pid, Vec<(u64, Pid)>> = BTreeMap::new();
        for event in &seen.events {
            if let What::Fork { child } = event.what {
                forks.entry(event.by).or_default().push((event.time.0, child));
            }
        }
        let Some((&starter, born)) = forks.iter().max_by_key(|(_, born)| born.len()) else {
            return Self::default();
        };
        let rcu = seen
            .info
            .iter()
            .flat_map(|info| &info.comms)
            .find(|(_, comm)| comm.starts_with(b"rcu_"));
        let mut story = Self {
            starter,
            children: born.iter().map(|(_, child)| *child).collect(),
            forks: born.iter().map(|(at, _)| *at).collect(),
            rcu: rcu.map(|(pid, _)| *pid),
            ..Self::default()
        };
        story.follow(seen);
        story
    }

    fn follow(&mut self, seen: &Observed) {
        let children: BTreeSet<Pid> = self.children.iter().copied().collect();
        let mut since: BTreeMap<u16, u64> = BTreeMap::new();
        for event in &seen.events {
            let at = event.time.0;
            match event.what {
                What::Switch { prev, left, .. } => {
                    if let Some(from) = since.insert(event.cpu.0, at) {
                        self.slices.entry(prev).or_default().push(Slice { from, to: at, left });
                    }
                }
                What::Waking { pid, .. }
                    if self.go == 0 && event.by == self.starter && children.contains(&pid) =>
                {
                    self.go = at;
                }
                What::Mark { pid, .. } => self.marks.entry(pid).or_default().push(at),
                What::Exit { pid } => {
                    self.exits.insert(pid, at);
                }
                _ => {}
            }
        }
    }

    fn slices(&self, pid: Pid) -> &[Slice] {
        self.slices.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// The mean time between two forks, in nanoseconds.
    pub(super) fn fork(&self) -> Option<f64> {
        median(self.forks.windows(2).map(|pair| pair[1] - pair[0]))
    }

    /// Time on a CPU until a child first sleeps, and when that was.
    fn until_sleep(&self, pid: Pid) -> Option<(u64, u64)> {
        let mut sum = 0;
        for slice in self.slices(pid) {
            sum += slice.to - slice.from;
            if !slice.left.is_runnable() {
                return Some((sum, slice.to));
            }
        }
        None
    }

    /// A child's way to the start.
    pub(super) fn prepare(&self) -> Option<f64> {
        median(self.children.iter().filter_map(|&pid| Some(self.until_sleep(pid)?.0)))
    }

    /// From the moment at which the last child waits to the first that is let go.
    pub(super) fn begin(&self) -> Option<f64> {
        let ready = self.children.iter().filter_map(|&pid| Some(self.until_sleep(pid)?.1)).max()?;
        self.go.checked_sub(ready).map(|time| time as f64)
    }

    fn first_slice(&self, pid: Pid) -> Option<Slice> {
        self.slices(pid).iter().copied().find(|slice| self.go > 0 && slice.from >= self.go)
    }

    fn has_marks(&self, pid: Pid) -> bool {
        self.marks.contains_key(&pid)
    }

    /// A sender's way from its first slice to its first mark.
    pub(super) fn first(&self) -> Option<f64> {
        median(self.children.iter().filter_map(|&pid| {
            let slice = self.first_slice(pid)?;
            let mark = *self.marks.get(&pid)?.first()?;
            (slice.from..=slice.to).contains(&mark).then(|| mark - slice.from)
        }))
    }

    /// The first slice of a reader, which finds nothing to read.
    pub(super) fn first_read(&self) -> Option<f64> {
        let readers = self.children.iter().filter(|&&pid| !self.has_marks(pid));
        median(readers.filter_map(|&pid| {
            let slice = self.first_slice(pid)?;
            (!slice.left.is_runnable()).then(|| slice.to - slice.from)
        }))
    }

    /// Time on a CPU from a sender's last mark to its end.
    pub(super) fn exit(&self) -> Option<f64> {
        median(self.children.iter().filter_map(|pid| {
            let from = *self.marks.get(pid)?.last()?;
            let to = *self.exits.get(pid)?;
            let within = |slice: &Slice| {
                let begin = slice.from.max(from);
                let end = slice.to.min(to);
                end.saturating_sub(begin)
            };
            Some(self.slices(*pid).iter().map(within).sum())
        }))
    }

    /// What the starter does for a child that has ended.
    pub(super) fn reap(&self) -> Option<f64> {
        let first_end = self.exits.values().copied().min()?;
        let after = self.slices(self.starter).iter().filter(|slice| slice.from >= first_end);
        median(after.map(|slice| slice.to - slice.from))
    }

    /// A run of the kernel's RCU thread.
    pub(super) fn rcu(&self) -> Option<f64> {
        let rcu = self.rcu?;
        median(self.slices(rcu).iter().map(|slice| slice.to - slice.from))
    }
}
