//! Parts of a machine that are off by default, and were not compared with a kernel: capacities, noise, skewed ticks,
//! interrupts, steal, frequencies, shared bandwidth.

use super::each_cpu::{Takes, bytes, frequencies, gaps, values};
use super::setting::{OF_NAME, Wrong, take};
use crate::World;
use crate::board::Frequency;
use crate::policy_view::FULL_CAPACITY;
use schedlab_model::{Place, Topology, percentage};
use schedlab_workload::MachineName;

#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// What each CPU can do, in 1,024ths of the fastest.
    pub(super) capacities: Vec<u64>,
    /// By how much costs vary, in millionths.
    noise: u64,
    /// Whether the ticks of CPUs are spread (`skew_tick=1`).
    pub(super) skew_tick: bool,
    /// Whether one CPU works at a time.
    pub(super) turns: bool,
    /// What interrupts, and what the hypervisor takes of each CPU.
    irq: Vec<Option<Takes>>,
    steal: Vec<Option<Takes>>,
    /// Between which limits the kernel chooses each CPU's frequency.
    pub(super) frequency: Vec<Option<Frequency>>,
    /// Bytes a second that the CPUs of each node, or of each LLC, share.
    node_bandwidth: Option<u64>,
    llc_bandwidth: Option<u64>,
}

impl Parts {
    pub(super) fn take(name: &mut MachineName, topology: &Topology) -> Result<Self, Wrong> {
        let skew_tick: bool = take(name, "skew-tick")?.unwrap_or(false);
        let turns: bool = take(name, "turns")?.unwrap_or(false);
        let (irq, steal) = takes(name, topology.places().len())?;
        let frequency = match name.settings.remove("frequency") {
            Some(text) => frequencies(&text, topology.places().len())?,
            None => Vec::new(),
        };
        let (node_bandwidth, llc_bandwidth) = bandwidths(name)?;
        let capacities = capacities(name, topology)?;
        let noise = noise(name)?;
        Ok(Self {
            capacities,
            noise,
            skew_tick,
            turns,
            irq,
            steal,
            frequency,
            node_bandwidth,
            llc_bandwidth,
        })
    }

    /// Makes a machine of other CPUs of it: each is as the CPU of this number was, or usual if there was none.
    pub(super) fn arrange(&mut self, from: &[usize]) {
        let of = |all: &[Option<Takes>]| {
            from.iter().map(|&cpu| all.get(cpu).copied().flatten()).collect()
        };
        self.irq = of(&self.irq);
        self.steal = of(&self.steal);
        if self.has_frequencies() {
            let of = |cpu: &usize| self.frequency.get(*cpu).copied().flatten();
            self.frequency = from.iter().map(of).collect();
        }
        let capacity = |cpu: &usize| self.capacities.get(*cpu).copied().unwrap_or(FULL_CAPACITY);
        self.capacities = from.iter().map(capacity).collect();
    }

    /// Whether the kernel changes frequencies.
    pub(super) fn has_frequencies(&self) -> bool {
        self.frequency.iter().any(Option::is_some)
    }

    /// Those that are in use, a sentence each.
    pub(super) fn notes(&self) -> Vec<String> {
        let takes = |takes: &[Option<Takes>]| takes.iter().any(Option::is_some);
        let slow = self.capacities.iter().any(|of| *of < 1_024);
        let parts = [
            ("capacity", "CPUs differ in what they can do", slow),
            ("noise", "costs vary by chance", self.noise > 0),
            ("skew-tick", "the ticks of CPUs are spread", self.skew_tick),
            ("turns", "CPUs take turns", self.turns),
            ("irq", "interrupts take time from tasks", takes(&self.irq)),
            ("steal", "the hypervisor takes time from tasks", takes(&self.steal)),
            ("frequency", "CPUs change their frequency", self.has_frequencies()),
            ("node-bandwidth", "CPUs of a node share memory", self.node_bandwidth.is_some()),
            ("llc-bandwidth", "CPUs of an LLC share memory", self.llc_bandwidth.is_some()),
        ];
        let used = parts.into_iter().filter(|part| part.2);
        used.map(|(name, what, _)| format!("{name} was not validated against a kernel: {what}"))
            .collect()
    }

    pub(super) fn set_up(&self, topology: &Topology, world: &mut World, seed: u64) {
        let begin = world.began_at();
        let mut all = gaps(&self.irq, seed, false, begin);
        all.extend(gaps(&self.steal, seed, true, begin));
        world.set_gaps(&all);
        world.set_noise(self.noise, seed);
        let places = topology.places();
        let first = |same: &dyn Fn(&Place, &Place) -> bool| -> Vec<usize> {
            let of = |own: &Place| places.iter().position(|place| same(place, own)).unwrap_or(0);
            places.iter().map(of).collect()
        };
        if let Some(limit) = self.node_bandwidth {
            world.share_bandwidth(limit, first(&|a, b| a.node == b.node));
        }
        if let Some(limit) = self.llc_bandwidth {
            world.share_bandwidth(limit, first(&|a, b| a.llc == b.llc));
        }
    }
}

/// What each CPU can do: 1,024 where nothing is given.
fn capacities(name: &mut MachineName, topology: &Topology) -> Result<Vec<u64>, Wrong> {
    let cpus = topology.places().len();
    let Some(text) = name.settings.remove("capacity") else { return Ok(vec![1_024; cpus]) };
    let read = |text: &str| match text.parse() {
        Ok(capacity @ 1..=1_024_u64) => Ok(capacity),
        _ => Err("use 1 to 1024, in 1024ths of the fastest CPU".to_owned()),
    };
    let given = values("capacity", &text, cpus, &read)?;
    let all: Vec<u64> = given.into_iter().map(|one| one.unwrap_or(1_024)).collect();
    let wrong =
        |why: &str| Err(Wrong::new("capacity", format!("{OF_NAME}invalid capacity: {why}")));
    if !all.contains(&1_024) {
        return wrong("the fastest CPU has 1024: scale the others by it");
    }
    if topology.groups(|place| place.core).len() < cpus && all.iter().any(|one| *one != 1_024) {
        return wrong("Linux does not support it with threads of cores: use smt=1");
    }
    Ok(all)
}

/// By how much costs vary, in millionths.
fn noise(name: &mut MachineName) -> Result<u64, Wrong> {
    let Some(text) = name.settings.remove("noise") else { return Ok(0) };
    let whole = |percent: &f64| (0.0..=90.0).contains(percent) && percent.fract() == 0.0;
    percentage(&text).filter(whole).map(|percent| percent as u64 * 10_000).ok_or_else(|| {
        let text = text.escape_default();
        let why = format!("{OF_NAME}invalid noise={text}: use 0% to 90%, in whole percents");
        Wrong::new("noise", why)
    })
}

/// What interrupts, and what the hypervisor takes of each CPU.
type Both = (Vec<Option<Takes>>, Vec<Option<Takes>>);

fn takes(name: &mut MachineName, cpus: usize) -> Result<Both, Wrong> {
    let mut read = |field: &str| match name.settings.remove(field) {
        Some(text) => values(field, &text, cpus, &Takes::read),
        None => Ok(vec![None; cpus]),
    };
    let irq = read("irq")?;
    let steal = read("steal")?;
    let share = |takes: &Option<Takes>| takes.map_or(0, Takes::share);
    let crowded = |(irq, steal)| share(irq) + share(steal) > 950_000;
    if let Some(cpu) = irq.iter().zip(&steal).position(crowded) {
        let why = format!("irq and steal take more than 95 % of CPU {cpu}: use less");
        return Err(Wrong::new("irq", OF_NAME.to_owned() + &why));
    }
    Ok((irq, steal))
}

/// The bandwidth of each node, and of each LLC.
fn bandwidths(name: &mut MachineName) -> Result<(Option<u64>, Option<u64>), Wrong> {
    let mut read = |field: &str| -> Result<Option<u64>, Wrong> {
        let Some(text) = name.settings.remove(field) else { return Ok(None) };
        let wrong = |why| format!("{OF_NAME}invalid {field}={}: {why}", text.escape_default());
        bytes(&text).map(Some).map_err(|why| Wrong::new(field, wrong(why)))
    };
    let both = (read("node-bandwidth")?, read("llc-bandwidth")?);
    if both.0.is_some() && both.1.is_some() {
        let why = format!("{OF_NAME}node-bandwidth and llc-bandwidth exclude each other: use one");
        return Err(Wrong::new("llc-bandwidth", why));
    }
    Ok(both)
}
