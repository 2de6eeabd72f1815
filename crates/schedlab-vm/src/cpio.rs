//! Archives that a kernel unpacks as its first file system: cpio in the "newc" format
//! (Documentation/driver-api/early-userspace/buffer-format.rst of the kernel).
//!
//! Times, owners and inode numbers are fixed, so the same content gives the same bytes.

const FOLDER: u32 = 0o040_755;
const CHARACTER_DEVICE: u32 = 0o020_600;
const PROGRAM: u32 = 0o100_755;

/// An archive being written.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

/// The numbers of a device file.
#[derive(Clone, Copy)]
struct Device {
    major: u32,
    minor: u32,
}

impl Device {
    const NONE: Self = Self { major: 0, minor: 0 };
}

impl Archive {
    /// A folder; folders above it must be there.
    pub(crate) fn folder(&mut self, path: &str) {
        self.entry(path, FOLDER, Device::NONE, &[]);
    }

    /// A file that can be executed.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.entry(path, PROGRAM, Device::NONE, content);
    }

    /// Adds a character device.
    pub(crate) fn device(&mut self, path: &str, major: u32, minor: u32) {
        self.entry(path, CHARACTER_DEVICE, Device { major, minor }, &[]);
    }

    /// The bytes of the archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, Device::NONE, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, device: Device, content: &[u8]) {
        self.entries += 1;
        let name = path.trim_start_matches('/');
        let size = u32::try_from(content.len()).expect("a file of an initramfs is below 4 GiB");
        let links = if mode == FOLDER { 2 } else { 1 };
        let length = u32::try_from(name.len() + 1).expect("names are short");
        let fields =
            [self.entries, mode, 0, 0, links, 0, size, 0, 0, device.major, device.minor, length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    /// Names and contents begin at multiples of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn cpio_reads_what_we_write() {
        let mut archive = Archive::default();
        archive.folder("lib");
        archive.file("lib/three", b"abc");
        archive.device("console", 5, 1);
        let bytes = archive.finish();
        let Ok(mut child) = Command::new("cpio")
            .args(["--list", "--verbose", "--quiet"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
        else {
            drop(writeln!(
                std::io::stderr(),
                "MISSING: cpio; not checked: that it lists an archive of ours"
            ));
            return;
        };
        child.stdin.take().unwrap().write_all(&bytes).unwrap();
        let listed = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
        let lines: Vec<&str> = listed.lines().collect();
        assert_eq!(lines.len(), 3, "{listed}");
        assert!(lines[0].starts_with("drwxr-xr-x") && lines[0].ends_with("lib"), "{listed}");
        assert!(lines[1].starts_with("-rwxr-xr-x") && lines[1].contains(" 3 "), "{listed}");
        assert!(lines[2].starts_with("crw") && lines[2].contains("5,   1"), "{listed}");
    }

    #[test]
    fn the_same_content_gives_the_same_bytes_at_multiples_of_four() {
        let write = || {
            let mut archive = Archive::default();
            archive.file("a", b"12345");
            archive.finish()
        };
        assert_eq!(write(), write());
        assert_eq!(write().len() % 4, 0);
        assert_eq!(&write()[..6], b"070701");
    }
}
