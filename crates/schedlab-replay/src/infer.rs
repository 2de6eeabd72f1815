//! From events to a demand, in one pass. The rules are in `docs/replay.md`.

use crate::basis::{Account, Inferred, Totals};
use crate::call_tracking::CallTracking;
use crate::hrtimers::Hrtimers;
use crate::object_events::ObjectEvent;
use crate::objects::Found;
use crate::recorded_manner::{RecordedScheduling, TaskScheduling};
use crate::speed::Paces;
use crate::task_draft::{Draft, End};
use crate::timers::{self, Decided, Timer};
use schedlab_model::{Affinity, Context, Cpu, CpuSet, Kind, Left, Nanos, Pid, TraceInfo, Warning};
use schedlab_timeline::{
    Activity, Change, Occupant, OtherEvent, Question, Runnable, State, Switch, TaskId, Why,
};
use schedlab_workload::demand::{Actor, Source, Step};
use std::collections::BTreeSet;

/// What is subtracted, and what the user decides.
#[derive(Clone, Debug)]
pub struct Options {
    /// What a burst contains for each time the task was put on a CPU: the machine that replays adds it again.
    pub switch: Nanos,
    /// What is subtracted for each task that it wakes.
    pub wake: Nanos,
    /// What it cost to record that a call begins or ends; nothing on a simulated machine.
    pub call: Nanos,
    /// Tasks (name or pid) whose interrupts keep their times.
    pub open: BTreeSet<String>,
    /// Tasks (name or pid) whose sleeps keep their lengths.
    pub closed: BTreeSet<String>,
    /// Whether calls that read and write become objects that tasks share, where they were recorded.
    pub objects: bool,
    /// The part of its speed that a CPU has beside a busy sibling of its core, in percent; `None`: not known.
    pub smt_percent: Option<u32>,
}

impl Default for Options {
    /// The simulator's usual costs, and what an event costs as `docs/recording.md` measured.
    fn default() -> Self {
        let open = BTreeSet::new();
        let closed = BTreeSet::new();
        Self {
            switch: Nanos(1_500),
            wake: Nanos(1_000),
            call: Nanos(220),
            open,
            closed,
            objects: true,
            smt_percent: None,
        }
    }
}

/// A task that computes without waiting for the last tenth of the trace goes on after it.
const ENDLESS: u64 = 10;

/// Whether a tracepoint begins or ends an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Irq {
    Enters,
    Leaves,
}

/// Interrupts on a CPU.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    count: u32,
    since: Nanos,
}

/// Asks what the tasks of a trace demanded.
#[derive(Debug)]
pub struct Infer {
    options: Options,
    drafts: Vec<Draft>,
    /// By the index of other tracepoints.
    irqs: Vec<Option<Irq>>,
    depths: Vec<Depth>,
    affinity: Vec<Affinity>,
    manners: RecordedScheduling,
    hrtimers: Hrtimers,
    calls: CallTracking,
    paces: Paces,
    simulated: bool,
    start: Nanos,
    totals: Totals,
    gaps: u64,
}

impl Infer {
    /// Starts with no task; `info` tells the CPUs and tracepoints of the source whose events follow.
    #[must_use]
    pub fn new(info: &TraceInfo, options: Options) -> Self {
        let kind = |name: &str| match name {
            "irq_handler_entry" | "softirq_entry" => Some(Irq::Enters),
            "irq_handler_exit" | "softirq_exit" => Some(Irq::Leaves),
            _ => None,
        };
        let simulated = info.kernel.as_ref().is_some_and(|kernel| kernel.starts_with("simulated"));
        Self {
            options,
            drafts: Vec::new(),
            irqs: info.others.iter().map(|other| kind(&other.name)).collect(),
            depths: Vec::new(),
            affinity: info.affinity.clone().unwrap_or_default(),
            manners: RecordedScheduling::of(info),
            hrtimers: Hrtimers::of(&info.others),
            calls: CallTracking::of(info),
            paces: Paces::of(info),
            simulated,
            start: Nanos::ZERO,
            totals: Totals { steal: steal(info), ..Totals::default() },
            gaps: 0,
        }
    }

    /// Whether the trace holds tracepoints whose arguments the rules use: then ask with
    /// [`schedlab_timeline::WithArguments`].
    #[must_use]
    pub fn wants_arguments(&self) -> bool {
        self.hrtimers.has_starts()
            || self.paces.has_frequencies()
            || (self.options.objects && self.calls.has_any())
    }

    fn draft(&mut self, task: TaskId) -> &mut Draft {
        let at = task.index();
        if at >= self.drafts.len() {
            self.drafts.resize_with(at + 1, Draft::default);
        }
        &mut self.drafts[at]
    }

    fn switch(&mut self, switch: &Switch, state: &State) {
        let Switch { at, cpu, was, since, prev, left, is, .. } = *switch;
        let start = self.start;
        let leaver = was.task().or(Some(prev).filter(|prev| prev.is_some()));
        if let Some(task) = leaver {
            let prio = state.task(task).prio;
            let draft = self.draft(task);
            if !draft.begun {
                draft.begins(cpu, prio);
                // Nothing else ran on this CPU since the trace began.
                draft.cursor = (was.task().is_some() || since <= start).then_some(since.max(start));
            }
            draft.runs_until(at);
            draft.cursor = None;
            match left {
                Some(Left::Dead) => draft.is_dead = true,
                Some(Left::Preempted | Left::Displaced) => {}
                Some(_) => {
                    draft.sleeps(at);
                    let call = draft.sleeps_in();
                    self.calls.calls.order.extend(call.map(ObjectEvent::Sleeps));
                }
                None => self.gaps += 1,
            }
        }
        self.works(at, cpu, matches!(is, Occupant::Task(_)), state);
        if let Occupant::Task(task) = is {
            let pace = self.paces.pace(cpu);
            let prio = state.task(task).prio;
            let sees_wakes = state.sees_wakes();
            let overhead = self.options.switch;
            let draft = self.draft(task);
            let is_new = !draft.begun;
            draft.begins(cpu, prio);
            if is_new && at > start && !sees_wakes && switch.left.is_some() {
                // It may have slept until now.
                draft.sleeps(start);
            }
            draft.wakes(at, End::Unseen, start);
            draft.has_prio(prio);
            match switch.left {
                // It was found to run: since when, only a CPU that was never seen before tells.
                None if is_new && since <= start => draft.steps_up(start, cpu, pace, Nanos::ZERO),
                None => draft.steps_up(at, cpu, pace, Nanos::ZERO),
                Some(_) => draft.steps_up(at, cpu, pace, overhead),
            }
        }
    }

    /// A CPU works or idles from now on: its siblings go on at another pace.
    fn works(&mut self, at: Nanos, cpu: Cpu, busy: bool, state: &State) {
        if !self.paces.works(cpu, busy) {
            return;
        }
        for sibling in self.paces.siblings(cpu).to_vec() {
            self.changes_pace(at, sibling, state);
        }
    }

    fn changes_pace(&mut self, at: Nanos, cpu: Cpu, state: &State) {
        let pace = self.paces.pace(cpu);
        if let Some(task) = state.cpu(cpu).and_then(|cpu| cpu.occupant.task()) {
            self.draft(task).changes_pace(at, pace);
        }
    }

    fn runnable(&mut self, runnable: &Runnable, state: &State) {
        let Runnable { at, task, why, waker, last_cpu, slept, .. } = *runnable;
        let start = self.start;
        let cpu = last_cpu.unwrap_or(waker.cpu);
        let prio = state.task(task).prio;
        let by = self.waker(runnable, state);
        let timer = self.hrtimers.wakes(state.task(task).pid, waker.cpu);
        let draft = self.draft(task);
        if why == Why::New && draft.forked {
            return;
        }
        if !draft.begun {
            draft.begins(cpu, prio);
            draft.sleeps(slept.map_or(start, |(since, _)| since));
        }
        if !draft.is_asleep() {
            draft.not_asleep += 1;
            return;
        }
        match by {
            Some(by) => {
                let call = self.ties(by, task);
                self.draft(task).wakes(at, End::Task(by), start);
                let wake = self.options.wake;
                self.draft(by).ends_a_wait(at, task.0, call, wake);
            }
            None => {
                self.ties_in_softirq(runnable, state);
                let draft = self.draft(task);
                draft.wakes(at, End::Interrupt, start);
                draft.timers.extend(timer);
            }
        }
    }

    /// The call in which a task waits that another wakes, which ties that call to the waker's.
    fn ties(&mut self, by: TaskId, task: TaskId) -> Option<u32> {
        let by = self.drafts.get(by.index())?;
        let task = self.drafts.get(task.index())?;
        self.calls.wakes(by, task)
    }

    /// A packet to this machine arrives in a soft interrupt within the call that sends it. So the call names its reader,
    /// although the running task is a bystander of most soft interrupts: what is written and read must agree too.
    fn ties_in_softirq(&mut self, runnable: &Runnable, state: &State) {
        let Runnable { waker, task, .. } = *runnable;
        let by = state.cpu(waker.cpu).and_then(|cpu| cpu.occupant.task());
        let is_soft = waker.context == Context::SoftIrq;
        if let Some(by) = by.filter(|by| is_soft && *by != task) {
            self.ties(by, task);
        }
    }

    /// The task that woke another by its own work: the one that runs there, unless it was only interrupted.
    fn waker(&self, runnable: &Runnable, state: &State) -> Option<TaskId> {
        let waker = runnable.waker;
        let by = Some(waker.task).filter(|by| by.is_some() && *by != runnable.task)?;
        let runs = matches!(state.task(by).activity, Activity::Running { cpu } if cpu == waker.cpu);
        let known = self.drafts.get(by.index()).is_some_and(|draft| draft.cursor.is_some());
        let own = waker.context == Context::Task && !is_stopper(&state.name(by));
        (runs && known && own && !is_stopper(&state.name(runnable.task))).then_some(by)
    }

    fn born(&mut self, at: Nanos, task: TaskId, parent: TaskId, state: &State) {
        let prio = state.task(task).prio;
        let cpu = state.task(parent).last_cpu.unwrap_or(Cpu(0));
        let start = self.start;
        let known = parent.is_some() && self.draft(parent).cursor.is_some();
        let draft = self.draft(task);
        if draft.begun {
            return;
        }
        draft.begins(cpu, prio);
        draft.forked = known;
        if known {
            self.draft(parent).does(at, Step::Fork(task.0), Nanos::ZERO);
        } else {
            draft.sleeps(start);
            draft.wakes(at, End::Unseen, start);
        }
        self.calls.calls.parents.extend(parent.is_some().then_some((task, parent)));
    }

    fn other(&mut self, at: Nanos, cpu: Cpu, format: u16, state: &State) {
        self.hrtimers.fires(cpu, format);
        if self.calls.wants(format)
            && !self.simulated
            && let Some(task) = state.cpu(cpu).and_then(|cpu| cpu.occupant.task())
        {
            let cost = self.options.call;
            self.draft(task).owes(at, cost);
        }
        let Some(irq) = self.irqs.get(usize::from(format)).copied().flatten() else { return };
        if cpu.index() >= self.depths.len() {
            self.depths.resize(cpu.index() + 1, Depth::default());
        }
        let depth = &mut self.depths[cpu.index()];
        match irq {
            Irq::Enters => {
                if depth.count == 0 {
                    depth.since = at;
                }
                depth.count += 1;
            }
            Irq::Leaves if depth.count == 1 => {
                let since = depth.since;
                depth.count = 0;
                if let Some(task) = state.cpu(cpu).and_then(|cpu| cpu.occupant.task()) {
                    let time = self.draft(task).was_interrupted(since, at);
                    self.totals.interrupts += time;
                }
            }
            Irq::Leaves => depth.count = depth.count.saturating_sub(1),
        }
    }
}

/// What the steal time of all CPUs grew by between its first and its last reading.
fn steal(info: &TraceInfo) -> Option<Nanos> {
    let readings = &info.groups.as_ref()?.steal;
    let first = readings.first()?;
    let last = readings.last()?;
    (readings.len() > 1).then(|| Nanos(last.1.0.saturating_sub(first.1.0)))
}

/// The kernel's task that moves others: what it does belongs to the scheduler.
fn is_stopper(comm: &str) -> bool {
    comm.starts_with("migration/") || comm.starts_with("stopper/")
}

/// The CPU in the name of a per-CPU kernel thread: `kworker/3:1`, `ksoftirqd/3`, `cpuhp/3`.
fn cpu_in_name(comm: &str) -> Option<Cpu> {
    const KINDS: [&str; 6] = ["kworker", "ksoftirqd", "cpuhp", "rcuc", "rcuop", "idle_inject"];
    let (kind, rest) = comm.split_once('/')?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    KINDS.contains(&kind).then(|| digits.parse().ok().map(Cpu)).flatten()
}

impl Question for Infer {
    type Answer = Inferred;
    const QUEUES: bool = false;

    fn wants(&mut self, format: u16, _: &State) -> bool {
        self.hrtimers.wants(format)
            || self.paces.wants(format)
            || (self.options.objects && self.calls.wants(format))
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        if self.paces.wants(event.format) {
            let Some((cpu, khz)) = self.paces.reads(event) else { return };
            self.paces.has(cpu, khz);
            return self.changes_pace(event.at, cpu, state);
        }
        if !self.calls.wants(event.format) {
            return self.hrtimers.other_event(event);
        }
        let task = state.cpu(event.cpu).and_then(|cpu| cpu.occupant.task());
        let Some(draft) = task.and_then(|task| self.drafts.get_mut(task.index())) else { return };
        if let Some(task) = task.filter(|task| state.task(*task).pid == event.by) {
            self.calls.other_event(event, task, draft);
        }
    }

    fn begin(&mut self, state: &State) {
        self.start = state.window().start;
        for (cpu, at) in state.observed_cpus() {
            self.paces.works(cpu, matches!(at.occupant, Occupant::Task(_)));
        }
        for (cpu, at) in state.observed_cpus() {
            let pace = self.paces.pace(cpu);
            if let Occupant::Task(task) = at.occupant {
                let start = self.start;
                let prio = state.task(task).prio;
                let draft = self.draft(task);
                draft.begins(cpu, prio);
                draft.steps_up(start, cpu, pace, Nanos::ZERO);
            }
        }
        // Those that are seen asleep at the begin of a window.
        let asleep = state.tasks().filter_map(|(id, task)| match task.activity {
            Activity::Sleeping { .. } => Some((id, task.last_cpu, task.prio, task.since)),
            _ => None,
        });
        for (id, cpu, prio, since) in asleep {
            let draft = self.draft(id);
            draft.begins(cpu.unwrap_or(Cpu(0)), prio);
            draft.sleeps(since);
        }
    }

    #[inline]
    fn see(&mut self, change: &Change, state: &State) {
        match change {
            Change::Switch(switch) => self.switch(switch, state),
            Change::Runnable(runnable) => self.runnable(runnable, state),
            Change::Born { at, task, parent } => self.born(*at, *task, *parent, state),
            Change::Other { at, cpu, format } => self.other(*at, *cpu, *format, state),
            Change::Forgotten { at, task, .. } => {
                self.gaps += 1;
                let draft = self.draft(*task);
                draft.runs_until(*at);
                draft.cursor = None;
                if draft.begun {
                    draft.sleeps(*at);
                }
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> Inferred {
        let end = state.window().end;
        let start = self.start;
        let mut drafts = std::mem::take(&mut self.drafts);
        let long = Nanos((end - start).0 / ENDLESS);
        let ends: Vec<(bool, bool)> = drafts
            .iter_mut()
            .map(|draft| {
                draft.runs_until(end);
                let how = (draft.is_endless(long), draft.is_fixed(long));
                draft.ends(end, start);
                how
            })
            .collect();
        let unknown = self.convert(&mut drafts);
        let mut inferred = Inferred::default();
        let found = self.calls.decide(&drafts);
        let numbers = numbers(&drafts, state, &mut self.totals);
        let mut pids = Pids::default();
        for (id, draft) in drafts.into_iter().enumerate().filter(|(id, _)| numbers[*id].is_some()) {
            let pid = pids.unique(state.task(TaskId(id as u32)).pid, state);
            let (mut actor, mut account) =
                self.finish(TaskId(id as u32), &draft, &found, pid, state, &numbers);
            (account.is_endless, account.is_fixed) = ends[id];
            actor.steps.extend(account.is_endless.then_some(Step::Endless));
            inferred.demand.actors.push(actor);
            inferred.accounts.push(account);
        }
        self.check_names(&mut inferred);
        self.totals.calls = found.calls;
        self.totals.calls_unknown = found.unknown;
        self.totals.futex_tokens = found.futexes;
        self.totals.polls = found.polls;
        self.totals.contradictory = found.contradictory;
        inferred.demand.objects = found.objects;
        inferred.demand.start = start;
        inferred.demand.length = end - start;
        self.totals.cpu_time = Nanos(inferred.accounts.iter().map(|one| one.cpu_time.0).sum());
        if !self.simulated {
            self.totals.speed_unknown = unknown.min(self.totals.cpu_time);
        }
        inferred.totals = self.totals;
        inferred.warnings = self.warnings(&inferred, state);
        inferred
    }
}

/// The actor's number of each task; `None`: it is not replayed.
fn numbers(drafts: &[Draft], state: &State, totals: &mut Totals) -> Vec<Option<u32>> {
    let mut next = 0;
    let mut number = |(id, draft): (usize, &Draft)| {
        if id == 0 || !draft.begun {
            return None;
        }
        if is_stopper(&state.name(TaskId(id as u32))) {
            let time = |step: &Step| if let Step::Run(time) = step { time.0 } else { 0 };
            totals.left_out += Nanos(draft.steps.iter().map(time).sum());
            return None;
        }
        next += 1;
        Some(next - 1)
    };
    drafts.iter().enumerate().map(&mut number).collect()
}

/// Pids that are given once.
#[derive(Default)]
struct Pids {
    given: BTreeSet<Pid>,
    next: Option<i32>,
}

impl Pids {
    /// The pid, or one that no task of the trace has where another task has it already.
    fn unique(&mut self, pid: Pid, state: &State) -> Pid {
        if self.given.insert(pid) {
            return pid;
        }
        let highest = || state.tasks().map(|(_, task)| task.pid.0).max().unwrap_or(0);
        let next = self.next.get_or_insert_with(highest);
        *next = next.saturating_add(1);
        self.given.insert(Pid(*next));
        Pid(*next)
    }
}

impl Infer {
    /// Converts all bursts to time at full speed; how much of it is of unknown speed.
    fn convert(&self, drafts: &mut [Draft]) -> Nanos {
        let time = |draft: &Draft| draft.steps.iter().map(|step| step.cpu_time().0).sum::<u64>();
        let all: u64 = drafts.iter().map(time).sum();
        let steal = self.totals.steal.map_or(0.0, |steal| steal.0 as f64 / all.max(1) as f64);
        let measure = self.paces.measure(self.options.smt_percent, steal.min(0.99));
        Nanos(drafts.iter_mut().map(|draft| draft.convert(&measure).0).sum())
    }

    /// One task as an actor, with what that rests on.
    fn finish(
        &mut self,
        id: TaskId,
        draft: &Draft,
        found: &Found,
        pid: Pid,
        state: &State,
        numbers: &[Option<u32>],
    ) -> (Actor, Account) {
        let comm = state.name(id);
        let (resolved, before) = draft.resolved(found);
        let on_objects = draft.waits_on(found);
        let steps = resolved.into_iter().filter_map(|step| match step {
            Step::Post(task) => numbers[task as usize].map(Step::Post),
            Step::Fork(task) => numbers[task as usize].map(Step::Fork),
            step => Some(step),
        });
        let Decided { timer, is_recorded, slack } =
            timers::decide(&draft.interrupts, &draft.timers);
        let named =
            |set: &BTreeSet<String>| set.contains(&comm) || set.contains(&pid.0.to_string());
        let source = match timer {
            _ if named(&self.options.open) => Source::Open,
            _ if named(&self.options.closed) => Source::Closed,
            Timer::Relative(_) => Source::Closed,
            _ => Source::Open,
        };
        let recorded = state.task(id).pid;
        let told = self.affinity.iter().find(|one| one.pid == recorded);
        let own = draft.only_cpu.filter(|cpu| cpu_in_name(&comm) == Some(*cpu));
        let cpus = told.map(|one| one.allowed.clone());
        let cpus = cpus.or_else(|| own.map(|cpu| [cpu].into_iter().collect::<CpuSet>()));
        let TaskScheduling { class, slice, group } = self.manners.of_task(recorded, self.start);
        let actor = Actor {
            pid,
            comm: comm.clone(),
            prio: draft.prio,
            class,
            slice,
            group,
            cpus,
            cpu: draft.cpu,
            forked: draft.forked,
            source,
            steps: steps.collect(),
        };
        self.totals.overhead += Nanos(draft.overhead) + before;
        let waker = draft.wakers.iter().max_by_key(|(_, times)| **times);
        let account = Account {
            pid,
            comm,
            cpu_time: actor.cpu_time(),
            by_task: draft.by_task,
            on_objects,
            by_interrupt: draft.interrupts.len() as u64,
            unseen: draft.unseen,
            not_asleep: draft.not_asleep,
            waker: waker.map(|(waker, times)| (state.task(*waker).pid, *times)),
            timer,
            is_endless: false,
            is_fixed: false,
            timer_is_recorded: is_recorded,
            slack,
            source,
        };
        (actor, account)
    }

    /// Warns of each name given to `--open` or `--closed` that no task has.
    fn check_names(&self, inferred: &mut Inferred) {
        for name in self.options.open.union(&self.options.closed) {
            let has = |one: &Account| one.comm == *name || one.pid.0.to_string() == *name;
            if !inferred.accounts.iter().any(has) {
                let what = format!("the trace has no task named '{name}'");
                inferred.warnings.push(Warning::new(
                    "no-such-task",
                    what,
                    "list the tasks with `schedlab trace tasks`",
                ));
            }
        }
    }

    fn warnings(&self, inferred: &Inferred, state: &State) -> Vec<Warning> {
        let mut warnings = inferred.warnings.clone();
        let mut warn = |code: &str, what: String, remedy: &str| {
            warnings.push(Warning::new(code, what, remedy));
        };
        let record = "record with `schedlab record --for replay`";
        let seen = state.seen();
        if !state.sees_wakes() {
            let what = "no wait in the replay depends on another task: the trace holds no \
                wakeups, so each wait keeps the time at which it ended";
            warn("no-wakeups", what.to_owned(), record);
        } else if !seen.contains(Kind::Waking) {
            let what = "wakeups from other CPUs keep their recorded times: the trace holds no \
                sched_waking, so their wakers are unknown";
            warn("no-wakers", what.to_owned(), record);
        }
        if self.gaps > 0 {
            let what = format!(
                "{} gaps in the life of a task are replayed as sleep: the trace does not show \
                 what the task did",
                self.gaps
            );
            warn("gaps", what, "record with larger buffers");
        }
        let totals = &inferred.totals;
        if !self.simulated && totals.speed_unknown > Nanos::ZERO {
            let why = if self.paces.has_frequencies() {
                "frequency was not recorded before its first change, or a sibling of the core was busy"
            } else {
                "frequency was not recorded"
            };
            let steal = match totals.steal {
                Some(steal) => format!("{steal} that the hypervisor took are subtracted evenly"),
                None => "steal was not recorded".to_owned(),
            };
            let what = format!(
                "bursts are wall time on a CPU for {} of {} of CPU time: the CPU's speed is \
                 unknown there ({why}; {steal})",
                totals.speed_unknown, totals.cpu_time
            );
            warn("speed-unknown", what, "");
        }
        if totals.left_out > Nanos::ZERO {
            let what = format!("{} of the kernel's stopper are not replayed", totals.left_out);
            warn("stopper-left-out", what, "");
        }
        let hidden = inferred.accounts.iter().filter(|one| one.may_hide());
        let (count, time) = hidden.fold((0, 0), |(n, time), one| (n + 1, time + one.cpu_time.0));
        if count > 0 && totals.cpu_time > Nanos::ZERO {
            let share = 100.0 * time as f64 / totals.cpu_time.0 as f64;
            let what = format!(
                "the replay shows only waits that the recording has: {count} tasks with \
                 {share:.0} % of the CPU time wait for other tasks"
            );
            let remedy = match self.calls.has_calls() {
                true => "",
                false => {
                    "record with `schedlab record --for replay --calls` to find data that was read without a wait"
                }
            };
            warn("hidden-dependencies", what, remedy);
        }
        warnings
    }
}
