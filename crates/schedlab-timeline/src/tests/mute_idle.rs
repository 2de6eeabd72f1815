//! Some kernels tell no switch away from idle on some CPUs: what such a CPU does is unknown, not idle.

use crate::{Cpus, Tasks, ask};
use schedlab_model::{
    Clock, Context, Cpu, CpuSet, Event, EventSource, Left, Nanos, Pid, Prio, Span, TraceInfo,
    Warning, What,
};
use std::io;

struct Events(Vec<Event>, TraceInfo);

impl EventSource for Events {
    fn info(&self) -> &TraceInfo {
        &self.1
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        *batch = std::mem::take(&mut self.0);
        Ok(!batch.is_empty())
    }

    fn warnings(&self) -> &[Warning] {
        &[]
    }
}

fn switch(time: u64, prev: i32, next: i32) -> Event {
    let what = What::Switch {
        prev: Pid(prev),
        prev_prio: Prio::NORMAL,
        left: if prev == 0 { Left::Displaced } else { Left::Slept },
        next: Pid(next),
        next_prio: Prio::NORMAL,
    };
    Event { time: Nanos(time), by: Pid(prev), cpu: Cpu(0), context: Context::Task, what }
}

/// Busy, idle and unknown nanoseconds of the only CPU.
fn of(events: Vec<Event>) -> (u64, u64, u64) {
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    info.cpus = CpuSet::first(1);
    info.span = Some(Span::new(Nanos(0), Nanos(100)));
    let reply = ask(&mut Events(events, info), Cpus::new()).expect("memory can be read");
    let row = &reply.answer.rows[0];
    (row.busy.0, row.idle.0, row.unknown.0)
}

#[test]
fn idle_that_ended_unseen_once_is_unknown_from_then_on() {
    // 7 and 8 leave to idle; nothing tells how 8 and 9 came to run.
    let events = vec![switch(0, 0, 7), switch(10, 7, 0), switch(50, 8, 0), switch(90, 9, 0)];
    let (busy, idle, unknown) = of(events);
    assert_eq!(
        (busy, idle),
        (10, 40),
        "the first is believed, since nothing speaks against it yet"
    );
    assert_eq!(unknown, 50);
}

#[test]
fn a_switch_away_from_idle_makes_idle_believable_again() {
    let events = vec![
        switch(0, 0, 7),
        switch(10, 7, 0),
        switch(50, 8, 0),
        switch(60, 0, 9),
        switch(70, 9, 0),
        switch(90, 0, 7),
        switch(100, 7, 0),
    ];
    assert_eq!(of(events), (30, 60, 10));
}

#[test]
fn an_event_of_another_task_ends_the_time_of_the_one_that_was_seen_to_run() {
    let woken = |time, by| Event {
        time: Nanos(time),
        by: Pid(by),
        cpu: Cpu(0),
        context: Context::Task,
        what: What::Waking { pid: Pid(9), prio: Prio::NORMAL, last_cpu: Cpu(1) },
    };
    // 7 still runs at 30, 8 does at 50: 7 counts until then, 8 from then on, and 20 ns are not certain.
    let events = || vec![switch(10, 0, 7), woken(30, 7), woken(50, 8), switch(60, 8, 0)];
    let mut info = TraceInfo::new("test", Clock::Monotonic);
    info.cpus = CpuSet::first(1);
    info.span = Some(Span::new(Nanos(0), Nanos(100)));
    let reply = ask(&mut Events(events(), info), Tasks::new()).expect("memory can be read");
    let ran = |pid| reply.answer.rows.iter().find(|row| row.pid == Pid(pid)).map(|row| row.ran.0);
    assert_eq!((ran(7), ran(8)), (Some(40), Some(10)));
    let tally = reply.state.tally();
    assert_eq!((tally.contradictions, tally.contradicted), (1, Nanos(20)));
    assert_eq!(of(events()), (50, 40, 10));
    // An event of the idle task says nothing, since that number also stands for an unknown task.
    assert_eq!(of(vec![switch(10, 0, 7), woken(50, 0), switch(60, 7, 0)]), (50, 40, 10));
}
