//! One trace of nodes that were simulated apart, on one clock: each node on its CPUs of the whole machine, its tasks
//! under numbers that no other node has, and a mark for each change.

use schedlab_model::{
    Affinity, Cpu, CpuSet, Event, EventSource, Pid, Span, Topology, TraceInfo, What,
};
use schedlab_trace::EventWriter;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::vec;

/// The run of a node.
pub(super) struct Part {
    /// Its trace, whose CPUs are numbered from 0.
    pub(super) trace: PathBuf,
    /// The numbers that these CPUs have on the whole machine, ascending.
    pub(super) cpus: Vec<Cpu>,
    /// What happened at each of the times at which its speeds changed.
    pub(super) happened: Vec<Vec<String>>,
}

/// Writes the trace of all parts, on a machine of this topology.
///
/// # Errors
/// If a part cannot be read, or the file cannot be written.
pub(super) fn join(parts: &[Part], topology: Topology, out: &Path) -> anyhow::Result<()> {
    let mut lanes = Vec::new();
    let mut info: Option<TraceInfo> = None;
    for part in parts {
        let source = schedlab_trace::open(&part.trace)?;
        let after = info.iter().flat_map(|info| info.comms.keys()).map(|pid| pid.0).max();
        let lane = Lane::new(part, source, after.unwrap_or(0));
        info = Some(lane.added(info, part));
        lanes.push(lane);
    }
    let Some(mut info) = info else { return Ok(()) };
    for (lane, part) in lanes.iter_mut().zip(parts) {
        lane.name_marks(part, &mut info.marks);
    }
    info.topology = Some(topology);
    info.affinity.iter_mut().for_each(|all| all.sort_by_key(|one| (one.pid, one.at)));
    let mut writer = EventWriter::create(out, &info)?;
    let mut told = Vec::new();
    while let Some(lane) = first(&mut lanes)? {
        lane.take(&mut told);
        writer.events(&told)?;
        told.clear();
    }
    Ok(writer.finish()?)
}

/// The lane whose next event comes first; of equal ones, that of the first node.
fn first(lanes: &mut [Lane]) -> std::io::Result<Option<&mut Lane>> {
    let mut found = None;
    for (at, lane) in lanes.iter_mut().enumerate() {
        if let Some(event) = lane.peek()?
            && found.is_none_or(|(time, _)| event.time < time)
        {
            found = Some((event.time, at));
        }
    }
    Ok(found.map(|(_, at)| &mut lanes[at]))
}

/// The events of a part on their way into the whole.
struct Lane {
    source: Box<dyn EventSource>,
    batch: vec::IntoIter<Event>,
    next: Option<Event>,
    cpus: Vec<Cpu>,
    /// What is added to the numbers of its tasks.
    after: i32,
    /// For each of its marks, the marks of the whole that it becomes.
    marks: Vec<Vec<u32>>,
}

impl Lane {
    fn new(part: &Part, source: Box<dyn EventSource>, after: i32) -> Self {
        let (batch, cpus) = (Vec::new().into_iter(), part.cpus.clone());
        Self { source, batch, next: None, cpus, after, marks: Vec::new() }
    }

    /// What is known of the whole with this part.
    fn added(&self, whole: Option<TraceInfo>, part: &Part) -> TraceInfo {
        let own = self.source.info();
        let mut whole = whole.unwrap_or_else(|| TraceInfo {
            cpus: CpuSet::new(),
            comms: BTreeMap::new(),
            affinity: Some(Vec::new()),
            groups: None,
            marks: Vec::new(),
            span: own.span,
            ..own.clone()
        });
        part.cpus.iter().for_each(|cpu| whole.cpus.insert(*cpu));
        whole.comms.extend(own.comms.iter().map(|(pid, comm)| (self.pid(*pid), *comm)));
        let placed = |one: &Affinity| {
            let allowed = one.allowed.iter().map(|cpu| self.cpu(cpu)).collect();
            Affinity { pid: self.pid(one.pid), at: one.at, allowed }
        };
        let affinity = own.affinity.iter().flatten().map(placed);
        whole.affinity.get_or_insert_default().extend(affinity);
        whole.span = whole
            .span
            .zip(own.span)
            .map(|(a, b)| Span::new(a.start.min(b.start), a.end.max(b.end)));
        whole
    }

    /// Gives names to marks. Each change is a mark on each CPU of the node; that of its first CPU becomes the marks of
    /// what happened at that time.
    fn name_marks(&mut self, part: &Part, names: &mut Vec<String>) {
        let mut id_of = |name: &str| {
            let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
                names.push(name.to_owned());
                names.len() - 1
            });
            at as u32
        };
        let (own, cpus) = (&self.source.info().marks, part.cpus.len());
        let loads = own.len().saturating_sub(part.happened.len() * cpus);
        let mut marks: Vec<Vec<u32>> = own[..loads].iter().map(|name| vec![id_of(name)]).collect();
        for at_once in &part.happened {
            marks.push(at_once.iter().map(|name| id_of(name)).collect());
            marks.resize(marks.len() + cpus - 1, Vec::new());
        }
        self.marks = marks;
    }

    /// Its next event.
    fn peek(&mut self) -> std::io::Result<Option<Event>> {
        while self.next.is_none() {
            self.next = self.batch.next();
            let mut batch = Vec::new();
            if self.next.is_none() && !self.source.next(&mut batch)? {
                break;
            }
            if !batch.is_empty() {
                self.batch = batch.into_iter();
            }
        }
        Ok(self.next)
    }

    /// Takes its next event, which becomes events of the whole.
    fn take(&mut self, told: &mut Vec<Event>) {
        let Some(event) = self.next.take() else { return };
        let place =
            |what| Event { cpu: self.cpu(event.cpu), by: self.pid(event.by), what, ..event };
        match event.what {
            What::Mark { pid, id, phase, request } => {
                let pid = self.pid(pid);
                let ids = self.marks.get(id as usize).into_iter().flatten();
                told.extend(ids.map(|&id| place(What::Mark { pid, id, phase, request })));
            }
            what => told.push(place(self.placed(what))),
        }
    }

    /// What happened, with the numbers of the whole.
    fn placed(&self, what: What) -> What {
        match what {
            What::Switch { prev, prev_prio, left, next, next_prio } => {
                let (prev, next) = (self.pid(prev), self.pid(next));
                What::Switch { prev, prev_prio, left, next, next_prio }
            }
            What::Waking { pid, prio, last_cpu } => {
                What::Waking { pid: self.pid(pid), prio, last_cpu: self.cpu(last_cpu) }
            }
            What::Wakeup { pid, prio, cpu, new } => {
                What::Wakeup { pid: self.pid(pid), prio, cpu: self.cpu(cpu), new }
            }
            What::Migrate { pid, from, to } => {
                What::Migrate { pid: self.pid(pid), from: self.cpu(from), to: self.cpu(to) }
            }
            What::Fork { child } => What::Fork { child: self.pid(child) },
            What::Exec { old } => What::Exec { old: self.pid(old) },
            What::Exit { pid } => What::Exit { pid: self.pid(pid) },
            What::Comm { pid, comm } => What::Comm { pid: self.pid(pid), comm },
            what @ (What::Mark { .. } | What::Lost { .. } | What::Other { .. }) => what,
        }
    }

    fn cpu(&self, cpu: Cpu) -> Cpu {
        self.cpus.get(cpu.index()).copied().unwrap_or(cpu)
    }

    fn pid(&self, pid: Pid) -> Pid {
        if pid.is_idle() { pid } else { Pid(pid.0 + self.after) }
    }
}
