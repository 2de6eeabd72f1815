//! `schedlab view`.

use std::process::ExitCode;

/// Options of `schedlab view`.
#[derive(clap::Args)]
pub(crate) struct Args {}

/// Runs it.
pub(crate) fn run(_args: Args) -> anyhow::Result<ExitCode> {
    anyhow::bail!("`schedlab view` is not there yet")
}
