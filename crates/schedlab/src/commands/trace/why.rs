//! `schedlab why`: why tasks waited; and what an interval of one task's life was spent on.

pub(super) mod blame;
mod limits;
pub(super) mod locks;
pub(crate) mod overview;
mod requests;

pub(super) use requests::check_mark;

use super::blocked;
use super::input::{self, Head, Input, Named, Selection};
use super::ran_instead::{self, Occupancy};
use crate::json;
use crate::output::{folded, folded_table};
use anyhow::bail;
use schedlab_model::table::{At, Column, Row, Rows, TextTable};
use schedlab_model::{Cpu, Nanos, Pid, Point, columns};
use schedlab_timeline::{
    Blocked, BlockedIn, Doing, Meanwhile, Occupants, Spent, StackId, Stacks, State, TaskId,
    WhyLate, WhyLateAnswer,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Options of `schedlab why`.
#[derive(clap::Args)]
#[command(after_help = "\
Without --pid and --mark it tells who waited longest, why, who ran instead, and what would help.
Each instant of a wait has exactly one cause; the causes of a task add up to its run delay.
Interrupts are a cause of their own if they were recorded (`schedlab record -e irq -e irq_vectors`);
otherwise their time counts for the task that they interrupted.

With --pid it tells what an interval of one task's life was spent on.
Each instant from --from to --to belongs to exactly one entry, so the shares sum to 100 %.
While the task is blocked, its waker is followed back to the start of that block only, with the
waker's own waits and blocks inside it. An interrupt (device or timer) ends the chain.

A waker is evidence, not proof: events tell who woke the task, not what the task waited for.
While a task waited for a CPU, the tasks that ran on that CPU are listed with their shares.
If the trace holds stacks (`schedlab record --stacks`), blocked tasks have the kernel function in
which they waited, and its callers.

--mark asks about requests, which marks with begin and end enclose (`schedlab load --trace` writes
them; `schedlab trace info` lists their names). It compares the mean request of the slowest 1 % with
the mean request of the middle 10 %. This takes at least 20 requests. --comm, --regex and --cgroup
choose requests that such a task begins or ends.")]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// Explain all that this task (thread) did
    #[arg(long, value_name = "PID", conflicts_with = "mark")]
    pid: Option<i32>,
    /// Use only tasks with exactly this name (repeatable)
    #[arg(long, value_name = "NAME", conflicts_with = "pid")]
    comm: Vec<String>,
    /// Use only tasks whose name matches this regular expression
    #[arg(long, value_name = "REGEX", conflicts_with = "pid")]
    regex: Option<regex_lite::Regex>,
    /// Use only tasks in this control group and the groups below it: a path, or the name of a container or
    /// systemd unit (repeatable)
    #[arg(long, value_name = "GROUP", conflicts_with = "pid")]
    cgroup: Vec<String>,
    /// Print who took CPU time from whom, by task, command, process or control group
    #[arg(
        long,
        value_name = "BY",
        value_enum,
        num_args = 0..=1,
        default_missing_value = "comm",
        conflicts_with_all = ["mark", "pid"]
    )]
    blame: Option<blame::By>,
    /// Explain requests: the intervals from begin to end of the marks with this name
    #[arg(long, value_name = "NAME")]
    mark: Option<String>,
    /// Explain the Nth longest request in order of time
    #[arg(long, value_name = "N", default_value_t = 1, requires = "mark")]
    nth: usize,
    /// Print at most N rows [default: 5 tasks, or 40 parts of an interval]; 0 prints all
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

impl Args {
    /// Parts of an interval to print.
    fn rows(&self) -> usize {
        self.top.unwrap_or(40)
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let Args { comm, regex, cgroup, .. } = args;
    let selection = Selection::named(comm.clone(), regex.clone(), cgroup.clone());
    if let Some(name) = &args.mark {
        let request = requests::Nth { mark: name, nth: args.nth };
        return requests::run(&args.input, &selection, request, args.rows());
    }
    let Some(pid) = args.pid else {
        return overview::run(&args.input, &selection, args.blame, args.top);
    };
    let limits = limits::Limits::of(&args.input)?;
    let question = WhyLate::new(Pid(pid)).throttled(&limits.throttling.spans);
    let reply = args.input.ask_with_stacks(|_| question)?;
    let Some(answer) = &reply.answer else {
        let file = args.input.file.display();
        bail!(
            "{file}: no task has --pid {pid} before --to; `schedlab trace tasks --top 0 {file}` lists them"
        );
    };
    let walked = Walked::of(answer, &reply.state, reply.origin);
    let blocked = walked.blocked();
    let entries = walked.entries();
    let document = Document {
        head: Head::of(&reply),
        task: Named::of(answer.task, &reply.state),
        breakdown: Breakdown::of(&walked, &blocked, &entries),
    };
    let form = args.input.part.form;
    form.print(&reply.warnings, &document, &document.breakdown.entries, || {
        let Document { head, task, breakdown } = &document;
        let text = breakdown.text(&Layout {
            task: Some(task),
            start: reply.origin + head.start(),
            begins: "--from",
            rows: args.rows(),
            room: form.room(),
        });
        format!("{task}: what {} were spent on\n\n{text}", input::looked_at(&reply))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Time that one task spent on one thing.
struct Total {
    doing: Doing,
    task: TaskId,
    /// Where it was blocked, if it was and the trace tells.
    stack: Option<StackId>,
    time: Nanos,
    /// What was on the CPU, where the task waited for one.
    instead: Option<Meanwhile>,
}

impl Total {
    /// What it was, in a sentence, with who was on the CPU meanwhile.
    fn said(&self, walked: &Walked<'_>) -> String {
        let what = walked.said(self.doing, self.task, self.stack);
        let instead = self.instead.as_ref();
        match instead.and_then(|instead| ran_instead::in_shares(instead, walked.state)) {
            Some(instead) => format!("{what}; meanwhile {instead}"),
            None => what,
        }
    }
}

/// Time by what was done and by whom, longest first.
fn totals(spent: &[Spent], occupants: &Occupants) -> Vec<Total> {
    let mut parts = BTreeMap::<(Doing, TaskId, Option<StackId>), Vec<&Spent>>::new();
    for part in spent {
        parts.entry((part.doing, part.task, part.stack)).or_default().push(part);
    }
    let total = |((doing, task, stack), parts): (_, Vec<&Spent>)| {
        let time = parts.iter().fold(Nanos::ZERO, |sum, part| sum + part.span.duration());
        let waits = || parts.iter().filter_map(|part| part.wait());
        let instead = waits().next().map(|_| occupants.during(waits()));
        Total { doing, task, stack, time, instead }
    };
    let mut totals: Vec<Total> = parts.into_iter().map(total).collect();
    totals
        .sort_by_key(|total| (std::cmp::Reverse(total.time), total.doing, total.task, total.stack));
    totals
}

/// Shares in tenths of a percent that sum to 1000: what rounding leaves goes to the largest remainders.
fn tenths(times: &[Nanos]) -> Vec<u64> {
    let all: u128 = times.iter().map(|time| u128::from(time.0)).sum();
    if all == 0 {
        return vec![0; times.len()];
    }
    let exact = |time: &Nanos| u128::from(time.0) * 1000;
    let mut shares: Vec<u64> = times.iter().map(|time| (exact(time) / all) as u64).collect();
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(exact(&times[*at]) % all));
    let left = 1000 - shares.iter().sum::<u64>();
    order.into_iter().take(left as usize).for_each(|at| shares[at] += 1);
    shares
}

pub(crate) use overview::Document as CausesDocument;
pub(crate) use requests::Document as RequestsDocument;

/// `schedlab trace why --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Whose interval it is.
    #[serde(flatten)]
    task: Named,
    #[serde(flatten)]
    breakdown: Breakdown<'a>,
}

/// What an interval was spent on.
#[derive(Serialize, JsonSchema)]
struct Breakdown<'a> {
    /// Time by what was done and by whom, longest first; the shares sum to 1.
    sums: Vec<Sum>,
    /// Where in the kernel the task itself blocked, the longest first, at most 10; empty where the trace holds no stacks.
    blocked_in: Rows<'a, Blocked<'a>>,
    /// The parts of the interval in order of time, without gap or overlap.
    entries: Rows<'a, Entry<'a>>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-why/1";
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    /// `runs`, `runnable`, `interrupt`, `blocked` or `unknown`.
    state: &'static str,
    cpu: Option<Cpu>,
    #[serde(flatten)]
    task: Named,
    time_ns: Nanos,
    /// Part of the interval, from 0 to 1.
    share: f64,
    /// Where in the kernel it was blocked, if it was and the trace tells.
    blocked_in: Option<String>,
    /// What was on that CPU in this time; absent where the task did not wait for a CPU.
    #[serde(flatten)]
    meanwhile: Option<Occupancy>,
    /// What it was, in a sentence.
    said: String,
}

/// A part of the interval.
pub(crate) struct Entry<'a> {
    spent: &'a Spent,
    walked: Walked<'a>,
}

impl Entry<'_> {
    fn said(&self) -> String {
        self.walked.said(self.spent.doing, self.spent.task, self.spent.stack)
    }
}

impl Row for Entry<'_> {
    const ABOUT: &'static str = "A part of the interval.";

    fn columns() -> Vec<Column<Self>> {
        columns! { row: Self;
            "start_ns" = At(row.spent.span.start), "Where it begins.";
            "end_ns" = At(row.spent.span.end), "Where it ends.";
            "state" = row.spent.doing.name(), "`runs`, `runnable`, `interrupt`, `blocked` or `unknown`.";
            "cpu" = row.spent.doing.cpu(), "The CPU, where there is one.";
            "pid" = row.walked.state.task(row.spent.task).pid, "The task (thread).";
            "comm" = row.walked.state.name(row.spent.task), "Its name at the end.";
            "depth" = row.spent.depth, "How many wakers lie between; 0 is the task itself.";
            "blocked_in" = blocked::text(row.spent.stack, row.walked.stacks), "Where in the kernel it was blocked, if it was and the trace tells.";
            "said" = row.said(), "What it was, in a sentence.";
        }
    }
}

/// An interval as it was walked back from its end.
#[derive(Clone, Copy)]
struct Walked<'a> {
    asked: TaskId,
    spent: &'a [Spent],
    occupants: &'a Occupants,
    blocked: &'a [BlockedIn],
    stacks: &'a Stacks,
    state: &'a State,
    origin: Nanos,
}

impl<'a> Walked<'a> {
    fn of(answer: &'a WhyLateAnswer, state: &'a State, origin: Nanos) -> Self {
        let WhyLateAnswer { task, spent, occupants, blocked, stacks, .. } = answer;
        Self { asked: *task, spent, occupants, blocked, stacks, state, origin }
    }

    /// What a task did, in a sentence. Another task than the one that is asked about stands in its chain of wakers.
    fn said(&self, doing: Doing, task: TaskId, stack: Option<StackId>) -> String {
        let waker = if task == self.asked { "" } else { "waker " };
        let who = format!("{waker}{}", Named::of(task, self.state));
        doing.sentence(&who) + &blocked::words(stack, self.stacks)
    }

    fn blocked(&self) -> Vec<Blocked<'a>> {
        Blocked::all(self.blocked, self.stacks)
    }

    fn entries(&self) -> Vec<Entry<'a>> {
        self.spent.iter().map(|spent| Entry { spent, walked: *self }).collect()
    }
}

impl<'a> Breakdown<'a> {
    fn of(walked: &Walked<'_>, blocked: &'a [Blocked<'a>], entries: &'a [Entry<'a>]) -> Self {
        let Walked { spent, state, .. } = *walked;
        let all = spent.iter().map(|part| part.span.duration().0).sum::<u64>().max(1) as f64;
        let sum = |total: Total| Sum {
            state: total.doing.name(),
            cpu: total.doing.cpu(),
            task: Named::of(total.task, state),
            time_ns: total.time,
            share: total.time.0 as f64 / all,
            said: total.said(walked),
            blocked_in: blocked::text(total.stack, walked.stacks),
            meanwhile: total.instead.map(|instead| Occupancy::of(&instead, state)),
        };
        Self {
            blocked_in: Rows::new(blocked, walked.origin),
            sums: totals(spent, walked.occupants).into_iter().map(sum).collect(),
            entries: Rows::new(entries, walked.origin),
        }
    }
}

/// How the text about an interval is laid out.
struct Layout<'a> {
    /// Whose stacks are shown, if any.
    task: Option<&'a Named>,
    /// The start of the interval on the clock of the trace.
    start: Nanos,
    /// What happened at the start.
    begins: &'a str,
    /// Parts in order of time to show; 0 is all.
    rows: usize,
    /// Characters of a line.
    room: usize,
}

impl Breakdown<'_> {
    /// The sums, and the parts in order of time.
    fn text(&self, layout: &Layout<'_>) -> String {
        let room = layout.room;
        let times: Vec<Nanos> = self.sums.iter().map(|sum| sum.time_ns).collect();
        let mut table = TextTable::new(&["share", "time", "<what"]);
        for (sum, share) in self.sums.iter().zip(tenths(&times)) {
            let share = format!("{}.{} %", share / 10, share % 10);
            table.row(vec![share, sum.time_ns.readable(), sum.said.clone()]);
        }
        let mut text = folded_table(&table.text(0, room), "what", room);
        let blocked = self.blocked_in.rows();
        text += &layout.task.map_or_else(String::new, |who| blocked::table(who, blocked, room));
        let _ = writeln!(
            text,
            "\nin order of time from {} on, {} (a waker is evidence, not proof):",
            Point::At(layout.start),
            layout.begins
        );
        let entries = self.entries.rows();
        let shown = if layout.rows == 0 { entries.len() } else { layout.rows };
        for entry in entries.iter().take(shown) {
            let Spent { span, depth, .. } = *entry.spent;
            let at = Point::At(span.start).to_string();
            let length = span.duration().readable();
            let before = format!("{at} {length:>10}  {}", "  ".repeat(depth));
            text += &folded(&(before.clone() + &entry.said()), before.chars().count(), room);
        }
        if entries.len() > shown {
            let more = entries.len() - shown;
            let _ = writeln!(text, "... and {more} more (--top 0 shows all)");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_a_hundred_percent_whatever_is_rounded() {
        assert_eq!(tenths(&[Nanos(1), Nanos(1), Nanos(1)]), [334, 333, 333]);
        assert_eq!(tenths(&[Nanos(0), Nanos(0)]), [0, 0]);
        assert_eq!(tenths(&[Nanos(u64::MAX), Nanos(1)]), [1000, 0]);
    }
}
