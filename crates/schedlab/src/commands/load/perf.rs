//! `--format perf`: the text of `perf bench sched messaging` for hackbench, of `perf bench sched pipe`
//! for pingpong over a pipe.

use super::show::Measured;
use super::{Wanted, usage};
use schedlab_workload::WorkloadSpec;
use schedlab_workload::options::Options;
use schedlab_workload::placement::COMMON;
use schedlab_workload::upstream::perf;

/// Which of perf's benchmarks a workload is, with the options that its text depends on.
pub(super) enum Bench {
    Messaging { processes: bool, groups: u64, fds: u64 },
    Pipe { processes: bool },
}

impl Bench {
    /// The benchmark that does what is wanted.
    ///
    /// # Errors
    /// When perf has none.
    pub(super) fn of(wanted: &Wanted) -> anyhow::Result<Self> {
        let WorkloadSpec::Builtin { name, options } = &wanted.spec.workload else {
            return Err(usage("perf prints no text for a command"));
        };
        let tables = [wanted.workload.options, COMMON];
        let options = Options::new(&tables, options).map_err(usage)?;
        match name.as_str() {
            "hackbench" => Ok(Self::Messaging {
                processes: !options.flag("threads"),
                groups: options.number("groups"),
                fds: options.number("fds"),
            }),
            "pingpong" if options.text("via") == "pipe" && options.number("pairs") == 1 => {
                Ok(Self::Pipe { processes: options.flag("processes") })
            }
            "pingpong" => Err(usage(
                "option format: perf bench sched pipe is one pair over a pipe: leave out --via and --pairs",
            )),
            other => Err(usage(format!(
                "option format: perf bench has no text for {other}, only for hackbench and pingpong"
            ))),
        }
    }

    /// What perf would print; `simple`: only the seconds.
    pub(super) fn text(&self, measured: &Measured, simple: bool) -> String {
        let seconds = measured.value("time_s").unwrap_or(0.0);
        if simple {
            return perf::simple(seconds);
        }
        match *self {
            Self::Messaging { processes, groups, fds } => {
                perf::messaging(processes, groups, fds, seconds)
            }
            Self::Pipe { processes } => {
                let counts = measured.whole().map(|whole| whole.counts.as_slice());
                let mut counts = counts.unwrap_or_default().iter();
                let rounds = counts.find(|(name, _)| name == "round_trips").map_or(0, |c| c.1);
                perf::pipe(processes, rounds, seconds)
            }
        }
    }
}
