//! The page's modules checked by TypeScript through their JSDoc types: nothing is built from them, so
//! nothing else would notice a wrong one.

use crate::{packages, steps};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

const MODULES: &str = "crates/schedlab-draw/page";

/// The compiler's major version: another may know other types of the browser.
const COMPILER: &str = "typescript@5";

/// Checks them; where there is no npm to get the compiler by, says so.
pub(crate) fn run() -> Result<()> {
    let folder = steps::root().join("target/typescript");
    let compiler = folder.join("node_modules/.bin/tsc");
    if !compiler.exists() {
        packages::ensure()?;
    }
    if !compiler.exists() && !install(&folder) {
        steps::say(
            "MISSING: npm (apt-get install npm), or what it gets: the page's types were not checked",
        );
        anyhow::ensure!(std::env::var_os("CI").is_none(), "CI must have npm (apt-get install npm)");
        return Ok(());
    }
    let mut modules: Vec<_> = std::fs::read_dir(MODULES)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|end| end == "js"))
        .collect();
    modules.sort();
    let mut command = Command::new(compiler);
    command.args(["--noEmit", "--allowJs", "--checkJs", "--strict", "--target", "es2022"]);
    command.args(["--lib", "es2023,dom,dom.iterable", "--module", "es2022"]);
    steps::run(command.args(["--moduleResolution", "bundler"]).args(modules))
}

fn install(folder: &Path) -> bool {
    let mut command = Command::new("npm");
    command.args(["install", "--no-save", "--no-audit", "--no-fund", "--prefix"]).arg(folder);
    command.arg(COMPILER);
    command.status().is_ok_and(|status| status.success())
}
