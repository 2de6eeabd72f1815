//! From a task's object to its program, once for each of its instances.

use super::events::{Scope, list};
use super::json::Node;
use super::program::{Buffer, Event, Given, Measured, Phase, Program};
use super::{Names, place, wrong};
use crate::options::OptionError;
use crate::placement::MachineProperties;
use crate::plan::{Block, Placement, Plan, Policy, Task};
use crate::{BlockId, ChannelId, PlaceId, WordId};
use schedlab_model::Nanos;

/// What the file says of one task.
pub(super) struct Definition {
    pub(super) name: String,
    pub(super) instances: u32,
    role: u16,
    placement: Placement,
    given: Given,
    /// Buffers that each instance has for itself.
    own: Vec<Block>,
    shared: Vec<u32>,
    /// The barriers that it names, each once.
    pub(super) barriers: Vec<u32>,
    fills: bool,
}

impl Definition {
    pub(super) fn writes_device(&self) -> bool {
        self.events().any(|event| matches!(event, Event::Output(..)))
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.given.phases.iter().flat_map(|phase| &phase.events)
    }

    pub(super) fn start(
        &self,
        comm: String,
        plan: &mut Plan,
        names: &mut Names,
        device: ChannelId,
    ) {
        let mut given = Given { device, ..self.given.clone() };
        given.own = WordId(names.words);
        names.words += 1;
        given.buffers = self.own.iter().map(|&block| plan.block(block)).collect();
        if self.fills {
            let bytes = names.buffer_bytes;
            given.buffer = (plan.block(Block::Page { bytes }), bytes);
        }
        let mut blocks: Vec<u32> = given.buffers.iter().map(|block| block.0).collect();
        blocks.extend(self.fills.then_some(given.buffer.0.0));
        blocks.extend(&self.shared);
        plan.tasks.push(Task {
            comm,
            role: self.role,
            group: 0,
            placement: self.placement.clone(),
            sends: if self.writes_device() { vec![device.0] } else { Vec::new() },
            receives: Vec::new(),
            blocks,
            origin: None,
            behaviour: Box::new(Program::new(given)),
        });
    }
}

pub(super) fn read(
    name: &str,
    node: &Node,
    plan: &mut Plan,
    names: &mut Names,
    around: &MachineProperties,
    measured: Measured,
    default_policy: Option<Policy>,
) -> Result<Definition, OptionError> {
    let place = format!("tasks.{name}");
    let keys = node.object().ok_or_else(|| wrong(&place, "invalid value: use an object"))?;
    let get = |wanted: &str| keys.iter().find(|(key, _)| key == wanted).map(|(_, node)| node);
    let instances = match get("instance").map(Node::number) {
        None => 1,
        Some(Some(n @ 0..=100_000)) => u32::try_from(n).expect("checked"),
        Some(_) => return Err(wrong(&place, "invalid instance: use 0 to 100000")),
    };
    let delay = match get("delay").map(Node::number) {
        None => 0,
        Some(Some(n @ 0..)) => n.unsigned_abs(),
        Some(_) => return Err(wrong(&place, "invalid delay: use a number of microseconds")),
    };
    let role = plan.role(name);
    let mut placement = place::read(&place, keys, default_policy, &around.allowed)?;
    placement.policy = placement.policy.or(default_policy);
    let mut scope = Scope::new(name, plan, names, around);
    let phases = phases(&place, keys, node, &placement, &mut scope)?;
    let timers = scope.timers.len();
    let own = scope.own;
    let times = times(get("loop"), None, &place)?;
    if phases.iter().all(|phase| phase.events.is_empty()) {
        return Err(wrong(&place, "it has no events: run, sleep, timer, ..."));
    }
    let events = || phases.iter().flat_map(|phase| &phase.events);
    let named = events().filter_map(|event| match event {
        Event::Barrier(id) => Some(id.0),
        _ => None,
    });
    let barriers: std::collections::BTreeSet<u32> = named.collect();
    let shared = events().filter_map(|event| match event {
        Event::Walk { buffer: Buffer::Shared(block), .. }
        | Event::Chase { buffer: Buffer::Shared(block), .. } => Some(block.0),
        _ => None,
    });
    let shared: std::collections::BTreeSet<u32> = shared.collect();
    let fills = events().any(|event| matches!(event, Event::Fill(_)));
    let given = Given {
        phases,
        times,
        delay: Nanos::from_micros(delay),
        timers,
        piece: around.speed.saturating_mul(20).max(1),
        own: WordId(0),
        buffer: (BlockId(0), 0),
        buffers: Vec::new(),
        device: ChannelId(0),
        measured,
    };
    Ok(Definition {
        name: name.to_owned(),
        instances,
        role,
        placement,
        given,
        own,
        shared: shared.into_iter().collect(),
        barriers: barriers.into_iter().collect(),
        fills,
    })
}

/// Keys of a task that are neither events nor say where it runs.
const OF_TASK: [&str; 4] = ["loop", "phases", "instance", "delay"];

/// A task's phases; without any its events are one.
fn phases(
    place: &str,
    keys: &[(String, Node)],
    node: &Node,
    of_task: &Placement,
    scope: &mut Scope<'_>,
) -> Result<Vec<Phase>, OptionError> {
    let Some((_, node_phases)) = keys.iter().find(|(key, _)| key == "phases") else {
        let mut inline = phase(place, "", node, scope)?;
        inline.times = Some(1);
        return Ok(vec![inline]);
    };
    for (key, _) in keys {
        if !OF_TASK.contains(&key.as_str()) && !place::KEYS.contains(&key.as_str()) {
            let why = format!("'{key}' is outside the phases: move it into one of them");
            return Err(wrong(place, why));
        }
    }
    let all = node_phases.object();
    let all =
        all.ok_or_else(|| wrong(&format!("{place}.phases"), "invalid value: use an object"))?;
    let mut read = Vec::new();
    let mut places = Vec::new();
    for (key, node) in all {
        let place = format!("{place}.phases.{key}");
        read.push(phase(&place, key, node, scope)?);
        let keys = node.object().unwrap_or_default();
        places.push(place::read(&place, keys, of_task.policy, &scope.around.allowed)?);
    }
    let moves = places.iter().any(|place| place.cpus.is_some());
    for (phase, mut place) in read.iter_mut().zip(places) {
        // A phase without CPUs of its own has those of the task again.
        if moves && place.cpus.is_none() {
            place.cpus = of_task.cpus.clone().or_else(|| Some(scope.around.allowed.clone()));
        }
        if place != Placement::default() {
            let places = &mut scope.plan.places;
            let at = places.iter().position(|known| *known == place).unwrap_or_else(|| {
                places.push(place);
                places.len() - 1
            });
            let at = u32::try_from(at).expect("a file has fewer phases");
            phase.events.insert(0, Event::Place(PlaceId(at)));
        }
    }
    Ok(read)
}

fn phase(
    place: &str,
    name: &str,
    node: &Node,
    scope: &mut Scope<'_>,
) -> Result<Phase, OptionError> {
    let keys = node.object().ok_or_else(|| wrong(place, "invalid value: use an object"))?;
    let mut events = Vec::new();
    let mut repeat = None;
    for (key, node) in keys {
        match key.as_str() {
            "loop" => repeat = Some(node),
            key if place::KEYS.contains(&key) => {}
            key if name.is_empty() && OF_TASK.contains(&key) => {}
            key => events.extend(list(scope, place, key, node)?),
        }
    }
    let marks = &mut scope.plan.marks;
    let mark = u32::try_from(marks.len()).expect("a file has fewer phases");
    let task = scope.name;
    marks.push(if name.is_empty() { task.to_owned() } else { format!("{task}: {name}") });
    Ok(Phase { times: times(repeat, Some(1), place)?, events, mark })
}

/// `loop`: absent as `default` says, -1 without end.
fn times(
    node: Option<&Node>,
    default: Option<u64>,
    place: &str,
) -> Result<Option<u64>, OptionError> {
    match node.map(Node::number) {
        None => Ok(default),
        Some(Some(-1)) => Ok(None),
        Some(Some(n @ 1..)) => Ok(Some(n.unsigned_abs())),
        Some(_) => Err(wrong(place, "invalid loop: use -1 or a positive number")),
    }
}
