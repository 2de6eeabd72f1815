//! The world around a run: hooks of the user's, and signs that something else used the machine.

use crate::file::Hooks;
use crate::store::RunWriter;
use schedlab_model::{Better, Fact, MachineFacts, Metric, Unit, Warning};
use schedlab_workload::{Figure, MachineError, Output as _};
use std::process::{Child, Command, Stdio};

/// Stolen time beyond this part of a run's CPU time makes it doubtful.
const STEAL_MAX: f64 = 0.01;
/// Load averages beyond this part of the CPUs before a run make it doubtful.
const LOAD_MAX: f64 = 0.5;

/// What is done around each run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doubts<'e> {
    pub(crate) hooks: &'e Hooks,
    /// How often a doubtful run is done again.
    pub(crate) retries: u32,
}

/// Doubts from the machine before a run and after it. Those that a further attempt may cure are
/// [`is_passing`].
pub(crate) fn doubts(before: &MachineFacts, after: &MachineFacts, took_ns: u64) -> Vec<Warning> {
    let mut out = Vec::new();
    let cpus = before.allowed.len().max(1) as f64;
    let stolen = after.load.steal_ns.saturating_sub(before.load.steal_ns) as f64;
    let part = stolen / (took_ns.max(1) as f64 * before.online.len().max(1) as f64);
    if part > STEAL_MAX {
        let what =
            format!("the hypervisor took {:.1} % of the CPU time during the run", part * 100.0);
        out.push(Warning::new("steal", what, "measure when its other guests are quiet"));
    }
    let [load, ..] = before.load.average;
    // Our own earlier runs stay in the average for minutes: running tasks are asked as well.
    let running = before.load.runnable.saturating_sub(1) as f64;
    if load > LOAD_MAX * cpus && running > LOAD_MAX * cpus {
        let what = format!("{running} other tasks were runnable before the run (load {load:.1})");
        out.push(Warning::new("machine-busy", what, "stop them, or wait"));
    }
    if let (Fact::Known(a), Fact::Known(b)) =
        (&before.frequency.governors, &after.frequency.governors)
        && a != b
    {
        let what = format!("the governor went from {} to {}", a.join(", "), b.join(", "));
        out.push(Warning::new("governor-changed", what, "fix it for the experiment"));
    }
    if before.online != after.online {
        let what = format!("CPUs went from {} to {} during the run", before.online, after.online);
        out.push(Warning::new("cpus-changed", what, "keep CPUs on line during an experiment"));
    }
    out
}

/// Whether another attempt may be free of a doubt.
pub(crate) fn is_passing(warning: &Warning) -> bool {
    ["steal", "machine-busy", "governor-changed", "cpus-changed"].contains(&warning.code.as_str())
}

fn command(argv: &[String]) -> Option<Command> {
    let (program, arguments) = argv.split_first()?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    Some(command)
}

/// Runs a hook to its end; its failure is the run's.
pub(crate) fn hook(argv: &[String], folder: &std::path::Path) -> Result<String, MachineError> {
    let Some(mut command) = command(argv) else { return Ok(String::new()) };
    command.env("SCHEDLAB_RUN", folder);
    let name = argv.join(" ");
    let output =
        command.output().map_err(|e| MachineError::io(format!("starting the hook '{name}'"), e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        return Err(MachineError::Load(format!(
            "hook '{name}' ended with {}{said}",
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command that runs beside a run and ends with it.
pub(crate) struct Beside(Option<Child>);

impl Beside {
    pub(crate) fn start(argv: &[String]) -> Result<Self, MachineError> {
        let Some(mut command) = command(argv) else { return Ok(Self(None)) };
        let child = command.stdout(Stdio::null()).spawn();
        let doing = || format!("starting the hook '{}'", argv.join(" "));
        Ok(Self(Some(child.map_err(|e| MachineError::io(doing(), e))?)))
    }

    /// Whether it is still there (or never was wanted).
    pub(crate) fn lives(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Figures from the output of a metric hook: lines of a name and a value.
pub(crate) fn take_figures(text: &str, writer: &mut RunWriter<'_>) -> Result<(), MachineError> {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(value), None) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Ok(value) = value.parse::<f64>() else { continue };
        let metric = Metric::new(name, Unit::Count, Better::Neither);
        writer
            .figure(Figure { metric, of: String::new(), value })
            .map_err(|e| MachineError::io("storing a figure", e))?;
    }
    Ok(())
}
