//! From the keys of a phase to events.

use super::json::Node;
use super::program::{Buffer, Event};
use super::{Names, number, wrong};
use crate::options::OptionError;
use crate::placement::MachineProperties;
use crate::plan::{Block, Plan};
use crate::{BarrierId, ForkId, LockId, QueueId, SemaphoreId};
use schedlab_model::Nanos;

const EVENTS: [&str; 20] = [
    "run", "runtime", "sleep", "timer", "lock", "unlock", "wait", "signal", "broad", "sync",
    "barrier", "suspend", "resume", "sem_post", "sem_wait", "mem", "memrun", "iorun", "fork",
    "yield",
];

/// What is needed to read the events of one task.
pub(super) struct Scope<'s> {
    pub(super) name: &'s str,
    pub(super) plan: &'s mut Plan,
    names: &'s mut Names,
    pub(super) around: &'s MachineProperties,
    pub(super) timers: Vec<String>,
    /// Buffers that each instance has for itself.
    pub(super) own: Vec<Block>,
}

impl<'s> Scope<'s> {
    pub(super) fn new(
        name: &'s str,
        plan: &'s mut Plan,
        names: &'s mut Names,
        around: &'s MachineProperties,
    ) -> Self {
        Self { name, plan, names, around, timers: Vec::new(), own: Vec::new() }
    }
}

pub(super) fn list(
    scope: &mut Scope<'_>,
    place: &str,
    key: &str,
    node: &Node,
) -> Result<Vec<Event>, OptionError> {
    let kind = EVENTS
        .iter()
        .filter(|kind| key.starts_with(**kind))
        .max_by_key(|kind| kind.len())
        .ok_or_else(|| {
        wrong(place, format!("unknown event '{key}': use {}", EVENTS.join(", ")))
    })?;
    let place = format!("{place}.{key}");
    match *kind {
        "wait" => scope.wait(&place, node),
        "sync" => scope.sync(&place, node),
        // Without memory, unlike a semaphore: who is not suspended yet is not woken.
        "suspend" => {
            let row = scope.row(&suspended(scope.name));
            Ok(vec![Event::StandInRow(row), Event::AwaitSignal])
        }
        kind => scope.one(kind, &place, node).map(|event| vec![event]),
    }
}

/// The name of the row of a suspended task; a name of the file cannot hold the zero byte.
fn suspended(task: &str) -> String {
    format!("\0{task}")
}

fn member<'n>(node: &'n Node, wanted: &str) -> Option<&'n Node> {
    node.object()?.iter().find(|(key, _)| key == wanted).map(|(_, node)| node)
}

impl Scope<'_> {
    fn one(&mut self, kind: &str, place: &str, node: &Node) -> Result<Event, OptionError> {
        let micros = || match node.number() {
            Some(n) if n >= 0 => Ok(Nanos::from_micros(n.unsigned_abs())),
            _ => Err(wrong(place, "invalid value: use a number of microseconds")),
        };
        let bytes = || match node.number() {
            Some(n) if n >= 0 => Ok(n.unsigned_abs()),
            _ => Err(wrong(place, "invalid value: use a number of bytes")),
        };
        let name = || {
            let name = node.text().filter(|name| !name.is_empty());
            name.ok_or_else(|| wrong(place, "invalid value: use a text"))
        };
        Ok(match kind {
            "runtime" => Event::Runtime(micros()?),
            "run" => Event::Run(micros()?.0.saturating_mul(self.around.speed) / 1_000),
            "sleep" => Event::Sleep(micros()?),
            "lock" => Event::Lock(LockId(number(&mut self.names.locks, name()?))),
            "unlock" => Event::Unlock(LockId(number(&mut self.names.locks, name()?))),
            "barrier" => Event::Barrier(BarrierId(number(&mut self.names.barriers, name()?))),
            "resume" => {
                let task = name()?;
                self.names.resumed.push((place.to_owned(), task.to_owned()));
                Event::Signal { row: self.row(&suspended(task)), most: u32::MAX }
            }
            "signal" => Event::Signal { row: self.row(name()?), most: 1 },
            "broad" => Event::Signal { row: self.row(name()?), most: u32::MAX },
            "sem_post" => Event::Post(SemaphoreId(number(&mut self.names.semaphores, name()?))),
            "sem_wait" => {
                Event::AwaitPost(SemaphoreId(number(&mut self.names.semaphores, name()?)))
            }
            "mem" => Event::Fill(bytes()?),
            "iorun" => Event::Output(bytes()?, self.names.buffer_bytes),
            "memrun" => self.memory(place, node)?,
            "fork" => Event::Fork(ForkId(number(&mut self.names.forks, name()?))),
            "timer" => self.timer(place, node)?,
            _ => Event::Yield,
        })
    }

    fn row(&mut self, name: &str) -> QueueId {
        QueueId(number(&mut self.names.rows, name))
    }

    /// The condition and the lock of a `wait` or `sync`.
    fn condition<'n>(place: &str, node: &'n Node) -> Result<(&'n str, &'n str), OptionError> {
        let get = |wanted: &str| {
            let why = || format!("it names no {wanted}: {{\"ref\": CONDITION, \"mutex\": LOCK}}");
            member(node, wanted).and_then(Node::text).ok_or_else(|| wrong(place, why()))
        };
        Ok((get("ref")?, get("mutex")?))
    }

    /// As `pthread_cond_wait`: the lock is free while the task waits, and its own again after.
    fn wait(&mut self, place: &str, node: &Node) -> Result<Vec<Event>, OptionError> {
        let (name, mutex) = Self::condition(place, node)?;
        let row = self.row(name);
        let lock = LockId(number(&mut self.names.locks, mutex));
        Ok(vec![Event::StandInRow(row), Event::Unlock(lock), Event::AwaitSignal, Event::Lock(lock)])
    }

    /// Lock, signal, wait, unlock.
    fn sync(&mut self, place: &str, node: &Node) -> Result<Vec<Event>, OptionError> {
        let (name, mutex) = Self::condition(place, node)?;
        let row = self.row(name);
        let lock = LockId(number(&mut self.names.locks, mutex));
        let mut events = vec![Event::Lock(lock), Event::Signal { row, most: 1 }];
        events.extend(self.wait(place, node)?);
        events.push(Event::Unlock(lock));
        Ok(events)
    }

    fn timer(&mut self, place: &str, node: &Node) -> Result<Event, OptionError> {
        let period = match member(node, "period").and_then(Node::number) {
            Some(n) if n > 0 => Nanos::from_micros(n.unsigned_abs()),
            _ => {
                let why = "it has no period: {\"ref\": NAME, \"period\": MICROSECONDS}";
                return Err(wrong(place, why));
            }
        };
        let absolute = match member(node, "mode").map(Node::text) {
            None | Some(Some("relative")) => false,
            Some(Some("absolute")) => true,
            Some(_) => return Err(wrong(place, "its mode is relative or absolute")),
        };
        // "unique" gives each task a timer of its own, as all have here.
        let name = member(node, "ref").and_then(Node::text);
        let name = name.unwrap_or_else(|| place.rsplit('.').next().unwrap_or(place));
        let at = self.timers.iter().position(|known| known == name).unwrap_or_else(|| {
            self.timers.push(name.to_owned());
            self.timers.len() - 1
        });
        Ok(Event::Timer { index: at, period, absolute })
    }

    fn memory(&mut self, place: &str, node: &Node) -> Result<Event, OptionError> {
        let number = |wanted: &str, default: Option<u32>, least: u32| {
            let given = match member(node, wanted) {
                None => default,
                Some(node) => node.number().and_then(|n| u32::try_from(n).ok()),
            };
            let why = || format!("invalid value {wanted}: use {least} to {}", u32::MAX);
            given.filter(|n| *n >= least).ok_or_else(|| wrong(place, why()))
        };
        let bytes = number("size", None, 8)?;
        let count = number("count", None, 0)?;
        let chases = match member(node, "type").and_then(Node::text) {
            Some("chase") => true,
            Some("read" | "write") => false,
            _ => return Err(wrong(place, "its type is read, write or chase")),
        };
        let block = if chases {
            let stride = number("stride", Some(64), 8)?;
            if stride % 8 != 0 || stride > bytes {
                return Err(wrong(place, "stride is a multiple of 8 bytes, and no more than size"));
            }
            let scattered = match member(node, "pattern").map(Node::text) {
                None | Some(Some("random")) => true,
                Some(Some("sequential")) => false,
                Some(_) => return Err(wrong(place, "its pattern is random or sequential")),
            };
            Block::Chain { bytes, stride, scattered }
        } else {
            Block::Page { bytes }
        };
        let buffer = match member(node, "ref").and_then(Node::text) {
            None => {
                self.own.push(block);
                Buffer::Own(self.own.len() - 1)
            }
            Some(name) => Buffer::Shared(self.shared(place, name, block)?),
        };
        Ok(match chases {
            true => Event::Chase { buffer, steps: count.into() },
            false => {
                let writes = member(node, "type").and_then(Node::text) == Some("write");
                Event::Walk { buffer, bytes: count.into(), writes }
            }
        })
    }

    /// A buffer by its name, the same for all that name it.
    fn shared(
        &mut self,
        place: &str,
        name: &str,
        block: Block,
    ) -> Result<crate::BlockId, OptionError> {
        match self.names.buffers.get(name) {
            Some((known, id)) if *known == block => Ok(*id),
            Some(_) => {
                let why = format!("'{name}' has another size, stride or pattern elsewhere");
                Err(wrong(place, why))
            }
            None => {
                let id = self.plan.block(block);
                self.names.buffers.insert(name.to_owned(), (block, id));
                Ok(id)
            }
        }
    }
}
