//! Kernels by what is compared: a name, a package of Debian's source, or a revision of a git repository; and placebos,
//! which differ from one of them in neutral code.

use super::build::Shape;
use super::usage_error;
use crate::commands::UsageError;
use schedlab_vm::build::{self, Built};
use schedlab_vm::placebo::PLACEBOS;
use schedlab_vm::{Checkout, Kernel};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::PathBuf;

/// Where kernels come from.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args, Serialize, Deserialize)]
#[command(next_help_heading = "Kernels in QEMU (docs/vm.md)")]
pub(crate) struct Sources {
    /// Build kernels from revisions of this git repository
    #[arg(long, value_name = "DIR")]
    pub(crate) tree: Option<PathBuf>,
    /// Make N kernels that differ from the first one in neutral code [default: 10; 0 for one in QEMU
    /// that is not built]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(..=64))]
    placebos: Option<u32>,
    /// Use this kernel as one that differs from the first one in neutral code (repeatable)
    #[arg(long, value_name = "KERNEL")]
    placebo: Vec<String>,
    #[command(flatten)]
    shape: Shape,
}

impl Sources {
    /// Whether placebos were asked for.
    pub(crate) fn wants_placebos(&self) -> bool {
        self.placebos.is_some_and(|wanted| wanted > 0) || !self.placebo.is_empty()
    }

    /// How many placebos to make, where `own` are made unless the user says otherwise.
    pub(crate) fn placebos(&self, own: u32) -> u32 {
        self.placebos.unwrap_or(own)
    }

    /// The placebos that the user named.
    pub(crate) fn named_placebos(&self) -> impl Iterator<Item = String> + '_ {
        self.placebo.iter().cloned()
    }

    /// The name of a commit's kernel.
    pub(super) fn name_of(&self, commit: &str, placebo: u32) -> String {
        let short = commit.get(..12).unwrap_or(commit);
        format!("git-{short}-{}", self.shape.word(placebo))
    }

    /// Builds a kernel of a source, or finds it in the cache.
    pub(super) fn build(
        &self,
        source: &str,
        placebo: u32,
        name: Option<String>,
    ) -> anyhow::Result<String> {
        let of = if placebo > 0 { format!(", placebo {placebo}") } else { String::new() };
        writeln!(crate::output::stderr(), "schedlab: building {source}{of}")?;
        let Built { name, .. } =
            build::build(&self.shape.wanted(source, placebo, name)).map_err(usage_error)?;
        Ok(name)
    }
}

/// Finds kernels and builds those that are not there.
pub(crate) struct Kernels<'s> {
    sources: &'s Sources,
    pub(super) checkout: Option<Checkout>,
}

impl<'s> Kernels<'s> {
    pub(crate) fn of(sources: &'s Sources) -> anyhow::Result<Self> {
        let checkout =
            sources.tree.as_deref().map(Checkout::of).transpose().map_err(usage_error)?;
        Ok(Self { sources, checkout })
    }

    /// Whether a kernel is built here, and so are placebos of it.
    pub(crate) fn is_built(&self, source: &str) -> bool {
        self.checkout.is_some() || source.starts_with("linux-source-")
    }

    /// The name of the kernel of a source, built where it must be; `placebo` is 0, or the number of a placebo of it.
    pub(crate) fn kernel(&self, source: &str, placebo: u32) -> anyhow::Result<String> {
        match (self.checkout.as_ref().zip(self.sources.tree.as_deref()), self.is_built(source)) {
            (Some((checkout, tree)), _) => {
                let commit = checkout.commit(tree, source).map_err(usage_error)?;
                self.of_commit(checkout, &commit, placebo)
            }
            (None, true) => self.sources.build(source, placebo, None),
            (None, false) => {
                // What is wrong with it is reported before anything is measured.
                Kernel::find(source).map_err(usage_error)?;
                Ok(source.to_owned())
            }
        }
    }

    /// The kernel of a commit. A commit does not change, so one that was built is not built again.
    fn of_commit(&self, checkout: &Checkout, commit: &str, placebo: u32) -> anyhow::Result<String> {
        let name = self.sources.name_of(commit, placebo);
        if Kernel::is_built(&name) {
            return Ok(name);
        }
        checkout.check_out(commit).map_err(usage_error)?;
        self.sources.build(&checkout.path().display().to_string(), placebo, Some(name))
    }

    /// The kernels that differ from that of a source in neutral code: those that were named, and those to build.
    pub(crate) fn placebos(&self, source: &str) -> anyhow::Result<Vec<String>> {
        let own = if self.is_built(source) { PLACEBOS as u32 } else { 0 };
        let wanted = self.sources.placebos(own);
        if wanted > 0 && !self.is_built(source) {
            let why = format!(
                "option placebos: {source} is not built here: name kernels with --placebo, or compare \
                 linux-source-VERSION or revisions of a --tree"
            );
            return Err(UsageError(why).into());
        }
        let built = (1..=wanted).map(|number| self.kernel(source, number));
        self.sources.named_placebos().map(Ok).chain(built).collect()
    }
}
