//! Files of the kernel that take values: control groups, sysfs, procfs, tracefs, resctrl.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

/// Writes a value. Never makes a file: where the kernel lacks it, that is the error, and not a missing right.
///
/// # Errors
/// The file is not there, or the kernel refuses the value.
pub fn write(path: impl AsRef<Path>, value: impl AsRef<[u8]>) -> io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(value.as_ref())
}

/// The text of a short file, with a single `read`: the kernel makes all of it at once, and a second one would make it
/// again. Longer ones than a page are read on.
///
/// # Errors
/// The file is not there, may not be read, or holds no text.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; 4096];
    let length = file.read(&mut bytes)?;
    bytes.truncate(length);
    // Of a longer list the kernel gives as many whole lines as fit.
    if length > 2048 {
        file.read_to_end(&mut bytes)?;
    }
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_long_list_of_the_kernel_is_read_to_its_end() {
        for file in ["/proc/kallsyms", "/proc/self/limits", "/proc/self/cgroup"] {
            let whole = std::fs::read_to_string(file).ok();
            assert_eq!(super::read(file).ok(), whole, "{file}");
        }
    }
}
