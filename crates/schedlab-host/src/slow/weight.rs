//! Weights of the fair scheduler (Fracas): tasks of weight S against burners of weight B on the same
//! CPUs get S / (S + B), so B = S (1 - s) / s makes the speed s.
//!
//! Both lie in one group of the largest weight, so that the rest of the machine takes little from
//! them. A group's weight is divided over CPUs in proportion to its load there, hence the faults that
//! [`super::Method::fault`] tells.

use super::burner::Burner;
use super::zone::{Wants, make, write};
use super::{Ground, SlowError, Speed, Speeds};
use schedlab_model::Cpu;
use schedlab_sys::cgroup::Version;
use schedlab_sys::guard::Guard;
use std::path::PathBuf;

/// How burners are grouped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    /// All of them in one group.
    One,
    /// Each CPU's in a group of its own.
    PerCpu,
}

/// Weights in force. The groups are undone by the guard; dropping it ends the burners.
#[derive(Debug)]
pub(super) struct Weight {
    version: Version,
    /// The group that the tasks enter.
    pub(super) tasks: PathBuf,
    groups: Vec<(Vec<Cpu>, PathBuf)>,
    _burners: Vec<Burner>,
}

impl Weight {
    /// Makes the groups below a zone's CPU group and starts the burners.
    pub(super) fn apply(
        zone: &(Version, PathBuf),
        speeds: &Speeds,
        grouping: Grouping,
        wants: &Wants,
        ground: &Ground,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let (version, top) = zone;
        let hierarchy = ground.cpu_group.as_ref().expect("the zone has a CPU group");
        heaviest(zone)?;
        if *version == Version::V2 {
            write(&top.join("cgroup.subtree_control"), "+cpu")?;
        }
        let tasks = top.join("tasks-of-the-node");
        make(hierarchy, &tasks, wants, guard)?;
        let burners = Wants { keep: false, ..wants.clone() };
        let mut made = Self { version: *version, tasks, groups: Vec::new(), _burners: Vec::new() };
        let cpus: Vec<Cpu> = speeds.keys().copied().collect();
        let parts: Vec<Vec<Cpu>> = match grouping {
            Grouping::One => vec![cpus],
            Grouping::PerCpu => cpus.into_iter().map(|cpu| vec![cpu]).collect(),
        };
        for (index, cpus) in parts.into_iter().enumerate() {
            let dir = top.join(format!("burners-{index}"));
            make(hierarchy, &dir, &burners, guard)?;
            made.groups.push((cpus.clone(), dir.clone()));
            for cpu in cpus {
                made._burners.push(Burner::start(std::slice::from_ref(&dir), cpu, guard)?);
            }
        }
        for (&cpu, &speed) in speeds {
            made.set(cpu, speed)?;
        }
        Ok(made)
    }

    /// Changes the speed of a CPU (with one group: of all).
    pub(super) fn set(&self, cpu: Cpu, speed: Speed) -> Result<(), SlowError> {
        for (_, dir) in self.groups.iter().filter(|(cpus, _)| cpus.contains(&cpu)) {
            let (tasks, burners) = pair(speed, least(self.version), most(self.version));
            write(&self.tasks.join(file(self.version)), &tasks.to_string())?;
            write(&dir.join(file(self.version)), &burners.to_string())?;
        }
        Ok(())
    }
}

/// Gives a group the largest weight there is.
pub(super) fn heaviest((version, dir): &(Version, PathBuf)) -> Result<(), SlowError> {
    write(&dir.join(file(*version)), &most(*version).to_string())
}

const fn file(version: Version) -> &'static str {
    match version {
        Version::V1 => "cpu.shares",
        Version::V2 => "cpu.weight",
    }
}

const fn least(version: Version) -> u64 {
    match version {
        Version::V1 => 2,
        Version::V2 => 1,
    }
}

const fn most(version: Version) -> u64 {
    match version {
        Version::V1 => 262_144,
        Version::V2 => 10_000,
    }
}

/// The weights of tasks and burners for a speed. The larger is a fixed large number, so that the
/// ratio errs by at most half a unit of the smaller.
fn pair(speed: Speed, least: u64, most: u64) -> (u64, u64) {
    let (run, lost) = (u64::from(speed.millionths()), speed.lost(1_000_000));
    // With a group for each CPU the tasks' weight is the same for all speeds above a half.
    let part = |of: u64, over: u64| ((most * of + over / 2) / over).max(least);
    if run >= lost { (most, part(lost, run)) } else { (part(run, lost), most) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pair_has_the_ratio_of_the_speed() {
        for (least, most) in [(2, 262_144), (1, 10_000)] {
            for percent in [1, 5, 10, 25, 50, 75, 90, 99] {
                let speed = Speed::percent(percent).unwrap();
                let (tasks, burners) = pair(speed, least, most);
                let got = tasks as f64 / (tasks + burners) as f64;
                assert!((got - speed.fraction()).abs() < 0.000_1, "{percent}%: {got}");
                assert!((least..=most).contains(&tasks) && (least..=most).contains(&burners));
            }
        }
        assert_eq!(pair(Speed::FULL, 2, 262_144), (262_144, 2));
    }
}
