//! Utilisation clamps (`cpu.uclamp.max`): what the governor `schedutil` takes for a group's load is held at the
//! speed, so that it asks for a lower clock. A hint for the capacity that its tasks need, and no limit: any other
//! task on the CPU lifts the clock again, and the hardware may do as it likes.

use super::group::write;
use super::{SlowError, Speed};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Clamp(PathBuf);

impl Clamp {
    pub(super) fn apply(group: &Path, speed: Speed) -> Result<Self, SlowError> {
        let clamp = Self(group.join("cpu.uclamp.max"));
        clamp.set(speed)?;
        Ok(clamp)
    }

    /// Both versions of control groups take a percentage of two digits after the point, or `max`.
    pub(super) fn set(&self, speed: Speed) -> Result<(), SlowError> {
        let text = match speed {
            Speed::FULL => "max".to_owned(),
            speed => format!("{:.2}", speed.fraction() * 100.0),
        };
        write(&self.0, &text)
    }
}

/// Why clamps do nothing here; `None` where they can.
pub(super) fn obstacle(cpus: &Path, takes: std::io::Result<()>) -> Option<String> {
    if let Err(error) = takes {
        return Some(format!("this kernel lacks utilisation clamps (CONFIG_UCLAMP_TASK): {error}"));
    }
    let governor = |entry: &std::fs::DirEntry| {
        std::fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok()
    };
    let mut governors = std::fs::read_dir(cpus)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| governor(&entry));
    let other = match governors.next() {
        None => "this machine lacks a cpufreq driver".to_owned(),
        Some(first) if first.trim() == "schedutil" => governors
            .find(|other| other.trim() != "schedutil")
            .map(|other| other.trim().to_owned())?,
        Some(first) => format!("the governor is {}", first.trim()),
    };
    Some(format!("clamps have no effect: only the governor schedutil reads them, and {other}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_told_the_speed_in_percent() {
        let dir = tempfile::tempdir().unwrap();
        let read = || std::fs::read_to_string(dir.path().join("cpu.uclamp.max")).unwrap();
        let missing = Clamp::apply(dir.path(), Speed::FULL).unwrap_err().to_string();
        assert!(missing.contains("this kernel lacks cpu.uclamp.max"), "{missing}");
        crate::slow::group::fake(dir.path(), &["cpu.uclamp.max"]);
        let clamp = Clamp::apply(dir.path(), "37.5%".parse().unwrap()).unwrap();
        assert_eq!(read(), "37.50");
        clamp.set(Speed::FULL).unwrap();
        assert_eq!(read(), "max");
    }

    #[test]
    fn clamps_need_the_kernel_and_its_governor() {
        let dir = tempfile::tempdir().unwrap();
        let ok = || Ok(());
        let no = std::io::Error::from_raw_os_error(95);
        assert!(obstacle(dir.path(), Err(no)).unwrap().contains("CONFIG_UCLAMP_TASK"));
        assert!(obstacle(dir.path(), ok()).unwrap().contains("lacks a cpufreq driver"));
        for (cpu, governor) in [("cpu0", "schedutil\n"), ("cpu1", "performance\n")] {
            let cpufreq = dir.path().join(cpu).join("cpufreq");
            std::fs::create_dir_all(&cpufreq).unwrap();
            std::fs::write(cpufreq.join("scaling_governor"), governor).unwrap();
        }
        assert!(obstacle(dir.path(), ok()).unwrap().contains("performance"));
        std::fs::write(dir.path().join("cpu1/cpufreq/scaling_governor"), "schedutil\n").unwrap();
        assert_eq!(obstacle(dir.path(), ok()), None);
    }
}
