//! How a run is measured, on every machine alike: seconds and their rates, warm-up, zeroing,
//! intervals, the figures of the end and the warnings about them.
//!
//! [`Measuring`] has no clock. A machine tells it the time and lets it look at the tasks through
//! [`Tasks`]; the host's tasks write shared memory, a simulator's plain histograms.

mod figures;
mod moment;
mod steady;
mod task_roles;

pub use figures::{Times, figures, kernel};
pub use moment::{Copied, Moment};
pub use task_roles::Shape;

use crate::plan::Plan;
use crate::{Figure, Interval, regulate};
use schedlab_model::{Nanos, Usage, Warning};

const SECOND: Nanos = Nanos::from_secs(1);
/// A second that the end of a run cuts counts when this much of it has passed.
const NEARLY_A_SECOND: Nanos = Nanos::from_millis(900);
/// Less than this says little.
const SHORT: Nanos = Nanos::from_millis(500);

/// The tasks of a run as measuring sees them, by their index in the plan.
pub trait Tasks {
    /// A copy of all samples and counters, as of `at`.
    fn moment(&self, at: Nanos) -> Moment;

    fn counter(&self, task: usize, counter: u32) -> u64;

    /// The sum of a counter over all tasks.
    fn total(&self, counter: u32) -> u64;

    fn dial(&self, index: usize) -> u64;

    /// How many tasks were started in all, those included that were started again.
    fn started(&self) -> u64;

    /// When a task ended, and what its kernel counted for it; `None` while it lives or if it never began.
    fn ended(&self, task: usize) -> Option<(Nanos, Usage)>;

    /// How long a task has waited for a CPU so far, and in how many timeslices it ran.
    fn waited(&self, task: usize) -> (Nanos, u64);
}

/// What a look at a run gives.
#[derive(Debug, Default)]
pub struct Observation {
    /// A sentence for the user.
    pub note: Option<&'static str>,
    /// What was measured so far, where it is due.
    pub interval: Option<Interval>,
    /// Whether a second has passed since the last look that said so: dials are regulated then.
    pub second: bool,
    pub next: Nanos,
}

pub struct Measuring {
    plan: Plan,
    shape: Shape,
    go: Nanos,
    /// What had been measured when the figures last started anew.
    base: Moment,
    /// What had been measured at the interval before.
    before: Moment,
    rates: Vec<f64>,
    warmed: bool,
    last_done: u64,
    last_second: Nanos,
    last_report: Nanos,
    /// The second at which the figures last started anew.
    zeroed: Nanos,
    in_virtual_time: bool,
}

impl Measuring {
    /// Of a plan whose tasks have the shape `shape`; they may have been taken out.
    #[must_use]
    pub fn new(plan: Plan, shape: Shape) -> Self {
        let nothing = Moment {
            at: Nanos::ZERO,
            histograms: vec![Copied::default(); shape.tasks() * plan.samples.len()],
            counters: vec![0; shape.tasks() * plan.counters.len()],
        };
        Self {
            warmed: plan.timing.warm_up == Nanos::ZERO,
            plan,
            shape,
            go: Nanos::ZERO,
            base: nothing.clone(),
            before: nothing,
            rates: Vec::new(),
            last_done: 0,
            last_second: Nanos::ZERO,
            last_report: Nanos::ZERO,
            zeroed: Nanos::ZERO,
            in_virtual_time: false,
        }
    }

    /// Measuring in virtual time: no run is too short there, since nothing disturbs it.
    #[must_use]
    pub fn in_virtual_time(self) -> Self {
        Self { in_virtual_time: true, ..self }
    }

    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    #[must_use]
    pub const fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The tasks begin to work.
    pub fn go(&mut self, now: Nanos) {
        self.go = now;
        self.base.at = now;
        self.before.at = now;
        self.last_second = now;
        self.last_report = now;
        self.zeroed = now;
    }

    /// Looks at the tasks; `end` is when they will be stopped. Once a second it counts the rate, and
    /// where they are due it reports an interval or starts the figures anew.
    pub fn look(&mut self, now: Nanos, end: Nanos, tasks: &dyn Tasks) -> Observation {
        let mut look = Observation::default();
        if now >= self.last_second + SECOND {
            look.second = true;
            self.count_second(now, tasks);
            let timing = self.plan.timing;
            let warms = !self.warmed && now >= self.go + timing.warm_up;
            if warms {
                self.warmed = true;
                look.note = Some("warmup done, zeroing stats");
                self.anew(now, tasks);
            }
            let due = self.last_report + timing.interval;
            // The original also reports while it warms up, but not at the moment when that ends.
            let reports = if self.plan.upstream { !warms } else { self.warmed };
            // The last second has the final report.
            if reports && timing.interval > Nanos::ZERO && now >= due {
                self.last_report = if self.plan.upstream { self.last_second } else { due };
                look.interval = Some(self.interval(now, false, tasks));
            }
            // Seconds are compared on their grid: a look that comes a little earlier than the one
            // before would put the new start off by a second.
            if timing.zero > Nanos::ZERO && self.last_second - self.zeroed >= timing.zero {
                self.anew(now, tasks);
            }
        }
        look.next = (self.last_second + SECOND).min(end);
        look
    }

    /// The next position of the plan's regulated dial and its index, for a machine that was busy to
    /// `busy` percent since the last call; `None` if the plan regulates nothing.
    #[must_use]
    pub fn regulated(&self, busy: f64, tasks: &dyn Tasks) -> Option<(usize, u64)> {
        let regulation = self.plan.regulation?;
        let dial = regulation.dial as usize;
        let floor = u64::from(self.shape.groups());
        let next = regulate::next_rate(tasks.dial(dial), busy, f64::from(regulation.busy));
        Some((dial, next.max(floor)))
    }

    /// The last interval. Tasks that are `stopped` have not been asked to end yet: what they do
    /// while they end is not measured.
    pub fn last(&mut self, now: Nanos, stopped: bool, tasks: &dyn Tasks) -> Interval {
        if stopped && now > self.last_second + NEARLY_A_SECOND {
            self.count_second(now, tasks);
        }
        self.interval(now, true, tasks)
    }

    /// The figures of the whole run beside those of its last interval (see [`figures()`]), and the
    /// warnings about them.
    #[must_use]
    pub fn close(&self, times: &Times, tasks: &dyn Tasks) -> (Vec<Figure>, Vec<Warning>) {
        let mut found = figures::of_run(&self.shape, tasks, times, &self.plan);
        let left_out = (self.base.at - self.go).as_secs_f64().round();
        let (figure, warning) = steady::warm_up(&self.rates, left_out);
        found.extend(figure);
        let covered = times.stopped.unwrap_or(times.end) - self.base.at;
        let short = (covered < SHORT && !self.in_virtual_time).then(|| {
            Warning::new(
                "run-too-short",
                format!("the run measured only {covered}"),
                "measure for longer: at least some seconds, or more loops",
            )
        });
        let warnings = short.into_iter().chain(self.overload(tasks)).chain(warning);
        (found, warnings.chain(steady::seconds_apart(&self.rates)).collect())
    }

    fn count_second(&mut self, now: Nanos, tasks: &dyn Tasks) {
        let done = self.done(tasks);
        let elapsed = (now - self.last_second).as_secs_f64();
        if elapsed > 0.0 {
            self.rates.push((done - self.last_done) as f64 / elapsed);
        }
        self.last_done = done;
        // On the grid from the start, unless a second was missed.
        let grid = self.last_second + SECOND;
        self.last_second = if now < grid + SECOND { grid } else { now };
    }

    fn anew(&mut self, now: Nanos, tasks: &dyn Tasks) {
        self.base = tasks.moment(now);
        self.before = self.base.clone();
        self.zeroed = self.last_second;
        self.rates.clear();
    }

    fn done(&self, tasks: &dyn Tasks) -> u64 {
        self.plan.progress.map_or(0, |counter| tasks.total(counter))
    }

    fn interval(&mut self, now: Nanos, last: bool, tasks: &dyn Tasks) -> Interval {
        let moment = tasks.moment(now);
        let (total, counts) = self.shape.since(&moment, &self.base, &self.plan);
        let (since, counts_since) = self.shape.since(&moment, &self.before, &self.plan);
        let interval = Interval {
            elapsed: now - self.go,
            covers: now - self.base.at,
            last,
            total,
            in_buckets: self.shape.in_buckets(&moment, &self.base, &self.plan),
            since,
            counts,
            counts_since,
            done: self.done(tasks),
            covers_since: now - self.before.at,
            rates: self.rates.clone(),
            rate: self.rates.last().copied().unwrap_or(0.0),
            delay: self.shape.delays(tasks),
            dial: (!self.plan.dials.is_empty()).then(|| tasks.dial(0)),
        };
        self.before = moment;
        interval
    }

    /// An open loop that was offered more than was done.
    fn overload(&self, tasks: &dyn Tasks) -> Option<Warning> {
        let total = |name: &str| {
            let at = self.plan.counters.iter().position(|metric| metric.name == name)?;
            Some(tasks.total(u32::try_from(at).ok()?))
        };
        let offered = total("requests_offered")?;
        let done = total("requests")?;
        let dropped = total("requests_dropped")?;
        let behind = offered > 0 && (dropped > 0 || done * 20 < offered * 19);
        behind.then(|| {
            Warning::new(
                "overload",
                format!("{offered} requests were offered, {done} done, {dropped} dropped"),
                "ask for a lower rate; latencies count from when a request was to start",
            )
        })
    }
}

#[cfg(test)]
mod tests;
