//! The Debian package: what lies where, and a look at it as a user would have it.

use super::alone::is_root;
use super::{emptied, said};
use crate::publish::version;
use crate::{contents, steps};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of other tools under which schedlab takes their options. Their own packages hold the names in
/// /usr/bin, so the links lie in a folder of their own, which a user may put on the PATH.
const DROP_INS: [&str; 4] = ["schbench", "hackbench", "dat2graph2", "running_waiting"];
const LINKS: &str = "usr/lib/schedlab/bin";

/// Where the man pages lie.
const MANUAL: &str = "usr/share/man/man1";
/// Each file of the release with its place in the package.
const PLACES: [(&str, &str); 3] = [
    ("schedlab.bash", "usr/share/bash-completion/completions/schedlab"),
    ("_schedlab", "usr/share/zsh/vendor-completions/_schedlab"),
    ("schedlab.fish", "usr/share/fish/vendor_completions.d/schedlab.fish"),
];

/// Builds the package of what lies in a folder, which needs the packages `depends` (empty: none).
pub(super) fn build(folder: &Path, depends: &str) -> Result<PathBuf> {
    let root = folder.join("package");
    if root.exists() {
        std::fs::remove_dir_all(&root).context("the package's folder")?;
    }
    put(&folder.join("schedlab"), &root.join("usr/bin/schedlab"), 0o755)?;
    for (file, place) in PLACES {
        put(&folder.join(file), &root.join(place), 0o644)?;
    }
    for page in pages(&folder.join("man1"))? {
        put(
            &folder.join("man1").join(&page),
            &root.join(MANUAL).join(format!("{page}.gz")),
            0o644,
        )?;
    }
    let doc = root.join("usr/share/doc/schedlab");
    put(Path::new("README.md"), &doc.join("README.md"), 0o644)?;
    put(Path::new("CHANGELOG.md"), &doc.join("changelog.gz"), 0o644)?;
    write(&doc.join("copyright"), &copyright()?)?;
    for name in DROP_INS {
        let link = root.join(LINKS).join(name);
        std::fs::create_dir_all(root.join(LINKS)).context(LINKS)?;
        symlink("../../../bin/schedlab", &link).context(name)?;
    }
    let architecture = architecture()?;
    let version = version()?;
    write(&root.join("DEBIAN/control"), &control(&version, &architecture, depends))?;
    let package = folder.join(format!("schedlab_{version}_{architecture}.deb"));
    let mut command = Command::new("dpkg-deb");
    command.args(["--root-owner-group", "-Zgzip", "--build"]).arg(&root).arg(&package);
    steps::run(&mut command)?;
    Ok(package)
}

fn pages(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).context(format!("{}", folder.display()))?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

fn architecture() -> Result<String> {
    let output = Command::new("dpkg").arg("--print-architecture").output();
    let output = output.context("dpkg --print-architecture")?;
    ensure!(output.status.success(), "dpkg --print-architecture: {}", output.status);
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn control(version: &str, architecture: &str, depends: &str) -> String {
    let depends = match depends {
        "" => String::new(),
        packages => format!("Depends: {packages}\n"),
    };
    format!(
        "Package: schedlab\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: The schedlab authors <schedlab@localhost>\nSection: devel\nPriority: optional\n{depends}\
         Description: workbench for CPU schedulers\n schedlab loads a scheduler with calibrated work, records \
         what the scheduler\n does, and shows who ran where, who waited, and why. Links in\n /usr/lib/schedlab/bin \
         take the options of schbench, hackbench, dat2graph2\n and running_waiting.\n"
    )
}

fn copyright() -> Result<String> {
    let mut text = "Licence: MIT or Apache-2.0, at your choice.\n\n".to_owned();
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        text += &std::fs::read_to_string(file).context(file)?;
        text.push('\n');
    }
    Ok(text)
}

/// Copies a file to its place, compressed if the place's name says so, as policy wants it for manuals.
fn put(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let folder = to.parent().context("a place in a folder")?;
    std::fs::create_dir_all(folder).context(format!("{}", folder.display()))?;
    if to.extension().is_some_and(|end| end == "gz") {
        let output = Command::new("gzip").args(["-9", "-n", "-c"]).arg(from).output();
        let output = output.context("gzip")?;
        ensure!(output.status.success(), "gzip {}: {}", from.display(), output.status);
        std::fs::write(to, output.stdout).context(format!("{}", to.display()))?;
    } else {
        std::fs::copy(from, to).context(format!("{}", from.display()))?;
    }
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(to, mode).context(format!("{}", to.display()))
}

fn write(to: &Path, text: &str) -> Result<()> {
    let folder = to.parent().context("a place in a folder")?;
    std::fs::create_dir_all(folder).context(format!("{}", folder.display()))?;
    std::fs::write(to, text).context(format!("{}", to.display()))
}

/// Installs the package into an empty root as dpkg does, uses it, and removes it: the program, its man pages,
/// completions and links.
pub(super) fn try_out(package: &Path, folder: &Path) -> Result<()> {
    let root = folder.join("unpacked");
    emptied(&root)?;
    let is_root = is_root()?;
    if is_root {
        std::fs::create_dir_all(root.join("var/lib/dpkg")).context("a database of dpkg")?;
        std::fs::write(root.join("var/lib/dpkg/status"), "").context("a database of dpkg")?;
        // What it depends on is not in the empty root.
        dpkg(&root, &["--force-depends", "--install"], package)?;
    } else {
        steps::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&root))?;
    }
    use_it(&root)?;
    let files = contents::listed("dpkg-deb --fsys-tarfile \"$0\" | tar -t", package)?;
    contents::check(package, &files, contents::DEBIAN)?;
    let control = contents::listed("dpkg-deb --ctrl-tarfile \"$0\" | tar -t", package)?;
    contents::check(package, &control, contents::CONTROL)?;
    // No user is somebody else by the program's file.
    let special = contents::listed(
        "dpkg-deb --fsys-tarfile \"$0\" | tar -tv | grep '^...[sS]\\|^......[sS]' || true",
        package,
    )?;
    ensure!(special.is_empty(), "set-user-ID: {}", special.join(", "));
    if is_root {
        dpkg(&root, &["--purge"], Path::new("schedlab"))?;
        ensure!(!root.join("usr/bin/schedlab").exists(), "dpkg leaves the program behind");
    }
    steps::say(&format!("{}: installed, tried and removed", package.display()));
    Ok(())
}

fn dpkg(root: &Path, what: &[&str], which: &Path) -> Result<()> {
    let mut command = Command::new("dpkg");
    // A log of the machine's own has no business with this.
    command.arg("--root").arg(std::path::absolute(root)?).args(["--log", "/dev/null"]);
    steps::run(command.args(what).arg(which))
}

fn use_it(root: &Path) -> Result<()> {
    let version = said(&root.join("usr/bin/schedlab"), &["--version"])?;
    let expected = format!("schedlab {}", self::version()?);
    ensure!(version.starts_with(expected.as_bytes()), "the package holds another version");
    let manual =
        ["schedlab.1.gz", "schedlab-trace-latency.1.gz"].map(|page| format!("{MANUAL}/{page}"));
    for place in PLACES.iter().map(|(_, place)| *place).chain(manual.iter().map(String::as_str)) {
        let length = std::fs::metadata(root.join(place)).context(place.to_owned())?.len();
        ensure!(length > 500, "{place} has {length} bytes");
    }
    // A link is another program: its help names it.
    for name in ["schbench", "hackbench"] {
        let output =
            Command::new(std::path::absolute(root.join(LINKS).join(name))?).arg("--help").output();
        let output = output.context(name)?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        ensure!(text.contains(name), "{LINKS}/{name} --help does not name {name}: {text}");
    }
    Ok(())
}
