//! One episode of lost CPU time: as text, and as a row of JSON and CSV.

use super::input::Named;
use schedlab_model::{Cpu, CpuSet, Nanos, Pid};
use schedlab_timeline::{Ended, Episode, State};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;

/// An episode of lost CPU time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Figures {
    /// When it began.
    start_ns: Nanos,
    /// When it ended.
    end_ns: Nanos,
    /// The CPU whose queue had the waiters.
    overloaded_cpu: Cpu,
    /// CPU time that was lost.
    cost_ns: Nanos,
    /// Time that tasks waited, summed over tasks.
    waited_ns: Nanos,
    /// The task that waited first.
    waiting_pid: Pid,
    /// Its name.
    waiting_comm: String,
    /// The tasks that waited, in order of arrival.
    tasks: Vec<Share>,
    /// Further tasks that waited.
    more_tasks: u32,
    /// Who woke the first task; `null` if no task did.
    waker_pid: Option<Pid>,
    /// The CPU on which it ran.
    waker_cpu: Option<Cpu>,
    /// The decision that another choice would have avoided.
    cause: &'static str,
    /// A free CPU that it may use.
    should_run_on_cpu: Option<Cpu>,
    /// CPUs that were free at some time meanwhile.
    idle_cpus: Vec<Cpu>,
    /// How the episode ended.
    ended: &'static str,
    /// The CPU to which the last waiter moved.
    ended_cpu: Option<Cpu>,
    /// It ended when this happened, in a sentence.
    ended_when: String,
    /// What the events show, in a sentence.
    seen: String,
    /// What follows from it, in a sentence.
    inferred: String,
}

/// A task's part of an episode.
#[derive(Serialize, JsonSchema)]
struct Share {
    #[serde(flatten)]
    task: Named,
    waited_ns: Nanos,
}

impl Figures {
    pub(super) fn of(episode: &Episode, state: &State, origin: Nanos) -> Self {
        let because = &episode.because;
        let tasks = episode
            .tasks
            .iter()
            .map(|share| Share { task: Named::of(share.task, state), waited_ns: share.waited });
        let ended_cpu = match episode.ended {
            Ended::Moved(cpu) => Some(cpu),
            _ => None,
        };
        Self {
            start_ns: episode.start - origin,
            end_ns: episode.end - origin,
            overloaded_cpu: episode.overloaded,
            cost_ns: episode.cost,
            waited_ns: episode.waited,
            waiting_pid: state.task(episode.task).pid,
            waiting_comm: state.name(episode.task),
            tasks: tasks.collect(),
            more_tasks: episode.more_tasks,
            waker_pid: because.waker().map(|waker| state.task(waker).pid),
            waker_cpu: because.waker().map(|_| because.waker_cpu),
            cause: because.cause.name(),
            should_run_on_cpu: because.instead,
            idle_cpus: episode.idle.iter().collect(),
            ended: episode.ended.name(),
            ended_cpu,
            ended_when: episode.ended.sentence(),
            seen: because.sentence(episode.overloaded, state),
            inferred: because.inferred(),
        }
    }
}

/// A few lines for people.
pub(super) fn to_text(episode: &Figures, origin: Nanos) -> String {
    let Figures { start_ns, end_ns, cost_ns, waited_ns, overloaded_cpu, idle_cpus, .. } = episode;
    let count = episode.tasks.len() + episode.more_tasks as usize;
    let (is, s) = if idle_cpus.len() == 1 { ("was", "") } else { ("were", "s") };
    let mut text = format!(
        "{cost_ns} of CPU time lost in {} at {}: {count} task{} waited {waited_ns} on CPU {overloaded_cpu} \
         while CPU{s} {} {is} free\n    ",
        *end_ns - *start_ns,
        super::input::at(origin, origin + *start_ns),
        if count == 1 { "" } else { "s" },
        few(&idle_cpus.iter().copied().collect()),
    );
    const NAMED: usize = 4;
    for (place, Share { task, waited_ns }) in episode.tasks.iter().take(NAMED).enumerate() {
        let comma = if place == 0 { "" } else { ", " };
        let _ = write!(text, "{comma}{task} waited {waited_ns}");
    }
    if count > NAMED {
        let _ = write!(text, " and {} more", count - NAMED);
    }
    let _ = write!(text, "\n    seen: {}\n", episode.seen);
    let _ = writeln!(text, "    inferred: {}", episode.inferred);
    let place = episode.should_run_on_cpu;
    let place = place.map_or(String::new(), |cpu| format!("should have run on CPU {cpu}; "));
    let _ = writeln!(text, "    {place}ended when {}", episode.ended_when);
    text
}

/// A list of CPUs that stays readable where there are a thousand.
fn few(cpus: &CpuSet) -> String {
    const RANGES: usize = 8;
    let text = cpus.to_string();
    match text.match_indices(',').nth(RANGES - 1) {
        Some((end, _)) => format!("{} ... ({} in all)", &text[..end], cpus.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_a_thousand_cpus_is_told_by_its_first_and_their_number() {
        let cpus: CpuSet = "0-3,8,10,12,14,16,18,20".parse().expect("a list");
        assert_eq!(few(&cpus), "0-3,8,10,12,14,16,18,20");
        let cpus: CpuSet = "0-3,8,10,12,14,16,18,20,22,24-99".parse().expect("a list");
        assert_eq!(few(&cpus), "0-3,8,10,12,14,16,18,20 ... (88 in all)");
    }
}
