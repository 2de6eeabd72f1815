//! The phases of a run: ready, go, intervals, end; and the request rate that follows the machine.
//!
//! While tasks work this is the only other thread, and it wakes once a second.

use super::arena::{Arena, TaskState};
use super::child_report::LoadReport;
use super::child_request::Part;
use super::figures::{self, LoadTasks};
use super::start_tasks::{self, Leader, StartedTasks};
use crate::marks::{self, Marks};
use crate::net::Namespace;
use schedlab_model::{Comm, Nanos, Pid, Warning};
use schedlab_sys::futex;
use schedlab_sys::sched::{self, Attributes, Policy};
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, process};
use schedlab_workload::cut_by_limit;
use schedlab_workload::measure::{Measuring, Shape, Times};
use schedlab_workload::plan::{Plan, Timing};
use schedlab_workload::regulate;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

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
    part: Part,
    network: Option<&Namespace>,
) -> Result<i32, LoadReport> {
    let failed = |option: &str, doing: &str, error: &io::Error| LoadReport::Failed {
        option: (!option.is_empty()).then(|| option.to_owned()),
        why: format!("{doing}: {error}"),
    };
    leader.check().map_err(|e| failed("fifo", "becoming SCHED_FIFO (needs CAP_SYS_NICE)", &e))?;
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
    let started = StartedTasks::start(tasks, &plan, &arena, marks, network)
        .map_err(|e| failed("", "starting tasks", &e))?;
    let mut run = Run {
        times: Times { began, ..Times::default() },
        busy: regulate::Busy::default(),
        idle: regulate::Busy::default(),
        interrupted: false,
        part,
        measuring: Measuring::new(plan, shape),
        arena,
        started,
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
    measuring: Measuring,
    arena: Arc<Arena>,
    started: StartedTasks,
    signals: Signals,
    times: Times,
    busy: regulate::Busy,
    /// Over the whole run.
    idle: regulate::Busy,
    interrupted: bool,
    part: Part,
}

impl Run {
    fn await_ready(&mut self) -> Result<(), LoadReport> {
        let wanted = self.arena.expected().load(Acquire);
        let deadline = clock::monotonic() + READY_WITHIN;
        loop {
            let ready = self.arena.ready().load(Acquire);
            let ended = self.arena.ended().load(Acquire);
            // A child that died leaves here; one that cannot be reaped will be found by the deadline.
            let _ = self.started.reap();
            let why = if ended > 0 || !self.started.killed.is_empty() {
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
                return Err(LoadReport::Failed { option: None, why });
            }
            if ready >= wanted {
                self.times.ready = clock::monotonic();
                LoadReport::Tasks(self.threads()).tell();
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
        let _ = futex::wait(word, value, self.arena.scope, Some(time));
    }

    fn go(&mut self) {
        self.busy = regulate::Busy::default();
        let _ = self.percent_busy();
        self.times.go = clock::monotonic();
        self.measuring.go(self.times.go);
        if let Some(duration) = self.timing().duration {
            self.arena.until().store((self.times.go + duration).0, Relaxed);
        }
        self.started.let_go();
    }

    /// Until all tasks have ended or shall.
    fn work(&mut self) {
        let end = self.timing().duration.map_or(Nanos::MAX, |d| self.times.go + d);
        loop {
            let now = clock::monotonic();
            let ended = self.arena.ended().load(Acquire);
            let _ = self.started.reap();
            if ended >= self.arena.expected().load(Acquire) || !self.started.killed.is_empty() {
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

    fn timing(&self) -> Timing {
        self.measuring.plan().timing
    }

    /// Looks at the tasks: what is due is reported. When to come back.
    fn tick(&mut self, now: Nanos, end: Nanos) -> Nanos {
        let processes = self.measuring.plan().processes;
        let tasks = LoadTasks { arena: &self.arena, processes };
        let look = self.measuring.look(now, end, &tasks);
        if let Some(note) = look.note {
            LoadReport::Note(note.to_owned()).tell();
        }
        if let Some(interval) = look.interval {
            LoadReport::Interval(Box::new(interval)).tell();
        }
        if look.second {
            self.regulate();
        }
        look.next
    }

    /// How busy all CPUs were since the last call, other programs included.
    fn percent_busy(&mut self) -> Option<f64> {
        self.idle.since_last(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn tasks(&self) -> LoadTasks<'_> {
        LoadTasks { arena: &self.arena, processes: self.measuring.plan().processes }
    }

    fn regulate(&mut self) {
        if self.measuring.plan().regulation.is_none() {
            return;
        }
        let Ok(stat) = std::fs::read_to_string("/proc/stat") else { return };
        let Some(busy) = self.busy.since_last(&stat) else { return };
        if let Some((dial, next)) = self.measuring.regulated(busy, &self.tasks()) {
            self.arena.dial(dial).store(next, Relaxed);
        }
    }

    fn last_interval(&mut self, now: Nanos, stopped: bool) {
        let processes = self.measuring.plan().processes;
        let tasks = LoadTasks { arena: &self.arena, processes };
        let interval = self.measuring.last(now, stopped, &tasks);
        LoadReport::Interval(Box::new(interval)).tell();
    }

    fn threads(&self) -> Vec<(Pid, Comm)> {
        let shape = self.measuring.shape();
        let there = (0..shape.tasks()).filter(|&task| self.arena.stand(task) != TaskState::Absent);
        let comm = |task: usize| process::comm_of(shape.comm(task).as_bytes());
        there.map(|task| (self.arena.thread(task), comm(task))).collect()
    }

    /// Makes all tasks end; kills those that do not.
    fn stop(&mut self) {
        self.arena.stop().store(1, SeqCst);
        // Those that never heard the word to go hear this one.
        self.started.let_go();
        self.arena.wake_all();
        let deadline = clock::monotonic() + GRACE;
        while !self.started.is_gone() {
            self.started.nudge();
            if clock::monotonic() > deadline {
                self.started.kill();
                break;
            }
            let ended = self.arena.ended().load(Acquire);
            let _ = self.started.reap();
            if !self.started.is_gone() {
                self.pause(self.arena.ended(), ended, Nanos::from_millis(2));
            }
        }
    }

    /// Waits for tasks that end by themselves, and reaps them: that is part of the time.
    fn end(&mut self) {
        let all = self.arena.expected().load(Acquire);
        let ends_itself = self.arena.ended().load(Acquire) >= all && self.started.killed.is_empty();
        let deadline = clock::monotonic() + GRACE;
        while ends_itself && !self.started.is_gone() && clock::monotonic() < deadline {
            let _ = self.started.reap();
            if !self.started.is_gone() {
                schedlab_sys::task::sleep(Nanos::from_micros(100));
            }
        }
        self.stop();
        self.started.join();
    }

    fn finish(mut self) -> Result<i32, LoadReport> {
        let stopped_at = clock::monotonic();
        let busy = self.percent_busy();
        let complete = self.arena.ended().load(Acquire) >= self.arena.expected().load(Acquire);
        // Taken before tasks are asked to end: what they do while ending is no part of the figures.
        if !complete {
            self.last_interval(stopped_at, true);
        }
        self.end();
        self.times.end = clock::monotonic();
        if complete {
            self.last_interval(self.times.end, false);
        } else {
            self.times.stopped = Some(stopped_at);
        }
        let failures = self.failures();
        let (figures, warnings) = self.measuring.close(&self.times, &self.tasks());
        figures.into_iter().for_each(|figure| LoadReport::Figure(figure).tell());
        if !self.measuring.plan().upstream {
            busy.map(figures::idle)
                .into_iter()
                .for_each(|figure| LoadReport::Figure(figure).tell());
        }
        warnings.into_iter().for_each(|warning| LoadReport::Warning(warning).tell());
        let cut_at = self.measuring.plan().cut_at.filter(|_| !complete && !self.interrupted);
        cut_at
            .map(cut_by_limit)
            .into_iter()
            .for_each(|warning| LoadReport::Warning(warning).tell());
        if self.interrupted {
            let what = "metrics are partial: the run was interrupted";
            LoadReport::Warning(Warning::new("interrupted", what, "let it run to its end")).tell();
        }
        let code = i32::from(!failures.is_empty());
        let interrupted = self.interrupted;
        let censored = cut_at.is_some();
        LoadReport::Ended { interrupted, censored, failures }.tell();
        Ok(code)
    }

    fn first_failure(&self) -> Option<String> {
        self.failures().into_iter().next().or(Some("a task ended before it was ready".to_owned()))
    }

    /// What went wrong with tasks, the same only once.
    fn failures(&self) -> Vec<String> {
        let shape = self.measuring.shape();
        let mut all: Vec<String> = Vec::new();
        let mut add = |sentence: String| {
            if !all.contains(&sentence) {
                all.push(sentence);
            }
        };
        for &(task, code) in &self.started.killed {
            let name = shape.name(task);
            add(match code {
                129.. => format!("a task ({name}) was killed by signal {}", code - 128),
                _ => format!("a task ({name}) ended with exit code {code}"),
            });
        }
        for task in 0..shape.tasks() {
            if self.arena.stand(task) != TaskState::Ended {
                continue;
            }
            let (_, _, error) = self.arena.end(task);
            if let Some(error) = error {
                add(format!("a task ({}): {}", shape.name(task), start_tasks::sentence(error)));
            }
        }
        all
    }
}
