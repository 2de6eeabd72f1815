//! Choices of a trace: a state machine over its events.

use super::slots::Slots;
use super::{Choice, Occasion, Ran, Situation, Slot};
use schedlab_model::{Context, Cpu, Event, EventSource, Left, Nanos, Pid, What};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// A wakeup that preempts does so at the end of the system call or interrupt: 2.1 to 3.7 µs later in 92 preemptions of
/// hackbench on 6.12, where ticks preempted 1 ms and more after the last wakeup.
const PREEMPTS_WITHIN: Nanos = Nanos::from_micros(100);

/// All choices of a trace, in order.
///
/// # Errors
/// When the trace cannot be read.
pub fn read(source: &mut dyn EventSource) -> io::Result<Vec<Choice>> {
    let mut events = Vec::new();
    let mut batch = Vec::new();
    while source.next(&mut batch)? {
        events.append(&mut batch);
    }
    Ok(of_events(&events))
}

/// All choices that events in order of time tell, in order.
#[must_use]
pub fn of_events(events: &[Event]) -> Vec<Choice> {
    let slots = Slots::of(events);
    let mut reader =
        Reader { slots: &slots, cpus: BTreeMap::new(), counts: false, choices: Vec::new() };
    for (index, event) in events.iter().enumerate() {
        reader.counts = index >= slots.complete;
        reader.see(event);
    }
    reader.choices
}

/// A wakeup that nobody has answered yet.
struct Woken {
    task: Slot,
    by: Option<Slot>,
    at: Nanos,
}

/// One CPU as the load sees it.
#[derive(Default)]
struct CpuState {
    /// The load's task that ran there last, and whether it sleeps since.
    current: Option<(Slot, bool)>,
    /// When it was chosen.
    since: Nanos,
    /// For how long it has run, as far as choices were told.
    step: Ran,
    /// The tasks that wait there, and since when.
    waiting: BTreeMap<Slot, Nanos>,
    /// The last wakeup there, until somebody runs.
    woken: Option<Woken>,
}

impl CpuState {
    /// The tasks that wait there beside one.
    fn beside(&self, one: &Slot) -> BTreeSet<Slot> {
        self.waiting.keys().filter(|task| *task != one).cloned().collect()
    }
}

struct Reader<'s> {
    slots: &'s Slots,
    cpus: BTreeMap<Cpu, CpuState>,
    /// Whether the load has begun.
    counts: bool,
    choices: Vec<Choice>,
}

impl Reader<'_> {
    fn see(&mut self, event: &Event) {
        let at = event.time;
        let slot = |pid: Pid| self.slots.names.get(&pid).cloned();
        match event.what {
            What::Wakeup { pid, cpu, .. } => {
                let Some(task) = slot(pid) else { return };
                let by = slot(event.by).filter(|_| event.context == Context::Task);
                self.advance(cpu, at);
                self.wakes(cpu, Woken { task, by, at });
            }
            What::Migrate { pid, from, to } => {
                let Some(task) = slot(pid) else { return };
                self.advance(from, at);
                self.advance(to, at);
                if let Some(since) = self.remove(&task) {
                    self.cpus.entry(to).or_default().waiting.insert(task, since);
                }
            }
            What::Switch { prev, left, next, .. } => {
                let prev = slot(prev);
                let next = slot(next);
                self.advance(event.cpu, at);
                if let Some(prev) = prev {
                    self.leaves(event.cpu, prev, left, at);
                }
                if let Some(next) = next {
                    self.runs(event.cpu, &next, at);
                }
            }
            _ => {}
        }
    }

    fn tell(&mut self, at: Nanos, situation: Situation, next: Slot, longest: bool) {
        if self.counts {
            self.choices.push(Choice { at, situation, next, longest });
        }
    }

    /// Tells what was chosen on a CPU up to now, if nothing happened there: that a wakeup did not preempt, and that the
    /// current task went on while others waited.
    fn advance(&mut self, cpu: Cpu, now: Nanos) {
        let is_over = |woken: &Woken| woken.at + PREEMPTS_WITHIN < now;
        if self.cpus.get(&cpu).and_then(|state| state.woken.as_ref()).is_some_and(is_over) {
            self.goes_on(cpu);
        }
        let Some(state) = self.cpus.get_mut(&cpu) else { return };
        let Some((current, false)) = state.current.clone() else { return };
        let since = state.since;
        let mut ran = state.step;
        let waiting = state.beside(&current);
        let mut told = Vec::new();
        while let Some(end) = ran.end().map(|end| since + end).filter(|end| *end <= now) {
            told.push((end, ran));
            ran = ran.next();
        }
        state.step = ran;
        for (at, ran) in told.into_iter().filter(|_| !waiting.is_empty()) {
            let current = current.clone();
            let waiting = waiting.clone();
            let next = current.clone();
            self.tell(
                at,
                Situation { cpu, current, ran, waiting, asked: Occasion::Ran },
                next,
                false,
            );
        }
    }

    fn wakes(&mut self, cpu: Cpu, woken: Woken) {
        self.remove(&woken.task);
        // A second wakeup before anybody ran: the first one did not preempt.
        self.goes_on(cpu);
        let state = self.cpus.entry(cpu).or_default();
        if state.current.as_ref().is_some_and(|(current, _)| *current == woken.task) {
            state.current = None;
        }
        state.waiting.insert(woken.task.clone(), woken.at);
        state.woken = Some(woken);
    }

    /// Takes a task out of the queue in which it waits; since when it waited.
    fn remove(&mut self, task: &Slot) -> Option<Nanos> {
        self.cpus.values_mut().find_map(|state| state.waiting.remove(task))
    }

    /// A task of the load no longer runs on a CPU.
    fn leaves(&mut self, cpu: Cpu, prev: Slot, left: Left, at: Nanos) {
        if left.is_runnable() {
            self.cpus.entry(cpu).or_default().waiting.insert(prev.clone(), at);
        } else {
            // Asleep: that another task was woken before did not preempt it.
            self.goes_on(cpu);
        }
        let state = self.cpus.entry(cpu).or_default();
        if state.current.as_ref().is_none_or(|(current, _)| *current != prev) {
            // It ran before the recording began.
            (state.since, state.step) = (at, Ran::default());
        }
        state.current = Some((prev, !left.is_runnable()));
    }

    /// The last wakeup on a CPU did not preempt.
    fn goes_on(&mut self, cpu: Cpu) {
        let Some(state) = self.cpus.get_mut(&cpu) else { return };
        let Some(Woken { task, by, at }) = state.woken.take() else { return };
        let Some((current, false)) = state.current.clone() else { return };
        let ran = Ran::of(at - state.since);
        let waiting = state.beside(&current);
        let asked = Occasion::Woken { task, by };
        let next = current.clone();
        self.tell(at, Situation { cpu, current, ran, waiting, asked }, next, false);
    }

    /// A task of the load runs on a CPU from now on.
    fn runs(&mut self, cpu: Cpu, next: &Slot, at: Nanos) {
        let state = self.cpus.entry(cpu).or_default();
        let mut queue = std::mem::take(&mut state.waiting);
        let own = queue.get(next).copied();
        let woken = state.woken.take();
        let before = state.current.replace((next.clone(), false));
        let goes_on = before.as_ref() == Some(&(next.clone(), false));
        let ran = at - state.since;
        if !goes_on {
            (state.since, state.step) = (at, Ran::default());
        }
        state.waiting = queue.clone();
        state.waiting.remove(next);
        let Some((current, asleep)) = before else { return };
        if goes_on && woken.is_none() {
            // A task that is not the load's ran in between.
            return;
        }
        if !asleep {
            queue.remove(&current);
        }
        let longest = own.is_some_and(|own| queue.values().all(|since| *since >= own));
        let (asked, ran) = match (asleep, woken) {
            (true, _) => (Occasion::Left, Nanos(0)),
            (false, Some(Woken { task, by, at: then })) => {
                (Occasion::Woken { task, by }, ran - (at - then))
            }
            (false, None) => (Occasion::Ran, ran),
        };
        let waiting = queue.into_keys().collect();
        let situation = Situation { cpu, current, ran: Ran::of(ran), waiting, asked };
        self.tell(at, situation, next.clone(), longest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, first_difference};
    use super::*;
    use schedlab_model::Prio;

    const LOAD: i32 = 10;

    fn event(time: u64, by: i32, what: What) -> Event {
        Event { time: Nanos(time), by: Pid(by), cpu: Cpu(0), context: Context::Task, what }
    }

    fn fork(time: u64, child: i32) -> Event {
        event(time, LOAD, What::Fork { child: Pid(child) })
    }

    fn wakes(time: u64, by: i32, pid: i32) -> Event {
        let prio = Prio::NORMAL;
        let cpu = Cpu(0);
        event(time, by, What::Wakeup { pid: Pid(pid), prio, cpu, new: false })
    }

    fn switch(time: u64, prev: i32, left: Left, next: i32) -> Event {
        let prev_prio = Prio::NORMAL;
        let next_prio = Prio::NORMAL;
        event(
            time,
            prev,
            What::Switch { prev: Pid(prev), prev_prio, left, next: Pid(next), next_prio },
        )
    }

    /// Two tasks; the load sleeps, the first runs and wakes the second, which preempts it or not.
    fn trace(preempts: bool, shift: i32) -> Vec<Event> {
        let one = 11 + shift;
        let two = 12 + shift;
        let mut all = vec![
            event(0, 2, What::Fork { child: Pid(5) }),
            fork(1, one),
            fork(2, two),
            wakes(3, LOAD, one),
            switch(4, LOAD, Left::Slept, one),
            wakes(5, one, two),
        ];
        if preempts {
            all.extend([switch(6, one, Left::Preempted, two), switch(9, two, Left::Slept, one)]);
        } else {
            // A kernel thread in between changes nothing.
            all.extend([
                switch(6, one, Left::Preempted, 5),
                switch(7, 5, Left::Slept, one),
                switch(8, one, Left::Slept, two),
            ]);
        }
        all
    }

    #[test]
    fn a_wakeup_that_preempts_is_another_choice_than_one_that_does_not() {
        let yes = of_events(&trace(true, 0));
        let no = of_events(&trace(false, 7));
        assert_eq!(first_difference(&yes, &yes), None);
        // The load gave way to the first task in both; then the wakeup of the second.
        let at = first_difference(&yes, &no).unwrap();
        assert_eq!(at, 1, "{yes:?} {no:?}");
        assert_eq!(yes[at].situation, no[at].situation);
        assert_eq!((yes[at].next.as_str(), no[at].next.as_str()), ("1", "0"));
        let asked = Occasion::Woken { task: "1".into(), by: Some("0".into()) };
        assert_eq!(yes[at].situation.asked, asked);
        assert_eq!(yes[at].situation.waiting, BTreeSet::from(["1".to_owned()]));
    }

    #[test]
    fn a_third_task_that_runs_right_after_a_wakeup_preempts_by_it() {
        let mut events = vec![fork(1, 11), fork(2, 12), fork(3, 13), wakes(4, LOAD, 13)];
        events.extend([wakes(5, LOAD, 11), switch(6, LOAD, Left::Slept, 11), wakes(7, 11, 12)]);
        events.push(switch(8, 11, Left::Preempted, 13));
        let choices = of_events(&events);
        let last = choices.last().unwrap();
        assert_eq!((last.kind(), &*last.next, last.answer()), (Kind::Wakeup, "2", Some(true)));
        let asked = Occasion::Woken { task: "1".into(), by: Some("0".into()) };
        assert_eq!(last.situation.asked, asked);
        assert_eq!(last.situation.waiting, BTreeSet::from(["1".to_owned(), "2".to_owned()]));
    }

    #[test]
    fn who_runs_long_after_a_wakeup_was_not_preempted_by_it() {
        let after = |delay: u64| {
            let mut events = trace(true, 0);
            let switches = events.len() - 2;
            events[switches..].iter_mut().for_each(|event| event.time.0 += delay);
            let choices = of_events(&events);
            choices.iter().map(|one| (one.kind(), one.next.clone())).collect::<Vec<_>>()
        };
        let kinds = |all: &[(Kind, &str)]| -> Vec<(Kind, Slot)> {
            all.iter().map(|(kind, next)| (*kind, (*next).to_owned())).collect()
        };
        let soon = kinds(&[(Kind::Next, "0"), (Kind::Wakeup, "1"), (Kind::Next, "0")]);
        assert_eq!(after(0), soon);
        let stays = [(Kind::Next, "0"), (Kind::Wakeup, "0"), (Kind::Slice, "1")];
        let late = kinds(&[&stays[..], &[(Kind::Next, "0")]].concat());
        assert_eq!(after(PREEMPTS_WITHIN.0 + 10), late);
    }
}
