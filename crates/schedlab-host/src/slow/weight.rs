//! Weights of the fair scheduler (Fracas): tasks of weight S against burners of weight B on the same
//! CPUs get S / (S + B), so B = S (1 - s) / s makes the speed s.
//!
//! Both lie in one group of [`OUTWEIGHS`] times the usual weight, so that the rest of the machine takes
//! little from them. A group's weight is divided over CPUs in proportion to its load there, hence the
//! faults that [`super::Method::fault`] tells.

use super::group::{Group, Weights, write};
use super::helper_process::HelperProcess;
use super::node_groups::{GroupNeeds, make};
use super::slices::Slices;
use super::{SlowError, Speed, Speeds, Support};
use schedlab_model::{Cpu, Nanos, Pid};
use schedlab_sys::cgroup::Version;
use schedlab_sys::guard::Guard;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grouping {
    One,
    /// Each CPU's in a group of its own.
    PerCpu,
}

/// Weights in force. The groups are undone by the guard; dropping it ends the burners.
#[derive(Debug)]
pub(super) struct Weight {
    weights: Weights,
    pub(super) tasks: PathBuf,
    groups: Vec<(Vec<Cpu>, PathBuf)>,
    speeds: Speeds,
    /// One for each CPU, in the order of the groups.
    pub(super) burners: Vec<HelperProcess>,
    /// `None` where the kernel takes no slices.
    slices: Option<Slices>,
}

impl Weight {
    /// Makes the groups below a zone's CPU group and starts the burners.
    pub(super) fn apply(
        zone: &Group,
        speeds: &Speeds,
        grouping: Grouping,
        wants: &GroupNeeds,
        support: &Support,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let Group { version, dir: top } = zone;
        let weights = Weights::of(*version);
        let hierarchy = support.cpu_group.as_ref().expect("the zone has a CPU group");
        weights.write(top, OUTWEIGHS * weights.of_a_task)?;
        if *version == Version::V2 {
            write(&top.join("cgroup.subtree_control"), "+cpu")?;
        }
        let tasks = top.join("tasks-of-the-node");
        make(hierarchy, &tasks, wants, guard)?;
        let burners = GroupNeeds { keep: None, ..wants.clone() };
        let mut made = Self {
            weights,
            slices: Slices::of(&tasks),
            tasks,
            groups: Vec::new(),
            speeds: speeds.clone(),
            burners: Vec::new(),
        };
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
                made.burners.push(super::burner::start(std::slice::from_ref(&dir), cpu, guard)?);
            }
        }
        made.write()?;
        Ok(made)
    }

    /// Changes the speed of a CPU (with one group: of all).
    pub(super) fn set(
        &mut self,
        cpu: Cpu,
        speed: Speed,
        guard: &mut Guard,
    ) -> Result<(), SlowError> {
        self.speeds.insert(cpu, speed);
        self.write()?;
        self.give_slices(guard)
    }

    /// How often there is a gap; zero for the kernel's slices, and `None` where it takes no others.
    pub(super) fn period(&self) -> Option<Nanos> {
        self.slices.as_ref().map(Slices::period)
    }

    /// Changes how often there is a gap (zero: by the kernel's slices), and gives slices to tasks that came meanwhile.
    pub(super) fn pace(&mut self, period: Nanos, guard: &mut Guard) -> Result<(), SlowError> {
        self.slices.iter_mut().for_each(|slices| slices.pace(period));
        self.give_slices(guard)
    }

    fn give_slices(&mut self, guard: &mut Guard) -> Result<(), SlowError> {
        let Some(slices) = &mut self.slices else { return Ok(()) };
        let cpus = self.groups.iter().flat_map(|(cpus, _)| cpus);
        let burners = self.burners.iter().zip(cpus);
        let burners: Vec<(Pid, Speed)> =
            burners.map(|(helper, cpu)| (helper.pid(), self.speeds[cpu])).collect();
        slices.give(&burners, guard)
    }

    fn write(&self) -> Result<(), SlowError> {
        let weights = self.weights;
        let slowest = self.speeds.values().min().copied().unwrap_or(Speed::FULL);
        let tasks = weights.tasks(slowest);
        weights.write(&self.tasks, tasks)?;
        for (cpus, dir) in &self.groups {
            let speed = cpus.first().map_or(Speed::FULL, |cpu| self.speeds[cpu]);
            weights.write(dir, weights.burners(tasks, speed))?;
        }
        Ok(())
    }
}

/// How much heavier tasks and burners together are than any other task. Burners never rest, and a task
/// that used a millisecond waits for this many before it has its next: at the largest weight there is
/// (256 times) a shell, and this program itself, stood still for seconds where all CPUs have a burner. Before
/// EEVDF, a sleeping group's saved time also grew with its weight, and the first second ran at full speed.
const OUTWEIGHS: u64 = 16;

/// Gives a group the largest weight there is. For groups without burners: those never rest.
pub(super) fn heaviest(group: &Group) -> Result<(), SlowError> {
    let weights = Weights::of(group.version);
    weights.write(&group.dir, weights.most)
}

impl Weights {
    fn tasks(self, slowest: Speed) -> u64 {
        let run = u64::from(slowest.millionths());
        let room = (self.most * run).checked_div(slowest.lost(1_000_000));
        room.map_or(self.usual, |room| self.usual.min(room).max(1))
    }

    /// The weight of burners beside tasks of a weight, rounded to the nearest.
    fn burners(self, tasks: u64, speed: Speed) -> u64 {
        let run = u64::from(speed.millionths());
        let lost = speed.lost(1_000_000);
        ((tasks * lost + run / 2) / run).clamp(self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::super::group::{V1, V2};
    use super::*;
    use std::path::Path;

    #[test]
    fn the_rest_of_the_machine_keeps_a_part() {
        for weights in [V1, V2] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join(weights.file);
            std::fs::write(&file, "").unwrap();
            weights.write(dir.path(), OUTWEIGHS * weights.of_a_task).unwrap();
            let weight = std::fs::read_to_string(&file).unwrap().parse::<u64>().unwrap();
            assert!(weight <= weights.most, "the kernel takes it");
            assert!(weights.of_a_task * 20 > weight, "a task beside it has a twentieth at least");
        }
    }

    #[test]
    fn the_weights_have_the_ratio_of_the_speed() {
        for weights in [V1, V2] {
            for percent in [1, 5, 10, 25, 50, 75, 90, 99] {
                let speed = Speed::percent(percent).unwrap();
                let tasks = weights.tasks(speed);
                let burners = weights.burners(tasks, speed);
                let taken = weights.least..=weights.most;
                let got = tasks as f64 / (tasks + burners) as f64;
                assert!((got - speed.fraction()).abs() < 0.000_5, "{percent}%: {got}");
                assert!(taken.contains(&tasks) && taken.contains(&burners));
            }
        }
        assert_eq!(V1.burners(4_096, Speed::FULL), 2);
    }

    #[test]
    fn cpus_of_unequal_speed_share_the_weight_of_their_tasks() {
        let dir = tempfile::tempdir().unwrap();
        let read = |group: &str| {
            let text = std::fs::read_to_string(dir.path().join(group).join("cpu.shares"));
            text.unwrap().parse::<f64>().unwrap()
        };
        let groups = [0, 1].map(|cpu| (vec![Cpu(cpu)], dir.path().join(format!("burners-{cpu}"))));
        let tasks = dir.path().join("tasks");
        for made in groups.iter().map(|(_, made)| made).chain([&tasks]) {
            crate::slow::group::fake(made, &["cpu.shares"]);
        }
        let speeds = Speeds::from([
            (Cpu(0), Speed::percent(10).unwrap()),
            (Cpu(1), Speed::percent(75).unwrap()),
        ]);
        let groups = groups.into();
        let burners = Vec::new();
        let mut weight = Weight { weights: V1, tasks, groups, speeds, burners, slices: None };
        let mut guard = Guard::arm_with(dir.path(), Path::new("/bin/true")).unwrap();
        weight.write().unwrap();
        let share = |cpu: u32| read("tasks") / (read("tasks") + read(&format!("burners-{cpu}")));
        assert!((share(0) - 0.10).abs() < 0.001 && (share(1) - 0.75).abs() < 0.001);
        weight.set(Cpu(1), Speed::percent(1).unwrap(), &mut guard).unwrap();
        assert!((share(0) - 0.10).abs() < 0.001 && (share(1) - 0.01).abs() < 0.001);
    }
}
