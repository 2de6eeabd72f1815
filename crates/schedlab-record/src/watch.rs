//! The watcher: names and allowed CPUs of tasks, at the start, when they appear, at the end.
//!
//! New tasks are learnt from the kernel's own records of them, which a second, small ring for each
//! CPU collects; it is looked at some twenty times a second. A task that came and went in between had
//! its parent's allowed CPUs, unless it changed them itself. A task that is bound anew is looked at
//! when it executes a program, and at the end.

use super::RecordError;
use super::conditions::ConditionsReader;
use super::groups::Groups;
use super::sample::BETWEEN_ASKING;
use super::spool::Seen;
use schedlab_model::{Comm, Cpu, CpuSet, Nanos, Pid, Scheduled};
use schedlab_sys::perf::{Ring, record};
use schedlab_sys::taskstats::Taskstats;
use schedlab_sys::{clock, process, sched};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};

/// Name of tasks, and whether their policy is `SCHED_IDLE`.
fn first_looks(pids: &[Pid]) -> BTreeMap<Pid, (Comm, bool)> {
    let mut found = BTreeMap::new();
    let told = match pids {
        [] => Ok(()),
        _ => Taskstats::open().and_then(|mut all| {
            all.of(pids, &mut |pid, it| {
                found.insert(pid, (it.comm, it.is_idle));
            })
        }),
    };
    if told.is_err() {
        let is_idle = |pid| sched::get(pid).is_ok_and(|it| it.policy == sched::Policy::Idle);
        let look = |pid: &Pid| Some((*pid, (process::comm(*pid)?, is_idle(*pid))));
        found = pids.iter().filter_map(look).collect();
    }
    found
}

pub(crate) struct Watcher {
    out: BufWriter<File>,
    rings: Vec<(Cpu, Ring)>,
    /// The ring of a CPU that is back in use.
    again: fn(Cpu) -> Result<Ring, RecordError>,
    /// When it asked last whether rings have ended.
    asked: Nanos,
    allowed: BTreeMap<Pid, CpuSet>,
    /// Notes the control groups of tasks, if they are recorded.
    groups: Option<Groups>,
    /// Notes how tasks are scheduled, if that is recorded.
    conditions_reader: Option<ConditionsReader>,
}

impl Watcher {
    /// Notes every task that lives at the start.
    pub(crate) fn start(
        out: File,
        rings: Vec<(Cpu, Ring)>,
        again: fn(Cpu) -> Result<Ring, RecordError>,
        groups: Option<Groups>,
        conditions_reader: Option<ConditionsReader>,
    ) -> io::Result<Self> {
        let out = BufWriter::new(out);
        let asked = clock::monotonic();
        let allowed = BTreeMap::new();
        let mut watcher = Self { out, rings, again, asked, allowed, groups, conditions_reader };
        if watcher.conditions_reader.is_some() {
            ConditionsReader::machine().iter().try_for_each(|seen| watcher.note(seen))?;
        }
        watcher.look_at_all()?;
        // The groups were read when their first tasks were met.
        Groups::steal().iter().try_for_each(|seen| watcher.note(seen))?;
        Ok(watcher)
    }

    /// Looks at the tasks that appeared since the last time.
    pub(crate) fn look_at_new(&mut self) -> io::Result<()> {
        if self.rings.is_empty() {
            return self.look_at_all();
        }
        let mut bytes = Vec::new();
        let now = clock::monotonic();
        let asks = now >= self.asked + BETWEEN_ASKING;
        if asks {
            self.asked = now;
        }
        let mut is_back = false;
        for (cpu, ring) in &mut self.rings {
            let has_ended = asks && ring.has_ended();
            ring.drain(&mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            if has_ended && let Ok(again) = (self.again)(*cpu) {
                (*ring, is_back) = (again, true);
            }
        }
        for (kind, body) in records(&bytes) {
            let word = |at: usize| {
                let bytes = body.get(at..at + 4).and_then(|b| b.try_into().ok());
                bytes.map_or(Pid(0), |b| Pid(i32::from_ne_bytes(b)))
            };
            match kind {
                record::FORK => {
                    self.belongs(word(8), word(0))?;
                    self.look(word(8), Some(word(12)))?;
                }
                record::COMM => {
                    let comm = process::comm_of(body.get(8..).unwrap_or_default());
                    self.note(&Seen::Named { pid: word(4), comm })?;
                    // Who executes a program has often just been bound to its CPUs.
                    self.look(word(4), None)?;
                }
                _ => {}
            }
        }
        if is_back {
            // Tasks that appeared there meanwhile.
            self.look_at_all()?;
        }
        self.out.flush()
    }

    /// Looks at every task that is still there once more.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.look_at_new()?;
        self.look_at_all()?;
        self.count()?;
        if self.conditions_reader.is_some() {
            ConditionsReader::tick().iter().try_for_each(|seen| self.note(seen))?;
        }
        self.out.flush()
    }

    /// Reads what the kernel counts for groups.
    fn count(&mut self) -> io::Result<()> {
        let counted = self.groups.as_ref().map(Groups::count).unwrap_or_default();
        counted.iter().try_for_each(|seen| self.note(seen))
    }

    fn look_at_all(&mut self) -> io::Result<()> {
        let met = self.groups.as_mut().map(Groups::look_at_all).unwrap_or_default();
        met.iter().try_for_each(|seen| self.note(seen))?;
        let all = process::tasks_with_processes();
        let new = all.iter().map(|(pid, _)| *pid).filter(|pid| !self.allowed.contains_key(pid));
        let new = first_looks(&new.collect::<Vec<_>>());
        for (pid, process) in all {
            if let Some((comm, is_idle)) = new.get(&pid) {
                self.note(&Seen::Named { pid, comm: *comm })?;
                self.belongs(pid, process)?;
                if *is_idle && self.conditions_reader.is_none() {
                    self.note(&Seen::Scheduled(Scheduled::idle(pid)))?;
                }
            }
            match self.groups.as_ref().is_some_and(|groups| groups.knows(pid)) {
                true => self.look_beside(pid, None)?,
                false => self.look(pid, None)?,
            }
        }
        self.out.flush()
    }

    /// Notes the process of a thread.
    fn belongs(&mut self, pid: Pid, process: Pid) -> io::Result<()> {
        if pid == process {
            return Ok(());
        }
        self.note(&Seen::Thread { pid, process })
    }

    /// Notes where a task may run, if that changed. A task that is gone had what its parent has.
    fn look(&mut self, pid: Pid, parent: Option<Pid>) -> io::Result<()> {
        let met = self.groups.as_mut().map(|groups| groups.look(pid, parent)).unwrap_or_default();
        met.iter().try_for_each(|seen| self.note(seen))?;
        self.look_beside(pid, parent)
    }

    /// The same without its control group.
    fn look_beside(&mut self, pid: Pid, parent: Option<Pid>) -> io::Result<()> {
        let scheduled = self
            .conditions_reader
            .as_mut()
            .and_then(|conditions_reader| conditions_reader.look(pid, parent));
        scheduled.iter().try_for_each(|seen| self.note(seen))?;
        let inherited = || self.allowed.get(&parent?).cloned();
        let Some(cpus) = sched::affinity(pid).ok().or_else(inherited) else { return Ok(()) };
        if self.allowed.get(&pid) == Some(&cpus) {
            return Ok(());
        }
        // What the first look finds held before it.
        let first = !self.allowed.contains_key(&pid);
        let at = if first { Nanos::ZERO } else { clock::monotonic() };
        self.allowed.insert(pid, cpus.clone());
        self.note(&Seen::Allowed { pid, at, cpus })
    }

    fn note(&mut self, seen: &Seen) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, seen)?;
        self.out.write_all(b"\n")
    }
}

/// Type and body (without the header) of each whole record.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
        let size = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?).into();
        let body = bytes.get(record::HEADER..size)?;
        bytes = &bytes[size..];
        Some((kind, body))
    })
}

/// What was seen of tasks as the trace keeps it.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) names: BTreeMap<Pid, Comm>,
    pub(crate) allowed: Vec<schedlab_model::Affinity>,
    pub(crate) processes: BTreeMap<Pid, Pid>,
}

/// Names, allowed CPUs and processes as the trace keeps them.
pub(crate) fn gather(seen: Vec<Seen>) -> Tasks {
    let Tasks { mut names, mut allowed, mut processes } = Tasks::default();
    for one in seen {
        match one {
            Seen::Named { pid, comm } => drop(names.insert(pid, comm)),
            Seen::Allowed { pid, at, cpus } => {
                allowed.push(schedlab_model::Affinity { pid, at, allowed: cpus });
            }
            // The one that has the number now: a pid is used again.
            Seen::Thread { pid, process } => drop(processes.insert(pid, process)),
            // `groups` and `conditions` gather these.
            Seen::Member { .. }
            | Seen::Titled { .. }
            | Seen::Counted { .. }
            | Seen::Limited { .. }
            | Seen::Stolen { .. }
            | Seen::Machine { .. }
            | Seen::Tick { .. }
            | Seen::Scheduled(_) => {}
        }
    }
    allowed.sort_by_key(|entry| (entry.pid, entry.at));
    Tasks { names, allowed, processes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_is_cut_ends_the_walk() {
        let one = [3u32.to_ne_bytes().as_slice(), &[0, 0], &16u16.to_ne_bytes(), &[7; 8]].concat();
        let bytes = [one.as_slice(), &one[..12]].concat();
        assert_eq!(records(&bytes).collect::<Vec<_>>(), [(3, [7u8; 8].as_slice())]);
        assert_eq!(records(&[0; 64]).count(), 0, "a record of no length is no record");
    }
}
