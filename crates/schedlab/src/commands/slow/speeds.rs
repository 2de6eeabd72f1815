//! Speeds as the command line and files of nodes take them. This machine is measured if that is needed, which is said.

use super::{note, told};
use schedlab_host::slow::{Asked, Assignment, Profile, Speed};
use schedlab_model::{Cpu, CpuSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

/// The same in parts of full speed.
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
    let settled =
        asked.settle(cpu, &|path: &Path| schedlab_sys::regular_file::text(path)).map_err(told)?;
    settled.said.iter().for_each(|text| note(text));
    Ok(settled.speed)
}

/// Speeds of a file, each compared once.
#[derive(Default)]
pub(super) struct InFile(BTreeMap<(String, Cpu), Speed>);

impl InFile {
    /// The part of the full speed of a CPU; profiles lie beside the file.
    pub(super) fn settle(&mut self, text: &str, cpu: Cpu, folder: &Path) -> Result<Speed, String> {
        let key = (text.to_owned(), cpu);
        if let Some(speed) = self.0.get(&key) {
            return Ok(*speed);
        }
        let beside = |path: PathBuf| folder.join(path);
        let asked = match text.parse()? {
            Asked::Like(path) => Asked::Like(beside(path)),
            Asked::Clock(clock, path) => Asked::Clock(clock, path.map(beside)),
            part @ Asked::Part(_) => part,
        };
        let speed = part(&asked, cpu).map_err(|error| error.to_string())?;
        self.0.insert(key, speed);
        Ok(speed)
    }
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
    fn cpus_may_have_a_speed_that_must_be_measured() {
        let asking: Asking = "1-2=800MHz".parse().unwrap();
        assert_eq!((asking.cpus.len(), asking.speed), (2, Asked::Clock(800.0, None)));
        assert!("=800MHz".parse::<Asking>().is_err());
    }

    #[test]
    fn a_profile_lies_beside_the_file_that_names_it() {
        let error = InFile::default().settle("like:no.toml", Cpu(0), Path::new("/some/where"));
        assert!(error.unwrap_err().contains("/some/where/no.toml"));
    }
}
