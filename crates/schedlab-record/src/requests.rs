//! How long requests take, by the marks that loads put while they are recorded: those of one name, from begin to end.
//!
//! Marks come through files (`mark_file`), so a look sees what was put until then. A mark with the number of a request
//! ends what the mark with the same number began; without a number, an end belongs to the same task's last begin.

use super::Mark;
use super::mark_file::{self, Growing};
use super::shared::Overrun;
use super::spool;
use schedlab_model::{Cpu, Nanos, Phase, Pid};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The requests of one name that processes make.
pub(crate) struct Requests {
    /// The recording, beside which processes put their marks.
    recording: Option<PathBuf>,
    /// What programs wrote into `trace_marker`.
    heard: PathBuf,
    name: String,
    open: Open,
    /// By file: its marks, and the number of the name in it.
    files: BTreeMap<PathBuf, (Growing, u32)>,
    /// Marks of probes until nothing earlier can come.
    waiting: Vec<Mark>,
    has_hits: bool,
}

/// In place of the number of a file.
const PROBED: u32 = u32::MAX;
/// Records up to this long before a look are all in their rings.
const SETTLED: Nanos = Nanos::from_millis(1);

impl Requests {
    /// Of processes that put marks beside `recording`, and of programs whose marks the spool `dir` holds.
    pub(crate) fn new(recording: Option<&Path>, dir: &Path, name: &str, bound: Nanos) -> Self {
        let open = Open { bound, nests: false, since: BTreeMap::new() };
        Self {
            recording: recording.map(Path::to_owned),
            heard: spool::written_marks(dir),
            name: name.to_owned(),
            open,
            files: BTreeMap::new(),
            waiting: Vec::new(),
            has_hits: false,
        }
    }

    /// Lets probed requests of a thread lie within each other, as calls of one function do.
    pub(crate) fn nesting(mut self, nests: bool) -> Self {
        self.open.nests = nests;
        self
    }

    /// Reads what was put since the last look, beside the marks of `hits` that probes told since; the first request that
    /// took too long, or that has not ended at `now` and has taken too long already.
    pub(crate) fn look(&mut self, now: Nanos, hits: Vec<Mark>) -> Option<Overrun> {
        let beside = self.recording.as_deref().map(mark_file::so_far).unwrap_or_default();
        let heard = (self.heard.clone(), mark_file::names_of(&self.heard));
        for (path, names) in beside.into_iter().chain([heard]) {
            let number = names.iter().position(|name| *name == self.name);
            let number = number.and_then(|number| u32::try_from(number).ok());
            if let Some(number) = number.filter(|_| !self.files.contains_key(&path))
                && let Ok(file) = Growing::open(&path)
            {
                self.files.insert(path, (file, number));
            }
        }
        let mut found = None;
        for (at, (file, number)) in (0..).zip(self.files.values_mut()) {
            // A file that cannot be read any longer holds no news.
            let marks = file.more().unwrap_or_default();
            for mark in marks.iter().filter(|mark| mark.id == *number) {
                found = found.or(self.open.see(at, mark));
            }
        }
        // Records take their places a little after their times, and each CPU has its own ring.
        self.has_hits |= !hits.is_empty();
        self.waiting.extend(hits);
        self.waiting.sort_by_key(|mark| mark.time);
        let settled = self.waiting.partition_point(|mark| mark.time + SETTLED <= now);
        for mark in self.waiting.drain(..settled) {
            found = found.or(self.open.see(PROBED, &mark));
        }
        let until = if self.has_hits { Nanos(now.0.saturating_sub(SETTLED.0)) } else { now };
        found.or_else(|| self.open.overdue(until))
    }
}

/// Among the marks of probes: this task ended, and with it what it had begun.
pub(crate) fn gone(time: Nanos, cpu: Cpu, pid: Pid) -> Mark {
    Mark { time, cpu, pid, id: 0, phase: Phase::Point, request: 0 }
}

struct Open {
    bound: Nanos,
    /// Whether probed requests of a thread may lie within each other.
    nests: bool,
    since: BTreeMap<(u32, Key), Vec<(Nanos, Pid)>>,
}

/// What begin and end have in common, within a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Request(u32),
    Task(Pid),
}

impl Open {
    /// Follows a mark of a file; the request that it ends, when that took too long.
    fn see(&mut self, file: u32, mark: &Mark) -> Option<Overrun> {
        let key = if mark.request > 0 { Key::Request(mark.request) } else { Key::Task(mark.pid) };
        match mark.phase {
            Phase::Begin => {
                let begun = self.since.entry((file, key)).or_default();
                if file == PROBED && !self.nests {
                    // An earlier one was given up: its program took another way than by its end.
                    begun.clear();
                }
                begun.push((mark.time, mark.pid));
                None
            }
            Phase::End => {
                let begun = self.since.get_mut(&(file, key))?;
                let (since, _) = begun.pop()?;
                if begun.is_empty() {
                    self.since.remove(&(file, key));
                }
                let took = mark.time - since;
                let overrun = Overrun { pid: mark.pid, since, took, is_over: true };
                (took >= self.bound).then_some(overrun)
            }
            Phase::Point if file == PROBED => {
                self.since.remove(&(file, key));
                None
            }
            Phase::Point => None,
        }
    }

    fn overdue(&self, now: Nanos) -> Option<Overrun> {
        let (since, pid) = self.since.values().flatten().min_by_key(|(since, _)| *since)?;
        let took = now - *since;
        let overrun = Overrun { pid: *pid, since: *since, took, is_over: false };
        (took >= self.bound).then_some(overrun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(ms: u64, pid: i32, phase: Phase, request: u32) -> Mark {
        Mark { time: Nanos::from_millis(ms), cpu: Cpu(0), pid: Pid(pid), id: 0, phase, request }
    }

    fn open() -> Open {
        Open { bound: Nanos::from_millis(5), nests: false, since: BTreeMap::new() }
    }

    #[test]
    fn a_request_is_timed_from_its_begin_to_its_end_whichever_task_ends_it() {
        let mut open = open();
        assert_eq!(open.see(0, &mark(0, 7, Phase::Begin, 1)), None);
        assert_eq!(open.see(0, &mark(1, 7, Phase::Begin, 2)), None);
        assert_eq!(open.see(1, &mark(2, 9, Phase::End, 1)), None, "another process's request 1");
        assert_eq!(open.see(0, &mark(4, 8, Phase::End, 1)), None, "4 ms are in order");
        let overrun = open.see(0, &mark(6, 8, Phase::End, 2)).unwrap();
        let took = Nanos::from_millis(5);
        let since = Nanos::from_millis(1);
        assert_eq!(overrun, Overrun { pid: Pid(8), since, took, is_over: true });
        assert_eq!(open.overdue(Nanos::from_secs(9)), None, "none is open any more");
    }

    #[test]
    fn one_that_does_not_end_is_noticed_and_one_without_a_number_belongs_to_its_task() {
        let mut open = open();
        open.see(0, &mark(0, 7, Phase::Begin, 0));
        open.see(0, &mark(3, 8, Phase::Begin, 0));
        assert_eq!(open.see(0, &mark(4, 7, Phase::End, 0)), None);
        open.see(0, &mark(4, 8, Phase::Point, 0));
        assert_eq!(open.overdue(Nanos::from_millis(7)), None);
        let late = open.overdue(Nanos::from_millis(8)).unwrap();
        assert_eq!((late.pid, late.is_over), (Pid(8), false));
    }

    #[test]
    fn a_probed_request_that_was_given_up_or_whose_task_ended_is_not_overdue() {
        let at = Nanos::from_millis;
        let mut requests = Requests::new(None, Path::new("/nowhere"), "r", at(5));
        let hit = |ms, pid, phase| mark(ms, pid, phase, 0);
        // Rings of two CPUs: the end is found first.
        let both = vec![hit(9, 7, Phase::End), hit(5, 7, Phase::Begin), hit(0, 7, Phase::Begin)];
        assert_eq!(requests.look(at(20), both), None, "the begin at 0 was given up");
        let ended = vec![hit(21, 8, Phase::Begin), gone(at(22), Cpu(0), Pid(8))];
        assert_eq!(requests.look(at(40), ended), None);
        let late = requests.look(at(60), vec![hit(41, 9, Phase::Begin)]).unwrap();
        assert_eq!((late.pid, late.since, late.is_over), (Pid(9), at(41), false));
        let mut nested = Requests::new(None, Path::new("/nowhere"), "r", at(5)).nesting(true);
        let inner = [(0, Phase::Begin), (1, Phase::Begin), (2, Phase::End), (7, Phase::End)];
        let inner = inner.map(|(ms, phase)| hit(ms, 7, phase)).to_vec();
        assert_eq!(nested.look(at(20), inner).unwrap().took, at(7));
    }

    #[test]
    fn marks_of_a_name_are_found_in_the_files_beside_a_recording() {
        let folder = tempfile::tempdir().unwrap();
        let recording = folder.path().join("x.marks");
        let mut requests =
            Requests::new(Some(&recording), folder.path(), "request", Nanos::from_millis(5));
        assert_eq!(requests.look(Nanos::ZERO, Vec::new()), None, "nobody puts any yet");
        let path = mark_file::of_process(&recording, 42);
        let marks = mark_file::Marks::append(&path).unwrap();
        std::fs::write(mark_file::names(&path), "other\nrequest\n").unwrap();
        let at = Nanos::from_millis;
        marks.put(at(1), Pid(7), 0, Phase::Begin, 0);
        marks.put(at(2), Pid(7), 1, Phase::Begin, 0);
        assert_eq!(requests.look(at(6), Vec::new()), None, "the other name is not asked about");
        marks.put(at(9), Pid(7), 1, Phase::End, 0);
        let found = requests.look(at(9), Vec::new()).unwrap();
        assert_eq!((found.since, found.took), (at(2), at(7)));
        assert_eq!(requests.look(at(99), Vec::new()), None, "each is told once");
        // A program that knows nothing of us, by way of `trace_marker`.
        let heard = spool::written_marks(folder.path());
        let marks = mark_file::Marks::append(&heard).unwrap();
        std::fs::write(mark_file::names(&heard), "request\n").unwrap();
        marks.put(at(100), Pid(9), 0, Phase::Begin, 3);
        marks.put(at(106), Pid(8), 0, Phase::End, 3);
        let found = requests.look(at(106), Vec::new()).unwrap();
        assert_eq!((found.pid, found.took, found.is_over), (Pid(8), at(6), true));
    }
}
