//! Files of the kernel that take values: control groups, sysfs, procfs, tracefs, resctrl.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a value. Never makes a file: where the kernel lacks it, that is the error, and not a missing right.
///
/// # Errors
/// The file is not there, or the kernel refuses the value.
pub fn write(path: impl AsRef<Path>, value: impl AsRef<[u8]>) -> io::Result<()> {
    File::options().write(true).truncate(true).open(path)?.write_all(value.as_ref())
}
