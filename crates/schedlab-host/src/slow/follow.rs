//! Which period fits the work of a node, from what the node did in short looks: one rule for burns, slices and budgets.
//!
//! Each gap that a method makes costs a program what it had in caches, so gaps should be few. But a task that sleeps
//! loses the right part of its time only if gaps are shorter than what it computes between two sleeps. So the period
//! follows the *phases*: the CPU time of a node between two sleeps. A sleep is a moment in which a CPU of the node had
//! nothing to run, and which a timer, a device or a task outside of the node ended. Tasks of a node that wait for each
//! other stand still together in a gap, and any period is right for them.
//!
//! A node that never sleeps and is hardly ever woken from outside has the longest period: nobody waits for an answer.
//!
//! The rule is that of burns, the only one of three with a figure for each kind of work. At 20 %, as a part of full
//! speed: gcc does 14.5 % with a period of 2 ms and 19.8 % with 20 ms. Phases of 0.1 ms at 50 % are 28 % too slow with
//! 2 ms and 0.6 % with 200 us. Phases of 2.9 ms at 25 % are 6 % off with 4 ms and 0.7 % with 2 ms, so a longer period
//! than usual takes phases that are twice as long as it. After a gap of 10 ms, CPython and Node lost 0.4 to 1 ms of work
//! until caches were warm again, on a virtual machine with busy neighbours. What differs between methods are the
//! periods that each can have ([`Periods`]).

use super::{Grid, Method, quota};
use schedlab_model::{Nanos, Warning};
use serde::{Deserialize, Serialize};

/// The longest period of a node that somebody outside of it waits for.
const AWAKE: Nanos = Nanos::from_millis(20);
/// A node is hardly ever woken from outside if it is less often than this.
const WOKEN: Nanos = Nanos::from_millis(20);
/// Phases are short if this many of them fit into a usual slot.
const SHORT: u64 = 4;
/// Less CPU time than this, and fewer phases, tell nothing; a warning needs [`SURE`] times as much.
const LEAST: Nanos = Nanos::from_millis(15);
const PHASES: u64 = 25;
const SURE: u64 = 8;
/// A node that uses less than this part of what it may have, in percent, sleeps, or others take its CPUs.
pub(super) const ALL: u64 = 90;
/// A node that has more than the usual budget keeps it if it uses this part, in percent: the kernel charges at ticks, so
/// what a short look sees varies.
const KEPT: u64 = 75;

#[derive(Debug)]
pub(super) struct Periods {
    /// Ascending. Those of burns divide each other, so hogs change from one to another between two slots of both.
    all: &'static [Nanos],
    /// While nothing is known of a node; of one that does not use up its budgets.
    usual: Nanos,
    /// The longest period of a node that is hardly ever woken from outside: what wakes it waits for the end of a gap.
    alone: Nanos,
    /// The longest in the first half second, in the next four seconds, and later. A program that ends between two gaps is
    /// ahead or behind by up to half of s (1 - s) P, which is much of a short run.
    most: [Nanos; 3],
    /// Looks that are shorter tell nothing.
    least: Nanos,
    /// Whether a node loses the time of a period that it does not use. A node that sleeps then needs short periods.
    of_budgets: bool,
}

const BURNS: Periods = Periods {
    all: &[
        Grid::PERIOD_MIN,
        Nanos::from_millis(1),
        Grid::PERIOD,
        Nanos::from_millis(4),
        AWAKE,
        Nanos::from_millis(100),
        Grid::PERIOD_MAX,
    ],
    usual: Grid::PERIOD,
    alone: Nanos::from_millis(100),
    most: [Nanos::from_millis(100), Grid::PERIOD_MAX, Grid::PERIOD_MAX],
    least: Nanos::ZERO,
    of_budgets: false,
};

/// Zero stands for the kernel's slices, which are for all that sleeps. The kernel takes no slice above 100 ms.
const SLICES: Periods = Periods {
    all: &[Nanos::ZERO, AWAKE, Nanos::from_millis(100)],
    usual: Nanos::ZERO,
    most: [Nanos::from_millis(100); 3],
    ..BURNS
};

/// Only tasks of the node stand still between budgets, so its period may be longer than that of burns. Eight usual
/// periods tell something: the kernel charges a task at its ticks.
const BUDGETS: Periods = Periods {
    all: &[
        quota::PERIOD,
        AWAKE,
        Nanos::from_millis(50),
        Nanos::from_millis(100),
        Nanos::from_millis(250),
    ],
    usual: quota::PERIOD,
    alone: Nanos::from_millis(250),
    most: [Nanos::from_millis(50), Nanos::from_millis(100), Nanos::from_millis(250)],
    least: Nanos(quota::PERIOD.0 * 8),
    of_budgets: true,
};

impl Periods {
    /// Those of a method; `None` if it has no gaps that follow the work.
    pub(super) const fn of(method: Method) -> Option<&'static Self> {
        match method {
            Method::Hogs => Some(&BURNS),
            Method::Weight | Method::WeightPerCpu | Method::WeightPinned => Some(&SLICES),
            Method::Quota => Some(&BUDGETS),
            _ => None,
        }
    }

    /// The longest one that is not longer than `limit`, or the shortest there is.
    fn longest(&self, limit: Nanos) -> Nanos {
        let fits = self.all.iter().copied().rev().find(|period| *period <= limit);
        fits.unwrap_or(self.all[0])
    }

    /// The longest that may follow `now` after a number of looks: the next one, since a program may only be starting.
    fn next(&self, now: Nanos, looks: u32) -> Nanos {
        let longer = self.all.iter().copied().find(|longer| *longer > now).unwrap_or(now);
        let most = match looks {
            0..FIRST => self.most[0],
            FIRST..SETTLED => self.most[1],
            _ => self.most[2],
        };
        longer.max(AWAKE).min(most)
    }
}

/// How many looks follow each other at the start, so that a program that runs for a second has its period for most of
/// it. Later a look begins each second.
const FIRST: u32 = 10;
/// When this many looks have ended, a program has run for some five seconds.
const SETTLED: u32 = FIRST + 4;

/// How long a look takes after a number of `looks`, or a period of budgets if that is longer. The first ones are short: while phases
/// of 0.1 ms had a period of 2 ms, they were 20 % slower than they should have been. What a look counts costs a switch
/// of tasks some 0.2 us.
pub(super) const fn look(looks: u32) -> Nanos {
    Nanos::from_millis(if looks < FIRST { 50 } else { 100 })
}

pub(super) const fn pause(looks: u32, look: Nanos) -> Nanos {
    match looks {
        0..FIRST => Nanos::ZERO,
        _ => Nanos(Nanos::from_secs(1).0 - look.0),
    }
}

/// What a node did in looks that have not been judged yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) looked: Nanos,
    /// The CPU time that the node may have had in this time.
    pub(super) there: Nanos,
    pub(super) used: Nanos,
    pub(super) idled: u64,
    /// How often that was until somebody from outside woke a task.
    pub(super) sleeps: u64,
    pub(super) woken: u64,
}

impl Seen {
    /// The mean phase, `None` where it never slept.
    fn phase(self) -> Option<Nanos> {
        self.used.0.checked_div(self.sleeps).map(Nanos)
    }

    /// Whether nobody outside waits for what the node does.
    const fn is_alone(self) -> bool {
        self.woken * WOKEN.0 < self.looked.0
    }

    /// Whether its tasks wait for each other on several CPUs: one of these often has nothing to run.
    const fn meets(self) -> bool {
        self.idled * WOKEN.0 >= self.looked.0 && self.idled > 0
    }

    fn part(self) -> u64 {
        (self.used.0 * 100).checked_div(self.there.0).unwrap_or(0).min(100)
    }

    /// Whether it leaves some of its budgets, which come with a period of `now`.
    fn leaves_budgets(self, periods: &Periods, now: Nanos) -> bool {
        let least = if now > periods.usual { KEPT } else { ALL };
        periods.of_budgets && self.part() < least
    }

    /// The period that fits, of those of a method; `None` until enough was seen.
    fn fits(self, periods: &Periods, now: Nanos) -> Option<Nanos> {
        if (self.used < LEAST && self.sleeps < PHASES) || self.looked < periods.least {
            return None;
        }
        let wanted = match self.phase() {
            _ if self.leaves_budgets(periods, now) => periods.usual,
            // Two threads that meet every 0.6 ms, at 25 and 50 %: 7.9 and 2.6 % too slow; 7.3 and 7.4 with 100 ms, 12.5 and
            // 2.5 with 200.
            _ if self.is_alone() && self.meets() => AWAKE,
            _ if self.is_alone() && self.woken == 0 => Nanos::MAX,
            _ if self.is_alone() => periods.alone,
            None => AWAKE,
            Some(phase) if phase.0 * SHORT < Grid::PERIOD.0 => Nanos(phase.0 * 2),
            Some(phase) => Nanos(phase.0 / 2).clamp(Grid::PERIOD, AWAKE),
        };
        Some(periods.longest(wanted))
    }

    fn why(self, periods: &Periods, now: Nanos) -> String {
        match self.phase() {
            _ if self.leaves_budgets(periods, now) => {
                format!("used only {} % of their budgets", self.part())
            }
            _ if self.is_alone() && self.meets() => "only wait for each other".to_owned(),
            _ if self.is_alone() => "wait for nobody outside of it".to_owned(),
            None => "left no CPU idle".to_owned(),
            Some(phase) => {
                let phase = Nanos::from_micros(phase.0 / 1_000);
                format!("computed for {phase} until a CPU had nothing to run")
            }
        }
    }
}

/// A period that was chosen, and why.
#[derive(Clone, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize, Deserialize)]
pub struct Period {
    /// The period of burns, budgets or slices, in nanoseconds; 0 for slices of the kernel's length.
    pub(crate) period_ns: Nanos,
    /// The reason for this period, in words that follow "since".
    pub(crate) why: String,
}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.period_ns {
            Nanos::ZERO => write!(f, "the kernel's slices, since {}", self.why),
            period => write!(f, "period {period}, since {}", self.why),
        }
    }
}

/// The period for nodes that have one together: the shortest that fits one of them, after a period of `now` and a number
/// of looks. Takes the looks of those that it judges. `None` if nobody can be judged yet.
pub(super) fn choose<'s>(
    nodes: impl Iterator<Item = (&'s str, &'s mut Seen)>,
    periods: &Periods,
    now: Nanos,
    looks: u32,
) -> Option<Period> {
    let fitting = nodes.filter_map(|(name, seen)| {
        let period = seen.fits(periods, now)?;
        Some((period, name, std::mem::take(seen)))
    });
    let (period, name, seen) = fitting.min_by_key(|(period, ..)| *period)?;
    let why = format!("tasks of node {name} {}", seen.why(periods, now));
    Some(Period { period_ns: period.min(periods.next(now, looks)), why })
}

/// The warning that a node computes for too short a time between two sleeps, where burns come with a period that stays.
pub(super) fn too_short(name: &str, seen: Seen, period: Nanos) -> Option<Warning> {
    if seen.used.0 < LEAST.0 * SURE || seen.sleeps < PHASES * SURE || seen.is_alone() {
        return None;
    }
    let phase = seen.phase()?;
    let fits = Nanos(phase.0 * 2).max(Grid::PERIOD_MIN);
    if phase.0 * SHORT >= period.0 || fits >= period {
        return None;
    }
    let what = format!(
        "node {name} is slower than requested, by up to a third: its tasks compute for {} at a time, and \
         burns come every {}",
        phase.readable(),
        period.readable()
    );
    Some(Warning::new("phases-short", what, format!("use --period {}us", fits.0.div_ceil(1_000))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// What a look of 0.1 s gives of a node that a client calls from outside.
    fn seen(used_ms: u64, sleeps: u64) -> Seen {
        let woken = sleeps.max(20);
        Seen { looked: ms(100), there: ms(100), used: ms(used_ms), idled: sleeps, sleeps, woken }
    }

    fn alone(used_ms: u64) -> Seen {
        Seen { woken: 0, ..seen(used_ms, 0) }
    }

    /// What follows a period, for one node.
    fn after(now: Nanos, mut seen: Seen, periods: &Periods, looks: u32) -> Option<String> {
        let nodes = std::iter::once(("a", &mut seen));
        choose(nodes, periods, now, looks).map(|period| period.to_string())
    }

    #[test]
    fn the_period_follows_the_phases() {
        let fits = |seen: Seen| seen.fits(&BURNS, Grid::PERIOD);
        for (used_ms, sleeps, period_us) in [
            // A loop, a compiler, an interpreter.
            (20, 0, 20_000),
            (100, 2, 20_000),
            // Computes for 10 ms between sleeps.
            (100, 10, 4_000),
            (100, 25, 2_000),
            // The audit's phases of 1.1 ms, and threads that meet every 0.6 ms.
            (22, 20, 2_000),
            (60, 100, 2_000),
            // The phases of 0.1 ms, and others.
            (10, 100, 200),
            (27, 60, 200),
            (40, 82, 200),
            (1, 1_000, 200),
        ] {
            let period = fits(seen(used_ms, sleeps));
            assert_eq!(period, Some(Nanos::from_micros(period_us)), "{used_ms} ms, {sleeps}");
        }
        // A compiler, whose parts wait for each other only.
        assert_eq!(fits(alone(20)), Some(Grid::PERIOD_MAX));
        assert_eq!(fits(Seen { woken: 5, ..alone(20) }), Some(AWAKE), "50 times a second");
        assert_eq!(
            fits(Seen { sleeps: 2, woken: 2, ..alone(20) }),
            Some(ms(100)),
            "a file is read"
        );
        assert_eq!(fits(Seen { idled: 5, ..alone(20) }), Some(AWAKE), "threads meet");
        assert_eq!(fits(seen(5, 24)), None, "too little was seen");
        assert_eq!(fits(Seen::default()), None);
    }

    #[test]
    fn periods_nest_so_that_hogs_change_between_two_slots() {
        let all = BURNS.all;
        assert!(all.windows(2).all(|two| two[0] < two[1] && two[1].0 % two[0].0 == 0));
        assert!(all.iter().all(|period| Grid::new(*period).is_some()));
        assert!(all.contains(&Grid::PERIOD));
    }

    #[test]
    fn nodes_have_one_grid_and_the_shortest_phases_decide() {
        let mut all = [("a", seen(50, 0)), ("idle", seen(2, 3)), ("b", seen(10, 100))];
        let mut judge =
            |now| choose(all.iter_mut().map(|(name, seen)| (*name, seen)), &BURNS, now, SETTLED);
        let period = judge(AWAKE).unwrap();
        assert_eq!(period.period_ns, Grid::PERIOD_MIN, "at once");
        assert!(period.why.contains("node b computed for 100us"), "{period}");
        assert_eq!(judge(Grid::PERIOD), None, "nobody did anything since");
        assert_eq!(all[1].1, seen(2, 3), "what was not judged adds up");
        assert_eq!(all[0].1, Seen::default());
        // A program that starts may compute first and sleep then.
        for (now, next) in [(2, "20ms"), (20, "100ms"), (100, "200ms"), (200, "200ms")] {
            let why = "tasks of node a wait for nobody outside of it";
            let period = after(ms(now), alone(30), &BURNS, SETTLED);
            assert_eq!(period, Some(format!("period {next}, since {why}")));
        }
        let period = after(ms(4), seen(30, 0), &BURNS, SETTLED).unwrap();
        assert_eq!(period, "period 20ms, since tasks of node a left no CPU idle");
        let young = after(ms(100), alone(30), &BURNS, 1).unwrap();
        assert!(young.starts_with("period 100ms"), "{young}: it may end soon");
    }

    #[test]
    fn only_tasks_that_never_sleep_get_longer_slices_than_the_kernels() {
        let told = |now, seen| after(ms(now), seen, &SLICES, SETTLED).unwrap();
        let why = "since tasks of node a wait for nobody outside of it";
        assert_eq!(told(0, alone(30)), format!("period 20ms, {why}"), "it may only be starting");
        assert_eq!(told(20, alone(30)), format!("period 100ms, {why}"));
        assert_eq!(told(100, alone(30)), format!("period 100ms, {why}"));
        assert!(told(100, seen(30, 0)).starts_with("period 20ms, "));
        assert!(told(100, seen(100, 25)).starts_with("the kernel's slices, since tasks of node a"));
    }

    #[test]
    fn a_budget_that_is_always_used_up_gets_a_longer_period() {
        let told = |now, used_ms, woken, looks| {
            let seen = Seen { woken, ..alone(used_ms) };
            after(ms(now), seen, &BUDGETS, looks)
        };
        let all = |period: &str| {
            Some(format!("period {period}, since tasks of node a wait for nobody outside of it"))
        };
        assert_eq!(told(10, 90, 4, SETTLED), all("20ms"), "it may only be starting");
        assert_eq!(told(20, 75, 4, 1), all("50ms"));
        assert_eq!(told(50, 75, 4, FIRST - 1), all("50ms"));
        assert_eq!(told(50, 75, 4, FIRST), all("100ms"));
        assert_eq!(told(100, 75, 4, SETTLED), all("250ms"));
        let some = |used| {
            Some(format!("period 10ms, since tasks of node a used only {used} % of their budgets"))
        };
        assert_eq!((told(10, 89, 0, SETTLED), told(20, 74, 0, SETTLED)), (some(89), some(74)));
        let woken = told(250, 100, 5, SETTLED).unwrap();
        assert!(woken.starts_with("period 20ms, "), "{woken}: others wait for it");
        let mut short = Seen { looked: ms(70), ..alone(70) };
        assert_eq!(choose([("a", &mut short)].into_iter(), &BUDGETS, ms(10), 1), None);
    }

    #[test]
    fn short_phases_are_told_where_the_period_stays_with_one_that_fits() {
        let short = |used_ms, sleeps| too_short("n", seen(used_ms, sleeps), Grid::PERIOD);
        let told = short(150, 1_500).unwrap();
        assert!(told.what.contains("100 µs at a time") && told.what.contains("every 2.00 ms"));
        assert_eq!(told.remedy, "use --period 200us");
        assert_eq!(short(100, 1_500), None, "little CPU time tells nothing");
        assert_eq!(short(150, 190), None, "nor do few phases");
        assert_eq!(short(1_500, 1_500), None, "1 ms is long enough");
        let shorter = too_short("n", seen(150, 1_500), Grid::PERIOD_MIN);
        assert_eq!(shorter, None, "no shorter period can be had");
    }

    #[test]
    fn first_looks_follow_each_other_and_later_ones_take_a_tenth_of_the_time() {
        assert_eq!(pause(FIRST - 1, look(0)), Nanos::ZERO);
        assert_eq!(pause(FIRST, look(FIRST)), ms(900));
        let longest = BUDGETS.most[2];
        assert_eq!(pause(FIRST, longest) + longest, Nanos::from_secs(1));
    }
}
