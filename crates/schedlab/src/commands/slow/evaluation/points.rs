//! What is evaluated: methods, workloads, numbers of CPUs and speeds, as a plan for the run loop.

use anyhow::bail;
use schedlab_experiment::{Plan, Planned, RunId};
use schedlab_host::slow::{METHODS, Method, Speed, last};
use schedlab_model::{CpuSet, Nanos, Setting};
use schedlab_stats::Random;
use schedlab_workload::knobs::SPEED;
use schedlab_workload::{Machine, MachineName, RunSpec, SpeedSettings, WorkloadSpec};
use std::collections::BTreeMap;

/// Tasks for each CPU in the workloads of several tasks, as the study's rates suggest.
const TASKS: usize = 5;

/// A workload by which methods are judged: six of the study, and one that it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Benchmark {
    /// The workload's name.
    pub(super) name: &'static str,
    /// The figure that is its rate, and what it counts.
    pub(super) rate: &'static str,
    pub(super) unit: &'static str,
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
pub(super) struct Evaluation {
    /// The methods; those that cannot be had here are left out, with why.
    pub(super) methods: Vec<Method>,
    pub(super) benchmarks: Vec<Benchmark>,
    /// Numbers of CPUs.
    pub(super) cpus: Vec<usize>,
    pub(super) speeds: Vec<Speed>,
    /// How often each point is measured.
    pub(super) repeats: u32,
    /// How long each time.
    pub(super) time: Nanos,
    /// Methods that take longer to be what they are get that long.
    pub(super) settles: bool,
}

impl Evaluation {
    /// All speeds from 10 % to 100 %, 40 times, as in the study: hours.
    pub(super) fn full() -> Self {
        let speeds = (1..=10).filter_map(|tenth| Speed::percent(tenth * 10)).collect();
        Self {
            speeds,
            repeats: 40,
            time: Nanos::from_secs(1),
            cpus: vec![1, 2, 4, 8],
            ..Self::short()
        }
    }

    /// Three speeds, three times: under two minutes.
    pub(super) fn short() -> Self {
        Self {
            methods: METHODS
                .iter()
                .map(|(method, ..)| *method)
                // One is a variant, the other ends balancing on the whole machine meanwhile.
                .filter(|method| !matches!(method, Method::StopGroup | Method::Deadline))
                .collect(),
            benchmarks: BENCHMARKS.to_vec(),
            cpus: vec![1, 2],
            speeds: [25, 50, 75].into_iter().filter_map(Speed::percent).collect(),
            repeats: 3,
            time: Nanos::from_millis(150),
            settles: true,
        }
    }

    /// How long a run lasts under a method.
    fn time(&self, method: Option<Method>) -> Nanos {
        match method.map(Method::settles) {
            Some(settles) if self.settles => self.time.max(settles),
            _ => self.time,
        }
    }
}

/// A point; full speed has no method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) method: Option<Method>,
    pub(super) benchmark: Benchmark,
    pub(super) cpus: usize,
    pub(super) speed: Speed,
}

impl Point {
    /// How CPUs are slowed for it. At full speed by hogs, none of which is started then.
    fn settings(&self, allowed: &CpuSet) -> Vec<Setting> {
        let setting = |knob: &str, value: String| Setting { knob: knob.to_owned(), value };
        let cpus = last(allowed, self.cpus);
        vec![
            setting(&format!("{SPEED}{cpus}"), self.speed.to_string()),
            setting(SpeedSettings::METHOD, self.method.unwrap_or(Method::Hogs).to_string()),
            setting(SpeedSettings::MEASURING, "true".to_owned()),
        ]
    }

    fn spec(&self, evaluation: &Evaluation, repeat: u32, allowed: &CpuSet) -> RunSpec {
        let time = evaluation.time(self.method);
        let mut options: BTreeMap<String, String> = self
            .benchmark
            .options
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
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
    pub(super) fn axes(&self) -> schedlab_experiment::Point {
        BTreeMap::from([
            ("method".to_owned(), self.method.map_or("none", Method::name).to_owned()),
            ("cpus".to_owned(), self.cpus.to_string()),
            ("speed".to_owned(), self.speed.to_string()),
        ])
    }
}

/// The points, full speed among them, and what cannot be had here.
pub(super) fn points(
    evaluation: &Evaluation,
    machine: &dyn Machine,
) -> anyhow::Result<(Vec<Point>, Vec<String>)> {
    let allowed = &machine.offers().allowed;
    let (mut points, mut left_out) = (Vec::new(), Vec::new());
    for &cpus in &evaluation.cpus {
        if cpus == 0 || cpus > allowed.len() {
            left_out.push(format!("{cpus} CPUs: this machine has {}", allowed.len()));
            continue;
        }
        for &benchmark in evaluation.benchmarks.iter().filter(|b| b.fits(cpus)) {
            points.push(Point { method: None, benchmark, cpus, speed: Speed::FULL });
            for &method in &evaluation.methods {
                if cpus == 1 && matches!(method, Method::WeightPerCpu | Method::WeightPinned) {
                    // On one CPU these are `weight`.
                    continue;
                }
                for &speed in &evaluation.speeds {
                    let point = Point { method: Some(method), benchmark, cpus, speed };
                    match machine.check(&point.spec(evaluation, 0, allowed)) {
                        Ok(_) => points.push(point),
                        Err(error) => {
                            let why = format!("{method} on {cpus} CPUs at {speed}: {error}");
                            if !left_out.contains(&why) {
                                left_out.push(why);
                            }
                        }
                    }
                }
            }
        }
    }
    if points.iter().all(|point| point.method.is_none()) {
        bail!("no method is available here: {}", left_out.join("; "));
    }
    Ok((points, left_out))
}

/// How long a run of [`plan`] works.
pub(super) fn duration(run: &Planned) -> Nanos {
    match &run.spec.workload {
        WorkloadSpec::Builtin { options, .. } => {
            options.get("duration").and_then(|text| text.parse().ok()).unwrap_or_default()
        }
        WorkloadSpec::Command { .. } => Nanos::ZERO,
    }
}

/// Every point once, in an order of chance, then every point again: a machine that drifts drifts for
/// all of them.
pub(super) fn plan(
    points: &[Point],
    evaluation: &Evaluation,
    allowed: &CpuSet,
    on: &MachineName,
) -> Plan {
    let mut runs = Vec::new();
    for block in 0..evaluation.repeats {
        let one = |point: &Point| {
            let spec = point.spec(evaluation, block, allowed);
            let workload = point.benchmark.name.to_owned();
            Planned {
                id: RunId::new(on, &spec),
                workload,
                point: point.axes(),
                block,
                spec,
                hooks: Default::default(),
                machine: on.clone(),
            }
        };
        // Points that are the same run (full speed of methods that then do nothing) are one.
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
