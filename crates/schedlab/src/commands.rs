//! The subcommands: one file each, an `Args` and a `run`.

pub(crate) mod cluster;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod draw;
mod experiment_options;
pub(crate) mod gallery;
pub(crate) mod jobs;
pub(crate) mod knobs;
pub(crate) mod load;
mod observe;
pub(crate) mod record;
pub(crate) mod replay;
pub(crate) mod report;
mod result_file;
mod rounds;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod shell;
pub(crate) mod sim;
pub(crate) mod slow;
mod ssh;
mod temporary_folder;
mod topology;
pub(crate) mod tour;
pub(crate) mod trace;
pub(crate) mod tune;
mod verdicts;
pub(crate) mod view;
pub(crate) mod vm;
pub(crate) mod watch;

use crate::json::{self, Schema};
use schedlab_experiment::{FigureLine, IntervalLine, Manifest, export, frozen};
use schedlab_model::Warning;
use std::ffi::OsString;
use std::process::ExitCode;

/// What was typed is wrong in a way that only the subcommand could see: exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// What the program stores for other programs, and the lines that executors of others speak.
fn stored() -> Vec<Schema> {
    vec![
        json::stored::<Manifest>(schedlab_experiment::SCHEMA),
        json::lines::<FigureLine>("schedlab/run-figures/2"),
        json::lines::<IntervalLine>("schedlab/run-intervals/2"),
        json::lines::<Warning>("schedlab/run-warnings/2"),
        json::stored::<frozen::Head>(frozen::SCHEMA),
        json::lines::<frozen::Line>("schedlab/frozen-runs/2"),
        json::lines::<schedlab_rig::external::Line<'_>>(schedlab_rig::external::SCHEMA_DEADLINES),
    ]
}

/// What the subcommands print with `--json`, and what is stored, in the order of the ids.
pub(crate) fn documents() -> Vec<Schema> {
    let one = vec![
        json::of::<doctor::Document>(),
        json::of::<knobs::Document>(),
        json::of::<record::Document>(),
        json::of::<replay::Document>(),
        json::of::<view::Document>(),
        json::of::<view::Both>(),
        json::of::<vm::Document>(),
        json::of::<watch::Document<'_>>(),
        json::of::<compare::Document<'_>>(),
        json::of::<export::Results<'_>>(),
        json::of::<report::Claims>(),
    ];
    let mut all = [
        one,
        stored(),
        trace::documents(),
        draw::documents(),
        load::documents(),
        slow::documents(),
        jobs::documents(),
        tune::documents(),
    ]
    .concat();
    all.sort_by_key(|schema| schema.id);
    all
}

/// Entries by which the program re-executes itself; never shown in help.
pub(crate) fn hidden(arguments: &[OsString]) -> Option<ExitCode> {
    match arguments.get(1)?.to_str()? {
        schedlab_sys::guard::ARGUMENT => {
            let journal = std::path::Path::new(arguments.get(2)?);
            let done = schedlab_sys::guard::guardian(journal);
            Some(crate::finish(done.map(|()| ExitCode::SUCCESS).map_err(Into::into)))
        }
        schedlab_vm::guest::ARGUMENT => {
            let clock = arguments.get(2).and_then(|word| word.to_str());
            Some(schedlab_vm::guest::guest(clock, &mut || {
                Ok(Box::new(schedlab_host::Host::here()?))
            }))
        }
        schedlab_kernel::ARGUMENT => Some(schedlab_kernel::child()),
        schedlab_host::load::ARGUMENT => Some(schedlab_host::load_child()),
        schedlab_host::slow::ARGUMENT => {
            Some(ExitCode::from(schedlab_host::slow::hidden(arguments)))
        }
        _ => None,
    }
}

/// Names of other tools under which the program may be called, through a link.
pub(crate) fn drop_in(arguments: &[OsString]) -> Option<ExitCode> {
    let name = std::path::Path::new(arguments.first()?).file_name()?.to_str()?;
    match name {
        "dat2graph2" => Some(crate::finish(draw::dat2graph2(arguments.to_vec()))),
        "schbench" => Some(load::drop_in::schbench(arguments)),
        "hackbench" => Some(load::drop_in::hackbench(arguments)),
        "running_waiting" => Some(crate::finish(draw::running_waiting(arguments.to_vec()))),
        _ => None,
    }
}
