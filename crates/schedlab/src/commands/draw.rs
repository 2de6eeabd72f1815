//! `schedlab draw`.

use std::process::ExitCode;

/// Options of `schedlab draw`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab draw` is not there yet")
}
