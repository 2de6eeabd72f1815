//! The simulated machine as a [`Machine`]: the same specs as on the host, in virtual time.
//!
//! `name` reads which machine is wanted, `tuned` has the schedulers' knobs, `facts` what a result carries about the
//! machine, `file` reads files of machines, `run` performs and measures, `parts` has what is off by default, `pool` is an
//! executor of jobs whose workers are tasks of the machine.

mod code;
mod conditions;
mod each_cpu;
mod errors;
mod facts;
mod file;
mod groups;
mod likeness;
mod name;
mod of_code;
mod parts;
mod pool;
mod run;
mod scheduler;
mod setting;
mod tuned;

pub use file::MachineFile;
pub use likeness::Likeness;
pub use of_code::OfCode;
pub use pool::SimulatedPool;

pub use name::{CPUS_MAX, Kernel, MakePolicy, Model};

use crate::policy_view::Class;
use crate::policy_view::FULL_SPEED;
use crate::{Board, Config, Costs, Hardware, Preparation, Start, World};
use groups::{Grouping, OwnGroup};
use run::Run;
use schedlab_model::{Affinity, AtStart, Clock, Fact, Nanos, Setting, TraceInfo};
use schedlab_workload::jobs::Workers;
use schedlab_workload::knobs;
use schedlab_workload::measure::{Measuring, Shape};
use schedlab_workload::placement::MachineProperties;
use schedlab_workload::plan::{Placement, Plan, Policy};
use schedlab_workload::{
    Full, Machine, MachineError, MachineName, Offers, Outcome, Output, Recording, RunSpec, Speed,
    SpeedSettings, plans_around,
};
use std::sync::Arc;

/// A CPU at full speed does one iteration of the calibrated loop in a nanosecond.
const SPEED: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;
/// Repeats begin at phases of this period, as on a virtual machine: the longest tick that kernels have (100 Hz).
const PERIOD: u64 = 10_000_000;

/// Tracepoints of calls: with any of them, reads and writes of channels and uses of futexes are recorded.
const CALLS: [&str; 6] = [
    "syscalls:sys_enter_read",
    "syscalls:sys_exit_read",
    "syscalls:sys_enter_write",
    "syscalls:sys_exit_write",
    "syscalls:sys_enter_futex",
    "syscalls:sys_exit_futex",
];

/// A simulated machine, on which runs take virtual time.
pub struct Simulated {
    model: Model,
    offers: Offers,
    /// The code of a kernel, for one run.
    board: Option<Board>,
}

/// A CPU's speed changes.
#[derive(Clone, Copy)]
struct SpeedChange {
    /// Nanoseconds since the load began.
    after: u64,
    cpu: usize,
    /// In millionths of full speed.
    speed: u64,
}

/// A run that can begin.
struct Prepared {
    plan: Plan,
    /// Where the tasks are workers that run a graph of jobs.
    crew: Option<Arc<Workers>>,
    model: Model,
    hardware: Hardware,
    changes: Vec<SpeedChange>,
    grouping: Grouping,
    /// Whether tasks are of classes above the fair ones.
    above: bool,
}

impl Prepared {
    /// What the result says of the run: the errors of its kind of load, and what was not compared with a kernel.
    fn notes(&self, spec: &RunSpec) -> Vec<String> {
        let kernel = self.model.kernel.name();
        let mut notes = Vec::new();
        if self.model.topology.places().len() == 1 {
            let mut loads = self.parts();
            if loads.is_empty() {
                loads.push(errors::plain(&spec.workload));
            }
            let own =
                kernel.rsplit('-').next().and_then(|of| Costs::preset(&format!("icount-{of}")));
            let same = own.map(Costs::parse) == Some(Ok(self.model.costs));
            let costs = if same { "" } else { ", at other costs than this machine's" };
            notes.extend(errors::line(kernel, &loads).map(|line| line + costs));
        }
        if self.model.autogroup {
            let what = "autogroup=true: the load is one group, like a session";
            notes.push(format!("{what}; compared with a kernel on one CPU alone"));
        }
        let smt = self.model.smt_speed;
        if smt < FULL_SPEED {
            notes.push(format!(
                "smt-speed was not validated: a thread whose sibling is busy works at {} % of \
                 its speed",
                smt as f64 / 1e4
            ));
        }
        notes.extend(self.model.parts.notes());
        notes
    }

    /// Parts of the model beside plain fair tasks that the run uses.
    fn parts(&self) -> Vec<&'static str> {
        let tasks = self.plan.tasks.iter().map(|task| &task.placement);
        let has = |is: fn(&Placement) -> bool| tasks.clone().chain(&self.plan.places).any(is);
        let nice = has(|place| place.nice.is_some_and(|nice| nice != 0));
        let policies = has(|place| matches!(place.policy, Some(Policy::Batch | Policy::Idle)));
        let deadline = has(|place| matches!(place.policy, Some(Policy::Deadline { .. })));
        let real_time =
            has(|place| matches!(place.policy, Some(Policy::Fifo(_) | Policy::RoundRobin(_))));
        let groups = &self.grouping.groups;
        let all = [
            (nice, errors::NICE),
            (policies, errors::POLICIES),
            (real_time, errors::REAL_TIME),
            (deadline, errors::DEADLINE),
            (!groups.is_empty(), errors::GROUPS),
            (groups.iter().any(|group| group.limit.is_some()), errors::LIMITS),
        ];
        all.into_iter().filter_map(|(uses, part)| uses.then_some(part)).collect()
    }
}

impl Simulated {
    #[must_use]
    pub fn new(model: Model) -> Self {
        let recording = Recording { via: "exact".to_owned(), warnings: Vec::new() };
        let no = |why: &str| Fact::Unknown(why.to_owned());
        let offers = Offers {
            machine: model.name.clone(),
            topology: model.topology.clone(),
            allowed: model.topology.cpus(),
            knobs: model.knobs(),
            recording: Fact::Known(recording),
            speeds: Fact::Known(vec!["exact".to_owned()]),
            commands: no("the simulator runs only schedlab's workloads: use --on host"),
            repeatable: true,
            parallel: true,
        };
        Self { model, offers, board: None }
    }

    /// The machine with a scheduler of one's own. `make` is called for each run. Loads with real-time or deadline tasks, or
    /// with control groups, are refused as for `kernel=fifo`.
    #[must_use]
    pub fn with_policy(mut self, make: MakePolicy) -> Self {
        self.model.kernel = Kernel::Fifo;
        self.model.own = Some(make);
        self
    }

    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    fn refused(&self, what: &str, why: &str) -> MachineError {
        let machine = self.model.name.clone();
        MachineError::NotOffered { machine, what: what.to_owned(), why: why.to_owned() }
    }

    /// The plan of a spec, with what settings change in its tasks; and the machine that they leave.
    fn prepare(&self, spec: &RunSpec) -> Result<Prepared, MachineError> {
        let around = MachineProperties { speed: SPEED, ..self.offers.surroundings(spec.seed) };
        let own = plans_around(spec, &self.offers, &around)?.into_iter().next().flatten();
        let Some(mut plan) = own else {
            return Err(
                self.refused("run a command", "the simulator runs only schedlab's workloads")
            );
        };
        self.check_record(spec)?;
        if !spec.beside.is_empty() {
            let why = "the simulator runs one workload at a time: leave --beside out";
            return Err(self.refused("run workloads beside each other", why));
        }
        let jobs = plan.jobs.take();
        let crew = jobs.as_ref().map(|jobs| Workers::of(jobs, &mut plan, SPEED)).transpose();
        let crew = crew.map_err(|why| self.refused("run jobs", &why))?;
        if let Some(limit) = spec.time_limit {
            plan.limit(limit);
        }
        let mut model = self.model.clone();
        let mut hardware = self.model.hardware();
        if let Some(jobs) = jobs {
            // All tasks are workers, and each asks the kernel for this.
            let slack = &mut model.costs.timer_slack;
            *slack = jobs.timer_slack.0.min(*slack);
        }
        let (files, settings): (Vec<Setting>, Vec<Setting>) =
            spec.settings.iter().cloned().partition(|one| one.knob.starts_with(MachineName::FILE));
        self.check_files(&files)?;
        let (speeds, settings) = SpeedSettings::part(&settings);
        let changes = self.slow(&speeds, &mut hardware)?;
        let mut own = OwnGroup::default();
        for setting in &settings {
            if !self.groups_by(setting, &mut own)? {
                self.apply(setting, &mut plan, &mut model)?;
            }
        }
        let above = self.check_classes(&plan, &model)?;
        let moves = |place: &Placement| place.cgroup.is_some();
        if plan.places.iter().any(moves) {
            let why =
                "the simulator does not model tasks that change their control group while they run";
            return Err(self.refused("move tasks between groups", why));
        }
        let grouping = Grouping::of(&plan, &own, &model);
        if !grouping.groups.is_empty() && !model.kernel.is_linux() {
            let why = "this scheduler does not have control groups: use kernel=cfs-6.1 or \
                kernel=eevdf-6.12";
            return Err(self.refused("put tasks into groups", why));
        }
        Ok(Prepared { plan, crew, model, hardware, changes, grouping, above })
    }

    /// Whether the files that the machine's name names still say what they said when the run was planned.
    fn check_files(&self, planned: &[Setting]) -> Result<(), MachineError> {
        let changed = planned.iter().find(|one| {
            let now = self.model.files.iter().find(|file| file.knob == one.knob);
            now.is_some_and(|now| now.value != one.value)
        });
        let Some(file) = changed.and_then(|one| one.knob.strip_prefix(MachineName::FILE)) else {
            return Ok(());
        };
        let why = format!("'{file}' has changed since the run was planned: plan the runs again");
        Err(self.refused("run this", &why))
    }

    fn check_record(&self, spec: &RunSpec) -> Result<(), MachineError> {
        let Some(record) = &spec.record else { return Ok(()) };
        let has_frequencies = self.model.parts.has_frequencies();
        let known = |event: &String| {
            event.ends_with('?')
                || CALLS.contains(&event.as_str())
                || (has_frequencies && event == "power:cpu_frequency")
        };
        let plain = record.events.iter().all(known)
            && record.pids.is_empty()
            && record.filters.is_empty()
            && record.snapshot.is_none()
            && record.requests.is_empty()
            && record.full == Full::Stop;
        if !plain {
            let why = "the simulator records all scheduler events, and syscalls:sys_enter_read and its \
                like on request: leave out other events, filters, requests and --full overwrite";
            return Err(self.refused("record that", why));
        }
        Ok(())
    }

    /// Whether tasks are of classes above the fair ones, all of which the kernel would take.
    fn check_classes(&self, plan: &Plan, model: &Model) -> Result<bool, MachineError> {
        let places = plan.tasks.iter().map(|task| &task.placement).chain(&plan.places);
        let policies = places.filter_map(|place| place.policy);
        let mut above = false;
        for policy in policies {
            let Some(class) = Class::of(policy) else {
                return Err(
                    self.refused("run SCHED_EXT tasks", "the simulator does not model sched_ext")
                );
            };
            above |= class.is_above();
        }
        if above && !model.kernel.is_linux() {
            let why = "this scheduler does not have real-time and deadline tasks: use \
                kernel=cfs-6.1 or kernel=eevdf-6.12";
            return Err(self.refused("run real-time tasks", why));
        }
        let mut reserved = 0;
        for place in plan.tasks.iter().map(|task| &task.placement) {
            let Some(Class::Deadline(of)) = place.policy.and_then(Class::of) else { continue };
            reserved += of.bandwidth();
            if place.cpus.as_ref().is_some_and(|cpus| cpus.len() < model.topology.places().len()) {
                let why = "Linux accepts a deadline task only if it may use all CPUs (EPERM)";
                return Err(self.refused("bind a deadline task", why));
            }
        }
        let room = model.topology.places().len() as u64 * (95 << 20) / 100;
        if reserved > room {
            let why = "they reserve more than 95 % of the CPUs, which Linux refuses (EBUSY)";
            return Err(self.refused("run these deadline tasks", why));
        }
        Ok(above)
    }

    /// Reads a setting of the load's own control group; whether it is one.
    fn groups_by(&self, setting: &Setting, own: &mut OwnGroup) -> Result<bool, MachineError> {
        let name = setting.knob.as_str();
        if !matches!(name, "cgroup_weight" | "cgroup_max" | "cgroup_burst") {
            return Ok(false);
        }
        let wrong = |why: String| self.refused(&format!("set {name} to {}", setting.value), &why);
        let tunable = knobs::tunable(name).expect("the table has it");
        let text = knobs::read(tunable, &setting.value).map_err(wrong)?;
        let number = || -> Result<u64, MachineError> {
            text.parse().map_err(|_| wrong(format!("invalid value '{text}': use a whole number")))
        };
        match name {
            "cgroup_weight" => {
                own.weight = Some(u32::try_from(number()?).unwrap_or(u32::MAX).clamp(1, 10_000));
            }
            "cgroup_max" if text.split_whitespace().next() == Some("max") => own.quota = None,
            "cgroup_max" => {
                own.quota = Some(number()?.saturating_mul(1_000));
                if own.quota < Some(1_000_000) {
                    return Err(wrong("Linux accepts a quota of at least 1 ms".to_owned()));
                }
            }
            _ => own.burst = number()?.saturating_mul(1_000),
        }
        Ok(true)
    }

    /// Slows the CPUs that settings of speeds name.
    fn slow(
        &self,
        speeds: &[Setting],
        hardware: &mut Hardware,
    ) -> Result<Vec<SpeedChange>, MachineError> {
        let wrong = |why: String| self.refused("slow CPUs", &why);
        let (first, changes) = SpeedSettings::read_over_time(speeds).map_err(wrong)?;
        let cpus = hardware.cpus();
        let there = |cpu: schedlab_model::Cpu| match cpu.index() < cpus {
            true => Ok(cpu.index()),
            false => Err(wrong(format!("unknown CPU {cpu} on this machine"))),
        };
        let changes = changes.iter().map(|change| {
            let speed = u64::from(change.speed.millionths());
            Ok(SpeedChange { after: change.after.0, cpu: there(change.cpu)?, speed })
        });
        let changes = changes.collect::<Result<Vec<_>, MachineError>>()?;
        for (cpu, speed) in first.speeds {
            let cpu = there(cpu)?;
            let speed = u64::from(speed.millionths()).min(FULL_SPEED);
            hardware.set_speed(cpu, hardware.speed_of(cpu, speed));
        }
        Ok(changes)
    }

    fn apply(
        &self,
        setting: &Setting,
        plan: &mut Plan,
        model: &mut Model,
    ) -> Result<(), MachineError> {
        let wrong =
            |why: String| self.refused(&format!("set {} to {}", setting.knob, setting.value), &why);
        let places = plan.tasks.iter_mut().map(|task| &mut task.placement);
        let read = |name: &str| -> Result<i64, MachineError> {
            let tunable = knobs::tunable(name).expect("the table has it");
            let text = knobs::read(tunable, &setting.value).map_err(wrong)?;
            Ok(text.parse::<i64>().expect("a value with limits is a whole number"))
        };
        match setting.knob.as_str() {
            "policy" => {
                let policy = schedlab_workload::placement::policy(&setting.value);
                let policy = policy.map_err(|error| wrong(error.to_string()))?;
                places.for_each(|place| place.policy = Some(policy));
            }
            "nice" => {
                let nice = i32::try_from(read("nice")?).expect("it is within limits");
                places.for_each(|place| place.nice = Some(nice));
            }
            "slice" if model.has_slices() => {
                let slice = Nanos(read("slice")?.unsigned_abs());
                // Zero gives the machine's.
                let slice = Some(slice).filter(|slice| *slice != Nanos::ZERO);
                places.for_each(|place| place.slice = slice);
            }
            name => {
                let (name, value) = match name.strip_prefix(knobs::FEATURE) {
                    Some(feature) => {
                        (knobs::FEATURES, knobs::feature(feature, &setting.value).map_err(wrong)?)
                    }
                    None => (name, setting.value.clone()),
                };
                model.set(name, &value).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

/// Which run of a world it is, and what it is to have.
#[derive(Clone, Copy, Default)]
struct One {
    seed: u64,
    repeat: u32,
    records: bool,
    /// Whether tasks are of classes above the fair ones.
    above: bool,
}

impl Model {
    /// Its CPUs, as fast as they are.
    fn hardware(&self) -> Hardware {
        let mut hardware = Hardware::new(self.topology.clone());
        hardware.set_capacities(&self.parts.capacities);
        hardware
    }

    /// The world of a plan, before anything happens. A kernel's code enters the board.
    fn world(
        &self,
        plan: &mut Plan,
        hardware: Hardware,
        grouping: &Grouping,
        board: Option<Board>,
        run: One,
    ) -> World {
        let (start, begin_ns, costs) = match plan.in_place {
            Some(at) => (Start::InPlace, at.0.max(1), self.costs.of_recorded()),
            None => (Start::Forked, Config::default().begin_ns, self.costs),
        };
        // A kernel's code has been up for longer than two periods of its fair server, which its boot began.
        let uptime = if self.code.is_some() && plan.in_place.is_none() { 2 * SECOND } else { 0 };
        let config = Config {
            seed: run.seed,
            costs,
            start,
            tick_ns: SECOND / self.hz,
            preempt_kernel: self.preempt_kernel,
            record: run.records,
            begin_ns: begin_ns + uptime + phase(run.repeat),
            smt_speed: self.smt_speed,
            skew_tick: self.parts.skew_tick,
            turns: self.parts.turns,
            first_pid: if self.code.is_some() { first_pid(hardware.cpus()) } else { 1_001 },
        };
        let preparation = Preparation { seed: run.seed, ..self.preparation(grouping) };
        let policy = self.policy_of(&hardware, run.seed, &grouping.groups, run.above);
        let mut world = World::new(plan, hardware, policy, config);
        world.set_groups(grouping.groups.len(), &grouping.of, grouping.starter);
        if let Some(board) = board {
            world.follow_code(board, preparation);
        }
        self.parts.set_up(&self.topology, &mut world, run.seed);
        world
    }
}

/// What a trace says about itself before its first event.
fn trace_info(model: &Model, world: &World, plan: &Plan) -> TraceInfo {
    let mut info = TraceInfo::new("sim", Clock::Monotonic);
    info.cpus = model.topology.cpus();
    info.topology = Some(model.topology.clone());
    let affinity = |(task, _, view): (crate::TaskId, &str, &crate::TaskView)| Affinity {
        pid: world.pid(task),
        at: Nanos(world.now()),
        allowed: view.allowed.clone().unwrap_or_else(|| info.cpus.clone()),
    };
    let mut affinities: Vec<Affinity> = world.tasks().map(affinity).collect();
    affinities.sort_by_key(|one| one.pid);
    info.affinity = Some(affinities);
    // Nothing has begun: each CPU idles.
    info.at_start = Some(AtStart { idle: info.cpus.iter().collect(), ..AtStart::default() });
    info.conditions = Some(conditions::of(model, world, plan));
    info.comms = world.comms();
    info.marks = plan.marks.clone();
    info.others = world.other_formats().collect();
    info.kernel = Some(facts::kernel(model));
    info
}

/// The name of the mark of a change: `speed 1 30%`.
fn speed_mark(SpeedChange { cpu, speed, .. }: &SpeedChange) -> String {
    let speed = u32::try_from(*speed).ok().and_then(Speed::from_millionths).unwrap_or(Speed::FULL);
    format!("speed {cpu} {speed}")
}

/// The first pid behind those of a kernel's threads.
fn first_pid(cpus: usize) -> i32 {
    i32::try_from(1_001 + 10 * cpus).unwrap_or(i32::MAX / 2)
}

/// How long after a tick a repeat begins: a fraction of the period that is another one for each of the first repeats,
/// by the golden ratio (in 2^32nds); none for the first.
fn phase(repeat: u32) -> u64 {
    const GOLDEN: u32 = 2_654_435_769;
    (u64::from(repeat.wrapping_mul(GOLDEN)) * PERIOD) >> 32
}

impl Machine for Simulated {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    fn facts(&self) -> schedlab_model::MachineFacts {
        facts::of(&self.model, &self.offers.knobs)
    }

    fn check(&self, spec: &RunSpec) -> Result<(), MachineError> {
        self.prepare(spec).map(|_| ())
    }

    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        let prepared = self.prepare(spec)?;
        let notes = prepared.notes(spec);
        let Prepared { mut plan, crew, model, hardware, changes, grouping, above } = prepared;
        for note in plan.notes.iter().chain(&facts::notes(&model)).chain(&notes) {
            out.note(note);
        }
        let shape = Shape::of(&plan, &plan.tasks);
        let board = self.board.take();
        if model.code.is_some() != board.is_some() {
            let why = "a kernel's own code performs one run in a process of its own";
            return Err(self.refused("run this", why));
        }
        let of_fastest = |&SpeedChange { after, cpu, speed }: &SpeedChange| {
            (after, cpu, hardware.speed_of(cpu, speed))
        };
        let speeds: Vec<(u64, usize, u64)> = changes.iter().map(of_fastest).collect();
        let run =
            One { seed: spec.seed, repeat: spec.repeat, records: spec.record.is_some(), above };
        let mut world = model.world(&mut plan, hardware, &grouping, board, run);
        world.set_speeds_over_time(&speeds);
        world.boot();
        if let Some(record) = &spec.record {
            let calls = record.events.iter().any(|event| CALLS.contains(&event.as_str()));
            if calls {
                world.tell_calls();
            }
            world.tell_frequencies();
            let mut info = trace_info(&model, &world, &plan);
            world.mark_speeds(info.marks.len() as u32);
            info.marks.extend(changes.iter().map(speed_mark));
            out.trace(&info).map_err(|error| MachineError::io("storing the trace", error))?;
        }
        let began = world.began_at();
        let mut run = Run::new(&mut world, Measuring::new(plan, shape).in_virtual_time());
        let time = spec.record.as_ref().and_then(|record| record.time);
        run.keeps_until = time.map(|time| began + time.0);
        run.room = spec.record.as_ref().and_then(|record| record.limit_bytes);
        match crew {
            Some(crew) => run.perform_jobs(&crew, out),
            None => run.perform(out),
        }
    }
}
