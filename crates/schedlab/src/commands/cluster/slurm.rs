//! Jobs of Slurm: an array whose tasks do shards of a frozen plan, and a job after it that gathers.

use super::{Planned, ToFreeze, UsageError, quoted};
use crate::commands::result_file::save;
use anyhow::Context as _;
use schedlab_experiment::Plan;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Tasks of an array: Slurm's default for MaxArraySize allows indices up to 1000.
const TASKS_MAX: usize = 1_000;
/// Simulated runs for which a task is worth its start.
const TOGETHER: usize = 32;

/// Options of `schedlab cluster slurm`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab cluster slurm x.toml --dry-run                     the scripts for sbatch
  schedlab cluster slurm x.toml --sbatch=--partition=quiet    an array, and a job that gathers

All nodes must share the folders. The same command again does what is missing.")]
pub(super) struct Args {
    #[command(flatten)]
    plan: ToFreeze,
    /// Program that does the runs, as the nodes see it [default: this one]
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Option for sbatch, such as --sbatch=--partition=quiet (repeatable)
    #[arg(long, value_name = "OPTION")]
    sbatch: Vec<String>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let planned = args.plan.read()?;
    if !planned.experiment.may_be_shared() {
        let file = planned.experiment.path.display();
        let what = format!(
            "{file}: nodes would share measurements of a plan that keeps hosts apart: write hosts = \"blocks\""
        );
        return Err(UsageError(what).into());
    }
    let program = match &args.binary {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => std::env::current_exe().context("the path of this program")?,
    };
    let (array, gather) = planned.scripts(&program)?;
    if args.dry_run {
        write!(crate::output::stdout(), "{array}\n{gather}")?;
        return Ok(ExitCode::SUCCESS);
    }
    planned.freeze()?;
    planned.submit(&array, &gather, &args.sbatch)
}

impl Planned {
    /// The scripts of the array and of the job that gathers.
    fn scripts(&self, program: &Path) -> anyhow::Result<(String, String)> {
        let name = &self.experiment.name;
        let folder = plain(&self.folder)?;
        let output = plain(self.results.parent().unwrap_or(Path::new(".")))?;
        let program = quoted(&plain(program)?);
        let measures = self.experiment.measures_its_host();
        let plan = Plan::listed(&self.experiment)?;
        let single = plan.runs.iter().filter(|run| run.is_simulated()).count();
        let blocks = plan.units().len() - single;
        let tasks = (blocks + single.div_ceil(TOGETHER)).min(TASKS_MAX);
        let node = match measures {
            // Nothing else runs beside a measurement.
            true => "#SBATCH --exclusive".to_owned(),
            false => format!("#SBATCH --cpus-per-task={}", self.cpus()),
        };
        let array = format!(
            "#!/bin/sh\n#SBATCH --job-name=schedlab-{name}\n#SBATCH --array=1-{tasks}\n#SBATCH --nodes=1\n\
             #SBATCH --ntasks=1\n{node}\n#SBATCH --requeue\n#SBATCH --open-mode=append\n\
             #SBATCH --output={folder}/slurm/%a.log\n\
             exec {program} cluster work {folder} --shard \"$SLURM_ARRAY_TASK_ID/{tasks}\"\n"
        );
        let gather = format!(
            "#!/bin/sh\n#SBATCH --job-name=schedlab-{name}-gather\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n\
             #SBATCH --open-mode=append\n#SBATCH --output={folder}/slurm/gather.log\n\
             exec {program} cluster gather {folder} --output {output}\n"
        );
        Ok((array, gather))
    }

    /// CPUs of a task: those of the largest virtual machine, or one.
    fn cpus(&self) -> usize {
        let machines = self.experiment.machines();
        let of = machines.iter().filter(|machine| machine.kind == crate::machines::VM);
        let cpus = of.filter_map(|machine| machine.settings.get("cpus")?.parse().ok());
        cpus.max().unwrap_or(1)
    }

    /// Writes the scripts into the frozen plan and hands them to sbatch.
    fn submit(&self, array: &str, gather: &str, options: &[String]) -> anyhow::Result<ExitCode> {
        let inside = self.folder.join("slurm");
        std::fs::create_dir_all(&inside).with_context(|| inside.display().to_string())?;
        let put = |name: &str, text: &str| -> anyhow::Result<PathBuf> {
            let path = inside.join(name);
            save(&path, text)?;
            Ok(path)
        };
        let array = put("work.sh", array)?;
        let gather = put("gather.sh", gather)?;
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
    let out = schedlab_sys::guard::output(&mut command).context("sbatch, of Slurm")?;
    let said = String::from_utf8_lossy(&out.stderr);
    anyhow::ensure!(out.status.success(), "sbatch refused {}: {}", script.display(), said.trim());
    let text = String::from_utf8_lossy(&out.stdout);
    // NUMBER, or NUMBER;CLUSTER.
    let number = text.trim().split(';').next().unwrap_or_default().to_owned();
    anyhow::ensure!(!number.is_empty(), "sbatch printed no number of a job");
    Ok(number)
}
