//! The methods by name, and which one fits.

use super::{Speeds, Support, hogs};
use schedlab_model::Nanos;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Method {
    Hogs,
    Stop,
    StopGroup,
    Weight,
    /// A burner group for each CPU, as the study had it.
    WeightPerCpu,
    /// A group for each CPU that holds its tasks and its burner: right, for one pinned CPU a node.
    WeightPinned,
    Quota,
    Freq,
    Gov,
    /// Burners of `SCHED_DEADLINE`, each on a CPU that is a root domain of its own.
    Deadline,
    Uclamp,
}

pub const METHODS: &[(Method, &str, &str)] = &[
    (Method::Hogs, "hogs", "real-time burners on one grid of time: slows CPUs for every task"),
    (
        Method::Stop,
        "stop",
        "stops each process when its CPU time over its lifetime is above the speed",
    ),
    (Method::StopGroup, "stop-group", "as stop, decided for all processes of the command together"),
    (Method::Weight, "weight", "the command's control group against one group of burners"),
    (
        Method::WeightPerCpu,
        "weight-per-cpu",
        "the same with a burner group for each CPU (too slow when several are busy)",
    ),
    (
        Method::WeightPinned,
        "weight-pinned",
        "tasks and burner of one CPU in a group of their own: one CPU only",
    ),
    (Method::Quota, "quota", "a budget of CPU time in each period: one CPU only"),
    (Method::Freq, "freq", "the hardware level nearest to the speed"),
    (Method::Gov, "gov", "the two hardware levels around the speed, in alternation"),
    (
        Method::Deadline,
        "deadline",
        "SCHED_DEADLINE burners; nodes of one CPU, which is cut off from balancing",
    ),
    (Method::Uclamp, "uclamp", "a hint to the schedutil governor, and no limit"),
];

impl Method {
    #[must_use]
    pub fn name(self) -> &'static str {
        METHODS.iter().find(|(method, ..)| *method == self).map_or("", |(_, name, _)| name)
    }

    /// How long a task must run until its mean speed is within a few percent of the speed asked for. With
    /// `stop`, the CPU time of a task swings by some 20 ms where reading it is expensive, as on a virtual machine.
    #[must_use]
    pub const fn settles(self) -> Nanos {
        match self {
            Self::Stop | Self::StopGroup => Nanos::from_millis(400),
            _ => Nanos::ZERO,
        }
    }

    /// Whether it slows the processes of the command only, and not all that runs on the CPU.
    #[must_use]
    pub(crate) const fn is_for_command(self) -> bool {
        !matches!(self, Self::Hogs | Self::Freq | Self::Gov | Self::Deadline)
    }

    /// Whether its tasks are bound to the CPUs of their node in any case: what slows a group slows nothing when its
    /// tasks may go elsewhere.
    #[must_use]
    pub(crate) const fn binds(self) -> bool {
        !matches!(self, Self::Hogs | Self::Freq | Self::Gov | Self::Stop | Self::StopGroup)
    }

    /// Whether it takes CPU time away, so that the granted time shows the speed. Clocks do not.
    #[must_use]
    pub(crate) const fn takes_time(self) -> bool {
        !matches!(self, Self::Freq | Self::Gov | Self::Uclamp)
    }

    /// Whether the CPU idles while the slowed tasks may not run.
    #[must_use]
    pub(crate) const fn leaves_gaps(self) -> bool {
        matches!(self, Self::Quota | Self::Stop | Self::StopGroup)
    }

    pub(super) const fn has_slices(self) -> bool {
        matches!(self, Self::Weight | Self::WeightPerCpu | Self::WeightPinned)
    }

    /// Whether it needs the command bound to its one CPU.
    #[must_use]
    pub(crate) const fn is_for_one_cpu(self) -> bool {
        matches!(self, Self::Quota | Self::WeightPinned | Self::Deadline)
    }

    /// What is known to be wrong about the method, to be printed with its results; empty if nothing
    /// is.
    #[must_use]
    pub(crate) fn fault(self, cpus: usize, speed: f64) -> String {
        let percent = |part: f64| format!("{:.1}%", part * 100.0);
        let n = cpus as f64;
        match self {
            Self::Hogs | Self::WeightPinned | Self::Gov => String::new(),
            Self::Deadline => "each CPU is a separate root domain until the end, so the kernel \
                does not balance tasks between it and the others; burners do not run in step, so \
                threads on several CPUs that meet at barriers lose more than their speed"
                .into(),
            Self::Uclamp => "a hint for capacity, not a limit: any other task on the CPU raises \
                its clock again".into(),
            Self::Freq => "only the hardware's levels are available".into(),
            Self::Stop => "it limits each process by its average over life: several processes share one limit each, \
                           and time asleep is spent at full speed"
                .into(),
            Self::StopGroup => "it limits an average over life: time asleep is spent at full speed".into(),
            Self::Quota => "a budget, not a speed: work that sleeps is slowed only above the \
                budget, and its bursts run at full speed"
                .into(),
            // A group's weight is divided over the CPUs in proportion to its load there: with one of n
            // CPUs busy all of the tasks' weight meets an n-th of the burners'.
            Self::Weight if cpus > 1 => format!(
                "right when all {cpus} CPUs are busy; when k are, the speed is s n / (s n + k (1 - s)): {} for k = 1",
                percent(speed * n / (speed * n + 1.0 - speed))
            ),
            // With k CPUs busy each gets a k-th of the tasks' weight against a burner of full weight.
            Self::WeightPerCpu if cpus > 1 => format!(
                "right when one CPU is busy; when k are, the speed is s / (k - (k - 1) s): {} for k = {cpus}",
                percent(speed / (n - (n - 1.0) * speed))
            ),
            Self::Weight | Self::WeightPerCpu => {
                "its bursts after sleeping run at full speed: the tasks' group has saved up its turn".into()
            }
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        METHODS.iter().find(|(_, name, _)| *name == text).map(|(method, ..)| *method).ok_or_else(
            || {
                let names: Vec<&str> = METHODS.iter().map(|(_, name, _)| *name).collect();
                format!("unknown method '{text}': use auto, {}", names.join(", "))
            },
        )
    }
}

#[must_use]
pub(crate) fn choose(speeds: &Speeds, command: bool, support: &Support) -> (Method, String) {
    // By the machine and not by the speed: a sweep over speeds is then one of one method.
    let floor = f64::from(hogs::SLOWEST_PERCENT) / 100.0;
    let groups = support.cpu_group.is_some() && support.root;
    let Some(why) = support.realtime_obstacle(floor) else {
        return (
            Method::Hogs,
            "a speed for each CPU and every task: sleeping, barriers and several processes are \
             slowed correctly"
                .into(),
        );
    };
    match (groups, speeds.len()) {
        (true, 1) => {
            (Method::WeightPinned, format!("{why}; one CPU, with the command bound to it"))
        }
        (true, _) => (Method::Weight, format!("{why}; several CPUs of one speed")),
        _ if command && support.delegated => (
            Method::StopGroup,
            format!(
                "{why}; the control group that was given to us counts and freezes all processes together"
            ),
        ),
        _ if command => (Method::Stop, format!("{why}; stopping and continuing needs no right")),
        _ => (Method::Hogs, why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::Speed;
    use schedlab_model::Cpu;

    #[test]
    fn names_are_read_back() {
        for (method, name, _) in METHODS {
            assert_eq!(name.parse::<Method>().unwrap(), *method);
            assert_eq!(method.to_string(), *name);
        }
        assert!("fracas".parse::<Method>().unwrap_err().contains("weight"));
    }

    #[test]
    fn faults_of_weight_are_the_published_formulas() {
        // Two CPUs at a half: 1/3 with a group for each, 2/3 for one thread with one group.
        assert!(Method::WeightPerCpu.fault(2, 0.5).contains("33.3% for k = 2"));
        assert!(Method::Weight.fault(2, 0.5).contains("66.7% for k = 1"));
        assert!(Method::WeightPerCpu.fault(2, 0.25).contains("14.3%"));
    }

    #[test]
    fn auto_takes_hogs_where_they_can_be_and_says_why_not_elsewhere() {
        let speeds = |percent: &[u32]| -> Speeds {
            let cpus = (0u16..).map(Cpu);
            cpus.zip(percent.iter().map(|&p| Speed::percent(p).unwrap())).collect()
        };
        let support = Support::fake(4);
        assert_eq!(choose(&speeds(&[30, 75]), true, &support).0, Method::Hogs);
        // A machine has one method for every speed; one that this method does not have is refused.
        assert_eq!(choose(&speeds(&[5]), true, &support).0, Method::Hogs);
        for percent in [5, 50] {
            let tight = Support { realtime_share: 0.5, ..Support::fake(4) };
            let (method, why) = choose(&speeds(&[percent]), true, &tight);
            assert_eq!(method, Method::WeightPinned);
            assert!(why.contains("50% of each second"), "{why}");
            assert_eq!(choose(&speeds(&[percent, percent]), true, &tight).0, Method::Weight);
        }
        let given = Support { root: false, realtime: false, delegated: true, ..Support::fake(4) };
        assert_eq!(choose(&speeds(&[50]), true, &given).0, Method::StopGroup);
        let bare = Support { root: false, realtime: false, ..Support::fake(4) };
        assert_eq!(choose(&speeds(&[50]), true, &bare).0, Method::Stop);
    }
}
