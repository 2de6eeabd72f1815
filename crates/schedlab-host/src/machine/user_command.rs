//! A run whose load is a command of the user's.

use super::recording::RunRecording;
use crate::load_process::GRACE;
use crate::load_reports::store;
use crate::run_settings::RunSettings;
use crate::{load, marks};
use schedlab_model::{Better, Metric, Nanos, Pid, Setting, Unit};
use schedlab_sys::signal::Signals;
use schedlab_sys::task::Resources;
use schedlab_sys::{clock, process};
use schedlab_workload::{Figure, MachineError, Outcome, Output, Stream, cut_by_limit};
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

/// A command under settings is started by `knobs run`: attributes of tasks must be taken on by the
/// process that becomes the command.
pub(super) fn under_settings(program: &Path, argv: &[String], settings: &[Setting]) -> Vec<String> {
    if settings.is_empty() {
        return argv.to_vec();
    }
    let mut all = vec![program.display().to_string(), "knobs".into(), "run".into()];
    all.extend(settings.iter().map(ToString::to_string));
    all.push("--".into());
    all.extend_from_slice(argv);
    all
}

/// Runs the user's command as it stands; its output goes where `out` wants it.
pub(super) fn run(
    argv: &[String],
    launched: bool,
    limit: Option<Nanos>,
    signals: Signals,
    recording: &RunRecording,
    settings: &RunSettings,
    out: &mut dyn Output,
) -> Result<Outcome, MachineError> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(MachineError::Load("the command is empty".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).env_remove(marks::VARIABLE);
    if let Some(marks) = recording.marks_path() {
        // From here: the command may go elsewhere.
        command.env(marks::VARIABLE, std::path::absolute(&marks).unwrap_or(marks));
    }
    // A command with our streams is a guest at the user's terminal: it stays in its foreground, is
    // and is not killed for being slow to end.
    let guest = !out.keeps_streams();
    if !guest {
        command.stdout(create(&out.path(Stream::Stdout))?);
        command.stderr(create(&out.path(Stream::Stderr))?);
        process::die_with_parent(&mut command);
        process::own_session(&mut command);
    }
    settings.mark(&mut command);
    let before = Resources::of_children();
    let began = clock::monotonic();
    let mut child =
        command.spawn().map_err(|e| MachineError::io(format!("starting '{program}'"), e))?;
    // It has just begun: what it starts from now on is where it is.
    settings
        .admit(child.id())
        .map_err(|e| MachineError::io("moving the command to where it is slowed", e))?;
    let ended = process::ended(&child).map_err(|e| MachineError::io("awaiting the command", e))?;
    // Otherwise it leads a session and so a process group: all that it started are asked.
    let pid = child.id().cast_signed();
    let group = Pid(if guest { pid } else { -pid });
    let mut asked: Option<Nanos> = None;
    // Asked by the run's time limit.
    let mut cut = false;
    loop {
        let fds = [ended.as_fd(), signals.fd()];
        let watched = if asked.is_some() { &fds[..1] } else { &fds[..] };
        let ready = process::poll(watched, Some(recording.patience()))
            .map_err(|e| MachineError::io("awaiting the command", e))?;
        if ready[0] {
            break;
        }
        recording.look();
        let now = clock::monotonic();
        let over = limit.is_some_and(|limit| now > began + limit);
        match asked {
            None if over || signals.caught().is_some() || out.stopped() => {
                cut = signals.caught().is_none() && !out.stopped();
                let signal = signals.caught().unwrap_or(15);
                // Ctrl-C at a terminal has reached a guest already.
                if !(guest && signal == 2 && std::io::stdin().is_terminal()) {
                    let _ = process::kill(group, signal);
                }
                asked = Some(now);
            }
            Some(since) if now > since + GRACE && !guest => {
                let _ = process::kill(group, 9);
            }
            _ => {}
        }
    }
    let took = clock::monotonic() - began;
    // It has ended and is not awaited yet: now the kernel's files about it are complete.
    // What is `launched` under settings is a child of our launcher, whose own waiting is no figure of it.
    let main = if launched { None } else { schedlab_sys::task::run_delay(Pid(pid), Pid(pid)) };
    let status = child.wait().map_err(|e| MachineError::io("awaiting the command", e))?;
    let used = Resources::of_children().since(&before);
    of_command(took, &used, main).into_iter().try_for_each(|figure| store(out, figure))?;
    let censored = limit.filter(|_| cut);
    censored.into_iter().for_each(|limit| out.warning(cut_by_limit(limit)));
    // The exit code is then of our own making.
    let exit_code = if cut { 0 } else { process::exit_code(status) };
    Ok(Outcome { exit_code, interrupted: asked.is_some() && !cut, censored: cut })
}

/// The figures of a command: its time, what the kernel counted for it and all children that it awaited
/// (`getrusage`), and how long its first thread waited for a CPU (`schedstat`, of which the kernel keeps no
/// sum over children).
fn of_command(took: Nanos, used: &Resources, main: Option<(Nanos, u64)>) -> Vec<Figure> {
    let figure = |name: &str, unit, better, value| Figure {
        metric: Metric::new(name, unit, better),
        of: String::new(),
        value,
    };
    let count = |name, value: u64| figure(name, Unit::Count, Better::Neither, value as f64);
    let time =
        |name, better, value: Nanos| figure(name, Unit::Seconds, better, value.as_secs_f64());
    let mut all = vec![time("time_s", Better::Lower, took)];
    all.extend(load::of_resources(used));
    all.extend([
        count("faults_minor", used.faults_minor),
        count("faults_major", used.faults_major),
    ]);
    if let Some((delay, timeslices)) = main {
        all.push(time("main_run_delay_s", Better::Neither, delay));
        all.push(count("main_timeslices", timeslices));
    }
    all
}

fn create(path: &Path) -> Result<File, MachineError> {
    // Plain: of a run whose folder is hidden until it is whole.
    File::create(path).map_err(|e| MachineError::io(format!("creating {}", path.display()), e))
}
