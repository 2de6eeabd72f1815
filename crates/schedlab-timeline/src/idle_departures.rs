//! Wakeups that leave an idle CPU: the task's previous CPU idles, and another one is chosen.

use crate::change::{Change, Moved, Runnable, When};
use crate::question::Question;
use crate::state::{Occupant, State};
use crate::task::TaskId;
use crate::task_filter::Chosen;
use crate::totals::{About, Total, Totals};
use schedlab_model::Better::Neither;
use schedlab_model::{Cpu, Need, Unit};

/// Asks how often wakeups leave a previous CPU that idles. A CPU idles here if its idle task runs and
/// nobody waits on its queue at the moment of `sched_waking`.
#[derive(Clone, Debug, Default)]
pub struct Departures {
    chosen: Chosen,
    /// By task: the idle previous CPU of a wakeup whose CPU is not chosen yet.
    woken: Vec<Option<Cpu>>,
    answer: DeparturesAnswer,
}

/// What was found. Wakeups count whose choice of a CPU was seen (`sched_wakeup`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeparturesAnswer {
    /// Number of wakeups of tasks whose previous CPU idled.
    pub(crate) previous_idle: u64,
    /// Number of those wakeups that went to another CPU.
    pub(crate) left: u64,
}

impl DeparturesAnswer {
    /// The share of wakeups with an idle previous CPU that left it; `None` without such wakeups.
    #[must_use]
    pub(crate) fn share(&self) -> Option<f64> {
        (self.previous_idle > 0).then(|| self.left as f64 / self.previous_idle as f64)
    }
}

impl Departures {
    /// About wakeups of these tasks.
    #[must_use]
    pub(crate) fn about(chosen: Chosen) -> Self {
        Self { chosen, ..Self::default() }
    }

    /// A wakeup put the task on a CPU.
    fn chose(&mut self, task: TaskId, cpu: Cpu) {
        if let Some(previous) = self.of(task).take() {
            self.answer.previous_idle += 1;
            self.answer.left += u64::from(cpu != previous);
        }
    }

    fn of(&mut self, task: TaskId) -> &mut Option<Cpu> {
        if task.index() >= self.woken.len() {
            self.woken.resize(task.index() + 1, None);
        }
        &mut self.woken[task.index()]
    }
}

impl Question for Departures {
    type Answer = DeparturesAnswer;

    fn see(&mut self, change: &Change, state: &State) {
        match *change {
            Change::Runnable(Runnable { task, last_cpu: Some(previous), why, .. })
                if why.is_wakeup() && self.chosen.has(task) =>
            {
                let idles = state.cpu(previous).is_some_and(|cpu| {
                    cpu.occupant == Occupant::Idle
                        && state.waiters(previous).all(|waiter| waiter == task)
                });
                *self.of(task) = idles.then_some(previous);
            }
            Change::Placed { task, cpu, .. } => self.chose(task, cpu),
            // A kernel logs the move to the chosen CPU before the wakeup there.
            Change::Moved(Moved { task, to, when: When::Waking, .. }) => self.chose(task, to),
            _ => {}
        }
    }

    fn answer(self, _: &State) -> DeparturesAnswer {
        self.answer
    }
}

impl Totals for Departures {
    fn totals() -> Vec<Total> {
        let share = "Share of wakeups with an idle previous CPU whose task was put on another CPU.";
        vec![
            Total::count(
                "wakeups_previous_idle",
                Neither,
                "Wakeups whose task last ran on a CPU that idles.",
            )
            .needs(Need::Episodes),
            Total::level("wakeups_left_idle_fraction", Unit::Fraction, Neither, share)
                .needs(Need::Episodes),
        ]
    }

    fn question(about: &About<'_>) -> Self {
        Self::about(about.chosen.clone())
    }

    fn values(answer: &DeparturesAnswer, _: &Chosen) -> Vec<Option<f64>> {
        vec![Some(answer.previous_idle as f64), answer.share()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask;
    use schedlab_model::*;

    /// Tasks 1 and 2 ran on CPU 1 before; task 1 is woken while it idles, task 2 while it does not. A
    /// kernel logs the move of a task to another CPU before its wakeup there; other tracers need not.
    fn events(chosen: [u16; 2], moves: bool) -> Vec<Event> {
        let prio = Prio::NORMAL;
        let event = |time, cpu, what| Event {
            time: Nanos(time),
            by: Pid::IDLE,
            cpu: Cpu(cpu),
            context: Context::Task,
            what,
        };
        let switch = |prev: i32, next: i32| What::Switch {
            prev: Pid(prev),
            prev_prio: prio,
            left: Left::Slept,
            next: Pid(next),
            next_prio: prio,
        };
        let waking = |pid: i32| What::Waking { pid: Pid(pid), prio, last_cpu: Cpu(1) };
        let wakeup =
            |pid: i32, cpu| What::Wakeup { pid: Pid(pid), prio, cpu: Cpu(cpu), new: false };
        let migrate = |pid: i32, to: u16| {
            let (pid, from, to) = (Pid(pid), Cpu(1), Cpu(to));
            (moves && from != to).then(|| event(5, 0, What::Migrate { pid, from, to }))
        };
        let [one, two] = chosen;
        let mut all =
            vec![event(1, 0, switch(9, 0)), event(1, 1, switch(1, 0)), event(5, 0, waking(1))];
        all.extend(migrate(1, one));
        all.extend([
            event(5, 0, wakeup(1, one)),
            event(6, one, switch(0, 1)),
            event(7, 1, switch(0, 3)),
            event(8, 0, waking(2)),
        ]);
        all.extend(migrate(2, two).map(|moved| Event { time: Nanos(8), ..moved }));
        all.push(event(8, 0, wakeup(2, two)));
        all
    }

    fn asked(chosen: [u16; 2], moves: bool) -> DeparturesAnswer {
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        info.cpus = CpuSet::first(2);
        let mut trace = crate::notation::parse("0 | .").unwrap();
        trace.info.cpus = info.cpus;
        trace.events = events(chosen, moves);
        ask(&mut trace.source(), Departures::about(Chosen::all())).unwrap().answer
    }

    #[test]
    fn only_wakeups_whose_previous_cpu_idles_count() {
        for moves in [false, true] {
            let asked = |chosen| asked(chosen, moves);
            assert_eq!(asked([0, 0]), DeparturesAnswer { previous_idle: 1, left: 1 });
            assert_eq!(asked([1, 0]), DeparturesAnswer { previous_idle: 1, left: 0 });
            assert_eq!(asked([0, 0]).share(), Some(1.0));
        }
        assert_eq!(DeparturesAnswer::default().share(), None);
    }
}
