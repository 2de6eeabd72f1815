//! How a run was spread over the CPUs: the least and the most that any of them did.
//!
//! Read before and after, from what the kernel counts anyway, so that nothing is added to the measured
//! load: time at work from `/proc/stat` (in ticks), run delay from `/proc/schedstat` (`CONFIG_SCHEDSTATS`), switches
//! from `sched/debug` of debugfs (mounted, and root). What a kernel does not tell is absent from the figures.

use schedlab_model::{Better, Cpu, CpuSet, Metric, Nanos, Unit};
use schedlab_sys::clock;
use schedlab_workload::Figure;
use std::collections::BTreeMap;
use std::path::Path;

/// Numbers by CPU since boot.
type ByCpu = BTreeMap<usize, u64>;

/// What all CPUs did since boot.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PerCpu {
    /// In tasks and interrupts, in nanoseconds.
    busy: ByCpu,
    /// For which tasks waited on its runqueue, in nanoseconds.
    run_delay: ByCpu,
    switches: ByCpu,
}

/// Fields of `/proc/stat` in which a CPU is at work: user, nice, system, irq, softirq.
const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
/// Fields in which no task has the CPU, although one may want it: irq, softirq, steal.
const TAKEN: [usize; 3] = [5, 6, 7];

/// The sum of some fields of `/proc/stat`, in nanoseconds.
fn stat(text: &str, fields: &[usize]) -> ByCpu {
    let line = |line: &str| {
        let (cpu, rest) = line.strip_prefix("cpu")?.split_once(' ')?;
        let ticks: Vec<u64> = rest.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let sum = fields.iter().filter_map(|&field| ticks.get(field)).sum::<u64>();
        Some((cpu.parse().ok()?, sum * clock::tick().0))
    };
    text.lines().filter_map(line).collect()
}

/// The time since boot that interrupts and the hypervisor took of a CPU, in whole ticks.
pub(crate) fn taken(cpu: Cpu) -> Nanos {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    Nanos(stat(&text, &TAKEN).get(&cpu.index()).copied().unwrap_or(0))
}

/// `/proc/schedstat` since version 15: the eighth number of a CPU is the time for which tasks waited.
fn run_delay(text: &str) -> ByCpu {
    let version = text.lines().find_map(|line| line.strip_prefix("version ")?.parse::<u32>().ok());
    if version.is_none_or(|version| version < 15) {
        return ByCpu::new();
    }
    let line = |line: &str| {
        let mut words = line.strip_prefix("cpu")?.split_whitespace();
        Some((words.next()?.parse().ok()?, words.nth(7)?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// `sched/debug`: a heading `cpu#N` and, below it, `.nr_switches : COUNT`.
fn switches(text: &str) -> ByCpu {
    let mut cpu: Option<usize> = None;
    let mut all = ByCpu::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("cpu#") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            cpu = digits.parse().ok();
        } else if let Some(rest) = line.trim_start().strip_prefix(".nr_switches") {
            let count = rest.trim_start_matches([' ', ':']).trim().parse().ok();
            all.extend(cpu.take().zip(count));
        }
    }
    all
}

impl PerCpu {
    /// Reads it, below `root`.
    pub(crate) fn read(root: &Path) -> Self {
        let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        Self {
            busy: stat(&text("proc/stat"), &BUSY),
            run_delay: run_delay(&text("proc/schedstat")),
            switches: switches(&text("sys/kernel/debug/sched/debug")),
        }
    }

    /// The least and the most of these CPUs since `before`; of one CPU there is no spread.
    pub(crate) fn figures(&self, before: &Self, cpus: &CpuSet) -> Vec<Figure> {
        let nanos = |ns: u64| Nanos(ns).as_secs_f64();
        let count = |n: u64| n as f64;
        let all = [
            spread("busy_per_cpu_s", Unit::Seconds, &self.busy, &before.busy, cpus, nanos),
            spread(
                "run_delay_per_cpu_s",
                Unit::Seconds,
                &self.run_delay,
                &before.run_delay,
                cpus,
                nanos,
            ),
            spread("switches_per_cpu", Unit::Count, &self.switches, &before.switches, cpus, count),
        ];
        all.into_iter().flatten().collect()
    }
}

fn spread(
    name: &str,
    unit: Unit,
    now: &ByCpu,
    before: &ByCpu,
    cpus: &CpuSet,
    value: impl Fn(u64) -> f64,
) -> Vec<Figure> {
    let of = |cpu: Cpu| {
        let now = now.get(&cpu.index())?;
        let before = before.get(&cpu.index())?;
        Some(now.saturating_sub(*before))
    };
    let all: Vec<u64> = cpus.iter().filter_map(of).collect();
    let (Some(&least), Some(&most), true) = (all.iter().min(), all.iter().max(), all.len() > 1)
    else {
        return Vec::new();
    };
    let figure = |end: &str, number: u64| Figure {
        metric: Metric::new(format!("{name}_{end}"), unit, Better::Neither),
        of: String::new(),
        value: value(number),
    };
    vec![figure("min", least), figure("max", most)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of three CPUs that counts all of it.
    fn tree(ticks: [u64; 3], delay: [u64; 3], switches: [u64; 3]) -> PerCpu {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, lines: Vec<String>| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, lines.join("\n")).unwrap();
        };
        let each = |line: &dyn Fn(usize) -> String| (0..3).map(line).collect::<Vec<_>>();
        let stat = each(&|n| format!("cpu{n} {} 0 1 900 900 1 1 0 0 0", ticks[n]));
        write("proc/stat", [vec!["cpu  9 9 9 9 9 9 9 9 9 9".to_owned()], stat].concat());
        let stats = each(&|n| format!("cpu{n} 0 0 7 6 5 4 300 {} 9\ndomain0 MC 7 1 2", delay[n]));
        write("proc/schedstat", [vec!["version 17\ntimestamp 1".to_owned()], stats].concat());
        let debug = each(&|n| {
            format!(
                "cpu#{n}, 2400.000 MHz\n  .nr_running : 0\n  .nr_switches                   : {}",
                switches[n]
            )
        });
        write("sys/kernel/debug/sched/debug", debug);
        PerCpu::read(folder.path())
    }

    #[test]
    fn the_least_and_the_most_of_the_cpus_are_told() {
        let before = tree([100; 3], [1_000; 3], [50; 3]);
        let after = tree([100, 150, 400], [1_000, 3_000_001_000, 5_000_001_000], [60, 50, 950]);
        let found: Vec<(String, f64)> = after
            .figures(&before, &CpuSet::first(3))
            .into_iter()
            .map(|figure| (figure.metric.name, figure.value))
            .collect();
        let tick = clock::tick().as_secs_f64();
        let expected = [
            ("busy_per_cpu_s_min", 0.0),
            ("busy_per_cpu_s_max", 300.0 * tick),
            ("run_delay_per_cpu_s_min", 0.0),
            ("run_delay_per_cpu_s_max", 5.0),
            ("switches_per_cpu_min", 0.0),
            ("switches_per_cpu_max", 900.0),
        ];
        assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
        // Of the first two alone.
        let two = after.figures(&before, &CpuSet::first(2));
        assert_eq!(two.last().map(|figure| figure.value), Some(10.0));
    }

    #[test]
    fn what_takes_a_cpu_from_tasks_are_interrupts_and_the_hypervisor() {
        let text = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 100 200 300 400 500 6 7 8 900 1000";
        assert_eq!(stat(text, &TAKEN), ByCpu::from([(1, 21 * clock::tick().0)]));
    }

    #[test]
    fn what_the_kernel_does_not_tell_is_absent() {
        let nothing = PerCpu::read(Path::new("/no/such/root"));
        assert!(nothing.figures(&nothing, &CpuSet::first(2)).is_empty());
        assert!(run_delay("version 14\ncpu0 1 2 3 4 5 6 7 8 9").is_empty());
        let one = tree([1; 3], [1; 3], [1; 3]);
        assert!(one.figures(&one, &CpuSet::first(1)).is_empty(), "one CPU has no spread");
    }
}
