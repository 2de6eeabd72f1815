//! `schedlab trace info`.

use std::process::ExitCode;

/// Options of `schedlab trace info`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab trace info` is not there yet")
}
