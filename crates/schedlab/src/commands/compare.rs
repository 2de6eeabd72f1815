//! `schedlab compare`.

use std::process::ExitCode;

/// Options of `schedlab compare`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab compare` is not there yet")
}
