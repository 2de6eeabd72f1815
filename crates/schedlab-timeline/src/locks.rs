//! Locks: who waited for which, who held it, and what the holder did meanwhile.
//!
//! Three sources tell of waits, and each names holders in its own way:
//!
//! - Futex calls, by process and address. A wait lasts from its call to its waking. Whoever makes the call that releases the
//!   lock held it until then, since the release before it. So a holder is known afterwards; only the word of some futexes
//!   names it while it holds. A futex may be no lock: condition variables, semaphores and joins wait in the same call. It
//!   counts as a lock if the call hands it over (`FUTEX_LOCK_PI`), if all its waits found a holder in the word, or if all
//!   found the value 2, which mutexes hold while others wait.
//! - `contention_begin` and `contention_end` of the kernel's own locks. The holder is who woke the task that slept. Who holds a
//!   lock for which others spin is not told.
//! - Marks that programs put: [`HELD`] with a name from the taking of a lock to its release, and [`WAITED_FOR`] around the wait.
//!   Nothing else tells of user spinlocks.
//!
//! Each instant of a wait is one thing that the holder did: it ran, it waited for a CPU, it was throttled, it was blocked, or
//! it is unknown. Times are summed over tasks: while 12 tasks wait, a millisecond costs 12 ms.
//!
//! Marks before the window are not seen: what one begins there counts from the window's start if it ends in it.
//!
//! Memory: one entry for each change of a task's activity in the window, and one for each wait, release and hold.

mod edge;
mod row;
mod sums;

pub use row::{LockHeld, LockWait};

use crate::change::{Change, Runnable};
use crate::known_formats::KnownFormats;
use crate::question::{OtherEvent, Question};
use crate::state::State;
use crate::task::{Activity, TaskId};
use crate::task_filter::Chosen;
use crate::throttling::Throttled;
use crate::why_late::TaskHistories;
use edge::{Edge, Point, Word};
use schedlab_model::{Context, Nanos, Phase, Pid, Span, TraceInfo};
use std::collections::{BTreeMap, BTreeSet};
use sums::Sums;

/// What the mark of a held lock begins with; the lock's name follows.
pub const HELD: &str = "lock:";
/// What the mark of a wait for a lock begins with; the lock's name follows.
pub const WAITED_FOR: &str = "lock-wait:";

/// Whether a trace can tell of locks, by its tracepoints and marks.
#[must_use]
pub fn tells_of_locks(info: &TraceInfo) -> bool {
    info.others.iter().any(|format| Point::of(format).is_some())
        || info.marks.iter().any(|mark| marked(mark).is_some())
}

/// What identifies a lock; [`LocksAnswer::title`] has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockName(pub(crate) Lock);

/// What the trace knows of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    /// The word of a futex. The address holds in the process; `None` where the trace holds no processes.
    Word { process: Option<Pid>, address: u64 },
    /// A lock of the kernel, by its address.
    Kernel(u64),
    /// A lock that a program names in marks ([`HELD`], [`WAITED_FOR`]): the process of those that put the marks, where the
    /// trace holds processes, and an index into `LocksAnswer::names`.
    Marked { process: Option<Pid>, name: usize },
}

/// How the holder of a lock is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockKind {
    /// The kernel hands the lock over, so only its holder can release it (`FUTEX_LOCK_PI`).
    Inherits,
    /// The word names the holder, and who released it is known.
    Named,
    /// Each wait found the value 2: a mutex of glibc, Rust or Go. Who released it held it.
    Mutex,
    /// A lock of the kernel: who woke the task that slept held it.
    Kernel,
    /// Marks tell.
    Marked,
}

impl LockKind {
    /// A stable name for scripts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Inherits => "pi",
            Self::Named => "word",
            Self::Mutex => "mutex",
            Self::Kernel => "kernel",
            Self::Marked => "marks",
        }
    }
}

/// Asks who waited for locks, and what their holders did.
#[derive(Clone, Debug)]
pub struct Locks {
    /// By the index that an event carries; learnt as sources learn them.
    points: KnownFormats<Point>,
    processes: Option<BTreeMap<Pid, Pid>>,
    histories: TaskHistories,
    all: BTreeMap<LockName, Gathered>,
    calls: BTreeMap<TaskId, Call>,
    contended: BTreeMap<TaskId, Vec<Contended>>,
    marks: Marks,
    listed_waits: u64,
    listed_wakes: u64,
}

/// What was seen of a lock.
#[derive(Clone, Debug, Default)]
struct Gathered {
    waits: Vec<Waited>,
    /// By whom it was released, in order of time.
    releases: Vec<(Nanos, TaskId)>,
    /// By whom it was held, as marks tell; in order of time when the window ends.
    holds: Vec<(Span, TaskId)>,
    /// By hold: until when it or one before it lasts.
    held_until: Vec<Nanos>,
    words: Words,
}

/// What waits found in a word.
#[derive(Clone, Copy, Debug, Default)]
struct Words {
    inherits: bool,
    named: bool,
    contended: bool,
    other: bool,
}

#[derive(Clone, Copy, Debug)]
struct Waited {
    task: TaskId,
    span: Span,
    /// Whether a release ended it.
    is_released: bool,
    /// Whom the word named.
    named: Option<Pid>,
}

/// The futex call in which a task is.
#[derive(Clone, Copy, Debug)]
enum Call {
    Waits { name: LockName, is_private: bool, since: Nanos, word: Word },
    Wakes { name: LockName, is_private: bool },
}

/// A wait for a lock of the kernel that goes on.
#[derive(Clone, Copy, Debug)]
struct Contended {
    lock: u64,
    since: Nanos,
    has_slept: bool,
}

/// Marks that tell of locks.
#[derive(Clone, Debug, Default)]
struct Marks {
    /// By the number of a mark: whether it is of a wait, and the number of the name.
    known: Vec<Option<(bool, usize)>>,
    names: Vec<String>,
    /// What has begun, and since when.
    open: BTreeMap<(bool, LockName, TaskId), Nanos>,
    /// What was seen to begin before.
    seen: BTreeSet<(bool, LockName, TaskId)>,
}

/// Who waited for locks, and what their holders did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LocksAnswer {
    /// By lock and holder, those first whose lack of a CPU cost the most waiting.
    pub rows: Vec<LockHeld>,
    /// The waits for locks, in order of time.
    pub waits: Vec<LockWait>,
    /// The names of locks that marks name.
    pub(crate) names: Vec<String>,
    /// How many waits on futexes are taken for no locks.
    pub other_count: u64,
    /// How long these were, summed over tasks.
    pub other_time: Nanos,
    /// How many calls of `futex_waitv` are in no lock: their events do not hold the words.
    pub listed_waits: u64,
    /// How many calls of `futex_requeue` are, likewise.
    pub listed_wakes: u64,
}

impl LocksAnswer {
    /// Keeps what concerns chosen tasks: locks that one of them held, or waited for.
    pub fn about(&mut self, chosen: &Chosen) {
        if chosen.is_all() {
            return;
        }
        let is_one = |task: TaskId| chosen.has(task);
        self.waits.retain(|wait| is_one(wait.task) || wait.holder.is_some_and(is_one));
        let locks: BTreeSet<LockName> = self.waits.iter().map(|wait| wait.lock).collect();
        self.rows.retain(|row| locks.contains(&row.lock) || row.holder.is_some_and(is_one));
    }

    /// What a lock is called: `postgres:17 0x7f0012345678`.
    #[must_use]
    pub fn title(&self, lock: LockName, state: &State) -> String {
        let of = |process: Option<Pid>| match process {
            None => String::new(),
            Some(process) => match state.task_of(process) {
                Some(task) => format!("{}:{process} ", state.name(task)),
                None => format!("process {process} "),
            },
        };
        match lock {
            LockName(Lock::Word { process, address }) => format!("{}{address:#x}", of(process)),
            LockName(Lock::Kernel(address)) => format!("kernel {address:#x}"),
            LockName(Lock::Marked { process, name }) => {
                format!("{}{}", of(process), self.names.get(name).map_or("", String::as_str))
            }
        }
    }
}

/// Whether the mark is of a wait, and the lock's name; `None` for other marks.
fn marked(mark: &str) -> Option<(bool, &str)> {
    let waits = mark.strip_prefix(WAITED_FOR).map(|name| (true, name));
    waits.or_else(|| mark.strip_prefix(HELD).map(|name| (false, name)))
}

impl Locks {
    /// A question to a trace in which tasks were throttled so ([`crate::ThrottlingAnswer::spans`]).
    #[must_use]
    pub fn new(info: &TraceInfo, throttled: &[Throttled]) -> Self {
        let mut histories = TaskHistories::default();
        histories.know(throttled);
        Self {
            points: KnownFormats::default(),
            processes: info.processes.clone(),
            histories,
            all: BTreeMap::new(),
            calls: BTreeMap::new(),
            contended: BTreeMap::new(),
            marks: Marks::default(),
            listed_waits: 0,
            listed_wakes: 0,
        }
    }

    /// The process of a thread; itself where the trace names no other.
    fn process(&self, pid: Pid) -> Option<Pid> {
        self.processes.as_ref().map(|all| all.get(&pid).copied().unwrap_or(pid))
    }

    fn of(&mut self, name: LockName) -> &mut Gathered {
        self.all.entry(name).or_default()
    }

    /// A task waited until now, and goes on from here if it sleeps again in the same call.
    fn woken(&mut self, woken: &Runnable) {
        let Runnable { at, task, waker, .. } = *woken;
        if let Some(Call::Waits { name, is_private, since, word }) = self.calls.get(&task).copied()
        {
            let released = match self.calls.get(&waker.task) {
                Some(Call::Wakes { name: of, .. }) if *of == name => Some(false),
                // Another process knows the word by another address, or it is not known that both are threads of one.
                Some(Call::Wakes { name: of, is_private: private }) => {
                    let is_same = of.address() == name.address() || !(is_private || *private);
                    is_same.then_some(true)
                }
                _ => None,
            };
            if let Some(Call::Waits { since, .. }) = self.calls.get_mut(&task) {
                *since = at;
            }
            let of = self.of(name);
            if released == Some(true) {
                of.releases.push((at, waker.task));
            }
            of.words.found(word);
            let span = Span::new(since, at);
            let is_released = released.is_some();
            of.waits.push(Waited { task, span, is_released, named: word.holder() });
            return;
        }
        let Some(open) = self.contended.get_mut(&task).and_then(|all| all.last_mut()) else {
            return;
        };
        open.has_slept = true;
        let since = std::mem::replace(&mut open.since, at);
        let name = LockName(Lock::Kernel(open.lock));
        let is_released = waker.context == Context::Task && waker.task.is_some();
        let of = self.of(name);
        if is_released {
            of.releases.push((at, waker.task));
        }
        of.waits.push(Waited { task, span: Span::new(since, at), is_released, named: None });
    }

    fn passes(&mut self, task: TaskId, lock: u64, at: Nanos) {
        let Some(all) = self.contended.get_mut(&task) else { return };
        let Some(place) = all.iter().rposition(|one| one.lock == lock) else { return };
        let one = all[place];
        all.truncate(place);
        if !one.has_slept {
            let span = Span::new(one.since, at);
            let wait = Waited { task, span, is_released: false, named: None };
            self.of(LockName(Lock::Kernel(lock))).waits.push(wait);
        }
    }

    fn mark(&mut self, task: TaskId, at: Nanos, id: u32, phase: Phase, state: &State) {
        let all = state.marks();
        for text in all.get(self.marks.known.len()..).unwrap_or_default() {
            let known = marked(text).map(|(waits, name)| (waits, self.marks.number(name)));
            self.marks.known.push(known);
        }
        let Some((waits, name)) = self.marks.known.get(id as usize).copied().flatten() else {
            return;
        };
        let process = self.process(state.task(task).pid);
        let key = (waits, LockName(Lock::Marked { process, name }), task);
        match phase {
            Phase::Begin => {
                self.marks.open.insert(key, at);
                self.marks.seen.insert(key);
            }
            Phase::End => {
                let is_first = self.marks.seen.insert(key);
                let since = self.marks.open.remove(&key);
                // It began before the window.
                let since = since.or_else(|| is_first.then(|| state.window().start));
                if let Some(since) = since {
                    self.marked(key, Span::new(since, at));
                }
            }
            Phase::Point => {}
        }
    }

    fn marked(&mut self, (waits, name, task): (bool, LockName, TaskId), span: Span) {
        let of = self.of(name);
        if waits {
            of.waits.push(Waited { task, span, is_released: false, named: None });
        } else {
            of.holds.push((span, task));
        }
    }

    /// What has not ended when the window does.
    fn end(&mut self, state: &State) {
        let end = state.window().end;
        let sleeps = |task: TaskId| matches!(state.task(task).activity, Activity::Sleeping { .. });
        for (task, call) in std::mem::take(&mut self.calls) {
            if let Call::Waits { name, since, word, .. } = call
                && sleeps(task)
            {
                let span = Span::new(since, end);
                let of = self.of(name);
                of.words.found(word);
                of.waits.push(Waited { task, span, is_released: false, named: word.holder() });
            }
        }
        for (task, all) in std::mem::take(&mut self.contended) {
            if let Some(open) = all.last().filter(|_| sleeps(task)) {
                let span = Span::new(open.since, end);
                let wait = Waited { task, span, is_released: false, named: None };
                self.of(LockName(Lock::Kernel(open.lock))).waits.push(wait);
            }
        }
        for (key, since) in std::mem::take(&mut self.marks.open) {
            if state.task(key.2).activity != Activity::Dead {
                self.marked(key, Span::new(since, end));
            }
        }
    }
}

impl LockName {
    const fn address(self) -> Option<u64> {
        match self.0 {
            Lock::Word { address, .. } | Lock::Kernel(address) => Some(address),
            Lock::Marked { .. } => None,
        }
    }
}

impl Word {
    fn holder(self) -> Option<Pid> {
        match self {
            Self::Holder(pid) => i32::try_from(pid).ok().map(Pid),
            _ => None,
        }
    }
}

impl Words {
    fn found(&mut self, word: Word) {
        match word {
            Word::Inherits => self.inherits = true,
            Word::Holder(_) => self.named = true,
            Word::Contended => self.contended = true,
            Word::Other => self.other = true,
        }
    }
}

impl Gathered {
    /// Puts releases and holds in order of time.
    fn sort(&mut self) {
        self.releases.sort_unstable();
        self.holds.sort_unstable_by_key(|(span, by)| (span.start, *by));
        let last = self.holds.iter().scan(Nanos::ZERO, |last, (hold, _)| {
            *last = hold.end.max(*last);
            Some(*last)
        });
        self.held_until = last.collect();
    }

    /// How its holders are known; `None` if it is taken for no lock.
    fn kind(&self, name: LockName) -> Option<LockKind> {
        match (name, self.words) {
            (LockName(Lock::Kernel(_)), _) => Some(LockKind::Kernel),
            (LockName(Lock::Marked { .. }), _) => Some(LockKind::Marked),
            (_, Words { inherits: true, .. }) => Some(LockKind::Inherits),
            (_, Words { named: true, contended: false, other: false, .. }) => Some(LockKind::Named),
            (_, Words { named: false, contended: true, other: false, .. }) => Some(LockKind::Mutex),
            _ => None,
        }
    }

    /// Who held it during a wait, in order of time and without a gap.
    fn holders(&self, wait: &Waited, named: Option<TaskId>) -> Vec<(Span, Option<TaskId>)> {
        let Span { start, end } = wait.span;
        let mut found: Vec<(Span, Option<TaskId>)> = Vec::new();
        let mut told = start;
        let mut until = |at: Nanos, holder: Option<TaskId>| {
            if at <= told {
                return;
            }
            match found.last_mut().filter(|(_, last)| *last == holder) {
                Some((span, _)) => span.end = at,
                None => found.push((Span::new(told, at), holder)),
            }
            told = at;
        };
        if !self.holds.is_empty() {
            let first = self.held_until.partition_point(|until| *until <= start);
            let here = self.holds[first..].iter().take_while(|(hold, _)| hold.start < end);
            for (hold, by) in here.filter(|(hold, by)| hold.end > start && *by != wait.task) {
                until(hold.start, None);
                until(hold.end.min(end), Some(*by));
            }
            until(end, None);
            return found;
        }
        let first = self.releases.partition_point(|(at, _)| *at <= start);
        let within = self.releases[first..].iter().take_while(|(at, _)| *at <= end);
        let mut last = self.releases[..first].last().map(|(_, by)| *by);
        for (at, by) in within {
            until(*at, Some(*by));
            last = Some(*by);
        }
        // A release is a call, and the waking comes within it.
        until(end, if wait.is_released { last } else { named });
        found
    }
}

impl Marks {
    fn number(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

impl Question for Locks {
    type Answer = LocksAnswer;
    const QUEUES: bool = false;
    const ARGUMENTS: bool = true;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.points.learn(format, state.others(), Point::of).is_some()
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        let edge = self.points.get(event.format).and_then(|point| point.read(event));
        let task = state.task_of(event.by).filter(|_| !event.by.is_idle());
        let (Some(edge), Some(task)) = (edge, task) else { return };
        let word = |address| LockName(Lock::Word { process: self.process(event.by), address });
        match edge {
            Edge::Waits { address, is_private, word: found } => {
                let name = word(address);
                let wait = Call::Waits { name, is_private, since: event.at, word: found };
                self.calls.insert(task, wait);
            }
            Edge::Wakes { address, is_private } => {
                let name = word(address);
                self.calls.insert(task, Call::Wakes { name, is_private });
                self.of(name).releases.push((event.at, task));
            }
            Edge::WaitsForList => self.listed_waits += u64::from(event.at >= state.window().start),
            Edge::WakesList => self.listed_wakes += u64::from(event.at >= state.window().start),
            Edge::Leaves => {
                self.calls.remove(&task);
            }
            Edge::Contends { lock } => {
                let all = self.contended.entry(task).or_default();
                if all.iter().all(|one| one.lock != lock) {
                    all.push(Contended { lock, since: event.at, has_slept: false });
                }
            }
            Edge::Passes { lock } => self.passes(task, lock, event.at),
        }
    }

    fn begin(&mut self, state: &State) {
        self.histories.begin(state);
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        match *change {
            Change::Mark { at, task, id, phase, .. } => {
                if task.is_some() {
                    self.mark(task, at, id, phase, state);
                }
            }
            Change::Runnable(ref woken) => {
                self.woken(woken);
                self.histories.see(change, state);
            }
            _ => self.histories.see(change, state),
        }
    }

    fn answer(mut self, state: &State) -> LocksAnswer {
        self.end(state);
        self.histories.end(state);
        let mut all = std::mem::take(&mut self.all);
        let mut sums = Sums::new(&self.histories);
        let mut other_count = 0;
        let mut other_time = Nanos::ZERO;
        for (name, of) in &mut all {
            of.waits.iter_mut().for_each(|wait| wait.span = wait.span.intersection(state.window()));
            of.waits.retain(|wait| wait.span.duration() > Nanos::ZERO);
            of.sort();
            // A number of another pid namespace, or a count that has the same bit, is not believed.
            let holder = |named: Option<Pid>| {
                let is_own = |pid: &Pid| match name {
                    LockName(Lock::Word { process, .. }) => self.process(*pid) == *process,
                    _ => false,
                };
                named.filter(is_own).and_then(|pid| state.task_of(pid))
            };
            let is_told = |wait: &Waited| holder(wait.named).is_some();
            let kind = of.kind(*name);
            let is_kept = kind != Some(LockKind::Named) || of.waits.iter().all(is_told);
            let Some(kind) = kind.filter(|_| is_kept) else {
                other_count += of.waits.len() as u64;
                other_time = of.waits.iter().fold(other_time, |sum, it| sum + it.span.duration());
                continue;
            };
            let has_marks = !of.holds.is_empty();
            for wait in &of.waits {
                let holders = of.holders(wait, holder(wait.named));
                // Programs mark that they ask for a lock, also when it is free.
                if !has_marks || holders.iter().any(|(_, holder)| holder.is_some()) {
                    sums.add(*name, kind, wait.task, wait.span, &holders);
                }
            }
        }
        let (rows, waits) = sums.finish();
        LocksAnswer {
            rows,
            waits,
            names: self.marks.names,
            other_count,
            other_time,
            listed_waits: self.listed_waits,
            listed_wakes: self.listed_wakes,
        }
    }
}
