//! What a result carries about the machine that it was simulated on.

use super::name::{Kernel, Model};
use schedlab_model::{
    CgroupFacts, Fact, Frequency, KernelFacts, Knob, LoadFacts, MachineFacts, Warning,
};

/// The kernel as traces and facts name it.
pub(super) fn kernel(model: &Model) -> String {
    if let Some(code) = &model.code {
        return format!("simulated: the code of Linux {}", code.release);
    }
    match model.kernel {
        Kernel::Fifo => "simulated: FIFO on each CPU".to_owned(),
        Kernel::GlobalFifo => "simulated: one FIFO for the machine".to_owned(),
        Kernel::LlcFifo => "simulated: a FIFO for each LLC".to_owned(),
        Kernel::Tree => "simulated: the code of a kernel".to_owned(),
        Kernel::Cfs61 => "simulated: Linux 6.1.192 (Debian), fair tasks".to_owned(),
        Kernel::Eevdf612 => "simulated: Linux 6.12.117 (Debian), fair tasks".to_owned(),
    }
}

/// What every result says of its machine, whatever its load.
pub(super) fn notes(model: &Model) -> Vec<String> {
    let cpus = model.topology.places().len();
    let mut notes = vec![format!("simulated by {}: times come from a file of costs", model.name)];
    if let Some(code) = &model.code {
        notes.push(format!(
            "the scheduler is the code of Linux {}: HZ={}, preempt={}{}",
            code.release, code.hz, code.preempt, code.options
        ));
        notes.push(
            "threads of the kernel run in no time, there is no RCU thread, and no NUMA balancing; \
             times were not compared with a kernel on a machine"
                .to_owned(),
        );
        if !code.scheduler.is_empty() {
            notes.push(format!(
                "the sched_ext scheduler {} schedules ordinary tasks; its user half does not run",
                code.scheduler
            ));
        }
        return notes;
    }
    if !model.kernel.is_linux() {
        notes.push(
            "this scheduler is in no real kernel, so it was not compared with one".to_owned(),
        );
    } else if cpus > 1 {
        let name = model.kernel.name();
        let release = name.rsplit('-').next().unwrap_or(name);
        notes.push(format!(
            "on several CPUs {name} does not balance as the kernel does. The kernel's own code does: \
             `schedlab sim build linux-source-{release}`, then sim:kernel=linux-source-{release}"
        ));
    }
    notes
}

/// The facts. A simulated machine has no clock, no temperature and no neighbours.
pub(super) fn of(model: &Model, knobs: &[Knob]) -> MachineFacts {
    const WHY: &str = "simulated";
    fn no<T>() -> Fact<T> {
        Fact::Unknown(WHY.to_owned())
    }
    let scheduler = model.code.as_ref().map(|code| &code.scheduler);
    let scheduler = scheduler.filter(|name| !name.is_empty());
    let topology = model.topology.clone();
    let threads = topology.places().len();
    let cores = topology.groups(|place| place.core).len();
    MachineFacts {
        schedlab: env!("CARGO_PKG_VERSION").to_owned(),
        taken_at: "1970-01-01T00:00:00Z".to_owned(),
        host: model.name.clone(),
        model: Fact::Known("simulated CPU, 1 iteration a nanosecond".to_owned()),
        memory_bytes: no(),
        hypervisor: no(),
        kernel: KernelFacts {
            release: kernel(model),
            version: format!("HZ={}", model.hz),
            build_id: no(),
            architecture: WHY.to_owned(),
            command_line: no(),
            mitigations: no(),
            preemption: Fact::Known(model.code.as_ref().map_or_else(
                || if model.preempt_kernel { "full" } else { "voluntary" }.to_owned(),
                |code| code.preempt.clone(),
            )),
            config: no(),
            sched_ext: scheduler.map_or_else(no, |name| Fact::Known(name.clone())),
            sched_ext_state: scheduler.map_or_else(no, |_| Fact::Known("enabled".to_owned())),
        },
        online: topology.cpus(),
        allowed: topology.cpus(),
        smt: Fact::Known(threads > cores),
        topology,
        frequency: Frequency { governors: no(), driver: no(), turbo: no() },
        cgroup: CgroupFacts { version: no(), path: no(), cpu_limit: Fact::Known(None) },
        load: LoadFacts::default(),
        boot: no(),
        clocksource: Fact::Known("virtual time".to_owned()),
        knobs: knobs.to_vec(),
        warnings: notes(model)
            .into_iter()
            .map(|what| Warning::new("simulated", what, ""))
            .collect(),
    }
}
