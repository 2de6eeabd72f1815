//! What requests were spent on: the intervals that user marks of one name enclose, each walked back from its end.
//!
//! A mark with a request's number ends what the mark with the same number began, whichever task puts it, so
//! requests may overlap and change tasks. Without a number, an end belongs to the same task's last begin. The
//! walk follows the task that ended the request ([`crate::WhyLate`] has the rules). One that has not ended when the
//! window does is walked back from there along the task that began it, if it is the longest already: it may be what a
//! snapshot was taken for.
//!
//! Memory: one entry for each change of a task's activity in the window, and one for each request.

use crate::caused_waits::CausedWaits;
use crate::causes::Causes;
use crate::change::Change;
use crate::occupants::Occupants;
use crate::off_cpu::OffCpuAnswer;
use crate::on_cpu::{OnCpuAnswer, OnCpuStacks};
use crate::question::{OtherEvent, Question};
use crate::ran_instead::Meanwhile;
use crate::stacks::{BlockedIn, Stacks};
use crate::state::State;
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use crate::throttling::Throttled;
use crate::why_late::{Doing, Spent, TaskHistories};
use schedlab_model::{Nanos, Phase, Span};
use std::collections::BTreeMap;
use std::ops::Range;

/// Asks what the requests of one name were spent on.
#[derive(Clone, Debug)]
pub struct Requests {
    name: String,
    nth: usize,
    histories: TaskHistories,
    pairs: Pairs,
    found: Vec<(Begun, Nanos, TaskId)>,
    unbegun: u64,
    chosen: Chosen,
}

/// What begin and end have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Request(u32),
    Task(TaskId),
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    at: Nanos,
    by: TaskId,
}

/// Begins of one name that have no end yet.
#[derive(Clone, Debug, Default)]
struct Pairs(BTreeMap<Key, Vec<Begun>>);

impl Pairs {
    /// Takes a mark. Of an end it gives the begin, or `None` where none was seen.
    fn mark(&mut self, mark: Begun, request: u32, phase: Phase) -> Option<Option<Begun>> {
        let key = if request > 0 { Key::Request(request) } else { Key::Task(mark.by) };
        match phase {
            Phase::Begin => self.0.entry(key).or_default().push(mark),
            Phase::End => {
                let open = self.0.get_mut(&key);
                let begun = open.and_then(Vec::pop);
                if self.0.get(&key).is_some_and(Vec::is_empty) {
                    self.0.remove(&key);
                }
                return Some(begun);
            }
            Phase::Point => {}
        }
        None
    }
}

/// On what a request spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Part {
    /// The task that ended it ran.
    Ran,
    /// That task waited for a CPU.
    Waited,
    /// That task was throttled: the quota of its control group was used up.
    Throttled,
    /// That task was blocked, and a task in its chain of wakers ran.
    WakerRan,
    /// That task was blocked, and a task in its chain of wakers waited for a CPU.
    WakerWaited,
    /// That task was blocked, and a task in its chain of wakers was throttled.
    WakerThrottled,
    /// It ended with an interrupt: a device or a timer.
    Interrupt,
    /// Blocked, and nothing ended it before the request did.
    Blocked,
    /// The events do not tell.
    Unknown,
}

impl Part {
    /// All parts. Each instant of a request is in exactly one.
    pub const ALL: [Self; 9] = [
        Self::Ran,
        Self::Waited,
        Self::Throttled,
        Self::WakerRan,
        Self::WakerWaited,
        Self::WakerThrottled,
        Self::Interrupt,
        Self::Blocked,
        Self::Unknown,
    ];

    /// A stable name for scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ran => "ran",
            Self::Waited => "runnable",
            Self::Throttled => "throttled",
            Self::WakerRan => "waker_ran",
            Self::WakerWaited => "waker_runnable",
            Self::WakerThrottled => "waker_throttled",
            Self::Interrupt => "interrupt",
            Self::Blocked => "blocked",
            Self::Unknown => "unknown",
        }
    }

    /// The part as a phrase for a text.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Ran => "it ran",
            Self::Waited => "it waited for a CPU",
            Self::Throttled => "it was throttled by the quota of its group",
            Self::WakerRan => "blocked while a waker ran",
            Self::WakerWaited => "blocked while a waker waited for a CPU",
            Self::WakerThrottled => "blocked while a waker was throttled",
            Self::Interrupt => "blocked until an interrupt (device or timer)",
            Self::Blocked => "blocked to the end",
            Self::Unknown => "unknown",
        }
    }

    const fn of(spent: &Spent) -> Self {
        match (spent.doing, spent.depth) {
            (Doing::Runs, 0) => Self::Ran,
            (Doing::Runs, _) => Self::WakerRan,
            (Doing::Runnable(_), 0) => Self::Waited,
            (Doing::Runnable(_), _) => Self::WakerWaited,
            (Doing::Throttled, 0) => Self::Throttled,
            (Doing::Throttled, _) => Self::WakerThrottled,
            (Doing::Interrupt(_), _) => Self::Interrupt,
            (Doing::Blocked, _) => Self::Blocked,
            (Doing::Woken | Doing::Unknown, _) => Self::Unknown,
        }
    }
}

/// One request, from the begin of its mark to its end, or to the end of the window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// From its begin to its end; where it is open, to the end of the window.
    pub span: Span,
    /// Who put the begin.
    pub begun_by: TaskId,
    /// Who put the end; where it is open, who put the begin.
    pub ended_by: TaskId,
    /// Whether it had not ended, so that its length is a lower bound.
    pub is_open: bool,
    /// The time of the request by [`Part::ALL`]; sums to its length.
    pub parts: [Nanos; Part::ALL.len()],
}

/// The mean request of some.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Composition {
    /// How many requests are averaged.
    pub count: usize,
    /// Their mean length, in nanoseconds.
    pub length_ns: f64,
    /// The parts of the mean request by [`Part::ALL`], in nanoseconds; they sum to its length.
    pub parts_ns: [f64; Part::ALL.len()],
}

/// What the requests of one name were spent on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RequestsAnswer {
    /// The requests that began and ended in the window, and those that had not ended and are longer than each of them
    /// already; longest first.
    pub requests: Vec<Request>,
    /// The parts in order of time of the one that was asked for; empty where there are fewer requests.
    pub spent: Vec<Spent>,
    /// How many others began and did not end in the window.
    pub unfinished: u64,
    /// How many ended without a begin in the window.
    pub unbegun: u64,
    /// Who was on each CPU: what ran while a task of a chain waited ([`Spent::wait`]).
    pub occupants: Occupants,
    /// What was on the CPUs for which the tasks that ended requests waited ([`Part::Waited`]): summed over the
    /// slowest and over the middle ones of [`RequestsAnswer::compositions`]; without these, empty.
    pub instead: [Meanwhile; 2],
    /// What the task that ended the request of [`RequestsAnswer::spent`] was blocked in, the longest first.
    pub blocked: Vec<BlockedIn>,
    /// The stacks by their numbers.
    pub stacks: Stacks,
}

/// With fewer requests, the slowest percent and the middle tenth say nothing.
pub const REQUESTS_MIN: usize = 20;

impl RequestsAnswer {
    /// The mean of the slowest 1 % (at least one) and of the middle 10 % by length; `None` of fewer than
    /// [`REQUESTS_MIN`] requests.
    #[must_use]
    pub fn compositions(&self) -> Option<[Composition; 2]> {
        Some(compared(self.requests.len())?.map(|group| mean(&self.requests[group])))
    }

    /// The length that a share `q` of the requests does not exceed (nearest rank); `None` of none.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Nanos> {
        let count = self.requests.len();
        let rank = (q * count as f64).ceil().max(1.0) as usize;
        let at = count.checked_sub(rank.min(count))?;
        self.requests.get(at).map(|request| request.span.duration())
    }
}

/// The places of the slowest percent and of the middle tenth, longest first; `None` of too few.
fn compared(count: usize) -> Option<[Range<usize>; 2]> {
    let tenth = count.div_ceil(10);
    let first = (count - tenth) / 2;
    (count >= REQUESTS_MIN).then(|| [0..count.div_ceil(100), first..first + tenth])
}

fn mean(requests: &[Request]) -> Composition {
    let count = requests.len();
    let of = |time: &dyn Fn(&Request) -> Nanos| {
        requests.iter().map(|request| time(request).0 as f64).sum::<f64>() / count as f64
    };
    let mut parts_ns = [0.0; Part::ALL.len()];
    for (at, part) in parts_ns.iter_mut().enumerate() {
        *part = of(&|request| request.parts[at]);
    }
    Composition { count, length_ns: of(&|request| request.span.duration()), parts_ns }
}

impl Requests {
    /// A question about the marks called `name`. It shows the `nth` longest request (1 is the
    /// longest) in order of time.
    #[must_use]
    pub fn new(name: impl Into<String>, nth: usize) -> Self {
        Self {
            name: name.into(),
            nth,
            histories: TaskHistories::default(),
            pairs: Pairs::default(),
            found: Vec::new(),
            unbegun: 0,
            chosen: Chosen::all(),
        }
    }

    /// Asks only about requests that a chosen task begins or ends.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { chosen, ..self }
    }

    /// The question, knowing when tasks were throttled ([`crate::Throttling`]).
    #[must_use]
    pub fn throttled(mut self, throttled: &[Throttled]) -> Self {
        self.histories.know(throttled);
        self
    }

    /// The requests, longest first, once the window has ended, and how many were begun and had not ended.
    fn all(&self, state: &State) -> (Vec<Request>, usize) {
        let request = |begun: &Begun, end: Nanos, ended_by: TaskId, is_open: bool| {
            let span = Span::new(begun.at, end);
            let mut parts = [Nanos::ZERO; Part::ALL.len()];
            for piece in walked(&self.histories, ended_by, span) {
                parts[Part::of(&piece) as usize] += piece.span.duration();
            }
            Request { span, begun_by: begun.by, ended_by, is_open, parts }
        };
        let mut requests: Vec<Request> =
            self.found.iter().map(|(begun, end, by)| request(begun, *end, *by, false)).collect();
        let longest = requests.iter().map(|request| request.span.duration()).max();
        // What a task that has ended began, it will not end.
        let alive = |by: TaskId| !by.is_some() || state.task(by).activity != Activity::Dead;
        let end = state.window().end;
        let begun: Vec<&Begun> =
            self.pairs.0.values().flatten().filter(|begun| self.chosen.has(begun.by)).collect();
        let open = begun.iter().copied().filter(|begun| {
            alive(begun.by) && longest.is_none_or(|longest| end - begun.at > longest)
        });
        requests.extend(open.map(|begun| request(begun, end, begun.by, true)));
        requests.sort_by_key(|request| {
            (std::cmp::Reverse(request.span.duration()), request.span.start)
        });
        (requests, begun.len())
    }

    /// All requests once the window has ended, or their slowest 1 % (at least one) alone; and how many there are.
    fn counted(&mut self, slowest: bool, state: &State) -> (Vec<Request>, usize) {
        self.histories.end(state);
        let (mut all, _) = self.all(state);
        let of = all.len();
        if slowest {
            all.truncate(of.div_ceil(100));
        }
        (all, of)
    }

    fn mark(&mut self, mark: Begun, request: u32, phase: Phase) {
        match self.pairs.mark(mark, request, phase) {
            Some(Some(begun)) if self.chosen.has(begun.by) || self.chosen.has(mark.by) => {
                self.found.push((begun, mark.at, mark.by));
            }
            Some(None) if self.chosen.has(mark.by) => self.unbegun += 1,
            _ => {}
        }
    }
}

fn walked(histories: &TaskHistories, ended_by: TaskId, span: Span) -> Vec<Spent> {
    let mut spent = Vec::new();
    histories.walk(ended_by, span, 0, &mut spent);
    spent
}

impl Question for Requests {
    type Answer = RequestsAnswer;
    const QUEUES: bool = false;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.histories.wants(format, state)
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        self.histories.other_event(event, state);
    }

    fn begin(&mut self, state: &State) {
        self.histories.begin(state);
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        match *change {
            Change::Mark { at, task, id, phase, request, .. } => {
                if state.marks().get(id as usize).is_some_and(|name| *name == self.name) {
                    self.mark(Begun { at, by: task }, request, phase);
                }
            }
            _ => self.histories.see(change, state),
        }
    }

    fn answer(mut self, state: &State) -> RequestsAnswer {
        self.histories.end(state);
        let (requests, begun) = self.all(state);
        let histories = &self.histories;
        let walked = |ended_by: TaskId, span: Span| walked(histories, ended_by, span);
        let one = self.nth.checked_sub(1).and_then(|at| requests.get(at));
        let spent = one.map_or_else(Vec::new, |one| walked(one.ended_by, one.span));
        let blocked = one.map_or_else(Vec::new, |one| histories.blocked(one.ended_by, one.span));
        let occupants = histories.occupants();
        let instead = compared(requests.len()).map(|groups| {
            groups.map(|group| {
                let all = requests[group].iter().flat_map(|one| walked(one.ended_by, one.span));
                occupants.during(all.filter(|piece| piece.depth == 0).filter_map(|it| it.wait()))
            })
        });
        let unfinished = (begun + self.found.len() - requests.len()) as u64;
        let unbegun = self.unbegun;
        let instead = instead.unwrap_or_default();
        let stacks = self.histories.stacks();
        RequestsAnswer { requests, spent, unfinished, unbegun, occupants, instead, blocked, stacks }
    }
}

/// Asks for the time off the CPU within the requests of one name, by stack: of the task that ended each, from its begin
/// to its end. What lies in two requests counts twice.
#[derive(Clone, Debug)]
pub struct RequestStacks {
    requests: Requests,
    slowest: bool,
}

/// Times within requests.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WithinRequests<A> {
    /// The times by stack; where wakers count, without their stacks.
    pub times: A,
    /// How many requests are in it.
    pub requests: usize,
    /// Of how many.
    pub of: usize,
}

impl RequestStacks {
    /// About the requests of the marks called `name`; `slowest`: about their slowest 1 % (at least one) alone.
    #[must_use]
    pub fn new(name: impl Into<String>, slowest: bool) -> Self {
        let mut requests = Requests::new(name, 1);
        requests.histories = TaskHistories::with_whole_stacks();
        Self { requests, slowest }
    }

    /// The same, with the causes of waits.
    #[must_use]
    pub fn with_causes(self, causes: Causes) -> RequestCauses {
        RequestCauses { stacks: self, causes, waits: CausedWaits::default() }
    }

    /// Asks only about requests that a chosen task begins or ends.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { requests: self.requests.about(chosen), ..self }
    }
}

impl Question for RequestStacks {
    type Answer = WithinRequests<OffCpuAnswer>;
    const QUEUES: bool = false;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.requests.wants(format, state)
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        self.requests.other_event(event, state);
    }

    fn begin(&mut self, state: &State) {
        self.requests.begin(state);
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        self.requests.see(change, state);
    }

    fn answer(self, state: &State) -> WithinRequests<OffCpuAnswer> {
        self.answer_with(None, state)
    }
}

impl RequestStacks {
    fn answer_with(
        mut self,
        waits: Option<&CausedWaits>,
        state: &State,
    ) -> WithinRequests<OffCpuAnswer> {
        let (counted, of) = self.requests.counted(self.slowest, state);
        let within = counted.iter().map(|one| (one.ended_by, one.span));
        let times = self.requests.histories.off_cpu(within, waits);
        WithinRequests { times, requests: counted.len(), of }
    }
}

/// Asks for the same as [`RequestStacks`], and for the causes of waits. Waits without a sleep before count too. Of a wait
/// that reaches out of its request and has several causes, the part inside is [`crate::WaitCause::Unknown`].
#[derive(Debug)]
pub struct RequestCauses {
    stacks: RequestStacks,
    causes: Causes,
    waits: CausedWaits,
}

impl Question for RequestCauses {
    type Answer = WithinRequests<OffCpuAnswer>;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.stacks.wants(format, state)
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        self.stacks.other_event(event, state);
    }

    fn begin(&mut self, state: &State) {
        self.stacks.begin(state);
        self.causes.begin(state);
    }

    fn see(&mut self, change: &Change, state: &State) {
        self.stacks.see(change, state);
        self.causes.see(change, state);
        self.causes.ended().iter().for_each(|wait| self.waits.add(wait));
    }

    fn answer(mut self, state: &State) -> WithinRequests<OffCpuAnswer> {
        let causes = self.causes.answer(state);
        causes.open.iter().for_each(|wait| self.waits.add(wait));
        self.stacks.answer_with(Some(&self.waits), state)
    }
}

/// Asks for the time on the CPU within the requests of one name, by stack: of the task that ended each, divided as the
/// ticks are that met it there ([`OnCpuStacks`]). What lies in two requests counts twice. Memory: one entry for each tick
/// beside those of [`Requests`].
#[derive(Clone, Debug)]
pub struct RequestRunning {
    requests: Requests,
    slowest: bool,
    ticks: OnCpuStacks,
}

impl RequestRunning {
    /// About the requests of the marks called `name`; `slowest`: about their slowest 1 % (at least one) alone.
    #[must_use]
    pub fn new(name: impl Into<String>, slowest: bool) -> Self {
        let ticks = OnCpuStacks::default().with_ticks(usize::MAX);
        Self { requests: Requests::new(name, 1), slowest, ticks }
    }

    /// Asks only about requests that a chosen task begins or ends.
    #[must_use]
    pub fn about(self, chosen: Chosen) -> Self {
        Self { requests: self.requests.about(chosen), ..self }
    }
}

impl Question for RequestRunning {
    type Answer = WithinRequests<OnCpuAnswer>;
    const QUEUES: bool = false;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.ticks.wants(format, state)
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        self.ticks.other_event(event, state);
    }

    fn begin(&mut self, state: &State) {
        self.requests.begin(state);
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        self.requests.see(change, state);
    }

    fn answer(mut self, state: &State) -> WithinRequests<OnCpuAnswer> {
        let (counted, of) = self.requests.counted(self.slowest, state);
        let within = counted.iter().map(|one| {
            let own = self.requests.histories.own(one.ended_by, one.span);
            let running = own.filter(|(_, activity)| matches!(activity, Activity::Running { .. }));
            let ran = running.fold(Nanos::ZERO, |sum, (span, _)| sum + span.duration());
            (one.ended_by, one.span, ran)
        });
        WithinRequests { times: self.ticks.within(within), requests: counted.len(), of }
    }
}

/// Asks when the requests of each name were: all that begin and end in the window.
#[derive(Clone, Debug, Default)]
pub struct RequestSpans {
    /// By the numbers of the marks' names.
    pairs: BTreeMap<u32, Pairs>,
    most: usize,
    answer: RequestSpansAnswer,
}

/// When requests were.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RequestSpansAnswer {
    /// In order of their ends.
    pub found: Vec<RequestSpan>,
    /// How many more there were than are kept.
    pub left_out: u64,
}

/// When a request was, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestSpan {
    /// The number of its marks' name.
    pub name: u32,
    /// From its begin to its end.
    pub span: Span,
    /// Who put the end.
    pub ended_by: TaskId,
}

impl RequestSpans {
    /// Keeps the first `most`.
    #[must_use]
    pub fn at_most(most: usize) -> Self {
        Self { most, ..Self::default() }
    }
}

impl Question for RequestSpans {
    type Answer = RequestSpansAnswer;
    const QUEUES: bool = false;

    fn see(&mut self, change: &Change, _: &State) {
        let Change::Mark { at, task, id, phase, request, .. } = *change else { return };
        let ended = self.pairs.entry(id).or_default().mark(Begun { at, by: task }, request, phase);
        let Some(Some(begun)) = ended else { return };
        if self.answer.found.len() < self.most {
            let span = Span::new(begun.at, at);
            self.answer.found.push(RequestSpan { name: id, span, ended_by: task });
        } else {
            self.answer.left_out += 1;
        }
    }

    fn answer(self, _: &State) -> RequestSpansAnswer {
        self.answer
    }
}
