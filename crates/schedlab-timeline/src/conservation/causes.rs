//! Why a task stands where it stands: what the events show, and what is inferred from it.

use crate::change::{Moved, Runnable, When};
use crate::state::{CpuState, Occupant, State};
use crate::task::{Activity, TaskId, Why};
use schedlab_model::{Context, Cpu, CpuSet, Nanos, Topology};
use std::fmt::Write as _;

/// The first wrong decision of an episode: why its first waiter came to an overloaded CPU, or stayed there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Cause {
    /// It was woken on the CPU of its waker, which went on running, while another was free.
    OnWakersCpu,
    /// It was woken where it ran last, which was busy, while another was free.
    OnPreviousCpu,
    /// It was woken on another busy CPU than its own last, and by no task that ran there, while one was free.
    WokenElsewhere,
    /// It was created, and put on a busy CPU, while another was free.
    Forked,
    /// It was moved to a busy CPU while it waited, and another was free.
    Balanced,
    /// A kernel thread displaced it while a CPU was free.
    DisplacedByKernel,
    /// Another task displaced it, or took over after a yield, while a CPU was free.
    Displaced,
    /// No CPU was free for it when its wait began. One became free later and did not pull it.
    NotPulled,
    /// It was put on an idle CPU, and another task came to run there first.
    Overtaken,
    /// It was put on an idle CPU on which another task already waited, while a third CPU was free.
    BehindAnother,
    /// The events do not show how it came to wait there.
    Unexplained,
}

impl Cause {
    /// All causes, in a fixed order.
    pub const ALL: [Self; 11] = [
        Self::OnWakersCpu,
        Self::OnPreviousCpu,
        Self::WokenElsewhere,
        Self::Forked,
        Self::Balanced,
        Self::DisplacedByKernel,
        Self::Displaced,
        Self::NotPulled,
        Self::Overtaken,
        Self::BehindAnother,
        Self::Unexplained,
    ];

    /// A stable name for scripts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OnWakersCpu => "woken_on_wakers_cpu",
            Self::OnPreviousCpu => "woken_on_previous_cpu",
            Self::WokenElsewhere => "woken_elsewhere",
            Self::Forked => "forked",
            Self::Balanced => "balanced",
            Self::DisplacedByKernel => "displaced_by_kernel_thread",
            Self::Displaced => "displaced",
            Self::NotPulled => "not_pulled",
            Self::Overtaken => "overtaken",
            Self::BehindAnother => "behind_another",
            Self::Unexplained => "unexplained",
        }
    }
}

/// The facts behind an episode, and its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Because {
    /// The first wrong decision, as inferred from the rest.
    pub(crate) cause: Cause,
    /// Since when the first waiter had waited when the episode began.
    pub waited_since: Nanos,
    /// When the episode began.
    pub(crate) start: Nanos,
    /// A CPU that was free then and that the task may use: where it ran last if that is one, else one of its waker's LLC,
    /// else the first.
    pub instead: Option<Cpu>,
    /// Since when that one had been idle.
    pub(crate) instead_idle_since: Nanos,
    /// Who woke it; [`TaskId::NONE`] when nobody did, or an interrupt on an idle CPU.
    pub(crate) waker: TaskId,
    /// The CPU that woke it.
    pub waker_cpu: Cpu,
    /// The context of the wakeup: unless [`Context::Task`], the waker was only interrupted.
    pub(crate) waker_context: Context,
    /// Whether the waker still ran on the CPU on which the task was put.
    pub(crate) waker_stayed: bool,
    /// The reason why the task waits.
    pub(crate) why: Why,
    /// Where it last ran before it was woken.
    pub previous: Option<Cpu>,
    /// If the previous CPU was free when the task was woken: since when, and which task used it
    /// last.
    pub(crate) previous_free: Option<(Nanos, TaskId)>,
    /// Whether a CPU of the waker's LLC was free when it was woken; `None` without a topology.
    pub(crate) llc_had_free: Option<bool>,
    /// The move that brought it here, if one did: from where, to where, and the CPU that moved it, where known.
    pub(crate) moved: Option<(Cpu, Cpu, Option<Cpu>)>,
    /// Who ran on the overloaded CPU when the episode began.
    pub(crate) runs_instead: TaskId,
    /// Whether that is a kernel thread which belongs to its CPU.
    pub(crate) kernel_thread: bool,
}

/// What was true when a task was woken; later events wipe it out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WakeFacts {
    at: Nanos,
    previous_free: Option<(Nanos, TaskId)>,
    llc_had_free: Option<bool>,
    pub(super) moved: Option<Moved>,
    /// When and where it was put last, and what it found there.
    put: Option<(Nanos, Cpu, Found)>,
}

/// What a task found on the CPU on which it was put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A task ran on the chosen CPU.
    Task(TaskId),
    /// The idle task ran and nobody waited.
    Idle,
    /// The idle task ran and another task waited already.
    Waiter,
    /// The events do not show what was there.
    Unknown,
}

impl WakeFacts {
    pub(super) fn gather(
        state: &State,
        wake: &Runnable,
        free: &CpuSet,
        near: Option<&Near>,
    ) -> Self {
        let previous = wake.last_cpu.and_then(|cpu| state.cpu(cpu).map(|here| (cpu, here)));
        let previous_free = previous
            .filter(|(cpu, _)| free.contains(*cpu))
            .map(|(_, here)| (here.since, here.last_task));
        let llc_had_free = near.and_then(|near| Some(near.of(wake.waker.cpu)?.intersects(free)));
        Self { at: wake.at, previous_free, llc_had_free, moved: None, put: None }
    }

    /// The task is put on a queue; `here` counts it already.
    pub(super) fn put(&mut self, at: Nanos, cpu: Cpu, here: &CpuState) {
        let found = match here.occupant {
            Occupant::Task(task) => Found::Task(task),
            Occupant::Idle if here.waiting > 1 => Found::Waiter,
            Occupant::Idle => Found::Idle,
            Occupant::Unknown => Found::Unknown,
        };
        self.put = Some((at, cpu, found));
    }
}

/// The CPUs that share each cache of the last level: looked up at every wakeup, so made once.
#[derive(Debug)]
pub(super) struct Near {
    llcs: Vec<CpuSet>,
    /// By CPU: the place of its cache, plus one; 0 is not known.
    of: Vec<u32>,
}

impl Near {
    pub(super) fn new(topology: &Topology) -> Self {
        let mut llcs = Vec::new();
        let mut of = Vec::new();
        for (_, members) in topology.groups(|place| place.llc) {
            for cpu in members.iter() {
                if cpu.index() >= of.len() {
                    of.resize(cpu.index() + 1, 0);
                }
                of[cpu.index()] = llcs.len() as u32 + 1;
            }
            llcs.push(members);
        }
        Self { llcs, of }
    }

    /// Those that share one with `cpu`, itself included.
    fn of(&self, cpu: Cpu) -> Option<&CpuSet> {
        self.llcs.get((*self.of.get(cpu.index())? as usize).checked_sub(1)?)
    }
}

/// How an episode begins.
pub(super) struct Begun<'a> {
    pub(super) at: Nanos,
    /// Whether a CPU became free: until then the task had waited with none that it could use.
    pub(super) freed_late: bool,
    /// The free CPUs that it may use.
    pub(super) usable: Usable<'a>,
    pub(super) near: Option<&'a Near>,
}

/// The free CPUs that tasks of a class may use: looked at, never copied.
#[derive(Clone, Copy)]
pub(super) struct Usable<'a> {
    pub(super) free: &'a CpuSet,
    /// `None` is every CPU.
    pub(super) allowed: Option<&'a CpuSet>,
}

impl Usable<'_> {
    fn contains(&self, cpu: Cpu) -> bool {
        self.free.contains(cpu) && self.allowed.is_none_or(|allowed| allowed.contains(cpu))
    }

    /// The first, of those in `among` where that is given.
    fn first(&self, among: Option<&CpuSet>) -> Option<Cpu> {
        let word = |set: Option<&CpuSet>, at: usize| {
            set.map_or(u64::MAX, |set| set.words().get(at).copied().unwrap_or(0))
        };
        let both =
            |(at, free): (usize, &u64)| (at, free & word(self.allowed, at) & word(among, at));
        let (at, found) =
            self.free.words().iter().enumerate().map(both).find(|(_, found)| *found != 0)?;
        u16::try_from(at * 64 + found.trailing_zeros() as usize).ok().map(Cpu)
    }
}

/// Tells why `task` waits on `cpu`.
pub(super) fn explain(
    state: &State,
    task: TaskId,
    cpu: Cpu,
    begun: &Begun<'_>,
    wake: &WakeFacts,
) -> Because {
    let known = state.task(task);
    let why = match known.activity {
        Activity::Waiting { why, .. } => why,
        _ => Why::Woken,
    };
    let occupant = state.cpu(cpu).map_or(Occupant::Unknown, |here| here.occupant);
    let runs_instead = occupant.task().unwrap_or(TaskId::NONE);
    let kernel_thread = runs_instead.is_some() && is_bound(state, runs_instead);
    // Facts of an earlier wakeup say nothing about this wait.
    let wake = if why.is_wakeup() && wake.at == known.since { *wake } else { WakeFacts::default() };
    let moved = wake.moved.filter(|moved| moved.to == cpu);
    let balanced = moved.is_some_and(|moved| moved.when == When::Waiting)
        || (!why.is_wakeup() && known.woken_from != Some(cpu));
    let mut because = Because {
        cause: Cause::Unexplained,
        waited_since: known.since,
        start: begun.at,
        instead: None,
        instead_idle_since: begun.at,
        waker: if why.is_wakeup() { known.waker } else { TaskId::NONE },
        waker_cpu: known.waker_cpu,
        waker_context: known.waker_context,
        waker_stayed: known.waker_cpu == cpu
            && matches!(wake.put, Some((_, on, Found::Task(ran))) if on == cpu && ran == known.waker),
        why,
        previous: known.woken_from,
        previous_free: wake.previous_free,
        llc_had_free: wake.llc_had_free,
        moved: match moved {
            Some(moved) => Some((moved.from, moved.to, Some(moved.by_cpu))),
            None if balanced => known.woken_from.map(|from| (from, cpu, None)),
            None => None,
        },
        runs_instead,
        kernel_thread,
    };
    because.instead = because.choice(begun);
    let instead = because.instead.and_then(|cpu| state.cpu(cpu));
    because.instead_idle_since = instead.map_or(begun.at, |here| here.since);
    because.cause = because.cause_on(cpu, begun, &wake, balanced);
    because
}

impl Because {
    /// The cause that the state at the wakeup and the events since leave; where they leave several, none.
    fn cause_on(&self, cpu: Cpu, begun: &Begun<'_>, wake: &WakeFacts, balanced: bool) -> Cause {
        if begun.freed_late {
            return Cause::NotPulled;
        }
        if !self.why.is_wakeup() {
            // The events of its wakeup say nothing of a task that was displaced since: only where it stands.
            return match (balanced, self.waited_since == begun.at) {
                (true, _) => Cause::Balanced,
                (false, true) if self.kernel_thread => Cause::DisplacedByKernel,
                (false, true) => Cause::Displaced,
                (false, false) => Cause::Unexplained,
            };
        }
        let Some((at, _, found)) = wake.put.filter(|(_, on, _)| *on == cpu) else {
            return Cause::Unexplained;
        };
        match found {
            // It began to cost when the task was put there, so that decision is the first.
            Found::Task(_) if at == begun.at => self.choice_of_cpu(cpu, balanced),
            Found::Idle if at < begun.at => Cause::Overtaken,
            // The free CPU had been idle already, so it could have been chosen.
            Found::Waiter if self.instead_idle_since <= at => Cause::BehindAnother,
            _ => Cause::Unexplained,
        }
    }

    /// Who chose the busy CPU, and by which rule.
    fn choice_of_cpu(&self, cpu: Cpu, balanced: bool) -> Cause {
        let interrupt = self.waker_context != Context::Task;
        match (self.why, self.previous == Some(cpu)) {
            _ if balanced => Cause::Balanced,
            (Why::New, _) => Cause::Forked,
            (_, previous) if self.waker_stayed && !(interrupt && previous) => Cause::OnWakersCpu,
            (_, true) => Cause::OnPreviousCpu,
            (_, false) => Cause::WokenElsewhere,
        }
    }

    /// Where it could have run.
    fn choice(&self, begun: &Begun<'_>) -> Option<Cpu> {
        let previous = self.previous.filter(|cpu| begun.usable.contains(*cpu));
        let near = || {
            let llc = begun.near.filter(|_| self.why.is_wakeup())?.of(self.waker_cpu)?;
            begun.usable.first(Some(llc))
        };
        previous.or_else(near).or_else(|| begun.usable.first(None))
    }
}

/// Whether a task is a kernel thread that belongs to one CPU, by its name: `ksoftirqd/3`,
/// `migration/3`, `kworker/3:1`, `kworker/3:1H-kblockd`. An unbound `kworker/u8:2` is none.
pub(super) fn is_bound(state: &State, task: TaskId) -> bool {
    let comm = state.names().comm(state.task(task).comm);
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
    let comm = &comm[..end];
    let Some(slash) = comm.iter().position(|byte| *byte == b'/') else { return false };
    // Not `rcuop/3`: it runs callbacks of CPU 3 and is not bound to it.
    const NAMES: [&[u8]; 8] = [
        b"ksoftirqd",
        b"migration",
        b"kworker",
        b"cpuhp",
        b"rcuc",
        b"idle_inject",
        b"watchdog",
        b"ktimers",
    ];
    let number = &comm[slash + 1..];
    let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
    NAMES.contains(&&comm[..slash])
        && digits > 0
        && (digits == number.len() || number[digits] == b':')
}

impl Because {
    /// Who woke the task, if a task or an interrupt's victim did.
    #[must_use]
    pub fn waker(&self) -> Option<TaskId> {
        Some(self.waker).filter(|task| task.is_some())
    }

    /// What the events show, in a sentence, with the names that tasks have in `state`.
    #[must_use]
    pub fn sentence(&self, cpu: Cpu, state: &State) -> String {
        let name = |task: TaskId| format!("{} ({})", state.name(task), state.task(task).pid);
        let instead = match self.runs_instead {
            task if !task.is_some() => String::new(),
            task if self.kernel_thread => format!("the per-CPU kernel thread {}", name(task)),
            task => name(task),
        };
        let mut text = match (self.why, self.moved) {
            (Why::Preempted | Why::Displaced | Why::Yielded, None) => {
                format!("displaced on CPU {cpu} by {instead}")
            }
            (_, Some((from, to, by))) if self.cause == Cause::Balanced || !self.why.is_wakeup() => {
                carried(from, to, by)
            }
            (Why::New, _) => format!("put on CPU {cpu} when it was created {}", self.by(&name)),
            (_, _) if cpu == self.waker_cpu && self.waker().is_some() => {
                format!("woken on its waker's CPU {cpu} {}", self.by(&name))
            }
            (_, _) if self.previous == Some(cpu) => {
                format!("woken on CPU {cpu}, where it ran last, {}", self.by(&name))
            }
            (_, _) => format!("put on CPU {cpu} when woken {}", self.by(&name)),
        };
        let displaced = !self.why.is_wakeup() && self.moved.is_none();
        if displaced || instead.is_empty() {
            // It is said already, or not known.
        } else if matches!(self.cause, Cause::Overtaken | Cause::BehindAnother) {
            let _ = write!(text, ", which was idle; {instead} ran there first");
        } else {
            let _ = write!(text, ", where {instead} ran");
        }
        if let (Some(previous), Some((since, last))) = (self.previous, self.previous_free)
            && previous != cpu
        {
            let idle = self.waited_since - since;
            let idle = idle.readable();
            let _ = write!(text, "; its previous CPU {previous} had been idle for {idle}");
            if last.is_some() {
                let _ = write!(text, ", last used by {}", name(last));
            }
        }
        match self.llc_had_free {
            Some(true) => text.push_str("; its waker's LLC had an idle CPU"),
            Some(false) => text.push_str("; its waker's LLC had no idle CPU"),
            None => {}
        }
        text
    }

    /// What is inferred from it, in a sentence: which decision was wrong, and what would have been better.
    #[must_use]
    pub fn inferred(&self) -> String {
        let idle = self.start - self.instead_idle_since;
        let free = match self.instead {
            Some(cpu) if idle > Nanos::ZERO => format!("CPU {cpu}, idle for {},", idle.readable()),
            Some(cpu) => format!("CPU {cpu}"),
            None => "another CPU".to_owned(),
        };
        let late = self.start - self.waited_since;
        match self.cause {
            Cause::OnWakersCpu | Cause::OnPreviousCpu | Cause::WokenElsewhere => {
                format!("the wakeup chose a busy CPU although {free} was free")
            }
            Cause::Forked => format!("the fork chose a busy CPU although {free} was free"),
            Cause::Balanced => format!("balancing chose a busy CPU although {free} was free"),
            Cause::DisplacedByKernel | Cause::Displaced => {
                format!("{free} was free when it was displaced, and nobody moved it there")
            }
            Cause::NotPulled => {
                let cpu = self.instead.map_or("a CPU".to_owned(), |cpu| format!("CPU {cpu}"));
                format!(
                    "{cpu} became free {} after its wait began, and did not pull it",
                    late.readable()
                )
            }
            Cause::Overtaken => format!(
                "its CPU was idle when it was put there, and another task ran there first while {free} was free"
            ),
            Cause::BehindAnother => {
                format!("it was put behind another waiting task although {free} was free")
            }
            Cause::Unexplained => {
                format!(
                    "unexplained: the events do not show why it waited there while {free} was free"
                )
            }
        }
    }

    fn by(&self, name: &impl Fn(TaskId) -> String) -> String {
        let cpu = self.waker_cpu;
        match (self.waker_context, self.waker()) {
            (Context::Task, Some(waker)) => format!("by {}", name(waker)),
            (Context::Task, None) => format!("from the idle task of CPU {cpu}"),
            (Context::Unknown, _) => format!("on CPU {cpu}, by whom is unknown"),
            (_, Some(waker)) => format!("by an interrupt of {} on CPU {cpu}", name(waker)),
            (_, None) => format!("by an interrupt on the idle CPU {cpu}"),
        }
    }
}

/// A move of a waiting task in words.
fn carried(from: Cpu, to: Cpu, by: Option<Cpu>) -> String {
    match by {
        Some(by) if by == to => format!("pulled from CPU {from} to CPU {to} while it waited"),
        Some(by) if by == from => format!("pushed from CPU {from} to CPU {to} while it waited"),
        Some(by) => format!("moved from CPU {from} to CPU {to} by CPU {by} while it waited"),
        None => format!("moved from CPU {from} to CPU {to} while it waited"),
    }
}
