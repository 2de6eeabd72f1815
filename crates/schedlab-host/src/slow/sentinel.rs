//! The sentinel: how much work a second of CPU time does while a session runs.
//!
//! CPU time tells how long a task had the CPU. It does not tell what the CPU did meanwhile: a lower clock, a busy
//! SMT sibling or a hypervisor make the same second do less. So a child runs one loop of half a millisecond on each
//! slowed CPU in each second, above all fair tasks where it may, and compares it with the same loop before the
//! session. It costs 0.05 % of each CPU. The loop uses registers only, so cold caches do not show in it.

use super::aide::Aide;
use super::entry::Entry;
use super::proof::Worked;
use super::{SlowError, hogs};
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_sys::guard::Guard;
use schedlab_sys::sched::Policy;
use schedlab_sys::{clock, process, sched};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::process::{ChildStdout, Stdio};

/// CPU time of one loop.
const LOOP: Nanos = Nanos::from_micros(500);
/// How often it runs on each CPU.
const EVERY: Nanos = Nanos::from_secs(1);
/// Loops before the session, of which the median is what later ones are compared with.
const BEFORE: usize = 5;

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
}

impl Sentinel {
    /// Starts it, and returns once it knows how much work each CPU does now.
    pub(super) fn start(cpus: &CpuSet, guard: &mut Guard) -> Result<Self, SlowError> {
        let mut command = Entry::Sentinel { cpus: cpus.clone() }.helper()?;
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| SlowError::io("starting the sentinel", e))?;
        let output = BufReader::new(child.stdout.take().expect("it was asked to be a pipe"));
        let aide = Aide::new("the sentinel", child, guard)?;
        let mut new = Self { aide, output, before: BTreeMap::new(), parts: BTreeMap::new() };
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
pub(super) fn child(cpus: &CpuSet) -> i32 {
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
    let mut next = clock::monotonic();
    loop {
        next = (next + EVERY).max(clock::monotonic());
        clock::sleep_until(next);
        if !cpus.iter().all(&mut round) {
            return 1;
        }
    }
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
        let mut sentinel = Sentinel { aide, output, before, parts: BTreeMap::new() };
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
        super::super::until(|| !sentinel.lives());
        sentinel.hear();
    }

    #[test]
    fn a_loop_counts_its_own_cpu_time() {
        let reading = once(Cpu(0));
        assert!(reading.rounds > 0 && reading.used >= LOOP && reading.rate() > 0.0);
    }
}
