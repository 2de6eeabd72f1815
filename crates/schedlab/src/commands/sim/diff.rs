//! `schedlab sim diff`: the first decision in which a model and a machine differ, from the same state.

use super::follow::{self, Follow, Recording};
use crate::commands::UsageError;
use crate::commands::observe::observe;
use crate::commands::result_file::Ground;
use crate::machines;
use schedlab_model::Setting;
use schedlab_sim::Kernel;
use schedlab_sim::follow::{ASKED, random_load};
use schedlab_workload::{MachineName, RecordSpec, RunSpec, WorkloadSpec};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab sim diff`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  schedlab sim diff --against vm:kernel=debian-6.1,cpus=1 --seeds 20
  schedlab sim diff hackbench -O groups=2 -O pipe=true --against vm:kernel=debian-6.1,cpus=1
  schedlab sim diff hackbench --against sim --set-model wakeup_granularity=0 --picture first.svg

Exit code 1: a difference was found.")]
pub(crate) struct Args {
    /// A workload [default: small random loads]
    workload: Option<String>,
    /// Set an option of the workload by its long name (repeatable)
    #[arg(short = 'O', long = "option", value_name = "NAME=VALUE")]
    options: Vec<String>,
    /// Run the workload on this machine
    #[arg(long, value_name = "MACHINE")]
    against: MachineName,
    /// Ask the scheduler of this simulated machine
    #[arg(long, value_name = "MACHINE", default_value = "sim:kernel=cfs-6.1")]
    on: MachineName,
    /// Set a knob of both (repeatable)
    #[arg(long, value_name = "KNOB=VALUE")]
    set: Vec<String>,
    /// Set a knob of the model only (repeatable)
    #[arg(long, value_name = "KNOB=VALUE")]
    set_model: Vec<String>,
    /// Try N random loads
    #[arg(long, value_name = "N", default_value_t = 10)]
    seeds: u64,
    /// Seed of the first random load, or of the workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// List all differences, a line each
    #[arg(long)]
    list: bool,
    /// Draw the first difference as SVG into FILE
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    #[command(flatten)]
    ground: Ground,
}

fn pairs(given: &[String], what: &str) -> anyhow::Result<Vec<(String, String)>> {
    let pair = |text: &String| {
        let parts = text.split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned()));
        parts.ok_or_else(|| UsageError(format!("invalid value '{text}': use {what}")).into())
    };
    given.iter().map(pair).collect()
}

fn settings(given: &[String]) -> anyhow::Result<Vec<Setting>> {
    let all = pairs(given, "KNOB=VALUE")?;
    Ok(all.into_iter().map(|(knob, value)| Setting { knob, value }).collect())
}

/// Scheduler events, and what the kernel knew at its decisions.
fn charges() -> RecordSpec {
    RecordSpec {
        events: ASKED.iter().map(|&event| event.to_owned()).collect(),
        ..RecordSpec::default()
    }
}

const AUTOGROUP: &str = "autogroup";

impl Args {
    /// Whether sessions must not be groups: on Linux 6.12 the place of a task follows from all tasks in its queue, and
    /// the model has one queue for each CPU. Linux 6.1 logs virtual times, so there the place is known.
    fn needs_one_queue(&self) -> bool {
        machines::model(&self.on).is_ok_and(|model| model.kernel == Kernel::Eevdf612)
    }

    fn loads(&self) -> anyhow::Result<Vec<RunSpec>> {
        let model = machines::model(&self.on)?;
        let common = settings(&self.set)?;
        let Some(name) = &self.workload else {
            let seeds = self.seed..self.seed.saturating_add(self.seeds);
            let load = |seed| {
                let mut spec = random_load(model.kernel, seed);
                spec.settings.extend(common.iter().cloned());
                spec.record = Some(charges());
                spec
            };
            return Ok(seeds.map(load).collect());
        };
        let options = pairs(&self.options, "NAME=VALUE")?.into_iter().collect();
        let workload = WorkloadSpec::Builtin { name: name.clone(), options };
        let record = Some(charges());
        Ok(vec![RunSpec { settings: common, record, seed: self.seed, ..RunSpec::of(workload) }])
    }
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let loads = args.loads()?;
    let own = settings(&args.set_model)?;
    let mut machine = machines::make(&args.against)?;
    let mut out = crate::output::stdout();
    let mut found = 0;
    for spec in &loads {
        writeln!(out, "{}", words(spec))?;
        let seen = observe(machine.as_mut(), &in_one_queue(spec, args), false)?;
        let recording = Recording::of(seen, &args.against)?;
        let settings: Vec<Setting> = spec.settings.iter().chain(&own).cloned().collect();
        let follow = Follow { on: &args.on, settings: &settings };
        let comparison = follow.follow(&recording)?;
        write!(out, "{}", follow::table(&comparison))?;
        if comparison.score.counted > 0 {
            let told = recording.notes.tells_sync();
            let how = if told { "sync as recorded" } else { "all wakeups sync" };
            writeln!(out, "{}", follow::counted(&comparison.score))?;
            write!(out, "{}", follow::scores(how, &comparison.score))?;
        }
        if args.list {
            write!(out, "{}", follow::list(&comparison, &recording))?;
        }
        if let Some(first) = comparison.differences.first() {
            found += 1;
            write!(out, "{}", follow::explain(first, &recording))?;
            if let Some(path) = args.picture.as_ref().filter(|_| found == 1) {
                super::picture::draw(first, &recording, (path, args.ground.theme()))?;
                writeln!(out, "Wrote {}.", path.display())?;
            }
        }
    }
    if loads.len() > 1 {
        writeln!(out, "{found} of {} loads have a difference.", loads.len())?;
    }
    Ok(ExitCode::from(u8::from(found > 0)))
}

/// The load with sessions that are no groups, where the comparison needs it and the load does not say otherwise.
fn in_one_queue(spec: &RunSpec, args: &Args) -> RunSpec {
    let mut spec = spec.clone();
    let ungroups = args.against.kind != "sim" && args.needs_one_queue();
    if ungroups && spec.settings.iter().all(|of| of.knob != AUTOGROUP) {
        let (knob, value) = (AUTOGROUP.to_owned(), "off".to_owned());
        spec.settings.push(Setting { knob, value });
    }
    spec
}

/// A load in words, as it can be asked for again.
fn words(spec: &RunSpec) -> String {
    let mut text = format!("Seed {}: ", spec.seed);
    if let WorkloadSpec::Builtin { name, options } = &spec.workload {
        text.push_str(name);
        options.iter().for_each(|(option, value)| text += &[" ", option, "=", value].concat());
    }
    for Setting { knob, value } in &spec.settings {
        text += &[" --set ", knob, "=", value].concat();
    }
    text
}
