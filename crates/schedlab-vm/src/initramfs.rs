//! The guest's first and only file system: this program as init, with the libraries that it has loaded.
//!
//! A static program comes alone. One that is linked dynamically brings its loader and libraries, found
//! in its own memory map, so any build can be a guest. Sections for debuggers are left out: they are
//! most of a development build.

use crate::VmError;
use crate::cpio::Archive;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 6] = ["dev", "proc", "sys", "tmp", "run", "boot"];

/// Packs init with its libraries: what is the same for every kernel.
pub(crate) fn init(program: &Path) -> Result<Vec<u8>, VmError> {
    let mut archive = Archive::default();
    FOLDERS.iter().for_each(|folder| archive.folder(folder));
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    let mut made: BTreeSet<PathBuf> = FOLDERS.iter().map(|f| Path::new("/").join(f)).collect();
    let read = |path: &Path| {
        std::fs::read(path).map_err(VmError::io(format!("reading {}", path.display())))
    };
    let init = read(program)?;
    archive.file("init", &loaded(init.clone()));
    let mut libraries = libraries()?;
    // What is mapped is what a link at the loader's path leads to.
    libraries.extend(loader(&init));
    for library in libraries {
        folders_above(&library, &mut made, &mut archive);
        archive.file(&library.to_string_lossy(), &loaded(read(&library)?));
    }
    Ok(archive.finish())
}

/// An archive that goes behind that of init: the kernel's configuration, where programs look for it.
/// A kernel unpacks archives one after the other.
pub(crate) fn config(config: &str, release: &str) -> Vec<u8> {
    let mut archive = Archive::default();
    archive.file(&format!("boot/config-{release}"), config.as_bytes());
    archive.finish()
}

fn folders_above(path: &Path, made: &mut BTreeSet<PathBuf>, archive: &mut Archive) {
    let above: Vec<&Path> = path.ancestors().skip(1).filter(|p| *p != Path::new("/")).collect();
    for folder in above.into_iter().rev() {
        if made.insert(folder.to_owned()) {
            archive.folder(&folder.to_string_lossy());
        }
    }
}

/// Paths under which the libraries of this program must be there.
fn libraries() -> Result<BTreeSet<PathBuf>, VmError> {
    let maps = std::fs::read_to_string("/proc/self/maps")
        .map_err(VmError::io("reading /proc/self/maps"))?;
    let mapped = maps.lines().filter_map(|line| line.split_once('/').map(|(_, path)| path));
    let all = mapped.map(|path| Path::new("/").join(path));
    Ok(all.filter(|path| is_library(path)).collect())
}

fn is_library(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"))
}

/// Type of the segment that holds the path of a program's loader (`PT_INTERP`).
const LOADER: usize = 3;

/// The segments of an ELF-64 file: type, first byte, length (System V ABI, "Program Header").
fn segments(file: &[u8]) -> Option<Vec<(usize, usize, usize)>> {
    let number = |at: usize, bytes: usize| -> Option<usize> {
        let bytes = file.get(at..at.checked_add(bytes)?)?;
        let push = |all: usize, &byte: &u8| all.checked_mul(256)?.checked_add(byte.into());
        bytes.iter().rev().try_fold(0, push)
    };
    if file.get(..6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let table = number(32, 8)?;
    let size = number(54, 2)?;
    let count = number(56, 2)?;
    let segment = |index: usize| {
        let at = table.checked_add(index * size)?;
        Some((number(at, 4)?, number(at.checked_add(8)?, 8)?, number(at.checked_add(32)?, 8)?))
    };
    (0..count).map(segment).collect()
}

/// The loader that a dynamic program asks for.
fn loader(file: &[u8]) -> Option<PathBuf> {
    let (_, first, length) = segments(file)?.into_iter().find(|(kind, ..)| *kind == LOADER)?;
    let path = file.get(first..first.checked_add(length)?)?;
    Some(PathBuf::from(String::from_utf8_lossy(path).trim_end_matches('\0')))
}

/// The part of an ELF file that is loaded into memory; the table of its sections is taken out, since
/// it lies behind. Anything else is left as it is.
fn loaded(mut file: Vec<u8>) -> Vec<u8> {
    let ends = segments(&file).unwrap_or_default().into_iter();
    let end = ends.map(|(_, first, length)| first.saturating_add(length)).max();
    if let Some(end) = end.filter(|&end| end <= file.len() && end >= 64) {
        file.truncate(end);
        // e_shoff, e_shnum, e_shstrndx
        file[40..48].fill(0);
        file[60..64].fill(0);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_its_sections_still_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("true");
        let whole = std::fs::read("/bin/true").unwrap();
        let part = loaded(whole.clone());
        assert!(part.len() < whole.len() && part.len() > 64);
        std::fs::write(&path, part).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).unwrap();
        assert!(std::process::Command::new(&path).status().unwrap().success());
        assert_eq!(loaded(b"#!/bin/sh".to_vec()), b"#!/bin/sh");
        assert_eq!(loaded(b"\x7fELF\x02\x01".to_vec()), b"\x7fELF\x02\x01");
    }

    #[test]
    fn a_dynamic_program_brings_its_loader_and_libraries() {
        let all = libraries().unwrap();
        let has = |name: &str| all.iter().any(|path| path.to_string_lossy().contains(name));
        // A static test program has none.
        assert!(all.is_empty() || has("libc.so"), "{all:?}");
        let loader = loader(&std::fs::read("/bin/true").unwrap()).unwrap();
        assert!(loader.starts_with("/lib64"), "{}", loader.display());
    }

    #[test]
    fn the_archive_is_the_same_each_time() {
        let pack = || init(Path::new("/bin/true")).unwrap();
        assert!(pack() == pack());
        // Another one begins right behind it.
        assert_eq!(pack().len() % 4, 0);
        assert_ne!(config("CONFIG_HZ=250\n", "6.1"), config("CONFIG_HZ=1000\n", "6.1"));
    }
}
