//! Repeats, interleaved with a second setting, by the one run loop; intervals and a verdict.

use super::Wanted;
use std::process::ExitCode;

pub(super) fn run(_wanted: &Wanted) -> anyhow::Result<ExitCode> {
    anyhow::bail!("repeats are not there yet")
}
