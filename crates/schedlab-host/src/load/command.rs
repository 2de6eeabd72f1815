//! A command of the user's in the load child: placed, begun with the others, ended with all that it
//! started, and what the kernel counted for it.

use super::child_report::LoadReport;
use super::child_request::Part;
use super::figures::of_resources;
use super::start_tasks;
use schedlab_model::{Better, Metric, Nanos, Pid, Unit, Warning};
use schedlab_sys::signal::Signals;
use schedlab_sys::task::{self, Resources};
use schedlab_sys::{clock, process};
use schedlab_workload::plan::Placement;
use schedlab_workload::{Figure, Interval, cut_by_limit};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

/// How long it may take to end after it was asked to.
const GRACE: Nanos = Nanos::from_secs(3);

/// Performs it; the child's exit code. What it inherits it has from the thread that starts it, so
/// that one is placed, and waits for its end (a command learns of the end of that thread alone).
pub(super) fn perform(
    line: &str,
    place: &Placement,
    limit: Option<Nanos>,
    cut_at: Option<Nanos>,
    part: Part,
    signals: Signals,
) -> Result<i32, LoadReport> {
    let failed = |why: String| LoadReport::Failed { option: None, why };
    let life = || {
        start_tasks::settle(place).map_err(|error| failed(start_tasks::sentence(error)))?;
        LoadReport::Tasks(Vec::new()).tell();
        if part.waits() {
            let input = io::stdin();
            let _ = process::poll(&[input.as_fd(), signals.fd()], None);
        }
        let before = Resources::of_children();
        let began = clock::monotonic();
        let child = start(line).map_err(|error| failed(format!("starting it: {error}")))?;
        follow(child, began, limit, cut_at, part, signals, &before)
            .map_err(|error| failed(format!("awaiting it: {error}")))
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, life);
        let thread = thread.map_err(|e| failed(process::thread_refused(&e).to_string()))?;
        thread.join().unwrap_or_else(|_| Err(failed("its thread panicked".to_owned())))
    })
}

/// In a process group of its own, so that all of it can be ended; what it prints goes where errors go.
fn start(line: &str) -> io::Result<Child> {
    let errors = || io::stderr().as_fd().try_clone_to_owned().map(Stdio::from);
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null()).stdout(errors()?).stderr(errors()?);
    command.process_group(0);
    process::die_with_parent(&mut command);
    command.spawn()
}

fn follow(
    mut child: Child,
    began: Nanos,
    limit: Option<Nanos>,
    cut_at: Option<Nanos>,
    part: Part,
    signals: Signals,
    before: &Resources,
) -> io::Result<i32> {
    let pid = Pid(child.id().cast_signed());
    let group = Pid(-pid.0);
    let ended = process::ended(&child)?;
    let _ = process::poll(&[ended.as_fd(), signals.fd()], limit);
    let by_itself = process::poll(&[ended.as_fd()], Some(Nanos::ZERO))?[0];
    let time = clock::monotonic() - began;
    if !by_itself {
        let _ = process::kill(group, 15);
        let _ = process::poll(&[ended.as_fd()], Some(GRACE));
    }
    // Read before it is reaped; of a shell that became the command it is the command's.
    let delay = task::run_delay(pid, pid);
    // Everything that it left behind ends with it.
    let _ = process::kill(group, 9);
    let code = process::exit_code(child.wait()?);
    let used = Resources::of_children().since(before);
    tell(time, by_itself.then_some(code), delay.map(|(delay, _)| delay), &used);
    let interrupted = !by_itself && signals.caught().is_some() && part != Part::Beside;
    let cut_at = cut_at.filter(|_| !by_itself && !interrupted && part != Part::Beside);
    cut_at.into_iter().for_each(|limit| LoadReport::Warning(cut_by_limit(limit)).tell());
    let mut failures = Vec::new();
    if by_itself && code != 0 {
        failures.push(format!("the command ended with exit code {code}"));
    } else if by_itself && part == Part::Beside {
        let what = format!("the command ended after {time}, before the workload");
        let remedy = "let the command last longer (a loop), or give the workload less time";
        LoadReport::Warning(Warning::new("ended-early", what, remedy)).tell();
    }
    let exit = i32::from(!failures.is_empty());
    LoadReport::Ended { interrupted, censored: cut_at.is_some(), failures }.tell();
    Ok(exit)
}

fn tell(time: Nanos, code: Option<i32>, delay: Option<Nanos>, used: &Resources) {
    LoadReport::Interval(Box::new(Interval {
        elapsed: time,
        covers: time,
        last: true,
        ..Interval::default()
    }))
    .tell();
    let figure = |name: &str, unit, better, value| {
        LoadReport::Figure(Figure {
            metric: Metric::new(name, unit, better),
            of: String::new(),
            value,
        })
        .tell();
    };
    use Better::{Lower, Neither};
    figure("time_s", Unit::Seconds, Lower, time.as_secs_f64());
    figure("tasks", Unit::Count, Neither, 1.0);
    // One that was made to end has none of its own.
    if let Some(code) = code {
        figure("exit_code", Unit::Count, Neither, code.into());
    }
    of_resources(used).into_iter().for_each(|figure| LoadReport::Figure(figure).tell());
    if let Some(delay) = delay {
        figure("run_delay_s", Unit::Seconds, Neither, delay.as_secs_f64());
    }
}
