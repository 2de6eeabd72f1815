//! What commands of a node see of the machine: `/proc/cpuinfo` and the list of online CPUs show the node.
//!
//! Two files hold the text. A command of the node sees them in a mount namespace of its own, in place of the kernel's,
//! so nothing of it is seen or left outside. `nproc` counts CPUs to which the command is bound, so it needs none of this.

use super::{SlowError, Speeds, journalled};
use schedlab_model::{Cpu, CpuSet};
use schedlab_sys::guard::{Guard, Undo};
use std::path::{Path, PathBuf};

const CPUINFO: &str = "/proc/cpuinfo";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The files of one node. The guard removes them.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    cpuinfo: PathBuf,
    online: PathBuf,
}

impl Shown {
    /// Writes the files into the guard's directory.
    pub(super) fn make(
        directory: &Path,
        name: &str,
        speeds: &Speeds,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let at = |file: &str| directory.join(format!("{name}.{file}"));
        let shown = Self { cpuinfo: at("cpuinfo"), online: at("online") };
        for path in [&shown.cpuinfo, &shown.online] {
            journalled(guard, Undo::RemoveFile { path: path.clone() })?;
        }
        let cpus: CpuSet = speeds.keys().copied().collect();
        put(&shown.online, &format!("{cpus}\n"))?;
        shown.set(speeds)?;
        Ok(shown)
    }

    /// Shows other speeds. The files stay, so the one that looks again sees them.
    pub(super) fn set(&self, speeds: &Speeds) -> Result<(), SlowError> {
        let all = std::fs::read_to_string(CPUINFO)
            .map_err(|e| SlowError::io(format!("reading {CPUINFO}"), e))?;
        put(&self.cpuinfo, &of_node(&all, speeds))
    }

    pub(super) fn places(&self) -> Vec<(PathBuf, PathBuf)> {
        vec![(self.cpuinfo.clone(), CPUINFO.into()), (self.online.clone(), ONLINE.into())]
    }
}

fn put(path: &Path, text: &str) -> Result<(), SlowError> {
    // Plain: programs of the node have this file open, in a private folder.
    std::fs::write(path, text).map_err(|e| SlowError::io(format!("writing {}", path.display()), e))
}

pub(super) fn field(block: &str, name: &str) -> Option<String> {
    block.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// The part of `/proc/cpuinfo` that is about a node's CPUs, with their clocks at their speeds. Blocks that are about
/// no CPU (Arm's `Hardware`) stay.
fn of_node(all: &str, speeds: &Speeds) -> String {
    let blocks = all.split("\n\n").filter(|block| !block.trim().is_empty());
    let shown = blocks.filter_map(|block| {
        let Some(number) = field(block, "processor").and_then(|number| number.parse().ok()) else {
            return Some(block.trim_end().to_owned());
        };
        let speed = speeds.get(&Cpu(number))?;
        let lines: Vec<String> = block
            .trim_end()
            .lines()
            .map(|line| match line.split_once(':') {
                Some((key, value)) if matches!(key.trim(), "cpu MHz" | "BogoMIPS" | "bogomips") => {
                    let value = value.trim().parse::<f64>().ok();
                    let slowed =
                        value.map(|value| format!("{key}: {:.3}", value * speed.fraction()));
                    slowed.unwrap_or_else(|| line.to_owned())
                }
                _ => line.to_owned(),
            })
            .collect();
        Some(lines.join("\n"))
    });
    shown.map(|block| block + "\n\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_nodes_cpus_are_shown_with_their_clocks_at_their_speeds() {
        let block = |cpu: u32| {
            format!(
                "processor\t: {cpu}\nmodel name\t: X\ncpu MHz\t\t: 2000.000\nbogomips\t: 4000.00\n\n"
            )
        };
        let all = (0..3).map(block).collect::<String>() + "Hardware\t: board\n\n";
        let speeds = Speeds::from([(Cpu(1), "30%".parse().unwrap())]);
        assert_eq!(
            of_node(&all, &speeds),
            "processor\t: 1\nmodel name\t: X\ncpu MHz\t\t: 600.000\nbogomips\t: 1200.000\n\n\
             Hardware\t: board\n\n"
        );
    }
}
