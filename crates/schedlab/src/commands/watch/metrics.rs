//! Sums over all windows as OpenMetrics: by control group, with a limit on the number of series.

use super::window::Window;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, MetricEncoder, NoLabelSet, prometheus_text, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use schedlab_model::Nanos;
use schedlab_stats::Histogram;
use schedlab_timeline::WaitCause;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bounds of the histograms: one below each power of two of nanoseconds, where buckets of ours end too, so that counts are
/// exact. From 1 µs to 17 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=34;
/// Series of a group: two histograms with their count and sum, and the counters.
const SERIES_OF_A_GROUP: usize = 2 * (35 - 10 + 3) + COUNTERS.len() + WaitCause::ALL.len();
/// A group that had no task for so long gives its place to another one.
const IDLE: Nanos = Nanos::from_secs(300);
/// The label of groups that have no place, and of tasks whose group is not known.
const OTHERS: &str = "(others)";

/// Counters of a group: name, help, and what it counts.
type Counter = (&'static str, &'static str, fn(&Sum) -> Nanos);
const COUNTERS: [Counter; 4] = [
    ("schedlab_cpu", "Time in which tasks of the group ran", |sum| sum.ran),
    ("schedlab_throttled", "Time in which tasks of the group waited for a CPU quota", |sum| {
        sum.parts[WaitCause::Throttled as usize]
    }),
    ("schedlab_lost_cpu", "CPU time that was lost while tasks of the group waited", |sum| sum.lost),
    (
        "schedlab_group_throttled",
        "Time in which the group was throttled, summed over CPUs",
        |sum| sum.group_throttled,
    ),
];

/// What a group did since the start.
#[derive(Clone, Debug, Default)]
struct Sum {
    wakeup: Histogram,
    run_delay: Histogram,
    ran: Nanos,
    lost: Nanos,
    group_throttled: Nanos,
    parts: [Nanos; WaitCause::ALL.len()],
    seen: Nanos,
}

/// The sums, and the text that is served.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    all: Arc<Mutex<All>>,
    /// As OpenMetrics, and in the older format of Prometheus.
    texts: Arc<Mutex<[Arc<str>; 2]>>,
    /// Groups that can have series of their own.
    places: usize,
}

#[derive(Debug, Default)]
struct All {
    groups: BTreeMap<String, Sum>,
    cpus: BTreeMap<u16, (Nanos, Nanos)>,
    windows: u64,
    events: u64,
    partial: u64,
    left_out: u64,
}

impl Metrics {
    /// Sums that take at most about so many series.
    pub(super) fn new(series: usize) -> Self {
        let places = (series / SERIES_OF_A_GROUP).max(1);
        let metrics = Self { places, ..Self::default() };
        metrics.publish();
        metrics
    }

    /// The text as of the last window, as OpenMetrics or in the older format.
    pub(super) fn text(&self, is_open: bool) -> Arc<str> {
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&texts[usize::from(!is_open)])
    }

    pub(super) fn add(&self, window: &Window) {
        let now = window.reply.observed.end;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.windows += 1;
        all.events += window.events;
        all.partial += u64::from(window.is_partial());
        for row in &window.cpus.rows {
            let cpu = all.cpus.entry(row.cpu.0).or_default();
            cpu.0 += row.busy;
            cpu.1 += row.idle;
        }
        for task in &window.tasks {
            let sum = all.sum_of(task.group_title.as_deref(), self.places, now);
            sum.seen = now;
            sum.wakeup.merge(&task.delays.wakeup);
            sum.run_delay.merge(&task.delays.run_delay);
            sum.ran += task.ran;
            sum.lost += task.lost;
            for cause in WaitCause::ALL {
                sum.parts[cause as usize] += task.parts.of(cause);
            }
        }
        for one in &window.throttled {
            let sum = all.sum_of(Some(&one.group_name), self.places, now);
            sum.group_throttled += one.throttled_ns;
        }
        drop(all);
        self.publish();
    }

    fn publish(&self) {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Shown(Arc::clone(&self.all))));
        let mut open = String::new();
        let mut older = String::new();
        // Writing into a text does not fail.
        let _ = text::encode(&mut open, &registry);
        let _ = prometheus_text::encode(&mut older, &registry);
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        *texts = [open.into(), older.into()];
    }
}

impl All {
    fn sum_of(&mut self, group: Option<&str>, places: usize, now: Nanos) -> &mut Sum {
        let name = group.unwrap_or(OTHERS);
        if !self.groups.contains_key(name) && self.groups.len() >= places {
            let idle = |(name, sum): (&String, &Sum)| {
                (name != OTHERS && sum.seen + IDLE < now).then(|| name.clone())
            };
            match self.groups.iter().find_map(idle) {
                Some(old) => drop(self.groups.remove(&old)),
                None => {
                    self.left_out += 1;
                    return self.groups.entry(OTHERS.to_owned()).or_default();
                }
            }
        }
        self.groups.entry(name.to_owned()).or_default()
    }
}

/// What a scrape shows.
#[derive(Debug)]
struct Shown(Arc<Mutex<All>>);

fn seconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e9
}

impl Collector for Shown {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let unit = Some(&Unit::Seconds);
        for (name, help, of) in [
            (
                "schedlab_wakeup_latency",
                "From a wakeup to running",
                (|sum: &Sum| &sum.wakeup) as fn(&Sum) -> &Histogram,
            ),
            (
                "schedlab_run_delay",
                "Each time in which a task was runnable and did not run",
                |sum| &sum.run_delay,
            ),
        ] {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
            for (group, sum) in &all.groups {
                let labels = [("group", group.as_str())];
                histogram(&mut family.encode_family(&labels)?, of(sum))?;
            }
        }
        for (name, help, of) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
            for (group, sum) in &all.groups {
                let labels = [("group", group.as_str())];
                let value = seconds(of(sum));
                family
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
            }
        }
        let help = "How long tasks of the group waited for a CPU, by cause";
        let mut family =
            encoder.encode_descriptor("schedlab_waited", help, unit, MetricType::Counter)?;
        for (group, sum) in &all.groups {
            for cause in WaitCause::ALL {
                let time = sum.parts[cause as usize];
                if time == Nanos::ZERO {
                    continue;
                }
                let labels = [("group", group.as_str()), ("cause", cause.name())];
                let mut one = family.encode_family(&labels)?;
                one.encode_counter::<NoLabelSet, _, u64>(&seconds(time), None)?;
            }
        }
        let help = "Time of each CPU by what it did";
        let mut family =
            encoder.encode_descriptor("schedlab_machine_cpu", help, unit, MetricType::Counter)?;
        for (cpu, (busy, idle)) in &all.cpus {
            let cpu = cpu.to_string();
            for (mode, time) in [("busy", busy), ("idle", idle)] {
                let labels = [("cpu", cpu.as_str()), ("mode", mode)];
                let mut one = family.encode_family(&labels)?;
                one.encode_counter::<NoLabelSet, _, u64>(&seconds(*time), None)?;
            }
        }
        for (name, help, value) in [
            ("schedlab_windows", "Windows that were answered", all.windows),
            ("schedlab_partial_windows", "Windows in which events were lost", all.partial),
            ("schedlab_events", "Events that were read", all.events),
            ("schedlab_left_out", "How often a group had no place of its own", all.left_out),
        ] {
            let mut one = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            one.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        Ok(())
    }
}

fn histogram(encoder: &mut MetricEncoder<'_>, all: &Histogram) -> Result<(), fmt::Error> {
    let mut before = 0;
    let mut buckets = Vec::new();
    for power in BOUNDS {
        let bound = (1_u64 << power) - 1;
        let up_to = all.count_up_to(bound);
        buckets.push((bound as f64 / 1e9, up_to - before));
        before = up_to;
    }
    buckets.push((f64::MAX, all.count() - before));
    let sum = all.sum() as f64 / 1e9;
    encoder.encode_histogram::<NoLabelSet>(sum, all.count(), &buckets, None)
}
