//! What events do not carry, kept in a private option of trace.dat: topology, affinity, names of marks.
//!
//! The option holds JSON. `trace-cmd report` skips options that it does not know.

use crate::budget::Budget;
use crate::code::Code;
use crate::names::may_be;
use schedlab_model::{
    Affinity, AtStart, Conditions, Counted, CpuSet, Groups, Nanos, Pid, Place, Span, Topology,
    Trigger,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a byte of JSON takes at most while it is read: `[0]` becomes a list with room for four values.
const OF_JSON: u64 = 40;

/// What a recorder knows besides the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Companion {
    /// How the CPUs share hardware.
    pub topology: Option<Topology>,
    /// Where tasks were allowed to run, ascending by pid then time; `None` when nobody looked.
    pub affinity: Option<Vec<Affinity>>,
    /// Names of user marks, by the id that their records carry.
    pub marks: Vec<String>,
    /// From when to when was looked, where that is more than from the first event to the last.
    pub span: Option<Span>,
    /// The CPUs that were observed, where these are not all.
    pub observed: Option<CpuSet>,
    /// Control groups of the tasks; `None` when nobody looked.
    pub groups: Option<Groups>,
    /// Knobs, tick, preemption and how tasks were scheduled; `None` when nobody looked.
    pub conditions: Option<Conditions>,
    /// The process of each thread that is not its first one; `None` when nobody looked.
    pub processes: Option<BTreeMap<Pid, Pid>>,
    /// What the kernel counted for tasks; `None` when nobody read it.
    pub counters: Option<Vec<Counted>>,
    /// The wait that ended the recording; `None` if it ended otherwise.
    pub trigger: Option<Trigger>,
    /// Where only events about some tasks are kept: how many tasks these are.
    pub chosen: Option<usize>,
    /// Who ran and waited where the part begins that this is; `None` if it is none.
    pub at_start: Option<AtStart>,
    /// The tasks about which events are kept, where not all are.
    pub only: Option<BTreeSet<Pid>>,
    /// Whether the flags of the records do not say if an interrupt logged them.
    pub no_contexts: bool,
    /// Where the functions of programs in stacks lie; `None` if stacks hold none.
    pub code: Option<Code>,
}

impl Companion {
    /// The JSON that goes into the option.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let affinity = self.affinity.as_ref().map(|all| {
            let entry = |a: &Affinity| json!([a.pid.0, a.at.0, a.allowed.to_string()]);
            all.iter().map(entry).collect::<Vec<_>>()
        });
        let topology = self.topology.as_ref().map(|topology| {
            let place = |p: &Place| json!([p.cpu.0, p.core, p.llc, p.node, p.socket]);
            topology.places().iter().map(place).collect::<Vec<_>>()
        });
        let mut root = json!({
            "schema": 1, "topology": topology, "affinity": affinity, "marks": self.marks
        });
        if let Some(span) = self.span {
            root["span"] = json!([span.start.0, span.end.0]);
        }
        if let Some(observed) = &self.observed {
            root["observed"] = json!(observed.to_string());
        }
        if let Some(groups) = &self.groups {
            root["groups"] = json!(groups);
        }
        if let Some(conditions) = &self.conditions {
            root["conditions"] = json!(conditions);
        }
        if let Some(processes) = &self.processes {
            let pairs = processes.iter().map(|(thread, process)| [thread.0, process.0]);
            root["processes"] = json!(pairs.collect::<Vec<_>>());
        }
        if let Some(counters) = &self.counters {
            root["counters"] = json!(counters);
        }
        if let Some(trigger) = &self.trigger {
            root["trigger"] = json!(trigger);
        }
        if let Some(chosen) = self.chosen {
            root["chosen"] = json!(chosen);
        }
        if let Some(at_start) = &self.at_start {
            root["at_start"] = json!(at_start);
        }
        if let Some(only) = &self.only {
            root["only"] = json!(only);
        }
        if self.no_contexts {
            root["no_contexts"] = json!(true);
        }
        if let Some(code) = &self.code {
            root["code"] = json!(code);
        }
        root.to_string().into_bytes()
    }

    /// Reads what [`Self::to_json`] wrote; `None` when it is something else. Single entries that
    /// make no sense are passed over, and what the budget has no room for.
    pub(crate) fn from_json(bytes: &[u8], budget: &Budget) -> Option<Self> {
        if !budget.take(OF_JSON * bytes.len() as u64) {
            return None;
        }
        let mut root: Value = serde_json::from_slice(without_nul(bytes)).ok()?;
        let topology = root["topology"]
            .as_array()
            .map(|places| Topology::new(places.iter().filter_map(place).collect()));
        let affinity = root["affinity"].as_array().map(|entries| {
            // A few letters name all CPUs.
            let fits = |entry: &Affinity| budget.take(size_of_val(entry.allowed.words()) as u64);
            let entries = entries.iter().filter_map(affinity);
            let mut entries: Vec<_> = entries.filter(fits).collect();
            entries.sort_by_key(|entry| (entry.pid, entry.at));
            entries
        });
        let names = root["marks"].as_array().map(Vec::as_slice).unwrap_or_default();
        let marks = names.iter().map(|name| name.as_str().unwrap_or_default().to_owned());
        let at = |index: usize| root["span"].get(index)?.as_u64().map(Nanos);
        let span = at(0).zip(at(1)).filter(|(start, end)| start < end);
        let span = span.map(|(start, end)| Span::new(start, end));
        let observed = root["observed"].as_str().and_then(|list| list.parse::<CpuSet>().ok());
        let chosen = root["chosen"].as_u64().and_then(|count| usize::try_from(count).ok());
        let processes =
            root["processes"].as_array().map(|pairs| pairs.iter().filter_map(thread).collect());
        let no_contexts = root["no_contexts"].as_bool().unwrap_or(false);
        let marks = marks.collect();
        let mut groups: Option<Groups> = serde_json::from_value(take(&mut root, "groups")).ok();
        if let Some(groups) = &mut groups {
            let known = groups.names.len();
            groups.members.retain(|member| (member.group as usize) < known);
            groups.members.sort_unstable();
            groups.counts.retain(|count| (count.group as usize) < known);
            groups.limits.retain(|limit| (limit.group as usize) < known);
            groups.titles.retain(|group, _| (*group as usize) < known);
        }
        let mut conditions: Option<Conditions> =
            serde_json::from_value(take(&mut root, "conditions")).ok().flatten();
        if let Some(conditions) = &mut conditions {
            conditions.tasks.sort_unstable();
        }
        let mut at_start: Option<AtStart> =
            serde_json::from_value(take(&mut root, "at_start")).ok().flatten();
        if let Some(at_start) = &mut at_start {
            at_start.tasks.retain(|task| may_be(task.pid) && task.waker.0.is_none_or(may_be));
        }
        let counters: Option<Option<Vec<Counted>>> =
            serde_json::from_value(take(&mut root, "counters")).ok();
        Some(Self {
            at_start,
            topology,
            affinity,
            marks,
            span,
            observed,
            groups,
            conditions,
            processes,
            counters: counters.flatten(),
            trigger: serde_json::from_value(take(&mut root, "trigger")).ok(),
            chosen,
            only: serde_json::from_value(take(&mut root, "only")).ok().flatten(),
            no_contexts,
            code: serde_json::from_value(take(&mut root, "code")).ok().flatten(),
        })
    }
}

/// What `root` has under this name, without a copy of it.
fn take(root: &mut Value, name: &str) -> Value {
    root.get_mut(name).map(Value::take).unwrap_or_default()
}

fn place(value: &Value) -> Option<Place> {
    let number = |index: usize| u32::try_from(value.get(index)?.as_u64()?).ok();
    Some(Place {
        cpu: schedlab_model::Cpu(u16::try_from(number(0)?).ok()?),
        core: number(1)?,
        llc: number(2)?,
        node: number(3)?,
        socket: number(4)?,
    })
}

/// A thread and its process.
fn thread(value: &Value) -> Option<(Pid, Pid)> {
    let number = |index: usize| i32::try_from(value.get(index)?.as_i64()?).ok().map(Pid);
    Some((number(0)?, number(1)?))
}

fn affinity(value: &Value) -> Option<Affinity> {
    Some(Affinity {
        pid: Pid(i32::try_from(value.get(0)?.as_i64()?).ok()?),
        at: Nanos(value.get(1)?.as_u64()?),
        allowed: value.get(2)?.as_str()?.parse::<CpuSet>().ok()?,
    })
}

/// Many writers end the text of an option with a NUL: this leaves it out.
fn without_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address_spaces::SourceFile;

    fn read(text: &[u8]) -> Option<Companion> {
        Companion::from_json(text, &Budget::new(0))
    }

    #[test]
    fn what_takes_more_memory_than_its_file_may_is_left_out() {
        let sets = r#"[1,2,"0-65535"],"#.repeat(20);
        let text = format!(r#"{{"affinity":[{sets}[1,2,"0"]]}}"#);
        let told = |left: u64| {
            let budget = Budget::new(0);
            assert!(budget.take(budget.left() - left));
            Companion::from_json(text.as_bytes(), &budget).map(|read| read.affinity.unwrap().len())
        };
        assert_eq!(told(1 << 20), Some(21));
        let text = OF_JSON * text.len() as u64;
        assert_eq!(told(text + (10 << 13) + 8), Some(11), "ten sets of 8 KiB, and a small one");
        assert_eq!(told(text - 1), None);
    }

    use schedlab_model::{Context, Cpu, Does, Prio, TaskAtStart, Why};

    fn conditions() -> Conditions {
        let slice = Some(Nanos(3_000_000));
        let policy = "batch".to_owned();
        let (pid, at, session) = (Pid(7), Nanos(5), Some(Pid(6)));
        let task = schedlab_model::Scheduled {
            pid,
            at,
            policy,
            nice: -3,
            slice,
            autogroup: None,
            session,
        };
        let knobs = BTreeMap::from([("base_slice".to_owned(), "2800000".to_owned())]);
        let preempt = Some("lazy".to_owned());
        Conditions { knobs, hz: Some(250), preempt, tasks: vec![task] }
    }

    fn at_start() -> AtStart {
        let waker = (Some(Pid(9)), Cpu(1), Context::SoftIrq);
        let task = TaskAtStart {
            pid: Pid(7),
            prio: Prio(100),
            does: Does::Wait(Cpu(1), true, Why::Woken),
            since: Nanos(5),
            last_cpu: Some(Cpu(0)),
            ran_until: Nanos(3),
            waker,
            woken_from: Some(Cpu(0)),
            moved: true,
        };
        let does = [Does::Run(Cpu(1)), Does::New, Does::Sleep(schedlab_model::Left::Preempted)];
        let others = does.into_iter().zip(8..);
        let others = others.map(|(does, pid)| TaskAtStart { pid: Pid(pid), does, ..task });
        AtStart {
            idle: vec![Cpu(0)],
            tasks: std::iter::once(task).chain(others).collect(),
            gap: Nanos(1),
        }
    }

    #[test]
    fn tasks_that_no_kernel_numbers_so_are_left_out() {
        let mut told = at_start();
        told.tasks[1].pid = Pid(i32::MAX);
        told.tasks[2].waker.0 = Some(Pid(-1));
        let kept = Companion { at_start: Some(told), ..Companion::default() }.to_json();
        let pids: Vec<_> =
            read(&kept).unwrap().at_start.unwrap().tasks.iter().map(|t| t.pid.0).collect();
        assert_eq!(pids, [7, 10]);
    }

    #[test]
    fn what_was_kept_comes_back() {
        let companion = Companion {
            topology: Some(Topology::flat(3)),
            affinity: Some(vec![Affinity {
                pid: Pid(7),
                at: Nanos(u64::MAX),
                allowed: "0-1".parse().unwrap(),
            }]),
            marks: vec!["warm-up".into(), "ü\"".into()],
            span: Some(Span::new(Nanos(3), Nanos(u64::MAX))),
            observed: Some("1,3-4".parse().unwrap()),
            groups: Some(Groups { names: vec!["/a".into()], ..Groups::default() }),
            conditions: Some(conditions()),
            processes: Some(BTreeMap::from([(Pid(8), Pid(7)), (Pid(9), Pid(7))])),
            trigger: Some(Trigger { pid: Pid(7), since: Nanos(5), until: Nanos(9) }),
            counters: Some(vec![Counted {
                pid: Pid(7),
                from: Some(Nanos(3)),
                to: Nanos(9),
                ran: Nanos(4),
                waited: Nanos(1),
                arrivals: 2,
            }]),
            only: Some([Pid(7), Pid(9)].into()),
            chosen: Some(2),
            no_contexts: true,
            at_start: Some(at_start()),
            code: Some(Code {
                files: vec![SourceFile {
                    path: "/bin/x".into(),
                    build_id: Some(vec![1, 255]),
                    inode: Some((8, 1, u64::MAX)),
                }],
                names: vec!["ü".into()],
                recorded: 5,
            }),
        };
        assert_eq!(read(&companion.to_json()), Some(companion));
        assert_eq!(read(&Companion::default().to_json()), Some(Companion::default()));
    }

    #[test]
    fn nonsense_is_passed_over() {
        assert_eq!(read(b"{"), None);
        let text = br#"{"affinity":[[1],["a",2,"0"],[1,2,"x"],[1,2,"0"]],"marks":3,"processes":[[1],"x",[3,2]]}"#;
        let read = read(text).unwrap();
        assert_eq!(read.affinity.unwrap().len(), 1);
        assert_eq!(read.processes, Some(BTreeMap::from([(Pid(3), Pid(2))])));
        assert_eq!((read.topology, read.marks.len()), (None, 0));
    }

    #[test]
    fn entries_come_in_order_and_groups_that_have_no_name_are_left_out() {
        let text = br#"{"affinity":[[2,1,"0"],[1,9,"1"],[1,3,"0"]],"span":[7,7],
            "topology":[[0,1,2,3,4],[1,"x"],[70000,1,2,3,4]],"observed":"0-2","chosen":-1}"#;
        let read = read(text).unwrap();
        let order: Vec<_> = read.affinity.unwrap().iter().map(|a| (a.pid.0, a.at.0)).collect();
        assert_eq!(order, [(1, 3), (1, 9), (2, 1)]);
        let topology = read.topology.unwrap();
        assert_eq!(topology.places().len(), 1, "two make no sense");
        let place = topology.places()[0];
        assert_eq!((place.core, place.llc, place.node, place.socket), (1, 2, 3, 4));
        assert_eq!((read.span, read.chosen), (None, None), "no time, and no number of tasks");
        assert_eq!(read.observed, Some("0-2".parse().unwrap()));
    }

    #[test]
    fn the_option_may_end_with_zeros() {
        assert_eq!(without_nul(b"{}\0\0"), b"{}");
        assert_eq!(without_nul(b"{}"), b"{}");
        assert_eq!(without_nul(b"\0"), b"");
        assert_eq!(read(b"{}\0"), Some(Companion::default()));
    }

    #[test]
    fn members_of_groups_come_in_order_and_those_of_no_group_are_left_out() {
        let member = |pid, group| schedlab_model::Member { pid: Pid(pid), at: Nanos(0), group };
        let names = vec!["/a".to_owned(), "/b".to_owned()];
        let members = vec![member(2, 1), member(1, 0), member(3, 2), member(1, 9)];
        let count = |group| schedlab_model::Count {
            at: Nanos(5),
            group,
            periods: 3,
            throttled_periods: 1,
            throttled: Nanos(7),
            ran: None,
        };
        let counts = vec![count(1), count(2), count(0)];
        let groups = Some(Groups { names, members, counts, ..Groups::default() });
        let kept = Companion { groups, ..Companion::default() }.to_json();
        let read = read(&kept).unwrap().groups.unwrap();
        assert_eq!(read.members, [member(1, 0), member(2, 1)]);
        assert_eq!(read.counts, [count(1), count(0)]);
    }

    #[test]
    fn how_tasks_were_scheduled_comes_in_order() {
        let mut told = conditions();
        let task =
            |pid| schedlab_model::Scheduled { pid: Pid(pid), ..conditions().tasks.remove(0) };
        told.tasks = vec![task(9), task(3)];
        let kept = Companion { conditions: Some(told), ..Companion::default() }.to_json();
        let read = read(&kept).unwrap().conditions.unwrap();
        assert_eq!(read.tasks, [task(3), task(9)]);
    }
}
