//! `schedlab replay`: what a recorded trace would have been on another scheduler.
//!
//! The trace becomes a demand. The machine that is most like the recorded one performs it, then the machine that was
//! asked for does. The three are laid side by side: the first pair is the fidelity, the second pair the answer.

mod document;
mod pictures;
mod predicted;
mod runs;
mod search;
mod text;

pub(crate) use document::Document;

use super::UsageError;
use super::result_file::{ThemeOption, save};
use crate::json;
use crate::machines;
use crate::output::Width;
use anyhow::{Context as _, anyhow, bail};
use runs::{ReplayPlan, Runs};
use schedlab_model::{Nanos, Setting};
use schedlab_replay::{Infer, Inferred, Options};
use schedlab_timeline::{Cut, WithArguments, ask_within};
use schedlab_trace::EventWriter;
use schedlab_workload::MachineName;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab replay`.
#[derive(clap::Args)]
#[command(after_help = "\
Fidelity comes first: how well the machine that is like the recorded one repeats the recording. It
does not bound the error of a change.

Examples:
  schedlab record --for replay -o x.dat -- make -j8
  schedlab replay x.dat                                        fidelity alone
  schedlab replay x.dat --on sim:like=x.dat,kernel=eevdf-6.12
  schedlab replay x.dat --base sim:like=x.dat,kernel=linux --on sim:like=x.dat,kernel=linux-patched
  schedlab replay x.dat --set min_granularity=12ms --set speed:0-3=50%
  schedlab replay x.dat --set nice:make=5 --set cpus:worker=0-1 --draw parting
  schedlab replay x.dat --search base_slice=1ms,3ms,12ms
  schedlab replay x.dat --on host
  schedlab replay x.dat --export x.json; schedlab load rt-app x.json")]
pub(crate) struct Args {
    /// The trace, in any format that schedlab reads
    file: PathBuf,
    /// Replay on this machine [default: the simulated machine most like the recorded one]
    #[arg(long, value_name = "MACHINE")]
    on: Option<MachineName>,
    /// Compare with the replay on this one [default: the simulated machine most like the recorded one]
    #[arg(long, value_name = "sim:...")]
    base: Option<MachineName>,
    /// Change a knob or a speed there, or tasks (name or pid): nice:TASK=5, slice:TASK=3ms,
    /// cpus:TASK=0-1 (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// Say what a knob was in the recording, if the trace does not hold it (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    recorded: Vec<String>,
    /// Keep the times of interrupts of this task (name or pid) (repeatable)
    #[arg(long, value_name = "TASK")]
    open: Vec<String>,
    /// Keep the lengths of sleeps of this task (name or pid) (repeatable)
    #[arg(long, value_name = "TASK")]
    closed: Vec<String>,
    /// Replay recorded calls that read and write as they were: a reader that slept sleeps
    #[arg(long)]
    no_objects: bool,
    /// Use the recording only up to this time
    #[arg(long, value_name = "TIME")]
    until: Option<Nanos>,
    /// Do not judge the time before this
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    warm_up: Nanos,
    /// Assume that each switch cost this much in the recording
    #[arg(long, value_name = "TIME", default_value = "1500ns")]
    switch_cost: Nanos,
    /// Assume that each wakeup cost the waker this much in the recording
    #[arg(long, value_name = "TIME", default_value = "1us")]
    wake_cost: Nanos,
    /// Assume that recording the begin or the end of a call cost this much; nothing on a simulated
    /// machine
    #[arg(long, value_name = "TIME", default_value = "220ns")]
    call_cost: Nanos,
    /// Say how fast a CPU was beside a busy sibling of its core, in percent of its speed
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    smt_speed: Option<u32>,
    /// Choose a value of a knob on the first half, and report its gain on the second
    #[arg(long, value_name = "NAME=VALUE,...", conflicts_with = "set")]
    search: Option<String>,
    /// Write the demand as an rt-app file, and replay nothing
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Write the trace of the replay (of the changed one, if there is one) to FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the runs at the first moment where they part: runs.svg in this folder
    #[arg(long, value_name = "DIR")]
    draw: Option<PathBuf>,
    #[command(flatten)]
    ground: ThemeOption,
    /// Print at most N rows; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        switch: args.switch_cost,
        wake: args.wake_cost,
        call: args.call_cost,
        open: args.open.iter().cloned().collect(),
        closed: args.closed.iter().cloned().collect(),
        // rt-app has no pipes.
        smt_percent: args.smt_speed,
        objects: !args.no_objects && args.export.is_none(),
    };
    let inferred = infer(&args.file, args.until, options)?;
    if let Some(path) = &args.export {
        let text = schedlab_replay::rt_app(&inferred.demand);
        save(path, text)?;
        text::notes(&inferred.warnings);
        return Ok(ExitCode::SUCCESS);
    }
    let read = |given: &[String], option| {
        given.iter().map(|text| setting(option, text)).collect::<anyhow::Result<Vec<_>>>()
    };
    let settings = read(&args.set, "--set")?;
    let recorded = read(&args.recorded, "--recorded")?;
    let base = base(args);
    let base = base?;
    let on = args.on.clone().unwrap_or_else(|| base.clone());
    let change = (on != base || !settings.is_empty()).then_some((on, settings));
    let file = args.file.clone();
    let plan = ReplayPlan { file, base, recorded, change, warm_up: args.warm_up };
    if inferred.demand.length <= plan.warm_up && plan.warm_up == args.warm_up {
        let length = inferred.demand.length;
        let warm = args.warm_up;
        bail!(UsageError(format!(
            "{}: the trace is only {length} long, and the first {warm} are warm-up: use a \
             shorter --warm-up",
            args.file.display()
        )));
    }
    if let Some(search) = &args.search {
        return search::run(&inferred, &plan, search, args.width.room());
    }
    let runs = Runs::perform(&inferred, &plan)?;
    if let Some(path) = &args.output {
        write(path, &runs)?;
    }
    if let Some(folder) = &args.draw {
        pictures::draw(folder, args.ground, &args.file, &runs)?;
    }
    if args.json {
        json::print(&Document::of(&inferred, &runs))?;
    } else {
        let limits = text::Limits { rows: args.top, room: args.width.room() };
        super::trace::form::print_text(&text::of(&args.file, &inferred, &runs, limits))?;
        text::notes(&inferred.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

/// The demand of a trace.
pub(crate) fn infer(
    file: &Path,
    until: Option<Nanos>,
    options: Options,
) -> anyhow::Result<Inferred> {
    let mut source = schedlab_trace::open_with(file, &schedlab_trace::Options::all_cpus())?;
    let question = Infer::new(source.info(), options);
    let name = || file.display().to_string();
    let cut = Cut { from: None, to: until };
    let reply = if question.wants_arguments() {
        // To read arguments costs time: only traces that hold what the rules use are read with them.
        let with = schedlab_trace::Options { arguments: true, ..Default::default() };
        source = schedlab_trace::open_with(file, &with)?;
        ask_within(&mut *source, cut, WithArguments(question)).with_context(name)?
    } else {
        ask_within(&mut *source, cut, question).with_context(name)?
    };
    let mut inferred = reply.answer;
    if inferred.demand.actors.is_empty() {
        bail!("{}: no task ran in the trace, so it cannot be replayed", file.display());
    }
    inferred.demand.check().map_err(|why| anyhow!("{}: {why}", file.display()))?;
    let known = |code: &str| inferred.warnings.iter().any(|warning| warning.code == code);
    let more: Vec<_> = reply.warnings.into_iter().filter(|one| !known(&one.code)).collect();
    inferred.warnings.extend(more);
    Ok(inferred)
}

fn setting(option: &str, text: &str) -> anyhow::Result<Setting> {
    let wrong = |why| format!("{option}: {why}, as in base_slice=12ms or speed:0-3=50%");
    Ok(text.parse().map_err(|why: String| UsageError(wrong(why)))?)
}

fn write(path: &Path, runs: &Runs) -> anyhow::Result<()> {
    let source = runs.changed.as_ref().map_or(&runs.replayed.source, |changed| &changed.source);
    let info = schedlab_model::EventSource::info(source);
    let written = EventWriter::write_all(path, info, source.events());
    written.with_context(|| path.display().to_string())
}

/// The machine whose replay is compared with the recording.
fn base(args: &Args) -> anyhow::Result<MachineName> {
    let base = match &args.base {
        None => {
            let mut base = like(&args.file);
            // What things cost is no change: it is a better likeness.
            if let Some(costs) = args.on.as_ref().and_then(|on| on.settings.get("costs")) {
                base.settings.insert("costs".to_owned(), costs.clone());
            }
            base
        }
        Some(base) => base.clone(),
    };
    if base.kind != machines::SIM {
        let what = format!("invalid machine '{base}' for --base: use sim:like=FILE,KEY=VALUE,...");
        bail!(UsageError(what));
    }
    Ok(base)
}

/// The name of the simulated machine that is most like the one of a trace.
pub(crate) fn like(file: &Path) -> MachineName {
    let mut name = MachineName::of(machines::SIM);
    name.settings.insert(machines::LIKE.to_owned(), file.display().to_string());
    name
}
