//! `schedlab trace why --mark`: what slow requests were spent on, beside those of middle length.

use super::limits::Limits;
use super::{Breakdown, Layout, Walked, locks};
use crate::commands::trace::input::{self, Head, Input, Named, Selection, looked_at};
use crate::commands::trace::ran_instead::{self, Occupancy};
use crate::json;
use crate::output::folded;
use anyhow::bail;
use schedlab_model::table::{Bound, Rows, TextTable};
use schedlab_model::{Nanos, Unit, readable};
use schedlab_timeline::{
    Chosen, Composition, HELD, Meanwhile, Part, REQUESTS_MIN, Reply, Requests, RequestsAnswer,
    State, Throttled, WAITED_FOR,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// One of the requests that marks of a name enclose.
#[derive(Clone, Copy)]
pub(super) struct Nth<'a> {
    pub(super) mark: &'a str,
    /// Its place by length; 1 is the longest.
    pub(super) nth: usize,
}

/// Answers `--mark`; `rows` is how many parts of the request are shown, 0 for all.
pub(super) fn run(
    input: &Input,
    selection: &Selection,
    wanted: Nth<'_>,
    rows: usize,
) -> anyhow::Result<ExitCode> {
    let Nth { mark, nth } = wanted;
    let chosen = input.chosen(selection)?;
    let limits = Limits::of(input)?;
    let stopped = &limits.throttling.spans;
    let question = Requests::new(mark, nth).throttled(stopped).about(chosen.clone());
    let reply = input.ask_with_stacks(|_| question)?;
    check(input, wanted, &reply, &chosen)?;
    let RequestsAnswer { requests, spent, occupants, blocked, stacks, .. } = &reply.answer;
    let asked = requests[nth - 1].ended_by;
    let state = &reply.state;
    let origin = reply.origin;
    let walked = Walked { asked, spent, occupants, blocked, stacks, state, origin };
    let blocked = walked.blocked();
    let entries = walked.entries();
    let held = limits.locks(input)?;
    let own = held.as_ref().map(|held| locks::within(held, asked, requests[nth - 1].span));
    let own = held.as_ref().zip(own.as_ref()).map(|(held, own)| held.rows(own));
    let waits: Vec<_> = own.into_iter().flatten().map(locks::Waited).collect();
    let breakdown = Breakdown::of(&walked, &blocked, &entries);
    let document = Document::of(wanted, &reply, breakdown, &waits);
    let form = input.part.form;
    form.print(&reply.warnings, &document, &document.request.breakdown.entries, || {
        let layout = Layout {
            task: document.request.ended_by.as_ref(),
            start: origin + document.request.start_ns,
            begins: "the request began",
            rows,
            room: form.room(),
        };
        let looked_at = looked_at(&reply) + &input::of_chosen(&chosen);
        to_text(&document, &looked_at, &layout)
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Waits for locks that the text names.
const LOCK_WAITS: usize = 3;
/// The slowest request is searched among this many kinds: each takes a pass over the trace.
const KINDS_MAX: usize = 4;

/// What the slowest request of chosen tasks was spent on, in a sentence; `None` if the trace holds no requests.
pub(super) fn slowest(
    input: &Input,
    chosen: &Chosen,
    marks: &[String],
    throttled: &[Throttled],
) -> anyhow::Result<Option<String>> {
    let mut worst: Option<(Nanos, String)> = None;
    let is_lock = |mark: &&String| mark.starts_with(HELD) || mark.starts_with(WAITED_FOR);
    for name in marks.iter().filter(|mark| !is_lock(mark)).take(KINDS_MAX) {
        let question = Requests::new(name, 1).throttled(throttled).about(chosen.clone());
        let reply = input.ask(|_| question)?;
        let RequestsAnswer { requests, instead, .. } = &reply.answer;
        let Some(first) = requests.first() else { continue };
        let length = first.span.duration();
        if worst.as_ref().is_some_and(|(longest, _)| *longest >= length) {
            continue;
        }
        let mut parts: Vec<_> = Part::ALL.iter().zip(first.parts).collect();
        parts.retain(|(_, time)| time.0 * 20 > length.0);
        parts.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let said =
            |(part, time): &(&Part, Nanos)| format!("{} {}", time.readable(), part.sentence());
        let parts: Vec<String> = parts.iter().map(said).collect();
        let half = reply.answer.quantile(0.5).unwrap_or_default().readable();
        let beside = ran_instead::in_shares(&instead[0], &reply.state);
        let beside = beside.map_or_else(String::new, |who| {
            format!(" While the slowest 1 % waited for a CPU: {who}.")
        });
        let text = format!(
            "The slowest of {} requests '{name}' took {} (half take up to {half}): {}.{beside} \
             `schedlab why {} --mark {name}` tells more.",
            requests.len(),
            length.readable(),
            parts.join(", "),
            input.shown()
        );
        worst = Some((length, text));
    }
    Ok(worst.map(|(_, text)| text))
}

/// Refuses the name of a mark that the trace does not have.
pub(crate) fn check_mark(input: &Input, name: &str, marks: &[String]) -> anyhow::Result<()> {
    let file = input.file.display();
    if marks.is_empty() {
        bail!("{file}: the trace holds no marks; `schedlab load NAME --trace FILE` writes them");
    }
    if !marks.iter().any(|mark| mark == name) {
        bail!("{file}: no mark is called '{name}'; the trace has {}", marks.join(", "));
    }
    Ok(())
}

/// Fails if the trace does not have the request.
fn check(
    input: &Input,
    wanted: Nth<'_>,
    reply: &Reply<RequestsAnswer>,
    chosen: &Chosen,
) -> anyhow::Result<()> {
    let Nth { mark: name, nth } = wanted;
    check_mark(input, name, reply.state.marks())?;
    let file = input.file.display();
    let answer = &reply.answer;
    let count = answer.requests.len();
    if count == 0 {
        let unfinished = answer.unfinished;
        let unbegun = answer.unbegun;
        let whose = if chosen.is_all() { "" } else { " of these tasks" };
        bail!(
            "{file}: no '{name}'{whose} begins and ends in this part of the trace: {unfinished} only begin, \
             {unbegun} only end"
        );
    }
    if nth == 0 || nth > count {
        bail!("{file}: invalid --nth {nth}: use 1 to {count}");
    }
    Ok(())
}

/// `schedlab trace why --mark --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// The marks that enclose the requests.
    mark: String,
    /// How many began and ended in the window, and how many had not ended and are longer than each of those already.
    requests: usize,
    /// How many others began and did not end there.
    unfinished: u64,
    /// How many ended without a begin there.
    unbegun: u64,
    length_ns_p50: Option<Nanos>,
    length_ns_p99: Option<Nanos>,
    length_ns_max: Option<Nanos>,
    /// `at_least` where the longest had not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    length_ns_max_bound: Option<String>,
    /// The mean request of the slowest 1 %; `null` of fewer than 20 requests.
    slowest: Option<Mean>,
    /// The mean request of the middle 10 %; `null` of fewer than 20 requests.
    middle: Option<Mean>,
    /// One request, with its parts in order of time.
    request: One<'a>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-why-mark/1";
}

/// What requests of about the same length were spent on, in the mean.
#[derive(Serialize, JsonSchema)]
struct Mean {
    requests: usize,
    length_ns: f64,
    /// In a fixed order; they sum to the length.
    parts: Vec<MeanPart>,
    /// What was on the CPUs in the time of the part `runnable`, summed over the requests.
    #[serde(flatten)]
    meanwhile: Occupancy,
    /// The same in words, with shares; `null` where no request waited.
    waited_beside: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct MeanPart {
    /// `ran`, `runnable`, `throttled`, `waker_ran`, `waker_runnable`, `waker_throttled`, `interrupt`, `blocked` or
    /// `unknown`.
    part: &'static str,
    time_ns: f64,
    /// The part in words.
    said: &'static str,
}

/// The request that `--nth` chooses.
#[derive(Serialize, JsonSchema)]
struct One<'a> {
    /// Which by length; 1 is the longest.
    nth: usize,
    start_ns: Nanos,
    /// Its end, or that of the window where it is open.
    end_ns: Nanos,
    /// Whether it had not ended.
    is_open: bool,
    begun_by: Option<Named>,
    /// Who ended it, or who began it where it is open.
    ended_by: Option<Named>,
    /// How the task that ended it waited for locks, longest first; empty where the trace tells of none.
    lock_waits: Rows<'a, locks::Waited<'a>>,
    #[serde(flatten)]
    breakdown: Breakdown<'a>,
}

impl<'a> Document<'a> {
    fn of(
        wanted: Nth<'_>,
        reply: &Reply<RequestsAnswer>,
        breakdown: Breakdown<'a>,
        waits: &'a [locks::Waited<'a>],
    ) -> Self {
        let answer = &reply.answer;
        let state = &reply.state;
        let mean = |(mean, instead)| Some(Mean::of(mean, instead, state));
        let [slowest, middle] = answer.compositions().map_or([None, None], |[slow, middle]| {
            [(slow, &answer.instead[0]), (middle, &answer.instead[1])].map(mean)
        });
        let one = &answer.requests[wanted.nth - 1];
        let named =
            |task: schedlab_timeline::TaskId| task.is_some().then(|| Named::of(task, state));
        Self {
            head: Head::of(reply),
            mark: wanted.mark.to_owned(),
            requests: answer.requests.len(),
            unfinished: answer.unfinished,
            unbegun: answer.unbegun,
            length_ns_p50: answer.quantile(0.5),
            length_ns_p99: answer.quantile(0.99),
            length_ns_max: answer.quantile(1.0),
            length_ns_max_bound: answer.requests[0]
                .is_open
                .then_some(Bound::AtLeast)
                .and_then(Bound::word),
            slowest,
            middle,
            request: One {
                nth: wanted.nth,
                start_ns: one.span.start - reply.origin,
                end_ns: one.span.end - reply.origin,
                is_open: one.is_open,
                begun_by: named(one.begun_by),
                ended_by: named(one.ended_by),
                lock_waits: Rows::new(waits, reply.origin),
                breakdown,
            },
        }
    }
}

impl Mean {
    fn of(mean: Composition, instead: &Meanwhile, state: &State) -> Self {
        let parts = Part::ALL.iter().zip(mean.parts_ns);
        let part = |(part, time_ns): (&Part, f64)| MeanPart {
            part: part.name(),
            time_ns,
            said: part.sentence(),
        };
        Self {
            requests: mean.count,
            length_ns: mean.length_ns,
            parts: parts.map(part).collect(),
            meanwhile: Occupancy::of(instead, state),
            waited_beside: ran_instead::in_shares(instead, state),
        }
    }
}

fn time(ns: f64) -> String {
    readable(ns, Unit::Nanoseconds)
}

fn to_text(document: &Document<'_>, looked_at: &str, layout: &Layout<'_>) -> String {
    let room = layout.room;
    let Document { mark, requests, unfinished, unbegun, request, .. } = document;
    let time = |of: Option<Nanos>| of.map_or_else(String::new, |of| time(of.0 as f64));
    let mut text = format!(
        "{requests} requests '{mark}' in {looked_at}: p50 {}, p99 {}, max {}{}\n",
        time(document.length_ns_p50),
        time(document.length_ns_p99),
        if document.length_ns_max_bound.is_some() { "≥ " } else { "" },
        time(document.length_ns_max)
    );
    if unfinished + unbegun > 0 {
        let _ = writeln!(
            text,
            "{unfinished} more only begin here, {unbegun} more only end here: they do not count"
        );
    }
    text.push('\n');
    match (&document.slowest, &document.middle) {
        (Some(slowest), Some(middle)) => {
            text += &compared(slowest, middle, room);
            for (which, mean) in [("slowest 1 %", slowest), ("middle 10 %", middle)] {
                if let Some(beside) = &mean.waited_beside {
                    let said = format!("while those of the {which} waited for a CPU: {beside}");
                    text += &folded(&said, 4, room);
                }
            }
        }
        _ => {
            let _ = writeln!(
                text,
                "slow and middle requests are not compared: a comparison needs at least \
                 {REQUESTS_MIN} requests"
            );
        }
    }
    let origin = Nanos(layout.start.0 - request.start_ns.0);
    let _ = writeln!(text, "\n{}", folded(&headline(request, origin), 4, room));
    let waits = request.lock_waits.rows();
    for wait in waits.iter().take(LOCK_WAITS) {
        text += &folded(&format!("it {}", wait.said()), 4, room);
    }
    if !waits.is_empty() {
        text.push('\n');
    }
    text + &request.breakdown.text(layout)
}

/// The mean slow request beside the mean middle one.
fn compared(slow: &Mean, middle: &Mean, room: usize) -> String {
    let mut table = TextTable::new(&["<mean request", "slowest 1 %", "middle 10 %", "difference"]);
    let row = |what: String, slow: f64, middle: f64| {
        let sign = if slow < middle { "-" } else { "+" };
        let apart = format!("{sign}{}", time((slow - middle).abs()));
        vec![what, time(slow), time(middle), apart]
    };
    table.row(row("length".to_owned(), slow.length_ns, middle.length_ns));
    let parts = slow.parts.iter().zip(&middle.parts);
    for (slow, middle) in parts.filter(|(slow, middle)| slow.time_ns + middle.time_ns > 0.0) {
        table.row(row(format!("  {}", slow.said), slow.time_ns, middle.time_ns));
    }
    table.row(vec![
        "requests".to_owned(),
        slow.requests.to_string(),
        middle.requests.to_string(),
        String::new(),
    ]);
    table.text(0, room)
}

fn headline(one: &One<'_>, origin: Nanos) -> String {
    let named = |task: &Option<Named>| {
        task.as_ref().map_or_else(|| "an unknown task".to_owned(), ToString::to_string)
    };
    let which = match one.nth {
        1 => "the slowest request".to_owned(),
        nth => format!("the slow request {nth}"),
    };
    let begun = named(&one.begun_by);
    let ended = named(&one.ended_by);
    let by = match begun == ended {
        true => format!("of {begun}"),
        false => format!("begun by {begun}, ended by {ended}"),
    };
    let length = time((one.end_ns - one.start_ns).0 as f64);
    let bound = if one.is_open { "not ended after " } else { "" };
    format!("{which}: {bound}{length} from {}, {by}", input::at(origin, origin + one.start_ns))
}
