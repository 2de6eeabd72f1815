//! Which CPU a waking task goes to (Linux 6.1 and 6.12, `select_task_rq_fair` and what it calls).
//!
//! First `wake_affine` decides between the waker's CPU and the task's previous one, then `select_idle_sibling` looks
//! for an idle CPU near it. Both look at load averages, which are kept here too. Left out: energy-aware
//! placement, the exception for kernel threads of one CPU. An idle core is found by looking, where the
//! kernel keeps a hint. Where new tasks begin is in `balance`.

use super::Wake;
use super::pelt::Average;
use crate::policy_view::{Scene, TaskId};

/// The kernel's features that concern placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacerKnobs {
    /// Whether a task goes back to its previous CPU if that is idle, before loads are compared. Linux does so since
    /// 5.11 (commit d8fcb81f1acf).
    pub(crate) idle_prev_first: bool,
}

impl Default for PlacerKnobs {
    fn default() -> Self {
        Self { idle_prev_first: true }
    }
}

/// How often a task changes whom it wakes.
#[derive(Clone, Copy, Debug, Default)]
struct Flips {
    count: u64,
    last: Option<TaskId>,
    decayed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfTask {
    load: Average,
    weight: u64,
    flips: Flips,
    recent: Option<usize>,
    queued: bool,
    /// The CPU whose load has this task's in it.
    attached: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfCpu {
    load: Average,
    /// Weights of all queued tasks, and how many there are.
    weight: u64,
    nr: u64,
    /// The clock of load averages, and the task clock up to which it stands, in nanoseconds.
    clock: u64,
    task_clock: u64,
    /// Idle time that a slow CPU would not have had (`lost_idle_time`), in nanoseconds.
    lost: u64,
    /// The load of the running task, if the CPU is too small for it (`misfit_task_load`); else 0.
    misfit: u64,
    /// The flips of its idle task, which is current when an interrupt wakes somebody.
    flips: Flips,
}

/// Chooses a CPU for a task that wakes.
#[derive(Debug)]
pub struct Placer {
    knobs: PlacerKnobs,
    tasks: Vec<OfTask>,
    cpus: Vec<OfCpu>,
    /// CPUs of each LLC that are looked at for an idle one (`nr_idle_scan`).
    scan: Vec<usize>,
}

const SECOND: u64 = 1_000_000_000;

impl Placer {
    #[must_use]
    pub fn new(cpus: usize, knobs: PlacerKnobs) -> Self {
        let scan = vec![usize::MAX; cpus];
        Self { knobs, tasks: Vec::new(), cpus: vec![OfCpu::default(); cpus], scan }
    }

    fn task(&mut self, task: TaskId) -> &mut OfTask {
        if self.tasks.len() <= task.index() {
            self.tasks.resize(task.index() + 1, OfTask::default());
        }
        &mut self.tasks[task.index()]
    }

    /// The clock of a CPU's load averages: its task clock, which goes slower while a CPU of less capacity works and is
    /// set right when that idles (`update_rq_clock_pelt`).
    fn clock(&mut self, scene: &Scene, cpu: usize) -> u64 {
        let now = scene.task_clock(cpu);
        let of = &mut self.cpus[cpu];
        let passed = now.saturating_sub(std::mem::replace(&mut of.task_clock, now));
        match scene.cpus[cpu].running {
            Some(_) => of.clock += (passed * scene.hardware.capacity(cpu)) >> 10,
            None => of.clock = now,
        }
        of.clock - of.lost
    }

    /// A CPU has no runnable task any more. Was it busy all the time, a faster CPU would not have idled either
    /// (`update_idle_rq_clock_pelt`).
    fn runs_dry(&mut self, cpu: usize) {
        let of = &mut self.cpus[cpu];
        if of.load.is_full() {
            of.lost += of.task_clock.saturating_sub(of.clock);
        }
        of.clock = of.task_clock;
    }

    /// Whether a CPU has room for a task of this use, with a fifth to spare (`util_fits_cpu`).
    fn has_room(scene: &Scene, used: u64, cpu: usize) -> bool {
        used * 1_280 < scene.hardware.capacity(cpu) * 1_024
    }

    /// Whether a task fits a CPU (`task_fits_cpu`).
    pub(super) fn fits(&self, scene: &Scene, task: TaskId, cpu: usize) -> bool {
        Self::has_room(scene, self.task_loads(task).1, cpu)
    }

    /// The load of the running task, if a CPU is too small for it; else 0.
    pub(super) fn misfit(&self, cpu: usize) -> u64 {
        self.cpus[cpu].misfit
    }

    /// Notes whether the task that runs on a CPU, or is to run there, is too large for it (`update_misfit_status`).
    pub(super) fn note_misfit(&mut self, scene: &Scene, cpu: usize, task: Option<TaskId>) {
        if self.cpus.len() == 1 || !scene.hardware.is_asymmetric() {
            return;
        }
        let bound = |task: TaskId| {
            scene.task(task).allowed.as_ref().is_some_and(|allowed| allowed.len() == 1)
        };
        let large = task.filter(|&task| !bound(task) && !self.fits(scene, task, cpu));
        self.cpus[cpu].misfit = large.map_or(0, |task| self.task_loads(task).0.max(1));
    }

    /// Accounts the load of a CPU up to now.
    pub(super) fn sync(&mut self, scene: &Scene, cpu: usize) {
        let now = self.clock(scene, cpu);
        let of = &mut self.cpus[cpu];
        let runs = scene.cpus[cpu].running.is_some_and(|task| !scene.task(task).class.is_above());
        of.load.update(now, of.weight, of.nr, runs, 1);
    }

    /// A task exists from now on.
    pub(super) fn begins(&mut self, scene: &Scene, task: TaskId, weight: u64) {
        let load = Average::of_new(scene.now, weight);
        *self.task(task) = OfTask { load, weight, ..OfTask::default() };
    }

    /// A task became runnable on a CPU.
    pub(super) fn queued(&mut self, scene: &Scene, cpu: usize, task: TaskId, weight: u64) {
        if self.cpus.len() == 1 {
            return;
        }
        self.sync(scene, cpu);
        let here = self.clock(scene, cpu);
        let before = self.task(task).attached;
        let there = match before {
            Some(before) if before != cpu => self.clock(scene, before),
            Some(_) => here,
            None => scene.now,
        };
        let of = self.task(task);
        of.load.update(there, 0, 0, false, of.weight);
        of.load.change_clock(there, here);
        of.queued = true;
        of.weight = weight;
        of.attached = Some(cpu);
        if before.is_none() {
            let there = self.cpus[cpu].load;
            self.task(task).load.guess(&there, scene.hardware.capacity(cpu), weight);
        }
        let load = self.task(task).load;
        if before != Some(cpu) {
            if let Some(before) = before {
                self.sync(scene, before);
                self.cpus[before].load.detach(&load);
            }
            self.cpus[cpu].load.attach(&load);
        }
        self.cpus[cpu].weight += weight;
        self.cpus[cpu].nr += 1;
    }

    /// A task is no longer runnable on a CPU.
    pub(super) fn left(&mut self, scene: &Scene, cpu: usize, task: TaskId) {
        if self.cpus.len() == 1 {
            return;
        }
        self.sync(scene, cpu);
        let runs = scene.cpus[cpu].running == Some(task);
        let now = self.clock(scene, cpu);
        let of = self.task(task);
        of.load.update(now, 1, 1, runs, of.weight);
        of.queued = false;
        let weight = of.weight;
        self.cpus[cpu].weight = self.cpus[cpu].weight.saturating_sub(weight);
        self.cpus[cpu].nr = self.cpus[cpu].nr.saturating_sub(1);
        if self.cpus[cpu].nr == 0 {
            self.runs_dry(cpu);
        }
    }

    pub(super) fn tick(&mut self, scene: &Scene, cpu: usize) {
        if self.cpus.len() == 1 {
            return;
        }
        self.sync(scene, cpu);
        if let Some(task) = scene.cpus[cpu].running {
            let now = self.clock(scene, cpu);
            let of = self.task(task);
            of.load.update(now, 1, 1, true, of.weight);
        }
        self.note_misfit(scene, cpu, scene.cpus[cpu].running);
    }

    /// Load, use and runnable tasks of a CPU, as they were last accounted.
    pub(super) fn loads(&self, cpu: usize) -> (u64, u64, u64) {
        let load = &self.cpus[cpu].load;
        (load.load, load.util, load.runnable)
    }

    /// Load and use of a task, as they were last accounted.
    pub(super) fn task_loads(&self, task: TaskId) -> (u64, u64) {
        self.tasks.get(task.index()).map_or((0, 0), |of| (of.load.load, of.load.util))
    }

    /// How many CPUs of an LLC are looked at follows its use, the sum `used` over `width` CPUs
    /// (`update_idle_cpu_scan`).
    pub(super) fn set_scan(&mut self, llc: usize, width: u64, used: u64) {
        // y = 1024 - pct^2 * x^2 / (10000 * 1024), with x the mean use and pct the imbalance of 117.
        let mean = used / width.max(1);
        let part = (mean * mean * 117 * 117 / (10_000 * 1_024)).min(1_024);
        self.scan[llc] = (width * (1_024 - part) / 1_024) as usize;
    }

    /// The CPU for a task; `queued` tells how many tasks are runnable on a CPU.
    pub(super) fn select(
        &mut self,
        scene: &Scene,
        wake: &Wake,
        queued: &dyn Fn(usize) -> usize,
    ) -> usize {
        if self.cpus.len() == 1 {
            return 0;
        }
        let look = Look { scene, queued };
        if wake.new {
            return look.usable(wake.task, scene.task(wake.task).cpu);
        }
        let task = scene.task(wake.task);
        let this = wake.cpu;
        let prev = task.cpu;
        let wide = self.wakes_wide(scene, wake);
        let mut target = prev;
        if !wide && task.may_use(this) && this != prev && self.pulls(&look, wake, prev) {
            target = this;
        }
        let chosen = self.idle_sibling(&look, wake.task, prev, target);
        look.usable(wake.task, chosen)
    }

    /// Whether a waker wakes many tasks (`record_wakee`, `wake_wide`).
    fn wakes_wide(&mut self, scene: &Scene, wake: &Wake) -> bool {
        let waker = scene.cpus[wake.cpu].running;
        let slave = self.task(wake.task).flips.count;
        let flips = match waker {
            Some(waker) => &mut self.task(waker).flips,
            None => &mut self.cpus[wake.cpu].flips,
        };
        if scene.now > flips.decayed + SECOND {
            flips.count /= 2;
            flips.decayed = scene.now;
        }
        if flips.last != Some(wake.task) {
            flips.last = Some(wake.task);
            flips.count += 1;
        }
        let size = scene.hardware.llc_of(wake.cpu).len() as u64;
        let less = slave.min(flips.count);
        let more = slave.max(flips.count);
        less >= size && more >= less * size
    }

    /// `wake_affine`: whether the task comes to the waker's CPU.
    fn pulls(&self, look: &Look<'_>, wake: &Wake, prev: usize) -> bool {
        let this = wake.cpu;
        if look.is_idle(this) && look.scene.hardware.share_llc(this, prev) {
            return !look.is_idle(prev);
        }
        if wake.sync && (look.queued)(this) == 1 {
            return true;
        }
        if self.knobs.idle_prev_first && look.is_idle(prev) {
            return false;
        }
        let of = |task: TaskId| self.tasks.get(task.index()).map_or(0, |of| of.load.load);
        let mut here = self.cpus[this].load.load;
        if wake.sync {
            let waker = look.scene.cpus[this].running.map_or(0, of);
            if waker > here {
                return true;
            }
            here -= waker;
        }
        let task = of(wake.task);
        // Half the imbalance that domains allow: 117 % between LLCs and cores.
        let there = self.cpus[prev].load.load.saturating_sub(task) * (100 + 17 / 2);
        let capacity = |cpu| look.scene.hardware.capacity(cpu);
        (here + task) * 100 * capacity(prev) < there * capacity(this) + u64::from(wake.sync)
    }

    /// The use of a task that has slept since it left the CPU `prev` (`sync_entity_load_avg`).
    fn use_now(&mut self, scene: &Scene, task: TaskId, prev: usize) -> u64 {
        let now = self.clock(scene, prev);
        let of = self.task(task);
        let mut load = of.load;
        let weight = of.weight;
        load.update(now, 0, 0, false, weight);
        load.util
    }

    /// An idle CPU near the target (`select_idle_sibling`).
    fn idle_sibling(&mut self, look: &Look<'_>, task: TaskId, prev: usize, target: usize) -> usize {
        let hardware = &look.scene.hardware;
        let view = look.scene.task(task);
        let used = if hardware.is_asymmetric() { self.use_now(look.scene, task, prev) } else { 0 };
        let fits = |cpu: usize| !hardware.is_asymmetric() || Self::has_room(look.scene, used, cpu);
        if look.is_idle(target) && fits(target) {
            return target;
        }
        let near = |cpu: usize| hardware.share_llc(cpu, target);
        if prev != target && near(prev) && look.is_idle(prev) && fits(prev) {
            return prev;
        }
        let recent = self.task(task).recent.replace(prev);
        let fits = |&cpu: &usize| {
            let other = cpu != prev && cpu != target && near(cpu) && fits(cpu);
            other && look.is_idle(cpu) && view.may_use(cpu)
        };
        if let Some(recent) = recent.filter(fits) {
            return recent;
        }
        if hardware.is_asymmetric() {
            return idle_capacity(look, task, used, target);
        }
        let free = |&cpu: &usize| view.may_use(cpu) && look.is_idle(cpu);
        let llc = hardware.llc_of(target);
        let start = llc.iter().position(|&cpu| cpu == target).unwrap_or(0) + 1;
        let round =
            llc[start..].iter().chain(&llc[..start]).copied().filter(|&cpu| view.may_use(cpu));
        if hardware.siblings(target).len() > 1 {
            let whole =
                |&cpu: &usize| hardware.siblings(cpu).iter().all(|&thread| look.is_idle(thread));
            if let Some(core) = round.clone().find(whole) {
                return core;
            }
            let of_prev = hardware.siblings(prev).iter().copied().filter(|_| near(prev));
            if let Some(thread) = of_prev.clone().find(free) {
                return thread;
            }
        }
        // `SIS_UTIL`: fewer CPUs the busier the LLC is.
        let limit = self.scan[hardware.llc(target)];
        round.take(limit).find(free).unwrap_or(target)
    }
}

/// Where capacities differ: the first idle CPU from the target on that fits the task; if none does, the idle one with
/// the most capacity (`select_idle_capacity`).
fn idle_capacity(look: &Look<'_>, task: TaskId, used: u64, target: usize) -> usize {
    let hardware = &look.scene.hardware;
    let span = hardware.all_capacities(target);
    let start = span.iter().position(|&cpu| cpu == target).unwrap_or(0);
    let view = look.scene.task(task);
    let mut best: Option<(u64, usize)> = None;
    for &cpu in span[start..].iter().chain(&span[..start]) {
        if !view.may_use(cpu) || !look.is_idle(cpu) {
            continue;
        }
        if Placer::has_room(look.scene, used, cpu) {
            return cpu;
        }
        let capacity = hardware.capacity(cpu);
        if best.is_none_or(|(most, _)| capacity > most) {
            best = Some((capacity, cpu));
        }
    }
    best.map_or(target, |(_, cpu)| cpu)
}

struct Look<'l> {
    scene: &'l Scene,
    queued: &'l dyn Fn(usize) -> usize,
}

impl Look<'_> {
    /// Whether a CPU idles and may be used (`available_idle_cpu`).
    fn is_idle(&self, cpu: usize) -> bool {
        let view = &self.scene.cpus[cpu];
        view.running.is_none() && view.pending + view.above == 0 && (self.queued)(cpu) == 0
    }

    /// `chosen`, or another CPU where the task may not use that one (`select_fallback_rq`).
    fn usable(&self, task: TaskId, chosen: usize) -> usize {
        let view = self.scene.task(task);
        let cpus = self.scene.cpus.len();
        let near = self.scene.hardware.llc_of(chosen).iter().copied();
        let mut all = std::iter::once(chosen).chain(near).chain(0..cpus);
        all.find(|&cpu| view.may_use(cpu)).unwrap_or(chosen)
    }
}
