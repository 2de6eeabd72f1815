//! Runs on machines that leave each other's figures as they are ([`Offers::parallel`]): on all CPUs at
//! the same time.
//!
//! Each thread makes machines of its own and takes the next run that is left. The calling thread hears
//! of the runs, tells progress and looks whether the user wants to stop. A run's result does not depend
//! on which thread does it: its machine knows nothing but its spec.
//!
//! Such runs are short, and a file that is written to disk takes milliseconds. So they are written to
//! disk in batches. What a power cut left of a batch is done again.
//!
//! [`Offers::parallel`]: schedlab_workload::Offers::parallel

use super::{LoopError, Progress, Stored, Tally, Work, one};
use crate::machines::{Machines, Make};
use crate::store::{Durable, Place, StoreError, StoredRun};
use crate::{Hooks, Planned};
use schedlab_workload::MachineError;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often the calling thread looks whether the user wants to stop.
const LOOK: Duration = Duration::from_millis(20);

/// This many finished runs at most are lost by a power cut.
const BATCH: usize = 256;

pub(crate) struct Left<'p> {
    /// Which one, from 0, of all runs of the plan.
    pub(crate) index: usize,
    pub(crate) run: &'p Planned,
    /// Where it is done.
    pub(crate) place: Place,
}

/// What a thread tells of the run with this place in the list.
enum Message {
    Begins,
    Ended(Box<StoredRun>),
    Failed(MachineError),
    GaveUp(LoopError),
}

/// Takes the runs out of `left` that may be done at the same time. Hooks are commands of the user's,
/// which may not stand each other.
pub(crate) fn take<'p>(
    machines: &mut Machines<'_>,
    left: &mut Vec<Left<'p>>,
) -> Result<Vec<Left<'p>>, MachineError> {
    let mut together = Vec::new();
    if machines.make().is_some() {
        let mut alone = Vec::new();
        for one in std::mem::take(left) {
            let parallel = machines.get(&one.run.machine)?.offers().parallel
                && one.run.hooks == Hooks::default();
            let list = if parallel { &mut together } else { &mut alone };
            list.push(one);
        }
        *left = alone;
    }
    Ok(together)
}

/// What all threads see.
struct Shared<'s> {
    runs: &'s [Left<'s>],
    make: &'s Make,
    results: &'s Path,
    /// The place in the list of the run that is taken next.
    next: AtomicUsize,
    stopping: AtomicBool,
}

/// Does `runs`, as many at a time as there are CPUs.
///
/// # Errors
/// When results cannot be stored, no thread can be started, or no run of all could be done.
pub(crate) fn perform(
    runs: &[Left<'_>],
    make: &Make,
    work: &Work<'_>,
    tally: &mut Tally,
    progress: &mut dyn FnMut(&Progress<'_>),
) -> Result<(), LoopError> {
    let next = AtomicUsize::new(0);
    let stopping = AtomicBool::new(false);
    let results = work.results;
    let shared = &Shared { runs, make, results, next, stopping };
    let (tell, heard) = channel();
    let wanted = thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    thread::scope(|scope| {
        for started in 0..wanted {
            let tell = tell.clone();
            let life = move || shared.life(&tell);
            match thread::Builder::new().name("runs".to_owned()).spawn_scoped(scope, life) {
                Ok(_) => {}
                // Fewer do the same runs.
                Err(_) if started > 0 => break,
                Err(error) => {
                    let error = schedlab_sys::process::thread_refused(&error);
                    return Err(MachineError::io("starting a thread for runs", error).into());
                }
            }
        }
        drop(tell);
        shared.listen(&heard, work, tally, progress)
    })
}

impl Shared<'_> {
    /// A thread: does the next run until none is left or the user wants to stop.
    fn life(&self, tell: &Sender<(usize, Message)>) {
        let mut machines = Machines::made_by(self.make);
        let stop = || self.stopping.load(Ordering::Relaxed);
        while !stop() {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(Left { run, place, .. }) = self.runs.get(at) else { return };
            // Nobody hears when the calling thread has panicked, which ends the program.
            let say = |told| drop(tell.send((at, told)));
            say(Message::Begins);
            let done = machines.get(&run.machine).map_err(LoopError::from).and_then(|machine| {
                let results = self.results;
                let durable = Durable::Batch;
                let to = Stored { results, durable, looks_before: false };
                one(machine, run, place, to, &stop, 0)
            });
            say(match done {
                Ok(stored) => Message::Ended(Box::new(stored)),
                Err(LoopError::Machine(error)) => Message::Failed(error),
                Err(error) => Message::GaveUp(error),
            });
        }
    }

    /// Hears of the runs until the last thread has ended.
    fn listen(
        &self,
        heard: &Receiver<(usize, Message)>,
        work: &Work<'_>,
        tally: &mut Tally,
        progress: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), LoopError> {
        let began = Instant::now();
        let mut ended = 0;
        let mut failed: Vec<(usize, MachineError)> = Vec::new();
        let mut gave_up = None;
        loop {
            let (at, told) = match heard.recv_timeout(LOOK) {
                Err(RecvTimeoutError::Disconnected) => break,
                other => {
                    if (work.stop)() {
                        self.stopping.store(true, Ordering::Relaxed);
                    }
                    let Ok(told) = other else { continue };
                    told
                }
            };
            let Left { index, run, .. } = &self.runs[at];
            match told {
                Message::Begins => {
                    let over = ended + failed.len();
                    let left = (over > 0).then(|| {
                        let rest = self.runs.len() - over;
                        began.elapsed().mul_f64(rest as f64 / over as f64)
                    });
                    let index = *index;
                    let total = work.total;
                    progress(&Progress::Begins { index, total, run, left });
                }
                Message::Ended(stored) => {
                    ended += 1;
                    if ended % BATCH == 0
                        && let Err(error) = on_disk(self.results)
                    {
                        self.stopping.store(true, Ordering::Relaxed);
                        gave_up.get_or_insert(error.into());
                    }
                    tally.ended(run, &stored, work);
                    progress(&Progress::Ended { run, stored: &stored });
                }
                Message::Failed(error) => {
                    progress(&Progress::Failed { run, error: &error });
                    failed.push((at, error));
                }
                Message::GaveUp(error) => {
                    self.stopping.store(true, Ordering::Relaxed);
                    gave_up.get_or_insert(error);
                }
            }
        }
        on_disk(self.results)?;
        tally.stopped |= (work.stop)() && ended + failed.len() < self.runs.len();
        // In the order of the plan, whichever thread was first.
        failed.sort_by_key(|(at, _)| *at);
        if let Some(error) = gave_up {
            return Err(error);
        }
        if tally.done + tally.skipped == 0 && !failed.is_empty() {
            return Err(failed.remove(0).1.into());
        }
        tally.failed.extend(failed.iter().map(|(at, error)| self.runs[*at].run.failed(error)));
        Ok(())
    }
}

/// Has the system write what was stored.
fn on_disk(results: &Path) -> Result<(), StoreError> {
    schedlab_sys::disk::sync(results).map_err(|error| StoreError::io(results, error))
}

#[cfg(test)]
mod tests;
