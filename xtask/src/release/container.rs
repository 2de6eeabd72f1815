//! The container image of `Containerfile`, where a program that builds images is there.

use super::alone::is_root;
use super::emptied;
use crate::{contents, steps};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const IMAGE: &str = "schedlab";
/// What is tried where no engine is: a simulated load that leaves a trace in the working folder.
const TRIED: [&str; 6] =
    ["load", "hackbench", "--on", "sim:cpus=8,kernel=cfs-6.1", "--trace", TRACE];
const TRACE: &str = "x.dat";

/// Builds the image of what lies in the folder, and runs it.
pub(super) fn build(folder: &Path) -> Result<()> {
    listed(folder)?;
    let Some(builder) = builder() else {
        steps::say(
            "MISSING: podman, docker with its daemon, or buildah: the container image was not built",
        );
        return followed(folder);
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

/// Prepares the folder, and checks what the image will hold.
pub(super) fn listed(folder: &Path) -> Result<()> {
    emptied(&folder.join("tmp"))?;
    std::fs::write(folder.join("tmp/.keep"), "").context("dist/tmp/.keep")?;
    let root = laid(folder)?.root;
    let files = contents::listed("cd \"$0\" && find . ! -type d", &root)?;
    contents::check(Path::new("Containerfile"), &files, contents::IMAGE)?;
    std::fs::remove_dir_all(&root).context("dist/image")
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

/// Follows the steps of `Containerfile` into a root of its own, and runs its program there as an engine would: what
/// the image holds is tried, and how an engine packs it is not.
fn followed(folder: &Path) -> Result<()> {
    if !is_root()? {
        steps::say("MISSING: root: the steps of Containerfile were not followed");
        return Ok(());
    }
    let Laid { root, place, program } = laid(folder)?;
    for arguments in [&["--version"][..], &TRIED[..]] {
        let mut command = Command::new("unshare");
        command
            .arg("--root")
            .arg(&root)
            .args(["--wd", place.as_str(), program.as_str()])
            .args(arguments);
        steps::run(command.env_clear())?;
    }
    let trace = root.join(place.trim_start_matches('/')).join(TRACE);
    ensure!(trace.is_file(), "the image's program leaves no {}", trace.display());
    steps::say("the steps of Containerfile give a root in which its program runs");
    std::fs::remove_dir_all(&root).context("dist/image")
}

/// What the steps of `Containerfile` give.
struct Laid {
    root: PathBuf,
    /// Where the program starts.
    place: String,
    program: String,
}

fn laid(folder: &Path) -> Result<Laid> {
    let root = std::path::absolute(folder.join("image"))?;
    emptied(&root)?;
    let inside = |path: &str| root.join(path.trim_start_matches('/'));
    let mut place = "/".to_owned();
    let mut program = String::new();
    let text = std::fs::read_to_string("Containerfile").context("Containerfile")?;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [] | ["FROM", "scratch"] => {}
            ["COPY", from, to] => {
                let to = inside(to);
                std::fs::create_dir_all(to.parent().context("a place in a folder")?)?;
                steps::run(Command::new("cp").arg("-aT").arg(folder.join(from)).arg(to))?;
            }
            ["WORKDIR", at] => {
                std::fs::create_dir_all(inside(at)).context(at.to_owned())?;
                at.clone_into(&mut place);
            }
            ["ENTRYPOINT", entry] => entry.trim_matches(['[', ']', '"']).clone_into(&mut program),
            _ => bail!("Containerfile: this check does not know the step: {line}"),
        }
    }
    Ok(Laid { root, place, program })
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
