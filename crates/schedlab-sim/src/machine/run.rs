//! One run in virtual time: the world moves from look to look, and measuring looks at it as at any machine.

use crate::{Step, TaskId, World};
use schedlab_jobs::profile::Profile;
use schedlab_model::{Bytes, Event, Nanos, Usage, Warning};
use schedlab_workload::jobs::{self, Workers};
use schedlab_workload::measure::{self, Copied, Measuring, Moment, Tasks, Times};
use schedlab_workload::metrics::metric;
use schedlab_workload::{Figure, Interval, MachineError, Outcome, Output, cut_by_limit};
use std::io;

/// Virtual time between two looks whether the user wants to stop.
const LOOK: Nanos = Nanos::from_millis(50);

/// Bytes of an event in a trace.dat.
const EVENT: u64 = 24;
/// A trace that becomes so large is told of, and again each time it has doubled.
const LARGE: u64 = 256 << 20;

/// The world as measuring sees it.
struct Seen<'w> {
    world: &'w World,
    /// Counters of each task.
    counters: usize,
}

impl Seen<'_> {
    fn at(&self, task: usize, counter: u32) -> u64 {
        self.world.counters()[task * self.counters + counter as usize]
    }
}

impl Tasks for Seen<'_> {
    fn moment(&self, at: Nanos) -> Moment {
        let histograms = self.world.histograms().iter().map(Copied::of).collect();
        Moment { at, histograms, counters: self.world.counters().to_vec() }
    }

    fn counter(&self, task: usize, counter: u32) -> u64 {
        self.at(task, counter)
    }

    fn total(&self, counter: u32) -> u64 {
        let all = self.world.counters().iter().skip(counter as usize);
        all.step_by(self.counters.max(1)).sum()
    }

    fn dial(&self, index: usize) -> u64 {
        self.world.dial(index)
    }

    fn started(&self) -> u64 {
        self.world.started()
    }

    fn ended(&self, task: usize) -> Option<(Nanos, Usage)> {
        let id = TaskId(task as u32);
        let used = self.world.usage(id);
        let usage = Usage {
            user: Nanos(used.user_ns),
            system: Nanos(used.system_ns),
            voluntary: used.voluntary,
            involuntary: used.involuntary,
            run_delay: Nanos(used.run_delay_ns),
            timeslices: used.timeslices,
            migrations: Some(used.migrations),
        };
        self.world.task_ended_at(id).map(|at| (Nanos(at), usage))
    }

    fn waited(&self, task: usize) -> (Nanos, u64) {
        let used = self.world.usage(TaskId(task as u32));
        (Nanos(used.run_delay_ns), used.timeslices)
    }
}

/// A run under way.
pub(super) struct Run<'r> {
    pub(super) world: &'r mut World,
    pub(super) measuring: Measuring,
    /// Events after this time are not kept.
    pub(super) keeps_until: Option<u64>,
    /// The most bytes of events that are kept.
    pub(super) room: Option<u64>,
    /// Bytes of the events that were kept, and at how many the next note comes.
    kept: u64,
    next_note: u64,
    /// Busy time at the last second, and when that was.
    busy: (u64, u64),
}

impl<'r> Run<'r> {
    pub(super) fn new(world: &'r mut World, measuring: Measuring) -> Self {
        let keeps_until = None;
        let room = None;
        Self { world, measuring, keeps_until, room, kept: 0, next_note: LARGE, busy: (0, 0) }
    }

    fn now(&self) -> Nanos {
        Nanos(self.world.now())
    }

    fn counters(&self) -> usize {
        self.measuring.plan().counters.len()
    }

    /// Runs to the end and tells all that was measured.
    pub(super) fn perform(mut self, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        while self.world.went_at().is_none() {
            let stop = self.now() + LOOK;
            if self.step(stop, out)? == Step::Ended {
                break;
            }
        }
        let go = Nanos(self.world.went_at().unwrap_or(self.world.now()));
        self.measuring.go(go);
        let duration = self.measuring.plan().timing.duration;
        let end = duration.map_or(Nanos::MAX, |duration| go + duration);
        let (last, interrupted) = self.until_stopped(go, end, out)?;
        let counters = self.counters();
        let last = match last {
            Some(last) => last,
            None => {
                let seen = Seen { world: self.world, counters };
                self.measuring.last(Nanos(self.world.ended_at().unwrap_or(0)), false, &seen)
            }
        };
        while self.step(Nanos(u64::MAX - 1), out)? != Step::Ended {}
        self.tell(go, &last, out)?;
        let cut_at = self.measuring.plan().cut_at;
        let cut_at = cut_at.filter(|limit| !interrupted && last.elapsed >= *limit);
        cut_at.map(cut_by_limit).into_iter().for_each(|warning| out.warning(warning));
        let failed = self.world.stopped_at().is_none() && self.has_failed(out);
        Ok(Outcome { exit_code: i32::from(failed), interrupted, censored: cut_at.is_some() })
    }

    /// Runs a graph of jobs to its end, proves it, and tells its figures: those of the host, from the same log.
    pub(super) fn perform_jobs(
        mut self,
        crew: &Workers,
        out: &mut dyn Output,
    ) -> Result<Outcome, MachineError> {
        while self.step(self.now() + LOOK, out)? != Step::Ended {
            if out.stopped() {
                self.world.stop();
                while self.step(Nanos(u64::MAX - 1), out)? != Step::Ended {}
                return Ok(Outcome { exit_code: 1, interrupted: true, censored: false });
            }
        }
        let failed = |why: String| MachineError::Load(why);
        let told = crew.outcome().map_err(|error| match self.measuring.plan().timing.duration {
            Some(limit) if self.world.stopped_at().is_some() => failed(format!(
                "the jobs did not end within {limit}: use fewer or shorter jobs, or more time"
            )),
            _ => failed(error.to_string()),
        })?;
        let run = crew.run();
        run.verify().map_err(|flaw| failed(format!("the run failed its proof: {flaw}")))?;
        let workers = self.measuring.shape().tasks();
        let profile = Profile::of(run, workers);
        let samples = jobs::samples(&profile);
        out.interval(&samples);
        let seen = Seen { world: self.world, counters: self.counters() };
        let used: Vec<Usage> =
            (0..workers).filter_map(|task| seen.ended(task)).map(|(_, usage)| usage).collect();
        let whole = jobs::figures(&profile, workers, told, measure::kernel("", &used));
        for figure in measure::figures(&samples).into_iter().chain(whole) {
            out.figure(figure).map_err(|error| MachineError::io("storing a metric", error))?;
        }
        Ok(Outcome { exit_code: 0, interrupted: false, censored: false })
    }

    /// Runs until all tasks have ended or are about to be stopped. Returns the last interval, and whether the user
    /// stopped the run.
    fn until_stopped(
        &mut self,
        go: Nanos,
        end: Nanos,
        out: &mut dyn Output,
    ) -> Result<(Option<Interval>, bool), MachineError> {
        let counters = self.counters();
        // A world without a task that ends the load stops its tasks at `end`: the last look comes a moment before.
        let before_end = if self.world.has_starter() { Nanos::MAX } else { end - Nanos(1) };
        let mut next = go;
        loop {
            let now = self.now();
            // After the end nothing is due but the stop, for which the world pauses.
            let due = if now < end { next.max(now + Nanos(1)) } else { Nanos::MAX };
            let stop = due.min(now + LOOK).min(before_end);
            if self.step(stop, out)? == Step::Ended {
                return Ok((None, false));
            }
            let now = self.now();
            let seen = Seen { world: self.world, counters };
            if now >= before_end {
                return Ok((Some(self.measuring.last(end, true, &seen)), false));
            }
            if seen.world.asks_to_stop() {
                return Ok((Some(self.measuring.last(now, true, &seen)), false));
            }
            if out.stopped() {
                let last = self.measuring.last(now, true, &seen);
                let what = "metrics are partial: the run was interrupted";
                out.warning(Warning::new("interrupted", what, ""));
                self.world.stop();
                return Ok((Some(last), true));
            }
            let look = self.measuring.look(now, end, &seen);
            look.note.into_iter().for_each(|note| out.note(note));
            look.interval.iter().for_each(|interval| out.interval(interval));
            next = look.next;
            if look.second {
                self.regulate();
            }
        }
    }

    fn step(&mut self, stop: Nanos, out: &mut dyn Output) -> Result<Step, MachineError> {
        let mut failed: Option<io::Error> = None;
        let until = self.keeps_until.unwrap_or(u64::MAX);
        // Arguments come after their events: those are kept until then.
        let with_calls = self.world.tells_arguments();
        let mut told = Vec::new();
        let mut bytes = self.kept;
        let room = self.room.unwrap_or(u64::MAX);
        let mut sink = |events: &[Event]| {
            let kept = &events[..events.partition_point(|event| event.time.0 <= until)];
            let fits = usize::try_from((room - bytes) / EVENT).unwrap_or(usize::MAX);
            let kept = &kept[..kept.len().min(fits)];
            bytes += kept.len() as u64 * EVENT;
            if with_calls {
                told.extend_from_slice(kept);
            } else if failed.is_none() && !kept.is_empty() {
                failed = out.events(kept).err();
            }
        };
        let step = self.world.run_until(stop.0, &mut sink);
        self.tells_size(bytes, out);
        if !told.is_empty() {
            let arguments = self.world.take_arguments();
            failed = out.events_with(&told, &arguments).err();
        }
        match failed {
            Some(error) => Err(MachineError::io("storing the trace", error)),
            None => step.map_err(|deadlock| MachineError::Load(deadlock.to_string())),
        }
    }

    /// Notes how large the trace has become, and warns once when it is full.
    fn tells_size(&mut self, bytes: u64, out: &mut dyn Output) {
        let was_full = self.is_full();
        self.kept = bytes;
        let after = Nanos(self.now().0 - self.world.began_at());
        if bytes >= self.next_note {
            self.next_note = bytes.saturating_mul(2);
            out.note(&format!("the trace holds {} after {after}", Bytes(bytes)));
        }
        if self.is_full() && !was_full {
            let what = format!("the trace ends at its limit, {after} after the start of the run");
            out.warning(Warning::new("trace-full", what, "use a larger --trace-size"));
        }
    }

    /// Whether no further event has room.
    fn is_full(&self) -> bool {
        self.room.is_some_and(|room| room - self.kept < EVENT)
    }

    /// Adjusts the dial that follows how busy the machine is.
    fn regulate(&mut self) {
        let busy = self.world.busy_ns();
        let at = self.world.now();
        let (busy_before, before) = std::mem::replace(&mut self.busy, (busy, at));
        if before == 0 {
            return;
        }
        let time = (at - before) * self.world.hardware().cpus() as u64;
        let percent = 100.0 * (busy - busy_before) as f64 / time as f64;
        let seen = Seen { world: self.world, counters: self.counters() };
        if let Some((dial, value)) = self.measuring.regulated(percent, &seen) {
            self.world.set_dial(dial, value);
        }
    }

    fn tell(
        &mut self,
        go: Nanos,
        last: &Interval,
        out: &mut dyn Output,
    ) -> Result<(), MachineError> {
        let times = Times {
            began: Nanos(self.world.began_at()),
            ready: go,
            go,
            stopped: self.world.stopped_at().map(Nanos),
            end: Nanos(self.world.ended_at().unwrap_or(self.world.now())),
        };
        let cost = self.world.newidle_cost().map(|cost| Figure {
            metric: metric("newidle_cost_ns"),
            of: String::new(),
            value: cost as f64,
        });
        let seen = Seen { world: self.world, counters: self.counters() };
        let (whole, warnings) = self.measuring.close(&times, &seen);
        let whole = whole.into_iter().chain(cost);
        out.interval(last);
        for figure in measure::figures(last).into_iter().chain(whole) {
            out.figure(figure).map_err(|error| MachineError::io("storing a metric", error))?;
        }
        warnings.into_iter().for_each(|warning| out.warning(warning));
        Ok(())
    }

    /// Whether a task ended because of an error; each is reported.
    fn has_failed(&self, out: &mut dyn Output) -> bool {
        let shape = self.measuring.shape();
        let error = |task: usize| Some((task, self.world.task_error(TaskId(task as u32))?));
        let failed: Vec<(usize, i32)> = (0..shape.tasks()).filter_map(error).collect();
        for (task, errno) in &failed {
            let what = format!("{} failed with error {errno}", shape.name(*task));
            out.warning(Warning::new("task-failed", what, ""));
        }
        !failed.is_empty()
    }
}
