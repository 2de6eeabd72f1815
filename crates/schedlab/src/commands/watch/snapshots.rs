//! `--snapshot-if`: the last moments as a trace when a window is as bad as that.

use super::Args;
use super::condition::Condition;
use super::window::Window;
use crate::commands::record::Files;
use schedlab_model::{Groups, Nanos, Trigger};
use schedlab_record::live::Live;
use schedlab_record::{Marks, stitch};
use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

const MINUTE: Nanos = Nanos::from_secs(60);

/// What was written, and how much still may be.
pub(super) struct Snapshots {
    files: Option<Files>,
    /// When the last ones were written.
    written: VecDeque<Nanos>,
    /// Whether a thread makes one.
    is_busy: bool,
    tell: Sender<String>,
    told: Receiver<String>,
}

impl Snapshots {
    pub(super) fn new(args: &Args) -> anyhow::Result<Self> {
        let (tell, told) = channel();
        let is_wanted = !args.snapshot_if.is_empty();
        let files = is_wanted.then(|| Files::of(&args.output)).transpose()?;
        if let Some(files) = &files {
            files.remove_what_was_killed();
        }
        Ok(Self { files, written: VecDeque::new(), is_busy: false, tell, told })
    }

    /// Writes one if a condition held; what to say.
    pub(super) fn after(&mut self, args: &Args, live: &Live, window: &Window) -> Vec<String> {
        let mut said: Vec<String> = self.told.try_iter().collect();
        self.is_busy &= said.is_empty();
        let Some(condition) =
            args.snapshot_if.iter().find(|one| one.holds(window, groups_of(live)))
        else {
            return said;
        };
        let now = window.reply.observed.end;
        while self.written.front().is_some_and(|at| *at + MINUTE < now) {
            self.written.pop_front();
        }
        // The trace of the moment before holds this one, mostly.
        if self.is_busy || self.written.len() >= args.snapshots_per_minute as usize {
            return said;
        }
        self.written.push_back(now);
        match self.write(args, live, window, condition) {
            Ok(text) => said.push(text),
            Err(error) => said.push(format!("no trace of {condition}: {error:#}")),
        }
        said
    }

    fn write(
        &mut self,
        args: &Args,
        live: &Live,
        window: &Window,
        condition: &Condition,
    ) -> anyhow::Result<String> {
        let Some(files) = &self.files else { return Ok(String::new()) };
        let (file, spool) = files.next()?;
        live.save(&spool, trigger(window, condition, groups_of(live)))?;
        let max = args.snapshots;
        let files = files.clone();
        let tell = self.tell.clone();
        let said = format!("{condition} held: writing {}", file.display());
        let work = move || {
            let told = made(&spool, &file).and_then(|text| {
                files.prune(max)?;
                Ok(text)
            });
            let told = told.unwrap_or_else(|error| format!("{}: {error:#}", file.display()));
            // Nobody listens once the command has ended; the file is there.
            let _ = tell.send(told);
        };
        std::thread::Builder::new().name("sl-save".into()).spawn(work)?;
        self.is_busy = true;
        Ok(said)
    }
}

impl Drop for Snapshots {
    /// A trace that is being made is finished.
    fn drop(&mut self) {
        if self.is_busy {
            let _ = self.told.recv_timeout(std::time::Duration::from_secs(30));
        }
    }
}

fn groups_of(live: &Live) -> Option<&Groups> {
    live.info().groups.as_ref()
}

/// The longest wait of the chosen tasks.
fn trigger(window: &Window, condition: &Condition, groups: Option<&Groups>) -> Option<Trigger> {
    let state = &window.reply.state;
    let waits = window.reply.answer.worst.iter().filter(|wait| !window.is_left_out(wait));
    let chosen: BTreeSet<_> =
        condition.chosen(window, groups).filter_map(|entry| entry.pid).collect();
    let of = waits.map(|wait| (state.task(wait.task).pid, wait));
    let (pid, wait) = of.into_iter().find(|(pid, _)| chosen.contains(pid))?;
    Some(Trigger { pid, since: wait.since, until: wait.until })
}

/// Makes the trace of a spool, which is gone then; what it holds.
pub(super) fn made(spool: &Path, file: &Path) -> anyhow::Result<String> {
    let summary = stitch(spool, file, &Marks::default());
    std::fs::remove_dir_all(spool)?;
    let summary = summary?;
    let events: u64 = summary.events().values().sum();
    let time = summary.span.map(|span| format!(" over {}", span.duration().readable()));
    Ok(format!("{}: {events} events{}", file.display(), time.unwrap_or_default()))
}
