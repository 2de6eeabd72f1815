//! `schedlab record`.

use std::process::ExitCode;

/// Options of `schedlab record`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab record` is not there yet")
}
