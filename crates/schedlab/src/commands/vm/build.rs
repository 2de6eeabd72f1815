//! `schedlab vm build`, and what other commands say about the kernels that they build.

use super::{EXIT_INTERRUPTED, usage_error};
use schedlab_model::Nanos;
use schedlab_vm::VmError;
use schedlab_vm::build::{self, Built, Choice, PLACEBO_MAX, Wanted};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// How a kernel is configured.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
pub(super) struct Shape {
    /// Ticks per second: 100, 250, 300 or 1000
    #[arg(long, default_value_t = 250)]
    hz: u32,
    /// Preemption model: none, voluntary, full or lazy
    #[arg(long, value_name = "MODEL", default_value = "voluntary")]
    preempt: String,
    /// Set a symbol of the kernel's configuration, such as CONFIG_SCHED_CORE=n (repeatable)
    #[arg(long, value_name = "SYMBOL=VALUE")]
    set: Vec<String>,
    /// Let schedulers of BPF programs be loaded (sched_ext), and build those of the kernel's source
    #[arg(long)]
    #[serde(default)]
    ext: bool,
    /// Stop a build after this time
    #[arg(long, value_name = "TIME", default_value = "3600s")]
    time_limit: Nanos,
}

impl Shape {
    /// A word for names of kernels.
    pub(super) fn word(&self, placebo: u32) -> String {
        self.choice(placebo).word()
    }

    fn choice(&self, placebo: u32) -> Choice {
        let Self { hz, preempt, set, ext, .. } = self.clone();
        Choice { hz, preemption: preempt, set, ext, placebo }
    }

    /// A build of `source` in this shape.
    pub(super) fn wanted(&self, source: &str, placebo: u32, name: Option<String>) -> Wanted {
        let choice = self.choice(placebo);
        let limit = self.time_limit;
        Wanted { source: source.to_owned(), choice, patch: None, name, limit }
    }
}

#[derive(clap::Args)]
pub(super) struct Build {
    /// A Debian package (linux-source-6.12), or a folder with kernel source
    source: String,
    #[command(flatten)]
    shape: Shape,
    /// Apply this patch first
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    /// Begin each function of the fair scheduler with N instructions that do nothing
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(PLACEBO_MAX)))]
    placebo: u32,
    /// Name of the kernel [default: from its source and configuration]
    #[arg(long)]
    name: Option<String>,
}

/// Runs `schedlab vm build`.
pub(super) fn run(options: Build) -> anyhow::Result<ExitCode> {
    let Build { source, shape, patch, placebo, name } = options;
    let wanted = Wanted { patch, ..shape.wanted(&source, placebo, name) };
    let mut stderr = crate::output::stderr();
    writeln!(
        stderr,
        "schedlab: building a kernel: minutes of all CPUs, less if objects are there"
    )?;
    match build::build(&wanted) {
        Ok(Built { name, new }) => {
            let what = if new { "built" } else { "in the cache already" };
            writeln!(crate::output::stdout(), "{name}: {what}; use it as vm:kernel={name}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(VmError::Interrupted) => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        Err(error) => Err(usage_error(error)),
    }
}
