//! How often CPUs had nothing to run any more, and how often somebody from outside woke a task there.
//!
//! A task that waits for another task of its node is woken by that task. Both stand still together in a gap, so such a
//! wait is no sleep. A timer, a device or a task on another CPU wakes from outside.
//!
//! Others are woken on the CPUs of a node too: daemons, or the shell of a user. So the threads that a node has when a look
//! begins are counted by themselves. Those that are born during it are not among them. If a task forked meanwhile, all
//! that were woken on these CPUs count.

use schedlab_model::{Cpu, CpuSet, Pid};
use schedlab_sys::perf::Counter;
use schedlab_sys::topology;
use schedlab_sys::tracefs::Tracefs;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::path::Path;

/// A burn on an idle CPU ends in idleness too, and no task went to sleep.
const TO_IDLE: &CStr = c"next_pid == 0 && prev_comm != \"schedlab-hog\"";
/// Threads of the kernel and of this program, whose wakeups tell nothing of the work.
const OF_NOBODY: &str = "comm != \"schedlab-hog\" && !(comm ~ \"kworker/*\") && !(comm ~ \"rcu*\") \
                         && !(comm ~ \"ksoftirqd/*\") && !(comm ~ \"migration/*\")";
/// Of how many threads wakeups are counted by themselves, since a filter has a limit. Of more, these stand for all.
const KNOWN: usize = 64;
/// Opening a counter takes some 20 us, so there are no more than this for each look.
const COUNTERS: usize = 256;
/// In an interrupt (`TRACE_FLAG_HARDIRQ`, `TRACE_FLAG_SOFTIRQ`), or on an idle CPU.
const BY_INTERRUPT: &str = "common_pid == 0 || common_flags & 24";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// How often one of them had nothing to run any more.
    pub(super) idled: u64,
    /// How often a task of theirs was woken, but not by a task on one of these CPUs.
    pub(super) woken: u64,
    /// The same of the threads that were there when the look began; `None` where they were not counted.
    pub(super) known: Option<u64>,
    pub(super) born: u64,
}

#[derive(Debug)]
pub(super) struct Idle {
    idled: BTreeMap<Cpu, Counter>,
    /// On the slowed CPUs: wakeups by interrupts, and of tasks of other nodes.
    woken: BTreeMap<Cpu, Counter>,
    /// Wakeups of tasks of slowed CPUs, on all other CPUs. They count for each node.
    from_others: Vec<Counter>,
    born: BTreeMap<Cpu, Counter>,
    /// The number of the tracepoint of wakeups, and where these may be.
    waking: u64,
    online: CpuSet,
    nodes: usize,
    /// Wakeups of the threads that a node had when its look began, by its first CPU.
    known: BTreeMap<Option<Cpu>, Known>,
}

/// Counters of wakeups of the first of some threads, on each CPU.
#[derive(Debug)]
struct Known {
    threads: usize,
    counters: Vec<Counter>,
}

impl Known {
    fn count(&self) -> Option<u64> {
        let counts: Option<Vec<u64>> =
            self.counters.iter().map(|counter| counter.count().ok()).collect();
        let woken: u64 = counts?.iter().sum();
        (woken * self.threads as u64).checked_div(self.threads.min(KNOWN) as u64)
    }
}

impl Idle {
    /// Counters that stand still, for the CPUs of each node; `None` without the right to observe.
    pub(super) fn open(nodes: &[CpuSet]) -> Option<Self> {
        let tracefs = Tracefs::open().ok()?;
        let (switch, _) = tracefs.event("sched", "sched_switch").ok()?;
        let (waking, _) = tracefs.event("sched", "sched_waking").ok()?;
        let slowed: CpuSet = nodes.iter().flat_map(CpuSet::iter).collect();
        let (fork, _) = tracefs.event("sched", "sched_process_fork").ok()?;
        let mut idled = BTreeMap::new();
        let mut woken = BTreeMap::new();
        let mut born = BTreeMap::new();
        for node in nodes {
            let others: CpuSet = slowed.iter().filter(|cpu| !node.contains(*cpu)).collect();
            let outside = filter(&format!("{BY_INTERRUPT}{}", or_on(&others)))?;
            for cpu in node.iter() {
                idled.insert(cpu, Counter::open(switch, cpu, TO_IDLE).ok()?);
                woken.insert(cpu, Counter::open(waking, cpu, &outside).ok()?);
                born.insert(cpu, Counter::open(fork, cpu, c"child_pid > 0").ok()?);
            }
        }
        let from_others = filter(&format!("common_pid == -1{}", or_on(&slowed)))?;
        let online = topology::online(Path::new("/sys")).ok()?;
        let others = online.iter().filter(|cpu| !slowed.contains(*cpu));
        // One that goes offline wakes nobody.
        let from_others = others.filter_map(|cpu| Counter::open(waking, cpu, &from_others).ok());
        let from_others = from_others.collect();
        let known = BTreeMap::new();
        let nodes = nodes.len();
        Some(Self { idled, woken, from_others, born, waking, online, nodes, known })
    }

    /// Counts wakeups of these threads of a node by themselves from now on.
    pub(super) fn know(&mut self, cpus: &CpuSet, threads: &[Pid]) {
        let first = cpus.iter().next();
        self.known.remove(&first);
        if threads.is_empty() || self.nodes * self.online.len() > COUNTERS {
            return;
        }
        let numbers: Vec<String> =
            threads.iter().take(KNOWN).map(|thread| format!("pid == {thread}")).collect();
        let numbers = numbers.join(" || ");
        let counter = |cpu: Cpu| {
            let filter = match cpus.contains(cpu) {
                true => format!("({BY_INTERRUPT}) && ({numbers})"),
                false => numbers.clone(),
            };
            let counter = Counter::open(self.waking, cpu, &CString::new(filter).ok()?).ok()?;
            counter.start().ok()?;
            Some(counter)
        };
        let counters: Option<Vec<Counter>> = self.online.iter().map(counter).collect();
        if let Some(counters) = counters {
            self.known.insert(first, Known { threads: threads.len(), counters });
        }
    }

    pub(super) fn run(&self, on: bool) {
        let of_cpus = self.idled.values().chain(self.woken.values()).chain(self.born.values());
        for counter in of_cpus.chain(&self.from_others) {
            // One that cannot be started counts nothing, and the node looks as if it never slept; only a CPU that went
            // offline does that.
            let _ = if on { counter.start() } else { counter.stop() };
        }
    }

    /// What was counted of the CPUs of a node. Wakeups on CPUs of other nodes may be of its tasks, so they count too.
    pub(super) fn count(&self, cpus: &CpuSet) -> Counted {
        let of = |counter: &Counter| counter.count().ok();
        let idled = cpus.iter().filter_map(|cpu| of(self.idled.get(&cpu)?)).sum();
        let woken = self.woken.values().chain(&self.from_others).filter_map(of).sum();
        let born = cpus.iter().filter_map(|cpu| of(self.born.get(&cpu)?)).sum();
        let known = self.known.get(&cpus.iter().next()).and_then(Known::count);
        Counted { idled, woken, known, born }
    }
}

/// A filter of wakeups for which `what` holds.
fn filter(what: &str) -> Option<CString> {
    CString::new(format!("({what}) && {OF_NOBODY}")).ok()
}

/// Or the woken task was last on one of these CPUs.
fn or_on(cpus: &CpuSet) -> String {
    cpus.iter().map(|cpu| format!(" || target_cpu == {cpu}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::Pid;
    use schedlab_sys::{process, sched};
    use std::io::Write as _;
    use std::time::Duration;

    fn on_a_thread(body: impl FnOnce() + Send + 'static) -> std::thread::JoinHandle<()> {
        std::thread::Builder::new().spawn(body).unwrap()
    }

    /// What is counted of a CPU while a thread there does `work` 100 times.
    fn counted(work: impl Fn() + Send + 'static) -> Option<Counted> {
        let cpu = sched::affinity(Pid(0)).unwrap().iter().last().unwrap();
        let cpus = CpuSet::from_iter([cpu]);
        let idle = Idle::open(std::slice::from_ref(&cpus))?;
        assert_eq!(idle.count(&cpus), Counted::default(), "it stands still");
        idle.run(true);
        let worker = on_a_thread(move || {
            sched::set_affinity(Pid(0), &CpuSet::from_iter([cpu])).unwrap();
            (0..100).for_each(|_| work());
        });
        worker.join().unwrap();
        idle.run(false);
        Some(idle.count(&cpus))
    }

    #[test]
    fn a_timer_wakes_from_outside() {
        match counted(|| std::thread::sleep(Duration::from_millis(1))) {
            Some(counted) => assert!(counted.woken >= 100, "{counted:?}"),
            None => drop(writeln!(std::io::stderr(), "MISSING: the right to count wakeups")),
        }
    }

    #[test]
    fn a_task_that_waits_for_one_on_the_same_cpu_is_not_woken_from_outside() {
        // Both threads inherit the CPU of the first. Other tests' tasks may wake there too: the fewest of some tries.
        let pass = || {
            let to = std::sync::mpsc::channel();
            let from = std::sync::mpsc::channel();
            let ping = to.1;
            let pong = from.0;
            let peer = on_a_thread(move || while ping.recv().is_ok() && pong.send(()).is_ok() {});
            for _ in 0..50 {
                to.0.send(()).unwrap();
                from.1.recv().unwrap();
            }
            drop(to.0);
            peer.join().unwrap();
        };
        let tries: Option<Vec<Counted>> = (0..5).map(|_| counted(pass)).collect();
        match tries.and_then(|tries| tries.into_iter().map(|counted| counted.woken).min()) {
            // 10,000 waits for each other.
            Some(woken) => assert!(woken < 1_000, "{woken}"),
            None => drop(writeln!(std::io::stderr(), "MISSING: the right to count wakeups")),
        }
    }

    #[test]
    fn wakeups_of_others_on_the_same_cpu_do_not_count_where_the_threads_of_a_node_are_known() {
        let cpus: CpuSet = sched::affinity(Pid(0)).unwrap().iter().last().into_iter().collect();
        let Some(mut idle) = Idle::open(std::slice::from_ref(&cpus)) else {
            drop(writeln!(std::io::stderr(), "MISSING: the right to count wakeups"));
            return;
        };
        let sleeper = |sleeps: u32| {
            let (tell, told) = std::sync::mpsc::channel();
            let (go, begin) = std::sync::mpsc::channel::<()>();
            let cpus = cpus.clone();
            let thread = on_a_thread(move || {
                sched::set_affinity(Pid(0), &cpus).unwrap();
                tell.send(process::thread_id()).unwrap();
                let _ = begin.recv();
                (0..sleeps).for_each(|_| std::thread::sleep(Duration::from_millis(1)));
            });
            (told.recv().unwrap(), go, thread)
        };
        let own = sleeper(50);
        let other = sleeper(150);
        idle.know(&cpus, &[own.0]);
        idle.run(true);
        for (_, go, thread) in [own, other] {
            drop(go);
            thread.join().unwrap();
        }
        idle.run(false);
        let Counted { woken, known, .. } = idle.count(&cpus);
        assert!(woken >= 200, "{woken}");
        assert!((50..60).contains(&known.unwrap()), "{known:?}");
    }
}
