//! How to record: what the spec asks of rings, filters and warnings.

use super::RING_BYTES;
use super::request_probes;
use super::shared::RECORDER;
use super::tracepoints::Tracepoint;
use schedlab_model::{Pid, Warning};
pub use schedlab_workload::{
    Filter, Full, RecordSpec as Options, Snapshot, UserStacks, Via, Watched,
};

/// What an [`Options`] means to a recorder.
pub(crate) trait Meaning {
    /// Whether the kernel itself drops the oldest events.
    fn overwrites(&self) -> bool;
    /// Whether the events since the begin are kept, and not their end alone. Counters from the begin would tell of more.
    fn keeps_begin(&self) -> bool;
    /// Bytes of each CPU's ring.
    fn ring(&self, cpus: usize) -> usize;
    /// The kernel's filter for a tracepoint; `None` for none.
    fn filter(&self, point: &Tracepoint) -> Option<String>;
    /// Whether stacks of any kind are kept.
    fn keeps_stacks(&self) -> bool;
    /// What a filter costs the answers.
    fn doubts(&self) -> Vec<Warning>;
}

impl Meaning for Options {
    fn overwrites(&self) -> bool {
        self.limit_bytes.is_some() && self.full == Full::Overwrite && self.snapshot.is_none()
    }

    fn keeps_begin(&self) -> bool {
        !self.overwrites() && self.snapshot.is_none()
    }

    fn ring(&self, cpus: usize) -> usize {
        let asked = if self.ring_bytes == 0 { RING_BYTES } else { self.ring_bytes };
        let bytes = match self.limit_bytes {
            // The ring is all that is kept.
            Some(limit) if self.overwrites() => limit / cpus.max(1) as u64,
            _ => asked,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX >> 1)
    }

    fn keeps_stacks(&self) -> bool {
        self.stacks || self.user_stacks.is_some()
    }

    fn filter(&self, point: &Tracepoint) -> Option<String> {
        let own = self.filters.iter().filter(|filter| filter.event == point.name);
        let mut parts: Vec<String> = own.map(|filter| format!("({})", filter.expression)).collect();
        if !self.pids.is_empty() {
            parts.push(concerns(point, &self.pids));
        }
        if point.system == "syscalls" || request_probes::is_own(point) {
            // The recorder reads its rings by calls: told in turn, they would fill the rings that it empties. Probes in
            // libc would tell them too.
            parts.push(format!("comm != \"{RECORDER}\""));
        }
        (!parts.is_empty()).then(|| parts.join(" && "))
    }

    fn doubts(&self) -> Vec<Warning> {
        let mut doubts = Vec::new();
        if !self.pids.is_empty() || !self.filters.is_empty() {
            doubts.push(Warning::new(
                "events-filtered",
                "waits and work conservation are incomplete: events were filtered, and both need \
                 the competing tasks",
                "record without --pid and --filter to judge them",
            ));
        }
        if self.overwrites() || self.snapshot.is_some() {
            doubts.push(Warning::new(
                "only-the-end",
                "CPUs begin at different times: only the last events of each CPU were kept",
                "",
            ));
        }
        doubts
    }
}

/// Fields by which events of the scheduler name a task.
const PID_FIELDS: [&str; 6] = ["prev_pid", "next_pid", "pid", "parent_pid", "child_pid", "old_pid"];

/// An expression that holds when the event is about one of the tasks.
fn concerns(point: &Tracepoint, pids: &[Pid]) -> String {
    let named = PID_FIELDS.into_iter().filter(|field| point.field(field).is_some());
    let mut fields: Vec<&str> = named.collect();
    if fields.is_empty() {
        // The task that was running when it fired.
        fields.push("common_pid");
    }
    let each =
        fields.iter().flat_map(|field| pids.iter().map(move |pid| format!("{field} == {pid}")));
    format!("({})", each.collect::<Vec<_>>().join(" || "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, fields: &[&str]) -> Tracepoint {
        let line = |f: &&str| format!("\tfield:pid_t {f};\toffset:8;\tsize:4;\tsigned:1;\n");
        let format = fields.iter().map(line).collect();
        Tracepoint { system: "sched".into(), name: name.into(), id: 1, format }
    }

    #[test]
    fn a_set_of_pids_filters_by_the_fields_that_an_event_has() {
        let options = Options { pids: vec![Pid(7), Pid(8)], ..Options::default() };
        let switch = point("sched_switch", &["prev_pid", "next_pid"]);
        assert_eq!(
            options.filter(&switch).unwrap(),
            "(prev_pid == 7 || prev_pid == 8 || next_pid == 7 || next_pid == 8)"
        );
        let irq = point("irq_handler_entry", &["irq"]);
        assert_eq!(options.filter(&irq).unwrap(), "(common_pid == 7 || common_pid == 8)");
        assert_eq!(options.doubts()[0].code, "events-filtered");
        assert_eq!(Options::default().filter(&switch), None);
    }

    #[test]
    fn calls_of_the_recorder_are_left_out() {
        let read = Tracepoint { system: "syscalls".into(), ..point("sys_enter_read", &["fd"]) };
        let filter = Options::default().filter(&read);
        assert_eq!(filter.as_deref(), Some("comm != \"sl-recorder\""));
        let options = Options { pids: vec![Pid(7)], ..Options::default() };
        let both = "(common_pid == 7) && comm != \"sl-recorder\"";
        assert_eq!(options.filter(&read).as_deref(), Some(both));
    }

    #[test]
    fn an_expression_is_for_its_event_and_joins_the_pids() {
        let filter: Filter = "sched_switch: next_prio < 100".parse().unwrap();
        let options = Options { filters: vec![filter], pids: vec![Pid(7)], ..Options::default() };
        let switch = point("sched_switch", &["next_pid"]);
        assert_eq!(options.filter(&switch).unwrap(), "(next_prio < 100) && (next_pid == 7)");
        assert_eq!(options.filter(&point("x", &["pid"])).unwrap(), "(pid == 7)");
        for wrong in ["next_prio < 100", ": x", "sched_switch:", ""] {
            assert!(wrong.parse::<Filter>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_overwriting_ring_is_a_cpus_part_of_the_limit() {
        let limit = Options { limit_bytes: Some(64 << 20), ..Options::default() };
        assert_eq!(limit.ring(4), usize::try_from(RING_BYTES).unwrap());
        let overwrite = Options { full: Full::Overwrite, ..limit };
        assert_eq!(overwrite.ring(4), 16 << 20);
    }
}
