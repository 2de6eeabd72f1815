//! The simulated machine through the traits that the host has too.

use schedlab_model::{Event, Nanos, Setting, Topology, TraceInfo, Warning, What};
use schedlab_sim::{Model, Simulated};
use schedlab_workload::{
    Figure, Interval, Machine, Observed, Output, RecordSpec, RunSpec, Stream, WorkloadSpec,
};
use std::collections::BTreeMap;

/// Keeps all that a run told.
#[derive(Default)]
struct Told {
    figures: BTreeMap<String, f64>,
    events: Vec<Event>,
    intervals: Vec<Interval>,
    traced: bool,
    marks: Vec<String>,
    warnings: Vec<Warning>,
    notes: Vec<String>,
}

impl Output for Told {
    fn path(&mut self, _: Stream) -> std::path::PathBuf {
        std::path::PathBuf::new()
    }
    fn figure(&mut self, figure: Figure) -> std::io::Result<()> {
        if figure.of.is_empty() {
            self.figures.insert(figure.metric.name, figure.value);
        }
        Ok(())
    }
    fn interval(&mut self, interval: &Interval) {
        self.intervals.push(interval.clone());
    }
    fn trace(&mut self, info: &TraceInfo) -> std::io::Result<()> {
        self.traced = info.topology.is_some();
        self.marks.clone_from(&info.marks);
        Ok(())
    }
    fn events(&mut self, events: &[Event]) -> std::io::Result<()> {
        self.events.extend_from_slice(events);
        Ok(())
    }
    fn warning(&mut self, warning: Warning) {
        self.warnings.push(warning);
    }
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
    fn stopped(&self) -> bool {
        false
    }
}

fn run(machine: &str, name: &str, options: &[(&str, &str)]) -> Told {
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
    let spec = RunSpec { record: Some(RecordSpec::default()), ..RunSpec::of(workload) };
    let model = Model::of(&machine.parse().unwrap(), None).unwrap();
    let mut told = Told::default();
    let outcome = Simulated::new(model).run(&spec, &mut told).unwrap();
    assert_eq!((outcome.exit_code, outcome.interrupted), (0, false));
    told
}

#[test]
fn a_run_has_figures_intervals_and_events_like_any_other() {
    for kernel in ["cfs-6.1", "eevdf-6.12", "fifo", "global-fifo", "llc-fifo"] {
        let machine = format!("sim:cpus=4,kernel={kernel}");
        let options = [("duration", "3s"), ("warmup", "1s"), ("interval", "1s"), ("tasks", "8")];
        let told = run(&machine, "mixed", &options);
        // The task that ends the load has to get a CPU.
        assert!((3.0..3.1).contains(&told.figures["time_s"]), "{kernel}: {:?}", told.figures);
        assert!(told.figures["loops"] > 0.0 && told.figures["burst_ns_p99"] > 0.0, "{kernel}");
        let last = told.intervals.last().unwrap();
        assert!(last.last && last.covers >= Nanos::from_secs(2), "{kernel}: {:?}", last.covers);
        assert!(told.traced && !told.events.is_empty(), "{kernel}");
    }
}

#[test]
fn a_part_of_a_machine_keeps_what_its_cpus_can_do() {
    let time = |from: &[usize]| {
        let name = "sim:cpus=4,capacity=0-1:512".parse().unwrap();
        let mut model = Model::of(&name, None).unwrap();
        model.arrange(Topology::flat(from.len() as u16), from);
        let options = [("tasks", "1"), ("duration", "200ms"), ("work", "1ms")];
        let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let workload = WorkloadSpec::Builtin { name: "mixed".to_owned(), options };
        let mut told = Told::default();
        Simulated::new(model).run(&RunSpec::of(workload), &mut told).unwrap();
        told.figures["burst_ns_p50"]
    };
    let (small, large) = (time(&[0, 1]), time(&[2, 3]));
    assert!((1.9..2.1).contains(&(small / large)), "{small} and {large}");
    // CPUs that the machine did not have are usual ones.
    assert_eq!(time(&[7, 8, 9]), large);
}

#[test]
fn a_run_that_ends_by_itself_has_its_time_and_switches() {
    let told = run("sim:cpus=2", "hackbench", &[("groups", "1"), ("loops", "20")]);
    assert_eq!(told.figures["messages"], 8_000.0);
    assert!(told.figures["switches_voluntary"] > 0.0 && told.figures["time_s"] > 0.0);
}

#[test]
fn a_task_that_is_balanced_twice_at_a_tick_stays_in_one_queue() {
    for seed in [1, 11, 18, 20, 26] {
        let options = [("message-threads", "2"), ("threads", "3"), ("runtime", "3")];
        let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let workload = WorkloadSpec::Builtin { name: "schbench".to_owned(), options };
        let spec = RunSpec { seed, ..RunSpec::of(workload) };
        let model = Model::of(&"sim:cpus=4,kernel=cfs-6.1".parse().unwrap(), None).unwrap();
        let mut told = Told::default();
        Simulated::new(model).run(&spec, &mut told).unwrap();
        assert!(told.figures["time_s"] > 2.9, "seed {seed}");
    }
}

/// What a run is asked for beside its workload.
fn settled(machine: &str, name: &str, options: &[(&str, &str)], settings: &[(&str, &str)]) -> Told {
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
    let setting =
        |&(knob, value): &(&str, &str)| Setting { knob: knob.to_owned(), value: value.to_owned() };
    let spec = RunSpec {
        record: Some(RecordSpec::default()),
        settings: settings.iter().map(setting).collect(),
        ..RunSpec::of(workload)
    };
    let model = Model::of(&machine.parse().unwrap(), None).unwrap();
    let mut told = Told::default();
    Simulated::new(model).run(&spec, &mut told).unwrap();
    told
}

/// Experiments ask the machine which knobs may be an axis.
#[test]
fn knobs_of_classes_and_groups_are_offered() {
    let names = |machine: &str| -> Vec<String> {
        let model = Model::of(&machine.parse().unwrap(), None).unwrap();
        Simulated::new(model).offers().knobs.iter().map(|knob| knob.name.clone()).collect()
    };
    let has = |machine: &str, name: &str| names(machine).iter().any(|one| one == name);
    assert!(has("sim:kernel=cfs-6.1", "rt_runtime") && has("sim:kernel=cfs-6.1", "cgroup_max"));
    assert!(has("sim:kernel=eevdf-6.12", "fair_server_runtime"));
    assert!(!has("sim:kernel=eevdf-6.12", "rt_runtime") && !has("sim:kernel=fifo", "cgroup_max"));
}

#[test]
fn classes_groups_and_speeds_are_reached_by_options_and_settings() {
    let load = [("duration", "200ms"), ("tasks", "2")];
    for kernel in ["cfs-6.1", "eevdf-6.12"] {
        let machine = format!("sim:cpus=1,kernel={kernel}");
        let busy = |told: &Told| {
            let mut ran = 0;
            let mut since = None;
            for event in &told.events {
                if let What::Switch { prev, next, .. } = event.what {
                    if let Some((pid, at)) = since.take()
                        && pid == prev
                    {
                        ran += event.time.0 - at;
                    }
                    since = (next.0 > 1_000).then_some((next, event.time.0));
                }
            }
            ran / 1_000_000
        };
        let real_time = settled(&machine, "cpu", &[load[0], load[1], ("policy", "rr:7")], &[]);
        let prio = |event: &Event| match event.what {
            What::Switch { next_prio, next, .. } if next.0 > 1_000 => Some(next_prio.0),
            _ => None,
        };
        // Forked as fair tasks, they ask for their class when they run first.
        let prios: Vec<i16> = real_time.events.iter().filter_map(prio).collect();
        assert_eq!(prios.iter().filter(|&&prio| prio != 92).count(), 2, "{prios:?}");
        assert!(real_time.notes.iter().any(|note| note.contains("real-time")));
        let whole = busy(&settled(&machine, "cpu", &load, &[]));
        // Periods of 6.12 begin by chance: one quota more fits into the load.
        let long = [("duration", "1s"), load[1]];
        let limited = settled(&machine, "cpu", &long, &[("cgroup_max", "25ms")]);
        let says = |told: &Told, what: &str| told.notes.iter().any(|note| note.contains(what));
        // Of groups and their limits, groups have the larger error.
        assert!(says(&limited, "for control groups on 1 CPU"));
        let quarter = busy(&limited);
        assert!(whole >= 195 && (245..=281).contains(&quarter), "{kernel}: {whole} {quarter}");
        let weighed = settled(&machine, "cpu", &[load[0], load[1], ("weight", "50")], &[]);
        assert!(says(&weighed, "for control groups on 1 CPU"));
        let grouped = settled(&format!("{machine},autogroup=true"), "cpu", &load, &[]);
        assert!(grouped.notes.iter().any(|note| note.contains("autogroup=true")));
        let slowed = settled(&machine, "cpu", &load, &[("speed:0", "100% 50%@100ms")]);
        let work = |told: &Told| told.figures["loops"];
        let (all, some) = (work(&settled(&machine, "cpu", &load, &[])), work(&slowed));
        assert!((0.70..0.80).contains(&(some / all)), "{kernel}: {some} of {all}");
    }
}

#[test]
fn a_result_names_the_parts_that_were_not_validated() {
    let load = [("tasks", "4"), ("duration", "20ms")];
    let told = run("sim:cpus=4", "cpu", &load);
    for setting in [
        "capacity=0:500",
        "noise=5%",
        "skew-tick=true",
        "turns=true",
        "irq=10us/1ms",
        "steal=0:2ms/10ms",
        "node-bandwidth=10GB",
        "llc-bandwidth=10GB",
    ] {
        let name = setting.split('=').next().unwrap();
        let named = |note: &String| note.starts_with(&format!("{name} was not validated"));
        let with = run(&format!("sim:cpus=4,{setting}"), "cpu", &load);
        assert!(with.notes.iter().any(named), "{setting}: {:?}", with.notes);
        assert!(!told.notes.iter().any(named), "{setting}");
    }
}

#[test]
fn a_speed_that_changes_is_a_mark_of_the_recording() {
    let load = [("duration", "200ms"), ("tasks", "2")];
    let told = settled("sim:cpus=2", "cpu", &load, &[("speed:0-1", "100% 50%@50ms 80%@150ms")]);
    // After the marks of the load itself.
    let first = told.marks.len() - 4;
    assert_eq!(told.marks[first..], ["speed 0 50%", "speed 1 50%", "speed 0 80%", "speed 1 80%"]);
    let mark = |event: &Event| match event.what {
        What::Mark { id, .. } => {
            let change = (id as usize).checked_sub(first)?;
            Some((change, event.cpu.0, event.time))
        }
        _ => None,
    };
    let mut seen: Vec<_> = told.events.iter().filter_map(mark).collect();
    // Of CPUs that change at one time, any may be the first.
    seen.sort_unstable();
    let placed: Vec<_> = seen.iter().map(|(change, cpu, _)| (*change, *cpu)).collect();
    assert_eq!(placed, [(0, 0), (1, 1), (2, 0), (3, 1)]);
    assert!(seen[0].2 == seen[1].2 && seen[2].2 - seen[0].2 == Nanos::from_millis(100));
}

#[test]
fn a_graph_of_jobs_has_the_figures_of_the_host_and_a_mark_for_each_job() {
    let options = [("shape", "stencil"), ("nodes", "60"), ("time", "100us"), ("load", "lock=20%")];
    let told = run("sim:cpus=4,kernel=eevdf-6.12", "jobs", &options);
    for name in [
        "run_time_s",
        "time_s",
        "tasks",
        "concurrency",
        "idle_s",
        "switches_voluntary",
        "cpu_user_s",
        "inflation",
        "management_ns",
        "impeded_s",
        "starved_ns_max",
        "lateness_ns_p99",
        "jobs",
    ] {
        assert!(told.figures.contains_key(name), "{name}: {:?}", told.figures.keys());
    }
    // Only lumiera's workers back off.
    let lumiera = [options.as_slice(), &[("executor", "lumiera")]].concat();
    let lumiera = run("sim:cpus=4,kernel=eevdf-6.12", "jobs", &lumiera);
    assert!(
        lumiera.figures.contains_key("back_off_ns") && !told.figures.contains_key("back_off_ns")
    );
    // 60 jobs of 100 us are 6 ms of work; on four workers they take a quarter of it at least.
    assert_eq!((told.figures["jobs"], told.figures["tasks"]), (60.0, 4.0));
    assert!(told.figures["cpu_user_s"] >= 0.006, "{}", told.figures["cpu_user_s"]);
    assert!(told.figures["time_s"] >= 0.0015, "{}", told.figures["time_s"]);
    let marks = told.events.iter().filter(|e| matches!(e.what, schedlab_model::What::Mark { .. }));
    assert_eq!(marks.count(), 120);
}

#[test]
fn jobs_that_are_not_done_in_time_and_executors_of_others_are_refused() {
    let try_run = |options: &[(&str, &str)], time_limit| {
        let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let workload = WorkloadSpec::Builtin { name: "jobs".to_owned(), options };
        let spec = RunSpec { time_limit, ..RunSpec::of(workload) };
        let model = Model::of(&"sim:cpus=2".parse().unwrap(), None).unwrap();
        Simulated::new(model).run(&spec, &mut Told::default()).unwrap_err().to_string()
    };
    let late = try_run(&[("nodes", "100"), ("time", "1ms")], Some(Nanos::from_millis(20)));
    assert!(late.contains("the jobs did not end within 20ms"), "{late}");
    let others = try_run(&[("executor", "rayon")], None);
    assert!(others.contains("the threads of rayon are those of a library"), "{others}");
}

#[path = "../../examples/own_scheduler.rs"]
#[expect(dead_code, reason = "its main writes files where it is called")]
mod own_scheduler;

#[test]
fn a_scheduler_of_ones_own_runs_the_loads_of_others() {
    let model = || Model::of(&"sim:kernel=fifo,cpus=2".parse().unwrap(), None).unwrap();
    let loads = [
        ("hackbench", None),
        ("pingpong", None),
        ("schbench", Some(("runtime", "1s"))),
        ("app", Some(("duration", "100ms"))),
    ];
    for (name, option) in loads {
        let options = option.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = options.into_iter().collect();
        let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
        let load = RunSpec { record: Some(RecordSpec::default()), ..RunSpec::of(workload) };
        let of_both =
            [own_scheduler::newest(model()), Simulated::new(model())].map(|mut machine| {
                let mut told = Observed::default();
                machine.run(&load, &mut told).unwrap();
                told
            });
        assert_ne!(of_both[0].events, of_both[1].events, "{name}");
        assert!(of_both.iter().all(|told| told.figures["time_s"] > 0.0), "{name}");
    }
    let groups = Setting { knob: "cgroup_max".to_owned(), value: "20ms".to_owned() };
    let workload = WorkloadSpec::Builtin { name: "hackbench".to_owned(), options: BTreeMap::new() };
    let load = RunSpec { settings: vec![groups], ..RunSpec::of(workload) };
    let refused = own_scheduler::newest(model()).run(&load, &mut Observed::default());
    assert!(refused.unwrap_err().to_string().contains("does not have control groups"));
}
