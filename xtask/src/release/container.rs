//! The container image of `Containerfile`, where a program that builds images is there.

use crate::steps;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

const IMAGE: &str = "schedlab";

/// Builds the image of what lies in the folder, and runs it.
pub(super) fn build(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder.join("tmp")).context("dist/tmp")?;
    std::fs::write(folder.join("tmp/.keep"), "").context("dist/tmp/.keep")?;
    let Some(builder) = builder() else {
        steps::say(
            "MISSING: podman, docker with its daemon, or buildah: the container image was not built",
        );
        return Ok(());
    };
    let build: &[&str] = match builder {
        "buildah" => &["--storage-driver", "vfs", "bud", "--isolation", "chroot"],
        _ => &["build"],
    };
    let file = std::path::absolute("Containerfile")?;
    let mut command = Command::new(builder);
    command.args(build).arg("-f").arg(file).args(["-t", IMAGE]).arg(folder);
    steps::run(&mut command)?;
    let mut started = Command::new(builder);
    if builder == "buildah" {
        return said_by_buildah();
    }
    let output = started.args(["run", "--rm", IMAGE, "--version"]).output().context(builder)?;
    ensure!(output.stdout.starts_with(b"schedlab "), "the image runs another program");
    Ok(())
}

/// buildah runs a command in a container that it makes from the image.
fn said_by_buildah() -> Result<()> {
    let vfs = ["--storage-driver", "vfs"];
    let from =
        Command::new("buildah").args(vfs).args(["from", IMAGE]).output().context("buildah")?;
    let name = String::from_utf8(from.stdout)?.trim().to_owned();
    let mut run = Command::new("buildah");
    run.args(vfs).args([
        "run",
        "--isolation",
        "chroot",
        &name,
        "--",
        "/usr/bin/schedlab",
        "--version",
    ]);
    let output = run.output().context("buildah run")?;
    let _ = Command::new("buildah").args(vfs).args(["rm", &name]).output();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.stdout.starts_with(b"schedlab "), "the image runs another program: {said}");
    steps::say("the container image runs");
    Ok(())
}

/// A program that can build an image here and now.
fn builder() -> Option<&'static str> {
    let works = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let status = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    [("podman", "info"), ("docker", "info"), ("buildah", "--version")]
        .into_iter()
        .find(|(program, argument)| works(program, &[argument]))
        .map(|(program, _)| program)
}
