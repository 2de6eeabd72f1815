//! Loads recorded on the simulator, replayed there: what is inferred, and what the replays do.

use schedlab_model::{Event, EventSource, Kind, Nanos, Setting, TraceInfo, What};
use schedlab_replay::{Account, Infer, Inferred, MemorySource, Options, Side, Timer, parting};
use schedlab_sim::{Model, Simulated};
use schedlab_timeline::{Cut, ask};
use schedlab_workload::demand::{Demand, Source};
use schedlab_workload::{Machine, Observed, RecordSpec, RunSpec, WorkloadSpec};

/// Without the kernel's RCU thread: ticks wake it within their interrupt, after they looked who should run. A replay
/// wakes it in an interrupt of its own, so bursts part there.
const COSTS: &str = "rcu = 0";

type Pairs<'p> = &'p [(&'p str, &'p str)];

fn run(machine: &str, name: &str, options: Pairs<'_>, settings: Pairs<'_>) -> MemorySource {
    run_at(COSTS, machine, name, options, settings)
}

fn run_at(
    costs: &str,
    machine: &str,
    name: &str,
    options: Pairs<'_>,
    settings: Pairs<'_>,
) -> MemorySource {
    let options = options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let workload = WorkloadSpec::Builtin { name: name.to_owned(), options };
    let setting =
        |&(knob, value): &(&str, &str)| Setting { knob: knob.into(), value: value.into() };
    let settings = settings.iter().map(setting).collect();
    let spec = RunSpec { settings, record: Some(RecordSpec::default()), ..RunSpec::of(workload) };
    let model = Model::of(&machine.parse().unwrap(), Some(costs)).unwrap();
    let mut told = Observed::default();
    Simulated::new(model).run(&spec, &mut told).unwrap();
    MemorySource::new(told.info.unwrap(), told.events)
}

fn infer(recorded: &mut MemorySource) -> Inferred {
    recorded.rewind();
    let question = Infer::new(recorded.info(), Options::default());
    ask(recorded, question).unwrap().answer
}

fn replay(machine: &str, demand: &Demand, settings: Pairs<'_>) -> MemorySource {
    run(machine, "replay", &[("program", &demand.to_string())], settings)
}

/// What both runs must have alike: who ran, was woken, moved and forked, where and when.
fn essence(kept: &MemorySource, until: Nanos) -> Vec<String> {
    let kinds =
        [Kind::Switch, Kind::Waking, Kind::Wakeup, Kind::WakeupNew, Kind::Migrate, Kind::Fork];
    let told = |event: &&Event| event.time < until && kinds.contains(&event.what.kind());
    let line = |event: &Event| format!("{} {} {:?}", event.time.0, event.cpu.0, event.what);
    kept.events().iter().filter(told).map(line).collect()
}

/// The recording, and its replay under the same conditions.
fn both(machine: &str, name: &str, options: Pairs<'_>) -> (MemorySource, Inferred, MemorySource) {
    let mut recorded = run(machine, name, options, &[]);
    let inferred = infer(&mut recorded);
    let replayed = replay(machine, &inferred.demand, &[]);
    (recorded, inferred, replayed)
}

fn assert_same(recorded: &MemorySource, replayed: &MemorySource) {
    let end = recorded.events().last().unwrap().time;
    let (first, second) = (essence(recorded, end), essence(replayed, end));
    assert!(first.len() > 100, "{} events", first.len());
    for (at, (one, two)) in first.iter().zip(&second).enumerate() {
        assert_eq!(one, two, "event {at} of {}", first.len());
    }
    assert_eq!(first.len(), second.len());
}

#[test]
fn a_periodic_task_is_replayed_event_for_event() {
    let options = [("duration", "300ms"), ("work", "300us"), ("sleep", "2ms")];
    for kernel in ["cfs-6.1", "eevdf-6.12"] {
        let machine = format!("sim:cpus=1,kernel={kernel}");
        let (recorded, _, replayed) = both(&machine, "mixed", &options);
        assert_same(&recorded, &replayed);
    }
}

#[test]
fn a_ping_pong_pair_is_replayed_event_for_event() {
    for via in ["pipe", "futex"] {
        // Not a duration: its end may fall into a call.
        let options = [("rounds", "2000"), ("via", via)];
        let (recorded, inferred, replayed) = both("sim:cpus=1", "pingpong", &options);
        assert_same(&recorded, &replayed);
        let pair: Vec<_> = inferred.accounts.iter().filter(|one| one.by_task > 100).collect();
        let [one, two] = pair[..] else { panic!("{:?}", inferred.accounts) };
        let most = |account: &Account| account.waker.unwrap();
        assert_eq!((most(one).0, most(two).0), (two.pid, one.pid), "each wakes the other");
        assert!(most(one).1 + 5 > one.by_task, "{one:?}");
    }
}

#[test]
fn tasks_that_compete_are_replayed_event_for_event() {
    let options = [("duration", "200ms"), ("work", "3ms"), ("sleep", "1ms"), ("tasks", "3")];
    let (recorded, _, replayed) = both("sim:cpus=1,kernel=cfs-6.1", "mixed", &options);
    assert_same(&recorded, &replayed);
}

#[test]
fn timers_and_sources_are_told_apart() {
    let program = r#"{"tasks": {
        "periodic": {"loop": 40, "run": 500, "timer": {"ref": "unique", "period": 5000, "mode": "absolute"}},
        "relative": {"loop": 40, "run": 700, "sleep": 3000}}}"#;
    // Without slack: timers that are due within it fire together, which blurs a period.
    let costs = format!("{COSTS}\ntimer_slack = 0");
    let mut recorded = run_at(&costs, "sim:cpus=1", "rt-app", &[("program", program)], &[]);
    let inferred = infer(&mut recorded);
    let of = |name: &str| inferred.accounts.iter().find(|one| one.comm == name).unwrap();
    let Timer::Periodic(period) = of("periodic").timer else { panic!("{:?}", of("periodic")) };
    assert!(period.0.abs_diff(5_000_000) < 20_000, "{period}");
    let Timer::Relative(sleep) = of("relative").timer else { panic!("{:?}", of("relative")) };
    assert!(sleep.0.abs_diff(3_000_000) < 20_000, "{sleep}");
    assert_eq!((of("periodic").source, of("relative").source), (Source::Open, Source::Closed));
}

/// CPU time of all tasks that began with a name.
fn cpu_time(kept: &mut MemorySource, prefix: &str) -> u64 {
    kept.rewind();
    let side = Side::of(kept, Cut::default(), false).unwrap();
    side.tasks.values().filter(|task| task.comm.starts_with(prefix)).map(|task| task.ran.0).sum()
}

#[test]
fn demand_and_delays_under_other_policies_are_predicted() {
    // Recorded under CFS; what EEVDF and other knobs do is predicted and then simulated.
    let loads: [(&str, Pairs<'_>); 3] = [
        ("mixed", &[("duration", "2s"), ("work", "3ms"), ("sleep", "4ms"), ("tasks", "4")]),
        ("mixed", &[("duration", "2s"), ("work", "700us"), ("sleep", "1ms"), ("tasks", "3")]),
        ("schbench", &[("runtime", "2"), ("message-threads", "1"), ("threads", "3")]),
    ];
    let changes: [(&str, Pairs<'_>); 4] = [
        ("sim:cpus=1,kernel=eevdf-6.12", &[]),
        ("sim:cpus=1,kernel=eevdf-6.12", &[("base_slice", "12ms")]),
        (
            "sim:cpus=1,kernel=cfs-6.1",
            &[("min_granularity", "12ms"), ("wakeup_granularity", "20ms")],
        ),
        ("sim:cpus=1,kernel=fifo", &[]),
    ];
    let mut errors = Vec::new();
    for (name, options) in loads {
        let mut recorded = run("sim:cpus=1", name, options, &[]);
        let demand = infer(&mut recorded).demand;
        let mut again = replay("sim:cpus=1", &demand, &[]);
        let (was, is) = (cpu_time(&mut recorded, ""), cpu_time(&mut again, ""));
        assert!(was.abs_diff(is) * 100 <= was, "{name}: {was} {is}: demand within 1 %");
        for (machine, settings) in changes {
            let cut = Cut { from: Some(Nanos::from_millis(500)), to: Some(Nanos::from_secs(2)) };
            let mut truth = run(machine, name, options, settings);
            let mut guess = replay(machine, &demand, settings);
            let truth = Side::of(&mut truth, cut, true).unwrap();
            let guess = Side::of(&mut guess, cut, true).unwrap();
            for quantile in [0.5, 0.99] {
                let of = |side: &Side| side.total.run_delay.quantile(quantile).unwrap_or(0) as f64;
                let error = (of(&guess) - of(&truth)).abs() / of(&truth).max(1_000.0);
                errors.push((error, format!("{name} {machine} {settings:?} p{quantile}")));
            }
        }
    }
    errors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = errors[errors.len() / 2].0;
    assert!(median <= 0.05, "median {median}: {errors:#?}");
}

#[test]
fn a_parting_is_the_first_switch_that_differs() {
    let options = [("duration", "300ms"), ("work", "3ms"), ("sleep", "1ms"), ("tasks", "3")];
    let (mut recorded, inferred, mut same) = both("sim:cpus=1", "mixed", &options);
    let mut other = replay("sim:cpus=1", &inferred.demand, &[("min_granularity", "20ms")]);
    let cut = Cut { from: None, to: Some(Nanos::from_millis(250)) };
    let side = |kept: &mut MemorySource| {
        kept.rewind();
        Side::of(kept, cut, false).unwrap()
    };
    let (first, second, third) = (side(&mut recorded), side(&mut same), side(&mut other));
    assert_eq!(parting(&first, &second, Nanos::ZERO), None);
    let parting = parting(&first, &third, Nanos::ZERO).unwrap();
    assert!(parting.at < Nanos::from_millis(250) && parting.agreed > 0, "{parting:?}");
}

#[test]
fn what_interrupts_wake_is_no_work_of_the_bystander() {
    let (_, inferred, _) = both("sim:cpus=1", "mixed", &[("duration", "100ms"), ("tasks", "2")]);
    let tasks: Vec<&Account> =
        inferred.accounts.iter().filter(|one| one.by_interrupt > 10).collect();
    assert_eq!(tasks.len(), 2, "{:?}", inferred.accounts);
    // Only the start of the load wakes them by a task.
    assert!(tasks.iter().all(|one| one.by_task <= 2), "{tasks:?}");
}

#[test]
fn traces_without_wakeups_from_the_middle_and_with_losses_are_replayed_and_said() {
    let options = [("duration", "300ms"), ("work", "2ms"), ("sleep", "1ms"), ("tasks", "4")];
    let whole = run("sim:cpus=2", "mixed", &options, &[]);
    let said = |events: Vec<Event>, code: &str| {
        let mut kept = MemorySource::new(whole.info().clone(), events);
        let inferred = infer(&mut kept);
        assert!(inferred.demand.check().is_ok(), "{code}: {:?}", inferred.demand.check());
        let codes: Vec<&str> = inferred.warnings.iter().map(|warning| &*warning.code).collect();
        assert!(code.is_empty() || codes.contains(&code), "{code}: {codes:?}");
        let mut again = replay("sim:cpus=2", &inferred.demand, &[]);
        let (was, is) = (cpu_time(&mut kept, ""), cpu_time(&mut again, ""));
        assert!(was.abs_diff(is) * 10 <= was, "{code}: {was} {is}");
    };
    let of = |keep: &dyn Fn(&Event) -> bool| -> Vec<Event> {
        whole.events().iter().filter(|event| keep(event)).copied().collect()
    };
    said(of(&|event| event.what.kind() == Kind::Switch), "no-wakeups");
    said(of(&|event| event.what.kind() != Kind::Waking), "no-wakers");
    let middle = whole.events()[0].time + Nanos::from_millis(100);
    said(of(&|event| event.time >= middle), "");
    let mut lossy = Vec::new();
    for (at, event) in whole.events().iter().enumerate() {
        if at % 400 == 399 {
            lossy.push(Event { what: What::Lost { count: None }, ..*event });
        } else if at % 400 < 390 {
            lossy.push(*event);
        }
    }
    said(lossy, "gaps");
}

#[test]
fn an_export_is_a_program_that_rt_app_takes() {
    let (_, inferred, _) = both("sim:cpus=1", "pingpong", &[("rounds", "20")]);
    let text = schedlab_replay::rt_app(&inferred.demand);
    let again = run("sim:cpus=1", "rt-app", &[("program", &text)], &[]);
    let wakes = again.events().iter().filter(|event| event.what.kind() == Kind::Waking).count();
    assert!(wakes >= 40, "{wakes}");
}

#[test]
fn nothing_and_a_thousand_tasks_are_demands_too() {
    let mut empty =
        MemorySource::new(TraceInfo::new("x", schedlab_model::Clock::Monotonic), Vec::new());
    assert!(infer(&mut empty).demand.actors.is_empty());
    let options = [("duration", "20ms"), ("tasks", "1000"), ("work", "1ms")];
    let (_, inferred, replayed) = both("sim:cpus=8", "mixed", &options);
    assert!(inferred.demand.actors.len() >= 1_000 && replayed.events().len() > 1_000);
}
