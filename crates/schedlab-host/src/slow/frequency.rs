//! The hardware's clock (CPU-Freq, CPU-Gov): one of its levels, or two neighbours in alternation.
//!
//! Clocks are set for *domains*, CPUs that share one. Where the governor `userspace` is, the level is
//! written to `scaling_setspeed`; elsewhere (intel_pstate, amd-pstate) the limits below and above are
//! both set to it. A written level is only a wish: hardware with a policy of its own may do otherwise,
//! so what came of it is measured.

use super::{SlowError, journalled};
use schedlab_model::{Cpu, CpuSet, Nanos};
use schedlab_sys::guard::{Guard, Undo};
use std::path::{Path, PathBuf};

/// How long one alternation of `gov` takes, as in the study's successor.
pub(super) const PITCH: Nanos = Nanos::from_millis(100);

/// CPUs that share a clock, and what it can do. Frequencies are in kHz, as in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Domain {
    /// The folder `cpufreq/policyN` of the domain.
    pub(crate) path: PathBuf,
    pub(crate) cpus: CpuSet,
    pub(crate) lowest: u64,
    /// What counts as full speed: the frequency without turbo where it is reported, else the highest.
    pub(crate) full: u64,
    /// The levels in ascending order; empty where the driver takes any frequency in between.
    pub(crate) levels: Vec<u64>,
    pub(crate) userspace: bool,
}

/// The clock domains below `sys` (a `/sys`, or a tree like it); none where there is no driver.
#[must_use]
pub(crate) fn domains(sys: &Path) -> Vec<Domain> {
    let dir = sys.join("devices/system/cpu/cpufreq");
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut domains: Vec<Domain> = entries.filter_map(|entry| domain(&entry.path())).collect();
    domains.sort_by(|a, b| a.cpus.cmp(&b.cpus));
    domains
}

fn domain(path: &Path) -> Option<Domain> {
    let text = |name: &str| std::fs::read_to_string(path.join(name)).ok();
    let number = |name: &str| text(name)?.trim().parse::<u64>().ok();
    let cpus = text("affected_cpus")?;
    let cpus: CpuSet = cpus.split_whitespace().filter_map(|c| c.parse().ok()).map(Cpu).collect();
    let levels = text("scaling_available_frequencies").unwrap_or_default();
    let mut levels: Vec<u64> = levels.split_whitespace().filter_map(|f| f.parse().ok()).collect();
    levels.sort_unstable();
    levels.dedup();
    let governors = text("scaling_available_governors").unwrap_or_default();
    Some(Domain {
        path: path.to_owned(),
        lowest: number("cpuinfo_min_freq")?,
        full: number("base_frequency").or_else(|| number("cpuinfo_max_freq"))?,
        userspace: governors.split_whitespace().any(|name| name == "userspace")
            && path.join("scaling_setspeed").exists(),
        cpus,
        levels,
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    One(u64),
    /// Two in alternation: this one first, for this part of the pitch.
    Two {
        low: u64,
        /// How long of each pitch.
        low_time: Nanos,
        high: u64,
    },
    /// The lowest frequency, with the tasks frozen for this part of the pitch.
    Frozen {
        low: u64,
        /// How long of each pitch the tasks stand still.
        still: Nanos,
    },
}

impl Domain {
    fn wanted(&self, speed: super::Speed) -> u64 {
        self.full - speed.lost(self.full)
    }

    pub(super) fn nearest(&self, speed: super::Speed) -> u64 {
        let wanted = self.wanted(speed);
        let near = self.levels.iter().min_by_key(|level| level.abs_diff(wanted));
        near.copied().unwrap_or(wanted.max(self.lowest))
    }

    /// The neighbours around a speed. Of two frequencies low < f < high the lower gets
    /// (high - f) / (high - low) of the time; below the lowest, tasks stand still for 1 - f / lowest.
    pub(super) fn around(&self, speed: super::Speed) -> Setting {
        let wanted = self.wanted(speed);
        let part = |over: u64, of: u64| Nanos(PITCH.0 * over / of);
        let lowest = self.levels.first().copied().unwrap_or(self.lowest);
        if wanted < lowest {
            return Setting::Frozen { low: lowest, still: part(lowest - wanted, lowest) };
        }
        let low = self.levels.iter().copied().rfind(|&level| level <= wanted);
        let high = self.levels.iter().copied().find(|&level| level >= wanted);
        match (low, high) {
            (Some(low), Some(high)) if low < high => {
                Setting::Two { low, low_time: part(high - wanted, high - low), high }
            }
            (Some(level), _) | (None, Some(level)) => Setting::One(level),
            (None, None) => Setting::One(wanted),
        }
    }

    /// Sets the domain up for [`Domain::write`], journalled.
    pub(super) fn prepare(&self, guard: &mut Guard) -> Result<(), SlowError> {
        let mut note = |name: &str| {
            let path = self.path.join(name);
            let content = std::fs::read_to_string(&path)
                .map_err(|e| SlowError::io(format!("reading {}", path.display()), e))?;
            journalled(guard, Undo::Write { path, content: content.trim_end().into() }).map(drop)
        };
        if !self.userspace {
            // The minimum is written twice: which limit must be restored first depends on the limits that were set.
            return ["scaling_min_freq", "scaling_max_freq", "scaling_min_freq"]
                .into_iter()
                .try_for_each(note);
        }
        note("scaling_governor")?;
        let path = self.path.join("scaling_governor");
        schedlab_sys::kernel_file::write(&path, "userspace")
            .map_err(|e| SlowError::io(format!("writing {}", path.display()), e))
    }

    pub(super) fn write(&self, khz: u64) -> Result<(), SlowError> {
        let write = |name: &str| {
            let path = self.path.join(name);
            schedlab_sys::kernel_file::write(&path, khz.to_string())
                .map_err(|e| SlowError::io(format!("writing {}", path.display()), e))
        };
        if self.userspace {
            return write("scaling_setspeed");
        }
        let least = std::fs::read_to_string(self.path.join("scaling_min_freq"));
        let least = least.ok().and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0);
        // The limits may never cross.
        if khz < least {
            write("scaling_min_freq")?;
            write("scaling_max_freq")
        } else {
            write("scaling_max_freq")?;
            write("scaling_min_freq")
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::slow::Speed;

    /// A tree with two domains: one of a table of levels with `userspace`, one without either.
    pub(in crate::slow) fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |policy: &str, file: &str, text: &str| {
            let path = dir.path().join("devices/system/cpu/cpufreq").join(policy);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join(file), text).unwrap();
        };
        for (file, text) in [
            ("affected_cpus", "0 1\n"),
            ("cpuinfo_min_freq", "1200000\n"),
            ("cpuinfo_max_freq", "2400000\n"),
            ("scaling_available_frequencies", "2400000 1800000 1200000\n"),
            ("scaling_available_governors", "performance userspace\n"),
            ("scaling_governor", "performance\n"),
            ("scaling_setspeed", "<unsupported>\n"),
        ] {
            write("policy0", file, text);
        }
        for (file, text) in [
            ("affected_cpus", "2\n"),
            ("cpuinfo_min_freq", "800000\n"),
            ("cpuinfo_max_freq", "4000000\n"),
            ("base_frequency", "2000000\n"),
            ("scaling_min_freq", "800000\n"),
            ("scaling_max_freq", "4000000\n"),
            ("scaling_available_governors", "performance powersave\n"),
        ] {
            write("policy2", file, text);
        }
        dir
    }

    fn speed(percent: u32) -> Speed {
        Speed::percent(percent).unwrap()
    }

    #[test]
    fn domains_are_read_with_their_levels() {
        let dir = tree();
        let found = domains(dir.path());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].levels, [1_200_000, 1_800_000, 2_400_000]);
        assert!(found[0].userspace && !found[1].userspace);
        assert_eq!((found[1].full, found[1].lowest), (2_000_000, 800_000));
        assert!(domains(&dir.path().join("none")).is_empty());
    }

    #[test]
    fn a_speed_between_levels_alternates_between_its_neighbours() {
        let dir = tree();
        let domain = domains(dir.path()).remove(0);
        // 1.5 GHz is half way between 1.2 and 1.8.
        let half = Setting::Two { low: 1_200_000, low_time: Nanos(PITCH.0 / 2), high: 1_800_000 };
        assert_eq!(domain.around("62.5%".parse().unwrap()), half);
        assert_eq!(domain.around(speed(75)), Setting::One(1_800_000));
        assert_eq!(domain.around(speed(100)), Setting::One(2_400_000));
        let frozen = Setting::Frozen { low: 1_200_000, still: Nanos(PITCH.0 / 2) };
        assert_eq!(domain.around(speed(25)), frozen);
        assert_eq!(domain.nearest(speed(70)), 1_800_000);
    }

    #[test]
    fn the_published_example_is_three_quarters_at_the_lower_level() {
        let dir = tree();
        let mut domain = domains(dir.path()).remove(0);
        domain.levels = vec![1_200_000, 2_400_000];
        let wanted =
            Setting::Two { low: 1_200_000, low_time: Nanos(PITCH.0 * 3 / 4), high: 2_400_000 };
        assert_eq!(domain.around("62.5%".parse().unwrap()), wanted);
    }

    #[test]
    fn what_was_set_is_put_back() {
        let dir = tree();
        let journal = tempfile::tempdir().unwrap();
        let read = |file: &str| {
            let path = dir.path().join("devices/system/cpu/cpufreq").join(file);
            std::fs::read_to_string(path).unwrap().trim().to_owned()
        };
        let mut guard = Guard::arm_with(journal.path(), Path::new("/bin/true")).unwrap();
        for domain in domains(dir.path()) {
            domain.prepare(&mut guard).unwrap();
            domain.write(domain.nearest(speed(50))).unwrap();
        }
        assert_eq!(read("policy0/scaling_governor"), "userspace");
        assert_eq!(read("policy0/scaling_setspeed"), "1200000");
        assert_eq!(read("policy2/scaling_min_freq"), "1000000");
        assert_eq!(read("policy2/scaling_max_freq"), "1000000");
        assert!(guard.finish().is_empty());
        assert_eq!(read("policy0/scaling_governor"), "performance");
        assert_eq!(read("policy2/scaling_min_freq"), "800000");
        assert_eq!(read("policy2/scaling_max_freq"), "4000000");
    }
}
