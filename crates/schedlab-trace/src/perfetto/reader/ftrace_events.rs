//! Reads the events of a bundle: messages of one event each, and the columns of switches and wakings.

use super::super::native::{self, Native};
use super::super::{compact, event};
use super::NameIndexes;
use crate::names;
use crate::protobuf::{Fields, Value, packed};
use crate::states::States;
use schedlab_model::{Context, Cpu, Phase, Pid, Prio, What};

/// An event, still without the task that ran: known once a bundle's events are in order.
pub(super) struct Found<'a> {
    pub(super) time: u64,
    pub(super) by: Option<Pid>,
    pub(super) context: Context,
    pub(super) what: What,
    pub(super) comm: [Option<(Pid, schedlab_model::Comm)>; 2],
    /// A tracepoint beyond the scheduler's: its field and its content.
    pub(super) other: Option<(u32, &'a [u8])>,
}

/// The text of a `print` event; nothing if it is not UTF-8.
pub(super) fn printed(print: &[u8]) -> &str {
    let text =
        Fields(print).find(|(field, _)| *field == 2).map_or(&[][..], |(_, text)| text.bytes());
    std::str::from_utf8(text).unwrap_or_default()
}

/// A mark out of a `print` event, as user space writes them; others are none. Within a task `B|pid|name`, `E|pid`,
/// `I|pid|name` and `C|pid|name|value`; across tasks `S|pid|name|request` and `F`, and on a track
/// `G|pid|track|name|request`, `H`, `N`.
pub(super) fn mark(print: &[u8]) -> Option<(Phase, Pid, String, u32)> {
    let mut parts = printed(print).trim_end().splitn(3, '|');
    let kind = parts.next()?;
    let phase = match kind {
        "B" | "S" | "G" => Phase::Begin,
        "E" | "F" | "H" => Phase::End,
        "I" | "C" | "N" => Phase::Point,
        _ => return None,
    };
    let pid = Pid(parts.next()?.parse().ok()?);
    let name = parts.next().unwrap_or_default();
    // Behind the name stands the request, or what a counter counts.
    let numbered = name.rsplit_once('|').filter(|_| matches!(kind, "S" | "F" | "G" | "H" | "C"));
    let (name, request) = match numbered {
        Some((name, _)) if kind == "C" => (name, 0),
        Some((name, request)) => (name, request.parse().ok()?),
        None => (name, 0),
    };
    let name = match kind {
        "G" | "H" | "N" => name.split_once('|').map_or("", |(_, name)| name),
        _ => name,
    };
    Some((phase, pid, name.to_owned(), request))
}

pub(super) fn context(flags: u64) -> Context {
    match flags {
        f if f & 0x40 != 0 => Context::Nmi,
        f if f & 0x08 != 0 => Context::HardIrq,
        f if f & 0x10 != 0 => Context::SoftIrq,
        _ => Context::Task,
    }
}

fn prio(value: Value<'_>) -> Prio {
    Prio(i16::try_from(value.signed()).unwrap_or(i16::MAX))
}

fn cpu(value: Value<'_>) -> Cpu {
    Cpu(u16::try_from(value.number()).unwrap_or(u16::MAX))
}

/// The columns of switches and of wakings.
pub(super) fn compact_sched(content: &[u8], states: &States, found: &mut Vec<Found<'_>>) {
    let mut table = Vec::new();
    let mut columns = [&[][..]; 13];
    for (field, value) in Fields(content) {
        if field == compact::INTERN_TABLE {
            table.push(names::comm(value.bytes()));
        } else if let Some(column) = columns.get_mut(field as usize) {
            *column = value.bytes();
        }
    }
    let column = |field: u32| packed(columns[field as usize]);
    let name = |index: u64| usize::try_from(index).ok().and_then(|index| table.get(index)).copied();
    let mut time = 0u64;
    let mut states_of = column(compact::SWITCH_PREV_STATE);
    let mut pids = column(compact::SWITCH_NEXT_PID);
    let mut prios = column(compact::SWITCH_NEXT_PRIO);
    let mut comms = column(compact::SWITCH_NEXT_COMM);
    for delta in column(compact::SWITCH_TIMESTAMP) {
        time = time.wrapping_add(delta);
        let next = Pid(Value::Number(pids.next().unwrap_or(0)).signed());
        let what = What::Switch {
            prev: Pid(i32::MIN),
            prev_prio: Prio::NORMAL,
            left: states.left(states_of.next().unwrap_or(0)),
            next,
            next_prio: prio(Value::Number(prios.next().unwrap_or(120))),
        };
        let comm = comms.next().and_then(name).map(|comm| (next, comm));
        found.push(Found {
            time,
            by: None,
            context: Context::Task,
            what,
            comm: [comm, None],
            other: None,
        });
    }
    let mut time = 0u64;
    let mut pids = column(compact::WAKING_PID);
    let mut cpus = column(compact::WAKING_TARGET_CPU);
    let mut prios = column(compact::WAKING_PRIO);
    let mut comms = column(compact::WAKING_COMM);
    let mut flags = column(compact::WAKING_FLAGS);
    for delta in column(compact::WAKING_TIMESTAMP) {
        time = time.wrapping_add(delta);
        let pid = Pid(Value::Number(pids.next().unwrap_or(0)).signed());
        let what = What::Waking {
            pid,
            prio: prio(Value::Number(prios.next().unwrap_or(120))),
            last_cpu: cpu(Value::Number(cpus.next().unwrap_or(0))),
        };
        let comm = comms.next().and_then(name).map(|comm| (pid, comm));
        let context = context(flags.next().unwrap_or(0));
        found.push(Found { time, by: None, context, what, comm: [comm, None], other: None });
    }
}

pub(super) fn ftrace<'a>(
    content: &'a [u8],
    states: &States,
    indexes: &NameIndexes,
) -> Option<Found<'a>> {
    let mut time = 0;
    let mut by = Pid::IDLE;
    let mut what = None;
    let mut flags = 0;
    let mut comm = [None, None];
    let mut of_others = None;
    for (field, value) in Fields(content) {
        match field {
            event::TIMESTAMP => time = value.number(),
            event::PID => by = Pid(value.signed()),
            event::COMMON_FLAGS => flags = value.number(),
            3.. => {
                let mut fields = [Value::Number(0); 8];
                for (field, value) in Fields(value.bytes()) {
                    if let Some(slot) = fields.get_mut(field as usize) {
                        *slot = value;
                    }
                }
                comm = named(field, &fields);
                let is_other = matches!(field, event::GENERIC | event::PRINT)
                    || native::by_field(field).is_some();
                of_others = is_other.then_some((field, value.bytes()));
                what = Some(
                    known(field, &fields, states)
                        .or_else(|| mark_event(field, value.bytes(), indexes))
                        .unwrap_or_else(|| other(field, value.bytes(), indexes)),
                );
            }
            _ => {}
        }
    }
    Some(Found { time, by: Some(by), context: context(flags), what: what?, comm, other: of_others })
}

fn mark_event(field: u32, content: &[u8], indexes: &NameIndexes) -> Option<What> {
    if field != event::PRINT {
        return None;
    }
    let (phase, pid, name, request) = mark(content)?;
    Some(What::Mark { pid, id: *indexes.marks.get(&name)?, phase, request })
}

/// The fields of a generic event as `name=value`, one behind the other; what our writer called `text`
/// had no name.
pub(super) fn spelt(content: &[u8]) -> String {
    let mut text = String::new();
    for (_, field) in Fields(content).filter(|(field, _)| *field == 2) {
        let mut name = "";
        let mut told = String::new();
        for (field, value) in Fields(field.bytes()) {
            match field {
                1 => name = std::str::from_utf8(value.bytes()).unwrap_or_default(),
                3 => told = String::from_utf8_lossy(value.bytes()).into_owned(),
                4 => told = value.number().cast_signed().to_string(),
                5 => told = value.number().to_string(),
                _ => {}
            }
        }
        if !text.is_empty() {
            text.push(' ');
        }
        if name != "text" {
            text.push_str(name);
            text.push('=');
        }
        text.push_str(&told);
    }
    text
}

/// The name of a generic event, which may be no text.
pub(super) fn generic(content: &[u8]) -> Option<&[u8]> {
    let name = Fields(content).find(|(field, _)| *field == 1)?.1.bytes();
    (!name.is_empty() && name.len() <= 256).then_some(name)
}

/// A tracepoint beyond the scheduler's: by name where it is a generic event.
fn other(field: u32, content: &[u8], indexes: &NameIndexes) -> What {
    let name = match native::by_field(field) {
        Some(Native { name, .. }) => Some(name.as_bytes()),
        None if field == event::PRINT => Some(&b"print"[..]),
        None => generic(content).filter(|_| field == event::GENERIC),
    };
    let format = name.and_then(|name| indexes.others.get(name)).copied().unwrap_or(0);
    What::Other { format }
}

fn known(kind: u32, f: &[Value<'_>; 8], states: &States) -> Option<What> {
    Some(match kind {
        event::SWITCH => What::Switch {
            prev: Pid(f[2].signed()),
            prev_prio: prio(f[3]),
            left: states.left(f[4].number()),
            next: Pid(f[6].signed()),
            next_prio: prio(f[7]),
        },
        event::WAKING => {
            What::Waking { pid: Pid(f[2].signed()), prio: prio(f[3]), last_cpu: cpu(f[5]) }
        }
        event::WAKEUP | event::WAKEUP_NEW => What::Wakeup {
            pid: Pid(f[2].signed()),
            prio: prio(f[3]),
            cpu: cpu(f[5]),
            new: kind == event::WAKEUP_NEW,
        },
        event::MIGRATE => What::Migrate { pid: Pid(f[2].signed()), from: cpu(f[4]), to: cpu(f[5]) },
        event::FORK => What::Fork { child: Pid(f[4].signed()) },
        event::EXEC => What::Exec { old: Pid(f[3].signed()) },
        event::EXIT => What::Exit { pid: Pid(f[2].signed()) },
        _ => return None,
    })
}

/// The names that an event tells.
fn named(kind: u32, f: &[Value<'_>; 8]) -> [Option<(Pid, schedlab_model::Comm)>; 2] {
    let name = |pid: usize, comm: usize| Some((Pid(f[pid].signed()), names::comm(f[comm].bytes())));
    match kind {
        event::SWITCH => [name(2, 1), name(6, 5)],
        event::WAKING | event::WAKEUP | event::WAKEUP_NEW | event::MIGRATE | event::EXIT => {
            [name(2, 1), None]
        }
        event::FORK => [name(4, 3), None],
        event::NEWTASK => [name(1, 2), None],
        event::RENAME => [name(1, 3), None],
        event::FREE => [name(2, 1), None],
        _ => [None, None],
    }
}
