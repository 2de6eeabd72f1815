//! What the tests and the check of the page's types need from Debian, and getting it.

use crate::steps;
use anyhow::{Result, bail};
use std::path::Path;
use std::process::Command;

/// A program that some test or check runs, and the package that holds it.
const NEEDED: [(&str, &str); 27] = [
    ("trace-cmd", "trace-cmd"),
    ("perf", "linux-perf"),
    ("hackbench", "rt-tests"),
    ("pdftotext", "poppler-utils"),
    ("chromium", "chromium"),
    ("protoc", "protobuf-compiler"),
    ("python3", "python3"),
    // It checks what --json prints by the schemas.
    ("jsonschema", "python3-jsonschema"),
    ("gnuplot", "gnuplot-nox"),
    // They build executors and a user of the pool in other languages.
    ("g++", "g++"),
    ("go", "golang-go"),
    // It boots the kernels that tests run workloads on.
    ("qemu-system-x86_64", "qemu-system-x86"),
    // They configure the kernel whose scheduler is simulated.
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    // It lists the archives that they start with.
    ("cpio", "cpio"),
    // It runs the service of `watch` in a guest, and checks its file.
    ("systemctl", "systemd"),
    // It gives a copy of the program capabilities, as an administrator may.
    ("setcap", "libcap2-bin"),
    // Hosts and jobs on this machine.
    ("sshd", "openssh-server"),
    ("munged", "munge"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    ("sbatch", "slurm-client"),
    // A terminal that tests drive by keys.
    ("tmux", "tmux"),
    // It lints the metrics that are served.
    ("promtool", "prometheus"),
    // It compiles the C parts of the static binary.
    ("musl-gcc", "musl-tools"),
    // The page's types are checked by TypeScript, which it gets.
    ("npm", "npm"),
];

/// Installs what is missing when we may; where we may not, says so: in CI that is a failure, elsewhere
/// the tests that need it say aloud what they did not check.
pub(crate) fn ensure() -> Result<()> {
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if may_install() {
        steps::say(&format!("the tests need packages that are missing; installing: {list}"));
        // A package list that cannot be refreshed may still be good enough.
        let _ = steps::run(apt().arg("update"));
        let _ = steps::run(apt().args(["install", "-y", "--no-install-recommends"]).args(&missing));
    }
    let missing = self::missing();
    match (missing.is_empty(), std::env::var_os("CI").is_some()) {
        (true, _) => Ok(()),
        (false, true) => bail!("packages that the tests need are missing: {}", missing.join(" ")),
        (false, false) => {
            steps::say(&format!(
                "MISSING: {}: tests that need them will say what they did not check.\n\
                 To get them: apt-get install {}",
                missing.join(" "),
                missing.join(" "),
            ));
            Ok(())
        }
    }
}

fn missing() -> Vec<&'static str> {
    NEEDED.iter().filter(|(program, _)| !on_path(program)).map(|(_, package)| *package).collect()
}

fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Servers lie where not every user's PATH leads.
    let servers = Path::new("/usr/sbin").to_path_buf();
    std::env::split_paths(&path).chain([servers]).any(|folder| folder.join(program).is_file())
}

fn may_install() -> bool {
    let uid = Command::new("id").arg("-u").output();
    uid.is_ok_and(|out| out.stdout.trim_ascii() == b"0") && Path::new("/usr/bin/apt-get").exists()
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.arg("-q").env("DEBIAN_FRONTEND", "noninteractive");
    command
}
