//! Keeping only what led to a long wait, or to a long request.
//!
//! Records stay in memory, the last N milliseconds of them. They are decoded as they come, merged by
//! time over all CPUs, and every task that became runnable is timed until it runs; one that waited
//! beyond the bound ends the recording, and what is in memory is spooled. A wait that has not ended
//! is noticed too, as soon as it passes the bound. Where requests are timed instead (`requests`), records are not
//! decoded.

use super::hits::Hits;
use super::requests::{self, Requests};
use super::sample::{self, BETWEEN_ASKING, Sample, SampleLayout};
use super::shared::{Ended, Shared, Spike, be_prompt};
use super::tracepoints::Tracepoint;
use super::watch::records;
use super::{Mark, RecordError, Snapshot, Watched, spool};
use schedlab_model::{Cpu, Event, Nanos, Pid, What, is_within};
use schedlab_sys::cgroup::{self, Hierarchy};
use schedlab_sys::perf::{Ring, record};
use schedlab_sys::{clock, process};
use schedlab_trace::live::LiveDecoder;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// How often the rings are looked at.
const LOOK: Nanos = Nanos::from_millis(20);
/// Records up to this long before a look are all in their rings: one takes its time a little before
/// it takes its place.
const SETTLED: Nanos = Nanos::from_millis(1);

/// The watch over all CPUs.
pub(crate) struct Watch {
    snapshot: Snapshot,
    dir: PathBuf,
    decoder: LiveDecoder,
    samples: SampleLayout,
    history: Vec<RingHistory>,
    /// Decoded, and waiting until nothing earlier can come.
    pending: Vec<Event>,
    waits: Waits,
    /// What is timed instead of waits.
    requests: Option<Requests>,
    /// Of probes and calls that begin or end these requests.
    hits: Hits,
    /// The number of the event that a task ends.
    exit: Option<u16>,
    /// When it asked last whether events have ended.
    asked: Nanos,
    /// Until when it asks at each look, since a CPU went out of use or came back: tasks may run there unseen.
    asks_until: Nanos,
}

struct RingHistory {
    cpu: Cpu,
    ring: Ring,
    /// What each look found, and when it looked.
    chunks: VecDeque<(Nanos, Vec<u8>)>,
}

impl Watch {
    pub(crate) fn new(
        snapshot: Snapshot,
        tracepoints: &[Tracepoint],
        samples: SampleLayout,
        rings: Vec<(Cpu, Ring)>,
        dir: &Path,
        requests: Option<Requests>,
        hits: Hits,
        watched: Vec<Watched>,
    ) -> Result<Self, RecordError> {
        let formats = tracepoints.iter().map(|t| (t.system.as_str(), t.format.as_str()));
        let history =
            rings.into_iter().map(|(cpu, ring)| RingHistory { cpu, ring, chunks: VecDeque::new() });
        Ok(Self {
            snapshot,
            dir: dir.to_owned(),
            decoder: LiveDecoder::new(formats),
            samples,
            history: history.collect(),
            pending: Vec::new(),
            waits: Waits::new(snapshot.bound, watched),
            requests,
            hits,
            exit: tracepoints.iter().find(|it| it.name == "sched_process_exit").map(|it| it.id),
            asked: clock::monotonic(),
            asks_until: Nanos::ZERO,
        })
    }

    /// Watches until told to stop or a task waited too long; calls `disable` then, and spools. `again` gives the ring of
    /// a CPU that is back in use.
    pub(crate) fn run(
        mut self,
        shared: &Shared,
        disable: impl Fn(),
        again: impl Fn(Cpu) -> Option<Ring>,
    ) -> io::Result<()> {
        be_prompt();
        loop {
            let last = shared.stop.load(Ordering::Acquire);
            let heard_until = Nanos(shared.heard_until.load(Ordering::Acquire));
            let spike = self.look(heard_until, &again)?;
            if let Some(spike) = spike
                && shared.ended.set(spike).is_ok()
            {
                disable();
                self.look(heard_until, &again)?;
            }
            if last || spike.is_some() {
                return self.save(shared);
            }
            let fds: Vec<_> = self.history.iter().map(|history| history.ring.as_fd()).collect();
            process::poll(&fds, Some(LOOK))?;
        }
    }

    /// Whether it is time to ask whether events have ended.
    fn asks(&mut self, now: Nanos) -> bool {
        let asks = now < self.asks_until || now >= self.asked + BETWEEN_ASKING;
        if asks {
            self.asked = now;
        }
        asks
    }

    /// Takes what is in the rings, forgets what is old, and times the waits. All marks until `heard_until` have been put:
    /// the end of a request may come later.
    fn look(
        &mut self,
        heard_until: Nanos,
        again: &dyn Fn(Cpu) -> Option<Ring>,
    ) -> io::Result<Option<Ended>> {
        let now = clock::monotonic();
        let asks = self.asks(now);
        let decodes = self.requests.is_none();
        let mut marks = Vec::new();
        for history in &mut self.history {
            let has_ended = asks && history.ring.has_ended();
            let mut bytes = Vec::new();
            history.ring.drain(&mut |piece| {
                bytes.extend_from_slice(piece);
                Ok(())
            })?;
            let looks = decodes || !self.hits.is_empty();
            let samples = records(&bytes).filter(|(kind, _)| looks && *kind == record::SAMPLE);
            for (_, body) in samples {
                let Some(sample) = Sample::parse(body, self.samples) else { continue };
                if decodes {
                    self.decoder.decode(sample.time, history.cpu, sample.raw, &mut self.pending);
                    continue;
                }
                let process = |thread| process::of_thread(thread).unwrap_or(thread);
                if sample.raw.first_chunk().map(|id| u16::from_ne_bytes(*id)) == self.exit {
                    let pid = sample.raw.get(4..).and_then(|rest| rest.first_chunk());
                    let pid = pid.map_or(Pid(0), |pid| Pid(i32::from_ne_bytes(*pid)));
                    marks.push(requests::gone(sample.time, history.cpu, pid));
                }
                for hit in self.hits.marks(sample.raw, process) {
                    let time = sample.time;
                    let cpu = history.cpu;
                    let pid = hit.pid;
                    let phase = hit.phase;
                    let id = hit.request;
                    let request = hit.number;
                    marks.push(Mark { time, cpu, pid, id, phase, request });
                }
            }
            if has_ended && let Some(ring) = again(history.cpu) {
                history.ring = ring;
                bytes.extend(sample::lost());
            }
            history.chunks.push_back((now, bytes));
            while history.chunks.front().is_some_and(|(at, _)| *at + self.snapshot.keep < now) {
                history.chunks.pop_front();
            }
        }
        if let Some(requests) = &mut self.requests {
            return Ok(requests.look(now.min(heard_until), marks).map(Ended::Overrun));
        }
        let is_hotplug = |event: &Event| matches!(event.what, What::Online { .. });
        if self.pending.iter().any(is_hotplug) {
            self.asks_until = now + BETWEEN_ASKING;
        }
        let settled = now - SETTLED;
        self.pending.sort_by_key(|event| event.time);
        let ready = self.pending.partition_point(|event| event.time <= settled);
        let ended = self.pending.drain(..ready).find_map(|event| self.waits.see(&event));
        if now < self.asks_until {
            self.waits.since.clear();
        }
        Ok(ended.or_else(|| self.waits.overdue(settled)).map(Ended::Spike))
    }

    fn save(self, shared: &Shared) -> io::Result<()> {
        for history in self.history {
            let mut bytes = Vec::new();
            for (_, chunk) in history.chunks {
                bytes.extend(chunk);
            }
            shared.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            spool::write_bytes(&spool::records(&self.dir, history.cpu), &bytes)
                .map_err(io::Error::other)?;
        }
        Ok(())
    }
}

/// Who is runnable and does not run, and since when.
struct Waits {
    bound: Nanos,
    since: BTreeMap<Pid, Nanos>,
    /// Whose waits count; all if empty.
    watched: Vec<Watched>,
    hierarchy: Option<Hierarchy>,
}

impl Waits {
    fn new(bound: Nanos, watched: Vec<Watched>) -> Self {
        let by_group = watched.iter().any(|one| matches!(one, Watched::Cgroup(_)));
        let hierarchy = by_group.then(cgroup::of_cpu).flatten();
        Self { bound, since: BTreeMap::new(), watched, hierarchy }
    }

    /// Whether a task is watched, as it is called and grouped now.
    fn watches(&self, pid: Pid) -> bool {
        let is_it = |watched: &Watched| match watched {
            Watched::Pid(wanted) => *wanted == pid,
            Watched::Comm(name) => process::comm(pid).is_some_and(|comm| {
                let length = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
                comm[..length] == *name.as_bytes()
            }),
            Watched::Cgroup(path) => {
                let group = self.hierarchy.as_ref().and_then(|all| all.name_of(pid));
                group.is_some_and(|group| is_within(&group, path))
            }
        };
        self.watched.is_empty() || self.watched.iter().any(is_it)
    }

    /// Follows an event; the wait that it ends, when that was too long.
    fn see(&mut self, event: &Event) -> Option<Spike> {
        match event.what {
            What::Wakeup { pid, .. } => {
                // A task that is woken while it still waits waits since the first time.
                self.since.entry(pid).or_insert(event.time);
            }
            What::Switch { prev, left, next, .. } => {
                if left.is_runnable() && !prev.is_idle() {
                    self.since.insert(prev, event.time);
                } else {
                    self.since.remove(&prev);
                }
                let since = self.since.remove(&next)?;
                let waited = event.time - since;
                let spike = Spike { pid: next, since, waited, cpu: Some(event.cpu) };
                let is_long = waited >= self.bound && !next.is_idle();
                return (is_long && self.watches(next)).then_some(spike);
            }
            What::Exit { pid } => drop(self.since.remove(&pid)),
            // Where events are missing nobody knows who ran: those who seem to wait may have run.
            What::Lost { .. } => self.since.clear(),
            _ => {}
        }
        None
    }

    /// The longest wait that has not ended, when it is too long.
    fn overdue(&self, now: Nanos) -> Option<Spike> {
        let long = self.since.iter().filter(|(_, since)| now - **since >= self.bound);
        let watched = long.filter(|(pid, _)| self.watches(**pid));
        let (pid, since) = watched.min_by_key(|(_, since)| **since)?;
        Some(Spike { pid: *pid, since: *since, waited: now - *since, cpu: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Context, Left, Prio};

    fn event(ms: u64, what: What) -> Event {
        let time = Nanos::from_millis(ms);
        Event { time, by: Pid(1), cpu: Cpu(0), context: Context::Task, what }
    }

    fn switch(ms: u64, prev: i32, left: Left, next: i32) -> Event {
        let prio = Prio::NORMAL;
        let prev = Pid(prev);
        let next = Pid(next);
        event(ms, What::Switch { prev, prev_prio: prio, left, next, next_prio: prio })
    }

    fn wakeup(ms: u64, pid: i32) -> Event {
        event(ms, What::Wakeup { pid: Pid(pid), prio: Prio::NORMAL, cpu: Cpu(0), new: false })
    }

    #[test]
    fn a_wait_is_timed_from_the_wakeup_or_the_preemption_to_the_switch() {
        let mut waits = Waits::new(Nanos::from_millis(5), Vec::new());
        assert_eq!(waits.see(&wakeup(0, 7)), None);
        assert_eq!(waits.see(&switch(4, 1, Left::Preempted, 7)), None, "4 ms are in order");
        let spike = waits.see(&switch(9, 7, Left::Slept, 1)).unwrap();
        assert_eq!((spike.pid, spike.waited), (Pid(1), Nanos::from_millis(5)));
        assert_eq!(waits.overdue(Nanos::from_secs(9)), None, "nobody waits any more");
    }

    #[test]
    fn a_wait_that_does_not_end_is_noticed_and_the_idle_task_never_waits() {
        let mut waits = Waits::new(Nanos::from_millis(5), Vec::new());
        waits.see(&switch(0, 0, Left::Preempted, 7));
        assert_eq!(waits.overdue(Nanos::from_secs(1)), None);
        waits.see(&wakeup(1, 8));
        waits.see(&wakeup(3, 8));
        let spike = waits.overdue(Nanos::from_millis(6)).unwrap();
        assert_eq!((spike.pid, spike.since), (Pid(8), Nanos::from_millis(1)));
    }

    #[test]
    fn waits_of_tasks_that_are_not_watched_end_nothing() {
        let mut waits = Waits::new(Nanos::from_millis(5), vec![Watched::Pid(Pid(8))]);
        waits.see(&wakeup(0, 7));
        waits.see(&wakeup(3, 8));
        assert_eq!(waits.see(&switch(6, 1, Left::Slept, 7)), None, "6 ms of another task");
        assert_eq!(waits.overdue(Nanos::from_millis(7)), None);
        assert_eq!(waits.overdue(Nanos::from_millis(8)).unwrap().pid, Pid(8));
    }
}
