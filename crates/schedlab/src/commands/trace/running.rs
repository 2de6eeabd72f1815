//! `schedlab trace stacks --running`: time on the CPU by call stack.

use super::input::{self, Head, Input, Selection};
use super::stack_form::{StackForm, folded_stacks, notes};
use super::stack_times::{OfRequests, Side, of_requests, within};
use crate::json;
use schedlab_model::table::Rows;
use schedlab_model::{Nanos, Need, Unit, Warning, readable};
use schedlab_timeline::{
    FoldedStack, OnCpuAnswer, OnCpuStacks, Reply, RequestRunning, RunningStackRow, TaskId,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::process::ExitCode;

/// The time on the CPU of chosen tasks of a trace.
pub(super) struct Running {
    reply: Reply<OnCpuAnswer>,
    /// How many requests are in it, and of how many.
    requests: Option<(usize, usize)>,
}

pub(super) fn ask(
    input: &Input,
    selection: &Selection,
    requests: &OfRequests,
) -> anyhow::Result<Running> {
    let (mut reply, requests) = match &requests.mark {
        Some(name) => {
            let chosen = input.chosen(selection)?;
            let question = RequestRunning::new(name, requests.slowest).about(chosen);
            let reply = input.ask_with_stacks(|_| question)?;
            let (reply, requests) = of_requests(input, name, reply)?;
            (reply, Some(requests))
        }
        None => {
            let mut reply = input.ask_with_stacks(|_| OnCpuStacks::default())?;
            if selection.is_any() {
                reply.answer = reply.answer.only(&input.chosen(selection)?);
            }
            (reply, None)
        }
    };
    let (ran, _, ticks) = reply.answer.sums();
    if ticks == 0 && ran > Nanos::ZERO {
        let what = format!("{}: the trace holds no stacks of tasks that ran", input.shown());
        let remedy = "record with `schedlab record --stacks user,kernel,running`";
        reply.warnings.push(Warning::new("stacks-missing", what, remedy));
    }
    Ok(Running { reply, requests })
}

pub(super) fn print(
    input: &Input,
    selection: &Selection,
    requests: &OfRequests,
    form: &StackForm,
) -> anyhow::Result<ExitCode> {
    let asked = ask(input, selection, requests)?;
    let reply = &asked.reply;
    if form.write("cpu", || asked.folded(), reply.observed.duration())? {
        notes(&reply.warnings, &asked.headline())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = reply.answer.by_name(&reply.state);
    let table = Rows::new(&rows, reply.origin).known(&reply.known);
    let document = Document { head: Head::of(reply), stacks: table };
    let print = input.part.form;
    print.print(&reply.warnings, &document, &document.stacks, || {
        let mut table = document.stacks.text(print.room(), &[]);
        table.first(form.top);
        format!("{}\n\n", asked.headline()) + &folded_stacks(&table.print(form.top), print.room())
    })?;
    Ok(ExitCode::SUCCESS)
}

impl Running {
    /// The same as any times by stack.
    pub(super) fn side(self) -> Side {
        let headline = self.headline();
        let folded = self.folded();
        let tasks: Vec<TaskId> = self.reply.answer.rows.iter().map(|row| row.task).collect();
        Side::of(self.reply, tasks.into_iter(), headline, folded)
    }

    /// The stacks, outermost frame first.
    fn folded(&self) -> Vec<FoldedStack> {
        self.reply.answer.folded(&self.reply.state)
    }

    /// What was looked at, and how much of it no tick sampled.
    fn headline(&self) -> String {
        let reply = &self.reply;
        let (ran, without, ticks) = reply.answer.sums();
        format!(
            "{}: {} on CPU{}, divided by {ticks} ticks; {} of it in tasks without a tick",
            input::looked_at(reply),
            input::figure(&reply.known, Need::RunTime, ran.readable()),
            within(self.requests),
            readable(without.0 as f64 / ran.0.max(1) as f64, Unit::Fraction),
        )
    }
}

/// `schedlab trace stacks --running --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document<'a> {
    #[serde(flatten)]
    head: Head,
    /// Run time by command and stack, longest first.
    stacks: Rows<'a, RunningStackRow>,
}

impl json::Document for Document<'_> {
    const ID: &'static str = "schedlab/trace-stacks-running/1";
}
