//! Debian's kernels, by the package manager: fetched and unpacked into the cache, never installed.

use crate::VmError;
use crate::apt::{self, Apt};
use crate::cache::{self, Making};
use crate::program::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Versions that are known to be in a suite of Debian, with the suite's name.
pub const NAMES: [(&str, &str); 3] =
    [("5.10", "bullseye"), ("6.1", "bookworm"), ("6.12", "trixie")];

/// The image of `debian-VERSION`, fetched if it is not in the cache.
///
/// # Errors
/// When no suite has it, or there is no package manager, no network or no space.
pub(crate) fn fetch(version: &str) -> Result<PathBuf, VmError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+');
    if version.is_empty()
        || !version.starts_with(|c: char| c.is_ascii_digit())
        || !version.chars().all(fits)
    {
        return Err(missing(version, "invalid version: use the form debian-6.1"));
    }
    let name = format!("debian-{version}");
    if let Some(image) = image(&cache::kernels_folder().join(&name)) {
        cache::check(&image)?;
        return Ok(image);
    }
    let making = Making::begin(&cache::kernels_folder(), &name)?;
    let at = making.path();
    let (apt, package) = find(version, at)?;
    apt.download(&[package], at)?;
    let Some(archive) = cache::files(at, |name| name.ends_with(".deb")).pop() else {
        return Err(missing(version, "apt-get fetched nothing"));
    };
    let unpacked = at.join("unpacked");
    run(Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked), "unpacking the kernel")?;
    let folder = making.finish(&unpacked.join("boot"))?;
    image(&folder).ok_or_else(|| missing(version, "its package does not hold a kernel"))
}

fn image(folder: &Path) -> Option<PathBuf> {
    cache::files(folder, |name| name.starts_with("vmlinuz")).pop()
}

fn missing(version: &str, remedy: &str) -> VmError {
    VmError::Missing { what: format!("kernel debian-{version}"), remedy: remedy.to_owned() }
}

/// A package manager with lists that hold the package, and the package.
fn find(version: &str, scratch: &Path) -> Result<(Apt, String), VmError> {
    let what = format!("kernel debian-{version}");
    apt::search(&what, suite(version), scratch, &|apt| apt.newest_kernel(version))
}

/// The suite that is known to have a version.
fn suite(version: &str) -> Option<&'static str> {
    let is_it = |known: &str| version == known || version.starts_with(&format!("{known}."));
    NAMES.iter().find(|(known, _)| is_it(known)).map(|(_, suite)| *suite)
}

/// Fetches the package `linux-source-VERSION` into a folder.
///
/// # Errors
/// When no suite has it, or there is no package manager, no network or no space.
pub(crate) fn download_source(package: &str, into: &Path) -> Result<(), VmError> {
    let version = package.trim_start_matches("linux-source-");
    let (apt, package) = apt::search(package, suite(version), into, &|apt| apt.exact(package))?;
    apt.download(&[package], into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_version_is_refused_before_anything_is_fetched() {
        for name in ["", "../x", "six", "6.1;true"] {
            let error = fetch(name).unwrap_err().to_string();
            assert!(error.contains("invalid version"), "{error}");
        }
    }
}
