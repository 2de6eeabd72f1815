//! Debian's package manager, which gets packages without installing them.
//!
//! The system's own package lists are asked first. A package that they do not have is looked for in the
//! suite that has it, by lists in a folder of our own: the system's configuration stays as it is.

use crate::VmError;
use crate::program::run;
use std::path::Path;
use std::process::Command;

/// A package manager whose lists hold what `find` finds, and what it found: the system's own, or one
/// with the lists of `suite`.
///
/// # Errors
/// When neither has it, or there is no package manager or no network.
pub(crate) fn search<T>(
    what: &str,
    suite: Option<&str>,
    scratch: &Path,
    find: &dyn Fn(&Apt) -> Result<Option<T>, VmError>,
) -> Result<(Apt, T), VmError> {
    let missing = |remedy: String| VmError::Missing { what: what.to_owned(), remedy };
    let system = Apt(Vec::new());
    if let Some(found) = find(&system)? {
        return Ok((system, found));
    }
    let Some(suite) = suite else {
        let remedy = "the package lists of this system do not have it: run apt-get update, or \
            configure a suite that has it";
        return Err(missing(remedy.to_owned()));
    };
    let apt = Apt::of_suite(suite, scratch)?;
    match find(&apt)? {
        Some(found) => Ok((apt, found)),
        None => Err(missing(format!("the suite {suite} does not have it, or is not reachable"))),
    }
}

/// A package manager: with the system's configuration, or with options that put others in its place.
pub(crate) struct Apt(Vec<String>);

impl Apt {
    /// One with the lists of `suite`, from where the system has its own.
    fn of_suite(suite: &str, scratch: &Path) -> Result<Self, VmError> {
        let places = run(
            Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI) $(LABEL)"]),
            "asking apt-get for its sources",
        )?;
        let lines = source_lines(&places, suite);
        let doing = || format!("making package lists in {}", scratch.display());
        let list = scratch.join("sources.list");
        // Plain: a new private folder.
        std::fs::write(&list, lines.join("\n") + "\n").map_err(VmError::io(doing()))?;
        for folder in ["lists/partial", "archives/partial"] {
            std::fs::create_dir_all(scratch.join(folder)).map_err(VmError::io(doing()))?;
        }
        let option = |name: &str, value: String| format!("{name}={value}");
        let apt = Self(vec![
            option("Dir::Etc::sourcelist", list.display().to_string()),
            option("Dir::Etc::sourceparts", "-".to_owned()),
            option("Dir::State::lists", scratch.join("lists").display().to_string()),
            option("Dir::Cache", scratch.display().to_string()),
        ]);
        // As root, apt-get decides by itself whether it works as its user `_apt`: it does if `_apt` can reach the folder.
        run(apt.command("apt-get").args(["-q", "update"]), "fetching package lists")?;
        Ok(apt)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.0.iter().flat_map(|option| ["-o", option]));
        command
    }

    /// The newest package of a kernel for virtual machines of this version.
    pub(crate) fn newest_kernel(&self, version: &str) -> Result<Option<String>, VmError> {
        let pattern = format!("^linux-image-{}[.-].*cloud-amd64$", version.replace('.', "[.]"));
        let found = run(
            self.command("apt-cache").args(["search", "--names-only", &pattern]),
            "looking for a kernel's package",
        )?;
        let names = found.lines().filter_map(|line| line.split_whitespace().next());
        // The others are named after a version of the ABI; this one follows the newest.
        let is_kernel = |name: &&str| !name.starts_with(&format!("linux-image-{version}-cloud"));
        Ok(names.filter(is_kernel).max_by_key(|name| numbers(name)).map(str::to_owned))
    }

    /// The package of this name.
    pub(crate) fn exact(&self, package: &str) -> Result<Option<String>, VmError> {
        let pattern = format!("^{}$", package.replace('.', "[.]"));
        let found = run(
            self.command("apt-cache").args(["search", "--names-only", &pattern]),
            "looking for a kernel's source",
        )?;
        Ok(found.split_whitespace().next().map(str::to_owned))
    }

    /// The newest version of a package.
    pub(crate) fn newest(&self, package: &str) -> Result<Option<String>, VmError> {
        let told = run(
            self.command("apt-cache").args(["madison", package]),
            "looking for a package's versions",
        )?;
        // package | version | where it is
        let versions = told.lines().filter_map(|line| line.split('|').nth(1)).map(str::trim);
        Ok(versions.max_by_key(|version| numbers(version)).map(str::to_owned))
    }

    /// Fetches packages, each as `NAME` or `NAME=VERSION`, into a folder.
    pub(crate) fn download(&self, packages: &[String], into: &Path) -> Result<(), VmError> {
        let mut command = self.command("apt-get");
        command.args(["-q", "download"]).args(packages).current_dir(into);
        run(&mut command, &format!("fetching {}", packages.join(", "))).map(|_| ())
    }
}

/// A suite whose security updates have ended. They are no longer signed anew, which does not make them false. Of
/// all others, lists that are out of date are refused: they may be a replay.
const ENDED: &str = "bullseye";

/// The sources of a suite, from the places where the system has its own.
fn source_lines(places: &str, suite: &str) -> Vec<String> {
    let old = if suite == ENDED { "[check-valid-until=no] " } else { "" };
    let mut lines: Vec<String> = Vec::new();
    for place in places.lines() {
        let line = match place.split_once(' ') {
            Some((uri, "Debian")) => format!("deb {uri} {suite} main"),
            Some((uri, "Debian-Security")) if !suite.ends_with(BACKPORTS) => {
                format!("deb {old}{uri} {suite}-security main")
            }
            _ => continue,
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// How the name of a suite ends that has newer packages for a release, but no security updates of its own.
pub(crate) const BACKPORTS: &str = "-backports";

/// The numbers in a name, which order versions.
fn numbers(name: &str) -> Vec<u64> {
    let digits = name.split(|c: char| !c.is_ascii_digit());
    digits.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_security_updates_that_have_ended_may_be_out_of_date() {
        let places = "http://d/debian Debian\nhttp://d/debian Debian\nhttp://s Debian-Security\n";
        assert_eq!(
            source_lines(places, "bullseye"),
            [
                "deb http://d/debian bullseye main",
                "deb [check-valid-until=no] http://s bullseye-security main"
            ]
        );
        let newer = source_lines(places, "bookworm");
        assert_eq!(newer[1], "deb http://s bookworm-security main");
        let backports = source_lines(places, "bookworm-backports");
        assert_eq!(backports, ["deb http://d/debian bookworm-backports main"]);
    }

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let names = ["linux-image-6.1.0-9-cloud-amd64", "linux-image-6.1.0-10-cloud-amd64"];
        assert_eq!(names.into_iter().max_by_key(|name| numbers(name)), Some(names[1]));
    }
}
