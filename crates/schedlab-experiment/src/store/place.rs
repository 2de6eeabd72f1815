//! Where a run was done: two runs of one spec are repeats of each other only at one place.

use crate::{Hosts, Planned, Point, StoredRun};
use schedlab_model::{Fact, MachineFacts};
use schedlab_workload::{Machine, WorkloadSpec};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The version of the measuring code. It is raised when a run of the same load would give another figure
/// than before: such runs are never mixed. Versions of schedlab with the same number may be.
pub(crate) const MEASURING: u32 = 1;

/// The names of the fields of [`Place`], as axes in points.
const AXES: [&str; 7] =
    ["host", "kernel", "command_line", "sched_ext", "hypervisor", "program", "measuring"];

/// The axes in which hosts differ, independent of what is measured.
const OF_HOSTS: [&str; 4] = ["host", "kernel", "command_line", "hypervisor"];

/// What besides the spec must be the same in repeats. Values that could not be read are empty.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    schemars::JsonSchema,
    Serialize,
    Deserialize,
)]
pub struct Place {
    /// The name of the host.
    pub host: String,
    /// Release of the kernel, and its build id; the text of `uname -v` where the build id is not known.
    pub(crate) kernel: (String, String),
    /// The kernel's command line at boot.
    pub(crate) command_line: String,
    /// The sched_ext scheduler before the run's own hooks.
    pub(crate) sched_ext: String,
    /// The hypervisor with its parameters.
    pub(crate) hypervisor: String,
    /// SHA-256 of the measured programs, in hex; empty for a workload of schedlab's own.
    pub(crate) program: String,
    /// [`MEASURING`]; 0 in runs of versions that did not store it.
    pub(crate) measuring: u32,
}

impl Place {
    /// The place of a run on a machine with these facts, without the program.
    #[must_use]
    pub fn of(facts: &MachineFacts) -> Self {
        let known = |fact: &Fact<String>| fact.known().cloned().unwrap_or_default();
        let kernel = &facts.kernel;
        let build = kernel.build_id.known().unwrap_or(&kernel.version);
        Self {
            host: facts.host.clone(),
            kernel: (kernel.release.clone(), build.clone()),
            command_line: known(&kernel.command_line).trim().to_owned(),
            sched_ext: known(&kernel.sched_ext),
            hypervisor: without_init(&known(&facts.hypervisor)),
            program: String::new(),
            measuring: MEASURING,
        }
    }

    /// The name of the folder of a run here: the run's id and a hash of the place.
    pub(crate) fn folder(&self, run: &Planned) -> String {
        let text = serde_json::to_string(self).expect("places are plain values");
        let digest = Sha256::digest(text.as_bytes());
        let hex: Vec<String> = digest.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}", run.id, hex.concat())
    }

    /// Whether both are the same host and kernel; the measured programs may differ.
    #[must_use]
    pub fn is_near(&self, other: &Self) -> bool {
        Self { program: String::new(), ..self.clone() }
            == Self { program: String::new(), ..other.clone() }
    }

    /// The host alone, without the scheduler and the program that were measured on it.
    #[must_use]
    pub fn host(&self) -> Self {
        Self { program: String::new(), sched_ext: String::new(), measuring: 0, ..self.clone() }
    }

    /// The first field that differs, in words; `None` if both are the same.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        let both = AXES.iter().zip(self.values().into_iter().zip(now.values()));
        let apart = both.filter(|(_, (was, is))| was != is);
        apart.map(|(name, (was, is))| format!("its {name} was '{was}' and is '{is}'")).next()
    }

    /// Whether some field has the text in it.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        let (_, build) = &self.kernel;
        self.values().iter().any(|value| value.contains(text)) || build.contains(text)
    }

    /// The values of its fields, as [`AXES`] names them.
    fn values(&self) -> [String; 7] {
        let (release, build) = &self.kernel;
        // A build id is shown by its first digits, a build's text whole.
        let is_id = build.len() >= 16 && build.bytes().all(|b| b.is_ascii_hexdigit());
        let build = if is_id { &build[..8] } else { build };
        [
            self.host.clone(),
            format!("{release} {build}").trim().to_owned(),
            self.command_line.clone(),
            self.sched_ext.clone(),
            self.hypervisor.clone(),
            self.program.get(..8).unwrap_or_default().to_owned(),
            self.measuring.to_string(),
        ]
    }
}

/// The text of a hypervisor without the hash of schedlab as the guest's init: it counts only where
/// instructions are time.
fn without_init(text: &str) -> String {
    if text.contains(" -icount ") {
        return text.to_owned();
    }
    let parts: Vec<&str> = text.split("; ").filter(|part| !part.starts_with("init ")).collect();
    parts.join("; ")
}

/// The places of runs. Each machine is looked at once, and each program read once as long as it does not
/// change.
#[derive(Debug, Default)]
pub(crate) struct Places {
    machines: BTreeMap<String, Place>,
    programs: BTreeMap<(PathBuf, SystemTime, u64), String>,
}

impl Places {
    /// Where a run is done on its machine.
    pub(crate) fn of(&mut self, machine: &dyn Machine, run: &Planned) -> Place {
        let name = run.machine.to_string();
        let here = self.machines.entry(name).or_insert_with(|| Place::of(&machine.facts())).clone();
        Place { program: self.program(run), ..here }
    }

    /// The hash of the programs that a run measures; empty where it measures none or none is found.
    fn program(&mut self, run: &Planned) -> String {
        let beside = run.spec.beside.iter().map(|beside| &beside.workload);
        let all = std::iter::once(&run.spec.workload).chain(beside);
        let commands = all.filter_map(|workload| match workload {
            WorkloadSpec::Command { argv } => argv.first(),
            WorkloadSpec::Builtin { .. } => None,
        });
        let hashes: Vec<String> =
            commands.filter_map(|program| self.hash(&found(program)?)).collect();
        hashes.join("+")
    }

    fn hash(&mut self, path: &Path) -> Option<String> {
        let meta = path.metadata().ok()?;
        let key = (path.to_owned(), meta.modified().ok()?, meta.len());
        if let Some(hash) = self.programs.get(&key) {
            return Some(hash.clone());
        }
        let mut file = schedlab_sys::regular_file::open(path).ok()?;
        let mut hasher = Sha256::new();
        let mut part = vec![0; 1 << 16];
        loop {
            match file.read(&mut part).ok()? {
                0 => break,
                read => hasher.update(&part[..read]),
            }
        }
        let hex: Vec<String> = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        self.programs.insert(key, hex.concat());
        Some(hex.concat())
    }
}

/// The file of a program, as a shell finds it.
fn found(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Adds what the places of runs differ in to their points, so that each place is a column of its own.
/// Places that an axis of machines already tells apart add nothing, nor do hosts that are blocks, if each
/// block is of one host. Returns the names of the axes that were added.
pub(crate) fn name_places(runs: &mut [StoredRun], hosts: Hosts) -> Vec<&'static str> {
    let mut seen: BTreeMap<(&str, usize), BTreeSet<String>> = BTreeMap::new();
    for run in runs.iter() {
        for (axis, value) in run.manifest.place.values().into_iter().enumerate() {
            seen.entry((&run.manifest.machine, axis)).or_default().insert(value);
        }
    }
    let differs = |axis: usize| seen.iter().any(|((_, a), values)| *a == axis && values.len() > 1);
    let mut differing: Vec<usize> = (0..AXES.len()).filter(|axis| differs(*axis)).collect();
    // One kernel and its command line come and go together; the kernel's name says enough.
    if differing.contains(&1) {
        differing.retain(|axis| *axis != 2 || !has_one_line_each(runs));
    }
    if hosts == Hosts::Blocks && is_each_block_of_one_host(runs) {
        differing.retain(|axis| !OF_HOSTS.contains(&AXES[*axis]));
    }
    for run in runs.iter_mut() {
        let values = run.manifest.place.values();
        for axis in &differing {
            run.manifest.point.insert(AXES[*axis].to_owned(), values[*axis].clone());
        }
    }
    differing.into_iter().map(|axis| AXES[axis]).collect()
}

/// Whether the runs of each block, on each machine of the experiment, were done on one host.
fn is_each_block_of_one_host(runs: &[StoredRun]) -> bool {
    let mut hosts: BTreeMap<(u32, &str), BTreeSet<Place>> = BTreeMap::new();
    for run in runs {
        let block = (run.manifest.block, run.manifest.machine.as_str());
        hosts.entry(block).or_default().insert(run.manifest.place.host());
    }
    hosts.values().all(|places| places.len() == 1)
}

/// The part of a point that [`name_places`] added.
pub(crate) fn place_axes(point: &Point) -> Point {
    let is_place = |(name, _): &(&String, &String)| AXES.contains(&name.as_str());
    point.iter().filter(is_place).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether each kernel had one command line.
fn has_one_line_each(runs: &[StoredRun]) -> bool {
    let mut lines: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for place in runs.iter().map(|run| &run.manifest.place) {
        let Place { kernel, command_line, .. } = place;
        lines.entry(kernel.clone()).or_default().insert(command_line.clone());
    }
    lines.values().all(|lines| lines.len() == 1)
}

/// Which versions of schedlab did the runs, in a sentence; empty where one did all.
#[must_use]
pub fn mixed_versions(runs: &[StoredRun]) -> String {
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *versions.entry(&run.manifest.facts.schedlab).or_default() += 1;
    }
    if versions.len() < 2 {
        return String::new();
    }
    let told: Vec<String> =
        versions.iter().map(|(version, count)| format!("{version} ({count} runs)")).collect();
    format!(
        "Several versions of schedlab did these runs: {}. Their measuring code is the same.",
        told.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_program_has_another_hash_and_an_unchanged_one_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut places = Places::default();
        std::fs::write(&path, "one").unwrap();
        let first = places.hash(&path).unwrap();
        assert_eq!(places.hash(&path).unwrap(), first);
        assert_eq!(places.programs.len(), 1);
        std::fs::write(&path, "another").unwrap();
        assert_ne!(places.hash(&path).unwrap(), first);
        assert_eq!(places.hash(&folder.path().join("none")), None);
    }

    #[test]
    fn schedlab_as_init_counts_only_where_instructions_are_time() {
        let kvm = "QEMU 7.2; -accel kvm; init sha256 1; domains";
        assert_eq!(without_init(kvm), "QEMU 7.2; -accel kvm; domains");
        let counted = "QEMU 7.2; -icount shift=0 -m 1; init sha256 1";
        assert_eq!(without_init(counted), counted);
    }
}
