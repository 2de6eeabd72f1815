//! What `schedlab replay` prints for people.

use super::document::{Fidelity, WITHIN, fixed, quantile, source, timer};
use super::predicted;
use super::runs::Runs;
use crate::output::folded;
use schedlab_model::table::TextTable;
use schedlab_model::{Nanos, Pid, Warning};
use schedlab_replay::{Account, Divergence, Inferred, Side, TaskSide, parting};
use schedlab_timeline::Episode;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// Warnings go to stderr, after the figures.
pub(super) fn notes(warnings: &[Warning]) {
    crate::commands::trace::form::print_notes(warnings);
}

/// How much of a table is printed.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Rows; 0 is all.
    pub(super) rows: usize,
    /// Characters of a line.
    pub(super) room: usize,
}

pub(super) fn of(file: &Path, inferred: &Inferred, runs: &Runs, limits: Limits) -> String {
    let room = limits.room;
    let mut text = demand(file, inferred, limits);
    text.push('\n');
    for sentence in &runs.assumed {
        text += &folded(&format!("assumed: {sentence}"), 2, room);
    }
    text.push_str(&folded(&fidelity(runs), 2, room));
    let tasks = tasks(runs, &fixed(inferred), limits);
    let sides = sides(runs, room);
    // What single tasks gain and lose is predicted best.
    let parts = if runs.changed.is_some() { [tasks, sides] } else { [sides, tasks] };
    text.push_str(&parts.concat());
    text.push_str(&predicted::text(runs, room));
    if let Some(changed) = &runs.changed {
        text += &folded(&episodes(&runs.replayed.side, &changed.side, runs), 2, room);
        if let Some(at) = parting(&runs.replayed.side, &changed.side, WITHIN) {
            let parting = format!("The changed run parts from the replay {}", words(&at));
            text += &folded(&parting, 2, room);
        }
    }
    text
}

fn demand(file: &Path, inferred: &Inferred, limits: Limits) -> String {
    let totals = &inferred.totals;
    let sum = |of: fn(&Account) -> u64| inferred.accounts.iter().map(of).sum::<u64>();
    let mut text = format!(
        "{}: {}, {} tasks ask for {} of CPU time\n",
        file.display(),
        inferred.demand.length.readable(),
        inferred.accounts.len(),
        totals.cpu_time.readable()
    );
    let _ = writeln!(
        text,
        "waits: {} ended by tasks, {} by interrupts, {} not seen to end; {} wakeups found their task awake",
        sum(|one| one.by_task),
        sum(|one| one.by_interrupt),
        sum(|one| one.unseen),
        sum(|one| one.not_asleep)
    );
    let _ = writeln!(
        text,
        "subtracted: {} of interrupts, {} of switches, wakeups and recorded calls\n",
        totals.interrupts.readable(),
        totals.overhead.readable()
    );
    text.push_str(&calls(inferred));
    let mut rows: Vec<&Account> = inferred.accounts.iter().collect();
    rows.sort_by_key(|one| (std::cmp::Reverse(one.cpu_time), one.pid));
    let mut table = TextTable::new(&[
        "<task",
        "pid",
        "CPU time",
        "3?waits: by task",
        "4?waits: by interrupt",
        "5?waits: not seen",
        "6?woken by",
        "<2?timer",
        "<1?source",
    ]);
    for one in rows {
        let (kind, time) = timer(one.timer);
        let slack =
            one.slack.map_or(String::new(), |slack| format!(" + slack {}", slack.readable()));
        let known = if one.timer_is_recorded { ", recorded" } else { "" };
        table.row(vec![
            one.comm.clone(),
            one.pid.to_string(),
            one.cpu_time.readable(),
            one.by_task.to_string(),
            one.by_interrupt.to_string(),
            one.unseen.to_string(),
            one.waker.map_or(String::new(), |(pid, _)| pid.to_string()),
            time.map_or(kind.to_owned(), |time| {
                format!("{kind} {}{slack}{known}", time.readable())
            }),
            source(one.source).to_owned(),
        ]);
    }
    folded(&text, 2, limits.room) + &table.text(limits.rows, limits.room)
}

/// What became of recorded calls; nothing if there are none.
fn calls(inferred: &Inferred) -> String {
    let totals = &inferred.totals;
    let mut text = String::new();
    if totals.calls > 0 {
        let _ = writeln!(
            text,
            "calls: {} moved data; {} of them ({:.0} %) through {} objects whose ends are known; {} polls \
             were for these; {} waits for futexes found a token\n",
            totals.calls,
            totals.calls - totals.calls_unknown,
            100.0 * (totals.calls - totals.calls_unknown) as f64 / totals.calls as f64,
            inferred.demand.objects.len(),
            totals.polls,
            totals.futex_tokens
        );
    }
    if totals.contradictory > 0 {
        let _ = writeln!(
            text,
            "{} objects are taken as unknown: with them tasks would wait for each other for ever\n",
            totals.contradictory
        );
    }
    text
}

fn fidelity(runs: &Runs) -> String {
    let fidelity = Fidelity::of(runs);
    let percent = |error: f64| format!("{:.1} %", 100.0 * error);
    let mut text = format!(
        "fidelity of {}: median error, tasks weighted by CPU time: {} of CPU time, {} of run delay; {} of all run delay\n",
        runs.replayed.machine,
        percent(fidelity.cpu_time_error),
        percent(fidelity.run_delay_error),
        percent(fidelity.run_delay_total_error)
    );
    match parting(&runs.recorded, &runs.replayed.side, WITHIN) {
        None => text.push_str("The replay repeats each switch of the recording\n"),
        Some(at) => {
            let _ = writeln!(text, "The replay parts from the recording {}", words(&at));
        }
    }
    text.push('\n');
    text
}

fn words(at: &Divergence) -> String {
    let who = |pid: Option<Pid>| pid.map_or("nobody".to_owned(), |pid| format!("pid {pid}"));
    let how = if at.first == at.second {
        format!("{} at another time", who(at.first))
    } else {
        format!("{} instead of {}", who(at.second), who(at.first))
    };
    format!("at {} on CPU {}: {how}, after {} equal switches", at.at.readable(), at.cpu, at.agreed)
}

/// A row's name, and its value in a run.
type Figure<'f> = (&'f str, &'f dyn Fn(&Side) -> String);

/// The runs beside each other, a figure a row.
fn sides(runs: &Runs, room: usize) -> String {
    let changed = runs.changed.as_ref().map(|run| &run.side);
    let mut heads = vec!["<", "recorded", "replayed"];
    if runs.changed.is_some() {
        heads.push("changed");
    }
    let mut table = TextTable::new(&heads);
    let figures: [Figure<'_>; 11] = [
        ("CPU time", &|side| side.ran.readable()),
        ("switches", &|side| side.switches.to_string()),
        ("run delay", &|side| side.waited.readable()),
        ("run delay p50", &|side| quantile(&side.total.run_delay, 0.5).readable()),
        ("run delay p99", &|side| quantile(&side.total.run_delay, 0.99).readable()),
        ("run delay max", &|side| Nanos(side.total.run_delay.max().unwrap_or(0)).readable()),
        ("wakeup latency p50", &|side| quantile(&side.total.wakeup, 0.5).readable()),
        ("wakeup latency p99", &|side| quantile(&side.total.wakeup, 0.99).readable()),
        ("wakeup latency max", &|side| Nanos(side.total.wakeup.max().unwrap_or(0)).readable()),
        ("episodes", &|side| side.lost.count.to_string()),
        ("lost CPU time", &|side| side.lost.total.readable()),
    ];
    for (name, figure) in figures {
        let sides = [&runs.recorded, &runs.replayed.side].into_iter().chain(changed);
        let cells = sides.map(figure);
        table.row(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    let what = runs.changed.as_ref().map_or(String::new(), |run| {
        let settings = runs.settings.iter().map(ToString::to_string);
        let all: Vec<String> = std::iter::once(run.machine.to_string()).chain(settings).collect();
        format!("changed: {}\n", all.join(" "))
    });
    what + &table.text(0, room) + "\n"
}

/// Who gains and who loses: the tasks whose run delay changed most.
fn tasks(runs: &Runs, fixed: &BTreeSet<Pid>, limits: Limits) -> String {
    let none = TaskSide::default();
    let is = &runs.replayed.side;
    let after = runs.changed.as_ref().map_or(is, |run| &run.side);
    let before = if runs.changed.is_some() { is } else { &runs.recorded };
    let mut rows: Vec<_> = before
        .tasks
        .iter()
        .map(|(key, task)| {
            let to = after.tasks.get(key).unwrap_or(&none);
            let by = i128::from(to.waited.0) - i128::from(task.waited.0);
            (key, task, to, by)
        })
        .filter(|(.., by)| *by != 0)
        .collect();
    if rows.is_empty() {
        return "No task waits longer or shorter.\n".to_owned();
    }
    rows.sort_by_key(|(key, .., by)| (std::cmp::Reverse(by.unsigned_abs()), *key));
    let (one, two) =
        if runs.changed.is_some() { ("replayed", "changed") } else { ("recorded", "replayed") };
    let mut heads = vec!["<task".to_owned(), "pid".to_owned()];
    for figure in ["run delay", "2?run delay p99", "1?CPU time"] {
        heads.extend([one, two].map(|side| format!("{figure}: {side}")));
    }
    heads.push("<".to_owned());
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = TextTable::new(&heads);
    for (key, from, to, by) in rows {
        let p99 = |task: &TaskSide| quantile(&task.delays.run_delay, 0.99).readable();
        let more = if by < 0 { "waits less" } else { "waits more" };
        let is_fixed = runs.changed.is_some() && fixed.contains(&key.1);
        let why = if is_fixed { "; the recording fixes its demand" } else { "" };
        table.row(vec![
            from.comm.clone(),
            key.1.to_string(),
            from.waited.readable(),
            to.waited.readable(),
            p99(from),
            p99(to),
            from.ran.readable(),
            if is_fixed { "-".to_owned() } else { to.ran.readable() },
            format!("{more}{why}"),
        ]);
    }
    table.text(limits.rows, limits.room) + "\n"
}

/// Episodes that vanish or appear: those of a task that overlap none of that task in the other run.
fn episodes(before: &Side, after: &Side, runs: &Runs) -> String {
    let near = |one: &Episode, two: &Episode| {
        one.overloaded == two.overloaded && one.start <= two.end && two.start <= one.end
    };
    let only = |these: &Side, those: &Side| -> (usize, Nanos, Option<Episode>) {
        let alone = |one: &&Episode| !those.lost.episodes.iter().any(|two| near(one, two));
        let alone: Vec<&Episode> = these.lost.episodes.iter().filter(alone).collect();
        let cost = alone.iter().map(|one| one.cost.0).sum();
        (alone.len(), Nanos(cost), alone.first().map(|one| (*one).clone()))
    };
    let origin = schedlab_model::EventSource::info(&runs.replayed.source);
    let start = origin.span.map_or(Nanos::ZERO, |span| span.start);
    let mut text = String::new();
    for (verb, (count, cost, first)) in
        [("vanish", only(before, after)), ("appear", only(after, before))]
    {
        if let Some(first) = first {
            let at = Nanos(first.start.0.saturating_sub(start.0));
            let _ = writeln!(
                text,
                "{count} episodes {verb}, with {} of lost CPU time; the costliest at {} on CPU {}",
                cost.readable(),
                at.readable(),
                first.overloaded
            );
        }
    }
    text
}
