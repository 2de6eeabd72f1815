//! schbench's blocks and its JSON.

use super::plat;
use crate::machine::{Interval, Series};
use schedlab_stats::Histogram;
use std::fmt::Write as _;

/// The long options of the original: what begins like one of them means that one.
pub const LONG_OPTIONS: &[&str] = &[
    "message-threads",
    "threads",
    "runtime",
    "intervaltime",
    "warmuptime",
    "zerotime",
    "cache_footprint",
    "operations",
    "sleep_usec",
    "no-locking",
    "calibrate",
    "rps",
    "auto-rps",
    "pipe",
    "message-cpus",
    "worker-cpus",
    "json",
    "jobname",
    "split",
    "help",
];

/// The percentiles of a block, those that are shown, and the starred one.
const ALL: [f64; 5] = [20.0, 50.0, 90.0, 99.0, 99.9];
const LATENCY: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
const RATES: [f64; 3] = [20.0, 50.0, 90.0];

/// What the text depends on beside the figures.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Pipe mode: bytes handed over each time.
    pub pipe: Option<u64>,
    /// The rate followed the machine.
    pub auto: bool,
    /// The number of message threads.
    pub messengers: u64,
    /// Number of workers of all message threads.
    pub workers: u64,
    /// Seconds that the run was to take; 0: without end.
    pub runtime: u64,
    /// Seconds between two reports.
    pub interval: u64,
    /// Keep what upstream does where a fix changes a number.
    pub upstream: bool,
}

/// Values in the unit that is printed, with how many lie at or below each.
struct Values {
    count: u64,
    min: u64,
    max: u64,
    /// Value and cumulative count at each of [`ALL`].
    at: [(u64, u64); 5],
}

impl Values {
    /// Nanoseconds, told in microseconds.
    fn of_latency(histogram: Option<&Histogram>) -> Self {
        let empty = Histogram::new();
        let histogram = histogram.unwrap_or(&empty);
        let at = ALL.map(|p| {
            let value = histogram.quantile(p / 100.0).unwrap_or(0);
            let below = if histogram.is_empty() { 0 } else { histogram.count_up_to(value) };
            // A bucket's middle stands for all in it: to the nearest, not down.
            ((value + 500) / 1_000, below)
        });
        Self {
            count: histogram.count(),
            min: histogram.min().unwrap_or(0) / 1_000,
            max: histogram.max().unwrap_or(0) / 1_000,
            at,
        }
    }

    fn of_rates(rates: &[f64]) -> Self {
        let mut sorted: Vec<u64> = rates.iter().map(|&rate| rate as u64).collect();
        sorted.sort_unstable();
        let count = sorted.len() as u64;
        let at = ALL.map(|p| {
            let rank = (p / 100.0 * count as f64).ceil().max(1.0) as usize;
            let value = sorted.get(rank - 1).copied().unwrap_or(0);
            (value, sorted.iter().filter(|&&rate| rate <= value).count() as u64)
        });
        let min = sorted.first().copied();
        let max = sorted.last().copied();
        Self { count, min: min.unwrap_or(0), max: max.unwrap_or(0), at }
    }

    /// As the original, bit by bit: its buckets, and nothing of less than a microsecond.
    fn of_latency_upstream(histogram: Option<&Histogram>, buckets: &[(u64, u64)]) -> Self {
        let empty = Histogram::new();
        let histogram = histogram.unwrap_or(&empty);
        Self {
            count: buckets.iter().map(|(_, count)| count).sum(),
            min: histogram.min().unwrap_or(0) / 1_000,
            max: histogram.max().unwrap_or(0) / 1_000,
            at: plat::percentiles(buckets.iter().copied(), ALL),
        }
    }

    /// As the original, bit by bit: its rates go through the same buckets.
    fn of_rates_upstream(rates: &[f64]) -> Self {
        let exact = Self::of_rates(rates);
        Self { at: plat::percentiles(rates.iter().map(|&rate| (rate as u64, 1)), ALL), ..exact }
    }

    fn block(&self, head: &str, seconds: u64, shown: &[f64], star: f64) -> String {
        let mut text = format!("{head} runtime {seconds} (s) ({} total samples)\n", self.count);
        let mut before = 0;
        for (p, (value, below)) in ALL.into_iter().zip(self.at) {
            // The lowest is part of the chain of counts, whether or not it is shown.
            if shown.contains(&p) {
                let mark = if p == star { "* " } else { "  " };
                let _ = writeln!(
                    text,
                    "\t{mark}{p:.1}th: {value:<10} ({} samples)",
                    below.saturating_sub(before)
                );
            }
            before = below;
        }
        let _ = writeln!(text, "\t  min={}, max={}", self.min, self.max);
        text
    }

    fn json(&self, name: &str, out: &mut String) {
        for (p, (value, _)) in ALL.into_iter().zip(self.at) {
            let _ = write!(out, "\"{name}_pct{p:.1}\": {value}, ");
        }
        let _ = write!(out, "\"{name}_min\": {},\"{name}_max\": {}, ", self.min, self.max);
    }
}

fn series<'i>(interval: &'i Interval, metric: &str) -> Option<&'i Histogram> {
    let found = |s: &&Series| s.metric.name == metric && s.of == "worker";
    interval.total.iter().find(found).map(|series| &series.histogram)
}

/// The rate of each second. Upstream also counts the moment before the first, until its figures start
/// anew.
fn rates(interval: &Interval, style: &Style) -> Values {
    let leading = style.upstream && !style.auto && interval.covers == interval.elapsed;
    let all: Vec<f64> =
        leading.then_some(0.0).into_iter().chain(interval.rates.iter().copied()).collect();
    if style.upstream { Values::of_rates_upstream(&all) } else { Values::of_rates(&all) }
}

fn latencies(interval: &Interval, metric: &str, style: &Style) -> Values {
    let histogram = series(interval, metric);
    if style.upstream {
        let buckets = interval.in_buckets.iter().find(|(name, _)| name == metric);
        Values::of_latency_upstream(histogram, buckets.map_or(&[], |(_, buckets)| buckets))
    } else {
        Values::of_latency(histogram)
    }
}

fn blocks(interval: &Interval, style: &Style, seconds: u64) -> String {
    let wakeup = latencies(interval, "wakeup_latency_ns", style);
    let shown: &[f64] = if style.pipe.is_some() { &ALL } else { &LATENCY };
    let mut text = wakeup.block("Wakeup Latencies percentiles (usec)", seconds, shown, 99.0);
    if style.pipe.is_none() {
        let request = latencies(interval, "request_latency_ns", style);
        let head = "Request Latencies percentiles (usec)";
        text.push_str(&request.block(head, seconds, &LATENCY, 99.0));
        let rates = rates(interval, style);
        text.push_str(&rates.block("RPS percentiles (requests)", seconds, &RATES, 50.0));
    }
    text
}

fn delay(interval: &Interval) -> String {
    let of = |role: &str| {
        let found = interval.delay.iter().find(|(name, _)| name == role);
        found.map_or(0, |(_, time)| time.0 / 1_000)
    };
    format!("sched delay: message {} (usec) worker {} (usec)\n", of("message"), of("worker"))
}

/// What is printed at an interval; nothing in pipe mode.
#[must_use]
pub fn report(interval: &Interval, style: &Style) -> String {
    if style.pipe.is_some() {
        return String::new();
    }
    let mut text = blocks(interval, style, interval.elapsed.0 / 1_000_000_000);
    text.push_str(&delay(interval));
    let _ = writeln!(text, "current rps: {:.2}", interval.rate);
    text
}

/// The seconds that the final report names: those asked for, or those that it took.
fn seconds(interval: &Interval, style: &Style, partial: bool) -> u64 {
    let whole = style.runtime > 0 && !partial;
    if whole { style.runtime } else { interval.elapsed.0 / 1_000_000_000 }
}

/// What is printed at the end.
#[must_use]
pub fn last(interval: &Interval, style: &Style, partial: bool) -> String {
    let mut text = blocks(interval, style, seconds(interval, style, partial));
    let rate = average(interval, style, partial);
    if let Some(bytes) = style.pipe {
        let each = rate / style.workers.max(1) as f64;
        let (size, unit) = scaled(each * bytes as f64);
        let _ = writeln!(text, "avg worker transfer: {each:.2} ops/sec {size:.2}{unit}/s");
        return text;
    }
    match (style.auto, interval.dial) {
        (true, Some(goal)) => {
            let _ = writeln!(text, "final rps goal was {goal}");
        }
        _ => {
            let _ = writeln!(text, "average rps: {rate:.2}");
        }
    }
    // The original reads these counters after its threads have ended, when the kernel no longer has them.
    let gone = Interval::default();
    text.push_str(&delay(if style.upstream { &gone } else { interval }));
    text
}

/// Requests a second of all that is covered. Upstream's are those of the whole run, although its other
/// figures leave out a part, over the time that was asked for.
fn average(interval: &Interval, style: &Style, partial: bool) -> f64 {
    let (requests, covers) = match style.upstream {
        true if style.runtime > 0 && !partial => (interval.done, style.runtime as f64),
        true => (interval.done, interval.elapsed.as_secs_f64()),
        false => {
            let found = interval.counts.iter().find(|(name, _)| name == "requests");
            (found.map_or(0, |count| count.1), interval.covers.as_secs_f64())
        }
    };
    if covers > 0.0 { requests as f64 / covers } else { 0.0 }
}

/// Bytes in the largest binary unit of which there is at least one.
fn scaled(mut bytes: f64) -> (f64, &'static str) {
    for unit in ["B", "KB", "MB", "GB", "TB", "PB"] {
        if bytes < 1024.0 {
            return (bytes, unit);
        }
        bytes /= 1024.0;
    }
    (bytes, "EB")
}

/// What the JSON says about the machine.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The release of the kernel.
    pub version: String,
    /// The name given with `-J`.
    pub jobname: Option<String>,
    pub hostname: String,
    /// The sched_ext scheduler that is loaded, or `disabled`.
    pub sched_ext: String,
    /// The command line of the benchmark.
    pub cmdline: String,
    /// The time in seconds since 1970.
    pub time: u64,
}

/// The one line of JSON, without a newline at its end.
#[must_use]
pub fn json(interval: &Interval, style: &Style, origin: &Origin, partial: bool) -> String {
    let mut text = format!("{{\"normal\": {{\"version\": {},", quoted(&origin.version));
    if let Some(name) = &origin.jobname {
        let _ = write!(text, "\"jobname\": {},", quoted(name));
    }
    let _ = write!(
        text,
        "\"hostname\": {},\"sched_ext\": {},\"cmdline\": {}}},\"int\": {{\"time\": {}, ",
        quoted(&origin.hostname),
        quoted(&origin.sched_ext),
        quoted(&origin.cmdline),
        origin.time
    );
    latencies(interval, "wakeup_latency_ns", style).json("wakeup_latency", &mut text);
    if style.pipe.is_none() {
        let request = latencies(interval, "request_latency_ns", style);
        request.json("request_latency", &mut text);
        rates(interval, style).json("rps", &mut text);
    }
    let _ = write!(text, "\"runtime\": {}}}}}", seconds(interval, style, partial));
    text
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_model::{Better, Metric, Nanos, Unit};

    fn interval() -> Interval {
        let series = |name: &str, values: &[u64]| Series {
            metric: Metric::new(name, Unit::Nanoseconds, Better::Lower),
            of: "worker".to_owned(),
            histogram: values.iter().map(|us| us * 1_000).collect(),
        };
        let delay = |name: &str, us| (name.to_owned(), Nanos::from_micros(us));
        Interval {
            elapsed: Nanos::from_secs(5),
            covers: Nanos::from_secs(5),
            total: vec![
                series("wakeup_latency_ns", &[1, 2, 3, 4, 100]),
                series("request_latency_ns", &[10, 20]),
            ],
            counts: vec![("requests".to_owned(), 10)],
            counts_since: Vec::new(),
            covers_since: Nanos::ZERO,
            rates: vec![2.0, 3.0, 2.5],
            rate: 2.5,
            delay: vec![delay("message", 21), delay("worker", 1953)],
            ..Interval::default()
        }
    }

    const STYLE: Style = Style {
        pipe: None,
        auto: false,
        messengers: 1,
        workers: 2,
        runtime: 12,
        interval: 10,
        upstream: false,
    };

    #[test]
    fn a_report_has_three_blocks_a_star_in_each_and_the_rate() {
        let text = report(&interval(), &STYLE);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Wakeup Latencies percentiles (usec) runtime 5 (s) (5 total samples)");
        assert_eq!(lines[1], "\t  50.0th: 3          (2 samples)");
        assert_eq!(lines[3], "\t* 99.0th: 100        (0 samples)");
        assert_eq!(lines[5], "\t  min=1, max=100");
        assert_eq!(lines[12], "RPS percentiles (requests) runtime 5 (s) (3 total samples)");
        assert_eq!(lines[13], "\t  20.0th: 2          (2 samples)");
        assert_eq!(lines[17], "sched delay: message 21 (usec) worker 1953 (usec)");
        assert_eq!(lines[18], "current rps: 2.50");
        assert_eq!(text.matches('*').count(), 3);
    }

    #[test]
    fn upstream_s_numbers_lie_in_its_own_buckets() {
        let mut interval = interval();
        interval.rates = vec![1_000_000.0, 100_000.0];
        let style = Style { upstream: true, ..STYLE };
        let text = report(&interval, &style);
        assert!(text.contains("* 50.0th: 99968      (1 samples)\n"), "{text}");
        assert!(text.contains("  90.0th: 1000448    (1 samples)\n"), "{text}");
        assert!(text.contains("min=0, max=1000000\n"), "{text}");
        assert!(report(&interval, &STYLE).contains("90.0th: 1000000 "));
        // Latencies come from its buckets, not from ours.
        interval.in_buckets = vec![("request_latency_ns".into(), vec![(7, 1), (16_416, 3)])];
        let text = report(&interval, &style);
        assert!(text.contains("(4 total samples)\n\t  50.0th: 16416      (3 samples)\n"), "{text}");
    }

    #[test]
    fn upstream_s_average_is_of_the_whole_run_and_its_leading_0_ends_with_a_new_start() {
        let zeroed = Interval { elapsed: Nanos::from_secs(12), done: 36, ..interval() };
        let style = Style { upstream: true, ..STYLE };
        let text = last(&zeroed, &style, false);
        assert!(text.contains("average rps: 3.00\n"), "{text}");
        assert!(text.contains("(requests) runtime 12 (s) (3 total samples)\n"), "{text}");
        let whole = Interval { elapsed: zeroed.covers, ..zeroed };
        let text = last(&whole, &style, true);
        assert!(text.contains("average rps: 7.20\n"), "{text}");
        assert!(text.contains("(requests) runtime 5 (s) (4 total samples)\n"), "{text}");
        assert!(last(&whole, &STYLE, false).contains("average rps: 2.00\n"));
    }

    #[test]
    fn the_last_sched_delay_is_told_and_upstream_s_is_nothing() {
        let told = |upstream| {
            let text = last(&interval(), &Style { upstream, ..STYLE }, false);
            text.lines().last().unwrap_or_default().to_owned()
        };
        assert_eq!(told(false), "sched delay: message 21 (usec) worker 1953 (usec)");
        assert_eq!(told(true), "sched delay: message 0 (usec) worker 0 (usec)");
    }

    #[test]
    fn the_last_report_names_the_asked_time_unless_it_is_partial() {
        let text = last(&interval(), &STYLE, false);
        assert!(text.contains("runtime 12 (s)") && text.contains("average rps: 2.00\n"));
        assert!(last(&interval(), &STYLE, true).contains("runtime 5 (s)"));
        let pipe = Style { pipe: Some(1 << 20), ..STYLE };
        let text = last(&interval(), &pipe, false);
        assert!(text.ends_with("avg worker transfer: 1.00 ops/sec 1.00MB/s\n"), "{text}");
        assert!(text.contains("\t  20.0th: 1 ") && !text.contains("Request"));
    }

    #[test]
    fn the_json_is_valid_whatever_the_name() {
        let origin = Origin {
            version: "6.1".into(),
            jobname: Some("we\"ird\\name\n".into()),
            hostname: "h".into(),
            sched_ext: "disabled".into(),
            cmdline: "schbench".into(),
            time: 7,
        };
        let text = json(&interval(), &STYLE, &origin, false);
        assert!(
            text.starts_with(r#"{"normal": {"version": "6.1","jobname": "we\"ird\\name\u000a","#)
        );
        let middle = r#""wakeup_latency_pct99.0": 100, "wakeup_latency_pct99.9": 100, "#;
        let end = r#""wakeup_latency_min": 1,"wakeup_latency_max": 100, "request"#;
        assert!(text.contains(&format!("{middle}{end}")));
        assert!(text.ends_with(r#""rps_min": 2,"rps_max": 3, "runtime": 12}}"#));
    }
}
