//! `schedlab knobs`: scheduler tunables of this kernel.

use super::UsageError;
use super::result_file::save;
use crate::output::{Width, folded_table};
use crate::{json, machines};
use anyhow::Context as _;
use schedlab_experiment::report::Table;
use schedlab_host::knobs::{self, Changes, Tree, UnrestoredSetting};
use schedlab_model::{Knob, Pid, Setting};
use schedlab_sys::guard;
use schedlab_sys::lock::Lock;
use schedlab_sys::{process, signal};
use schedlab_workload::{HOST, MachineName};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};

/// Options of `schedlab knobs`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// List the knobs of this kernel: value, range, place, and why a knob is locked
    List {
        /// List those of this machine, such as sim:kernel=TREE,cpus=64
        #[arg(long, value_name = "MACHINE", default_value = "host")]
        on: MachineName,
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print what each knob does
        #[arg(long)]
        long: bool,
        #[command(flatten)]
        width: Width,
    },
    /// Print the value of one knob, as the kernel stores it
    Get {
        /// Name of the knob
        name: String,
    },
    /// Set knobs until `schedlab knobs restore`
    Set {
        #[command(flatten)]
        wanted: Wanted,
    },
    /// Run a command with knobs set, then put everything back, also after a kill
    Run {
        #[command(flatten)]
        wanted: Wanted,
        /// The command to run
        #[arg(last = true, required = true, value_name = "CMD")]
        command: Vec<String>,
    },
    /// Set the knobs of a sysctl.d file or a tuned profile until `schedlab knobs restore`
    Apply {
        /// The file, such as profile.sysctl.conf from `schedlab tune`
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Put back what `knobs set` and `knobs apply` changed
    Restore,
    /// Print settings as a file of another tool
    Write {
        #[command(flatten)]
        wanted: Wanted,
        /// Format of the file
        #[arg(long, value_enum, default_value = "sysctl")]
        format: Format,
    },
}

#[derive(clap::Args)]
struct Wanted {
    /// Settings with units, such as base_slice=3ms nice=5 feature:RUN_TO_PARITY=off
    #[arg(value_name = "NAME=VALUE")]
    settings: Vec<String>,
    /// Read settings from a sysctl.d file or a tuned profile
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    /// A file for /etc/sysctl.d
    Sysctl,
    /// A tuned profile
    Tuned,
}

/// `schedlab knobs list --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    knobs: Vec<Knob>,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/knobs-list/1";
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let tree = Tree::here().context("/proc/sys/kernel/osrelease")?;
    match args.action {
        Action::List { on, json, long, width } if on.kind == HOST => {
            on.finish(&[]).map_err(UsageError)?;
            list(tree.list(), json, long, width)?;
            for setting in knobs::outstanding().iter().filter(|_| !json) {
                let mut out = crate::output::stdout();
                writeln!(out, "{setting}: `schedlab knobs restore` puts it back")?;
            }
        }
        Action::List { on, json, long, width } => {
            list(machines::make(&on)?.offers().knobs.clone(), json, long, width)?;
        }
        Action::Get { name } => get(&tree, &name)?,
        Action::Set { wanted } => set(&tree, &wanted)?,
        Action::Apply { file } => {
            set(&tree, &Wanted { settings: Vec::new(), from: Some(file) })?;
        }
        Action::Run { wanted, command } => return run_under(&tree, &wanted, &command),
        Action::Restore => return restore(),
        Action::Write { wanted, format } => {
            let settings = wanted.settings(&tree)?;
            tree.resolve(&settings).map(drop).or_else(|error| note(&error.to_string()))?;
            let text = match format {
                Format::Sysctl => knobs::write_sysctl(&settings, &tree),
                Format::Tuned => knobs::write_tuned(&settings, &tree),
            };
            crate::output::stdout().write_all(text.as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn note(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(crate::output::stderr(), "schedlab: {text}")?)
}

impl Wanted {
    fn settings(&self, tree: &Tree) -> anyhow::Result<Vec<Setting>> {
        let mut settings = Vec::new();
        if let Some(path) = &self.from {
            let text = schedlab_sys::regular_file::text(path)
                .with_context(|| path.display().to_string())?;
            let profile = knobs::read_profile(&text, tree);
            for warning in &profile.warnings {
                note(&format!("{}: {warning}", path.display()))?;
            }
            settings = profile.settings;
        }
        for text in &self.settings {
            settings.push(text.parse().map_err(UsageError)?);
        }
        if settings.is_empty() {
            return Err(UsageError("no settings: write NAME=VALUE, or --from FILE".into()).into());
        }
        Ok(settings)
    }
}

fn list(knobs: Vec<Knob>, json: bool, long: bool, width: Width) -> anyhow::Result<()> {
    if json {
        return json::print(&Document { knobs });
    }
    let mut out = crate::output::stdout();
    let room = width.room();
    let wide = room == usize::MAX;
    let heads = ["knob", "value", "range", "where"].into_iter();
    let mut table = Table::new(heads.chain(wide.then_some("locked because"))).ranked(&[0, 0, 1, 2]);
    let mut meanings = Table::new(["knob", "meaning"]);
    for knob in &knobs {
        meanings.row([knob.name.clone(), knob.meaning.clone()]);
        let cells = [knob.name.clone(), value(knob), range(knob), knob.r#where.clone()];
        table.row(cells.into_iter().chain(wide.then(|| knob.why_not.clone())));
    }
    out.write_all(table.fit(room).as_bytes())?;
    if !wide {
        locked(&knobs, room).into_iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if long {
        writeln!(out)?;
        out.write_all(folded_table(&meanings.text(), "meaning", room).as_bytes())?;
    }
    Ok(())
}

/// Why knobs are locked, which is too long for a column: each reason once.
fn locked(knobs: &[Knob], room: usize) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for knob in knobs.iter().filter(|knob| !knob.why_not.is_empty()) {
        match reasons.iter_mut().find(|(why, _)| *why == knob.why_not) {
            Some((_, names)) => names.push(&knob.name),
            None => reasons.push((&knob.why_not, vec![&knob.name])),
        }
    }
    let line = |(why, names): &(&str, Vec<&str>)| {
        let text = format!("{}: {why}", names.join(", "));
        crate::output::wrapped("locked: ", "  ", &text, room)
    };
    reasons.iter().map(line).collect()
}

fn value(knob: &Knob) -> String {
    const WIDE: usize = 40;
    match &knob.value {
        None => "?".into(),
        Some(text) if text.len() > WIDE => {
            format!("({} words; see --json)", text.split_whitespace().count())
        }
        Some(text) => format!("{text} {}", knob.unit).trim_end().to_owned(),
    }
}

fn range(knob: &Knob) -> String {
    match (knob.min, knob.max) {
        (Some(min), Some(max)) => format!("{min}..{max}"),
        _ => String::new(),
    }
}

fn get(tree: &Tree, name: &str) -> anyhow::Result<()> {
    let found = tree.list().into_iter().find(|knob| knob.name == name);
    let Some(knob) = found else {
        tree.resolve(&[Setting { knob: name.into(), value: "0".into() }])?;
        anyhow::bail!("this kernel has no knob {name}");
    };
    let Some(value) = knob.value else {
        anyhow::bail!("cannot read {name} ({}): {}", knob.r#where, knob.why_not);
    };
    writeln!(crate::output::stdout(), "{value}")?;
    Ok(())
}

fn set(tree: &Tree, wanted: &Wanted) -> anyhow::Result<()> {
    let changes = tree.resolve(&wanted.settings(tree)?)?;
    if !changes.task.is_empty() || changes.has_group() {
        let why = "slice, nice, policy, clamps and cgroup_* belong to tasks, not to the machine";
        return Err(UsageError(format!("{why}: use `schedlab knobs run ... -- CMD`")).into());
    }
    let path = knobs::unrestored_file().context("the folder of journals")?;
    // Until the values are written: who runs something under one of them keeps it, and two that note what was
    // before do it one after the other.
    let _knobs = changes.lock()?;
    let _kept = lock_kept(&path)?;
    let mut kept = knobs::read_unrestored().with_context(|| path.display().to_string())?;
    let at = schedlab_host::facts::now();
    kept.extend(changes.undo()?.into_iter().map(|undo| UnrestoredSetting::new(undo, at.clone())));
    // Noted before the change is made: a crash in between leaves a harmless step.
    save(&path, serde_json::to_vec(&kept)?)?;
    for warning in changes.write()? {
        note(&warning.to_string())?;
    }
    Ok(())
}

/// The one that reads what was kept and writes it anew does so alone.
fn lock_kept(path: &Path) -> anyhow::Result<Lock> {
    Ok(Lock::take(&path.with_extension("lock"))?)
}

fn restore() -> anyhow::Result<ExitCode> {
    let path = knobs::unrestored_file().context("the folder of journals")?;
    let _kept = lock_kept(&path)?;
    let kept = knobs::read_unrestored().with_context(|| path.display().to_string())?;
    let mut failed = Vec::new();
    for step in kept.into_iter().rev() {
        if let Err(error) = step.undo.perform() {
            note(&format!("not undone: {:?}: {error}", step.undo))?;
            failed.insert(0, step);
        }
    }
    if failed.is_empty() {
        let gone = std::fs::remove_file(&path);
        gone.or_else(|e| if e.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
        return Ok(ExitCode::SUCCESS);
    }
    save(&path, serde_json::to_vec(&failed)?)?;
    Ok(ExitCode::FAILURE)
}

/// The command, in a world where the settings hold.
fn run_under(tree: &Tree, wanted: &Wanted, command: &[String]) -> anyhow::Result<ExitCode> {
    let signals = signal::catch().context("catching Ctrl-C")?;
    let mut changes = tree.resolve(&wanted.settings(tree)?)?;
    // Also around attributes of tasks alone: the guardian ends the command if this process is killed.
    let mut guard = changes.arm()?;
    for warning in changes.make(&mut guard)? {
        note(&warning.to_string())?;
    }
    let (step, mark) = guard.end_marked().context("the guard")?;
    // Attributes belong to threads and are inherited: the thread that takes them on starts the command.
    let status = std::thread::scope(|scope| {
        let waiter = std::thread::Builder::new()
            .spawn_scoped(scope, || follow(&changes, command, &mark, signals))
            .map_err(|error| schedlab_sys::process::thread_refused(&error))
            .context("starting the command")?;
        waiter.join().expect("the waiting thread does not panic")
    })?;
    for warning in changes.changed() {
        note(&warning.to_string())?;
    }
    // What the command left running at its end may go on.
    guard.forget(step).context("the guard")?;
    for (undo, error) in guard.finish() {
        note(&format!("not undone: {undo:?}: {error}: use `schedlab doctor --restore`"))?;
    }
    Ok(ExitCode::from(u8::try_from(status).unwrap_or(1)))
}

fn follow(
    changes: &Changes,
    command: &[String],
    mark: &str,
    signals: signal::Signals,
) -> anyhow::Result<i32> {
    changes.task.take_on()?;
    let mut starter = match changes.task.group() {
        None => Command::new(&command[0]),
        // The shell moves itself before it becomes the command: no instant of it runs elsewhere.
        Some(group) => {
            let mut shell = Command::new("/bin/sh");
            shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]);
            shell.arg(group.join("cgroup.procs")).arg(&command[0]);
            shell
        }
    };
    starter.env(guard::MARK, mark);
    process::die_with_parent(&mut starter);
    let mut child = starter.args(&command[1..]).spawn().with_context(|| command[0].clone())?;
    wait(&mut child, signals)
}

/// Waits without a tick of our own, and passes signals on; the guard undoes the settings afterwards.
fn wait(child: &mut Child, signals: signal::Signals) -> anyhow::Result<i32> {
    let pid = Pid(child.id().cast_signed());
    let ended = process::ended(child).context("waiting for the command")?;
    let mut passed = false;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(process::exit_code(status));
        }
        let Some(number) = signals.caught().filter(|_| !passed) else {
            let both = [ended.as_fd(), signals.fd()];
            process::poll(if passed { &both[..1] } else { &both }, None)?;
            continue;
        };
        passed = true;
        // The child may be gone by now: then there is nobody to tell.
        let _ = process::kill(pid, number);
    }
}
