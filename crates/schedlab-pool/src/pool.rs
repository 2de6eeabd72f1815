//! Pools: starting and stopping their threads.

use crate::counts::Counts;
use crate::options::Options;
use crate::shared::{Shared, lock};
use crate::spawner::Spawner;
use crate::worker::{work, worker_of};
use std::io;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::Builder;
use std::time::Duration;

/// How a pool stopped.
#[derive(Debug)]
#[non_exhaustive]
pub struct Report {
    /// What became of the jobs.
    pub counts: Counts,
    /// Workers that still run a job.
    pub stuck: Vec<usize>,
}

/// A running pool. Its clones are [`Spawner`]s, which can be kept and taken into jobs. Dropped without [`Pool::stop`], it
/// cancels what has not started and does not wait.
pub struct Pool {
    spawner: Spawner<'static>,
}

impl Deref for Pool {
    type Target = Spawner<'static>;

    fn deref(&self) -> &Spawner<'static> {
        &self.spawner
    }
}

impl Pool {
    /// Starts the workers, and waits until each has the CPU and the nice value that it was asked for.
    ///
    /// # Errors
    /// When the system gives no more threads, or refuses a CPU or the nice value.
    pub fn start(options: Options) -> io::Result<Self> {
        let (shared, locals) = Shared::new(options);
        let pool = Self { spawner: Spawner::new(&shared) };
        let (tell, told) = mpsc::channel();
        for (number, local) in locals.into_iter().enumerate() {
            let shared = Arc::clone(&shared);
            let tell = tell.clone();
            let name = format!("{}{number}", shared.options.name);
            lock(&shared.alive.0).push(number);
            let own = Arc::clone(&shared);
            let started = Builder::new().name(name).spawn(move || work(&own, number, &local, tell));
            if let Err(error) = started {
                shared.left(number);
                return Err(error);
            }
        }
        drop(tell);
        all_are_set_up(told)?;
        Ok(pool)
    }

    /// Runs `body` with a pool whose jobs may borrow what lives longer than this call. It returns when all jobs have
    /// ended and the workers have left.
    ///
    /// # Errors
    /// As [`Pool::start`].
    pub fn scoped<'env, R>(
        options: Options,
        body: impl FnOnce(&Spawner<'env>) -> R,
    ) -> io::Result<R> {
        let (shared, locals) = Shared::new(options);
        std::thread::scope(|scope| {
            // Whatever happens, the workers leave, or the scope would wait for ever.
            let closing = Closing(&shared);
            let (tell, told) = mpsc::channel();
            for (number, local) in locals.into_iter().enumerate() {
                let name = format!("{}{number}", shared.options.name);
                let own = Arc::clone(&shared);
                let tell = tell.clone();
                Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || work(&own, number, &local, tell))?;
            }
            drop(tell);
            all_are_set_up(told)?;
            let result = body(&Spawner::new(&shared));
            shared.wait(Duration::MAX);
            drop(closing);
            Ok(result)
        })
    }

    /// Stops the pool: cancels what has not started, and waits for what runs. Workers that still run a job when the
    /// patience has passed are reported as stuck and left behind; `Duration::MAX` waits for ever.
    pub fn stop(self, patience: Duration) -> Report {
        let shared = self.spawner.shared();
        shared.close();
        // A job that stops its own pool does not wait for itself.
        let own = worker_of(shared);
        let patience = if own.is_some() { Duration::ZERO } else { patience };
        let stuck = shared.wait_for_workers(patience);
        if !stuck.is_empty() {
            shared.core.cancel_dependents();
        }
        shared.core.cancel_all();
        if stuck.is_empty() {
            // Another thread may be about to count a job that it has just ended, posted or cancelled.
            shared.wait(patience);
        }
        Report { counts: self.counts(), stuck }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.spawner.shared().close();
    }
}

/// Waits until each worker has the CPU and the nice value that it was asked for.
fn all_are_set_up(told: Receiver<io::Result<()>>) -> io::Result<()> {
    told.into_iter().collect()
}

/// Closes a pool when it goes.
struct Closing<'a, 'env>(&'a Shared<'env>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;
    use std::time::Instant;

    #[test]
    fn a_sleep_says_for_which_start_it_was_and_whether_another_thread_ended_it() {
        let (tell, told) = mpsc::channel();
        let hook = move |worker, sleep| {
            let _ = tell.send((worker, sleep));
        };
        let pool = Pool::start(Options::new(1).on_sleep(hook)).expect("threads");
        let in_an_hour = Instant::now() + Duration::from_secs(3600);
        pool.spawn_with(Request::new().start(in_an_hour), || ()).expect("room");
        let (worker, sleep) = loop {
            pool.post(|| ()).expect("room");
            match told.recv_timeout(Duration::from_millis(10)) {
                Ok((worker, sleep)) if sleep.until.is_some() => break (worker, sleep),
                _ => {}
            }
        };
        assert_eq!((worker, sleep.until), (0, Some(in_an_hour)));
        assert!(sleep.from <= sleep.to && sleep.woken.is_some_and(|woken| woken <= sleep.to));
        // Its own timer ends a sleep before a start, unless the thread was held up before it slept.
        loop {
            let soon = Instant::now() + Duration::from_millis(5);
            pool.spawn_with(Request::new().start(soon), || ())
                .expect("room")
                .wait()
                .expect("it ran");
            let mut sleeps = told.try_iter().map(|(_, sleep)| sleep);
            if sleeps.any(|sleep| sleep.until == Some(soon) && sleep.woken.is_none()) {
                break;
            }
        }
    }
}
