//! `schedlab trace convert`.

use std::process::ExitCode;

/// Options of `schedlab trace convert`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab trace convert` is not there yet")
}
