//! What is asked for, and whether it is possible: decided as a whole before anything is changed.

mod checks;

use super::group::processes;
use super::{Grid, Method, Node, Noise, SlowError, Speed, Speeds, Support, choose, quota};
use checks::{check_cpus, check_memory, check_method, check_networks, check_nodes, usage};
use schedlab_model::{CpuSet, Nanos, Warning};
use schedlab_workload::Cluster;
use schedlab_workload::nodes::NodesFile;
use std::path::PathBuf;

/// What a user asks of a session of `schedlab slow`: nodes, speeds, method, links and limits.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub method: Option<Method>,
    pub nodes: Vec<Node>,
    /// Period of the hogs' grid, or of slices under weights; `None`: see [`Request::follows`].
    pub period: Option<Nanos>,
    /// Period of budgets; `None`: see [`Request::follows`].
    pub quota_period: Option<Nanos>,
    /// Periods that were not named follow the work, from `Grid::PERIOD` and `quota::PERIOD` on; else they stay so.
    pub follows: bool,
    /// What of a budget may be saved up beyond a period.
    pub quota_burst: Nanos,
    pub noise: Vec<Noise>,
    /// Keep CPUs busy in the gaps that `quota` and `stop` leave; `None`: where it is right.
    pub filler: Option<bool>,
    /// Slow CPUs that another session slows too, with a warning.
    pub share: bool,
    pub keep: bool,
    pub unmeasured: bool,
    /// Measure how late tasks wake on each CPU, before applying and after.
    pub wakeups: bool,
    pub time_limit: Option<Nanos>,
    /// Links of pairs of nodes, and what happens to links and nodes.
    pub cluster: Cluster,
    pub events: Option<PathBuf>,
    /// Give tasks of nodes so large a weight that other load gets next to no CPU time: for measuring.
    pub heavy: bool,
}

/// What a file of nodes asks for. Tasks of nodes are bound to their CPUs.
///
/// # Errors
/// [`SlowError::Usage`] for a method that there is none of.
impl TryFrom<NodesFile> for Request {
    type Error = SlowError;
    fn try_from(file: NodesFile) -> Result<Self, SlowError> {
        let method = file.method.map(|name| name.parse::<Method>().map_err(usage)).transpose()?;
        Ok(Self {
            method,
            nodes: file.nodes,
            period: file.period,
            noise: file.noise,
            cluster: file.cluster,
            time_limit: file.time_limit,
            ..Self::default()
        })
    }
}

/// A request that this machine can carry out.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) request: Request,
    pub(super) grid: Grid,
    pub method: Method,
    /// Why this method; empty when it was asked for.
    pub why: String,
    pub fills: bool,
    /// What is known to be wrong about it, and what to mind.
    pub warnings: Vec<Warning>,
}

impl Request {
    /// Checks the whole request, and chooses the method where none was asked for.
    ///
    /// # Errors
    /// [`SlowError::Usage`] for what makes no sense, [`SlowError::Missing`] for what this machine or
    /// our rights do not allow. Nothing is changed.
    pub fn plan(self, support: &Support) -> Result<Plan, SlowError> {
        let period = self.period.unwrap_or(Grid::PERIOD);
        let grid = Grid::new(period).ok_or_else(|| {
            usage(format!(
                "invalid period {period}: use {} to {}",
                Grid::PERIOD_MIN,
                Grid::PERIOD_MAX
            ))
        })?;
        check_nodes(&self.nodes, support)?;
        check_networks(&self, support)?;
        check_memory(&self.nodes, support)?;
        for noise in &self.noise {
            noise.check().map_err(usage)?;
            check_cpus(&noise.cpus, "noise", support)?;
        }
        let speeds: Speeds = self.nodes.iter().flat_map(|node| node.speeds.clone()).collect();
        let tasks = self.nodes.iter().any(Node::has_tasks);
        let (method, why) = match self.method {
            Some(method) => (method, String::new()),
            None => choose(&speeds, tasks, support),
        };
        check_method(method, &self, &speeds, support)?;
        let fills = fills(method, self.filler, &speeds, support)?;
        let warnings = doubts(method, &self.nodes, &speeds, support);
        Ok(Plan { request: self, grid, method, why, fills, warnings })
    }
}

impl Request {
    pub(super) fn quota_period(&self) -> Nanos {
        self.quota_period.unwrap_or(quota::PERIOD)
    }
}

impl Plan {
    pub(super) fn follows(&self) -> bool {
        let Request { period, quota_period, quota_burst, follows, .. } = &self.request;
        *follows
            && match self.method {
                Method::Hogs | Method::Weight | Method::WeightPerCpu | Method::WeightPinned => {
                    period.is_none()
                }
                // What may be saved up depends on the budget.
                Method::Quota => quota_period.is_none() && *quota_burst == Nanos::ZERO,
                _ => false,
            }
    }
}

/// Whether gaps are filled. By default under `quota`, where a program that was idle comes back cold, unless a sibling
/// would pay for it; not under `stop`, which is what people take who may not disturb others.
fn fills(
    method: Method,
    asked: Option<bool>,
    speeds: &Speeds,
    support: &Support,
) -> Result<bool, SlowError> {
    if asked == Some(true) && !method.leaves_gaps() {
        return Err(usage(format!(
            "invalid --filler for {method}, which leaves no gaps: use quota or stop"
        )));
    }
    let alone = speeds.keys().all(|cpu| support.siblings(*cpu).is_empty());
    Ok(method.leaves_gaps() && asked.unwrap_or(method == Method::Quota && alone))
}

/// CPUs that are slowed by taking time on a core whose other threads are not slowed alike.
fn siblings(speeds: &Speeds, support: &Support) -> Option<Warning> {
    let (cpu, other) = speeds.iter().find_map(|(cpu, speed)| {
        let others = support.siblings(*cpu);
        let other = others.iter().find(|other| speeds.get(other) != Some(speed))?;
        Some((*cpu, other))
    })?;
    let what = format!(
        "CPU {cpu} shares a core with CPU {other}: burning on one slows the other, and what CPU \
         {other} runs changes how much CPU {cpu} computes"
    );
    let remedy = format!(
        "give both one speed, or take CPU {other} offline; `work` in the verdict shows how much \
         a second of CPU time computed"
    );
    Some(Warning::new("smt-sibling", what, remedy))
}

fn doubts(method: Method, nodes: &[Node], speeds: &Speeds, support: &Support) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for node in nodes {
        let speed = node.speeds.values().min().map_or(1.0, |speed| speed.fraction());
        let fault = method.fault(node.speeds.len(), speed);
        if !fault.is_empty() {
            let remedy = if method == Method::Freq { "" } else { "hogs have none of this" };
            warnings.push(Warning::new("method-fault", format!("{method}: {fault}"), remedy));
            break;
        }
    }
    if method.takes_time() {
        warnings.extend(siblings(speeds, support));
    }
    let all_slow = support.online.iter().all(|cpu| {
        speeds.get(&cpu).is_some_and(|speed| *speed < Speed::percent(20).expect("below a hundred"))
    });
    if method == Method::Hogs && all_slow {
        let what = "this shell will be as slow as its CPUs: all CPUs are below 20%";
        warnings.push(Warning::new("machine-slow", what, "leave a CPU at full speed for yourself"));
    }
    let free: CpuSet = support.allowed.iter().filter(|cpu| !speeds.contains_key(cpu)).collect();
    let may_leave = |node: &Node| !node.bind && !method.binds() && node.has_tasks();
    if !free.is_empty() && nodes.iter().any(may_leave) {
        let what = format!("tasks may leave the slowed CPUs and run at full speed on CPUs {free}");
        warnings.push(Warning::new("unbound", what, "leave out --unbound"));
    }
    let in_groups =
        |node: &Node| node.attach_groups.iter().flat_map(|dir| processes(dir)).collect::<Vec<_>>();
    let mut attached =
        nodes.iter().flat_map(|node| node.attach.iter().copied().chain(in_groups(node)));
    warnings.extend(super::unslowed_tasks::warning(method, &mut attached));
    warnings
}

#[cfg(test)]
mod tests;
