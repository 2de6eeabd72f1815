//! The period of a session that follows the work of its nodes: looks at them, and changes of the period.

use super::super::apply::Hold;
use super::super::budget_change::{Change, Lead};
use super::super::follow::{self, Budgets, Seen};
use super::super::idle::{Counted, Idle};
use super::super::{Grid, Method, Node, Plan, SlowError, Speed, quota};
use super::{Active, Session};
use schedlab_model::{CpuSet, Nanos, Pid};
use schedlab_sys::guard::Guard;
use schedlab_sys::{clock, process, slice};
use std::sync::atomic::Ordering::Relaxed;

/// Beyond this many threads nobody is asked how often it slept: each costs a file that is read.
const THREADS: usize = 256;

/// When to look at the work, and what is in force by it.
#[derive(Debug)]
pub(super) struct Pace {
    /// Counts how often CPUs have nothing to run, and wakeups from outside. `None` where nodes have budgets and
    /// schedlab may not count: the kernel counts budgets by itself.
    idle: Option<Idle>,
    /// The period of burns.
    period: Nanos,
    looks: u32,
    /// How often budgets come; zero where there are none.
    budgets: Nanos,
    looking: bool,
    due: Nanos,
}

/// What looks at a node have found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    seen: Seen,
    budgets: Budgets,
    /// What the counters were when the look began.
    began: Option<Counters>,
    /// How far it is ahead of its budgets; `None` where nobody counts what it uses.
    lead: Option<Lead>,
    /// A change of how often its budgets come.
    change: Option<Change>,
}

/// What was counted until a moment.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    at: Nanos,
    /// CPU time that its tasks used, in nanoseconds.
    used: u64,
    /// Budgets of CPU time.
    budgets: u64,
    /// How often a CPU had nothing to run.
    sleeps: u64,
    /// How often threads that live went to sleep.
    slept: u64,
    /// How often tasks were woken from outside of the node.
    woken: u64,
    /// The same of the threads that it had when the look began; `None` where they were not counted.
    known: Option<u64>,
    /// How many tasks were born on its CPUs.
    born: u64,
}

impl Pace {
    /// Whether the period can follow the work. It looks at nothing until it is started.
    pub(super) fn open(plan: &Plan) -> Option<Self> {
        let nodes: Vec<CpuSet> = plan.request.nodes.iter().map(Node::cpus).collect();
        let idle = match plan.method {
            _ if !plan.follows() => return None,
            Method::Quota => Idle::open(&nodes),
            Method::Hogs => Some(Idle::open(&nodes)?),
            // Weights, where the kernel takes no slices.
            _ if slice::usual().is_none() => return None,
            _ => Some(Idle::open(&nodes)?),
        };
        let period = plan.grid.period();
        Some(Self { idle, period, looks: 0, budgets: Nanos::ZERO, looking: false, due: Nanos::MAX })
    }

    /// Begins with a look.
    pub(super) const fn start(&mut self, now: Nanos) {
        self.due = now;
    }

    /// How long a look takes: a budget at least.
    fn look(&self) -> Nanos {
        follow::look(self.looks).max(self.budgets)
    }

    /// What was counted of a node until now.
    fn counters(&self, active: &Active, processes: &[Pid]) -> Option<Counters> {
        let (at, cpus) = (clock::monotonic(), active.node.cpus());
        match (&self.idle, &active.held.hold) {
            _ if active.failed => None,
            (_, Hold::Quota(quota)) => {
                let (used, budgets) = (active.held.used(processes)?.0, quota.counted()?);
                let counted = self.idle.as_ref().map(|idle| idle.count(&cpus));
                let Counted { woken, known, born, .. } = counted.unwrap_or_default();
                Some(Counters { at, used, budgets, woken, known, born, ..Counters::default() })
            }
            (Some(idle), _) => {
                let used = active.held.used(processes)?.0;
                let Counted { idled: sleeps, woken, known, born } = idle.count(&cpus);
                let slept = slept(processes);
                Some(Counters { at, used, budgets: 0, sleeps, slept, woken, known, born })
            }
            (None, _) => None,
        }
    }
}

fn threads(processes: &[Pid]) -> Vec<Pid> {
    processes.iter().flat_map(|pid| process::threads(*pid)).collect()
}

/// How often the living threads of processes went to sleep by themselves; 0 where there are too many.
fn slept(processes: &[Pid]) -> u64 {
    let threads = threads(processes);
    let some = if threads.len() > THREADS { &[] } else { &threads[..] };
    some.iter().filter_map(|thread| process::voluntary_switches(*thread)).sum()
}

impl Found {
    /// Its tasks come, its speed changes, or it stands still: what it `used` until now tells nothing of what it will have.
    pub(super) fn begin(&mut self, used: Option<Nanos>) {
        let at = clock::monotonic();
        self.lead = used.map(|used| Lead { at, used, more: 0 });
        self.change = None;
    }

    /// Begins the first look.
    fn start(&mut self, now: Option<Counters>, node: &Node) {
        if let (Some(lead), Some(Counters { at, used, .. })) = (self.lead, now)
            && let Some(speed) = node.speeds.values().next()
        {
            self.lead = Some(lead.starting(at, Nanos(used), *speed));
        }
    }

    /// Ends a look: adds what was counted since it began. `cpus` is how many CPUs at full speed the node may use.
    fn add(&mut self, now: Option<Counters>, cpus: f64) {
        let (Some(began), Some(now)) = (self.began.take(), now) else { return };
        let used = now.used.saturating_sub(began.used);
        let mut sleeps = now.sleeps.saturating_sub(began.sleeps);
        let looked = now.at.0.saturating_sub(began.at.0);
        self.budgets.periods += now.budgets.saturating_sub(began.budgets);
        let there = (cpus * looked as f64) as u64;
        self.budgets.there.0 += there;
        // While others compute on its CPUs too, these have something to run although the node sleeps.
        if used * 100 < follow::ALL * there {
            sleeps = sleeps.max(now.slept.saturating_sub(began.slept));
        }
        let woken = match now.known {
            Some(known) if now.born == began.born => known,
            _ => now.woken.saturating_sub(began.woken),
        };
        self.seen.looked.0 += looked;
        self.seen.used.0 += used;
        // A task that waits for another one of its node stands still with it in a gap.
        self.seen.sleeps += sleeps.min(woken);
        self.seen.woken += woken;
    }
}

impl Session {
    /// Looks at the work if it is time to, and changes the period if another one fits. Returns when to look next.
    pub(super) fn follow(&mut self, now: Nanos) -> Result<Nanos, SlowError> {
        let changing = self.change_budgets(now)?;
        if changing < Nanos::MAX {
            return Ok(changing);
        }
        let Some(mut pace) = self.pace.take() else { return Ok(Nanos::MAX) };
        if pace.due > now {
            let due = pace.due;
            self.pace = Some(pace);
            return Ok(due);
        }
        let admitted = Some(Pid(self.admitted.load(Relaxed))).filter(|pid| pid.0 > 0);
        pace.looking = !pace.looking;
        if let Some(idle) = &pace.idle {
            idle.run(pace.looking);
        }
        for active in &mut self.nodes {
            let roots: Vec<Pid> = active.roots().into_iter().chain(admitted).collect();
            let processes = active.held.processes(&roots);
            if let Some(idle) = pace.idle.as_mut().filter(|_| pace.looking) {
                idle.know(&active.node.cpus(), &threads(&processes));
            }
            let counters = pace.counters(active, &processes);
            match pace.looking {
                true => {
                    active.found.began = counters;
                    if pace.looks == 0 {
                        active.found.start(counters, &active.node);
                    }
                }
                false => {
                    let speeds = active.node.speeds.values();
                    active.found.add(counters, speeds.map(|speed| speed.fraction()).sum());
                }
            }
        }
        pace.due = now + pace.look();
        if !pace.looking {
            pace.looks += 1;
            self.choose(&mut pace)?;
            pace.due = now + follow::pause(pace.looks, pace.look());
        }
        let due = pace.due;
        self.pace = Some(pace);
        Ok(due)
    }

    /// Puts the period into force that fits what was found, where enough was found.
    fn choose(&mut self, pace: &mut Pace) -> Result<(), SlowError> {
        match self.plan.method {
            Method::Hogs => self.choose_burns(pace),
            Method::Quota => {
                let counts = pace.idle.is_some();
                pace.budgets = Nanos::ZERO;
                for active in &mut self.nodes {
                    pace.budgets = pace.budgets.max(choose_budget(active, counts)?);
                }
                Ok(())
            }
            // Weights.
            _ => {
                self.nodes.iter_mut().try_for_each(|active| choose_slices(active, &mut self.guard))
            }
        }
    }

    /// Goes on with changes of budgets. Looks wait for them, since a first budget is smaller than later ones.
    fn change_budgets(&mut self, now: Nanos) -> Result<Nanos, SlowError> {
        let admitted = Some(Pid(self.admitted.load(Relaxed))).filter(|pid| pid.0 > 0);
        self.nodes.iter_mut().try_fold(Nanos::MAX, |next, active| {
            Ok(next.min(change_budget(active, admitted, now)?))
        })
    }

    /// All nodes have one grid of burns.
    fn choose_burns(&mut self, pace: &mut Pace) -> Result<(), SlowError> {
        let seen = self.nodes.iter_mut();
        let mut seen = seen.map(|active| (active.node.name.as_str(), &mut active.found.seen));
        let Some(period) = follow::burns(&mut seen, pace.period) else { return Ok(()) };
        if period.period_ns != pace.period
            && let Some(grid) = Grid::new(period.period_ns)
        {
            pace.period = period.period_ns;
            self.under.pace(grid)?;
        }
        for active in &mut self.nodes {
            active.proof.follows(period.clone());
        }
        Ok(())
    }
}

/// A node under `quota` has a period of its own, which is returned.
fn choose_budget(active: &mut Active, counts: bool) -> Result<Nanos, SlowError> {
    let Hold::Quota(quota) = &mut active.held.hold else { return Ok(Nanos::ZERO) };
    let Found { seen, budgets, .. } = &mut active.found;
    let (seen, periods) = ((seen, budgets), (quota::PERIOD, quota.period()));
    let Some(period) = follow::budgets(seen, periods, counts) else { return Ok(quota.period()) };
    let (to, now) = (period.period_ns, clock::monotonic());
    match active.node.speeds.values().next() {
        Some(&Speed::FULL) => quota.pace(to, None)?,
        Some(speed) if to != quota.period() => {
            let budgets = (now, quota.counted().unwrap_or(0));
            let periods = (quota.period(), to);
            let change = Change::begin(*speed, periods, clock::interrupt(), budgets);
            active.found.change = Some(change);
        }
        _ => {}
    }
    active.proof.follows(period);
    Ok(to)
}

/// Goes on with the change of how often a node's budgets come; returns when to go on next.
fn change_budget(
    active: &mut Active,
    admitted: Option<Pid>,
    now: Nanos,
) -> Result<Nanos, SlowError> {
    let Some(mut change) = active.found.change.filter(|_| !active.failed) else {
        return Ok(Nanos::MAX);
    };
    if change.due > now {
        return Ok(change.due);
    }
    let roots: Vec<Pid> = active.roots().into_iter().chain(admitted).collect();
    let used = active.held.used(&active.held.processes(&roots));
    let Hold::Quota(quota) = &mut active.held.hold else { return Ok(Nanos::MAX) };
    let at = clock::monotonic();
    let used = used.unwrap_or(Nanos::ZERO);
    let lead = active.found.lead.get_or_insert(Lead { at, used, more: 0 });
    let write = change.step(at, quota.counted().unwrap_or(0), used, lead);
    if let Some(write) = write {
        quota.pace(write.period, Some(write.budget))?;
        // The second under way has a part of a budget too much or too little.
        active.proof.break_off(at);
    }
    active.found.change = Some(change).filter(|_| write.is_none_or(|write| !write.last));
    Ok(active.found.change.map_or(at, |change| change.due))
}

/// Each node under weights has slices of its own.
fn choose_slices(active: &mut Active, guard: &mut Guard) -> Result<(), SlowError> {
    let Hold::Weight(weight) = &mut active.held.hold else { return Ok(()) };
    let Some(now) = weight.period() else { return Ok(()) };
    let period = follow::slices(&mut active.found.seen, now);
    // Also without a change: for tasks that came meanwhile.
    let next = period.as_ref().map_or(now, |period| period.period_ns);
    if next > Nanos::ZERO || next != now {
        weight.pace(next, guard)?;
    }
    if let Some(period) = period {
        // Slices begin at any time, so a second may hold a part of a period more or less.
        active.proof.shifts(period.period_ns);
        active.proof.follows(period);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_add_up_and_a_look_without_a_counter_adds_nothing() {
        let at = |ms, used, sleeps, slept, woken| {
            let at = Nanos::from_millis(ms);
            Some(Counters { at, used, sleeps, slept, woken, ..Counters::default() })
        };
        let seen = |looked_ms, used_ms, sleeps, woken| {
            let (looked, used) = (Nanos::from_millis(looked_ms), Nanos::from_millis(used_ms));
            Seen { looked, used, sleeps, woken }
        };
        let (ms, mut found) = (1_000_000, Found::default());
        found.began = at(0, ms, 5, 100, 50);
        found.add(at(100, 21 * ms, 9, 900, 250), 0.2);
        // It used all that it may have, so its CPUs tell when it slept; its threads wait for each other too.
        assert_eq!(found.seen, seen(100, 20, 4, 200));
        found.add(at(200, 99 * ms, 99, 999, 999), 0.2);
        assert_eq!(found.seen.sleeps, 4, "no look had begun");
        found.began = at(200, 0, 0, 0, 0);
        found.add(None, 0.2);
        found.began = at(300, 0, 0, 0, 0);
        found.add(at(400, 10 * ms, 1, 90, 100), 0.2);
        assert_eq!(found.seen, seen(200, 30, 94, 300));
        // Threads that meet: their CPUs idle, but one of them wakes the other.
        found.began = at(500, 0, 0, 0, 0);
        found.add(at(600, 20 * ms, 160, 160, 3), 0.2);
        assert_eq!(found.seen, seen(300, 50, 97, 303));
    }

    #[test]
    fn budgets_are_counted_with_the_time_that_was_used_of_them() {
        let counted = |ms, used: u64, budgets| {
            let (at, used) = (Nanos::from_millis(ms), used * 1_000_000);
            Some(Counters { at, used, budgets, woken: budgets * 7 / 10, ..Counters::default() })
        };
        let mut found = Found { began: counted(50, 7, 100), ..Found::default() };
        found.add(counted(150, 25, 110), 0.2);
        let (used, there) = (Nanos::from_millis(18), Nanos::from_millis(20));
        let (looked, woken) = (Nanos::from_millis(100), 7);
        assert_eq!(found.budgets, Budgets { periods: 10, there });
        assert_eq!(found.seen, Seen { looked, used, sleeps: 0, woken });
    }
}
