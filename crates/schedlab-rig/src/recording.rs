//! A recording of a run: the kernel's events while an executor runs, on the same clock, with a mark for every job; and
//! what they say of each moment in which a worker ran none.

use crate::RigError;
use crate::error::While;
use crate::stalls::{Cause, Demand, Lane, Stalls};
use schedlab_jobs::profile::ready_times;
use schedlab_jobs::run::Run;
use schedlab_model::{Cpu, Nanos, Phase, Pid, Span, Warning};
use schedlab_record::{Mark, Marks, Options, Recorder, spool_of, stitch};
use schedlab_timeline::{Slices, SlicesAnswer, State, ask};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Intervals of each kind that are held at once: some 400 MiB at most.
const INTERVALS_MAX: usize = 8 << 20;

/// A recording that goes on while an executor runs.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    output: PathBuf,
}

impl Recording {
    /// Begins to record into `output`.
    ///
    /// # Errors
    /// When the right to record is missing, or the spool beside `output` cannot be made.
    pub fn start(output: &Path) -> Result<Self, RigError> {
        let recorder = Recorder::start(Options::default(), &spool_of(output)).while_doing(
            "cannot record the kernel's events: `schedlab doctor` says how to allow it",
        )?;
        Ok(Self { recorder, output: output.to_owned() })
    }

    /// Ends it and leaves nothing behind.
    ///
    /// # Errors
    /// When what was recorded cannot be removed.
    pub fn discard(self) -> Result<(), RigError> {
        let dir = self.recorder.stop()?;
        Ok(std::fs::remove_dir_all(dir)?)
    }

    /// Ends the recording, writes the trace with the jobs as marks, and finds the cause of each span in which a worker
    /// ran no job. `pids` are the threads of the workers.
    ///
    /// # Errors
    /// When the trace cannot be written or read.
    pub fn finish(self, run: &Run, pids: &[i32]) -> Result<Recorded, RigError> {
        let dir = self.recorder.stop()?;
        // The run's clock and the trace's are one, with different origins.
        let origin = schedlab_sys::clock::monotonic().0 - run.clock().now();
        let mut warnings = Vec::new();
        let summary = stitch(&dir, &self.output, &Marks::default())?;
        if summary.lost_total() > 0 {
            let lost = summary.lost_total();
            let what = format!("run delay is a lower bound: {lost} kernel events were lost");
            warnings.push(Warning::new("lost-events", what, "record with larger buffers"));
        }
        let mut source = schedlab_trace::open(&self.output)?;
        let reply = ask(source.as_mut(), Slices::new(INTERVALS_MAX))?;
        if reply.answer.left_out > 0 {
            let what = "run delay is a lower bound: the trace does not fit into memory";
            warnings.push(Warning::new("intervals-left-out", what, "record a shorter run"));
        }
        stitch(&dir, &self.output, &marks(run, pids, origin, &reply.answer, &reply.state))?;
        std::fs::remove_dir_all(&dir)?;
        let delayed = delays_in(&reply.answer, &reply.state, pids, origin);
        let ran = runs_in(&reply.answer, &reply.state, pids, origin);
        Ok(Recorded { stalls: account(run, delayed, &ran), warnings })
    }
}

/// Where the time of a recorded run went.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Each moment of each worker, by its cause.
    pub stalls: Stalls,
    /// What makes it less than the whole.
    pub warnings: Vec<Warning>,
}

/// When threads were runnable without running, per thread, on a clock with this origin.
#[cfg(test)]
pub(crate) fn delays(
    source: &mut dyn schedlab_model::EventSource,
    pids: &[i32],
    origin: u64,
) -> std::io::Result<Vec<Vec<Span>>> {
    let reply = ask(source, Slices::new(INTERVALS_MAX))?;
    Ok(delays_in(&reply.answer, &reply.state, pids, origin))
}

fn delays_in(answer: &SlicesAnswer, state: &State, pids: &[i32], origin: u64) -> Vec<Vec<Span>> {
    let mut delayed = vec![Vec::new(); pids.len()];
    for wait in &answer.waits {
        let Pid(pid) = state.task(wait.task).pid;
        if let Some(worker) = pids.iter().position(|&known| known == pid) {
            let on_clock = |time: Nanos| time - Nanos(origin);
            delayed[worker].push(Span::new(on_clock(wait.from), on_clock(wait.to)));
        }
    }
    delayed
}

/// When threads ran, per thread, in order of time.
fn runs_in(answer: &SlicesAnswer, state: &State, pids: &[i32], origin: u64) -> Vec<Vec<Span>> {
    let mut ran = vec![Vec::new(); pids.len()];
    for slice in answer.slices.iter().filter(|s| s.task != schedlab_timeline::TaskId::NONE) {
        let Pid(pid) = state.task(slice.task).pid;
        if let Some(worker) = pids.iter().position(|&known| known == pid) {
            let on_clock = |time: Nanos| Nanos(time.0.saturating_sub(origin));
            ran[worker].push(Span::new(on_clock(slice.from), on_clock(slice.to)));
        }
    }
    ran.iter_mut().for_each(|ran: &mut Vec<Span>| ran.sort_by_key(|span| span.start));
    ran
}

/// A mark where each job began and ended, named after it.
fn marks(run: &Run, pids: &[i32], origin: u64, answer: &SlicesAnswer, state: &State) -> Marks {
    let names = (0..run.graph().len()).map(|node| format!("job {node}")).collect();
    let mut ran: Vec<Vec<(Nanos, Cpu)>> = vec![Vec::new(); pids.len()];
    for slice in &answer.slices {
        // A CPU about which nothing is known holds no task.
        let pid =
            (slice.task != schedlab_timeline::TaskId::NONE).then(|| state.task(slice.task).pid);
        let worker = pid.and_then(|pid| pids.iter().position(|&known| Pid(known) == pid));
        if let Some(worker) = worker {
            ran[worker].push((slice.from, slice.cpu));
        }
    }
    let mut marks = Vec::new();
    for span in run.spans() {
        let worker = span.worker as usize;
        for (time, phase) in [(span.begin, Phase::Begin), (span.end, Phase::End)] {
            let time = Nanos(origin + time);
            let at = ran[worker].partition_point(|&(from, _)| from <= time);
            let cpu = at.checked_sub(1).map_or(Cpu(0), |last| ran[worker][last].1);
            marks.push(Mark {
                time,
                cpu,
                pid: Pid(pids[worker]),
                id: span.node,
                phase,
                request: 0,
            });
        }
    }
    Marks { names, marks }
}

/// What ran, what waited, and from first begin to last end.
fn jobs_of(run: &Run, delayed: Vec<Vec<Span>>) -> (Vec<Lane>, Demand, Span) {
    let spans = run.spans();
    let ready = ready_times(run, &spans);
    let mut lanes: Vec<Lane> =
        delayed.into_iter().map(|delayed| Lane { delayed, ..Lane::default() }).collect();
    let mut demand = Demand::default();
    for span in &spans {
        lanes[span.worker as usize].jobs.push(between(span.begin, span.end));
        let could = ready[span.node as usize];
        let due = run.base() + run.schedule().start(span.node);
        demand.ready.push(between(could, span.begin));
        demand.blocked.push(between(due, could));
    }
    let first = spans.iter().map(|span| span.begin).min().unwrap_or(0);
    let last = spans.iter().map(|span| span.end).max().unwrap_or(0);
    (lanes, demand, between(first, last))
}

fn between(from: u64, to: u64) -> Span {
    Span::new(Nanos(from), Nanos(to))
}

/// When a thread slept: it neither ran nor waited for a CPU.
fn sleeps(ran: &[Span], delayed: &[Span], window: Span) -> Vec<Span> {
    let mut awake: Vec<Span> = ran.iter().chain(delayed).copied().collect();
    awake.sort_by_key(|span| span.start);
    let mut asleep = Vec::new();
    let mut from = window.start;
    for span in awake {
        if span.start > from {
            asleep.push(Span::new(from, span.start));
        }
        from = from.max(span.end);
    }
    if window.end > from {
        asleep.push(Span::new(from, window.end));
    }
    asleep
}

/// All time of all workers. Sleeps are the kernel's: a worker that blocks on a lock sleeps too.
fn account(run: &Run, delayed: Vec<Vec<Span>>, ran: &[Vec<Span>]) -> Stalls {
    let (mut lanes, demand, window) = jobs_of(run, delayed);
    for (lane, ran) in lanes.iter_mut().zip(ran) {
        lane.asleep = sleeps(ran, &lane.delayed, window);
    }
    Stalls::of(&lanes, &demand, window)
}

/// How many of the longest stalls are reported.
pub const LONGEST: usize = 5;

/// The account of all workers' time, in figures.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Account {
    /// From the first begin of a job to the last end.
    pub(crate) window_ns: Nanos,
    /// Time by cause (`run_delay_ns`), summed over the workers.
    pub sums: BTreeMap<String, Nanos>,
    /// The longest stretches of one cause.
    pub(crate) longest: Vec<WorkerStall>,
}

/// A stretch of one worker with one cause.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct WorkerStall {
    /// The worker, from 0.
    pub(crate) worker: usize,
    /// The cause, by its key.
    pub(crate) cause: &'static str,
    /// From the run's base.
    pub(crate) start_ns: i64,
    /// How long it took.
    pub(crate) took_ns: Nanos,
}

impl Account {
    /// Of a run whose base is at this time of its clock.
    pub fn of(stalls: &Stalls, base: u64) -> Self {
        let longest = stalls.longest(LONGEST).into_iter().map(|stall| WorkerStall {
            worker: stall.worker,
            cause: stall.cause.key(),
            start_ns: stall.span.start.0.cast_signed() - base.cast_signed(),
            took_ns: stall.span.duration(),
        });
        let sum = |cause: Cause| (format!("{}_ns", cause.key()), stalls.sum(cause));
        Self {
            window_ns: stalls.window.duration(),
            sums: Cause::ALL.into_iter().map(sum).collect(),
            longest: longest.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_jobs::graph::{Rules, Shape};
    use schedlab_jobs::run::{Clock, NoWork, Schedule};

    /// Microseconds.
    fn span(from: u64, to: u64) -> Span {
        between(from * 1000, to * 1000)
    }

    #[test]
    fn a_worker_that_blocks_on_a_lock_is_asleep_and_not_awake() {
        let graph = Shape::Isolated.build(&Rules { nodes: 2, ..Rules::default() });
        let run = Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::start());
        run.set_base(0);
        run.log(0, 0, 0, Some(100_000));
        run.log(1, 0, 300_000, Some(400_000));
        // It slept from 120 to 250 us, and waited for a CPU for 30 us.
        let ran = vec![vec![span(0, 120), span(280, 400)]];
        let stalls = account(&run, vec![vec![span(250, 280)]], &ran);
        let us = |cause| stalls.sum(cause).0 / 1000;
        assert_eq!((us(Cause::Job), us(Cause::RunDelay)), (200, 30));
        assert_eq!((us(Cause::Asleep), us(Cause::Awake)), (130, 40));
    }
}
