//! This Linux as a [`Machine`]: performs a run in a child, with a recorder around it.
//!
//! The child is the program itself, re-executed as a load child (see [`crate::load`]), or the user's
//! command. While it runs this process only waits: for what the child tells, for a signal, for the
//! run's limit. In any case, the child is killed when this thread dies.

use crate::concurrent_loads::{self, Company};
use crate::knobs::{self, Held};
use crate::load::{self, Asked, GO, Part, Told};
use crate::load_environment::Sites;
use crate::run_settings::{Around, Slowed};
use crate::watch::Watch;
use crate::{facts, marks, slow};
use schedlab_model::{
    Better, Fact, MachineFacts, Metric, Nanos, Pid, Setting, Topology, Unit, Warning,
};
use schedlab_record::{self as record, Recorder};
use schedlab_sys::guard::{Guard, StepId};
use schedlab_sys::signal::Signals;
use schedlab_sys::task::Resources;
use schedlab_sys::{clock, process};
use schedlab_workload::measure;
use schedlab_workload::plan::Plan;
use schedlab_workload::{
    Figure, HOST, Machine, MachineError, Offers, Outcome, Output, Recording, RunSpec,
    SpeedSettings, Stream, WorkloadSpec, cut_by_limit, plans_of,
};
use std::cell::OnceCell;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command};
use std::sync::atomic::{AtomicU32, Ordering};

/// How long a load may take to end after it was asked to, before it is killed.
const GRACE: Nanos = Nanos::from_secs(8);

/// The Linux on which schedlab runs, as a machine.
pub struct Host {
    /// The load child, where it is not the running program.
    program: Option<PathBuf>,
    offers: Offers,
    /// Iterations of the calibrated loop in a microsecond at full speed, once it was needed.
    calibrated: Option<u64>,
    /// What speeds are checked against, once one was asked for.
    ground: OnceCell<slow::Ground>,
    /// Ends what runs started if this process is killed.
    ends: Option<Ends>,
}

/// A guard, and the mark of all that it ends.
struct Ends {
    guard: Guard,
    step: StepId,
    mark: String,
}

impl Ends {
    fn arm() -> std::io::Result<Self> {
        let mut guard = Guard::arm()?;
        let (step, mark) = guard.end_marked()?;
        Ok(Self { guard, step, mark })
    }
}

impl Drop for Ends {
    /// What a command left running after its end is its own affair.
    fn drop(&mut self) {
        let _ = self.guard.forget(self.step);
    }
}

impl Host {
    /// This machine, with `program` as the binary that becomes the load child.
    #[must_use]
    pub fn new(program: PathBuf) -> Self {
        Self::with(Some(program))
    }

    fn with(program: Option<PathBuf>) -> Self {
        let facts = facts::facts();
        // The one check that a run needs: the others cost every start what only `doctor` asks for.
        let recording = match Recorder::available() {
            Ok(via) => Fact::Known(Recording { via: via.name().to_owned(), warnings: Vec::new() }),
            Err(error) => Fact::Unknown(error.to_string()),
        };
        let offers = Offers {
            machine: HOST.to_owned(),
            // A machine that does not tell its CPUs has one.
            topology: if facts.topology.cpus().is_empty() {
                Topology::flat(1)
            } else {
                facts.topology.clone()
            },
            allowed: facts.allowed.clone(),
            knobs: list_knobs(),
            recording,
            speeds: speeds(),
            commands: Fact::Known(()),
            repeatable: false,
            parallel: false,
        };
        Self { program, offers, calibrated: None, ground: OnceCell::new(), ends: None }
    }

    /// This machine, with the running program as the load child.
    ///
    /// # Errors
    /// When the program's own path cannot be found out.
    pub fn here() -> std::io::Result<Self> {
        // From here on the program may be replaced.
        process::this_program()?;
        Ok(Self::with(None))
    }
}

impl Machine for Host {
    fn offers(&self) -> &Offers {
        &self.offers
    }

    fn facts(&self) -> MachineFacts {
        MachineFacts { knobs: list_knobs(), ..facts::facts() }
    }

    fn check(&self, spec: &RunSpec) -> Result<(), MachineError> {
        self.planned(spec).map(drop)
    }

    fn run(&mut self, spec: &RunSpec, out: &mut dyn Output) -> Result<Outcome, MachineError> {
        let plans = self.planned(spec)?;
        let signals =
            schedlab_sys::signal::catch().map_err(|e| MachineError::io("catching signals", e))?;
        // A guest at the user's terminal is recorded, not measured.
        let watch = out.keeps_streams().then(|| Watch::start(&self.offers.topology.cpus()));
        // Speeds are held around the load; what is left are knobs.
        let (speeds, knobs) = SpeedSettings::part(&spec.settings);
        let slowed = self.slow(&speeds, out)?;
        let spec = &RunSpec { settings: knobs, ..spec.clone() };
        if out.keeps_streams() {
            knobs::left_set().into_iter().for_each(|warning| out.warning(warning));
        }
        if out.keeps_streams() && self.ends.is_none() {
            // Without one the direct children still die with this process.
            self.ends = Ends::arm().ok();
        }
        let mark = self.ends.as_ref().filter(|_| out.keeps_streams());
        let mark = mark.map(|ends| ends.mark.clone());
        let around = Around { held: hold(spec, out)?, slowed, mark };
        let mut trace = Trace::start(spec, out)?;
        let mut sites = Sites::default();
        let result = self.perform((spec, &plans), &trace, (&around, &mut sites), signals, out);
        sites.finish().into_iter().for_each(|warning| out.warning(warning));
        let (outcome, marks) = match result {
            Ok(ended) => ended,
            Err(error) => {
                trace.discard();
                return Err(error);
            }
        };
        let ending = trace.recorder.as_ref().and_then(Recorder::ending);
        ending.iter().for_each(|sentence| out.note(sentence));
        around.release(out)?;
        let (figures, doubts) = watch.map(Watch::finish).unwrap_or_default();
        figures.into_iter().try_for_each(|figure| tell(out, figure))?;
        doubts.into_iter().for_each(|doubt| out.warning(doubt));
        trace.finish(&marks, out)?;
        Ok(outcome)
    }
}

/// Files of marks, each with the names of its marks by number.
type MarkFiles = Vec<(PathBuf, Vec<String>)>;

impl Host {
    /// The run's own workload, with those beside it around it.
    fn perform(
        &self,
        (spec, plans): (&RunSpec, &[Option<Plan>]),
        trace: &Trace,
        (around, sites): (&Around, &mut Sites),
        signals: Signals,
        out: &mut dyn Output,
    ) -> Result<(Outcome, MarkFiles), MachineError> {
        let marks = trace.marks_path();
        let path = marks.as_deref();
        let program = match &self.program {
            Some(program) => program.clone(),
            None => {
                process::this_program().map_err(|e| MachineError::io("finding this program", e))?
            }
        };
        let mut company =
            Company::start(&program, (spec, plans), sites, path, around, signals, out)?;
        let (outcome, names) = match &spec.workload {
            WorkloadSpec::Builtin { name, .. } => {
                let part = if company.is_empty() { Part::Alone } else { Part::Among };
                let site = sites.prepare(plans.first().and_then(Option::as_ref), "")?;
                let spec = RunSpec { beside: Vec::new(), ..spec.clone() };
                let asked = Asked { spec, part, site };
                // A recording around this program takes the marks of its loads, too.
                let lent = path.is_none().then(lent).flatten();
                let mut load = Load::start(&program, &asked, name, (path, lent), around, out)?;
                let outcome = load.follow(signals, &mut company, out)?;
                (outcome, std::mem::take(&mut load.mark_names))
            }
            WorkloadSpec::Command { argv } => {
                company.go();
                let argv = under_settings(&program, argv, &spec.settings);
                let launched = !spec.settings.is_empty();
                let outcome =
                    command(&argv, launched, spec.time_limit, signals, trace, around, out)?;
                (outcome, Vec::new())
            }
        };
        let beside = marks.as_deref().map(marks::of_commands).unwrap_or_default();
        let mut files: MarkFiles = marks.map(|path| (path, names)).into_iter().collect();
        files.extend(beside);
        files.extend(company.finish(out)?);
        Ok((outcome, files))
    }

    /// Checks a spec; the plans of its workloads, not calibrated.
    fn planned(&self, spec: &RunSpec) -> Result<Vec<Option<Plan>>, MachineError> {
        let plans = plans_of(spec, &self.offers)?;
        let (speeds, knobs) = SpeedSettings::part(&spec.settings);
        if !knobs.is_empty() {
            knobs::check(&knobs).map_err(|error| not_set(&error))?;
        }
        if !speeds.is_empty() {
            let ground = self.ground.get_or_init(slow::Ground::here);
            slow::check(&speeds, ground).map_err(|error| not_slowed(&error))?;
        }
        Ok(plans)
    }

    /// Slows CPUs as the settings say. The loop is calibrated before, once for all runs, so that their
    /// work is the same.
    fn slow(
        &mut self,
        speeds: &[Setting],
        out: &mut dyn Output,
    ) -> Result<Option<Slowed>, MachineError> {
        if speeds.is_empty() {
            return Ok(None);
        }
        let calibrated = *self.calibrated.get_or_insert_with(load::calibrate);
        let held = slow::hold(speeds).map_err(|e| not_slowed(&e))?;
        let Some(held) = held else { return Ok(None) };
        held.warnings.iter().cloned().for_each(|warning| out.warning(warning));
        Ok(Some(Slowed { held, calibrated }))
    }
}

fn list_knobs() -> Vec<schedlab_model::Knob> {
    knobs::Tree::here().map(|tree| tree.list()).unwrap_or_default()
}

/// The methods by which a CPU can be slowed here.
fn speeds() -> Fact<Vec<String>> {
    let ground = slow::Ground::here();
    let mut whys = Vec::new();
    let mut names = Vec::new();
    for (method, name, _) in slow::METHODS {
        match slow::offered(name, &ground) {
            Ok(()) => names.push(method.to_string()),
            Err(why) => whys.push(why.to_string()),
        }
    }
    if names.is_empty() { Fact::Unknown(whys.join("; ")) } else { Fact::Known(names) }
}

/// Makes the settings that the machine has; a command gets them from its launcher.
fn hold(spec: &RunSpec, out: &mut dyn Output) -> Result<Held, MachineError> {
    if matches!(spec.workload, WorkloadSpec::Command { .. }) {
        return Ok(Held::default());
    }
    let (held, warnings) = Held::make(&spec.settings).map_err(|e| not_set(&e))?;
    warnings.into_iter().for_each(|warning| out.warning(warning));
    Ok(held)
}

fn not_slowed(error: &slow::SlowError) -> MachineError {
    let (machine, what) = (HOST.to_owned(), "slow CPUs".to_owned());
    MachineError::NotOffered { machine, what, why: error.to_string() }
}

fn not_set(error: &knobs::KnobError) -> MachineError {
    let (machine, what) = (HOST.to_owned(), "make the settings of the run".to_owned());
    MachineError::NotOffered { machine, what, why: error.to_string() }
}

/// A command under settings is started by `knobs run`: attributes of tasks must be taken on by the
/// process that becomes the command.
fn under_settings(program: &Path, argv: &[String], settings: &[Setting]) -> Vec<String> {
    if settings.is_empty() {
        return argv.to_vec();
    }
    let mut all = vec![program.display().to_string(), "knobs".into(), "run".into()];
    all.extend(settings.iter().map(|s| format!("{}={}", s.knob, s.value)));
    all.push("--".into());
    all.extend_from_slice(argv);
    all
}

/// The recorder around a run, where one is wanted.
struct Trace {
    recorder: Option<Recorder>,
    spool: PathBuf,
    target: PathBuf,
    /// When the recording, but not the load, ends.
    until: Option<Nanos>,
}

impl Trace {
    fn start(spec: &RunSpec, out: &mut dyn Output) -> Result<Self, MachineError> {
        let target = out.path(Stream::Trace);
        let spool = record::spool_of(&target);
        let mut trace = Self { recorder: None, spool, target, until: None };
        if let Some(record) = &spec.record {
            let marks = trace.target.with_extension("marks");
            match Recorder::start_with(record, &trace.spool, Some(&marks)) {
                Ok(recorder) => {
                    trace.recorder = Some(recorder);
                    trace.until = record.time.map(|time| clock::monotonic() + time);
                }
                Err(error) if record.required => {
                    let (machine, what) = (HOST.to_owned(), "record".to_owned());
                    return Err(MachineError::NotOffered { machine, what, why: error.to_string() });
                }
                // The rest of the run is worth having; what is missing is said.
                Err(error) => out.warning(Warning::new(
                    "not-recorded",
                    error.to_string(),
                    "`schedlab doctor` says how to get the right to record",
                )),
            }
        }
        Ok(trace)
    }

    /// Where tasks put marks; only a recording needs them.
    fn marks_path(&self) -> Option<PathBuf> {
        self.recorder.as_ref().map(|_| self.target.with_extension("marks"))
    }

    /// How long a wait may be before the recording is looked at again.
    fn patience(&self) -> Nanos {
        Nanos::from_millis(if self.until.is_some() { 50 } else { 200 })
    }

    /// Ends the events at the recording's own time limit.
    fn look(&self) {
        if self.until.is_some_and(|until| clock::monotonic() >= until) {
            self.recorder.iter().for_each(Recorder::pause);
        }
    }

    fn discard(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            let _ = recorder.stop();
            let _ = std::fs::remove_dir_all(&self.spool);
        }
    }

    fn finish(mut self, files: &MarkFiles, out: &mut dyn Output) -> Result<(), MachineError> {
        let Some(recorder) = self.recorder.take() else { return Ok(()) };
        let failed = |doing: &str| {
            let doing = doing.to_owned();
            move |error: record::RecordError| {
                MachineError::io(doing, std::io::Error::other(error.to_string()))
            }
        };
        recorder.stop().map_err(failed("stopping the recorder"))?;
        let marks = marks::gather(files).map_err(|e| MachineError::io("reading marks", e))?;
        for (path, _) in files {
            let _ = std::fs::remove_file(path);
        }
        let summary = record::stitch(&self.spool, &self.target, &marks)
            .map_err(failed("writing the trace"))?;
        let _ = std::fs::remove_dir_all(&self.spool);
        out.recorded(&summary);
        summary.warnings.iter().cloned().for_each(|warning| out.warning(warning));
        let metric = Metric::new("trace_events_lost", Unit::Count, Better::Lower);
        let value = summary.lost.values().sum::<u64>() as f64;
        tell(out, Figure { metric, of: String::new(), value })
    }
}

fn tell(out: &mut dyn Output, figure: Figure) -> Result<(), MachineError> {
    out.figure(figure).map_err(|e| MachineError::io("storing a metric", e))
}

fn create(path: &Path) -> Result<File, MachineError> {
    File::create(path).map_err(|e| MachineError::io(format!("creating {}", path.display()), e))
}

/// Where the marks of a load go that another process records; each load has a file of its own.
fn lent() -> Option<PathBuf> {
    static LOADS: AtomicU32 = AtomicU32::new(0);
    let recording = std::env::var_os(marks::VARIABLE)?;
    // A pid has 22 bits.
    let nth = LOADS.fetch_add(1, Ordering::Relaxed) << 22;
    Some(marks::of_process(Path::new(&recording), std::process::id() | nth))
}

/// A load child at work.
struct Load {
    child: Child,
    /// Where it waits for the word to begin.
    stdin: Option<ChildStdin>,
    /// Whether its tasks are ready.
    ready: bool,
    stderr: PathBuf,
    mark_names: Vec<String>,
    /// The file for its marks that another process's recording reads.
    lent: Option<PathBuf>,
    /// Lines that have not ended yet.
    unread: Vec<u8>,
    failed: Option<MachineError>,
    ended: Option<(bool, bool, Vec<String>)>,
    name: String,
}

impl Load {
    fn start(
        program: &Path,
        asked: &Asked,
        name: &str,
        (marks, lent): (Option<&Path>, Option<PathBuf>),
        around: &Around,
        out: &mut dyn Output,
    ) -> Result<Self, MachineError> {
        let stderr = out.path(Stream::Stderr);
        let marks = marks.or(lent.as_deref());
        let (child, stdin) = concurrent_loads::spawn(program, asked, marks, &stderr, around)?;
        let (mark_names, unread, ready) = (Vec::new(), Vec::new(), false);
        let (failed, ended, name) = (None, None, name.to_owned());
        let stdin = asked.part.waits().then_some(stdin);
        Ok(Self { child, stdin, ready, stderr, mark_names, lent, unread, failed, ended, name })
    }

    /// Hands on what the child tells until it ends; asks it to when the user does.
    fn follow(
        &mut self,
        signals: Signals,
        company: &mut Company,
        out: &mut dyn Output,
    ) -> Result<Outcome, MachineError> {
        let mut pipe = self.child.stdout.take().expect("it was piped");
        let pid = Pid(self.child.id().cast_signed());
        let mut asked: Option<Nanos> = None;
        let mut buffer = vec![0; 1 << 16];
        loop {
            let fds = [pipe.as_fd(), signals.fd()];
            let patience =
                if asked.is_some() { Nanos::from_millis(100) } else { Nanos::from_secs(1) };
            // A signal stays readable: it is left out once it was heard.
            let watched = if asked.is_some() { &fds[..1] } else { &fds[..] };
            let ready = process::poll(watched, Some(patience))
                .map_err(|e| MachineError::io("waiting for the load", e))?;
            if asked.is_none() && (signals.caught().is_some() || out.stopped()) {
                let _ = process::kill(pid, 15);
                asked = Some(clock::monotonic());
            }
            if asked.is_some_and(|since| clock::monotonic() > since + GRACE) {
                let _ = process::kill(pid, 9);
            }
            if ready[0] {
                match pipe.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(read) => {
                        self.unread.extend_from_slice(&buffer[..read]);
                        self.lines(out)?;
                        if self.ready
                            && let Some(mut stdin) = self.stdin.take()
                        {
                            company.go();
                            let _ = stdin.write_all(GO);
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(MachineError::io("reading from the load", error)),
                }
            }
        }
        let status = self.child.wait().map_err(|e| MachineError::io("awaiting the load", e))?;
        self.outcome(process::exit_code(status))
    }

    fn outcome(&mut self, code: i32) -> Result<Outcome, MachineError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match self.ended.take() {
            Some((interrupted, censored, failures)) if failures.is_empty() || interrupted => {
                Ok(Outcome { exit_code: code, interrupted, censored })
            }
            Some((.., failures)) => Err(MachineError::Load(failures.join("; "))),
            None => {
                let said = std::fs::read_to_string(&self.stderr).unwrap_or_default();
                let said = said.lines().last().unwrap_or("it printed nothing").to_owned();
                Err(MachineError::Load(format!("it ended too early, with code {code}: {said}")))
            }
        }
    }

    fn lines(&mut self, out: &mut dyn Output) -> Result<(), MachineError> {
        while let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            let told: Told = serde_json::from_slice(&line).map_err(|error| {
                let line = String::from_utf8_lossy(&line);
                MachineError::Load(format!("invalid line '{}': {error}", line.trim_end()))
            })?;
            self.hear(told, out)?;
        }
        Ok(())
    }

    fn hear(&mut self, told: Told, out: &mut dyn Output) -> Result<(), MachineError> {
        match told {
            Told::Note(sentence) => out.note(&sentence),
            Told::Marks(names) => {
                if let Some(lent) = &self.lent {
                    // Without names the recording passes over the marks.
                    let _ = std::fs::write(marks::names(lent), names.join("\n"));
                }
                self.mark_names = names;
            }
            Told::Tasks(_) => self.ready = true,
            Told::Interval(interval) => {
                out.interval(&interval);
                if interval.last {
                    for figure in measure::figures(&interval) {
                        tell(out, figure)?;
                    }
                }
            }
            Told::Figure(figure) => tell(out, figure)?,
            Told::Warning(warning) => out.warning(warning),
            Told::Failed { option: Some(option), why } => {
                let workload = self.name.clone();
                self.failed = Some(MachineError::Option { workload, option, why });
            }
            Told::Failed { option: None, why } => self.failed = Some(MachineError::Load(why)),
            Told::Ended { interrupted, censored, failures } => {
                self.ended = Some((interrupted, censored, failures));
            }
        }
        Ok(())
    }
}

impl Drop for Load {
    /// Nothing of ours is left running, also after an error.
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Runs the user's command as it stands; its output goes where `out` wants it.
fn command(
    argv: &[String],
    launched: bool,
    limit: Option<Nanos>,
    signals: Signals,
    trace: &Trace,
    around: &Around,
    out: &mut dyn Output,
) -> Result<Outcome, MachineError> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(MachineError::Load("the command is empty".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments).env_remove(marks::VARIABLE);
    if let Some(marks) = trace.marks_path() {
        // From here: the command may go elsewhere.
        command.env(marks::VARIABLE, std::path::absolute(&marks).unwrap_or(marks));
    }
    // A command with our streams is a guest at the user's terminal: it stays in its foreground, is
    // not killed for being slow to end, and outlives us.
    let guest = !out.keeps_streams();
    if !guest {
        command.stdout(create(&out.path(Stream::Stdout))?);
        command.stderr(create(&out.path(Stream::Stderr))?);
        process::die_with_parent(&mut command);
        process::own_session(&mut command);
        around.mark(&mut command);
    }
    let before = Resources::of_children();
    let began = clock::monotonic();
    let mut child =
        command.spawn().map_err(|e| MachineError::io(format!("starting '{program}'"), e))?;
    // It has just begun: what it starts from now on is where it is.
    around
        .admit(child.id())
        .map_err(|e| MachineError::io("moving the command to where it is slowed", e))?;
    let ended = process::ended(&child).map_err(|e| MachineError::io("awaiting the command", e))?;
    // Otherwise it leads a session and so a process group: all that it started are asked.
    let pid = child.id().cast_signed();
    let group = Pid(if guest { pid } else { -pid });
    let mut asked: Option<Nanos> = None;
    // Asked by the run's time limit.
    let mut cut = false;
    loop {
        let fds = [ended.as_fd(), signals.fd()];
        let watched = if asked.is_some() { &fds[..1] } else { &fds[..] };
        let ready = process::poll(watched, Some(trace.patience()))
            .map_err(|e| MachineError::io("awaiting the command", e))?;
        if ready[0] {
            break;
        }
        trace.look();
        let now = clock::monotonic();
        let over = limit.is_some_and(|limit| now > began + limit);
        match asked {
            None if over || signals.caught().is_some() || out.stopped() => {
                cut = signals.caught().is_none() && !out.stopped();
                let signal = signals.caught().unwrap_or(15);
                // Ctrl-C at a terminal has reached a guest already.
                if !(guest && signal == 2 && std::io::stdin().is_terminal()) {
                    let _ = process::kill(group, signal);
                }
                asked = Some(now);
            }
            Some(since) if now > since + GRACE && !guest => {
                let _ = process::kill(group, 9);
            }
            _ => {}
        }
    }
    let took = clock::monotonic() - began;
    // It has ended and is not awaited yet: now the kernel's files about it are complete.
    // What is `launched` under settings is a child of our launcher, whose own waiting is no figure of it.
    let main = if launched { None } else { schedlab_sys::task::run_delay(Pid(pid), Pid(pid)) };
    let status = child.wait().map_err(|e| MachineError::io("awaiting the command", e))?;
    let used = Resources::of_children().since(&before);
    of_command(took, &used, main).into_iter().try_for_each(|figure| tell(out, figure))?;
    let censored = limit.filter(|_| cut);
    censored.into_iter().for_each(|limit| out.warning(cut_by_limit(limit)));
    // The exit code is then of our own making.
    let exit_code = if cut { 0 } else { process::exit_code(status) };
    Ok(Outcome { exit_code, interrupted: asked.is_some() && !cut, censored: cut })
}

/// The figures of a command: its time, what the kernel counted for it and all children that it awaited
/// (`getrusage`), and how long its first thread waited for a CPU (`schedstat`, of which the kernel keeps no
/// sum over children).
fn of_command(took: Nanos, used: &Resources, main: Option<(Nanos, u64)>) -> Vec<Figure> {
    let figure = |name: &str, unit, better, value| Figure {
        metric: Metric::new(name, unit, better),
        of: String::new(),
        value,
    };
    let count = |name, value: u64| figure(name, Unit::Count, Better::Neither, value as f64);
    let time =
        |name, better, value: Nanos| figure(name, Unit::Seconds, better, value.as_secs_f64());
    let mut all = vec![time("time_s", Better::Lower, took)];
    all.extend(load::of_resources(used));
    all.extend([
        count("faults_minor", used.faults_minor),
        count("faults_major", used.faults_major),
    ]);
    if let Some((delay, timeslices)) = main {
        all.push(time("main_run_delay_s", Better::Neither, delay));
        all.push(count("main_timeslices", timeslices));
    }
    all
}
