//! The ten longest waits for a CPU in a trace (perf.data, trace.dat, Perfetto or text), with who woke whom.
//!
//! A program outside this workspace: `cargo xtask publish` compiles it against the packaged libraries.

use schedlab_timeline::{TaskId, Why, Worst, ask};
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: longest-waits FILE");
        return ExitCode::from(2);
    };
    match print(&path) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("longest-waits: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(path: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut trace = schedlab_trace::open(path)?;
    let reply = ask(trace.as_mut(), Worst::new(10))?;
    let name = |task: TaskId| format!("{} {}", reply.state.name(task), reply.state.task(task).pid);
    for wait in &reply.answer {
        let why = match wait.why {
            Why::Preempted | Why::Displaced | Why::Yielded => "displaced".to_owned(),
            _ if wait.waker == TaskId::NONE => "woken by an interrupt".to_owned(),
            _ => format!("woken by {}", name(wait.waker)),
        };
        let (time, since) = (wait.at - wait.since, wait.since - reply.origin);
        println!("{time} from {since} on CPU {}: {}, {why}", wait.cpu, name(wait.task));
    }
    for warning in &reply.warnings {
        eprintln!("warning: {warning}");
    }
    Ok(())
}
