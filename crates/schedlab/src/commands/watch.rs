//! `schedlab watch`: the answers of `why` and `trace`, window by window, while it happens.

mod condition;
mod elsewhere;
mod metrics;
mod one_by_one;
mod serve;
mod snapshots;
mod terminal;
mod view;
mod window;

use super::ssh::Ssh;
use super::trace::form::print_text;
use super::{UsageError, record};
use crate::json;
use condition::Condition;
use metrics::Metrics;
use schedlab_model::{Bytes, Nanos, Warning};
use schedlab_record::live::{Live, Start};
use schedlab_record::{Via, spool_of};
use schedlab_sys::{clock, process, signal};
use schedlab_timeline::{Causes, Conservation, ConservationOptions, Cpus, Latency, Tasks, Windows};
use snapshots::Snapshots;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use window::{By, Window};

pub(crate) use window::Document;

/// Options of `schedlab watch`.
#[derive(clap::Args)]
#[command(after_help = "\
Each window answers as `schedlab why` and `schedlab trace` answer about that part of a recording.
Waits that have not ended count as far as they went, and are shown as at least that (≥).
After lost events figures are lower bounds until each CPU's next switch, and the window says so.

Examples:
  schedlab watch --time 10s
  schedlab watch --by group --json | jq .rows[0]
  schedlab watch --time 60s --fail-if 'run_delay_p99 > 5ms'
  schedlab watch --time 60s --fail-if 'group=/docker/web and wakeup_p99 > 20ms'
  schedlab watch --time 10s --keep x.dat; schedlab why x.dat
  schedlab watch --listen 127.0.0.1:9464 --quiet
  schedlab watch --ssh root@host
  schedlab watch --quiet --snapshot-if 'group=/docker/web and wakeup_p99 > 20ms'

On a terminal it shows a view: h lists its keys.

Exit codes: 3 if a condition of --fail-if held in a window.")]
pub(crate) struct Args {
    /// Answer at the end of each such time
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: Nanos,
    /// Stop after this time [default: at Ctrl-C]
    #[arg(long, value_name = "DURATION")]
    time: Option<Nanos>,
    /// Sum up by task, command (the name of tasks), process or control group
    #[arg(long, value_enum, default_value = "command")]
    by: By,
    /// Print at most N rows of each window in JSON and CSV; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Exit with code 3 if this held in a window: KEY=VALUE choices (pid, comm, group) and METRIC > VALUE, joined by 'and'
    /// (repeatable)
    #[arg(long = "fail-if", value_name = "CONDITION")]
    fail_if: Vec<Condition>,
    /// Store the events that were read as a trace in FILE
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Serve the metrics of all groups at http://IP:PORT/metrics (OpenMetrics); a port alone is one of 127.0.0.1
    #[arg(long, value_name = "IP:PORT")]
    listen: Option<serve::At>,
    /// Give groups series of their own until there are about N; the others share one
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "listen")]
    series: usize,
    /// Write the last moments as a trace when this held in a window (repeatable)
    #[arg(long = "snapshot-if", value_name = "CONDITION")]
    snapshot_if: Vec<Condition>,
    /// Keep the events of this time in memory, for such a trace and the keys t and w
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    last: Nanos,
    /// Keep the newest N of these traces
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    snapshots: u32,
    /// Write at most N of them in a minute
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    snapshots_per_minute: u32,
    /// Call these traces FILE-000001 and so on, before the ending
    #[arg(short, long, value_name = "FILE", default_value = "watch.dat")]
    output: PathBuf,
    #[command(flatten)]
    ssh: Ssh,
    /// Print no windows
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    quiet: bool,
    /// Print lines on a terminal too, and not the view
    #[arg(long)]
    lines: bool,
    /// Read through this interface of the kernel
    #[arg(long, value_enum, default_value = "auto")]
    via: record::Interface,
    /// Use this much memory for the ring of each CPU
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    ring: Bytes,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print the rows as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Add the histograms of waits to JSON
    #[arg(long, requires = "json")]
    histogram: bool,
}

/// A condition of `--fail-if` held.
const EXIT_HELD: u8 = 3;
/// The shortest interval: reading the rings takes its time.
const INTERVAL_MIN: Nanos = Nanos::from_millis(10);
/// Waits of a window that are kept with their causes, for a look at single rows.
const WORST: usize = 200;

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check(args)?;
    if let Some(host) = &args.ssh.ssh {
        return elsewhere::run(args, host);
    }
    let keep = args.keep.as_deref().map(spool_of);
    let is_view = is_view(args);
    let recent = match is_view || !args.snapshot_if.is_empty() {
        true => args.last,
        false => Nanos::ZERO,
    };
    let via = Via::from(args.via);
    let start = Start { via, ring_bytes: args.ring.0, keep, recent };
    let signals = signal::catch()?;
    let mut watched = Watched::new(args)?;
    let mut live = Live::start(&start)?;
    watched.began = clock::monotonic();
    let looked = match is_view {
        true => terminal::run(args, &mut watched, &mut live, signals),
        false => watched.windows(args, &mut live, signals),
    };
    // Also after an error: an instance of ours must not stay, and what was kept is kept.
    let stopped = live.stop();
    looked?;
    stopped?.iter().for_each(note);
    if let (Some(dir), Some(file)) = (&start.keep, &args.keep) {
        record::finish(dir, file, false)?;
    }
    Ok(watched.judge(&args.fail_if))
}

fn is_view(args: &Args) -> bool {
    !(args.json || args.csv || args.quiet || args.lines) && terminal::is_there()
}

fn check(args: &Args) -> anyhow::Result<()> {
    let usage = |what: String| Err(UsageError(what).into());
    if args.interval < INTERVAL_MIN {
        return usage(format!("invalid --interval {}: use at least {INTERVAL_MIN}", args.interval));
    }
    if args.time.is_some_and(|time| time < args.interval) {
        return usage("--time is shorter than --interval: no window would end".into());
    }
    if let Some(file) = &args.keep {
        record::can_write(file, "--keep")?;
    }
    Ok(())
}

fn note(warning: &Warning) {
    let _ = writeln!(crate::output::stderr(), "schedlab: {warning}");
}

/// The windows so far.
struct Watched {
    began: Nanos,
    windows: Option<Windows>,
    /// How many windows there were.
    count: u64,
    /// By condition: in how many windows it held, and when that was first.
    held: Vec<(u64, Option<Nanos>)>,
    has_head: bool,
    metrics: Option<Metrics>,
    snapshots: Snapshots,
}

impl Watched {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let metrics = args.listen.map(|_| Metrics::new(args.series));
        if let (Some(at), Some(metrics)) = (args.listen, &metrics) {
            let said = serve::start(at, metrics)?;
            writeln!(crate::output::stderr(), "schedlab: {said}")?;
        }
        Ok(Self {
            began: clock::monotonic(),
            windows: None,
            count: 0,
            held: vec![(0, None); args.fail_if.len()],
            has_head: false,
            metrics,
            snapshots: Snapshots::new(args)?,
        })
    }

    /// When the window that is open ends.
    fn next(&self, args: &Args) -> Nanos {
        self.began + Nanos(args.interval.0 * (self.count + 1))
    }

    /// Window after window, until it is time or a signal comes.
    fn windows(
        &mut self,
        args: &Args,
        live: &mut Live,
        signals: signal::Signals,
    ) -> anyhow::Result<()> {
        let last = args.time.map(|time| self.began + time);
        loop {
            let end = self.next(args);
            if last.is_some_and(|last| end > last)
                || live.wait(Live::settles(end), &[signals.fd()])?
            {
                return Ok(());
            }
            let window = self.window(args, live, end)?;
            for said in self.count(args, live, &window, end) {
                writeln!(crate::output::stderr(), "schedlab: {said}")?;
            }
            self.print(args, &window)?;
        }
    }

    /// What follows from a window, whoever it is shown to; what to say about it.
    fn count(&mut self, args: &Args, live: &Live, window: &Window, end: Nanos) -> Vec<String> {
        self.count += 1;
        let mut said = window.news.clone();
        for (condition, held) in args.fail_if.iter().zip(&mut self.held) {
            if condition.holds(window, live.info().groups.as_ref()) {
                held.0 += 1;
                held.1.get_or_insert(end - self.began);
            }
        }
        if let Some(metrics) = &self.metrics {
            metrics.add(window);
        }
        said.extend(self.snapshots.after(args, live, window));
        said
    }

    fn window(&mut self, args: &Args, live: &mut Live, end: Nanos) -> anyhow::Result<Window> {
        let taken = live.take(end)?;
        let info = live.info();
        let began = taken.events.first().map_or(self.began, |event| event.time);
        let windows = self.windows.get_or_insert_with(|| Windows::new(info, began));
        if live.has_news() {
            windows.learn(info);
        }
        let arguments = |place| taken.arguments(place).map(Into::into);
        let (throttling, reply) = windows.close(&taken.events, &arguments, end, |throttling| {
            let causes = Causes::new(info, &throttling.spans, WORST);
            let lost = args.listen.map(|_| Conservation::new(ConservationOptions::default(), info));
            (Latency::new(), Tasks::new(), causes, Cpus::new(), lost)
        });
        windows.forget_dead();
        let is_asleep = |pid| process::is_runnable(pid) != Some(true);
        Ok(Window::of(reply, &throttling, info, &taken, args.by, &is_asleep))
    }

    fn print(&mut self, args: &Args, window: &Window) -> anyhow::Result<()> {
        if args.quiet {
            return Ok(());
        }
        if args.json {
            return json::print(&window.document(args.top, args.histogram));
        }
        let text = match args.csv {
            true => window.csv(args.top, std::mem::replace(&mut self.has_head, true)),
            false => window.line(self.began),
        };
        print_text(&text)
    }

    /// Which conditions held, on the standard error; and the exit code.
    fn judge(&self, conditions: &[Condition]) -> ExitCode {
        let mut any = false;
        for (condition, (count, first)) in conditions.iter().zip(&self.held) {
            let Some(first) = first else { continue };
            any = true;
            let _ = writeln!(
                crate::output::stderr(),
                "schedlab: {condition} held in {count} of {} windows, first in the one that ended after {}",
                self.count,
                first.readable()
            );
        }
        if any { ExitCode::from(EXIT_HELD) } else { ExitCode::SUCCESS }
    }
}
