//! Events of a perf.data in order of time: the second half of reading one.
//!
//! A record that `round_reader` read waits until its round is over (`pending`). It becomes an event when its
//! turn comes, so that changes of names are noticed in the order of time and an event is written once. A
//! record that comes too late even for that gets a later time, and a warning says so: times always ascend.

use super::pending::Waiting;
use super::round::{Ended, HeadUpdate, Round};
use super::round_reader::RoundReader;
use super::round_source::RoundSource;
use crate::Options;
use crate::argument_text::{EventBodies, Spelling};
use crate::background_source::{Portable, ahead};
use crate::budget::Budget;
use crate::error::TraceError;
use crate::input::Input;
use crate::merge::{ENDED, Lanes, Merge, Out};
use crate::names::{Names, may_be};
use crate::plan::Decoder;
use schedlab_model::{Cpu, Event, EventSink, EventSource, Pid, TraceInfo, Warning};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BATCH: usize = 1024;
/// Bytes that a task takes in the map of names or of processes.
const TASK: u64 = 64;

/// A perf.data as a source of events.
pub(crate) struct PerfReader {
    path: PathBuf,
    budget: Arc<Budget>,
    rounds: RoundSource,
    /// Threads beside the caller's that have not begun.
    helpers: usize,
    /// Whether its head comes in parts.
    pipe: bool,
    /// What comes from there; empty in between.
    round: Round,
    waiting: Waiting,
    merge: Merge,
    names: Names,
    decoder: Arc<Decoder>,
    info: TraceInfo,
    warnings: Vec<Warning>,
    /// How other tracepoints' arguments are spelt, if anybody asks.
    spelling: Option<Arc<Spelling>>,
    /// Whether another source hands out its events.
    is_ahead: bool,
    /// The time that was handed out last, and how many events came too late for it.
    last: u64,
    late: u64,
    /// What was found at the end, once the last round is here.
    ended: Option<Ended>,
    over: bool,
}

/// What is due, as lanes.
struct Due<'a> {
    waiting: &'a mut Waiting,
    decoder: &'a Decoder,
    names: &'a mut Names,
}

/// Takes note of the time of what was handed out last.
struct Latest<'a, S> {
    sink: &'a mut S,
    time: u64,
}

impl<S: EventSink> EventSink for Latest<'_, S> {
    #[inline(always)]
    fn take(&mut self, event: &Event) {
        self.time = event.time.0;
        self.sink.take(event);
    }
}

impl Lanes for Due<'_> {
    fn count(&self) -> usize {
        self.waiting.lanes.len()
    }

    fn next(&mut self, lane: usize) -> io::Result<u64> {
        self.waiting.lanes[lane].turn();
        Ok(self.time(lane))
    }

    fn time(&self, lane: usize) -> u64 {
        let due = self.waiting.due;
        self.waiting.lanes[lane].time().filter(|time| *time <= due).unwrap_or(ENDED)
    }

    #[inline(always)]
    fn put(&mut self, lane: usize, out: &mut impl Out) -> Option<u64> {
        let due = self.waiting.due;
        // Lanes are CPUs, which have 16 bits.
        let cpu = Cpu(lane as u16);
        let next = self.waiting.lanes[lane].put(cpu, self.decoder, self.names, out)?;
        Some(if next <= due { next } else { ENDED })
    }
}

impl PerfReader {
    /// With a second thread, that one takes records up while the caller's puts them in order.
    pub(crate) fn open(input: Input, options: &Options) -> Result<Self, TraceError> {
        let Options { arguments, threads, .. } = *options;
        let (reader, mut round) = RoundReader::open(input, arguments, options.names.clone())?;
        let path = reader.path().to_owned();
        let pipe = reader.is_pipe();
        let budget = Arc::clone(reader.input.budget());
        let HeadUpdate { info, decoder, spelling, warnings } =
            *round.head.take().expect("the first round tells the head");
        let over = round.ended.is_some();
        let mut reader = Self {
            path,
            budget,
            rounds: RoundSource::Here(Box::new(reader)),
            helpers: if over { 0 } else { threads.saturating_sub(1) },
            pipe,
            round,
            waiting: Waiting::default(),
            merge: Merge::default(),
            names: Names::default(),
            decoder,
            info,
            warnings,
            spelling: spelling.map(Arc::new),
            is_ahead: false,
            last: 0,
            late: 0,
            ended: None,
            over,
        };
        reader.accept();
        Ok(reader)
    }

    /// As a source of batches. Questions that are asked that way mostly take longer than reading does, so a second
    /// thread then does all of it, and a third one takes records up.
    pub(crate) fn boxed(mut self: Box<Self>) -> Box<dyn EventSource> {
        // What a pipe says of itself comes on the way.
        if self.helpers == 0 || self.pipe {
            return self;
        }
        self.helpers -= 1;
        self.is_ahead = true;
        ahead(*self)
    }

    /// Goes on to the next round.
    fn round(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.helpers) > 0 {
            self.rounds = std::mem::replace(&mut self.rounds, RoundSource::Over).start();
        }
        if let Err(error) = self.rounds.next(&mut self.round) {
            self.over = true;
            return Err(error);
        }
        self.accept();
        Ok(())
    }

    fn accept(&mut self) {
        let round = &mut self.round;
        if let Some(head) = round.head.take() {
            let comms = std::mem::take(&mut self.info.comms);
            let processes = self.info.processes.take();
            let HeadUpdate { info, decoder, spelling, mut warnings } = *head;
            (self.info, self.decoder) = (info, decoder);
            self.spelling = spelling.map(Arc::new);
            (self.info.comms, self.info.processes) = (comms, processes);
            self.warnings.append(&mut warnings);
        }
        for (pid, comm) in round.named.drain(..) {
            call(&mut self.info.comms, &self.budget, pid, comm);
        }
        if !round.threads.is_empty() {
            let processes = self.info.processes.get_or_insert_default();
            let others = round.threads.drain(..).filter(|(thread, process)| thread != process);
            for (thread, process) in others {
                call(processes, &self.budget, thread, process);
            }
        }
        self.names.tell(&round.news);
        if let Some(ended) = round.ended.take() {
            self.ended = Some(*ended);
            self.over = true;
        }
        self.waiting.accept(round, self.over);
        self.late += self.waiting.raise(self.last);
        self.merge.restart();
    }

    /// Takes note of why functions have no names. All that was handed out before has been spelt.
    fn note(&mut self, ended: bool) {
        if let (Some(spelling), false) = (&self.spelling, self.is_ahead) {
            self.warnings.append(&mut spelling.notes(ended));
        }
    }

    fn report(&mut self) {
        let Some(ended) = self.ended.take() else { return };
        let late = std::mem::take(&mut self.late);
        self.warnings.append(&mut found(&self.path, ended, late));
        self.warnings.extend(self.budget.warning(&self.path));
    }
}

/// Takes note of what a task is called, or of its process; what was known before. Pids that no kernel gives out
/// are noise.
pub(super) fn call<T>(
    known: &mut BTreeMap<Pid, T>,
    budget: &Budget,
    pid: Pid,
    what: T,
) -> Option<T> {
    if let Some(before) = known.get_mut(&pid) {
        return Some(std::mem::replace(before, what));
    }
    if may_be(pid) && budget.take(TASK) {
        known.insert(pid, what);
    }
    None
}

/// What is wrong with a file, all of which was read; `late` events had their times raised.
pub(super) fn found(path: &Path, ended: Ended, late: u64) -> Vec<Warning> {
    let path = path.display();
    let Ended { trouble, broken, foreign, mut warnings } = ended;
    let mut all = Vec::new();
    if let Some((offset, what)) = trouble {
        let what = format!("{path}: {what} (at offset {offset})");
        let remedy = "metrics are partial: schedlab read the trace up to there";
        all.push(Warning::new("trace-cut", what, remedy));
    }
    if late > 0 {
        let what = format!("{path}: {late} events are in a later round than their time");
        let remedy = "each of them got the time of the event before it";
        all.push(Warning::new("time-goes-back", what, remedy));
    }
    if broken > 0 {
        let what = format!("{path}: {broken} samples have invalid lengths");
        all.push(Warning::new("trace-damaged", what, "events are missing there"));
    }
    if foreign > 0 {
        let what = format!("{path}: {foreign} samples are not of tracepoints and are skipped");
        all.push(Warning::new("samples-skipped", what, ""));
    }
    all.append(&mut warnings);
    all
}

impl Portable for PerfReader {
    fn spelling(&self) -> Option<Arc<Spelling>> {
        self.spelling.clone()
    }

    fn bodies(&mut self) -> &mut EventBodies {
        self.merge.bodies()
    }

    fn info_mut(&mut self) -> &mut TraceInfo {
        &mut self.info
    }
}

impl EventSource for PerfReader {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        self.note(false);
        loop {
            let Self { waiting, decoder, names, .. } = self;
            let mut due = Due { waiting, decoder, names };
            if self.merge.next(&mut due, batch, BATCH)? {
                self.last = batch.last().map_or(self.last, |event| event.time.0);
                return Ok(true);
            }
            if self.over {
                self.report();
                self.note(true);
                return Ok(false);
            }
            self.round()?;
        }
    }

    fn drain<S: EventSink>(&mut self, sink: &mut S) -> io::Result<()> {
        loop {
            let Self { waiting, decoder, names, .. } = self;
            let mut due = Due { waiting, decoder, names };
            let mut sink = Latest { sink: &mut *sink, time: self.last };
            self.merge.drain(&mut due, &mut sink)?;
            self.last = sink.time;
            if self.over {
                self.report();
                return Ok(());
            }
            self.round()?;
        }
    }

    fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        let spelling = self.spelling.as_ref()?;
        Some(spelling.text(self.merge.body(index)?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_file_is_told_and_nothing_else() {
        let sound = || Ended { trouble: None, broken: 0, foreign: 0, warnings: Vec::new() };
        let told = |ended, late| -> Vec<String> {
            found(Path::new("x"), ended, late).into_iter().map(|warning| warning.what).collect()
        };
        assert!(told(sound(), 0).is_empty());
        let warnings = vec![Warning::new("w", "of the head", "")];
        let trouble = Some((32, "it ends".to_owned()));
        let all = told(Ended { trouble, broken: 2, foreign: 3, warnings }, 1);
        assert_eq!(
            all,
            [
                "x: it ends (at offset 32)",
                "x: 1 events are in a later round than their time",
                "x: 2 samples have invalid lengths",
                "x: 3 samples are not of tracepoints and are skipped",
                "of the head",
            ]
        );
    }
}
