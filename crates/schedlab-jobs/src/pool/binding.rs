//! Binds threads to the CPUs that [`Cpus`] says: workers of this pool, and of others beside it.

use super::OnStart;
use crate::policy::Cpus;
use std::io;
use std::sync::Arc;

/// What each worker's thread calls first, with its number, to be bound: of `workers` at most, to the CPUs that the
/// *calling* thread of this function may use. Where a CPU has vanished since, the worker stays free.
pub fn binding(cpus: &Cpus, workers: usize) -> OnStart {
    let allowed = allowed().unwrap_or_default();
    let places: Vec<_> = (0..workers).map(|worker| cpus.of(worker, workers, &allowed)).collect();
    Arc::new(move |worker| {
        if let Some(Some(cpu)) = places.get(worker) {
            let _ = bind(&[*cpu]);
        }
    })
}

/// Does `work` while the calling thread may use all these CPUs, and binds it again as it was: a thread that it starts
/// would else begin on the caller's CPU alone, and wait there until the caller sleeps.
pub(super) fn unbound<T>(cpus: &[usize], work: impl FnOnce() -> T) -> T {
    let own = allowed().unwrap_or_default();
    let widened = own != cpus && !cpus.is_empty() && bind(cpus).is_ok();
    let done = work();
    if widened {
        let _ = bind(&own);
    }
    done
}

/// The CPUs that the calling thread may use, ascending.
///
/// # Errors
/// The system's, where it has no affinity.
#[cfg(all(target_os = "linux", not(miri), not(loom)))]
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(all(target_os = "linux", not(miri), not(loom)))]
fn bind(cpus: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for &cpu in cpus {
        if cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Elsewhere nothing is known, and nobody is bound.
///
/// # Errors
/// Always.
#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
pub fn allowed() -> io::Result<Vec<usize>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(all(target_os = "linux", not(miri), not(loom))))]
fn bind(_: &[usize]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
#[expect(clippy::disallowed_methods, reason = "a test that gets no thread has failed")]
mod tests {
    use super::*;

    #[test]
    fn what_a_bound_thread_starts_may_go_elsewhere_and_the_thread_stays() {
        let all = allowed().expect("an affinity");
        std::thread::spawn(move || {
            let one = vec![*all.last().expect("one at least")];
            bind(&one).expect("it is allowed");
            let newcomer = || std::thread::spawn(|| allowed().expect("an affinity"));
            assert_eq!(newcomer().join().expect("no panic"), one, "left alone, it inherits");
            let theirs = unbound(&all, || newcomer().join().expect("no panic"));
            assert_eq!((theirs, allowed().expect("an affinity")), (all, one));
        })
        .join()
        .expect("no panic");
    }
}
