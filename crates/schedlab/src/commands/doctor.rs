//! `schedlab doctor`.

use crate::json;
use schedlab_host::doctor::{self, Check, Verdict};
use schedlab_model::{Fact, KernelFacts, MachineFacts};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// Options of `schedlab doctor`.
#[derive(Clone, Copy, clap::Args)]
pub(crate) struct Args {
    /// Print one line for each check
    #[arg(long)]
    short: bool,
    /// Undo changes that a killed run left behind
    #[arg(long, conflicts_with = "short")]
    restore: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// `schedlab doctor --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Document {
    checks: Vec<Check>,
    machine: MachineFacts,
}

impl json::Document for Document {
    const ID: &'static str = "schedlab/doctor/1";
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let Args { short, restore, json } = args;
    if restore {
        return put_back();
    }
    let checks = doctor::doctor();
    let facts = schedlab_host::facts::facts();
    let mut out = crate::output::stdout();
    if json {
        json::print(&Document { checks, machine: facts })?;
    } else {
        if !short {
            write!(out, "{}", machine(&facts))?;
        }
        write!(out, "{}", text(&checks, short))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn put_back() -> anyhow::Result<ExitCode> {
    let mut out = crate::output::stdout();
    let all = doctor::restore()?;
    if all.is_empty() {
        writeln!(out, "nothing to undo")?;
    }
    let mut code = ExitCode::SUCCESS;
    for one in all {
        let changes = if one.undone == 1 { "change" } else { "changes" };
        writeln!(out, "{}: {} {changes} put back", one.journal.display(), one.undone)?;
        for (undo, error) in one.failed {
            code = ExitCode::FAILURE;
            writeln!(out, "  could not: {undo:?}: {error}")?;
        }
    }
    Ok(code)
}

/// The checks as text; `short` leaves out what works and how it was found.
pub(crate) fn text(checks: &[Check], short: bool) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for check in checks {
        let mark = match check.verdict {
            Verdict::Yes => "yes   ",
            Verdict::Partly => "partly",
            Verdict::No => "no    ",
        };
        let _ = writeln!(text, "{mark}  {}: {}", check.what, check.found);
        if !short {
            for (label, part) in [("costs", &check.cost), ("to get it", &check.remedy)] {
                if !part.is_empty() {
                    let _ = writeln!(text, "        {label}: {part}");
                }
            }
        }
    }
    text
}

/// The machine in a few lines.
pub(crate) fn machine(facts: &MachineFacts) -> String {
    let say = |fact: &Fact<String>| match fact {
        Fact::Known(value) => value.clone(),
        Fact::Unknown(why) => format!("unknown ({why})"),
    };
    let groups = |name: &str, key: fn(&schedlab_model::Place) -> u32| {
        let count = facts.topology.groups(key).len();
        format!("{count} {name}{}", if count == 1 { "" } else { "s" })
    };
    let hypervisor = match facts.hypervisor.known().map(String::as_str) {
        None | Some("") => String::new(),
        Some(name) => format!(", in a virtual machine ({name})"),
    };
    let parts = [
        groups("core", |place| place.core),
        groups("LLC", |place| place.llc),
        groups("node", |place| place.node),
        groups("socket", |place| place.socket),
    ];
    let KernelFacts { release, architecture, preemption, .. } = &facts.kernel;
    let [one, five, fifteen] = facts.load.average;
    let lines = [
        format!("machine  {}{hypervisor}", say(&facts.model)),
        format!("kernel   {release} {architecture}, preemption {}", say(preemption)),
        format!("CPUs     {} ({}); we may use {}", facts.online, parts.join(", "), facts.allowed),
        format!("load     {one:.2} {five:.2} {fifteen:.2}"),
    ];
    lines.join("\n") + "\n\n"
}
