//! One run beside others: what each task got, what was lost, and who ran when.

use schedlab_model::{Cpu, EventSource, Nanos, Pid, TraceInfo};
use schedlab_timeline::{
    Change, Conservation, ConservationAnswer, ConservationOptions, Cut, Delays, FirstDifference,
    Latency, Occupant, Question, State, Tasks, ask_within,
};
use std::collections::BTreeMap;
use std::io;

/// CPU time, waits and moves of one task in a run.
#[derive(Clone, Debug, Default)]
pub struct TaskSide {
    pub comm: String,
    /// Time that it ran.
    pub ran: Nanos,
    /// Time that it was runnable and did not run.
    pub waited: Nanos,
    /// How often it was displaced.
    pub(crate) involuntary: u64,
    /// How often it was woken.
    pub(crate) wakeups: u64,
    /// The number of moves between CPUs.
    pub(crate) migrations: u64,
    /// The waits of the task for a CPU.
    pub delays: Delays,
}

/// A CPU changes its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    at: Nanos,
    cpu: Cpu,
    next: Option<Pid>,
}

/// What one run did in the judged part of its time.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Its tasks: by pid, or by name alone where pids differ between runs.
    pub tasks: BTreeMap<(String, Pid), TaskSide>,
    /// The waits of all tasks.
    pub total: Delays,
    /// Time that tasks ran.
    pub ran: Nanos,
    /// Time that they were runnable and did not run.
    pub waited: Nanos,
    /// Times that a task was put on a CPU.
    pub switches: u64,
    /// Episodes in which a task waited while a CPU was free, and what was lost.
    pub lost: ConservationAnswer,
    turns: Vec<Turn>,
    origin: Nanos,
}

/// Where two runs part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The time of the parting, since the recording began.
    pub at: Nanos,
    /// The CPU on which the runs part.
    pub cpu: Cpu,
    /// Who runs there in the first run; `None`: nobody.
    pub first: Option<Pid>,
    /// Who runs there in the second.
    pub second: Option<Pid>,
    /// Number of switches that agree before.
    pub agreed: u64,
}

/// Asks who was put where.
#[derive(Default)]
struct Turns(Vec<Turn>);

impl Question for Turns {
    type Answer = Vec<Turn>;
    const QUEUES: bool = false;

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        if let Change::Switch(switch) = change
            && switch.left.is_some()
        {
            let next = match switch.is {
                Occupant::Task(task) => Some(state.task(task).pid),
                _ => None,
            };
            self.0.push(Turn { at: switch.at, cpu: switch.cpu, next });
        }
    }

    fn answer(self, _: &State) -> Vec<Turn> {
        self.0
    }
}

impl Side {
    /// What a run did within `cut`. With `by_name`, tasks of one name count as one: their pids differ between runs.
    ///
    /// # Errors
    /// When the source cannot be read.
    pub fn of(source: &mut dyn EventSource, cut: Cut, by_name: bool) -> io::Result<Self> {
        let info: TraceInfo = source.info().clone();
        let lost = Conservation::new(ConservationOptions::default(), &info);
        let question = (Latency::new(), Tasks::new(), lost, Turns::default());
        let reply = ask_within(source, cut, question)?;
        let (latency, tasks, lost, turns) = reply.answer;
        let mut side = Self {
            total: latency.total,
            lost,
            switches: turns.iter().filter(|turn| turn.next.is_some()).count() as u64,
            turns,
            origin: reply.origin,
            ..Self::default()
        };
        let key = |comm: &str, pid: Pid| match by_name {
            true => (comm.to_owned(), Pid::IDLE),
            false => (String::new(), pid),
        };
        for row in tasks.rows {
            side.ran += row.ran;
            side.waited += row.waited;
            let task = side.tasks.entry(key(&row.comm, row.pid)).or_default();
            task.comm = row.comm;
            task.ran += row.ran;
            task.waited += row.waited;
            task.involuntary += row.involuntary;
            task.wakeups += row.wakeups;
            task.migrations += row.migrations;
        }
        for row in latency.tasks {
            side.tasks.entry(key(&row.comm, row.pid)).or_default().delays.merge(&row.delays);
        }
        Ok(side)
    }
}

/// The first moment at which two runs part: a CPU takes another task, or takes it at another time by more than
/// `within`. `None` where they never do.
#[must_use]
pub fn parting(first: &Side, second: &Side, within: Nanos) -> Option<Divergence> {
    let turns = |side: &Side| -> Vec<(Cpu, Turn)> {
        let since = |at: Nanos| Nanos(at.0.saturating_sub(side.origin.0));
        side.turns.iter().map(|turn| (turn.cpu, Turn { at: since(turn.at), ..*turn })).collect()
    };
    let is_same =
        |one: &Turn, two: &Turn| one.next == two.next && one.at.0.abs_diff(two.at.0) <= within.0;
    let sides = [first, second].map(turns);
    let found = FirstDifference::of([&sides[0], &sides[1]], is_same, |turn| turn.at);
    let one = found.before;
    let two = found.after;
    let Turn { at, cpu, .. } = one.into_iter().chain(two).min_by_key(|turn| turn.at)?;
    let next = |turn: Option<Turn>| turn.and_then(|turn| turn.next);
    Some(Divergence { at, cpu, first: next(one), second: next(two), agreed: found.equal as u64 })
}
