//! `schedlab jobs`.

use std::process::ExitCode;

/// Options of `schedlab jobs`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab jobs` is not there yet")
}
