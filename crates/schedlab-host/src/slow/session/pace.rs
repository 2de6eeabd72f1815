//! The period of a session that follows the work of its nodes: looks at them, and changes of the period.

use super::super::apply::NodeControl;
use super::super::budget_change::{self, Change, Surplus};
use super::super::follow::{self, Periods, Seen};
use super::super::idle::{Counted, Idle};
use super::super::{Grid, Method, Node, Period, Plan, SlowError, Speed};
use super::{Active, Session};
use schedlab_model::{CpuSet, Nanos, Pid};
use schedlab_sys::{clock, process, slice};

/// Beyond this many threads nobody is asked how often it slept: each costs a file that is read.
const THREADS: usize = 256;

/// When to look at the work, and what is in force by it.
#[derive(Debug)]
pub(super) struct Pace {
    /// Counts how often CPUs have nothing to run, and wakeups from outside.
    idle: Idle,
    /// The periods to choose from; `None` where the period stays, and short phases are only told.
    periods: Option<&'static Periods>,
    period: Nanos,
    looks: u32,
    /// The longest period of budgets; zero where there are none.
    budgets: Nanos,
    looking: bool,
    due: Nanos,
}

/// What looks at a node have found.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) seen: Seen,
    /// What the counters were when the look began.
    began: Option<Counters>,
    pub(super) period: Option<Period>,
    /// How far it is ahead of its budgets; `None` where nobody counts what it uses.
    lead: Option<Surplus>,
    change: Option<Change>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    at: Nanos,
    used: u64,
    /// How often a CPU had nothing to run.
    sleeps: u64,
    slept: u64,
    woken: u64,
    /// The same of the threads that it had when the look began; `None` where they were not counted.
    known: Option<u64>,
    born: u64,
}

impl Pace {
    /// `None` if the period does not depend on the work. Looks begin with [`Self::start`].
    pub(super) fn open(plan: &Plan) -> Option<Self> {
        let periods = Periods::of(plan.method).filter(|_| plan.follows());
        let stays = matches!(plan.method, Method::Hogs | Method::Deadline);
        // Runs that measure the slowing are not looked at meanwhile.
        let tells = stays && !plan.request.heavy;
        let has_slices = !plan.method.has_slices() || slice::usual().is_some();
        if !has_slices || (periods.is_none() && !tells) {
            return None;
        }
        let nodes: Vec<CpuSet> = plan.request.nodes.iter().map(Node::cpus).collect();
        let idle = Idle::open(&nodes)?;
        let period = plan.grid.period();
        let budgets = Nanos::ZERO;
        Some(Self { idle, periods, period, looks: 0, budgets, looking: false, due: Nanos::MAX })
    }

    pub(super) const fn start(&mut self, now: Nanos) {
        self.due = now;
    }

    /// How long a look takes: a budget at least.
    fn look(&self) -> Nanos {
        follow::look(self.looks).max(self.budgets)
    }

    fn counters(&self, active: &Active, processes: &[Pid], threads: &[Pid]) -> Option<Counters> {
        let at = clock::monotonic();
        let used = active.held.used(processes).filter(|_| !active.failed)?.0;
        let Counted { idled, woken, known, born } = self.idle.count(&active.node.cpus());
        let counters = Counters { at, used, woken, known, born, ..Counters::default() };
        Some(match &active.held.hold {
            // A CPU idles in the gaps of budgets, and what a node leaves of them tells that it sleeps.
            NodeControl::Quota(_) => counters,
            _ => Counters { sleeps: idled, slept: slept(threads), ..counters },
        })
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
        self.lead = used.map(|used| Surplus { at, used, more: 0 });
        self.change = None;
    }

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
        let there = (cpus * looked as f64) as u64;
        // While others compute on its CPUs too, these have something to run although the node sleeps.
        if used * 100 < follow::ALL * there {
            sleeps = sleeps.max(now.slept.saturating_sub(began.slept));
        }
        let woken = match now.known {
            Some(known) if now.born == began.born => known,
            _ => now.woken.saturating_sub(began.woken),
        };
        self.seen.looked.0 += looked;
        self.seen.there.0 += there;
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
        // Looks wait for changes of budgets, since a first budget is smaller than later ones.
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
        self.count(&mut pace);
        pace.due = now + pace.look();
        if !pace.looking {
            pace.looks += 1;
            let goes_on = match pace.periods {
                Some(periods) => self.choose(&mut pace, periods).map(|()| true)?,
                None => self.tell_short_phases(&pace),
            };
            if !goes_on {
                return Ok(Nanos::MAX);
            }
            pace.due = now + follow::pause(pace.looks, pace.look());
        }
        let due = pace.due;
        self.pace = Some(pace);
        // A change of budgets that begins with this goes on at once, and the next look may be a second away.
        let changes = self.nodes.iter().filter_map(|active| active.found.change);
        Ok(changes.map(|change| change.due).fold(due, Nanos::min))
    }

    fn count(&mut self, pace: &mut Pace) {
        let admitted = self.admitted();
        pace.looking = !pace.looking;
        pace.idle.run(pace.looking);
        for active in &mut self.nodes {
            let processes = active.processes(admitted);
            let threads = threads(&processes);
            if pace.looking {
                pace.idle.know(&active.node.cpus(), &threads);
            }
            let counters = pace.counters(active, &processes, &threads);
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
    }

    /// Puts the period into force that fits what was found, where enough was found.
    fn choose(&mut self, pace: &mut Pace, periods: &Periods) -> Result<(), SlowError> {
        if self.plan.method == Method::Hogs {
            return self.choose_burns(pace, periods);
        }
        pace.budgets = Nanos::ZERO;
        for active in &mut self.nodes {
            let now = match &active.held.hold {
                NodeControl::Quota(quota) => quota.period(),
                NodeControl::Weight(weight) => weight.period().unwrap_or_default(),
                _ => continue,
            };
            let seen = (active.node.name.as_str(), &mut active.found.seen);
            let period = follow::choose([seen].into_iter(), periods, now, pace.looks);
            let next = period.as_ref().map_or(now, |period| period.period_ns);
            active.found.period = period.or_else(|| active.found.period.take());
            match &mut active.held.hold {
                // Also if the period stays: tasks that came meanwhile have no slices yet.
                NodeControl::Weight(weight) if next > Nanos::ZERO || next != now => {
                    weight.pace(next, &mut self.guard)?;
                }
                NodeControl::Quota(_) => {
                    pace.budgets = pace.budgets.max(next);
                    begin_change(active, now, next)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// All nodes have one grid of burns.
    fn choose_burns(&mut self, pace: &mut Pace, periods: &Periods) -> Result<(), SlowError> {
        let seen = self.nodes.iter_mut();
        let seen = seen.map(|active| (active.node.name.as_str(), &mut active.found.seen));
        let Some(period) = follow::choose(seen, periods, pace.period, pace.looks) else {
            return Ok(());
        };
        if period.period_ns != pace.period
            && let Some(grid) = Grid::new(period.period_ns)
        {
            pace.period = period.period_ns;
            self.under.pace(grid)?;
        }
        for active in &mut self.nodes {
            active.found.period = Some(period.clone());
        }
        Ok(())
    }

    /// Warns of the first node whose phases are too short for a period that stays; returns whether to look on.
    fn tell_short_phases(&mut self, pace: &Pace) -> bool {
        let nodes = self.nodes.iter();
        let told =
            nodes.filter_map(|n| follow::too_short(&n.node.name, n.found.seen, pace.period)).next();
        let goes_on = told.is_none();
        self.warnings.extend(told);
        goes_on
    }

    /// Goes on with changes of budgets; returns when to go on next.
    fn change_budgets(&mut self, now: Nanos) -> Result<Nanos, SlowError> {
        let admitted = self.admitted();
        self.nodes.iter_mut().try_fold(Nanos::MAX, |next, active| {
            Ok(next.min(change_budget(active, admitted, now)?))
        })
    }
}

fn begin_change(active: &mut Active, from: Nanos, to: Nanos) -> Result<(), SlowError> {
    let NodeControl::Quota(quota) = &mut active.held.hold else { return Ok(()) };
    match active.node.speeds.values().next().filter(|_| to != from) {
        Some(&Speed::FULL) => quota.pace(to, None)?,
        Some(speed) => {
            let periods = budget_change::Periods { speed: *speed, from, to };
            let budgets = quota.counted().unwrap_or(0);
            let change = Change::begin(periods, clock::interrupt(), clock::monotonic(), budgets);
            active.found.change = Some(change);
        }
        None => {}
    }
    Ok(())
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
    // Only where it is needed: it is looked for the next budget every 250 us.
    let used = || active.held.used(&active.held.processes(&roots)).unwrap_or(Nanos::ZERO);
    let NodeControl::Quota(quota) = &active.held.hold else { return Ok(Nanos::MAX) };
    let at = clock::monotonic();
    let lead = active.found.lead.get_or_insert_with(|| Surplus { at, used: used(), more: 0 });
    let write = change.step(at, quota.counted().unwrap_or(0), &used, lead);
    if let (Some(write), NodeControl::Quota(quota)) = (write, &mut active.held.hold) {
        quota.pace(write.period, Some(write.budget))?;
    }
    active.found.change = Some(change).filter(|_| write.is_none_or(|write| !write.last));
    Ok(active.found.change.map_or(at, |change| change.due))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_add_up_and_a_look_without_a_counter_adds_nothing() {
        let ms = Nanos::from_millis;
        let at = |at, used_ms, sleeps, slept, woken| {
            let at = ms(at);
            let used = ms(used_ms).0;
            Some(Counters { at, used, sleeps, slept, woken, ..Counters::default() })
        };
        let seen = |looked, there, used, [sleeps, woken, idled]: [u64; 3]| Seen {
            looked: ms(looked),
            there: ms(there),
            used: ms(used),
            idled,
            sleeps,
            woken,
        };
        let mut found = Found { began: at(0, 1, 5, 100, 50), ..Found::default() };
        found.add(at(100, 21, 9, 900, 250), 0.2);
        // It used all that it may have, so its CPUs tell when it slept; its threads wait for each other too.
        assert_eq!(found.seen, seen(100, 20, 20, [4, 200, 4]));
        found.add(at(200, 99, 99, 999, 999), 0.2);
        assert_eq!(found.seen.sleeps, 4, "no look had begun");
        found.began = at(200, 0, 0, 0, 0);
        found.add(None, 0.2);
        found.began = at(300, 0, 0, 0, 0);
        found.add(at(400, 10, 1, 90, 100), 0.2);
        assert_eq!(found.seen, seen(200, 40, 30, [94, 300, 5]));
        // Threads that meet: their CPUs idle, but one of them wakes the other.
        found.began = at(500, 0, 0, 0, 0);
        found.add(at(600, 20, 160, 160, 3), 0.2);
        assert_eq!(found.seen, seen(300, 60, 50, [97, 303, 165]));
    }
}
