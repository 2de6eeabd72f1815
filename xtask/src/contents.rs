//! What the Debian package, the wheel, the crates and the image hold: only what is listed here.

use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::Command;

/// In the Debian package. `*` stands for a part of a name.
pub(crate) const DEBIAN: &[&str] = &[
    "usr/bin/schedlab",
    "usr/lib/schedlab/bin/dat2graph2",
    "usr/lib/schedlab/bin/hackbench",
    "usr/lib/schedlab/bin/running_waiting",
    "usr/lib/schedlab/bin/schbench",
    "usr/share/bash-completion/completions/schedlab",
    "usr/share/doc/schedlab/README.md",
    "usr/share/doc/schedlab/changelog.gz",
    "usr/share/doc/schedlab/copyright",
    "usr/share/fish/vendor_completions.d/schedlab.fish",
    "usr/share/man/man1/schedlab*.1.gz",
    "usr/share/zsh/vendor-completions/_schedlab",
];
/// For dpkg: nothing that runs at an installation.
pub(crate) const CONTROL: &[&str] = &["control"];
/// In the wheel; a release has the command too.
pub(crate) const WHEEL: &[&str] = &[
    "schedlab/*.py",
    "schedlab/_native.*so",
    "schedlab/_native.pyi",
    "schedlab/py.typed",
    "schedlab-*.data/scripts/schedlab",
    "schedlab-*.dist-info/METADATA",
    "schedlab-*.dist-info/RECORD",
    "schedlab-*.dist-info/WHEEL",
    "schedlab-*.dist-info/licenses/*",
    "schedlab-*.dist-info/sboms/*",
];
pub(crate) const IMAGE: &[&str] = &["tmp/.keep", "usr/bin/schedlab"];
/// In the package of a crate: its folders, which are in git, and what cargo adds.
pub(crate) const CRATE: &[&str] = &[
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "README.md",
    "clippy.toml",
    "benches/**",
    "data/**",
    "examples/**",
    "files/**",
    "fonts/**",
    "include/**",
    // The sources beside a kernel's; what is built of them never is in a package.
    "overlay/*.lds",
    "overlay/*.txt",
    "overlay/K*",
    "overlay/Makefile",
    "overlay/configs/**",
    "overlay/include/**",
    "overlay/kernel/**",
    "overlay/scx/**",
    "page/**",
    "src/**",
    "tests/**",
];

/// Fails if a file is not on the list.
pub(crate) fn check(what: &Path, files: &[String], list: &[&str]) -> Result<()> {
    let name = what.display();
    ensure!(!files.is_empty(), "{name} holds nothing");
    let others: Vec<&str> = files
        .iter()
        .map(|file| file.trim_start_matches("./"))
        .filter(|file| !list.iter().any(|pattern| is_like(file, pattern)))
        .collect();
    ensure!(
        others.is_empty(),
        "{name} holds what xtask/src/contents.rs does not list: {}",
        others.join(", ")
    );
    Ok(())
}

/// `*` is any part of a name, a last `**` all that is in a folder.
fn is_like(file: &str, pattern: &str) -> bool {
    if let Some(folder) = pattern.strip_suffix("**") {
        return file.starts_with(folder);
    }
    let names = file.split('/');
    let patterns = pattern.split('/');
    names.clone().count() == patterns.clone().count()
        && names.zip(patterns).all(|(name, pattern)| match pattern.split_once('*') {
            Some((start, end)) => name.strip_prefix(start).is_some_and(|rest| rest.ends_with(end)),
            None => name == pattern,
        })
}

/// The files that a shell command lists, a line each; folders end with a slash.
pub(crate) fn listed(script: &str, of: &Path) -> Result<Vec<String>> {
    let output = Command::new("sh").args(["-ec", script]).arg(of).output().context("sh")?;
    ensure!(output.status.success(), "`{script}` for {}: {}", of.display(), output.status);
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().filter(|line| !line.ends_with('/')).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(list: &[&str], file: &str) -> bool {
        check(Path::new("x"), &[file.to_owned()], list).is_ok()
    }

    #[test]
    fn what_is_not_listed_is_refused() {
        for file in ["./usr/bin/schedlab", "usr/share/man/man1/schedlab-trace-latency.1.gz"] {
            assert!(holds(DEBIAN, file), "{file}");
        }
        for file in ["lib/systemd/system/schedlab.service", "usr/bin/schedlabd"] {
            assert!(!holds(DEBIAN, file), "{file}");
        }
        assert!(!holds(CONTROL, "./postinst"));
        for file in [
            "schedlab/__init__.py",
            "schedlab/_native.abi3.so",
            "schedlab-0.1.0.dist-info/METADATA",
            "schedlab-0.1.0.dist-info/licenses/LICENSE-MIT",
            "schedlab-0.1.0.data/scripts/schedlab",
        ] {
            assert!(holds(WHEEL, file), "{file}");
        }
        for file in ["tests/made.py", "schedlab/a/b.py", "schedlab-0.1.0.data/scripts/sh"] {
            assert!(!holds(WHEEL, file), "{file}");
        }
        assert!(holds(CRATE, "src/a/b.rs") && !holds(CRATE, ".env") && !holds(IMAGE, "etc/passwd"));
        assert!(check(Path::new("x"), &[], IMAGE).is_err(), "an empty list was not made");
    }
}
