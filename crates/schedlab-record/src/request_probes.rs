//! Requests of programs that write no marks: probes in their files, or tracepoints of system calls.
//!
//! A probe of a user program (Documentation/trace/uprobetracer.rst) belongs to a file: every process that runs it meets it.
//! It is defined as a dynamic event of tracefs, in a system of this recording's own, which the guard removes. Its records
//! are recorded as any other's; [`super::hits`] turns them into marks.

use super::programs;
use super::symbols::{GOROUTINE, Program, argument_register, fetch, register_of};
use super::{RecordError, tracepoints::Tracepoint};
use schedlab_model::{Cpu, Warning};
use schedlab_sys::guard::{Guard, Undo};
use schedlab_sys::perf::{Event, Source};
use schedlab_sys::tracefs::Tracefs;
use schedlab_workload::{CALLS, Edge, Requested};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The start of the systems of these probes; the recorder's process follows.
const SYSTEM: &str = "schedlab_requests_";
/// The field of a probe that holds what begin and end have in common.
pub(crate) const KEY: &str = "key";

/// What a hit costs its program, in nanoseconds, with the record that it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HitCost {
    /// Of a probe at an entry or of a static one.
    pub(crate) entry_ns: f64,
    /// Of a probe at the return of the same function, beyond that.
    pub(crate) return_ns: f64,
}

/// A request, and the events that begin and end it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Probed {
    /// The name of its marks.
    pub(crate) name: String,
    pub(crate) events: Vec<Hit>,
    /// Whether one may begin within another of the same thread: calls of one function do.
    pub(crate) nests: bool,
}

/// An event that begins or ends requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hit {
    pub(crate) system: String,
    pub(crate) event: String,
    pub(crate) ends: bool,
    /// The field that says which request it is; else the thread does.
    pub(crate) key: Option<String>,
    /// Whether the key is a returned value. A call that returns an error is then not a request.
    pub(crate) returned: bool,
    /// Whether it is a probe at a return.
    pub(crate) by_return: bool,
}

impl Probed {
    /// What a begin and an end cost a program, in nanoseconds; `None` for tracepoints of system calls.
    pub(crate) fn costs(&self, cost: HitCost) -> Option<[f64; 2]> {
        let of = |ends: bool| {
            let hit = self.events.iter().find(|hit| hit.ends == ends)?;
            let shares = ends && self.nests;
            match (hit.system.starts_with(SYSTEM), hit.by_return, shares) {
                (false, ..) => None,
                (true, false, _) => Some(cost.entry_ns),
                (true, true, true) => Some(cost.return_ns),
                // A return probe sets one at the entry.
                (true, true, false) => Some(cost.entry_ns + cost.return_ns),
            }
        };
        Some([of(false)?, of(true)?])
    }
}

/// Whether an event is a probe of ours, recorded for its requests alone.
pub(crate) fn is_own(point: &Tracepoint) -> bool {
    point.system.starts_with(SYSTEM)
}

/// What a recording has of the requests that it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Defined {
    pub(crate) requests: Vec<Probed>,
    /// Those that the recording goes on without.
    pub(crate) warnings: Vec<Warning>,
}

impl Defined {
    /// The events to record, as `Options::events` names them.
    pub(crate) fn events(&self) -> Vec<String> {
        let hits = self.requests.iter().flat_map(|request| &request.events);
        hits.map(|hit| format!("{}:{}", hit.system, hit.event)).collect()
    }
}

/// Finds the places of all requests, then sets a probe at each.
///
/// # Errors
/// [`RecordError::Request`] for one that cannot be had; one with a `?` is a warning then.
pub(crate) fn define(
    tracefs: &Tracefs,
    guard: &mut Guard,
    asked: &[Requested],
) -> Result<Defined, RecordError> {
    let mut defined = Defined::default();
    let mut programs = BTreeMap::new();
    for (index, request) in asked.iter().enumerate() {
        let places = places(request, tracefs, &mut programs);
        let done = places.and_then(|places| set(tracefs, guard, index, request, places));
        match done {
            Ok(probed) => defined.requests.push(probed),
            Err(why) if request.optional => {
                defined.warnings.push(left_out(&request.to_string(), &why));
            }
            Err(why) => {
                return Err(RecordError::Request { asked: request.to_string(), why });
            }
        }
    }
    Ok(defined)
}

/// What a recording has of requests where tracefs cannot be written.
///
/// # Errors
/// [`RecordError::Request`] for the first one that has no `?`.
pub(crate) fn without(asked: &[Requested], error: &std::io::Error) -> Result<Defined, RecordError> {
    let why = format!(
        "probes need a tracefs that can be written ({error}): run as root; the right to perf events is not enough"
    );
    let mut defined = Defined::default();
    for request in asked {
        let asked = request.to_string();
        if !request.optional {
            return Err(RecordError::Request { asked, why });
        }
        defined.warnings.push(left_out(&asked, &why));
    }
    Ok(defined)
}

fn left_out(asked: &str, why: &str) -> Warning {
    Warning::new("request-left-out", format!("no requests of '{asked}': {why}"), "")
}

/// Where an edge of a request is.
enum Place {
    Probe { at_return: bool, path: PathBuf, offset: u64, counter: Option<u64>, key: Option<String> },
    Call { event: String, key: Option<String> },
}

/// The places of a request's begin and of its end.
type Places = [Vec<Place>; 2];

fn places(
    request: &Requested,
    tracefs: &Tracefs,
    programs: &mut BTreeMap<String, Program>,
) -> Result<Places, String> {
    if request.program == CALLS {
        let of = |edge: &Edge| call(tracefs, edge).map(|place| vec![place]);
        return Ok([of(&request.begin)?, of(&request.end)?]);
    }
    if !programs.contains_key(&request.program) {
        let program = Program::open(&programs::find(&request.program)?)?;
        programs.insert(request.program.clone(), program);
    }
    let program = &programs[&request.program];
    if program.path.to_str().is_none_or(|path| path.contains(char::is_whitespace)) {
        return Err(format!("{}: the kernel takes no path with a space", program.path.display()));
    }
    let of = |edge: &Edge| in_program(program, edge, request.begin.key.is_none());
    Ok([of(&request.begin)?, of(&request.end)?])
}

fn in_program(program: &Program, edge: &Edge, by_thread: bool) -> Result<Vec<Place>, String> {
    let path = &program.path;
    let probes = program.static_probe(&edge.place);
    if !probes.is_empty() {
        if edge.at_return {
            return Err(format!(
                "'{}' is a static probe, which has no return: name two probes",
                edge.place
            ));
        }
        let place = |probe: &&super::symbols::StaticProbe| {
            let key = edge.key.as_deref().map(|key| static_key(probe, key)).transpose()?;
            let path = path.clone();
            let offset = probe.offset;
            let counter = probe.counter;
            Ok(Place::Probe { at_return: false, path, offset, counter, key })
        };
        return probes.iter().map(place).collect();
    }
    if program.is_go && edge.at_return {
        let name = &edge.place;
        return Err(format!(
            "{} is a Go program: Go moves its stacks, and a probe at a function's return would end it; name two \
             functions, as in '{name}..ANOTHER', which are paired by goroutine",
            path.display()
        ));
    }
    let key = match &edge.key {
        Some(key) => Some(function_key(key)?),
        None if program.is_go && by_thread => Some(format!("{GOROUTINE}:u64")),
        None => None,
    };
    let at_return = edge.at_return;
    let place = |offset| Place::Probe {
        at_return,
        path: path.clone(),
        offset,
        counter: None,
        key: key.clone(),
    };
    Ok(program.function(&edge.place)?.into_iter().map(place).collect())
}

fn static_key(probe: &super::symbols::StaticProbe, key: &str) -> Result<String, String> {
    let Some(number) = key.strip_prefix("$arg").and_then(|number| number.parse::<usize>().ok())
    else {
        return function_key(key);
    };
    let argument = probe.arguments.get(number.saturating_sub(1));
    let argument = argument.ok_or_else(|| {
        format!("the static probe '{}' has {} arguments", probe.name, probe.arguments.len())
    })?;
    fetch(argument).ok_or_else(|| {
        format!(
            "{key} of the static probe '{}' is {argument}, which the kernel cannot fetch",
            probe.name
        )
    })
}

fn function_key(key: &str) -> Result<String, String> {
    if key == "$retval" {
        return Ok("$retval:u64".into());
    }
    let register = match key.strip_prefix("$arg") {
        Some(number) => number.parse().ok().and_then(argument_register),
        None => register_of(key),
    };
    let register = register.ok_or_else(|| format!("{key} is not known on this architecture"))?;
    Ok(format!("{register}:u64"))
}

fn call(tracefs: &Tracefs, edge: &Edge) -> Result<Place, String> {
    let kind = if edge.at_return { "exit" } else { "enter" };
    let event = format!("sys_{kind}_{}", edge.place);
    let (_, format) = tracefs.event("syscalls", &event).map_err(|error| {
        match tracefs.events("syscalls").is_empty() {
            true => {
                "this kernel has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS)".to_owned()
            }
            false => format!("this kernel has no system call '{}' ({error})", edge.place),
        }
    })?;
    let point = Tracepoint { system: "syscalls".into(), name: event.clone(), id: 0, format };
    let key = match edge.key.as_deref() {
        None => None,
        Some("$retval") => Some("ret".to_owned()),
        Some(key) => {
            let number = key.strip_prefix("$arg").and_then(|number| number.parse::<usize>().ok());
            let mut arguments = point.names().skip_while(|name| *name != "__syscall_nr").skip(1);
            let field = number.and_then(|number| arguments.nth(number - 1));
            Some(
                field
                    .ok_or_else(|| {
                        format!("{key}: the call '{}' has no such argument", edge.place)
                    })?
                    .to_owned(),
            )
        }
    };
    Ok(Place::Call { event, key })
}

fn set(
    tracefs: &Tracefs,
    guard: &mut Guard,
    index: usize,
    request: &Requested,
    places: Places,
) -> Result<Probed, String> {
    let system = format!("{SYSTEM}{}", std::process::id());
    let mut events = Vec::new();
    for (side, places) in places.into_iter().enumerate() {
        let ends = side == 1;
        let edge = if ends { &request.end } else { &request.begin };
        let returned = edge.key.as_deref() == Some("$retval");
        for (number, place) in places.into_iter().enumerate() {
            match place {
                Place::Call { event, key } => {
                    events.push(Hit {
                        system: "syscalls".into(),
                        event,
                        ends,
                        key,
                        returned,
                        by_return: false,
                    });
                }
                Place::Probe { at_return, path, offset, counter, key } => {
                    let event = format!("r{index}_{}{number}", if ends { "end" } else { "begin" });
                    let kind = if at_return { 'r' } else { 'p' };
                    let counter = counter.map_or_else(String::new, |at| format!("(0x{at:x})"));
                    let fetched =
                        key.as_ref().map_or_else(String::new, |key| format!(" {KEY}={key}"));
                    let path = path.display();
                    let text =
                        format!("{kind}:{system}/{event} {path}:0x{offset:x}{counter}{fetched}");
                    guarded(tracefs, guard, &system, &event, &text)?;
                    let key = key.map(|_| KEY.to_owned());
                    events.push(Hit {
                        system: system.clone(),
                        event,
                        ends,
                        key,
                        returned,
                        by_return: at_return,
                    });
                }
            }
        }
    }
    Ok(Probed { name: request.name.clone(), events, nests: request.is_one_call() })
}

/// Defines a probe, to be removed even if this process is killed. The kernel looks at the instruction when the probe is
/// first used, so that is tried.
pub(crate) fn guarded(
    tracefs: &Tracefs,
    guard: &mut Guard,
    group: &str,
    name: &str,
    text: &str,
) -> Result<(), String> {
    let undo = Undo::RemoveProbe { group: group.to_owned(), name: name.to_owned() };
    let step = guard.before(undo).map_err(|error| format!("the guard's journal: {error}"))?;
    let refused = |what: &str, error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound if tracefs.root().join("uprobe_events").exists() => {
            format!("the file is gone ({what})")
        }
        std::io::ErrorKind::NotFound => {
            "this kernel has no probes of user programs (CONFIG_UPROBE_EVENTS)".to_owned()
        }
        _ => format!("the kernel refuses the probe '{text}' ({what}): {error}"),
    };
    if let Err(error) = tracefs.define(text) {
        let _ = guard.undo(step);
        return Err(refused("define", error));
    }
    // By perf, since ftrace would have the event in the buffers of others.
    let tried = tracefs
        .event(group, name)
        .map(|(id, _)| Event::open(Source::Tracepoint(id), Cpu(0), u32::MAX >> 1, false).map(drop));
    match tried {
        // Without the right to perf events the recording itself finds out.
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::PermissionDenied => {
            let _ = guard.undo(step);
            Err(refused("use", error))
        }
        _ => Ok(()),
    }
}

/// What can be named in a program, by lines; only names that hold `pattern`. The second is a note about what is missing.
///
/// # Errors
/// [`RecordError::Request`]: it cannot be found or read.
pub fn list(program: &str, pattern: &str) -> Result<(Vec<String>, Option<String>), RecordError> {
    let wrong = |why: String| RecordError::Request { asked: program.to_owned(), why };
    if program == CALLS {
        let tracefs = Tracefs::open().map_err(|error| super::error::tracefs_right(&error))?;
        let events = tracefs.events("syscalls");
        let calls = events.iter().filter_map(|event| event.strip_prefix("sys_enter_"));
        let named = calls.filter(|call| call.contains(pattern));
        return Ok((named.map(|call| format!("{:<9}{call}", "call")).collect(), None));
    }
    let path = programs::find(program).map_err(wrong)?;
    let program = Program::open(Path::new(&path)).map_err(wrong)?;
    Ok((program.list(pattern), program.unlisted()))
}
