//! `schedlab sim build`: the scheduler of a source tree becomes an image that the simulator runs.

use super::super::vm::usage_error;
use schedlab_kernel::build::{Built, Wanted, build};
use schedlab_model::Nanos;
use schedlab_vm::VmError;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Exit code of what a signal ended.
const EXIT_INTERRUPTED: u8 = 130;

#[derive(clap::Args)]
pub(super) struct Build {
    /// A folder with kernel source, FOLDER@REVISION, or a Debian package (linux-source-6.12)
    source: String,
    /// Take symbols of the kernel's configuration from this file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set a symbol of the kernel's configuration, such as CONFIG_HZ_1000=y (repeatable)
    #[arg(long, value_name = "SYMBOL=VALUE")]
    set: Vec<String>,
    /// Name of the image [default: from its source and configuration]
    #[arg(long)]
    name: Option<String>,
    /// Stop a build after this time
    #[arg(long, value_name = "TIME", default_value = "1200s")]
    time_limit: Nanos,
}

pub(super) fn run(options: Build) -> anyhow::Result<ExitCode> {
    let Build { source, config, set, name, time_limit: limit } = options;
    let by_tree = name.is_none() && config.is_none() && set.is_empty() && !source.contains('@');
    let typed = source.clone();
    match build(&Wanted { source, config, set, name, limit }) {
        Ok(Built { name, new, code, .. }) => {
            let what = if new { "built" } else { "in the cache already" };
            let mut out = crate::output::stdout();
            writeln!(
                out,
                "{name}: {what}: Linux {}, HZ={}, preempt={}{}",
                code.release, code.hz, code.preempt, code.options
            )?;
            let kernel = if by_tree { &typed } else { &name };
            writeln!(out, "Use it: schedlab load hackbench --on sim:kernel={kernel},cpus=8")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(VmError::Interrupted) => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        Err(error) => Err(usage_error(error)),
    }
}
