//! `cargo install` from packages: every crate is packaged, laid into a local registry beside those that it needs, and
//! installed from there. What is not in the packages cannot be used.

use super::{emptied, said};
use crate::publish::{packages, version};
use crate::{contents, steps};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a package needs of the house: these are not for others.
const CHORES: [&str; 1] = ["xtask"];

/// Installs the command from a registry that holds packages only. The debug build is enough: what is tried are the
/// packages.
pub(super) fn installed(target: &Path) -> Result<()> {
    let registry = std::path::absolute(target.join("registry"))?;
    filled(&registry, &packages(target)?)?;
    let root = target.join("installed");
    emptied(&root)?;
    let source = format!("source.packages.local-registry={:?}", registry.to_string_lossy());
    let root_text = root.to_string_lossy().into_owned();
    let version = version()?;
    let what = ["install", "schedlab", "--debug", "--locked", "--version", &version, "--root"];
    let from = ["--config", "source.crates-io.replace-with=\"packages\"", "--config", &source];
    // A home of its own: cargo keeps what it unpacked, and packages of one version differ from run to run.
    let home = std::path::absolute(target.join("cargo-home"))?;
    emptied(&home)?;
    let arguments = [&what[..], &[root_text.as_str()], &from].concat();
    steps::cargo_with(&arguments, &[("CARGO_HOME", &home.to_string_lossy())])?;
    let version = said(&root.join("bin/schedlab"), &["--version"])?;
    ensure!(version.starts_with(b"schedlab "), "cargo install gives another program");
    let shown = said(&root.join("bin/schedlab"), &["gallery", "show", "two-knobs"])?;
    ensure!(
        shown == fs::read("examples/gallery/two-knobs.toml")?,
        "the package has other examples"
    );
    Ok(())
}

/// A local registry of our packages and of those that they need.
fn filled(registry: &Path, packages: &Path) -> Result<()> {
    emptied(registry)?;
    let metadata = metadata()?;
    let sums = checksums()?;
    for package in array(&metadata["packages"]) {
        let name = text(&package["name"]);
        let version = text(&package["version"]);
        let file = format!("{name}-{version}.crate");
        let (from, sum) = match package["source"].as_str() {
            Some(_) => (cached(&file)?, sums.get(&(name.into(), version.into())).cloned()),
            None if CHORES.contains(&name) => continue,
            None => (packages.join(&file), None),
        };
        fs::copy(&from, registry.join(&file)).context(format!("{}", from.display()))?;
        let sum = sum.map_or_else(|| sha256(&from), Ok)?;
        list(registry, name, &line(package, &sum))?;
    }
    Ok(())
}

/// Every crate can be packaged, and what the command takes in at compile time is in its package.
/// Gives the folder of the packages.
pub(super) fn complete(target: &Path) -> Result<PathBuf> {
    let packages = packages(target)?;
    let package = packages.join(format!("schedlab-{}.crate", version()?));
    let output = Command::new("tar").arg("-tzf").arg(&package).output().context("tar")?;
    let listed = String::from_utf8(output.stdout)?;
    let has = |file: &str| listed.lines().any(|line| line.ends_with(file));
    for entry in fs::read_dir("examples/gallery").context("examples/gallery")?.flatten() {
        let file = format!("/files/gallery/{}", entry.file_name().to_string_lossy());
        ensure!(has(&file), "{} lacks {file}", package.display());
    }
    ensure!(has("/files/tour.toml"), "{} lacks files/tour.toml", package.display());
    for entry in fs::read_dir(&packages).context("target/package")?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|end| end == "crate") {
            let files = contents::listed("tar -tzf \"$0\" | cut -d/ -f2-", &path)?;
            contents::check(&path, &files, contents::CRATE)?;
        }
    }
    Ok(packages)
}

fn metadata() -> Result<Value> {
    let mut command = Command::new("cargo");
    // cargo looks for optional dependencies too, although nothing asks for them.
    command.args(["metadata", "--format-version", "1", "--locked", "--all-features"]);
    let output = command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").output()?;
    ensure!(output.status.success(), "cargo metadata: {}", output.status);
    serde_json::from_slice(&output.stdout).context("cargo metadata")
}

/// The sums of the lock file by name and version.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let lock = fs::read_to_string("Cargo.lock").context("Cargo.lock")?;
    let packages = lock.split("[[package]]").skip(1);
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let entry = |package| {
        let at = (value(package, "name")?, value(package, "version")?);
        Some((at, value(package, "checksum")?))
    };
    Ok(packages.filter_map(entry).collect())
}

/// A package of others, as cargo keeps it after `cargo fetch`.
fn cached(file: &str) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let cache = home.context("CARGO_HOME")?.join("registry/cache");
    let indexes = fs::read_dir(&cache).context(format!("{}", cache.display()))?;
    let found = indexes.flatten().map(|index| index.path().join(file)).find(|path| path.is_file());
    found.context(format!("{file} is not in {}: `cargo fetch` gets it", cache.display()))
}

fn sha256(file: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(file).output().context("sha256sum")?;
    ensure!(output.status.success(), "sha256sum {}: {}", file.display(), output.status);
    let said = String::from_utf8(output.stdout)?;
    Ok(said.split_whitespace().next().unwrap_or_default().to_owned())
}

/// A line of an index: <https://doc.rust-lang.org/cargo/reference/registry-index.html>.
fn line(package: &Value, sum: &str) -> Value {
    // With those of tests: a feature may name one, and cargo refuses a line whose features name what it lacks.
    let dependencies: Vec<Value> = array(&package["dependencies"]).iter().map(dependency).collect();
    json!({
        "name": package["name"],
        "vers": package["version"],
        "deps": dependencies,
        "cksum": sum,
        "features": package["features"],
        "yanked": false,
        "links": package["links"],
        "rust_version": package["rust_version"],
        "v": 2,
    })
}

fn dependency(of: &Value) -> Value {
    let mut entry = Map::new();
    let renamed = !of["rename"].is_null();
    entry.insert("name".into(), if renamed { of["rename"].clone() } else { of["name"].clone() });
    if renamed {
        entry.insert("package".into(), of["name"].clone());
    }
    entry.insert("default_features".into(), of["uses_default_features"].clone());
    entry.insert(
        "kind".into(),
        if of["kind"].is_null() { json!("normal") } else { of["kind"].clone() },
    );
    for key in ["req", "features", "optional", "target"] {
        entry.insert(key.into(), of[key].clone());
    }
    entry.insert("registry".into(), Value::Null);
    Value::Object(entry)
}

/// Adds a line to the file of a name.
fn list(registry: &Path, name: &str, line: &Value) -> Result<()> {
    let lower = name.to_lowercase();
    let folder = match lower.len() {
        1 => "1".to_owned(),
        2 => "2".to_owned(),
        3 => format!("3/{}", &lower[..1]),
        _ => format!("{}/{}", &lower[..2], &lower[2..4]),
    };
    let folder = registry.join("index").join(folder);
    fs::create_dir_all(&folder).context(format!("{}", folder.display()))?;
    let path = folder.join(&lower);
    let mut known = fs::read_to_string(&path).unwrap_or_default();
    known.push_str(&line.to_string());
    known.push('\n');
    fs::write(&path, known).context(format!("{}", path.display()))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
