//! `schedlab knobs`.

use std::process::ExitCode;

/// Options of `schedlab knobs`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab knobs` is not there yet")
}
