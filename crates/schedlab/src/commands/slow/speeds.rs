//! Speeds as the command line takes them: `30%`, `1200MHz`, `like:pi4.toml`, `800MHz@pi4.toml`.

use super::note;
use crate::commands::UsageError;
use schedlab_host::slow::{Assignment, Likeness, Profile, Speed, mhz};
use schedlab_model::{Cpu, CpuSet};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A speed as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Asked {
    /// A part of full speed.
    Part(Speed),
    /// A clock of this machine, or of the machine of a profile.
    Clock(f64, Option<PathBuf>),
    /// That of the machine of a profile.
    Like(PathBuf),
}

/// What `--cpu` takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asking {
    pub(super) cpus: CpuSet,
    pub(super) speed: Asked,
}

impl From<Assignment> for Asking {
    fn from(one: Assignment) -> Self {
        Self { cpus: one.cpus, speed: Asked::Part(one.speed) }
    }
}

impl FromStr for Asked {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("like:") {
            return match path {
                "" => Err("like: needs a profile: `schedlab slow machine NAME` writes one".into()),
                path => Ok(Self::Like(path.into())),
            };
        }
        let (clock, of) = match text.split_once('@') {
            Some((clock, path)) => (clock, Some(PathBuf::from(path))),
            None => (text, None),
        };
        let scaled = |unit: &str, scale: f64| {
            let number = clock.strip_suffix(unit)?.trim_end().parse::<f64>().ok()?;
            (number.is_finite() && number > 0.0).then_some(number * scale)
        };
        match scaled("MHz", 1.0).or_else(|| scaled("GHz", 1e3)) {
            Some(clock) => Ok(Self::Clock(clock, of)),
            None if of.is_some() => {
                Err(format!("'{text}' is not a clock of a machine: write it as in 800MHz@pi4.toml"))
            }
            None => Ok(Self::Part(text.parse()?)),
        }
    }
}

impl FromStr for Asking {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((cpus, speed)) => match speed.parse()? {
                // For its own messages.
                Asked::Part(_) => Ok(text.parse::<Assignment>()?.into()),
                speed => {
                    let cpus: CpuSet =
                        cpus.parse().map_err(|e: schedlab_model::CpuListError| e.to_string())?;
                    match cpus.is_empty() {
                        true => Err(format!("'{text}' names no CPU: write it as in 1-3=75%")),
                        false => Ok(Self { cpus, speed }),
                    }
                }
            },
            None => Ok(text.parse::<Assignment>()?.into()),
        }
    }
}

/// The same in parts of full speed. This machine is measured if that is needed, which is said.
pub(super) fn assignments(all: &[Asking]) -> anyhow::Result<Vec<Assignment>> {
    let mut read = Vec::new();
    for Asking { cpus, speed } in all {
        let cpu = cpus.iter().next().unwrap_or_default();
        read.push(Assignment { cpus: cpus.clone(), speed: part(speed, cpu)? });
    }
    Ok(read)
}

/// A speed in parts of the full speed of a CPU.
pub(super) fn part(asked: &Asked, cpu: Cpu) -> anyhow::Result<Speed> {
    let (part, what) = match asked {
        Asked::Part(speed) => return Ok(*speed),
        Asked::Clock(clock, None) => {
            let Some(full) = mhz(Path::new("/sys"), Path::new("/proc/cpuinfo"), cpu) else {
                anyhow::bail!(UsageError(format!(
                    "the clock of CPU {cpu} can't be read here: ask for a part of full speed, as in 50%"
                )));
            };
            (clock / full, format!("{clock} MHz of the {full:.0} MHz of CPU {cpu}"))
        }
        Asked::Clock(clock, Some(path)) => {
            let (profile, likeness) = like(path, cpu)?;
            let Some(full) = profile.mhz else {
                anyhow::bail!(UsageError(format!("{}: it tells no clock (mhz)", path.display())));
            };
            let what = format!("{clock} MHz of the {full:.0} MHz of {}", profile.machine);
            (clock / full * likeness.speed, what)
        }
        Asked::Like(path) => {
            let (profile, likeness) = like(path, cpu)?;
            (likeness.speed, profile.machine)
        }
    };
    let millionths = (part * 1e6).round();
    let speed = (millionths <= 1e6).then(|| Speed::from_millionths(millionths as u32)).flatten();
    let Some(speed) = speed else {
        anyhow::bail!(UsageError(format!(
            "{what} is {:.1} % of full speed here: no CPU can be made faster than it is",
            part * 100.0
        )));
    };
    note(&format!("{what} is {:.1} % of full speed here", part * 100.0));
    Ok(speed)
}

/// A profile, and what its machine is to this one.
pub(super) fn like(path: &Path, cpu: Cpu) -> anyhow::Result<(Profile, Likeness)> {
    let there = |why: String| UsageError(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| {
        there(format!("{error}; `schedlab slow machine NAME > FILE` on that machine writes it"))
    })?;
    let profile: Profile = toml::from_str(&text).map_err(|error| there(error.to_string()))?;
    profile.check().map_err(there)?;
    let here = Profile::measure("here", cpu)?;
    let likeness = profile.beside(&here).map_err(there)?;
    let percent = |part: f64| part * 100.0;
    note(&format!(
        "{} does {:.1} % of the work of CPU {cpu}: integers {:.1} %, branches {:.1} %, memory {:.1} %",
        profile.machine,
        percent(likeness.speed),
        percent(likeness.ratios.integer),
        percent(likeness.ratios.branches),
        percent(likeness.ratios.memory),
    ));
    Ok((profile, likeness))
}

/// A profile as a file.
pub(super) fn written(profile: &Profile) -> String {
    let Profile { machine, mhz, build, work } = profile;
    let clock = mhz.map(|mhz| format!("mhz = {mhz:.1}\n")).unwrap_or_default();
    format!(
        "machine = {machine:?}\n{clock}build = {build:?}\n[work]\ninteger = {:.1}\nbranches = {:.1}\nmemory = {:.1}\n",
        work.integer, work.branches, work.memory
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_host::slow::Rates;

    #[test]
    fn a_profile_is_a_file_that_is_read_back() {
        for mhz in [None, Some(1_500.0)] {
            let work = Rates { integer: 4e8, branches: 1e8, memory: 1e7 };
            let profile = Profile { machine: "pi 4".into(), mhz, build: "release".into(), work };
            assert_eq!(toml::from_str::<Profile>(&written(&profile)).unwrap(), profile);
        }
        assert!(toml::from_str::<Profile>("machine = 1").is_err());
    }

    #[test]
    fn speeds_are_read_by_their_form() {
        let read = |text: &str| text.parse::<Asked>();
        assert_eq!(read("30%").unwrap(), Asked::Part("30%".parse().unwrap()));
        assert_eq!(read("1200MHz").unwrap(), Asked::Clock(1_200.0, None));
        assert_eq!(read("1.2 GHz").unwrap(), Asked::Clock(1_200.0, None));
        let of = Some(PathBuf::from("pi.toml"));
        assert_eq!(read("800MHz@pi.toml").unwrap(), Asked::Clock(800.0, of));
        assert_eq!(read("like:pi.toml").unwrap(), Asked::Like("pi.toml".into()));
        for (text, why) in [
            ("like:", "needs a profile"),
            ("30%@pi.toml", "as in 800MHz@pi4.toml"),
            ("0MHz", "is no speed"),
            ("30", "did you mean 30%"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let asking: Asking = "1-2=800MHz".parse().unwrap();
        assert_eq!((asking.cpus.len(), asking.speed), (2, Asked::Clock(800.0, None)));
        assert!("=800MHz".parse::<Asking>().is_err());
    }
}
