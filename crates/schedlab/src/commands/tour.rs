//! `schedlab tour`.

use std::process::ExitCode;

/// Options of `schedlab tour`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab tour` is not there yet")
}
