//! Why a task stands where it stands, told from the events around it.

use crate::change::{Moved, Runnable, When};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId, Why};
use schedlab_model::{Context, Cpu, CpuSet, Nanos, Topology};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What put a task on an overloaded CPU, or kept it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It was woken on the CPU of its waker, which went on running.
    OnWakersCpu,
    /// It was woken where it ran last, which is busy now.
    OnPreviousCpu,
    /// It was woken on another CPU than its own last and its waker's.
    WokenElsewhere,
    /// It was created, and put on a busy CPU.
    Forked,
    /// It was moved there while it waited.
    Balanced,
    /// A kernel thread displaced it.
    DisplacedByKernel,
    /// Another task displaced it, or took over after a yield.
    Displaced,
}

impl Cause {
    /// All causes, in a fixed order.
    pub const ALL: [Self; 7] = [
        Self::OnWakersCpu,
        Self::OnPreviousCpu,
        Self::WokenElsewhere,
        Self::Forked,
        Self::Balanced,
        Self::DisplacedByKernel,
        Self::Displaced,
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
        }
    }
}

/// The facts behind a violation; [`Because::sentence`] says them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Because {
    /// What put the task there.
    pub cause: Cause,
    /// Since when it had waited when the violation began.
    pub waited_since: Nanos,
    /// When the violation began.
    pub start: Nanos,
    /// Whether it began because a CPU became free: until then it had waited with none that it could use. A wait may
    /// be older than its violation for other causes too, as it stands on no queue before `sched_wakeup`.
    pub freed_late: bool,
    /// Who woke it; [`TaskId::NONE`] when nobody did, or an interrupt on an idle CPU.
    pub waker: TaskId,
    /// The CPU that woke it.
    pub waker_cpu: Cpu,
    /// The context of the wakeup: unless [`Context::Task`], the waker was only interrupted.
    pub waker_context: Context,
    /// Where it last ran before it was woken.
    pub previous: Option<Cpu>,
    /// Its previous CPU was free when it was woken: since when, and who used it last.
    pub previous_free: Option<(Nanos, TaskId)>,
    /// Whether a CPU of the waker's LLC was free when it was woken; `None` without a topology.
    pub llc_had_free: Option<bool>,
    /// The move that brought it here, if one did.
    pub moved: Option<(Cpu, Cpu)>,
    /// Who ran on the overloaded CPU when the violation began.
    pub runs_instead: TaskId,
    /// Whether that is a kernel thread which belongs to its CPU.
    pub kernel_thread: bool,
}

/// What was true when a task was woken; later events wipe it out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WakeFacts {
    at: Nanos,
    previous_free: Option<(Nanos, TaskId)>,
    llc_had_free: Option<bool>,
    pub(super) moved: Option<Moved>,
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
        Self { at: wake.at, previous_free, llc_had_free, moved: None }
    }
}

/// The CPUs that share each cache of the last level: looked up at every wakeup, so made once.
#[derive(Debug)]
pub(super) struct Near {
    topology: Topology,
    llcs: BTreeMap<u32, CpuSet>,
}

impl Near {
    pub(super) fn new(topology: &Topology) -> Self {
        let mut llcs = BTreeMap::<u32, CpuSet>::new();
        for place in topology.places() {
            llcs.entry(place.llc).or_default().insert(place.cpu);
        }
        Self { topology: topology.clone(), llcs }
    }

    /// Those that share one with `cpu`, itself included.
    fn of(&self, cpu: Cpu) -> Option<&CpuSet> {
        self.llcs.get(&self.topology.place(cpu)?.llc)
    }
}

/// Tells why `task` waits on `cpu`.
pub(super) fn explain(
    state: &State,
    task: TaskId,
    cpu: Cpu,
    (start, freed_late): (Nanos, bool),
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
    let cause = match why {
        _ if balanced => Cause::Balanced,
        Why::New => Cause::Forked,
        Why::Woken if cpu == known.waker_cpu => Cause::OnWakersCpu,
        Why::Woken if known.woken_from == Some(cpu) => Cause::OnPreviousCpu,
        Why::Woken => Cause::WokenElsewhere,
        Why::Preempted | Why::Yielded if kernel_thread => Cause::DisplacedByKernel,
        Why::Preempted | Why::Yielded => Cause::Displaced,
    };
    let woken = why.is_wakeup();
    Because {
        cause,
        waited_since: known.since,
        start,
        freed_late,
        waker: if woken { known.waker } else { TaskId::NONE },
        waker_cpu: known.waker_cpu,
        waker_context: known.waker_context,
        previous: known.woken_from,
        previous_free: wake.previous_free,
        llc_had_free: wake.llc_had_free,
        moved: match moved {
            Some(moved) => Some((moved.from, moved.to)),
            None if balanced => known.woken_from.map(|from| (from, cpu)),
            None => None,
        },
        runs_instead,
        kernel_thread,
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

    /// In a sentence, with the names that tasks have in `state`.
    #[must_use]
    pub fn sentence(&self, cpu: Cpu, state: &State) -> String {
        let name = |task: TaskId| format!("{} ({})", state.name(task), state.task(task).pid);
        let instead = match self.runs_instead {
            task if !task.is_some() => String::new(),
            task if self.kernel_thread => format!("the per-CPU kernel thread {}", name(task)),
            task => name(task),
        };
        let mut text = match self.cause {
            Cause::OnWakersCpu => format!("woken on its waker's CPU {cpu} {}", self.by(&name)),
            Cause::OnPreviousCpu => {
                format!("woken on CPU {cpu}, where it ran last, {}", self.by(&name))
            }
            Cause::WokenElsewhere => format!("put on CPU {cpu} when woken {}", self.by(&name)),
            Cause::Forked => format!("put on CPU {cpu} when it was created {}", self.by(&name)),
            Cause::Balanced => match self.moved {
                Some((from, _)) => format!("balanced away from CPU {from} to CPU {cpu}"),
                None => format!("balanced to CPU {cpu}"),
            },
            Cause::DisplacedByKernel | Cause::Displaced => {
                format!("displaced on CPU {cpu} by {instead}")
            }
        };
        let displaced = matches!(self.cause, Cause::DisplacedByKernel | Cause::Displaced);
        if !displaced && !instead.is_empty() {
            let _ = write!(text, ", where {instead} ran");
        }
        if let (Some(previous), Some((since, last))) = (self.previous, self.previous_free)
            && previous != cpu
        {
            let idle = self.waited_since - since;
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
        if self.freed_late && self.start > self.waited_since {
            let late = self.start - self.waited_since;
            let _ = write!(text, "; no CPU was free until {late} later, and nobody pulled it then");
        }
        text
    }

    fn by(&self, name: &impl Fn(TaskId) -> String) -> String {
        let cpu = self.waker_cpu;
        match (self.waker_context, self.waker()) {
            (Context::Task, Some(waker)) => format!("by {}", name(waker)),
            (Context::Task, None) => format!("from CPU {cpu}"),
            (_, Some(waker)) => format!("by an interrupt of {} on CPU {cpu}", name(waker)),
            (_, None) => format!("by an interrupt on the idle CPU {cpu}"),
        }
    }
}
