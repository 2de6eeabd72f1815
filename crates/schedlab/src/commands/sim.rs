//! `schedlab sim`: how wrong the simulated machine is, and what it takes things to cost.

mod calibrate;
mod observe;

use crate::machines;
use anyhow::{Context as _, anyhow};
use schedlab_model::{Setting, Warning};
use schedlab_sim::Costs;
use schedlab_sim::validate::{Cell, Said, TRUTHS, Truth};
use schedlab_workload::{Figure, MachineName, Output, RunSpec, Stream, WorkloadSpec};
use std::collections::BTreeMap;
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
    /// Compare the model with what a real kernel took, beside two dummies
    Validate {
        /// A file of cells; by default those that come with the program
        #[arg(long, value_name = "FILE")]
        truth: Option<PathBuf>,
        /// The simulated machine; by default the one that the file names
        #[arg(long, value_name = "MACHINE")]
        on: Option<MachineName>,
    },
    /// Measure what things cost on a machine, by small runs, and write a file of costs
    Calibrate(calibrate::Args),
    /// Print a file of costs, to be changed and given as costs=FILE
    Costs {
        /// A file that comes with the program; without it the usual costs
        name: Option<String>,
    },
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.action {
        Action::Validate { truth, on } => validate(truth, on.as_ref()),
        Action::Calibrate(args) => calibrate::run(&args),
        Action::Costs { name } => costs(name.as_deref()),
    }
}

fn validate(file: Option<PathBuf>, on: Option<&MachineName>) -> anyhow::Result<ExitCode> {
    let own = "the program's own cells".to_owned();
    let texts = match file {
        Some(path) => {
            let place = path.display().to_string();
            let text = std::fs::read_to_string(&path).with_context(|| place.clone())?;
            vec![(place, text)]
        }
        None => TRUTHS.iter().map(|text| (own.clone(), (*text).to_owned())).collect(),
    };
    let mut out = crate::output::stdout();
    for (place, text) in texts {
        let truth = Truth::parse(&text).map_err(|why| anyhow!("{place}: {why}"))?;
        let named = || truth.machine.parse().map_err(|why: String| anyhow!("{place}: {why}"));
        let name = on.map_or_else(named, |name| Ok(name.clone()))?;
        if name.kind != "sim" {
            return Err(anyhow!("'{name}' is not simulated: use sim:KEY=VALUE,..."));
        }
        let found = truth.compare(|cell| simulate(cell, &name))?;
        writeln!(out, "Kernel: {}.\nModel: {name}.\n\n{found}", truth.measured)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts of the model, at shifted phases of the tick, where the truth has fewer.
const STARTS: usize = 8;

/// What the model says of a cell, in as many starts as the kernel had or more.
fn simulate(cell: &Cell, name: &MachineName) -> anyhow::Result<Vec<Said>> {
    let starts = cell.time_s.len().max(STARTS) as u32;
    (0..starts).map(|repeat| start(cell, name, repeat)).collect()
}

fn start(cell: &Cell, name: &MachineName, repeat: u32) -> anyhow::Result<Said> {
    let workload =
        WorkloadSpec::Builtin { name: cell.workload.clone(), options: cell.options.clone() };
    let setting =
        |(knob, value): (&String, &String)| Setting { knob: knob.clone(), value: value.clone() };
    let settings = cell.knobs.iter().map(setting).collect();
    let spec = RunSpec { settings, repeat, ..RunSpec::of(workload) };
    let mut figures = Figures::default();
    machines::make(name)?.run(&spec, &mut figures)?;
    let figure = |name: &str| {
        figures.0.get(name).copied().ok_or_else(|| anyhow!("the model gave no {name}"))
    };
    Ok(Said {
        time_s: figure("time_s")?,
        voluntary: figure("switches_voluntary")?,
        involuntary: figure("switches_involuntary")?,
    })
}

/// Keeps the figures of a whole run.
#[derive(Default)]
struct Figures(BTreeMap<String, f64>);

impl Output for Figures {
    fn path(&mut self, _: Stream) -> PathBuf {
        PathBuf::new()
    }

    fn figure(&mut self, figure: Figure) -> std::io::Result<()> {
        if figure.of.is_empty() {
            self.0.insert(figure.metric.name, figure.value);
        }
        Ok(())
    }

    fn warning(&mut self, _: Warning) {}

    fn stopped(&self) -> bool {
        false
    }
}

fn costs(name: Option<&str>) -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    match name {
        Some(name) => {
            let own: Vec<&str> = Costs::presets().collect();
            let text = Costs::preset(name).ok_or_else(|| {
                anyhow!("there is no file of costs '{name}': use {}", own.join(" or "))
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
