//! `schedlab vm`: kernels for virtual machines, got, built and searched.

mod bisect;
mod build;
pub(crate) mod kernels;
mod study;

use super::UsageError;
use crate::json;
use crate::output::{Width, folded_table};
use schedlab_experiment::report::Table;
use schedlab_vm::kernel::{DEBIAN, Kernel, offers};
use schedlab_vm::{VmError, emulator};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

/// Exit code of what a signal ended.
const EXIT_INTERRUPTED: u8 = 130;

/// Options of `schedlab vm`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab vm kernels                              list kernels, and what each one offers
  schedlab vm fetch debian-6.1                     get a Debian kernel without installing it
  schedlab vm fetch qemu                           get a QEMU that boots several CPUs
  schedlab vm build linux-source-6.12 --hz 1000    build a small kernel
  schedlab compare --side vm:kernel=debian-6.1 --side vm:kernel=debian-6.12 -- hackbench -g 1
  schedlab vm bisect v1 v2 --tree linux --worse 5% --workload 'hackbench -g 1'
  schedlab load hackbench --on vm:kernel=debian-6.1,cpus=1,clock=instructions
  machine = \"vm:kernel=debian-6.1\"               in an experiment file (docs/vm.md)")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List kernels in /boot, in the cache and from Debian, with what each offers
    Kernels {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        width: Width,
    },
    /// Fetch a kernel of Debian, or a newer QEMU, into the cache without installing it
    Fetch {
        /// Name of the kernel, such as debian-6.1; or qemu
        name: String,
    },
    /// Build a small kernel into the cache
    Build(build::Build),
    /// Find the commit that made a metric worse
    Bisect(bisect::Bisect),
    /// Measure the commit that git bisect checked out
    #[command(hide = true)]
    BisectStep(bisect::Step),
}

/// `schedlab vm kernels --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    /// Kernels in /boot and in the cache.
    kernels: Vec<KernelOffers>,
    /// Names of kernels that `schedlab vm fetch` gets.
    can_be_fetched: Vec<String>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/vm-kernels/1";
}

/// A kernel, and what it offers by name.
#[derive(Serialize, JsonSchema)]
struct KernelOffers {
    name: String,
    release: String,
    image: String,
    offers: BTreeMap<&'static str, String>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    schedlab_vm::cache::sweep();
    match args.action {
        Action::Kernels { json, width } => kernels(json, width)?,
        Action::Fetch { name } => return fetch(&name),
        Action::Build(options) => return build::run(options),
        Action::Bisect(options) => return bisect::run(options),
        Action::BisectStep(options) => return bisect::step(&options),
    }
    Ok(ExitCode::SUCCESS)
}

fn fetch(name: &str) -> anyhow::Result<ExitCode> {
    let is_kernel = name.starts_with("debian-");
    if name != "qemu" && !is_kernel {
        let why = format!("unknown name '{name}': use debian-6.1 or qemu");
        return Err(UsageError(why).into());
    }
    let fetched = match is_kernel {
        true => Kernel::find(name).map(|kernel| (kernel.release, kernel.image)),
        false => emulator::fetch().map(|qemu| (qemu.version, qemu.program)),
    };
    match fetched {
        Err(VmError::Interrupted) => Ok(ExitCode::from(EXIT_INTERRUPTED)),
        Err(error) => Err(usage_error(error)),
        Ok((version, path)) => {
            writeln!(crate::output::stdout(), "{version} {}", path.display())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn kernels(as_json: bool, width: Width) -> anyhow::Result<()> {
    let here = Kernel::here();
    let fetched = |name: &str| here.iter().any(|kernel| kernel.name() == name);
    let known = DEBIAN.map(|(version, suite)| (format!("debian-{version}"), suite));
    let more = known.into_iter().filter(|(name, _)| !fetched(name));
    if as_json {
        let of = |kernel: &Kernel| KernelOffers {
            name: kernel.name(),
            release: kernel.release.clone(),
            image: kernel.image.display().to_string(),
            offers: offers(kernel).into_iter().collect(),
        };
        return json::print(&Document {
            kernels: here.iter().map(of).collect(),
            can_be_fetched: more.map(|(name, _)| name).collect(),
        });
    }
    let mut out = crate::output::stdout();
    let mut table = Table::new(["kernel", "release", "offers"]);
    for kernel in &here {
        let offers: Vec<String> =
            offers(kernel).into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        table.row([kernel.name(), kernel.release.clone(), offers.join("; ")]);
    }
    for (name, suite) in more {
        table.row([name, "-".into(), format!("not fetched yet; in Debian {suite}")]);
    }
    write!(out, "{}", folded_table(&table.text(), "offers", width.room()))?;
    Ok(())
}

/// A wrong setting is wrong usage.
pub(crate) fn usage_error(error: VmError) -> anyhow::Error {
    match error {
        VmError::Setting { key, value, why } => UsageError(format!("{key} {value}: {why}")).into(),
        other => other.into(),
    }
}
