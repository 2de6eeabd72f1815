//! A kernel in QEMU as a [`Machine`].

use crate::decisions::Decisions;
use crate::frame::{self, Domain, Frame, GuestRequest};
use crate::guest;
use crate::qemu::{self, Build, Qemu};
use crate::qmp::Wait;
use crate::request::{Clock, Request};
use crate::{Kernel, VmError, domains, emulator, initramfs, scheduler};
use schedlab_model::{Fact, LoadFacts, MachineFacts, Nanos, Topology};
use schedlab_sys::{clock, process, regular_file};
use schedlab_workload::{Machine, MachineError, Offers, Outcome, Output, RunSpec, check_spec};
use sha2::{Digest, Sha256};
use std::fs::File;

/// How long a boot may take, in the machine's own time.
const BOOT: Nanos = Nanos::from_secs(300);
/// How long a boot with KVM may take before it counts as not working.
const BOOT_KVM: Nanos = Nanos::from_secs(20);
/// Said with each run of a guest that KVM did not boot.
const WITHOUT_KVM: &str = "the guest runs without KVM, many times slower than hardware: /dev/kvm opens, \
                           but it did not boot this kernel";
/// Repeats begin at phases of this period: the longest tick that kernels have (100 Hz).
const PERIOD: Nanos = Nanos::from_millis(10);
/// The run's description is padded to a multiple of this, so that its length does not matter.
const PADDING: usize = 4096;

/// A guest that has booted.
#[derive(Debug)]
pub struct Vm {
    build: Build,
    offers: Offers,
    facts: MachineFacts,
    /// The state from which each run starts.
    state: File,
    after: Option<LoadFacts>,
}

impl Vm {
    /// Boots what is asked for.
    ///
    /// # Errors
    /// When QEMU or the kernel is missing, or the guest does not boot; then with the last lines of its
    /// console.
    pub fn boot(mut request: Request) -> Result<Self, VmError> {
        let kernel = Kernel::find(&request.kernel)?;
        request.qemu = emulator::program(&request.qemu)?;
        let version = qemu::version(&request.qemu)?;
        check_cpus(&request, &version)?;
        let program = process::this_program().map_err(VmError::io("finding this program"))?;
        let mut packed = initramfs::init(&program)?;
        let mut identity = identity(&kernel, &packed)?;
        if let Some(config) = &kernel.config {
            packed.extend(initramfs::config(config, &kernel.release));
        }
        if let Some(name) = &request.ext {
            let program = scheduler::find(&kernel, name)?;
            identity = format!("{identity}; scheduler sha256 {}", hash(&program));
            packed.extend(scheduler::pack(&program));
        }
        let initramfs = qemu::file_of("initramfs", &packed)?;
        let kvm = request.clock == Clock::Wall && qemu::may_use_kvm();
        let mut build = Build { request, kernel, initramfs, version, kvm, fell_back: false };
        let booted = match first_boot(&build) {
            // Where the device is there, it still need not boot this kernel.
            Err(VmError::Guest { .. }) if build.kvm => {
                (build.kvm, build.fell_back) = (false, true);
                first_boot(&build)
            }
            booted => booted,
        };
        let Booted { offers, facts, domains, state } = booted?;
        check_topology(&build.request, &offers.topology)?;
        domains::check(&build.request, &domains)?;
        let repeatable = build.request.clock == Clock::Instructions;
        let commands = Fact::Unknown(
            "the guest holds only schedlab: use one of schedlab's workloads".to_owned(),
        );
        let offers = Offers { machine: "vm".to_owned(), repeatable, commands, ..*offers };
        let machine = build.machine().join(" ");
        let version = &build.version;
        let names = domains::in_words(&domains);
        let hypervisor =
            Fact::Known(format!("{version}; {machine}; {identity}; scheduler domains: {names}"));
        let facts = MachineFacts { host: "vm".to_owned(), hypervisor, ..*facts };
        Ok(Self { build, offers, facts, state, after: None })
    }
}

impl Machine for Vm {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    fn facts(&self) -> MachineFacts {
        let load = self.after.clone().unwrap_or_else(|| self.facts.load.clone());
        MachineFacts { load, ..self.facts.clone() }
    }

    fn check(&self, spec: &RunSpec) -> Result<(), MachineError> {
        check_spec(spec, &self.offers)
    }

    fn measures(&self, metric: &str) -> Result<(), String> {
        self.build.request.measures(metric)
    }

    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        if self.build.fell_back {
            out.note(WITHOUT_KVM);
        }
        let asked = GuestRequest { spec: spec.clone(), wait: guest::wait(spec.repeat, PERIOD) };
        let mut asked = serde_json::to_vec(&asked).expect("specs are plain values");
        asked.resize(asked.len().next_multiple_of(PADDING), b' ');
        let asked = qemu::file_of("run", &asked)?;
        let until = clock::monotonic() + self.build.request.patience;
        let stopped = || out.stopped();
        let wait = Wait { doing: "the run", until, stopped: &stopped };
        let result = perform(&self.build, &self.state, &asked, &wait);
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(VmError::Interrupted) => {
                return Ok(Outcome { exit_code: 130, interrupted: true, censored: false });
            }
            Err(error) => return Err(error.into()),
        };
        let shared = self.build.request.shares_instructions();
        let (outcome, after) = match shared {
            true => frame::replay(&bytes, &mut Decisions::of(out))?,
            false => frame::replay(&bytes, out)?,
        };
        self.after = after;
        Ok(outcome)
    }
}

/// A guest that told what it is, with its state.
struct Booted {
    offers: Box<Offers>,
    facts: Box<MachineFacts>,
    domains: Vec<Vec<Domain>>,
    state: File,
}

fn first_boot(build: &Build) -> Result<Booted, VmError> {
    let until = clock::monotonic() + if build.kvm { BOOT_KVM } else { BOOT };
    let wait = Wait { doing: "the boot", until, stopped: &|| false };
    let mut qemu = Qemu::start(build, None, &wait)?;
    qemu.await_stop(&wait)?;
    let bytes = qemu.frames()?;
    let Ok(Some((Frame::Ready { offers, facts, domains }, ..))) = Frame::read(&bytes) else {
        let what = "the guest did not report what it offers".to_owned();
        return Err(qemu.explain(VmError::Guest { what, console: Vec::new() }));
    };
    let state = qemu::file_of("state", &[])?;
    qemu.save(&state, &wait)?;
    Ok(Booted { offers, facts, domains, state })
}

fn perform(build: &Build, state: &File, asked: &File, wait: &Wait<'_>) -> Result<Vec<u8>, VmError> {
    let mut qemu = Qemu::start(build, Some((state, asked)), wait)?;
    qemu.go_on(wait)?;
    qemu.await_stop(wait)?;
    qemu.frames()
}

/// What QEMU cannot do is reported before it is tried.
fn check_cpus(request: &Request, version: &str) -> Result<(), VmError> {
    if !request.shares_instructions()
        || qemu::major(version).is_none_or(|major| major >= qemu::SEVERAL_CPUS)
    {
        return Ok(());
    }
    Err(VmError::Setting {
        key: "cpus".to_owned(),
        value: request.cpus.to_string(),
        why: format!(
            "{version} hangs when several CPUs boot with clock=instructions: use QEMU {} or later \
             (vm:qemu=debian fetches it, vm:qemu=PATH names one), cpus=1, or clock=wall",
            qemu::SEVERAL_CPUS
        ),
    })
}

/// The guest's kernel must see the CPUs as they were asked for.
fn check_topology(request: &Request, seen: &Topology) -> Result<(), VmError> {
    let wanted = &request.topology;
    let cores = seen.groups(|place| place.core).len();
    let parts = [
        ("cpus", request.cpus, seen.places().len()),
        ("threads", wanted.threads, seen.places().len() / cores.max(1)),
        ("sockets", wanted.sockets, seen.groups(|place| place.socket).len()),
        // The CPUs of a socket share a cache, and no others do.
        ("sockets", wanted.sockets, seen.groups(|place| place.llc).len()),
        ("nodes", wanted.nodes, seen.groups(|place| place.node).len()),
    ];
    match parts.into_iter().find(|(_, wanted, seen)| *wanted as usize != *seen) {
        None => Ok(()),
        Some((key, wanted, seen)) => Err(VmError::Setting {
            key: key.to_owned(),
            value: wanted.to_string(),
            why: format!("the guest's kernel sees {seen}"),
        }),
    }
}

/// What tells guests apart: hashes of the kernel, of its configuration, and of init with its libraries.
/// The sides of a comparison may differ in the first two, never in init.
fn identity(kernel: &Kernel, init: &[u8]) -> Result<String, VmError> {
    let image = regular_file::read(&kernel.image, regular_file::PROGRAM_MAX)
        .map_err(VmError::io(format!("reading {}", kernel.image.display())))?;
    let config = kernel.config.as_ref().map_or("none".to_owned(), |text| hash(text.as_bytes()));
    let kernel = hash(&image);
    let init = hash(init);
    Ok(format!("kernel sha256 {kernel}; config sha256 {config}; init sha256 {init}"))
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
