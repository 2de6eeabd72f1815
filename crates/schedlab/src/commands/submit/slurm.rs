//! Jobs of Slurm: an array whose tasks do shards of a frozen plan, and a job after it that gathers.

use super::{UsageError, quoted};
use anyhow::Context as _;
use schedlab_experiment::frozen::Frozen;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Tasks of an array: Slurm's default for MaxArraySize allows indices up to 1000.
const TASKS_MAX: usize = 1_000;

/// A plan that becomes jobs.
pub(super) struct Job<'j> {
    pub(super) frozen: &'j Frozen,
    /// Where the plan is for the jobs.
    pub(super) folder: &'j Path,
    pub(super) results: &'j Path,
    /// Whether runs measure the node.
    pub(super) measures: bool,
}

impl Job<'_> {
    /// The scripts of the array and of the job that gathers.
    pub(super) fn scripts(&self, program: &Path) -> anyhow::Result<(String, String)> {
        let name = &self.frozen.experiment.name;
        let folder = plain(self.folder)?;
        let output = plain(self.results.parent().unwrap_or(Path::new(".")))?;
        let program = quoted(&plain(program)?);
        let tasks = self.frozen.portions.len().min(TASKS_MAX);
        let node = match self.measures {
            // Nothing else runs beside a measurement.
            true => "#SBATCH --exclusive".to_owned(),
            false => format!("#SBATCH --cpus-per-task={}", self.cpus()),
        };
        let array = format!(
            "#!/bin/sh\n#SBATCH --job-name=schedlab-{name}\n#SBATCH --array=1-{tasks}\n#SBATCH --nodes=1\n\
             #SBATCH --ntasks=1\n{node}\n#SBATCH --requeue\n#SBATCH --open-mode=append\n\
             #SBATCH --output={folder}/slurm/%a.log\n\
             exec {program} work {folder} --shard \"$SLURM_ARRAY_TASK_ID/{tasks}\"\n"
        );
        let gather = format!(
            "#!/bin/sh\n#SBATCH --job-name=schedlab-{name}-gather\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n\
             #SBATCH --open-mode=append\n#SBATCH --output={folder}/slurm/gather.log\n\
             exec {program} gather {folder} --output {output}\n"
        );
        Ok((array, gather))
    }

    /// CPUs of a task: those of the largest virtual machine, or one.
    fn cpus(&self) -> usize {
        let machines = self.frozen.experiment.machines();
        let of = machines.iter().filter(|machine| machine.kind == crate::machines::VM);
        let cpus = of.filter_map(|machine| machine.settings.get("cpus")?.parse().ok());
        cpus.max().unwrap_or(1)
    }

    /// Writes the scripts into the frozen plan and hands them to sbatch.
    pub(super) fn submit(&self, program: &Path, options: &[String]) -> anyhow::Result<ExitCode> {
        let (array, gather) = self.scripts(program)?;
        let inside = self.folder.join("slurm");
        std::fs::create_dir_all(&inside).with_context(|| inside.display().to_string())?;
        let put = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = inside.join(name);
            std::fs::write(&path, text).with_context(|| path.display().to_string())?;
            Ok(path)
        };
        let (array, gather) = (put("work.sh", &array)?, put("gather.sh", &gather)?);
        let work = sbatch(&array, options, None)?;
        // After tasks that failed, too: it says which runs are missing.
        let after = sbatch(&gather, options, Some(&format!("--dependency=afterany:{work}")))?;
        let mut out = crate::output::stdout();
        writeln!(out, "job {work}: the runs, from {}", array.display())?;
        writeln!(out, "job {after}: gathers after it into {}", self.results.display())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// A path as scripts name it: absolute, without characters that sbatch or a shell reads as its own.
fn plain(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).with_context(|| path.display().to_string())?;
    let text = path.display().to_string();
    let fits = |c: char| c.is_alphanumeric() || "/-_.+,:@=".contains(c);
    match text.chars().find(|c| !fits(*c)) {
        None => Ok(text),
        Some(letter) => {
            let what = format!(
                "{text}: sbatch may not take '{letter}' in a path: use a folder without it (--freeze, --output, --binary)"
            );
            Err(UsageError(what).into())
        }
    }
}

/// Hands a script over; the number of its job.
fn sbatch(script: &Path, options: &[String], more: Option<&str>) -> anyhow::Result<String> {
    let mut command = Command::new("sbatch");
    command.arg("--parsable").args(options).args(more).arg(script);
    let out = command.output().context("sbatch, of Slurm")?;
    let said = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "sbatch refused {}: {}", script.display(), said.trim());
    let text = String::from_utf8_lossy(&out.stdout);
    // NUMBER, or NUMBER;CLUSTER.
    let number = text.trim().split(';').next().unwrap_or_default().to_owned();
    anyhow::ensure!(!number.is_empty(), "sbatch printed no number of a job");
    Ok(number)
}
