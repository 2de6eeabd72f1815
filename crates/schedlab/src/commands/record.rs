//! `schedlab record`.

mod elsewhere;
mod repeat;

pub(crate) use repeat::Files;

use super::UsageError;
use super::ssh::Ssh;
use super::temporary_folder::Scratch;
use crate::json;
use crate::machines;
use anyhow::Context as _;
use schedlab_model::{Bytes, Cpu, Event, Nanos, Pid, TraceInfo, Warning};
use schedlab_record::mark_file as marks;
use schedlab_record::{
    Filter, Full, Options, Recorder, Snapshot, UserStacks, Via, Watched, spool_of, stitch,
};
use schedlab_sys::perf::UserStack;
use schedlab_sys::{clock, process, signal};
use schedlab_trace::{Census, EventWriter};
use schedlab_workload::{
    Figure, MachineName, Output, Recorded, RecordedLocks, RecordedRequest, RecordedStacks,
    Requested, RunSpec, Stream, WorkloadSpec,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab record`.
#[derive(clap::Args)]
#[command(after_help = "\
Without a command it records until Ctrl-C. With one, the exit code is the command's.

Examples:
  schedlab record -o x.dat -- hackbench -g 4 -l 1000
  schedlab record -o x.dat -e irq -e power:cpu_frequency -- make -j8
  schedlab record --for replay -o x.dat -- make -j8
  schedlab record --for replay --calls -o x.dat -- hackbench -p
  schedlab record --time 10s --size 100MiB --full overwrite
  schedlab record --snapshot 20ms --keep 200ms -- ./server
  schedlab record --snapshot 20ms --max 20 -o /var/log/late.dat
  schedlab record --snapshot 5ms --between request -- schedlab load app
  schedlab record --trace-marker --snapshot 5ms --between frame
  schedlab record --request 'postgres:query__start..query__done' --time 10s
  schedlab record --request './server:handle' -- ./server
  schedlab record --request 'syscall:accept4%return($retval)..close($arg1)'
  schedlab record --request-list libc.so.6 malloc
  schedlab record --locks -- ./server; schedlab trace locks trace.dat
  schedlab record --stacks -- make; schedlab trace tasks trace.dat
  schedlab record --stacks user,kernel -- ./server; schedlab draw flame trace.dat -o off.svg
  schedlab record --time 10s; schedlab why trace.dat
  schedlab record --ssh root@host --time 10s -o x.dat
  trace-cmd report x.dat; kernelshark x.dat")]
pub(crate) struct Args {
    /// Write the trace to FILE; - is the standard output
    #[arg(short, long, value_name = "FILE", default_value = "trace.dat")]
    output: PathBuf,
    #[command(flatten)]
    ssh: Ssh,
    /// Record these tracepoints too: a system, system:name, or a name; one that ends with '?' is left
    /// out if the kernel does not have it (repeatable)
    #[arg(short, long = "event", value_name = "SYSTEM[:NAME]|NAME")]
    events: Vec<String>,
    /// Record the events that this needs
    #[arg(long = "for", value_enum, default_value = "power")]
    purpose: Purpose,
    /// Record calls that read, write, poll and use futexes too: a replay then knows which data was found
    /// without a wait
    #[arg(long)]
    calls: bool,
    /// Record through this interface of the kernel
    #[arg(long, value_enum, default_value = "auto")]
    via: Interface,
    /// Use this much memory for the ring of each CPU
    #[arg(long, value_name = "SIZE", default_value = "4MiB")]
    ring: Bytes,
    /// Stop recording after this time; the command goes on
    #[arg(long, value_name = "DURATION")]
    time: Option<Nanos>,
    /// Record at most this much, over all CPUs
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// At that size, stop or overwrite the oldest events
    #[arg(long, value_enum, default_value = "stop", requires = "size")]
    full: AtSize,
    /// Record only events that concern these tasks (threads)
    #[arg(long = "pid", value_name = "PID", value_delimiter = ',')]
    pids: Vec<i32>,
    /// Filter an event in the kernel, as in 'sched_switch: next_prio < 100' (repeatable)
    #[arg(long = "filter", value_name = "EVENT: EXPRESSION")]
    filters: Vec<Filter>,
    /// End when a task was runnable this long without running, and keep the events before
    #[arg(long, value_name = "DURATION", conflicts_with = "size")]
    snapshot: Option<Nanos>,
    /// Watch only these tasks for --snapshot, and record all: pid=N, comm=NAME or cgroup=PATH
    /// (repeatable)
    #[arg(long, value_name = "KEY=VALUE", requires = "snapshot", conflicts_with = "between")]
    watch: Vec<Watched>,
    /// Apply the limit of --snapshot to requests of this name, from begin to end of the marks that
    /// schedlab's loads write, and other programs with --trace-marker, instead of waits
    #[arg(long, value_name = "MARK", requires = "snapshot")]
    between: Option<String>,
    /// Go on after a snapshot, and keep the newest N as FILE-000001.dat and so on, as a service
    #[arg(
        long,
        value_name = "N",
        requires = "snapshot",
        conflicts_with_all = ["command", "salvage"],
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    max: Option<u32>,
    /// Store what programs write into trace_marker as marks: B|PID|NAME and E|PID, S|PID|NAME|ID and
    /// F|PID|NAME|ID, 'begin NAME ID' and 'end NAME ID' (ID is optional), or any other text
    #[arg(long)]
    trace_marker: bool,
    /// Store requests of a program that writes no marks: from the entry of a function to its return, or
    /// between two functions, static probes (USDT) or system calls (repeatable). Begin and end are of the
    /// same thread, or have the same argument, as in 'nginx:A($arg1)..B($arg1)'
    #[arg(long = "request", value_name = "[NAME=]PROGRAM:BEGIN[..END]")]
    requests: Vec<Requested>,
    /// List what --request can name in a program, a library or 'syscall'; only names that hold PATTERN
    #[arg(
        long,
        num_args = 1..=2,
        value_names = ["PROGRAM", "PATTERN"],
        conflicts_with_all = ["command", "salvage", "requests"]
    )]
    request_list: Vec<String>,
    /// Store who waits for locks: futex calls of all tasks, and contention for the kernel's own locks, for
    /// `trace locks` and `why`. The end of the recording says what that cost
    #[arg(long)]
    locks: bool,
    /// Write the trace without compression, for trace-cmd before 3.0; it takes 4 to 12 times the space
    #[arg(long, conflicts_with = "salvage")]
    no_compress: bool,
    /// Store the call stacks with which tasks went to sleep, for `trace stacks`, `trace why` and `trace
    /// tasks`: the kernel's functions, and with 'user' those of programs; 'waker' and 'running' add stacks
    #[arg(
        long,
        value_enum,
        value_name = "WHOSE",
        value_delimiter = ',',
        num_args = 0..=1,
        default_missing_value = "kernel"
    )]
    stacks: Vec<Whose>,
    /// Copy this much of a program's stack at each switch, to find its functions when the recording ends;
    /// with 0 the kernel follows frame pointers, which costs less and which most programs do not have
    #[arg(long, value_name = "SIZE", default_value = "16KiB", requires = "stacks")]
    stack_copy: Bytes,
    /// Keep the events of this time before a snapshot
    #[arg(long, value_name = "DURATION", default_value = "100ms", requires = "snapshot")]
    keep: Nanos,
    /// Write the trace of a killed recording, from the directory that it left
    #[arg(long, value_name = "DIR", conflicts_with_all = ["events", "command"])]
    salvage: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Run the command on this machine
    #[arg(long, value_name = "MACHINE", default_value_t, requires = "command")]
    on: MachineName,
    /// The command to run
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Interface {
    /// Use ftrace, which costs least; use perf events if tracefs is not writable
    Auto,
    /// Use one ring of perf events for each CPU
    Perf,
    /// Use an ftrace instance
    Ftrace,
}

impl From<Interface> for Via {
    fn from(interface: Interface) -> Self {
        match interface {
            Interface::Auto => Self::Auto,
            Interface::Perf => Self::Perf,
            Interface::Ftrace => Self::Ftrace,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Whose {
    /// Functions of the kernel
    Kernel,
    /// Functions of the programs
    User,
    /// The same also of each task that wakes another, for --wakers of `trace stacks` and `draw flame`
    Waker,
    /// The same also of tasks that run, at each tick, for --running of `trace stacks` and `draw flame`
    Running,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Purpose {
    /// Only scheduler events
    Scheduling,
    /// Also frequencies, idle states, IPIs and hrtimers, if the kernel has them: `schedlab trace power`,
    /// and lanes in pictures
    Power,
    /// For `schedlab replay`: interrupts, timers, frequency changes if the kernel has them, and at the start
    /// knobs, tick, preemption, and the policy, slice, session and group of each task
    Replay,
}

impl Purpose {
    /// What it records beside scheduler events.
    const fn events(self) -> &'static [&'static str] {
        match self {
            Self::Scheduling => &[],
            Self::Power => &FOR_POWER,
            Self::Replay => &FOR_REPLAY,
        }
    }
}

/// What a replay needs beyond scheduler events.
const FOR_REPLAY: [&str; 5] = [
    "irq",
    "power:cpu_frequency?",
    "timer:hrtimer_start?",
    "timer:hrtimer_expire_entry?",
    "timer:hrtimer_expire_exit?",
];

/// Calls that pass data or wake others. Kernels without tracepoints of system calls have none of them.
const CALLS: [&str; 16] = [
    "read",
    "readv",
    "recvfrom",
    "recvmsg",
    "write",
    "writev",
    "sendto",
    "sendmsg",
    "futex",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
];

/// What `trace power` asks about. IPIs have names of their own on each architecture.
const FOR_POWER: [&str; 10] = [
    "power:cpu_frequency?",
    "power:cpu_idle?",
    "timer:hrtimer_expire_entry?",
    "timer:hrtimer_expire_exit?",
    "ipi:ipi_entry?",
    "ipi:ipi_exit?",
    "irq_vectors:reschedule_entry?",
    "irq_vectors:reschedule_exit?",
    "irq_vectors:call_function_single_entry?",
    "irq_vectors:call_function_single_exit?",
];

#[derive(Clone, Copy, clap::ValueEnum)]
enum AtSize {
    Stop,
    Overwrite,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    match &args.ssh.ssh {
        Some(host) => elsewhere::run(&args, host),
        None if args.output == Path::new("-") => to_stdout(args),
        None => record(args),
    }
}

/// The trace goes to the standard output, and all else to the standard error, also what a command prints.
fn to_stdout(mut args: Args) -> anyhow::Result<ExitCode> {
    takes_a_trace(&args.output)?;
    let other = [(args.json, "--json"), (args.max.is_some(), "--max")];
    refuse(&other, "-o -", "name a file with -o")?;
    let mut out = File::from(process::divert_stdout()?);
    let scratch = Scratch::new("record")?;
    // Messages about a file of this name say "the standard output".
    let trace = scratch.path().join("-");
    args.output.clone_from(&trace);
    let code = record(args)?;
    if trace.exists() {
        std::io::copy(&mut File::open(&trace)?, &mut out).context("the standard output")?;
    }
    Ok(code)
}

/// Refuses an option that is asked for beside `with`; `instead` says what to do.
fn refuse(options: &[(bool, &str)], with: &str, instead: &str) -> Result<(), UsageError> {
    let Some((_, option)) = options.iter().find(|(is_asked, _)| *is_asked) else { return Ok(()) };
    Err(UsageError(format!("{option} and {with} do not go together: {instead}")))
}

/// Refuses a terminal: a trace is no text.
fn takes_a_trace(output: &Path) -> anyhow::Result<()> {
    use std::io::IsTerminal as _;
    if output == Path::new("-") && crate::output::screen().is_terminal() {
        let what = "-o -: the standard output is a terminal: use a pipe, or name a file";
        return Err(UsageError(what.into()).into());
    }
    Ok(())
}

/// How an output is called.
fn shown(output: &Path) -> String {
    match output.ends_with("-") {
        true => "the standard output".to_owned(),
        false => output.display().to_string(),
    }
}

fn record(args: Args) -> anyhow::Result<ExitCode> {
    if let [program, pattern @ ..] = args.request_list.as_slice() {
        return list(program, pattern.first().map_or("", String::as_str));
    }
    let options = options(&args)?;
    if let Some(max) = args.max {
        return repeat::run(&options, &args.output, max, args.json);
    }
    let Args { output, salvage, json, command, on, .. } = args;
    let spool = salvage.clone().unwrap_or_else(|| spool_of(&output));
    let done = match (salvage, command.is_empty()) {
        (Some(dir), _) => finish(&dir, &output, json).map(|()| ExitCode::SUCCESS),
        (None, true) => until_it_ends(&options, &output, json),
        (None, false) => during(&on, command, options, &output, json),
    };
    done.map_err(|error| {
        let said = format!("{error:#}");
        let is_gone = output.ends_with("-") && spool == spool_of(&output);
        if is_gone || !spool.join("head.json").exists() || said.contains("--salvage") {
            return error;
        }
        // A full disk, mostly: nothing of it is lost.
        anyhow::anyhow!(
            "{said}; `schedlab record --salvage {0} -o FILE` makes a trace of the events \
             recorded so far",
            spool.display()
        )
    })
}

/// What requests can name in a program.
fn list(program: &str, pattern: &str) -> anyhow::Result<ExitCode> {
    let (names, missing) = schedlab_record::requestable(program, pattern)?;
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    let mut out = crate::output::stdout();
    out.write_all(text.as_bytes())?;
    if names.is_empty() {
        note("nothing is called so");
    }
    missing.iter().for_each(|missing| note(missing));
    Ok(ExitCode::SUCCESS)
}

/// A run of the user's command with a trace; its exit code is ours.
fn during(
    on: &MachineName,
    argv: Vec<String>,
    record: Options,
    output: &Path,
    json: bool,
) -> anyhow::Result<ExitCode> {
    let workload = WorkloadSpec::Command { argv };
    let spec = RunSpec { record: Some(record), ..RunSpec::of(workload) };
    let is_for_replay = spec.record.as_ref().is_some_and(|record| record.conditions);
    let mut guest = Guest { output, events: None, recorded: None };
    let mut machine = machines::make(on)?;
    machine.check(&spec)?;
    let outcome = machine.run(&spec, &mut guest)?;
    if let Some(summary) = guest.summary()? {
        tell(&summary, output);
        if is_for_replay {
            note(&cost_of(&summary));
        }
        if json {
            json::print(&Document::of(&summary, output))?;
        }
    }
    if outcome.interrupted {
        note("interrupted: the trace holds the events recorded so far");
        // As a shell tells it: 130 after Ctrl-C, 143 after SIGTERM.
        let signal = signal::catch()?.caught().unwrap_or(2);
        return Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)));
    }
    Ok(ExitCode::from(u8::try_from(outcome.exit_code).unwrap_or(1)))
}

/// The output of such a run: the trace where the user wants it, and all else on the user's terminal.
struct Guest<'a> {
    output: &'a Path,
    /// The trace of a machine that gives events.
    events: Option<EventWriter>,
    recorded: Option<Recorded>,
}

impl Guest<'_> {
    /// What was recorded; of a machine that gave events, it is counted in the trace.
    fn summary(self) -> anyhow::Result<Option<Recorded>> {
        let Some(writer) = self.events else { return Ok(self.recorded) };
        writer.finish()?;
        let census = Census::of(schedlab_trace::open(self.output)?.as_mut())?;
        let via = "exact".to_owned();
        let per_cpu = census.per_cpu;
        let span = census.span;
        Ok(Some(Recorded { via, per_cpu, span, ..Recorded::default() }))
    }
}

impl Output for Guest<'_> {
    fn path(&mut self, _: Stream) -> PathBuf {
        self.output.to_owned()
    }

    fn keeps_streams(&self) -> bool {
        false
    }

    fn trace(&mut self, info: &TraceInfo) -> std::io::Result<()> {
        self.events = Some(EventWriter::create(self.output, info)?);
        Ok(())
    }

    fn events(&mut self, events: &[Event]) -> std::io::Result<()> {
        self.events.as_mut().map_or(Ok(()), |trace| trace.events(events))
    }

    fn events_with(&mut self, events: &[Event], arguments: &[String]) -> std::io::Result<()> {
        let trace = self.events.as_mut();
        trace.map_or(Ok(()), |trace| trace.events_with(events, arguments))
    }

    fn recorded(&mut self, what: &Recorded) {
        self.recorded = Some(what.clone());
    }

    fn figure(&mut self, _: Figure) -> std::io::Result<()> {
        Ok(())
    }

    fn note(&mut self, sentence: &str) {
        note(sentence);
    }

    /// The warnings of a recording are printed with its summary.
    fn warning(&mut self, _: Warning) {}

    fn stopped(&self) -> bool {
        false
    }
}

/// Records all that happens until Ctrl-C, or until it ends by itself.
fn until_it_ends(options: &Options, output: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let signals = signal::catch()?;
    let marks = marks_of(options, output);
    let recorder = Recorder::start_with(options, &spool_of(output), marks.as_deref())?;
    let until = options.time.map(|time| clock::monotonic() + time);
    note("recording; end with Ctrl-C");
    let is_over = || until.is_some_and(|until| clock::monotonic() >= until);
    while signals.caught().is_none() && !is_over() && recorder.ended().is_none() {
        process::poll(&[signals.fd()], Some(LOOK))?;
    }
    recorder.ending().iter().for_each(|sentence| note(sentence));
    let summary = finish_with(&recorder.stop()?, output, marks.as_deref(), json)?;
    if options.conditions {
        note(&cost_of(&summary));
    }
    remove_marks(marks.as_deref());
    Ok(ExitCode::SUCCESS)
}

/// Removes the marks that loads put, once nobody reads them any longer.
fn remove_marks(marks: Option<&Path>) {
    for (path, _) in marks.map(marks::of_commands).unwrap_or_default() {
        let _ = std::fs::remove_file(path);
    }
}

/// Where loads put marks that are timed; tells how to let them.
fn marks_of(options: &Options, output: &Path) -> Option<PathBuf> {
    let name = options.between.as_ref()?;
    let marks = output.with_extension("marks");
    let marks = std::path::absolute(&marks).unwrap_or(marks);
    note(&format!(
        "'{name}' is timed in loads that run with {}={}",
        marks::VARIABLE,
        marks.display()
    ));
    Some(marks)
}

/// How often a recording that may end by itself is looked at.
const LOOK: Nanos = Nanos::from_millis(50);

fn options(args: &Args) -> anyhow::Result<Options> {
    let usage = |what: &str| Err(anyhow::Error::new(UsageError(what.to_owned())));
    if args.size.is_some_and(|size| size.0 == 0) {
        return usage("invalid --size 0: use more than 0");
    }
    if args.snapshot.is_some_and(|bound| bound < Nanos::from_micros(100)) {
        return usage("invalid --snapshot: use at least 100us");
    }
    if args.snapshot.is_some() && !args.pids.is_empty() {
        return usage(
            "--pid records these tasks alone, and waits of the others would look endless to --snapshot: use \
             --watch pid=N",
        );
    }
    if args.pids.iter().any(|pid| *pid < 1) {
        return usage("--pid: a task's number is 1 or more");
    }
    if args.time == Some(Nanos::ZERO) {
        return usage("invalid --time 0: use more than 0");
    }
    can_write(&args.output, "-o")?;
    let gone = args.pids.iter().find(|pid| !Path::new(&format!("/proc/{pid}")).exists());
    if let Some(pid) = gone {
        anyhow::bail!("invalid --pid {pid}: the task does not exist");
    }
    let mut events = args.events.clone();
    let more = args.purpose.events().iter().map(|event| (*event).to_owned());
    events.extend(more.filter(|event| !args.events.contains(event)));
    if args.calls {
        let both = |call| ["enter", "exit"].map(|edge| format!("syscalls:sys_{edge}_{call}?"));
        events.extend(CALLS.into_iter().flat_map(both));
    }
    Ok(Options {
        events,
        conditions: args.purpose == Purpose::Replay,
        ring_bytes: args.ring.0,
        via: args.via.into(),
        pids: args.pids.iter().map(|pid| Pid(*pid)).collect(),
        filters: args.filters.clone(),
        limit_bytes: args.size.map(|size| size.0),
        full: match args.full {
            AtSize::Stop => Full::Stop,
            AtSize::Overwrite => Full::Overwrite,
        },
        snapshot: args.snapshot.map(|bound| Snapshot { bound, keep: args.keep }),
        watch: args.watch.clone(),
        between: args.between.clone(),
        // The kernel's functions tell a tick from a sleep. Wakers alone have them too.
        stacks: args.stacks.iter().any(|whose| matches!(whose, Whose::Kernel | Whose::Running))
            || args.stacks == [Whose::Waker],
        wakers: args.stacks.contains(&Whose::Waker),
        running: args.stacks.contains(&Whose::Running),
        user_stacks: user_stacks(args)?,
        locks: args.locks,
        trace_marker: args.trace_marker,
        no_compress: args.no_compress,
        requests: args.requests.clone(),
        time: args.time,
        required: true,
    })
}

fn user_stacks(args: &Args) -> anyhow::Result<Option<UserStacks>> {
    if !args.stacks.contains(&Whose::User) {
        return Ok(None);
    }
    let most = UserStack::COPY_MAX;
    let Some(asked) = u32::try_from(args.stack_copy.0).ok().filter(|bytes| *bytes <= most) else {
        let asked = args.stack_copy;
        let most = Bytes(most.into());
        let what = format!("invalid --stack-copy {asked}: use at most {most}");
        return Err(UsageError(what).into());
    };
    Ok(Some(UserStacks { copy_bytes: asked.next_multiple_of(8) }))
}

/// Fails if a trace cannot be written there: a recording is not lost to its path.
pub(super) fn can_write(output: &Path, option: &str) -> anyhow::Result<()> {
    if output == Path::new("-") || output.is_dir() {
        let what = format!(
            "invalid {option} {}: name a file (`schedlab trace convert FILE -` prints a trace)",
            output.display()
        );
        return Err(UsageError(what).into());
    }
    let target = schedlab_trace::NewFile::create(output);
    target.with_context(|| format!("cannot write {}", output.display()))?;
    Ok(())
}

/// Writes the trace, says what is in it, and removes the spool.
pub(super) fn finish(dir: &Path, output: &Path, json: bool) -> anyhow::Result<()> {
    finish_with(dir, output, None, json).map(drop)
}

/// The same, with the marks that loads have written so far into files beside `marks`.
fn finish_with(
    dir: &Path,
    output: &Path,
    marks: Option<&Path>,
    json: bool,
) -> anyhow::Result<Recorded> {
    let files = marks.map(marks::so_far).unwrap_or_default();
    let summary = stitch(dir, output, &marks::gather(&files)?)?;
    std::fs::remove_dir_all(dir)?;
    tell(&summary, output);
    if json {
        json::print(&Document::of(&summary, output))?;
    }
    Ok(summary)
}

/// What an event takes from the task that runs, through ftrace: the difference of the round trips in
/// docs/recording.md over their six events.
const EVENT_NS: f64 = 220.0;

/// What the recording did to the bursts of a replay.
fn cost_of(summary: &Recorded) -> String {
    let events: u64 = summary.events().values().sum();
    let time = events as f64 * EVENT_NS;
    let cpus = summary.per_cpu.len().max(1) as f64;
    let all = summary.span.map_or(0.0, |span| span.duration().0 as f64) * cpus;
    let share = if all > 0.0 { 100.0 * time / all } else { 0.0 };
    let time = Nanos(time.round() as u64);
    format!(
        "the events took about {time} from the tasks that ran, {share:.2} % of the CPUs' time (220 ns an event, as \
         docs/recording.md measured): bursts of a replay are longer by that"
    )
}

fn note(text: &str) {
    let _ = writeln!(crate::output::stderr(), "schedlab: {text}");
}

fn tell(summary: &Recorded, output: &Path) {
    let events = summary.events();
    let total: u64 = events.values().sum();
    let size = std::fs::metadata(output).map_or(0, |data| data.len());
    let time = summary.span.map_or_else(String::new, |s| format!(" over {}", s.duration()));
    let cpus = summary.per_cpu.len();
    let file = shown(output);
    let via = &summary.via;
    let size = Bytes(size);
    note(&format!("{file}: {total} events of {cpus} CPUs{time}, {size}, through {via}"));
    let list: Vec<String> = events.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if !list.is_empty() {
        note(&list.join(", "));
    }
    match summary.lost_total() {
        0 => note("no event was lost"),
        _ => {
            let list: Vec<String> =
                summary.lost.iter().map(|(cpu, count)| format!("CPU {cpu} {count}")).collect();
            note(&format!("lost: {}", list.join(", ")));
        }
    }
    if let Some(stacks) = summary.user_stacks {
        note(&said_of_stacks(stacks, total - events.get("kernel_stack").unwrap_or(&0)));
    }
    if let Some(locks) = summary.locks {
        note(&said_of_locks(locks, total));
    }
    let all = summary.span.map_or(0, |span| span.duration().0) as f64 * cpus.max(1) as f64;
    for request in &summary.requests {
        let name = &request.name;
        let begun = request.begun;
        let ended = request.ended;
        let hits = (begun + ended).max(1);
        let cost = request.hits_ns.map_or_else(String::new, |took| {
            let each = Nanos(took.0 / hits);
            let share = if all > 0.0 { 100.0 * took.0 as f64 / all } else { 0.0 };
            format!("; a hit costs {each} here, all took {took}, {share:.2} % of the CPUs' time")
        });
        note(&format!("request '{name}': {begun} begun, {ended} ended{cost}"));
        if begun > 0 && ended > 0 && !output.ends_with("-") {
            note(&format!("next: schedlab trace why {file} --mark '{name}'"));
        }
    }
    for warning in &summary.warnings {
        note(&format!("warning: {warning}"));
    }
}

/// How many stacks of programs there are, and what they took.
fn said_of_stacks(stacks: RecordedStacks, events: u64) -> String {
    let RecordedStacks { whole, cut, ring_bytes } = stacks;
    let all = whole + cut;
    let share = 100.0 * cut as f64 / all.max(1) as f64;
    let each = ring_bytes as f64 / 1024.0 / events.max(1) as f64;
    format!("stacks of programs: {all}, {share:.1} % of them cut; {each:.1} KiB an event")
}

/// A sentence about the recorded locks, and about what it cost to record them.
fn said_of_locks(locks: RecordedLocks, events: u64) -> String {
    let RecordedLocks { calls, contentions, bytes, call_ns, other_call_ns } = locks;
    let share = 100.0 * (2 * (calls + contentions)) as f64 / events.max(1) as f64;
    let cost = call_ns.zip(other_call_ns).map_or_else(
        || "what a call cost could not be measured".to_owned(),
        |(call, other)| {
            let all = Nanos(call.0 * calls);
            format!("a recorded call costs {call} here, any other call {other}; these took {all}")
        },
    );
    format!(
        "locks: {calls} futex calls and {contentions} contentions, {share:.0} % of the events, {}; {cost}",
        Bytes(bytes)
    )
}

/// `schedlab record --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    file: String,
    /// How the events were recorded.
    via: String,
    /// Time of the first event, in nanoseconds of the trace's clock. A text, since JSON numbers are doubles
    /// to many readers and lose nanoseconds.
    origin_ns: String,
    duration_ns: Nanos,
    /// Events by name.
    events: BTreeMap<String, u64>,
    /// Events by CPU and name.
    per_cpu: BTreeMap<Cpu, BTreeMap<String, u64>>,
    /// Events that could not be kept.
    lost: u64,
    /// The requests of --request, as they were seen.
    requests: Vec<RecordedRequest>,
    /// What was recorded of locks, if that was asked for.
    locks: Option<RecordedLocks>,
    /// The call stacks of programs, if they were asked for.
    user_stacks: Option<RecordedStacks>,
    warnings: Vec<Warning>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/record/1";
}

impl Document {
    fn of(summary: &Recorded, output: &Path) -> Self {
        Self {
            file: output.display().to_string(),
            via: summary.via.clone(),
            origin_ns: summary.span.map_or(0, |span| span.start.0).to_string(),
            duration_ns: summary.span.map_or(Nanos::ZERO, |span| span.duration()),
            events: summary.events(),
            per_cpu: summary.per_cpu.clone(),
            lost: summary.lost_total(),
            requests: summary.requests.clone(),
            locks: summary.locks,
            user_stacks: summary.user_stacks,
            warnings: summary.warnings.clone(),
        }
    }
}
