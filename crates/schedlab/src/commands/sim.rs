//! `schedlab sim`: schedulers of source trees, files of costs and of machines for `--on sim`.

mod build;
mod calibrate;

use anyhow::anyhow;
use schedlab_sim::{Costs, MachineFile};
use std::io::Write as _;
use std::process::ExitCode;

/// Options of `schedlab sim`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Build the scheduler of a kernel's source tree, for sim:kernel=TREE
    Build(build::Build),
    /// Measure the costs of a machine by small runs, and write a file of costs
    Calibrate(calibrate::Args),
    /// Print a file of costs, to edit and use as costs=FILE
    Costs {
        /// Name of a file in the program [default: the usual costs]
        name: Option<String>,
    },
    /// Print a file that describes a machine, to edit and use as sim:machine=FILE; or list those in the program
    Machines {
        /// Name of a file in the program [default: list all]
        name: Option<String>,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Build(options) => build::run(options),
        Action::Calibrate(args) => calibrate::run(&args),
        Action::Costs { name } => costs(name.as_deref()),
        Action::Machines { name } => machine_files(name.as_deref()),
    }
}

fn costs(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    match name {
        Some(name) => {
            let text = Costs::preset(name).ok_or_else(|| {
                let own: Vec<&str> = Costs::presets().collect();
                let removed = crate::removed::value(&["sim", "costs"], "", name);
                let unknown =
                    || format!("unknown file of costs '{name}': use {}", own.join(" or "));
                anyhow::Error::msg(removed.unwrap_or_else(unknown))
            })?;
            writeln!(out, "{text}")?;
        }
        None => {
            for (cost, ns) in Costs::USUAL.all() {
                writeln!(out, "{cost} = {ns}")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn machine_files(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    if let Some(name) = name {
        let text = MachineFile::preset(name).ok_or_else(|| {
            let own: Vec<&str> = MachineFile::presets().collect();
            anyhow!("unknown machine '{}': use one of {}", name.escape_default(), own.join(", "))
        })?;
        write!(out, "{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    for name in MachineFile::presets() {
        let text = MachineFile::preset(name).unwrap_or_default();
        let file = MachineFile::parse(text).map_err(anyhow::Error::msg)?;
        writeln!(out, "{name:<14} {}", file.about)?;
    }
    Ok(ExitCode::SUCCESS)
}
