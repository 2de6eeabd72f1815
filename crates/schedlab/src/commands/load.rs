//! `schedlab load`.

use std::process::ExitCode;

/// Options of `schedlab load`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab load` is not there yet")
}
