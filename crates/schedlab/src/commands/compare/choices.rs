//! What two schedulers chose in the same situations: as numbers, as text and as a picture.

mod shown;

use schedlab_model::Nanos;
use schedlab_vm::choices::{self, Answers, Case, Class, Difference, Kind, Occasion, Starts};
use schemars::JsonSchema;
use serde::Serialize;

/// What both schedulers chose.
#[derive(Serialize, JsonSchema)]
pub(super) struct Choices {
    /// Starts from which each kernel was recorded.
    starts: usize,
    /// Choices of the first side, in all starts.
    before: usize,
    /// Choices of the second side.
    after: usize,
    /// How many were equal before the first one that differs, in the first start; none if all are equal.
    equal: Option<usize>,
    /// How often each class of choices has its answer on each side.
    classes: Vec<OfClass>,
    /// The first choice that shows what differs: both sides had the same situation, and chose differently.
    first: Option<First>,
}

/// How often a class of choices has the answer yes.
#[derive(Serialize, JsonSchema)]
struct OfClass {
    /// `wakeup` (does a wakeup preempt the current task?), `slice` (does a task that has run for a while give way to one that
    /// waits?) or `next` (is the one that waited longest next, after a task that slept?).
    kind: &'static str,
    /// In which situations; none: in all of this kind.
    case: Option<String>,
    before: Share,
    after: Share,
    /// The same of each kernel that differs from the first side in neutral code.
    placebos: Vec<Share>,
    /// The chance that neutral code makes such a difference in any class; 1 if a placebo is as far away.
    p: f64,
    /// Whether this is a difference: less likely than 1 in 20.
    differs: bool,
}

/// How many choices have the answer yes.
#[derive(Clone, Copy, Serialize, JsonSchema)]
struct Share {
    yes: usize,
    all: usize,
}

impl From<Answers> for Share {
    fn from(Answers { yes, all }: Answers) -> Self {
        Self { yes, all }
    }
}

impl OfClass {
    fn of(found: &Difference) -> Self {
        let Class { kind, case } = found.class;
        Self {
            kind: word(kind),
            case: case.map(in_words),
            before: found.before.into(),
            after: found.after.into(),
            placebos: found.placebos.iter().copied().map(Share::from).collect(),
            p: found.p,
            differs: found.is_shown(),
        }
    }
}

const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Wakeup => "wakeup",
        Kind::Slice => "slice",
        Kind::Next => "next",
    }
}

fn in_words(case: Case) -> String {
    match case {
        Case::Ran(ran) => format!("the current task has run for {ran}"),
        Case::Waiting(from) => format!("{from} to {} tasks wait", 2 * from - 1),
    }
}

/// One situation in which the sides chose differently.
#[derive(Serialize, JsonSchema)]
struct First {
    /// Whose choice it is: `before` or `after`. The other side never chose so.
    side: &'static str,
    /// When, in nanoseconds on the clock of that side's trace.
    at_ns: u64,
    /// The start of that side in which it is, from 1.
    start: usize,
    cpu: u16,
    /// What was decided, as in `classes`.
    kind: &'static str,
    /// In which situations the sides differ.
    case: Option<String>,
    /// The task that ran, by its slot in the load's plan.
    current: String,
    /// For how long it had run since it was chosen.
    ran: String,
    /// The tasks that waited on that CPU.
    waiting: Vec<String>,
    /// Why the scheduler was asked.
    asked: String,
    /// What the first side chose there.
    chose_before: Vec<Chosen>,
    /// What the second side chose there.
    chose_after: Vec<Chosen>,
    /// Whom kernels with neutral changes chose in this situation, and how often.
    chose_placebos: Vec<Chosen>,
    /// The task that one side chose, and the other side never.
    chosen: String,
}

/// A task that was chosen in a situation.
#[derive(Clone, Serialize, JsonSchema)]
struct Chosen {
    task: String,
    times: usize,
}

impl Choices {
    /// Compares the choices of two sides and of placebos of the first one, each from several starts.
    pub(super) fn of(before: &Starts, after: &Starts, placebos: &[Starts]) -> Self {
        let found = choices::differences(before, after, placebos);
        let first = choices::first(before, after, placebos, &found);
        let count = |starts: &Starts| starts.iter().map(Vec::len).sum();
        let of_start = |starts: &Starts| starts.first().cloned().unwrap_or_default();
        Self {
            starts: after.len(),
            before: count(before),
            after: count(after),
            equal: choices::first_difference(&of_start(before), &of_start(after)),
            classes: found.iter().map(OfClass::of).collect(),
            first: first.as_ref().map(First::of),
        }
    }
}

impl First {
    fn of(first: &choices::First<'_>) -> Self {
        let choices::First { choice, is_after, start, difference, before, after, placebos } = first;
        let situation = &choice.situation;
        let asked = match &situation.asked {
            Occasion::Woken { task, by: Some(by) } => format!("task {by} woke task {task}"),
            Occasion::Woken { task, by: None } => format!("task {task} was woken"),
            Occasion::Left => format!("task {} slept", situation.current),
            Occasion::Ran => format!("task {} has run for {}", situation.current, situation.ran),
        };
        let list = |chosen: &choices::Chosen| -> Vec<Chosen> {
            let one =
                |(task, times): (&String, &usize)| Chosen { task: task.clone(), times: *times };
            chosen.iter().map(one).collect()
        };
        Self {
            side: if *is_after { "after" } else { "before" },
            at_ns: choice.at.0,
            start: start + 1,
            cpu: situation.cpu.0,
            kind: word(choice.kind()),
            case: difference.class.case.map(in_words),
            current: situation.current.clone(),
            ran: situation.ran.to_string(),
            waiting: situation.waiting.iter().cloned().collect(),
            asked,
            chose_before: list(before),
            chose_after: list(after),
            chose_placebos: list(placebos),
            chosen: choice.next.clone(),
        }
    }

    /// The side that made the choice, and the one that never did.
    fn sides<'s>(&self, [before, after]: [&'s str; 2]) -> [&'s str; 2] {
        if self.side == "after" { [after, before] } else { [before, after] }
    }

    fn place(&self) -> String {
        format!("CPU {} at {} of start {}", self.cpu, Nanos(self.at_ns), self.start)
    }
}
