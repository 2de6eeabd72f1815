//! `schedlab report`.

use std::process::ExitCode;

/// Options of `schedlab report`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab report` is not there yet")
}
