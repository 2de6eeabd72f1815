//! All interleavings, with a bound on preemptions, of two workers and a poster that posts while they run.

use crate::job::{Criticality, Item, Job, JobRequests, TaskRef, Times, Work};
use crate::policy::{Core, Hooks, Late, WorkerState};
use crate::queues::Lists;
use loom::sync::{Condvar, Mutex as Modelled};
use loom::thread;
use std::sync::{Arc, Mutex};

const PREEMPTIONS: usize = 2;
const WORKERS: usize = 2;

type State = Core<'static, Lists<Item<'static>>>;

/// A thread's sleep with one call that is kept. Loom's own loses a call to a thread that waits for a lock.
#[derive(Default)]
struct Sleep(Modelled<bool>, Condvar);

impl Sleep {
    fn wake(&self) {
        *self.0.lock().expect("no panic") = true;
        self.1.notify_one();
    }

    fn sleep(&self) {
        let mut called = self.0.lock().expect("no panic");
        while !*called {
            called = self.1.wait(called).expect("no panic");
        }
        *called = false;
    }
}

/// A job that counts itself. The last one of `jobs` closes the pool.
fn job(
    core: &Arc<State>,
    ran: &Arc<Mutex<Vec<u32>>>,
    number: usize,
    asks: &JobRequests,
) -> TaskRef<'static> {
    let core = Arc::downgrade(core);
    let ran = Arc::clone(ran);
    let function = move || {
        let mut ran = ran.lock().expect("no panic");
        ran[number] += 1;
        let all = ran.iter().all(|&times| times > 0);
        drop(ran);
        if all && let Some(core) = core.upgrade() {
            core.close();
        }
        Some(())
    };
    Arc::new(Job::<_, _, Times>::new(asks, function))
}

fn work(core: &State, sleep: &Sleep, worker: usize) {
    let mut me = WorkerState::new(worker);
    while !core.is_closed() {
        if let Some(Work::Task(task)) = core.next(&mut me, Some(&worker)) {
            let returned = task.run();
            core.returned(&task, returned, &me, Some(&worker));
            continue;
        }
        core.search(&mut me);
        if core.park(&mut me).is_some() {
            sleep.sleep();
            core.unparked(&mut me);
        }
    }
}

/// What posts the jobs of a model.
trait Poster: Fn(&Arc<State>, &Arc<Mutex<Vec<u32>>>) + Send + Sync + Copy + 'static {}
impl<F: Fn(&Arc<State>, &Arc<Mutex<Vec<u32>>>) + Send + Sync + Copy + 'static> Poster for F {}

fn check(post: impl Poster, jobs: usize) {
    check_with(PREEMPTIONS, post, jobs);
}

/// Runs the model: a lost wakeup is a deadlock, which loom finds; each job runs once.
fn check_with(preemptions: usize, post: impl Poster, jobs: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 100_000;
    model.check(move || {
        let sleeps: Arc<Vec<Sleep>> = Arc::new((0..WORKERS).map(|_| Sleep::default()).collect());
        let known = Arc::clone(&sleeps);
        let wake = move |worker: usize| known[worker].wake();
        let clock = Box::new(|| 1);
        let wake = Box::new(wake);
        let hooks = Hooks { clock, wake, says_when: true, late: None };
        let (core, _) = Core::new(WORKERS, 100, Late::Run, hooks);
        let core = Arc::new(core);
        let ran = Arc::new(Mutex::new(vec![0; jobs]));
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let core = Arc::clone(&core);
                let sleeps = Arc::clone(&sleeps);
                thread::spawn(move || work(&core, &sleeps[worker], worker))
            })
            .collect();
        post(&core, &ran);
        workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
        assert!(ran.lock().expect("no panic").iter().all(|&times| times == 1));
    });
}

#[test]
fn each_plain_job_runs_once_and_no_wakeup_is_lost() {
    check(
        |core, ran| {
            for number in 0..2 {
                assert!(core.counters.reserve(1, Some(0)));
                let asks = JobRequests { queued: true, ..JobRequests::NONE };
                core.post(job(core, ran, number, &asks), Vec::new(), None);
            }
        },
        2,
    );
}

#[test]
fn four_jobs_run_once_each_with_one_preemption() {
    check_with(
        1,
        |core, ran| {
            for number in 0..4 {
                assert!(core.counters.reserve(1, Some(0)));
                let asks =
                    JobRequests { queued: true, timed: number % 2 == 0, ..JobRequests::NONE };
                core.post(job(core, ran, number, &asks), Vec::new(), None);
            }
        },
        4,
    );
}

#[test]
fn each_timed_job_runs_once_and_no_wakeup_is_lost() {
    check(
        |core, ran| {
            for number in 0..2 {
                assert!(core.counters.reserve(1, Some(0)));
                let criticality = [Criticality::Compulsory, Criticality::Optional][number];
                let asks = JobRequests { queued: true, start: 1, criticality, ..JobRequests::NONE };
                core.post(job(core, ran, number, &asks), Vec::new(), None);
            }
        },
        2,
    );
}

#[test]
fn a_job_that_depends_on_one_that_may_have_ended_runs_once() {
    check(
        |core, ran| {
            assert!(core.counters.reserve(2, Some(0)));
            let queued = JobRequests { queued: true, ..JobRequests::NONE };
            let first = job(core, ran, 0, &queued);
            core.post(Arc::clone(&first), Vec::new(), None);
            core.post(job(core, ran, 1, &JobRequests::NONE), vec![first], None);
        },
        2,
    );
}
