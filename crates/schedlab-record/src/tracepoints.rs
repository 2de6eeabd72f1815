//! Which tracepoints are recorded, and what tracefs says about them.

use super::RecordError;
use super::error::tracefs_right;
use schedlab_sys::tracefs::Tracefs;
use serde::{Deserialize, Serialize};

/// The scheduler's events that every recording holds, where the kernel has them.
const SCHED: [&str; 8] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
];

/// Rare events that tell who is in which control group and which CPUs are in use, where the kernel has them.
const BESIDE: [(&str, &str); 6] = [
    ("cgroup", "cgroup_attach_task"),
    ("cgroup", "cgroup_mkdir"),
    ("cgroup", "cgroup_rmdir"),
    ("cgroup", "cgroup_rename"),
    ("cpuhp", "cpuhp_enter"),
    ("cpuhp", "cpuhp_exit"),
];

/// Ftrace's own event for call stacks.
pub(crate) const STACK: (&str, &str) = ("ftrace", "kernel_stack");

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tracepoint {
    pub(crate) system: String,
    pub(crate) name: String,
    /// The number in its `id` file, which its records carry.
    pub(crate) id: u16,
    /// The text of its `format` file.
    pub(crate) format: String,
}

/// The scheduler's events and those that `extra` names: `system:name`, `system` for all of it, or `name` in
/// of every system that has it. One with a `?` behind it is left out where the kernel does not have it.
pub(crate) fn choose(tracefs: &Tracefs, extra: &[String]) -> Result<Vec<Tracepoint>, RecordError> {
    let mut chosen: Vec<Tracepoint> = Vec::new();
    let mut add = |system: &str, name: &str| -> std::io::Result<()> {
        if chosen.iter().any(|known| known.system == system && known.name == name) {
            return Ok(());
        }
        let (id, format) = tracefs.event(system, name)?;
        let id = u16::try_from(id).map_err(std::io::Error::other)?;
        chosen.push(Tracepoint { system: system.into(), name: name.into(), id, format });
        Ok(())
    };
    for name in SCHED {
        match add("sched", name) {
            // Only the switch is indispensable: sched_waking came with Linux 4.3.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && name != SCHED[0] => {}
            Err(error) => return Err(tracefs_right(&error)),
            Ok(()) => {}
        }
    }
    for (system, name) in BESIDE {
        match add(system, name) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(tracefs_right(&e)),
            _ => {}
        }
    }
    for asked in extra {
        let (asked, optional) = match asked.strip_suffix('?') {
            Some(asked) => (asked, true),
            None => (asked.as_str(), false),
        };
        let no_event = |why: String| RecordError::NoEvent { name: asked.to_owned(), why };
        let (system, name) = asked.split_once(':').unwrap_or((asked, "*"));
        let sane = |part: &str| !part.is_empty() && !part.contains(['/', '.']);
        if !sane(system) || !sane(name) {
            return Err(no_event("use SYSTEM or SYSTEM:NAME, as in irq:irq_handler_entry".into()));
        }
        let there = tracefs.events(system);
        if optional && name != "*" && !there.iter().any(|event| event == name) {
            continue;
        }
        let systems = tracefs.systems_of(system);
        match name {
            "*" if !asked.contains(':') && there.is_empty() && !systems.is_empty() => {
                systems.iter().try_for_each(|of| add(of, system))
            }
            "*" if there.is_empty() => {
                return Err(no_event("neither a system nor an event has this name".into()));
            }
            "*" => there.iter().try_for_each(|name| add(system, name)),
            name => add(system, name),
        }
        .map_err(|error| match there.len() {
            0 => no_event(format!("unknown system '{system}' ({error})")),
            _ => no_event(format!("{system} has {}", there.join(", "))),
        })?;
    }
    Ok(chosen)
}

impl Tracepoint {
    /// Offset and size of a field in the raw bytes.
    pub(crate) fn field(&self, name: &str) -> Option<(usize, usize)> {
        self.fields().find(|(field, _, _)| *field == name).map(|(_, offset, size)| (offset, size))
    }

    /// One of ftrace's own events, which have no `id` file: the format tells the number.
    pub(crate) fn of_ftrace(tracefs: &Tracefs, name: &str) -> Result<Self, RecordError> {
        let format = tracefs.read(&format!("events/ftrace/{name}/format"));
        let format = format.map_err(|error| tracefs_right(&error))?;
        let id = format.lines().find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok());
        let id = id.ok_or_else(|| RecordError::NoEvent {
            name: name.to_owned(),
            why: "its format tells no number".into(),
        })?;
        Ok(Self { system: "ftrace".into(), name: name.to_owned(), id, format })
    }

    /// Whether it is that of call stacks, which ftrace logs by a trigger.
    pub(crate) fn is_stack(&self) -> bool {
        (self.system.as_str(), self.name.as_str()) == STACK
    }

    /// Length of its raw bytes; `None` when that differs from record to record.
    pub(crate) fn fixed_len(&self) -> Option<usize> {
        // A stack may be longer or shorter than its format says.
        if self.is_stack() {
            return None;
        }
        let dynamic = ["__data_loc", "__rel_loc"];
        if self.format.lines().any(|line| dynamic.iter().any(|word| line.contains(word))) {
            return None;
        }
        // An array without a size ends some formats.
        if self.fields().any(|(_, _, size)| size == 0) {
            return None;
        }
        self.fields().map(|(_, offset, size)| offset + size).max()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields().map(|(name, _, _)| name)
    }

    /// Name, offset and size of each field.
    fn fields(&self) -> impl Iterator<Item = (&str, usize, usize)> {
        self.format.lines().filter_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';');
            // The brackets stand behind the name, or, where the length differs from record to record, behind the type.
            let name = parts.next()?.rsplit([' ', '*']).next()?.split('[').next()?;
            let mut numbers = parts.filter_map(|part| part.trim().split_once(':')?.1.parse().ok());
            Some((name, numbers.next()?, numbers.next()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(format: &str) -> Tracepoint {
        Tracepoint { system: "s".into(), name: "n".into(), id: 1, format: format.into() }
    }

    #[test]
    fn fields_are_found_by_the_format_text() {
        let point = point(
            "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:char next_comm[16];\toffset:40;\tsize:16;\tsigned:0;\n\
             \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n",
        );
        assert_eq!(point.field("next_comm"), Some((40, 16)));
        assert_eq!(point.field("next_pid"), Some((56, 4)));
        assert_eq!((point.field("comm"), point.fixed_len()), (None, Some(60)));
    }

    #[test]
    fn a_dynamic_string_has_no_fixed_length() {
        let text = "\tfield:__data_loc char[] comm;\toffset:8;\tsize:4;\tsigned:0;\n";
        assert_eq!((point(text).fixed_len(), point(text).field("comm")), (None, Some((8, 4))));
    }

    #[test]
    fn an_event_that_is_not_there_is_named_with_those_that_are() {
        let root = tempfile::tempdir().unwrap();
        let write = |system: &str, name: &str| {
            let dir = root.path().join("events").join(system).join(name);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("id"), "9").unwrap();
            std::fs::write(dir.join("format"), "").unwrap();
        };
        write("sched", "sched_switch");
        write("irq", "irq_handler_entry");
        write("irq", "irq_handler_exit");
        let tracefs = Tracefs::at(root.path());
        let names = |extra: &str| {
            choose(&tracefs, &[extra.to_owned()])
                .map(|all| all.into_iter().map(|t| t.name).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(
            names("irq").unwrap(),
            ["sched_switch", "irq_handler_entry", "irq_handler_exit"]
        );
        assert_eq!(names("irq:irq_handler_exit").unwrap().len(), 2);
        assert!(names("irq:nothing").unwrap_err().contains("irq_handler_entry"));
        assert!(names("nothing").unwrap_err().contains("neither a system nor an event"));
        assert_eq!(names("irq_handler_exit").unwrap(), ["sched_switch", "irq_handler_exit"]);
        assert_eq!(
            names("irq:nothing?").unwrap(),
            ["sched_switch"],
            "what is optional may be absent"
        );
        assert_eq!(names("nothing:nothing?").unwrap(), ["sched_switch"]);
        assert_eq!(names("irq:irq_handler_exit?").unwrap().len(), 2);
        assert!(names("irq_handler_exit:*").is_err());
        assert!(names("../x").unwrap_err().contains("use SYSTEM"));
    }
}
