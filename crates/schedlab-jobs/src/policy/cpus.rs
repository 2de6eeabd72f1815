//! On which CPU each worker runs: bound to a CPU of its own unless told otherwise.
//!
//! Two unbound workers that wake together sometimes share a CPU until the next tick. That cost a sixth of the
//! breaking stress (`docs/jobs.md`).

/// Where the workers of a pool may run. Pure: the driver says which CPUs there are, and binds.
///
/// Left to the kernel, two workers that are woken together may land on one CPU and wait there for the
/// next tick to tell them apart, while another CPU idles. Measured on two CPUs (Linux 6.18, fair class, graph
/// `load-bursts` of 64 jobs of 500 µs): free workers keep a schedule up to 71..73 % of the bound, bound ones up
/// to 87..88 %. A pool with as many workers as CPUs gains nothing from moving, so binding is the default.
///
/// Programs with several pools that are busy at once give each its own list, or [`Cpus::Any`]: with
/// [`Cpus::Own`] all begin with the same CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Cpus {
    /// Worker *i* is bound to the *i*-th CPU that the pool's starter may use, while a pool of two or more workers has
    /// at most as many as there are CPUs. A pool that may grow beyond them is free, and so is a lone worker.
    #[default]
    Own,
    /// The kernel places the workers.
    Any,
    /// Worker *i* is bound to the *i*-th of these, in turn.
    List(Vec<usize>),
}

impl Cpus {
    /// The CPU of a worker, of at most `workers`, where these CPUs are allowed; `None` leaves it free.
    pub fn of(&self, worker: usize, workers: usize, allowed: &[usize]) -> Option<usize> {
        match self {
            Self::Own if (2..=allowed.len()).contains(&workers) => allowed.get(worker).copied(),
            Self::Own | Self::Any => None,
            Self::List(cpus) => cpus.get(worker % cpus.len().max(1)).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_worker_has_a_cpu_of_its_own_while_there_are_enough() {
        let allowed = [2, 3, 7];
        let all = |cpus: &Cpus, workers| -> Vec<_> {
            (0..workers).map(|worker| cpus.of(worker, workers, &allowed)).collect()
        };
        assert_eq!(all(&Cpus::Own, 2), [Some(2), Some(3)]);
        assert_eq!(all(&Cpus::Own, 3), [Some(2), Some(3), Some(7)]);
        assert_eq!(all(&Cpus::Own, 4), [None; 4], "two would share a CPU while others may move");
        assert_eq!(all(&Cpus::Own, 1), [None], "nobody shares its CPU");
        assert_eq!(all(&Cpus::Any, 3), [None; 3]);
        assert_eq!(all(&Cpus::List(vec![5, 0]), 3), [Some(5), Some(0), Some(5)]);
        assert_eq!(Cpus::List(Vec::new()).of(0, 1, &allowed), None);
    }
}
