//! The period of a session that follows the work of its nodes: looks at them, and changes of the period.

use super::super::apply::Hold;
use super::super::budget_change::{Change, Lead};
use super::super::follow::{self, Budgets, Seen};
use super::super::idle::{Counted, Idle};
use super::super::{Grid, Method, Node, Plan, SlowError};
use super::budgets::choose_budget;
use super::{Active, Session};
use schedlab_model::{CpuSet, Nanos, Pid};
use schedlab_sys::guard::Guard;
use schedlab_sys::{clock, process, slice};

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
    pub(super) seen: Seen,
    pub(super) budgets: Budgets,
    /// What the counters were when the look began.
    began: Option<Counters>,
    /// How far it is ahead of its budgets; `None` where nobody counts what it uses.
    pub(super) lead: Option<Lead>,
    /// A change of how often its budgets come.
    pub(super) change: Option<Change>,
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
    fn counters(
        &self,
        active: &Active,
        (processes, threads): (&[Pid], &[Pid]),
    ) -> Option<Counters> {
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
                let slept = slept(threads);
                Some(Counters { at, used, budgets: 0, sleeps, slept, woken, known, born })
            }
            (None, _) => None,
        }
    }
}

fn threads(processes: &[Pid]) -> Vec<Pid> {
    processes.iter().flat_map(|pid| process::threads(*pid)).collect()
}

/// How often threads that live went to sleep by themselves; 0 where there are too many.
fn slept(threads: &[Pid]) -> u64 {
    let some = if threads.len() > THREADS { &[] } else { threads };
    some.iter().filter_map(|thread| process::voluntary_switches(*thread)).sum()
}

impl Found {
    /// Its tasks come or its speed changes: what it `used` until now tells nothing of what it will have.
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
        self.seen.idled += now.sleeps.saturating_sub(began.sleeps);
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
        let admitted = self.admitted();
        pace.looking = !pace.looking;
        if let Some(idle) = &pace.idle {
            idle.run(pace.looking);
        }
        for active in &mut self.nodes {
            let roots: Vec<Pid> = active.roots().into_iter().chain(admitted).collect();
            let processes = active.held.processes(&roots);
            let threads = threads(&processes);
            if let Some(idle) = pace.idle.as_mut().filter(|_| pace.looking) {
                idle.know(&active.node.cpus(), &threads);
            }
            let counters = pace.counters(active, (&processes, &threads));
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
        // A change of budgets that begins with this goes on at once, and the next look may be a second away.
        let changes = self.nodes.iter().filter_map(|active| active.found.change);
        Ok(changes.map(|change| change.due).fold(due, Nanos::min))
    }

    /// Puts the period into force that fits what was found, where enough was found.
    fn choose(&mut self, pace: &mut Pace) -> Result<(), SlowError> {
        match self.plan.method {
            Method::Hogs => self.choose_burns(pace),
            Method::Quota => {
                let how = (pace.idle.is_some(), follow::most(pace.looks));
                pace.budgets = Nanos::ZERO;
                for active in &mut self.nodes {
                    pace.budgets = pace.budgets.max(choose_budget(active, how)?);
                }
                Ok(())
            }
            // Weights.
            _ => {
                self.nodes.iter_mut().try_for_each(|active| choose_slices(active, &mut self.guard))
            }
        }
    }

    /// All nodes have one grid of burns.
    fn choose_burns(&mut self, pace: &mut Pace) -> Result<(), SlowError> {
        let seen = self.nodes.iter_mut();
        let mut seen = seen.map(|active| (active.node.name.as_str(), &mut active.found.seen));
        let young = follow::is_young(pace.looks);
        let Some(period) = follow::burns(&mut seen, pace.period, young) else { return Ok(()) };
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
        let seen = |looked_ms, used_ms, sleeps, woken, idled| {
            let (looked, used) = (Nanos::from_millis(looked_ms), Nanos::from_millis(used_ms));
            Seen { looked, used, idled, sleeps, woken }
        };
        let (ms, mut found) = (1_000_000, Found::default());
        found.began = at(0, ms, 5, 100, 50);
        found.add(at(100, 21 * ms, 9, 900, 250), 0.2);
        // It used all that it may have, so its CPUs tell when it slept; its threads wait for each other too.
        assert_eq!(found.seen, seen(100, 20, 4, 200, 4));
        found.add(at(200, 99 * ms, 99, 999, 999), 0.2);
        assert_eq!(found.seen.sleeps, 4, "no look had begun");
        found.began = at(200, 0, 0, 0, 0);
        found.add(None, 0.2);
        found.began = at(300, 0, 0, 0, 0);
        found.add(at(400, 10 * ms, 1, 90, 100), 0.2);
        assert_eq!(found.seen, seen(200, 30, 94, 300, 5));
        // Threads that meet: their CPUs idle, but one of them wakes the other.
        found.began = at(500, 0, 0, 0, 0);
        found.add(at(600, 20 * ms, 160, 160, 3), 0.2);
        assert_eq!(found.seen, seen(300, 50, 97, 303, 165));
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
        assert_eq!(found.seen, Seen { looked, used, woken, ..Seen::default() });
    }
}
