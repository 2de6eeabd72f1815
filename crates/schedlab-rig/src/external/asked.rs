//! What a process is asked to do over JSON lines, and the proof that it did it.

use schedlab_jobs::proof;
use schedlab_jobs::run::Run;
use serde::Serialize;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;

use super::Ran;
use super::line::{Go, Head, Job, SCHEMA};
use crate::RigError;
use crate::error::While;

/// From the last line to the first start time.
const PRE_ROLL_NS: u64 = 20_000_000;
/// Values are computed again for so long at most.
const CHECK_NS: f64 = 1e9;
/// So many of them at least.
const CHECK_MIN: usize = 16;
/// Finding out how long a round takes.
const CALIBRATE_NS: u64 = 5_000_000;

fn say(input: &mut impl Write, line: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *input, line)?;
    writeln!(input)
}

/// A run as it is asked of a process.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) workers: usize,
    nonce: u64,
    /// By job: rounds of work.
    rounds: Vec<u64>,
    rounds_per_ns: f64,
}

impl Asked {
    pub(super) fn of(run: &Run, workers: usize) -> Self {
        let rounds_per_ns = proof::calibrate(CALIBRATE_NS);
        let jobs = 0..run.graph().len();
        let rounds = jobs.map(|job| (run.expected_ns(job) as f64 * rounds_per_ns) as u64).collect();
        // The standard library's hasher has keys from the system's random numbers.
        Self { workers, nonce: RandomState::new().hash_one("nonce"), rounds, rounds_per_ns }
    }

    /// Writes the run; the base of its start times.
    pub(super) fn write(&self, run: &Run, input: impl Write) -> std::io::Result<u64> {
        let mut input = BufWriter::new(input);
        let (graph, nonce) = (run.graph(), format!("{:016x}", self.nonce));
        let head = Head { schema: SCHEMA, workers: self.workers, jobs: graph.len(), nonce: &nonce };
        say(&mut input, &head)?;
        for job in 0..graph.len() {
            let (work_ns, after) = (run.expected_ns(job), graph.predecessors(job));
            let rounds = self.rounds[job as usize];
            let start_ns = run.schedule().is_timed().then(|| run.schedule().start(job));
            say(&mut input, &Job { job, rounds, work_ns, after, start_ns })?;
        }
        let base = schedlab_sys::clock::monotonic().0 + PRE_ROLL_NS;
        say(&mut input, &Go { go: true, base_ns: run.schedule().is_timed().then_some(base) })?;
        input.flush()?;
        Ok(base)
    }

    /// Holds each line against what could be, and values against the work: all of them if that takes less than a second,
    /// otherwise a part that nobody knows beforehand. How many were computed again.
    pub(super) fn check(
        &self,
        run: &Run,
        ran: &[Ran],
        when: RangeInclusive<u64>,
    ) -> Result<u32, RigError> {
        let mut values = vec![None; self.rounds.len()];
        for Ran { job, begin, end, value, .. } in ran {
            if !when.contains(begin) || !when.contains(end) {
                return Err(RigError::Wrong(format!(
                    "job {job} ran from {begin} to {end} ns, but the run went from {} to {} ns on CLOCK_MONOTONIC",
                    when.start(),
                    when.end()
                )));
            }
            values[*job as usize] = *value;
        }
        let chosen = self.chosen();
        for &job in &chosen {
            let Some(value) = values[job as usize] else { continue };
            let before = run.graph().predecessors(job);
            let known: Vec<u64> = before.iter().filter_map(|&p| values[p as usize]).collect();
            if known.len() < before.len() {
                let what = format!("job {job} ran, but not all of its predecessors");
                return Err(RigError::Wrong(what));
            }
            let right = proof::value(self.nonce, job, known.into_iter(), self.rounds[job as usize]);
            if value != right {
                return Err(RigError::Wrong(format!(
                    "job {job} gave the value {value:016x}, but its work gives {right:016x}: it was not done"
                )));
            }
        }
        u32::try_from(chosen.len()).while_doing("too many jobs")
    }

    /// Jobs whose values are computed again.
    fn chosen(&self) -> Vec<u32> {
        let mut jobs: Vec<u32> = (0..).take(self.rounds.len()).collect();
        let order = RandomState::new();
        jobs.sort_by_cached_key(|job| order.hash_one(job));
        let mut left_ns = CHECK_NS;
        let fits = |&&job: &&u32| {
            left_ns -= self.rounds[job as usize] as f64 / self.rounds_per_ns;
            left_ns > 0.0
        };
        let count = jobs.iter().take_while(fits).count().max(CHECK_MIN.min(jobs.len()));
        jobs.truncate(count);
        jobs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_jobs::graph::{Rules, Shape};
    use schedlab_jobs::run::{Clock, Nothing, Schedule};

    fn asked() -> (Asked, Run) {
        let graph = Shape::Stencil.build(&Rules { nodes: 12, fan: 3, ..Rules::default() });
        let run = Run::new(graph, Schedule::default(), Box::new(Nothing), Clock::start());
        (Asked { workers: 2, nonce: 77, rounds: vec![9; 12], rounds_per_ns: 1.0 }, run)
    }

    /// Does the work.
    fn honest(asked: &Asked, run: &Run) -> Vec<Ran> {
        let mut values: Vec<u64> = Vec::new();
        for job in 0..12 {
            let before = run.graph().predecessors(job).iter().map(|&p| values[p as usize]);
            values.push(proof::value(asked.nonce, job, before, asked.rounds[job as usize]));
        }
        let ran = |(job, value)| Ran {
            job,
            worker: 0,
            begin: 5,
            end: 6,
            value: Some(value),
            thread: None,
        };
        (0..).zip(values).map(ran).collect()
    }

    #[test]
    fn work_that_was_done_is_proved_and_work_that_was_not_is_found() {
        let (asked, run) = asked();
        assert_eq!(asked.check(&run, &honest(&asked, &run), 0..=10).unwrap(), 12);
        let found = |ran: &[Ran]| asked.check(&run, ran, 0..=10).unwrap_err().to_string();
        let mut idle = honest(&asked, &run);
        idle.iter_mut().for_each(|ran| ran.value = Some(0));
        assert!(found(&idle).contains("it was not done"), "{}", found(&idle));
        let mut early = honest(&asked, &run);
        early[3].end = 11;
        assert!(found(&early).starts_with("job 3 ran from 5 to 11 ns"), "{}", found(&early));
        let left: Vec<Ran> = honest(&asked, &run).into_iter().skip(1).collect();
        assert!(found(&left).contains("not all of its predecessors"), "{}", found(&left));
    }

    #[test]
    fn of_much_work_a_part_is_done_again() {
        let (asked, _) = asked();
        let long = Asked { rounds: vec![400_000_000; 100], ..asked };
        assert_eq!(long.chosen().len(), CHECK_MIN);
        assert_eq!(Asked { rounds: vec![1_000; 100], ..long }.chosen().len(), 100);
    }
}
