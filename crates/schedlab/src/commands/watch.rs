//! `schedlab watch`: the answers of `why` and `trace`, window by window, while it happens.

mod condition;
mod window;

use super::trace::form::print_text;
use super::{UsageError, record};
use crate::json;
use condition::Condition;
use schedlab_model::{Bytes, Nanos, Warning};
use schedlab_record::live::{Live, Start};
use schedlab_record::{Via, spool_of};
use schedlab_sys::{clock, signal};
use schedlab_timeline::{Causes, Cpus, Latency, Tasks, Windows};
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
/// Waits that are kept with their causes.
const WORST: usize = 20;

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    check(args)?;
    let keep = args.keep.as_deref().map(spool_of);
    let start =
        Start { via: Via::from(args.via), ring_bytes: args.ring.0, keep, ..Start::default() };
    let signals = signal::catch()?;
    let mut live = Live::start(&start)?;
    let mut watched = Watched::new(args, &live);
    let looked = watched.windows(args, &mut live, signals);
    // Also after an error: an instance of ours must not stay, and what was kept is kept.
    let stopped = live.stop();
    looked?;
    stopped?.iter().for_each(note);
    if let (Some(dir), Some(file)) = (&start.keep, &args.keep) {
        record::finish(dir, file, false)?;
    }
    Ok(watched.judge(&args.fail_if))
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
}

impl Watched {
    fn new(args: &Args, _: &Live) -> Self {
        let held = vec![(0, None); args.fail_if.len()];
        Self { began: clock::monotonic(), windows: None, count: 0, held, has_head: false }
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
            let end = self.began + Nanos(args.interval.0 * (self.count + 1));
            if last.is_some_and(|last| end > last) || live.wait(Live::settles(end), signals.fd())? {
                return Ok(());
            }
            let window = self.window(args, live, end)?;
            self.count += 1;
            for (condition, held) in args.fail_if.iter().zip(&mut self.held) {
                if condition.holds(&window) {
                    held.0 += 1;
                    held.1.get_or_insert(end - self.began);
                }
            }
            self.print(args, &window)?;
        }
    }

    /// The window that ended at `end`.
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
            (Latency::new(), Tasks::new(), causes, Cpus::new())
        });
        windows.forget_dead();
        Ok(Window::of(reply, &throttling, info, &taken, args.by))
    }

    fn print(&mut self, args: &Args, window: &Window) -> anyhow::Result<()> {
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
