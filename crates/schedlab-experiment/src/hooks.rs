//! Commands of the user's around a run: before, beside it, after, and those that measure.

use crate::file::{DIRECTIONS, Hooks, UNITS};
use crate::store::RunWriter;
use schedlab_model::{Better, Metric, Pid, Unit};
use schedlab_sys::guard::{self, Ends};
use schedlab_sys::{process, signal};
use schedlab_workload::{Figure, MachineError, Output as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long what runs beside may take to be ready, and to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(10);
/// How soon a command that cannot begin has ended.
const BEGINNING: Duration = Duration::from_millis(100);
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
    let output = guard::output(&mut command)
        .map_err(|e| MachineError::io(format!("starting the hook '{name}'"), e))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().map(|line| format!(": {line}")).unwrap_or_default();
        let what = format!("hook '{name}' ended with {}{said}", output.status);
        return Err(MachineError::Load(what));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command that runs beside a run and ends with it, with all that it started.
pub(crate) struct Beside {
    child: Option<Child>,
    /// Ends what is left of it, also if this process is killed.
    ends: Option<Ends>,
}

impl Beside {
    /// Starts it, and waits until the `ready` hook is content: a scheduler that is still loading would
    /// be measured as if it were not there.
    pub(crate) fn start(hooks: &Hooks, folder: &Path) -> Result<Self, MachineError> {
        let Some(mut command) = command(&hooks.during, folder) else {
            return Ok(Self { child: None, ends: None });
        };
        let ends = Ends::of(&mut command);
        let name = hooks.during.join(" ");
        process::own_session(&mut command);
        let child = command.stdout(Stdio::null()).spawn();
        let doing = || format!("starting the hook '{name}'");
        let child = Some(child.map_err(|e| MachineError::io(doing(), e))?);
        let mut beside = Self { child, ends };
        let began = Instant::now();
        while !hooks.ready.is_empty() {
            let Err(error) = hook(&hooks.ready, folder) else { break };
            if !beside.lives() {
                return Err(MachineError::Load(format!("hook '{name}' ended before it was ready")));
            }
            if signal::caught().is_some() {
                return Err(MachineError::Load(format!(
                    "interrupted before hook '{name}' was ready"
                )));
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

    /// Why the run is none of what was to run beside it; `None` where that is still there, or may end. Of a run that was
    /// over at once the command has a moment to show that it cannot begin.
    pub(crate) fn ended_early(&mut self, hooks: &Hooks, took: Duration) -> Option<String> {
        self.child.as_ref()?;
        std::thread::sleep(BEGINNING.saturating_sub(took));
        let Ok(Some(status)) = self.child.as_mut()?.try_wait() else { return None };
        if hooks.may_end && status.success() {
            return None;
        }
        let name = hooks.during.join(" ");
        Some(format!("'{name}' ended before the run did, with {}", process::exit_code(status)))
    }

    /// Whether it is still there (or never was wanted).
    pub(crate) fn lives(&mut self) -> bool {
        self.child.as_mut().is_none_or(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Beside {
    /// Asks it to end, as its own end may put things back; kills what stays.
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let group = Pid(-child.id().cast_signed());
        let began = Instant::now();
        let _ = process::kill(group, SIGTERM);
        while matches!(child.try_wait(), Ok(None)) && began.elapsed() < PATIENCE {
            std::thread::sleep(LOOK / 10);
        }
        // What it started may outlive it.
        let _ = process::kill(group, SIGKILL);
        self.ends.iter().for_each(Ends::kill);
        let _ = child.wait();
    }
}

/// Figures from the output of a metric hook: lines `NAME VALUE`, which may end with a unit and a direction.
/// A value that is not a finite number, and a declared metric that is missing, are errors of the run.
pub(crate) fn take_figures(
    text: &str,
    hooks: &Hooks,
    writer: &mut RunWriter<'_>,
) -> Result<(), MachineError> {
    let mut missing = hooks.declared.as_ref();
    for line in text.lines() {
        let Some((metric, value)) = measured(line, hooks.declared.as_ref())? else { continue };
        missing = missing.filter(|declared| declared.name != metric.name);
        writer
            .figure(Figure { metric, of: String::new(), value })
            .map_err(|e| MachineError::io("storing a metric", e))?;
    }
    match missing {
        Some(metric) => {
            Err(MachineError::Load(format!("the metric hook did not print '{}'", metric.name)))
        }
        None => Ok(()),
    }
}

/// The metric of a line and its value; `None` for a line that is none of a metric.
fn measured(line: &str, declared: Option<&Metric>) -> Result<Option<(Metric, f64)>, MachineError> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (Some(name), Some(value)) = (words.first(), words.get(1)) else { return Ok(None) };
    let mut metric = Metric::new(*name, Unit::Count, Better::Neither);
    for word in &words[2..] {
        if let Some((_, unit)) = UNITS.iter().find(|(unit, _)| unit == word) {
            metric.unit = *unit;
        } else if let Some((_, better)) = DIRECTIONS.iter().find(|(better, _)| better == word) {
            metric.better = *better;
        } else {
            return Ok(None);
        }
    }
    let value = value.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(|| {
        let what = format!("the metric hook printed '{line}', whose value is not a finite number");
        MachineError::Load(what)
    })?;
    let metric = declared.filter(|declared| declared.name == *name).cloned().unwrap_or(metric);
    Ok(Some((metric, value)))
}
