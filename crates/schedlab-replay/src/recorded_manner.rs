//! How recorded tasks were scheduled beside their priorities: policy, slice, and the group in which they shared CPUs.

use schedlab_model::{Conditions, Groups, Nanos, Pid, TraceInfo};
use schedlab_workload::demand::Class;
use std::collections::BTreeSet;

/// What a trace tells of it, apart from its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedScheduling {
    conditions: Option<Conditions>,
    groups: Option<Groups>,
    /// Groups that divide CPU time: the kernel counts for them.
    dividing: BTreeSet<u32>,
    base_slice: Option<Nanos>,
    autogroup: bool,
}

/// How the kernel scheduled a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskScheduling {
    pub(crate) class: Option<Class>,
    pub(crate) slice: Option<Nanos>,
    pub(crate) group: Option<String>,
}

impl RecordedScheduling {
    pub(crate) fn of(info: &TraceInfo) -> Self {
        let conditions = info.conditions.clone();
        let groups = info.groups.clone();
        let counted = groups.iter().flat_map(|groups| &groups.counts);
        let knob = conditions.as_ref().and_then(|all| all.knobs.get("autogroup"));
        Self {
            dividing: counted.map(|count| count.group).collect(),
            base_slice: conditions.as_ref().and_then(Conditions::base_slice),
            autogroup: knob.is_some_and(|knob| knob == "1"),
            conditions,
            groups,
        }
    }

    pub(crate) fn of_task(&self, pid: Pid, at: Nanos) -> TaskScheduling {
        let task = self.conditions.as_ref().and_then(|all| all.of(pid, at));
        let own = self.group(pid);
        let Some(task) = task else {
            return TaskScheduling { group: own, ..TaskScheduling::default() };
        };
        let session = task.autogroup.filter(|_| self.autogroup);
        TaskScheduling {
            class: Class::of(&task.policy),
            slice: task.slice.filter(|slice| Some(*slice) != self.base_slice),
            group: own.or_else(|| session.map(|number| format!("/autogroup-{number}"))),
        }
    }

    /// The innermost control group of a task that divides CPU time; `None`: it shares with all others.
    fn group(&self, pid: Pid) -> Option<String> {
        let groups = self.groups.as_ref()?;
        let member = groups.members.iter().find(|member| member.pid == pid)?;
        let mut path = groups.names.get(member.group as usize)?.as_str();
        while path.len() > 1 {
            let number = groups.names.iter().position(|name| name == path);
            let number = number.and_then(|number| u32::try_from(number).ok());
            if number.is_some_and(|number| self.dividing.contains(&number)) {
                return Some(path.to_owned());
            }
            path = path.rsplit_once('/')?.0;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Clock, Count, Member, Scheduled};
    use std::collections::BTreeMap;

    fn info() -> TraceInfo {
        let task = |pid, policy: &str, slice| Scheduled {
            pid: Pid(pid),
            at: Nanos::ZERO,
            policy: policy.to_owned(),
            nice: 0,
            slice: Some(Nanos(slice)),
            autogroup: Some(7),
            session: None,
        };
        let tasks = vec![task(1, "normal", 3), task(2, "batch", 9), task(3, "rr:5", 3)];
        let knobs = BTreeMap::from([("autogroup".to_owned(), "1".to_owned())]);
        let member = |pid, group| Member { pid: Pid(pid), at: Nanos::ZERO, group };
        let zero = Count {
            at: Nanos::ZERO,
            group: 0,
            periods: 0,
            throttled_periods: 0,
            throttled: Nanos::ZERO,
            ran: None,
        };
        let groups = Groups {
            names: vec!["/a".into(), "/a/b".into(), "/".into(), "/c".into()],
            members: vec![member(1, 1), member(2, 2), member(3, 3)],
            counts: vec![zero],
            ..Groups::default()
        };
        let mut info = TraceInfo::new("test", Clock::Monotonic);
        info.conditions = Some(Conditions { knobs, hz: None, preempt: None, tasks });
        info.groups = Some(groups);
        info
    }

    #[test]
    fn a_task_has_its_policy_and_its_own_slice_and_the_group_that_divides_cpus() {
        let manners = RecordedScheduling::of(&info());
        let group = |name: &str| Some(name.to_owned());
        let one = manners.of_task(Pid(1), Nanos(5));
        let two = manners.of_task(Pid(2), Nanos(5));
        // Its group counts nothing, the one above does.
        assert_eq!(one, TaskScheduling { group: group("/a"), ..TaskScheduling::default() });
        let slice = Some(Nanos(9));
        assert_eq!(
            two,
            TaskScheduling { class: Some(Class::Batch), slice, group: group("/autogroup-7") }
        );
        assert_eq!(manners.of_task(Pid(3), Nanos(5)).class, Some(Class::RoundRobin));
        assert_eq!(manners.of_task(Pid(4), Nanos(5)), TaskScheduling::default());
        let mut off = info();
        off.conditions.as_mut().unwrap().knobs.clear();
        assert_eq!(
            RecordedScheduling::of(&off).of_task(Pid(2), Nanos(5)).group,
            None,
            "autogroup is off"
        );
    }
}
