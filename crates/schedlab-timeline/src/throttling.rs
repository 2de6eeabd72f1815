//! When tasks were throttled, because their control group had used its CPU quota.
//!
//! No event says so. A model of each limited group's budget does: at each period the kernel adds the quota to what is left,
//! up to quota plus burst (`__refill_cfs_bandwidth_runtime`), and what the group's tasks run is subtracted. A task that
//! leaves its CPU runnable while nothing is left is throttled from then until the next refill. After that it competes.
//!
//! A refill is the expiry of the group's period timer (`hrtimer_expire_entry` of `sched_cfs_period_timer`). That event names
//! the timer by its address: the group is the one whose throttled tasks run directly after it. Where the event is missing, since it
//! was not recorded or its CPU logs nothing while idle, the refill is on the grid of the group's earlier ones, or, before any
//! was seen, when a throttled task runs again.
//!
//! The budget is a bound: CPUs take slices of it (5 ms, `sched_cfs_bandwidth_slice_us`) and may hold rests of them. A task that leaves
//! within such a rest is only taken as throttled if no task of its group ran on its CPU until the refill. It is certain if its
//! CPU was idle then.
//!
//! Some kernels leave out switches, so the model may have something left where the kernel had nothing. A task that leaves
//! runnable to an idle CPU has no budget, whatever the model says: the kernel would have kept it. One that stands beside an
//! idle CPU until its group's timer expires, and soon runs there, was throttled all the same.
//!
//! Before Linux 6.18 the kernel stops the whole queue of a group on a CPU. Since then it stops each task on its own way back to
//! user space: a task may wait for its turn, run some microseconds of kernel code, and only then be throttled. So a task
//! that runs again without a refill was not throttled before.

mod by_task;
mod carried;

pub(crate) use by_task::{Stopped, Throttles, merged};

use crate::change::{Change, Switch};
use crate::membership::Membership;
use crate::question::{OtherEvent, Question};
use crate::state::{Occupant, State};
use crate::task::{Activity, TaskId};
use schedlab_model::{Cpu, CpuSet, Left, Nanos, Pid, Span, TraceInfo, kernel_version};
use std::collections::BTreeMap;

/// Budgets that differ from the kernel's by less than this are taken as equal: interrupts and steal time count here.
const TOLERANCE_NS: i64 = 200_000;
/// What a CPU takes from the budget at once, by default.
const SLICE_NS: i64 = 5_000_000;
/// By how much a group overdraws its budget on a CPU before a tick stops it, with the longest tick (HZ 100).
const OVERDRAWN_NS: i64 = 10_000_000;
/// How long an event of a period's end may be late before the grid stands in for it.
const GRID_LATE: Nanos = Nanos(1_000_000);
/// How much sooner than the grid says a refill may come.
const GRID_EARLY: Nanos = Nanos(100_000);
/// A throttled task runs within this time after its group's refill, where its CPU is free.
const RESUMED_WITHIN: Nanos = Nanos(2_000_000);

/// Asks when tasks were throttled by the limits of their groups.
#[derive(Clone, Debug)]
pub struct Throttling {
    /// Paths of the groups.
    names: Vec<String>,
    limited: Vec<Limited>,
    /// By group: the limits that hold for it, as indices into `limited`.
    limits_of: Vec<Vec<usize>>,
    membership: Membership,
    /// Whether the kernel stops queues and not single tasks.
    stops_queues: bool,
    /// Expiries of period timers that belong to no known group, by address.
    expired: BTreeMap<u64, Expired>,
    /// How often tasks of a limited group ran directly after the expiry of a timer.
    evidence: BTreeMap<(u64, usize), TimerEvidence>,
    /// No group's grid has a refill before this.
    due: Nanos,
    spans: Vec<Throttled>,
    /// When tasks come to other groups, latest first, and up to when that was followed.
    moves: Vec<(Nanos, Pid)>,
    followed: Nanos,
    /// Whether tasks come to other groups at all.
    has_moves: bool,
    /// Whose wait ended unseen just now, and which limits may have held it.
    ended: (TaskId, Vec<usize>),
}

/// What speaks for a timer. A task that two limits held does not tell which of them ended last: it counts less.
#[derive(Clone, Copy, Debug, Default)]
struct TimerEvidence {
    count: u32,
    weight: u32,
}

/// A period timer's last expiry, and the shortest time between two.
#[derive(Clone, Copy, Debug)]
struct Expired {
    at: Nanos,
    apart: Nanos,
}

/// A task that was throttled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Throttled {
    /// From when until when.
    pub span: Span,
    pub(crate) task: TaskId,
    /// The CPU that it had to leave.
    pub(crate) cpu: Cpu,
    /// The group whose quota was used up, as an index into [`schedlab_model::Groups::names`].
    pub group: u32,
    /// Whether it may also have waited for other tasks: CPUs may have held a rest of the budget.
    pub(crate) certain: bool,
}

/// What the limits of groups did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThrottlingAnswer {
    /// In order of time.
    pub spans: Vec<Throttled>,
    /// By group with a limit: the time in which it was certainly throttled, summed over CPUs, as `cpu.stat` counts it.
    pub groups: BTreeMap<u32, Nanos>,
    /// By group with a limit: the address of its period timer, if that was found out.
    pub timers: BTreeMap<u32, u64>,
}

impl ThrottlingAnswer {
    /// How long a group was certainly throttled, as the kernel counts it between two readings: it adds all of a
    /// throttled time when that ends.
    #[must_use]
    pub fn ended(&self, group: u32, readings: Span) -> Nanos {
        let is_in =
            |one: &&Throttled| readings.start < one.span.end && one.span.end <= readings.end;
        let ended: Vec<Throttled> = self.spans.iter().filter(is_in).copied().collect();
        queues_stopped(group, &ended)
    }
}

/// A group with a quota.
#[derive(Clone, Debug)]
struct Limited {
    group: u32,
    quota_ns: i64,
    period: Nanos,
    burst_ns: i64,
    /// When it may have had another limit: between two looks that differ.
    changed: Option<Span>,
    /// What was left when `running` was last settled; before the first refill, the most that can have been left.
    budget_ns: i64,
    /// By how much less it may be: what was overdrawn before the first refill that was seen is not known.
    excess_ns: i64,
    /// The last refill, from which the grid of the next ones follows.
    refilled: Option<Nanos>,
    timer: Option<u64>,
    /// Whether the trace holds expiries of timers.
    has_timers: bool,
    /// CPUs that run its tasks now, and since when that is not subtracted.
    running: Vec<(Cpu, Nanos)>,
    /// CPUs that ran its tasks since the last refill.
    used: CpuSet,
    /// Tasks that left with nothing left.
    out: BTreeMap<TaskId, Out>,
    /// Tasks that left runnable while the model had something left.
    early: BTreeMap<TaskId, Early>,
    /// CPUs whose queue is stopped, where the kernel stops queues.
    stopped: CpuSet,
}

/// A task that should not be throttled, and may be.
#[derive(Clone, Copy, Debug)]
struct Early {
    cpu: Cpu,
    /// Since when it is certainly throttled: its CPU became idle without it.
    idle: Option<Nanos>,
    /// When its group's timer expired after that.
    until: Option<Nanos>,
}

#[derive(Clone, Copy, Debug)]
struct Out {
    from: Nanos,
    cpu: Cpu,
    certain: bool,
    /// Whether somebody ran on its CPU until it ran again.
    was_busy: bool,
    /// Whether it was woken, and its queue may be stopped since before the trace.
    was_woken: bool,
}

impl Limited {
    /// Whether a timer may be its own, by its period.
    const fn may_have(&self, timer: &Expired) -> bool {
        timer.apart.0 >= self.period.0 / 4 * 3
    }

    fn full_ns(&self) -> i64 {
        self.quota_ns + self.burst_ns
    }

    /// Subtracts what its tasks ran until now.
    fn settle(&mut self, until: Nanos) {
        for (_, since) in &mut self.running {
            if *since < until {
                let ran = (until - *since).0 as i64;
                self.budget_ns -= ran;
                *since = until;
            }
        }
    }

    /// What is left, and whether that is certainly nothing; `None` if something is left.
    fn exhausted(&mut self, at: Nanos) -> Option<bool> {
        self.settle(at);
        let left = self.budget_ns;
        if left > TOLERANCE_NS && self.refilled.is_none() {
            return Some(false);
        }
        let elsewhere = self.used.len().saturating_sub(1) as i64 * SLICE_NS.min(self.quota_ns / 2);
        let certain = left <= TOLERANCE_NS;
        (left <= TOLERANCE_NS + elsewhere + self.excess_ns).then_some(certain)
    }

    /// The kernel added the quota at `at`.
    fn refill(&mut self, at: Nanos, spans: &mut Vec<Throttled>, state: &State) {
        self.settle(at);
        let full = self.full_ns();
        let most_overdrawn = -OVERDRAWN_NS * self.used.len().max(1) as i64;
        let least = match self.refilled {
            None => most_overdrawn,
            Some(_) => (self.budget_ns - self.excess_ns).max(most_overdrawn),
        };
        self.budget_ns = (self.budget_ns + self.quota_ns).min(full);
        self.excess_ns = (self.budget_ns - (least + self.quota_ns).min(full)).max(0);
        self.refilled = Some(at);
        if self.budget_ns <= 0 {
            return;
        }
        for (task, out) in std::mem::take(&mut self.out) {
            // Whoever left later met the new budget.
            if out.from < at {
                let idle = state.cpu(out.cpu).is_some_and(|cpu| cpu.occupant == Occupant::Idle);
                let certain = out.certain || idle;
                let span = Span::new(out.from, at);
                spans.push(Throttled { span, task, cpu: out.cpu, group: self.group, certain });
            }
        }
        self.stopped = CpuSet::default();
        self.used = self.running.iter().map(|(cpu, _)| *cpu).collect();
    }

    /// Refills on the grid of the last one, up to `until`.
    fn catch_up(&mut self, until: Nanos, spans: &mut Vec<Throttled>, state: &State) {
        let Some(refilled) = self.refilled else { return };
        let periods = (until - refilled).0 / self.period.0.max(1);
        // The budget is full after as many periods as it takes to fill it.
        let needed = periods.min(64);
        for behind in (0..needed).rev() {
            let at = Nanos(refilled.0 + (periods - behind) * self.period.0);
            self.refill(at, spans, state);
        }
    }

    /// Its period timer expired.
    fn expired(&mut self, at: Nanos, spans: &mut Vec<Throttled>, state: &State) {
        for early in self.early.values_mut() {
            let is_held = early.idle.is_some_and(|since| at - since > RESUMED_WITHIN);
            early.until = is_held.then_some(at);
        }
        let half = Nanos(self.period.0 / 2);
        match self.refilled {
            // The grid was faster.
            Some(refilled) if refilled + half > at => self.refilled = Some(at),
            Some(_) => {
                self.catch_up(at - half, spans, state);
                self.refill(at, spans, state);
            }
            None => self.refill(at, spans, state),
        }
    }

    /// A task of it runs that left with nothing left: if it was throttled, its refill was at `at` or before.
    fn resumed(&mut self, task: TaskId, at: Nanos, spans: &mut Vec<Throttled>, state: &State) {
        let out = self.out.get(&task).copied().filter(|out| at - out.from > GRID_LATE);
        match (self.refilled, out) {
            (Some(_), _) => {
                self.catch_up(at, spans, state);
                let due = self.refilled.map(|refilled| refilled + self.period);
                // The refill before was seen later after its instant than this one.
                if out.is_some() && due.is_some_and(|due| due <= at + GRID_EARLY) {
                    self.refill(at, spans, state);
                }
            }
            // Others ran, and its timer's events will show the first refill.
            (None, Some(out)) if out.certain && !(self.has_timers && out.was_busy) => {
                self.refill(at, spans, state);
            }
            (None, Some(Out { from, cpu, .. })) => {
                let span = Span::new(from, at);
                let group = self.group;
                spans.push(Throttled { span, task, cpu, group, certain: false });
            }
            (None, None) => {}
        }
        // Where no period ended since, others ran instead.
        self.out.remove(&task);
    }
}

impl Throttling {
    /// A question about the groups that this trace says are limited.
    #[must_use]
    pub fn new(info: &TraceInfo) -> Self {
        let groups = info.groups.as_ref();
        let count = groups.map_or(0, |groups| groups.names.len() as u32);
        let mut limited = Vec::new();
        let mut place_of = BTreeMap::new();
        for limit in (0..count).filter_map(|group| groups?.limit(group)) {
            let Some(quota) = limit.quota else { continue };
            place_of.insert(limit.group, limited.len());
            limited.push(Limited {
                group: limit.group,
                quota_ns: quota.0 as i64,
                changed: groups.and_then(|groups| groups.limit_changed(limit.group)),
                period: limit.period,
                burst_ns: limit.burst.0 as i64,
                budget_ns: quota.0 as i64 + limit.burst.0 as i64,
                excess_ns: 0,
                refilled: None,
                timer: None,
                has_timers: info.others.iter().any(|other| other.name == "hrtimer_expire_entry"),
                running: Vec::new(),
                used: CpuSet::default(),
                out: BTreeMap::new(),
                early: BTreeMap::new(),
                stopped: CpuSet::default(),
            });
        }
        let limits_of = |group| {
            let chain = groups.into_iter().flat_map(move |groups| groups.chain(group));
            chain.filter_map(|at| place_of.get(&at).copied()).collect()
        };
        let membership = Membership::new(groups);
        Self {
            names: groups.map(|groups| groups.names.clone()).unwrap_or_default(),
            has_moves: !membership.moves().is_empty(),
            moves: membership.moves(),
            followed: Nanos::ZERO,
            limits_of: (0..count).map(limits_of).collect(),
            limited,
            membership,
            stops_queues: info
                .kernel
                .as_deref()
                .and_then(kernel_version)
                .is_some_and(|it| it < (6, 18)),
            expired: BTreeMap::new(),
            evidence: BTreeMap::new(),
            due: Nanos::ZERO,
            spans: Vec::new(),
            ended: (TaskId::NONE, Vec::new()),
        }
    }

    /// With the timers of groups that an earlier pass found ([`ThrottlingAnswer::timers`]): it had to see some periods
    /// to tell them apart.
    #[must_use]
    pub fn knowing(mut self, timers: &BTreeMap<u32, u64>) -> Self {
        for one in &mut self.limited {
            one.timer = timers.get(&one.group).copied();
        }
        self
    }

    /// Whether any group has a limit.
    #[must_use]
    pub(crate) const fn is_needed(&self) -> bool {
        !self.limited.is_empty()
    }

    /// The limits that hold for a task: those of groups hold for fair tasks alone.
    fn limits(&mut self, task: TaskId, state: &State) -> Vec<usize> {
        if !is_fair(task, state) {
            return Vec::new();
        }
        let group = self.membership.of(task, state);
        group.map(|group| self.limits_of[group as usize].clone()).unwrap_or_default()
    }

    fn left(&mut self, task: TaskId, switch: &Switch, state: &State) {
        let Switch { at, cpu, left, is, .. } = *switch;
        if self.has_moves || !is_fair(task, state) {
            self.vacate(cpu, at);
        }
        let limits = self.limits(task, state);
        for place in &limits {
            self.limited[*place].settle(at);
        }
        let is_runnable = left.is_some_and(Left::is_runnable);
        let to_idle = is_runnable && (is == Occupant::Idle || state.idles_unseen(cpu));
        if to_idle {
            // Of several limits, the one with the least left stopped it.
            let least = limits.iter().copied().min_by_key(|place| self.limited[*place].budget_ns);
            if let Some(place) = least {
                let budget_ns = &mut self.limited[place].budget_ns;
                *budget_ns = (*budget_ns).min(0);
            }
        }
        for place in limits {
            let one = &mut self.limited[place];
            one.running.retain(|(other, _)| *other != cpu);
            let Some(certain) = one.exhausted(at) else {
                if is_runnable {
                    one.early.insert(task, Early { cpu, idle: None, until: None });
                }
                continue;
            };
            // Since 6.18 a task that stops itself is in the middle of kernel code. One that is displaced on its way to user
            // space waits for its turn, and is throttled after that, unless a refill comes first.
            let certain =
                certain && (self.stops_queues || to_idle || left == Some(Left::Preempted));
            let out = Out { from: at, cpu, certain, was_busy: true, was_woken: false };
            if is_runnable {
                one.out.insert(task, out);
            }
            if self.stops_queues {
                one.stopped.insert(cpu);
                let waiters: Vec<TaskId> = state.waiters(cpu).collect();
                for waiter in waiters {
                    if self.limits(waiter, state).contains(&place) {
                        self.limited[place].out.entry(waiter).or_insert(out);
                    }
                }
            }
        }
    }

    /// A task runs, at the latest since `at` and at the earliest since `began`.
    fn runs(
        &mut self,
        task: TaskId,
        [began, at]: [Nanos; 2],
        cpu: Cpu,
        was: Occupant,
        state: &State,
    ) {
        let ended = std::mem::take(&mut self.ended.1);
        let mut held = if self.ended.0 == task { ended } else { Vec::new() };
        for place in self.limits(task, state) {
            let one = &mut self.limited[place];
            let early = one.early.remove(&task).filter(|early| early.cpu == cpu);
            if let Some(Early { idle: Some(from), until: Some(until), .. }) = early
                && began - until <= RESUMED_WITHIN
            {
                let span = Span::new(from, until);
                let group = one.group;
                self.spans.push(Throttled { span, task, cpu, group, certain: true });
            }
            let has_ended =
                |it: &Expired| it.at <= at && began - it.at <= RESUMED_WITHIN && one.may_have(it);
            // A wakeup may also be taken up late.
            let is_told = !one.has_timers || self.expired.values().any(has_ended);
            let out = one.out.get_mut(&task);
            let was_out = out.is_some();
            if let Some(out) = out.filter(|it| was == Occupant::Idle && (is_told || !it.was_woken))
            {
                out.certain = true;
                out.was_busy = false;
            }
            if was_out || one.stopped.contains(cpu) {
                one.resumed(task, at, &mut self.spans, state);
                self.due = Nanos::ZERO;
            }
            // Tasks that left this CPU within a rest of the budget only waited for this one.
            one.out.retain(|_, out| out.certain || out.cpu != cpu);
            one.running.push((cpu, at));
            one.used.insert(cpu);
            if was_out {
                held.push(place);
            }
        }
        let weight = if held.len() == 1 { 8 } else { 1 };
        for place in held {
            if self.limited[place].timer.is_none() {
                self.add_evidence(place, [began, at], weight);
            }
        }
    }

    /// A CPU has nobody to run, not even those that left it early.
    fn idles(&mut self, cpu: Cpu, at: Nanos) {
        for early in self.limited.iter_mut().flat_map(|one| one.early.values_mut()) {
            if early.cpu == cpu {
                early.idle.get_or_insert(at);
            }
        }
    }

    /// A task of a limited group runs again: the timer that expired just before may be its group's.
    fn add_evidence(&mut self, place: usize, [began, at]: [Nanos; 2], weight: u32) {
        let fits = |one: &Expired| {
            one.at <= at && began - one.at <= RESUMED_WITHIN && self.limited[place].may_have(one)
        };
        let near: Vec<u64> =
            self.expired.iter().filter(|(_, one)| fits(one)).map(|(timer, _)| *timer).collect();
        for timer in near {
            let own = self.evidence.entry((timer, place)).or_default();
            own.count += 1;
            own.weight += weight;
            let TimerEvidence { count, weight } = *own;
            if count >= 2 && weight > 3 * self.most_of_others(timer, place) {
                self.limited[place].timer = Some(timer);
                self.expired.remove(&timer);
                return;
            }
        }
    }

    /// The most that speaks for a timer being that of a group that has no other: the timers of a group and of one above
    /// it often expire together, and then each is as good for both.
    fn most_of_others(&self, timer: u64, place: usize) -> u32 {
        let rivals =
            self.evidence.range((timer, 0)..=(timer, usize::MAX)).filter(|((_, other), own)| {
                let mut all = self.evidence.iter();
                let has_another = self.limited[*other].timer.is_some()
                    || all.any(|((one, group), evidence)| {
                        one != &timer && group == other && evidence.weight >= own.weight
                    });
                *other != place && !has_another
            });
        rivals.map(|(_, evidence)| evidence.weight).max().unwrap_or(0)
    }

    /// The only group without a timer has the only timer that is left.
    fn left_over(&self, expired: &Expired) -> Option<usize> {
        let mut without = (0..self.limited.len()).filter(|one| self.limited[*one].timer.is_none());
        let place = without.next()?;
        let is_only = without.next().is_none() && self.expired.len() == 1;
        (is_only && expired.apart < Nanos::MAX && self.limited[place].may_have(expired))
            .then_some(place)
    }

    /// A task that runs may come to another group: its time counts there from then on.
    fn follow_moves(&mut self, now: Nanos, state: &State) {
        self.followed = now;
        while let Some((at, pid)) = self.moves.last().copied().filter(|(at, _)| *at <= now) {
            self.moves.pop();
            let Some(task) = state.task_of(pid) else { continue };
            let Activity::Running { cpu } = state.task(task).activity else { continue };
            self.vacate(cpu, at);
            for place in self.limits(task, state) {
                self.limited[place].running.push((cpu, at));
                self.limited[place].used.insert(cpu);
            }
        }
    }

    /// No task of a limited group runs on this CPU any longer, whichever group it is in by now.
    fn vacate(&mut self, cpu: Cpu, at: Nanos) {
        for one in &mut self.limited {
            if one.running.iter().any(|(other, _)| *other == cpu) {
                one.settle(at);
                one.running.retain(|(other, _)| *other != cpu);
            }
        }
    }

    /// A task that waits, or is woken, on a stopped queue; or on one that may be stopped since before the trace.
    fn queued(&mut self, task: TaskId, at: Nanos, state: &State) {
        let Activity::Waiting { cpu, placed: true, .. } = state.task(task).activity else { return };
        for place in self.limits(task, state) {
            let one = &mut self.limited[place];
            let certain = one.stopped.contains(cpu);
            if certain || one.refilled.is_none() && one.used.is_empty() {
                one.out.entry(task).or_insert(Out {
                    from: at,
                    cpu,
                    certain,
                    was_busy: true,
                    was_woken: !certain,
                });
            }
        }
    }

    fn period_ended(&mut self, timer: u64, at: Nanos, state: &State) {
        let single = (self.limited.len() == 1).then_some(0);
        let known = self.limited.iter().position(|one| one.timer == Some(timer)).or(single);
        let place = known.or_else(|| {
            let one = self.expired.entry(timer).or_insert(Expired { at, apart: Nanos::MAX });
            if at > one.at {
                *one = Expired { at, apart: one.apart.min(at - one.at) };
            }
            let one = *one;
            self.left_over(&one)
        });
        if let Some(place) = place {
            self.expired.remove(&timer);
            self.limited[place].timer = Some(timer);
            self.limited[place].expired(at, &mut self.spans, state);
            self.due = Nanos::ZERO;
        }
    }
}

impl Question for Throttling {
    type Answer = ThrottlingAnswer;

    fn wants(&mut self, format: u16, state: &State) -> bool {
        self.is_needed() && state.others()[usize::from(format)].name == "hrtimer_expire_entry"
    }

    fn other_event(&mut self, event: &OtherEvent<'_>, state: &State) {
        if !event.arguments.contains("function=sched_cfs_period_timer") {
            return;
        }
        if let Some(timer) = event.number("hrtimer") {
            self.period_ended(timer, event.at, state);
        }
    }

    fn begin(&mut self, state: &State) {
        if !self.is_needed() {
            return;
        }
        for (cpu, here) in state.observed_cpus() {
            if let Occupant::Task(task) = here.occupant {
                self.runs(task, [state.window().start; 2], cpu, here.occupant, state);
            }
        }
        for (cpu, _) in state.observed_cpus() {
            for task in state.waiters(cpu) {
                self.queued(task, state.window().start, state);
            }
        }
    }

    fn see(&mut self, change: &Change, state: &State) {
        if !self.is_needed() {
            return;
        }
        let at = change.at();
        self.follow_moves(at, state);
        if at >= self.due {
            self.due = Nanos::MAX;
            for one in &mut self.limited {
                one.catch_up(at - GRID_LATE, &mut self.spans, state);
                if let Some(refilled) = one.refilled {
                    self.due = self.due.min(refilled + one.period + GRID_LATE);
                }
            }
        }
        match *change {
            Change::Born { task, parent, .. } => self.membership.born(task, parent, state),
            Change::Switch(ref switch) => {
                let Switch { cpu, was, prev, left, is, .. } = *switch;
                if let Some(task) = was.task().or_else(|| prev.is_some().then_some(prev)) {
                    self.left(task, switch, state);
                }
                match is {
                    Occupant::Task(task) => {
                        let began = if left.is_some() { at } else { state.silent_since(cpu) };
                        self.runs(task, [began, at], cpu, was, state);
                    }
                    Occupant::Idle => self.idles(cpu, at),
                    Occupant::Unknown => {}
                }
            }
            Change::Placed { task, .. } => self.queued(task, at, state),
            Change::Forgotten { task, .. } | Change::Exiting { task, .. } => {
                let mut held = self.limits(task, state);
                held.retain(|place| {
                    let one = &mut self.limited[*place];
                    one.early.remove(&task);
                    one.out.remove(&task).is_some()
                });
                self.ended = (task, held);
            }
            _ => {}
        }
    }

    fn answer(mut self, state: &State) -> ThrottlingAnswer {
        let end = state.window().end;
        let mut spans = std::mem::take(&mut self.spans);
        for one in &mut self.limited {
            one.catch_up(end, &mut spans, state);
            for (task, out) in std::mem::take(&mut one.out) {
                let Out { from, cpu, certain, .. } = out;
                let span = Span::new(from, end);
                spans.push(Throttled { span, task, cpu, group: one.group, certain });
            }
        }
        spans.retain(|one| one.span.duration() > Nanos::ZERO);
        for one in &mut spans {
            let limited = self.limited.iter().find(|limited| limited.group == one.group);
            let changed = limited.and_then(|limited| limited.changed);
            one.certain &=
                changed.is_none_or(|at| one.span.start >= at.end || one.span.end <= at.start);
        }
        spans.sort_unstable();
        let groups =
            self.limited.iter().map(|one| (one.group, queues_stopped(one.group, &spans))).collect();
        let timers = self.limited.iter().filter_map(|one| Some((one.group, one.timer?))).collect();
        ThrottlingAnswer { spans, groups, timers }
    }
}

fn is_fair(task: TaskId, state: &State) -> bool {
    state.task(task).prio.is_fair()
}

/// The time in which at least one task of a group was certainly throttled, summed over CPUs.
fn queues_stopped(group: u32, spans: &[Throttled]) -> Nanos {
    let mut until = BTreeMap::<Cpu, Nanos>::new();
    let mut sum = Nanos::ZERO;
    for one in spans.iter().filter(|one| one.group == group && one.certain) {
        let counted = until.entry(one.cpu).or_default();
        if one.span.end > *counted {
            sum += one.span.end - one.span.start.max(*counted);
            *counted = one.span.end;
        }
    }
    sum
}
