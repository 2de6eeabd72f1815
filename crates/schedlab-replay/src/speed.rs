//! How fast CPUs were during bursts: their frequency where it was recorded, busy siblings of their cores, and what a
//! hypervisor took.
//!
//! A part of a burst at a recorded frequency counts as the time that its cycles take at the highest frequency of the
//! trace. Beside a busy sibling it counts as a stated part of its time, or as of unknown speed. Steal is recorded for all
//! CPUs together, so each burst loses the same share.

use schedlab_model::{Cpu, Nanos, OtherFormat, TraceInfo};
use schedlab_timeline::OtherEvent;

/// What is known of a CPU at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Its frequency in kHz, where it was recorded.
    pub(crate) khz: Option<u64>,
    /// Whether another thread of its core works.
    pub(crate) is_shared: bool,
}

/// A part of a burst at one pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The index of the burst's step.
    pub(crate) step: usize,
    pub(crate) time: u64,
    pub(crate) pace: Pace,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Paces {
    /// By the index of other tracepoints: whether it tells a frequency.
    tells: Vec<bool>,
    /// The CPUs of each CPU's core, but itself.
    siblings: Vec<Vec<Cpu>>,
    khz: Vec<Option<u64>>,
    busy: Vec<bool>,
    highest: u64,
}

impl Paces {
    pub(crate) fn of(info: &TraceInfo) -> Self {
        let tells = |other: &OtherFormat| other.name == "cpu_frequency";
        let places = info.topology.as_ref().map_or(&[][..], |topology| topology.places());
        let cpus = places.iter().map(|place| place.cpu.index() + 1).max().unwrap_or(0);
        let mut siblings = vec![Vec::new(); cpus];
        for place in places {
            let of_core = places.iter().filter(|one| one.core == place.core && one != &place);
            siblings[place.cpu.index()] = of_core.map(|one| one.cpu).collect();
        }
        let tells = info.others.iter().map(tells).collect();
        Self { tells, siblings, ..Self::default() }
    }

    pub(crate) fn has_frequencies(&self) -> bool {
        self.tells.contains(&true)
    }

    pub(crate) fn wants(&self, format: u16) -> bool {
        self.tells.get(usize::from(format)).copied().unwrap_or(false)
    }

    /// The CPU that has another frequency from now on, and which.
    pub(crate) fn reads(&self, event: &OtherEvent<'_>) -> Option<(Cpu, u64)> {
        let cpu = u16::try_from(event.number("cpu_id")?).ok()?;
        Some((Cpu(cpu), event.number("state").filter(|khz| *khz > 0)?))
    }

    pub(crate) fn has(&mut self, cpu: Cpu, khz: u64) {
        self.highest = self.highest.max(khz);
        if cpu.index() >= self.khz.len() {
            self.khz.resize(cpu.index() + 1, None);
        }
        self.khz[cpu.index()] = Some(khz);
    }

    /// A CPU works or idles from now on; whether that is a change.
    pub(crate) fn works(&mut self, cpu: Cpu, busy: bool) -> bool {
        if cpu.index() >= self.busy.len() {
            self.busy.resize(cpu.index() + 1, false);
        }
        std::mem::replace(&mut self.busy[cpu.index()], busy) != busy
    }

    pub(crate) fn siblings(&self, cpu: Cpu) -> &[Cpu] {
        self.siblings.get(cpu.index()).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn pace(&self, cpu: Cpu) -> Pace {
        let busy = |cpu: &Cpu| self.busy.get(cpu.index()).copied().unwrap_or(false);
        Pace {
            khz: self.khz.get(cpu.index()).copied().flatten(),
            is_shared: self.siblings(cpu).iter().any(busy),
        }
    }

    /// By how much parts of bursts are converted.
    pub(crate) fn measure(&self, smt_percent: Option<u32>, steal: f64) -> Measure {
        Measure { highest: self.highest, smt_percent, steal }
    }
}

/// How parts of bursts are converted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measure {
    highest: u64,
    smt_percent: Option<u32>,
    /// The share of CPU time that a hypervisor took.
    steal: f64,
}

impl Measure {
    /// The time that a part takes at full speed, and how much of it is of unknown speed.
    pub(crate) fn convert(&self, part: &Part) -> (Nanos, Nanos) {
        let mut time = part.time as f64 * (1.0 - self.steal);
        let mut known = false;
        if let Some(khz) = part.pace.khz {
            time *= khz as f64 / self.highest.max(1) as f64;
            known = true;
        }
        match self.smt_percent {
            Some(percent) if part.pace.is_shared => time *= f64::from(percent) / 100.0,
            None if part.pace.is_shared => known = false,
            _ => {}
        }
        let time = Nanos(time.round() as u64);
        (time, if known { Nanos::ZERO } else { time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(khz: Option<u64>, is_shared: bool) -> Part {
        Part { step: 0, time: 1_000, pace: Pace { khz, is_shared } }
    }

    #[test]
    fn a_part_takes_the_time_of_its_cycles_at_the_highest_frequency() {
        let mut paces = Paces::default();
        paces.has(Cpu(0), 1_000_000);
        paces.has(Cpu(1), 4_000_000);
        let measure = paces.measure(None, 0.0);
        let convert = |khz, is_shared| measure.convert(&part(khz, is_shared));
        assert_eq!(convert(Some(1_000_000), false), (Nanos(250), Nanos::ZERO));
        assert_eq!(convert(Some(4_000_000), true), (Nanos(1_000), Nanos(1_000)));
        assert_eq!(convert(None, false), (Nanos(1_000), Nanos(1_000)));
        let stated = paces.measure(Some(60), 0.1).convert(&part(Some(2_000_000), true));
        assert_eq!(stated, (Nanos(270), Nanos::ZERO), "1000 x 0.9 x 0.5 x 0.6");
    }
}
