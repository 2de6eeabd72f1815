//! What a writer of events implements, format by format.

use schedlab_model::{Comm, Event, Pid, TraceInfo, Warning};
use std::collections::BTreeMap;
use std::io;

/// Something that events are written to.
pub(crate) trait EventSink {
    /// Before the first event.
    fn begin(&mut self, info: &TraceInfo) -> io::Result<()>;
    /// One event; `names` are the tasks' as of now.
    fn event(&mut self, event: &Event, names: &TaskNames, info: &TraceInfo) -> io::Result<()>;
    /// The arguments of the tracepoint beyond the scheduler's that comes next, where the source tells them.
    fn arguments(&mut self, text: &str);
    /// After the last event.
    fn end(&mut self, names: &TaskNames, info: &TraceInfo) -> io::Result<()>;
    /// What was met and cannot be held, as sentences.
    fn dropped(&self) -> Vec<Warning>;
}

#[derive(Default)]
pub(crate) struct TaskNames(BTreeMap<Pid, Comm>);

impl TaskNames {
    /// Those that are known before the first event.
    pub(crate) const fn new(names: BTreeMap<Pid, Comm>) -> Self {
        Self(names)
    }

    /// From now on a task has this name.
    pub(crate) fn put(&mut self, pid: Pid, comm: Comm) {
        self.0.insert(pid, comm);
    }

    /// A task's name; `<...>` when nobody told.
    pub(crate) fn get(&self, pid: Pid) -> &str {
        match self.0.get(&pid) {
            _ if pid.is_idle() => "<idle>",
            Some(comm) => {
                let length = comm.iter().position(|&byte| byte == 0).unwrap_or(16);
                std::str::from_utf8(&comm[..length]).unwrap_or("<...>")
            }
            None => "<...>",
        }
    }

    /// All that are known.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Pid, &str)> {
        self.0.keys().map(|pid| (*pid, self.get(*pid)))
    }
}
