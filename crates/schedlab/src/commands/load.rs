//! `schedlab load`: one workload, now.
//!
//! The options of a workload come from its table in `schedlab-workload`; those here are about what is
//! done with a run: how often, against what, recorded or not, printed how.

mod beside;
mod calibrate;
mod causes;
mod document;
pub(crate) mod drop_in;
pub(crate) mod help;
mod once;
mod outliers;
mod perf;
mod repeat;
mod show;
mod warnings;

pub(crate) use repeat::perform;

use crate::commands::UsageError;
use crate::json::{self, Schema};
use crate::machines;
use crate::removed;
use anyhow::Context as _;
use schedlab_model::Setting;
use schedlab_workload::getopt;
use schedlab_workload::options::{Kind, OptionDoc, Options, option};
use schedlab_workload::placement::COMMON;
use schedlab_workload::workloads::{self, CATALOGUE, Workload};
use schedlab_workload::{HOST, MachineError, MachineName, RecordSpec, RunSpec, WorkloadSpec};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `schedlab load`.
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "\
Examples:
  schedlab load                                        list the workloads
  schedlab load hackbench --help                       the options of one workload
  schedlab load schbench -m 2 -t 8 -r 10 --json
  schedlab load hackbench --repeat 10 --against 'pipe'                two settings, and a verdict
  schedlab load schbench -r 10 --beside 'cpu --tasks 2 --nice 10'     a server and an antagonist
  schedlab load schbench -r 10 --beside 'noise: command --nice 10 -- make -j2'
  schedlab load hackbench -g 3 --on vm:kernel=debian-6.1              on another kernel, in QEMU
  schedlab load schbench -r 5 --trace x.dat; schedlab trace latency x.dat"
)]
pub(crate) struct Args {
    /// A workload and its options; without them, list the workloads
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORKLOAD [OPTIONS]")]
    words: Vec<String>,
}

/// What is done with a run, for any workload.
const OWN: &[OptionDoc] = &[
    option("json", Kind::Flag, "false", "print JSON"),
    option("csv", Kind::Flag, "false", "print the metrics as CSV"),
    option(
        "format",
        Kind::Choice(&["text", "perf", "perf-simple"]),
        "text",
        "print in this format; perf is that of perf bench sched messaging (hackbench) or pipe (pingpong)",
    ),
    option("percentiles", Kind::Text, "50,90,99,99.9", "print these percentiles of latencies"),
    option("repeat", Kind::Number(1, 100_000), "1", "run it N times; each run is one sample"),
    option(
        "against",
        Kind::Text,
        "",
        "interleave runs of a second setting, and compare: options ('pipe', 'groups=4'), LABEL:OPTION=VALUE of a workload \
         beside it, alone (without --beside), knob:NAME=VALUE; several with spaces; or run:COMMAND, which runs during \
         these runs (a sched_ext scheduler)",
    ),
    OptionDoc {
        short: Some('o'),
        ..option(
            "output",
            Kind::Text,
            "",
            "store the runs in this folder (with --repeat) [default: do not store them]",
        )
    },
    option(
        "beside",
        Kind::Text,
        "",
        "run this at the same time: '[LABEL:] WORKLOAD [OPTIONS]', or '[LABEL:] command [OPTIONS] -- PROGRAM \
         ARGUMENTS' (repeatable)",
    ),
    option(
        "on",
        Kind::Text,
        HOST,
        "do the runs on this machine: host, or another, as in sim:cpus=8",
    ),
    option("knob", Kind::Text, "", "set a scheduler tunable, as in base_slice=3ms (repeatable)"),
    option(
        "ext",
        Kind::Text,
        "",
        "with --on vm: run under this sched_ext scheduler, such as scx_simple, or the path of a static program",
    ),
    option("trace", Kind::Text, "", "record scheduler events into this trace.dat"),
    option("trace-size", Kind::Size(1), "", "record at most this much, over all CPUs"),
    option(
        "calibrate-to",
        Kind::Duration(1_000),
        "",
        "schbench: find --operations so that p99 of a request's work lies just under this",
    ),
    option(
        "causes",
        Kind::Text,
        "",
        "schbench: print a table of requests a second, idle CPUs, involuntary switches and wakeup latency, with and \
         without locks, over OPTION=VALUE,VALUE (threads=2,4,8; rps=500,1000)",
    ),
    option("seed", Kind::Number(0, u64::MAX >> 1), "1", "seed of all random numbers"),
    option("wide", Kind::Flag, "false", "print all columns, however long the lines become"),
    option("time-limit", Kind::Duration(1_000_000_000), "", "stop the run after this time"),
    option("help", Kind::Flag, "false", "print the options of the workload"),
];

/// What was typed, checked.
pub(super) struct Wanted {
    workload: &'static Workload,
    spec: RunSpec,
    own: Options,
    on: MachineName,
    /// The file that says what rt-app does.
    file: Option<String>,
}

impl Wanted {
    fn read(words: &[String]) -> anyhow::Result<Self> {
        let (lines, words) = beside::part("beside", words).map_err(usage)?;
        let (knobs, words) = beside::part("knob", &words).map_err(usage)?;
        let settings = knobs.iter().map(|knob| knob.parse().map_err(usage));
        let settings = settings.collect::<anyhow::Result<Vec<Setting>>>()?;
        let (name, rest) = words.split_first().expect("looked at before");
        let (workload, typed) = words_of(name, rest, OWN)?;
        let file =
            rest.iter().find(|word| name == "rt-app" && std::path::Path::new(word).is_file());
        let is_own = |key: &str| OWN.iter().any(|doc| doc.name == key);
        let (own, theirs): (BTreeMap<_, _>, BTreeMap<_, _>) =
            typed.into_iter().partition(|(key, _)| is_own(key));
        let own = Options::new(&[OWN], &own).map_err(usage)?;
        let mut on: MachineName =
            own.text("on").parse().map_err(|why| usage(format!("option on: {why}")))?;
        if own.is_given("ext") {
            if on.kind != machines::VM {
                return Err(usage("option ext: it needs a guest: add --on vm:kernel=NAME"));
            }
            on.settings.insert("ext".to_owned(), own.text("ext").to_owned());
        }
        let limit_bytes = own.is_given("trace-size").then(|| own.size("trace-size"));
        let record = (!own.text("trace").is_empty())
            .then(|| RecordSpec { limit_bytes, ..RecordSpec::default() });
        let limit = own.is_given("time-limit").then(|| own.duration("time-limit"));
        let spec = RunSpec {
            workload: WorkloadSpec::Builtin { name: name.clone(), options: theirs },
            beside: lines.iter().map(|line| beside::read(line)).collect::<anyhow::Result<_>>()?,
            settings,
            record,
            seed: own.number("seed"),
            repeat: 0,
            time_limit: limit,
        };
        Ok(Self { workload, spec, own, on, file: file.cloned() })
    }
}

/// A workload as it is typed, `hackbench -g 2`: its name, and what it is.
pub(crate) fn workload_of(line: &str) -> anyhow::Result<(String, WorkloadSpec)> {
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let Some((name, rest)) = words.split_first() else {
        return Err(usage("missing workload: `schedlab load` lists the workloads"));
    };
    let (_, options) = words_of(name, rest, &[])?;
    Ok((name.clone(), WorkloadSpec::Builtin { name: name.clone(), options }))
}

/// A workload by name, and the options that stand after it, of its own and of `own`.
fn words_of(
    name: &str,
    rest: &[String],
    own: &[OptionDoc],
) -> anyhow::Result<(&'static Workload, BTreeMap<String, String>)> {
    let workload = workloads::find(name).map_err(usage)?;
    let table: Vec<OptionDoc> = [own, workload.options, COMMON].concat();
    let mut typed = getopt::read(&table, rest).map_err(|error| mistyped(name, &error, &table))?;
    let mut values = typed.options.iter();
    if let Some(text) = values
        .find_map(|(option, value)| removed::value(&["load", name], &format!("--{option}"), value))
    {
        return Err(usage(text));
    }
    match (name, &typed.operands[..]) {
        (_, []) => {}
        // What the file says is part of the run's identity: the spec holds it, not its path.
        ("rt-app", [file]) => {
            let path = std::path::Path::new(file);
            let text = schedlab_sys::regular_file::text(path).with_context(|| file.clone())?;
            typed.options.insert("program".to_owned(), text);
        }
        ("replay", [file]) => {
            let options = schedlab_replay::Options::default();
            let inferred = super::replay::infer(std::path::Path::new(file), None, options)?;
            typed.options.insert("program".to_owned(), inferred.demand.to_string());
        }
        ("command", words) => {
            typed.options.insert("line".to_owned(), workloads::command::line(words));
        }
        ("rt-app", [_, second, ..]) => {
            anyhow::bail!(UsageError(format!("unexpected file '{second}': rt-app takes one file")));
        }
        (_, [operand, ..]) => {
            anyhow::bail!(UsageError(format!(
                "unexpected operand '{operand}': {name} takes only options"
            )));
        }
    }
    Ok((workload, typed.options))
}

/// The error about words that are not options of the workload: with the successor of one that is gone, or with the option
/// that was probably meant.
fn mistyped(workload: &str, error: &getopt::Mistyped, table: &[OptionDoc]) -> anyhow::Error {
    if let getopt::Mistyped::NoLong(option) = error
        && let Some(text) = removed::option(&["load", workload], &format!("--{option}"))
    {
        return usage(text);
    }
    match error.hint(table) {
        none if none.is_empty() => usage(error),
        meant => usage(format!("{error}; {meant}")),
    }
}

fn usage(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::Error::new(UsageError(error.to_string()))
}

/// What it prints with `--json`.
pub(crate) fn documents() -> Vec<Schema> {
    vec![
        json::of::<document::Document>(),
        json::of::<document::Repeats>(),
        json::of::<calibrate::Document>(),
        json::of::<causes::Document>(),
    ]
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { words } = args;
    let first = words.first().map(String::as_str);
    if matches!(first, None | Some("--help" | "-h" | "help")) {
        return show::print(&catalogue());
    }
    let wanted = Wanted::read(&words)?;
    if wanted.own.flag("help") {
        return show::print(&help::text(wanted.workload));
    }
    let mut machine = machines::make(&wanted.on)?;
    let machine = machine.as_mut();
    machine.check(&wanted.spec).map_err(|error| match (error, &wanted.file) {
        // An error about a file names the file.
        (MachineError::Option { option, why, .. }, Some(file)) if option == "program" => {
            usage(format!("{file}: {why}"))
        }
        (error, _) => once::run_error(error),
    })?;
    if wanted.own.is_given("calibrate-to") {
        return calibrate::run(&wanted, machine);
    }
    if wanted.own.is_given("causes") {
        return causes::run(&wanted, machine);
    }
    let against = !wanted.own.text("against").is_empty();
    if wanted.own.number("repeat") > 1 || against {
        return repeat::run(&wanted, machine);
    }
    once::run(&wanted, machine)
}

fn catalogue() -> String {
    let mut text = String::from("schedlab load WORKLOAD [OPTIONS]\n\nWorkloads:\n");
    for workload in CATALOGUE {
        let _ = writeln!(text, "  {:12} {}", workload.name, workload.about);
    }
    text.push_str("\n`schedlab load WORKLOAD --help` lists the options of one.\n");
    text
}

/// Characters of a line of the text.
fn room(wanted: &Wanted) -> usize {
    crate::output::room_if(wanted.own.flag("wide"))
}

/// The file that the trace goes to, where one is wanted.
fn trace_file(wanted: &Wanted) -> Option<PathBuf> {
    Some(wanted.own.text("trace")).filter(|text| !text.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_workload_has_an_option_with_a_letter_of_what_all_runs_take() {
        let letters: Vec<char> = OWN.iter().filter_map(|doc| doc.short).collect();
        assert_eq!(letters, ['o']);
        for workload in workloads::CATALOGUE {
            let theirs = workload.options.iter().chain(COMMON).filter_map(|doc| doc.short);
            assert!(theirs.clone().all(|letter| !letters.contains(&letter)), "{}", workload.name);
        }
    }

    #[test]
    fn an_option_of_a_workload_that_is_gone_names_its_successor() {
        for line in ["jobs --queues one-token", "jobs --emergency pause", "jobs --emergency=pause"]
        {
            let said = workload_of(line).unwrap_err().to_string();
            assert!(said.contains("` is now `"), "{line}: {said}");
        }
        let said = workload_of("hackbench --queues one-token").unwrap_err().to_string();
        assert!(!said.contains("is now"), "{said}");
        assert!(workload_of("jobs --emergency shed").is_ok());
    }
}
