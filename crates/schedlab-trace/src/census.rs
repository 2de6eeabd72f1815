//! How many events of each kind each CPU logged, and how many were lost.

use schedlab_model::{Cpu, Event, EventSource, Kind, Nanos, Span, What};
use std::collections::BTreeMap;
use std::io;

/// Counts over a whole trace, by the names under which the kernel logged the events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Census {
    /// Events by CPU, then by name (`sched_switch`, `irq_handler_entry`, `mark`).
    pub per_cpu: BTreeMap<Cpu, BTreeMap<String, u64>>,
    /// Number of events that are known to be lost.
    pub lost: u64,
    /// Number of losses whose size is not known.
    pub losses_unknown: u64,
    /// Time of the first and of the last event; `None` when there are none.
    pub span: Option<Span>,
    /// Arguments of the first event of each tracepoint beyond the scheduler's, by name. Empty if
    /// the source does not give arguments.
    pub examples: BTreeMap<String, String>,
}

impl Census {
    /// Reads `source` to its end.
    ///
    /// # Errors
    /// The source could not be read.
    pub fn of(source: &mut dyn EventSource) -> io::Result<Self> {
        let mut counts = Counts::default();
        let mut batch = Vec::new();
        while source.next(&mut batch)? {
            for (index, event) in batch.iter().enumerate() {
                counts.add(event);
                if let What::Other { format } = event.what {
                    let arguments = || source.arguments(index).unwrap_or_default().into_owned();
                    counts.examples.entry(format).or_insert_with(arguments);
                }
            }
        }
        Ok(counts.named(source))
    }

    /// Events of each name over all CPUs.
    #[must_use]
    pub fn events(&self) -> BTreeMap<&str, u64> {
        let mut events = BTreeMap::new();
        for (name, count) in self.per_cpu.values().flatten() {
            *events.entry(name.as_str()).or_insert(0) += count;
        }
        events
    }

    /// The number of events of all kinds and CPUs.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.per_cpu.values().flatten().map(|(_, count)| count).sum()
    }
}

/// Counts by number, named at the end.
#[derive(Default)]
struct Counts {
    kinds: Vec<[u64; Kind::ALL.len()]>,
    others: BTreeMap<(Cpu, u16), u64>,
    lost: u64,
    losses_unknown: u64,
    span: Option<Span>,
    examples: BTreeMap<u16, String>,
}

impl Counts {
    fn add(&mut self, event: &Event) {
        // Names may be told long before anything happens: perf's own process is named while it prepares.
        if self.span.is_some() || !matches!(event.what, What::Comm { .. }) {
            let span = self.span.get_or_insert(Span::new(event.time, event.time));
            span.end = event.time;
        }
        match event.what {
            // A change of name is made from the events around it; it was not logged.
            What::Comm { .. } | What::Online { .. } => {}
            What::Lost { count: Some(count) } => self.lost += u64::from(count.get()),
            What::Lost { count: None } => self.losses_unknown += 1,
            What::Other { format } => *self.others.entry((event.cpu, format)).or_insert(0) += 1,
            what => {
                let cpu = event.cpu.index();
                if cpu >= self.kinds.len() {
                    self.kinds.resize(cpu + 1, [0; Kind::ALL.len()]);
                }
                self.kinds[cpu][what.kind() as usize] += 1;
            }
        }
    }

    fn named(self, source: &dyn EventSource) -> Census {
        let mut per_cpu = BTreeMap::<Cpu, BTreeMap<String, u64>>::new();
        for (cpu, counts) in self.kinds.iter().enumerate() {
            for kind in Kind::ALL.into_iter().filter(|&kind| counts[kind as usize] > 0) {
                let cpu = Cpu(u16::try_from(cpu).expect("it came in as a Cpu"));
                let names = per_cpu.entry(cpu).or_default();
                *names.entry(kind.name().to_owned()).or_insert(0) += counts[kind as usize];
            }
        }
        for ((cpu, format), count) in self.others {
            let name = name(source, format);
            *per_cpu.entry(cpu).or_default().entry(name.to_owned()).or_insert(0) += count;
        }
        let told = self.examples.into_iter().filter(|(_, arguments)| !arguments.is_empty());
        let examples = told.map(|(format, arguments)| (name(source, format).to_owned(), arguments));
        Census {
            per_cpu,
            lost: self.lost,
            losses_unknown: self.losses_unknown,
            span: self.span,
            examples: examples.collect(),
        }
    }
}

/// The name of a tracepoint beyond the scheduler's.
fn name(source: &dyn EventSource, format: u16) -> &str {
    let known = source.info().others.get(usize::from(format));
    known.map_or("unknown", |other| other.name.as_str())
}

impl Census {
    /// From the first to the last event; zero without events.
    #[must_use]
    pub fn duration(&self) -> Nanos {
        self.span.map_or(Nanos::ZERO, Span::duration)
    }
}
