//! What a process is asked to do over JSON lines, and the proof that it did it.

use schedlab_jobs::policy::NEVER;
use schedlab_jobs::proof;
use schedlab_jobs::run::{DropReason, Run};
use serde::Serialize;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;

use super::answer::{Answer, Dropped, Ran};
use super::line::{Go, Head, Job, SCHEMA, SCHEMA_DEADLINES};
use crate::RigError;

/// From the last line to the first start time.
const PRE_ROLL_NS: u64 = 20_000_000;
/// Values are computed again for this long at most.
const CHECK_NS: f64 = 1e9;
/// This many of them at least.
const CHECK_MIN: usize = 16;
/// Finding out how long a round takes.
const CALIBRATE_NS: u64 = 5_000_000;

fn say(input: &mut impl Write, line: &impl Serialize) -> std::io::Result<()> {
    serde_json::to_writer(&mut *input, line)?;
    writeln!(input)
}

/// Whether jobs have start times or deadlines, and so a base to which these are relative.
pub(super) fn has_times(run: &Run) -> bool {
    run.schedule().is_timed() || run.schedule().has_deadlines()
}

/// A run as it is asked of a process.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) workers: usize,
    nonce: u64,
    /// By job: rounds of work.
    rounds: Vec<u64>,
    rounds_per_ns: f64,
}

impl Request {
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
        let graph = run.graph();
        let nonce = format!("{:016x}", self.nonce);
        let mortal = run.schedule().has_deadlines();
        let schema = if mortal { SCHEMA_DEADLINES } else { SCHEMA };
        let head = Head { schema, workers: self.workers, jobs: graph.len(), nonce: &nonce };
        say(&mut input, &head)?;
        for job in 0..graph.len() {
            let work_ns = run.expected_ns(job);
            let after = graph.predecessors(job);
            let rounds = self.rounds[job as usize];
            let start_ns = has_times(run).then(|| run.schedule().start(job));
            let deadline_ns = Some(run.schedule().deadline(job)).filter(|&at| at != NEVER);
            say(&mut input, &Job { job, rounds, work_ns, after, start_ns, deadline_ns })?;
        }
        let base = schedlab_sys::clock::monotonic().0 + PRE_ROLL_NS;
        say(&mut input, &Go { go: true, base_ns: has_times(run).then_some(base) })?;
        input.flush()?;
        Ok(base)
    }

    /// Holds each line against what could be, and values against the work: all of them if that takes less than a second,
    /// otherwise a part that nobody knows beforehand. How many were computed again.
    pub(super) fn check(
        &self,
        run: &Run,
        answer: &Answer,
        base: u64,
        when: RangeInclusive<u64>,
    ) -> Result<u32, RigError> {
        check_drops(run, answer, base, &when)?;
        let mut values = vec![None; self.rounds.len()];
        for Ran { job, begin, end, value, .. } in &answer.ran {
            if !when.contains(begin) || !when.contains(end) {
                return Err(RigError::Wrong(format!(
                    "job {job} ran from {begin} to {end} ns, but the run went from {} to {} ns on CLOCK_MONOTONIC",
                    when.start(),
                    when.end()
                )));
            }
            values[*job as usize] = *value;
        }
        let mut count = 0;
        for job in self.chosen() {
            let Some(value) = values[job as usize] else { continue };
            count += 1;
            let before = run.graph().predecessors(job);
            let known: Vec<u64> = before.iter().filter_map(|&p| values[p as usize]).collect();
            if known.len() < before.len() {
                let what = format!("job {job} ran, but not all of its predecessors");
                return Err(RigError::Wrong(what));
            }
            let right = proof::value(self.nonce, job, known.into_iter(), self.rounds[job as usize]);
            if value != right {
                return Err(RigError::Wrong(format!(
                    "job {job} gave the value {value:016x} instead of {right:016x}: its work was \
                     not done"
                )));
            }
        }
        Ok(count)
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

/// Whether what was dropped had to be, and what ran began in time.
fn check_drops(
    run: &Run,
    answer: &Answer,
    base: u64,
    when: &RangeInclusive<u64>,
) -> Result<(), RigError> {
    if !run.schedule().has_deadlines() && !answer.gone.is_empty() {
        return Err(RigError::wrong("it dropped jobs of a run without deadlines"));
    }
    let deadline = |job: u32| run.schedule().deadline(job).saturating_add(base);
    let mut ran = vec![false; run.graph().len() as usize];
    for Ran { job, begin, .. } in &answer.ran {
        ran[*job as usize] = true;
        if *begin > deadline(*job) {
            let late = begin - deadline(*job);
            return Err(RigError::Wrong(format!("job {job} began {late} ns after its deadline")));
        }
    }
    let mut gone = vec![false; ran.len()];
    for one in &answer.gone {
        if ran[one.job as usize] || std::mem::replace(&mut gone[one.job as usize], true) {
            let what = format!("job {} was dropped, but also ran or was dropped before", one.job);
            return Err(RigError::Wrong(what));
        }
    }
    for &Dropped { job, why, at } in &answer.gone {
        let waits_for_gone = || run.graph().predecessors(job).iter().any(|&p| gone[p as usize]);
        let wrong = match why {
            _ if !when.contains(&at) => "at a time outside the run",
            DropReason::Missed if at <= deadline(job) => "as missed, but not after its deadline",
            DropReason::Abandoned if !waits_for_gone() => {
                "as abandoned, but waits for no dropped job"
            }
            _ => continue,
        };
        return Err(RigError::Wrong(format!("job {job} was dropped {wrong}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_jobs::graph::{Rules, Shape};
    use schedlab_jobs::run::{Clock, NoWork, Schedule};

    fn asked() -> (Request, Run) {
        let graph = Shape::Stencil.build(&Rules { nodes: 12, fan: 3, ..Rules::default() });
        let run = Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::start());
        (Request { workers: 2, nonce: 77, rounds: vec![9; 12], rounds_per_ns: 1.0 }, run)
    }

    fn ran(ran: Vec<Ran>) -> Answer {
        Answer { ran, ..Answer::default() }
    }

    fn honest(asked: &Request, run: &Run) -> Vec<Ran> {
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
        assert_eq!(asked.check(&run, &ran(honest(&asked, &run)), 0, 0..=10).unwrap(), 12);
        let found =
            |all: Vec<Ran>| asked.check(&run, &ran(all), 0, 0..=10).unwrap_err().to_string();
        let mut idle = honest(&asked, &run);
        idle.iter_mut().for_each(|ran| ran.value = Some(0));
        let idle = found(idle);
        assert!(idle.contains("its work was not done"), "{idle}");
        let mut early = honest(&asked, &run);
        early[3].end = 11;
        let early = found(early);
        assert!(early.starts_with("job 3 ran from 5 to 11 ns"), "{early}");
        let left = found(honest(&asked, &run).into_iter().skip(1).collect());
        assert!(left.contains("not all of its predecessors"), "{left}");
    }

    /// The jobs of a chain with a life of 3 ns, all told to begin at 5: the first is dropped, so the others are.
    fn chain(life_ns: Option<u64>) -> Run {
        let graph = Shape::Chain.build(&Rules { nodes: 3, ..Rules::default() });
        let schedule = Schedule { life_ns, ..Schedule::default() };
        Run::new(graph, schedule, Box::new(NoWork), Clock::start())
    }

    fn gone(job: u32, why: DropReason, at: u64) -> Dropped {
        Dropped { job, why, at }
    }

    #[test]
    fn what_was_dropped_had_to_be_and_what_ran_began_in_time() {
        let asked = Request { rounds: vec![0; 3], ..asked().0 };
        let check = |run: &Run, all: Vec<Dropped>, began: Option<u64>| {
            let one = |begin| Ran {
                job: 0,
                worker: 0,
                begin,
                end: begin,
                value: Some(proof::value(asked.nonce, 0, [].into_iter(), 0)),
                thread: None,
            };
            let answer =
                Answer { gone: all, ran: began.map(one).into_iter().collect(), not_offered: None };
            asked.check(run, &answer, 100, 90..=120).map_err(|error| error.to_string())
        };
        let run = chain(Some(3));
        let missed = DropReason::Missed;
        let abandoned = DropReason::Abandoned;
        let all = || vec![gone(0, missed, 104), gone(1, abandoned, 104), gone(2, abandoned, 104)];
        assert_eq!(check(&run, all(), None), Ok(0));
        assert_eq!(
            check(&run, all().split_off(2), None),
            Err(said(2, "as abandoned, but waits for no dropped job"))
        );
        assert_eq!(
            check(&run, vec![gone(0, missed, 103)], None),
            Err(said(0, "as missed, but not after its deadline"))
        );
        assert_eq!(
            check(&run, vec![gone(0, missed, 121)], None),
            Err(said(0, "at a time outside the run"))
        );
        let twice = check(&run, vec![gone(0, missed, 104)], Some(103)).unwrap_err();
        assert_eq!(twice, "job 0 was dropped, but also ran or was dropped before");
        assert_eq!(check(&run, Vec::new(), Some(103)), Ok(1));
        let late = check(&run, Vec::new(), Some(105)).unwrap_err();
        assert_eq!(late, "job 0 began 2 ns after its deadline");
        let none = check(&chain(None), vec![gone(0, missed, 104)], None).unwrap_err();
        assert_eq!(none, "it dropped jobs of a run without deadlines");
    }

    fn said(job: u32, what: &str) -> String {
        format!("job {job} was dropped {what}")
    }

    #[test]
    fn of_much_work_a_part_is_done_again() {
        let (asked, _) = asked();
        let long = Request { rounds: vec![400_000_000; 100], ..asked };
        assert_eq!(long.chosen().len(), CHECK_MIN);
        assert_eq!(Request { rounds: vec![1_000; 100], ..long }.chosen().len(), 100);
    }
}
