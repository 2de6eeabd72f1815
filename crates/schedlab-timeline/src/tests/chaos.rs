//! Whatever the events claim: a task is in one place, time is conserved, nothing panics.

use crate::notation::Trace;
use crate::{
    By, Causes, Change, Chosen, Conservation, ConservationOptions, Cpus, Density, EveryTask,
    Latency, LatencyByCpu, Locality, Migrations, Occupant, OffCpuStacks, Slices, State, Tasks,
    Waiting, Worst, ask, span_of,
};
use schedlab_model::{
    Clock, Context, Cpu, CpuSet, Event, Kind, Left, Nanos, Phase, Pid, Prio, TraceInfo, What,
};
use schedlab_random::SplitMix64;

/// The same everywhere.
pub(crate) struct Dice(pub(crate) SplitMix64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0.bits() % sides
    }

    fn pid(&mut self) -> Pid {
        // Now and then a pid that no kernel hands out.
        match self.roll(50) {
            0 => Pid(-1),
            1 => Pid(i32::MAX),
            _ => Pid(self.roll(12) as i32),
        }
    }

    fn cpu(&mut self) -> Cpu {
        Cpu(self.roll(6) as u16)
    }

    fn what(&mut self) -> What {
        let (pid, prio) = (self.pid(), Prio::NORMAL);
        let lefts = [Left::Preempted, Left::Displaced, Left::Slept, Left::Dead, Left::Other];
        match self.roll(24) {
            0..=9 => What::Switch {
                prev: pid,
                prev_prio: prio,
                left: lefts[self.roll(5) as usize],
                next: self.pid(),
                next_prio: prio,
            },
            10..=13 => What::Waking { pid, prio, last_cpu: self.cpu() },
            14..=16 => What::Wakeup { pid, prio, cpu: self.cpu(), new: self.roll(4) == 0 },
            17..=18 => What::Migrate { pid, from: self.cpu(), to: self.cpu() },
            19 => What::Fork { child: pid },
            20 => What::Exec { old: pid },
            21 => What::Exit { pid },
            22 => match self.roll(3) {
                0 => What::Lost { count: None },
                1 => What::Mark { pid, id: 0, phase: Phase::Point, request: 0 },
                _ => What::Comm { pid, comm: [b'a' + self.roll(9) as u8; 16] },
            },
            _ => What::Other { format: 0 },
        }
    }

    pub(crate) fn trace(&mut self, count: usize) -> Trace {
        let mut info = TraceInfo::new("chaos", Clock::Monotonic);
        // CPUs 4 and 5 do not belong to the trace, and log now and then all the same.
        info.cpus = if self.roll(2) == 0 { CpuSet::first(4) } else { CpuSet::new() };
        if self.roll(3) == 0 {
            info.kinds = [Kind::Switch, Kind::Waking].into_iter().collect();
        }
        let mut time = 1_000;
        let mut event = || {
            time += self.roll(4) * self.roll(100);
            let context = if self.roll(2) == 0 { Context::Task } else { Context::HardIrq };
            Event { time: Nanos(time), by: self.pid(), cpu: self.cpu(), context, what: self.what() }
        };
        let events = (0..count).map(|_| event()).collect();
        Trace { info, events, tick: Nanos(1) }
    }
}

#[test]
fn no_task_is_in_two_places_after_any_event() {
    for seed in 0..60 {
        let chaos = Dice(SplitMix64::new(seed)).trace(400);
        let mut state = State::new(&chaos.info);
        for (number, event) in chaos.events.iter().enumerate() {
            state.step(event, &mut |change, state| {
                assert!(change.at() <= state.now(), "seed {seed}, event {number}: {change:?}");
            });
            state.assert_consistent();
        }
    }
}

#[test]
fn an_event_alters_no_cpu_but_those_that_its_changes_name() {
    let mut moved_from_elsewhere = 0;
    for seed in 0..60 {
        let chaos = Dice(SplitMix64::new(seed)).trace(400);
        let mut state = State::new(&chaos.info);
        let rows = |state: &State| -> Vec<_> {
            state.cpus().iter().map(|cpu| (cpu.occupant, cpu.waiting)).collect()
        };
        let mut before = rows(&state);
        for (number, event) in chaos.events.iter().enumerate() {
            let mut touched = Vec::new();
            state.step(event, &mut |change, state| {
                touched.extend(change.touched(state).into_iter().flatten());
                if let Change::Moved(moved) = change {
                    let elsewhere = moved.queue.is_some_and(|queue| queue != moved.from);
                    moved_from_elsewhere += u32::from(elsewhere);
                }
            });
            let after = rows(&state);
            for (cpu, row) in (0..).map(Cpu).zip(&after) {
                let same = before.get(cpu.index()).unwrap_or(&(Occupant::Unknown, 0)) == row;
                assert!(same || touched.contains(&cpu), "seed {seed}, event {number}: {event:?}");
            }
            before = after;
        }
    }
    assert!(moved_from_elsewhere > 50, "{moved_from_elsewhere} contradictions are too few");
}

#[test]
fn every_nanosecond_of_every_cpu_is_running_idle_or_unknown() {
    let mut lossless = 0;
    for seed in 100..160 {
        let mut chaos = Dice(SplitMix64::new(seed)).trace(500);
        if seed % 2 == 0 {
            chaos = chaos.without(&[Kind::Lost]);
        }
        let window = span_of(&mut chaos.source()).unwrap();
        let questions = (
            Cpus::new(),
            Tasks::new(),
            Waiting::new(50),
            Slices::new(100_000),
            Density::new(window, 7, By::Comm),
            Latency::new(),
        );
        let reply = ask(&mut chaos.source(), questions).unwrap();
        let (cpus, tasks, waiting, slices, density, latency) = reply.answer;
        let observed = reply.observed.duration();
        for row in &cpus.rows {
            assert_eq!(row.busy + row.idle + row.unknown, observed, "seed {seed}, CPU {}", row.cpu);
            assert!(row.overloaded <= row.busy, "seed {seed}");
        }
        let sum = |times: &mut dyn Iterator<Item = Nanos>| times.fold(0, |sum, time| sum + time.0);
        let busy = sum(&mut cpus.rows.iter().map(|row| row.busy));
        assert_eq!(busy, sum(&mut tasks.rows.iter().map(|row| row.ran)), "seed {seed}");
        let known = slices.slices.iter().filter(|slice| slice.task.is_some());
        assert_eq!(busy, sum(&mut known.map(|slice| slice.to - slice.from)), "seed {seed}");
        // A loss is told late and takes effect early, which a curve that has gone on cannot undo.
        if reply.state.tally().losses == 0 {
            lossless += 1;
            assert_eq!(u128::from(busy), waiting.total().running_ns, "seed {seed}");
        }
        let waited = sum(&mut tasks.rows.iter().map(|row| row.waited));
        let listed = sum(&mut slices.waits.iter().map(|wait| wait.to - wait.from));
        assert_eq!(waited, listed, "seed {seed}");
        assert!(latency.total.run_delay.sum() <= waited, "seed {seed}");
        for (row, (cpu, cells)) in cpus.rows.iter().zip(&density.rows) {
            let parts: u64 = cells.iter().map(|cell| u64::from(cell.busy)).sum();
            let expected = row.busy.0 as f64 / observed.0 as f64 * 7.0 * 65_535.0;
            assert!((parts as f64 - expected).abs() <= 14.0, "seed {seed}, CPU {cpu}");
        }
        let Some((_, cpu)) = reply.state.observed_cpus().next() else { continue };
        assert!(!matches!(cpu.occupant, Occupant::Task(task) if !task.is_some()));
    }
    assert!(lossless >= 30, "{lossless} curves are too few to judge by");
}

#[test]
fn the_same_events_give_the_same_answers() {
    let answers = |seed| {
        let chaos = Dice(SplitMix64::new(seed)).trace(300);
        format!(
            "{:?}",
            ask(&mut chaos.source(), (Tasks::new(), Cpus::new(), Latency::new())).unwrap().answer
        )
    };
    assert_eq!(answers(7), answers(7));
    assert_ne!(answers(7), answers(8));
}

#[test]
fn work_conservation_does_not_depend_on_how_far_apart_cpus_are_numbered() {
    let mut found = 0;
    for seed in 0..60 {
        let answer = |far: &dyn Fn(Cpu) -> Cpu| {
            let mut chaos = Dice(SplitMix64::new(seed)).trace(400);
            chaos.info.cpus = CpuSet::first(1024);
            for event in &mut chaos.events {
                event.cpu = far(event.cpu);
                match &mut event.what {
                    What::Waking { last_cpu: cpu, .. } | What::Wakeup { cpu, .. } => {
                        *cpu = far(*cpu);
                    }
                    What::Migrate { from, to, .. } => (*from, *to) = (far(*from), far(*to)),
                    _ => {}
                }
            }
            let question = Conservation::new(ConservationOptions::default(), &chaos.info);
            ask(&mut chaos.source(), question).unwrap().answer
        };
        let far = |cpu: Cpu| Cpu(cpu.0 * 204 + 3);
        let (near, spread) = (answer(&|cpu| cpu), answer(&far));
        assert_eq!(near.total, spread.total, "seed {seed}");
        assert_eq!(near.by_cause, spread.by_cause, "seed {seed}");
        assert_eq!(near.sums, spread.sums, "seed {seed}");
        let renamed =
            near.episodes.iter().map(|e| (e.start, e.end, e.task, far(e.overloaded), e.cost));
        let spread = spread.episodes.iter().map(|e| (e.start, e.end, e.task, e.overloaded, e.cost));
        assert!(renamed.eq(spread), "seed {seed}");
        found += near.count;
    }
    assert!(found > 100, "{found} episodes are too few to judge by");
}

#[test]
fn what_two_halves_of_the_tasks_do_is_what_all_do() {
    let (mut seen, mut lossless) = ([0; 5], 0);
    for seed in 200..260 {
        let mut chaos = Dice(SplitMix64::new(seed)).trace(500);
        if seed % 2 == 0 {
            chaos = chaos.without(&[Kind::Lost]);
        }
        let who = ask(&mut chaos.source(), EveryTask).unwrap().state;
        let part = |chosen: &dyn Fn() -> Chosen| {
            let options = ConservationOptions::default();
            let questions = (
                Worst::new(10_000).about(chosen()),
                LatencyByCpu::new().about(chosen()),
                Conservation::new(options, &chaos.info).about(chosen()),
                Migrations::new(None, 0).about(chosen()),
                Locality::new(None).about(chosen()),
                Waiting::new(50).about(chosen()),
            );
            let (worst, cpus, conservation, migrations, locality, waiting) =
                ask(&mut chaos.source(), questions).unwrap().answer;
            let waits: u64 = cpus.iter().map(|(_, delays)| delays.run_delay.count()).sum();
            let woken: u64 = locality.tasks.iter().map(|row| row.woken.count).sum();
            let ended = worst.iter().filter(|wait| !wait.is_open).count() as u64;
            assert_eq!(waits, ended, "seed {seed}");
            assert_eq!(conservation.count, conservation.episodes.len() as u64, "seed {seed}");
            let curve = waiting.total();
            let figures =
                [waits, woken, conservation.waited.0, conservation.total.0, migrations.total()];
            (figures, [curve.running_ns, curve.waiting_ns], conservation.sums)
        };
        let odd = |odd: bool| Chosen::of(&who, |_, pid, _| (pid.0 % 2 == 1) == odd);
        let (all, every) = (part(&Chosen::all), part(&|| Chosen::of(&who, |_, _, _| true)));
        assert_eq!((all.0, all.2), (every.0, every.2), "seed {seed}");
        let (one, other) = (part(&|| odd(true)), part(&|| odd(false)));
        for (place, whole) in all.0.into_iter().enumerate() {
            // Each part of the lost CPU time is rounded.
            let (sum, off) = (one.0[place] + other.0[place], u64::from(place == 3));
            assert!(whole.abs_diff(sum) <= off, "seed {seed}, figure {place}: {whole}, {sum}");
            seen[place] += one.0[place].min(other.0[place]);
        }
        // As above: what a curve that has gone on cannot undo depends on whom it counts.
        let curves = all
            .1
            .into_iter()
            .enumerate()
            .filter(|_| who.tally().losses == 0 && who.tally().out_of_sight == 0);
        for (place, whole) in curves {
            lossless += 1;
            assert_eq!(whole, every.1[place], "seed {seed}, curve {place}");
            assert_eq!(whole, one.1[place] + other.1[place], "seed {seed}, curve {place}");
        }
        assert_eq!((all.2, all.2), (one.2, other.2), "the machine's own sums are of all tasks");
    }
    assert!(seen.iter().all(|figure| *figure > 100), "too few to judge by: {seen:?}");
    assert!(lossless > 2, "{lossless} curves are too few to judge by");
}

#[test]
fn causes_of_waits_add_up_to_the_time_waited() {
    let mut waited = 0;
    for seed in 0..60 {
        let mut chaos = Dice(SplitMix64::new(seed)).trace(400);
        // What a loss makes unknown was not seen to be waited for.
        chaos.events.retain(|event| !matches!(event.what, What::Lost { .. }));
        let causes = || Causes::new(&chaos.info, &[], 5);
        let stacks = OffCpuStacks::default().with_causes(causes());
        let reply = ask(&mut chaos.source(), (causes(), Tasks::new(), stacks)).unwrap();
        let (causes, tasks, stacks) = &reply.answer;
        for row in &tasks.rows {
            let told = causes.tasks.iter().find(|one| one.task == row.task);
            let sum = told.map_or(Nanos::ZERO, |one| one.parts.sum());
            assert_eq!(sum, row.waited, "seed {seed}: {} ({})", row.comm, row.pid);
            waited += sum.0;
            let own = stacks.rows.iter().filter(|of| of.task == row.task);
            let off = own.fold((Nanos::ZERO, Nanos::ZERO), |(blocked, waited), of| {
                (blocked + of.blocked, waited + of.parts.sum())
            });
            let asleep = row.asleep.sleeping + row.asleep.uninterruptible + row.asleep.stopped;
            assert_eq!(off, (asleep, row.waited), "seed {seed}: {} ({})", row.comm, row.pid);
        }
    }
    assert!(waited > 100_000, "{waited}");
}
