//! A graph of jobs on an executor, as `schedlab jobs run` does it, so that its parameters are options
//! like those of any other workload: repeated, compared, and axes of an experiment.

use super::Workload;
use crate::job_graph::Jobs;
use crate::jobs::worker;
use crate::options::{Kind, OptionError, Options, option};
use crate::placement::MachineProperties;
use crate::plan::Plan;
use schedlab_jobs::graph::{Hashing, Rules};
use schedlab_jobs::load::Arrivals;
use schedlab_jobs::policy::{Cpus, Emergency, Order, Policy, Step};
use schedlab_model::Nanos;
use std::str::FromStr;

/// Durations without a unit are microseconds.
const MICRO: Kind = Kind::Duration(1_000);
const EXECUTORS: &[&str] = &["schedlab", "lumiera", "rayon", "tokio", "channel", "serial"];

pub(super) const WORKLOAD: Workload = Workload {
    name: "jobs",
    about: "a graph of jobs on an executor, each run proved: the rig of `schedlab jobs run` with its parameters as options",
    options: &[
        option(
            "shape",
            Kind::Text,
            "chain",
            "chain, isolated, short-chains2, short-chains3, short-segments3, load-bursts, stationary, stencil, fork-join, tree",
        ),
        option("nodes", Kind::Number(1, 16_000_000), "256", "how many jobs"),
        option("fan", Kind::Number(1, 65_536), "16", "the widest level, and the most predecessors"),
        option("hash", Kind::Choice(&["mixed", "compat"]), "mixed", "compat: the published graphs"),
        option("time", MICRO, "500us", "length of a job of weight 1, as time on a CPU of its own"),
        option(
            "load",
            Kind::Text,
            "cpu",
            "what jobs do: cpu, memory, lock, sleep or block; or several, as memory=20%,lock@join (the rest cpu)",
        ),
        option(
            "length",
            Kind::Text,
            "fixed",
            "fixed, exponential, bimodal:FRACTION:TIMES or pareto:SHAPE",
        ),
        option(
            "arrivals",
            Kind::Text,
            "at-once",
            "at-once, gap:TIME, poisson:TIME, bursts:JOBS:TIME or levels:TIME",
        ),
        option("life", MICRO, "", "latest start after a job's start time; a later job is dropped"),
        option("executor", Kind::Choice(EXECUTORS), "schedlab", "the executor"),
        option(
            "workers",
            Kind::Number(0, 1024),
            "0",
            "how many workers; 0: one per CPU that may be used",
        ),
        option(
            "order",
            Kind::Choice(&["start", "deadline", "laxity", "path"]),
            "start",
            "lumiera: which due job goes first",
        ),
        option(
            "ladder",
            Kind::Choice(&["halving", "linear", "none"]),
            "halving",
            "lumiera: how contention is forgotten",
        ),
        option(
            "emergency",
            Kind::Choice(&["shed", "run-late", "drop"]),
            "shed",
            "lumiera: what a missed compulsory job brings about",
        ),
        option("no-notify", Kind::Flag, "false", "lumiera: sleepers wake by their timers only"),
        option("no-batch", Kind::Flag, "false", "lumiera: one job per pull"),
        option(
            "timer-slack",
            Kind::Duration(1),
            "1ns",
            "schedlab and lumiera: how late the kernel may let a worker's timer be",
        ),
    ],
    build,
};

/// What only Lumiera's rules have.
const LUMIERA_ONLY: [&str; 5] = ["order", "ladder", "emergency", "no-notify", "no-batch"];

fn build(options: &Options, around: &MachineProperties) -> Result<Plan, OptionError> {
    let mut plan = Plan::new("jobs");
    let executor = options.text("executor").to_owned();
    let refuse = |name: &'static str, other: &str| match options.is_given(name) {
        false => Ok(()),
        true => {
            let why = format!("{executor} does not offer it (use --executor {other})");
            Err(OptionError::new(name, why))
        }
    };
    if executor != "lumiera" {
        LUMIERA_ONLY.into_iter().try_for_each(|name| refuse(name, "lumiera"))?;
        if executor != "schedlab" {
            refuse("timer-slack", "schedlab")?;
        }
    }
    let arrivals: Arrivals = parsed(options, "arrivals")?;
    if executor == "serial" && arrivals != Arrivals::AtOnce {
        let why = format!("{executor} does not offer start times (use --executor schedlab)");
        return Err(OptionError::new("arrivals", why));
    }
    let rules = Rules {
        nodes: options.small("nodes"),
        fan: options.small("fan"),
        hashing: if options.text("hash") == "compat" { Hashing::Compat } else { Hashing::Mixed },
        ..Rules::default()
    };
    let jobs = Jobs {
        shape: parsed(options, "shape")?,
        rules,
        load: parsed(options, "load")?,
        time: options.duration("time"),
        length: parsed(options, "length")?,
        arrivals,
        life: options.is_given("life").then(|| options.duration("life")),
        timer_slack: options.duration("timer-slack").max(Nanos(1)),
        policy: policy(options, around),
        seed: around.seed,
        executor,
    };
    let role = plan.role("worker");
    let workers = if jobs.executor == "serial" { 1 } else { jobs.policy.workers };
    plan.tasks = (0..workers).map(|_| worker(role)).collect();
    // A mark for each kind, numbered as it is listed.
    plan.marks.extend(jobs.load.all().iter().map(|kind| format!("{} job", kind.name())));
    plan.jobs = Some(Box::new(jobs));
    Ok(plan)
}

fn parsed<T: FromStr>(options: &Options, name: &'static str) -> Result<T, OptionError>
where
    T::Err: std::fmt::Display,
{
    options.text(name).parse().map_err(|why: T::Err| OptionError::new(name, why.to_string()))
}

fn policy(options: &Options, around: &MachineProperties) -> Policy {
    let workers = match options.number("workers") {
        0 => around.allowed.len().max(1),
        workers => usize::try_from(workers).unwrap_or(1),
    };
    let usual = Policy::new(workers);
    Policy {
        // Where tasks of a workload run is decided by its placement (--place spread binds them).
        cpus: Cpus::Any,
        order: match options.text("order") {
            "deadline" => Order::Deadline,
            "laxity" => Order::Laxity,
            "path" => Order::Path,
            _ => Order::Start,
        },
        step: match options.text("ladder") {
            "linear" => Step::Linear,
            "none" => Step::None,
            _ => Step::Halving,
        },
        emergency: match options.text("emergency") {
            "run-late" => Emergency::RunLate,
            "drop" => Emergency::Drop,
            _ => Emergency::Shed,
        },
        notify: !options.flag("no-notify"),
        batch_ns: if options.flag("no-batch") { 0 } else { usual.batch_ns },
        ..usual
    }
}
