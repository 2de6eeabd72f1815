//! A repository of Linux 6.12 with the commits of examples/bisect, and the kernels that `schedlab vm` builds of it.

use super::{HACKBENCH, cache, output};
use crate::evidence::{read, write};
use crate::steps;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "linux-source-6.12";
/// The commit that lets a woken task preempt a task with the same slice.
const PATCH: &str = "examples/bisect/06-a-shorter-slice-preempts.patch";
/// The branch that has only this commit.
const PLANTED: &str = "planted";
const MAIN: &str = "main";

/// The repository, made where it is absent.
pub(super) struct History(PathBuf);

impl History {
    /// The one beside a folder of results.
    pub(super) fn beside(results: &Path, program: &Path) -> Result<Self> {
        let history = Self(std::path::absolute(results.with_file_name("history"))?);
        if !history.is_done().is_file() {
            history.make(&package(program)?)?;
        }
        Ok(history)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Its commits, oldest first, each as a short name and a subject.
    pub(super) fn log(&self) -> Result<String> {
        output(self.git().args(["log", "--reverse", "--format=%h %s", MAIN]))
    }

    /// The name of its first commit: Debian's source.
    pub(super) fn first(&self) -> Result<String> {
        let log = self.log()?;
        Ok(log.split(' ').next().context("no commit")?.to_owned())
    }

    /// The name of the kernel that `schedlab vm` builds of a commit.
    pub(super) fn kernel(&self, revision: &str, tail: &str) -> Result<String> {
        let commit = output(self.git().args(["rev-parse", "--short=12", revision]))?;
        Ok(format!("git-{}-250hz-voluntary{tail}", commit.trim()))
    }

    /// Ten kernels that differ from the first commit's in neutral code.
    pub(super) fn placebos(&self) -> Result<Vec<String>> {
        let first = self.first()?;
        (1..=10).map(|number| self.kernel(&first, &format!("-placebo{number}"))).collect()
    }

    /// The kernels of the first commit, of the planted one and the placebos. Where one is absent, a comparison builds
    /// them.
    pub(super) fn kernels(&self, program: &Path) -> Result<(String, String, Vec<String>)> {
        let first = self.first()?;
        let (before, after) = (self.kernel(&first, "")?, self.kernel(PLANTED, "")?);
        let placebos = self.placebos()?;
        let folder = cache()?.join("schedlab/kernels");
        let is_built = |name: &String| folder.join(name).join("vmlinux").is_file();
        if ![&before, &after].into_iter().chain(&placebos).all(is_built) {
            let mut command = Command::new(program);
            command.args(["vm", "compare", &first, PLANTED, "--starts", "1", "--placebos", "10"]);
            steps::run(command.args(["--workload", HACKBENCH, "--tree"]).arg(self.path()))?;
        }
        Ok((before, after, placebos))
    }

    /// A file beside it says that it is complete: it has no files beside git's own.
    fn is_done(&self) -> PathBuf {
        self.0.with_extension("done")
    }

    /// git with names and times that are the same each time, so that commits are too.
    fn git(&self) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.0).args(["-c", "gc.auto=0", "-c", "core.autocrlf=false"]);
        command.args(["-c", "core.compression=0"]);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "schedlab");
            command.env(format!("GIT_{who}_EMAIL"), "schedlab@example.org");
            command.env(format!("GIT_{who}_DATE"), "2024-01-01T00:00:00Z");
        }
        command
    }

    fn run(&self, words: &[&str]) -> Result<()> {
        steps::run(self.git().args(words))
    }

    fn commit(&self, subject: &str) -> Result<()> {
        self.run(&["commit", "--quiet", "--message", subject])
    }

    /// Commits a patch, without files.
    fn apply(&self, patch: &Path) -> Result<()> {
        let text = read(patch)?;
        let path = std::fs::canonicalize(patch).context(format!("{}", patch.display()))?;
        steps::run(self.git().args(["apply", "--cached"]).arg(path))?;
        self.commit(text.lines().next().context("a patch begins with its subject")?)
    }

    /// Makes it: the source as its first commit, the patches in order, and a branch with one of them.
    fn make(&self, source: &Path) -> Result<()> {
        let tree = &self.0;
        if tree.exists() {
            std::fs::remove_dir_all(tree).context(format!("{}", tree.display()))?;
        }
        std::fs::create_dir_all(tree).context(format!("{}", tree.display()))?;
        self.run(&["init", "--quiet", "--initial-branch", MAIN])?;
        steps::run(self.git().arg("--work-tree").arg(source).args(["add", "--all", "--force"]))?;
        self.commit("Debian's linux-source-6.12")?;
        self.run(&["branch", PLANTED])?;
        let entries = std::fs::read_dir("examples/bisect").context("examples/bisect")?;
        let mut patches: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        patches.sort();
        patches.iter().try_for_each(|patch| self.apply(patch))?;
        for branch in [PLANTED, MAIN] {
            self.run(&["symbolic-ref", "HEAD", &format!("refs/heads/{branch}")])?;
            self.run(&["read-tree", "HEAD"])?;
            if branch == PLANTED {
                self.apply(Path::new(PATCH))?;
            }
        }
        write(&self.is_done(), "")
    }
}

/// The source, which `schedlab vm build` unpacks and keeps.
fn package(program: &Path) -> Result<PathBuf> {
    let source = cache()?.join("schedlab/builds").join(SOURCE).join(SOURCE);
    if !source.is_dir() {
        steps::run(Command::new(program).args(["vm", "build", SOURCE]))?;
    }
    Ok(source)
}
