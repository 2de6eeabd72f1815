//! A machine that is none: figures are a function of the spec, and it can be told to fail, stop or die.

use schedlab_model::Event;
use schedlab_model::*;
use schedlab_workload::*;
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) struct Fake<'s> {
    pub(crate) offers: Offers,
    pub(crate) ran: Vec<RunSpec>,
    /// Raises the user's wish to stop during the run of this index.
    pub(crate) stops_at: Option<(usize, &'s AtomicBool)>,
    /// The run of this index fails.
    pub(crate) fails_at: Option<usize>,
    /// `time_s` of a run, from its spec and how many ran before.
    pub(crate) time: fn(&RunSpec, usize) -> f64,
    /// Each look at the machine tells of an hour more of stolen time.
    pub(crate) steals_always: bool,
    /// Whether the time limit ends a run.
    pub(crate) censors: fn(&RunSpec) -> bool,
    /// The exit code of a run, from its spec and how many ran before.
    pub(crate) exit_code: fn(&RunSpec, usize) -> i32,
    /// The code of a warning that each run has.
    pub(crate) warns: Option<&'static str>,
    /// How many CPUs are busy before a run, by how many ran before it.
    pub(crate) busy: fn(usize) -> f64,
    /// The boot that the machine tells.
    pub(crate) boot: &'static str,
    /// The name of its frequency governor.
    pub(crate) governor: &'static str,
    /// The release of its kernel.
    pub(crate) kernel: &'static str,
    /// The sched_ext scheduler that a look at the machine tells, by how many looks there were.
    pub(crate) sched_ext: fn(u64) -> &'static str,
    /// Why it refuses a spec.
    pub(crate) refuses: fn(&RunSpec) -> Option<String>,
    /// Why it does not carry a metric.
    pub(crate) unmeasured: fn(&str) -> Option<String>,
    looks: std::cell::Cell<u64>,
    began: std::time::Instant,
}

impl Fake<'_> {
    pub(crate) fn new() -> Self {
        let knob = |name: &str, writable| Knob {
            name: name.into(),
            value: Some("3000000".into()),
            unit: "ns".into(),
            min: None,
            max: None,
            meaning: String::new(),
            r#where: String::new(),
            writable,
            why_not: if writable { String::new() } else { "debugfs is locked".into() },
        };
        Self {
            offers: Offers {
                machine: "fake".into(),
                topology: Topology::flat(2),
                allowed: CpuSet::first(2),
                knobs: vec![knob("slice", true), knob("base_slice", false)],
                recording: Fact::Unknown("not a machine".into()),
                speeds: Fact::Unknown("not a machine".into()),
                commands: Fact::Known(()),
                repeatable: false,
                parallel: false,
            },
            ran: Vec::new(),
            stops_at: None,
            fails_at: None,
            time: |_, n| 1.0 + n as f64 / 1000.0,
            steals_always: false,
            censors: |_| false,
            exit_code: |_, _| 0,
            warns: None,
            busy: |_| 0.0,
            boot: "first",
            governor: "performance",
            kernel: "6.1",
            sched_ext: |_| "",
            refuses: |_| None,
            unmeasured: |_| None,
            looks: std::cell::Cell::new(0),
            began: std::time::Instant::now(),
        }
    }
}

impl Machine for Fake<'_> {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    fn facts(&self) -> MachineFacts {
        let looks = self.looks.replace(self.looks.get() + 1);
        let mut facts = facts(if self.steals_always { looks * 3_600_000_000_000 } else { 0 });
        let spent = self.began.elapsed().as_nanos() as f64;
        facts.load.busy_ns = (spent * (self.busy)(self.ran.len())) as u64;
        facts.boot = Fact::Known(self.boot.into());
        facts.kernel.release = self.kernel.into();
        facts.frequency.governors = Fact::Known(vec![self.governor.into()]);
        facts.kernel.sched_ext = Fact::Known((self.sched_ext)(looks).into());
        facts
    }

    fn check(&self, spec: &RunSpec) -> Result<(), MachineError> {
        let machine = self.offers.machine.clone();
        let what = "run it".to_owned();
        let refused = |why| Err(MachineError::NotOffered { machine, what, why });
        (self.refuses)(spec).map_or(Ok(()), refused)
    }

    fn measures(&self, metric: &str) -> Result<(), String> {
        (self.unmeasured)(metric).map_or(Ok(()), Err)
    }

    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        self.check(spec)?;
        let index = self.ran.len();
        self.ran.push(spec.clone());
        if self.fails_at == Some(index) {
            return Err(MachineError::Load("the test asks for a failure".into()));
        }
        if let Some((_, stop)) = self.stops_at.filter(|(at, _)| *at == index) {
            stop.store(true, Ordering::Relaxed);
        }
        let time = Metric::new("time_s", Unit::Seconds, Better::Lower);
        let figure = Figure { metric: time, of: String::new(), value: (self.time)(spec, index) };
        out.figure(figure).map_err(|e| MachineError::io("figure", e))?;
        for (name, value) in [("switches_voluntary", 100.0), ("switches_involuntary", 10.0)] {
            let metric = Metric::new(name, Unit::Count, Better::Neither);
            let figure = Figure { metric, of: String::new(), value };
            out.figure(figure).map_err(|e| MachineError::io("figure", e))?;
        }
        for (sample, last) in [(5_000, false), (7_000, true)] {
            out.interval(&interval(sample, last));
        }
        out.interval_beside("noise", &interval(1, true));
        if spec.record.is_some() {
            trace(out).map_err(|e| MachineError::io("trace", e))?;
        }
        std::fs::write(out.path(Stream::Stdout), "Time: 1.0\n")
            .map_err(|e| MachineError::io("stdout", e))?;
        if let Some(code) = self.warns {
            out.warning(Warning::new(code, format!("the test asks for {code}"), ""));
        }
        let exit_code = (self.exit_code)(spec, index);
        Ok(Outcome { exit_code, interrupted: out.stopped(), censored: (self.censors)(spec) })
    }
}

/// A task waits for 2 µs: it is woken on CPU 1 and goes to CPU 0, where it runs; cause and effect at one time.
fn trace(out: &mut dyn Output) -> std::io::Result<()> {
    let mut info = TraceInfo::new("fake", Clock::Monotonic);
    info.cpus = CpuSet::first(2);
    out.trace(&info)?;
    let pid = Pid(7);
    let prio = Prio::NORMAL;
    let event = |time, cpu, what| Event {
        time: Nanos(time),
        by: Pid::IDLE,
        cpu: Cpu(cpu),
        context: Context::Task,
        what,
    };
    out.events(&[
        event(1_000, 1, What::Waking { pid, prio, last_cpu: Cpu(0) }),
        event(1_000, 0, What::Wakeup { pid, prio, cpu: Cpu(0), new: false }),
    ])?;
    let left = Left::Displaced;
    let idle = Pid::IDLE;
    let runs = What::Switch { prev: idle, prev_prio: prio, left, next: pid, next_prio: prio };
    out.events(&[event(3_000, 0, runs)])
}

/// One of two intervals of a run, each with a sample.
fn interval(sample: u64, last: bool) -> Interval {
    let of = |samples: &[u64]| {
        let mut histogram = schedlab_stats::Histogram::new();
        samples.iter().for_each(|&sample| histogram.record(sample));
        let metric = Metric::new("latency_ns", Unit::Nanoseconds, Better::Lower);
        vec![Series { metric, of: "task".into(), histogram }]
    };
    Interval {
        last,
        total: of(&[5_000, sample][usize::from(!last)..]),
        since: of(&[sample]),
        counts_since: vec![("loops".into(), 1)],
        ..Interval::default()
    }
}

pub(crate) fn facts(steal_ns: u64) -> MachineFacts {
    let unknown = || Fact::Unknown("not a machine".into());
    MachineFacts {
        schedlab: "0".into(),
        taken_at: "2026-01-01T00:00:00Z".into(),
        host: "fake <host>".into(),
        model: unknown(),
        memory_bytes: Fact::Known(1 << 30),
        hypervisor: Fact::Known(String::new()),
        kernel: KernelFacts {
            release: "6.1".into(),
            version: "#1".into(),
            build_id: unknown(),
            architecture: "x86_64".into(),
            command_line: unknown(),
            mitigations: unknown(),
            preemption: unknown(),
            config: Fact::Unknown("none".into()),
            sched_ext: unknown(),
            sched_ext_state: unknown(),
        },
        online: CpuSet::first(2),
        allowed: CpuSet::first(2),
        topology: Topology::flat(2),
        smt: Fact::Known(false),
        frequency: Frequency {
            governors: Fact::Known(vec!["performance".into()]),
            driver: unknown(),
            turbo: Fact::Known(false),
        },
        cgroup: CgroupFacts { version: unknown(), path: unknown(), cpu_limit: Fact::Known(None) },
        load: LoadFacts { steal_ns, ..LoadFacts::default() },
        boot: unknown(),
        clocksource: unknown(),
        knobs: Vec::new(),
        warnings: Vec::new(),
    }
}

/// An experiment, and its runs on a machine that takes this time for each.
pub(crate) fn runs(
    text: &str,
    time: fn(&RunSpec, usize) -> f64,
) -> (crate::Experiment, Vec<crate::StoredRun>) {
    let experiment = crate::Experiment::parse(text, std::path::Path::new("x.toml")).unwrap();
    let results = tempfile::tempdir().unwrap();
    let mut fake = Fake::new();
    fake.time = time;
    let plan = crate::Plan::new(&experiment);
    let mut machines = crate::Machines::one(&mut fake);
    crate::run_plan(&mut machines, &plan, results.path(), &|| false, &mut |_| ()).unwrap();
    (experiment, crate::runs_of(results.path()).unwrap().runs)
}

/// A few percent that differ from run to run.
pub(crate) fn jitter(n: usize) -> f64 {
    1.0 + (n * 7 % 11) as f64 / 300.0
}

/// Whether a knob of the run has this value.
pub(crate) fn has(spec: &RunSpec, value: &str) -> bool {
    spec.settings.iter().any(|setting| setting.value == value)
}
