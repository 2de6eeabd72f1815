//! A graph of jobs on an executor, in the load child: one run, proved, and its figures.

use super::child_report::LoadReport;
use super::child_request::Part;
use super::figures::of_resources;
use super::start_tasks;
use crate::marks::{self, Marks};
use schedlab_jobs::adaptors::{
    ChannelThreads, Lumiera, PoolExecutor, RayonScope, Serial, TokioTasks,
};
use schedlab_jobs::executor::Executor;
use schedlab_jobs::graph::Node;
use schedlab_jobs::load::{Burner, Load};
use schedlab_jobs::pool::{OnStart, Options};
use schedlab_jobs::profile::Profile;
use schedlab_jobs::run::{Clock, Run, Work};
use schedlab_model::{Nanos, Phase, Warning};
use schedlab_sys::signal::Signals;
use schedlab_sys::task::Resources;
use schedlab_sys::{clock, process, sched};
use schedlab_workload::Jobs;
use schedlab_workload::jobs::{figures, samples};
use schedlab_workload::plan::{Placement, Task};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// Performs the jobs on workers that are placed as these tasks; the child's exit code.
pub(super) fn perform(
    jobs: &Jobs,
    tasks: Vec<Task>,
    limit: Option<Nanos>,
    part: Part,
    signals: Signals,
) -> Result<i32, LoadReport> {
    let failed = |why: String| LoadReport::Failed { option: None, why };
    let refused = |error: io::Error| failed(process::thread_refused(&error).to_string());
    if part == Part::Beside {
        return Err(failed(
            "jobs cannot run beside a workload: they end when they are done".into(),
        ));
    }
    let places: Vec<Placement> = tasks.into_iter().map(|task| task.placement).collect();
    let workers = places.len();
    // By a CPU of its own: were it calibrated among as many threads as there are workers, the work would
    // change with them.
    let burner = Burner::calibrate(jobs.load);
    if std::env::var_os(super::CALIBRATED).is_some() {
        let what = "metrics do not compare with those of another speed: the work of jobs was \
            calibrated on slowed CPUs";
        let remedy = "compare metrics at one speed, or `inflation` and `concurrency`";
        LoadReport::Warning(Warning::new("calibrated-slowed", what, remedy)).tell();
    }
    let graph = jobs.graph();
    let load = Load::new(&graph, burner, jobs.time.0, jobs.length, jobs.seed);
    let schedule = jobs.schedule(&graph);
    let kinds = jobs.load.all().iter().map(|kind| kind.name()).collect();
    let work =
        marked(load, kinds).map_err(|error| failed(format!("opening the mark file: {error}")))?;
    let run = Run::new(graph, schedule, work, Clock::start());
    let run = Arc::new(run.with_cpu_clock(|| clock::thread_cpu().0));
    let mut executor = executor(jobs, places).map_err(failed)?;
    LoadReport::Tasks(Vec::new()).tell();
    if part.waits() {
        let input = io::stdin();
        let _ = process::poll(&[input.as_fd(), signals.fd()], None);
    }
    let end = Arc::new(Mutex::new(()));
    let over = Arc::new(AtomicBool::new(false));
    watch(signals, limit, end.clone(), over.clone()).map_err(refused)?;
    let before = Resources::of_this_process();
    let managed = executor.run(&run).map_err(|e| failed(e.to_string()));
    let used = Resources::of_this_process().since(&before);
    // The one that holds it reports the end, and nobody else.
    let _telling = end.lock().unwrap_or_else(PoisonError::into_inner);
    over.store(true, SeqCst);
    let managed = managed?;
    run.verify().map_err(|flaw| failed(format!("the run failed its proof: {flaw}")))?;
    let profile = Profile::of(&run, workers);
    LoadReport::Interval(Box::new(samples(&profile))).tell();
    for figure in figures(&profile, workers, managed, of_resources(&used)) {
        LoadReport::Figure(figure).tell();
    }
    LoadReport::Ended { interrupted: false, censored: false, failures: Vec::new() }.tell();
    Ok(0)
}

/// Work that puts a mark at the begin and at the end of each job, named by its kind: within the job's time, of
/// which the two take some microseconds.
struct Marked {
    load: Load,
    kinds: Vec<&'static str>,
    marks: Marks,
}

/// The load as it is, or, where the run is recorded, with marks.
fn marked(load: Load, kinds: Vec<&'static str>) -> io::Result<Box<dyn Work>> {
    let Some(path) = std::env::var_os(marks::VARIABLE) else { return Ok(Box::new(load)) };
    Ok(Box::new(Marked { load, kinds, marks: Marks::append(path.as_ref())? }))
}

impl Work for Marked {
    fn perform(&self, node: Node) {
        let kind = self.load.kind(node);
        let id = self.kinds.iter().position(|known| *known == kind).unwrap_or(0) as u32;
        let thread = process::thread_id();
        let put = |phase| self.marks.put(clock::monotonic(), thread, id, phase, 0);
        put(Phase::Begin);
        self.load.perform(node);
        put(Phase::End);
    }

    fn expected_ns(&self, node: Node) -> u64 {
        self.load.expected_ns(node)
    }

    fn kind(&self, node: Node) -> &'static str {
        self.load.kind(node)
    }
}

/// Ends the process at a signal, or when the run takes longer than it may: executors cannot be stopped. It
/// sleeps until then.
fn watch(
    signals: Signals,
    limit: Option<Nanos>,
    end: Arc<Mutex<()>>,
    over: Arc<AtomicBool>,
) -> io::Result<()> {
    let life = move || {
        let _ = process::poll(&[signals.fd()], limit);
        let _telling = end.lock().unwrap_or_else(PoisonError::into_inner);
        if over.load(SeqCst) {
            return;
        }
        match (signals.caught(), limit) {
            (None, Some(limit)) => {
                let why = format!(
                    "the jobs did not end within {limit}: use fewer or shorter jobs, or more time"
                );
                LoadReport::Failed { option: None, why }.tell();
            }
            _ => LoadReport::Ended { interrupted: true, censored: false, failures: Vec::new() }
                .tell(),
        }
        std::process::exit(1);
    };
    std::thread::Builder::new().name("watch".into()).spawn(life).map(drop)
}

/// The executor, its workers placed. Those of others inherit the place of the thread that starts them.
fn executor(jobs: &Jobs, places: Vec<Placement>) -> Result<Box<dyn Executor>, String> {
    let settle = |place: &Placement| -> Result<(), String> {
        start_tasks::settle(place)
            .map_err(|error| format!("a worker: {}", start_tasks::sentence(error)))
    };
    let workers = places.len();
    let first = places.first().cloned().unwrap_or_default();
    if matches!(jobs.executor.as_str(), "schedlab" | "lumiera") {
        // Tried once, so that a missing right is an error and not a run placed otherwise.
        let tried = process::on_a_thread(move || settle(&first).map_err(io::Error::other));
        tried.map_err(|error| error.to_string())?;
        let slack = jobs.timer_slack;
        let on_start = move |worker: usize| {
            let _ = sched::set_timer_slack(slack);
            let _ = start_tasks::settle(&places[worker % places.len()]);
        };
        if jobs.executor == "schedlab" {
            return Ok(Box::new(PoolExecutor::new(workers, on_start)));
        }
        let options = Options { policy: jobs.policy.clone(), ..Options::new(workers) };
        let on_start: Option<OnStart> = Some(Arc::new(on_start));
        return Ok(Box::new(Lumiera::new(Options { on_start, ..options })));
    }
    if places.iter().any(|place| *place != first) {
        return Err(format!(
            "{} cannot place workers one by one: leave out --place spread",
            jobs.executor
        ));
    }
    settle(&first)?;
    Ok(match jobs.executor.as_str() {
        "rayon" => Box::new(RayonScope::start(workers).map_err(|e| format!("rayon: {e}"))?),
        "tokio" => Box::new(TokioTasks::start(workers).map_err(|e| format!("tokio: {e}"))?),
        "channel" => Box::new(ChannelThreads::start(workers).map_err(|e| format!("channel: {e}"))?),
        _ => Box::new(Serial),
    })
}
