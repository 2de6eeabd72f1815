//! Which period fits the work of a node, from what the node did in short looks.
//!
//! Each gap that a method makes costs a program what it had in caches, so gaps should be few. But a task that sleeps
//! loses the right part of its time only if gaps are shorter than what it computes between two sleeps. So the period
//! follows the *phases*: the CPU time of a node between two sleeps. A sleep is a moment in which a CPU of the node had
//! nothing to run, and which a timer, a device or a task outside of the node ended. Tasks of a node that wait for each
//! other stand still together in a gap, and any period is right for them.
//!
//! A node that never sleeps and is hardly ever woken from outside has the longest period: nobody waits for an answer.
//!
//! Measured at 20 %, as a part of full speed: gcc does 14.5 % with a period of 2 ms and 19.8 % with 20 ms. Phases of
//! 0.1 ms at 50 % are 28 % too slow with 2 ms and 0.6 % with 200 us. Phases of 2.9 ms at 25 % are 6 % off with 4 ms and
//! 0.7 % with 2 ms, so a longer period than usual takes phases that are twice as long as it. After a gap of 10 ms,
//! CPython and Node lost 0.4 to 1 ms of work until caches were warm again, on a virtual machine with busy neighbours.

use super::Grid;
use schedlab_model::Nanos;
use serde::{Deserialize, Serialize};

/// The periods of burns to choose from. Each divides the next, so hogs change from one to another between two slots
/// of both.
const BURNS: [Nanos; 7] = [
    Grid::PERIOD_MIN,
    Nanos::from_millis(1),
    Grid::PERIOD,
    Nanos::from_millis(4),
    AWAKE,
    ALONE,
    Grid::PERIOD_MAX,
];
/// The longest period of a node that somebody outside of it waits for.
const AWAKE: Nanos = Nanos::from_millis(20);
/// The longest period of a node that is woken from outside at all: what wakes it waits for the end of a gap.
const ALONE: Nanos = Nanos::from_millis(100);
/// A node is hardly ever woken from outside if it is less often than this.
const WOKEN: Nanos = Nanos::from_millis(20);
/// Phases are short if this many of them fit into a usual slot.
const SHORT: u64 = 4;
/// Less CPU time than this, and fewer phases, tell nothing.
const LEAST: Nanos = Nanos::from_millis(15);
const PHASES: u64 = 25;
/// The period of budgets that are always used up, where nobody counts wakeups from outside: the kernel's usual one.
const BUDGET_LONG: Nanos = Nanos::from_millis(100);
/// The same where nobody outside waits. Only tasks of the node stand still then, so it may be longer than that of burns.
const BUDGET_LONGEST: Nanos = Nanos::from_millis(250);
/// The longest period of budgets in the first second; [`BUDGET_LONG`] follows for some more. A program that ends between
/// two gaps is ahead or behind by up to half of s (1 - s) P, which is much of a short run.
const BUDGET_FIRST: Nanos = Nanos::from_millis(50);
/// A node that uses less than this part of what it may have, in percent, sleeps, or others take its CPUs.
pub(super) const ALL: u64 = 90;
/// A node that has more than the usual period keeps it if it uses this part, in percent: the kernel charges at ticks, so
/// what a short look sees varies.
const KEPT: u64 = 75;
/// Fewer periods of a budget tell nothing, where periods are short; less CPU time that was there, where they are long: the
/// kernel charges a task at its ticks. Fewer periods than the last tell nothing of wakeups.
const BUDGETS: u64 = 8;
const THERE: Nanos = Nanos::from_millis(16);
const WAKING: u64 = 3;

/// How many looks follow each other at the start, so that a program that runs for a second has its period for most of
/// it. Later a look begins each second.
const FIRST: u32 = 10;
/// When this many looks have ended, a program has run for some five seconds.
const SETTLED: u32 = FIRST + 4;

/// How long a look takes after a number of `looks`, or a period of budgets if that is longer. The first ones are short: while phases
/// of 0.1 ms had a period of 2 ms, they were 20 % slower than they should have been. What a look counts costs a switch
/// of tasks some 0.2 us.
pub(super) const fn look(looks: u32) -> Nanos {
    Nanos::from_millis(if is_young(looks) { 50 } else { 100 })
}

/// Whether looks follow each other after a number of them, since the node has only begun.
pub(super) const fn is_young(looks: u32) -> bool {
    looks < FIRST
}

/// The longest period of budgets after a number of looks. From the [`FIRST`] on, each takes a second.
pub(super) const fn most(looks: u32) -> Nanos {
    match looks {
        0..FIRST => BUDGET_FIRST,
        FIRST..SETTLED => BUDGET_LONG,
        _ => BUDGET_LONGEST,
    }
}

/// The pause after a number of looks.
pub(super) const fn pause(looks: u32, look: Nanos) -> Nanos {
    match looks {
        0..FIRST => Nanos::ZERO,
        _ => Nanos(Nanos::from_secs(1).0 - look.0),
    }
}

/// What a node did in looks that have not been judged yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// How long was looked.
    pub(super) looked: Nanos,
    /// CPU time that the tasks of the node used.
    pub(super) used: Nanos,
    /// How often one of its CPUs had nothing to run.
    pub(super) idled: u64,
    /// How often that was until somebody from outside woke a task.
    pub(super) sleeps: u64,
    /// How often somebody from outside woke a task.
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

    /// What its tasks did, as a reason for a period.
    fn why(self) -> String {
        match self.phase() {
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
    pub period_ns: Nanos,
    /// The reason for this period, in words that follow "since".
    pub why: String,
}

impl std::fmt::Display for Period {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.period_ns {
            Nanos::ZERO => write!(f, "the kernel's slices, since {}", self.why),
            period => write!(f, "period {period}, since {}", self.why),
        }
    }
}

/// The period of burns that fits a node; `None` until enough was seen.
fn fits(seen: Seen) -> Option<Nanos> {
    if seen.used < LEAST && seen.sleeps < PHASES {
        return None;
    }
    let longest = |limit: Nanos| BURNS.iter().copied().rev().find(|period| *period <= limit);
    Some(match seen.phase() {
        // Two threads that meet every 0.6 ms, at 25 and 50 %: 7.9 and 2.6 % too slow; 7.3 and 7.4 with 100 ms, 12.5 and
        // 2.5 with 200.
        _ if seen.is_alone() && seen.meets() => AWAKE,
        _ if seen.is_alone() && seen.woken == 0 => Grid::PERIOD_MAX,
        _ if seen.is_alone() => ALONE,
        None => AWAKE,
        Some(phase) if phase.0 * SHORT < Grid::PERIOD.0 => {
            longest(Nanos(phase.0 * 2)).unwrap_or(Grid::PERIOD_MIN)
        }
        Some(phase) => {
            longest(Nanos(phase.0 / 2).min(AWAKE)).unwrap_or(Grid::PERIOD).max(Grid::PERIOD)
        }
    })
}

/// The period of burns for all nodes, which have one grid: the shortest that fits one of them, but at most the next
/// longer one after `now`, since a program may only be starting. While it is `young`, it is not the longest, which is much
/// of a short run. Takes the looks of those that it judges. `None` if nobody can be judged yet.
pub(super) fn burns<'s>(
    nodes: impl Iterator<Item = (&'s str, &'s mut Seen)>,
    now: Nanos,
    young: bool,
) -> Option<Period> {
    let fitting = nodes.filter_map(|(name, seen)| {
        let period = fits(*seen)?;
        Some((period, name, std::mem::take(seen)))
    });
    let (period, name, seen) = fitting.min_by_key(|(period, ..)| *period)?;
    // Periods between the usual one and these are for phases only.
    let next = if period >= ALONE && now < AWAKE { AWAKE } else { longer(now) };
    let longest = if young { ALONE } else { Grid::PERIOD_MAX };
    let why = format!("tasks of node {name} {}", seen.why());
    Some(Period { period_ns: period.min(next).min(longest), why })
}

/// The next longer period; the longest after itself.
fn longer(now: Nanos) -> Nanos {
    BURNS.into_iter().find(|longer| *longer > now).unwrap_or(Grid::PERIOD_MAX)
}

/// The period of slices that fits a node under weights; zero for the kernel's own slices, which are for all that
/// sleeps. `None` until enough was seen. After the kernel's come those of [`AWAKE`], since a program may only be starting.
pub(super) fn slices(seen: &mut Seen, now: Nanos) -> Option<Period> {
    let period = fits(*seen)?;
    let seen = std::mem::take(seen);
    // The kernel takes no slice above 100 ms.
    let longest = if now < AWAKE { AWAKE } else { ALONE };
    let period_ns = if period < AWAKE { Nanos::ZERO } else { period.min(longest) };
    Some(Period { period_ns, why: format!("its tasks {}", seen.why()) })
}

/// What was seen of budgets beside [`Seen`]. Whether the kernel throttled in a period does not count: it charges at
/// ticks, so a task that always computes goes beyond some budgets, and is not throttled in others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Budgets {
    /// The periods that were seen.
    pub(super) periods: u64,
    /// The CPU time that was there.
    pub(super) there: Nanos,
}

/// The period of budgets that fits; `None` until enough was seen. After the usual one comes [`AWAKE`] at most, since a
/// program may only be starting, and never more than `most`, see [`most`]. `counts`: wakeups from outside could be counted.
pub(super) fn budgets(
    (seen, of): (&mut Seen, &mut Budgets),
    (usual, now): (Nanos, Nanos),
    (counts, most): (bool, Nanos),
) -> Option<Period> {
    let alone = seen.is_alone();
    // Soon, since those who wait for an answer wait for whole periods.
    let wakes = counts && !alone && now > AWAKE && of.periods >= WAKING;
    let enough = of.periods >= BUDGETS || (now > AWAKE && of.there >= THERE) || wakes;
    if !enough || of.there == Nanos::ZERO {
        return None;
    }
    let (seen, of) = (std::mem::take(seen), std::mem::take(of));
    let part = seen.used.0 * 100 / of.there.0;
    let least = if now > usual { KEPT } else { ALL };
    let (period_ns, how, and) = match part >= least {
        false => (usual, "only ", ""),
        true if !counts => (BUDGET_LONG, "", ""),
        true if alone => (BUDGET_LONGEST, "", " and waits for nobody outside"),
        true => (AWAKE, "", ", and others wake it"),
    };
    let longest = if now < AWAKE { AWAKE } else { most };
    let why = format!("it used {how}{} % of its budgets{and}", part.min(100));
    Some(Period { period_ns: period_ns.min(longest).max(usual), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a look of 0.1 s gives of a node that a client calls from outside.
    fn seen(used_ms: u64, sleeps: u64) -> Seen {
        let (looked, used) = (Nanos::from_millis(100), Nanos::from_millis(used_ms));
        Seen { looked, used, idled: sleeps, sleeps, woken: sleeps.max(20) }
    }

    fn alone(used_ms: u64) -> Seen {
        Seen { woken: 0, ..seen(used_ms, 0) }
    }

    #[test]
    fn the_period_follows_the_phases() {
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
        assert_eq!(fits(Seen { sleeps: 2, woken: 2, ..alone(20) }), Some(ALONE), "a file is read");
        assert_eq!(fits(Seen { idled: 5, ..alone(20) }), Some(AWAKE), "threads meet");
        assert_eq!(fits(seen(5, 24)), None, "too little was seen");
        assert_eq!(fits(Seen::default()), None);
    }

    #[test]
    fn periods_nest_so_that_hogs_change_between_two_slots() {
        assert!(BURNS.windows(2).all(|two| two[0] < two[1] && two[1].0 % two[0].0 == 0));
        assert!(BURNS.iter().all(|period| Grid::new(*period).is_some()));
        assert!(BURNS.contains(&Grid::PERIOD));
    }

    #[test]
    fn nodes_have_one_grid_and_the_shortest_phases_decide() {
        let judge = |all: &mut [(&'static str, Seen)], now| {
            burns(all.iter_mut().map(|(name, seen)| (*name, seen)), Nanos::from_millis(now), false)
        };
        let mut all = [("a", seen(50, 0)), ("idle", seen(2, 3)), ("b", seen(10, 100))];
        let period = judge(&mut all, 20).unwrap();
        assert_eq!(period.period_ns, Grid::PERIOD_MIN, "at once");
        assert!(period.why.contains("node b computed for 100us"), "{period}");
        assert_eq!(all[1].1, seen(2, 3), "what was not judged adds up");
        assert_eq!(all[0].1, Seen::default());
        assert_eq!(judge(&mut all, 2), None, "nobody did anything since");
        // A program that starts may compute first and sleep then.
        for (now, next) in [(2, "4ms"), (4, "20ms"), (20, "20ms")] {
            all[0].1 = seen(30, 0);
            let period = judge(&mut all, now).unwrap().to_string();
            assert_eq!(period, format!("period {next}, since tasks of node a left no CPU idle"));
        }
        for (now, next) in [(2, "20ms"), (20, "100ms"), (100, "200ms"), (200, "200ms")] {
            all[0].1 = alone(30);
            let period = judge(&mut all, now).unwrap().to_string();
            let why = "tasks of node a wait for nobody outside of it";
            assert_eq!(period, format!("period {next}, since {why}"));
        }
        let mut short = [("a", alone(30))];
        let short = short.iter_mut().map(|(name, seen)| (*name, seen));
        assert_eq!(burns(short, ALONE, true).unwrap().period_ns, ALONE, "it may end soon");
    }

    #[test]
    fn only_tasks_that_never_sleep_get_longer_slices_than_the_kernels() {
        let ms = Nanos::from_millis;
        let told = |now, mut seen| slices(&mut seen, ms(now)).unwrap().to_string();
        let why = "since its tasks wait for nobody outside of it";
        assert_eq!(told(0, alone(30)), format!("period 20ms, {why}"), "it may only be starting");
        assert_eq!(told(20, alone(30)), format!("period 100ms, {why}"));
        assert_eq!(told(100, seen(30, 0)), "period 20ms, since its tasks left no CPU idle");
        let slept = told(100, seen(100, 25));
        assert!(
            slept.starts_with("the kernel's slices, since its tasks computed for 4ms"),
            "{slept}"
        );
        let mut little = seen(5, 1);
        assert_eq!(slices(&mut little, ms(20)), None);
        assert_eq!(little, seen(5, 1), "what was not judged adds up");
    }

    #[test]
    fn a_budget_that_is_always_used_up_gets_a_longer_period() {
        let (usual, looked) = (Nanos::from_millis(10), Nanos::from_millis(100));
        let there = Nanos::from_millis(100);
        let told = |now, (periods, ms, woken), (counts, looks)| {
            let (used, now) = (Nanos::from_millis(ms), Nanos::from_millis(now));
            let mut seen = Seen { looked, used, woken, ..Seen::default() };
            let mut of = Budgets { periods, there };
            Some(budgets((&mut seen, &mut of), (usual, now), (counts, most(looks)))?.to_string())
        };
        assert_eq!(told(20, (7, 100, 9), (true, 0)), None);
        let little = |periods, woken| {
            let used = Nanos::from_millis(15);
            let mut seen = Seen { looked, used, woken, ..Seen::default() };
            let (mut of, now) = (Budgets { periods, there: used }, Nanos::from_millis(250));
            budgets((&mut seen, &mut of), (usual, now), (true, most(SETTLED)))
                .map(|found| found.period_ns)
        };
        assert_eq!(little(3, 4), None);
        assert_eq!(little(2, 5), None);
        assert_eq!(little(3, 5), Some(AWAKE), "others wait for it");
        let (first, later, alone) = ["50ms", "100ms", "250ms"]
            .map(|period| {
                format!("{period}, since it used 75 % of its budgets and waits for nobody outside")
            })
            .into();
        let woken = "20ms, since it used 100 % of its budgets, and others wake it";
        for (now, seen, how, expected) in [
            (20, (8, 75, 4), (true, 1), first.as_str()),
            (50, (8, 75, 4), (true, FIRST - 1), &first),
            (50, (8, 75, 4), (true, FIRST), &later),
            (50, (8, 75, 4), (true, SETTLED), &alone),
            (20, (8, 100, 5), (true, SETTLED), woken),
            (250, (3, 100, 5), (true, SETTLED), woken),
            (20, (8, 120, 0), (false, 1), "50ms, since it used 100 % of its budgets"),
            (50, (8, 120, 0), (false, SETTLED), "100ms, since it used 100 % of its budgets"),
            (10, (8, 89, 0), (true, SETTLED), "10ms, since it used only 89 % of its budgets"),
            (20, (8, 74, 0), (true, SETTLED), "10ms, since it used only 74 % of its budgets"),
        ] {
            assert_eq!(told(now, seen, how), Some(format!("period {expected}")));
        }
        let all = Seen { looked, used: there, woken: 50, ..Seen::default() };
        let (mut seen, mut of) = (all, Budgets { periods: 10, there });
        let long = Nanos::from_millis(50);
        let period =
            budgets((&mut seen, &mut of), (long, long), (true, most(0))).unwrap().period_ns;
        assert_eq!(period, long, "the budget of a low speed needs it");
        assert_eq!((seen, of), (Seen::default(), Budgets::default()));
        let (mut seen, mut of) = (Seen { woken: 0, ..all }, Budgets { periods: 10, there });
        let period =
            budgets((&mut seen, &mut of), (usual, usual), (true, most(SETTLED))).unwrap().period_ns;
        assert_eq!(period, AWAKE, "it may only be starting");
    }

    #[test]
    fn first_looks_follow_each_other_and_later_ones_take_a_tenth_of_the_time() {
        assert_eq!(pause(FIRST - 1, look(0)), Nanos::ZERO);
        assert_eq!(pause(FIRST, look(FIRST)), Nanos::from_millis(900));
        assert_eq!(pause(FIRST, BUDGET_LONGEST) + BUDGET_LONGEST, Nanos::from_secs(1));
    }
}
