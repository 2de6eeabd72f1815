//! Hogs: a real-time thread on each slowed CPU that burns its part of every slot of the [`Grid`].
//!
//! A hog burns by the clock and not by counting loops: time that a hypervisor or an interrupt takes
//! from the burn was lost to the workload too. It reads its speed at every slot, so a change takes
//! effect within one. A hog that comes late by whole slots skips them and never catches up, since
//! catching up can lock into burning most of the time.
//!
//! Switching from the workload to the hog and back is time that neither computes in: the first lies in
//! the burn, since the burn ends by the clock, and the second is taken off its end (`Switching`).
//!
//! The threads run in a child process of their own ([`HogProcess`]): its limit of real-time running
//! kills a hog that is stuck without hurting anybody else, terminal signals pass it by, and it dies
//! with its parent.

pub(crate) use super::child_entry::Burning;
use super::child_entry::Entry;
use super::deadline::{self, Ready};
use super::helper_process::{HelperProcess, ready};
use super::switching::Switching;
use super::{Grid, SlowError, Speed, Speeds};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::sched::{Attributes, Policy};
use schedlab_sys::{clock, process, sched};
use std::io::Write;
use std::process::ChildStdin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The slowest speed that hogs can make: below it they run into the kernel's guards, real-time
/// throttling (95 %) and the fair server (5 % for everybody else).
pub(crate) const SLOWEST_PERCENT: u32 = 10;

/// Any real-time priority is above all fair tasks; 2 leaves 1 for the probe that measures what is
/// left, and stays below the kernel's own threads.
const PRIORITY: u32 = 2;

#[derive(Debug)]
struct Hog {
    cpu: Cpu,
    speed: AtomicU32,
}

#[derive(Debug)]
struct Shared {
    hogs: Vec<Hog>,
    turn: Mutex<Turn>,
    stop: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    grid: Grid,
    since: Nanos,
}

impl Turn {
    /// The next slot to burn in, if it is time to change from slot `slot` of `grid` to this grid.
    fn take(self, grid: Grid, slot: u64) -> Option<u64> {
        let start = slot * grid.period().0;
        (self.grid != grid && start >= self.since.0).then(|| start.div_ceil(self.grid.period().0))
    }
}

/// Hog threads of this process. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Hogs {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Hogs {
    /// Starts a hog on each CPU, and returns once all of them are in place.
    ///
    /// # Errors
    /// When real-time scheduling is refused, or a CPU cannot be used.
    pub(crate) fn start(speeds: &Speeds, grid: Grid, burning: &Burning) -> Result<Self, SlowError> {
        let hog =
            |(&cpu, speed): (&Cpu, &Speed)| Hog { cpu, speed: AtomicU32::new(speed.millionths()) };
        let hogs = speeds.iter().map(hog).collect();
        let turn = Mutex::new(Turn { grid, since: Nanos::ZERO });
        let shared = Arc::new(Shared { hogs, turn, stop: AtomicBool::new(false) });
        let (report, reports) = channel();
        let mut started = Self { shared, threads: Vec::new() };
        for index in 0..started.shared.hogs.len() {
            let shared = Arc::clone(&started.shared);
            let report = report.clone();
            let deadline = matches!(burning, Burning::Deadline { .. });
            let body = move || live(&shared, index, grid, deadline, &report);
            let thread = std::thread::Builder::new().name("schedlab-hog".into()).spawn(body);
            started.threads.push(thread.map_err(|e| SlowError::io("starting a hog", e))?);
        }
        drop(report);
        for _ in 0..started.threads.len() {
            let ready = reports.recv().map_err(|_| SlowError::Failed("a hog died".into()))?;
            ready.map_err(|(doing, error)| SlowError::io(doing, error))?;
        }
        Ok(started)
    }

    /// Changes the speed of a CPU, from its next slot on. A CPU without a hog stays as it is.
    pub(crate) fn set(&self, cpu: Cpu, speed: Speed) {
        for (hog, thread) in self.shared.hogs.iter().zip(&self.threads) {
            if hog.cpu == cpu {
                hog.speed.store(speed.millionths(), Ordering::Release);
                thread.thread().unpark();
            }
        }
    }

    /// Changes the period of the grid, for all hogs at the same moment: where a slot of both grids begins, if one period
    /// divides the other.
    pub(crate) fn pace(&self, grid: Grid) {
        let mut turn = self.shared.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let longer = turn.grid.period().max(grid.period());
        // Hogs have decided about the slot that they sleep for: the change is after that.
        let since = Nanos(((clock::monotonic() + longer).0 / longer.0 + 1) * longer.0);
        *turn = Turn { grid, since };
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // A hog that panicked burns no more, which is all that is wanted here.
            let _ = thread.join();
        }
    }
}

fn live(shared: &Shared, index: usize, grid: Grid, deadline: bool, report: &Sender<Ready>) {
    let hog = &shared.hogs[index];
    let speed = Speed::from_millionths(hog.speed.load(Ordering::Acquire)).unwrap_or(Speed::FULL);
    let ready = match deadline {
        true => deadline::settle(hog.cpu, speed, grid.period()),
        false => settle(hog.cpu),
    };
    let failed = ready.is_err();
    let _ = report.send(ready);
    match deadline {
        _ if failed => {}
        true => deadline::burn(hog.cpu, &hog.speed, grid.period(), &shared.stop),
        false => burn(hog, grid, shared),
    }
}

/// Real-time first, then the CPU: a fair thread that moves to a busy CPU may wait long for its turn.
fn settle(cpu: Cpu) -> Ready {
    let policy = Policy::Fifo { priority: PRIORITY };
    let attributes = Attributes { reset_on_fork: true, ..policy.into() };
    sched::set(Pid(0), &attributes)
        .map_err(|error| ("making a hog a real-time thread (SCHED_FIFO)".to_owned(), error))?;
    sched::set_affinity(Pid(0), &CpuSet::from_iter([cpu]))
        .map_err(|error| (format!("binding a hog to CPU {cpu}"), error))
}

fn burn(hog: &Hog, mut grid: Grid, shared: &Shared) {
    let mut slot = grid.slot(clock::monotonic()) + 1;
    let mut switching = Switching::new();
    let mut restless = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        // The one that changes the grid is no real-time thread, and is not waited for.
        let turn = shared.turn.try_lock().map(|turn| *turn).ok();
        if let Some((turn, next)) = turn.and_then(|turn| Some((turn, turn.take(grid, slot)?))) {
            (grid, slot) = (turn.grid, next);
        }
        let millionths = hog.speed.load(Ordering::Acquire);
        let speed = Speed::from_millionths(millionths).unwrap_or(Speed::FULL);
        if speed == Speed::FULL {
            // Not even a wakeup: full speed is what others are compared with.
            std::thread::park();
            slot = grid.slot(clock::monotonic()) + 1;
            continue;
        }
        let span = grid.burn(slot, speed);
        restless = if clock::monotonic() < span.start { 0 } else { restless + 1 };
        if restless > restless_most(grid.period()) {
            restless = 0;
            clock::sleep_until(clock::monotonic() + grid.period());
            slot = grid.slot(clock::monotonic()) + 1;
            continue;
        }
        clock::sleep_until(span.start);
        switching.begins(clock::thread_cpu());
        let end = span.end - switching.cost(span.duration(), grid.period());
        // No pause instruction: a hypervisor may take a pausing CPU for one that waits for a lock.
        while clock::monotonic() < end {}
        switching.ends(clock::thread_cpu());
        slot = grid.slot(clock::monotonic()).max(slot + 1);
    }
}

/// How many slots in a row a hog may come too late to sleep before. Where timers are coarse or a hypervisor takes
/// the CPU away it may be late for each, would burn all the time, and be killed for it by its own limit: it rests
/// for a slot instead, well before that.
fn restless_most(period: Nanos) -> u64 {
    (Nanos::from_millis(20).0 / period.0).max(1)
}

#[derive(Debug)]
pub(crate) struct HogProcess {
    helper: HelperProcess,
    orders: ChildStdin,
}

impl HogProcess {
    /// Starts the child and returns once all hogs are in place. Journals its end in `guard`.
    ///
    /// # Errors
    /// As [`Hogs::start`].
    pub(crate) fn start(
        speeds: &Speeds,
        grid: Grid,
        burning: Burning,
        guard: &mut schedlab_sys::guard::Guard,
    ) -> Result<Self, SlowError> {
        let speeds = speeds.iter().map(|(cpu, speed)| (*cpu, *speed)).collect();
        let command = Entry::Hogs { period: grid.period(), speeds, burning }.helper()?;
        let (helper, orders) = HelperProcess::start_ready("the hogs' process", command, guard)?;
        Ok(Self { helper, orders })
    }

    /// Changes the speed of a CPU, from its next slot on.
    ///
    /// # Errors
    /// When the hogs are dead.
    pub(crate) fn set(&mut self, cpu: Cpu, speed: Speed) -> Result<(), SlowError> {
        self.tell(&format!("{cpu} {}\n", speed.millionths()))
    }

    /// Changes how often burns come, for all CPUs at the same moment.
    ///
    /// # Errors
    /// When the hogs are dead.
    pub(crate) fn pace(&mut self, grid: Grid) -> Result<(), SlowError> {
        self.tell(&format!("{PACE} {}\n", grid.period().0))
    }

    fn tell(&mut self, order: &str) -> Result<(), SlowError> {
        let sent = self.orders.write_all(order.as_bytes());
        sent.map_err(|e| SlowError::io("sending a new speed to the hogs (did they die?)", e))
    }

    pub(super) const fn helper(&mut self) -> &mut HelperProcess {
        &mut self.helper
    }
}

/// No CPU is called so.
const PACE: &str = "period";

/// The life of the child: hogs until standard input ends; each line of it is `CPU MILLIONTHS` or `period NANOSECONDS`.
pub(super) fn child(period: Nanos, speeds: &[(Cpu, Speed)], burning: &Burning) -> i32 {
    let started = prepare(period, burning)
        .and_then(|grid| Hogs::start(&speeds.iter().copied().collect(), grid, burning));
    let Some(hogs) = ready(started) else { return 1 };
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let _ = obey(&hogs, &line);
    }
    0
}

/// Carries out a line. One that makes no sense changes nothing.
fn obey(hogs: &Hogs, line: &str) -> Option<()> {
    let (what, value) = line.split_once(' ')?;
    match what {
        PACE => hogs.pace(Grid::new(Nanos(value.parse().ok()?))?),
        cpu => hogs.set(Cpu(cpu.parse().ok()?), Speed::from_millionths(value.parse().ok()?)?),
    }
    Some(())
}

/// Leaves a control group that allows no real-time threads (`CONFIG_RT_GROUP_SCHED`: every one but the root, as
/// it is made). Under version 2 a group without the controller shares the time of one above it, so it is left too.
/// Where this is refused, making a thread real-time says so.
pub(super) fn leave_fair_group() {
    if let Some(cpu) = schedlab_sys::cgroup::of_cpu()
        && !cpu.is_root()
    {
        let _ = schedlab_sys::kernel_file::write(cpu.mount.join("cgroup.procs"), "0");
    }
}

/// Leaves a control group that allows no real-time threads, and limits how long a hog that never
/// blocks can harm.
fn prepare(period: Nanos, burning: &Burning) -> Result<Grid, SlowError> {
    let grid = Grid::new(period).ok_or_else(|| SlowError::Failed("no such period".into()))?;
    leave_fair_group();
    if let Burning::Deadline { group: Some(group) } = burning {
        super::child_entry::enter(std::slice::from_ref(group), &CpuSet::new())?;
    }
    // The period may become the longest one later.
    let soft = Nanos(Grid::PERIOD_MAX.0 * 2);
    process::limit_realtime(soft, Nanos(soft.0 * 2))
        .map_err(|e| SlowError::io("limiting the time a stuck hog can run (RLIMIT_RTTIME)", e))?;
    Ok(grid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::until;
    use std::path::PathBuf;

    /// CPU time of each hog of this process, in nanoseconds.
    fn burned() -> Vec<u64> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        let hogs = tasks.filter(|task| read(task.path().join("comm")).trim() == "schedlab-hog");
        let time = |text: String| text.split(' ').next().and_then(|time| time.parse().ok());
        hogs.map(|hog| time(read(hog.path().join("schedstat"))).unwrap_or(0)).collect()
    }

    #[test]
    fn a_grid_is_changed_where_a_slot_of_both_begins() {
        let grid = |ms| Grid::new(Nanos::from_millis(ms)).unwrap();
        let turn = Turn { grid: grid(20), since: Nanos::from_millis(40) };
        assert_eq!(turn.take(grid(2), 19), None, "slot 19 begins at 38 ms");
        assert_eq!(turn.take(grid(2), 20), Some(2));
        // A hog that came late skips to the next slot of the new grid.
        assert_eq!(turn.take(grid(2), 21), Some(3));
        assert_eq!(turn.take(grid(20), 2), None, "it has changed");
        let back = Turn { grid: grid(2), since: Nanos::from_millis(40) };
        assert_eq!((back.take(grid(20), 1), back.take(grid(20), 2)), (None, Some(20)));
    }

    #[test]
    fn hogs_burn_what_is_missing_to_the_speed_and_end_when_dropped() {
        let cpu = sched::affinity(Pid(0)).unwrap().iter().last().unwrap();
        let half = Speed::percent(50).unwrap();
        let grid = Grid::new(Grid::PERIOD).unwrap();
        match Hogs::start(&Speeds::from([(cpu, half)]), grid, &Burning::Grid) {
            Err(SlowError::Io { error, .. }) if error.raw_os_error() == Some(1) => {
                drop(writeln!(
                    std::io::stderr(),
                    "MISSING: the right to real-time threads; hogs are not tested"
                ));
            }
            started => {
                let hogs = started.unwrap();
                // How much is what the benchmark measures; here only that they burn at all.
                until(|| burned().iter().sum::<u64>() > 10_000_000);
                assert_eq!(obey(&hogs, "period 20000000"), Some(()));
                assert_eq!(obey(&hogs, "period 7"), None, "no such period");
                let before = burned().iter().sum::<u64>();
                until(|| burned().iter().sum::<u64>() > before + 50_000_000);
                hogs.set(cpu, Speed::FULL);
                drop(hogs);
                // A thread that was joined is listed for a moment more.
                until(|| burned().is_empty());
            }
        }
    }
}
