//! `schedlab sim calibrate`: a file of costs from small runs on a machine.

use crate::commands::observe::observe;
use crate::commands::result_file::save;
use crate::machines;
use anyhow::{Context as _, bail};
use schedlab_sim::Model;
use schedlab_sim::calibrate::recorded::{self, Shown};
use schedlab_sim::calibrate::{Calibration, number, probes, solve};
use schedlab_workload::MachineName;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab sim calibrate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure this machine; it must have one CPU
    #[arg(long, value_name = "MACHINE", required_unless_present = "from")]
    against: Option<MachineName>,
    /// Take what a recording of a machine shows instead: idle_exit, if it has several CPUs, and fork
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "repeat", "only"])]
    from: Option<PathBuf>,
    /// Search costs for this simulated machine, starting from its own
    #[arg(long, value_name = "MACHINE", default_value = "sim:kernel=cfs-6.1")]
    on: MachineName,
    /// Write the costs to FILE instead of printing them
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Run each probe N times, at shifted phases of the tick, and use the median
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Decide only these costs (post,tick); others stay those of the simulated machine
    #[arg(long, value_name = "COSTS", value_delimiter = ',')]
    only: Vec<String>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if machines::is_tree(&args.on) {
        bail!(
            "'{}' runs a kernel's own code, whose paths take time by themselves: calibrate the costs \
             on sim:kernel=eevdf-6.12, and use the file with both",
            args.on
        );
    }
    let model = machines::model(&args.on)?;
    if let Some(from) = &args.from {
        return from_recording(from, args, &model);
    }
    let against = args.against.as_ref().context("--against: name a machine")?;
    let cpus = model.topology.places().len();
    if cpus != 1 {
        bail!("'{}' has {cpus} CPUs: costs are measured on one, so use cpus=1", args.on);
    }
    let mut machine = machines::make(against)?;
    let cpus = machine.offers().allowed.len();
    if cpus != 1 {
        bail!(
            "'{against}' has {cpus} CPUs: costs are measured on one. Use cpus=1, or run \
             `taskset --cpu-list 0 schedlab sim calibrate ...` for the host"
        );
    }
    let mut all = probes(model.kernel);
    if !args.only.is_empty() {
        all.retain(|probe| probe.costs.iter().any(|cost| args.only.iter().any(|o| o == cost)));
    }
    if all.is_empty() {
        bail!("no probe decides {}: see `schedlab sim costs`", args.only.join(" or "));
    }
    let mut measured = Vec::new();
    let mut progress = crate::output::stderr();
    for (at, probe) in all.iter().enumerate() {
        writeln!(progress, "probe {} of {}: {}", at + 1, all.len(), probe.name)?;
        let found = number(probe, args.repeat, &mut |spec| observe(machine.as_mut(), spec, false));
        measured.push(found.with_context(|| format!("probe '{}'", probe.name))?);
    }
    let found = solve(&model, &all, &measured, args.repeat)?;
    let file = found.file(&against.to_string(), &args.on.to_string());
    let mut out = crate::output::stdout();
    match &args.output {
        Some(path) => {
            save(path, &file)?;
            write!(out, "{}", summary(&found))?;
            writeln!(out, "Wrote {}. Use it as costs={}", path.display(), path.display())?;
        }
        None => write!(out, "{file}")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The costs that a recording shows.
fn from_recording(from: &Path, args: &Args, model: &Model) -> anyhow::Result<ExitCode> {
    let mut source = schedlab_trace::open(from)?;
    let name = from.display().to_string();
    let shown = recorded::shown(&mut *source, &model.costs).with_context(|| name.clone())?;
    let told: Vec<String> = shown.iter().map(Shown::to_string).collect();
    if shown.iter().all(|one| one.ns.is_none()) {
        bail!("{name}: shows no cost: {}", told.join("; "));
    }
    let file = recorded::file(&shown, model.costs, &name, &args.on.to_string());
    let mut out = crate::output::stdout();
    match &args.output {
        Some(path) => {
            save(path, &file)?;
            writeln!(out, "{}", told.join("\n"))?;
            writeln!(out, "Wrote {}. Use it as costs={}", path.display(), path.display())?;
        }
        None => write!(out, "{file}")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The probes with the model's error beside each, and the number of parameters.
fn summary(found: &Calibration) -> String {
    use std::fmt::Write as _;
    let mut text =
        String::from("| probe | costs | measured ns | model ns | error |\n|---|---|---|---|---|\n");
    for one in &found.found {
        let ns = |ns: Option<f64>| ns.map_or("not visible".to_owned(), |ns| format!("{ns:.0}"));
        let error = match one.error() {
            Some(_) if one.is_beyond => "not from any cost: left alone".to_owned(),
            Some(error) => format!("{:+.1} %", error * 100.0),
            None => String::new(),
        };
        let measured = ns(one.measured_ns);
        let model = ns(one.model_ns);
        let costs = one.costs.join(", ");
        let _ = writeln!(text, "| {} | {costs} | {measured} | {model} | {error} |", one.probe);
    }
    let parameters = found.parameters();
    let _ = writeln!(
        text,
        "\n{parameters} free parameters, decided by {parameters} numbers of {} probes. These errors say that the \
         search ended, not that the costs are right.",
        found.found.len()
    );
    text
}
