//! What a recorded run tells: who waited how long, who was displaced, where CPUs idled.

use super::{Section, Table, readable};
use schedlab_model::{EventSource, Nanos, Unit};
use schedlab_stats::Histogram;
use schedlab_timeline::{Cpus, CpusAnswer, Latency, LatencyAnswer, Reply, Tasks, TasksAnswer, ask};
use std::collections::BTreeMap;
use std::io;

/// Commands that are listed by name; the rest is in the total.
const COMMANDS_MAX: usize = 12;

/// The section of one trace: latencies, switches, migrations, CPUs, and what casts doubt on them.
/// One pass over the trace, memory bounded by its tasks.
///
/// # Errors
/// When the trace can't be read.
pub fn trace_section(title: &str, source: &mut dyn EventSource) -> io::Result<Section> {
    let topology = source.info().topology.clone();
    let reply = ask(source, (Latency::new(), Tasks::by_distance(topology), Cpus::new()))?;
    Ok(section(title, &reply))
}

fn section(title: &str, reply: &Reply<(LatencyAnswer, TasksAnswer, CpusAnswer)>) -> Section {
    let (latency, tasks, cpus) = &reply.answer;
    let mut section = Section::new(title);
    section
        .paragraph(format!(
            "{} were observed. Wakeup latency is from the wakeup of a sleeping task to its running; run delay is \
             all time in which a task was runnable and did not run, after wakeups and after being displaced alike.",
            time(reply.observed.duration())
        ))
        .table(latencies(latency))
        .table(switches(tasks))
        .table(cpu_table(cpus))
        .warnings(&reply.warnings);
    section
}

/// A row for each command, those that waited most first, and one for all.
fn latencies(latency: &LatencyAnswer) -> Table {
    let mut commands: BTreeMap<&str, (Histogram, Histogram)> = BTreeMap::new();
    for row in &latency.tasks {
        let (wakeup, delay) = commands.entry(&row.comm).or_default();
        wakeup.merge(&row.delays.wakeup);
        delay.merge(&row.delays.run_delay);
    }
    let mut commands: Vec<_> = commands.into_iter().filter(|(_, (_, d))| !d.is_empty()).collect();
    commands.sort_by_key(|(_, (_, delay))| std::cmp::Reverse(delay.sum()));
    commands.truncate(COMMANDS_MAX);
    let mut table = Table::new([
        "command",
        "wakeups",
        "latency p50",
        "p90",
        "p99",
        "p99.9",
        "run delays",
        "delay p50",
        "p90",
        "p99",
        "p99.9",
    ]);
    let mut row = |name: &str, wakeup: &Histogram, delay: &Histogram| {
        let cells = [quantiles(wakeup), quantiles(delay)].concat();
        table.row(std::iter::once(name.to_owned()).chain(cells));
    };
    for (name, (wakeup, delay)) in &commands {
        row(name, wakeup, delay);
    }
    row("all tasks", &latency.total.wakeup, &latency.total.run_delay);
    table
}

fn quantiles(histogram: &Histogram) -> Vec<String> {
    let at = |q| histogram.quantile(q).map_or("-".into(), |ns| time(Nanos(ns)));
    let count = readable(histogram.count() as f64, Unit::Count);
    vec![count, at(0.5), at(0.9), at(0.99), at(0.999)]
}

fn switches(tasks: &TasksAnswer) -> Table {
    #[derive(Default)]
    struct Sum {
        tasks: u64,
        ran: Nanos,
        voluntary: u64,
        involuntary: u64,
        migrations: u64,
    }
    let mut commands: BTreeMap<&str, Sum> = BTreeMap::new();
    let mut all = Sum::default();
    for row in &tasks.rows {
        for sum in [commands.entry(&row.comm).or_default(), &mut all] {
            sum.tasks += 1;
            sum.ran += row.ran;
            sum.voluntary += row.voluntary;
            sum.involuntary += row.involuntary;
            sum.migrations += row.migrations;
        }
    }
    let mut commands: Vec<_> = commands.into_iter().collect();
    commands.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ran));
    commands.truncate(COMMANDS_MAX);
    let mut table = Table::new([
        "command",
        "tasks",
        "ran",
        "voluntary switches",
        "involuntary switches",
        "migrations",
    ]);
    for (name, sum) in commands.iter().map(|(n, s)| (*n, s)).chain([("all tasks", &all)]) {
        let counts = [sum.voluntary, sum.involuntary, sum.migrations];
        let counts = counts.map(|n| readable(n as f64, Unit::Count));
        let cells = [name.to_owned(), sum.tasks.to_string(), time(sum.ran)];
        table.row(cells.into_iter().chain(counts));
    }
    table
}

fn cpu_table(cpus: &CpusAnswer) -> Table {
    let mut table = Table::new([
        "CPU",
        "busy",
        "idle",
        "unknown",
        "switches",
        "overloaded",
        "most waiting at once",
    ]);
    for row in &cpus.rows {
        table.row([
            format!("CPU {}", row.cpu),
            row.utilisation().map_or("-".into(), |u| readable(u, Unit::Fraction)),
            time(row.idle),
            time(row.unknown),
            readable(row.switches as f64, Unit::Count),
            time(row.overloaded),
            row.waiting_max.to_string(),
        ]);
    }
    table
}

fn time(time: Nanos) -> String {
    readable(time.0 as f64, Unit::Nanoseconds)
}
