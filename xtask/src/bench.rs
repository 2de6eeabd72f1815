//! The benchmarks, one after the other, on an otherwise quiet machine.

use crate::{packages, steps};
use anyhow::{Context, Result};

/// Runs the benchmarks named, or all, as the program is shipped (profile `dist`). Each prints its figures beside its peer's, from the same run.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    packages::ensure()?;
    for (package, name) in all()? {
        if names.is_empty() || names.contains(&name.as_str()) {
            let mut arguments =
                vec!["bench", "--profile", "dist", "-p", &package, "--bench", &name];
            // The executors that ours is measured beside are features of that crate.
            if package == "schedlab-jobs" {
                arguments.extend(["--features", "rayon,tokio"]);
            }
            steps::cargo(&arguments)?;
        }
    }
    Ok(())
}

/// Package and name of every file `crates/*/benches/*.rs`, in order.
fn all() -> Result<Vec<(String, String)>> {
    let mut benches = Vec::new();
    for entry in std::fs::read_dir("crates").context("crates/")? {
        let folder = entry?.path();
        let Ok(files) = std::fs::read_dir(folder.join("benches")) else { continue };
        for file in files {
            let path = file?.path();
            if path.extension().is_some_and(|extension| extension == "rs") {
                let word = |os: Option<&std::ffi::OsStr>| {
                    os.unwrap_or_default().to_string_lossy().into_owned()
                };
                benches.push((word(folder.file_name()), word(path.file_stem())));
            }
        }
    }
    benches.sort();
    Ok(benches)
}
