//! The sentinel: how much work a second of CPU time does while a session runs.
//!
//! CPU time tells how long a task had the CPU. It does not tell what the CPU did meanwhile: a lower clock, a busy
//! SMT sibling or a hypervisor make the same second do less. So a child runs one loop of half a millisecond on each
//! slowed CPU in each second, above all fair tasks where it may, and compares it with the same loop before the
//! session. It costs 0.05 % of each CPU. The loop uses registers only, so cold caches do not show in it.
//!
//! For methods that change the clock this work is the speed. `gov` alternates between two clocks: loops come at
//! another place of its pitch in each second, and the last [`SPAN`] of them see all places.

use super::child_entry::Entry;
use super::frequency::PITCH;
use super::granted_time::Worked;
use super::helper_process::Aide;
use super::{Method, SlowError, hogs};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::guard::Guard;
use schedlab_sys::sched::Policy;
use schedlab_sys::{clock, process, sched};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdout, Stdio};

/// CPU time of one loop.
const LOOP: Nanos = Nanos::from_micros(500);
/// How often it runs on each CPU.
const EVERY: Nanos = Nanos::from_secs(1);
/// Loops before the session, of which the median is what later ones are compared with.
const BEFORE: usize = 5;
/// This many places in a pitch of `gov` are visited by turns.
const SPAN: usize = 20;

/// What one loop did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Reading {
    cpu: Cpu,
    rounds: u64,
    used: Nanos,
}

impl Reading {
    fn rate(self) -> f64 {
        self.rounds as f64 / self.used.as_secs_f64().max(1e-9)
    }
}

/// A sentinel that runs.
#[derive(Debug)]
pub(super) struct Sentinel {
    aide: Aide,
    output: BufReader<ChildStdout>,
    before: BTreeMap<Cpu, f64>,
    /// For each CPU, sorted.
    parts: BTreeMap<Cpu, Vec<f64>>,
    /// The last [`SPAN`] at the speed that is in force, in the order of time.
    recent: BTreeMap<Cpu, VecDeque<f64>>,
}

impl Sentinel {
    /// Starts it, and returns once it knows how much work each CPU does now.
    pub(super) fn start(
        cpus: &CpuSet,
        method: Method,
        guard: &mut Guard,
    ) -> Result<Self, SlowError> {
        let clamped = method == Method::Uclamp;
        let mut command = Entry::Sentinel { cpus: cpus.clone(), clamped }.helper()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| SlowError::io("starting the sentinel", e))?;
        let output = BufReader::new(child.stdout.take().expect("it was asked to be a pipe"));
        let aide = Aide::new("the sentinel", child, guard)?;
        let mut new = Self::of(aide, output, BTreeMap::new());
        let mut first: BTreeMap<Cpu, Vec<f64>> = BTreeMap::new();
        for _ in 0..BEFORE * cpus.len() {
            let mut line = String::new();
            let read = new.output.read_line(&mut line);
            read.map_err(|e| SlowError::io("waiting for the sentinel", e))?;
            match serde_json::from_str::<Reading>(&line) {
                Ok(reading) => first.entry(reading.cpu).or_default().push(reading.rate()),
                Err(_) => {
                    let why = "the sentinel died while it started; --no-measure leaves it out";
                    return Err(SlowError::Failed(why.into()));
                }
            }
        }
        for (cpu, mut rates) in first {
            rates.sort_by(f64::total_cmp);
            new.before.insert(cpu, rates[rates.len() / 2]);
        }
        Ok(new)
    }

    const fn of(aide: Aide, output: BufReader<ChildStdout>, before: BTreeMap<Cpu, f64>) -> Self {
        Self { aide, output, before, parts: BTreeMap::new(), recent: BTreeMap::new() }
    }

    /// Takes what it has said since; waits for nothing.
    pub(super) fn hear(&mut self) {
        loop {
            while let Some(end) = self.output.buffer().iter().position(|&byte| byte == b'\n') {
                let mut line = vec![0; end + 1];
                if self.output.read_exact(&mut line).is_err() {
                    return;
                }
                if let Ok(reading) = serde_json::from_slice::<Reading>(&line) {
                    self.note(reading);
                }
            }
            let more = process::poll(&[self.output.get_ref().as_fd()], Some(Nanos::ZERO));
            // Lines are written whole, so the buffer is empty here and is filled by one read.
            if !more.is_ok_and(|ready| ready == [true])
                || !self.output.buffer().is_empty()
                || self.output.fill_buf().map_or(true, <[u8]>::is_empty)
            {
                return;
            }
        }
    }

    fn note(&mut self, reading: Reading) {
        let Some(before) = self.before.get(&reading.cpu) else { return };
        let part = reading.rate() / before;
        let parts = self.parts.entry(reading.cpu).or_default();
        parts.insert(parts.partition_point(|one| *one < part), part);
        let recent = self.recent.entry(reading.cpu).or_default();
        recent.push_back(part);
        recent.drain(..recent.len().saturating_sub(SPAN));
    }

    /// The work of CPU time now on the CPUs of a node, as their mean; `None` until it has been measured at the speed
    /// in force. Under `gov` that takes [`SPAN`] seconds.
    pub(super) fn pace(&self, cpus: &CpuSet, method: Method) -> Option<f64> {
        let span = if method == Method::Gov { SPAN } else { 1 };
        let of_cpu = |cpu: Cpu| {
            let recent = self.recent.get(&cpu).filter(|recent| recent.len() >= span)?;
            Some(recent.iter().rev().take(span).sum::<f64>() / span as f64)
        };
        let all: Vec<f64> = cpus.iter().map(of_cpu).collect::<Option<_>>()?;
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The speed of these CPUs changes: what was measured before is of another one.
    pub(super) fn forget(&mut self, cpus: &CpuSet) {
        self.hear();
        self.recent.retain(|cpu, _| !cpus.contains(*cpu));
    }

    /// What the CPUs of a node did; `None` before the first loop.
    pub(super) fn worked(&self, cpus: &CpuSet) -> Option<Worked> {
        let of_cpu = |cpu: Cpu| self.parts.get(&cpu).into_iter().flatten().copied();
        let mut all: Vec<f64> = cpus.iter().flat_map(of_cpu).collect();
        all.sort_by(f64::total_cmp);
        let last = all.len().checked_sub(1)?;
        let at = |quantile: f64| all[(last as f64 * quantile).round() as usize];
        Some(Worked { loops: all.len(), median: at(0.5), low: at(0.05), high: at(0.95) })
    }

    /// Whether it lives. Without it nothing but the work is unknown.
    pub(super) fn lives(&mut self) -> bool {
        self.aide.check().is_ok()
    }
}

/// The life of the child: until nobody reads.
pub(super) fn child(cpus: &CpuSet, clamped: bool) -> i32 {
    hogs::leave_fair_group();
    // Without the right it is a fair task, and its CPU time is counted as well.
    let _ = sched::set(Pid(0), &Policy::Fifo { priority: 1 }.into());
    let mut out = std::io::stdout();
    let mut round = |cpu: Cpu| {
        // A CPU that was taken from us is left out, and the session hears nothing of it.
        if sched::set_affinity(Pid(0), &CpuSet::from_iter([cpu])).is_err() {
            return true;
        }
        let text = serde_json::to_string(&once(cpu)).expect("plain values");
        writeln!(out, "{text}").and_then(|()| out.flush()).is_ok()
    };
    for _ in 0..BEFORE {
        if !cpus.iter().all(&mut round) {
            return 1;
        }
    }
    // A real-time task asks for the highest clock. This one asks for none, and so measures the clock that others get.
    if clamped && !stops_lifting() {
        return 1;
    }
    let mut beat = clock::monotonic().0 / EVERY.0;
    loop {
        beat = (beat + 1).max(clock::monotonic().0 / EVERY.0);
        clock::sleep_until(Nanos(beat * EVERY.0) + place(beat));
        if !cpus.iter().all(&mut round) {
            return 1;
        }
    }
}

/// Where in a pitch the loops of a second begin: in the middle of each of [`SPAN`] parts by turns, neighbours apart.
const fn place(beat: u64) -> Nanos {
    let span = SPAN as u64;
    // 7 and SPAN have no common divisor.
    Nanos(((beat * 7) % span * 2 + 1) * PITCH.0 / (2 * span))
}

fn stops_lifting() -> bool {
    sched::get(Pid(0)).is_ok_and(|now| {
        let clamped = sched::Attributes { clamp: Some((0, 0)), ..now };
        sched::set(Pid(0), &clamped).is_ok()
    })
}

fn once(cpu: Cpu) -> Reading {
    let start = clock::thread_cpu();
    let (mut rounds, mut value) = (0u64, 0u64);
    loop {
        for _ in 0..200 {
            value = std::hint::black_box(value.wrapping_mul(3).wrapping_add(1));
        }
        rounds += 1;
        let used = clock::thread_cpu() - start;
        if used >= LOOP {
            return Reading { cpu, rounds, used };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_in_parts_of_that_before_and_by_node() {
        let dir = tempfile::tempdir().unwrap();
        let mut guard = Guard::arm_with(dir.path(), std::path::Path::new("/bin/true")).unwrap();
        let say = "printf '{\"cpu\":1,\"rounds\":%d,\"used\":1000}\\n' 90 100 50";
        let mut command = std::process::Command::new("sh");
        let mut child = command.args(["-c", say]).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let aide = Aide::new("the sentinel", child, &mut guard).unwrap();
        let rate = Reading { cpu: Cpu(1), rounds: 100, used: Nanos(1_000) }.rate();
        let before = BTreeMap::from([(Cpu(1), rate)]);
        let mut sentinel = Sentinel::of(aide, output, before);
        let cpus = |cpu: u16| CpuSet::from_iter([Cpu(cpu)]);
        super::super::until(|| {
            sentinel.hear();
            sentinel.worked(&cpus(1)).is_some_and(|worked| worked.loops == 3)
        });
        let worked = sentinel.worked(&cpus(1)).unwrap();
        let off = |a: f64, b: f64| (a - b).abs() > 1e-9;
        assert!(!off(worked.median, 0.9) && !off(worked.low, 0.5) && !off(worked.high, 1.0));
        assert!(worked.to_string().contains("90.0 % of the work"), "{worked}");
        assert_eq!(sentinel.worked(&cpus(0)), None, "another node's CPU");
        // The last loop is the speed under one clock; two by turns take more.
        let pace = |sentinel: &Sentinel, cpu, method| sentinel.pace(&cpus(cpu), method);
        assert!(!off(pace(&sentinel, 1, Method::Freq).unwrap(), 0.5));
        assert_eq!(pace(&sentinel, 1, Method::Gov), None);
        assert_eq!(pace(&sentinel, 0, Method::Freq), None);
        for rounds in [50, 100].into_iter().cycle().take(SPAN) {
            sentinel.note(Reading { cpu: Cpu(1), rounds, used: Nanos(1_000) });
        }
        assert!(!off(pace(&sentinel, 1, Method::Gov).unwrap(), 0.75));
        sentinel.forget(&cpus(1));
        assert_eq!(pace(&sentinel, 1, Method::Freq), None, "the speed changed");
        super::super::until(|| !sentinel.lives());
        sentinel.hear();
    }

    #[test]
    fn loops_see_each_part_of_a_pitch_once_in_a_span() {
        let part = PITCH.0 / SPAN as u64;
        for first in [0, 13] {
            let mut parts: Vec<u64> =
                (first..first + SPAN as u64).map(|beat| place(beat).0 / part).collect();
            parts.sort_unstable();
            assert_eq!(parts, (0..SPAN as u64).collect::<Vec<_>>());
        }
        // The second begins where a pitch does.
        assert_eq!(EVERY.0 % PITCH.0, 0);
    }

    #[test]
    fn a_loop_counts_its_own_cpu_time() {
        let reading = once(Cpu(0));
        assert!(reading.rounds > 0 && reading.used >= LOOP && reading.rate() > 0.0);
    }
}
