//! Slices under weights. The kernel takes the CPU from a task after a slice of some milliseconds, and each such gap
//! costs the task what it had in caches. Where few gaps matter more than short ones, the tasks of a node have slices of
//! s P and its burners of (1 - s) P, so there is one gap in each period P.

use super::{SlowError, Speed, journalled};
use schedlab_model::{Nanos, Pid};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::slice;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Slices {
    tasks: PathBuf,
    usual: Nanos,
    /// All slices that tasks were given, each journalled. A slice that is not among them was set by somebody else.
    given: Vec<Nanos>,
    period: Nanos,
}

impl Slices {
    /// The kernel's slices, for the tasks of a group. `None` where the kernel takes no others.
    pub(super) fn of(tasks: &Path) -> Option<Self> {
        let tasks = tasks.to_owned();
        let usual = slice::usual()?;
        Some(Self { tasks, usual, given: Vec::new(), period: Nanos::ZERO })
    }

    /// How often there is a gap; zero for the kernel's slices.
    pub(super) const fn period(&self) -> Nanos {
        self.period
    }

    /// Changes how often there is a gap, from the next [`Slices::give`] on.
    pub(super) const fn pace(&mut self, period: Nanos) {
        self.period = period;
    }

    /// Gives slices to burners, each with the speed that it makes, and to the tasks, also to those that came meanwhile.
    pub(super) fn give(
        &mut self,
        burners: &[(Pid, Speed)],
        guard: &mut Guard,
    ) -> Result<(), SlowError> {
        let refused = |e| SlowError::io("giving tasks another slice", e);
        for (burner, speed) in burners {
            let slice = part(self.period, *speed, true);
            slice::give_one(*burner, None, slice).map_err(refused)?;
        }
        let slowest = burners.iter().map(|(_, speed)| *speed).min().unwrap_or(Speed::FULL);
        let slice = part(self.period, slowest, false);
        if slice != Nanos::ZERO && !self.given.contains(&slice) {
            journalled(guard, Undo::Slice { group: self.tasks.clone(), slice })?;
            self.given.push(slice);
        }
        let ours: Vec<Nanos> = self.given.iter().copied().chain([self.usual]).collect();
        slice::give(&self.tasks, &ours, slice).map_err(refused)
    }
}

/// The part of a period that tasks of a speed have, or what is lost to burners; zero stands for the kernel's slice.
fn part(period: Nanos, speed: Speed, lost: bool) -> Nanos {
    if period == Nanos::ZERO || speed == Speed::FULL {
        return Nanos::ZERO;
    }
    let gap = speed.lost(period.0);
    Nanos(if lost { gap } else { period.0 - gap }).clamp(*slice::RANGE.start(), *slice::RANGE.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_period_is_a_slice_of_the_tasks_and_one_of_the_burner() {
        let (ms, speed) = (Nanos::from_millis, |percent| Speed::percent(percent).unwrap());
        let both = |period, speed| (part(period, speed, false), part(period, speed, true));
        assert_eq!(both(ms(100), speed(20)), (ms(20), ms(80)));
        assert_eq!(both(ms(20), speed(80)), (ms(16), ms(4)));
        assert_eq!(both(ms(20), speed(100)), (Nanos::ZERO, Nanos::ZERO));
        assert_eq!(both(Nanos::ZERO, speed(20)), (Nanos::ZERO, Nanos::ZERO));
        assert_eq!(part(ms(2), speed(99), true), Nanos::from_micros(100), "the kernel's least");
    }

    #[test]
    fn tasks_have_the_slice_of_the_slowest_cpu_until_all_is_undone() {
        if slice::usual().is_none() {
            drop(writeln!(std::io::stderr(), "MISSING: slices of tasks (Linux 6.12)"));
            return;
        }
        let sleep = || std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut task = sleep();
        let mut burner = sleep();
        let of = |child: &std::process::Child| {
            schedlab_sys::sched::get(Pid(child.id().cast_signed())).unwrap().slice
        };
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("tasks"), format!("{}\n", task.id())).unwrap();
        let mut guard = Guard::arm_with(dir.path(), Path::new("/bin/true")).unwrap();
        let mut slices = Slices::of(dir.path()).unwrap();
        let usual = slices.usual;
        let ms = Nanos::from_millis;
        let burners = |percent| {
            let burner = Pid(burner.id().cast_signed());
            [90, percent].map(|percent| (burner, Speed::percent(percent).unwrap()))
        };
        slices.give(&burners(20), &mut guard).unwrap();
        assert_eq!((of(&task), of(&burner)), (usual, usual));
        slices.pace(ms(100));
        slices.give(&burners(20), &mut guard).unwrap();
        assert_eq!((of(&task), of(&burner)), (ms(20), ms(80)));
        slices.give(&burners(60), &mut guard).unwrap();
        assert_eq!((of(&task), of(&burner)), (ms(60), ms(40)));
        slices.pace(Nanos::ZERO);
        slices.give(&burners(60), &mut guard).unwrap();
        assert_eq!((of(&task), of(&burner)), (usual, usual));
        slices.pace(ms(20));
        slices.give(&burners(50), &mut guard).unwrap();
        assert_eq!(of(&task), ms(10));
        assert!(guard.finish().is_empty());
        assert_eq!(of(&task), usual, "as before");
        for child in [&mut task, &mut burner] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
