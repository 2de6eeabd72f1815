//! A kernel to boot: its image and, where it can be found, its configuration.
//!
//! It is given by path, or as `debian-6.1`: a package that is fetched into the cache and unpacked there
//! without being installed, or `boot`: the one that this machine would boot.

pub(crate) mod debian;
mod offers;

pub use debian::NAMES as DEBIAN;
pub use offers::offers;

use crate::VmError;
use crate::cache;
use schedlab_sys::regular_file;
use std::path::{Path, PathBuf};

/// A kernel that QEMU can boot.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Its image: a bzImage, or a vmlinux that boots by PVH.
    pub image: PathBuf,
    /// `uname -r`, or the file's name where the image does not say.
    pub release: String,
    /// Its configuration, where it lies beside the image.
    pub(crate) config: Option<String>,
}

impl Kernel {
    /// Finds a kernel by its path, or as `debian-VERSION`, which may have to be fetched.
    ///
    /// # Errors
    /// When the file is missing or is no kernel, or the package cannot be had.
    pub fn find(name: &str) -> Result<Self, VmError> {
        if let Some(version) = name.strip_prefix("debian-") {
            return Self::at(&debian::fetch(version)?);
        }
        let path = Path::new(name);
        if path.is_file() {
            return Self::at(path);
        }
        let built = cache::built(name);
        if built.is_file() {
            cache::check(&built)?;
            return Self::at(&built);
        }
        Err(VmError::Setting {
            key: "kernel".to_owned(),
            value: name.to_owned(),
            why: "the file does not exist: `schedlab vm kernels` lists kernels".to_owned(),
        })
    }

    /// Whether a kernel of this name was built into the cache.
    #[must_use]
    pub fn is_built(name: &str) -> bool {
        cache::built(name).is_file()
    }

    /// The kernels in `/boot`, and those in the cache.
    #[must_use]
    pub fn here() -> Vec<Self> {
        let boot = cache::files(Path::new("/boot"), |name| {
            name.starts_with("vmlinuz-") || name.starts_with("vmlinux-")
        });
        let paths = boot.into_iter().chain(cache::kernels());
        paths.filter_map(|path| Self::at(&path).ok()).collect()
    }

    /// The name by which [`Kernel::find`] finds it: its folder's in the cache, else its path.
    #[must_use]
    pub fn name(&self) -> String {
        match self
            .image
            .strip_prefix(cache::kernels_folder())
            .ok()
            .and_then(|rest| rest.iter().next())
        {
            Some(name) => name.to_string_lossy().into_owned(),
            None => self.image.display().to_string(),
        }
    }

    fn at(path: &Path) -> Result<Self, VmError> {
        let image = std::fs::canonicalize(path)
            .map_err(VmError::io(format!("finding {}", path.display())))?;
        let bytes = regular_file::read(&image, regular_file::PROGRAM_MAX)
            .map_err(VmError::io(format!("reading {}", image.display())))?;
        let name = image.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let release = match (release(&bytes), bytes.starts_with(b"\x7fELF")) {
            (Some(release), _) => release,
            (None, true) => {
                banner(&bytes).unwrap_or_else(|| name.trim_start_matches("vmlinux-").to_owned())
            }
            (None, false) => {
                return Err(VmError::Setting {
                    key: "kernel".to_owned(),
                    value: path.display().to_string(),
                    why: "unknown format: use a bzImage or a vmlinux".to_owned(),
                });
            }
        };
        let beside = [format!("config-{release}"), ".config".to_owned(), "config".to_owned()];
        let config = beside
            .iter()
            .map(|name| image.with_file_name(name))
            .find_map(|path| std::fs::read_to_string(path).ok());
        Ok(Self { image, release, config })
    }
}

/// The release that the banner of an uncompressed kernel names: `Linux version 6.1.192 (...)`.
fn banner(image: &[u8]) -> Option<String> {
    const START: &[u8] = b"Linux version ";
    let mut rest = image;
    loop {
        let at = rest.windows(START.len()).position(|window| window == START)?;
        rest = &rest[at + START.len()..];
        // A format has a % there.
        if rest.first().is_some_and(u8::is_ascii_digit) {
            let word = rest.split(|&byte| byte == b' ' || byte == 0).next()?;
            return Some(String::from_utf8_lossy(word).into_owned());
        }
    }
}

/// The release that a bzImage names (Documentation/arch/x86/boot.rst: `kernel_version`).
fn release(image: &[u8]) -> Option<String> {
    if image.get(0x202..0x206)? != b"HdrS" {
        return None;
    }
    let at = usize::from(u16::from_le_bytes([*image.get(0x20e)?, *image.get(0x20f)?])) + 0x200;
    let text = image.get(at..)?.split(|&byte| byte == 0).next()?;
    let word = text.split(|&byte| byte == b' ').next()?;
    Some(String::from_utf8_lossy(word).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncompressed_kernel_names_its_release_in_its_banner() {
        let image =
            b"\x7fELF..Linux version %s (%s)\0..Linux version 6.1.192 (schedlab@vm) (gcc)\0";
        assert_eq!(banner(image), Some("6.1.192".to_owned()));
        assert_eq!(banner(b"\x7fELF Linux version %s"), None);
    }
}
