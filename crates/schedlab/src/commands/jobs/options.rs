//! Options that several of the subcommands share, and what they mean.

use super::planning::PlanningArgs;
use super::streams::StreamArgs;
use super::{rules, simulated};
use crate::commands::UsageError;
use crate::machines::Simulation;
use anyhow::Context;
use schedlab_jobs::adaptors::{
    ChannelThreads, Lumiera, PoolExecutor, RayonScope, Serial, TokioTasks,
};
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::{Graph, Hashing, Rule, Rules, Shape, parse_dot, parse_stg};
use schedlab_jobs::load::{Arrivals, Burner, Kind, Length, Load, Mix, Streams};
use schedlab_jobs::policy::{Cpus, Criticality, Emergency, Order, Policy, Step};
use schedlab_jobs::pool::{OnStart, Options, binding};
use schedlab_jobs::run::{Clock, Run};
use schedlab_jobs::stealing::Stealing;
use schedlab_jobs::virtual_time::{Costs, VirtualPool, VirtualTime};
use schedlab_model::{Bytes, Cpu, CpuSet, Nanos, Pid};
use schedlab_rig::{Library, Lines, Threads};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The executors by name; of the last two, what stands before the colon.
pub(super) const EXECUTORS: [&str; 10] = [
    "schedlab", "lumiera", "rayon", "tokio", "channel", "serial", "virtual", "ideal", "cmd", "lib",
];

/// What `run`, `peak`, `break` and `compare` have in common.
#[derive(clap::Args)]
pub(super) struct Setup {
    #[command(flatten)]
    pub(super) graph: GraphArgs,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    #[command(flatten)]
    pub(super) executor: ExecutorArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Which graph.
#[derive(clap::Args)]
pub(super) struct GraphArgs {
    /// Named shape: chain (the default), isolated, short-chains2, short-chains3, short-segments3, load-bursts,
    /// stationary; stencil, nearest, spread, random, fft, all-to-all in rows of --fan jobs; fork-join, divide, tree
    #[arg(long)]
    shape: Option<Shape>,
    /// Number of jobs
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=16_000_000))]
    pub(super) nodes: u32,
    /// Limit of jobs in a level, and of predecessors of a job
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(super) fan: u32,
    /// Seed of the graph [default: that of a published shape]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    /// Hash function: mixed; or compat, which reproduces the published graphs
    #[arg(long, default_value = "mixed", value_parser = hashing)]
    pub(super) hash: Hashing,
    /// New start nodes: CHANCE/MAX/MIN, or =N; with ~COUNTER to shuffle and @start, @link or @join
    #[arg(long, value_parser = rules::parse)]
    pub(super) seeding: Option<Rule>,
    /// Further successors of a node, as a rule
    #[arg(long, value_parser = rules::parse)]
    pub(super) expansion: Option<Rule>,
    /// How many following nodes join, as a rule
    #[arg(long, value_parser = rules::parse)]
    pub(super) reduction: Option<Rule>,
    /// Where branches end, as a rule
    #[arg(long, value_parser = rules::parse)]
    pub(super) pruning: Option<Rule>,
    /// How heavy jobs are, as a rule
    #[arg(long, value_parser = rules::parse)]
    pub(super) weight: Option<Rule>,
    /// Read the graph from a Standard Task Graph file instead
    #[arg(long, value_name = "FILE")]
    stg: Option<PathBuf>,
    /// Read the graph from JSON of `jobs generate`, or from a .dot or .gv file of Graphviz instead
    #[arg(long, value_name = "FILE", conflicts_with = "stg")]
    graph: Option<PathBuf>,
}

fn cpus(text: &str) -> Result<Cpus, String> {
    match text {
        "own" => Ok(Cpus::Own),
        "any" => Ok(Cpus::Any),
        list => {
            let set: CpuSet = list.parse().map_err(|error| format!("{error}; or own, or any"))?;
            Ok(Cpus::List(set.iter().map(|cpu| usize::from(cpu.0)).collect()))
        }
    }
}

fn hashing(text: &str) -> Result<Hashing, String> {
    match text {
        "mixed" => Ok(Hashing::Mixed),
        "compat" => Ok(Hashing::Compat),
        _ => Err("use mixed or compat".to_owned()),
    }
}

impl GraphArgs {
    /// The file that it is read from, if it is.
    pub(super) fn file(&self) -> Option<&Path> {
        self.stg.as_deref().or(self.graph.as_deref())
    }

    /// The shape that was asked for, or a chain.
    pub(super) fn shape(&self) -> Shape {
        self.shape.unwrap_or(Shape::Chain)
    }

    /// The shape that was asked for, or the usual one; `None` where a file or rules make the graph.
    pub(super) fn shape_of(&self, usual: Shape) -> Option<Shape> {
        let plain = self.file().is_none() && !self.is_ruled();
        plain.then(|| self.shape.unwrap_or(usual))
    }

    fn is_ruled(&self) -> bool {
        let given = [self.seeding, self.expansion, self.reduction, self.pruning, self.weight];
        given.iter().any(Option::is_some)
    }

    pub(super) fn graph(&self) -> anyhow::Result<Graph> {
        self.sized(self.nodes, Shape::Chain)
    }

    /// The graph with this many jobs, where no file says how many there are; of the usual shape unless one, or any
    /// rule, was given. Rules that weigh nothing would make jobs of no length: then all weigh 1.
    pub(super) fn sized(&self, nodes: u32, usual: Shape) -> anyhow::Result<Graph> {
        let graph = self.build(nodes, usual)?;
        Ok(if graph.weight_sum() == 0 { graph.with_weight(1) } else { graph })
    }

    fn build(&self, nodes: u32, usual: Shape) -> anyhow::Result<Graph> {
        if let Some(file) = &self.graph {
            if file.extension().is_some_and(|end| end == "dot" || end == "gv") {
                let text = schedlab_sys::regular_file::text(file)
                    .with_context(|| format!("{}", file.display()))?;
                let graph = parse_dot(&text, self.seed.unwrap_or(0), self.hash);
                return graph.with_context(|| format!("{}", file.display()));
            }
            return super::nodes::read(file, self.hash);
        }
        if let Some(file) = &self.stg {
            let text = schedlab_sys::regular_file::text(file)
                .with_context(|| format!("{}", file.display()))?;
            let graph = parse_stg(&text, self.seed.unwrap_or(0), self.hash);
            return graph.with_context(|| format!("{}", file.display()));
        }
        let base = Rules {
            nodes,
            fan: self.fan,
            seed: self.seed.unwrap_or(0),
            hashing: self.hash,
            ..Rules::default()
        };
        let ruled = self.is_ruled();
        let shape = self.shape.unwrap_or(if ruled { Shape::Chain } else { usual });
        let Some(mut rules) = shape.rules(&base) else {
            if ruled {
                let what = format!("--shape {shape} excludes rules: leave the rules out");
                return Err(UsageError(what).into());
            }
            return Ok(shape.build(&base));
        };
        if !ruled && self.seed.is_none() {
            return Ok(shape.build(&base));
        }
        rules.seed = self.seed.unwrap_or(rules.seed);
        rules.seeding = self.seeding.unwrap_or(rules.seeding);
        rules.expansion = self.expansion.unwrap_or(rules.expansion);
        rules.reduction = self.reduction.unwrap_or(rules.reduction);
        rules.pruning = self.pruning.unwrap_or(rules.pruning);
        rules.weight = self.weight.unwrap_or(rules.weight);
        Ok(rules.build())
    }
}

/// What jobs do, how long, and when they arrive.
#[derive(clap::Args)]
pub(super) struct LoadArgs {
    /// Length of a job of weight 1
    #[arg(long, default_value = "500us")]
    pub(super) time: Nanos,
    /// Kind of work: cpu, memory, lock, sleep or block; or a mix by share (memory=20%,block=10%, the rest cpu), by
    /// category (lock@join: node, seed, exit, inner, fork, join, link, knot), or by both (lock@join=50%)
    #[arg(long = "load", value_name = "KIND[@CATEGORY][=SHARE],...", default_value = "cpu")]
    pub(super) kinds: Mix<Kind>,
    /// Each job writes this much, and each of its successors reads it
    #[arg(long, value_name = "SIZE", default_value = "0B")]
    pub(super) data: Bytes,
    /// Distribution of job lengths: fixed, exponential, bimodal:FRACTION:TIMES or pareto:SHAPE
    #[arg(long, default_value = "fixed")]
    pub(super) length: Length,
    /// Start times: at-once, gap:TIME, poisson:TIME, bursts:JOBS:TIME or levels:TIME
    #[arg(long, default_value = "at-once")]
    pub(super) arrivals: Arrivals,
    /// Read start times from a file instead: nanoseconds, one per line, ascending; repeated if too few
    #[arg(long, value_name = "FILE")]
    pub(super) arrival_trace: Option<PathBuf>,
    /// Drop a job that cannot start within this time of its start time, and all jobs that wait for it
    #[arg(long)]
    pub(super) life: Option<Nanos>,
    /// Criticality of jobs, a mix as in --load: optional, normal (the rest) or compulsory. A compulsory job that
    /// misses its deadline is an --emergency
    #[arg(long, value_name = "CRITICALITY[@CATEGORY][=SHARE],...", requires = "life")]
    pub(super) criticality: Option<Mix<Criticality>>,
    #[command(flatten)]
    pub(super) streams: StreamArgs,
}

impl LoadArgs {
    /// The run of a graph under this load.
    pub(super) fn run(&self, graph: Graph, burner: Burner, seed: u64) -> anyhow::Result<Run> {
        self.at(self.time, graph, burner, seed)
    }

    pub(super) fn streams(&self, time: Nanos, seed: u64) -> anyhow::Result<Streams> {
        self.streams.streams(time, self.length, self.life, seed)
    }

    /// The same, with another length of jobs.
    pub(super) fn at(
        &self,
        time: Nanos,
        graph: Graph,
        burner: Burner,
        seed: u64,
    ) -> anyhow::Result<Run> {
        data_fits(self.data, &graph)?;
        let load = Load::new(&graph, burner, time.0, self.length, seed);
        let streams = self.streams(time, seed)?;
        let load = load.with_lengths(streams.lengths(&graph));
        let load = load.with_data(&graph, usize::try_from(self.data.0)?);
        let starts = match &self.arrival_trace {
            None => self.arrivals.starts(&graph, seed),
            Some(file) => Arrivals::Trace(times(file)?).starts(&graph, seed),
        };
        let schedule = streams.schedule(&graph, starts);
        let usual = |node| self.criticality.map(|mix| mix.of(&graph, seed, node));
        let criticality = |node| streams.criticality(node).or_else(|| usual(node));
        let criticality =
            (0..graph.len()).map(|node| criticality(node).unwrap_or_default()).collect();
        let run = Run::new(graph, schedule, Box::new(load), Clock::start());
        let run = run.with_criticality(criticality).with_stop(super::interrupted);
        let run = streams.apply(run);
        Ok(run.with_cpu_clock(|| schedlab_sys::clock::thread_cpu().0))
    }
}

fn times(file: &std::path::Path) -> anyhow::Result<Vec<u64>> {
    let text =
        schedlab_sys::regular_file::text(file).with_context(|| format!("{}", file.display()))?;
    let mut times = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let time: u64 = line.trim().parse().with_context(|| {
            format!("{}, line {}: a start time is a whole number of ns", file.display(), number + 1)
        })?;
        if times.last().is_some_and(|last| *last > time) {
            anyhow::bail!("{}, line {}: start times must ascend", file.display(), number + 1);
        }
        times.push(time);
    }
    Ok(times)
}

/// Refuses results of jobs that would fill the memory.
pub(super) fn data_fits(data: Bytes, graph: &Graph) -> Result<(), UsageError> {
    let all = data.0.saturating_mul(u64::from(graph.len()));
    if all > 4 << 30 {
        let all = Bytes(all);
        let jobs = graph.len();
        let what = format!("--data {data}: {jobs} jobs would need {all}; 4GiB are possible");
        return Err(UsageError(what));
    }
    Ok(())
}

/// The executor, and for ours its policy.
#[derive(Clone, clap::Args)]
pub(super) struct ExecutorArgs {
    /// Number of workers [default: one per allowed CPU]
    #[arg(long, value_name = "N", value_parser = workers)]
    workers: Option<usize>,
    /// Bind workers: own binds worker i to the i-th CPU if there are enough; any leaves them to the kernel; a
    /// list binds them to these CPUs in turn
    #[arg(long, value_name = "own|any|LIST", default_value = "own", value_parser = cpus)]
    cpus: Cpus,
    /// End a `cmd:` process that does not answer within the serial time of its jobs plus TIME
    #[arg(long, value_name = "TIME", default_value = "1min")]
    patience: Nanos,
    /// Real-time priority of the workers (SCHED_FIFO), 1 to 99; needs permission
    #[arg(long, value_name = "PRIORITY")]
    pub(super) fifo: Option<u32>,
    /// Slice of the workers, if the kernel has EEVDF
    #[arg(long, value_name = "TIME")]
    pub(super) slice: Option<Nanos>,
    /// Timer slack of the workers; the default of the kernel is 50us
    #[arg(long, value_name = "TIME", default_value = "1ns")]
    pub(super) timer_slack: Nanos,
    /// For lumiera and ideal: the due job that goes first: start, deadline, laxity or path (the most work after it)
    #[arg(long, default_value = "start")]
    order: OrderName,
    /// For schedlab: with stealing, the graph is one bundle of jobs without start time, deadline and criticality. With
    /// auto, that is used if possible, else the queues of the pool
    #[arg(long, default_value = "auto")]
    queues: QueuesName,
    /// For lumiera: how contention fades: halving, linear or none
    #[arg(long, default_value = "halving")]
    ladder: LadderName,
    /// Reaction to a compulsory job that misses its deadline: shed; for lumiera also run-late or drop
    #[arg(long, default_value = "shed")]
    emergency: EmergencyName,
    #[command(flatten)]
    pub(super) planning: PlanningArgs,
    /// For lumiera: let sleepers wake by their timers only, as in the original
    #[arg(long)]
    no_notify: bool,
    /// For lumiera: take one job per pull, as in the original
    #[arg(long)]
    no_batch: bool,
    /// The machine of `--on`, if it is a simulated one.
    #[arg(skip)]
    pub(super) on: Option<Arc<Simulation>>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OrderName {
    Start,
    Deadline,
    Laxity,
    Path,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum QueuesName {
    Auto,
    Stealing,
    Pool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LadderName {
    Halving,
    Linear,
    None,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum EmergencyName {
    Shed,
    RunLate,
    Drop,
}

fn workers(text: &str) -> Result<usize, String> {
    if text.contains("..") {
        return Err("no pool grows any more: give one number".to_owned());
    }
    let number = text.parse().ok().filter(|number| (1..=1024).contains(number));
    number.ok_or_else(|| "1 to 1024 workers are possible".to_owned())
}

impl Setup {
    /// The work of the jobs.
    pub(super) fn burner(&self, workers: usize) -> anyhow::Result<Burner> {
        self.executor.check_data(self.load.data)?;
        Ok(self.executor.burner(self.load.kinds, workers))
    }
}

impl ExecutorArgs {
    /// The workers of a pool, as a simulated machine is asked for them.
    pub(super) fn simulated(&self, name: &str) -> anyhow::Result<simulated::Workers> {
        self.check_rules(name)?;
        Ok(simulated::Workers {
            policy: self.policy()?,
            timer_slack: self.timer_slack,
            planning: self.planning.planning(),
            stealing: self.stealing(),
            attributes: self.fifo.is_some() || self.slice.is_some(),
        })
    }

    /// Refuses results of jobs where they take no time.
    pub(super) fn check_data(&self, data: Bytes) -> anyhow::Result<()> {
        self.on.as_ref().map_or(Ok(()), |model| simulated::check_data(model, data))
    }

    /// Work of these kinds, calibrated at the concurrency of the run. In virtual time there is nothing to calibrate.
    pub(super) fn burner(&self, kinds: Mix<Kind>, workers: usize) -> Burner {
        match self.on {
            Some(_) => Burner::planned(kinds),
            None => Burner::calibrate_at(kinds, workers),
        }
    }

    /// The same with another number of workers.
    pub(super) fn with_workers(&self, workers: usize) -> Self {
        Self { workers: Some(workers), ..self.clone() }
    }

    /// What `--cpus` was.
    pub(super) fn cpus_asked(&self) -> String {
        match &self.cpus {
            Cpus::Own => "own".to_owned(),
            Cpus::Any => "any".to_owned(),
            Cpus::List(list) => list.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
        }
    }

    /// How many workers at most.
    pub(super) fn workers(&self) -> anyhow::Result<usize> {
        let workers = self
            .workers
            .or_else(|| self.on.as_ref().map(|on| on.model().topology.places().len()))
            .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
            .unwrap_or(1);
        if !(1..=1024).contains(&workers) {
            return Err(UsageError(format!("{workers} workers: 1 to 1024 are possible")).into());
        }
        Ok(workers)
    }

    /// The rules of lumiera, with the workers of any executor.
    pub(super) fn policy(&self) -> anyhow::Result<Policy> {
        let usual = Policy::new(self.workers()?);
        Ok(Policy {
            cpus: self.cpus.clone(),
            order: match self.order {
                OrderName::Start => Order::Start,
                OrderName::Deadline => Order::Deadline,
                OrderName::Laxity => Order::Laxity,
                OrderName::Path => Order::Path,
            },
            step: match self.ladder {
                LadderName::Halving => Step::Halving,
                LadderName::Linear => Step::Linear,
                LadderName::None => Step::None,
            },
            emergency: match self.emergency {
                EmergencyName::Shed => Emergency::Shed,
                EmergencyName::RunLate => Emergency::RunLate,
                EmergencyName::Drop => Emergency::Drop,
            },
            notify: !self.no_notify,
            batch_ns: if self.no_batch { 0 } else { usual.batch_ns },
            ..usual
        })
    }

    /// Refuses options for the rules of lumiera where another executor has none.
    fn check_rules(&self, name: &str) -> Result<(), UsageError> {
        let is_ordered = !matches!(self.order, OrderName::Start) && name != "ideal";
        let rules = [
            (is_ordered, "--order"),
            (!matches!(self.ladder, LadderName::Halving), "--ladder"),
            (!matches!(self.emergency, EmergencyName::Shed), "--emergency"),
            (self.no_notify, "--no-notify"),
            (self.no_batch, "--no-batch"),
        ];
        match rules.into_iter().find(|(given, _)| *given && name != "lumiera") {
            None => Ok(()),
            Some((_, option)) => {
                let what = format!("{name} does not offer {option}: use --executor lumiera");
                Err(UsageError(what))
            }
        }
    }

    /// schedlab's pool; `on_start` places its workers.
    fn schedlab(&self, on_start: OnStart) -> anyhow::Result<PoolExecutor> {
        Ok(PoolExecutor::new(self.workers()?, move |worker| on_start(worker))
            .planning(self.planning.planning())
            .stealing(self.stealing()))
    }

    /// Lumiera's pool, with the planning that was asked for.
    fn lumiera(&self, threads: &Threads) -> anyhow::Result<Lumiera> {
        let policy = self.policy()?;
        let settle = self.settled()?;
        let on_start = threads.on_start(Some(Arc::new(move |_| settle())));
        let options = Options { on_start: Some(on_start), ..Options::new(policy.workers) };
        Ok(Lumiera::new(Options { policy, ..options }).planning(self.planning.planning()))
    }

    fn stealing(&self) -> Stealing {
        match self.queues {
            QueuesName::Auto => Stealing::WherePossible,
            QueuesName::Stealing => Stealing::Always,
            QueuesName::Pool => Stealing::Never,
        }
    }

    /// What each worker does first, of our pool and of others alike, but for its CPU. Tried here once, its CPUs
    /// included, so that a missing right is said before the run.
    fn settled(&self) -> anyhow::Result<impl Fn() + Send + Sync + use<>> {
        let fifo = self.fifo;
        let slice = self.slice;
        let slack = self.timer_slack;
        let place = move || -> std::io::Result<()> {
            schedlab_sys::sched::set_timer_slack(slack)?;
            super::table::attributes(fifo, slice)
        };
        let listed: Vec<usize> = match &self.cpus {
            Cpus::List(cpus) => cpus.clone(),
            Cpus::Own | Cpus::Any => Vec::new(),
        };
        let all = schedlab_sys::topology::online(Path::new("/sys")).unwrap_or_default();
        let allowed = schedlab_sys::sched::affinity(Pid(0)).unwrap_or_else(|_| all.clone());
        if self.cpus == Cpus::List(Vec::new()) {
            return Err(UsageError(format!("--cpus: the list is empty: use {allowed}")).into());
        }
        for &cpu in &listed {
            let one = Cpu(u16::try_from(cpu).unwrap_or(u16::MAX));
            let why = match (all.contains(one), allowed.contains(one)) {
                (_, true) => continue,
                (true, false) => {
                    format!("CPU {cpu} is not allowed for this process: use {allowed}")
                }
                (false, false) => {
                    format!("CPU {cpu} does not exist or is offline: use {all}")
                }
            };
            return Err(UsageError(format!("--cpus: {why}")).into());
        }
        let tried = schedlab_sys::process::on_a_thread(move || {
            for cpu in listed {
                let one: CpuSet =
                    std::iter::once(Cpu(u16::try_from(cpu).unwrap_or(u16::MAX))).collect();
                schedlab_sys::sched::set_affinity(Pid(0), &one)?;
            }
            place()
        });
        tried.context(
            "cannot place a worker as requested (--cpus, --fifo, --slice, --timer-slack)",
        )?;
        // It worked for the trial; what vanished since is no reason to lose the run.
        Ok(move || {
            let _ = place();
        })
    }

    /// The same for workers of others, and their CPU; our pool binds its own.
    pub(super) fn on_start(&self) -> anyhow::Result<OnStart> {
        let bind = binding(&self.cpus, self.workers()?);
        let settle = self.settled()?;
        Ok(Arc::new(move |worker| {
            bind(worker);
            settle();
        }))
    }

    /// Every executor that is built in, ours first.
    pub(super) fn all(&self) -> anyhow::Result<Vec<Box<dyn Executor>>> {
        let here =
            ["schedlab", "lumiera", "rayon", "tokio", "channel", "serial", "virtual", "ideal"];
        let names = if self.on.is_some() { &simulated::EXECUTORS[..] } else { &here[..] };
        let planned = names.iter().filter(|name| self.planning.check(name).is_ok());
        planned.map(|name| self.named(name)).collect()
    }

    /// An executor by name, `cmd:PROGRAM ARGUMENTS`, or `lib:FILE.so`.
    pub(super) fn named(&self, name: &str) -> anyhow::Result<Box<dyn Executor>> {
        self.named_telling(name, &Threads::default())
    }

    /// Refuses what only threads that schedlab starts can have.
    fn check_outside(&self, name: &str) -> Result<(), UsageError> {
        let outside = name.starts_with("cmd:") || name.starts_with("lib:");
        let asked = [(self.fifo.is_some(), "--fifo"), (self.slice.is_some(), "--slice")];
        match asked.into_iter().find(|(asked, _)| outside && *asked) {
            None => Ok(()),
            Some((_, option)) => Err(UsageError(format!(
                "{name} does not offer {option}: it starts its own threads, which inherit schedlab's policy (chrt)"
            ))),
        }
    }

    /// The same, its workers telling their threads.
    pub(super) fn named_telling(
        &self,
        name: &str,
        threads: &Threads,
    ) -> anyhow::Result<Box<dyn Executor>> {
        let workers = self.workers()?;
        // The one that has no timers is paced by this thread.
        schedlab_sys::sched::set_timer_slack(self.timer_slack)?;
        let on_start = || Ok::<_, anyhow::Error>(threads.on_start(Some(self.on_start()?)));
        self.planning.check(name)?;
        self.check_rules(name)?;
        if let Some(model) = &self.on {
            return simulated::executor(model, name, self.simulated(name)?);
        }
        self.check_outside(name)?;
        if let Some(command) = name.strip_prefix("cmd:") {
            return Ok(Box::new(Lines::new(command, workers, self.patience, threads.clone())));
        }
        if let Some(file) = name.strip_prefix("lib:") {
            return Ok(Box::new(Library::open(file.as_ref(), workers, threads.clone())?));
        }
        Ok(match name {
            "schedlab" => Box::new(self.schedlab(on_start()?)?),
            "lumiera" => Box::new(self.lumiera(threads)?),
            "rayon" => Box::new(RayonScope::start_with(workers, &on_start()?).context("rayon")?),
            "tokio" => Box::new(TokioTasks::start_with(workers, &on_start()?).context("tokio")?),
            "channel" => {
                Box::new(ChannelThreads::start_with(workers, &on_start()?).context("channel")?)
            }
            "serial" => {
                threads.tell_own(0);
                Box::new(Serial)
            }
            "virtual" => {
                Box::new(VirtualPool::new(workers, Costs::USUAL, self.planning.planning()))
            }
            "ideal" => Box::new(VirtualTime::ideal(workers).ordered(self.policy()?.order)),
            _ => {
                return Err(UsageError(format!(
                    "unknown executor '{name}': use schedlab, lumiera, rayon, tokio, channel, \
                     serial, virtual, ideal, cmd:PROGRAM (JSON lines) or lib:FILE.so (C ABI)"
                ))
                .into());
            }
        })
    }
}
