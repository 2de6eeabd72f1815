//! Which process and which control group each task belongs to, as far as the trace tells.

use schedlab_model::{Groups, Pid, TraceInfo};
use schedlab_timeline::State;
use std::collections::BTreeMap;

/// The process and the control group of a task, as far as the trace holds them.
#[derive(Clone, Debug, Default)]
pub struct Belongs {
    processes: Option<BTreeMap<Pid, Pid>>,
    groups: Option<Groups>,
}

impl Belongs {
    /// What a source knows; a stream knows all of it at its end.
    #[must_use]
    pub fn of(info: &TraceInfo) -> Self {
        let titled = |groups: &Groups| {
            let names = (0..groups.names.len() as u32).map(|group| groups.title(group)).collect();
            Groups { names, ..groups.clone() }
        };
        let groups = info.groups.as_ref().map(titled);
        Self { processes: info.processes.clone(), groups }
    }

    /// Whether the trace holds which threads form a process.
    #[must_use]
    pub const fn knows_processes(&self) -> bool {
        self.processes.is_some()
    }

    /// Whether the trace holds the control groups of tasks.
    #[must_use]
    pub const fn knows_groups(&self) -> bool {
        self.groups.is_some()
    }

    /// The process of a task; itself where the trace names no other.
    #[must_use]
    pub fn process(&self, pid: Pid) -> Pid {
        self.processes.as_ref().and_then(|all| all.get(&pid)).copied().unwrap_or(pid)
    }

    /// How a process is called: by its first thread, which may not have run in the trace.
    #[must_use]
    pub fn process_name(&self, process: Pid, state: &State) -> String {
        match state.task_of(process) {
            Some(task) => format!("{}:{process}", state.name(task)),
            None => format!("process {process}"),
        }
    }

    /// What people call the control group in which a task was last; `None` where that was not seen.
    #[must_use]
    pub(crate) fn group(&self, pid: Pid) -> Option<&str> {
        let groups = self.groups.as_ref()?;
        Some(groups.names.get(groups.of(pid)? as usize)?)
    }
}

/// What tasks are called whose control group was not seen.
pub(crate) const NO_GROUP: &str = "unknown control group";

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Clock, Member, Nanos};

    #[test]
    fn a_thread_belongs_to_its_process_and_a_task_to_its_last_group() {
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        let nothing = Belongs::of(&info);
        assert!(!nothing.knows_processes() && !nothing.knows_groups());
        assert_eq!((nothing.process(Pid(7)), nothing.group(Pid(7))), (Pid(7), None));
        info.processes = Some(BTreeMap::from([(Pid(8), Pid(7))]));
        let members = vec![Member { pid: Pid(8), at: Nanos::ZERO, group: 0 }];
        info.groups = Some(Groups { names: vec!["/a".into()], members, ..Groups::default() });
        let told = Belongs::of(&info);
        assert!(told.knows_processes() && told.knows_groups());
        assert_eq!([7, 8].map(|pid| told.process(Pid(pid))), [Pid(7), Pid(7)]);
        assert_eq!([7, 8].map(|pid| told.group(Pid(pid))), [None, Some("/a")]);
    }
}
