//! `schedlab sim`: how wrong the simulated machine is, and what it takes things to cost.

mod build;
mod calibrate;
mod diff;
mod follow;
mod picture;

use crate::machines;
use anyhow::{Context as _, anyhow};
use schedlab_sim::validate::{COMPARED, TRUTHS, Truth, table_of};
use schedlab_sim::{Costs, MachineFile};
use schedlab_workload::MachineName;
use std::io::Write as _;
use std::path::PathBuf;
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
    /// Compare the model with times of a real kernel, and with two dummies
    Validate {
        /// Compare with the cells of this file [default: the cells in the program]
        #[arg(long, value_name = "FILE")]
        truth: Option<PathBuf>,
        /// Use this simulated machine [default: the one that the file names]
        #[arg(long, value_name = "MACHINE")]
        on: Option<MachineName>,
    },
    /// Measure the costs of a machine by small runs, and write a file of costs
    Calibrate(calibrate::Args),
    /// Find the first decision in which the model and a machine differ, from the same state
    Diff(diff::Args),
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
        Action::Validate { truth, on } => validate(truth, on.as_ref()),
        Action::Calibrate(args) => calibrate::run(&args),
        Action::Diff(args) => diff::run(&args),
        Action::Costs { name } => costs(name.as_deref()),
        Action::Machines { name } => machine_files(name.as_deref()),
    }
}

fn validate(file: Option<PathBuf>, on: Option<&MachineName>) -> anyhow::Result<ExitCode> {
    let own = "the program's own cells".to_owned();
    let texts = match file {
        Some(path) => {
            let place = path.display().to_string();
            let text = schedlab_sys::regular_file::text(&path).with_context(|| place.clone())?;
            vec![(place, text)]
        }
        None => {
            let texts = TRUTHS.iter().copied().chain(COMPARED.iter().map(|file| file.text));
            texts.map(|text| (own.clone(), text.to_owned())).collect()
        }
    };
    let mut out = crate::output::stdout();
    for (place, text) in texts {
        let truth = Truth::parse(&text).map_err(|why| anyhow!("{place}: {why}"))?;
        let measured_on: MachineName =
            truth.measured_on.parse().map_err(|why: String| anyhow!("{place}: {why}"))?;
        machines::measures(&measured_on, "time_s").map_err(|why| {
            anyhow!("{place}: the times of '{measured_on}' cannot judge a model: {why}")
        })?;
        let named = || truth.machine.parse().map_err(|why: String| anyhow!("{place}: {why}"));
        let name = on.map_or_else(named, |name| Ok(name.clone()))?;
        let model = machines::model(&name)?;
        let found = truth.compare(|cell| schedlab_sim::validate::simulate(cell, &model))?;
        let simulate = |cell: &_| schedlab_sim::validate::simulate_metrics(cell, &model);
        let metrics = truth.compare_metrics(simulate)?;
        let of_costs = Costs::PARAMETERS
            .iter()
            .find(|(preset, _)| name.settings.get("costs").is_some_and(|file| file == preset));
        let parameters =
            of_costs.map_or(String::new(), |(_, count)| format!(", {count} free parameters"));
        writeln!(out, "Kernel: {}.\nModel: {name}{parameters}.\n", truth.measured)?;
        if !found.rows.is_empty() {
            writeln!(out, "{found}")?;
        }
        if !metrics.is_empty() {
            writeln!(out, "{}", table_of(&metrics))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn costs(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    match name {
        Some(name) => {
            let own: Vec<&str> = Costs::presets().collect();
            let text = Costs::preset(name).ok_or_else(|| {
                anyhow!("unknown file of costs '{name}': use {}", own.join(" or "))
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
