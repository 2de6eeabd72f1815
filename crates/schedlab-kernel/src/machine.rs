//! The machine whose scheduler is the code of a tree: it checks runs here, and performs each in a child.

use crate::build::Built;
use crate::request::{ARGUMENT, ChildRequest, KnobsReply, Purpose, Tree};
use crate::scheduler;
use schedlab_model::{MachineFacts, Nanos, Setting, Topology};
use schedlab_sim::{Model, OfCode, Simulated};
use schedlab_sys::process;
use schedlab_vm::frame;
use schedlab_workload::{
    Machine, MachineError, MachineName, Offers, Outcome, Output, RunSpec, Stream,
};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A simulated machine that runs the scheduler of a source tree.
pub struct OfTree {
    tree: Tree,
    /// It checks and describes; it does not run.
    like: Simulated,
}

/// How often a run is looked at, whether it shall stop.
const LOOK: Nanos = Nanos::from_millis(200);

impl OfTree {
    /// The machine of a name, `sim:kernel=TREE,...`. `costs` is the text of its file of costs.
    ///
    /// # Errors
    /// When nothing was built of the tree, or a setting is wrong.
    pub fn new(name: &MachineName, costs: Option<String>) -> Result<Self, MachineError> {
        Self::like(name, name, costs, None, |_| Vec::new())
    }

    /// The machine of a name, like another one: with the CPUs of `topology`, which are as many as the name says, and
    /// with the settings that `adopt` found its model to have. Users see it as `written`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn like(
        name: &MachineName,
        written: &MachineName,
        costs: Option<String>,
        topology: Option<Topology>,
        adopt: impl FnOnce(&mut Model) -> Vec<Setting>,
    ) -> Result<Self, MachineError> {
        let refused = refuses(written);
        let tree = name.settings.get("kernel").cloned().unwrap_or_default();
        let built = Built::find(&tree).map_err(|why| refused(why.to_string()))?;
        let set = scheduler::settings(name.settings.get(scheduler::SET)).map_err(&refused)?;
        let mut tree = Tree {
            image: built.image.clone(),
            set,
            machine: name.to_string(),
            written: written.to_string(),
            costs,
            code: built.code.clone(),
            topology,
            knobs: Vec::new(),
        };
        // Settings are checked before anything boots.
        tree.model().map_err(&refused)?;
        let linked = name.settings.get(scheduler::FILE).map(|file| scheduler::link(&built, file));
        let linked = linked.transpose().map_err(&refused)?;
        if linked.is_none() && !tree.set.is_empty() {
            let why = format!("{} needs {}=FILE.bpf.c", scheduler::SET, scheduler::FILE);
            return Err(refused(why));
        }
        if let Some(linked) = &linked {
            tree.image.clone_from(&linked.image);
            tree.code.scheduler.clone_from(&linked.name);
        }
        tree.code.knobs = tree.booted_knobs()?;
        let mut model = tree.model().map_err(&refused)?;
        tree.knobs = adopt(&mut model);
        if !tree.knobs.is_empty() {
            // What they are now, the kernel says.
            tree.code.knobs = tree.booted_knobs()?;
            model = tree.model().map_err(&refused)?;
        }
        model.files.extend(linked.zip(name.settings.get(scheduler::FILE)).map(|(linked, file)| {
            Setting { knob: format!("{}{file}", MachineName::FILE), value: linked.text }
        }));
        Ok(Self { tree, like: Simulated::new(model) })
    }
}

impl OfTree {
    /// What is simulated.
    #[must_use]
    pub fn model(&self) -> &Model {
        self.like.model()
    }

    /// What is known of the kernel.
    #[must_use]
    pub fn code(&self) -> &OfCode {
        &self.tree.code
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }
}

impl Tree {
    /// The kernel's knobs when it has booted.
    fn booted_knobs(&self) -> Result<Vec<(String, String)>, MachineError> {
        let told =
            perform(&ChildRequest { tree: self.clone(), purpose: Purpose::Knobs }, &|| false)?;
        let told: KnobsReply = serde_json::from_slice(&told.unwrap_or_default())
            .map_err(|_| died("it did not tell its knobs"))?;
        told.map_err(MachineError::Load)
    }
}

fn refuses(name: &MachineName) -> impl Fn(String) -> MachineError {
    let what = format!("simulate '{name}'");
    move |why| MachineError::NotOffered { machine: "schedlab".to_owned(), what: what.clone(), why }
}

impl Machine for OfTree {
    fn offers(&self) -> &Offers {
        self.like.offers()
    }

    fn facts(&self) -> MachineFacts {
        self.like.facts()
    }

    fn check(&self, spec: &RunSpec) -> Result<(), MachineError> {
        self.like.check(spec)
    }

    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        let trace = if spec.record.is_some() { out.path(Stream::Trace) } else { PathBuf::new() };
        let purpose = Purpose::Run(Box::new(spec.clone()), trace);
        let asked = ChildRequest { tree: self.tree.clone(), purpose };
        let Some(bytes) = perform(&asked, &|| out.stopped())? else {
            return Ok(Outcome { exit_code: 130, interrupted: true, censored: false });
        };
        let replayed = frame::replay(&bytes, out).map(|(outcome, _)| outcome);
        replayed.map_err(|error| self.told_here(error))
    }
}

impl OfTree {
    /// An error of the child in the words of a run that was performed here.
    fn told_here(&self, error: MachineError) -> MachineError {
        const IN_CHILD: [&str; 2] = ["in the guest: ", "the load failed: "];
        match error {
            MachineError::Load(text) => {
                let mut text = text.as_str();
                for before in IN_CHILD {
                    text = text.strip_prefix(before).unwrap_or(text);
                }
                MachineError::Load(text.to_owned())
            }
            MachineError::NotOffered { what, why, .. } => {
                let machine = self.tree.written.clone();
                MachineError::NotOffered { machine, what, why }
            }
            other => other,
        }
    }
}

fn died(what: &str) -> MachineError {
    MachineError::Load(format!("the process of the simulated kernel ended: {what}"))
}

/// Kills a child that is not awaited.
struct Awaited(Child);

impl Drop for Awaited {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks a child; what it told, or `None` if the user stopped it.
pub(crate) fn perform(
    asked: &ChildRequest,
    stopped: &dyn Fn() -> bool,
) -> Result<Option<Vec<u8>>, MachineError> {
    let io = |doing: &str| {
        let doing = format!("{doing} the process of the simulated kernel");
        move |error: io::Error| MachineError::io(doing, error)
    };
    let program = process::this_program().map_err(io("finding"))?;
    let mut command = Command::new(program);
    command.arg(ARGUMENT).stdin(Stdio::piped()).stdout(Stdio::piped());
    process::die_with_parent(&mut command);
    let mut child = Awaited(command.spawn().map_err(io("starting"))?);
    let text = serde_json::to_vec(asked).expect("it is plain values");
    if let Some(mut input) = child.0.stdin.take() {
        input.write_all(&text).map_err(io("asking"))?;
    }
    let mut bytes = Vec::new();
    if let Some(mut output) = child.0.stdout.take() {
        let mut part = vec![0; 1 << 16];
        loop {
            if stopped() {
                return Ok(None);
            }
            let ready = process::poll(&[output.as_fd()], Some(LOOK)).map_err(io("awaiting"))?;
            if !ready[0] {
                continue;
            }
            match output.read(&mut part).map_err(io("hearing"))? {
                0 => break,
                read => bytes.extend_from_slice(&part[..read]),
            }
        }
    }
    let status = child.0.wait().map_err(io("awaiting"))?;
    if status.success() { Ok(Some(bytes)) } else { Err(died(&status.to_string())) }
}
