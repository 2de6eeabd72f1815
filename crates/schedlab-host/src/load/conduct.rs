//! The clock of a run: ready, go, intervals, the end; and the rate that follows the machine.
//!
//! While tasks work this is the only other thread, and it wakes once a second.

use super::arena::{Arena, Stand};
use super::asked::Part;
use super::crew::{self, Crew, Leader};
use super::figures::{self, Shape, Times};
use super::live::Moment;
use super::told::Told;
use crate::marks::{self, Marks};
use crate::net::Namespace;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_sys::sched::{self, Attributes, Policy};
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, process};
use schedlab_sys::{futex, shared};
use schedlab_workload::Interval;
use schedlab_workload::plan::{Plan, Timing};
use schedlab_workload::regulate;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

const SECOND: Nanos = Nanos::from_secs(1);
/// How long tasks may take to end once they shall, before they are killed.
const GRACE: Nanos = Nanos::from_secs(5);
/// How long tasks may take to become ready.
const READY_WITHIN: Nanos = Nanos::from_secs(120);

/// Performs a plan; 0 when all went well, 1 when a task failed.
pub(super) fn conduct(
    mut plan: Plan,
    arena: Arena,
    signals: Signals,
    leader: &mut Leader,
    (part, network): (Part, Option<&Namespace>),
) -> Result<i32, Told> {
    let failed = |option: &str, doing: &str, error: &io::Error| Told::Failed {
        option: (!option.is_empty()).then(|| option.to_owned()),
        why: format!("{doing}: {error}"),
    };
    leader
        .check()
        .map_err(|e| failed("fifo", "becoming SCHED_FIFO (it needs CAP_SYS_NICE)", &e))?;
    let arena = Arc::new(arena);
    let marks = match std::env::var_os(marks::VARIABLE) {
        Some(path) => Some(Arc::new(
            Marks::append(path.as_ref()).map_err(|e| failed("", "opening the mark file", &e))?,
        )),
        None => None,
    };
    let began = clock::monotonic();
    let tasks = std::mem::take(&mut plan.tasks);
    let shape = Shape::of(&plan, &tasks);
    let crew = Crew::start(tasks, &plan, &arena, marks, network)
        .map_err(|e| failed("", "starting tasks", &e))?;
    let mut run = Run {
        timing: plan.timing,
        times: Times { began, ..Times::default() },
        base: arena.zero(Nanos::ZERO),
        before: arena.zero(Nanos::ZERO),
        rates: Vec::new(),
        warmed: plan.timing.warm_up == Nanos::ZERO,
        busy: regulate::Busy::default(),
        idle: regulate::Busy::default(),
        last_done: 0,
        last_second: Nanos::ZERO,
        last_report: Nanos::ZERO,
        zeroed: Nanos::ZERO,
        interrupted: false,
        part,
        plan,
        arena,
        crew,
        shape,
        signals,
    };
    run.await_ready()?;
    be_prompt();
    leader.lead().map_err(|e| failed("fifo", "becoming SCHED_FIFO", &e))?;
    run.await_word();
    run.go();
    run.work();
    run.finish()
}

/// On CPUs that are slowed the clock of the run must not wait for its turn behind the tasks: stopped and
/// continued with them it was seen to come ten seconds late. A short slice comes first and leaves its
/// weight as it is (a heavier clock would draw the weight of its control group to the CPU where it
/// sleeps). Kernels before 6.12 ignore it.
fn be_prompt() {
    if std::env::var_os(super::CALIBRATED).is_some() {
        let slice = Nanos::from_micros(100);
        let prompt = Attributes { slice, ..Policy::Normal { nice: 0 }.into() };
        let _ = sched::set(Pid(0), &prompt);
    }
}

struct Run {
    plan: Plan,
    timing: Timing,
    arena: Arc<Arena>,
    crew: Crew,
    shape: Shape,
    signals: Signals,
    times: Times,
    /// What had been measured when the figures last started anew.
    base: Moment,
    /// What had been measured at the interval before.
    before: Moment,
    rates: Vec<f64>,
    warmed: bool,
    busy: regulate::Busy,
    /// Over the whole run.
    idle: regulate::Busy,
    last_done: u64,
    last_second: Nanos,
    last_report: Nanos,
    /// The second at which the figures last started anew.
    zeroed: Nanos,
    interrupted: bool,
    part: Part,
}

impl Run {
    fn await_ready(&mut self) -> Result<(), Told> {
        let wanted = self.arena.expected().load(Acquire);
        let deadline = clock::monotonic() + READY_WITHIN;
        loop {
            let ready = self.arena.ready().load(Acquire);
            let ended = self.arena.ended().load(Acquire);
            // A child that died leaves here; one that can't be reaped will be found by the deadline.
            let _ = self.crew.reap();
            let why = if ended > 0 || !self.crew.killed.is_empty() {
                self.first_failure()
            } else if self.signals.caught().is_some() {
                Some("interrupted before the tasks were ready".to_owned())
            } else if clock::monotonic() > deadline {
                Some(format!("only {ready} of {wanted} tasks became ready in {READY_WITHIN}"))
            } else {
                None
            };
            if let Some(why) = why {
                self.stop();
                return Err(Told::Failed { option: None, why });
            }
            if ready >= wanted {
                self.times.ready = clock::monotonic();
                Told::Tasks(self.shape.threads(&self.arena)).tell();
                return Ok(());
            }
            self.pause(self.arena.ready(), ready, Nanos::from_millis(100));
        }
    }

    /// Where others begin at the same time, until the parent says so. A parent that is gone, or a
    /// signal, ends the wait too: what follows sees to that.
    fn await_word(&self) {
        if !self.part.waits() {
            return;
        }
        let input = io::stdin();
        let fds = [input.as_fd(), self.signals.fd()];
        let _ = process::poll(&fds, None);
    }

    /// Sleeps until the word changes, a signal comes or the time has passed.
    fn pause(&self, word: &std::sync::atomic::AtomicU64, value: u64, time: Nanos) {
        let value = value as u32;
        let _ = futex::wait(shared::low_half(word), value, self.arena.scope, Some(time));
    }

    fn go(&mut self) {
        self.busy = regulate::Busy::default();
        let _ = self.percent_busy();
        self.times.go = clock::monotonic();
        self.base.at = self.times.go;
        self.before.at = self.times.go;
        let go = self.times.go;
        (self.last_second, self.last_report, self.zeroed) = (go, go, go);
        if let Some(duration) = self.timing.duration {
            self.arena.until().store((self.times.go + duration).0, Relaxed);
        }
        self.crew.let_go();
    }

    /// Until all tasks have ended or shall.
    fn work(&mut self) {
        let end = self.timing.duration.map_or(Nanos::MAX, |d| self.times.go + d);
        loop {
            let now = clock::monotonic();
            let ended = self.arena.ended().load(Acquire);
            let _ = self.crew.reap();
            if ended >= self.arena.expected().load(Acquire) || !self.crew.killed.is_empty() {
                return;
            }
            if self.signals.caught().is_some() {
                self.interrupted = self.part != Part::Beside;
                return;
            }
            if now >= end {
                return;
            }
            let next = self.tick(now, end);
            self.pause(
                self.arena.ended(),
                ended,
                next.max(clock::monotonic()) - clock::monotonic(),
            );
        }
    }

    /// Once a second: the rate, reports, a new start; when to come back.
    fn tick(&mut self, now: Nanos, end: Nanos) -> Nanos {
        let second = self.last_second + SECOND;
        if now >= second {
            self.count_second(now);
            let warms = !self.warmed && now >= self.times.go + self.timing.warm_up;
            if warms {
                self.warmed = true;
                Told::Note("warmup done, zeroing stats".to_owned()).tell();
                self.anew(now);
            }
            let due = self.last_report + self.timing.interval;
            // The original also reports while it warms up, but not at the moment when that ends.
            let reports = if self.plan.upstream { !warms } else { self.warmed };
            // The last second has the final report.
            if reports && self.timing.interval > Nanos::ZERO && now >= due {
                self.last_report = if self.plan.upstream { self.last_second } else { due };
                self.interval(now, false);
            }
            // Seconds are compared on their grid: a look that comes a little earlier than the one before
            // would put the new start off by a second.
            let zero = self.timing.zero;
            let passed = self.last_second - self.zeroed;
            if zero > Nanos::ZERO && passed >= zero {
                self.anew(now);
            }
            self.regulate();
        }
        (self.last_second + SECOND).min(end)
    }

    fn count_second(&mut self, now: Nanos) {
        let done = self.plan.progress.map_or(0, |counter| self.arena.total(counter));
        let elapsed = (now - self.last_second).as_secs_f64();
        if elapsed > 0.0 {
            self.rates.push((done - self.last_done) as f64 / elapsed);
        }
        self.last_done = done;
        // On the grid from the start, unless a second was missed.
        let grid = self.last_second + SECOND;
        self.last_second = if now < grid + SECOND { grid } else { now };
    }

    fn anew(&mut self, now: Nanos) {
        self.base = self.arena.moment(now);
        self.before = self.base.clone();
        self.zeroed = self.last_second;
        self.rates.clear();
    }

    /// How busy all CPUs were since the last call, by whatever ran.
    fn percent_busy(&mut self) -> Option<f64> {
        self.idle.since_last(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn regulate(&mut self) {
        let Some(regulation) = self.plan.regulation else { return };
        let Ok(stat) = std::fs::read_to_string("/proc/stat") else { return };
        let Some(busy) = self.busy.since_last(&stat) else { return };
        let dial = self.arena.dial(regulation.dial as usize);
        let now = dial.load(Relaxed);
        let floor = u64::from(self.shape.groups());
        let next = regulate::next_rate(now, busy, f64::from(regulation.busy)).max(floor);
        dial.store(next, Relaxed);
    }

    fn interval(&mut self, now: Nanos, last: bool) {
        let moment = self.arena.moment(now);
        let done = self.plan.progress.map_or(0, |counter| self.arena.total(counter));
        let (total, counts) = self.shape.since(&moment, &self.base, &self.plan);
        let (since, counts_since) = self.shape.since(&moment, &self.before, &self.plan);
        let interval = Interval {
            elapsed: now - self.times.go,
            covers: now - self.base.at,
            last,
            total,
            in_buckets: self.shape.in_buckets(&moment, &self.base, &self.plan),
            since,
            counts,
            counts_since,
            done,
            covers_since: now - self.before.at,
            rates: self.rates.clone(),
            rate: self.rates.last().copied().unwrap_or(0.0),
            delay: self.shape.delays(&self.arena, &self.plan),
            dial: (!self.plan.dials.is_empty()).then(|| self.arena.dial(0).load(Relaxed)),
        };
        Told::Interval(Box::new(interval)).tell();
        self.before = moment;
    }

    /// Makes all tasks end; kills those that don't.
    fn stop(&mut self) {
        self.arena.stop().store(1, SeqCst);
        // Those that never heard the word to go hear this one.
        self.crew.let_go();
        self.arena.wake_all();
        let deadline = clock::monotonic() + GRACE;
        while !self.crew.is_gone() {
            self.crew.nudge();
            if clock::monotonic() > deadline {
                self.crew.kill();
                break;
            }
            let ended = self.arena.ended().load(Acquire);
            let _ = self.crew.reap();
            if !self.crew.is_gone() {
                self.pause(self.arena.ended(), ended, Nanos::from_millis(2));
            }
        }
    }

    /// Waits for tasks that end by themselves, and reaps them: that is part of the time.
    fn end(&mut self) {
        let all = self.arena.expected().load(Acquire);
        let ends_itself = self.arena.ended().load(Acquire) >= all && self.crew.killed.is_empty();
        let deadline = clock::monotonic() + GRACE;
        while ends_itself && !self.crew.is_gone() && clock::monotonic() < deadline {
            let _ = self.crew.reap();
            if !self.crew.is_gone() {
                schedlab_sys::task::sleep(Nanos::from_micros(100));
            }
        }
        self.stop();
        self.crew.join();
    }

    fn finish(mut self) -> Result<i32, Told> {
        let stopped_at = clock::monotonic();
        let busy = self.percent_busy();
        let complete = self.arena.ended().load(Acquire) >= self.arena.expected().load(Acquire);
        // Taken before tasks are told to end: what they do while ending is no part of the figures.
        if !complete {
            if stopped_at > self.last_second + Nanos::from_millis(900) {
                self.count_second(stopped_at);
            }
            self.interval(stopped_at, true);
        }
        self.end();
        self.times.end = clock::monotonic();
        if complete {
            self.interval(self.times.end, true);
        } else {
            self.times.stopped = Some(stopped_at);
        }
        let failures = self.failures();
        for figure in figures::of_run(&self.shape, &self.arena, &self.times, &self.plan) {
            Told::Figure(figure).tell();
        }
        if !self.plan.upstream {
            busy.map(figures::idle).into_iter().for_each(|figure| Told::Figure(figure).tell());
        }
        let seconds = (self.base.at - self.times.go).as_secs_f64().round();
        let (figure, warning) = figures::warm_up(&self.rates, seconds);
        figure.into_iter().for_each(|figure| Told::Figure(figure).tell());
        let doubts = warning.into_iter().chain(figures::seconds_apart(&self.rates));
        for warning in self.warnings().into_iter().chain(doubts) {
            Told::Warning(warning).tell();
        }
        let code = i32::from(!failures.is_empty());
        Told::Ended { interrupted: self.interrupted, failures }.tell();
        Ok(code)
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let covered = self.times.stopped.unwrap_or(self.times.end) - self.base.at;
        if covered < Nanos::from_millis(500) {
            warnings.push(Warning::new(
                "run-too-short",
                format!("only {covered} were measured"),
                "measure for longer: at least some seconds, or more loops",
            ));
        }
        warnings.extend(self.overload());
        if self.interrupted {
            let what = "the run was interrupted: its figures are partial";
            warnings.push(Warning::new("interrupted", what, "let it run to its end"));
        }
        warnings
    }

    /// An open loop that was offered more than was done.
    fn overload(&self) -> Option<Warning> {
        let total = |name: &str| {
            let at = self.plan.counters.iter().position(|metric| metric.name == name)?;
            Some(self.arena.total(u32::try_from(at).ok()?))
        };
        let (offered, done) = (total("requests_offered")?, total("requests")?);
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

    fn first_failure(&self) -> Option<String> {
        self.failures().into_iter().next().or(Some("a task ended before it was ready".to_owned()))
    }

    /// What went wrong with tasks, the same only once.
    fn failures(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |sentence: String| {
            if !all.contains(&sentence) {
                all.push(sentence);
            }
        };
        for &(task, code) in &self.crew.killed {
            let name = self.shape.name(task);
            add(match code {
                129.. => format!("a task ({name}) was killed by signal {}", code - 128),
                _ => format!("a task ({name}) ended with exit code {code}"),
            });
        }
        for task in 0..self.shape.tasks() {
            if self.arena.stand(task) != Stand::Ended {
                continue;
            }
            let (_, _, error) = self.arena.end(task);
            if let Some(error) = error {
                add(format!("a task ({}): {}", self.shape.name(task), crew::sentence(error)));
            }
        }
        all
    }
}
