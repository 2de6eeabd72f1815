//! `schedlab doctor`.

use std::process::ExitCode;

/// Options of `schedlab doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab doctor` is not there yet")
}
