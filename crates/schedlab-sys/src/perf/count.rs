//! Counting occurrences of a tracepoint on one CPU, without records of them.

use super::{
    Attr, FLAG_DISABLED, IOC_DISABLE, IOC_ENABLE, IOC_SET_FILTER, TYPE_TRACEPOINT, ioctl, open,
};
use schedlab_model::Cpu;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;

/// A counter, which stands still until [`Counter::start`].
#[derive(Debug)]
pub struct Counter(OwnedFd);

impl Counter {
    /// Counts the occurrences of a tracepoint (the number in its `id` file) on `cpu` for which the kernel's filter
    /// expression holds.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without the right to observe (see `perf_event_paranoid` and `CAP_PERFMON`), `ENODEV` when
    /// the CPU is offline, `EINVAL` when the kernel cannot parse the filter for this tracepoint.
    pub fn open(tracepoint: u64, cpu: Cpu, filter: &CStr) -> io::Result<Self> {
        let attr = Attr {
            kind: TYPE_TRACEPOINT,
            size: 128,
            config: tracepoint,
            flags: FLAG_DISABLED,
            ..Attr::default()
        };
        let fd = open(&attr, cpu)?;
        // SAFETY: the request takes a string that ends in 0, and copies it.
        unsafe { ioctl(&fd, IOC_SET_FILTER, filter.as_ptr() as libc::c_ulong) }?;
        Ok(Self(fd))
    }

    /// Starts counting, or goes on after a stop.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn start(&self) -> io::Result<()> {
        // SAFETY: the request takes a number.
        unsafe { ioctl(&self.0, IOC_ENABLE, 0) }
    }

    /// Stops counting. While all counters of a tracepoint are stopped, an occurrence costs a few nanoseconds.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn stop(&self) -> io::Result<()> {
        // SAFETY: the request takes a number.
        unsafe { ioctl(&self.0, IOC_DISABLE, 0) }
    }

    /// How many there were while it counted.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn count(&self) -> io::Result<u64> {
        let mut word = [0u8; 8];
        match rustix::io::read(&self.0, &mut word)? {
            8 => Ok(u64::from_ne_bytes(word)),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs::Tracefs;
    use std::io::Write as _;

    #[test]
    fn switches_of_a_cpu_are_counted_while_it_counts_and_only_those_that_pass_the_filter() {
        let number = || Tracefs::open().and_then(|fs| fs.event("sched", "sched_switch"));
        let cpu = crate::sched::affinity(schedlab_model::Pid(0)).unwrap().iter().next().unwrap();
        let open = |filter| Counter::open(number()?.0, cpu, filter);
        let (all, none) = match (open(c"next_pid >= 0"), open(c"next_pid == -7")) {
            (Ok(all), Ok(none)) => (all, none),
            (Err(why), _) | (_, Err(why)) => {
                drop(writeln!(std::io::stderr(), "MISSING: the right to count switches: {why}"));
                return;
            }
        };
        assert_eq!(all.count().unwrap(), 0, "it stands still");
        all.start().unwrap();
        none.start().unwrap();
        crate::process::on_a_thread(|| {
            crate::sched::set_affinity(schedlab_model::Pid(0), &[cpu].into_iter().collect())?;
            for _ in 0..20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            Ok(())
        })
        .unwrap();
        all.stop().unwrap();
        let count = all.count().unwrap();
        assert!(count >= 20, "{count}");
        assert_eq!(all.count().unwrap(), count, "it stands still again");
        assert_eq!(none.count().unwrap(), 0);
        assert!(open(c"no_such_field == 1").is_err());
    }
}
