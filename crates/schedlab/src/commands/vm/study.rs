//! Measuring kernels alike: the same load from the same starts on each of them.

use super::build::Shape;
use super::told;
use crate::commands::UsageError;
use crate::commands::load::{self, workload_of};
use crate::commands::temporary_folder::Scratch;
use crate::machines;
use anyhow::Context as _;
use schedlab_experiment::{Hooks, Place, Plan, Planned, RunId, StoredRun};
use schedlab_model::Setting;
use schedlab_vm::build::{self, Built};
use schedlab_vm::choices::{self, Starts};
use schedlab_workload::{MachineName, RecordSpec, RunSpec, Stream, WorkloadSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
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
    /// Build the sides from revisions of this git repository
    #[arg(long, value_name = "DIR")]
    pub(super) tree: Option<PathBuf>,
    /// Build N kernels that differ from the first side in neutral code [default: 10; 0 if the first
    /// side is not built]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=64))]
    pub(super) placebos: Option<u32>,
    /// Use this kernel as one that differs from the first side in neutral code (repeatable)
    #[arg(long, value_name = "KERNEL")]
    pub(super) placebo: Vec<String>,
    /// Settings of the virtual machine (docs/vm.md), without the kernel
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(super) vm: Option<String>,
    /// Store results in DIR; finished runs in it are not repeated
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    #[command(flatten)]
    pub(super) shape: Shape,
}

/// Where runs go.
#[derive(Debug)]
enum Folder {
    Kept(PathBuf),
    Scratch(Scratch),
}

/// Measures kernels.
#[derive(Debug)]
pub(super) struct Study {
    how: How,
    label: String,
    workload: WorkloadSpec,
    machine: MachineName,
    folder: Folder,
}

impl Study {
    /// Checks what was typed.
    pub(super) fn new(how: &How) -> anyhow::Result<Self> {
        let (label, workload) = workload_of(&how.workload)?;
        let text = how
            .vm
            .as_deref()
            .map_or(machines::VM.to_owned(), |settings| format!("{}:{settings}", machines::VM));
        let machine: MachineName = text.parse().map_err(UsageError)?;
        if machine.settings.contains_key("kernel") {
            let why = "option vm: leave 'kernel' out: the command compares kernels";
            return Err(UsageError(why.to_owned()).into());
        }
        let folder = match &how.output {
            Some(path) => {
                std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
                Folder::Kept(path.clone())
            }
            None => Folder::Scratch(Scratch::new("vm")?),
        };
        Ok(Self { how: how.clone(), label, workload, machine, folder })
    }

    /// Where its runs are.
    pub(super) fn folder(&self) -> &Path {
        match &self.folder {
            Folder::Kept(path) => path,
            Folder::Scratch(scratch) => scratch.path(),
        }
    }

    /// Builds a kernel of a source, or finds it in the cache.
    pub(super) fn build(
        &self,
        source: &str,
        placebo: u32,
        name: Option<String>,
    ) -> anyhow::Result<String> {
        let of = if placebo > 0 { format!(", placebo {placebo}") } else { String::new() };
        writeln!(crate::output::stderr(), "schedlab: building {source}{of}")?;
        let Built { name, .. } =
            build::build(&self.how.shape.wanted(source, placebo, name)).map_err(told)?;
        Ok(name)
    }

    /// The metric of a kernel, a value for each start.
    pub(super) fn values(&self, kernel: &str, settings: &[Setting]) -> anyhow::Result<Vec<f64>> {
        let runs = self.runs(kernel, settings, self.how.starts, None)?;
        let metric = &self.how.metric;
        let values: Option<Vec<f64>> = runs.iter().map(|run| run.value(metric)).collect();
        values.filter(|values| values.len() == self.how.starts as usize).with_context(|| {
            format!("kernel {kernel}: not every run measured {metric}: see docs/metrics.md")
        })
    }

    /// The choices of a kernel's scheduler in recorded runs, one for each start.
    pub(super) fn choices(&self, kernel: &str, settings: &[Setting]) -> anyhow::Result<Starts> {
        let runs = self.runs(kernel, settings, self.how.starts, Some(&RecordSpec::default()))?;
        anyhow::ensure!(!runs.is_empty(), "kernel {kernel}: no run was recorded");
        let of_run = |run: &StoredRun| {
            let trace = run.stream(Stream::Trace);
            let trace = trace.with_context(|| format!("kernel {kernel}: the run left no trace"))?;
            let mut source = schedlab_trace::open(&trace)?;
            Ok(choices::read(source.as_mut())?)
        };
        runs.iter().map(of_run).collect()
    }

    fn runs(
        &self,
        kernel: &str,
        settings: &[Setting],
        starts: u32,
        record: Option<&RecordSpec>,
    ) -> anyhow::Result<Vec<StoredRun>> {
        let mut name = self.machine.clone();
        name.settings.insert("kernel".to_owned(), kernel.to_owned());
        let recorded = if record.is_some() { ", recorded" } else { "" };
        writeln!(crate::output::stderr(), "schedlab: measuring {kernel}{recorded}")?;
        let mut machine = machines::make(&name)?;
        if record.is_none() {
            let refused = |why| UsageError(format!("metric {}: {why}", self.how.metric));
            machine.measures(&self.how.metric).map_err(refused)?;
        }
        let planned = |block: u32| {
            let spec = RunSpec {
                workload: self.workload.clone(),
                beside: Vec::new(),
                settings: settings.to_vec(),
                record: record.cloned(),
                seed: 1,
                repeat: block,
                time_limit: None,
            };
            let hooks = Hooks::default();
            let id = RunId::with_hooks(&name, &spec, &hooks);
            let (workload, point, machine) = (self.label.clone(), BTreeMap::new(), name.clone());
            Planned { id, workload, point, block, spec, hooks, machine }
        };
        let plan = Plan { runs: (0..starts).map(planned).collect() };
        let here = Place::of(&machine.facts());
        let (mut runs, tally) = load::perform(machine.as_mut(), &plan, self.folder())?;
        if tally.stopped {
            return Err(schedlab_vm::VmError::Interrupted.into());
        }
        if let Some(why) = tally.failed.first() {
            anyhow::bail!("kernel {kernel}: {why}");
        }
        // Others in the folder are of other kernels, also of one that had this name before.
        let is_one = |run: &StoredRun| {
            plan.runs.iter().any(|planned| planned.id == run.manifest.id)
                && run.manifest.place().is_near(&here)
        };
        runs.retain(is_one);
        runs.sort_by_key(|run| run.manifest.spec.repeat);
        Ok(runs)
    }
}
