//! A trace without the names that its machine gave: of tasks, control groups and marks.
//!
//! Equal names become equal numbers, in order of first appearance, so two passes over a trace agree. Names of the kernel's
//! own threads stay, without what follows their CPU: drivers and file systems write names of devices there.

use schedlab_model::{Comm, Event, EventSource, TraceInfo, Warning, What, kernel_version};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

/// A source with numbers in place of names.
pub struct Anonymous<'a> {
    source: Box<dyn EventSource + 'a>,
    info: TraceInfo,
    numbers: Numbers,
}

#[derive(Default)]
struct Numbers {
    tasks: BTreeMap<Comm, Comm>,
    parts: BTreeMap<String, usize>,
}

/// Threads of the kernel that are called so and nothing else.
const KERNEL_THREADS: [&str; 9] = [
    "kthreadd",
    "khugepaged",
    "rcu_preempt",
    "rcu_sched",
    "rcu_gp",
    "rcu_par_gp",
    "rcu_tasks_kthre",
    "rcu_tasks_rude_",
    "rcu_tasks_trace",
];
/// Threads of the kernel by what their names begin with; numbers follow.
const NUMBERED: [&str; 12] = [
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "cpuhp/",
    "irq/",
    "kswapd",
    "kcompactd",
    "ktimers/",
    "rcuc/",
    "rcuog/",
    "rcuop/",
    "swapper/",
];

impl<'a> Anonymous<'a> {
    /// The same events under other names.
    #[must_use]
    pub fn new(source: Box<dyn EventSource + 'a>) -> Self {
        let mut numbers = Numbers::default();
        let info = numbers.info(source.info());
        Self { source, info, numbers }
    }
}

impl Numbers {
    fn info(&mut self, info: &TraceInfo) -> TraceInfo {
        let mut info = info.clone();
        for comm in info.comms.values_mut() {
            *comm = self.comm(*comm);
        }
        for name in info.groups.iter_mut().flat_map(|groups| &mut groups.names) {
            *name = self.path(name);
        }
        for (mark, number) in info.marks.iter_mut().zip(1..) {
            *mark = format!("mark-{number}");
        }
        // Users name dynamic tracepoints.
        let is_own = |system: &str| system.ends_with("probes") || system.starts_with("probe");
        for (other, number) in
            info.others.iter_mut().zip(1..).filter(|(one, _)| is_own(&one.system))
        {
            other.system = "probes".to_owned();
            other.name = format!("probe-{number}");
        }
        // The host's name stands there as well.
        let version = info.kernel.as_deref().and_then(kernel_version);
        info.kernel = version.map(|(major, minor)| format!("{major}.{minor}"));
        info
    }

    fn comm(&mut self, comm: Comm) -> Comm {
        if let Some(known) = self.tasks.get(&comm) {
            return *known;
        }
        let number = self.tasks.len() + 1;
        let end = comm.iter().position(|byte| *byte == 0).unwrap_or(comm.len());
        let name = std::str::from_utf8(&comm[..end]).unwrap_or_default();
        let new = match kernel_thread(name) {
            Some(kept) => padded(kept),
            None if end == 0 || name == "<...>" => comm,
            None => padded(&format!("task-{number}")),
        };
        self.tasks.insert(comm, new);
        new
    }

    /// A path with a number for each of its parts.
    fn path(&mut self, path: &str) -> String {
        let part = |part: &str| {
            let next = self.parts.len() + 1;
            let number = *self.parts.entry(part.to_owned()).or_insert(next);
            format!("group-{number}")
        };
        let parts: Vec<String> =
            path.split('/').filter(|part| !part.is_empty()).map(part).collect();
        format!("/{}", parts.join("/"))
    }
}

/// What may stay of the name of a thread of the kernel; `None` for each other task.
fn kernel_thread(name: &str) -> Option<&str> {
    let start = name.find(['-', '+']).map_or(name, |end| &name[..end]);
    let is_numbers =
        |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || b":uHR/".contains(&byte));
    let is_own = |prefix: &&str| start.strip_prefix(*prefix).is_some_and(is_numbers);
    match KERNEL_THREADS.contains(&name) {
        true => Some(name),
        false => NUMBERED.iter().any(is_own).then_some(start),
    }
}

fn padded(name: &str) -> Comm {
    let mut comm = [0; 16];
    comm.iter_mut().zip(name.bytes()).take(15).for_each(|(byte, letter)| *byte = letter);
    comm
}

impl EventSource for Anonymous<'_> {
    fn info(&self) -> &TraceInfo {
        &self.info
    }

    fn next(&mut self, batch: &mut Vec<Event>) -> io::Result<bool> {
        let more = self.source.next(batch)?;
        for event in batch.iter_mut() {
            if let What::Comm { comm, .. } = &mut event.what {
                *comm = self.numbers.comm(*comm);
            }
        }
        // Streams learn tracepoints, marks and names on the way.
        let told = self.source.info();
        let old = &self.info;
        let new = told;
        let is_new = old.marks.len() != new.marks.len()
            || old.others.len() != new.others.len()
            || old.comms.len() != new.comms.len();
        if is_new || !more {
            self.info = self.numbers.info(told);
        }
        Ok(more)
    }

    fn warnings(&self) -> &[Warning] {
        self.source.warnings()
    }

    fn arguments(&self, index: usize) -> Option<Cow<'_, str>> {
        self.source.arguments(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_numbers_and_kernel_threads_keep_what_is_the_kernels() {
        let mut numbers = Numbers::default();
        let mut name = |text: &str| {
            let comm = numbers.comm(padded(text));
            let end = comm.iter().position(|byte| *byte == 0).unwrap_or(16);
            String::from_utf8_lossy(&comm[..end]).into_owned()
        };
        assert_eq!(
            [name("postgres"), name("nginx"), name("postgres")],
            ["task-1", "task-2", "task-1"]
        );
        assert_eq!(name("kworker/u8:2-ext4"), "kworker/u8:2");
        assert_eq!(name("irq/33-nvme0q1"), "irq/33");
        assert_eq!(name("rcu_preempt"), "rcu_preempt");
        assert!(name("rcuserver").starts_with("task-"), "a task of a user");
        assert!(name("kworker/secret").starts_with("task-"), "not as the kernel names them");
        assert_eq!(numbers.path("/docker/abc/def"), "/group-1/group-2/group-3");
        assert_eq!(numbers.path("/docker/def"), "/group-1/group-3");
        assert_eq!(numbers.path("/"), "/");
    }

    #[test]
    fn the_info_of_a_trace_holds_no_name() {
        let mut info = TraceInfo::new("trace.dat v6", schedlab_model::Clock::Monotonic);
        info.kernel = Some("Linux secret 6.1.0-9-secret #1".to_owned());
        info.marks = vec!["secret".to_owned()];
        info.comms.insert(schedlab_model::Pid(7), padded("secret"));
        info.groups = Some(schedlab_model::Groups {
            names: vec!["/secret".to_owned()],
            ..Default::default()
        });
        let other = |system: &str| schedlab_model::OtherFormat {
            system: system.into(),
            name: "secret".into(),
        };
        info.others = vec![other("uprobes"), other("probe_secret")];
        let told = format!("{:?}", Numbers::default().info(&info));
        assert!(!told.contains("secret"), "{told}");
        assert!(told.contains("6.1"), "the rules of a kernel's version stay: {told}");
    }
}
