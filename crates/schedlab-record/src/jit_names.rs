//! Names of functions that a compiler made while its program ran: the file `/tmp/perf-PID.map` of the process, which JIT
//! compilers write for perf.
//!
//! Anybody can put such a file there. So it counts only if its owner is the user of the process, or this one. A file that
//! was made after a recording belongs to another process with the same number.

use schedlab_model::Pid;
use schedlab_sys::{process, regular_file};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Functions by process.
#[derive(Debug, Default)]
pub(crate) struct JitNames {
    known: BTreeMap<Pid, Functions>,
}

/// Functions by their begin, in the order of the file: code moves, and the later line counts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Functions {
    /// Begin, end, line, name.
    all: Vec<(u64, u64, usize, String)>,
}

impl JitNames {
    /// The function of a process that holds an address; `recorded`: when its recording was over, if it is.
    pub(crate) fn name(
        &mut self,
        pid: Pid,
        address: u64,
        recorded: Option<SystemTime>,
    ) -> Option<String> {
        let functions =
            self.known.entry(pid).or_insert_with(|| read(pid, recorded).unwrap_or_default());
        functions.name(address).map(str::to_owned)
    }
}

/// Functions before an address that may hold it.
const LOOKED_AT: usize = 64;

impl Functions {
    fn parse(text: &[u8]) -> Self {
        let mut all = Vec::new();
        for (number, line) in String::from_utf8_lossy(text).lines().enumerate() {
            let mut words = line.splitn(3, ' ');
            let mut hex = || {
                let word = words.next()?;
                u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
            };
            let (Some(start), Some(size)) = (hex(), hex()) else { continue };
            let Some(name) = words.next().map(str::trim).filter(|name| !name.is_empty()) else {
                continue;
            };
            all.push((start, start.saturating_add(size), number, name.to_owned()));
        }
        all.sort_unstable();
        Self { all }
    }

    fn name(&self, address: u64) -> Option<&str> {
        let behind = self.all.partition_point(|of| of.0 <= address);
        let before = self.all[..behind].iter().rev().take(LOOKED_AT);
        let newest = before.filter(|of| address < of.1).max_by_key(|of| of.2);
        newest.map(|of| of.3.as_str())
    }
}

/// Reads the file of a process.
fn read(pid: Pid, recorded: Option<SystemTime>) -> Option<Functions> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let user = field("Uid:").and_then(|ids| ids.split_ascii_whitespace().next()?.parse().ok());
    let mut places = vec![PathBuf::from(format!("/tmp/perf-{pid}.map"))];
    // In a container the process has another number.
    if let Some(inner) = field("NSpid:").and_then(|ids| ids.split_ascii_whitespace().last()) {
        places.push(PathBuf::from(format!("/proc/{pid}/root/tmp/perf-{inner}.map")));
    }
    places.iter().find_map(|place| read_if_owned(place, user, recorded))
}

fn read_if_owned(
    path: &Path,
    user: Option<u32>,
    recorded: Option<SystemTime>,
) -> Option<Functions> {
    let file: File = regular_file::open(path).ok()?;
    let data = file.metadata().ok()?;
    let is_ours = data.uid() == process::user() || Some(data.uid()) == user;
    if !is_ours || data.len() > regular_file::TEXT_MAX {
        return None;
    }
    // The program goes on writing after a recording, but began before.
    let begun = data.created().or_else(|_| data.modified()).ok()?;
    if recorded.is_some_and(|recorded| begun > recorded) {
        return None;
    }
    let mut text = Vec::new();
    file.take(regular_file::TEXT_MAX).read_to_end(&mut text).ok()?;
    Some(Functions::parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_function_that_holds_an_address_names_it() {
        let text = b"1000 100 old one\n0x1080 20 LazyCompile:~f /a b.js:1\n1000 40 new\nx 1 y\n2000 10 \n2000";
        let functions = Functions::parse(text);
        let name = |address| functions.name(address);
        assert_eq!(name(0x1000), Some("new"));
        assert_eq!(name(0x103f), Some("new"));
        assert_eq!(name(0x1040), Some("old one"));
        assert_eq!(name(0x1090), Some("LazyCompile:~f /a b.js:1"));
        assert_eq!([name(0xfff), name(0x1100), name(0x2000)], [None; 3]);
    }

    #[test]
    fn a_file_of_another_user_names_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf-7.map");
        std::fs::write(&path, "1000 10 mine\n").unwrap();
        let owner = std::fs::metadata(&path).unwrap().uid();
        assert!(read_if_owned(&path, None, None).is_some(), "it is ours");
        let long_ago = Some(SystemTime::UNIX_EPOCH);
        assert_eq!(read_if_owned(&path, None, long_ago), None, "it was made after the recording");
        if !process::is_root() {
            return;
        }
        let other = owner + 12_345;
        std::os::unix::fs::chown(&path, Some(other), None).unwrap();
        assert_eq!(read_if_owned(&path, None, None), None);
        assert_eq!(read_if_owned(&path, Some(other + 1), None), None);
        assert!(read_if_owned(&path, Some(other), None).is_some(), "it is the process's user's");
    }
}
