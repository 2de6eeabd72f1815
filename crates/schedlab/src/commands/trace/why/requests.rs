//! `schedlab trace why --mark`: what slow requests were spent on, beside those of middle length.

use super::{Asked, Told};
use crate::commands::trace::columns;
use crate::commands::trace::input::{self, Head, Input, Named};
use crate::commands::trace::meanwhile;
use crate::commands::trace::table::Table;
use crate::json;
use anyhow::bail;
use schedlab_model::Nanos;
use schedlab_timeline::{
    Composition, Meanwhile, Part, REQUESTS_MIN, Reply, Request, Requests, RequestsAnswer, State,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use std::process::ExitCode;

/// Runs it.
pub(super) fn run(input: &Input, name: &str, nth: usize, top: usize) -> anyhow::Result<ExitCode> {
    let reply = input.ask(|_| Requests::new(name, nth))?;
    check(input, name, nth, &reply)?;
    let document = Document::of(name, nth, &reply);
    columns::print(&input.part, &reply.warnings, &document, |_| to_text(name, nth, top, &reply))?;
    Ok(ExitCode::SUCCESS)
}

/// Fails where there is nothing to tell.
fn check(
    input: &Input,
    name: &str,
    nth: usize,
    reply: &Reply<RequestsAnswer>,
) -> anyhow::Result<()> {
    let (file, answer) = (input.file.display(), &reply.answer);
    let marks = reply.state.marks();
    if marks.is_empty() {
        bail!("{file}: the trace holds no marks; `schedlab load NAME --trace FILE` writes them");
    }
    if !marks.iter().any(|mark| mark == name) {
        bail!("{file}: no mark is called '{name}'; the trace has {}", marks.join(", "));
    }
    let count = answer.requests.len();
    if count == 0 {
        let (unfinished, unbegun) = (answer.unfinished, answer.unbegun);
        bail!(
            "{file}: no '{name}' begins and ends in this part of the trace: {unfinished} only begin, {unbegun} only end"
        );
    }
    if nth == 0 || nth > count {
        bail!("{file}: --nth {nth} is not one of {count} requests: use 1 to {count}");
    }
    Ok(())
}

/// `schedlab trace why --mark --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    #[serde(flatten)]
    head: Head,
    /// The marks that enclose the requests.
    mark: String,
    /// How many began and ended in the window.
    requests: usize,
    /// How many began and did not end there.
    unfinished: u64,
    /// How many ended without a begin there.
    unbegun: u64,
    length_ns_p50: Option<Nanos>,
    length_ns_p99: Option<Nanos>,
    length_ns_max: Option<Nanos>,
    /// The mean request of the slowest 1 %; `null` of fewer than 20 requests.
    slowest: Option<Mean>,
    /// The mean request of the middle 10 %; `null` of fewer than 20 requests.
    middle: Option<Mean>,
    /// One request in order of time.
    request: One,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/trace-why-mark/1";
}

impl columns::Answer for Document {
    type Row = super::Entry;

    fn rows(&self) -> Vec<&super::Entry> {
        self.request.told.entries.iter().collect()
    }
}

/// The mean of some requests.
#[derive(Serialize, JsonSchema)]
struct Mean {
    requests: usize,
    length_ns: f64,
    /// In a fixed order; they sum to the length.
    parts: Vec<MeanPart>,
    /// What was on the CPUs in the time of the part `runnable`, summed over the requests.
    #[serde(flatten)]
    meanwhile: meanwhile::Told,
}

#[derive(Serialize, JsonSchema)]
struct MeanPart {
    /// `ran`, `runnable`, `waker_ran`, `waker_runnable`, `interrupt`, `blocked` or `unknown`.
    part: &'static str,
    time_ns: f64,
}

/// One request.
#[derive(Serialize, JsonSchema)]
struct One {
    /// Which by length; 1 is the longest.
    nth: usize,
    start_ns: Nanos,
    end_ns: Nanos,
    begun_by: Option<Named>,
    ended_by: Option<Named>,
    #[serde(flatten)]
    told: Told,
}

impl Document {
    fn of(name: &str, nth: usize, reply: &Reply<RequestsAnswer>) -> Self {
        let (answer, state) = (&reply.answer, &reply.state);
        let mean = |(mean, instead)| Some(Mean::of(mean, instead, state));
        let [slowest, middle] = answer.compositions().map_or([None, None], |[slow, middle]| {
            [(slow, &answer.instead[0]), (middle, &answer.instead[1])].map(mean)
        });
        let one = &answer.requests[nth - 1];
        let named =
            |task: schedlab_timeline::TaskId| task.is_some().then(|| Named::of(task, state));
        Self {
            head: Head::of(reply),
            mark: name.to_owned(),
            requests: answer.requests.len(),
            unfinished: answer.unfinished,
            unbegun: answer.unbegun,
            length_ns_p50: answer.quantile(0.5),
            length_ns_p99: answer.quantile(0.99),
            length_ns_max: answer.quantile(1.0),
            slowest,
            middle,
            request: One {
                nth,
                start_ns: one.span.start - reply.origin,
                end_ns: one.span.end - reply.origin,
                begun_by: named(one.begun_by),
                ended_by: named(one.ended_by),
                told: Told::of(reply, &answer.spent, &answer.occupants),
            },
        }
    }
}

impl Mean {
    fn of(mean: Composition, instead: &Meanwhile, state: &State) -> Self {
        let parts = Part::ALL.iter().zip(mean.parts_ns);
        let part = |(part, time_ns): (&Part, f64)| MeanPart { part: part.name(), time_ns };
        Self {
            requests: mean.count,
            length_ns: mean.length_ns,
            parts: parts.map(part).collect(),
            meanwhile: meanwhile::Told::of(instead, state),
        }
    }
}

fn to_text(name: &str, nth: usize, top: usize, reply: &Reply<RequestsAnswer>) -> String {
    let (answer, state) = (&reply.answer, &reply.state);
    let time = |q| answer.quantile(q).map_or_else(String::new, |time: Nanos| time.to_string());
    let mut text = format!(
        "{} requests '{name}' in {}: p50 {}, p99 {}, max {}\n",
        answer.requests.len(),
        input::looked_at(reply),
        time(0.5),
        time(0.99),
        time(1.0)
    );
    if answer.unfinished + answer.unbegun > 0 {
        let (unfinished, unbegun) = (answer.unfinished, answer.unbegun);
        let _ = writeln!(
            text,
            "{unfinished} more only begin here, {unbegun} more only end here: they do not count"
        );
    }
    text.push('\n');
    match answer.compositions() {
        Some(means) => {
            text += &compared(&means);
            for (which, instead) in ["slowest 1 %", "middle 10 %"].iter().zip(&answer.instead) {
                if let Some(instead) = meanwhile::in_shares(instead, state) {
                    let _ =
                        writeln!(text, "while those of the {which} waited for a CPU: {instead}");
                }
            }
        }
        None => {
            let _ = writeln!(
                text,
                "slow and middle requests are not compared: that takes at least {REQUESTS_MIN} requests"
            );
        }
    }
    let one = &answer.requests[nth - 1];
    let _ = writeln!(text, "\n{}\n", headline(one, nth, reply.origin, state));
    let start = (one.span.start, "the request began");
    let asked = Asked { spent: &answer.spent, task: one.ended_by, occupants: &answer.occupants };
    text + &super::told(&asked, start, top, state)
}

/// The mean slow request beside the mean middle one.
fn compared([slow, middle]: &[Composition; 2]) -> String {
    let mut table = Table::new(&["<mean request", "slowest 1 %", "middle 10 %", "difference"]);
    let time = |ns: f64| Nanos(ns.round() as u64).to_string();
    let row = |what: &str, slow: f64, middle: f64| {
        let sign = if slow < middle { "-" } else { "+" };
        let apart = format!("{sign}{}", time((slow - middle).abs()));
        vec![what.to_owned(), time(slow), time(middle), apart]
    };
    table.row(row("length", slow.length_ns, middle.length_ns));
    let parts = Part::ALL.iter().zip(slow.parts_ns).zip(middle.parts_ns);
    for ((part, slow), middle) in parts.filter(|((_, slow), middle)| slow + middle > 0.0) {
        table.row(row(words(*part), slow, middle));
    }
    table.row(vec![
        "requests".to_owned(),
        slow.count.to_string(),
        middle.count.to_string(),
        String::new(),
    ]);
    table.text(0)
}

/// A part in words.
const fn words(part: Part) -> &'static str {
    match part {
        Part::Ran => "  it ran",
        Part::Waited => "  it waited for a CPU",
        Part::WakerRan => "  blocked while a waker ran",
        Part::WakerWaited => "  blocked while a waker waited for a CPU",
        Part::Interrupt => "  blocked until an interrupt (device or timer)",
        Part::Blocked => "  blocked to the end",
        Part::Unknown => "  unknown",
    }
}

fn headline(one: &Request, nth: usize, origin: Nanos, state: &State) -> String {
    let named = |task: schedlab_timeline::TaskId| {
        if task.is_some() {
            format!("{} ({})", state.name(task), state.task(task).pid)
        } else {
            "an unknown task".to_owned()
        }
    };
    let which = match nth {
        1 => "the slowest request".to_owned(),
        nth => format!("the slow request {nth}"),
    };
    let (begun, ended) = (named(one.begun_by), named(one.ended_by));
    let by = match one.begun_by == one.ended_by {
        true => format!("of {begun}"),
        false => format!("begun by {begun}, ended by {ended}"),
    };
    format!("{which}: {} from {}, {by}", one.span.duration(), one.span.start - origin)
}
