//! Methods in force: what was started or written for a plan, and how a speed is changed in it.

use super::clamp::Clamp;
use super::frequency::{Domain, PITCH, Setting};
use super::group::{Group, members, processes};
use super::helper_process::HelperProcess;
use super::hogs::{Burning, HogProcess};
use super::node_groups::{GroupNeeds, NodeGroups};
use super::quota::Quota;
use super::stop::{Limiter, Limits};
use super::weight::{Grouping, Weight};
use super::{Grid, Method, Node, Plan, SlowError, Speed, Speeds, Support};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::cgroup::Version;
use schedlab_sys::clock;
use schedlab_sys::guard::Guard;
use std::path::PathBuf;

#[derive(Debug)]
pub(super) enum NodeControl {
    /// Its CPUs are slowed, for all tasks there.
    Cpus,
    Stop(Limiter),
    Weight(Weight),
    Quota(Quota),
    /// The kernel gives a burner its part of the CPU.
    Deadline(HogProcess),
    Uclamp(Clamp),
}

/// A node's groups and what is in force on them.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) zone: NodeGroups,
    pub(super) hold: NodeControl,
    pub(super) groups: Vec<PathBuf>,
}

impl Held {
    /// Makes a node's groups and applies what is for its tasks.
    pub(super) fn apply(
        plan: &Plan,
        node: &Node,
        name: &str,
        support: &Support,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let method = plan.method;
        // Of the methods that bind, `deadline` alone slows the CPU and not the command.
        let grouped = method.binds() && method.is_for_command();
        let bind = match node.bind || method.binds() {
            true => node.cpus(),
            false => CpuSet::new(),
        };
        let us = Pid(std::process::id().cast_signed());
        let in_groups =
            || node.attach_groups.iter().find_map(|dir| processes(dir).first().copied());
        let attached = node.attach.first().copied().or_else(in_groups);
        let keep = attached.or(plan.request.keep.then_some(us));
        let wants = GroupNeeds { cpu: grouped || plan.request.heavy, bind, keep };
        let attaches = !node.attach.is_empty() || !node.attach_groups.is_empty();
        // Without root only our own children can be moved; the one that runs already is limited where it is.
        let zone = match attaches && !support.root {
            true => NodeGroups::default(),
            false => NodeGroups::create(name, &wants, support, guard)?,
        };
        let speed = node.speeds.values().next().copied().unwrap_or(Speed::FULL);
        let mut groups = zone.groups.clone();
        if plan.request.heavy
            && let Some(zone) = &zone.cpu
        {
            super::weight::heaviest(zone)?;
        }
        let cpu =
            || zone.cpu.as_ref().ok_or_else(|| SlowError::Missing("no CPU controller".into()));
        let hold = match method {
            Method::Hogs | Method::Freq | Method::Gov => NodeControl::Cpus,
            Method::Stop => NodeControl::Stop(Limiter::new(speed, Limits::Each, node.speeds.len())),
            Method::StopGroup => {
                let together = Limits::Together(zone.count().cloned());
                let limiter = Limiter::new(speed, together, node.speeds.len());
                NodeControl::Stop(match zone.freezer().filter(|_| zone.is_unified()) {
                    Some(freezer) => limiter.freezing(freezer, guard)?,
                    None => limiter,
                })
            }
            Method::Quota => {
                let request = &plan.request;
                NodeControl::Quota(Quota::apply(
                    cpu()?,
                    speed,
                    request.quota_period(),
                    request.quota_burst,
                )?)
            }
            Method::Uclamp => NodeControl::Uclamp(Clamp::apply(&cpu()?.dir, speed)?),
            Method::Deadline => NodeControl::Deadline(burner(plan, node, &zone, support, guard)?),
            Method::Weight | Method::WeightPerCpu | Method::WeightPinned => {
                let grouping =
                    if method == Method::WeightPerCpu { Grouping::PerCpu } else { Grouping::One };
                let top = cpu()?;
                let speeds = &node.speeds;
                let weight = Weight::apply(top, speeds, grouping, &wants, support, guard)?;
                // Tasks enter the node's part of the group, and the group itself elsewhere.
                groups.retain(|group| *group != top.dir);
                groups.push(weight.tasks.clone());
                NodeControl::Weight(weight)
            }
        };
        Ok(Self { zone, hold, groups })
    }

    /// Its processes; `roots` are the commands started in it, for machines without control groups.
    pub(super) fn processes(&self, roots: &[Pid]) -> Vec<Pid> {
        match &self.hold {
            // Version 2 has one group for all, and tasks are not beside their burners in it.
            NodeControl::Weight(weight) if self.zone.is_unified() => members(&weight.tasks),
            _ => self.zone.members_or_family(roots),
        }
    }

    /// CPU time that its tasks have used: by the counter of their group, else as far as the living ones tell. `None`
    /// where the counter cannot be read.
    pub(super) fn used(&self, processes: &[Pid]) -> Option<Nanos> {
        let Some(group) = self.zone.count() else {
            let of = |pid: &Pid| clock::cpu_of(*pid).map(|used| used.0);
            return Some(Nanos(processes.iter().filter_map(of).sum()));
        };
        let within = |dir| Group { version: group.version, dir }.usage();
        let all = group.usage()?;
        // Where one hierarchy holds all, burners lie beside the tasks or below them.
        match &self.hold {
            NodeControl::Weight(weight) if weight.tasks.starts_with(&group.dir) => {
                within(weight.tasks.clone())
            }
            NodeControl::Deadline(_) if group.version == Version::V2 => {
                let burner = within(group.dir.join("burner")).unwrap_or(Nanos::ZERO);
                Some(all - burner.min(all))
            }
            _ => Some(all),
        }
    }

    pub(super) fn aides(&mut self) -> &mut [HelperProcess] {
        match &mut self.hold {
            NodeControl::Deadline(burner) => std::slice::from_mut(burner.helper()),
            NodeControl::Weight(weight) => &mut weight.burners,
            _ => &mut [],
        }
    }

    pub(super) fn set(
        &mut self,
        cpu: Cpu,
        speed: Speed,
        guard: &mut Guard,
    ) -> Result<(), SlowError> {
        match &mut self.hold {
            NodeControl::Cpus => Ok(()),
            NodeControl::Stop(limiter) => {
                limiter.set(speed);
                Ok(())
            }
            NodeControl::Weight(weight) => weight.set(cpu, speed, guard),
            NodeControl::Quota(quota) => quota.set(speed),
            NodeControl::Deadline(burner) => burner.set(cpu, speed),
            NodeControl::Uclamp(clamp) => clamp.set(speed),
        }
    }
}

fn burner(
    plan: &Plan,
    node: &Node,
    zone: &NodeGroups,
    support: &Support,
    guard: &mut Guard,
) -> Result<HogProcess, SlowError> {
    let cpu = *node.speeds.keys().next().expect("checked: a node has a CPU");
    let group = super::deadline::partition(cpu, zone.cpuset(), support, guard)?;
    HogProcess::start(&node.speeds, plan.grid, Burning::Deadline { group }, guard)
}

/// Stops a filler at full speed, where there are no gaps, and lets it go on below. A filler that runs gets a slice now
/// and then when one process of the node ends and another one waits: gcc lost 3 % of its time at full speed.
fn rest(filler: &HelperProcess, speed: Speed) {
    filler.signal(if speed == Speed::FULL { 19 } else { 18 });
}

#[derive(Debug, Default)]
pub(super) struct Under {
    pub(super) hogs: Option<HogProcess>,
    fillers: Vec<(Cpu, HelperProcess)>,
    clocks: Vec<Clock>,
    gov: bool,
}

#[derive(Debug)]
struct Clock {
    domain: Domain,
    setting: Setting,
    /// Whether the second part of the pitch runs.
    second: bool,
    next: Nanos,
}

impl Under {
    pub(super) fn apply(
        plan: &Plan,
        speeds: &Speeds,
        support: &Support,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let mut under = Self { gov: plan.method == Method::Gov, ..Self::default() };
        if plan.fills {
            let groups = super::burner::idle_groups(support, guard)?;
            for (cpu, speed) in speeds {
                let filler = super::burner::fill(*cpu, &groups, guard)?;
                rest(&filler, *speed);
                under.fillers.push((*cpu, filler));
            }
        }
        match plan.method {
            // Full speed to compare with: not even a hog that wakes.
            Method::Hogs
                if plan.request.heavy && speeds.values().all(|speed| *speed == Speed::FULL) => {}
            Method::Hogs => {
                under.hogs = Some(HogProcess::start(speeds, plan.grid, Burning::Grid, guard)?);
            }
            Method::Freq | Method::Gov => {
                for domain in &support.domains {
                    let Some(speed) = domain.cpus.iter().find_map(|cpu| speeds.get(&cpu)) else {
                        continue;
                    };
                    domain.prepare(guard)?;
                    let clock = Clock {
                        domain: domain.clone(),
                        setting: Setting::One(0),
                        second: false,
                        next: Nanos::MAX,
                    };
                    under.clocks.push(clock);
                    let cpu = domain.cpus.iter().next().expect("it has the CPU found above");
                    under.set(cpu, *speed)?;
                }
            }
            _ => {}
        }
        Ok(under)
    }

    pub(super) fn set(&mut self, cpu: Cpu, speed: Speed) -> Result<(), SlowError> {
        if let Some(hogs) = &mut self.hogs {
            hogs.set(cpu, speed)?;
        }
        let fillers = self.fillers.iter().filter(|(filled, _)| *filled == cpu);
        fillers.for_each(|(_, filler)| rest(filler, speed));
        for clock in self.clocks.iter_mut().filter(|clock| clock.domain.cpus.contains(cpu)) {
            clock.setting = match self.gov {
                true => clock.domain.around(speed),
                false => Setting::One(clock.domain.nearest(speed)),
            };
            (clock.second, clock.next) = (true, Nanos::ZERO);
            match clock.setting {
                Setting::One(khz) => {
                    clock.next = Nanos::MAX;
                    clock.domain.write(khz)?;
                }
                Setting::Two { low, .. } | Setting::Frozen { low, .. } => {
                    clock.domain.write(low)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn pace(&mut self, grid: Grid) -> Result<(), SlowError> {
        self.hogs.as_mut().map_or(Ok(()), |hogs| hogs.pace(grid))
    }

    pub(super) fn aides(&mut self) -> impl Iterator<Item = &mut HelperProcess> {
        self.hogs
            .as_mut()
            .map(HogProcess::helper)
            .into_iter()
            .chain(self.fillers.iter_mut().map(|(_, filler)| filler))
    }

    /// When [`Under::tick`] must be called next.
    pub(super) fn next(&self) -> Nanos {
        self.clocks.iter().map(|clock| clock.next).min().unwrap_or(Nanos::MAX)
    }

    /// Alternates the clocks whose time has come. Below the lowest frequency tasks are frozen
    /// instead: returned is which CPUs' nodes shall stand still from now on, and which not.
    pub(super) fn tick(&mut self, now: Nanos) -> Result<Vec<(Cpu, bool)>, SlowError> {
        let mut frozen = Vec::new();
        for clock in self.clocks.iter_mut().filter(|clock| clock.next <= now) {
            clock.second = !clock.second;
            let first = match clock.setting {
                Setting::One(_) => Nanos::MAX,
                Setting::Two { low, low_time, high } => {
                    clock.domain.write(if clock.second { high } else { low })?;
                    low_time
                }
                Setting::Frozen { still, .. } => {
                    frozen.extend(clock.domain.cpus.iter().map(|cpu| (cpu, !clock.second)));
                    still
                }
            };
            // On a grid, so that what comes late does not add up.
            let pitch = Nanos(now.0 - now.0 % PITCH.0);
            clock.next = match first {
                Nanos::MAX => Nanos::MAX,
                _ if clock.second => pitch + PITCH,
                first => pitch + first,
            };
        }
        Ok(frozen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::{Request, frequency};

    #[test]
    fn gov_alternates_between_the_neighbours_and_freezes_below_the_lowest() {
        let tree = frequency::tests::tree();
        let journal = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(journal.path(), std::path::Path::new("/bin/true")).unwrap();
        let mut support = Support::fake(3);
        support.domains = frequency::domains(tree.path());
        let speed = "62.5%".parse().unwrap();
        let speeds: Speeds = CpuSet::first(2).iter().map(|cpu| (cpu, speed)).collect();
        let node = Node { name: "n".into(), speeds: speeds.clone(), ..Node::default() };
        let request =
            Request { method: Some(Method::Gov), nodes: vec![node], ..Request::default() };
        let plan = request.plan(&support).unwrap();
        let mut under = Under::apply(&plan, &speeds, &support, &mut guard).unwrap();
        let path = tree.path().join("devices/system/cpu/cpufreq/policy0/scaling_setspeed");
        let set = || std::fs::read_to_string(&path).unwrap();
        let mut seen = Vec::new();
        let mut now = Nanos::from_secs(1);
        for _ in 0..4 {
            assert!(under.tick(now).unwrap().is_empty());
            seen.push((set(), under.next() - now));
            now = under.next();
        }
        let half = Nanos(PITCH.0 / 2);
        assert_eq!(seen[0], ("1200000".to_owned(), half));
        assert_eq!(seen[1], ("1800000".to_owned(), half));
        assert_eq!(seen[2].0, "1200000");
        under.set(Cpu(0), Speed::percent(25).unwrap()).unwrap();
        assert_eq!(under.tick(now).unwrap(), [(Cpu(0), true), (Cpu(1), true)]);
        let later = under.next();
        assert_eq!(under.tick(later).unwrap(), [(Cpu(0), false), (Cpu(1), false)]);
    }
}
