//! Measuring kernels alike: the same load from the same starts on each of them.

use super::kernels::Sources;
use crate::commands::UsageError;
use crate::commands::load::workload_of;
use crate::commands::rounds::{Cell, measure};
use crate::commands::temporary_folder::Folder;
use crate::machines;
use anyhow::Context as _;
use schedlab_experiment::{Hooks, Machines};
use schedlab_workload::{MachineName, RunSpec, WorkloadSpec};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// What is measured, and how.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub(super) struct How {
    /// Measure this load
    #[arg(long, value_name = "WORKLOAD [OPTIONS]")]
    pub(super) workload: String,
    /// Decide by this metric (docs/metrics.md)
    #[arg(long, value_name = "NAME", default_value = "time_s")]
    pub(super) metric: String,
    /// Measure from N starts, each at another phase of the tick
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) starts: u32,
    /// Settings of the virtual machine (docs/vm.md), without the kernel
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(super) vm: Option<String>,
    /// Store results in DIR; finished runs in it are not repeated
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) sources: Sources,
}

/// Measures kernels.
#[derive(Debug)]
pub(super) struct Study {
    how: How,
    workload: (String, WorkloadSpec),
    machine: MachineName,
    folder: Folder,
}

impl Study {
    /// Checks what was typed.
    pub(super) fn new(how: &How) -> anyhow::Result<Self> {
        let workload = workload_of(&how.workload)?;
        let text = how
            .vm
            .as_deref()
            .map_or(machines::VM.to_owned(), |settings| format!("{}:{settings}", machines::VM));
        let machine: MachineName = text.parse().map_err(UsageError)?;
        if machine.settings.contains_key("kernel") {
            let why = "option vm: leave 'kernel' out: the command compares kernels";
            return Err(UsageError(why.to_owned()).into());
        }
        let folder = Folder::of(how.output.as_deref(), "vm")?;
        Ok(Self { how: how.clone(), workload, machine, folder })
    }

    /// Where its runs are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The metric of a kernel, a value for each start.
    pub(super) fn values(&self, kernel: &str) -> anyhow::Result<Vec<f64>> {
        let metric = &self.how.metric;
        let mut machine = self.machine.clone();
        machine.settings.insert("kernel".to_owned(), kernel.to_owned());
        writeln!(crate::output::stderr(), "schedlab: measuring {kernel}")?;
        let mut machines = Machines::made_by(&machines::make);
        let refused = |why| UsageError(format!("metric {metric}: {why}"));
        machines.get(&machine)?.measures(metric).map_err(refused)?;
        let (label, workload) = &self.workload;
        let spec = RunSpec { seed: 1, ..RunSpec::of(workload.clone()) };
        let cell = Cell { machine, spec, hooks: Hooks::default() };
        let (mut runs, stopped) =
            measure(&mut machines, &[cell], label, 0..self.how.starts, self.folder())?;
        if stopped {
            return Err(schedlab_vm::VmError::Interrupted.into());
        }
        let runs = runs.pop().unwrap_or_default();
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.value(metric)).collect();
        values.filter(|values| values.len() == self.how.starts as usize).with_context(|| {
            format!("kernel {kernel}: not every run measured {metric}: see docs/metrics.md")
        })
    }
}
