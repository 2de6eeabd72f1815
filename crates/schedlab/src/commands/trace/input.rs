//! What every question to a trace takes: the file, the part of it, and the tasks.

use super::form::Form;
use crate::commands::UsageError;
use anyhow::Context as _;
use schedlab_draw::page::Anonymous;
use schedlab_model::table::Bound;
use schedlab_model::{
    Cpu, EventSource, Groups, Known, Nanos, Need, OtherFormat, Pid, Point, Span, Topology, Warning,
};
use schedlab_timeline::{
    Chosen, Cut, InGroups, Question, Reply, State, TaskId, WithArguments, ask_all, ask_within,
    span_of, tells_where_tasks_block,
};
use schedlab_trace::{Options, Trace};
use schemars::JsonSchema;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// The file and the part of it that is asked about.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Input {
    /// The trace, in any format that schedlab reads; - is stdin
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) part: Part,
}

/// A part of a trace, and how to print.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Part {
    /// Start here: time since the start of the trace (1.5s, 20ms), or time of its clock (@12345.678)
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<Point>,
    /// End here, in the same form
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Point>,
    /// Use N threads to read the trace [default: one for each CPU, at most 4]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    pub(crate) form: Form,
    /// Whether names of the trace and its file are replaced.
    #[arg(skip)]
    pub(crate) anonymise: bool,
    /// Folders with files that name functions, beside those of this machine.
    #[arg(skip)]
    pub(crate) symbols: Vec<PathBuf>,
}

/// Where functions in stacks have their names from.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Symbols {
    /// Look for programs and debug files in DIR too, by build id: as .build-id/xx/REST, or by name or path
    /// (repeatable)
    #[arg(long, value_name = "DIR")]
    symbols: Vec<PathBuf>,
}

impl Part {
    /// Opens a trace, under other names if that is asked for.
    pub(crate) fn open(
        &self,
        path: &Path,
        options: &Options,
    ) -> anyhow::Result<Box<dyn EventSource>> {
        let source = schedlab_trace::open_with(path, options)?;
        Ok(if self.anonymise { Box::new(Anonymous::new(source)) } else { source })
    }

    /// The part of `path` that is asked about. A point on the clock needs the trace's first instant, for which a trace
    /// that does not tell it is read once more.
    pub(crate) fn cut(&self, path: &Path) -> anyhow::Result<Cut> {
        let on_clock = |point: &Point| matches!(point, Point::At(_));
        let origin = match self.from.iter().chain(&self.to).any(on_clock) {
            true => span(path)?.start,
            false => Nanos::ZERO,
        };
        let since = |point: Option<Point>| point.map(|point| point.since(origin));
        let cut = Cut { from: since(self.from), to: since(self.to) };
        if let (Some(from), Some(to)) = (self.from, self.to)
            && cut.from >= cut.to
        {
            let what = format!("--from {from} is not before --to {to}");
            return Err(UsageError(what).into());
        }
        Ok(cut)
    }

    /// How to read.
    fn options(&self) -> Options {
        match self.threads {
            Some(threads) => Options { threads: threads.get(), ..Options::default() },
            None => Options::all_cpus(),
        }
    }

    /// One pass over `path`.
    pub(crate) fn ask<Q: Question>(
        &self,
        path: &Path,
        question: impl FnOnce(&schedlab_model::TraceInfo) -> Q,
    ) -> anyhow::Result<Reply<Q::Answer>> {
        let cut = self.cut(path)?;
        let names = Q::ARGUMENTS.then(|| schedlab_record::names_here_and_in(self.symbols.clone()));
        let options = Options { arguments: Q::ARGUMENTS, names, ..self.options() };
        let mut source = self.open(path, &options)?;
        let question = question(source.info());
        let reply = ask_within(&mut *source, cut, question);
        let reply = reply.with_context(|| path.display().to_string())?;
        self.is_within(&reply, path)?;
        Ok(reply)
    }

    /// Fails when the part that was asked for begins after the end of the trace.
    fn is_within<A>(&self, reply: &Reply<A>, path: &Path) -> anyhow::Result<()> {
        let Some(from) = self.from.filter(|_| reply.observed.duration() == Nanos::ZERO) else {
            return Ok(());
        };
        let what = format!("{}: it ends before --from {from}", path.display());
        Err(UsageError(format!("{what}; `schedlab trace info` shows its length")).into())
    }
}

impl Input {
    /// The part of a file, for an answer that is printed elsewhere.
    pub(crate) fn part_of(file: &Path, from: Option<Point>, to: Option<Point>) -> Self {
        let form = Form::default();
        let symbols = Vec::new();
        let part = Part { from, to, threads: None, form, anonymise: false, symbols };
        Self { file: file.to_owned(), part }
    }

    /// The same with other names.
    pub(crate) fn anonymised(mut self, anonymise: bool) -> Self {
        self.part.anonymise = anonymise;
        self
    }

    /// The same with more files that name functions.
    pub(crate) fn with_symbols(mut self, Symbols { symbols }: &Symbols) -> Self {
        self.part.symbols.clone_from(symbols);
        self
    }

    /// The file as an answer may name it.
    pub(crate) fn shown(&self) -> std::path::Display<'_> {
        if self.part.anonymise { Path::new("TRACE").display() } else { self.file.display() }
    }

    /// The same as [`Self::ask`], for a question that is worth a loop of its own with each reader.
    pub(crate) fn ask_straight<Q: Question>(
        &self,
        question: Q,
    ) -> anyhow::Result<Reply<Q::Answer>> {
        if self.part.cut(&self.file)? != Cut::default() {
            return self.ask(|_| question);
        }
        let mut trace = Trace::open(&self.file, &self.part.options())?;
        ask_all(&mut trace, question).with_context(|| self.file.display().to_string())
    }
}

impl Input {
    /// One pass over the file.
    pub(crate) fn ask<Q: Question>(
        &self,
        question: impl FnOnce(&schedlab_model::TraceInfo) -> Q,
    ) -> anyhow::Result<Reply<Q::Answer>> {
        self.part.ask(&self.file, question)
    }

    /// The same, with the stacks of tasks that blocked, if the trace holds any.
    pub(crate) fn ask_with_stacks<Q: Question>(
        &self,
        question: impl FnOnce(&schedlab_model::TraceInfo) -> Q,
    ) -> anyhow::Result<Reply<Q::Answer>> {
        let source = schedlab_trace::open(&self.file)?;
        let tells = |format: &OtherFormat| tells_where_tasks_block(&format.name);
        // A text learns its tracepoints on the way.
        if source.info().format == "ftrace text" || source.info().others.iter().any(tells) {
            return self.ask(|info| WithArguments(question(info)));
        }
        self.ask(question)
    }

    /// The tasks that were chosen.
    pub(crate) fn chosen(&self, selection: &Selection) -> anyhow::Result<Chosen> {
        selection.chosen(&self.part, &self.file)
    }
}

/// First and last instant of the trace at `path`.
pub(crate) fn span(path: &Path) -> anyhow::Result<Span> {
    let mut source = schedlab_trace::open(path)?;
    span_of(&mut *source).with_context(|| path.display().to_string())
}

/// A point of a trace in both ways: `1.50 s (@12345.678901234)`.
pub(crate) fn at(origin: Nanos, time: Nanos) -> String {
    let since = (time - origin).readable();
    format!("{since} ({})", Point::At(time))
}

/// What is known of the machine.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Machine {
    /// How CPUs share caches and sockets, if the trace does not say: 'host', a copy of /sys, or a
    /// file made by 'lscpu -p'
    #[arg(long, value_name = "FROM")]
    topology: Option<String>,
}

impl Machine {
    /// What was asked for; `None` leaves it to the trace.
    pub(crate) fn topology(&self) -> anyhow::Result<Option<Topology>> {
        self.topology.as_deref().map(crate::commands::topology::read).transpose()
    }
}

/// Which tasks are asked about. Several options choose what any of them chooses.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Selection {
    /// Use only these pids (threads)
    #[arg(long, value_name = "PID,...", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Use only tasks with exactly this name (repeatable)
    #[arg(long, value_name = "NAME")]
    comm: Vec<String>,
    /// Use only tasks whose name matches this regular expression
    #[arg(long, value_name = "REGEX")]
    regex: Option<regex_lite::Regex>,
    /// Use only tasks in this control group and the groups below it: a path, or the name of a container or
    /// systemd unit (repeatable)
    #[arg(long, value_name = "GROUP")]
    cgroup: Vec<String>,
}

impl Selection {
    /// Tasks with one of these names, whose name matches, or in one of these control groups.
    pub(crate) const fn named(
        comm: Vec<String>,
        regex: Option<regex_lite::Regex>,
        cgroup: Vec<String>,
    ) -> Self {
        Self { pid: Vec::new(), comm, regex, cgroup }
    }

    /// Whether any choice was made.
    pub(crate) fn is_any(&self) -> bool {
        !self.pid.is_empty()
            || !self.comm.is_empty()
            || self.regex.is_some()
            || !self.cgroup.is_empty()
    }

    /// The tasks that are chosen, found in a pass of its own: only at the end is known what tasks are called.
    pub(crate) fn chosen(&self, part: &Part, path: &Path) -> anyhow::Result<Chosen> {
        Ok(self.found(part, path)?.map_or_else(Chosen::all, |(chosen, _)| chosen))
    }

    /// The same with the state at the end; `None` if no choice was made. Fails when a choice was made that chooses nobody:
    /// an empty table would look like an answer.
    pub(crate) fn found(
        &self,
        part: &Part,
        path: &Path,
    ) -> anyhow::Result<Option<(Chosen, State)>> {
        if !self.is_any() {
            return Ok(None);
        }
        let mut groups = None;
        let Reply { answer: in_groups, state, .. } = part.ask(path, |info| {
            groups.clone_from(&info.groups);
            InGroups::new(info.groups.as_ref())
        })?;
        Ok(Some((self.pick(&state, groups.as_ref(), &in_groups, path)?, state)))
    }

    /// The tasks that are chosen, where names, groups, and the group of each task at the end are known.
    pub(crate) fn pick(
        &self,
        state: &State,
        groups: Option<&Groups>,
        in_groups: &[Option<u32>],
        path: &Path,
    ) -> anyhow::Result<Chosen> {
        if !self.is_any() {
            return Ok(Chosen::all());
        }
        self.check_groups(groups, path)?;
        let is_in = |task: TaskId| {
            let group = in_groups.get(task.index()).copied().flatten();
            let meant = |groups: &Groups, group| {
                self.cgroup.iter().any(|wanted| groups.is_meant(group, wanted))
            };
            groups.zip(group).is_some_and(|(groups, group)| meant(groups, group))
        };
        let chosen = Chosen::of(state, |task, pid, comm| self.keeps(pid, comm) || is_in(task));
        if chosen.count() != Some(0) {
            return Ok(chosen);
        }
        let pids = self.pid.iter().map(|pid| format!("--pid {pid}"));
        let names = self.comm.iter().map(|name| format!("--comm {name}"));
        let regex = self.regex.iter().map(|regex| format!("--regex {regex}"));
        let groups = self.cgroup.iter().map(|group| format!("--cgroup {group}"));
        let asked: Vec<String> = pids.chain(names).chain(regex).chain(groups).collect();
        let asked = asked.join(", ");
        let file = path.display();
        anyhow::bail!(
            "{file}: none of its {} tasks matches {asked}: `schedlab trace tasks --top 0 {file}` \
             lists the tasks",
            state.task_count()
        )
    }

    /// Fails if no group has one of these names or paths, or is below it.
    fn check_groups(&self, groups: Option<&Groups>, path: &Path) -> anyhow::Result<()> {
        let file = path.display();
        for wanted in &self.cgroup {
            let Some(groups) = groups else {
                anyhow::bail!(
                    "{file}: the trace does not hold control groups, so --cgroup {wanted} matches nobody: \
                     `schedlab record` stores them"
                );
            };
            let count = groups.names.len() as u32;
            if !(0..count).any(|group| groups.is_meant(group, wanted)) {
                anyhow::bail!(
                    "{file}: none of its {count} control groups matches --cgroup {wanted}: `schedlab trace tasks \
                     --by cgroup {file}` lists them"
                );
            }
        }
        Ok(())
    }

    /// Whether a task is chosen by its number or its name.
    fn keeps(&self, pid: Pid, comm: &str) -> bool {
        self.pid.contains(&pid.0)
            || self.comm.iter().any(|name| name == comm)
            || self.regex.as_ref().is_some_and(|regex| regex.is_match(comm))
    }
}

/// What each JSON answer begins with.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Head {
    /// Time zero of all other times, in nanoseconds of the trace's clock. A text, since JSON numbers are
    /// doubles to many readers and lose nanoseconds.
    origin_ns: String,
    /// Where the observed part of the trace begins.
    start_ns: Nanos,
    /// Where it ends.
    end_ns: Nanos,
    /// Whether the trace is partial, so that figures are bounds (`NAME_bound`) or unknown.
    lower_bound: bool,
    /// What limits the figures.
    warnings: Vec<Warning>,
}

impl Head {
    /// Whether the trace is partial, so that figures are bounds or unknown.
    pub(crate) const fn is_lower_bound(&self) -> bool {
        self.lower_bound
    }

    /// Where the observed part of the trace begins, from its origin.
    pub(crate) const fn start(&self) -> Nanos {
        self.start_ns
    }

    /// Of what was no question to the state machine.
    pub(crate) fn about(origin: Nanos, part: Span, warnings: &[Warning]) -> Self {
        let lower_bound = false;
        Self {
            origin_ns: origin.0.to_string(),
            start_ns: part.start - origin,
            end_ns: part.end - origin,
            lower_bound,
            warnings: warnings.to_vec(),
        }
    }

    pub(crate) fn of<A>(reply: &Reply<A>) -> Self {
        let lower_bound = reply.known.is_partial();
        Self { lower_bound, ..Self::about(reply.origin, reply.observed, &reply.warnings) }
    }
}

/// A task by number and name.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Named {
    /// The task (thread).
    pid: Pid,
    /// Its name at the end.
    comm: String,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.comm, self.pid)
    }
}

impl Named {
    pub(crate) fn of(task: TaskId, state: &State) -> Self {
        Self { pid: state.task(task).pid, comm: state.name(task) }
    }
}

/// A figure of a headline, as exact as the trace tells it.
pub(crate) fn figure(known: &Known, need: Need, figure: impl std::fmt::Display) -> String {
    bounded(known.of(need), figure)
}

/// A figure with its bound; `unknown` without one.
pub(crate) fn bounded(bound: Option<Bound>, figure: impl std::fmt::Display) -> String {
    match bound {
        None => "unknown".to_owned(),
        Some(Bound::Exact | Bound::Within(_)) => figure.to_string(),
        Some(Bound::AtLeast) => format!("≥ {figure}"),
        Some(Bound::AtMost) => format!("≤ {figure}"),
    }
}

/// `, 3 chosen tasks`, where a choice was made.
pub(crate) fn of_chosen(chosen: &Chosen) -> String {
    match chosen.count() {
        None => String::new(),
        Some(1) => ", 1 chosen task".to_owned(),
        Some(count) => format!(", {count} chosen tasks"),
    }
}

/// What was looked at: `12.3 s of 8 CPUs`.
pub(crate) fn looked_at<A>(reply: &Reply<A>) -> String {
    let cpus: Vec<Cpu> = reply.state.observed_cpus().map(|(cpu, _)| cpu).collect();
    let Span { start, end } = reply.observed;
    let from = if start > reply.origin {
        format!(" from {}", at(reply.origin, start))
    } else {
        String::new()
    };
    let plural = if cpus.len() == 1 { "" } else { "s" };
    let length = match reply.known.ticks {
        true => format!("{} ticks", (end - start).0),
        false => (end - start).readable(),
    };
    format!("{length}{from} of {} CPU{plural}", cpus.len())
}
