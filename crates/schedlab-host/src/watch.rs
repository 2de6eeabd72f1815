//! What else used the machine while a run ran: other processes, the hypervisor, heat, frequencies.
//!
//! The machine is read before the run and after it, and rarely in between: a second after the begin, then
//! at doubling distances up to [`APART_MAX`], each time two small files a CPU. A run of less than a second is never
//! disturbed at all. What was found goes with the run as figures and, beyond the limits below, as warnings.

use crate::per_cpu::PerCpu;
use schedlab_model::{Better, CpuSet, Metric, Nanos, Unit, Warning};
use schedlab_sys::clock;
use schedlab_sys::process::CpuTimes;
use schedlab_sys::task::Resources;
use schedlab_workload::{Figure, MACHINE};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;

/// The first reading within a run comes after this time.
const FIRST: Nanos = Nanos::from_secs(1);
/// The greatest distance between two readings.
const APART_MAX: Nanos = Nanos::from_secs(8);
/// Others may use this part of all CPU time ...
const OTHERS_MAX: f64 = 0.05;
/// ... or this much in a short run: the kernel counts their time in ticks.
const OTHERS_FREE: Nanos = Nanos::from_millis(100);
/// Part of the CPU time between two readings that the hypervisor may take.
const STEAL_MAX: f64 = 0.1;
/// Within a run the mean frequency may fall by this part.
const FALL_MAX: f64 = 0.1;

/// The machine at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Reading {
    at: Nanos,
    /// CPU time of all processes since boot.
    busy: Nanos,
    /// CPU time that the hypervisor took since boot.
    steal: Nanos,
    /// How often a core was throttled for its heat since boot.
    throttles: u64,
    /// Mean frequency of the CPUs; `None` where the kernel does not tell.
    frequency_hz: Option<f64>,
}

/// A look at the machine that lasts as long as a run.
#[derive(Debug)]
pub(crate) struct Watch {
    cpus: CpuSet,
    before: Reading,
    per_cpu: PerCpu,
    times_before: CpuTimes,
    own_before: Nanos,
    thread: Option<(Sender<()>, JoinHandle<Vec<Reading>>)>,
}

impl Watch {
    /// Reads the machine's counters before a run.
    pub(crate) fn start(cpus: &CpuSet) -> Self {
        let times_before = CpuTimes::now();
        let own_before = own(&times_before);
        let before = read(Path::new("/"), cpus);
        let per_cpu = PerCpu::read(Path::new("/"));
        let (end, ends) = mpsc::channel();
        let watched = cpus.clone();
        let between = move || {
            let mut readings = Vec::new();
            let mut apart = FIRST;
            while ends.recv_timeout(apart.as_duration()) == Err(RecvTimeoutError::Timeout) {
                readings.push(read(Path::new("/"), &watched));
                apart = Nanos(apart.0 * 2).min(APART_MAX);
            }
            readings
        };
        // Without a thread there are only the readings before and after.
        let thread = std::thread::Builder::new().name("watch".into()).spawn(between).ok();
        let cpus = cpus.clone();
        let thread = thread.map(|t| (end, t));
        Self { cpus, before, per_cpu, times_before, own_before, thread }
    }

    /// Ends the watch: what it counted, and warnings about the run.
    pub(crate) fn finish(self) -> (Vec<Figure>, Vec<Warning>) {
        let mut readings = vec![self.before];
        if let Some((end, thread)) = self.thread {
            drop(end);
            readings.extend(thread.join().unwrap_or_default());
        }
        readings.push(read(Path::new("/"), &self.cpus));
        let times = CpuTimes::now();
        let own = own(&times) - self.own_before;
        let most = times.most_of_others(&self.times_before);
        let seen = Seen { readings, own, most, cpus: self.cpus.len().max(1) as f64 };
        let per_cpu = PerCpu::read(Path::new("/")).figures(&self.per_cpu, &self.cpus);
        ([seen.figures(), per_cpu].concat(), seen.doubts())
    }
}

/// CPU time of this process and of all that it started.
fn own(times: &CpuTimes) -> Nanos {
    let ended = [Resources::of_this_process(), Resources::of_children()];
    let ended = ended.iter().map(|used| used.user + used.system).fold(Nanos::ZERO, |a, b| a + b);
    ended + times.descendants
}

fn read(root: &Path, cpus: &CpuSet) -> Reading {
    let text = |path: PathBuf| std::fs::read_to_string(path).ok();
    let stat = text(root.join("proc/stat")).unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    let field = |index: usize| ticks.get(index).copied().unwrap_or(0) * clock::tick().0;
    let of_cpu = |cpu, file: &str| -> Option<u64> {
        text(root.join(format!("sys/devices/system/cpu/cpu{cpu}/{file}")))?.trim().parse().ok()
    };
    let throttles = cpus.iter().filter_map(|c| of_cpu(c, "thermal_throttle/core_throttle_count"));
    let khz: Vec<u64> = cpus.iter().filter_map(|c| of_cpu(c, "cpufreq/scaling_cur_freq")).collect();
    Reading {
        at: clock::monotonic(),
        // user nice system; time in interrupts is nobody's
        busy: Nanos([0, 1, 2].map(field).iter().sum()),
        steal: Nanos(field(7)),
        throttles: throttles.sum(),
        frequency_hz: (!khz.is_empty())
            .then(|| khz.iter().sum::<u64>() as f64 * 1e3 / khz.len() as f64),
    }
}

/// What was seen of a whole run; at least the readings before and after it.
struct Seen {
    readings: Vec<Reading>,
    own: Nanos,
    /// The name of the other processes that used the most, and how much.
    most: Option<(String, Nanos)>,
    cpus: f64,
}

impl Seen {
    fn whole(&self) -> (&Reading, &Reading) {
        let ends = self.readings.first().zip(self.readings.last());
        ends.expect("there are readings before and after")
    }

    /// CPU time that processes used which are not ours.
    fn others(&self) -> Nanos {
        let (first, last) = self.whole();
        last.busy - first.busy - self.own
    }

    fn figures(&self) -> Vec<Figure> {
        let (first, last) = self.whole();
        let tell = |name: &str, unit, value| Figure {
            metric: Metric::new(name, unit, Better::Neither),
            of: MACHINE.to_owned(),
            value,
        };
        let steal = last.steal - first.steal;
        let mut all = vec![
            tell("others_cpu_s", Unit::Seconds, self.others().as_secs_f64()),
            tell("steal_s", Unit::Seconds, steal.as_secs_f64()),
        ];
        // By name: the machine's label, and below it the name.
        all.extend(self.most.as_ref().map(|(name, used)| Figure {
            of: format!("{MACHINE}/{name}"),
            ..tell("others_cpu_s", Unit::Seconds, used.as_secs_f64())
        }));
        // The reading before belongs to an idle machine.
        let hz: Vec<f64> = self.readings.iter().skip(1).filter_map(|r| r.frequency_hz).collect();
        if !hz.is_empty() {
            let mean = hz.iter().sum::<f64>() / hz.len() as f64;
            all.push(tell("frequency_hz_mean", Unit::PerSecond, mean));
        }
        all
    }

    fn doubts(&self) -> Vec<Warning> {
        let (first, last) = self.whole();
        let mut out = Vec::new();
        let all = (last.at - first.at).as_secs_f64() * self.cpus;
        let others = self.others();
        if others > OTHERS_FREE && others.as_secs_f64() > OTHERS_MAX * all {
            let part = others.as_secs_f64() / all * 100.0;
            let most = match &self.most {
                Some((name, used)) if used.0 > others.0 / 4 => format!(", {name} the most"),
                _ => String::new(),
            };
            let what = format!(
                "other processes used {others}, {part:.0} % of all CPU time, during the run{most}"
            );
            out.push(Warning::new("others-ran", what, "stop other tasks, or wait"));
        }
        let throttled = last.throttles.saturating_sub(first.throttles);
        if throttled > 0 {
            let what = format!("cores were throttled {throttled} times because of heat");
            out.push(Warning::new("throttled", what, "cool the machine, or fix a lower frequency"));
        }
        out.extend(self.stolen());
        out.extend(self.slowed());
        out
    }

    /// Short thefts, which the share of a long run hides.
    fn stolen(&self) -> Option<Warning> {
        let worst = self
            .readings
            .windows(2)
            .filter(|pair| pair[1].at - pair[0].at >= Nanos::from_millis(500))
            .map(|pair| {
                let stolen = (pair[1].steal - pair[0].steal).as_secs_f64();
                stolen / ((pair[1].at - pair[0].at).as_secs_f64() * self.cpus)
            })
            .fold(0.0, f64::max);
        let what =
            format!("the hypervisor took {:.0} % of the CPU time for a while", worst * 100.0);
        let remedy = "measure when its other guests are quiet";
        (worst > STEAL_MAX).then(|| Warning::new("steal-burst", what, remedy))
    }

    /// A frequency that fell while the load ran: heat, or a budget of power.
    fn slowed(&self) -> Option<Warning> {
        let inside = self.readings.get(1..self.readings.len() - 1)?;
        let hz: Vec<f64> = inside.iter().filter_map(|r| r.frequency_hz).collect();
        let most = hz.iter().copied().fold(0.0, f64::max);
        let least = hz.iter().copied().fold(f64::MAX, f64::min);
        let what = format!(
            "the CPUs' mean frequency fell from {:.2} to {:.2} GHz",
            most / 1e9,
            least / 1e9
        );
        let remedy = "fix the frequency below what the machine can hold";
        (hz.len() >= 2 && least < (1.0 - FALL_MAX) * most)
            .then(|| Warning::new("frequency-fell", what, remedy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(seconds: u64, busy_ms: u64, steal_ms: u64, ghz: f64) -> Reading {
        Reading {
            at: Nanos::from_secs(seconds),
            busy: Nanos::from_millis(busy_ms),
            steal: Nanos::from_millis(steal_ms),
            throttles: 0,
            frequency_hz: Some(ghz * 1e9),
        }
    }

    fn codes(readings: Vec<Reading>, own_ms: u64) -> Vec<String> {
        let own = Nanos::from_millis(own_ms);
        let seen = Seen { readings, own, most: None, cpus: 2.0 };
        seen.doubts().into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn a_quiet_run_gives_no_doubt() {
        let readings =
            vec![reading(0, 0, 0, 1.0), reading(1, 1_990, 5, 3.0), reading(3, 5_980, 9, 3.0)];
        assert_eq!(codes(readings, 5_900), [""; 0]);
    }

    #[test]
    fn what_others_use_is_what_is_not_ours() {
        let readings = vec![reading(0, 0, 0, 3.0), reading(10, 8_000, 0, 3.0)];
        assert_eq!(codes(readings.clone(), 4_000), ["others-ran"]);
        assert_eq!(codes(readings, 7_100), [""; 0], "below five percent of twenty seconds");
        let short = vec![
            Reading::default(),
            Reading { at: Nanos::from_millis(100), ..reading(0, 90, 0, 3.0) },
        ];
        assert_eq!(codes(short, 0), [""; 0], "nothing can be said of some ticks");
    }

    #[test]
    fn a_short_theft_in_a_long_run_is_seen() {
        let mut readings: Vec<Reading> = (0..100).map(|s| reading(s, 0, 0, 3.0)).collect();
        readings[50..].iter_mut().for_each(|r| r.steal = Nanos::from_millis(600));
        assert_eq!(codes(readings.clone(), 0), ["steal-burst"]);
        let ends = vec![readings[0], readings[99]];
        assert_eq!(codes(ends, 0), [""; 0], "the ends alone hide it");
    }

    #[test]
    fn a_falling_frequency_counts_from_the_first_reading_of_the_load() {
        let at =
            |ghz: &[f64]| (0..).zip(ghz).map(|(s, g)| reading(s, 0, 0, *g)).collect::<Vec<_>>();
        assert_eq!(codes(at(&[0.8, 3.5, 3.5, 2.9, 0.8]), 0), ["frequency-fell"]);
        assert_eq!(
            codes(at(&[0.8, 3.5, 3.4, 0.8]), 0),
            [""; 0],
            "idle before and after is no fall"
        );
    }

    #[test]
    fn throttles_and_frequencies_are_read_from_the_kernels_files() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("proc/stat", "cpu  100 10 50 900 0 7 7 30 0 0\ncpu0 1 1 1 1\n");
        for (cpu, khz) in [(0, 3_000_000), (1, 2_000_000)] {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}");
            put(&format!("{folder}/cpufreq/scaling_cur_freq"), &format!("{khz}\n"));
            put(&format!("{folder}/thermal_throttle/core_throttle_count"), "4\n");
        }
        let found = read(root.path(), &CpuSet::first(2));
        let tick = clock::tick().0;
        assert_eq!((found.busy.0, found.steal.0, found.throttles), (160 * tick, 30 * tick, 8));
        assert_eq!(found.frequency_hz, Some(2.5e9));
    }

    #[test]
    fn a_watch_counts_what_this_process_and_its_children_use_as_ours() {
        let own = || super::own(&CpuTimes::now());
        let before = own();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; read x"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = schedlab_model::Pid(child.id().cast_signed());
        let used = || schedlab_sys::process::cpu_time(pid).unwrap_or_default();
        let deadline = clock::monotonic() + Nanos::from_secs(60);
        while used() < Nanos::from_millis(50) && clock::monotonic() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let living = used();
        assert!(own() - before >= living, "a living child is counted");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(own() - before >= living, "and one that was awaited");
    }
}
