//! Frequencies, idle states and work by hand arithmetic, on timelines as text. A column is a microsecond.

use crate::{Cut, IdleState, Power, PowerAnswer, Reply, Step, Within, ask_within};
use schedlab_model::{Cpu, Nanos, Pid};

use crate::tests::fired;

/// Asks a timeline with tracepoints: when in nanoseconds, on which CPU, name, arguments.
fn asked(text: &str, fired: &[(u64, u16, &str, &str)], cut: Cut) -> Reply<PowerAnswer> {
    // Who logs it is not known, as to a tool that prints none.
    let fired: Vec<_> = fired.iter().map(|of| (of.0, of.1, Pid(-1), of.2, of.3)).collect();
    let mut source = fired::source(text, &fired);
    ask_within(&mut source, cut, Power::new(100).with_spans(100)).unwrap()
}

/// CPU, begin and end in nanoseconds, what.
fn spans(answer: &PowerAnswer) -> Vec<(u16, u64, u64, Within)> {
    let all = answer.spans.iter();
    all.map(|one| (one.cpu.0, one.span.start.0, one.span.end.0, one.what)).collect()
}

fn cut(from: u64, to: u64) -> Cut {
    Cut { from: Some(Nanos(from * 1000)), to: Some(Nanos(to * 1000)) }
}

#[test]
fn work_is_run_time_by_the_frequency_of_its_cpu() {
    let text = "0 | AAAAAABBBB\n1 | CCCCCCCCCC";
    let fired = [
        (0, 0, "cpu_frequency", "state=2000000 cpu_id=0"),
        // Logged on another CPU than the one that it is about.
        (4_000, 1, "cpu_frequency", "state=1000000 cpu_id=0"),
        (4_000, 1, "cpu_frequency", "state=1000000 cpu_id=0"),
    ];
    let reply = asked(text, &fired, Cut::default());
    let answer = &reply.answer;
    let work: Vec<_> = answer
        .tasks
        .iter()
        .map(|task| (reply.state.name(task.task), task.cycles.round() as u64, task.known.0))
        .collect();
    // A: 4 us at 2 GHz and 2 us at 1 GHz. B: 4 us at 1 GHz. C's frequency is not known.
    assert_eq!(work, [("A".into(), 10_000, 6_000), ("B".into(), 4_000, 4_000)]);
    let [zero, one] = answer.cpus.as_slice() else { panic!("two CPUs") };
    assert_eq!(zero.busy_hz, Some(1.4e9), "14,000 cycles in 10 us");
    assert_eq!((zero.range_hz, zero.changes), (Some((1_000_000_000, 2_000_000_000)), Some(2)));
    assert_eq!((one.busy_hz, one.known), (None, Nanos::ZERO));
    let step = |at, hz| Step { at: Nanos(at), cpu: Cpu(0), hz };
    assert_eq!(answer.steps, [step(0, 2_000_000_000), step(4_000, 1_000_000_000)]);
}

#[test]
fn a_window_opens_with_the_frequency_that_was_set_before() {
    let text = "0 | AAAAAAAAAA";
    let fired = [(1_000, 0, "cpu_frequency", "state=3000000 cpu_id=0")];
    let reply = asked(text, &fired, cut(5, 8));
    let answer = &reply.answer;
    assert_eq!(answer.tasks[0].cycles.round() as u64, 9_000, "3 us at 3 GHz");
    assert_eq!(answer.cpus[0].changes, Some(0));
    let start = reply.observed.start;
    assert_eq!(answer.steps, [Step { at: start, cpu: Cpu(0), hz: 3_000_000_000 }]);
}

#[test]
fn idle_states_have_times_and_a_wakeup_waits_for_their_exit() {
    let text = "
        0 | A....BB...
          |    bb
        at 3: interrupt on 0 wakes B";
    let fired = [
        (1_100, 0, "cpu_idle", "state=2 cpu_id=0"),
        (4_600, 0, "cpu_idle", "state=4294967295 cpu_id=0"),
        (7_500, 0, "cpu_idle", "state=1 cpu_id=0"),
    ];
    let reply = asked(text, &fired, Cut::default());
    let cpu = &reply.answer.cpus[0];
    let state = |state, time| IdleState { state, entered: 1, time: Nanos(time) };
    assert_eq!(cpu.idle, Some(vec![state(1, 2_500), state(2, 3_500)]), "one is open at the end");
    // Woken at 3 us, out of the idle state at 4.6 us.
    assert_eq!((cpu.exits, cpu.exit_time, cpu.exit_max), (1, Nanos(1_600), Nanos(1_600)));
    let (deep, shallow) = (Within::Idle(2), Within::Idle(1));
    assert_eq!(spans(&reply.answer), [(0, 1_100, 4_600, deep), (0, 7_500, 10_000, shallow)]);
    let within = asked(text, &fired, cut(4, 8));
    assert_eq!(spans(&within.answer), [(0, 4_000, 4_600, deep), (0, 7_500, 8_000, shallow)]);
    let cpu = &within.answer.cpus[0];
    let clipped = IdleState { state: 2, entered: 0, time: Nanos(600) };
    assert_eq!(cpu.idle, Some(vec![state(1, 500), clipped]));
}

#[test]
fn ipis_and_timers_are_counted_with_their_times() {
    let text = "0 | AAAAAAAAAA\n1 | BBBBBBBBBB";
    let fired = [
        (1_000, 1, "reschedule_entry", "vector=253"),
        (1_300, 1, "reschedule_exit", "vector=253"),
        (2_000, 1, "call_function_single_entry", "vector=251"),
        (2_100, 1, "call_function_single_exit", "vector=251"),
        (3_000, 0, "hrtimer_expire_entry", "hrtimer=0xff now=1"),
        (3_500, 0, "hrtimer_expire_exit", "hrtimer=0xff"),
    ];
    let reply = asked(text, &fired, Cut::default());
    let [zero, one] = reply.answer.cpus.as_slice() else { panic!("two CPUs") };
    assert_eq!((one.ipis, one.timers), (Some((2, Nanos(400))), Some((0, Nanos::ZERO))));
    assert_eq!((zero.ipis, zero.timers), (Some((0, Nanos::ZERO)), Some((1, Nanos(500)))));
    let (ipi, timer) = (Within::Ipi, Within::Timer);
    let told = [(1, 1_000, 1_300, ipi), (1, 2_000, 2_100, ipi), (0, 3_000, 3_500, timer)];
    assert_eq!(spans(&reply.answer), told);
    let none = asked(text, &[], Cut::default());
    let cpu = &none.answer.cpus[0];
    assert_eq!((&cpu.idle, cpu.ipis, cpu.changes), (&None, None, None), "not recorded is not zero");
}
