//! Speeds as users write them: a part of full speed, `30%`, or a clock of this machine, `1200MHz`.

use super::{Assignment, Speed};
use schedlab_model::{Cpu, CpuSet};
use schedlab_workload::PROFILES_GONE;
use schedlab_workload::requested_speed::is_clock;
use std::path::Path;

/// The part of the full speed of a CPU that a text asks for.
///
/// # Errors
/// In a sentence: the text is no speed, the clock of the CPU cannot be read, or it is lower than that.
pub fn speed_of(text: &str, cpu: Cpu) -> Result<Speed, String> {
    match is_clock(text) {
        true => of_clock(text, cpu, mhz(Path::new("/sys"), Path::new("/proc/cpuinfo"), cpu)),
        false => text.parse(),
    }
}

/// What `--cpu` takes: CPUs and their speed, `1-3=75%`. A clock is compared with that of the first of them.
///
/// # Errors
/// In a sentence.
pub fn assignment(text: &str) -> Result<Assignment, String> {
    let Some((cpus, speed)) = text.split_once('=').filter(|(_, speed)| is_clock(speed)) else {
        return text.parse();
    };
    let cpus: CpuSet = cpus.parse().map_err(|e: schedlab_model::CpuListError| e.to_string())?;
    let Some(first) = cpus.iter().next() else {
        return Err(format!("'{text}' names no CPU: write it as in 1-3=75%"));
    };
    let speed = speed_of(speed, first)?;
    Ok(Assignment { cpus, speed })
}

fn of_clock(text: &str, cpu: Cpu, full: Option<f64>) -> Result<Speed, String> {
    if text.contains('@') {
        return Err(format!("invalid speed '{text}': {PROFILES_GONE}"));
    }
    let scaled = |unit: &str, scale: f64| {
        let number = text.trim().strip_suffix(unit)?.trim_end().parse::<f64>().ok()?;
        (number.is_finite() && number > 0.0).then_some(number * scale)
    };
    let Some(clock) = scaled("MHz", 1.0).or_else(|| scaled("GHz", 1e3)) else {
        return Err(format!("invalid clock '{text}': use the form 1200MHz or 1.2GHz"));
    };
    let Some(full) = full else {
        return Err(format!(
            "cannot read the clock of CPU {cpu}: use a part of full speed, as in 50%"
        ));
    };
    let millionths = (clock / full * 1e6).round();
    let speed = (millionths <= 1e6).then(|| Speed::from_millionths(millionths as u32)).flatten();
    speed.ok_or_else(|| {
        format!("{text} is more than the {full:.0} MHz of CPU {cpu}: use at most 100%")
    })
}

/// The clock of a CPU at full speed, in MHz, from its driver; without a driver, the clock that it has now.
fn mhz(sys: &Path, cpuinfo: &Path, cpu: Cpu) -> Option<f64> {
    let driver = sys.join(format!("devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"));
    let khz = std::fs::read_to_string(driver).ok().and_then(|text| text.trim().parse::<f64>().ok());
    if let Some(khz) = khz {
        return Some(khz / 1e3);
    }
    let text = std::fs::read_to_string(cpuinfo).ok()?;
    let field = |block: &str, name: &str| super::node_view::field(block, name);
    let own = text.split("\n\n").find(|b| field(b, "processor") == Some(cpu.to_string()))?;
    field(own, "cpu MHz")?.parse().ok().filter(|mhz| *mhz > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_a_part_of_that_of_its_cpu() {
        let of = |text: &str, full| of_clock(text, Cpu(1), full);
        assert_eq!(of("1200MHz", Some(2_400.0)).unwrap(), Speed::percent(50).unwrap());
        assert_eq!(of("1.2 GHz", Some(2_400.0)).unwrap(), Speed::percent(50).unwrap());
        for (text, full, why) in [
            ("2500MHz", Some(2_400.0), "use at most 100%"),
            ("0MHz", Some(2_400.0), "invalid clock '0MHz'"),
            ("fastMHz", Some(2_400.0), "use the form 1200MHz"),
            ("800MHz@pi4.toml", Some(2_400.0), "use the ratio"),
            ("1200MHz", None, "cannot read the clock of CPU 1"),
        ] {
            let error = of(text, full).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert_eq!(assignment("1-2=75%").unwrap(), "1-2=75%".parse().unwrap());
        assert!(assignment("=800MHz").unwrap_err().contains("names no CPU"));
    }

    #[test]
    fn the_clock_is_the_drivers_or_that_of_now() {
        let dir = tempfile::tempdir().unwrap();
        let cpuinfo = dir.path().join("cpuinfo");
        std::fs::write(&cpuinfo, "processor: 0\ncpu MHz: 100.5\n\nprocessor: 1\ncpu MHz: 200\n")
            .unwrap();
        let clock = |cpu: u16| mhz(dir.path(), &cpuinfo, Cpu(cpu));
        assert_eq!([clock(0), clock(1), clock(2)], [Some(100.5), Some(200.0), None]);
        let driver = dir.path().join("devices/system/cpu/cpu1/cpufreq");
        std::fs::create_dir_all(&driver).unwrap();
        std::fs::write(driver.join("cpuinfo_max_freq"), "3400000\n").unwrap();
        assert_eq!(clock(1), Some(3_400.0));
    }
}
