//! Questions, and the one pass that answers them.

use crate::change::Change;
use crate::check::{self, Check, Checked};
use crate::state::State;
use crate::task::TaskId;
use schedlab_model::{
    Cpu, Event, EventSink, EventSource, Kind, Known, Nanos, Pid, Span, TraceInfo, Warning, What,
};
use std::borrow::Cow;
use std::io;

/// What a pass over a trace can be asked. A tuple of questions is a question.
pub trait Question {
    /// What the pass gives when the window has closed.
    type Answer;

    /// Whether it looks at queues: who waits on a CPU, and how many do. If no question does, the
    /// state does not keep queues, which a latency table does not need: `State::waiters` gives none,
    /// and [`crate::CpuState::waiting`] stays 0.
    const QUEUES: bool = true;

    /// Whether it wants the arguments of tracepoints beyond the scheduler's ([`Self::other_event`]).
    const ARGUMENTS: bool = false;

    /// Whether the state machine is compiled once more for this question. That saves a call for each change: 2 to 8 % of the time
    /// on a file of 4 million events. The copies for all questions were a tenth of the command's code, so few have one.
    const INLINED: bool = false;

    /// Whether it wants the arguments of this tracepoint, an index into [`State::others`]: to spell those of others would
    /// be for nothing.
    fn wants(&mut self, format: u16, state: &State) -> bool {
        let _ = (format, state);
        Self::ARGUMENTS
    }

    /// A tracepoint beyond the scheduler's fired; `state` is the state then. This is called for those before the window too,
    /// since they say what holds when it opens. Only where [`Self::ARGUMENTS`], and by a source that was opened for it.
    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        let _ = (event, state);
    }

    /// The window opens: what is true at its first instant. Intervals that are open now began
    /// before [`State::window`] does.
    fn begin(&mut self, state: &State) {
        let _ = state;
    }

    /// Something changed; `state` is the state after it.
    fn see(&mut self, change: &Change, state: &State);

    /// The window closes at the end of [`State::window`]: intervals that are open now end there.
    fn answer(self, state: &State) -> Self::Answer;
}

/// A tracepoint beyond the scheduler's, with its arguments.
#[derive(Clone, Copy, Debug)]
pub struct OtherEvent<'a> {
    /// The time at which the event fired.
    pub at: Nanos,
    /// The CPU that logged it.
    pub cpu: Cpu,
    /// The task that was current there.
    pub by: Pid,
    /// The tracepoint, as an index into [`State::others`].
    pub format: u16,
    /// The arguments of the event as text: `state=1 cpu_id=3`.
    pub arguments: &'a str,
}

impl OtherEvent<'_> {
    /// The number that an argument has, also in hexadecimal; `None` if there is no such argument or
    /// it is not a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        let mut words = self.arguments.split_whitespace();
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
        match value.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            // An unsigned -1 is written as a negative number by some.
            None => value.parse().ok().or_else(|| value.parse().ok().map(i64::cast_unsigned)),
        }
    }
}

macro_rules! tuple {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Question),+> Question for ($($name,)+) {
            type Answer = ($($name::Answer,)+);
            const QUEUES: bool = $($name::QUEUES)||+;
            const ARGUMENTS: bool = $($name::ARGUMENTS)||+;
            const INLINED: bool = $($name::INLINED)||+;
            fn wants(&mut self, format: u16, state: &State) -> bool {
                $(self.$index.wants(format, state))|+
            }
            fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
                $(self.$index.other_event(event, state);)+
            }
            fn begin(&mut self, state: &State) {
                $(self.$index.begin(state);)+
            }
            #[inline]
            fn see(&mut self, change: &Change, state: &State) {
                $(self.$index.see(change, state);)+
            }
            fn answer(self, state: &State) -> Self::Answer {
                ($(self.$index.answer(state),)+)
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// A question that may be left out.
impl<Q: Question> Question for Option<Q> {
    type Answer = Option<Q::Answer>;
    const QUEUES: bool = Q::QUEUES;
    const ARGUMENTS: bool = Q::ARGUMENTS;
    const INLINED: bool = Q::INLINED;
    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.as_mut().is_some_and(|question| question.wants(format, state))
    }
    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        if let Some(question) = self {
            question.other_event(event, state);
        }
    }
    fn begin(&mut self, state: &State) {
        if let Some(question) = self {
            question.begin(state);
        }
    }
    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        if let Some(question) = self {
            question.see(change, state);
        }
    }
    fn answer(self, state: &State) -> Self::Answer {
        self.map(|question| question.answer(state))
    }
}

/// A question that can do without arguments, asked with them: for traces that are known to hold what it wants.
#[derive(Clone, Debug)]
pub struct WithArguments<Q>(pub Q);

impl<Q: Question> Question for WithArguments<Q> {
    type Answer = Q::Answer;
    const QUEUES: bool = Q::QUEUES;
    const ARGUMENTS: bool = true;
    const INLINED: bool = Q::INLINED;
    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.0.wants(format, state)
    }
    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        self.0.other_event(event, state);
    }
    fn begin(&mut self, state: &State) {
        self.0.begin(state);
    }
    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        self.0.see(change, state);
    }
    fn answer(self, state: &State) -> Self::Answer {
        self.0.answer(state)
    }
}

/// Which part of a trace is asked about, relative to its first instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// From here; `None` is the beginning.
    pub from: Option<Nanos>,
    /// Up to, but not including, here; `None` is the end.
    pub to: Option<Nanos>,
}

/// What a pass gives back.
#[derive(Clone, Debug)]
pub struct Reply<A> {
    /// What the question gave when the window closed.
    pub answer: A,
    /// The first instant of the trace, which times are shown relative to.
    pub origin: Nanos,
    /// What was observed: the answers' window.
    pub observed: Span,
    /// The state at the end: tasks, names, CPUs, and what did not fit.
    pub state: State,
    /// Why figures may be bounds or unknown, and what the source warned of.
    pub warnings: Vec<Warning>,
    /// What is known of the trace, which decides how exact each figure is.
    pub known: Known,
    /// What the kernel counted for tasks, beside what the events say: of a whole trace, where somebody read the counters.
    /// The largest difference of run time comes first.
    pub checked: Vec<Checked>,
}

impl<A> Reply<A> {
    /// What was compared with the kernel's counters for a task whose times are off.
    #[must_use]
    pub fn off(&self, task: TaskId) -> Option<&Checked> {
        self.checked.iter().find(|one| one.is_off && one.task == Some(task))
    }

    /// This reply about another form of the answer.
    #[must_use]
    pub fn map<B>(self, form: impl FnOnce(A) -> B) -> Reply<B> {
        let Self { answer, origin, observed, state, warnings, known, checked } = self;
        Reply { answer: form(answer), origin, observed, state, warnings, known, checked }
    }
}

/// Asks about a whole trace.
///
/// # Errors
/// When the source cannot be read.
pub fn ask<Q: Question>(source: &mut dyn EventSource, question: Q) -> io::Result<Reply<Q::Answer>> {
    ask_within(source, Cut::default(), question)
}

/// Asks about a part of a trace. Events before the window are read, since they show who runs and
/// waits when it opens. Events after it are not read.
///
/// # Errors
/// When the source cannot be read.
pub fn ask_within<Q: Question>(
    source: &mut dyn EventSource,
    cut: Cut,
    question: Q,
) -> io::Result<Reply<Q::Answer>> {
    let span = source.info().span;
    let mut pass = Pass::new(source.info(), question);
    let mut batch = Vec::new();
    let mut more = source.next(&mut batch)?;
    let start = span.map(|span| span.start).or_else(|| first_instant(&batch));
    pass.start(start.unwrap_or(Nanos::ZERO), cut);
    let end = cut.to.map_or(Nanos::MAX, |to| pass.state.origin + to);
    while more {
        pass.state.learn(source.info());
        if !pass.feed(&batch, end, &|index| source.arguments(index)) {
            break;
        }
        more = source.next(&mut batch)?;
    }
    // A source that knows its span has observed it to the end, whether or not anything happened.
    let last = if more { end } else { span.map_or(pass.state.now, |span| span.end).min(end) };
    pass.state.learn(source.info());
    Ok(pass.reply(last, source.warnings()))
}

/// Asks about a whole trace whose source is known by its type: [`EventSource::drain`] then makes one loop
/// of decoding and answering, where [`ask`] goes by batches. The reply is the same, but for questions that want arguments
/// ([`Question::ARGUMENTS`]): they are for [`ask`].
///
/// # Errors
/// When the source cannot be read.
pub fn ask_all<Q: Question>(
    source: &mut impl EventSource,
    question: Q,
) -> io::Result<Reply<Q::Answer>> {
    let span = source.info().span;
    let mut pass = Pass::new(source.info(), question);
    let mut batch = Vec::new();
    source.next(&mut batch)?;
    let start = span.map(|span| span.start).or_else(|| first_instant(&batch));
    pass.start(start.unwrap_or(Nanos::ZERO), Cut::default());
    pass.feed(&batch, Nanos::MAX, &|index| source.arguments(index));
    source.drain(&mut pass)?;
    let last = span.map_or(pass.state.now, |span| span.end);
    pass.state.coverage = source.info().coverage;
    Ok(pass.reply(last, source.warnings()))
}

/// First and last instant of a trace: what its source says, or else where its events begin and end.
/// Reads all of it in the latter case.
///
/// # Errors
/// When the source cannot be read.
pub fn span_of(source: &mut dyn EventSource) -> io::Result<Span> {
    if let Some(span) = source.info().span {
        return Ok(span);
    }
    let mut first = None;
    let mut last = Nanos::ZERO;
    let mut batch = Vec::new();
    while source.next(&mut batch)? {
        first = first.or_else(|| first_instant(&batch));
        last = batch.last().map_or(last, |event| event.time);
    }
    Ok(Span::new(first.unwrap_or(Nanos::ZERO), last))
}

/// When a trace begins that does not say so: with its first event. Names come beforehand too, by a recorder
/// that prepares (perf's own `comm` records come up to a second before its first sample), and begin nothing.
fn first_instant(batch: &[Event]) -> Option<Nanos> {
    let begins = batch.iter().find(|event| event.what.kind() != Kind::Comm);
    begins.or_else(|| batch.first()).map(|event| event.time)
}

pub(crate) struct Pass<Q> {
    pub(crate) state: State,
    pub(crate) question: Q,
    /// Where the kernel's counters were read, and the pass is about the whole trace.
    check: Option<Check>,
    open: bool,
    started: bool,
}

impl<Q: Question> Pass<Q> {
    fn new(info: &TraceInfo, question: Q) -> Self {
        let mut state = State::new(info);
        state.queues = Q::QUEUES;
        if let Some(at) = &info.at_start {
            state.resume(at);
        }
        Self { state, question, check: Check::of(info), open: false, started: false }
    }

    /// A pass that begins with a state at the first instant of its window.
    pub(crate) fn from(state: State, question: Q) -> Self {
        let mut pass = Self { state, question, check: None, open: false, started: true };
        pass.open();
        pass
    }

    fn start(&mut self, origin: Nanos, cut: Cut) {
        let state = &mut self.state;
        state.origin = origin;
        state.now = origin;
        state.cpus.iter_mut().for_each(|cpu| cpu.since = origin);
        let from = origin + cut.from.unwrap_or(Nanos::ZERO);
        if cut != Cut::default() {
            self.check = None;
        }
        state.window = Span::new(from, from);
        self.started = true;
        if from == origin {
            self.open();
        }
    }

    fn open(&mut self) {
        self.open = true;
        self.question.begin(&self.state);
    }

    /// Takes in a batch; false when the window's end has come.
    fn feed<'a>(
        &mut self,
        batch: &[Event],
        end: Nanos,
        arguments: &dyn Fn(usize) -> Option<Cow<'a, str>>,
    ) -> bool {
        debug_assert!(self.started);
        let mut rest = batch;
        let mut before = 0;
        if !self.open {
            let from = self.state.window.start;
            before = batch.iter().position(|event| event.time >= from).unwrap_or(batch.len());
            for (index, event) in batch[..before].iter().enumerate() {
                let nobody: Observer<'_> = &mut |_, _| {};
                self.state.step(event, nobody);
                self.tell(event, index, arguments);
            }
            rest = &batch[before..];
            if rest.is_empty() {
                return true;
            }
            self.open();
        }
        for (index, event) in rest.iter().enumerate() {
            if event.time >= end {
                return false;
            }
            self.take(event);
            self.tell(event, before + index, arguments);
        }
        true
    }

    /// Hands on the arguments of the event at `index`, where the question wants them.
    #[inline(always)]
    fn tell<'a>(
        &mut self,
        event: &Event,
        index: usize,
        arguments: &dyn Fn(usize) -> Option<Cow<'a, str>>,
    ) {
        if Q::ARGUMENTS
            && let What::Other { format } = event.what
            && self.question.wants(format, &self.state)
            && let Some(text) = arguments(index)
        {
            let Event { time: at, cpu, by, .. } = *event;
            let fired = OtherEvent { at, cpu, by, format, arguments: &text };
            self.question.other_event(&fired, &self.state);
        }
    }

    pub(crate) fn reply(self, end: Nanos, warned: &[Warning]) -> Reply<Q::Answer> {
        let (answer, checked, state) = self.finish(end);
        let mut warnings = state.warnings();
        warnings.extend_from_slice(warned);
        warnings.extend(check::warning(&checked, &state));
        let origin = state.origin;
        let observed = state.window;
        let known = state.known();
        Reply { answer, origin, observed, state, warnings, known, checked }
    }

    fn finish(mut self, end: Nanos) -> (Q::Answer, Vec<Checked>, State) {
        let end = end.max(self.state.window.start).max(if self.open {
            self.state.now
        } else {
            Nanos::ZERO
        });
        if !self.open {
            self.open();
        }
        self.state.now = self.state.now.max(end);
        let question = &mut self.question;
        let see: Observer<'_> = &mut |change, state| question.see(change, state);
        self.state.forget_unseen(see);
        self.state.window.end = end;
        let checked = self.check.map(|check| check.answer(&self.state)).unwrap_or_default();
        (self.question.answer(&self.state), checked, self.state)
    }
}

/// Called for each change by the copy of the state machine that most questions share.
type Observer<'a> = &'a mut dyn FnMut(&Change, &State);

impl<Q: Question> EventSink for Pass<Q> {
    #[inline(always)]
    fn take(&mut self, event: &Event) {
        let Self { state, question, check, .. } = self;
        let mut see = |change: &Change, state: &State| {
            if let Some(check) = check {
                check.see(change, state);
            }
            question.see(change, state);
        };
        if Q::INLINED {
            state.step(event, &mut see);
        } else {
            let see: Observer<'_> = &mut see;
            state.step(event, see);
        }
    }
}
