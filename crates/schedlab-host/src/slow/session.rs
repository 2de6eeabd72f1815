//! A session: a plan applied, its commands run, its changes made in time, everything undone at its end.

mod attach;
mod background;
mod command;
mod orders;
mod pace;
mod signals;

use super::apply::{Held, NodeControl, Under};
use super::child_entry::program;
use super::control::Control;
use super::cpu_claims;
use super::helper_process::HelperProcess;
use super::journal::Journal;
use super::latency::Lateness;
use super::links::Links;
use super::measure::{self, Measured};
use super::node_view::Shown;
use super::noise;
use super::stop::Limiter;
use super::unslowed_tasks::{self, Watch};
use super::{Method, Node, Period, Plan, SlowError, Speeds, Support, Wakeups, latency};
use crate::net::Namespace;
use attach::{Targets, attach};
pub(crate) use background::BackgroundSession;
use command::{Running, launch};
use pace::{Found, Pace};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid, Warning};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::signal::Signals;
use schedlab_sys::{clock, guard, process};
use schedlab_workload::Link;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All commands ended; the first exit code that is not 0, or 0.
    Commands(i32),
    /// A signal came, this one.
    Interrupted(i32),
    Targets,
    TimeLimit,
}

/// A session under way. Dropping it undoes everything.
pub struct Session {
    plan: Plan,
    nodes: Vec<Active>,
    under: Under,
    control: Control,
    started: Nanos,
    pub measured: Vec<Measured>,
    /// The CPUs at full speed, before anything was applied; empty where nothing is measured.
    full: Vec<super::probe::Reading>,
    /// How late tasks wake, where that was asked for.
    pub wakeups: Vec<Wakeups>,
    pub warnings: Vec<Warning>,
    /// A process of the first node that was moved in by the one that holds the session; 0: none.
    pub(super) admitted: Arc<AtomicI32>,
    links: Links,
    journal: Journal,
    happened: usize,
    noise: Vec<HelperProcess>,
    watch: Watch,
    /// When to look whether anybody of what was attached is left.
    targets: Targets,
    /// `None` where the period does not follow the work.
    pace: Option<Pace>,
    /// Tells other users which CPUs are slowed, while it is there.
    _announced: Option<UnixListener>,
    // Last, so that it is dropped last: it undoes what the others have not.
    guard: Guard,
}

struct Active {
    node: Node,
    network: Option<Namespace>,
    held: Held,
    commands: Vec<Running>,
    /// Processes that were attached and could not be moved into a group, with when each began.
    attached: Vec<(Pid, u64)>,
    failed: bool,
    bound: bool,
    step: usize,
    /// What its commands see of the machine, where that is the node.
    shown: Option<Shown>,
    found: Found,
}

impl Active {
    fn apply(
        plan: &Plan,
        node: &Node,
        network: Option<Namespace>,
        support: &Support,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let name = format!("schedlab-{}-{}", std::process::id(), node.name);
        let held = Held::apply(plan, node, &name, support, guard)?;
        if let Some(wish) = node.memory {
            super::bandwidth::limit(&support.resctrl, &name, &node.cpus(), wish, guard)?;
        }
        let shown = match node.shown && support.root && !node.commands.is_empty() {
            true => {
                let directory =
                    guard::directory().map_err(|e| SlowError::io("showing the node", e))?;
                Some(Shown::make(&directory, &name, &node.speeds, guard)?)
            }
            false => None,
        };
        Ok(Self {
            node: node.clone(),
            network,
            held,
            commands: Vec::new(),
            attached: Vec::new(),
            failed: false,
            bound: node.bind || plan.method.binds(),
            step: 0,
            shown,
            found: Found::default(),
        })
    }
}

impl Session {
    /// Applies a plan: groups, then what slows, then measuring, then the commands. If a step fails,
    /// what was changed until then is undone. One of `signals` ends the measuring.
    ///
    /// # Errors
    /// When the system refuses something that the plan could not foresee, or a signal came.
    pub fn start(
        plan: Plan,
        support: &Support,
        signals: Option<Signals>,
    ) -> Result<Self, SlowError> {
        let journal = |e| SlowError::io("starting the guard", e);
        let directory = guard::directory().map_err(journal)?;
        let mut warnings = put_back(&directory);
        let mut guard = Guard::arm_with(&directory, &program()?).map_err(journal)?;
        let control = Control::open(&directory, &mut guard)?;
        let speeds: Speeds =
            plan.request.nodes.iter().flat_map(|node| node.speeds.clone()).collect();
        let (shared, announced) =
            cpu_claims::claim(&directory, &speeds, plan.request.share, &mut guard)?;
        warnings.extend(shared);
        let cpus: CpuSet = speeds.keys().copied().collect();
        let networks = networks(&plan.request.nodes, &mut guard)?;
        let links = Links::make(&networks, &plan.request.nodes, &plan.request.cluster)?;
        let journal = Journal::open(plan.request.events.as_deref())?;
        let before = match plan.request.unmeasured {
            true => Vec::new(),
            false => measure::baseline().read(&cpus, signals)?,
        };
        let woke = match plan.request.wakeups {
            true => latency::read(&[], &cpus, signals)?,
            false => Vec::new(),
        };
        if plan.method == Method::Deadline {
            super::deadline::isolate(&cpus, support, &mut guard)?;
        }
        let mut nodes = Vec::new();
        let pace = Pace::open(&plan);
        for (node, network) in plan.request.nodes.iter().zip(networks) {
            nodes.push(Active::apply(&plan, node, network, support, &mut guard)?);
        }
        let method = plan.method;
        let under = Under::apply(&plan, &speeds, support, &mut guard)?;
        warnings.extend(plan.warnings.iter().cloned());
        let started = clock::monotonic();
        let mut session = Self {
            plan,
            nodes,
            under,
            control,
            started,
            measured: Vec::new(),
            full: before,
            wakeups: Vec::new(),
            warnings,
            admitted: Arc::default(),
            links,
            journal,
            happened: 0,
            noise: Vec::new(),
            watch: Watch::new(method),
            targets: Targets::default(),
            pace,
            _announced: announced,
            guard,
        };
        session.measure(signals)?;
        if session.plan.request.wakeups {
            session.measure_wakeups(&speeds, &woke, signals)?;
        }
        session.populate()?;
        Ok(session)
    }

    /// Measures each CPU while the method does its work, unless nothing is to be measured: before the command, and
    /// around a run once more after it, since a speed can be lost meanwhile.
    pub(super) fn measure(&mut self, signals: Option<Signals>) -> Result<(), SlowError> {
        if self.plan.request.unmeasured {
            return Ok(());
        }
        let method = self.plan.method;
        let grid = self.plan.grid;
        for index in 0..self.nodes.len() {
            let active = &self.nodes[index];
            let cpus = active.node.cpus();
            let groups = active.held.groups.clone();
            let (probe, slack) =
                measure::probe(method, grid, self.plan.request.quota_period(), &groups);
            let own = self.plan.request.nodes[index].speeds.clone();
            let readings = self.meanwhile(|| probe.read(&cpus, signals))?;
            let mut measured = measure::compare(&own, &self.full, &readings);
            for _ in 1..measure::READINGS {
                let off = measure::are_off(method, &measured, slack);
                if off.is_empty() {
                    break;
                }
                let again = self.meanwhile(|| probe.read(&off, signals))?;
                let again = measure::compare(&own, &self.full, &again);
                measure::keep_nearest(method, &mut measured, &again);
            }
            self.warnings.extend(measure::doubts(method, &measured, &self.full, &cpus, slack));
            self.measured.extend(measured);
        }
        Ok(())
    }

    fn measure_wakeups(
        &mut self,
        speeds: &Speeds,
        before: &[(Cpu, Lateness)],
        signals: Option<Signals>,
    ) -> Result<(), SlowError> {
        let mut under = Vec::new();
        for index in 0..self.nodes.len() {
            let active = &self.nodes[index];
            let cpus = active.node.cpus();
            let groups = active.held.groups.clone();
            under.extend(self.meanwhile(|| latency::read(&groups, &cpus, signals))?);
        }
        let method = self.plan.method;
        let period = self.plan.grid.period();
        self.wakeups = latency::compare(method, period, speeds, before, &under);
        Ok(())
    }

    fn meanwhile<T: Send>(
        &mut self,
        measure: impl FnOnce() -> Result<T, SlowError> + Send,
    ) -> Result<T, SlowError> {
        std::thread::scope(|scope| {
            let measuring = std::thread::Builder::new()
                .spawn_scoped(scope, measure)
                .map_err(|e| SlowError::io("starting a thread that measures", e))?;
            while !measuring.is_finished() {
                self.await_the_first();
                // Probes are children of ours: without a group they are found as such.
                let next = self.tick(&[Pid(std::process::id().cast_signed())])?;
                let nap = next.0.saturating_sub(clock::monotonic().0).min(2_000_000);
                std::thread::sleep(std::time::Duration::from_nanos(nap));
            }
            measuring.join().map_err(|_| SlowError::Failed("measuring failed".into()))?
        })
    }

    fn populate(&mut self) -> Result<(), SlowError> {
        for noise in &self.plan.request.noise {
            self.noise.push(noise::start(noise, &mut self.guard)?);
        }
        let addresses = self.addresses();
        for active in &mut self.nodes {
            // Before anybody comes: the time until now is no credit.
            if let NodeControl::Stop(limiter) = &mut active.held.hold {
                limiter.restart();
            }
            active.found.begin(active.held.used(&[]));
            attach(active, &mut self.guard)?;
            for argv in &active.node.commands {
                let running =
                    launch(argv, active, &addresses, self.plan.request.keep, &mut self.guard)?;
                active.commands.push(running);
            }
            // What they start inherits the slices.
            if let (NodeControl::Weight(weight), Some(period)) =
                (&mut active.held.hold, self.plan.request.period)
            {
                weight.pace(period, &mut self.guard)?;
            }
        }
        self.look_now();
        // A command's time and a script's begin when all is in place.
        self.started = clock::monotonic();
        self.targets = Targets::of(&self.nodes, self.started);
        if let Some(pace) = &mut self.pace {
            pace.start(self.started);
        }
        Ok(())
    }

    /// Nodes with a network of their own: names, links, and where they are.
    pub fn networks(&self) -> impl Iterator<Item = (&str, &Link, &Namespace)> {
        self.nodes.iter().filter_map(|active| {
            Some((active.node.name.as_str(), active.node.net.as_ref()?, active.network.as_ref()?))
        })
    }

    /// What commands learn of the nodes' addresses, as variables of their environment.
    fn addresses(&self) -> Vec<(String, String)> {
        let variable = |name: &str| name.to_ascii_uppercase().replace('-', "_");
        self.networks()
            .map(|(name, _, at)| {
                (format!("SCHEDLAB_ADDRESS_{}", variable(name)), at.there.to_string())
            })
            .collect()
    }

    /// Runs until all commands have ended, a signal comes, or the time limit is reached. Warnings
    /// on the way are reported at once.
    ///
    /// # Errors
    /// When a speed cannot be changed any more, or the hogs died.
    pub fn run(
        &mut self,
        signals: Signals,
        tell: &mut dyn FnMut(&Warning),
    ) -> Result<Ended, SlowError> {
        let mut told = self.warnings.len();
        let limit = self.plan.request.time_limit.map(|limit| self.started + limit);
        let has_commands = self.nodes.iter().any(|active| !active.node.commands.is_empty());
        signals.relay().map_err(|e| SlowError::io("catching signals", e))?;
        loop {
            let next = self.tick(&[])?.min(limit.unwrap_or(Nanos::MAX)).min(self.targets.due());
            self.warnings[told..].iter().for_each(&mut *tell);
            told = self.warnings.len();
            if has_commands && self.nodes.iter_mut().all(Active::is_done) {
                self.orphans().iter().for_each(tell);
                return Ok(Ended::Commands(self.code()));
            }
            if self.targets.have_ended(&self.nodes, clock::monotonic()) {
                return Ok(Ended::Targets);
            }
            for came in signals.take() {
                if let Some(ended) = self.heed(came, has_commands)? {
                    return Ok(ended);
                }
            }
            if limit.is_some_and(|limit| clock::monotonic() >= limit) {
                self.end_commands(15, false)?;
                return Ok(Ended::TimeLimit);
            }
            self.wait(next, Some(signals))?;
        }
    }

    /// What commands left running, which ends with the session unless it is kept: a launcher may end at once.
    fn orphans(&self) -> Option<Warning> {
        let all = self.nodes.iter().flat_map(|active| active.processes(None));
        let named = |pid: Pid| Some(format!("{} ({pid})", unslowed_tasks::name(pid)?));
        let named: Vec<String> = all.filter_map(named).collect();
        let what = format!("the command left processes, which end now: {}", named.join(", "));
        let remedy = "--keep lets them go on at full speed";
        let ends = !self.plan.request.keep && !named.is_empty();
        ends.then(|| Warning::new("command-left", what, remedy))
    }

    /// Limiters that have nobody yet look at every turn.
    fn await_the_first(&mut self) {
        self.limiters().filter(|limiter| limiter.is_idle()).for_each(Limiter::look_now);
    }

    /// A process has come: limiters look at it at once, since its lifetime counts from then.
    fn look_now(&mut self) {
        self.limiters().for_each(Limiter::look_now);
    }

    fn limiters(&mut self) -> impl Iterator<Item = &mut Limiter> {
        self.nodes.iter_mut().filter_map(|active| match &mut active.held.hold {
            NodeControl::Stop(limiter) => Some(limiter),
            _ => None,
        })
    }

    /// Where processes of the first node are bound to, where they are.
    pub(super) fn bound_to(&self) -> Option<CpuSet> {
        let first = self.nodes.first().map(|active| &active.node);
        first.filter(|node| node.bind).map(Node::cpus)
    }

    /// Undoes everything. Returns what could not be undone.
    #[must_use]
    pub fn finish(self) -> Vec<String> {
        let Self { nodes, under, noise, guard, .. } = self;
        let clean = |(undo, error): (Undo, std::io::Error)| format!("{undo:?}: {error}");
        drop((under, noise));
        let failed = guard.finish().into_iter().map(clean).collect();
        // After the guard, which has ended them: only to reap. A command that is kept is not waited for.
        for mut running in nodes.into_iter().flat_map(|active| active.commands) {
            let _ = running.child.try_wait();
        }
        failed
    }

    pub(super) fn groups(&self) -> Vec<std::path::PathBuf> {
        self.nodes.first().map(|active| active.held.groups.clone()).unwrap_or_default()
    }

    /// The process of the first node that was moved in by the one that holds the session.
    fn admitted(&self) -> Option<Pid> {
        Some(Pid(self.admitted.load(Relaxed))).filter(|pid| pid.0 > 0)
    }

    fn code(&self) -> i32 {
        let codes = self.nodes.iter().flat_map(|active| &active.commands).filter_map(|r| r.code);
        codes.into_iter().find(|code| *code != 0).unwrap_or(0)
    }

    fn wait(&mut self, next: Nanos, signals: Option<Signals>) -> Result<(), SlowError> {
        match signals {
            Some(signals) => self.wait_for(next, &[signals.fd()]),
            None => self.wait_for(next, &[]),
        }
        .map(|_| ())
    }

    /// Sleeps until something happens, `next`, or one of `first` is ready; which of these are.
    fn wait_for(&mut self, next: Nanos, first: &[BorrowedFd<'_>]) -> Result<Vec<bool>, SlowError> {
        let timeout = match next {
            Nanos::MAX => None,
            next => Some(Nanos(next.0.saturating_sub(clock::monotonic().0))),
        };
        let Self { nodes, under, noise, control, .. } = self;
        let mut fds = first.to_vec();
        for active in nodes {
            let commands = active.commands.iter().filter(|r| r.code.is_none());
            fds.extend(commands.map(|r| r.ended.as_fd()));
            fds.extend(active.held.aides().iter().map(HelperProcess::fd));
        }
        fds.push(control.fd());
        fds.extend(under.aides().map(|helper| helper.fd()));
        fds.extend(noise.iter().map(HelperProcess::fd));
        let mut ready = process::poll(&fds, timeout).map_err(|e| SlowError::io("waiting", e))?;
        ready.truncate(first.len());
        Ok(ready)
    }

    fn aides(&mut self) -> impl Iterator<Item = &mut HelperProcess> {
        let of_nodes = self.nodes.iter_mut().flat_map(|active| active.held.aides());
        of_nodes.chain(self.under.aides()).chain(&mut self.noise)
    }

    /// Does what is due and returns when the next thing is. `extra` are processes that belong to
    /// every node besides its own.
    fn tick(&mut self, extra: &[Pid]) -> Result<Nanos, SlowError> {
        self.aides().try_for_each(HelperProcess::check)?;
        self.serve();
        self.look_after_the_guardian()?;
        let now = clock::monotonic();
        let mut next = self.script(now)?;
        for (cpu, still) in self.under.tick(now)? {
            for active in self.nodes.iter().filter(|active| active.node.speeds.contains_key(&cpu)) {
                if !active.held.zone.freeze(still, &mut self.guard)? {
                    return Err(SlowError::Missing(
                        "gov needs a freezer below the lowest clock".into(),
                    ));
                }
            }
        }
        // A child of ours as probes are, and none of those that are slowed.
        let guardian = self.guard.guardian();
        let admitted = self.admitted();
        let limited = |active: &&mut Active| {
            !active.failed && matches!(active.held.hold, NodeControl::Stop(_))
        };
        for active in self.nodes.iter_mut().filter(limited) {
            if let NodeControl::Stop(limiter) = &active.held.hold
                && limiter.due() > now
            {
                next = next.min(limiter.due());
                continue;
            }
            let mut roots: Vec<Pid> = extra.iter().copied().chain(admitted).collect();
            roots.extend(active.roots());
            let held = &mut active.held;
            let NodeControl::Stop(limiter) = &mut held.hold else { continue };
            let zone = &held.zone;
            let mut list = || {
                let mut processes = zone.members_or_family(&roots);
                processes.retain(|pid| !extra.contains(pid) && guardian != Some(*pid));
                processes
            };
            next = next.min(limiter.look(&mut list, &mut self.guard)?);
        }
        if extra.is_empty() && self.watch.is_due(now) {
            let nodes = self.nodes.iter();
            let mut slowed = nodes.flat_map(|active| active.processes(admitted));
            self.warnings.extend(self.watch.look(now, &mut slowed));
        }
        if extra.is_empty() {
            next = next.min(self.follow(now)?);
        }
        // Nobody watches while something is measured: what is due then waits.
        let watch = if extra.is_empty() { self.watch.next() } else { Nanos::MAX };
        Ok(next.min(self.under.next()).min(watch))
    }

    /// The period of each node that was chosen last, where it follows the work.
    pub fn periods(&self) -> impl Iterator<Item = (&str, &Period)> {
        self.nodes
            .iter()
            .filter_map(|active| Some((active.node.name.as_str(), active.found.period.as_ref()?)))
    }

    /// One that was killed was replaced; if that failed, nobody would undo our changes if we were killed too.
    fn look_after_the_guardian(&mut self) -> Result<(), SlowError> {
        let replaced =
            self.guard.replaced().map_err(|e| SlowError::io("replacing the guardian", e))?;
        if replaced {
            let what = "the guardian process died and was replaced";
            let remedy = "do not end it: it undoes all changes if this process is killed";
            self.warnings.push(Warning::new("guardian-died", what, remedy));
        }
        Ok(())
    }
}

/// Puts back what sessions left whose guardian was killed with them.
fn put_back(directory: &std::path::Path) -> Vec<Warning> {
    let restored = guard::restore(directory).unwrap_or_default();
    let told = restored.iter().filter(|one| one.undone > 0 || !one.failed.is_empty()).map(|one| {
        let failed = one.failed.iter().map(|(undo, error)| format!("; not {undo:?}: {error}"));
        let what = format!("undid {} changes that an earlier session left", one.undone);
        Warning::new("put-back", what + &failed.collect::<String>(), "")
    });
    told.collect()
}

fn networks(nodes: &[Node], guard: &mut Guard) -> Result<Vec<Option<Namespace>>, SlowError> {
    let make = |node: &Node| {
        let Some(link) = &node.net else { return Ok(None) };
        let made = Namespace::make(link, guard).and_then(|made| made.join_others().map(|()| made));
        let told =
            |error| SlowError::Missing(format!("the network of node {}: {error}", node.name));
        made.map(Some).map_err(told)
    };
    nodes.iter().map(make).collect()
}
