//! Tracepoints beyond the scheduler's that Perfetto has messages for: which field of `FtraceEvent` holds them, and what
//! their own fields are called in the kernel's text. Perfetto's viewer draws these, and shows others as plain events.

use crate::protobuf::{Fields, bytes, number};
use std::fmt::Write as _;

/// How a field is spelled in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum As {
    Number,
    Signed,
    Hex,
    Text,
    /// A place in the kernel: its address, or the number of a name in the packets of the same sequence.
    Symbol,
    /// How a timer counts: words such as `REL|PINNED`.
    Mode,
}

/// A field of a message: its number, its name in the kernel's text, and how it is spelled there.
type Field = (u32, &'static str, As);

/// A tracepoint with its message.
#[derive(Debug)]
pub(super) struct Native {
    /// The field of `FtraceEvent`.
    pub(super) field: u32,
    pub(super) name: &'static str,
    fields: &'static [Field],
}

macro_rules! natives {
    ($($field:literal $name:ident: $($place:literal $key:ident $how:ident),*;)+) => {
        /// In the order of their fields.
        const NATIVES: &[Native] = &[$(Native {
            field: $field,
            name: stringify!($name),
            fields: &[$(($place, stringify!($key), As::$how)),*],
        }),+];
    };
}

natives! {
    11 cpu_frequency: 1 state Number, 2 cpu_id Number;
    12 cpu_frequency_limits: 1 min_freq Number, 2 max_freq Number, 3 cpu_id Number;
    13 cpu_idle: 1 state Number, 2 cpu_id Number;
    18 sched_blocked_reason: 1 pid Signed, 3 iowait Number, 2 caller Symbol;
    19 sched_cpu_hotplug: 1 affected_cpu Signed, 2 error Signed, 3 status Signed;
    21 ipi_entry: 1 reason Text;
    22 ipi_exit: 1 reason Text;
    23 ipi_raise: 1 target_cpus Number, 2 reason Text;
    24 softirq_entry: 1 vec Number;
    25 softirq_exit: 1 vec Number;
    26 softirq_raise: 1 vec Number;
    36 irq_handler_entry: 1 irq Signed, 2 name Text;
    37 irq_handler_exit: 1 irq Signed, 2 ret Signed;
    56 workqueue_activate_work: 1 work Hex, 2 function Symbol;
    57 workqueue_execute_end: 1 work Hex, 2 function Symbol;
    58 workqueue_execute_start: 1 work Hex, 2 function Symbol;
    59 workqueue_queue_work: 1 work Hex, 2 function Symbol, 6 workqueue Text, 4 req_cpu Signed, 5 cpu Signed;
    113 suspend_resume: 1 action Text, 2 val Signed, 3 start Number;
    235 task_newtask: 1 pid Signed, 2 comm Text, 3 clone_flags Hex, 4 oom_score_adj Signed;
    236 task_rename: 1 pid Signed, 2 oldcomm Text, 3 newcomm Text, 4 oom_score_adj Signed;
    240 sched_process_free: 1 comm Text, 2 pid Signed, 3 prio Signed;
    241 sched_process_hang: 1 comm Text, 2 pid Signed;
    242 sched_process_wait: 1 comm Text, 2 pid Signed, 3 prio Signed;
    343 cpuhp_exit: 1 cpu Number, 4 state Signed, 2 idx Signed, 3 ret Signed;
    344 cpuhp_multi_enter: 1 cpu Number, 4 target Signed, 3 idx Signed, 2 fun Symbol;
    345 cpuhp_enter: 1 cpu Number, 4 target Signed, 3 idx Signed, 2 fun Symbol;
    353 sched_pi_setprio: 1 comm Text, 4 pid Signed, 3 oldprio Signed, 2 newprio Signed;
    421 sched_cpu_util_cfs: 4 cpu Number, 1 active Signed, 2 capacity Number, 3 capacity_orig Number,
        5 cpu_importance Number, 6 cpu_util Number, 7 exit_lat Number, 8 group_capacity Number,
        9 grp_overutilized Number, 10 idle_cpu Number, 11 nr_running Number, 12 spare_cap Signed;
    551 hrtimer_start: 1 hrtimer Hex, 2 function Symbol, 3 expires Signed, 4 softexpires Signed, 5 mode Mode;
    552 hrtimer_cancel: 1 hrtimer Hex;
    553 hrtimer_expire_entry: 1 hrtimer Hex, 3 function Symbol, 2 now Signed;
    554 hrtimer_expire_exit: 1 hrtimer Hex;
    555 timer_start: 1 timer Hex, 2 function Symbol, 3 expires Number, 4 now Number, 5 deferrable Number,
        6 flags Hex, 7 bucket_expiry Number;
    556 timer_cancel: 1 timer Hex;
    557 timer_expire_entry: 1 timer Hex, 3 function Symbol, 2 now Number, 4 baseclk Number;
    558 timer_expire_exit: 1 timer Hex;
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
    /// The fields of a message as `name=value`, one behind the other, in the kernel's order; `symbol` names places in the
    /// kernel.
    pub(super) fn text(&self, content: &[u8], symbol: impl Fn(u64) -> Option<String>) -> String {
        let mut text = String::new();
        for &(place, name, how) in self.fields {
            let Some((_, value)) = Fields(content).find(|(field, _)| *field == place) else {
                continue;
            };
            if !text.is_empty() {
                text.push(' ');
            }
            let named = (how == As::Symbol).then(|| symbol(value.number())).flatten();
            let _ = match (how, named) {
                (_, Some(symbol)) => write!(text, "{name}={symbol}"),
                (As::Number | As::Mode, _) => write!(text, "{name}={}", value.number()),
                (As::Signed, _) => write!(text, "{name}={}", value.number().cast_signed()),
                (As::Hex | As::Symbol, _) => write!(text, "{name}=0x{:x}", value.number()),
                (As::Text, _) => {
                    write!(text, "{name}={}", String::from_utf8_lossy(value.bytes()))
                }
            };
        }
        text
    }

    /// The message of these arguments; `None` if it cannot hold them, so that a plain event says more. `symbol` numbers
    /// the names of places in the kernel.
    pub(super) fn message(
        &self,
        arguments: &str,
        mut symbol: impl FnMut(&str) -> u64,
    ) -> Option<Vec<u8>> {
        let told = schedlab_model::fields(arguments);
        let mut content = Vec::new();
        for &(place, name, how) in self.fields {
            let is = |key: &str| match key {
                "text" => how == As::Text,
                // Older kernels call them so.
                "min" | "max" => name.strip_suffix("_freq") == Some(key),
                "io_wait" => name == "iowait",
                _ => key == name,
            };
            let Some((_, value)) = told.iter().find(|(key, _)| is(key)) else {
                // Only what stands last may be missing.
                return (!content.is_empty()).then_some(content);
            };
            match how {
                As::Text => bytes(&mut content, place, value.trim_matches(['(', ')']).as_bytes()),
                As::Symbol => {
                    let value = parsed(value, how).unwrap_or_else(|| symbol(value));
                    number(&mut content, place, value);
                }
                _ => number(&mut content, place, parsed(value, how)?),
            }
        }
        Some(content)
    }

    /// The CPU and the state of a step on a CPU's way into or out of use.
    pub(super) fn hotplug(&self, content: &[u8]) -> Option<(u16, bool)> {
        if self.name != "cpuhp_enter" {
            return None;
        }
        let of = |place| Fields(content).find(|(field, _)| *field == place);
        let cpu = of(1).map_or(0, |(_, cpu)| cpu.number());
        let target = of(4).map_or(0, |(_, target)| target.signed());
        Some((u16::try_from(cpu).ok()?, target > 0))
    }
}

/// A number as the kernel's texts spell it: also `handled`, or with what it means behind it.
fn parsed(value: &str, how: As) -> Option<u64> {
    let word = value.split_whitespace().next()?;
    if how == As::Mode && !word.starts_with(|c: char| c.is_ascii_digit()) {
        let bit = |word| {
            let words = ["REL", "PINNED", "SOFT", "HARD"];
            let bit = words.iter().position(|known| *known == word).map(|at| 1 << at);
            bit.or_else(|| (word == "ABS").then_some(0))
        };
        return word.split('|').map(bit).sum();
    }
    match word {
        "handled" => return Some(1),
        "unhandled" => return Some(0),
        _ => {}
    }
    let digits = word.strip_prefix("0x");
    // The kernel prints an address as 16 digits, or eight.
    let bare = how == As::Hex && matches!(word.len(), 8 | 16);
    match digits.or_else(|| bare.then_some(word)) {
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
            let mut names = Vec::new();
            let message = native.message(arguments, |name| {
                names.push(name.to_owned());
                names.len() as u64
            })?;
            let named = |iid: u64| names.get(usize::try_from(iid).ok()?.checked_sub(1)?).cloned();
            Some(native.text(&message, named))
        };
        let same =
            |name, arguments| assert_eq!(through(name, arguments).as_deref(), Some(arguments));
        let told = |name, arguments| through(name, arguments).unwrap_or_default();
        same("cpu_frequency", "state=1500000 cpu_id=3");
        same("cpu_idle", "state=4294967295 cpu_id=0");
        same("cpu_frequency_limits", "min_freq=1 max_freq=2 cpu_id=3");
        assert_eq!(
            told("cpu_frequency_limits", "min=1 max=2 cpu_id=3"),
            "min_freq=1 max_freq=2 cpu_id=3"
        );
        assert_eq!(told("softirq_entry", "vec=1 [action=TIMER]"), "vec=1");
        same("irq_handler_entry", "irq=42 name=a disk");
        assert_eq!(told("irq_handler_exit", "irq=42 ret=handled"), "irq=42 ret=1");
        assert_eq!(
            told("ipi_entry", "(Rescheduling interrupts)"),
            "reason=Rescheduling interrupts"
        );
        same("sched_blocked_reason", "pid=7 iowait=1 caller=io_schedule+0x12/0x40");
        assert_eq!(
            told("sched_blocked_reason", "pid=7 io_wait=0 caller=0x5"),
            "pid=7 iowait=0 caller=0x5"
        );
        same("workqueue_execute_start", "work=0x5 function=a_worker");
        same(
            "workqueue_queue_work",
            "work=0x5 function=a_worker workqueue=events req_cpu=-1 cpu=2",
        );
        same("cpuhp_enter", "cpu=3 target=0 idx=212 fun=sched_cpu_deactivate");
        let start =
            "hrtimer=0xffff8881f7a2b0c0 function=hrtimer_wakeup expires=500 softexpires=400 mode=";
        assert_eq!(
            told("hrtimer_start", &(start.replace("0x", "") + "REL|PINNED|HARD")),
            start.to_owned() + "11"
        );
        same("hrtimer_expire_entry", "hrtimer=0x1 function=tick_sched_timer now=5");
        assert_eq!(through("cpu_idle", "nothing"), None);
        assert_eq!(through("no_such_event", ""), None);
        assert_eq!(through("hrtimer_start", &(start.to_owned() + "SOMEHOW")), None);
    }

    #[test]
    fn fields_ascend() {
        assert!(NATIVES.is_sorted_by_key(|native| native.field));
    }
}
