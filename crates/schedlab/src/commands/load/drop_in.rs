//! The names of other tools: `schbench` and `hackbench` with their options, streams, text and exit
//! codes. Under these names behaviour and cost are the original's (`--compat upstream`) by default.

use super::help::value_name;
use super::once::{EXIT_INTERRUPTED, Progress, perform};
use crate::machines;
use schedlab_model::MachineFacts;
use schedlab_trace::NewFile;
use schedlab_workload::getopt::{self, Typed};
use schedlab_workload::options::{Kind, OptionDoc, Options};
use schedlab_workload::placement::COMMON;
use schedlab_workload::upstream::{hackbench as hack, perf, schbench as sch};
use schedlab_workload::workloads::{self, schbench::PIPE_BYTES_MAX};
use schedlab_workload::{
    Interval, Machine, MachineError, MachineName, Outcome, RunSpec, WorkloadSpec,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

const fn doc(name: &'static str, short: Option<char>, kind: Kind, help: &'static str) -> OptionDoc {
    OptionDoc { name, short, kind, default: "", help }
}

const SCHBENCH: &[OptionDoc] = &[
    doc("json", Some('j'), Kind::Text, "write the metrics to this file as JSON; -: stdout"),
    doc("jobname", Some('J'), Kind::Text, "a name for the JSON"),
    doc("version", None, Kind::Flag, "the version of schedlab"),
    doc("help", None, Kind::Flag, "this text"),
];

const HACKBENCH: &[OptionDoc] = &[
    doc("format", None, Kind::Choice(&["hackbench", "perf", "perf-simple"]), "whose text to print"),
    doc("version", None, Kind::Flag, "the version of schedlab"),
    doc("help", Some('h'), Kind::Flag, "this text"),
];

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

fn err(text: &str) {
    let _ = crate::output::stderr().write_all(text.as_bytes());
}

fn out(text: &str) {
    let mut out = crate::output::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn spec(name: &str, options: BTreeMap<String, String>) -> RunSpec {
    RunSpec {
        workload: WorkloadSpec::Builtin { name: name.to_owned(), options },
        beside: Vec::new(),
        settings: Vec::new(),
        record: None,
        seed: 1,
        repeat: 0,
        time_limit: None,
    }
}

/// What `--compat` is under the names of other tools.
const COMPAT: &str = "upstream";

/// The tables of a tool, its own options first.
fn table(name: &str, own: &[OptionDoc]) -> Vec<OptionDoc> {
    let workload = workloads::find(name).expect("it is one of ours");
    let mut table = [workload.options, own, COMMON].concat();
    for doc in table.iter_mut().filter(|doc| doc.name == "compat") {
        doc.default = COMPAT;
    }
    table
}

fn usage(name: &str, table: &[OptionDoc]) -> String {
    let mut text = format!("{name} usage (performed by schedlab):\n");
    for doc in table {
        let _ = writeln!(text, "{}", line(doc));
    }
    text
}

/// One option in the help.
fn line(doc: &OptionDoc) -> String {
    let value = value_name(doc.kind).map_or_else(String::new, |value| format!(" {value}"));
    let short = doc.short.map_or("    ".to_owned(), |letter| format!("-{letter}, "));
    let name = format!("  {short}--{}{value}", doc.name);
    let words = match doc.kind {
        Kind::Choice(words) => format!(" [possible values: {}]", words.join(", ")),
        _ => String::new(),
    };
    let default = match (doc.kind, doc.default) {
        (Kind::Flag, _) | (_, "") => String::new(),
        (_, default) => format!(" [default:{STAYS}{default}]"),
    };
    wrapped(&format!("{name:32}"), &format!("{}{words}{default}", doc.help))
}

/// A space at which no line ends.
const STAYS: char = '\u{a0}';

/// A name and the words that explain it, which stay beside the name on every line.
fn wrapped(name: &str, text: &str) -> String {
    const COLUMNS: usize = 100;
    let indent = 33;
    let mut lines = String::new();
    let mut line = format!("{name:indent$}");
    for word in text.split(' ') {
        if line.chars().count() > indent && line.chars().count() + word.len() > COLUMNS {
            lines = lines + line.trim_end() + "\n";
            line = " ".repeat(indent);
        }
        line = line + word + " ";
    }
    (lines + line.trim_end()).replace(STAYS, " ")
}

/// What was probably meant, as a line; nothing where that cannot be guessed.
fn hint(error: &getopt::Mistyped, table: &[OptionDoc]) -> String {
    match error.hint(table) {
        none if none.is_empty() => none,
        meant => format!("{meant}\n"),
    }
}

/// Splits what was typed into options of the drop-in and of the workload.
fn split(typed: Typed, own: &[OptionDoc]) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let is_own = |key: &String| own.iter().any(|doc| doc.name == key);
    let (own, mut options): (_, BTreeMap<_, _>) =
        typed.options.into_iter().partition(|(key, _)| is_own(key));
    options.entry("compat".to_owned()).or_insert_with(|| COMPAT.to_owned());
    (own, options)
}

/// Numbers as the originals read them, where that is surely what was meant: up to a blank, since
/// scripts give several options in one word (`"-g 10 -l 100"`), of which getopt sees the first; and
/// `-A -L`, where `-L` is the number. Each is reported.
fn lenient(program: &str, table: &[OptionDoc], options: &mut BTreeMap<String, String>) {
    let numeric = |kind| matches!(kind, Kind::Number(..) | Kind::Size(_) | Kind::Duration(_));
    for (name, value) in options.iter_mut() {
        let known = table.iter().find(|doc| doc.name == name).is_some_and(|doc| numeric(doc.kind));
        if !known {
            continue;
        }
        let first = value.split_whitespace().next().unwrap_or_default().to_owned();
        let read = match first.as_str() {
            number if number != value && number.parse::<u64>().is_ok() => first,
            option if name == "auto-rps" && option.starts_with("-L") => "0".to_owned(),
            _ => continue,
        };
        err(&format!(
            "{program}: --{name}: '{value}' is read as {read}, as the original does; each option needs words of its own\n"
        ));
        *value = read;
    }
}

fn version(name: &str) -> ExitCode {
    out(&format!("{name} (schedlab {})\n", env!("CARGO_PKG_VERSION")));
    ExitCode::SUCCESS
}

fn words(arguments: &[std::ffi::OsString]) -> (String, Vec<String>) {
    let mut words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
    (words.next().unwrap_or_default(), words.collect())
}

fn failure(name: &str, error: &MachineError) -> ExitCode {
    let text = match error {
        MachineError::Option { option, why, .. } => format!("{name}: option {option}: {why}\n"),
        other => format!("{name}: {other}\n"),
    };
    err(&text);
    ExitCode::FAILURE
}

/// This machine: the originals know no other.
fn host(program: &str) -> Result<Box<dyn Machine>, ExitCode> {
    machines::make(&MachineName::default()).map_err(|error| failure(program, &error))
}

/// schbench: everything on stderr, JSON where it is asked for, 1 for wrong usage.
pub(crate) fn schbench(arguments: &[std::ffi::OsString]) -> ExitCode {
    let (program, given) = words(arguments);
    let table = table("schbench", SCHBENCH);
    let wrong = |text: &str| {
        err(&format!("{text}{}", usage("schbench", &table)));
        ExitCode::FAILURE
    };
    let typed = match getopt::read_as(sch::LONG_OPTIONS, &table, &given) {
        Ok(typed) => typed,
        Err(error) => return wrong(&format!("{program}: {error}\n{}", hint(&error, &table))),
    };
    if let Some(operand) = typed.operands.first() {
        err(&format!("Error Extra arguments '{operand}'\n"));
        return ExitCode::FAILURE;
    }
    let (own, mut options) = split(typed, SCHBENCH);
    if own.contains_key("version") {
        return version("schbench");
    }
    if own.contains_key("help") {
        return wrong("");
    }
    lenient(&program, &table, &mut options);
    // Upstream takes 0 of what is not wanted for its absence.
    options.retain(|key, value| {
        !(matches!(key.as_str(), "pipe" | "rps" | "auto-rps") && value == "0")
    });
    let spec = spec("schbench", options.clone());
    let mut host = match host(&program) {
        Ok(host) => host,
        Err(code) => return code,
    };
    if let Err(error) = host.check(&spec) {
        let cpus =
            matches!(&error, MachineError::Option { option, .. } if option.ends_with("-cpus"));
        err(if cpus { "failed to parse cpuset information\n" } else { "" });
        err(&format!("{program}: {error}\n"));
        return ExitCode::FAILURE;
    }
    tell(&program, host.as_mut(), &given, &spec, &own, style(&options))
}

/// Runs schbench and prints it; the file for its JSON is made first, so that a run is not lost to its path.
fn tell(
    program: &str,
    host: &mut dyn Machine,
    given: &[String],
    spec: &RunSpec,
    own: &BTreeMap<String, String>,
    mut style: sch::Style,
) -> ExitCode {
    let file = match own.get("json").filter(|path| *path != "-") {
        Some(path) => match NewFile::create(Path::new(path)) {
            Ok(file) => Some(file),
            Err(error) => {
                err(&format!("{program}: {path}: {error}\n"));
                return ExitCode::FAILURE;
            }
        },
        None => None,
    };
    let mut reported = 0;
    let mut listen = |progress: Progress<'_>| match progress {
        Progress::Note(sentence) => err(&format!("{sentence}\n")),
        Progress::Interval(interval) => {
            let second = interval.elapsed.0 / SECOND;
            // The report of the last second comes before the final one, where it is due.
            if !interval.last || second >= reported + style.interval {
                reported = second;
                err(&sch::report(interval, &style));
            }
        }
    };
    let (measured, outcome) = match perform(host, spec, None, &mut listen) {
        Ok(ended) => ended,
        Err(error) => return failure(program, &error),
    };
    style.workers = measured.value("tasks").map_or(1, |tasks| tasks as u64 - style.messengers);
    let nothing = Interval::default();
    let whole = measured.whole().unwrap_or(&nothing);
    if let Some(target) = own.get("json") {
        let origin = origin(measured.facts.as_ref(), own.get("jobname"), program, given);
        let text = sch::json(whole, &style, &origin, outcome.interrupted);
        match file {
            Some(mut file) => {
                if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.keep()) {
                    err(&format!("{program}: {target}: {error}\n"));
                    return ExitCode::FAILURE;
                }
            }
            None => out(&text),
        }
    }
    err(&sch::last(whole, &style, outcome.interrupted));
    if !style.upstream {
        overload(whole);
    }
    code(&outcome)
}

/// An open loop that offered more than was done says so.
fn overload(whole: &Interval) {
    let count = |name: &str| whole.counts.iter().find(|(n, _)| n == name).map_or(0, |c| c.1);
    let offered = count("requests_offered");
    let done = count("requests");
    let dropped = count("requests_dropped");
    if offered > 0 && (dropped > 0 || done * 20 < offered * 19) {
        err(&format!(
            "overload: {offered} requests were offered, {done} done, {dropped} dropped; \
             latencies count from when a request was to start\n"
        ));
    }
}

fn code(outcome: &Outcome) -> ExitCode {
    match (outcome.interrupted, outcome.exit_code) {
        (true, _) => ExitCode::from(EXIT_INTERRUPTED),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    }
}

/// What schbench's text depends on.
fn style(options: &BTreeMap<String, String>) -> sch::Style {
    let workload = workloads::find("schbench").expect("it is one of ours");
    let options = Options::new(&[workload.options, COMMON], options).expect("checked before");
    let pipe = options.size("pipe").min(PIPE_BYTES_MAX);
    sch::Style {
        pipe: (pipe > 0).then_some(pipe),
        auto: options.number("auto-rps") > 0,
        messengers: options.number("message-threads"),
        workers: 0,
        runtime: options.duration("runtime").0 / SECOND,
        interval: (options.duration("intervaltime").0 / SECOND).max(1),
        upstream: options.text("compat") == "upstream",
    }
}

fn origin(
    facts: Option<&MachineFacts>,
    jobname: Option<&String>,
    program: &str,
    given: &[String],
) -> sch::Origin {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let ops = facts.and_then(|f| f.kernel.sched_ext.known()).filter(|ops| !ops.is_empty());
    let cmdline: Vec<&str> =
        std::iter::once(program).chain(given.iter().map(String::as_str)).collect();
    sch::Origin {
        version: facts.map_or_else(String::new, |facts| facts.kernel.release.clone()),
        jobname: jobname.cloned(),
        hostname: facts.map_or_else(String::new, |facts| facts.host.clone()),
        sched_ext: ops.cloned().unwrap_or_else(|| "disabled".to_owned()),
        cmdline: cmdline.join(" "),
        time: now.map_or(0, |time| time.as_secs()),
    }
}

/// hackbench: results on stdout, 1 for wrong usage and for a run in which a task failed.
pub(crate) fn hackbench(arguments: &[std::ffi::OsString]) -> ExitCode {
    let (program, given) = words(arguments);
    let table = table("hackbench", HACKBENCH);
    let wrong = |text: &str| {
        err(text);
        out(&usage("hackbench", &table));
        ExitCode::FAILURE
    };
    // The old form, before it had options: hackbench [-pipe] GROUPS [process|thread] [LOOPS].
    let given: Vec<String> =
        given.into_iter().map(|w| if w == "-pipe" { "--pipe".to_owned() } else { w }).collect();
    let typed = match getopt::read_as(hack::LONG_OPTIONS, &table, &given) {
        Ok(typed) => typed,
        Err(error) => return wrong(&format!("{program}: {error}\n{}", hint(&error, &table))),
    };
    let operands = typed.operands.clone();
    let order = typed.order.clone();
    let (own, mut options) = split(typed, HACKBENCH);
    if own.contains_key("version") {
        return version("hackbench");
    }
    if own.contains_key("help") {
        out(&format!("hackbench (schedlab {})\n", env!("CARGO_PKG_VERSION")));
        out(&usage("hackbench", &table));
        return ExitCode::SUCCESS;
    }
    if let Err(text) = old_form(&operands, &mut options) {
        return wrong(&format!("{program}: {text}\n"));
    }
    lenient(&program, &table, &mut options);
    for (name, letter) in [("groups", 'g'), ("fds", 'f'), ("loops", 'l'), ("datasize", 's')] {
        let value = options.get(name);
        if value.is_some_and(|value| value.parse::<u64>().map_or(true, |n| n == 0)) {
            return wrong(&format!("{program}: --{name}|-{letter} requires an integer > 0\n"));
        }
    }
    if options.contains_key("pipe") && options.contains_key("inet") {
        let text = "--pipe|-p and --inet|-i cannot be used together";
        return wrong(&format!("{program}: {text}\n"));
    }
    // The last of both counts.
    let last = order.iter().rfind(|name| ["threads", "processes"].contains(name));
    options.remove(if last == Some(&"processes") { "threads" } else { "processes" });
    let spec = spec("hackbench", options.clone());
    let mut host = match host(&program) {
        Ok(host) => host,
        Err(code) => return code,
    };
    if let Err(error) = host.check(&spec) {
        return wrong(&format!("{program}: {error}\n"));
    }
    let format = own.get("format").map_or("hackbench", String::as_str);
    measure(&program, host.as_mut(), &spec, &options, format)
}

/// Runs hackbench and prints it in a format.
fn measure(
    program: &str,
    host: &mut dyn Machine,
    spec: &RunSpec,
    options: &BTreeMap<String, String>,
    format: &str,
) -> ExitCode {
    let workload = workloads::find("hackbench").expect("it is one of ours");
    let options = Options::new(&[workload.options, COMMON], options).expect("checked before");
    let banner = hack::Banner {
        processes: !options.flag("threads"),
        groups: options.number("groups"),
        fds: options.number("fds"),
        loops: options.number("loops"),
        bytes: options.number("datasize"),
    };
    if format == "hackbench" {
        out(&hack::banner(&banner));
    }
    let (measured, outcome) = match perform(host, spec, None, &mut |_| ()) {
        Ok(ended) => ended,
        Err(error) => return failure(program, &error),
    };
    let time = measured.value("time_s").unwrap_or(0.0);
    if outcome.interrupted {
        err(&format!("{program}: interrupted after {time:.3} s; not all messages were passed\n"));
        return ExitCode::from(EXIT_INTERRUPTED);
    }
    out(&match format {
        "perf" => perf::messaging(banner.processes, banner.groups, banner.fds, time),
        "perf-simple" => perf::simple(time),
        _ => hack::time(time),
    });
    code(&outcome)
}

/// Operands of the old form become options, where no option says otherwise.
fn old_form(operands: &[String], options: &mut BTreeMap<String, String>) -> Result<(), String> {
    let mut operands = operands.iter();
    let mut set = |name: &str, value: &str| {
        options.entry(name.to_owned()).or_insert_with(|| value.to_owned());
    };
    if let Some(groups) = operands.next() {
        set("groups", groups);
    }
    for operand in operands {
        match operand.as_str() {
            "process" => set("processes", "true"),
            "thread" => set("threads", "true"),
            loops if loops.bytes().all(|b| b.is_ascii_digit()) => set("loops", loops),
            other => return Err(format!("'{other}' is neither process, thread nor a number")),
        }
    }
    Ok(())
}
