//! Commands of the user's around a run: before, beside it, after, and those that measure.

use crate::file::Hooks;
use crate::store::RunWriter;
use schedlab_model::{Better, Metric, Pid, Unit};
use schedlab_sys::process;
use schedlab_workload::{Figure, MachineError, Output as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long what runs beside may take to be ready, and to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);
/// A hook whose program an axis replaced by this word is left out at that point.
pub(crate) const NONE: &str = "none";

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

impl Hooks {
    /// All of them with their keys.
    pub(crate) fn all(&self) -> [(&'static str, &[String]); 5] {
        [
            ("before", &self.before),
            ("during", &self.during),
            ("ready", &self.ready),
            ("after", &self.after),
            ("metric", &self.metric),
        ]
    }

    /// Puts the value of an axis wherever a hook has its name in braces.
    pub(crate) fn put(&mut self, name: &str, value: &str) {
        let place = format!("{{{name}}}");
        let all = [
            &mut self.before,
            &mut self.during,
            &mut self.ready,
            &mut self.after,
            &mut self.metric,
        ];
        for argument in all.into_iter().flatten() {
            *argument = argument.replace(&place, value);
        }
    }
}

fn command(argv: &[String], folder: &Path) -> Option<Command> {
    let (program, arguments) = argv.split_first()?;
    if program.is_empty() || program == NONE {
        return None;
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).env("SCHEDLAB_RUN", folder);
    Some(command)
}

/// Runs a hook to its end; its failure is the run's. Returns what it printed.
pub(crate) fn hook(argv: &[String], folder: &Path) -> Result<String, MachineError> {
    let Some(mut command) = command(argv, folder) else { return Ok(String::new()) };
    let name = argv.join(" ");
    let output =
        command.output().map_err(|e| MachineError::io(format!("starting the hook '{name}'"), e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        let what = format!("hook '{name}' ended with {}{said}", output.status);
        return Err(MachineError::Load(what));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command that runs beside a run and ends with it, with all that it started.
pub(crate) struct Beside(Option<Child>);

impl Beside {
    /// Starts it, and waits until the `ready` hook is content: a scheduler that is still loading would
    /// be measured as if it were not there.
    pub(crate) fn start(hooks: &Hooks, folder: &Path) -> Result<Self, MachineError> {
        let Some(mut command) = command(&hooks.during, folder) else { return Ok(Self(None)) };
        let name = hooks.during.join(" ");
        process::own_session(&mut command);
        process::die_with_parent(&mut command);
        let child = command.stdout(Stdio::null()).spawn();
        let doing = || format!("starting the hook '{name}'");
        let mut beside = Self(Some(child.map_err(|e| MachineError::io(doing(), e))?));
        let began = Instant::now();
        while !hooks.ready.is_empty() {
            let Err(error) = hook(&hooks.ready, folder) else { break };
            if !beside.lives() {
                return Err(MachineError::Load(format!("hook '{name}' ended before it was ready")));
            }
            if began.elapsed() > PATIENCE {
                let what =
                    format!("hook '{name}' was not ready within {} s: {error}", PATIENCE.as_secs());
                return Err(MachineError::Load(what));
            }
            std::thread::sleep(LOOK);
        }
        Ok(beside)
    }

    /// Whether it is still there (or never was wanted).
    pub(crate) fn lives(&mut self) -> bool {
        self.0.as_mut().is_none_or(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Beside {
    /// Asks it to end, as its own end may put things back; kills what stays.
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        let group = Pid(-child.id().cast_signed());
        let began = Instant::now();
        let _ = process::kill(group, SIGTERM);
        while matches!(child.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
            std::thread::sleep(LOOK / 10);
        }
        // What it started may outlive it.
        let _ = process::kill(group, SIGKILL);
        let _ = child.wait();
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
            .map_err(|e| MachineError::io("storing a metric", e))?;
    }
    Ok(())
}
