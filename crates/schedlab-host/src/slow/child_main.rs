//! What the program does when it re-executes itself for us: it performs the [`Entry`] that it gets.

use super::child_entry::{Entry, enter};
use super::{SlowError, burner, hogs, latency, noise, probe};
use schedlab_model::CpuSet;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Performs a hidden entry: call it when the first argument is [`ARGUMENT`](super::ARGUMENT). Returns the exit code.
#[must_use]
pub fn hidden(arguments: &[OsString]) -> u8 {
    let entry = arguments.get(2).and_then(|json| serde_json::from_str(json.to_str()?).ok());
    let code = match entry {
        Some(Entry::Exec { groups, cpus, network, shown }) => {
            let argv = arguments.get(3..).unwrap_or(&[]);
            exec(&groups, &cpus, network.as_deref(), &shown, argv)
        }
        Some(Entry::Hogs { period, speeds, burning }) => hogs::child(period, &speeds, &burning),
        Some(Entry::Burn { groups, cpu }) => burner::child(&groups, cpu),
        Some(Entry::Fill { groups, cpu }) => burner::filler(&groups, cpu),
        Some(Entry::Sleeper { groups, cpu }) => latency::child(&groups, cpu),
        Some(Entry::Noise(noise)) => noise::child(&noise),
        Some(Entry::Probe { cpu, probe }) => probe::child(&probe, cpu),
        None => 2,
    };
    u8::try_from(code).unwrap_or(1)
}

/// Exit codes as a shell has them: 127 when there is no such command, 126 when it cannot be run.
fn exec(
    groups: &[PathBuf],
    cpus: &CpuSet,
    network: Option<&Path>,
    shown: &[(PathBuf, PathBuf)],
    argv: &[OsString],
) -> i32 {
    use std::io::Write;
    let mut stderr = std::io::stderr();
    let Some((program, arguments)) = argv.split_first() else { return 2 };
    let entered = enter(groups, cpus).and_then(|()| {
        let within = network.map_or(Ok(()), schedlab_sys::netns::enter);
        within.map_err(|e| SlowError::io("entering the network namespace", e))?;
        let shown = if shown.is_empty() { Ok(()) } else { schedlab_sys::mount::show(shown) };
        shown.map_err(|e| SlowError::io("showing the node in /proc/cpuinfo", e))
    });
    if let Err(error) = entered {
        let _ = writeln!(stderr, "schedlab: {error}");
        return 126;
    }
    let error = Command::new(program).args(arguments).exec();
    let _ = writeln!(stderr, "schedlab: cannot run '{}': {error}", program.display());
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}
