//! `schedlab draw latency`: how long tasks waited for a CPU, as a histogram or cumulative curves.

use super::{Common, Drawn};
use crate::commands::trace::input::Selection;
use schedlab_draw::chart::{Axis, Cdf, Chart, cdf_of, histogram_of};
use schedlab_timeline::{Latency, ask_within};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How many curves can be told apart.
const CURVES_MAX: usize = 8;

/// Options of `schedlab draw latency`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Traces, in any format that schedlab reads; several share one picture
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    selection: Selection,
    /// Use run delay (any wait for a CPU) instead of wakeup latency
    #[arg(long)]
    run_delay: bool,
    /// Draw cumulative curves instead of a histogram; several traces always have curves
    #[arg(long)]
    curve: bool,
    /// Draw cumulative curves that give 90 %, 99 % and 99.9 % equal room
    #[arg(long)]
    tail: bool,
    /// Draw a curve for each of the commands that waited longest
    #[arg(long)]
    by_command: bool,
}

/// Draws the distribution of waits.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    let label = if args.run_delay { "run delay" } else { "wakeup latency" };
    let mut curves = Vec::new();
    let mut bars = None;
    let mut all: Option<Drawn> = None;
    let names = told_apart(&args.files);
    for (file, name) in args.files.iter().zip(&names) {
        let chosen = super::chosen(&args.selection, common, file)?;
        let mut window = common.open(file)?;
        let reply = ask_within(window.source.as_mut(), window.cut, Latency::new())?;
        let answer = reply.answer.only(&chosen);
        let which = |delays: &schedlab_timeline::Delays| match args.run_delay {
            true => delays.run_delay.clone(),
            false => delays.wakeup.clone(),
        };
        if args.by_command {
            let commands = answer.by_comm();
            curves.extend(commands.iter().take(CURVES_MAX).map(|(comm, delays)| {
                let name =
                    if args.files.len() > 1 { format!("{comm} ({name})") } else { comm.clone() };
                cdf_of(&name, &which(delays))
            }));
        } else {
            curves.push(cdf_of(name, &which(&answer.total)));
        }
        bars = Some(histogram_of(&common.title(label, file), label, &which(&answer.total)));
        let drawn = Drawn {
            origin: window.origin,
            window: window.span,
            cpus: reply.state.observed_cpus().count(),
            tasks: reply.state.task_count(),
            chosen: chosen.count(),
            warnings: window.doubts(reply.warnings),
        };
        match &mut all {
            Some(all) => all.join(drawn),
            None => all = Some(drawn),
        }
    }
    let (Some(bars), Some(drawn)) = (bars, all) else {
        return Err(super::usage("name a trace".to_owned()));
    };
    let theme = common.theme();
    let scene = if args.curve || args.tail || args.by_command || args.files.len() > 1 {
        let cdf = Cdf {
            title: common.title.clone().unwrap_or_else(|| format!("{label} of {}", listed(&names))),
            notes: Vec::new(),
            x: Axis::nanoseconds(label).logarithmic(),
            curves,
            tail: args.tail,
        };
        cdf.scene(common.width(), &theme)
    } else {
        bars.scene(common.width(), &theme)
    };
    common.write(&scene, &drawn)?;
    Ok(ExitCode::SUCCESS)
}

/// The files by their names; where two have the same name, by as much of their paths as tells them apart.
fn told_apart(files: &[PathBuf]) -> Vec<String> {
    let tail = |file: &Path, parts: usize| {
        let all: Vec<_> = file.components().collect();
        let tail: PathBuf = all[all.len().saturating_sub(parts)..].iter().collect();
        tail.to_string_lossy().into_owned()
    };
    let name = |file: &PathBuf| {
        let same =
            |parts| files.iter().filter(|other| tail(other, parts) == tail(file, parts)).count();
        let longest = file.components().count().max(1);
        let parts = (1..longest).find(|&parts| same(parts) == 1).unwrap_or(longest);
        tail(file, if same(1) == 1 { 1 } else { parts })
    };
    files.iter().map(name).collect()
}

/// `a`, `a and b`, `a, b and c`.
fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_same_name_are_told_apart_by_their_folders() {
        let names = |list: &[&str]| told_apart(&list.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(names(&["a/x.dat", "b/x.dat"]), ["a/x.dat", "b/x.dat"]);
        assert_eq!(names(&["r/a/x.dat", "r/b/x.dat", "y.dat"]), ["a/x.dat", "b/x.dat", "y.dat"]);
        assert_eq!(names(&["r/a/x.dat"]), ["x.dat"]);
        assert_eq!(names(&["x.dat", "x.dat"]), ["x.dat", "x.dat"]);
        assert_eq!(listed(&names(&["a", "b", "c"])), "a, b and c");
    }
}
