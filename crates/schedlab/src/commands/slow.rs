//! `schedlab slow`.

use std::process::ExitCode;

/// Options of `schedlab slow`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab slow` is not there yet")
}
