//! What a recording tells beside the scheduler's events: charges, and what the kernel knew at its decisions.
//!
//! Probes (`schedlab_record`) read the kernel's own numbers of a task and of its queue where it charges, wakes and
//! switches. Each probe's event follows the event that it belongs to, on the same CPU.

use super::charges::Charged;
use crate::policy::{Queue, Standing};
use schedlab_model::{Event, Pid, TraceInfo, What};
use std::collections::BTreeMap;

/// The events that tell what the kernel knew, as a recording asks for them where the kernel has them.
pub const ASKED: [&str; 7] = [
    "sched:sched_stat_runtime?",
    "schedlab:knows_charge?",
    "schedlab:knows_switch?",
    "schedlab:knows_waking?",
    "schedlab:knows_wakeup?",
    "schedlab:knows_new?",
    "schedlab:knows_select?",
];
/// The name of the tracepoint that tells charges.
const CHARGE: &str = "sched_stat_runtime";
/// The bit of a wakeup's flags that says that the waker will sleep soon (`WF_SYNC`).
const SYNC: u64 = 0x10;
/// How many events of its CPU lie between a probe's event and the one that it belongs to, at most.
const NEAR: usize = 4;

/// What the recorded kernel held of a task and its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) pid: Pid,
    pub(super) standing: Standing,
    pub(super) queue: Queue,
}

/// What a recording tells beside the scheduler's events.
#[derive(Clone, Debug, Default)]
pub struct Notes {
    /// What the kernel charged its tasks, in order.
    pub(super) charges: Vec<Charged>,
    /// What it held, by the number of the event at which it did.
    pub(super) held: BTreeMap<usize, Vec<Held>>,
    /// Whether a wakeup is sync, by the number of its first event.
    pub(super) sync: BTreeMap<usize, bool>,
}

impl Notes {
    /// Reads them from the arguments of the events that are not the scheduler's, which stand in their order.
    #[must_use]
    pub fn read(info: &TraceInfo, events: &[Event], arguments: &[String]) -> Self {
        let mut notes = Self::default();
        let name = |format: u16| info.others.get(usize::from(format)).map(|of| of.name.as_str());
        let others = events.iter().enumerate().filter_map(|(at, event)| match event.what {
            What::Other { format } => Some((at, name(format).unwrap_or(""))),
            _ => None,
        });
        let told: Vec<(usize, &str, &String)> =
            others.zip(arguments).map(|((at, name), text)| (at, name, text)).collect();
        let of_charges = told.iter().filter(|(_, name, _)| *name == CHARGE);
        notes.charges = of_charges.filter_map(|(at, _, text)| Charged::read(*at, text)).collect();
        for (at, name, text) in told {
            if let Some(kind) = name.strip_prefix("knows_") {
                notes.keep(events, at, kind, &Fields(text));
            }
        }
        notes.charge_virtual_times();
        notes
    }

    /// Notes of charges alone.
    #[must_use]
    pub fn of(charges: Vec<Charged>) -> Self {
        Self { charges, ..Self::default() }
    }

    /// Those of the first events.
    pub fn truncate(&mut self, events: usize) {
        self.charges.retain(|of| of.event < events);
        self.held.retain(|at, _| *at < events);
        self.sync.retain(|at, _| *at < events);
    }

    /// Whether it says of wakeups if they are sync.
    #[must_use]
    pub fn tells_sync(&self) -> bool {
        !self.sync.is_empty()
    }

    fn keep(&mut self, events: &[Event], at: usize, kind: &str, fields: &Fields<'_>) {
        let charges = &self.charges;
        let is_charge = |index| charges.binary_search_by_key(&index, |of| of.event).is_ok();
        let fits = |index: usize, pid: Option<Pid>| match (kind, events[index].what) {
            ("charge", What::Other { .. }) => is_charge(index),
            ("switch", What::Switch { prev, .. }) => pid == Some(prev),
            ("waking", What::Waking { pid: of, .. })
            | ("wakeup" | "new", What::Wakeup { pid: of, .. }) => pid == Some(of),
            ("select", What::Waking { .. }) => true,
            _ => false,
        };
        let prefixes: &[&str] = if kind == "switch" { &["prev_", "next_"] } else { &[""] };
        let first = fields.pid(prefixes[0]);
        let cpu = events[at].cpu;
        let before = (0..at).rev().filter(|&index| events[index].cpu == cpu).take(NEAR);
        let Some(index) = before.into_iter().find(|&index| fits(index, first)) else { return };
        if kind == "select" {
            if let Some(flags) = fields.number("", "flags") {
                self.sync.insert(index, flags.cast_unsigned() & SYNC != 0);
            }
            return;
        }
        let held: Vec<Held> = prefixes.iter().filter_map(|prefix| fields.held(prefix)).collect();
        self.held.insert(index, held);
    }

    /// Where the tracepoint of charges has no virtual time, the probe beside it does.
    fn charge_virtual_times(&mut self) {
        for of in &mut self.charges {
            let held = self.held.get(&of.event).into_iter().flatten();
            let mut vruntime =
                held.filter(|held| held.pid == of.pid).map(|held| held.standing.vruntime);
            of.charge.vruntime = of.charge.vruntime.or(vruntime.next_back());
        }
    }
}

/// The arguments of a probe: `pid=7 vruntime=99 …`.
struct Fields<'t>(&'t str);

impl Fields<'_> {
    fn number(&self, prefix: &str, field: &str) -> Option<i64> {
        let words = self.0.split(' ').filter_map(|word| word.split_once('='));
        let mut named = words.filter(|(name, _)| name.strip_prefix(prefix) == Some(field));
        let text = named.next()?.1;
        // Large numbers without a sign are small negative ones.
        text.parse::<i64>().ok().or_else(|| Some(text.parse::<u64>().ok()?.cast_signed()))
    }

    fn pid(&self, prefix: &str) -> Option<Pid> {
        Some(Pid(i32::try_from(self.number(prefix, "pid")?).ok()?))
    }

    fn held(&self, prefix: &str) -> Option<Held> {
        let of = |field: &str| self.number(prefix, field);
        let standing = Standing {
            vruntime: of("vruntime")?,
            deadline: of("deadline")?,
            vlag: of("vlag")?,
            slice: of("slice")?.cast_unsigned(),
            delayed: of("delayed")? != 0,
            relative: of("relative")? != 0,
            queued: of("queued")? != 0,
        };
        let queue = Queue {
            nr: of("nr")?.cast_unsigned(),
            sum: of("sum")?,
            load: of("load")?,
            zero: of("zero")?,
        };
        Some(Held { pid: self.pid(prefix)?, standing, queue })
    }
}
