//! Why due jobs waited: each moment from when a job was due until it began has one cause.
//!
//! At each moment a worker is in a job, asleep, woken and not yet awake, or awake without a job. A pool that rests while
//! a job is due, with a worker asleep and nobody on the way, has lost that job: that must not be, and the log shows it
//! exactly. All else is the wait for busy workers, for the kernel, or for a worker that is on its way to the job.

use crate::policy::Nanos;
use crate::run::{HELD_NS, Slept, Stopped, lost_in_job};

/// A job as the log has it, on one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// The worker that ran the job.
    pub worker: usize,
    /// When the job could have begun: it was posted, its start had come, and its predecessors had ended.
    pub due: Nanos,
    /// When the job began.
    pub begin: Nanos,
    /// When the job returned.
    pub end: Nanos,
    /// How long it should have taken; 0: nobody knows.
    pub planned: Nanos,
}

/// What a due job waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// All workers were in jobs.
    Busy,
    /// A worker was woken and not yet awake, or a job took longer than planned: the kernel or the machine.
    Kernel,
    /// A worker was awake without a job.
    Pool,
    /// A worker slept, and nobody was on the way: the pool had lost the job.
    Lost,
}

impl Cause {
    /// All causes, in order.
    pub const ALL: [Self; 4] = [Self::Busy, Self::Kernel, Self::Pool, Self::Lost];
}

/// The time that a job waited, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait([Nanos; Cause::ALL.len()]);

impl Wait {
    /// For how long the job waited for this cause.
    pub const fn of(&self, cause: Cause) -> Nanos {
        self.0[cause as usize]
    }

    /// For how long the job waited in all.
    pub fn sum(&self) -> Nanos {
        self.0.iter().sum()
    }

    /// What the job waited for longest; of equal ones the last in order.
    pub fn cause(&self) -> Cause {
        Cause::ALL.into_iter().max_by_key(|&cause| self.of(cause)).unwrap_or(Cause::Busy)
    }
}

/// What a worker is at a moment: the later of two goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Awake,
    Asleep,
    Woken,
    InJob,
    /// Beyond the planned time of its job.
    Over,
}

/// When workers changed their states. At one time what ends sorts before what begins.
fn changes(jobs: &[Ran], sleeps: &[Vec<Slept>], stopped: &[Stopped]) -> Vec<(Nanos, usize, State)> {
    let mut all = Vec::with_capacity(2 * jobs.len());
    for job in jobs.iter().filter(|job| job.begin < job.end) {
        let planned_end = job.begin.saturating_add(job.planned);
        all.push((job.begin, job.worker, State::InJob));
        all.push((job.end, job.worker, State::Awake));
        if lost_in_job(job.end - job.begin, job.planned) > HELD_NS {
            all.push((planned_end, job.worker, State::Over));
        }
    }
    let each = sleeps.iter().enumerate();
    let each = each.flat_map(|(worker, own)| own.iter().map(move |sleep| (worker, sleep)));
    for (worker, sleep) in each.filter(|(_, sleep)| sleep.from < sleep.to) {
        all.push((sleep.from, worker, State::Asleep));
        all.push((sleep.to, worker, State::Awake));
        if sleep.woken < sleep.to {
            all.push((sleep.woken.max(sleep.from), worker, State::Woken));
        }
    }
    for stop in stopped.iter().filter(|stop| stop.worker < sleeps.len()) {
        // A worker that is awake waits for its CPU most often just before it goes on.
        let own = &sleeps[stop.worker];
        let slept = own[..own.partition_point(|sleep| sleep.to <= stop.to)].last();
        let from = stop.from.max(stop.to.saturating_sub(stop.ns)).max(slept.map_or(0, |s| s.to));
        if from < stop.to {
            all.push((from, stop.worker, State::Woken));
            all.push((stop.to, stop.worker, State::Awake));
        }
    }
    all.sort_unstable();
    all
}

/// The waits of all jobs, in their order. `sleeps` are those of each worker, in order; `stopped` are times in which workers
/// without a job could not run.
pub fn waits(jobs: &[Ran], sleeps: &[Vec<Slept>], stopped: &[Stopped]) -> Vec<Wait> {
    let mut states = vec![State::Awake; sleeps.len()];
    let mut counts = [0usize; 5];
    counts[State::Awake as usize] = states.len();
    // From each time on the cause, and how long each has been until then.
    let mut sums = vec![(0, cause(&counts), Wait::default())];
    for (time, worker, state) in changes(jobs, sleeps, stopped) {
        counts[states[worker] as usize] -= 1;
        counts[state as usize] += 1;
        states[worker] = state;
        let (since, held, mut sum) =
            sums.last().copied().unwrap_or((0, Cause::Pool, Wait::default()));
        sum.0[held as usize] += time - since;
        sums.push((time, cause(&counts), sum));
    }
    let up_to = |time: Nanos| {
        let (since, held, mut sum) = sums[sums.partition_point(|&(from, ..)| from <= time) - 1];
        sum.0[held as usize] += time - since;
        sum
    };
    let wait = |job: &Ran| {
        let from = up_to(job.due.min(job.begin));
        let to = up_to(job.begin);
        Wait(std::array::from_fn(|at| to.0[at] - from.0[at]))
    };
    jobs.iter().map(wait).collect()
}

/// What a due job waits for while so many workers are in each state.
fn cause(counts: &[usize; 5]) -> Cause {
    let any = |state: State| counts[state as usize] > 0;
    if any(State::Awake) {
        Cause::Pool
    } else if any(State::Woken) {
        Cause::Kernel
    } else if any(State::Asleep) {
        Cause::Lost
    } else if any(State::Over) {
        Cause::Kernel
    } else {
        Cause::Busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::NEVER;

    fn job(worker: usize, due: Nanos, begin: Nanos, end: Nanos) -> Ran {
        Ran { worker, due, begin, end, planned: 0 }
    }

    fn slept(from: Nanos, woken: Nanos, to: Nanos) -> Slept {
        Slept { from, woken, to }
    }

    fn parts(wait: &Wait) -> [Nanos; 4] {
        Cause::ALL.map(|cause| wait.of(cause))
    }

    #[test]
    fn a_wait_is_divided_among_busy_workers_the_kernel_and_the_pool() {
        // Due at 20: both workers are in jobs until 100; worker 1 is awake until 130, and runs it then.
        let jobs = [job(0, 0, 0, 200), job(1, 0, 0, 100), job(1, 20, 130, 140)];
        let found = waits(&jobs, &[vec![], vec![]], &[]);
        assert_eq!(parts(&found[2]), [80, 0, 30, 0]);
        assert_eq!(found[2].cause(), Cause::Busy);
        // Woken at 40 and awake at 90; its own timer counts in the same way.
        let found = waits(
            &[job(0, 0, 0, 200), job(1, 40, 95, 99)],
            &[vec![], vec![slept(10, 40, 90)]],
            &[],
        );
        assert_eq!(parts(&found[1]), [0, 50, 5, 0]);
        assert_eq!(found[1].cause(), Cause::Kernel);
    }

    #[test]
    fn a_job_that_is_due_while_a_worker_sleeps_and_nobody_is_on_the_way_is_lost() {
        let run = |woken| {
            let jobs = [job(0, 0, 0, 200), job(0, 50, 200, 210)];
            parts(&waits(&jobs, &[vec![], vec![slept(10, woken, 300)]], &[])[1])
        };
        // Not woken at all, 30 later, at once, and before it slept.
        assert_eq!(run(NEVER), [0, 0, 0, 150]);
        assert_eq!(run(80), [0, 120, 0, 30]);
        assert_eq!(run(50), [0, 150, 0, 0]);
        assert_eq!(run(5), [0, 150, 0, 0]);
        // Beside a worker that is awake or on the way, another may sleep on.
        let jobs = [job(0, 50, 70, 80)];
        let other = vec![slept(0, NEVER, 300)];
        assert_eq!(parts(&waits(&jobs, &[vec![], other.clone()], &[])[0]), [0, 0, 20, 0]);
        assert_eq!(parts(&waits(&jobs, &[vec![slept(0, 50, 65)], other], &[])[0]), [0, 15, 5, 0]);
    }

    #[test]
    fn a_job_beyond_its_planned_time_and_a_worker_that_could_not_run_are_the_kernels() {
        let long = Ran { planned: 600_000, ..job(0, 0, 0, 1_000_000) };
        let jobs = [long, job(0, 100_000, 1_200_000, 1_300_000)];
        let found =
            |sleeps: Vec<Slept>, stopped: &[Stopped]| parts(&waits(&jobs, &[sleeps], stopped)[1]);
        assert_eq!(found(vec![], &[]), [500_000, 400_000, 200_000, 0]);
        let stop = |ns| [Stopped { worker: 0, from: 1_000_000, to: 1_200_000, ns }];
        assert_eq!(found(vec![], &stop(150_000)), [500_000, 550_000, 50_000, 0]);
        assert_eq!(found(vec![], &stop(900_000)), [500_000, 600_000, 0, 0]);
        // The way from the wakeup to the CPU counts once.
        let sleep = slept(1_010_000, 1_020_000, 1_100_000);
        assert_eq!(found(vec![sleep], &stop(180_000)), [500_000, 580_000, 10_000, 10_000]);
        // A little longer than planned is no stall.
        let longer = Ran { planned: 950_000, ..long };
        let found = waits(&[longer, job(0, 100_000, 1_200_000, 1_300_000)], &[vec![]], &[])[1];
        assert_eq!(parts(&found), [900_000, 0, 200_000, 0]);
    }

    #[test]
    fn a_job_of_no_length_leaves_its_worker_awake() {
        let found = waits(&[job(0, 0, 10, 10), job(0, 10, 30, 40)], &[vec![]], &[]);
        assert_eq!(found.iter().map(parts).collect::<Vec<_>>(), [[0, 0, 10, 0], [0, 0, 20, 0]]);
    }
}
