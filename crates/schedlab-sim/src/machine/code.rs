//! A machine whose scheduler is the code of a kernel, not a model of it.

use super::groups::Grouping;
use super::name::{CPUS_MAX, CPUS_MAX_OF_CODE, Model};
use super::of_code::OfCode;
use super::setting::{OF_NAME, Wrong};
use super::tuned::{Tuned, knob};
use super::{Kernel, Simulated};
use crate::{Board, Costs, Preparation};
use schedlab_model::Knob;
use schedlab_workload::MachineName;
use schedlab_workload::knobs::{FEATURES, TUNABLES, read, tunable};

/// Options of a kernel: it charges no task for interrupts, for what the hypervisor takes.
const IRQ_TIME: &str = "interrupt time accounting";
const STEAL_TIME: &str = "steal time accounting";
/// The governor of frequencies.
const SCHEDUTIL: &str = "schedutil";
/// What a build decides.
const OF_BUILD: [&str; 2] = ["hz", "preempt"];

impl Model {
    /// The model of a machine whose scheduler is a kernel's code: all of the name but its kernel.
    ///
    /// # Errors
    /// As [`Model::of`].
    pub fn of_code(name: &MachineName, costs: Option<&str>, code: OfCode) -> Result<Self, String> {
        let mut rest = name.clone();
        for key in ["kernel", "scx", "scx-set"] {
            rest.settings.remove(key);
        }
        if let Some(key) = OF_BUILD.iter().find(|key| rest.settings.contains_key(**key)) {
            let why = "a build decides it: schedlab sim build TREE --set CONFIG_...=y";
            return Err(format!("{OF_NAME}invalid {key}: {why}"));
        }
        let polls = match rest.settings.remove("idle").as_deref() {
            None | Some("halt") => false,
            Some("poll") => true,
            Some(other) => {
                return Err(format!(
                    "{OF_NAME}invalid idle={}: use halt or poll",
                    other.escape_default()
                ));
            }
        };
        let most = match code.cpus {
            0 => CPUS_MAX,
            built => built.min(CPUS_MAX_OF_CODE),
        };
        let model = Self::read(&rest, costs, most);
        let mut model = model.map_err(|Wrong { why, .. }| why)?;
        name.to_string().clone_into(&mut model.name);
        model.kernel = Kernel::Tree;
        model.tuned = Tuned::Fifo { slice_ns: None };
        model.hz = code.hz;
        model.preempt_kernel = matches!(code.preempt.as_str(), "full" | "lazy");
        // The kernel's RCU thread is none of its scheduler.
        model.costs = Costs { rcu: 0, ..model.costs };
        // Both are the kernel's here.
        let skews = std::mem::take(&mut model.parts.skew_tick);
        let autogroup = std::mem::take(&mut model.autogroup);
        if autogroup && !code.has("autogroup") {
            return Err(format!(
                "{OF_NAME}invalid autogroup: this kernel has none (CONFIG_SCHED_AUTOGROUP)"
            ));
        }
        if model.parts.has_frequencies() && !code.has(SCHEDUTIL) {
            let how = "--set CONFIG_CPU_FREQ=y --set CONFIG_CPU_FREQ_GOV_SCHEDUTIL=y";
            return Err(format!(
                "{OF_NAME}invalid frequency: this kernel has no schedutil: schedlab sim build TREE {how}"
            ));
        }
        let [accounts_irq, accounts_steal] = [IRQ_TIME, STEAL_TIME].map(|of| code.has(of));
        let switches = Preparation { polls, skews, autogroup, ..Preparation::default() };
        model.prepared = Preparation { accounts_irq, accounts_steal, ..switches };
        model.code = Some(code);
        Ok(model)
    }

    /// Knobs by schedlab's names, where the kernel has them.
    pub(super) fn knobs_of_code(&self) -> Vec<Knob> {
        let Some(code) = &self.code else { return Vec::new() };
        let of = |name: &str| {
            let (own, value) = code.own_name(name)?;
            let tunable = tunable(name)?;
            Some(Knob {
                r#where: own.clone(),
                ..knob(name, Some(value.clone()), tunable.unit, tunable.meaning)
            })
        };
        let mut all: Vec<Knob> = TUNABLES.iter().filter_map(|one| of(one.name)).collect();
        for name in ["cgroup_weight", "cgroup_max", "cgroup_burst"] {
            if let Some(tunable) = tunable(name) {
                all.push(knob(name, None, tunable.unit, tunable.meaning));
            }
        }
        all
    }

    /// Sets a knob when the machine has booted, by the function of its own file.
    pub(super) fn set_in_code(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(code) = &self.code else { return Err("it has no kernel's code".to_owned()) };
        let Some((own, now)) = code.own_name(name) else {
            let known: Vec<String> =
                self.knobs_of_code().into_iter().map(|knob| knob.name).collect();
            return Err(format!("unknown knob '{name}' of this kernel: use {}", known.join(", ")));
        };
        let own = own.clone();
        let now = now.clone();
        if name == FEATURES {
            let plain = |word: &str| word.strip_prefix("NO_").unwrap_or(word).to_owned();
            let known: Vec<String> = now.split_whitespace().map(plain).collect();
            for word in value.split_whitespace() {
                if !known.contains(&plain(word)) {
                    return Err(format!(
                        "unknown feature '{}' of this kernel",
                        word.escape_default()
                    ));
                }
                self.prepared.knobs.push((own.clone(), word.to_owned()));
            }
            return Ok(());
        }
        let text = match tunable(name) {
            Some(tunable) => read(tunable, value)?,
            None => value.to_owned(),
        };
        self.prepared.knobs.push((own, text));
        Ok(())
    }

    /// What a run sets before its load: knobs, and the groups of its tasks.
    pub(super) fn preparation(&self, grouping: &Grouping) -> Preparation {
        let text = |file: &str, value: u64| (file.to_owned(), value.to_string());
        let group = |group: &crate::policy::Group| {
            let mut files = vec![text("shares", group.shares)];
            if let Some(limit) = group.limit {
                files.push(text("cfs_period_us", limit.period / 1_000));
                files.push(text("cfs_quota_us", limit.quota / 1_000));
                if limit.burst > 0 {
                    files.push(text("cfs_burst_us", limit.burst / 1_000));
                }
            }
            crate::ControlGroup { parent: group.parent, files }
        };
        let groups = grouping.groups.iter().map(group).collect();
        Preparation { groups, frequencies: self.parts.frequency.clone(), ..self.prepared.clone() }
    }
}

impl Simulated {
    /// A machine that performs one run with the code of a kernel, which the board enters.
    #[must_use]
    pub fn with_code(model: Model, board: Board) -> Self {
        Self { board: Some(board), ..Self::new(model) }
    }

    /// The knobs of a kernel's code on a machine like `model`.
    ///
    /// # Errors
    /// What the kernel said when it stopped.
    pub fn knobs_of(model: &Model, mut board: Board) -> Result<Vec<(String, String)>, String> {
        board.bring_up(&model.hardware(), &model.prepared)?;
        board.knobs()
    }
}
