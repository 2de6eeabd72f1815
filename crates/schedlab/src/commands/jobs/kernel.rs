//! `jobs run --record`: the kernel's events while the pool runs, on the same clock, with a mark for every job;
//! and what they say of each moment in which a worker ran none.

use super::stalls::{Cause, Demand, Lane, Stalls};
use super::table;
use anyhow::Context;
use schedlab_jobs::pool::{Options as PoolOptions, Report, What};
use schedlab_jobs::profile::ready_times;
use schedlab_jobs::run::Run;
use schedlab_model::{Cpu, Nanos, Phase, Pid, Span};
use schedlab_record::{Mark, Marks, Options, Recorder, spool_of, stitch};
use schedlab_timeline::{Slices, SlicesAnswer, State, ask};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Intervals of each kind that are held at once: some 400 MiB at most.
const INTERVALS_MAX: usize = 8 << 20;

/// A recording that goes on while a pool runs.
pub(super) struct Recording {
    recorder: Recorder,
    output: PathBuf,
    pids: Arc<Mutex<Vec<i32>>>,
}

impl Recording {
    /// Begins to record into `output`, and has the pool's workers tell their numbers.
    pub(super) fn start(output: &Path, pool: &mut PoolOptions) -> anyhow::Result<Self> {
        let recorder = Recorder::start(Options::default(), &spool_of(output))
            .context("the kernel's events can't be recorded (schedlab doctor says more)")?;
        let pids = Arc::new(Mutex::new(vec![0; pool.policy.workers]));
        let (told, place) = (Arc::clone(&pids), pool.on_start.take());
        pool.on_start = Some(Arc::new(move |worker| {
            let pid = schedlab_sys::process::thread_id().0;
            told.lock().unwrap_or_else(PoisonError::into_inner)[worker] = pid;
            if let Some(place) = &place {
                place(worker);
            }
        }));
        Ok(Self { recorder, output: output.to_owned(), pids })
    }

    /// Ends it and leaves nothing behind.
    pub(super) fn discard(self) -> anyhow::Result<()> {
        let dir = self.recorder.stop()?;
        Ok(std::fs::remove_dir_all(dir)?)
    }

    /// Ends it, writes the trace with the jobs as marks, and puts the workers' time down to causes.
    pub(super) fn finish(self, run: &Run, report: &Report) -> anyhow::Result<Stalls> {
        let dir = self.recorder.stop()?;
        let pids = self.pids.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // The run's clock and the trace's are one, with different origins.
        let origin = schedlab_sys::clock::monotonic().0 - run.clock().now();
        let summary = stitch(&dir, &self.output, &Marks::default())?;
        if summary.lost_total() > 0 {
            let lost = summary.lost_total();
            table::note(&format!("{lost} kernel events were lost: run delay is a lower bound"));
        }
        let mut source = schedlab_trace::open(&self.output)?;
        let reply = ask(source.as_mut(), Slices::new(INTERVALS_MAX))?;
        if reply.answer.left_out > 0 {
            table::note("the trace is too long to be held: run delay is a lower bound");
        }
        stitch(&dir, &self.output, &marks(run, &pids, origin, &reply.answer, &reply.state))?;
        std::fs::remove_dir_all(&dir)?;
        let delayed = delays_in(&reply.answer, &reply.state, &pids, origin);
        Ok(account(run, report, delayed))
    }
}

/// When threads were runnable without running, per thread, on a clock with this origin.
#[cfg(test)]
pub(super) fn delays(
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

/// From first begin to last end, all time of all workers.
fn account(run: &Run, report: &Report, delayed: Vec<Vec<Span>>) -> Stalls {
    let spans = run.spans();
    let ready = ready_times(run, &spans);
    let mut lanes: Vec<Lane> =
        delayed.into_iter().map(|delayed| Lane { delayed, ..Lane::default() }).collect();
    let mut demand = Demand::default();
    let between = |from: u64, to: u64| Span::new(Nanos(from), Nanos(to));
    for span in &spans {
        lanes[span.worker as usize].jobs.push(between(span.begin, span.end));
        let could = ready[span.node as usize];
        let due = run.base() + run.schedule().start(span.node);
        demand.ready.push(between(could, span.begin));
        demand.blocked.push(between(due, could));
    }
    for (lane, worker) in lanes.iter_mut().zip(&report.workers) {
        for event in worker.iter().flat_map(|worker| worker.events.events()) {
            match event.what {
                What::Sleep { asked_ns, got_ns } => {
                    let from = event.time.saturating_sub(got_ns);
                    lane.asleep.push(between(from, event.time));
                    lane.overslept.push(between(from.saturating_add(asked_ns), event.time));
                }
                What::Contention { took_ns, .. } => {
                    lane.back_off.push(between(event.time.saturating_sub(took_ns), event.time));
                }
                _ => {}
            }
        }
    }
    let first = spans.iter().map(|span| span.begin).min().unwrap_or(0);
    let last = spans.iter().map(|span| span.end).max().unwrap_or(0);
    Stalls::of(&lanes, &demand, between(first, last))
}

/// How many of the longest stalls are shown.
const LONGEST: usize = 5;

/// The account of all workers' time, for `--json`.
#[derive(Serialize, JsonSchema)]
pub(super) struct Account {
    window_ns: Nanos,
    /// Time by cause (`run_delay_ns`), summed over the workers.
    sums: BTreeMap<String, Nanos>,
    /// The longest stretches of one cause.
    longest: Vec<Stretch>,
}

#[derive(Serialize, JsonSchema)]
struct Stretch {
    worker: usize,
    cause: &'static str,
    /// From the run's base.
    start_ns: i64,
    took_ns: Nanos,
}

impl Account {
    pub(super) fn of(stalls: &Stalls, base: u64) -> Self {
        let longest = stalls.longest(LONGEST).into_iter().map(|stall| Stretch {
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

/// The account for people: time, and the concurrency that was lost to it.
pub(super) fn as_text(stalls: &Stalls, base: u64) -> String {
    let window = stalls.window.duration().0.max(1) as f64;
    let head = ["where the workers were", "time", "concurrency"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    let mut row = |name: &str, ns: u64| {
        let share = format!("{:.3}", ns as f64 / window);
        rows.push(vec![format!("  {name}"), table::time(ns as f64), share]);
    };
    for cause in Cause::ALL {
        row(&cause.key().replace('_', " "), stalls.sum(cause).0);
    }
    row("sum", Cause::ALL.map(|cause| stalls.sum(cause).0).iter().sum());
    let mut text = table::columns(&rows);
    for stall in stalls.longest(LONGEST) {
        let at = stall.span.start.0 as f64 - base as f64;
        let took = table::time(stall.span.duration().0 as f64);
        let cause = stall.cause.key().replace('_', " ");
        let worker = stall.worker;
        let at = table::time(at);
        let _ = writeln!(text, "  worker {worker}, at {at}: {took} of {cause}");
    }
    text
}
