//! Events of our own: what a kernel knows at its decisions, read by probes where it offers them.
//!
//! A recording asks for them as for events, by the system [`SYSTEM`] and with a `?`: a kernel that cannot set up a
//! probe records without it. Linux with BTF and `CONFIG_FPROBE_EVENTS` reads fields of tasks and of their queue at
//! tracepoints; one with `CONFIG_KPROBE_EVENTS` alone reads arguments of functions (Documentation/trace/fprobetrace.rst,
//! kprobetrace.rst). Probes belong to the whole machine, so each recording defines its own and the guard removes them.

use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::tracefs::Tracefs;
use std::fmt::Write as _;
use std::io;

/// The system by which recordings ask for the probes.
pub(crate) const SYSTEM: &str = "schedlab";

/// A probe: its name, and its definitions from the one that tells most.
struct Probe {
    name: &'static str,
    definitions: &'static [Definition],
}

/// Kind (`t`: tracepoint, `f` and `p`: function), where, and tasks whose state it reads with a prefix for their fields,
/// then what else it reads.
struct Definition {
    kind: char,
    at: &'static str,
    tasks: &'static [(&'static str, &'static str)],
    more: &'static str,
}

/// What is read of a task. The zero point of its queue has another name in older kernels.
const FIELDS: [(&str, &str); 12] = [
    ("pid", "pid"),
    ("vruntime", "se.vruntime"),
    ("deadline", "se.deadline"),
    ("vlag", "se.vlag"),
    ("slice", "se.slice"),
    ("delayed", "se.sched_delayed"),
    ("relative", "se.rel_deadline"),
    ("queued", "se.on_rq"),
    ("nr", "se.cfs_rq->nr_running"),
    ("sum", "se.cfs_rq->avg_vruntime"),
    ("load", "se.cfs_rq->avg_load"),
    ("zero", "se.cfs_rq->zero_vruntime"),
];

const fn tracepoint(
    at: &'static str,
    tasks: &'static [(&'static str, &'static str)],
) -> [Definition; 1] {
    [Definition { kind: 't', at, tasks, more: "" }]
}

const PROBES: [Probe; 6] = [
    Probe { name: "knows_charge", definitions: &tracepoint("sched_stat_runtime", &[("", "tsk")]) },
    Probe {
        name: "knows_switch",
        definitions: &tracepoint("sched_switch", &[("prev_", "prev"), ("next_", "next")]),
    },
    Probe { name: "knows_waking", definitions: &tracepoint("sched_waking", &[("", "p")]) },
    Probe { name: "knows_wakeup", definitions: &tracepoint("sched_wakeup", &[("", "p")]) },
    Probe { name: "knows_new", definitions: &tracepoint("sched_wakeup_new", &[("", "p")]) },
    Probe {
        name: "knows_select",
        definitions: &[Definition {
            kind: 'p',
            at: "select_task_rq_fair",
            tasks: &[],
            more: " prev=$arg2:s32 flags=$arg3:u32",
        }],
    },
];

impl Definition {
    fn text(&self, group: &str, name: &str) -> String {
        let mut text = format!("{}:{group}/{name} {}", self.kind, self.at);
        for (prefix, task) in self.tasks {
            for (field, path) in FIELDS {
                let _ = write!(text, " {prefix}{field}={task}->{path}");
            }
        }
        text + self.more
    }
}

/// Defines the probes that `asked` names, as far as the kernel takes them, and returns what to record in place of
/// `asked`.
pub(crate) fn define(tracefs: &Tracefs, guard: &mut Guard, asked: &[String]) -> Vec<String> {
    let group = format!("{SYSTEM}_{}", std::process::id());
    let own = |asked: &String| {
        let (system, name) = asked.trim_end_matches('?').split_once(':')?;
        PROBES.iter().find(|probe| system == SYSTEM && probe.name == name)
    };
    let named = asked.iter().map(|text| match own(text) {
        Some(probe) => {
            let defined = probe
                .definitions
                .iter()
                .any(|of| one(tracefs, guard, &group, probe.name, of).is_ok());
            if defined { format!("{group}:{}", probe.name) } else { text.clone() }
        }
        None => text.clone(),
    });
    named.collect()
}

pub(crate) fn any(asked: &[String]) -> bool {
    asked.iter().any(|text| text.strip_prefix(SYSTEM).is_some_and(|rest| rest.starts_with(':')))
}

fn one(
    tracefs: &Tracefs,
    guard: &mut Guard,
    group: &str,
    name: &str,
    of: &Definition,
) -> io::Result<()> {
    let step =
        guard.before(Undo::RemoveProbe { group: group.to_owned(), name: name.to_owned() })?;
    let defined = tracefs.define(&of.text(group, name));
    if defined.is_err() {
        guard.undo(step)?;
    }
    defined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_reads_the_fields_of_each_task() {
        let switch = PROBES.iter().find(|of| of.name == "knows_switch").unwrap();
        let text = switch.definitions[0].text("schedlab_7", switch.name);
        assert!(text.starts_with("t:schedlab_7/knows_switch sched_switch prev_pid=prev->pid "));
        assert!(text.contains(" next_zero=next->se.cfs_rq->zero_vruntime"), "{text}");
        let select = PROBES.iter().find(|of| of.name == "knows_select").unwrap();
        assert_eq!(
            select.definitions[0].text("g", select.name),
            "p:g/knows_select select_task_rq_fair prev=$arg2:s32 flags=$arg3:u32"
        );
    }

    #[test]
    fn probes_are_asked_for_by_their_system() {
        let asked = |text: &str| any(&[text.to_owned()]);
        assert!(asked("schedlab:knows_charge?"));
        assert!(!asked("schedlabs:x") && !asked("sched:sched_switch"));
    }
}
