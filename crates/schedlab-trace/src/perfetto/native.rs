//! Tracepoints beyond the scheduler's that Perfetto has messages for: which field of `FtraceEvent` holds them, and what
//! their own fields are called in the kernel's text. Perfetto's viewer draws these, and shows others as plain events.

use super::wire::{Fields, Value, bytes, number};
use std::fmt::Write as _;

/// How a field is spelled in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    Number,
    Signed,
    Hex,
    Text,
}

/// A tracepoint with its message: the fields are numbered from 1 on.
#[derive(Debug)]
pub(super) struct Native {
    /// The field of `FtraceEvent`.
    pub(super) field: u32,
    pub(super) name: &'static str,
    fields: &'static [(&'static str, As)],
}

macro_rules! natives {
    ($($field:literal $name:ident: $($key:ident $how:ident),*;)+) => {
        /// In the order of their fields.
        const NATIVES: &[Native] = &[$(Native {
            field: $field,
            name: stringify!($name),
            fields: &[$((stringify!($key), As::$how)),*],
        }),+];
    };
}

natives! {
    11 cpu_frequency: state Number, cpu_id Number;
    12 cpu_frequency_limits: min Number, max Number, cpu_id Number;
    13 cpu_idle: state Number, cpu_id Number;
    18 sched_blocked_reason: pid Signed, caller Hex, iowait Number;
    19 sched_cpu_hotplug: affected_cpu Signed, error Signed, status Signed;
    21 ipi_entry: reason Text;
    22 ipi_exit: reason Text;
    23 ipi_raise: target_cpus Number, reason Text;
    24 softirq_entry: vec Number;
    25 softirq_exit: vec Number;
    26 softirq_raise: vec Number;
    36 irq_handler_entry: irq Signed, name Text;
    37 irq_handler_exit: irq Signed, ret Signed;
    56 workqueue_activate_work: work Hex;
    57 workqueue_execute_end: work Hex, function Hex;
    58 workqueue_execute_start: work Hex, function Hex;
    59 workqueue_queue_work: work Hex, function Hex, workqueue Hex, req_cpu Number, cpu Number;
    113 suspend_resume: action Text, val Signed, start Number;
    235 task_newtask: pid Signed, comm Text, clone_flags Hex, oom_score_adj Signed;
    236 task_rename: pid Signed, oldcomm Text, newcomm Text, oom_score_adj Signed;
    240 sched_process_free: comm Text, pid Signed, prio Signed;
    242 sched_process_wait: comm Text, pid Signed, prio Signed;
    343 cpuhp_exit: cpu Number, idx Signed, ret Signed, state Signed;
    344 cpuhp_multi_enter: cpu Number, fun Hex, idx Signed, target Signed;
    345 cpuhp_enter: cpu Number, fun Hex, idx Signed, target Signed;
}

/// The tracepoint that this field of an event holds.
pub(super) fn by_field(field: u32) -> Option<&'static Native> {
    NATIVES.binary_search_by_key(&field, |native| native.field).ok().map(|at| &NATIVES[at])
}

/// The tracepoint of this name.
pub(super) fn by_name(name: &str) -> Option<&'static Native> {
    NATIVES.iter().find(|native| native.name == name)
}

impl Native {
    /// The fields of a message as `name=value`, one behind the other.
    pub(super) fn text(&self, content: &[u8]) -> String {
        let mut text = String::new();
        for (place, value) in Fields(content) {
            let Some((name, how)) = self.at(place) else { continue };
            if !text.is_empty() {
                text.push(' ');
            }
            let _ = match how {
                As::Number => write!(text, "{name}={}", value.number()),
                As::Signed => write!(text, "{name}={}", value.signed()),
                As::Hex => write!(text, "{name}=0x{:x}", value.number()),
                As::Text => write!(text, "{name}={}", String::from_utf8_lossy(value.bytes())),
            };
        }
        text
    }

    fn at(&self, place: u32) -> Option<(&'static str, As)> {
        self.fields.get((place as usize).checked_sub(1)?).copied()
    }

    /// The message of these arguments; `None` if they lack what it needs, so that a plain event says more.
    pub(super) fn message(&self, arguments: &str) -> Option<Vec<u8>> {
        let told = schedlab_model::fields(arguments);
        let mut content = Vec::new();
        for ((name, how), place) in self.fields.iter().zip(1..) {
            let value =
                told.iter().find(|(key, _)| *key == *name || *key == "text" && *how == As::Text);
            let Some((_, value)) = value else {
                // Only what stands last may be missing.
                return (place > 1).then_some(content);
            };
            match how {
                As::Text => bytes(&mut content, place, value.trim_matches(['(', ')']).as_bytes()),
                _ => number(&mut content, place, parsed(value)?),
            }
        }
        Some(content)
    }

    /// The CPU and the state of a step on a CPU's way into or out of use.
    pub(super) fn hotplug(&self, content: &[u8]) -> Option<(u16, bool)> {
        let (mut cpu, mut target) = (0, 0);
        for (place, value) in Fields(content).filter(|_| self.name == "cpuhp_enter") {
            match (self.at(place), value) {
                (Some(("cpu", _)), Value::Number(number)) => cpu = number,
                (Some(("target", _)), value) => target = value.signed(),
                _ => {}
            }
        }
        (self.name == "cpuhp_enter").then_some((u16::try_from(cpu).ok()?, target > 0))
    }
}

/// A number as the kernel's texts spell it: also `handled`, or with what it means behind it.
fn parsed(value: &str) -> Option<u64> {
    let word = value.split_whitespace().next()?;
    match word {
        "handled" => return Some(1),
        "unhandled" => return Some(0),
        _ => {}
    }
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok().or_else(|| word.parse().ok().map(i64::cast_unsigned)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_prints_becomes_a_message_and_comes_back() {
        let through = |name: &str, arguments: &str| {
            let native = by_name(name)?;
            assert_eq!(by_field(native.field).map(|native| native.name), Some(name));
            Some(native.text(&native.message(arguments)?))
        };
        let told = |name, arguments| through(name, arguments).unwrap_or_default();
        assert_eq!(told("cpu_frequency", "state=1500000 cpu_id=3"), "state=1500000 cpu_id=3");
        assert_eq!(told("cpu_idle", "state=4294967295 cpu_id=0"), "state=4294967295 cpu_id=0");
        assert_eq!(told("softirq_entry", "vec=1 [action=TIMER]"), "vec=1");
        assert_eq!(told("irq_handler_entry", "irq=42 name=a disk"), "irq=42 name=a disk");
        assert_eq!(told("irq_handler_exit", "irq=42 ret=handled"), "irq=42 ret=1");
        assert_eq!(
            told("ipi_entry", "(Rescheduling interrupts)"),
            "reason=Rescheduling interrupts"
        );
        assert_eq!(through("cpu_idle", "nothing"), None);
        assert_eq!(through("no_such_event", ""), None);
        // A function's name is no address: a plain event keeps it.
        assert_eq!(through("workqueue_execute_start", "work=0x5 function=a_worker"), None);
    }

    #[test]
    fn fields_ascend() {
        assert!(NATIVES.is_sorted_by_key(|native| native.field));
    }
}
