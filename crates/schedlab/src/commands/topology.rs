//! Where a picture's topology comes from: the trace, a file that somebody names, or this machine
//! when it is asked for; never guessed.

use anyhow::{Context, bail};
use schedlab_model::{Cpu, Place, Topology};
use std::collections::BTreeMap;
use std::path::Path;

/// Reads `from`: `host` for this machine, a directory with a copy of sysfs, or a file with the output
/// of `lscpu -p`.
pub(crate) fn read(from: &str) -> anyhow::Result<Topology> {
    let path = Path::new(from);
    if from == "host" {
        return Ok(schedlab_sys::topology::read(Path::new("/sys"))?);
    }
    if path.is_dir() {
        return Ok(schedlab_sys::topology::read(path)?);
    }
    let text = schedlab_sys::regular_file::text(path).with_context(|| {
        format!("topology {from}: write 'host', a copy of /sys, or a file made by 'lscpu -p'")
    })?;
    lscpu(&text).with_context(|| format!("topology {from}"))
}

/// The output of `lscpu -p`: a comment names the columns, a line for each CPU. Caches come last, the
/// last-level cache at the very end.
fn lscpu(text: &str) -> anyhow::Result<Topology> {
    let header = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .find(|line| line.trim_start_matches(['#', ' ']).starts_with("CPU,"));
    let header = header.unwrap_or("# CPU,Core,Socket,Node");
    let columns: Vec<&str> = header.trim_start_matches(['#', ' ']).split(',').collect();
    let column = |name: &str| columns.iter().position(|column| column.eq_ignore_ascii_case(name));
    let cache = columns.iter().rposition(|column| column.starts_with('L'));
    let mut places = Vec::new();
    let mut cores: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.starts_with('#')) {
        if text.trim().is_empty() {
            continue;
        }
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        let number = |column: Option<usize>| {
            column.and_then(|column| fields.get(column)?.parse::<u32>().ok())
        };
        let cpu = number(Some(0)).and_then(|cpu| u16::try_from(cpu).ok());
        let Some(cpu) = cpu else {
            bail!("line {}: invalid line '{text}': use the output of 'lscpu -p'", line + 1)
        };
        let socket = number(column("Socket")).unwrap_or(0);
        // A core's number is its own only within its socket on some machines.
        let core = number(column("Core")).unwrap_or(u32::from(cpu));
        let next = u32::try_from(cores.len()).unwrap_or(u32::MAX);
        let core = *cores.entry((socket, core)).or_insert(next);
        let node = number(column("Node")).unwrap_or(socket);
        places.push(Place {
            cpu: Cpu(cpu),
            core,
            llc: number(cache).unwrap_or(socket),
            node,
            socket,
        });
    }
    if places.is_empty() {
        bail!("it names no CPU: is this 'lscpu -p'?");
    }
    Ok(Topology::new(places))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lscpu_tells_sockets_caches_and_siblings() {
        let text = "# The following is the parsable format\n# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n\
                    0,0,0,0,,0,0,0,0\n1,1,1,1,,1,1,1,1\n2,0,0,0,,0,0,0,0\n3,1,1,1,,1,1,1,1\n";
        let topology = lscpu(text).unwrap();
        let order: Vec<u16> = topology.socket_order().iter().map(|cpu| cpu.0).collect();
        assert_eq!(order, [0, 2, 1, 3]);
        assert_eq!(topology.place(Cpu(3)).map(|place| place.llc), Some(1));
    }

    #[test]
    fn what_is_no_list_of_cpus_is_refused() {
        assert!(lscpu("hello\n").is_err());
        assert!(lscpu("# CPU,Core\n").is_err());
        assert!(lscpu("70000,0\n").is_err());
    }
}
