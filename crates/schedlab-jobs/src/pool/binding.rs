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

/// The CPUs that the calling thread may use, ascending.
///
/// # Errors
/// The system's, where it has no affinity.
#[cfg(all(target_os = "linux", not(miri)))]
pub fn allowed() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(all(target_os = "linux", not(miri)))]
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
#[cfg(not(all(target_os = "linux", not(miri))))]
pub fn allowed() -> io::Result<Vec<usize>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn bind(_: &[usize]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
