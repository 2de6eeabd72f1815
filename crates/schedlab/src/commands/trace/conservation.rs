//! `schedlab trace conservation`: where a task waited although an idle CPU was allowed, and why.

use super::input::{self, Input, Selection};
use super::table::Table;
use schedlab_model::{CpuSet, Nanos};
use schedlab_timeline::{
    Cause, Conservation, ConservationAnswer, ConservationOptions, Lost, Reply, Violation,
};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab trace conservation`.
#[derive(clap::Args)]
#[command(after_help = "\
A violation: a task waits on a CPU where another runs, while a CPU that it is allowed on is idle with
nobody on its way there. Without recorded affinity the sum is an upper bound. The definitions of other
tools know no affinity:
  schedviz  wall: some CPU idle, some overloaded; cpu and thread: the lesser of both, integrated
  systing   wall: some CPU with two runnable tasks while another is idle, hand-overs included
Per-CPU kernel threads that wait are no violation; they are summed apart. --pid, --comm and --regex choose
whose violations are listed and summed; the definitions of others go on to look at the whole machine.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Leave out violations shorter than this (a hand-over takes microseconds)
    #[arg(long, value_name = "TIME", default_value = "0")]
    min: Nanos,
    /// Which definition the sum uses: ours, schedviz or systing
    #[arg(long, value_enum, default_value_t = Definition::Schedlab)]
    definition: Definition,
    #[command(flatten)]
    selection: Selection,
    /// Violations to print, longest first; 0 prints all
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Violations to keep, longest first; the sums count all
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keep: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Definition {
    /// Each waiting task, with affinity
    Schedlab,
    /// Wall time with an idle and an overloaded CPU
    Schedviz,
    /// Wall time with a queue of two while another CPU is idle
    Systing,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = ConservationOptions { min: args.min, limit: args.keep };
    let chosen = args.input.chosen(&args.selection)?;
    let about = input::of_chosen(&chosen);
    let reply = args.input.ask(|info| Conservation::new(options, info).about(chosen))?;
    if args.input.part.json {
        input::print_json(to_json(&reply, args.definition))?;
    } else {
        input::print_text(&to_text(&reply, args, &about))?;
        input::print_notes(&reply.warnings);
    }
    Ok(ExitCode::SUCCESS)
}

fn total(answer: &ConservationAnswer, definition: Definition) -> Nanos {
    match definition {
        Definition::Schedlab => answer.total,
        Definition::Schedviz => answer.sums.schedviz_wall,
        Definition::Systing => answer.sums.systing,
    }
}

/// The sum counts each waiting task, also where fewer CPUs were free than tasks waited: CPU time that was lost is less.
const BOUND: &str = "upper";

fn violation_json(violation: &Violation, reply: &Reply<ConservationAnswer>) -> Value {
    let state = &reply.state;
    let because = &violation.because;
    let idle: Vec<u16> = violation.idle.iter().map(|cpu| cpu.0).collect();
    json!({
        "start_ns": violation.start - reply.origin,
        "end_ns": violation.end - reply.origin,
        "overloaded_cpu": violation.overloaded,
        "idle_cpus": idle,
        "waiting_pid": state.task(violation.task).pid,
        "waiting_comm": state.name(violation.task),
        "waker_pid": because.waker().map(|waker| state.task(waker).pid),
        "waker_cpu": because.waker().map(|_| because.waker_cpu),
        "cause": because.cause.name(),
        "because": because.sentence(violation.overloaded, state),
    })
}

fn to_json(reply: &Reply<ConservationAnswer>, definition: Definition) -> Value {
    let answer = &reply.answer;
    let mut object = input::head("conservation", reply);
    let violations = answer.violations.iter().map(|v| violation_json(v, reply)).collect();
    object.insert("violations".into(), violations);
    object.insert("count".into(), json!(answer.count));
    object.insert("total_ns".into(), json!(total(answer, definition)));
    object.insert("bound".into(), json!(BOUND));
    let lost = &answer.lost;
    object.insert(
        "lost".into(),
        json!({
            "cpu_ns": lost.cpus,
            "cpu_ns_low": lost.low,
            "cpu_ns_high": lost.high,
            "core_ns": lost.cores,
            "affinity_known": lost.affinity_known,
        }),
    );
    let causes = Cause::ALL.into_iter().zip(answer.by_cause).map(|(cause, (count, time))| {
        (cause.name().to_owned(), json!({ "count": count, "total_ns": time }))
    });
    object.insert("by_cause".into(), Value::Object(causes.collect()));
    object.insert("by_kernel_threads_ns".into(), json!(answer.by_kernel_threads));
    object.insert("bound_threads_ns".into(), json!(answer.bound_threads));
    let sums = &answer.sums;
    object.insert(
        "definitions".into(),
        json!({
            "schedviz_wall_ns": sums.schedviz_wall,
            "schedviz_cpu_ns": sums.schedviz_cpu,
            "schedviz_thread_ns": sums.schedviz_thread,
            "systing_wall_ns": sums.systing,
        }),
    );
    object.into()
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

/// The sum in words; up to where it was looked for.
fn summed(answer: &ConservationAnswer, definition: Definition) -> String {
    let (total, count) = (total(answer, definition), answer.count);
    let plural = if count == 1 { "" } else { "s" };
    match definition {
        Definition::Schedlab => format!(
            "{total} of waiting while a CPU was free that the task may use, in {count} violation{plural}; in "
        ),
        Definition::Schedviz => {
            format!("{total} in which a CPU was idle while another was overloaded (SchedViz); in ")
        }
        Definition::Systing => {
            format!(
                "{total} in which a CPU was idle while another had two runnable tasks (systing); in "
            )
        }
    }
}

/// CPU time that was lost, as an interval where not all is known.
fn lost(answer: &ConservationAnswer) -> String {
    let Lost { cpus, cores, low, high, .. } = answer.lost;
    let cores = cores.map_or(String::new(), |cores| format!("; {cores} of whole cores"));
    let why = match (low < cpus, cpus < high) {
        (false, false) => String::new(),
        (true, false) => format!(", at least {low}: some tasks may have been pinned"),
        (false, true) => format!(", at most {high}: some CPUs are not known for a time"),
        (true, true) => {
            format!(", between {low} and {high}: affinity and what some CPUs did are not all known")
        }
    };
    format!("CPU time lost while tasks waited: {cpus}{cores}{why}\n")
}

fn to_text(reply: &Reply<ConservationAnswer>, args: &Args, about: &str) -> String {
    let answer = &reply.answer;
    let mut text =
        format!("{}{}{about}\n", summed(answer, args.definition), input::looked_at(reply),);
    text += match args.definition {
        Definition::Schedlab if answer.exact => "",
        Definition::Schedlab => {
            "affinity of the tasks is not all known, so some may have been pinned: this may be too much\n"
        }
        _ => "this definition knows no affinity: pinned tasks that waited are in it\n",
    };
    text += &lost(answer);
    if args.definition == Definition::Schedlab {
        text += "this sums up waiting tasks, not idle CPUs: with one free CPU, two that wait count twice\n";
    }
    if input::is_lower_bound(&reply.warnings) {
        text += "events are missing (see the notes), so some waits are not seen: this may be too little\n";
    }
    let mut causes = Table::new(&["<cause", "times", "waited"]);
    for (cause, (count, time)) in Cause::ALL.into_iter().zip(answer.by_cause) {
        if count > 0 {
            causes.row(vec![cause.name().replace('_', " "), count.to_string(), time.to_string()]);
        }
    }
    if answer.count > 0 {
        let _ = write!(text, "\n{}", causes.text(0));
    }
    let sums = &answer.sums;
    let _ = writeln!(
        text,
        "\nof these a per-CPU kernel thread ran instead: {}\n\
         per-CPU kernel threads themselves waited: {} (no violation)\n\
         schedviz: {} wall, {} of CPUs, {} of threads\n\
         systing: {} wall\n",
        answer.by_kernel_threads,
        answer.bound_threads,
        sums.schedviz_wall,
        sums.schedviz_cpu,
        sums.schedviz_thread,
        sums.systing
    );
    let shown = if args.top == 0 { answer.violations.len() } else { args.top };
    for violation in answer.violations.iter().take(shown) {
        let state = &reply.state;
        let _ = writeln!(
            text,
            "{} at {}: {} ({}) waited on CPU {} while {} {} {} idle\n    {}",
            violation.end - violation.start,
            violation.start - reply.origin,
            state.name(violation.task),
            state.task(violation.task).pid,
            violation.overloaded,
            if violation.idle.len() == 1 { "CPU" } else { "CPUs" },
            few(&violation.idle),
            if violation.idle.len() == 1 { "was" } else { "were" },
            violation.because.sentence(violation.overloaded, state)
        );
    }
    if answer.violations.len() > shown {
        let more = answer.count - shown as u64;
        let _ = writeln!(text, "... and {more} shorter ones (--top 0 shows all that were kept)");
    }
    text
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
