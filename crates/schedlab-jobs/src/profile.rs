//! Figures of a run from its log: concurrency over time, lateness, gaps, ramp-up and shutdown.

use crate::graph::Node;
use crate::policy::Nanos;
use crate::run::{Run, Span, Stopped};
use crate::waits::{Cause, Ran, waits};
use std::collections::BTreeMap;

/// Figures of a run. Times in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Profile {
    /// The number of jobs that ran.
    pub jobs: usize,
    /// First begin to last end.
    pub covered_ns: Nanos,
    /// The run's base to the last end.
    pub makespan_ns: Nanos,
    /// Time at each number of jobs running at once, from 0 to the workers. Sums to `covered_ns`.
    pub at_concurrency_ns: Vec<Nanos>,
    /// Sum of the jobs' wall times.
    pub wall_ns: Nanos,
    /// Sum of the jobs' CPU times, 0 where not measured: of one job in sixteen.
    pub cpu_ns: Nanos,
    /// Number of jobs whose CPU time was measured.
    pub cpu_jobs: usize,
    /// Sum of the jobs' planned times.
    pub planned_ns: Nanos,
    /// The sums by kind of work, in order of names.
    pub kinds: Vec<KindTimes>,
    /// Start lateness of every job, ascending: after its start time and the end of its predecessors.
    pub lateness_ns: Vec<Nanos>,
    /// From when a job could have started, and was posted, until it began, ascending: the executor's part of lateness,
    /// without that of planning.
    pub post_to_start_ns: Vec<Nanos>,
    /// How long after a job could have started it was posted, ascending; only jobs that were posted late.
    pub posted_late_ns: Vec<Nanos>,
    /// The longest wait of a job that was due and posted while a worker had no job.
    pub starved: Starved,
    /// Between two jobs of a worker while the next one was ready already, ascending.
    pub gaps_ns: Vec<Nanos>,
    /// First begin until all workers run a job for the first time; `None` when they never do.
    pub ramp_up_ns: Option<Nanos>,
    /// From when all workers run a job for the last time to the last end.
    pub shutdown_ns: Option<Nanos>,
    /// Time that workers were idle during the ramp-up, divided by all workers: what it adds to the run time.
    pub ramp_up_lost_ns: Option<Nanos>,
    /// Time that workers were idle during the shutdown, divided by all workers: what it adds to the
    /// run time.
    pub shutdown_lost_ns: Option<Nanos>,
    /// Offered load: planned work over the time in which it was to arrive, in workers; `None` when all
    /// arrives at once.
    pub offered: Option<f64>,
}

/// The longest wait of a due job while a worker had no job and could run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Starved {
    /// How long that was.
    pub ns: Nanos,
    /// What was deducted from this wait: the threads of all workers without a job were runnable without running, or their
    /// CPUs were stolen.
    pub stopped_ns: Nanos,
    /// The longest such wait of any job, without a deduction.
    pub whole_ns: Nanos,
}

/// Times of the jobs of one kind of work, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindTimes {
    /// The name of the kind of work.
    pub kind: &'static str,
    pub jobs: u64,
    /// The wall time of these jobs, in nanoseconds.
    pub wall_ns: Nanos,
    /// CPU time, 0 where not measured: of one job in sixteen.
    pub cpu_ns: Nanos,
    /// Number of jobs whose CPU time was measured.
    pub cpu_jobs: u64,
    /// The planned time of these jobs, in nanoseconds.
    pub planned_ns: Nanos,
}

impl KindTimes {
    fn of(run: &Run, spans: &[Span]) -> Vec<Self> {
        let mut kinds: BTreeMap<&'static str, Self> = BTreeMap::new();
        for span in spans {
            let kind = run.kind(span.node);
            let times = kinds.entry(kind).or_insert(Self { kind, ..Self::default() });
            times.jobs += 1;
            times.wall_ns += span.end.saturating_sub(span.begin);
            times.cpu_ns += span.cpu_ns;
            times.cpu_jobs += u64::from(span.cpu_ns > 0);
            times.planned_ns += run.expected_ns(span.node);
        }
        kinds.into_values().collect()
    }

    /// Wall time over planned time; `None` when nothing was planned.
    pub fn inflation(&self) -> Option<f64> {
        ratio(self.wall_ns, self.planned_ns)
    }
}

fn ratio(wall_ns: Nanos, planned_ns: Nanos) -> Option<f64> {
    (planned_ns > 0).then(|| wall_ns as f64 / planned_ns as f64)
}

impl Profile {
    /// The profile of a finished run on `workers` workers.
    pub fn of(run: &Run, workers: usize) -> Self {
        let spans = run.spans();
        let (Some(first), Some(last)) =
            (spans.iter().map(|s| s.begin).min(), spans.iter().map(|s| s.end).max())
        else {
            return Self::default();
        };
        let steps = Steps::of(&spans);
        let ready = ready_times(run, &spans);
        let wall_ns = spans.iter().map(|s| s.end.saturating_sub(s.begin)).sum();
        let planned_ns = spans.iter().map(|s| run.expected_ns(s.node)).sum();
        let mut lateness_ns: Vec<_> =
            spans.iter().map(|s| s.begin.saturating_sub(ready[s.node as usize])).collect();
        lateness_ns.sort_unstable();
        let (post_to_start_ns, posted_late_ns) = postings(run, &spans, &ready);
        Self {
            jobs: spans.len(),
            covered_ns: last - first,
            makespan_ns: last.saturating_sub(run.base()),
            at_concurrency_ns: steps.at_concurrency(workers),
            wall_ns,
            cpu_ns: spans.iter().map(|s| s.cpu_ns).sum(),
            cpu_jobs: spans.iter().filter(|s| s.cpu_ns > 0).count(),
            planned_ns,
            kinds: KindTimes::of(run, &spans),
            lateness_ns,
            post_to_start_ns,
            posted_late_ns,
            starved: starved(run, &spans, &ready, workers, &run.stopped()),
            gaps_ns: gaps(&spans, &ready),
            ramp_up_ns: steps.first_at(workers).map(|t| t - first),
            shutdown_ns: steps.last_at(workers).map(|t| last - t),
            ramp_up_lost_ns: steps.first_at(workers).map(|t| steps.lost(workers, first, t)),
            shutdown_lost_ns: steps.last_at(workers).map(|t| steps.lost(workers, t, last)),
            offered: offered(run),
        }
    }

    /// Mean number of jobs running at once.
    pub fn concurrency(&self) -> f64 {
        self.wall_ns as f64 / self.covered_ns.max(1) as f64
    }

    /// Time with fewer than two jobs running.
    pub fn impeded_ns(&self) -> Nanos {
        self.at_concurrency_ns.iter().take(2).sum()
    }

    /// Time from the first begin to the last end during which workers ran no job, summed over them.
    pub fn idle_ns(&self, workers: usize) -> Nanos {
        (self.covered_ns * workers as Nanos).saturating_sub(self.wall_ns)
    }

    /// Wall time over planned time of the jobs; `None` when nothing was planned.
    pub fn inflation(&self) -> Option<f64> {
        ratio(self.wall_ns, self.planned_ns)
    }

    /// A quantile of start lateness, `q` from 0 to 1; `None` without jobs.
    pub fn lateness(&self, q: f64) -> Option<Nanos> {
        quantile(&self.lateness_ns, q)
    }

    /// A quantile of the time from post to start, `q` from 0 to 1; `None` without jobs.
    pub fn post_to_start(&self, q: f64) -> Option<Nanos> {
        quantile(&self.post_to_start_ns, q)
    }

    /// A quantile of the gaps between jobs, `q` from 0 to 1; `None` without gaps.
    pub fn gap(&self, q: f64) -> Option<Nanos> {
        quantile(&self.gaps_ns, q)
    }
}

/// The smallest value that at least a fraction `q` of the ascending values does not exceed; `None`
/// without values.
pub fn quantile(ascending: &[Nanos], q: f64) -> Option<Nanos> {
    let rank = (q * ascending.len() as f64).ceil() as usize;
    ascending.get(rank.max(1) - 1).copied()
}

/// When the number of running jobs changed, and to how many: the concurrency profile of a run.
pub fn concurrency_steps(spans: &[Span]) -> Vec<(Nanos, usize)> {
    Steps::of(spans).0
}

/// When the number of running jobs changed, and to how many.
struct Steps(Vec<(Nanos, usize)>);

impl Steps {
    fn of(spans: &[Span]) -> Self {
        let mut edges: Vec<(Nanos, i32)> =
            spans.iter().flat_map(|s| [(s.begin, 1), (s.end, -1)]).collect();
        edges.sort_unstable();
        let mut running = 0;
        let mut steps: Vec<(Nanos, usize)> = Vec::new();
        for (time, change) in edges {
            // Ends sort before begins; a job of no length may end before it begins, for an instant.
            running += change;
            let level = usize::try_from(running).unwrap_or(0);
            match steps.last_mut() {
                Some(last) if last.0 == time => last.1 = level,
                _ => steps.push((time, level)),
            }
        }
        Self(steps)
    }

    /// Idle time between two of the steps, divided by the workers.
    fn lost(&self, workers: usize, from: Nanos, to: Nanos) -> Nanos {
        let within = |pair: &&[(Nanos, usize)]| pair[0].0 >= from && pair[1].0 <= to;
        let idle = |pair: &[(Nanos, usize)]| {
            workers.saturating_sub(pair[0].1) as Nanos * (pair[1].0 - pair[0].0)
        };
        self.0.windows(2).filter(within).map(idle).sum::<Nanos>() / workers.max(1) as Nanos
    }

    fn at_concurrency(&self, workers: usize) -> Vec<Nanos> {
        let mut times = vec![0; workers + 1];
        for pair in self.0.windows(2) {
            times[pair[0].1.min(workers)] += pair[1].0 - pair[0].0;
        }
        times
    }

    fn first_at(&self, level: usize) -> Option<Nanos> {
        self.0.iter().find(|step| step.1 >= level).map(|step| step.0)
    }

    fn last_at(&self, level: usize) -> Option<Nanos> {
        let pairs = self.0.windows(2).rev();
        pairs.filter(|pair| pair[0].1 >= level).map(|pair| pair[1].0).next()
    }
}

/// When each job of a run could have started: its start time, or the end of the last of its predecessors. On
/// the run's clock, in order of nodes.
pub fn ready_times(run: &Run, spans: &[Span]) -> Vec<Nanos> {
    let mut end = vec![0; run.graph().len() as usize];
    for span in spans {
        end[span.node as usize] = span.done;
    }
    let ready = |node: Node| {
        let predecessors = run.graph().predecessors(node).iter().map(|&p| end[p as usize]);
        predecessors.fold(run.base() + run.schedule().start(node), Nanos::max)
    };
    (0..run.graph().len()).map(ready).collect()
}

/// From post to start, and how late the postings were.
fn postings(run: &Run, spans: &[Span], ready: &[Nanos]) -> (Vec<Nanos>, Vec<Nanos>) {
    let mut starts = Vec::with_capacity(spans.len());
    let mut late = Vec::new();
    for span in spans {
        let ready = ready[span.node as usize];
        let posted = run.posted(span.node).unwrap_or(0);
        starts.push(span.begin.saturating_sub(ready.max(posted)));
        if posted > ready {
            late.push(posted - ready);
        }
    }
    starts.sort_unstable();
    late.sort_unstable();
    (starts, late)
}

/// The longest time for which a due job waited while a worker had no job and could run.
fn starved(
    run: &Run,
    spans: &[Span],
    ready: &[Nanos],
    workers: usize,
    stopped: &[Stopped],
) -> Starved {
    let ran = |span: &Span| {
        let due = ready[span.node as usize].max(run.posted(span.node).unwrap_or(0));
        let worker = span.worker as usize;
        let begin = span.begin;
        let end = span.end;
        Ran { worker, due, begin, end, planned: 0 }
    };
    let jobs: Vec<Ran> = spans.iter().map(ran).filter(|job| job.worker < workers).collect();
    // Nobody asks for sleeps here: a worker that sleeps has no job either.
    let mut longest = Starved::default();
    for wait in waits(&jobs, &vec![Vec::new(); workers], stopped) {
        let ns = wait.of(Cause::Pool);
        let stopped_ns = wait.of(Cause::Kernel);
        longest.whole_ns = longest.whole_ns.max(ns + stopped_ns);
        if ns > longest.ns {
            longest = Starved { ns, stopped_ns, ..longest };
        }
    }
    longest
}

/// Gaps beside a job whose CPU time was read are left out: reading it takes about as long as the gap.
fn gaps(spans: &[Span], ready: &[Nanos]) -> Vec<Nanos> {
    let mut by_worker: Vec<&Span> = spans.iter().collect();
    by_worker.sort_unstable_by_key(|s| (s.worker, s.begin));
    let mut gaps: Vec<Nanos> = by_worker
        .windows(2)
        .filter(|pair| pair[0].worker == pair[1].worker)
        .filter(|pair| ready[pair[1].node as usize] <= pair[0].end)
        .filter(|pair| pair[0].cpu_ns == 0 && pair[1].cpu_ns == 0)
        .map(|pair| pair[1].begin.saturating_sub(pair[0].end))
        .collect();
    gaps.sort_unstable();
    gaps
}

/// Of all jobs, also those that were dropped.
fn offered(run: &Run) -> Option<f64> {
    let planned_ns: Nanos = (0..run.graph().len()).map(|node| run.expected_ns(node)).sum();
    let starts = &run.schedule().starts;
    let first = starts.iter().min()?;
    let last = starts.iter().max()?;
    let jobs = starts.len() as f64;
    // The last arrival takes a mean gap as well.
    let window = (last - first) as f64 * jobs / (jobs - 1.0).max(1.0);
    (window > 0.0).then(|| planned_ns as f64 / window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Rules, Shape};
    use crate::run::{Clock, NoWork, Schedule, Work};

    /// Two kinds, of 100 and 300 ns.
    struct Two;

    impl Work for Two {
        fn perform(&self, _: Node) {}

        fn expected_ns(&self, node: Node) -> Nanos {
            if node < 2 { 100 } else { 300 }
        }

        fn kind(&self, node: Node) -> &'static str {
            if node < 2 { "memory" } else { "block" }
        }
    }

    /// Two workers with jobs from 100 to 200 and to 300, and a third job.
    fn three(begin: Nanos) -> Run {
        let graph = Shape::Isolated.build(&Rules { nodes: 3, ..Rules::default() });
        let run = Run::new(graph, Schedule::default(), Box::new(NoWork), Clock::still());
        run.set_base(100);
        run.log(0, 0, 100, Some(200));
        run.log(1, 1, 100, Some(300));
        run.log(2, 0, begin, Some(begin + 50));
        run
    }

    #[test]
    fn a_due_job_beside_an_idle_worker_is_starved_and_one_beside_busy_workers_is_not() {
        let starved = |begin: Nanos| Profile::of(&three(begin), 2).starved.ns;
        // Both workers run jobs until 200.
        assert_eq!([starved(200), starved(260), starved(400)], [0, 60, 200]);
    }

    #[test]
    fn time_in_which_idle_workers_could_not_run_is_not_the_executors() {
        let stop = |worker, from, to, ns| Stopped { worker, from, to, ns };
        let starved = |stopped: &[Stopped]| {
            let run = three(400);
            let spans = run.spans();
            super::starved(&run, &spans, &ready_times(&run, &spans), 2, stopped)
        };
        // Worker 0 is idle from 200 to 400, worker 1 from 300 on.
        let found = |ns, stopped_ns| Starved { ns, stopped_ns, whole_ns: 200 };
        assert_eq!(starved(&[]), found(200, 0));
        // Stopped from 310 on, when the other one could run; from 210 on, while the other had a job until 300.
        assert_eq!(starved(&[stop(0, 200, 400, 90)]), found(200, 0));
        assert_eq!(starved(&[stop(0, 200, 400, 190)]), found(110, 90));
        assert_eq!(starved(&[stop(0, 200, 400, 190), stop(1, 300, 400, 100)]), found(10, 190));
        // One that ends before, and one of a worker that is not there.
        assert_eq!(starved(&[stop(0, 20, 90, 50), stop(2, 200, 400, 190)]), found(200, 0));
    }

    #[test]
    fn inflation_is_told_by_kind() {
        let graph = Shape::Isolated.build(&Rules { nodes: 3, ..Rules::default() });
        let run = Run::new(graph, Schedule::default(), Box::new(Two), Clock::start());
        run.log(0, 0, 0, Some(100));
        run.log(1, 0, 100, Some(350));
        run.log(2, 1, 0, Some(330));
        let kinds = Profile::of(&run, 2).kinds;
        let figures: Vec<_> = kinds.iter().map(|k| (k.kind, k.jobs, k.inflation())).collect();
        assert_eq!(figures, [("block", 1, Some(1.1)), ("memory", 2, Some(1.75))]);
    }

    #[test]
    fn concurrency_ramp_up_and_lateness_of_a_small_run() {
        let graph = Shape::Isolated.build(&Rules { nodes: 4, ..Rules::default() });
        let schedule =
            Schedule { starts: vec![0, 0, 100, 0], life_ns: None, ..Schedule::default() };
        let run = Run::new(graph, schedule, Box::new(NoWork), Clock::start());
        run.set_base(1000);
        // worker 0: 1000..1100 1110..1210; worker 1: 1020..1100 1105..1150
        run.log(0, 0, 1000, Some(1100));
        run.log(1, 1, 1020, Some(1100));
        run.log(2, 0, 1110, Some(1210));
        run.log(3, 1, 1105, Some(1150));
        let p = Profile::of(&run, 2);
        assert_eq!((p.covered_ns, p.makespan_ns, p.wall_ns), (210, 210, 325));
        assert_eq!(p.at_concurrency_ns, [5, 85, 120]);
        assert_eq!(p.at_concurrency_ns.iter().sum::<u64>(), p.covered_ns);
        assert_eq!((p.ramp_up_ns, p.shutdown_ns), (Some(20), Some(60)));
        // One of two workers was idle all that time.
        assert_eq!((p.ramp_up_lost_ns, p.shutdown_lost_ns), (Some(10), Some(30)));
        assert_eq!(p.lateness_ns, [0, 10, 20, 105]);
        assert_eq!(p.gaps_ns, [5, 10]);
        assert_eq!(p.impeded_ns(), 90);
    }
}
