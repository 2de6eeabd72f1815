//! `schedlab jobs`: graphs of jobs, executors under load, and where they break.

mod breaking;
mod compare;
mod events;
mod figures;
mod fit;
mod generate;
mod grain;
mod machine;
mod nodes;
mod options;
mod outcome;
mod peak;
mod picture;
mod planning;
mod posts;
mod rules;
mod run;
mod simulated;
mod soak;
mod storm;
mod streams;
mod table;

use super::UsageError;
use crate::json::{self, Schema};
use crate::machines::{self, Simulation};
use anyhow::Context;
use schedlab_workload::{HOST, MachineName};
use std::process::ExitCode;
use std::sync::Arc;

/// Options of `schedlab jobs`.
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  schedlab jobs generate --shape load-bursts --nodes 64 --hash compat    a graph and its hash
  schedlab jobs run --shape stencil --nodes 5000 --time 50us             one run with its proof
  schedlab jobs peak --jobs 10..100 --time 2ms -o peak.svg               run time by number of jobs
  schedlab jobs break --shape load-bursts --nodes 64 --time 500us        how tight a schedule may be
  schedlab jobs grain                                                    the smallest useful job
  schedlab jobs compare --shape fork-join                                several executors compared
  schedlab jobs storm --posters 2 --workers 2                            posters that do not pause
  schedlab jobs run --on sim:cpus=4 --record jobs.dat                    schedlab's pool, simulated
  schedlab jobs fit measured.csv                                         the models on any data"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    /// Do the runs on this machine: host, or sim:KEY=VALUE,... for schedlab's pool in virtual time
    #[arg(long, global = true, value_name = "MACHINE", default_value = HOST)]
    on: String,
    /// Print all columns, however long the lines become
    #[arg(long, global = true)]
    wide: bool,
}

#[derive(clap::Subcommand)]
enum What {
    /// Make a graph of jobs: its hash, statistics and files (json, dot, stg, svg, pdf, png)
    Generate(generate::Args),
    /// Run a graph, prove the run and print its metrics; or soak; or read an executor's events
    Run(run::Args),
    /// Sweep the number or the length of jobs, with models of run time
    Peak(peak::Args),
    /// Find the breaking point: the tightest schedule that is still kept
    Break(breaking::Args),
    /// Find the shortest job at which 50 % and 90 % of the time is work (METG), per executor
    Grain(grain::Args),
    /// Compare executors under the same load
    Compare(compare::Args),
    /// Measure post-to-start latency of single jobs: the part of the pool, the part of the kernel
    Posts(posts::Args),
    /// Let threads post jobs without a pause, and see whether executors do jobs meanwhile
    Storm(storm::Args),
    /// Fit the models of `peak` to measured data (CSV)
    Fit(fit::Args),
}

/// What the subcommands print with `--json`.
pub(crate) fn documents() -> Vec<Schema> {
    vec![
        json::of::<generate::Document>(),
        json::of::<nodes::Document<'_>>(),
        json::of::<run::Document<'_>>(),
        json::of::<soak::Document>(),
        json::of::<peak::Document<'_>>(),
        json::of::<breaking::Document>(),
        json::of::<grain::Document>(),
        json::of::<compare::Document<'_>>(),
        json::of::<posts::Report>(),
        json::of::<storm::Document<'_>>(),
        json::of::<fit::Document>(),
    ]
}

/// Whether the user has ended the command: what was measured until then is kept.
fn interrupted() -> bool {
    schedlab_sys::signal::catch().is_ok_and(|signals| signals.caught().is_some())
}

/// The exit code of a command that the user may have ended: as if the signal had.
fn code(usual: ExitCode) -> ExitCode {
    let caught = schedlab_sys::signal::catch().ok().and_then(|signals| signals.caught());
    caught.map_or(usual, |signal| ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)))
}

/// The machine of `--on`, if it is a simulated one. Refuses machines that have no executors, and names of executors, which
/// `--on` once took.
fn machine(on: &str) -> anyhow::Result<Option<Arc<Simulation>>> {
    let executor = on.split([',', ':']).next().unwrap_or_default();
    if options::EXECUTORS.contains(&executor) {
        let what =
            format!("invalid machine '{on}' for --on: it is an executor, use --executor {on}");
        return Err(UsageError(what).into());
    }
    let name: MachineName = on.parse().map_err(|why| UsageError(format!("--on: {why}")))?;
    Ok(machines::for_executors(&name)?.map(Arc::new))
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    let on = machine(&args.on)?;
    match (&mut args.what, &on) {
        (What::Posts(_), Some(model)) => {
            return Err(simulated::refuse(model, "measure post-to-start latency"));
        }
        (What::Storm(_), Some(model)) => {
            return Err(simulated::refuse(model, "let threads post jobs"));
        }
        (What::Run(args), _) => args.setup.executor.on = on,
        (What::Peak(args), _) => args.setup.executor.on = on,
        (What::Break(args), _) => args.setup.executor.on = on,
        (What::Compare(args), _) => args.setup.executor.on = on,
        (What::Grain(args), _) => args.executor.on = on,
        (What::Generate(_) | What::Fit(_) | What::Posts(_) | What::Storm(_), _) => {}
    }
    if !matches!(args.what, What::Generate(_) | What::Fit(_)) {
        schedlab_sys::signal::catch().context("catching Ctrl-C")?;
    }
    let room = crate::output::room_if(args.wide);
    match args.what {
        What::Generate(args) => generate::run(&args),
        What::Run(args) => run::run(&args, room),
        What::Peak(args) => peak::run(&args, room),
        What::Break(args) => breaking::run(&args),
        What::Grain(args) => grain::run(&args, room),
        What::Compare(args) => compare::run(&args, room),
        What::Posts(args) => posts::run(&args),
        What::Storm(args) => storm::run(&args, room),
        What::Fit(args) => fit::run(&args, room),
    }
}
