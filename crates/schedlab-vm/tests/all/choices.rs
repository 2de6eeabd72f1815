//! Which choice is shown as the cause of a difference: on simulated kernels, one of which has a planted change. The
//! placebos differ in what a switch, a wakeup and a tick cost, by some nanoseconds.

use schedlab_model::{Event, Nanos, Setting};
use schedlab_sim::{Costs, Model, Simulated};
use schedlab_vm::choices::{self, Choice, Difference, Kind, Ran, Starts};
use schedlab_workload::{
    Figure, Interval, Machine, Output, RecordSpec, RunSpec, Stream, WorkloadSpec,
};

/// Placebos of a kernel.
const PLACEBOS: u64 = 10;
const STARTS: u32 = 4;
/// What one instruction more in each function of a scheduler costs a switch, in nanoseconds of the clock of
/// instructions.
const NEUTRAL: u64 = 40;

/// Keeps the events of a run.
#[derive(Default)]
struct Events(Vec<Event>);

impl Output for Events {
    fn path(&mut self, _: Stream) -> std::path::PathBuf {
        std::path::PathBuf::new()
    }
    fn figure(&mut self, _: Figure) -> std::io::Result<()> {
        Ok(())
    }
    fn interval(&mut self, _: &Interval) {}
    fn events(&mut self, events: &[Event]) -> std::io::Result<()> {
        self.0.extend_from_slice(events);
        Ok(())
    }
    fn warning(&mut self, _: schedlab_model::Warning) {}
    fn note(&mut self, _: &str) {}
    fn stopped(&self) -> bool {
        false
    }
}

/// A load on a kernel.
struct Load {
    kernel: &'static str,
    name: &'static str,
    options: &'static [(&'static str, &'static str)],
}

/// Tasks that work and sleep by turns: few, so that situations come back.
const MIXED: Load = Load {
    kernel: "eevdf-6.12",
    name: "mixed",
    options: &[("tasks", "4"), ("work", "300us"), ("sleep", "500us"), ("duration", "300ms")],
};
/// The same with bursts that are longer than a slice.
const LONG: &[(&str, &str)] =
    &[("tasks", "4"), ("work", "1500us"), ("sleep", "2ms"), ("duration", "600ms")];
const EEVDF: Load = Load { options: LONG, ..MIXED };
const CFS: Load = Load { kernel: "cfs-6.1", ..EEVDF };

impl Load {
    /// What a kernel chooses, with a setting that is planted, and with `shift` nanoseconds of neutral code.
    fn choices(&self, planted: Option<(&str, &str)>, shift: u64) -> Starts {
        let options = self.options.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        let workload = WorkloadSpec::Builtin { name: self.name.to_owned(), options };
        let settings = planted
            .into_iter()
            .map(|(knob, value)| Setting { knob: knob.to_owned(), value: value.to_owned() });
        let settings: Vec<Setting> = settings.collect();
        let Costs { switch, wake, tick, .. } = Costs::USUAL;
        let (switch, wake, tick) = (switch + shift, wake + shift, tick + shift);
        let costs = Costs { switch, wake, tick, ..Costs::USUAL };
        let model = Model::of(&format!("sim:kernel={}", self.kernel).parse().unwrap(), None);
        let mut machine = Simulated::new(model.unwrap().with_costs(costs));
        let start = |repeat: u32| -> Vec<Choice> {
            let (workload, settings) = (workload.clone(), settings.clone());
            let record = Some(RecordSpec::default());
            let spec = RunSpec { settings, record, repeat, ..RunSpec::of(workload) };
            let mut events = Events::default();
            machine.run(&spec, &mut events).unwrap();
            choices::of_events(&events.0)
        };
        (0..STARTS).map(start).collect()
    }

    fn placebos(&self) -> Vec<Starts> {
        (1..=PLACEBOS).map(|number| self.choices(None, number * NEUTRAL)).collect()
    }
}

/// What is shown as the cause of a planted change.
#[derive(Debug)]
struct Cause {
    kind: Kind,
    /// Whether the second side makes this choice, and the first one never.
    is_after: bool,
    /// For how long the current task had run.
    ran: Ran,
    /// The kinds of the first choices that differ. Both kernels cost the same, so the planted change makes them.
    planted: [Kind; 2],
}

fn cause(load: &Load, planted: (&str, &str)) -> Option<Cause> {
    let (before, after) = (load.choices(None, 0), load.choices(Some(planted), 0));
    let placebos = load.placebos();
    let found = choices::differences(&before, &after, &placebos);
    let first = choices::first(&before, &after, &placebos, &found)?;
    // One side made it, and the other one had the same situation.
    let (own, other) = match first.is_after {
        true => (&first.after, &first.before),
        false => (&first.before, &first.after),
    };
    assert!(own.contains_key(&first.choice.next) && !other.is_empty(), "{first:?}");
    assert!(!other.contains_key(&first.choice.next), "{first:?}");
    let at = choices::first_difference(&before[0], &after[0]).unwrap();
    let planted = [&before, &after].map(|kernel| kernel[0][at].kind());
    let (kind, ran) = (first.choice.kind(), first.choice.situation.ran);
    Some(Cause { kind, is_after: first.is_after, ran, planted })
}

#[test]
fn the_first_choice_that_differs_is_of_the_planted_kind() {
    let preemptions = [
        (&MIXED, ("features", "NO_WAKEUP_PREEMPTION"), false),
        (&CFS, ("wakeup_granularity", "0"), true),
        (&CFS, ("wakeup_granularity", "300us"), true),
    ];
    for (load, planted, is_after) in preemptions {
        let cause = cause(load, planted).unwrap();
        assert_eq!((cause.kind, cause.is_after), (Kind::Wakeup, is_after), "{planted:?} {cause:?}");
        assert!(cause.planted.contains(&Kind::Wakeup), "{planted:?} {cause:?}");
    }
    // Only the first side's slice of 700 us is over. A tick or a wakeup finds that.
    for slice in ["1.4ms", "3ms"] {
        let cause = cause(&EEVDF, ("base_slice", slice)).unwrap();
        assert!(cause.kind != Kind::Next && !cause.is_after, "{slice} {cause:?}");
        assert!(cause.ran >= Ran::of(Nanos::from_micros(500)), "{slice} {cause:?}");
        assert!(cause.planted.contains(&Kind::Slice), "{slice} {cause:?}");
    }
    // No task of this load lags by more than 1 ms, so nothing differs by more than neutral code makes likely.
    let none = cause(&CFS, ("wakeup_granularity", "2ms"));
    assert!(none.is_none(), "{none:?}");
}

#[test]
fn at_most_one_of_twenty_placebo_pairs_differs() {
    let mut pairs = 0;
    let mut called = Vec::new();
    for load in [MIXED, EEVDF] {
        let kernels = load.placebos();
        for one in 0..kernels.len() {
            let other = (one + 1) % kernels.len();
            let rest = (0..kernels.len()).filter(|index| ![one, other].contains(index));
            let rest: Vec<Starts> = rest.map(|index| kernels[index].clone()).collect();
            let found = choices::differences(&kernels[one], &kernels[other], &rest);
            let is_called = found.iter().any(Difference::is_shown);
            pairs += 1;
            called.extend(is_called.then_some((load.options, one, found)));
        }
    }
    assert!(pairs == 20 && called.len() <= 1, "{called:?}");
}
