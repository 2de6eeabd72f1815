//! What chores about kernels need on this machine. A chore builds for up to an hour, so what is missing is
//! reported before anything runs.

use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program or a header, and the package that has it.
type Need = (&'static str, &'static str);

/// What boots a kernel.
const BOOT: [Need; 1] = [("qemu-system-x86_64", "qemu-system-x86")];
/// What builds one.
const BUILD: [Need; 9] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("xz", "xz-utils"),
    ("patch", "patch"),
    ("dpkg", "dpkg"),
    ("/usr/include/gelf.h", "libelf-dev"),
];
/// What makes a history of commits, and the chores that measure one.
const HISTORIES: [&str; 5] = ["planted", "planted-schbench", "bisect", "neutral", "versions"];
const HISTORY: [Need; 1] = [("git", "git")];
/// What builds schedulers of BPF programs, beside a clang.
const EXT: [Need; 2] = [("pahole", "pahole"), ("/usr/include/zlib.h", "zlib1g-dev")];
const CLANG: Need = ("clang", "clang-19");
/// Versions of clang that a package may have in its name.
const VERSIONS: std::ops::RangeInclusive<u32> = 16..=40;

/// Checks that a chore can run to its end, as far as programs and headers go.
///
/// # Errors
/// A sentence that names what is missing, and the command that installs it.
pub(super) fn check(chore: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &str| match name.starts_with('/') {
        true => Path::new(name).is_file(),
        false => std::env::split_paths(&path).any(|folder| folder.join(name).is_file()),
    };
    let missing = missing(chore, &is_there);
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    ensure!(
        missing.is_empty(),
        "evidence {chore} needs {}: apt-get install {}",
        names.join(", "),
        packages.join(" ")
    );
    Ok(())
}

/// The built program that `$SCHEDLAB_PROGRAM` names, if it can be started.
///
/// # Errors
/// When the variable names no program that starts.
pub(super) fn program(named: &Path) -> Result<PathBuf> {
    let program = std::path::absolute(named).context("SCHEDLAB_PROGRAM")?;
    let told = Command::new(&program).arg("--version").output();
    let told = told.with_context(|| {
        format!("SCHEDLAB_PROGRAM names {}, which cannot be started", program.display())
    })?;
    let is_ours = told.status.success() && told.stdout.starts_with(b"schedlab");
    ensure!(is_ours, "SCHEDLAB_PROGRAM names {}, which is not schedlab", program.display());
    Ok(program)
}

fn missing(chore: &str, is_there: &dyn Fn(&str) -> bool) -> Vec<Need> {
    let (has_history, is_ext) = (HISTORIES.contains(&chore), chore == "sched-ext");
    let boots = BOOT.iter().filter(|_| chore != "reproducible");
    let needs = boots.chain(&BUILD).chain(HISTORY.iter().filter(|_| has_history));
    let needs = needs.chain(EXT.iter().filter(|_| is_ext));
    let mut missing: Vec<Need> = needs.filter(|(name, _)| !is_there(name)).copied().collect();
    let has_clang = || {
        let named = VERSIONS.map(|version| format!("clang-{version}"));
        named.into_iter().chain(["clang".to_owned()]).any(|name| is_there(&name))
    };
    if is_ext && !has_clang() {
        missing.push(CLANG);
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_chore_needs_is_missing() {
        let nothing = |_: &str| false;
        let names = |chore: &str, is_there: &dyn Fn(&str) -> bool| -> Vec<&str> {
            missing(chore, is_there).into_iter().map(|(name, _)| name).collect()
        };
        assert!(names("bisect", &nothing).contains(&"git"));
        assert!(!names("placebos", &nothing).contains(&"git"));
        assert!(!names("reproducible", &nothing).contains(&"qemu-system-x86_64"));
        assert!(names("sched-ext", &nothing).ends_with(&[
            "pahole",
            "/usr/include/zlib.h",
            "clang"
        ]));
        let all_but = |name: &str| !["clang", "gcc"].contains(&name);
        assert_eq!(names("sched-ext", &all_but), ["gcc"], "clang-19 is there");
    }

    #[test]
    fn a_program_that_is_not_schedlab_is_refused() {
        for wrong in ["/no/such/program", "/bin/true"] {
            let why = program(Path::new(wrong)).unwrap_err().to_string();
            assert!(why.contains("SCHEDLAB_PROGRAM names /"), "{why}");
        }
    }
}
