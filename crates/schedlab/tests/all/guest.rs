//! Guests with a kernel of Debian: programs of this machine as their initramfs, a script as their first process, and what
//! their console says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One CPU whose clock counts instructions: nothing else on this machine changes a time.
pub(crate) const ONE: [&str; 10] = [
    "-smp",
    "1",
    "-accel",
    "tcg,thread=single",
    "-icount",
    "shift=0,sleep=off",
    "-rtc",
    "base=2024-01-01T00:00:00,clock=vm",
    "-seed",
    "7",
];
/// Two CPUs, on the machine's own clock.
pub(crate) const TWO: [&str; 4] = ["-smp", "2", "-accel", "tcg,thread=multi"];

/// Where a script begins: what it needs is mounted.
pub(crate) const BEGIN: &str = "#!/bin/sh\nexport PATH=/bin\n\
     mount -t proc none /proc; mount -t sysfs none /sys\n\
     mount -t devtmpfs none /dev; mount -t tmpfs none /tmp; mount -t tmpfs none /run\n\
     mount -t tracefs none /sys/kernel/tracing\nexec > /dev/ttyS0 2>&1 < /dev/null\ncd /tmp\n";
/// Where it ends. What the kernel says comes before lines that are still on their way to the console.
pub(crate) const END: &str = "\necho @done\nsleep 2; echo o > /proc/sysrq-trigger\nsleep 100\n";

/// Programs of this machine that a guest takes with it.
const TOOLS: [&str; 25] = [
    "bash",
    "date",
    "ls",
    "sh",
    "taskset",
    "chrt",
    "nice",
    "mount",
    "mkdir",
    "rmdir",
    "chmod",
    "sleep",
    "cat",
    "tr",
    "true",
    "setsid",
    "gzip",
    "base64",
    "md5sum",
    "cksum",
    "dd",
    "sha1sum",
    "sha256sum",
    "wc",
    "env",
];

/// A guest that was not booted yet.
pub(crate) struct Guest {
    kernel: PathBuf,
    dir: tempfile::TempDir,
    /// What is not checked without it.
    checks: &'static str,
}

impl Guest {
    /// With the program and its tools; `None` if something is missing, which it says.
    pub(crate) fn of(kernel: &str, checks: &'static str) -> Option<Self> {
        let image = schedlab_vm::Kernel::find(kernel).map(|kernel| kernel.image);
        let dir = tempfile::tempdir().unwrap();
        let guest = match image {
            Ok(kernel) => Self { kernel, dir, checks },
            Err(error) => {
                missing!("{kernel}: {error}; not checked: {checks}");
                return None;
            }
        };
        for below in ["proc", "sys", "dev", "tmp", "run"] {
            fs::create_dir_all(guest.root().join(below)).unwrap();
        }
        TOOLS.iter().try_for_each(|tool| guest.tool(tool))?;
        guest.program(Path::new(env!("CARGO_BIN_EXE_schedlab")), "bin/schedlab");
        Some(guest)
    }

    /// A folder on this machine, which goes with the guest.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn root(&self) -> PathBuf {
        self.dir().join("root")
    }

    /// A program of this machine; `None` if it is missing, which it says.
    fn find(&self, name: &str) -> Option<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut files = std::env::split_paths(&path).map(|folder| folder.join(name));
        let found = files.find(|file| file.is_file());
        if found.is_none() {
            missing!("{name}; not checked: {}", self.checks);
        }
        found
    }

    /// Takes a program of this machine along by its name; `None` if it is missing, which it says.
    pub(crate) fn tool(&self, name: &str) -> Option<()> {
        self.program(&self.find(name)?, &format!("bin/{name}"));
        Some(())
    }

    /// Takes a program along, and what it is linked with.
    pub(crate) fn program(&self, path: &Path, to: &str) {
        let root = self.root();
        let copy = |from: &Path, to: PathBuf| {
            fs::create_dir_all(to.parent().expect("a folder")).unwrap();
            fs::copy(from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        };
        copy(path, root.join(to));
        // What a debugger needs does not fit into the guest's memory.
        let _ = Command::new("strip").arg(root.join(to)).status();
        let linked = Command::new("ldd").arg(path).output().unwrap();
        let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
        for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
            let to = root.join(library.trim_start_matches('/'));
            if !to.exists() {
                copy(Path::new(library), to);
            }
        }
    }

    /// Puts a file there.
    pub(crate) fn file(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Boots it with this script as its first process; what the console says. `None` if something is missing, which it
    /// says.
    pub(crate) fn boot(&self, script: &str, cpus: &[&str]) -> Option<String> {
        ["cpio", "qemu-system-x86_64"].into_iter().try_for_each(|it| self.find(it).map(drop))?;
        self.file("init", script);
        let pack = "chmod 755 init && find . | cpio --quiet -o -H newc > ../initramfs";
        let packed = Command::new("sh").args(["-c", pack]).current_dir(self.root()).status();
        assert!(packed.is_ok_and(|status| status.success()), "cpio packs it");
        let mut text = String::new();
        // On a busy machine the second CPU of an emulated guest may not come up. Both tries end before the suite takes the
        // test for one that hangs; only all plants take longer.
        let is_long = std::env::var_os("SCHEDLAB_PLANTS").is_some();
        let seconds = if is_long { "3000" } else { "280" };
        for _ in 0..2 {
            let output = self.qemu(cpus, seconds).output().unwrap();
            text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
            if text.contains("@done") {
                return Some(text);
            }
        }
        panic!("the guest did not end: {text}")
    }

    fn qemu(&self, cpus: &[&str], seconds: &str) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", seconds, "qemu-system-x86_64"])
            .args(["-nodefaults", "-display", "none", "-m", "1024", "-cpu", "qemu64"])
            .args(["-no-reboot", "-serial", "stdio"])
            .args(cpus)
            .args([
                "-append",
                "console=ttyS0 quiet panic=-1 mitigations=off nokaslr tsc=reliable -- ",
            ])
            .arg("-kernel")
            .arg(&self.kernel)
            .arg("-initrd")
            .arg(self.dir().join("initramfs"))
            .stdin(Stdio::null());
        command
    }

    /// A file that the console shows by `gzip -c FILE | base64`.
    pub(crate) fn unpacked(&self, shown: &str) -> Vec<u8> {
        fs::write(self.dir().join("packed"), shown).unwrap();
        let mut unpack = Command::new("sh");
        unpack.args(["-c", "base64 -di < packed | gunzip"]).current_dir(self.dir());
        let output = unpack.output().unwrap();
        assert!(output.status.success(), "{shown}");
        output.stdout
    }
}
