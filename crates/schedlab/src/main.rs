//! The command `schedlab`: options, help, exit codes, and the wiring of machines.
//!
//! Libraries measure, read, draw, search and infer. Each subcommand (one file under `commands/`) turns
//! what was typed into calls of them, and prints what came back. First of all, capabilities of the
//! program's file leave force ([`schedlab_sys::capability`]). Before the options are looked at,
//! two things are decided by name: the hidden entries by which the program re-executes itself (the
//! load child and the guardian), and the names of other tools under which it may be called.

mod cli;
mod commands;
mod json;
mod machines;
mod output;
mod removed;

use clap::FromArgMatches;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// The user's command line or input was wrong in a way that clap could not see.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    if let Err(error) = schedlab_sys::capability::lower() {
        return finish(Err(error.into()));
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = commands::hidden(&arguments).or_else(|| commands::drop_in(&arguments)) {
        return code;
    }
    // Arguments may be any bytes; clap takes them as they are.
    let typed = cli::command().try_get_matches_from(&arguments);
    let cli = match typed.and_then(|typed| cli::Cli::from_arg_matches(&typed)) {
        Ok(cli) => cli,
        Err(error) => {
            return tell(&cli::with_advice(error, &arguments));
        }
    };
    finish(cli.command.run())
}

/// Prints what clap says. Help and version are results and go to stdout with 0; the rest is wrong usage, and repeats
/// arguments.
fn tell(said: &clap::Error) -> ExitCode {
    let (printed, code) = if said.use_stderr() {
        (write!(output::stderr(), "{}", said.render()), EXIT_USAGE)
    } else {
        (said.print(), 0)
    };
    if printed.is_ok() { ExitCode::from(code) } else { ExitCode::FAILURE }
}

/// Turns what a subcommand returned into an exit code; an error becomes a sentence on stderr.
fn finish(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(code) => code,
        // The reader of our output has seen enough: that is success, as for any filter.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(crate::output::stderr(), "schedlab: {}", sentence(&error));
            let usage = error.downcast_ref::<commands::UsageError>().is_some();
            let signal =
                schedlab_sys::signal::caught().and_then(|signal| u8::try_from(signal).ok());
            ExitCode::from(match signal {
                Some(signal) => 128 + signal,
                None if usage => EXIT_USAGE,
                None => 1,
            })
        }
    }
}

/// An error and its causes; a cause that was said already is not said again.
fn sentence(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        // At first too: every text starts with none.
        if cause.starts_with(&text) {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
