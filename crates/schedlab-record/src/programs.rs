//! Programs and libraries that a request names: which file is meant, and who has its debug symbols.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The file of a program or library. A name without a folder is looked for among the running processes, in `PATH`, and
/// in the folders of libraries, in this order.
///
/// # Errors
/// A sentence: there is none, there are several, or it cannot be read.
pub(crate) fn find(name: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        let path = std::fs::canonicalize(name).map_err(|error| format!("{name}: {error}"))?;
        return Ok(path);
    }
    let mut running = of_processes(name);
    if running.len() > 1 {
        let list: Vec<String> = running.iter().map(|path| path.display().to_string()).collect();
        return Err(format!(
            "different files called {name} run: use a path, as {}",
            list.join(" or ")
        ));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_program =
        |path: &PathBuf| path.metadata().is_ok_and(|it| it.is_file() && it.mode() & 0o111 != 0);
    let in_path = || std::env::split_paths(&path).map(|dir| dir.join(name)).find(is_program);
    let library = || libraries().into_iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    let found = running.pop().or_else(in_path).or_else(library);
    let found = found.ok_or_else(|| {
        format!("no process runs a program '{name}', and neither PATH nor the folders of libraries have it: use its path")
    })?;
    // The link to a deleted file leads to no path, and names the file all the same.
    let absolute = || std::fs::canonicalize(&found).map_err(|error| format!("{name}: {error}"));
    if found.starts_with("/proc") { Ok(found) } else { absolute() }
}

fn libraries() -> Vec<PathBuf> {
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let of = |base: &str| [format!("{base}/{triplet}"), format!("{base}64"), base.to_owned()];
    ["/usr/lib", "/lib", "/usr/local/lib"].into_iter().flat_map(of).map(PathBuf::from).collect()
}

/// The files of running processes that have this name, each file once. A file that was deleted, or that another root
/// holds, is named by a process that runs it.
fn of_processes(name: &str) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let link = entry.path().join("exe");
        let Ok(target) = std::fs::read_link(&link) else { continue };
        let Some(target) = target.to_str() else { continue };
        let plain = target.strip_suffix(" (deleted)").unwrap_or(target);
        if Path::new(plain).file_name().is_none_or(|file| file != name) {
            continue;
        }
        let Ok(file) = std::fs::metadata(&link) else { continue };
        if seen.insert((file.dev(), file.ino())) {
            let same =
                |there: std::fs::Metadata| (there.dev(), there.ino()) == (file.dev(), file.ino());
            let is_there = std::fs::metadata(plain).is_ok_and(same);
            found.push(if is_there { PathBuf::from(plain) } else { link });
        }
    }
    found
}

/// How to get the debug symbols of a file: a half sentence. `build_id` in hexadecimal digits.
pub(crate) fn debug_package(path: &Path, build_id: Option<&str>) -> String {
    if let Some(package) = package_of(path, Path::new("/var/lib/dpkg/info")) {
        let debug = match package.as_str() {
            "libc6" => "libc6-dbg".to_owned(),
            other => format!("{other}-dbgsym"),
        };
        return format!(
            "install the package {debug} (of Debian's or Ubuntu's archive of debug packages)"
        );
    }
    let file = path.display();
    if Path::new("/usr/bin/rpm").exists() {
        return format!("`dnf debuginfo-install $(rpm -qf {file})`");
    }
    match build_id {
        Some(id) => {
            let (start, rest) = id.split_at(id.len().min(2));
            format!("put its debug file at /usr/lib/debug/.build-id/{start}/{rest}.debug")
        }
        None => "use a file that is not stripped".into(),
    }
}

/// The package of Debian's that has a file, by the lists of `info`.
fn package_of(path: &Path, info: &Path) -> Option<String> {
    let path = path.to_str()?;
    // Where /bin is a link to /usr/bin, the list may have either.
    let short = path.strip_prefix("/usr").unwrap_or(path);
    for entry in std::fs::read_dir(info).ok()?.flatten() {
        let list = entry.path();
        if list.extension().is_none_or(|extension| extension != "list") {
            continue;
        }
        let Ok(text) = schedlab_sys::regular_file::text(&list) else { continue };
        if text.lines().any(|line| line == path || line == short) {
            let package = list.file_stem()?.to_str()?;
            return Some(package.split(':').next().unwrap_or(package).to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_of_a_file_is_the_one_whose_list_has_it() {
        let info = tempfile::tempdir().unwrap();
        std::fs::write(info.path().join("libc6:amd64.list"), "/.\n/lib/x/libc.so.6\n").unwrap();
        std::fs::write(info.path().join("other.md5sums"), "/usr/lib/x/libc.so.6\n").unwrap();
        let of = |path: &str| package_of(Path::new(path), info.path());
        assert_eq!(of("/usr/lib/x/libc.so.6").as_deref(), Some("libc6"));
        assert_eq!(of("/lib/x/libc.so.6").as_deref(), Some("libc6"));
        assert_eq!(of("/opt/app"), None);
    }

    #[test]
    fn a_running_program_is_found_by_its_name_and_others_are_told_to_be_nowhere() {
        let me = std::env::current_exe().unwrap();
        let name = me.file_name().unwrap().to_str().unwrap();
        assert_eq!(find(name).unwrap(), std::fs::canonicalize(&me).unwrap());
        assert!(find("sh").unwrap().is_absolute());
        assert!(find("no-such-program").unwrap_err().contains("use its path"));
        assert!(find("./no-such-program").unwrap_err().contains("No such file"));
    }
}
