//! `schedlab slow`.

mod evaluation;
mod running;

use super::UsageError;
use crate::json::{self, Schema};
use crate::output::folded;
use schedlab_host::knobs::{Changes, Tree};
use schedlab_host::slow::{
    self, Assignment, Ended, Lateness, METHODS, Measured, Method, Node, Noise, Plan, Request,
    Session, SlowError, Speed, Support, Wakeups,
};
use schedlab_model::{Nanos, Setting, Unit, Warning, percentage, readable};
use schedlab_sys::guard::Guard;
use schedlab_sys::signal;
use schedlab_workload::nodes::{self, NodesFile};
use schedlab_workload::requested_speed::is_clock;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `schedlab slow`.
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  schedlab slow 30% -- ./job                           on a CPU that schedlab chooses
  schedlab slow --cpu 0=30% --cpu 1-3=75% -- ./job     on these CPUs; the exit code is the job's
  schedlab slow --cpu 0=50%                            until Ctrl-C, for all that runs there
  schedlab slow --cpu 0=10% --method quota -- ./job    another method; --method help lists them
  schedlab slow nodes.toml                             virtual nodes: CPUs, speeds, commands, script
  schedlab slow attach 40% unit:nginx                  a unit; or container:ID, a name, a pid
  schedlab slow status                                 what is in force; see also set, fail, end
  schedlab slow evaluate --short -o evaluation         how accurate each method is on this machine

Programs see all CPUs of their node at full clock. With hogs, a task that wakes waits up to
(1 - speed) x period longer: 1 ms at 50% and a period of 2 ms.

Nodes with [node.net] start commands in a network namespace. SCHEDLAB_ADDRESS is their address,
SCHEDLAB_HOST that of this machine, SCHEDLAB_ADDRESS_NAME that of node NAME.

A guardian process undoes everything at the end, also after kill -9."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    running: Option<running::Command>,
    /// A file of virtual nodes; or a speed such as 30%, for the command on CPUs that schedlab chooses
    #[arg(value_name = "NODES.toml|SPEED", conflicts_with = "cpu")]
    nodes: Option<PathBuf>,
    #[command(flatten)]
    how: Slowing,
    /// The command to run slowed
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Options that starting and attaching share.
#[derive(clap::Args)]
pub(crate) struct Slowing {
    /// CPUs and their speed, as in 1-3=75%, 0=1200MHz (repeatable)
    #[arg(long, value_name = "CPUS=SPEED", value_parser = slow::assignment)]
    cpu: Vec<Assignment>,
    /// Method: auto, hogs, weight, quota, stop, freq, gov and variants; help lists them
    #[arg(long, value_name = "NAME", default_value = "auto")]
    method: String,
    /// How often hogs burn, or a gap of weights comes [default: follows the work; hogs from 2ms on]
    #[arg(long, value_name = "TIME")]
    period: Option<Nanos>,
    /// Period of budgets (quota) [default: follows the work, from 10ms on]
    #[arg(long, value_name = "TIME")]
    quota_period: Option<Nanos>,
    /// Budget that may be saved for later (quota) [default: 0]
    #[arg(long, value_name = "TIME")]
    quota_burst: Option<Nanos>,
    /// Keep the CPU busy with an idle-class task in the gaps (quota, stop) [default: on for quota without SMT]
    #[arg(long, value_name = "on|off", value_parser = on_or_off)]
    filler: Option<bool>,
    /// Limit the memory bandwidth of the slowed CPUs to this share (needs resctrl)
    #[arg(long, value_name = "SPEED")]
    memory: Option<Speed>,
    /// Show the command only its CPUs, with their speeds, in /proc/cpuinfo and among online CPUs
    #[arg(long)]
    show_node: bool,
    /// Write each change of speeds, nodes and links to FILE as a line of JSON
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Set a scheduler tunable, as in base_slice=3ms (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    knob: Vec<Setting>,
    /// Add background noise: CPUs, bursts a second and length of each, as in 0-1:20:500us (repeatable)
    #[arg(long, value_name = "CPUS:RATE:LENGTH")]
    noise: Vec<Noise>,
    /// Let the command use other CPUs too, at full speed [default: only the slowed CPUs]
    #[arg(long)]
    unbound: bool,
    /// Slow CPUs that another session slows too; with hogs the slower speed holds, else speeds multiply
    #[arg(long)]
    share: bool,
    /// Let the command go on at full speed when schedlab ends or is killed
    #[arg(long)]
    keep: bool,
    /// Do not measure the speeds before the command starts (saves about 0.2 s)
    #[arg(long)]
    no_measure: bool,
    /// Measure wakeup latency on each CPU too, before and after (0.8 s)
    #[arg(long)]
    probe: bool,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    time_limit: Option<Nanos>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON on stderr; stdout belongs to the command
    #[arg(long)]
    json: bool,
}

/// A session that nobody ends, ends itself.
const TIME_LIMIT: Nanos = Nanos::from_secs(12 * 3600);

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(command) = args.running {
        return running::run(command);
    }
    if args.how.method == "help" {
        return list_methods();
    }
    let commands = || match args.command.is_empty() {
        true => Vec::new(),
        false => vec![args.command.clone()],
    };
    let request = match &args.nodes {
        Some(path) if path.to_str().is_some_and(is_speed) => {
            if args.command.is_empty() {
                anyhow::bail!(UsageError(
                    "missing command: a speed without CPUs needs one after --".into()
                ));
            }
            let cpus = placed(path.to_str().unwrap_or_default(), "the command")?;
            let how = Slowing { cpu: cpus, ..args.how };
            let request = from_options(&how, Node { commands: commands(), ..Node::default() })?;
            return session(request, &how);
        }
        Some(path) if path.as_os_str() == "machine" && !path.exists() => {
            // No option was typed whose command would have to be found.
            let gone = crate::removed::successor(&["slow", "machine"], &clap::Command::default());
            return Err(UsageError(gone.unwrap_or_default()).into());
        }
        Some(path) => from_file(path, &args.how, &args.command)?,
        None => from_options(&args.how, Node { commands: commands(), ..Node::default() })?,
    };
    let keeps_nothing = request.nodes.iter().all(|node| node.commands.is_empty());
    anyhow::ensure!(
        !(args.how.keep && keeps_nothing),
        UsageError("missing command: --keep needs one after --".into())
    );
    session(request, &args.how)
}

/// Whether it is a speed, as no file of nodes and no process is called.
fn is_speed(text: &str) -> bool {
    percentage(text).is_some() || text.starts_with("like:") || is_clock(text)
}

/// CPUs for a speed: one, or as many as work of this many percent of one CPU needs, each at the same speed. 150 % is two
/// CPUs at 75 %.
fn placed(speed: &str, who: &str) -> anyhow::Result<Vec<Assignment>> {
    let support = Support::here();
    let most = support.allowed.len();
    let percent = match percentage(speed) {
        Some(percent) => percent,
        None => {
            let cpu = slow::last(&support.allowed, 1).iter().next().unwrap_or_default();
            slow::speed_of(speed, cpu).map_err(UsageError)?.fraction() * 100.0
        }
    };
    if !(percent > 0.0 && percent <= most as f64 * 100.0) {
        anyhow::bail!(UsageError(format!(
            "invalid speed {percent}%: use more than 0, and at most {}% on {most} CPUs",
            most * 100
        )));
    }
    let count = (percent / 100.0).ceil();
    let speed = format!("{}%", percent / count).parse().map_err(UsageError)?;
    let Some(cpus) = slow::free(&support.allowed, count as usize).map_err(failure)? else {
        anyhow::bail!(
            "{count} CPUs are needed, and other sessions slow the rest: end one (`schedlab slow status`)"
        );
    };
    note(&format!("{who} runs on CPUs {cpus}, each at {speed}"));
    Ok(vec![Assignment { cpus, speed }])
}

/// Each method is asked for one CPU at half speed: what refuses that, refuses it here.
fn list_methods() -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    let support = Support::here();
    writeln!(out, "{:<16}hogs if available; prints its choice and the reason", "auto")?;
    let room = crate::output::room();
    for (_, name, about) in METHODS {
        write!(out, "{}", folded(&format!("{name:<16}{about}"), 16, room))?;
        if let Err(why) = slow::offered(name, &support) {
            write!(out, "{}", folded(&format!("{:<16}not here: {why}", ""), 18, room))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("it is on or off".into()),
    }
}

fn method(name: &str) -> anyhow::Result<Option<Method>> {
    match name {
        "auto" => Ok(None),
        name => Ok(Some(name.parse().map_err(UsageError)?)),
    }
}

/// A request for one node, `all`, of whose tasks `node` tells.
fn from_options(how: &Slowing, node: Node) -> anyhow::Result<Request> {
    let speeds = slow::speeds(&how.cpu).map_err(UsageError)?;
    let bind = node.has_tasks() && !how.unbound;
    if how.show_node && !Support::here().root {
        anyhow::bail!("--show-node mounts files for the command: run as root");
    }
    let memory = how.memory;
    let shown = how.show_node;
    let node = Node { name: "all".into(), speeds, bind, memory, shown, ..node };
    let request = Request { method: method(&how.method)?, nodes: vec![node], ..Request::default() };
    Ok(with_options(request, how))
}

fn from_file(path: &Path, how: &Slowing, command: &[String]) -> anyhow::Result<Request> {
    if !command.is_empty() {
        let named = path.display();
        let error = if path.exists() {
            format!(
                "{named} describes nodes: write each node's command into the file, not after --"
            )
        } else {
            format!(
                "{named} is neither a speed nor a file: write a speed with its unit (30%, 2GHz)"
            )
        };
        anyhow::bail!(UsageError(error));
    }
    let there = |error: String| UsageError(format!("{}: {error}", path.display()));
    let mut request =
        Request::try_from(read_nodes(path)?).map_err(|error| there(error.to_string()))?;
    if how.method != "auto" {
        request.method = method(&how.method)?;
    }
    let bare: Vec<&str> = request
        .nodes
        .iter()
        .filter(|node| node.net.is_none())
        .map(|node| node.name.as_str())
        .collect();
    if bare.len() == request.nodes.len() {
        note("messages between nodes run at full speed: only CPUs are emulated, not the network");
    } else if !bare.is_empty() {
        note(&format!("only the CPUs of {} are emulated, not its network", bare.join(", ")));
    }
    Ok(with_options(request, how))
}

/// Reads a file of nodes; clocks such as `1200MHz` are those of the CPUs of this machine.
fn read_nodes(path: &Path) -> anyhow::Result<NodesFile> {
    let text = schedlab_sys::regular_file::text(path).map_err(|error| {
        let other = path.extension().is_none_or(|extension| extension != "toml");
        let hint =
            if other { " (it is read as a file of nodes; a command goes after --)" } else { "" };
        anyhow::anyhow!("{}: {error}{hint}", path.display())
    })?;
    let there = |error: String| UsageError(format!("{}: {error}", path.display()));
    Ok(nodes::parse(&text, &slow::speed_of).map_err(|error| there(error.to_string()))?)
}

fn with_options(mut request: Request, how: &Slowing) -> Request {
    request.period = how.period.or(request.period);
    request.quota_period = how.quota_period;
    request.follows = true;
    request.quota_burst = how.quota_burst.unwrap_or(request.quota_burst);
    request.noise.extend(how.noise.iter().cloned());
    request.filler = how.filler;
    request.events.clone_from(&how.events);
    request.share = how.share;
    request.keep = how.keep;
    request.unmeasured = how.no_measure;
    request.wakeups = how.probe;
    request.time_limit = how.time_limit.or(request.time_limit).or(Some(TIME_LIMIT));
    request
}

/// Applies a request, runs it to its end and undoes it.
fn session(request: Request, how: &Slowing) -> anyhow::Result<ExitCode> {
    let support = Support::here();
    let has_commands = request.nodes.iter().any(|node| !node.commands.is_empty());
    let plan = request.plan(&support).map_err(failure)?;
    if !plan.why.is_empty() {
        note(&format!("method {}: {}", plan.method, plan.why));
    }
    if plan.fills {
        note(
            "a filler keeps the slowed CPUs busy in the gaps, so they draw full power; --filler off lets them idle",
        );
    }
    let knobs = if how.knob.is_empty() { None } else { Some(checked(&how.knob)?) };
    if how.dry_run {
        return dry_run(&plan, &how.knob);
    }
    let signals = signal::catch()?;
    let knobs = knobs.map(hold).transpose()?;
    let mut session = match Session::start(plan, &support, Some(signals)) {
        Ok(session) => session,
        Err(error @ SlowError::Interrupted) => {
            note(&error.to_string());
            return Ok(after(signals.caught().unwrap_or(2)));
        }
        Err(error) => return Err(failure(error)),
    };
    tell(&session, how.json);
    if !has_commands {
        note("in force; end with Ctrl-C");
    }
    let ended = session.run(signals, &mut |warning| {
        if how.json {
            line(&Warned { warnings: [warning] });
        } else {
            note(&warning.to_string());
        }
    });
    for (node, period) in session.periods().filter(|_| !how.json) {
        note(&format!("node {node}: {period}"));
    }
    let undone = knobs.into_iter().flat_map(Guard::finish);
    let undone = undone.map(|(undo, error)| format!("{undo:?}: {error}"));
    for failed in session.finish().into_iter().chain(undone) {
        note(&format!("cannot undo (use `schedlab doctor --restore`): {failed}"));
    }
    match ended.map_err(failure)? {
        Ended::Commands(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        Ended::Interrupted(signal) => Ok(after(signal)),
        Ended::Targets => {
            note("all that was attached has ended");
            Ok(ExitCode::SUCCESS)
        }
        Ended::TimeLimit => {
            note("ended by its time limit (--time-limit)");
            Ok(if has_commands { ExitCode::FAILURE } else { ExitCode::SUCCESS })
        }
    }
}

/// Knobs of the machine that this kernel has, with values that they take.
fn checked(knobs: &[Setting]) -> anyhow::Result<Changes> {
    let changes = Tree::here()?.resolve(knobs)?;
    if !changes.task.is_empty() || changes.has_group() {
        let why = "option knob: slice, nice, policy, clamps and cgroup_* belong to tasks";
        return Err(UsageError(format!("{why}: use `schedlab knobs run ... -- CMD`")).into());
    }
    Ok(changes)
}

/// Sets knobs of the machine until the guard is finished, or this process ends.
fn hold(mut changes: Changes) -> anyhow::Result<Guard> {
    let mut guard = changes.arm()?;
    changes.make(&mut guard)?.iter().for_each(|warning| note(&warning.to_string()));
    Ok(guard)
}

/// `schedlab slow --json` on stderr when the slowing begins.
#[derive(Serialize, JsonSchema)]
struct Began<'s> {
    /// How fast each CPU turned out to be.
    measured: &'s [Measured],
    /// How late tasks wake.
    wakeups: &'s [Wakeups],
    warnings: &'s [Warning],
}

impl json::Document for Began<'_> {
    const ID: &'static str = "schedlab/slow/1";
}

/// `schedlab slow --json` on stderr: a warning while the session runs.
#[derive(Serialize, JsonSchema)]
struct Warned<'s> {
    warnings: [&'s Warning; 1],
}

impl json::Document for Warned<'_> {
    const ID: &'static str = "schedlab/slow-warning/1";
}

/// What `slow` prints with `--json`.
pub(crate) fn documents() -> Vec<Schema> {
    vec![
        json::of::<Began<'_>>(),
        json::of::<Warned<'_>>(),
        json::of::<running::Document>(),
        json::of::<evaluation::Document<'_>>(),
    ]
}

/// Prints JSON as a line on stderr: stdout belongs to the slowed command.
fn line<D: json::Document>(document: &D) {
    let text = json::line(document).expect("plain values");
    let _ = writeln!(crate::output::stderr(), "{text}");
}

/// The exit code that a shell shows for a command which a signal ended.
fn after(signal: i32) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal).unwrap_or(1))
}

fn dry_run(plan: &Plan, knobs: &[Setting]) -> anyhow::Result<ExitCode> {
    for warning in &plan.warnings {
        note(&warning.to_string());
    }
    let knobs: String = knobs.iter().map(|s| format!(", knob {s}")).collect();
    writeln!(crate::output::stdout(), "{}{knobs}: nothing was changed (--dry-run)", plan.method)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(session: &Session, json: bool) {
    if json {
        let Session { measured, wakeups, warnings, .. } = session;
        line(&Began { measured, wakeups, warnings });
        return;
    }
    for one in &session.measured {
        let work = if one.work.is_finite() {
            format!(", work {:.1}%", one.work * 100.0)
        } else {
            String::new()
        };
        note(&format!(
            "CPU {}: asked {}, granted {:.1}%{work}",
            one.cpu,
            one.asked,
            one.granted * 100.0
        ));
    }
    session.wakeups.iter().for_each(tell_wakeups);
    for (name, link, at) in session.networks() {
        note(&format!("node {name}: {link}, at {}; this machine is {} to it", at.there, at.here));
    }
    for warning in &session.warnings {
        note(&warning.to_string());
    }
}

/// What a method does to wakeups: measured, and as it is made.
fn tell_wakeups(one: &Wakeups) {
    let time = |ns: f64| readable(ns, Unit::Nanoseconds);
    let late = |at: &Lateness| {
        format!("{} at the median, {} at p99", time(at.latency_ns_p50), time(at.latency_ns_p99))
    };
    let bound = one.added_ns_max.map_or_else(
        || "the method has no bound".to_owned(),
        |bound| format!("it adds up to {} by its making", Nanos(bound).readable()),
    );
    note(&format!(
        "CPU {}: tasks wake {} late, before {}; {bound}",
        one.cpu,
        late(&one.under),
        late(&one.before)
    ));
}

/// An error of the library as one of the command, with its exit code.
fn failure(error: SlowError) -> anyhow::Error {
    match error {
        SlowError::Usage(text) => UsageError(text).into(),
        other => other.into(),
    }
}

fn note(text: &str) {
    let _ = writeln!(crate::output::stderr(), "schedlab: {text}");
}
