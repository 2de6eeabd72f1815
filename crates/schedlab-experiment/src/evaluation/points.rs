//! What is evaluated: methods, workloads, numbers of CPUs and speeds, as a plan for the run loop.

use crate::{Hooks, Plan, Planned, RunId, StoredRun};
use schedlab_model::{Cpu, CpuSet, Nanos, Setting};
use schedlab_stats::Random;
use schedlab_workload::knobs::SPEED;
use schedlab_workload::{Machine, MachineName, RunSpec, Speed, SpeedSettings, WorkloadSpec};
use std::collections::BTreeMap;

/// Tasks for each CPU in the workloads of several tasks, as the study's rates suggest.
const TASKS: usize = 5;

/// A way of slowing CPUs, as far as an evaluation knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slowing {
    /// Its name, as the setting `speed:method` has it.
    pub name: String,
    /// How long a run lasts at least until its speed is what it is.
    pub settles: Nanos,
    /// Whether it is another method on one CPU.
    pub only_several_cpus: bool,
}

#[cfg(test)]
impl Slowing {
    /// One that takes no time to settle, for any number of CPUs.
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), settles: Nanos::ZERO, only_several_cpus: false }
    }
}

/// A workload by which methods are judged: six of the study, and one that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Benchmark {
    /// The workload's name.
    pub(crate) name: &'static str,
    /// The metric that is its rate.
    pub(crate) rate: &'static str,
    /// What the rate counts.
    pub(crate) unit: &'static str,
    /// Options besides tasks and duration.
    options: &'static [(&'static str, &'static str)],
    cpus: Cpus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cpus {
    One,
    Any,
    Several,
}

pub(super) const BENCHMARKS: &[Benchmark] = &[
    Benchmark {
        name: "cpu",
        rate: "loops_per_s",
        unit: "loops/s",
        options: &[("work", "100us")],
        cpus: Cpus::One,
    },
    Benchmark {
        name: "udp",
        rate: "datagrams_per_s",
        unit: "datagrams/s",
        options: &[],
        cpus: Cpus::One,
    },
    Benchmark {
        name: "stream",
        rate: "bytes_per_s",
        unit: "bytes/s",
        options: &[("array", "8MiB")],
        cpus: Cpus::One,
    },
    Benchmark {
        name: "mixed",
        rate: "loops_per_s",
        unit: "loops/s",
        options: &[],
        cpus: Cpus::One,
    },
    Benchmark {
        name: "processes",
        rate: "loops_per_s",
        unit: "loops/s",
        options: &[("work", "100us")],
        cpus: Cpus::Any,
    },
    Benchmark {
        name: "threads",
        rate: "loops_per_s",
        unit: "loops/s",
        options: &[("work", "100us")],
        cpus: Cpus::Any,
    },
    Benchmark {
        name: "barrier",
        rate: "rounds_per_s",
        unit: "rounds/s",
        options: &[("work", "600us")],
        cpus: Cpus::Several,
    },
];

/// The workloads by the names that a user gave; all of them where there is none.
///
/// # Errors
/// With the first name that is unknown.
pub fn benchmarks(names: &[String]) -> Result<Vec<Benchmark>, String> {
    if names.is_empty() {
        return Ok(BENCHMARKS.to_vec());
    }
    let find = |name: &String| {
        let wrong = || {
            let all: Vec<&str> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
            format!("unknown microbenchmark '{name}': use {}", all.join(", "))
        };
        BENCHMARKS.iter().copied().find(|benchmark| benchmark.name == name).ok_or_else(wrong)
    };
    names.iter().map(find).collect()
}

impl Benchmark {
    fn fits(&self, cpus: usize) -> bool {
        match self.cpus {
            Cpus::One => cpus == 1,
            Cpus::Any => true,
            Cpus::Several => cpus > 1,
        }
    }

    fn tasks(&self, cpus: usize) -> usize {
        match self.cpus {
            Cpus::One => 1,
            Cpus::Any => TASKS * cpus,
            Cpus::Several => cpus,
        }
    }
}

/// What is evaluated.
#[derive(Clone, Debug)]
pub struct Evaluation {
    /// The methods; those that cannot be had here are left out, with why.
    pub(crate) methods: Vec<Slowing>,
    /// The workloads.
    pub benchmarks: Vec<Benchmark>,
    /// Numbers of CPUs.
    pub cpus: Vec<usize>,
    /// The speeds asked for.
    pub speeds: Vec<Speed>,
    /// How often each point is measured.
    pub repeats: u32,
    /// How long each time.
    pub time: Nanos,
    /// Methods that take longer to be what they are get that long.
    pub settles: bool,
}

impl Evaluation {
    /// All speeds from 10 % to 100 %, 40 times, as in the study: hours.
    #[must_use]
    pub fn full(methods: Vec<Slowing>) -> Self {
        let speeds = (1..=10).filter_map(|tenth| Speed::percent(tenth * 10)).collect();
        Self {
            speeds,
            repeats: 40,
            time: Nanos::from_secs(1),
            cpus: vec![1, 2, 4, 8],
            ..Self::short(methods)
        }
    }

    /// Three speeds, three times: under two minutes.
    #[must_use]
    pub fn short(methods: Vec<Slowing>) -> Self {
        Self {
            methods,
            benchmarks: BENCHMARKS.to_vec(),
            cpus: vec![1, 2],
            speeds: [25, 50, 75].into_iter().filter_map(Speed::percent).collect(),
            repeats: 3,
            time: Nanos::from_millis(150),
            settles: true,
        }
    }

    /// How long a run lasts under a method.
    fn time(&self, method: Option<&Slowing>) -> Nanos {
        match method.map(|method| method.settles) {
            Some(settles) if self.settles => self.time.max(settles),
            _ => self.time,
        }
    }

    /// Whether its numbers make sense.
    ///
    /// # Errors
    /// In a sentence, by the name of the option.
    pub fn check(&self) -> Result<(), String> {
        if self.repeats == 0 {
            return Err("invalid --repeats: use at least 1".into());
        }
        match (Nanos::from_millis(20)..=Nanos::from_secs(600)).contains(&self.time) {
            true => Ok(()),
            false => Err("invalid --time: use 20ms to 10m".into()),
        }
    }

    /// The runs on a machine, and what it cannot do.
    ///
    /// # Errors
    /// If the machine has none of the methods.
    pub fn prepare(&self, machine: &dyn Machine, on: &MachineName) -> Result<Prepared, String> {
        let allowed = &machine.offers().allowed;
        let (points, left_out) = self.points(machine, allowed);
        if points.iter().all(|point| point.method.is_none()) {
            return Err(format!("no method is available here: {}", left_out.join("; ")));
        }
        let plan = self.plan(&points, allowed, on);
        Ok(Prepared { plan, left_out, points })
    }

    /// The points, full speed among them, and what cannot be had here.
    fn points(&self, machine: &dyn Machine, allowed: &CpuSet) -> (Vec<Point>, Vec<String>) {
        let mut points = Vec::new();
        let mut left_out = Vec::new();
        for &cpus in &self.cpus {
            if cpus == 0 || cpus > allowed.len() {
                left_out.push(format!("{cpus} CPUs: this machine has {}", allowed.len()));
                continue;
            }
            for &benchmark in self.benchmarks.iter().filter(|b| b.fits(cpus)) {
                points.push(Point { method: None, benchmark, cpus, speed: Speed::FULL });
                let fitting = self.methods.iter().filter(|m| cpus > 1 || !m.only_several_cpus);
                let all = fitting.flat_map(|m| self.speeds.iter().map(move |speed| (m, *speed)));
                for (method, speed) in all {
                    let point = Point { method: Some(method.clone()), benchmark, cpus, speed };
                    match machine.check(&point.spec(self, 0, allowed)) {
                        Ok(_) => points.push(point),
                        Err(error) => left_out
                            .push(format!("{} on {cpus} CPUs at {speed}: {error}", method.name)),
                    }
                }
            }
        }
        let mut told = std::collections::BTreeSet::new();
        left_out.retain(|why| told.insert(why.clone()));
        (points, left_out)
    }

    /// Every point once, in an order of chance, then every point again: a machine that drifts drifts for all of them.
    fn plan(&self, points: &[Point], allowed: &CpuSet, on: &MachineName) -> Plan {
        let mut runs = Vec::new();
        for block in 0..self.repeats {
            let one = |point: &Point| {
                let spec = point.spec(self, block, allowed);
                Planned {
                    id: RunId::new(on, &spec),
                    workload: point.benchmark.name.to_owned(),
                    point: point.axes(),
                    block,
                    spec,
                    hooks: Hooks::default(),
                    machine: on.clone(),
                }
            };
            // At full speed some methods do nothing, so their points are one and the same run.
            let mut round: Vec<Planned> = Vec::new();
            for run in points.iter().map(one) {
                if round.iter().all(|other| other.id != run.id) {
                    round.push(run);
                }
            }
            Random::new(u64::from(block)).shuffle(&mut round);
            runs.extend(round);
        }
        Plan { runs }
    }
}

/// The runs of an evaluation on a machine.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The runs, in their order.
    pub plan: Plan,
    /// What cannot be had here, with why.
    pub left_out: Vec<String>,
    pub(super) points: Vec<Point>,
}

/// What a run takes besides its time: groups, guard, load and results.
const AROUND: Nanos = Nanos::from_millis(70);

impl Prepared {
    /// How many of the runs are not among the stored ones, and how long these will take.
    #[must_use]
    pub fn left(&self, stored: &[StoredRun]) -> (usize, Nanos) {
        // By the run's id: the folder's name goes on with the place.
        let is_left = |run: &&Planned| stored.iter().all(|stored| stored.manifest.id != run.id);
        let left = self.plan.runs.iter().filter(is_left).map(|run| (duration(run) + AROUND).0);
        left.fold((0, Nanos::ZERO), |(count, time), run| (count + 1, time + Nanos(run)))
    }
}

/// How long a planned run works.
fn duration(run: &Planned) -> Nanos {
    match &run.spec.workload {
        WorkloadSpec::Builtin { options, .. } => {
            options.get("duration").and_then(|text| text.parse().ok()).unwrap_or_default()
        }
        WorkloadSpec::Command { .. } => Nanos::ZERO,
    }
}

/// A point; full speed has no method.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) method: Option<Slowing>,
    pub(super) benchmark: Benchmark,
    pub(super) cpus: usize,
    pub(super) speed: Speed,
}

impl Point {
    /// The name of its method; `none` at full speed.
    pub(super) fn method_name(&self) -> &str {
        self.method.as_ref().map_or("none", |method| method.name.as_str())
    }

    /// How CPUs are slowed for it. At full speed by hogs, none of which is started then.
    fn settings(&self, allowed: &CpuSet) -> Vec<Setting> {
        let setting = |knob: &str, value: &str| Setting { knob: knob.into(), value: value.into() };
        // The last ones: CPU 0 has most of the interrupts.
        let all: Vec<Cpu> = allowed.iter().collect();
        let cpus: CpuSet = all.into_iter().rev().take(self.cpus).collect();
        let method = self.method.as_ref().map_or("hogs", |method| method.name.as_str());
        vec![
            setting(&format!("{SPEED}{cpus}"), &self.speed.to_string()),
            setting(SpeedSettings::METHOD, method),
            setting(SpeedSettings::MEASURING, "true"),
        ]
    }

    fn spec(&self, evaluation: &Evaluation, repeat: u32, allowed: &CpuSet) -> RunSpec {
        let time = evaluation.time(self.method.as_ref());
        let own = self.benchmark.options.iter();
        let mut options: BTreeMap<String, String> =
            own.map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        options.insert("duration".into(), format!("{}ns", time.0));
        options.insert("tasks".into(), self.benchmark.tasks(self.cpus).to_string());
        if self.benchmark.cpus == Cpus::Several {
            // One task on each CPU: what is asked is whether they stay in step.
            options.insert("place".into(), "spread".into());
        }
        RunSpec {
            workload: WorkloadSpec::Builtin { name: self.benchmark.name.to_owned(), options },
            beside: Vec::new(),
            settings: self.settings(allowed),
            record: None,
            seed: 0,
            repeat,
            time_limit: None,
        }
    }

    /// Its place on the axes, as run directories keep it.
    pub(super) fn axes(&self) -> crate::Point {
        BTreeMap::from([
            ("method".to_owned(), self.method_name().to_owned()),
            ("cpus".to_owned(), self.cpus.to_string()),
            ("speed".to_owned(), self.speed.to_string()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused_by_the_name_of_its_option() {
        let with = |repeats, time| Evaluation { repeats, time, ..Evaluation::short(Vec::new()) };
        let second = Nanos::from_secs(1);
        assert!(with(1, second).check().is_ok());
        assert!(with(0, second).check().unwrap_err().contains("--repeats"));
        assert!(with(1, Nanos::from_millis(19)).check().unwrap_err().contains("--time"));
        assert_eq!(benchmarks(&["udp".to_owned()]).unwrap()[0].unit, "datagrams/s");
        assert_eq!(benchmarks(&[]).unwrap().len(), 7);
        let unknown = benchmarks(&["warp".to_owned()]).unwrap_err();
        assert!(unknown.contains("unknown microbenchmark 'warp': use cpu, udp"), "{unknown}");
    }

    #[test]
    fn runs_that_settle_slowly_are_longer_unless_a_time_is_given() {
        let slow = Slowing { settles: Nanos::from_millis(400), ..Slowing::new("stop") };
        let short = Evaluation::short(vec![slow.clone(), Slowing::new("hogs")]);
        let ms = |evaluation: &Evaluation, of: Option<&Slowing>| evaluation.time(of).0 / 1_000_000;
        assert_eq!((ms(&short, Some(&slow)), ms(&short, None)), (400, 150));
        assert_eq!(ms(&short, Some(&short.methods[1])), 150);
        let named = Evaluation { settles: false, ..short };
        assert_eq!(ms(&named, Some(&slow)), 150);
        // One task on each CPU where threads meet, and the last CPUs of the machine.
        let barrier = *BENCHMARKS.last().unwrap();
        let speed = Speed::percent(50).unwrap();
        let point = Point { method: Some(slow), benchmark: barrier, cpus: 2, speed };
        let spec = point.spec(&named, 3, &CpuSet::first(4));
        assert_eq!(spec.settings[0].knob, "speed:2-3");
        assert_eq!((spec.settings[1].value.as_str(), spec.repeat), ("stop", 3));
        let WorkloadSpec::Builtin { options, .. } = &spec.workload else { panic!() };
        assert_eq!((options["tasks"].as_str(), options["place"].as_str()), ("2", "spread"));
    }
}
