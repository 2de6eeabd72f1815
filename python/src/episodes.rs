//! Episodes of lost CPU time as columns: those of `schedlab trace conservation`, costliest first.

use crate::columns::{Found, cpu, nanos, numbers, plain, table, time, words};
use crate::table::Table;
use arrow_array::builder::{ListBuilder, PrimitiveBuilder, StringBuilder};
use arrow_array::types::{Int8Type, Int32Type, Int64Type, UInt16Type};
use arrow_array::{ArrayRef, Int32Array};
use arrow_schema::ArrowError;
use schedlab_timeline::{Cause, Ended, Episode, State};
use std::sync::Arc;

/// How episodes end, by name.
const ENDED: [&str; 6] = ["ran", "moved", "cpu_cleared", "cpu_taken", "window_ended", "unknown"];

/// The table of these episodes.
pub(crate) fn episodes(episodes: &[Episode], state: &State) -> Result<Table, ArrowError> {
    let count = episodes.len();
    let mut found = Found::default();
    let comm: Int32Array =
        episodes.iter().map(|episode| Some(found.number(&state.name(episode.task)))).collect();
    let mut start = numbers::<Int64Type>(count);
    let mut end = numbers::<Int64Type>(count);
    let mut overloaded = numbers::<UInt16Type>(count);
    let mut cost = numbers::<Int64Type>(count);
    let mut waited = numbers::<Int64Type>(count);
    let mut waiting = numbers::<Int32Type>(count);
    let mut tasks = numbers::<Int32Type>(count);
    let mut waker = numbers::<Int32Type>(count);
    let mut waker_cpu = numbers::<UInt16Type>(count);
    let mut cause = numbers::<Int8Type>(count);
    let mut instead = numbers::<UInt16Type>(count);
    let mut idle = ListBuilder::new(PrimitiveBuilder::<UInt16Type>::new());
    let mut ended = numbers::<Int8Type>(count);
    let mut ended_cpu = numbers::<UInt16Type>(count);
    let mut seen = StringBuilder::new();
    let mut inferred = StringBuilder::new();
    for episode in episodes {
        let because = &episode.because;
        start.append_value(time(episode.start));
        end.append_value(time(episode.end));
        overloaded.append_value(cpu(episode.overloaded));
        cost.append_value(time(episode.cost));
        waited.append_value(time(episode.waited));
        waiting.append_value(state.task(episode.task).pid.0);
        let all = episode.tasks.len() + episode.more_tasks as usize;
        tasks.append_value(i32::try_from(all).unwrap_or(i32::MAX));
        waker.append_option(because.waker().map(|task| state.task(task).pid.0));
        waker_cpu.append_option(because.waker().map(|_| cpu(because.waker_cpu)));
        cause.append_value(because.cause as i8);
        instead.append_option(because.instead.map(cpu));
        idle.append_value(episode.idle.iter().map(|it| Some(cpu(it))));
        ended.append_option(place(episode.ended));
        ended_cpu.append_option(match episode.ended {
            Ended::Moved(to) => Some(cpu(to)),
            _ => None,
        });
        seen.append_value(because.sentence(episode.overloaded, state));
        inferred.append_value(because.inferred());
    }
    let heads = vec![
        nanos("start_ns"),
        nanos("end_ns"),
        plain("overloaded_cpu"),
        nanos("cost_ns"),
        nanos("waited_ns"),
        plain("waiting_pid"),
        words("waiting_comm", found.words()),
        plain("tasks"),
        plain("waker_pid"),
        plain("waker_cpu"),
        words("cause", Cause::ALL.map(Cause::name)),
        plain("should_run_on_cpu"),
        plain("idle_cpus"),
        words("ended", ENDED),
        plain("ended_cpu"),
        plain("seen"),
        plain("inferred"),
    ];
    let part: Vec<ArrayRef> = vec![
        Arc::new(start.finish()),
        Arc::new(end.finish()),
        Arc::new(overloaded.finish()),
        Arc::new(cost.finish()),
        Arc::new(waited.finish()),
        Arc::new(waiting.finish()),
        Arc::new(comm),
        Arc::new(tasks.finish()),
        Arc::new(waker.finish()),
        Arc::new(waker_cpu.finish()),
        Arc::new(cause.finish()),
        Arc::new(instead.finish()),
        Arc::new(idle.finish()),
        Arc::new(ended.finish()),
        Arc::new(ended_cpu.finish()),
        Arc::new(seen.finish()),
        Arc::new(inferred.finish()),
    ];
    table(heads, vec![part])
}

/// The place of an end in [`ENDED`].
fn place(ended: Ended) -> Option<i8> {
    let at = ENDED.iter().position(|name| *name == ended.name())?;
    i8::try_from(at).ok()
}
