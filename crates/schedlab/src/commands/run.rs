//! `schedlab run`.

use std::process::ExitCode;

/// Options of `schedlab run`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab run` is not there yet")
}
